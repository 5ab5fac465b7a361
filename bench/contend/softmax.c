/* SPDX-License-Identifier: MIT */
/* Exact softmax as others would compute it, on one thread in f32.
 *
 *   causal  per block of queries, per tile of keys:  P = Q K^T;  P = exp(P), row sums;  O += P V;
 *           at last O /= den. The products are a library's, or everything is written by hand.
 *   decode  one query over all keys: two products of a matrix and a vector, or by hand in one pass.
 *
 * "online" subtracts a running maximum and is right for any input; the others take the scores as
 * they are, which rows on the unit sphere and temperature 2 keep within [-1/2, 1/2]. Rows are used
 * as they come, on the sphere already: nothing is normalised. */
#include "config.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "contend.h"

enum { MOST_SHAPES = 8, SLACK = 16 /* numbers by which whole vectors may overrun a row */ };

struct softmax {
    struct bench_contender head;
    const struct contend_backend *backend; /* NULL: by hand */
    const struct contend_loops *loops;
    const struct contend_softmax_loops *softmax;
    enum contend_exp kind;
    size_t d, dv, rows, keys, ldp;
    size_t shapes;
    struct contend_gemm scores[MOST_SHAPES], values[MOST_SHAPES]; /* n and k are their keys */
    float *q, *kt, *p, *den, *top;
    struct contend_hand hand;
};

/* -- causal, on matrix products -------------------------------------------------------------- */

static const struct contend_gemm *find(const struct softmax *c, const struct contend_gemm *of,
                                       size_t rows, size_t keys)
{
    for (size_t i = 0; i < c->shapes; i++)
        if ((size_t)c->scores[i].m == rows && (size_t)c->scores[i].n == keys)
            return of + i;
    return NULL;
}

/* A kernel needs the keys transposed; OpenBLAS transposes them itself. */
static bool prepare(struct softmax *c, size_t rows, size_t keys)
{
    if (find(c, c->scores, rows, keys))
        return true;
    if (c->shapes == MOST_SHAPES)
        return false;
    const bool transposed = !c->kt;
    struct contend_gemm *scores = c->scores + c->shapes, *values = c->values + c->shapes;
    *scores = (struct contend_gemm){.m = (int)rows,
                                    .n = (int)keys,
                                    .k = (int)c->d,
                                    .lda = (int)c->d,
                                    .ldb = (int)(transposed ? c->d : keys),
                                    .ldc = (int)c->ldp,
                                    .transposed = transposed};
    *values = (struct contend_gemm){.m = (int)rows,
                                    .n = (int)c->dv,
                                    .k = (int)keys,
                                    .lda = (int)c->ldp,
                                    .ldb = (int)c->dv,
                                    .ldc = (int)c->dv,
                                    .beta = 1};
    c->shapes++;
    return c->backend->prepare(scores) && c->backend->prepare(values);
}

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Every shape that run_blocks will want. */
static bool prepare_all(struct softmax *c, size_t n)
{
    for (size_t r = 0; r < n; r += c->rows) {
        const size_t end = least(r + c->rows, n);
        for (size_t s = 0; s < end; s += c->keys)
            if (!prepare(c, end - r, least(end - s, c->keys)))
                return false;
    }
    return true;
}

static void run_blocks(struct bench_contender *contender, size_t n, const float *q, const float *k,
                       const float *v, float *o)
{
    struct softmax *c = (struct softmax *)contender;
    const size_t d = c->d, dv = c->dv;

    for (size_t s = 0; c->kt && s < n; s += c->keys)
        c->loops->transpose(least(n - s, c->keys), d, k + s * d, c->kt + s * d);
    for (size_t r = 0; r < n; r += c->rows) {
        const size_t end = least(r + c->rows, n), rows = end - r;
        float *to = o + r * dv;
        c->loops->copy(rows, d, q + r * d, d, CONTEND_SCALE, c->q, d);
        memset(to, 0, rows * dv * sizeof *to);
        for (size_t t = 0; t < rows; t++) {
            c->den[t] = 0;
            c->top[t] = -HUGE_VALF;
        }
        for (size_t s = 0; s < end; s += c->keys) {
            const size_t keys = least(end - s, c->keys);
            const float *b = c->kt ? c->kt + s * d : k + s * d;
            c->backend->run(find(c, c->scores, rows, keys), c->q, b, c->p);
            const struct contend_scores scores = {.rows = rows,
                                                  .keys = keys,
                                                  .seen = r - s + 1,
                                                  .p = c->p,
                                                  .ldp = c->ldp,
                                                  .top = c->top,
                                                  .den = c->den,
                                                  .dv = dv,
                                                  .o = to};
            c->softmax->weights[c->kind](&scores);
            c->backend->run(find(c, c->values, rows, keys), c->p, v + s * dv, to);
        }
        c->loops->divide(rows, dv, c->den, to);
    }
}

/* -- one query, on products of a matrix and a vector ----------------------------------------- */

static void run_vector(struct bench_contender *contender, size_t n, const float *q, const float *k,
                       const float *v, float *o)
{
    struct softmax *c = (struct softmax *)contender;
    c->den[0] = 0;
    c->top[0] = -HUGE_VALF;
    c->backend->run_vector(false, (int)n, (int)c->d, CONTEND_SCALE, k, q, c->p);
    const struct contend_scores scores = {
        .rows = 1, .keys = n, .seen = n, .p = c->p, .top = c->top, .den = c->den, .o = o};
    c->softmax->weights[c->kind](&scores);
    c->backend->run_vector(true, (int)n, (int)c->dv, 1 / c->den[0], v, c->p, o);
}

/* -- by hand --------------------------------------------------------------------------------- */

static void run_hand(struct bench_contender *contender, size_t n, const float *q, const float *k,
                     const float *v, float *o)
{
    const struct softmax *c = (const struct softmax *)contender;
    c->softmax->prefill[c->kind](&c->hand, n, c->d, c->dv, q, k, v, o);
}

static void run_hand_decode(struct bench_contender *contender, size_t n, const float *q,
                            const float *k, const float *v, float *o)
{
    const struct softmax *c = (const struct softmax *)contender;
    c->softmax->decode[c->kind](&c->hand, n, c->d, c->dv, q, k, v, o);
}

/* -- making them ----------------------------------------------------------------------------- */

static void softmax_destroy(struct bench_contender *contender)
{
    struct softmax *c = (struct softmax *)contender;
    float *const memory[] = {c->q,      c->kt,       c->p,        c->den,    c->top,
                             c->hand.s, c->hand.acc, c->hand.den, c->hand.v, c->hand.qt};
    for (size_t i = 0; i < sizeof memory / sizeof *memory; i++)
        free(memory[i]);
    free(c);
}

static float *numbers(size_t count)
{
    return bench_memory(count * sizeof(float));
}

static bool create_hand(struct softmax *c, size_t n, size_t lanes, bool decode)
{
    const size_t tile = CONTEND_TILE, ldv = (c->dv + lanes - 1) / lanes * lanes;
    struct contend_hand *w = &c->hand;
    w->qt = numbers(c->d * tile);
    w->s = numbers(tile * tile);
    w->acc = numbers(tile * ldv);
    w->den = numbers(tile);
    w->v = numbers(decode ? lanes * c->d : ldv == c->dv ? 0 : n * ldv);
    return w->qt && w->s && w->acc && w->den && w->v;
}

static bool create_blocks(struct softmax *c, size_t n)
{
    c->ldp = c->keys;
    c->q = numbers(c->rows * c->d);
    c->p = numbers(c->rows * c->ldp);
    c->den = numbers(c->rows);
    c->top = numbers(c->rows);
    if (c->backend == &contend_xsmm)
        c->kt = numbers(n * c->d);
    return c->q && c->p && c->den && c->top && (c->kt || c->backend != &contend_xsmm) &&
           prepare_all(c, n);
}

static bool create_vector(struct softmax *c, size_t n)
{
    c->ldp = n;
    c->p = numbers(n + SLACK);
    c->den = numbers(1);
    c->top = numbers(1);
    return c->p && c->den && c->top && c->backend->run_vector;
}

struct kind {
    const struct contend_backend *backend;
    enum contend_exp kind;
    size_t rows, keys; /* of a tile; 0 keys: all */
    const char *name;
};

static const struct kind causal_kinds[] = {
    {&contend_openblas, CONTEND_ONLINE, 128, 256, "openblas_online"},
    {&contend_openblas, CONTEND_SLEEF, 128, 256, "openblas_nomax"},
    {&contend_xsmm, CONTEND_SLEEF, 64, 64, "libxsmm_sleef"},
    {&contend_xsmm, CONTEND_POLY7, 64, 64, "libxsmm_poly7"},
    {NULL, CONTEND_SLEEF, CONTEND_TILE, CONTEND_TILE, "hand_sleef"},
    {NULL, CONTEND_POLY7, CONTEND_TILE, CONTEND_TILE, "hand_poly7"},
};

_Static_assert(sizeof causal_kinds / sizeof *causal_kinds <= MOST_CONTENDERS, "none is left out");

static const struct kind decode_kinds[] = {
    {&contend_openblas, CONTEND_ONLINE, 1, 0, "openblas_gemv"},
    {NULL, CONTEND_SLEEF, 1, CONTEND_TILE, "hand_sleef"},
    {NULL, CONTEND_POLY7, 1, CONTEND_TILE, "hand_poly7"},
};

static struct bench_contender *create(const struct kind *kind, const struct bench_problem *problem,
                                      const struct contend_unit *unit)
{
    const bool decode = problem->op == BENCH_SOFTMAX_DECODE;
    if (kind->backend && !contend_start(kind->backend))
        return NULL;
    struct softmax *c = calloc(1, sizeof *c);
    if (!c)
        return NULL;
    c->backend = kind->backend;
    c->loops = &unit->loops;
    c->softmax = &unit->softmax;
    c->kind = kind->kind;
    c->rows = kind->rows;
    c->keys = kind->keys;
    c->d = problem->d;
    c->dv = problem->dv;
    c->head = (struct bench_contender){.chunk = kind->keys ? kind->keys : problem->n,
                                       .destroy = softmax_destroy};
    snprintf(c->head.name, sizeof c->head.name, "%s", kind->name);
    bool made;
    if (!c->backend) {
        c->head.run = decode ? run_hand_decode : run_hand;
        made = create_hand(c, problem->n, unit->lanes, decode);
    } else {
        c->head.run = decode ? run_vector : run_blocks;
        made = decode ? create_vector(c, problem->n) : create_blocks(c, problem->n);
    }
    if (!made) {
        softmax_destroy(&c->head);
        return NULL;
    }
    return &c->head;
}

struct bench_contender *contend_softmax(size_t i, const struct bench_problem *problem,
                                        const struct contend_unit *unit)
{
    const bool decode = problem->op == BENCH_SOFTMAX_DECODE;
    const size_t count = decode ? sizeof decode_kinds / sizeof *decode_kinds
                                : sizeof causal_kinds / sizeof *causal_kinds;
    return i < count ? create((decode ? decode_kinds : causal_kinds) + i, problem, unit) : NULL;
}
