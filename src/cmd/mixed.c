/* SPDX-License-Identifier: MIT */
/* `tsa attend --compare` of mixed plans: error and time of the problem at hand for small numbers of
 * exact degrees, the one asked for, and in f32, against the truncated kernel and against softmax,
 * both in f64. */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "attend.h"
#include "cmd.h"

/* Variants run again in turn, for their shortest times, until so many rounds or seconds. */
#define MOST_ROUNDS 7
#define ENOUGH_SECONDS 1.0

/* Outputs of one way to compute the problem. */
struct outputs {
    size_t count;
    double *truncated, *softmax;
    float *variant;
};

static int run(const struct attend *a, const struct tsa_options *options, bool softmax,
               struct tsa_tensor o, double *seconds)
{
    struct tsa_error err = {.status = TSA_OK};
    struct tsa_plan *plan = NULL;
    struct progress progress;
    int code = cmd_plan(options, &plan);
    if (code != CMD_OK)
        return code;
    progress_start(&progress, softmax ? "softmax in f64" : "exact degrees");
    struct feed feed = attend_feed(a, plan, &progress);
    feed.o = o;
    double start = cmd_seconds();
    enum tsa_status status = softmax ? feed_softmax(&feed, &err) : feed_states(&feed, &err);
    *seconds = cmd_seconds() - start;
    progress_end(&progress);
    tsa_plan_destroy(plan);
    return status == TSA_OK ? CMD_OK : attend_fail(a, &feed, status, &err);
}

static struct attend_error error_of(const float *found, const double *wanted, size_t count)
{
    struct attend_error e = {0, 0};
    double square = 0, difference = 0;
    for (size_t i = 0; i < count; i++) {
        double delta = (double)found[i] - wanted[i];
        square += wanted[i] * wanted[i];
        difference += delta * delta;
        /* Unlike fmax(), this keeps a NaN. */
        if (!(fabs(delta) <= e.max_abs))
            e.max_abs = fabs(delta);
    }
    e.relative_l2 = difference == 0 ? 0 : sqrt(difference / square);
    return e;
}

/* The truncated kernel and softmax in f64. */
static int run_references(const struct attend *a, const struct tsa_options *options,
                          const struct outputs *outputs)
{
    struct tsa_options exact = *options;
    double seconds;
    exact.dtype = TSA_F64;
    exact.compute = TSA_COMPUTE_EXACT;
    int code = run(a, &exact, false,
                   attend_tensor(outputs->truncated, TSA_F64, a->heads, a->queries, a->value_dim),
                   &seconds);
    if (code != CMD_OK)
        return code;
    return run(a, &exact, true,
               attend_tensor(outputs->softmax, TSA_F64, a->heads, a->queries, a->value_dim),
               &seconds);
}

static int run_variant(const struct attend *a, const struct tsa_options *options,
                       const struct outputs *outputs, struct attend_variant *v)
{
    struct tsa_options own = *options;
    double seconds;
    own.compute = v->compute;
    own.exact_degrees = v->exact_degrees;
    int code =
        run(a, &own, false,
            attend_tensor(outputs->variant, TSA_F32, a->heads, a->queries, a->value_dim), &seconds);
    if (code == CMD_OK && seconds < v->seconds)
        v->seconds = seconds;
    return code;
}

static int run_variants(const struct attend *a, const struct tsa_options *options,
                        const struct outputs *outputs, struct attend_variants *variants)
{
    int code = run_references(a, options, outputs);
    double start = cmd_seconds();
    for (size_t round = 0; code == CMD_OK && round < MOST_ROUNDS; round++) {
        for (size_t i = 0; code == CMD_OK && i < variants->count; i++) {
            struct attend_variant *v = &variants->of[i];
            code = run_variant(a, options, outputs, v);
            if (code != CMD_OK || round > 0)
                continue;
            v->truncated = error_of(outputs->variant, outputs->truncated, outputs->count);
            v->softmax = error_of(outputs->variant, outputs->softmax, outputs->count);
        }
        if (cmd_seconds() - start > ENOUGH_SECONDS)
            break;
    }
    return code;
}

/* Only an even chunk can be mixed. */
static void list_variants(const struct tsa_options *options, struct attend_variants *variants)
{
    for (unsigned e = 0; e < options->terms; e++)
        if (options->chunk % 2 == 0 && (e <= ATTEND_MOST_EXACT || e == options->exact_degrees))
            variants->of[variants->count++] =
                (struct attend_variant){.compute = TSA_COMPUTE_MIXED, .exact_degrees = e};
    variants->of[variants->count++] = (struct attend_variant){
        .compute = TSA_COMPUTE_EXACT, .exact_degrees = (unsigned)options->terms};
    for (size_t i = 0; i < variants->count; i++)
        variants->of[i].seconds = INFINITY;
}

int attend_variants(const struct attend *a, struct attend_variants *variants)
{
    struct tsa_options options;
    attend_plan_options(a, &options);
    variants->count = 0;
    if (a->options.compute == TSA_COMPUTE_EXACT || options.dtype != TSA_F32)
        return CMD_OK;
    struct outputs outputs = {.count = a->batch * a->heads * a->queries * a->value_dim};
    size_t room = outputs.count > 0 ? outputs.count : 1;
    outputs.truncated = calloc(room, sizeof *outputs.truncated);
    outputs.softmax = calloc(room, sizeof *outputs.softmax);
    outputs.variant = calloc(room, sizeof *outputs.variant);
    int code;
    if (outputs.truncated != NULL && outputs.softmax != NULL && outputs.variant != NULL) {
        list_variants(&options, variants);
        code = run_variants(a, &options, &outputs, variants);
    } else {
        code =
            cmd_fail("--compare: no memory for three more outputs of %zu numbers", outputs.count);
    }
    free(outputs.truncated);
    free(outputs.softmax);
    free(outputs.variant);
    return code;
}

void attend_variants_print(const struct attend_variants *variants)
{
    printf("\nmixed: differences, relative l2 and largest, and the shortest time\n"
           "  exact degrees   to the truncated kernel   to softmax                seconds\n");
    for (size_t i = 0; i < variants->count; i++) {
        const struct attend_variant *v = &variants->of[i];
        if (v->compute == TSA_COMPUTE_MIXED)
            printf("  %-13u", v->exact_degrees);
        else
            printf("  %-13s", "all (f32)");
        printf("   %-8.3g   %-12.3g   %-8.3g   %-12.3g   %.4g\n", v->truncated.relative_l2,
               v->truncated.max_abs, v->softmax.relative_l2, v->softmax.max_abs, v->seconds);
    }
}

static json_t *error_json(struct attend_error e)
{
    return json_pack("{s:o, s:o}", "relative_l2", cmd_json_number(e.relative_l2), "max_abs",
                     cmd_json_number(e.max_abs));
}

json_t *attend_variants_json(const struct attend_variants *variants)
{
    json_t *list = json_array();
    for (size_t i = 0; i < variants->count; i++) {
        const struct attend_variant *v = &variants->of[i];
        json_array_append_new(list, json_pack("{s:s, s:I, s:o, s:o, s:o}", "compute",
                                              cmd_compute_name(v->compute, TSA_F32),
                                              "exact_degrees", (json_int_t)v->exact_degrees,
                                              "vs_truncated", error_json(v->truncated),
                                              "vs_softmax", error_json(v->softmax), "seconds",
                                              cmd_json_number(v->seconds)));
    }
    return list;
}
