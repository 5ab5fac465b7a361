/* SPDX-License-Identifier: MIT */
/* How large scores can be, from the lengths of rows, in time proportional to N; and a warning where
 * the series does not follow the exponential so far. */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include <math.h>
#include <stdio.h>

#include "attend.h"
#include "cmd.h"

static double square_f32(const float *row, size_t count)
{
    double square = 0;
    for (size_t c = 0; c < count; c++)
        square += (double)row[c] * row[c];
    return square;
}

static double square_f64(const double *row, size_t count)
{
    double square = 0;
    for (size_t c = 0; c < count; c++)
        square += row[c] * row[c];
    return square;
}

/* Length of a row after normalisation. */
static double row_norm(const struct attend *a, const struct tsa_tensor *t, ptrdiff_t at)
{
    double square = 0, norm = 0;
    if (t->dtype == TSA_F32)
        square = square_f32((const float *)t->data + at, a->head_dim);
    else if (t->dtype == TSA_F64)
        square = square_f64((const double *)t->data + at, a->head_dim);
    /* Squares of f64 may leave its range; numbers of 16 bits are converted one by one. */
    if (square > 1e-200 && square < 1e300)
        norm = sqrt(square);
    else
        for (size_t c = 0; c < a->head_dim; c++)
            norm = hypot(norm, npy_element(t->data, t->dtype, (size_t)at + c));
    return a->options.normalize == TSA_NORMALIZE_L2 && norm > 0 ? 1 : norm;
}

double attend_largest_score(const struct attend *a, size_t b, size_t h)
{
    size_t kv_head = h / (a->heads / a->kv_heads);
    ptrdiff_t q = (ptrdiff_t)b * a->tq.batch + (ptrdiff_t)h * a->tq.head;
    ptrdiff_t k = (ptrdiff_t)b * a->tk.batch + (ptrdiff_t)kv_head * a->tk.head;
    double largest_k = 0, largest = 0;
    size_t seen = 0;
    for (size_t t = 0; t < a->queries; t++) {
        for (size_t end = a->options.noncausal ? a->keys : t + 1; seen < end; seen++)
            largest_k = fmax(largest_k, row_norm(a, &a->tk, k + (ptrdiff_t)seen * a->tk.token));
        double product = row_norm(a, &a->tq, q + (ptrdiff_t)t * a->tq.token) * largest_k;
        largest = fmax(largest, product / a->options.temperature);
    }
    return largest;
}

/* The scores that the series is good for: those of normalised rows at a = 1; and with more than
 * three terms those whose first missing term, x^n/n!, is no larger than 1/6, as it is for three
 * terms at 1. */
static double series_range(size_t terms)
{
    double x = pow(tgamma((double)terms + 1) / 6, 1 / (double)terms);
    return x > 1 ? x : 1;
}

void attend_check_range(const struct attend *a, char *warning, size_t size)
{
    const struct attend_options *o = &a->options;
    const double range = series_range(o->terms);
    const bool normalized = o->normalize == TSA_NORMALIZE_L2;
    double largest = 0;
    size_t worst = 0;
    warning[0] = '\0';
    /* What coefficients of one's own are good for is not known here; and other models do not want
     * to be softmax. */
    if (o->softmax || o->model != NULL || o->gate != NULL || o->output == TSA_OUTPUT_SUM ||
        o->coefficient_count > 0 || (normalized && 1 / o->temperature <= range))
        return;
    for (size_t b = 0; b < a->batch; b++) {
        for (size_t h = 0; h < a->heads; h++) {
            double score = attend_largest_score(a, b, h);
            if (score > largest) {
                largest = score;
                worst = h;
            }
        }
    }
    /* Rows that were normalised before, to bf16 perhaps, are a little longer than 1. */
    if (!(largest > 1.01 * range))
        return;
    snprintf(warning, size,
             "scores: |q.k|/a is up to %.4g (by |q||k|/a, head %zu), but %zu term%s of the "
             "exponential %s good only up to %.3g: outputs can be far from softmax; use "
             "%s--temperature %.3g or more, %s--method softmax",
             largest, worst, o->terms, o->terms == 1 ? "" : "s", o->terms == 1 ? "is" : "are",
             range, normalized ? "" : "--normalize l2, ", largest / range * o->temperature,
             o->terms < TSA_MAX_TERMS ? "more --terms, or " : "or ");
}
