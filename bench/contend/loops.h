/* SPDX-License-Identifier: MIT */
/* The contenders' loops, compiled for each instruction set. */
#ifndef TSA_CONTEND_LOOPS_H
#define TSA_CONTEND_LOOPS_H

#include <stdbool.h>
#include <stddef.h>

/* A run of features: feature to+j = x[var] * base feature from+j, j < count. */
struct contend_run_of {
    size_t to, count, from, var;
};

/* Features f0..f1-1 of `tokens` rows of d variables. */
struct contend_slice {
    const struct contend_run_of *runs;
    size_t count, f0, f1, tokens, d;
};

/* c tokens, d variables; _t arrays are [feature][token], _k arrays [token][feature]. */
struct contend_loops {
    /* dst[t][i] = scale * src[t][i], i < width */
    void (*copy)(size_t c, size_t width, const float *src, size_t lds, float scale, float *dst,
                 size_t ldd);
    /* xt[i][t] = x[t][i] */
    void (*transpose)(size_t c, size_t d, const float *x, float *xt);
    /* out[to-f0+j][t] = xt[var][t] * base[from+j][t] */
    void (*features_t)(const struct contend_slice *s, const float *xt, const float *base,
                       float *out);
    /* out[t][to-f0+j] = x[t][var] * base[t][from+j] * weight[to+j] (weight may be NULL); writes up
     * to one vector past each run, so runs ascend and rows have slack. */
    void (*features_k)(const struct contend_slice *s, const float *x, const float *base, size_t ldb,
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

#define CONTEND_SCALE 0.5f  /* of q.k: 1 / temperature */
enum { CONTEND_TILE = 64 }; /* queries and keys of a tile by hand */

/* exp with a running maximum subtracted, or of scores within [-1/2, 1/2] as they are. */
enum contend_exp { CONTEND_ONLINE, CONTEND_SLEEF, CONTEND_POLY7, CONTEND_EXPS };

/* Memory of softmax by hand, whose rows of ldv values are dv rounded up to whole vectors. */
struct contend_hand {
    float *qt;  /* [d][tile] */
    float *s;   /* [tile][tile] */
    float *acc; /* [tile][ldv] */
    float *den; /* [tile] */
    float *v;   /* prefill: [n][ldv] if ldv is not dv; decode: [lanes][d] */
};

typedef void contend_hand_fn(const struct contend_hand *w, size_t n, size_t d, size_t dv,
                             const float *q, const float *k, const float *v, float *o);

/* Scores of `rows` queries and `keys` keys, of which row t sees the first seen+t. Rows of p have
 * memory for whole vectors. */
struct contend_scores {
    size_t rows, keys, seen;
    float *p;
    size_t ldp;
    float *top, *den; /* per row */
    size_t dv;
    float *o;
};

struct contend_softmax_loops {
    /* p[t][j] becomes its exp where it is seen, else 0; den[t] += row sum. ONLINE subtracts the
     * maximum top[t] and shrinks den[t] and o[t] when that rises. */
    void (*weights[CONTEND_EXPS])(const struct contend_scores *s);
    /* By hand from end to end: causal, and the last row alone; none with a maximum. */
    contend_hand_fn *prefill[CONTEND_EXPS], *decode[CONTEND_EXPS];
};

/* What the plain recurrence needs beside its state, whose rows of `width` numbers are dv sums of
 * values and one of the feature. */
struct contend_plain {
    size_t d, dv, terms, features, width, run_count;
    struct contend_run_of *runs; /* of degrees 2 and up */
    float *weight, *psi, *phi;   /* per feature */
    float *sum;                  /* per value */
};

struct contend_token {
    const float *q, *k, *v;
};

/* One step: absorb the token, then answer its query. */
typedef void contend_plain_fn(const struct contend_plain *p, float *state,
                              const struct contend_token *token, float *o);

struct contend_plain_loops {
    void (*absorb)(const struct contend_plain *p, float *state, const float *k, const float *v);
    contend_plain_fn *(*find)(size_t d, size_t dv, size_t terms); /* the step for this shape */
};

struct contend_unit {
    const char *name;
    size_t lanes; /* of a vector of f32 */
    struct contend_loops loops;
    struct contend_softmax_loops softmax;
    struct contend_plain_loops plain;
};

extern const struct contend_unit contend_unit_scalar;
extern const struct contend_unit contend_unit_avx512;
extern const struct contend_unit contend_unit_avx2;
extern const struct contend_unit contend_unit_neon;

#endif
