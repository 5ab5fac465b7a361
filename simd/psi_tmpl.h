/* SPDX-License-Identifier: MIT */
/* Monomials. Those of degree m that begin with index i are x_i times the contiguous suffix of the
 * degree m-1 list whose first index is >= i, so a feature costs one product and no gather. With
 * lanes = tokens, base[] holds the low degrees; each degree above is made from the one below it,
 * block by block, where it is needed. */

/* How psi_rows makes a row: from a row of the degree below, or as a copy; weighted or plain. */
enum row_kind { ROW_PRODUCT = 1, ROW_WEIGHTED = 2 };

TSA_INLINE void psi_vectors(const int nv, const int kind, size_t n, const T *x, const T *low,
                            ptrdiff_t ldl, const T *weight, T *out, ptrdiff_t ldo)
{
    V xi[4];
    if (kind & ROW_PRODUCT) {
        TSA_UNROLL
        for (int j = 0; j < nv; j++)
            xi[j] = v_load(x + j * VL);
    }
    for (; n > 0; n--, low += ldl, out += ldo) {
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

/* out[r] = x * low[r] * weight[r], as far as kind says. */
TSA_INLINE void psi_rows(const int kind, size_t n, size_t cols, const T *x, const T *low,
                         ptrdiff_t ldl, const T *weight, T *out, ptrdiff_t ldo)
{
    size_t c = 0;
    for (; c + 3 * VL < cols; c += 4 * VL)
        psi_vectors(4, kind, n, x + c, low + c, ldl, weight, out + c, ldo);
    for (; c < cols; c += VL)
        psi_vectors(1, kind, n, x + c, low + c, ldl, weight, out + c, ldo);
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
                         size_t cols, T *base, ptrdiff_t ldb)
{
    if (m <= mono->stored)
        return base + (ptrdiff_t)(mono->start[m] - 1 + p) * ldb;
    const size_t *s = mono->suffix + m * (mono->d + 1), *t = s - (mono->d + 1);
    const size_t level = m - mono->stored - 1;
    T *rows = base + (ptrdiff_t)(mono->base + level * TSA_PIECE) * ldb, *out = rows;
    for (size_t i = first_index(s, mono->d, p); n > 0; i++) {
        const size_t left = s[i + 1] - p, k = n < left ? n : left;
        const T *low = degree_t(mono, m - 1, t[i] + p - s[i], k, cols, base, ldb);
        psi_rows(ROW_PRODUCT, k, cols, base + (ptrdiff_t)i * ldb, low, ldb, NULL, out, ldb);
        out += (ptrdiff_t)k * ldb;
        p += k;
        n -= k;
    }
    return rows;
}

/* What becomes of rows that follow one another: rows; pairs of them; or pairs of their tokens. */
enum psi_kind { PSI_ROWS, PSI_ROW_PAIRS, PSI_TOKEN_PAIRS };
struct psi_out {
    T *rows;
    ptrdiff_t ld;
#ifdef TSA_OPERAND_PAIRS
    T even[TSA_TILE_TOKENS]; /* a row that waits for its partner */
    bool odd;                /* is there one? */
#endif
};

#ifdef TSA_OPERAND_PAIRS
TSA_INLINE V psi_value(const int kind, V x, const T *low, const T *weight)
{
    V y = v_load(low);
    if (kind & ROW_PRODUCT)
        y = v_mul(x, y);
    if (kind & ROW_WEIGHTED)
        y = v_mul(y, v_set1(*weight));
    return y;
}

TSA_INLINE void psi_row_pairs(const int nv, const int kind, size_t n, const T *x, const T *low,
                              ptrdiff_t ldl, const T *weight, bool odd, T *even, T *out,
                              ptrdiff_t ldo)
{
    V xi[4];
    TSA_UNROLL
    for (int j = 0; j < nv; j++)
        xi[j] = kind & ROW_PRODUCT ? v_load(x + j * VL) : v_zero();
    const ptrdiff_t step = kind & ROW_WEIGHTED ? 1 : 0;
    if (odd) {
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

TSA_INLINE void psi_token_pairs(const int nv, const int kind, size_t n, const T *x, const T *low,
                                ptrdiff_t ldl, T *out, ptrdiff_t ldo)
{
    V xi[4];
    TSA_UNROLL
    for (int j = 0; j < nv; j++)
        xi[j] = kind & ROW_PRODUCT ? v_load(x + j * VL) : v_zero();
    for (; n > 0; n--, low += ldl, out += ldo) {
        TSA_UNROLL
        for (int j = 0; j < nv; j += 2)
            v_store(out + j / 2 * VL,
                    v_pair_cols(psi_value(kind, xi[j], low + j * VL, NULL),
                                psi_value(kind, xi[j + 1], low + (j + 1) * VL, NULL)));
    }
}
#endif

/* n > 0 rows, as psi_rows has them. */
TSA_INLINE void psi_emit(const int what, const int kind, size_t n, size_t cols, const T *x,
                         const T *low, ptrdiff_t ldl, const T *weight, struct psi_out *o)
{
    if (what == PSI_ROWS) {
        psi_rows(kind, n, cols, x, low, ldl, weight, o->rows, o->ld);
        o->rows += (ptrdiff_t)n * o->ld;
        return;
    }
#ifdef TSA_OPERAND_PAIRS
    size_t c = 0;
    if (what == PSI_ROW_PAIRS) {
        for (; c + 3 * VL < cols; c += 4 * VL)
            psi_row_pairs(4, kind, n, x + c, low + c, ldl, weight, o->odd, o->even + c, o->rows + c,
                          o->ld);
        for (; c < cols; c += VL)
            psi_row_pairs(1, kind, n, x + c, low + c, ldl, weight, o->odd, o->even + c, o->rows + c,
                          o->ld);
        n += o->odd;
        o->odd = n % 2;
        o->rows += (ptrdiff_t)(n / 2) * o->ld;
    } else {
        for (; c + 3 * VL < cols; c += 4 * VL)
            psi_token_pairs(4, kind, n, x + c, low + c, ldl, o->rows + c / 2, o->ld);
        for (; c < cols; c += 2 * VL)
            psi_token_pairs(2, kind, n, x + c, low + c, ldl, o->rows + c / 2, o->ld);
        o->rows += (ptrdiff_t)n * o->ld;
    }
#endif
}

/* Features f0 .. f1-1, run by run; weight is that of f0, if weighted. */
TSA_INLINE void psi_walk(const int what, const int weighted, const struct tsa_monomials *mono,
                         size_t f0, size_t f1, size_t cols, T *base, ptrdiff_t ldb, const T *weight,
                         struct psi_out *o)
{
    size_t m = 0;
    for (size_t f = f0, end; f < f1; f = end) {
        while (mono->start[m + 1] <= f)
            m++;
        end = mono->start[m + 1] < f1 ? mono->start[m + 1] : f1;
        if (m == 0) {
            T one[TSA_TILE_TOKENS];
            for (size_t c = 0; c < TSA_TILE_TOKENS; c += VL)
                v_store(one + c, v_set1(1));
            psi_emit(what, weighted, 1, cols, one, one, 0, weight, o);
        } else if (m <= mono->stored) {
            const T *low = base + (ptrdiff_t)(f - 1) * ldb; /* degrees follow one another */
            psi_emit(what, weighted, end - f, cols, base, low, ldb, weight, o);
        } else {
            const size_t *s = mono->suffix + m * (mono->d + 1), *t = s - (mono->d + 1);
            const size_t most = m - 1 > mono->stored ? TSA_PIECE : SIZE_MAX;
            const size_t last = end - mono->start[m];
            size_t p = f - mono->start[m];
            const T *w = weight;
            for (size_t i = first_index(s, mono->d, p); p < last;) {
                const size_t stop = s[i + 1] < last ? s[i + 1] : last;
                const size_t n = stop - p < most ? stop - p : most;
                const T *low = degree_t(mono, m - 1, t[i] + p - s[i], n, cols, base, ldb);
                psi_emit(what, ROW_PRODUCT | weighted, n, cols, base + (ptrdiff_t)i * ldb, low, ldb,
                         w, o);
                if (weighted)
                    w += n;
                p += n;
                i += p == s[i + 1];
            }
        }
        if (weighted)
            weight += end - f;
    }
}
