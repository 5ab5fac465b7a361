/* SPDX-License-Identifier: MIT */
/* What the kernels that decode share: how many heads and vectors of their values advance together,
 * and the chains over features. Up to 16 accumulators; 8 hide the latency of the fma. Eight heads
 * only where tiles have four vectors, that is, where there are 32 registers. */

#define TSA_DECODE_HEADS 8
#define TSA_DECODE_VECTORS 8
/* The sums of a lone head may lie in memory: they are prefetched so many features before. */
#define TSA_DECODE_PREFETCH 64

/* X(heads, vectors, shared, name) for every tile to build. */
/* clang-format off */
#define TSA_DECODE_4(X, heads, shared, name)                                                       \
    X(heads, 1, shared, name##_##heads##x1) X(heads, 2, shared, name##_##heads##x2)                \
    X(heads, 3, shared, name##_##heads##x3) X(heads, 4, shared, name##_##heads##x4)
#define TSA_DECODE_MANY(X, shared, name)                                                           \
    TSA_DECODE_4(X, 2, shared, name) TSA_DECODE_4(X, 4, shared, name)                              \
    X(8, 1, shared, name##_8x1) X(8, 2, shared, name##_8x2)
#define TSA_DECODE_KINDS(X)                                                                        \
    TSA_DECODE_4(X, 1, 0, apart)                                                                   \
    X(1, 5, 0, apart_1x5) X(1, 6, 0, apart_1x6) X(1, 7, 0, apart_1x7) X(1, 8, 0, apart_1x8)        \
    TSA_DECODE_MANY(X, 0, apart) TSA_DECODE_MANY(X, 1, shared)
/* clang-format on */

/* How many heads from the first one on have its sums and its window. */
static size_t decode_same(const T *const *hi, const T *const *v, size_t heads)
{
    size_t n = 1;
    while (n < heads && hi[n] == hi[0] && v[n] == v[0])
        n++;
    return n;
}

/* How many of `left` heads advance together. */
static size_t decode_count(size_t left, size_t vectors)
{
    const bool eight = TSA_TILE_VECTORS >= 4 && left >= 8 && vectors <= 2;
    return eight ? 8 : left >= 4 ? 4 : left >= 2 ? 2 : 1;
}

/* The tile's accumulators, and its denominators. */
struct heads_sums {
    V acc[TSA_DECODE_HEADS][TSA_DECODE_VECTORS];
    T den[TSA_DECODE_HEADS];
};

/* acc[r] += a[r ld] b[r], with b[0] for all heads if they share it. */
TSA_INLINE void heads_step(const int heads, const int nv, const int shared, struct heads_sums *at,
                           const T *a, ptrdiff_t ld, const T *const *b, ptrdiff_t to)
{
    O row[TSA_DECODE_VECTORS];
    if (shared) {
        TSA_UNROLL
        for (int c = 0; c < nv; c++)
            row[c] = o_load(b[0] + to + c * VL);
    }
    TSA_UNROLL
    for (int r = 0; r < heads; r++) {
        const O x = o_set1(a[r * ld]);
        TSA_UNROLL
        for (int c = 0; c < nv; c++)
            if (shared)
                at->acc[r][c] = o_fma(x, row[c], at->acc[r][c]);
            else
                at->acc[r][c] = o_fma(x, o_load(b[r] + to + c * VL), at->acc[r][c]);
    }
}

/* What heads r .. of a call start from. */
static struct ARGS(decode_state) heads_from(const struct ARGS(decode_state) *a, size_t r)
{
    struct ARGS(decode_state) q = *a;
    q.psi += (ptrdiff_t)r * q.ldp;
    q.hi += r;
    q.ones += r;
    q.acc += (ptrdiff_t)r * q.lda;
    q.den += r;
    return q;
}

TSA_INLINE void heads_begin(const int heads, const int nv, const int with_den,
                            const struct ARGS(decode_state) *q, size_t col, struct heads_sums *at)
{
    TSA_UNROLL
    for (int r = 0; r < heads; r++) {
        at->den[r] = with_den && q->first ? 0 : q->den[r];
        TSA_UNROLL
        for (int c = 0; c < nv; c++)
            at->acc[r][c] = q->first ? v_zero() : v_load(q->acc + r * q->lda + col + c * VL);
    }
}

/* The chains over features. */
TSA_INLINE void heads_features(const int heads, const int nv, const int shared, const int with_den,
                               const struct ARGS(decode_state) *q, size_t col,
                               struct heads_sums *at)
{
    const T *hi[TSA_DECODE_HEADS], *ones[TSA_DECODE_HEADS], *psi = q->psi;
    const ptrdiff_t ldp = q->ldp, ldh = q->ldh;
    TSA_UNROLL
    for (int r = 0; r < heads; r++) {
        hi[r] = q->hi[r] + col;
        ones[r] = q->ones[r];
    }
    ptrdiff_t f = (ptrdiff_t)q->features, to = f * ldh;
    while (f-- > 0) {
        to -= ldh;
        heads_step(heads, nv, shared, at, psi + f, ldp, hi, to);
        if (heads == 1 && f >= TSA_DECODE_PREFETCH) {
            TSA_UNROLL
            for (int c = 0; c < nv; c++)
                prefetch_line(hi[0] + to - TSA_DECODE_PREFETCH * ldh + c * VL);
        }
        if (with_den) {
            TSA_UNROLL
            for (int r = 0; r < heads; r++)
                at->den[r] = o_fma1(psi[r * ldp + f], ones[shared ? 0 : r][f], at->den[r]);
        }
    }
}
