/* SPDX-License-Identifier: MIT */
/* The sums as one token reads them. Its chains are long and few (one per value vector), so that
 * latency counts: several query heads, all vectors of their values and the denominators advance
 * together. */

#define TSA_DECODE_ROWS 8
#define TSA_DECODE_VECTORS 8
/* One row, whose sums may lie in memory, asks for them so many features ahead. */
#define TSA_DECODE_PREFETCH 64

struct decode_args {
    size_t features;
    const T *psi;
    ptrdiff_t ldp;
    const T *const *hi;
    ptrdiff_t ldh;
    const T *const *ones;
    T *acc;
    ptrdiff_t lda;
    T *den;
    int first;
};

TSA_INLINE void decode_tile(const int rows, const int nv, const int with_den,
                            const struct decode_args *q, size_t col)
{
    V acc[TSA_DECODE_ROWS][TSA_DECODE_VECTORS];
    T den[TSA_DECODE_ROWS];
    const T *hi[TSA_DECODE_ROWS], *ones[TSA_DECODE_ROWS];
    TSA_UNROLL
    for (int r = 0; r < rows; r++) {
        den[r] = with_den && !q->first ? q->den[r] : 0;
        ones[r] = q->ones[r];
        hi[r] = q->hi[r] + col;
        const T *from = q->acc + r * q->lda + col;
        TSA_UNROLL
        for (int c = 0; c < nv; c++)
            acc[r][c] = q->first ? v_zero() : v_load(from + c * VL);
    }
    const T *psi = q->psi;
    const ptrdiff_t ldp = q->ldp, ldh = q->ldh;
    ptrdiff_t f = (ptrdiff_t)q->features, at = f * ldh;
    while (f-- > 0) {
        at -= ldh;
        TSA_UNROLL
        for (int r = 0; r < rows; r++) {
            const O a = o_set1(psi[r * ldp + f]);
            TSA_UNROLL
            for (int c = 0; c < nv; c++)
                acc[r][c] = o_fma(a, o_load(hi[r] + at + c * VL), acc[r][c]);
        }
        if (rows == 1 && f >= TSA_DECODE_PREFETCH) {
            TSA_UNROLL
            for (int c = 0; c < nv; c++)
                prefetch_line(hi[0] + at - TSA_DECODE_PREFETCH * ldh + c * VL);
        }
        if (with_den) {
            TSA_UNROLL
            for (int r = 0; r < rows; r++)
                den[r] = o_fma1(psi[r * ldp + f], ones[r][f], den[r]);
        }
    }
    TSA_UNROLL
    for (int r = 0; r < rows; r++) {
        TSA_UNROLL
        for (int c = 0; c < nv; c++)
            v_store(q->acc + r * q->lda + (ptrdiff_t)col + c * VL, acc[r][c]);
        if (with_den)
            q->den[r] = den[r];
    }
}

/* Up to 16 accumulators; 8 hide the latency of the fma. Eight rows need the registers of a set that
 * has tiles of four vectors. */
#define TSA_DECODE_TILES(X)                                                                        \
    X(1, 1)                                                                                        \
    X(1, 2)                                                                                        \
    X(1, 3)                                                                                        \
    X(1, 4)                                                                                        \
    X(1, 5) X(1, 6) X(1, 7) X(1, 8) X(2, 1) X(2, 2) X(2, 3) X(2, 4) X(4, 1) X(4, 2) X(4, 3)        \
        X(4, 4) X(8, 1) X(8, 2)
#define X(rows, nv)                                                                                \
    static void TSA_NAME(decode_##rows##x##nv)(const struct decode_args *q, size_t col)            \
    {                                                                                              \
        if (col == 0)                                                                              \
            decode_tile(rows, nv, 1, q, 0);                                                        \
        else                                                                                       \
            decode_tile(rows, nv, 0, q, col);                                                      \
    }
TSA_DECODE_TILES(X)
#undef X

typedef void (*decode_fn)(const struct decode_args *, size_t);
static const decode_fn decode_table[TSA_DECODE_ROWS + 1][TSA_DECODE_VECTORS + 1] = {
#define X(rows, nv) [rows][nv] = TSA_NAME(decode_##rows##x##nv),
    TSA_DECODE_TILES(X)
#undef X
};

static void decode_state(size_t rows, size_t cols, size_t features, const T *psi, ptrdiff_t ldp,
                         const T *const *hi, ptrdiff_t ldh, const T *const *ones, T *acc,
                         ptrdiff_t lda, T *den, int first)
{
    const size_t vectors = cols / VL;
    for (size_t r = 0; r < rows;) {
        const size_t left = rows - r;
        const bool eight = TSA_TILE_VECTORS >= 4 && left >= 8 && vectors <= 2;
        const size_t n = eight ? 8 : left >= 4 ? 4 : left >= 2 ? 2 : 1;
        const size_t widest = n == 1 ? TSA_DECODE_VECTORS : 4;
        const struct decode_args q = {features, psi + (ptrdiff_t)r * ldp, ldp, hi + r,  ldh,
                                      ones + r, acc + (ptrdiff_t)r * lda, lda, den + r, first};
        for (size_t c = 0; c < vectors;) {
            const size_t nv = vectors - c < widest ? vectors - c : widest;
            decode_table[n][nv](&q, c * VL);
            c += nv;
        }
        r += n;
    }
}
