/* SPDX-License-Identifier: MIT */
/* Inputs of the benchmark and an explicit evaluation of their attention in f64. */
#include "config.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>

#include "bench.h"

/* The same numbers everywhere. */
static double uniform(uint64_t *seed)
{
    return (double)(cmd_random_bits(seed) >> 11) * 0x1p-53 - 0.5;
}

static double get(const void *data, enum tsa_dtype dtype, ptrdiff_t i)
{
    return dtype == TSA_F64 ? ((const double *)data)[i] : (double)((const float *)data)[i];
}

static void put(void *data, enum tsa_dtype dtype, ptrdiff_t i, double value)
{
    if (dtype == TSA_F64)
        ((double *)data)[i] = value;
    else
        ((float *)data)[i] = (float)value;
}

/* A tensor [batch][heads][tokens][width], or [tokens][batch][heads][width]. */
static bool make(struct tsa_tensor *t, void **memory, size_t batch, size_t heads, size_t tokens,
                 size_t width, enum tsa_dtype dtype, bool token_major)
{
    *t = (struct tsa_tensor){.dtype = dtype};
    *memory = bench_memory(batch * heads * tokens * width * cmd_dtype_size(dtype));
    t->data = *memory;
    t->token = (ptrdiff_t)(token_major ? batch * heads * width : width);
    t->head = (ptrdiff_t)(token_major ? width : tokens * width);
    t->batch = (ptrdiff_t)(token_major ? heads * width : heads * tokens * width);
    return *memory;
}

static void fill(const struct tsa_tensor *t, size_t rows, size_t width, bool sphere, uint64_t seed)
{
    double *row = malloc(width * sizeof *row);
    if (!row)
        abort();
    for (size_t r = 0; r < rows; r++) {
        double sum = 0;
        for (size_t i = 0; i < width; i++) {
            row[i] = uniform(&seed);
            sum += row[i] * row[i];
        }
        const double scale = sphere ? 1 / sqrt(sum) : 1;
        for (size_t i = 0; i < width; i++)
            put(t->data, t->dtype, (ptrdiff_t)(r * width + i), row[i] * scale);
    }
    free(row);
}

bool bench_inputs_create(struct bench_inputs *in, const struct bench_problem *p, size_t ring,
                         size_t out_tokens, enum tsa_dtype dtype, bool token_major)
{
    const size_t kv = p->kv_heads ? p->kv_heads : p->heads;
    *in = (struct bench_inputs){.ring = ring, .dtype = dtype};
    if (!make(&in->q, &in->memory[0], p->batch, p->heads, ring, p->d, dtype, token_major) ||
        !make(&in->k, &in->memory[1], p->batch, kv, ring, p->d, dtype, token_major) ||
        !make(&in->v, &in->memory[2], p->batch, kv, ring, p->dv, dtype, token_major) ||
        !make(&in->o, &in->memory[3], p->batch, p->heads, out_tokens, p->dv, dtype, token_major)) {
        bench_inputs_destroy(in);
        return false;
    }
    fill(&in->q, p->batch * p->heads * ring, p->d, true, 1);
    fill(&in->k, p->batch * kv * ring, p->d, true, 2);
    fill(&in->v, p->batch * kv * ring, p->dv, false, 3);
    return true;
}

void bench_inputs_destroy(struct bench_inputs *in)
{
    for (int i = 0; i < 4; i++) {
        free(in->memory[i]);
        in->memory[i] = NULL;
    }
}

struct tsa_tensor bench_at(const struct tsa_tensor *t, size_t batch, size_t head, size_t token)
{
    struct tsa_tensor moved = *t;
    const ptrdiff_t by =
        (ptrdiff_t)batch * t->batch + (ptrdiff_t)head * t->head + (ptrdiff_t)token * t->token;
    moved.data = (char *)t->data + by * (ptrdiff_t)cmd_dtype_size(t->dtype);
    return moved;
}

static double dot(const void *a, const void *b, enum tsa_dtype dtype, size_t width)
{
    double sum = 0;
    for (size_t i = 0; i < width; i++)
        sum += get(a, dtype, (ptrdiff_t)i) * get(b, dtype, (ptrdiff_t)i);
    return sum;
}

double bench_series(size_t terms, double x)
{
    double sum = 1;
    for (size_t m = terms - 1; m > 0; m--)
        sum = 1 + sum * x / (double)m;
    return sum;
}

void bench_features(const double *x, size_t d, size_t terms, double *out)
{
    size_t tuple[TSA_MAX_TERMS];
    for (size_t m = 0; m < terms; m++) {
        for (size_t i = 0; i < m; i++)
            tuple[i] = 0;
        for (;;) { /* every i1 <= ... <= im, in order */
            double monomial = 1, multiplicity = 1;
            for (size_t i = 0, run = 0; i < m; i++) {
                run = i && tuple[i] == tuple[i - 1] ? run + 1 : 1;
                monomial *= x[tuple[i]];
                multiplicity *= (double)(i + 1) / (double)run;
            }
            *out++ = monomial * sqrt(round(multiplicity));
            size_t i = m;
            while (i > 0 && tuple[i - 1] == d - 1)
                i--;
            if (i == 0)
                break;
            const size_t next = tuple[i - 1] + 1;
            for (i--; i < m; i++)
                tuple[i] = next;
        }
    }
}

double bench_row_error(const struct bench_inputs *in, const struct bench_problem *p, size_t batch,
                       size_t head, size_t q_row, size_t seen, const void *o)
{
    const size_t kv = p->kv_heads ? head / (p->heads / p->kv_heads) : head;
    const void *q = bench_at(&in->q, batch, head, q_row).data;
    const double q_norm = sqrt(dot(q, q, in->dtype, p->d));
    double *num = calloc(p->dv, sizeof *num), den = 0, worst = 0;

    if (!num)
        abort();
    for (size_t i = 0; i < in->ring && i < seen; i++) {
        const void *k = bench_at(&in->k, batch, kv, i).data;
        const void *v = bench_at(&in->v, batch, kv, i).data;
        const double times = (double)((seen - i - 1) / in->ring + 1);
        const double k_norm = sqrt(dot(k, k, in->dtype, p->d));
        const double x = dot(q, k, in->dtype, p->d) / (q_norm * k_norm) / 2;
        const double w = times * (bench_has_state(p->op) ? bench_series(p->terms, x) : exp(x));
        den += w;
        for (size_t c = 0; c < p->dv; c++)
            num[c] += w * get(v, in->dtype, (ptrdiff_t)c);
    }
    for (size_t c = 0; c < p->dv; c++)
        worst = bench_worse(worst, fabs(get(o, in->dtype, (ptrdiff_t)c) - num[c] / den));
    free(num);
    return worst;
}

double bench_worse(double a, double b)
{
    return isnan(a) || a >= b ? a : b;
}

double bench_error_bound(enum tsa_dtype dtype)
{
    /* |v| <= 1/2; rounding of every schedule stays far below 256 units */
    return dtype == TSA_F64 ? 256 * 0x1p-53 : 256 * 0x1p-24;
}
