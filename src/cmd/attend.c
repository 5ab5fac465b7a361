/* SPDX-License-Identifier: MIT */
/* `tsa attend`: attention on .npy files. */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "attend.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cmd.h"
#include "output.h"

#define WARNINGS 2
#define WARNING_TEXT 400

/* What is printed. */
struct results {
    const struct tsa_plan *plan;
    size_t calls, folds;
    double seconds;
    double relative_l2, max_abs;     /* with --compare */
    struct attend_variants variants; /* with --compare */
    struct attend_report *reports;   /* with --report, unless the problem is empty */
    size_t report_count;
    char warnings[WARNINGS][WARNING_TEXT]; /* "": none */
};

void attend_plan_options(const struct attend *a, struct tsa_options *options)
{
    const struct attend_options *o = &a->options;
    tsa_options_init(options, sizeof *options);
    options->head_dim = a->head_dim;
    options->value_dim = a->value_dim;
    options->terms = o->terms;
    options->heads = a->heads;
    options->kv_heads = a->kv_heads;
    options->chunk = o->chunk;
    options->dtype = o->dtype == TSA_F64 ? TSA_F64 : TSA_F32;
    options->normalize = o->normalize;
    options->temperature = o->temperature;
    options->coefficients = o->coefficient_count > 0 ? o->coefficients : NULL;
    options->threads = o->threads;
    options->isa = o->isa;
    options->compute = o->compute;
    options->softmax_window = o->softmax_window;
    options->gate = o->gate != NULL ? TSA_GATE_SCALAR : TSA_GATE_NONE;
    options->output = o->output;
    options->output_scale = o->output_scale;
    options->denominator_add = o->denominator_add;
    options->denominator_floor = o->denominator_floor;
    if (o->exact_degrees_given)
        options->exact_degrees = o->exact_degrees;
    if (attend_is_empty(a)) {
        options->head_dim = options->value_dim = 1;
        options->heads = options->kv_heads = 1;
    }
}

/* What the products were computed in. */
static const char *compute_name(const struct attend *a, const struct tsa_plan *plan)
{
    struct tsa_options options;
    attend_plan_options(a, &options);
    return cmd_compute_name(tsa_plan_compute(plan), options.dtype);
}

struct feed attend_feed(const struct attend *a, const struct tsa_plan *plan,
                        struct progress *progress)
{
    return (struct feed){
        .plan = plan,
        .q = a->tq,
        .k = a->tk,
        .v = a->tv,
        .gate = a->tgate,
        .value_gate = a->tvalue_gate,
        .batch = a->batch,
        .queries = a->queries,
        .keys = a->keys,
        .head_dim = a->head_dim,
        .causal = !a->options.noncausal,
        .step = a->options.step,
        .progress = progress,
    };
}

int attend_fail(const struct attend *a, const struct feed *feed, enum tsa_status status,
                const struct tsa_error *err)
{
    const char *argument = err->argument != NULL ? err->argument : "";
    const char *path = strcmp(argument, "q") == 0            ? a->options.q
                       : strcmp(argument, "k") == 0          ? a->options.k
                       : strcmp(argument, "v") == 0          ? a->options.v
                       : strcmp(argument, "gate") == 0       ? a->options.gate
                       : strcmp(argument, "value_gate") == 0 ? a->options.value_gate
                                                             : NULL;
    if (path != NULL && err->token >= 0 && feed->start > 0)
        return cmd_fail("%s: %s (tokens counted from %zu, where the call starts)", path, err->text,
                        feed->start);
    return cmd_fail_library(path, status, err);
}

/* The results are those of the main run, not of --compare: NULL then. */
static int run(const struct attend *a, const struct tsa_plan *plan, bool softmax,
               struct tsa_tensor o, struct results *results)
{
    struct tsa_error err = {.status = TSA_OK};
    struct progress progress;
    progress_start(&progress, softmax ? "softmax" : "attend");
    struct feed feed = attend_feed(a, plan, &progress);
    feed.o = o;
    double start = cmd_seconds();
    enum tsa_status status = softmax ? feed_softmax(&feed, &err) : feed_states(&feed, &err);
    progress_end(&progress);
    if (status != TSA_OK)
        return attend_fail(a, &feed, status, &err);
    if (results != NULL) {
        results->seconds = cmd_seconds() - start;
        results->calls = feed.calls;
        results->folds = feed.folds;
    }
    return CMD_OK;
}

static void differ(const void *found, const void *wanted, enum tsa_dtype dtype, size_t count,
                   struct results *results)
{
    double square = 0, difference = 0;
    for (size_t i = 0; i < count; i++) {
        double want = npy_element(wanted, dtype, i);
        double delta = npy_element(found, dtype, i) - want;
        square += want * want;
        difference += delta * delta;
        /* Unlike fmax(), this keeps a NaN. */
        if (!(fabs(delta) <= results->max_abs))
            results->max_abs = fabs(delta);
    }
    results->relative_l2 = difference == 0 ? 0 : sqrt(difference / square);
}

/* Both outputs in the type of the arithmetic: rounded to bf16 or f16, they would differ by the
 * rounding. */
static int compare(const struct attend *a, struct results *results)
{
    const enum tsa_dtype dtype = a->options.dtype == TSA_F64 ? TSA_F64 : TSA_F32;
    const size_t count = a->out_bytes / cmd_dtype_size(a->options.dtype);
    const size_t room = count > 0 ? count : 1;
    const bool rounded = dtype != a->options.dtype;
    void *exact = calloc(room, cmd_dtype_size(dtype));
    void *wide = rounded ? calloc(room, cmd_dtype_size(dtype)) : NULL;
    int code = CMD_OK;
    if (exact == NULL || (rounded && wide == NULL))
        code = cmd_fail("--compare: no memory for %s of %zu numbers",
                        rounded ? "two more outputs" : "another output", count);
    if (code == CMD_OK && rounded)
        code = run(a, results->plan, false,
                   attend_tensor(wide, dtype, a->heads, a->queries, a->value_dim), NULL);
    if (code == CMD_OK)
        code = run(a, results->plan, true,
                   attend_tensor(exact, dtype, a->heads, a->queries, a->value_dim), NULL);
    if (code == CMD_OK)
        differ(rounded ? wide : a->out, exact, dtype, count, results);
    free(wide);
    free(exact);
    return code;
}

static int write_output(const struct attend *a, struct output *output)
{
    const size_t shape[NPY_MAX_RANK] = {a->batch, a->heads, a->queries, a->value_dim};
    npy_write_head(output->stream, a->options.dtype, a->rank, shape + NPY_MAX_RANK - a->rank);
    fwrite(a->out, 1, a->out_bytes, output->stream);
    return output_commit(output, a->options.o) ? CMD_OK : CMD_FAILURE;
}

/* -- printing --------------------------------------------------------------------------------- */

/* Estimate for one head. */
static double mixed_error(const struct attend *a, const struct results *r, size_t head)
{
    return ATTEND_MIXED_UNIT *
           attend_high_share(a, tsa_plan_exact_degrees(r->plan), r->reports[head].largest);
}

static void add_warnings(json_t *root, const struct results *r)
{
    json_t *list = json_array();
    for (size_t i = 0; i < WARNINGS; i++)
        if (r->warnings[i][0] != '\0')
            json_array_append_new(list, json_string(r->warnings[i]));
    if (json_array_size(list) > 0)
        json_object_set(root, "warnings", list);
    json_decref(list);
}

static int print_json(const struct attend *a, const struct results *r)
{
    const struct attend_options *o = &a->options;
    json_t *root = json_pack(
        "{s:s, s:s, s:i, s:s, s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:o}",
        "method", o->softmax ? "softmax" : "taylor", "isa", tsa_plan_isa(r->plan), "threads",
        tsa_plan_threads(r->plan), "dtype", cmd_dtype_name(o->dtype), "compute",
        compute_name(a, r->plan), "exact_degrees", (json_int_t)tsa_plan_exact_degrees(r->plan),
        "terms", (json_int_t)o->terms, "chunk", (json_int_t)tsa_plan_chunk(r->plan), "sequences",
        (json_int_t)a->batch, "heads", (json_int_t)a->heads, "kv_heads", (json_int_t)a->kv_heads,
        "head_dim", (json_int_t)a->head_dim, "value_dim", (json_int_t)a->value_dim, "tokens",
        (json_int_t)a->keys, "calls", (json_int_t)r->calls, "folds", (json_int_t)r->folds,
        "seconds", cmd_json_number(r->seconds));
    if (root != NULL)
        json_object_set_new(root, "recurrence", attend_recurrence_json(a));
    if (root != NULL && o->compare)
        json_object_set_new(root, "taylor_vs_softmax",
                            json_pack("{s:o, s:o}", "relative_l2", cmd_json_number(r->relative_l2),
                                      "max_abs", cmd_json_number(r->max_abs)));
    if (root != NULL && r->variants.count > 0)
        json_object_set_new(root, "mixed", attend_variants_json(&r->variants));
    if (root != NULL && o->report) {
        json_t *heads = json_array();
        for (size_t h = 0; h < r->report_count; h++) {
            json_t *head = json_pack("{s:I, s:I, s:I, s:I, s:o, s:o}", "head", (json_int_t)h,
                                     "rows", (json_int_t)r->reports[h].rows, "nonpositive",
                                     (json_int_t)r->reports[h].nonpositive, "near_zero",
                                     (json_int_t)r->reports[h].near_zero, "smallest_mean_weight",
                                     cmd_json_number(r->reports[h].smallest_mean),
                                     "largest_qk_over_a", cmd_json_number(r->reports[h].largest));
            if (tsa_plan_compute(r->plan) == TSA_COMPUTE_MIXED)
                json_object_set_new(head, "mixed_error_estimate",
                                    cmd_json_number(mixed_error(a, r, h)));
            json_array_append_new(heads, head);
        }
        json_object_set_new(root, "report", heads);
    }
    if (root != NULL)
        add_warnings(root, r);
    return cmd_json_print(root);
}

static void print_report(const struct attend *a, const struct results *r)
{
    const bool mixed = tsa_plan_compute(r->plan) == TSA_COMPUTE_MIXED;
    printf("\nreport: denominators (in f64) and scores of each head\n"
           "  head        rows       <= 0     near 0   smallest/key   largest |q||k|/a%s\n",
           mixed ? "   mixed error" : "");
    for (size_t h = 0; h < r->report_count; h++) {
        const struct attend_report *p = &r->reports[h];
        printf("  %4zu %11zu %10zu %10zu   %12.5g   %16.5g", h, p->rows, p->nonpositive,
               p->near_zero, p->smallest_mean, p->largest);
        if (mixed)
            printf("   %11.2g", mixed_error(a, r, h));
        putchar('\n');
    }
    printf("  near 0: the mean weight of a row's keys is within %g c_0 of 0\n", ATTEND_NEAR_ZERO);
    if (mixed)
        printf("  mixed error: estimate of the outputs' relative error (doc/accuracy.md)\n");
}

static int print_text(const struct attend *a, const struct results *r)
{
    const struct attend_options *o = &a->options;
    const size_t shape[NPY_MAX_RANK] = {a->batch, a->heads, a->queries, a->value_dim};
    char text[NPY_SHAPE_TEXT], path[CMD_PLAIN_TEXT];
    printf("output     %s, %s, %s\n", cmd_plain_text(o->o, path, sizeof path),
           cmd_dtype_name(o->dtype), npy_shape_text(a->rank, shape + NPY_MAX_RANK - a->rank, text));
    if (o->softmax && o->softmax_window > 0)
        printf("method     softmax, window %zu, temperature %g, ", o->softmax_window,
               o->temperature);
    else if (o->softmax)
        printf("method     softmax, temperature %g, ", o->temperature);
    else
        printf("method     taylor, %zu term%s, chunk %zu, temperature %g, ", o->terms,
               o->terms == 1 ? "" : "s", tsa_plan_chunk(r->plan), o->temperature);
    printf("normalize %s, %s\n", o->normalize == TSA_NORMALIZE_L2 ? "l2" : "none",
           o->noncausal ? "noncausal" : "causal");
    if (o->sphere) {
        printf("series     sphere:");
        for (size_t m = 0; m < o->coefficient_count; m++)
            printf(" %.10g", o->coefficients[m]);
        putchar('\n');
    }
    attend_print_recurrence(a);
    printf("computed   on %s, %d thread%s, %zu call%s, %zu fold%s a sequence, %.3f s\n",
           tsa_plan_isa(r->plan), tsa_plan_threads(r->plan),
           tsa_plan_threads(r->plan) == 1 ? "" : "s", r->calls, r->calls == 1 ? "" : "s", r->folds,
           r->folds == 1 ? "" : "s", r->seconds);
    if (o->compute != TSA_COMPUTE_EXACT && tsa_plan_compute(r->plan) == TSA_COMPUTE_MIXED)
        printf("products   mixed: degrees below %u in f32, the others from bf16 operands\n",
               tsa_plan_exact_degrees(r->plan));
    else if (o->compute != TSA_COMPUTE_EXACT)
        printf("products   %s, all of them\n", compute_name(a, r->plan));
    if (o->compare)
        printf("softmax    relative l2 difference %.3g, largest %.3g\n", r->relative_l2,
               r->max_abs);
    if (r->variants.count > 0)
        attend_variants_print(&r->variants);
    if (o->report)
        print_report(a, r);
    return CMD_OK;
}

/* -- the whole -------------------------------------------------------------------------------- */

/* A mixed plan is for scores that are small. */
static void check_mixed(const struct attend *a, struct results *r)
{
    size_t worst = 0;
    if (tsa_plan_compute(r->plan) != TSA_COMPUTE_MIXED || r->report_count == 0)
        return;
    for (size_t h = 1; h < r->report_count; h++)
        if (r->reports[h].largest > r->reports[worst].largest)
            worst = h;
    const struct attend_report *p = &r->reports[worst];
    const unsigned exact = tsa_plan_exact_degrees(r->plan);
    if (!(p->largest > ATTEND_LARGE_SCORE))
        return;
    snprintf(r->warnings[0], WARNING_TEXT,
             "mixed: |q||k|/a reaches %.4g in head %zu, where degrees from %u on, which have bf16 "
             "operands, are up to %.3g %% of a weight; expect relative errors of %.1g and more: "
             "use --compute f32",
             p->largest, worst, exact, 100 * attend_high_share(a, exact, p->largest),
             mixed_error(a, r, worst));
}

static int report(const struct attend *a, struct results *results)
{
    results->reports = calloc(a->heads, sizeof *results->reports);
    if (results->reports == NULL)
        return cmd_fail("--report: no memory for %zu heads", a->heads);
    results->report_count = a->heads;
    return attend_report(a, results->reports);
}

static int compute(const struct attend *a, struct results *results)
{
    if (attend_is_empty(a))
        return CMD_OK;
    int code = run(a, results->plan, a->options.softmax, a->to, results);
    if (code == CMD_OK && a->options.compare)
        code = compare(a, results);
    if (code == CMD_OK && a->options.compare)
        code = attend_variants(a, &results->variants);
    if (code == CMD_OK && a->options.report)
        code = report(a, results);
    if (code == CMD_OK) {
        check_mixed(a, results);
        attend_check_range(a, results->warnings[1], WARNING_TEXT);
    }
    return code;
}

/* Standard output holds the array, and can hold nothing else: text goes to standard error. */
static int move_text(void)
{
    fflush(stdout);
    return dup2(STDERR_FILENO, STDOUT_FILENO) >= 0
               ? CMD_OK
               : cmd_fail("standard error: %s", strerror(errno));
}

static int attend_problem(struct attend *a, struct output *output, struct results *results)
{
    const bool to_stdout = output_is_stdout(a->options.o);
    if (!output_open(output, a->options.o))
        return CMD_FAILURE;
    int code = compute(a, results);
    if (code == CMD_OK)
        code = write_output(a, output);
    if (code == CMD_OK && to_stdout)
        code = move_text();
    if (code != CMD_OK)
        return code;
    for (size_t i = 0; i < WARNINGS; i++)
        if (results->warnings[i][0] != '\0')
            cmd_warn("%s", results->warnings[i]);
    return a->options.json ? print_json(a, results) : print_text(a, results);
}

/* Coefficients that follow from the shape become numbers. */
static int settle_coefficients(struct attend *a)
{
    struct attend_options *o = &a->options;
    struct tsa_options options;
    struct tsa_plan *plan = NULL;
    if (!o->sphere)
        return CMD_OK;
    attend_plan_options(a, &options);
    options.series = TSA_COEFFICIENTS_SPHERE;
    const int code = cmd_plan(&options, &plan);
    if (code == CMD_OK && tsa_plan_coefficients(plan, 0, o->coefficients, NULL) == TSA_OK)
        o->coefficient_count = o->terms;
    tsa_plan_destroy(plan);
    return code;
}

int cmd_attend(int argc, char **argv)
{
    struct attend a = {.out = NULL};
    struct output output = {.stream = NULL};
    struct results results = {.plan = NULL};
    struct tsa_options options;
    struct tsa_plan *plan = NULL;
    bool done;
    int code = attend_parse(argc, argv, &a.options, &done);
    if (code != CMD_OK || done)
        return code;
    code = attend_load(&a);
    if (code == CMD_OK)
        code = settle_coefficients(&a);
    if (code == CMD_OK) {
        attend_plan_options(&a, &options);
        code = cmd_plan(&options, &plan);
        results.plan = plan;
    }
    if (code == CMD_OK)
        code = attend_problem(&a, &output, &results);
    output_discard(&output);
    tsa_plan_destroy(plan);
    free(results.reports);
    free(a.out);
    npy_free(&a.q);
    npy_free(&a.k);
    npy_free(&a.v);
    npy_free(&a.gate);
    npy_free(&a.value_gate);
    return code;
}
