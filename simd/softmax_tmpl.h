/* SPDX-License-Identifier: MIT */
/* Exact softmax: exponentials of scores, in tiles of keys. Their tiles are those of the window. A
 * bounded tile needs no maximum; otherwise every tile has one rescale. */

static void softmax_scores(size_t keys, size_t queries, size_t width, const T *kt, ptrdiff_t ldk,
                           const T *qt, ptrdiff_t ldq, T *w, ptrdiff_t ldw, ptrdiff_t diag,
                           int bounded)
{
    const struct score_args s = {width, kt,   ldk, qt,  ldq,
                                 0,     NULL, w,   ldw, bounded ? SCORE_EXP : SCORE_ONLY};
    score_tiles(&s, keys, queries, diag);
}

/* One vector of queries, of which lane l sees keys before past + l: the new maximum; exponentials
 * are left unsummed. Returns by how much sums shrink, less 1. */
TSA_INLINE V softmax_vector(size_t keys, size_t past, T *w, ptrdiff_t ldw, int first, T *max,
                            T *den, T *shrink)
{
    const size_t full = past < keys ? past : keys, last = past + VL - 1;
    const size_t end = last < keys ? last : keys;
    V top = v_load(w), less = v_zero();
    for (size_t i = 1; i < full; i++)
        top = v_max(top, v_load(w + (ptrdiff_t)i * ldw));
    for (size_t i = full; i < end; i++)
        top = v_from(top, v_max(top, v_load(w + (ptrdiff_t)i * ldw)), (ptrdiff_t)(i - past) + 1);
    if (!first) {
        const V before = v_load(max);
        top = v_max(before, top);
        const V r = v_exp(v_sub(before, top));
        v_store(shrink, r);
        v_store(den, v_mul(v_load(den), r));
        less = v_sub(r, v_set1(1));
    }
    v_store(max, top);
    for (size_t i = 0; i < end; i++) {
        T *p = w + (ptrdiff_t)i * ldw;
        v_store(p, v_exp(v_sub(v_load(p), top)));
    }
    return less;
}

static int softmax_weights(size_t keys, size_t queries, T *w, ptrdiff_t ldw, ptrdiff_t diag,
                           int first, T *max, T *den, T *shrink)
{
    V less = v_zero();
    for (size_t t = 0; t < queries; t += VL)
        less = v_absmax(less, softmax_vector(keys, (size_t)((ptrdiff_t)t + diag + 1), w + t, ldw,
                                             first, max + t, den + t, shrink + t));
    window_ones(keys, queries, w, ldw, diag, den, first);
    return s_absmax(less) != 0;
}

static void softmax_values(size_t rows, size_t cols, size_t keys, ptrdiff_t diag, const T *w,
                           ptrdiff_t ldw, const T *v, ptrdiff_t ldv, T *acc, ptrdiff_t lda,
                           int first, const T *shrink)
{
    const struct window_args p = {cols, keys, diag,  w,      ldw,  v,   ldv,
                                  acc,  lda,  first, shrink, NULL, acc, lda};
    window_tiles(&p, rows);
}

/* One query row on up to TSA_TILE_TOKENS keys. */

static void plain_scores(size_t keys, size_t d, const T *kt, ptrdiff_t ldk, const T *q, T *x)
{
    /* with the coefficients of p(x) = x, and adding +0, weights are the scores */
    static const T identity[2] = {0, 1};
    decode_scores(keys, d, kt, ldk, q, 2, identity, x);
}

TSA_INLINE void softmax_row_vectors(const int nv, size_t keys, const T *w, const T *v,
                                    ptrdiff_t ldv, int first, V shrink, T *acc, T *den)
{
    V s[TSA_DECODE_VECTORS];
    TSA_UNROLL
    for (int c = 0; c < nv; c++)
        s[c] = first ? v_zero() : v_mul(v_load(acc + c * VL), shrink);
    T sum = den ? *den : 0;
    for (size_t i = 0; i < keys; i++) {
        const V a = v_set1(w[i]);
        sum = sum + w[i];
        TSA_UNROLL
        for (int c = 0; c < nv; c++)
            s[c] = v_fma(a, v_load(v + (ptrdiff_t)i * ldv + c * VL), s[c]);
    }
    TSA_UNROLL
    for (int c = 0; c < nv; c++)
        v_store(acc + c * VL, s[c]);
    if (den)
        *den = sum;
}

/* Scores become weights; returns what multiplies the sums so far. */
static V softmax_row_weights(size_t keys, T *w, int first, T *max)
{
    T top = w[0];
    size_t i = VL <= keys ? VL : 0;
    if (i > 0) {
        V m = v_load(w);
        for (; i + VL <= keys; i += VL)
            m = v_max(m, v_load(w + i));
        T lane[VL];
        v_store(lane, m);
        for (int l = 0; l < VL; l++)
            top = lane[l] > top ? lane[l] : top;
    }
    for (; i < keys; i++)
        top = w[i] > top ? w[i] : top;
    V shrink = v_set1(1);
    if (!first && *max != top) {
        top = *max > top ? *max : top;
        shrink = v_exp(v_set1(*max - top));
    }
    *max = top;
    const V m = v_set1(top);
    for (i = 0; i < keys; i += VL)
        v_store(w + i, v_exp(v_sub(v_load(w + i), m)));
    return shrink;
}

static void softmax_row(size_t keys, size_t d, const T *kt, ptrdiff_t ldk, const T *q, int bounded,
                        size_t cols, const T *v, ptrdiff_t ldv, int first, T *max, T *den, T *acc,
                        T *w)
{
    plain_scores(keys, d, kt, ldk, q, w);
    V shrink = v_set1(1);
    if (bounded)
        for (size_t i = 0; i < keys; i += VL)
            v_store(w + i, exp_near_zero(v_load(w + i)));
    else
        shrink = softmax_row_weights(keys, w, first, max);
    if (first) {
        *den = 0;
    } else {
        T lane[VL];
        v_store(lane, shrink);
        *den *= lane[0];
    }
    for (size_t c = 0; c < cols;) {
        const size_t left = cols - c;
        T *sum = c == 0 ? den : NULL;
#define X(nv)                                                                                      \
    if (left >= nv * VL) {                                                                         \
        softmax_row_vectors(nv, keys, w, v + c, ldv, first, shrink, acc + c, sum);                 \
        c += nv * VL;                                                                              \
        continue;                                                                                  \
    }
        X(8) X(4) X(3) X(2) X(1)
#undef X
    }
}

/* One query row on rows of user memory, of whole vectors. The chain over the values of a tile
 * leaves most units idle; meanwhile keys two tiles ahead go through a pipeline, VL at a time: one
 * set is transposed, the one before it normalised, the one before that multiplied, a step of each
 * chain per key, so that none waits for another. */

struct decode_keys {
    size_t count, d, steps; /* steps = d / VL, per chain and key */
    const T *k;
    ptrdiff_t stride;
    const T *q;
    T *w;               /* [3][TSA_TILE_TOKENS]: scores and weights, in turn */
    T *xt[3];           /* [d][VL]: the keys being transposed, normalised, multiplied */
    size_t next;        /* first key of the keys to be transposed, which may be past the end */
    V down[2], inverse; /* scales of the last two sets, inverse norm of the second */
};

/* xt[c][lane] = k[lane][c]; returns magnitudes. */
TSA_INLINE V transpose_keys(const struct decode_keys *p, T *xt)
{
    const T *k = p->k + (ptrdiff_t)p->next * p->stride;
    V m = v_zero();
    for (size_t c = 0; c < p->d; c += VL)
        m = transpose_full(k + c, p->stride, xt + c * VL, VL, m);
    return m;
}

/* Scores of n keys from `key` on, n <= TSA_TILE_TOKENS, at once. kt[d][TSA_TILE_TOKENS]. */
static void decode_direct(const struct decode_keys *p, size_t key, size_t n, int l2, T *kt)
{
    pack_t(n, p->d, p->k + (ptrdiff_t)key * p->stride, p->stride, l2, 1, kt, TSA_TILE_TOKENS);
    plain_scores(n, p->d, kt, TSA_TILE_TOKENS, p->q, p->w + key % (3 * TSA_TILE_TOKENS));
}

/* First key of the keys that is multiplied while p->next is transposed: the pipeline is busy while
 * there is one. */
static size_t decode_last(const struct decode_keys *p, int l2)
{
    return p->next - (l2 ? 2 : 1) * VL;
}

/* acc += weights of VL keys times values, for nv vectors of columns; and the next steps of p. */
TSA_INLINE void decode_step(const int nv, const int l2, const int steps, struct decode_keys *p,
                            const T *w, const T *v, ptrdiff_t ldv, V *acc, V *sum)
{
    const size_t n = steps ? (size_t)steps : p->steps, tile = TSA_TILE_TOKENS;
    T *raw = p->xt[0], *norm = p->xt[1], *mult = l2 ? p->xt[2] : norm;
    const T *y = norm, *z = mult, *q = p->q;
    const V down0 = p->down[0], down1 = p->down[1], inverse = p->inverse;
    V m = v_zero(), s = v_zero(), x = v_zero();
    if (p->next + VL <= p->count)
        m = transpose_keys(p, raw);
    TSA_UNROLL
    for (int j = 0; j < VL; j++, v += ldv) {
        const V a = v_set1(w[j]);
        *sum = v_add(*sum, a);
        TSA_UNROLL
        for (int c = 0; c < nv; c++)
            acc[c] = v_fma(a, v_load(v + c * VL), acc[c]);
        for (size_t c = 0; c < n; c++, y += VL, z += VL, q++) {
            if (l2) {
                const V b = v_mul(v_load(y), down0);
                s = v_fma(b, b, s);
                x = v_fma(v_set1(*q), v_mul(v_mul(v_load(z), down1), inverse), x);
            } else {
                x = v_fma(v_set1(*q), v_load(z), x);
            }
        }
    }
    /* stored in any case, else the compiler moves the chain behind a branch */
    const size_t done = decode_last(p, l2);
    v_store(done >= 2 * tile ? p->w + done % (3 * tile) : mult, x);
    if (l2) {
        p->down[1] = down0;
        p->down[0] = v_inverse_scale(m);
        p->inverse = inverse_norm(s);
    }
    p->xt[0] = mult;
    p->xt[1] = raw;
    p->xt[2] = norm;
    p->next += VL;
}

TSA_INLINE void decode_values(const int nv, const int l2, const int steps, struct decode_keys *p,
                              size_t n, const T *w, const T *v, ptrdiff_t ldv, int first, V shrink,
                              T *acc, T *den)
{
    V s[TSA_DECODE_VECTORS], sum = v_set1(*den);
    TSA_UNROLL
    for (int c = 0; c < nv; c++)
        s[c] = first ? v_zero() : v_mul(v_load(acc + c * VL), shrink);
    size_t i = 0;
    for (; p && i + VL <= n && decode_last(p, l2) + VL <= p->count; i += VL) {
        decode_step(nv, l2, steps, p, w + i, v, ldv, s, &sum);
        v += VL * ldv;
    }
    for (; i < n; i++, v += ldv) {
        const V a = v_set1(w[i]);
        sum = v_add(sum, a);
        TSA_UNROLL
        for (int c = 0; c < nv; c++)
            s[c] = v_fma(a, v_load(v + c * VL), s[c]);
    }
    TSA_UNROLL
    for (int c = 0; c < nv; c++)
        v_store(acc + c * VL, s[c]);
    T lane[VL];
    v_store(lane, sum);
    *den = lane[0];
}

TSA_INLINE void decode_key_tile(const int l2, const int steps, struct decode_keys *p, size_t n,
                                size_t cols, const T *w, const T *v, ptrdiff_t ldv, int first,
                                V shrink, T *acc, T *den)
{
    T again = 0;
    for (size_t c = 0; c < cols; p = NULL, den = &again) {
        const size_t left = cols - c;
#define X(nv)                                                                                      \
    if (left >= nv * VL) {                                                                         \
        decode_values(nv, l2, steps, p, n, w, v + c, ldv, first, shrink, acc + c, den);            \
        c += nv * VL;                                                                              \
        continue;                                                                                  \
    }
        X(4) X(2) X(1)
#undef X
    }
}

TSA_INLINE void decode_key_tiles(const int l2, const int steps, struct decode_keys *p, int bounded,
                                 size_t cols, const T *v, ptrdiff_t ldv, int first, T *max, T *den,
                                 T *acc, T *kt)
{
    const size_t tile = TSA_TILE_TOKENS, lead = 2 * tile;
    V shrink = v_set1(1);
    for (size_t k = 0; k < p->count; k += tile) {
        const size_t n = p->count - k < tile ? p->count - k : tile;
        T *w = p->w + k % (3 * tile), lane[VL];
        /* keys before the first VL, and after the last whole one */
        if (k == 0)
            decode_direct(p, 0, n, l2, kt);
        if (k == 0 && p->count > tile)
            decode_direct(p, tile, p->count < lead ? p->count - tile : tile, l2, kt);
        if (k >= lead && p->count - k <= tile && p->count % VL > 0)
            decode_direct(p, p->count - p->count % VL, p->count % VL, l2, kt);
        if (bounded)
            for (size_t i = 0; i < n; i += VL)
                v_store(w + i, exp_near_zero(v_load(w + i)));
        else
            shrink = softmax_row_weights(n, w, first, max);
        v_store(lane, shrink);
        *den = first ? 0 : *den * lane[0];
        decode_key_tile(l2, steps, p, n, cols, w, v + (ptrdiff_t)k * ldv, ldv, first, shrink, acc,
                        den);
        first = 0;
    }
}

static void softmax_decode(size_t keys, size_t d, const T *k, ptrdiff_t stride, int l2, const T *q,
                           int bounded, size_t cols, const T *v, ptrdiff_t ldv, int first, T *max,
                           T *den, T *acc, T *kt, T *scratch)
{
    T *xt = scratch + 3 * TSA_TILE_TOKENS;
    struct decode_keys p = {.count = keys,
                            .d = d,
                            .steps = d / VL,
                            .k = k,
                            .stride = stride,
                            .q = q,
                            .w = scratch,
                            .xt = {xt, xt + d * VL, xt + 2 * d * VL},
                            .next = 2 * TSA_TILE_TOKENS};
    p.down[0] = p.down[1] = p.inverse = v_zero();
    if (l2 && d == VL)
        decode_key_tiles(1, 1, &p, bounded, cols, v, ldv, first, max, den, acc, kt);
    else if (l2)
        decode_key_tiles(1, 0, &p, bounded, cols, v, ldv, first, max, den, acc, kt);
    else if (d == VL)
        decode_key_tiles(0, 1, &p, bounded, cols, v, ldv, first, max, den, acc, kt);
    else
        decode_key_tiles(0, 0, &p, bounded, cols, v, ldv, first, max, den, acc, kt);
}

static void softmax_combine(size_t cols, int bounded, T max2, T den2, const T *acc2, T *max, T *den,
                            T *acc)
{
    if (bounded) {
        *den += den2;
        for (size_t c = 0; c < cols; c += VL)
            v_store(acc + c, v_add(v_load(acc + c), v_load(acc2 + c)));
        return;
    }
    const T top = *max > max2 ? *max : max2;
    const V r1 = v_exp(v_set1(*max - top)), r2 = v_exp(v_set1(max2 - top));
    T one[VL], two[VL];
    v_store(one, r1);
    v_store(two, r2);
    *max = top;
    *den = s_fma(den2, two[0], *den * one[0]);
    for (size_t c = 0; c < cols; c += VL)
        v_store(acc + c, v_fma(v_load(acc2 + c), r2, v_mul(v_load(acc + c), r1)));
}

static void divide(size_t width, const T *acc, T sum, T *dst)
{
    for (size_t c = 0; c < width; c += VL) {
        const size_t n = width - c < VL ? width - c : VL;
        v_store_first(dst + c, n, v_canonical(v_div(v_load_first(acc + c, n), v_set1(sum))));
    }
}
