/* SPDX-License-Identifier: MIT */
/* Inputs of the benchmark and an explicit evaluation of their attention in f64. */
#include "config.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>

#include "bench.h"

/* splitmix64: the same numbers everywhere */
static double uniform(uint64_t *seed)
{
    uint64_t z = *seed += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    z ^= z >> 31;
    return (double)(z >> 11) * 0x1p-53 - 0.5;
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

static size_t size_of(enum tsa_dtype dtype)
{
    return dtype == TSA_F64 ? sizeof(double) : sizeof(float);
}

/* A tensor [batch][heads][tokens][width], or [tokens][batch][heads][width]. */
static bool make(struct tsa_tensor *t, void **memory, size_t batch, size_t heads, size_t tokens,
                 size_t width, enum tsa_dtype dtype, bool token_major)
{
    *t = (struct tsa_tensor){.dtype = dtype};
    *memory = bench_memory(batch * heads * tokens * width * size_of(dtype));
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
    moved.data = (char *)t->data + by * (ptrdiff_t)size_of(t->dtype);
    return moved;
}

static double dot(const void *a, const void *b, enum tsa_dtype dtype, size_t width)
{
    double sum = 0;
    for (size_t i = 0; i < width; i++)
        sum += get(a, dtype, (ptrdiff_t)i) * get(b, dtype, (ptrdiff_t)i);
    return sum;
}

static double weight_of(const struct bench_problem *p, double x)
{
    double sum = 0, term = 1;
    if (p->op == BENCH_SOFTMAX || p->op == BENCH_SOFTMAX_DECODE)
        return exp(x);
    for (size_t m = 0; m < p->terms; m++) {
        sum += term;
        term *= x / (double)(m + 1);
    }
    return sum;
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
        const double w = times * weight_of(p, x);
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
