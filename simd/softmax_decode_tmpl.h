/* SPDX-License-Identifier: MIT */
/* Exact softmax of one query on rows of user memory, of whole vectors. The chain over the values of
 * a tile leaves most execution units idle; meanwhile keys two tiles later go through a pipeline, VL
 * at a time: one set is transposed, the one before it normalised, the one before that multiplied, a
 * step of each chain per key, so that none waits for another. */

struct decode_keys {
    size_t count, d, steps; /* steps = d / VL, per chain and key */
    const T *k;
    ptrdiff_t stride;
    const T *q;
    T *w;               /* [3][TSA_TILE_TOKENS]: scores and weights of three tiles, cyclically */
    T *xt[3];           /* [d][VL]: the keys being transposed, normalised, multiplied */
    size_t next;        /* the first key to be transposed next, which may be past the end */
    V down[2], inverse; /* scales of the last two sets, inverse norm of the second */
};

/* Weights and values of a tile, and the sums that they are added to. */
struct decode_tile {
    size_t keys;
    const T *w, *v;
    ptrdiff_t ldv;
    int first;
    V shrink; /* multiplies acc before, unless first */
    T *acc;
};

struct decode_sums {
    V acc[TSA_DECODE_VECTORS], den;
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

/* The first of the keys that are multiplied while p->next is transposed: the pipeline has work as
 * long as this key exists. */
static size_t decode_last(const struct decode_keys *p, int l2)
{
    return p->next - (l2 ? 2 : 1) * VL;
}

/* Weights of VL keys times values, for nv vectors of columns; and the next steps of p. */
TSA_INLINE void decode_step(const int nv, const int l2, const int steps, struct decode_keys *p,
                            const T *w, const T *v, ptrdiff_t ldv, struct decode_sums *sums)
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
        sums->den = v_add(sums->den, a);
        TSA_UNROLL
        for (int c = 0; c < nv; c++)
            sums->acc[c] = v_fma(a, v_load(v + c * VL), sums->acc[c]);
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

/* Vectors of columns from col on; p, unless NULL, goes on as well. */
TSA_INLINE void decode_values(const int nv, const int l2, const int steps, struct decode_keys *p,
                              const struct decode_tile *tile, size_t col, T *den)
{
    const T *w = tile->w, *v = tile->v + col;
    const ptrdiff_t ldv = tile->ldv;
    T *acc = tile->acc + col;
    struct decode_sums s;
    s.den = v_set1(*den);
    TSA_UNROLL
    for (int c = 0; c < nv; c++)
        s.acc[c] = tile->first ? v_zero() : v_mul(v_load(acc + c * VL), tile->shrink);
    size_t i = 0;
    for (; p && i + VL <= tile->keys && decode_last(p, l2) + VL <= p->count; i += VL) {
        decode_step(nv, l2, steps, p, w + i, v, ldv, &s);
        v += VL * ldv;
    }
    for (; i < tile->keys; i++, v += ldv) {
        const V a = v_set1(w[i]);
        s.den = v_add(s.den, a);
        TSA_UNROLL
        for (int c = 0; c < nv; c++)
            s.acc[c] = v_fma(a, v_load(v + c * VL), s.acc[c]);
    }
    TSA_UNROLL
    for (int c = 0; c < nv; c++)
        v_store(acc + c * VL, s.acc[c]);
    T lane[VL];
    v_store(lane, s.den);
    *den = lane[0];
}

/* The pipeline goes on while the first columns are summed. */
TSA_INLINE void decode_key_tile(const int l2, const int steps, struct decode_keys *p,
                                const struct decode_tile *tile, size_t columns, T *den)
{
    T again = 0;
    for (size_t c = 0; c < columns; p = NULL, den = &again) {
        const size_t left = columns - c;
#define X(nv)                                                                                      \
    if (left >= nv * VL) {                                                                         \
        decode_values(nv, l2, steps, p, tile, c, den);                                             \
        c += nv * VL;                                                                              \
        continue;                                                                                  \
    }
        X(4) X(2) X(1)
#undef X
    }
}

TSA_INLINE void decode_key_tiles(const int l2, const int steps, struct decode_keys *p,
                                 const struct ARGS(softmax_decode) *a)
{
    const size_t tile = TSA_TILE_TOKENS, lead = 2 * tile;
    V shrink = v_set1(1);
    int first = a->first;
    for (size_t k = 0; k < p->count; k += tile) {
        const size_t n = p->count - k < tile ? p->count - k : tile;
        T *w = p->w + k % (3 * tile), lane[VL];
        /* keys before the first of the pipeline, and after the last whole VL of them */
        if (k == 0)
            decode_direct(p, 0, n, l2, a->kt);
        if (k == 0 && p->count > tile)
            decode_direct(p, tile, p->count < lead ? p->count - tile : tile, l2, a->kt);
        if (k >= lead && p->count - k <= tile && p->count % VL > 0)
            decode_direct(p, p->count - p->count % VL, p->count % VL, l2, a->kt);
        if (a->bounded)
            bounded_row_weights(n, w);
        else
            shrink = softmax_row_weights(n, w, first, a->max);
        v_store(lane, shrink);
        *a->den = first ? 0 : *a->den * lane[0];
        const struct decode_tile t = {.keys = n,
                                      .w = w,
                                      .v = a->v + (ptrdiff_t)k * a->ldv,
                                      .ldv = a->ldv,
                                      .first = first,
                                      .shrink = shrink,
                                      .acc = a->acc};
        decode_key_tile(l2, steps, p, &t, a->columns, a->den);
        first = 0;
    }
}

static void softmax_decode(const struct ARGS(softmax_decode) *args)
{
    const struct ARGS(softmax_decode) a = *args;
    T *xt = a.scratch + 3 * TSA_TILE_TOKENS;
    struct decode_keys p = {.count = a.keys,
                            .d = a.d,
                            .steps = a.d / VL,
                            .k = a.k,
                            .stride = a.stride,
                            .q = a.q,
                            .w = a.scratch,
                            .xt = {xt, xt + a.d * VL, xt + 2 * a.d * VL},
                            .next = 2 * TSA_TILE_TOKENS};
    p.down[0] = p.down[1] = p.inverse = v_zero();
    if (a.l2 && a.d == VL)
        decode_key_tiles(1, 1, &p, &a);
    else if (a.l2)
        decode_key_tiles(1, 0, &p, &a);
    else if (a.d == VL)
        decode_key_tiles(0, 1, &p, &a);
    else
        decode_key_tiles(0, 0, &p, &a);
}
