/* SPDX-License-Identifier: MIT */
/* The loops of the softmax contenders. Included after contend_tmpl.h; beside what that needs:
 *   EXP_F(x)      SLEEF's exp (in the scalar unit the C library's)
 *   MAX_F(a, b)   the larger, lane by lane; TOP_F(w) is the largest lane of w
 *   REDUCE_F(p)   lane j is the sum of the lanes of p[j], j < LANES
 *   HAND_VECTORS  vectors of values that stay in registers for 6 queries at once
 */

#if defined(__clang__)
#define HAND_UNROLL _Pragma("clang loop unroll(full)")
#elif defined(__GNUC__)
#define HAND_UNROLL _Pragma("GCC unroll 16")
#else
#define HAND_UNROLL
#endif
#if defined(__GNUC__)
#define HAND_INLINE static inline __attribute__((always_inline))
#else
#define HAND_INLINE static inline
#endif

#define TILE CONTEND_TILE
#define LOAD_F(p) ((VF) * (const VU *)(p))
#define STORE_F(p, x) (*(VU *)(p) = (x))

/* e^x, for the polynomial with |x| <= 1/2: beyond degree 7 less than 2e-7 of the value is left. */
HAND_INLINE VF softmax_weight(enum contend_exp kind, VF x)
{
    if (kind != CONTEND_POLY7)
        return EXP_F(x);
    VF p = SET_F(1.0f / 5040);
    p = FMA_F(p, x, SET_F(1.0f / 720));
    p = FMA_F(p, x, SET_F(1.0f / 120));
    p = FMA_F(p, x, SET_F(1.0f / 24));
    p = FMA_F(p, x, SET_F(1.0f / 6));
    p = FMA_F(p, x, SET_F(0.5f));
    p = FMA_F(p, x, SET_F(1.0f));
    return FMA_F(p, x, SET_F(1.0f));
}

/* -- between two matrix products ------------------------------------------------------------- */

/* Take a larger maximum into account; what has been summed shrinks by it. */
static void softmax_raise(size_t visible, const float *row, float *top, float *den, size_t dv,
                          float *o)
{
    VF most = SET_F(*top);
    size_t j = 0;
    for (; j + LANES <= visible; j += LANES)
        most = MAX_F(most, LOAD_F(row + j));
    float m = TOP_F(most);
    for (; j < visible; j++)
        m = row[j] > m ? row[j] : m;
    if (m <= *top)
        return;
    const float shrink = expf(*top - m);
    *den *= shrink;
    loop_copy(1, dv, o, dv, shrink, o, dv);
    *top = m;
}

HAND_INLINE VF softmax_part(enum contend_exp kind, const float *row, VF shift)
{
    const VF x = LOAD_F(row);
    return softmax_weight(kind, kind == CONTEND_ONLINE ? (VF)(x - shift) : x);
}

HAND_INLINE void softmax_weights(enum contend_exp kind, const struct contend_scores *s)
{
    for (size_t t = 0; t < s->rows; t++) {
        const size_t visible = s->seen + t < s->keys ? s->seen + t : s->keys;
        float *row = s->p + t * s->ldp;
        VF sum = SET_F(0.0f), shift = sum;
        size_t j = 0;
        if (kind == CONTEND_ONLINE) {
            softmax_raise(visible, row, s->top + t, s->den + t, s->dv, s->o + t * s->dv);
            shift = SET_F(s->top[t]);
        }
        for (; j + 4 * LANES <= visible; j += 4 * LANES) {
            HAND_UNROLL
            for (size_t i = 0; i < 4 * LANES; i += LANES) {
                const VF w = softmax_part(kind, row + j + i, shift);
                STORE_F(row + j + i, w);
                sum += w;
            }
        }
        for (; j + LANES <= visible; j += LANES) {
            const VF w = softmax_part(kind, row + j, shift);
            STORE_F(row + j, w);
            sum += w;
        }
        if (j < visible) { /* rows have memory for whole vectors */
            VF w = softmax_part(kind, row + j, shift);
            w = MASK_F(w, loop_mask + 16 - (visible - j));
            STORE_F(row + j, w);
            sum += w;
            j += LANES;
        }
        for (; j < s->keys; j += LANES)
            STORE_F(row + j, SET_F(0.0f));
        s->den[t] += SUM_F(sum);
    }
}

/* -- by hand: tiles of 64 queries and 64 keys ------------------------------------------------ */

/* What an instance is compiled for. held: d is 16, and a query's variables stay in registers. */
struct hand_form {
    enum contend_exp kind;
    bool held, diagonal;
    size_t d;
};

/* lane i of the vector at TILE + i0 - j is -1 where query i0+i sees key j */
static const int hand_mask[2 * TILE] = {
#define HAND_ONES_8 -1, -1, -1, -1, -1, -1, -1, -1
    [TILE] = HAND_ONES_8, HAND_ONES_8, HAND_ONES_8, HAND_ONES_8,
    HAND_ONES_8,          HAND_ONES_8, HAND_ONES_8, HAND_ONES_8,
#undef HAND_ONES_8
};

/* Scores, then weights of LANES queries and `keys` keys. held: 16 variables, in registers. */
HAND_INLINE VF hand_keys(struct hand_form f, int keys, const VF *variable, const float *qt,
                         const float *k, const int *sees, float *s, VF sum)
{
    const size_t d = f.d;
    VF x[8];
    HAND_UNROLL
    for (int u = 0; u < keys; u++)
        x[u] = (f.held ? variable[0] : LOAD_F(qt)) * SET_F(k[(size_t)u * d]);
    if (f.held) {
        HAND_UNROLL
        for (size_t i = 1; i < 16; i++) {
            HAND_UNROLL
            for (int u = 0; u < keys; u++)
                x[u] = FMA_F(variable[i], SET_F(k[(size_t)u * d + i]), x[u]);
        }
    } else {
        for (size_t i = 1; i < d; i++) {
            HAND_UNROLL
            for (int u = 0; u < keys; u++)
                x[u] = FMA_F(LOAD_F(qt + i * TILE), SET_F(k[(size_t)u * d + i]), x[u]);
        }
    }
    HAND_UNROLL
    for (int u = 0; u < keys; u++) {
        VF w = softmax_weight(f.kind, x[u]);
        if (f.diagonal)
            w = MASK_F(w, sees - u);
        sum += w;
        STORE_F(s + u * TILE, w);
    }
    return sum;
}

/* s[j][t] = weight of key j for query t, den[t] += its sum over keys */
HAND_INLINE void hand_weights(struct hand_form f, size_t rows, size_t keys, const float *qt,
                              const float *k, float *s, float *den)
{
    for (size_t b = 0; b < rows; b += LANES) {
        VF variable[16], sum = LOAD_F(den + b);
        size_t j = 0;
        if (f.held) {
            HAND_UNROLL
            for (size_t i = 0; i < 16; i++)
                variable[i] = LOAD_F(qt + i * TILE + b);
        }
        for (; j + 8 <= keys; j += 8)
            sum = hand_keys(f, 8, variable, qt + b, k + j * f.d, hand_mask + TILE + b - j,
                            s + j * TILE + b, sum);
        for (; j < keys; j++)
            sum = hand_keys(f, 1, variable, qt + b, k + j * f.d, hand_mask + TILE + b - j,
                            s + j * TILE + b, sum);
        STORE_F(den + b, sum);
    }
}

/* acc[t][c] += sum_j s[j][t] v[j][c] for `rows` queries, `vectors` vectors of values */
HAND_INLINE void hand_block(int rows, int vectors, size_t keys, const float *s, const float *v,
                            size_t ldv, float *acc)
{
    VF r[6][HAND_VECTORS];
    HAND_UNROLL
    for (int i = 0; i < rows; i++) {
        HAND_UNROLL
        for (int b = 0; b < vectors; b++)
            r[i][b] = LOAD_F(acc + (size_t)i * ldv + b * LANES);
    }
    for (size_t j = 0; j < keys; j++) {
        VF x[HAND_VECTORS];
        HAND_UNROLL
        for (int b = 0; b < vectors; b++)
            x[b] = LOAD_F(v + j * ldv + b * LANES);
        HAND_UNROLL
        for (int i = 0; i < rows; i++) {
            const VF w = SET_F(s[j * TILE + i]);
            HAND_UNROLL
            for (int b = 0; b < vectors; b++)
                r[i][b] = FMA_F(w, x[b], r[i][b]);
        }
    }
    HAND_UNROLL
    for (int i = 0; i < rows; i++) {
        HAND_UNROLL
        for (int b = 0; b < vectors; b++)
            STORE_F(acc + (size_t)i * ldv + b * LANES, r[i][b]);
    }
}

/* Blocks of queries may reach beyond `rows`, where sums have no meaning. */
HAND_INLINE void hand_values(int vectors, bool diagonal, size_t rows, size_t keys, const float *s,
                             const float *v, size_t ldv, float *acc)
{
    size_t t = 0;
    for (; t + 6 <= TILE && t < rows; t += 6)
        hand_block(6, vectors, diagonal && t + 6 < keys ? t + 6 : keys, s + t, v, ldv,
                   acc + t * ldv);
    if (t < rows)
        hand_block(TILE % 6, vectors, keys, s + t, v, ldv, acc + t * ldv);
}

/* The keys of a diagonal tile are the tokens of its queries. */
HAND_INLINE void hand_tile(struct hand_form f, size_t rows, size_t ldv,
                           const struct contend_hand *w, const float *k, const float *v)
{
    const size_t keys = f.diagonal ? rows : TILE;
    size_t c = 0;
    hand_weights(f, rows, keys, w->qt, k, w->s, w->den);
    for (; c + HAND_VECTORS * LANES <= ldv; c += HAND_VECTORS * LANES)
        hand_values(HAND_VECTORS, f.diagonal, rows, keys, w->s, v + c, ldv, w->acc + c);
    for (; c < ldv; c += LANES)
        hand_values(1, f.diagonal, rows, keys, w->s, v + c, ldv, w->acc + c);
}

HAND_INLINE void hand_prefill(struct hand_form f, const struct contend_hand *w, size_t n, size_t dv,
                              const float *q, const float *k, const float *v, float *o)
{
    const struct hand_form diagonal = {f.kind, f.held, true, f.d};
    const size_t d = f.d;
    const size_t ldv = (dv + LANES - 1) / LANES * LANES;
    if (ldv != dv) {
        loop_copy(n, dv, v, dv, 1, w->v, ldv);
        v = w->v;
    }
    for (size_t r = 0; r < n; r += TILE) {
        const size_t rows = n - r < TILE ? n - r : TILE;
        memset(w->acc, 0, TILE * ldv * sizeof *w->acc);
        memset(w->den, 0, TILE * sizeof *w->den);
        for (size_t t = 0; t < TILE; t++) /* queries past the end are 0, and not put out */
            for (size_t i = 0; i < d; i++)
                w->qt[i * TILE + t] = t < rows ? q[(r + t) * d + i] * CONTEND_SCALE : 0;
        for (size_t s = 0; s < r; s += TILE)
            hand_tile(f, rows, ldv, w, k + s * d, v + s * ldv);
        hand_tile(diagonal, rows, ldv, w, k + r * d, v + r * ldv);
        for (size_t t = 0; t < rows; t++)
            loop_copy(1, dv, w->acc + t * ldv, ldv, 1 / w->den[t], o + (r + t) * dv, dv);
    }
}

/* -- by hand: one query ---------------------------------------------------------------------- */

#define HAND_STEP 32 /* keys of a stream at a time: few enough that their work overlaps */

/* LANES scores. Keys lie in rows: products of whole vectors, then their lanes are added. */
HAND_INLINE VF hand_scores(size_t d, const float *q, const float *k)
{
    VF p[LANES];
    HAND_UNROLL
    for (size_t j = 0; j < LANES; j++) {
        p[j] = d < LANES ? SET_F(0.0f) : (VF)(LOAD_F(q) * LOAD_F(k + j * d));
        for (size_t i = LANES; i + LANES <= d; i += LANES)
            p[j] = FMA_F(LOAD_F(q + i), LOAD_F(k + j * d + i), p[j]);
    }
    VF x = REDUCE_F(p);
    if (d % LANES) {
        float rest[LANES] = {0};
        for (size_t j = 0; j < LANES; j++)
            for (size_t i = d - d % LANES; i < d; i++)
                rest[j] += q[i] * k[j * d + i];
        x += LOAD_F(rest);
    }
    return x;
}

/* e[j] = weight of key j < keys; returns sum with them */
HAND_INLINE VF hand_row(enum contend_exp kind, size_t keys, size_t d, const struct contend_hand *w,
                        const float *k, float *e, VF sum)
{
    size_t j = 0;
    for (; j + LANES <= keys; j += LANES) {
        const VF x = softmax_weight(kind, hand_scores(d, w->qt, k + j * d));
        STORE_F(e + j, x);
        sum += x;
    }
    if (j < keys) { /* rows beyond those that are left are old ones */
        memcpy(w->v, k + j * d, (keys - j) * d * sizeof *k);
        VF x = softmax_weight(kind, hand_scores(d, w->qt, w->v));
        x = MASK_F(x, loop_mask + 16 - (keys - j));
        STORE_F(e + j, x);
        sum += x;
    }
    return sum;
}

/* acc[s][c] += sum_j e[s][j] v[s][j][c] for each stream s */
HAND_INLINE void hand_columns(int streams, int vectors, size_t keys, const float *e,
                              const float *const *v, size_t dv, float *acc)
{
    VF r[2][HAND_VECTORS];
    HAND_UNROLL
    for (int s = 0; s < streams; s++) {
        HAND_UNROLL
        for (int b = 0; b < vectors; b++)
            r[s][b] = LOAD_F(acc + (size_t)s * dv + b * LANES);
    }
    for (size_t j = 0; j < keys; j++) {
        HAND_UNROLL
        for (int s = 0; s < streams; s++) {
            const VF w = SET_F(e[s * HAND_STEP + j]);
            HAND_UNROLL
            for (int b = 0; b < vectors; b++)
                r[s][b] = FMA_F(w, LOAD_F(v[s] + j * dv + b * LANES), r[s][b]);
        }
    }
    HAND_UNROLL
    for (int s = 0; s < streams; s++) {
        HAND_UNROLL
        for (int b = 0; b < vectors; b++)
            STORE_F(acc + (size_t)s * dv + b * LANES, r[s][b]);
    }
}

/* `keys` keys of each stream. */
HAND_INLINE VF hand_step(struct hand_form f, int streams, size_t keys, size_t dv,
                         const struct contend_hand *w, const float *const *k, const float *const *v,
                         VF sum)
{
    for (int s = 0; s < streams; s++)
        sum = hand_row(f.kind, keys, f.d, w, k[s], w->s + s * HAND_STEP, sum);
    size_t c = 0;
    for (; c + HAND_VECTORS * LANES <= dv; c += HAND_VECTORS * LANES) {
        const float *const at[2] = {v[0] + c, v[1] + c};
        hand_columns(streams, HAND_VECTORS, keys, w->s, at, dv, w->acc + c);
    }
    for (; c + LANES <= dv; c += LANES) {
        const float *const at[2] = {v[0] + c, v[1] + c};
        hand_columns(streams, 1, keys, w->s, at, dv, w->acc + c);
    }
    for (; c < dv; c++)
        for (int s = 0; s < streams; s++)
            for (size_t j = 0; j < keys; j++)
                w->acc[(size_t)s * dv + c] += w->s[(size_t)s * HAND_STEP + j] * v[s][j * dv + c];
    return sum;
}

/* The first and the second half of the cache are read side by side. */
HAND_INLINE void hand_decode(struct hand_form f, const struct contend_hand *w, size_t n, size_t dv,
                             const float *q, const float *k, const float *v, float *o)
{
    const size_t d = f.d;
    const size_t half = n / 2 / HAND_STEP * HAND_STEP;
    VF sum = SET_F(0.0f);

    memset(w->acc, 0, 2 * dv * sizeof *w->acc);
    loop_copy(1, d, q, d, CONTEND_SCALE, w->qt, d);
    for (size_t j = 0; j < half; j += HAND_STEP) {
        const float *const ks[2] = {k + j * d, k + (half + j) * d};
        const float *const vs[2] = {v + j * dv, v + (half + j) * dv};
        sum = hand_step(f, 2, HAND_STEP, dv, w, ks, vs, sum);
    }
    for (size_t j = 2 * half; j < n; j += HAND_STEP) {
        const float *const ks[2] = {k + j * d, k}, *const vs[2] = {v + j * dv, v};
        sum = hand_step(f, 1, n - j < HAND_STEP ? n - j : HAND_STEP, dv, w, ks, vs, sum);
    }
    for (size_t c = 0; c < dv; c++)
        w->acc[c] += w->acc[dv + c];
    loop_copy(1, dv, w->acc, dv, 1 / SUM_F(sum), o, dv);
}

/* -- instances ------------------------------------------------------------------------------- */

#define SOFTMAX_WEIGHTS(name, kind)                                                                \
    static void name(const struct contend_scores *s)                                               \
    {                                                                                              \
        softmax_weights(kind, s);                                                                  \
    }
SOFTMAX_WEIGHTS(weights_online, CONTEND_ONLINE)
SOFTMAX_WEIGHTS(weights_sleef, CONTEND_SLEEF)
SOFTMAX_WEIGHTS(weights_poly7, CONTEND_POLY7)

/* d = 16, dv = 64 has an instance of its own. */
#define SOFTMAX_HAND(name, hand, kind, held)                                                       \
    static void name(const struct contend_hand *w, size_t n, size_t d, size_t dv, const float *q,  \
                     const float *k, const float *v, float *o)                                     \
    {                                                                                              \
        if (d == 16 && dv == 64)                                                                   \
            hand((struct hand_form){kind, held, false, 16}, w, n, 64, q, k, v, o);                 \
        else                                                                                       \
            hand((struct hand_form){kind, false, false, d}, w, n, dv, q, k, v, o);                 \
    }
SOFTMAX_HAND(hand_prefill_sleef, hand_prefill, CONTEND_SLEEF, true)
SOFTMAX_HAND(hand_prefill_poly7, hand_prefill, CONTEND_POLY7, true)
SOFTMAX_HAND(hand_decode_sleef, hand_decode, CONTEND_SLEEF, false)
SOFTMAX_HAND(hand_decode_poly7, hand_decode, CONTEND_POLY7, false)

#define CONTEND_UNIT(isa)                                                                          \
    const struct contend_unit contend_unit_##isa = {                                               \
        .name = #isa,                                                                              \
        .lanes = LANES,                                                                            \
        .loops = {.copy = loop_copy,                                                               \
                  .transpose = loop_transpose,                                                     \
                  .features_t = loop_features_t,                                                   \
                  .features_k = loop_features_k,                                                   \
                  .kernel = loop_kernel,                                                           \
                  .query_ones = loop_query_ones,                                                   \
                  .update_ones = loop_update_ones,                                                 \
                  .divide = loop_divide},                                                          \
        .softmax = {.weights = {weights_online, weights_sleef, weights_poly7},                     \
                    .prefill = {NULL, hand_prefill_sleef, hand_prefill_poly7},                     \
                    .decode = {NULL, hand_decode_sleef, hand_decode_poly7}},                       \
        .plain = {.absorb = plain_absorb, .find = plain_find},                                     \
    }
