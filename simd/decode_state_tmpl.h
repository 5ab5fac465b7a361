/* SPDX-License-Identifier: MIT */
/* Queries of the folded sums by one token. Its chains are long and few, one per vector of value
 * columns, so that latency counts: several query heads, all vectors of their values and the
 * denominators advance together. */

#define TSA_DECODE_HEADS 8
#define TSA_DECODE_VECTORS 8
/* The sums of a lone head may lie in memory: they are prefetched so many features before. */
#define TSA_DECODE_PREFETCH 64

TSA_INLINE void decode_tile(const int heads, const int nv, const int with_den,
                            const struct ARGS(decode_state) * q, size_t col)
{
    V acc[TSA_DECODE_HEADS][TSA_DECODE_VECTORS];
    T den[TSA_DECODE_HEADS];
    const T *hi[TSA_DECODE_HEADS], *ones[TSA_DECODE_HEADS];
    TSA_UNROLL
    for (int r = 0; r < heads; r++) {
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
        for (int r = 0; r < heads; r++) {
            const O a = o_set1(psi[r * ldp + f]);
            TSA_UNROLL
            for (int c = 0; c < nv; c++)
                acc[r][c] = o_fma(a, o_load(hi[r] + at + c * VL), acc[r][c]);
        }
        if (heads == 1 && f >= TSA_DECODE_PREFETCH) {
            TSA_UNROLL
            for (int c = 0; c < nv; c++)
                prefetch_line(hi[0] + at - TSA_DECODE_PREFETCH * ldh + c * VL);
        }
        if (with_den) {
            TSA_UNROLL
            for (int r = 0; r < heads; r++)
                den[r] = o_fma1(psi[r * ldp + f], ones[r][f], den[r]);
        }
    }
    TSA_UNROLL
    for (int r = 0; r < heads; r++) {
        TSA_UNROLL
        for (int c = 0; c < nv; c++)
            v_store(q->acc + r * q->lda + (ptrdiff_t)col + c * VL, acc[r][c]);
        if (with_den)
            q->den[r] = den[r];
    }
}

/* Up to 16 accumulators; 8 hide the latency of the fma. Eight heads only where tiles have four
 * vectors, that is, where there are 32 registers. */
#define TSA_DECODE_4(X, heads) X(heads, 1) X(heads, 2) X(heads, 3) X(heads, 4)
#define TSA_DECODE_8(X, heads)                                                                     \
    TSA_DECODE_4(X, heads) X(heads, 5) X(heads, 6) X(heads, 7) X(heads, 8)
#define TSA_DECODE_TILES(X) TSA_DECODE_8(X, 1) TSA_DECODE_4(X, 2) TSA_DECODE_4(X, 4) X(8, 1) X(8, 2)
#define X(heads, nv)                                                                               \
    static void decode_state_##heads##x##nv(const struct ARGS(decode_state) * q, size_t col)       \
    {                                                                                              \
        if (col == 0)                                                                              \
            decode_tile(heads, nv, 1, q, 0);                                                       \
        else                                                                                       \
            decode_tile(heads, nv, 0, q, col);                                                     \
    }
TSA_DECODE_TILES(X)
#undef X

typedef void (*decode_fn)(const struct ARGS(decode_state) *, size_t);
static const decode_fn decode_table[TSA_DECODE_HEADS + 1][TSA_DECODE_VECTORS + 1] = {
#define X(heads, nv) [heads][nv] = decode_state_##heads##x##nv,
    TSA_DECODE_TILES(X)
#undef X
};

static void decode_state(const struct ARGS(decode_state) * a)
{
    const size_t vectors = a->columns / VL;
    for (size_t r = 0; r < a->heads;) {
        const size_t left = a->heads - r;
        const bool eight = TSA_TILE_VECTORS >= 4 && left >= 8 && vectors <= 2;
        const size_t n = eight ? 8 : left >= 4 ? 4 : left >= 2 ? 2 : 1;
        const size_t widest = n == 1 ? TSA_DECODE_VECTORS : 4;
        struct ARGS(decode_state) q = *a;
        q.psi += (ptrdiff_t)r * q.ldp;
        q.hi += r;
        q.ones += r;
        q.acc += (ptrdiff_t)r * q.lda;
        q.den += r;
        for (size_t c = 0; c < vectors;) {
            const size_t nv = vectors - c < widest ? vectors - c : widest;
            decode_table[n][nv](&q, c * VL);
            c += nv;
        }
        r += n;
    }
}
