/* SPDX-License-Identifier: MIT */
/* Queries of the folded sums by a tile of tokens. */

TSA_INLINE void query_tile(const int rows, const int nv, const struct ARGS(query) *q, size_t t,
                           size_t col)
{
    V acc[TSA_MOST_ROWS][TSA_TILE_VECTORS];
    T *out = q->acc + (ptrdiff_t)t * q->lda + col;
    if (q->first) {
        TSA_TILE_EACH(rows, nv)
            acc[r][c] = v_zero();
    } else {
        TSA_TILE_EACH(rows, nv)
            acc[r][c] = v_load(out + r * q->lda + c * VL);
    }
    const T *a = q->psi + (ptrdiff_t)q->features * q->ldp + t;
    const T *b = q->hi + (ptrdiff_t)q->features * q->ldh + col;
    for (size_t f = q->features; f > 0; f--) {
        a -= q->ldp;
        b -= q->ldh;
        TSA_TILE_STEP(rows, nv, a, 1, b);
    }
    TSA_TILE_EACH(rows, nv)
        v_store(out + r * q->lda + c * VL, acc[r][c]);
}

#define X(rows, nv)                                                                                \
    static void query_##rows##x##nv(const struct ARGS(query) *q, size_t t, size_t col)             \
    {                                                                                              \
        query_tile(rows, nv, q, t, col);                                                           \
    }
TSA_TILES(X)
#undef X

typedef void (*query_fn)(const struct ARGS(query) *, size_t, size_t);
static const query_fn query_table[TSA_TILE_VECTORS + 1][TSA_MOST_ROWS + 1] = {
#define X(rows, nv) [nv][rows] = query_##rows##x##nv,
    TSA_TILES(X)
#undef X
};

static void query(const struct ARGS(query) *q)
{
    const size_t share = prefetch_share(q->prefetch, tile_count(q->tokens, q->columns / VL));
    for (size_t c = 0; c < q->columns;) {
        const size_t left = (q->columns - c) / VL;
        const size_t nv = left < TSA_TILE_VECTORS ? left : TSA_TILE_VECTORS;
        for (size_t t = 0; t < q->tokens;) {
            const size_t n = tile_rows(nv, q->tokens - t);
            query_table[nv][n](q, t, c);
            if (share > 0)
                prefetch_next(q->prefetch, share);
            t += n;
        }
        c += nv * VL;
    }
}

TSA_INLINE void query_ones_vectors(const int nv, size_t features, const T *psi, ptrdiff_t ldp,
                                   const T *ones, T *den, int first)
{
    V acc[8];
    TSA_UNROLL
    for (int c = 0; c < nv; c++)
        acc[c] = first ? v_zero() : v_load(den + c * VL);
    const T *a = psi + (ptrdiff_t)features * ldp;
    for (size_t f = features; f > 0; f--) {
        a -= ldp;
        const O one = o_set1(ones[f - 1]);
        TSA_UNROLL
        for (int c = 0; c < nv; c++)
            acc[c] = o_fma(o_load(a + c * VL), one, acc[c]);
    }
    TSA_UNROLL
    for (int c = 0; c < nv; c++)
        v_store(den + c * VL, acc[c]);
}

static void query_ones(size_t tokens, size_t features, const T *psi, ptrdiff_t ldp, const T *ones,
                       T *den, int first)
{
    size_t t = 0;
    for (; t + 7 * VL < tokens; t += 8 * VL)
        query_ones_vectors(8, features, psi + t, ldp, ones, den + t, first);
    for (; t + 3 * VL < tokens; t += 4 * VL)
        query_ones_vectors(4, features, psi + t, ldp, ones, den + t, first);
    for (; t + VL < tokens; t += 2 * VL)
        query_ones_vectors(2, features, psi + t, ldp, ones, den + t, first);
    for (; t < tokens; t += VL)
        query_ones_vectors(1, features, psi + t, ldp, ones, den + t, first);
}
