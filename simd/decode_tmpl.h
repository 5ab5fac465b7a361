/* SPDX-License-Identifier: MIT */
/* The window of one token: scores, then values, and the division. */

TSA_INLINE void decode_score_vectors(const int nv, size_t width, const T *kt, ptrdiff_t ldk,
                                     const T *q, size_t terms, const T *coef, T *w)
{
    V x[4], p[4];
    TSA_UNROLL
    for (int c = 0; c < nv; c++) {
        x[c] = v_zero();
        p[c] = v_set1(coef[terms - 1]);
    }
    for (size_t i = 0; i < width; i++) {
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

static void decode_scores(size_t keys, size_t width, const T *kt, ptrdiff_t ldk, const T *q,
                          size_t terms, const T *coef, T *w)
{
    size_t i = 0;
    for (; i + 3 * VL < keys; i += 4 * VL)
        decode_score_vectors(4, width, kt + i, ldk, q, terms, coef, w + i);
    for (; i + VL < keys; i += 2 * VL)
        decode_score_vectors(2, width, kt + i, ldk, q, terms, coef, w + i);
    for (; i < keys; i += VL)
        decode_score_vectors(1, width, kt + i, ldk, q, terms, coef, w + i);
}

TSA_INLINE void decode_window_vectors(const int nv, size_t left, size_t keys, const T *w,
                                      const T *v, ptrdiff_t ldv, const T *acc, T den, int first,
                                      T *dst)
{
    V s[TSA_DECODE_VECTORS];
    TSA_UNROLL
    for (int c = 0; c < nv; c++)
        s[c] = first ? v_zero() : v_load(acc + c * VL);
    for (size_t i = 0; i < keys; i++) {
        const V a = v_set1(w[i]);
        den = den + w[i];
        TSA_UNROLL
        for (int c = 0; c < nv; c++)
            s[c] = v_fma(a, v_load(v + (ptrdiff_t)i * ldv + c * VL), s[c]);
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

static void decode_window(size_t width, size_t keys, const T *w, const T *v, ptrdiff_t ldv,
                          const T *acc, T den, int first, T *dst)
{
    if (first)
        den = 0;
    for (size_t c = 0; c < width;) {
        const size_t left = width - c;
#define X(nv)                                                                                      \
    if (left > (nv - 1) * VL) {                                                                    \
        decode_window_vectors(nv, left, keys, w, v + c, ldv, acc + c, den, first, dst + c);        \
        c += nv * VL;                                                                              \
        continue;                                                                                  \
    }
        X(8) X(4) X(3) X(2) X(1)
#undef X
    }
}
