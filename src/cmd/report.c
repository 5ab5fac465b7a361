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
    options.compute = TSA_COMPUTE_EXACT;
    options.value_dim = 1;
    options.output_scale = 1;
    options.denominator_add = options.denominator_floor = 0;
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

double attend_high_share(const struct attend *a, unsigned exact_degrees, double x)
{
    double all = 0, high = 0, power = 1;
    for (size_t m = 0; m < a->options.terms; m++, power *= x) {
        double part = fabs(coefficient(a, m)) * power;
        all += part;
        high += m >= exact_degrees ? part : 0;
    }
    if (high == 0)
        return 0;
    return isfinite(all) ? high / all : 1;
}

int attend_report(const struct attend *a, struct attend_report *heads)
{
    const struct attend_options *o = &a->options;
    double c0 = coefficient(a, 0);
    /* The marker needs a weight: where c_0 is 0 take 1, and take it away from the sums again. */
    double marker = c0 != 0 ? c0 : 1;
    double *rows = NULL;
    int code = marked_outputs(a, marker, &rows);
    for (size_t h = 0; code == CMD_OK && h < a->heads; h++) {
        struct attend_report *r = &heads[h];
        *r = (struct attend_report){.smallest_mean = INFINITY};
        for (size_t b = 0; b < a->batch; b++) {
            const double *row = rows + (b * a->heads + h) * a->queries;
            r->largest = fmax(r->largest, attend_largest_score(a, b, h));
            for (size_t t = 0; t < a->queries; t++) {
                double seen = (double)(o->noncausal ? a->keys : t + 1);
                double mean = (marker / row[t] - marker) / seen - (marker - c0);
                r->rows++;
                r->nonpositive += mean <= 0;
                r->near_zero += fabs(mean) < ATTEND_NEAR_ZERO * fabs(marker);
                r->smallest_mean = fmin(r->smallest_mean, mean);
            }
        }
    }
    free(rows);
    return code;
}
