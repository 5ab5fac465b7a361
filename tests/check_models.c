/* SPDX-License-Identifier: MIT */
/* Published models, each computed by the library's recurrence and by a plain loop over all pairs of
 * tokens in double, which is written from the model's formula alone (doc/models.md). */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "support.h"

enum { N = 300, D = 6, DV = 5, HEADS = 4, KV = 2, GROUP = HEADS / KV };

/* The tensors of a model in double; f32 plans get them rounded, and so does the formula. */
struct data {
    double q[HEADS][N][D], k[KV][N][D], v[KV][N][DV];
    double gate[KV][N], value_gate[KV][N];  /* factors */
    double o[HEADS][N][DV], size[HEADS][N]; /* of the formula; sum of the magnitudes of weights,
                                               over what they are divided by */
};

/* What a model is: the weight of a pair from its score, and of what the weights are divided by. */
struct model_formula {
    const char *name;
    double (*weight)(double score); /* before gates */
    double scale;                   /* of the score q.k */
    bool unit, gates, value_gates, all, sum;
    double add, floor, output_scale;
    /* and how the library is asked for it */
    size_t terms;
    double coefficients[3], temperature;
};

static double quadratic(double x)
{
    return 1 + x + x * x / 2;
}
static double square(double x)
{
    return x * x;
}
static double linear(double x)
{
    return x;
}

static const struct model_formula formulas[] = {
    {"Based", quadratic, 0.25, .add = 1e-12, .terms = 3, .coefficients = {1, 1, 0.5},
     .temperature = 4},
    {"TaylorShift", quadratic, 1.0, .unit = true, .all = true, .output_scale = 7.0710678118654755,
     .terms = 3, .coefficients = {1, 1, 0.5}, .temperature = 1}, /* sqrt(300 / 6) */
    {"ReBased", square, 1.0, .add = 1e-6, .terms = 3, .coefficients = {0, 0, 1}, .temperature = 1},
    {"SATA", quadratic, 0.40824829046386307, .terms = 3, .coefficients = {1, 1, 0.5},
     .temperature = 2.449489742783178}, /* sqrt(6) */
    {"power retention", square, 0.40824829046386307, .gates = true, .add = 1e-6, .terms = 3,
     .coefficients = {0, 0, 1}, .temperature = 2.449489742783178},
    {"RetNet", linear, 0.40824829046386307, .gates = true, .sum = true, .terms = 2,
     .coefficients = {0, 1}, .temperature = 2.449489742783178},
    {"simple GLA", linear, 0.40824829046386307, .gates = true, .sum = true, .terms = 2,
     .coefficients = {0, 1}, .temperature = 2.449489742783178},
    {"Mamba-2", linear, 1.0, .gates = true, .sum = true, .terms = 2, .coefficients = {0, 1},
     .temperature = 1},
    {"mLSTM", linear, 0.40824829046386307, .gates = true, .value_gates = true, .floor = 1,
     .terms = 2, .coefficients = {0, 1}, .temperature = 2.449489742783178},
};
enum { FORMULAS = sizeof formulas / sizeof *formulas };

static void unit_row(double *x)
{
    double s = 0;
    for (int i = 0; i < D; i++)
        s += x[i] * x[i];
    for (int i = 0; i < D; i++)
        x[i] /= sqrt(s);
}

/* Rounded to f32 if the plan is. RetNet's gates are one number per head. */
static void make_data(struct data *x, const struct model_formula *f, bool narrow, uint64_t seed)
{
    struct rng r = {seed};
    double *all[] = {&x->q[0][0][0], &x->k[0][0][0], &x->v[0][0][0]};
    const size_t counts[] = {HEADS * N * D, KV * N * D, KV * N * DV};
    for (int i = 0; i < 3; i++)
        for (size_t j = 0; j < counts[i]; j++)
            all[i][j] = narrow ? (float)rng_normal(&r) : rng_normal(&r);
    for (size_t g = 0; g < KV; g++)
        for (size_t t = 0; t < N; t++) {
            const bool constant = strcmp(f->name, "RetNet") == 0;
            const double gate =
                constant ? 1 - pow(2, -5.0 - (double)g) : 0.9 + 0.1 * rng_uniform(&r);
            x->gate[g][t] = narrow ? (float)gate : gate;
            x->value_gate[g][t] = (float)exp(rng_normal(&r));
        }
}

/* The quadratic form, with logarithms of gates, as the papers have it. */
static void compute(struct data *x, const struct model_formula *f)
{
    for (size_t h = 0; h < HEADS; h++)
        for (size_t t = 0; t < N; t++) {
            const size_t g = h / GROUP, end = f->all ? N : t + 1;
            double num[DV] = {0}, den = 0, all = 0, log_gate[N];
            for (size_t i = end; i-- > 0;) /* sum of log g over i+1 .. t */
                log_gate[i] = i + 1 >= end ? 0 : log_gate[i + 1] + log(x->gate[g][i + 1]);
            for (size_t i = 0; i < end; i++) {
                double q[D], k[D], score = 0;
                memcpy(q, x->q[h][t], sizeof q);
                memcpy(k, x->k[g][i], sizeof k);
                if (f->unit) {
                    unit_row(q);
                    unit_row(k);
                }
                for (int c = 0; c < D; c++)
                    score += q[c] * k[c];
                double w = f->weight(score * f->scale);
                if (f->gates)
                    w *= exp(log_gate[i]);
                if (f->value_gates)
                    w *= x->value_gate[g][i];
                for (int c = 0; c < DV; c++)
                    num[c] += w * x->v[g][i][c];
                den += w;
                /* what rounding can be relative to: each power of the score by itself */
                double size = 0, absolute = 0;
                for (int c = 0; c < D; c++)
                    absolute += fabs(q[c] * k[c]) * f->scale;
                size = f->weight == linear ? absolute : f->weight(absolute);
                all += size * (f->gates ? exp(log_gate[i]) : 1) *
                       (f->value_gates ? x->value_gate[g][i] : 1);
            }
            den += f->add;
            if (f->floor > 0)
                den = fmax(fabs(den), f->floor);
            if (f->sum)
                den = 1;
            for (int c = 0; c < DV; c++)
                x->o[h][t][c] = num[c] / den * (f->output_scale > 0 ? f->output_scale : 1);
            x->size[h][t] = all / fabs(den) * (f->output_scale > 0 ? f->output_scale : 1);
        }
}

static struct tsa_plan *model_plan(const struct model_formula *f, enum tsa_dtype dtype)
{
    struct tsa_options options;
    ck_assert_int_eq(tsa_options_init(&options, sizeof options), TSA_OK);
    options.head_dim = D;
    options.value_dim = DV;
    options.heads = HEADS;
    options.kv_heads = KV;
    options.terms = f->terms;
    options.coefficients = f->coefficients;
    options.temperature = f->temperature;
    options.normalize = f->unit ? TSA_NORMALIZE_L2 : TSA_NORMALIZE_NONE;
    options.chunk = 32;
    options.dtype = dtype;
    options.gate = f->gates ? TSA_GATE_SCALAR : TSA_GATE_NONE;
    options.output = f->sum ? TSA_OUTPUT_SUM : TSA_OUTPUT_RATIO;
    options.output_scale = f->output_scale > 0 ? f->output_scale : 1;
    options.denominator_add = f->add;
    options.denominator_floor = f->floor;
    return make_plan(&options);
}

/* |got - formula| <= K u (sum |w| |v| + |o| sum |w|) / |den|: chains of at most 28 features, 32
 * tokens of a window and 10 folds, and products of as many gates. */
static void compare(const struct data *x, const struct model_formula *f, const double *got,
                    enum tsa_dtype dtype)
{
    const double bound = 8 * (28 + 32 + 10 + 32) * roundoff(dtype);
    for (size_t h = 0; h < HEADS; h++)
        for (size_t t = 0; t < N; t++)
            for (size_t c = 0; c < DV; c++) {
                const double want = x->o[h][t][c], found = got[(h * N + t) * DV + c];
                CHECK(fabs(found - want) <= bound * x->size[h][t] * (5 + fabs(want)),
                      "%s: head %d, token %d, column %d: %.17g, the formula gives %.17g", f->name,
                      (int)h, (int)t, (int)c, found, want);
            }
}

START_TEST(models)
{
    const struct model_formula *f = &formulas[_i / 2];
    const enum tsa_dtype dtype = _i % 2 == 0 ? TSA_F32 : TSA_F64;
    struct data *x = calloc(1, sizeof *x);
    double *got = calloc(HEADS * N * DV, sizeof *got);
    struct tsa_error err;
    struct tsa_state *state;
    ck_assert(x != NULL && got != NULL);
    make_data(x, f, dtype == TSA_F32, 900 + (uint64_t)_i);
    compute(x, f);
    struct tsa_plan *plan = model_plan(f, dtype);
    ok(tsa_state_create(plan, &state, &err), &err);
    struct tsa_batch batch =
        *BATCH(.states = &state, .count = 1, .tokens = N, .q = dense(x->q, TSA_F64, HEADS, N, D),
               .k = dense(x->k, TSA_F64, KV, N, D), .v = dense(x->v, TSA_F64, KV, N, DV),
               .o = dense(got, TSA_F64, HEADS, N, DV));
    if (f->gates)
        batch.gate = dense(x->gate, TSA_F64, KV, N, 1);
    if (f->value_gates)
        batch.value_gate = dense(x->value_gate, TSA_F64, KV, N, 1);
    if (f->all) {
        ok(tsa_absorb(plan, &batch, NULL, &err), &err);
        ok(tsa_query(plan, &batch, NULL, &err), &err);
    } else {
        ok(tsa_prefill(plan, &batch, NULL, &err), &err);
    }
    ck_assert_uint_eq(tsa_state_tokens(state, 0) - tsa_state_window(state, 0), N / 32 * 32);
    compare(x, f, got, dtype);
    tsa_state_destroy(state);
    tsa_plan_destroy(plan);
    free(x);
    free(got);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("models");
    tcase_add_loop_test(add_case(suite, "models"), models, 0, 2 * FORMULAS);
    return run_suite(suite);
}
