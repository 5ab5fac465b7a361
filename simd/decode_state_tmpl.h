/* SPDX-License-Identifier: MIT */
/* Queries of the folded sums in pairs by one token of several heads; decode_heads goes on from
 * there. */

TSA_INLINE void decode_state_tile(const int heads, const int nv, const int shared,
                                  const int with_den, const struct ARGS(decode_state) *q,
                                  size_t col)
{
    struct heads_sums at;
    heads_begin(heads, nv, with_den, q, col, &at);
    heads_features(heads, nv, shared, with_den, q, col, &at);
    TSA_UNROLL
    for (int r = 0; r < heads; r++) {
        TSA_UNROLL
        for (int c = 0; c < nv; c++)
            v_store(q->acc + r * q->lda + (ptrdiff_t)col + c * VL, at.acc[r][c]);
        if (with_den)
            q->den[r] = at.den[r];
    }
}

#define X(heads, nv, shared, name)                                                                 \
    static void decode_state_##name(const struct ARGS(decode_state) *q, size_t col)                \
    {                                                                                              \
        if (col == 0)                                                                              \
            decode_state_tile(heads, nv, shared, 1, q, 0);                                         \
        else                                                                                       \
            decode_state_tile(heads, nv, shared, 0, q, col);                                       \
    }
TSA_DECODE_KINDS(X)
#undef X

typedef void (*decode_state_fn)(const struct ARGS(decode_state) *, size_t);
static const decode_state_fn decode_state_table[2][TSA_DECODE_HEADS + 1][TSA_DECODE_VECTORS + 1] = {
#define X(heads, nv, shared, name) [shared][heads][nv] = decode_state_##name,
    TSA_DECODE_KINDS(X)
#undef X
};

static void decode_state(const struct ARGS(decode_state) *a)
{
    const size_t vectors = a->columns / VL;
    for (size_t r = 0, n; r < a->heads; r += n) {
        const size_t same = decode_same(a->hi + r, a->hi + r, a->heads - r);
        n = decode_count(same > 1 ? same : a->heads - r, vectors);
        const size_t widest = n == 1 ? TSA_DECODE_VECTORS : 4;
        const struct ARGS(decode_state) q = heads_from(a, r);
        for (size_t c = 0, nv; c < vectors; c += nv) {
            nv = vectors - c < widest ? vectors - c : widest;
            decode_state_table[n > 1 && same > 1][n][nv](&q, c * VL);
        }
    }
}
