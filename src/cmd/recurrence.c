/* SPDX-License-Identifier: MIT */
/* What `tsa attend` takes for recurrences other than the paper's: gates, outputs that are sums,
 * denominators, and the names of published models that need them. */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "attend.h"
#include "cmd.h"

/* A published model, as far as options say it; doc/models.md has formulas and sources. */
static const struct model {
    const char *name;
    size_t coefficients; /* the last of so many is 1, the others 0; or 0: Taylor's */
    size_t terms;
    enum tsa_normalize normalize;
    bool root;          /* the temperature is sqrt(head_dim), */
    double temperature; /* else this */
    enum tsa_output output;
    double add, floor;
    bool noncausal, length_scale; /* outputs times sqrt(keys / head_dim) */
    bool gate, value_gate;        /* which it wants */
} models[] = {
    {"based", .terms = 3, .normalize = TSA_NORMALIZE_NONE, .temperature = 4, .add = 1e-12},
    {"taylorshift", .terms = 3, .normalize = TSA_NORMALIZE_L2, .temperature = 1, .noncausal = true,
     .length_scale = true},
    {"rebased", .coefficients = 3, .normalize = TSA_NORMALIZE_NONE, .temperature = 1, .add = 1e-6},
    {"sata", .terms = 3, .normalize = TSA_NORMALIZE_NONE, .root = true},
    {"power", .coefficients = 3, .normalize = TSA_NORMALIZE_NONE, .root = true, .add = 1e-6,
     .gate = true},
    {"retnet", .coefficients = 2, .normalize = TSA_NORMALIZE_NONE, .root = true,
     .output = TSA_OUTPUT_SUM, .gate = true},
    {"gla", .coefficients = 2, .normalize = TSA_NORMALIZE_NONE, .root = true,
     .output = TSA_OUTPUT_SUM, .gate = true},
    {"mamba2", .coefficients = 2, .normalize = TSA_NORMALIZE_NONE, .temperature = 1,
     .output = TSA_OUTPUT_SUM, .gate = true},
    {"mlstm", .coefficients = 2, .normalize = TSA_NORMALIZE_NONE, .root = true, .floor = 1,
     .gate = true, .value_gate = true},
};
enum { MODELS = sizeof models / sizeof *models };

static const struct model *model_named(const char *name)
{
    for (size_t i = 0; i < MODELS; i++)
        if (strcmp(models[i].name, name) == 0)
            return &models[i];
    return NULL;
}

bool attend_parse_model(const char *name, struct attend_options *o)
{
    const struct model *m = model_named(name);
    if (m == NULL) {
        cmd_usage("--model: '%s' found; wanted based, taylorshift, rebased, sata, power, retnet, "
                  "gla, mamba2 or mlstm",
                  name);
        return false;
    }
    o->model = m->name;
    o->terms = m->terms;
    o->coefficient_count = m->coefficients;
    for (size_t i = 0; i < m->coefficients; i++)
        o->coefficients[i] = i + 1 == m->coefficients;
    o->normalize = m->normalize;
    o->temperature = m->root ? 0 : m->temperature;
    o->noncausal = m->noncausal;
    o->output = m->output;
    o->output_scale = m->length_scale ? 0 : 1;
    o->denominator_add = m->add;
    o->denominator_floor = m->floor;
    return true;
}

int attend_check_recurrence(const struct attend_options *o)
{
    const struct model *m = o->model != NULL ? model_named(o->model) : NULL;
    const bool other = o->gate != NULL || o->output == TSA_OUTPUT_SUM;
    if (m != NULL && m->gate && o->gate == NULL)
        return cmd_usage("--model %s: wants --gate FILE", m->name);
    if (m != NULL && m->value_gate && o->value_gate == NULL)
        return cmd_usage("--model %s: wants --value-gate FILE", m->name);
    if (o->value_gate != NULL && o->gate == NULL)
        return cmd_usage("--value-gate: goes with --gate only");
    if (o->softmax && (other || o->model != NULL))
        return cmd_usage("%s: goes with --method taylor only", o->model != NULL  ? "--model"
                                                               : o->gate != NULL ? "--gate"
                                                                                 : "--output sum");
    if (other && (o->compare || o->report))
        return cmd_usage("--%s: there is no softmax with %s", o->compare ? "compare" : "report",
                         o->gate != NULL ? "gates" : "--output sum");
    return CMD_OK;
}

void attend_settle_recurrence(struct attend *a)
{
    struct attend_options *o = &a->options;
    if (o->temperature == 0)
        o->temperature = a->head_dim > 0 ? sqrt((double)a->head_dim) : 1;
    if (o->output_scale == 0 && a->head_dim > 0 && a->keys > 0)
        o->output_scale = sqrt((double)a->keys / (double)a->head_dim);
    else if (o->output_scale == 0)
        o->output_scale = 1;
}

/* Gates have the shape of the keys without their last dimension. */
static int load(struct attend *a, const char *path, struct npy *array, struct tsa_tensor *tensor)
{
    char text[NPY_TEXT], found[NPY_SHAPE_TEXT], wanted[NPY_SHAPE_TEXT];
    if (path == NULL)
        return CMD_OK;
    if (!npy_read(path, 1, array, text))
        return cmd_fail("%s: %s", path, text);
    if (array->dtype != TSA_F32 && array->dtype != TSA_F64)
        return cmd_fail("%s: dtype '%s' found; wanted '<f4' or '<f8' for gates", path,
                        array->descr);
    if (array->rank + 1 != a->k.rank ||
        memcmp(array->shape, a->k.shape, array->rank * sizeof *array->shape) != 0)
        return cmd_fail("%s: shape %s found; wanted that of %s without its last dimension, %s",
                        path, npy_shape_text(array->rank, array->shape, found), a->options.k,
                        npy_shape_text(a->k.rank - 1, a->k.shape, wanted));
    *tensor = attend_tensor(array->data, array->dtype, a->kv_heads, a->keys, 1);
    return CMD_OK;
}

int attend_load_gates(struct attend *a)
{
    const int code = load(a, a->options.gate, &a->gate, &a->tgate);
    return code == CMD_OK ? load(a, a->options.value_gate, &a->value_gate, &a->tvalue_gate) : code;
}

json_t *attend_recurrence_json(const struct attend *a)
{
    const struct attend_options *o = &a->options;
    json_t *root = json_pack(
        "{s:s, s:s, s:o, s:o, s:o}", "gate", o->gate != NULL ? "scalar" : "none", "output",
        o->output == TSA_OUTPUT_SUM ? "sum" : "ratio", "output_scale",
        cmd_json_number(o->output_scale), "denominator_add", cmd_json_number(o->denominator_add),
        "denominator_floor", cmd_json_number(o->denominator_floor));
    if (root != NULL && o->model != NULL)
        json_object_set_new(root, "model", json_string(o->model));
    return root;
}

void attend_print_recurrence(const struct attend *a)
{
    const struct attend_options *o = &a->options;
    const bool plain = o->gate == NULL && o->output == TSA_OUTPUT_RATIO && o->output_scale == 1 &&
                       o->denominator_add == 0 && o->denominator_floor == 0;
    if (o->model != NULL) {
        printf("model      %s: --normalize %s --temperature %.6g ", o->model,
               o->normalize == TSA_NORMALIZE_L2 ? "l2" : "none", o->temperature);
        if (o->coefficient_count == 0)
            printf("--terms %zu", o->terms);
        for (size_t i = 0; i < o->coefficient_count; i++)
            printf("%s%g", i == 0 ? "--coefficients " : ",", o->coefficients[i]);
        printf("%s\n", o->noncausal ? " --noncausal" : "");
    }
    if (plain)
        return;
    printf("outputs    --output %s", o->output == TSA_OUTPUT_SUM ? "sum" : "ratio");
    if (o->output_scale != 1)
        printf(" --output-scale %.6g", o->output_scale);
    if (o->denominator_add != 0)
        printf(" --denominator-add %g", o->denominator_add);
    if (o->denominator_floor != 0)
        printf(" --denominator-floor %g", o->denominator_floor);
    printf("%s%s\n", o->gate != NULL ? ", gates" : "",
           o->value_gate != NULL ? " and value gates" : "");
}
