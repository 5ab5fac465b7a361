/* SPDX-License-Identifier: MIT */
/* `tsa attend --report`: how far a problem is from where a truncated series can follow.
 *
 * The denominators come from the recurrence itself, in f64, in time proportional to N. Before
 * the keys one zero key is absorbed, whose weight is p(0) = c_0 for every query; its value is 1,
 * all others are 0. Then the output is o_t = c_0 / (c_0 + den_t), so den_t = c_0/o_t - c_0. */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include <math.h>
#include <stdlib.h>

#include "attend.h"
#include "cmd.h"

static double element(const struct tsa_tensor *t, ptrdiff_t i)
{
    return t->dtype == TSA_F64 ? ((const double *)t->data)[i] : ((const float *)t->data)[i];
}

/* Length of a row after normalisation. */
static double row_norm(const struct attend *a, const struct tsa_tensor *t, ptrdiff_t at)
{
    double norm = 0;
    for (size_t c = 0; c < a->head_dim; c++)
        norm = hypot(norm, element(t, at + (ptrdiff_t)c));
    return a->options.normalize == TSA_NORMALIZE_L2 && norm > 0 ? 1 : norm;
}

/* Outputs of the marked problem, one column: the caller frees it. */
static int marked_outputs(const struct attend *a, double c0, double **rows)
{
    struct tsa_options options;
    struct tsa_plan *plan = NULL;
    struct tsa_error err = {.status = TSA_OK};
    struct progress progress;
    double coefficients[TSA_MAX_TERMS], zero = 0;
    attend_plan_options(a, &options);
    options.dtype = TSA_F64;
    options.compute = TSA_COMPUTE_F32;
    options.value_dim = 1;
    if (a->options.coefficient_count > 0) {
        for (size_t m = 0; m < a->options.terms; m++)
            coefficients[m] = m == 0 ? c0 : a->options.coefficients[m];
        options.coefficients = coefficients;
    }
    int code = cmd_plan(&options, &plan);
    if (code != CMD_OK)
        return code;
    *rows = calloc(a->batch * a->heads * a->queries + 1, sizeof **rows);
    progress_start(&progress, "denominators");
    struct feed feed = attend_feed(a, plan, &progress);
    feed.v = (struct tsa_tensor){.data = &zero, .dtype = TSA_F64};
    feed.o = attend_tensor(*rows, TSA_F64, a->heads, a->queries, 1);
    feed.marker = true;
    feed.step = 0;
    enum tsa_status status = *rows != NULL ? feed_states(&feed, &err) : TSA_ENOMEM;
    progress_end(&progress);
    tsa_plan_destroy(plan);
    return status == TSA_OK ? CMD_OK : attend_fail(a, &feed, status, &err);
}

static double coefficient(const struct attend *a, size_t degree)
{
    double factorial = 1;
    if (a->options.coefficient_count > 0)
        return a->options.coefficients[degree];
    for (size_t m = 2; m <= degree; m++)
        factorial *= (double)m;
    return 1 / factorial;
}

/* What is known of the keys that a query sees. */
struct seen {
    size_t keys;
    double largest;               /* |k| */
    double powers[TSA_MAX_TERMS]; /* sums of |k|^m */
};

static void see(struct seen *seen, double norm, size_t terms)
{
    double power = 1;
    seen->keys++;
    seen->largest = fmax(seen->largest, norm);
    for (size_t m = 0; m < terms; m++, power *= norm)
        seen->powers[m] += power;
}

/* What bf16 operands do to an output at most, nearly, in units of the largest |value|: 2^-8 of all
 * that products of their degrees can come to, over the denominator (doc/accuracy.md). */
static double mixed_error(const struct attend *a, const struct seen *seen, unsigned exact_degrees,
                          double q_over_a, double denominator)
{
    double sum = 0;
    for (size_t m = exact_degrees; m < a->options.terms; m++)
        sum += fabs(coefficient(a, m)) * pow(q_over_a, (double)m) * seen->powers[m];
    return sum == 0 ? 0 : 0x1p-8 * sum / fabs(denominator);
}

/* One sequence of one head, whose outputs of the marked problem are `row`. */
static void report_rows(const struct attend *a, size_t b, size_t h, unsigned exact_degrees,
                        double marker, const double *row, struct attend_report *r)
{
    const struct attend_options *o = &a->options;
    size_t kv_head = h / (a->heads / a->kv_heads);
    ptrdiff_t q = (ptrdiff_t)b * a->tq.batch + (ptrdiff_t)h * a->tq.head;
    ptrdiff_t k = (ptrdiff_t)b * a->tk.batch + (ptrdiff_t)kv_head * a->tk.head;
    struct seen seen = {.keys = 0};
    for (size_t t = 0; t < a->queries; t++) {
        for (size_t end = o->noncausal ? a->keys : t + 1; seen.keys < end;)
            see(&seen, row_norm(a, &a->tk, k + (ptrdiff_t)seen.keys * a->tk.token), o->terms);
        double q_over_a = row_norm(a, &a->tq, q + (ptrdiff_t)t * a->tq.token) / o->temperature;
        double keys = (double)seen.keys;
        double mean = (marker / row[t] - marker) / keys - (marker - coefficient(a, 0));
        r->largest = fmax(r->largest, q_over_a * seen.largest);
        r->mixed_error =
            fmax(r->mixed_error, mixed_error(a, &seen, exact_degrees, q_over_a, mean * keys));
        r->rows++;
        r->nonpositive += mean <= 0;
        r->near_zero += fabs(mean) < ATTEND_NEAR_ZERO * fabs(marker);
        r->smallest_mean = fmin(r->smallest_mean, mean);
    }
}

int attend_report(const struct attend *a, unsigned exact_degrees, struct attend_report *heads)
{
    double c0 = coefficient(a, 0);
    /* The marker needs a weight: where c_0 is 0 take 1, and take it away from the sums again. */
    double marker = c0 != 0 ? c0 : 1;
    double *rows = NULL;
    int code = marked_outputs(a, marker, &rows);
    for (size_t h = 0; code == CMD_OK && h < a->heads; h++) {
        heads[h] = (struct attend_report){.smallest_mean = INFINITY};
        for (size_t b = 0; b < a->batch; b++)
            report_rows(a, b, h, exact_degrees, marker, rows + (b * a->heads + h) * a->queries,
                        &heads[h]);
    }
    free(rows);
    return code;
}
