/* SPDX-License-Identifier: MIT */
/* What the benchmark needs per instruction set: loops that find the limits of the machine, and
 * the loops of the contenders. One const table per unit. */
#ifndef TSA_BENCH_UNIT_H
#define TSA_BENCH_UNIT_H

#include <stdbool.h>
#include <stddef.h>

/* A run of features: feature to+j = x[var] * base feature from+j, j < count. */
struct contender_run_of {
    size_t to, count, from, var;
};

/* c tokens, d variables; _t arrays are [feature][token], _k arrays [token][feature]. */
struct contender_loops {
    /* dst[t][i] = scale * src[t][i], i < width */
    void (*copy)(size_t c, size_t width, const float *src, size_t lds, float scale, float *dst,
                 size_t ldd);
    /* xt[i][t] = x[t][i] */
    void (*transpose)(size_t c, size_t d, const float *x, float *xt);
    /* out[to-f0+j][t] = xt[var][t] * base[from+j][t], clipped to features f0..f1-1 */
    void (*features_t)(const struct contender_run_of *runs, size_t count, size_t f0, size_t f1,
                       size_t c, const float *xt, const float *base, float *out);
    /* out[t][to-f0+j] = x[t][var] * base[t][from+j] * weight[to+j] (weight may be NULL); writes up
     * to one vector past each run, so runs ascend and rows have slack. */
    void (*features_k)(const struct contender_run_of *runs, size_t count, size_t f0, size_t f1,
                       size_t c, size_t d, const float *x, const float *base, size_t ldb,
                       const float *weight, float *out, size_t ldo);
    /* p[t][j] = sum_m coef[m] p[t][j]^m where j <= r0+t, else 0; den[t] += row sum */
    void (*kernel)(size_t rows, size_t keys, size_t r0, size_t terms, const float *coef, float *p,
                   size_t ldp, float *den);
    /* den[t] += sum_f psi[t][f] ones[f] */
    void (*query_ones)(size_t c, size_t features, const float *psi, size_t ldp, const float *ones,
                       float *den);
    /* ones[f] += sum_t phi[f][t] */
    void (*update_ones)(size_t features, size_t c, const float *phi, float *ones);
    /* o[t][j] /= den[t] */
    void (*divide)(size_t c, size_t dv, const float *den, float *o);
};

#define CONTENDER_SCALE 0.5f  /* of q.k: 1 / temperature */
enum { CONTENDER_TILE = 64 }; /* queries and keys of a tile by hand */

/* exp with a running maximum subtracted, or of scores within [-1/2, 1/2] as they are. */
enum contender_exp { CONTENDER_ONLINE, CONTENDER_SLEEF, CONTENDER_POLY7, CONTENDER_EXPS };

/* Memory of softmax by hand, whose rows of ldv values are dv rounded up to whole vectors. */
struct contender_hand {
    float *qt;  /* [d][tile] */
    float *s;   /* [tile][tile] */
    float *acc; /* [tile][ldv] */
    float *den; /* [tile] */
    float *v;   /* prefill: [n][ldv] if ldv is not dv; decode: [lanes][d] */
};

typedef void contender_hand_fn(const struct contender_hand *w, size_t n, size_t d, size_t dv,
                               const float *q, const float *k, const float *v, float *o);

struct contender_softmax_loops {
    /* p[t][j] becomes its exp where j < seen+t, else 0; den[t] += row sum. ONLINE subtracts the
     * maximum top[t] and shrinks den[t] and o[t] when that rises. Rows of p have room for whole
     * vectors. */
    void (*weights[CONTENDER_EXPS])(size_t rows, size_t keys, size_t seen, float *p, size_t ldp,
                                    float *top, float *den, size_t dv, float *o);
    /* By hand from end to end: causal, and the last row alone; none with a maximum. */
    contender_hand_fn *prefill[CONTENDER_EXPS], *decode[CONTENDER_EXPS];
};

struct bench_unit {
    const char *name;
    unsigned lanes_f32, lanes_f64;
    unsigned chains; /* independent fmas per round */
    void (*fma_f32)(size_t rounds);
    void (*fma_f64)(size_t rounds);
    /* Load `bytes` (a multiple of 1024) `rounds` times. */
    void (*read)(const void *memory, size_t bytes, size_t rounds);
    struct contender_loops loops;
    struct contender_softmax_loops softmax;
    const char *flags; /* what it was compiled with */
};

extern const struct bench_unit bench_unit_scalar;
extern const struct bench_unit bench_unit_avx512;
extern const struct bench_unit bench_unit_avx2;
extern const struct bench_unit bench_unit_neon;

/* Products of pairs of bf16 that a CPU has instructions for; named as their kernels' table. */
struct bench_pairs_unit {
    const char *name;
    unsigned flops; /* of a round */
    void (*dot)(size_t rounds);
};

extern const struct bench_pairs_unit bench_pairs_avx512bf16;
extern const struct bench_pairs_unit bench_pairs_neonbf16;

#endif
