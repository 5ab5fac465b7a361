/* SPDX-License-Identifier: MIT */
/* Exact softmax of one query on a tile of up to TSA_TILE_TOKENS keys. */

static void plain_scores(size_t keys, size_t d, const T *kt, ptrdiff_t ldk, const T *q, T *x)
{
    /* with the coefficients of p(x) = x, and adding +0, weights are the scores */
    static const T identity[2] = {0, 1};
    decode_scores(keys, d, kt, ldk, q, 2, identity, x);
}

/* Bounded scores become weights. */
TSA_INLINE void bounded_row_weights(size_t keys, T *w)
{
    for (size_t i = 0; i < keys; i += VL)
        v_store(w + i, exp_near_zero(v_load(w + i)));
}

/* Scores become weights; returns what multiplies the sums so far. */
static V softmax_row_weights(size_t keys, T *w, int first, T *max)
{
    T top = w[0];
    size_t i = VL <= keys ? VL : 0;
    if (i > 0) {
        V m = v_load(w);
        for (; i + VL <= keys; i += VL)
            m = v_max(m, v_load(w + i));
        T lane[VL];
        v_store(lane, m);
        for (int l = 0; l < VL; l++)
            top = lane[l] > top ? lane[l] : top;
    }
    for (; i < keys; i++)
        top = w[i] > top ? w[i] : top;
    V shrink = v_set1(1);
    if (!first && *max != top) {
        top = *max > top ? *max : top;
        shrink = v_exp(v_set1(*max - top));
    }
    *max = top;
    const V m = v_set1(top);
    for (i = 0; i < keys; i += VL)
        v_store(w + i, v_exp(v_sub(v_load(w + i), m)));
    return shrink;
}

/* Vectors of columns from col on; den is NULL if it has been summed. */
TSA_INLINE void softmax_row_vectors(const int nv, const struct ARGS(softmax_row) *a, size_t col,
                                    V shrink, T *den)
{
    const T *w = a->w, *v = a->v + col;
    const ptrdiff_t ldv = a->ldv;
    T *acc = a->acc + col;
    V s[TSA_DECODE_VECTORS];
    TSA_UNROLL
    for (int c = 0; c < nv; c++)
        s[c] = a->first ? v_zero() : v_mul(v_load(acc + c * VL), shrink);
    T sum = den ? *den : 0;
    for (size_t i = 0; i < a->keys; i++) {
        const V weight = v_set1(w[i]);
        sum = sum + w[i];
        TSA_UNROLL
        for (int c = 0; c < nv; c++)
            s[c] = v_fma(weight, v_load(v + (ptrdiff_t)i * ldv + c * VL), s[c]);
    }
    TSA_UNROLL
    for (int c = 0; c < nv; c++)
        v_store(acc + c * VL, s[c]);
    if (den)
        *den = sum;
}

static void softmax_row(const struct ARGS(softmax_row) *args)
{
    const struct ARGS(softmax_row) a = *args;
    plain_scores(a.keys, a.d, a.kt, a.ldk, a.q, a.w);
    V shrink = v_set1(1);
    if (a.bounded)
        bounded_row_weights(a.keys, a.w);
    else
        shrink = softmax_row_weights(a.keys, a.w, a.first, a.max);
    if (a.first) {
        *a.den = 0;
    } else {
        T lane[VL];
        v_store(lane, shrink);
        *a.den *= lane[0];
    }
    for (size_t c = 0; c < a.columns;) {
        const size_t left = a.columns - c;
        T *sum = c == 0 ? a.den : NULL;
#define X(nv)                                                                                      \
    if (left >= nv * VL) {                                                                         \
        softmax_row_vectors(nv, &a, c, shrink, sum);                                               \
        c += nv * VL;                                                                              \
        continue;                                                                                  \
    }
        X(8) X(4) X(3) X(2) X(1)
#undef X
    }
}
