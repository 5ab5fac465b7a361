/* SPDX-License-Identifier: MIT */
/* The window as one token sees it: scores, then values, and the division. */

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

TSA_INLINE void decode_window_vectors(const int nv, const struct ARGS(decode_window) * a,
                                      size_t col)
{
    const size_t left = a->columns - col;
    const T *v = a->v + col;
    T *dst = a->dst + col, den = a->first ? 0 : a->den;
    V s[TSA_DECODE_VECTORS];
    TSA_UNROLL
    for (int c = 0; c < nv; c++)
        s[c] = a->first ? v_zero() : v_load(a->acc + col + c * VL);
    for (size_t i = 0; i < a->keys; i++) {
        const V weight = v_set1(a->w[i]);
        den = den + a->w[i];
        TSA_UNROLL
        for (int c = 0; c < nv; c++)
            s[c] = v_fma(weight, v_load(v + (ptrdiff_t)i * a->ldv + c * VL), s[c]);
    }
    const V d = v_set1(den);
    TSA_UNROLL
    for (int c = 0; c < nv; c++) {
        const V y = v_canonical(v_div(s[c], d));
        if (left >= (size_t)(c + 1) * VL)
            v_store(dst + c * VL, y);
        else
            v_store_first(dst + c * VL, left - (size_t)c * VL, y);
    }
}

static void decode_window(const struct ARGS(decode_window) * a)
{
    for (size_t c = 0; c < a->columns;) {
        const size_t left = a->columns - c;
#define X(nv)                                                                                      \
    if (left > (nv - 1) * VL) {                                                                    \
        decode_window_vectors(nv, a, c);                                                           \
        c += nv * VL;                                                                              \
        continue;                                                                                  \
    }
        X(8) X(4) X(3) X(2) X(1)
#undef X
    }
}
