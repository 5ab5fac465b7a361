/* SPDX-License-Identifier: MIT */
/* Plain token-by-token model of the arithmetic (version 1): tables of monomials, and the template
 * for both types. */
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "bf16.h"
#include "model.h"

static size_t elem(const struct model *m)
{
    return m->dtype == TSA_F32 ? sizeof(float) : sizeof(double);
}

/* The next non-decreasing tuple in lexicographic order; false after the last. */
static bool next_tuple(size_t d, unsigned degree, size_t *tuple)
{
    for (unsigned j = degree; j-- > 0;) {
        if (tuple[j] + 1 < d) {
            const size_t up = tuple[j] + 1;
            for (; j < degree; j++)
                tuple[j] = up;
            return true;
        }
    }
    return false;
}

/* m!/prod(alpha_i!): every run of r equal indices divides by r!. */
static double count_orders(unsigned degree, const size_t *tuple)
{
    double orders = 1;
    for (unsigned j = 0, run = 0; j < degree; j++) {
        run = j > 0 && tuple[j] == tuple[j - 1] ? run + 1 : 1;
        orders = orders * (j + 1) / run;
    }
    return orders;
}

void model_init(struct model *m)
{
    size_t total = 0, count[TSA_MAX_TERMS];
    for (unsigned degree = 0; degree < m->terms; degree++) {
        count[degree] = 1; /* binom(d+m-1, m), factor by factor */
        for (unsigned j = 1; j <= degree; j++)
            count[degree] = count[degree] * (m->d + j - 1) / j;
        total += count[degree];
    }
    m->features = total;
    m->degree = calloc(total, sizeof *m->degree);
    m->tuple = calloc(total, sizeof *m->tuple);
    m->multiplicity = calloc(total, sizeof *m->multiplicity);
    size_t f = 0;
    for (unsigned degree = 0; degree < m->terms; degree++) {
        size_t tuple[TSA_MAX_TERMS] = {0};
        m->start[degree] = f;
        do {
            m->degree[f] = degree;
            memcpy(m->tuple[f], tuple, sizeof tuple);
            m->multiplicity[f] = count_orders(degree, tuple);
            f++;
        } while (next_tuple(m->d, degree, tuple));
    }
    m->start[m->terms] = f;
    m->high = f;
}

void model_mix(struct model *m, size_t exact_degrees)
{
    m->high = m->start[exact_degrees < m->terms ? exact_degrees : m->terms];
}

void model_clear(struct model *m)
{
    free(m->degree);
    free(m->tuple);
    free(m->multiplicity);
}

struct model_head *model_head_new(const struct model *m)
{
    struct model_head *s = calloc(1, sizeof *s);
    s->k = calloc(m->chunk * m->d, elem(m));
    s->v = calloc(m->chunk * m->dv, elem(m));
    s->hi = calloc(m->features * m->dv, elem(m));
    s->lo = calloc(m->features * m->dv, elem(m));
    s->ones_hi = calloc(m->features, elem(m));
    s->ones_lo = calloc(m->features, elem(m));
    s->decay = calloc(m->chunk, elem(m));
    s->past = calloc(2, elem(m));
    for (int i = 0; i < 2; i++) {
        if (m->dtype == TSA_F32)
            ((float *)s->past)[i] = 1;
        else
            ((double *)s->past)[i] = 1;
    }
    return s;
}

void model_head_free(struct model_head *s)
{
    if (s == NULL)
        return;
    free(s->k);
    free(s->v);
    free(s->hi);
    free(s->lo);
    free(s->ones_hi);
    free(s->ones_lo);
    free(s->decay);
    free(s->past);
    free(s);
}

void model_head_copy(const struct model *m, struct model_head *dst, const struct model_head *src)
{
    dst->tokens = src->tokens;
    dst->window = src->window;
    memcpy(dst->k, src->k, m->chunk * m->d * elem(m));
    memcpy(dst->v, src->v, m->chunk * m->dv * elem(m));
    memcpy(dst->hi, src->hi, m->features * m->dv * elem(m));
    memcpy(dst->lo, src->lo, m->features * m->dv * elem(m));
    memcpy(dst->ones_hi, src->ones_hi, m->features * elem(m));
    memcpy(dst->ones_lo, src->ones_lo, m->features * elem(m));
    memcpy(dst->decay, src->decay, m->chunk * elem(m));
    memcpy(dst->past, src->past, 2 * elem(m));
}

#define T float
#define UINT uint32_t
#define FN(name) name##_f32
#define FMA fmaf
#define DOT bf16_dot
#define SQRT sqrtf
#define ABS fabsf
#define EMAX 126
#define QNAN 0x7fc00000u
#include "model_tmpl.h"
#undef T
#undef UINT
#undef FN
#undef FMA
#undef DOT
#undef SQRT
#undef ABS
#undef EMAX
#undef QNAN
#define T double
#define UINT uint64_t
#define FN(name) name##_f64
#define FMA fma
#define DOT(a0, b0, a1, b1, acc) (abort(), (a0) + (b0) + (a1) + (b1) + (acc)) /* none */
#define SQRT sqrt
#define ABS fabs
#define EMAX 1022
#define QNAN 0x7ff8000000000000u
#include "model_tmpl.h"

void model_normalise(const struct model *m, const void *x, void *y)
{
    if (m->dtype == TSA_F32)
        normalise_f32(m, x, y);
    else
        normalise_f64(m, x, y);
}

void model_append(const struct model *m, struct model_head *s, const void *k, const void *v)
{
    if (m->dtype == TSA_F32)
        append_f32(m, s, k, v);
    else
        append_f64(m, s, k, v);
}

void model_gate(const struct model *m, struct model_head *s, const void *gate,
                const void *value_gate)
{
    if (m->dtype == TSA_F32)
        gate_f32(s, gate, value_gate);
    else
        gate_f64(s, gate, value_gate);
}

void model_fold(const struct model *m, struct model_head *s)
{
    if (s->window < m->chunk)
        return;
    if (m->dtype == TSA_F32)
        fold_f32(m, s);
    else
        fold_f64(m, s);
}

void model_query(const struct model *m, const struct model_head *s, size_t h, const void *q,
                 void *o)
{
    if (m->dtype == TSA_F32)
        query_f32(m, s, h, q, o);
    else
        query_f64(m, s, h, q, o);
}

void model_merge(const struct model *m, struct model_head *dst, const struct model_head *src)
{
    if (src->tokens == 0)
        return;
    if (dst->tokens == 0)
        model_head_copy(m, dst, src);
    else if (m->dtype == TSA_F32)
        merge_f32(m, dst, src);
    else
        merge_f64(m, dst, src);
}

void model_export(const struct model *m, const struct model_head *s, double *sums)
{
    if (m->dtype == TSA_F32)
        export_f32(m, s, sums);
    else
        export_f64(m, s, sums);
}

void model_run(const struct model *m, struct model_head *const *s, size_t tokens,
               const struct model_rows *rows)
{
    const size_t group = m->heads / m->kv_heads, e = elem(m);
    for (size_t g = 0; g < m->kv_heads; g++)
        for (size_t t = 0; t < tokens; t++) {
            const size_t row = g * tokens + t;
            model_append(m, s[g], (const char *)rows->k + row * m->d * e,
                         (const char *)rows->v + row * m->dv * e);
            if (m->gated)
                model_gate(m, s[g], (const char *)rows->gate + row * e,
                           (const char *)rows->value_gate + row * e);
            for (size_t h = g * group; rows->q != NULL && h < (g + 1) * group; h++)
                model_query(m, s[g], h, (const char *)rows->q + (h * tokens + t) * m->d * e,
                            (char *)rows->o + (h * tokens + t) * m->dv * e);
            model_fold(m, s[g]);
        }
}
