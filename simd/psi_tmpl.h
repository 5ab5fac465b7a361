/* SPDX-License-Identifier: MIT */
/* Monomials, lanes = tokens. Those of degree m that begin with index i are x_i times the contiguous
 * suffix of the degree m-1 list whose first index is >= i, so a feature costs one product and no
 * gather. base[] holds the stored degrees; each degree above is made from the one below it, a piece
 * of a run at a time, where a block of features needs it. */

/* How a row of monomials is made: from a row of the degree below, or as a copy; weighted or not. */
enum row_kind { ROW_PRODUCT = 1, ROW_WEIGHTED = 2 };

/* Monomials that follow one another: x * low[f] * weight[f], as far as kind says. */
struct psi_run {
    size_t features;
    const T *x;   /* a row of degree 1 */
    const T *low; /* rows of the degree below, ldl apart */
    ptrdiff_t ldl;
    const T *weight;
};

TSA_INLINE void psi_vectors(const int nv, const int kind, const struct psi_run *run, size_t t,
                            T *out, ptrdiff_t ldo)
{
    const T *x = run->x + t, *low = run->low + t, *weight = run->weight;
    const ptrdiff_t ldl = run->ldl;
    V xi[4];
    if (kind & ROW_PRODUCT) {
        TSA_UNROLL
        for (int j = 0; j < nv; j++)
            xi[j] = v_load(x + j * VL);
    }
    for (size_t n = run->features; n > 0; n--, low += ldl, out += ldo) {
        V w;
        if (kind & ROW_WEIGHTED)
            w = v_set1(*weight++);
        TSA_UNROLL
        for (int j = 0; j < nv; j++) {
            V y = v_load(low + j * VL);
            if (kind & ROW_PRODUCT)
                y = v_mul(xi[j], y);
            if (kind & ROW_WEIGHTED)
                y = v_mul(y, w);
            v_store(out + j * VL, y);
        }
    }
}

TSA_INLINE void psi_rows(const int kind, size_t tokens, const struct psi_run *run, T *out,
                         ptrdiff_t ldo)
{
    size_t t = 0;
    for (; t + 3 * VL < tokens; t += 4 * VL)
        psi_vectors(4, kind, run, t, out + t, ldo);
    for (; t < tokens; t += VL)
        psi_vectors(1, kind, run, t, out + t, ldo);
}

/* The first index of the monomial at position p of its degree: s[i] <= p < s[i+1]. Selections, not
 * branches: their outcome is unpredictable. */
static size_t first_index(const size_t *s, size_t d, size_t p)
{
    size_t i = 0, step = 1;
    while (step < d)
        step *= 2;
    for (; step > 0; step /= 2) {
        size_t j = i + step;
        j = j < d ? j : i;
        i = s[j] <= p ? j : i;
    }
    return i;
}

/* Rows of the n <= TSA_PIECE monomials of degree m >= 1 from position p on: those of base, or made
 * in its scratch rows. */
static const T *degree_t(const struct tsa_monomials *mono, size_t m, size_t p, size_t n,
                         size_t tokens, T *base, ptrdiff_t ldb)
{
    if (m <= mono->stored)
        return base + (ptrdiff_t)(mono->start[m] - 1 + p) * ldb;
    const size_t *s = mono->suffix + m * (mono->d + 1), *t = s - (mono->d + 1);
    const size_t level = m - mono->stored - 1;
    T *rows = base + (ptrdiff_t)(mono->base + level * TSA_PIECE) * ldb, *out = rows;
    for (size_t i = first_index(s, mono->d, p); n > 0; i++) {
        const size_t left = s[i + 1] - p, k = n < left ? n : left;
        const T *low = degree_t(mono, m - 1, t[i] + p - s[i], k, tokens, base, ldb);
        const struct psi_run run = {
            .features = k, .x = base + (ptrdiff_t)i * ldb, .low = low, .ldl = ldb};
        psi_rows(ROW_PRODUCT, tokens, &run, out, ldb);
        out += (ptrdiff_t)k * ldb;
        p += k;
        n -= k;
    }
    return rows;
}
