/* SPDX-License-Identifier: MIT */
/* One token of several query heads, from the sums to the outputs: the chains over features, then
 * those over the window, then the division, all in registers. Chains are long and few, one per
 * vector of value columns, so that latency counts: several heads, all vectors of their values and
 * the denominators advance together; heads that share a state load it once. */

TSA_INLINE void heads_window(const int heads, const int nv, const int shared, const int with_den,
                             const struct ARGS(decode_heads) *q, size_t col, struct heads_sums *at)
{
    const T *v[TSA_DECODE_HEADS], *w = q->w;
    const ptrdiff_t ldw = q->ldw, ldv = q->ldv;
    size_t least = q->keys[0];
    TSA_UNROLL
    for (int r = 0; r < heads; r++) {
        v[r] = q->v[r] + col;
        least = q->keys[r] < least ? q->keys[r] : least;
    }
    size_t i = 0;
    for (; i < least; i++) {
        heads_step(heads, nv, shared, at, w + i, ldw, v, (ptrdiff_t)i * ldv);
        if (with_den) {
            TSA_UNROLL
            for (int r = 0; r < heads; r++)
                at->den[r] = at->den[r] + w[r * ldw + (ptrdiff_t)i];
        }
    }
    if (shared || heads == 1)
        return;
    TSA_UNROLL
    for (int r = 0; r < heads; r++)
        for (i = least; i < q->keys[r]; i++) {
            const T weight = w[r * ldw + (ptrdiff_t)i];
            TSA_UNROLL
            for (int c = 0; c < nv; c++)
                at->acc[r][c] = v_fma(v_set1(weight), v_load(v[r] + (ptrdiff_t)i * ldv + c * VL),
                                      at->acc[r][c]);
            if (with_den)
                at->den[r] = at->den[r] + weight;
        }
}

TSA_INLINE void heads_decay(const int heads, const int nv, const int with_den, const T *decay,
                            struct heads_sums *at)
{
    TSA_UNROLL
    for (int r = 0; r < heads; r++) {
        TSA_UNROLL
        for (int c = 0; c < nv; c++)
            at->acc[r][c] = v_mul(at->acc[r][c], v_set1(decay[r]));
        if (with_den)
            at->den[r] = at->den[r] * decay[r];
    }
}

TSA_INLINE void decode_heads_tile(const int heads, const int nv, const int shared,
                                  const int with_den, const struct ARGS(decode_heads) *q,
                                  size_t col)
{
    struct heads_sums at;
    heads_begin(heads, nv, with_den, &q->state, col, &at);
    heads_features(heads, nv, shared, with_den, &q->state, col, &at);
    if (q->decay)
        heads_decay(heads, nv, with_den, q->decay, &at);
    heads_window(heads, nv, shared, with_den, q, col, &at);
    const size_t left = q->state.columns - col;
    TSA_UNROLL
    for (int r = 0; r < heads; r++) {
        const V den = v_set1(q->finish ? finish_one(q->finish, at.den[r]) : at.den[r]);
        T *dst = q->dst[r] + col;
        TSA_UNROLL
        for (int c = 0; c < nv; c++) {
            const V y = v_canonical(v_div(at.acc[r][c], den));
            if (left >= (size_t)(c + 1) * VL)
                v_store(dst + c * VL, y);
            else
                v_store_first(dst + c * VL, left - (size_t)c * VL, y);
        }
        if (with_den)
            q->state.den[r] = at.den[r];
    }
}

#define X(heads, nv, shared, name)                                                                 \
    static void decode_heads_##name(const struct ARGS(decode_heads) *q, size_t col)                \
    {                                                                                              \
        if (col == 0)                                                                              \
            decode_heads_tile(heads, nv, shared, 1, q, 0);                                         \
        else                                                                                       \
            decode_heads_tile(heads, nv, shared, 0, q, col);                                       \
    }
TSA_DECODE_KINDS(X)
#undef X

typedef void (*decode_heads_fn)(const struct ARGS(decode_heads) *, size_t);
static const decode_heads_fn decode_heads_table[2][TSA_DECODE_HEADS + 1][TSA_DECODE_VECTORS + 1] = {
#define X(heads, nv, shared, name) [shared][heads][nv] = decode_heads_##name,
    TSA_DECODE_KINDS(X)
#undef X
};

static void decode_heads(const struct ARGS(decode_heads) *a)
{
    const struct ARGS(decode_state) *all = &a->state;
    const size_t vectors = (all->columns + VL - 1) / VL;
    for (size_t r = 0, n; r < all->heads; r += n) {
        const size_t same = decode_same(all->hi + r, a->v + r, all->heads - r);
        n = decode_count(same > 1 ? same : all->heads - r, vectors);
        const size_t widest = n == 1 ? TSA_DECODE_VECTORS : 4;
        struct ARGS(decode_heads) q = *a;
        q.state = heads_from(all, r);
        q.w += (ptrdiff_t)r * q.ldw;
        q.keys += r;
        q.v += r;
        q.dst += r;
        if (q.decay)
            q.decay += r;
        for (size_t c = 0, nv; c < vectors; c += nv) {
            nv = vectors - c < widest ? vectors - c : widest;
            decode_heads_table[n > 1 && same > 1][n][nv](&q, c * VL);
        }
    }
}
