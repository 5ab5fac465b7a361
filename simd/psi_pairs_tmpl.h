/* SPDX-License-Identifier: MIT */
/* Monomials rounded to bf16, in pairs of features or in pairs of tokens. */

enum psi_kind { PSI_FEATURE_PAIRS, PSI_TOKEN_PAIRS };
struct psi_out {
    T *rows; /* of the next pairs */
    ptrdiff_t ld;
    T even[TSA_TILE_TOKENS]; /* a feature that waits for its partner */
    bool odd;                /* is there one? */
};

TSA_INLINE V psi_value(const int kind, V x, const T *low, const T *weight)
{
    V y = v_load(low);
    if (kind & ROW_PRODUCT)
        y = v_mul(x, y);
    if (kind & ROW_WEIGHTED)
        y = v_mul(y, v_set1(*weight));
    return y;
}

TSA_INLINE void psi_feature_pairs(const int nv, const int kind, const struct psi_run *run, size_t t,
                                  struct psi_out *o)
{
    const T *low = run->low + t, *weight = run->weight;
    const ptrdiff_t ldl = run->ldl, ldo = o->ld, step = kind & ROW_WEIGHTED ? 1 : 0;
    T *even = o->even + t, *out = o->rows + t;
    size_t n = run->features;
    V xi[4];
    TSA_UNROLL
    for (int j = 0; j < nv; j++)
        xi[j] = kind & ROW_PRODUCT ? v_load(run->x + t + j * VL) : v_zero();
    if (o->odd) {
        TSA_UNROLL
        for (int j = 0; j < nv; j++)
            v_store(out + j * VL,
                    v_pair(v_load(even + j * VL), psi_value(kind, xi[j], low + j * VL, weight)));
        out += ldo;
        low += ldl;
        weight += step;
        n--;
    }
    for (; n > 1; n -= 2, low += 2 * ldl, weight += 2 * step, out += ldo) {
        TSA_UNROLL
        for (int j = 0; j < nv; j++) {
            const V y = psi_value(kind, xi[j], low + j * VL, weight);
            v_store(out + j * VL,
                    v_pair(y, psi_value(kind, xi[j], low + ldl + j * VL, weight + step)));
        }
    }
    if (n > 0) {
        TSA_UNROLL
        for (int j = 0; j < nv; j++)
            v_store(even + j * VL, psi_value(kind, xi[j], low + j * VL, weight));
    }
}

TSA_INLINE void psi_token_pairs(const int nv, const int kind, const struct psi_run *run, size_t t,
                                const struct psi_out *o)
{
    const T *low = run->low + t;
    const ptrdiff_t ldl = run->ldl, ldo = o->ld;
    T *out = o->rows + t / 2;
    V xi[4];
    TSA_UNROLL
    for (int j = 0; j < nv; j++)
        xi[j] = kind & ROW_PRODUCT ? v_load(run->x + t + j * VL) : v_zero();
    for (size_t n = run->features; n > 0; n--, low += ldl, out += ldo) {
        TSA_UNROLL
        for (int j = 0; j < nv; j += 2)
            v_store(out + j / 2 * VL,
                    v_pair_columns(psi_value(kind, xi[j], low + j * VL, NULL),
                                   psi_value(kind, xi[j + 1], low + (j + 1) * VL, NULL)));
    }
}

TSA_INLINE void psi_emit(const int what, const int kind, size_t tokens, const struct psi_run *run,
                         struct psi_out *o)
{
    size_t t = 0;
    if (what == PSI_FEATURE_PAIRS) {
        for (; t + 3 * VL < tokens; t += 4 * VL)
            psi_feature_pairs(4, kind, run, t, o);
        for (; t < tokens; t += VL)
            psi_feature_pairs(1, kind, run, t, o);
        const size_t n = run->features + o->odd;
        o->odd = n % 2;
        o->rows += (ptrdiff_t)(n / 2) * o->ld;
    } else {
        for (; t + 3 * VL < tokens; t += 4 * VL)
            psi_token_pairs(4, kind, run, t, o);
        for (; t < tokens; t += 2 * VL)
            psi_token_pairs(2, kind, run, t, o);
        o->rows += (ptrdiff_t)run->features * o->ld;
    }
}
#include "psi_walk_tmpl.h"

static void psi_pairs(const struct ARGS(psi) *a)
{
    struct psi_out out = {.rows = a->psi, .ld = a->ldp};
    psi_walk(PSI_FEATURE_PAIRS, ROW_WEIGHTED, a, &out);
    for (size_t t = 0; out.odd && t < a->tokens; t += VL)
        v_store(out.rows + t, v_pair(v_load(out.even + t), v_zero()));
}

static void phi_pairs(const struct ARGS(psi) *a)
{
    struct psi_out out = {.rows = a->psi, .ld = a->ldp};
    psi_walk(PSI_TOKEN_PAIRS, 0, a, &out);
}
