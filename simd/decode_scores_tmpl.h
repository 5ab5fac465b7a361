/* SPDX-License-Identifier: MIT */
/* The weights of the window as one token sees it. */

TSA_INLINE void decode_score_vectors(const int nv, size_t d, const T *kt, ptrdiff_t ldk, const T *q,
                                     size_t terms, const T *coef, T *w)
{
    V x[4], p[4];
    TSA_UNROLL
    for (int c = 0; c < nv; c++) {
        x[c] = v_zero();
        p[c] = v_set1(coef[terms - 1]);
    }
    for (size_t i = 0; i < d; i++) {
        const V qi = v_set1(q[i]);
        TSA_UNROLL
        for (int c = 0; c < nv; c++)
            x[c] = v_fma(qi, v_load(kt + (ptrdiff_t)i * ldk + c * VL), x[c]);
    }
    for (size_t m = terms - 1; m > 0; m--) {
        const V cm = v_set1(coef[m - 1]);
        TSA_UNROLL
        for (int c = 0; c < nv; c++)
            p[c] = v_fma(p[c], x[c], cm);
    }
    TSA_UNROLL
    for (int c = 0; c < nv; c++)
        v_store(w + c * VL, p[c]);
}

static void decode_scores(size_t keys, size_t d, const T *kt, ptrdiff_t ldk, const T *q,
                          size_t terms, const T *coef, T *w)
{
    size_t i = 0;
    for (; i + 3 * VL < keys; i += 4 * VL)
        decode_score_vectors(4, d, kt + i, ldk, q, terms, coef, w + i);
    for (; i + VL < keys; i += 2 * VL)
        decode_score_vectors(2, d, kt + i, ldk, q, terms, coef, w + i);
    for (; i < keys; i += VL)
        decode_score_vectors(1, d, kt + i, ldk, q, terms, coef, w + i);
}
