/* SPDX-License-Identifier: MIT */
/* The sums over the tokens of a tile, and their double-float addition to (hi, lo). */

/* (hi, lo) += (x, y): (s, e) = TwoSum(hi, x), e += lo or lo + y, then renormalised. */
TSA_INLINE void add_double(V *hi, V *lo, V x, V low)
{
    const V s = v_add(*hi, x);
    const V b = v_sub(s, *hi);
    const V e = v_add(v_add(v_sub(*hi, v_sub(s, b)), v_sub(x, b)), low);
    *hi = v_add(s, e);
    *lo = v_sub(e, v_sub(*hi, s));
}

/* (hi, lo) times e: the product and its exact rest, renormalised. */
TSA_INLINE void decay_double(V *hi, V *lo, V e)
{
    const V p = v_mul(*hi, e);
    const V r = v_add(v_fma(*hi, e, v_sub(v_zero(), p)), v_mul(*lo, e));
    *hi = v_add(p, r);
    *lo = v_sub(r, v_sub(*hi, p));
}

/* Local sums of the last register tile that are not yet in (hi, lo). A fold is ten dependent
 * additions per vector, which would hold up the end of a tile; so they are made between the steps
 * of the next tile, a vector at a time. With pairs, two at a time, of two rows: together they make
 * the vector of hi_pairs. */
struct pending_at {
    const T *next; /* in x */
    T *hi, *lo;    /* of the next vector */
    ptrdiff_t ld;
    int left, column, vectors; /* vectors to go; place in the row; vectors per row */
    T *hi_pairs;               /* place for the next pairs, or NULL */
    bool alone;                /* a tile of one row, which has no partner */
    T e;                       /* what (hi, lo) are multiplied with before */
};
struct pending {
    T x[TSA_TILE_VECTORS * TSA_MOST_ROWS * VL];
    struct pending_at at;
};

TSA_INLINE V pending_vector(const int gated, struct pending_at *p, ptrdiff_t row, int x)
{
    V h = v_load(p->hi + row), l = v_load(p->lo + row);
    if (gated)
        decay_double(&h, &l, v_set1(p->e));
    add_double(&h, &l, v_load(p->next + x * VL), l);
    v_store(p->hi + row, h);
    v_store(p->lo + row, l);
    return h;
}

#if TSA_OPERAND_PAIRS
#define PENDING_ROWS 2
TSA_INLINE void pending_rows(const int gated, struct pending_at *p)
{
    const V even = pending_vector(gated, p, 0, 0);
    V odd = v_zero();
    if (!p->alone)
        odd = pending_vector(gated, p, p->ld, p->vectors);
    if (p->hi_pairs) {
        v_store(p->hi_pairs, v_pair(even, odd));
        p->hi_pairs += VL;
    }
}
#else
#define PENDING_ROWS 1
TSA_INLINE void pending_rows(const int gated, struct pending_at *p)
{
    pending_vector(gated, p, 0, 0);
}
#endif

/* The next vector, or two. */
TSA_INLINE void pending_step(const int gated, struct pending_at *p)
{
    pending_rows(gated, p);
    const int rows = p->alone ? 1 : PENDING_ROWS;
    p->left -= rows;
    p->hi += VL;
    p->lo += VL;
    p->next += VL;
    if (++p->column == p->vectors) {
        const ptrdiff_t row = p->vectors * VL, wrap = rows * p->ld - row;
        p->column = 0;
        p->hi += wrap;
        p->lo += wrap;
        p->next += (rows - 1) * row;
        if (p->hi_pairs)
            p->hi_pairs += p->ld - row;
    }
}

struct update_tiles {
    size_t tokens;
    const T *phi, *v;
    ptrdiff_t ldv;
    const T *from; /* NULL: from +0 */
    ptrdiff_t ldf;
    T *hi, *lo; /* hi alone: local sums */
    ptrdiff_t ldh;
    T *hi_pairs;
    struct pending *pending; /* NULL: sums are stored to hi, not added to (hi, lo) */
};

TSA_INLINE void update_tile(const int rows, const int nv, const int gated,
                            const struct update_tiles *u, size_t f, size_t col)
{
    V acc[TSA_MOST_ROWS][TSA_TILE_VECTORS];
    if (u->from) {
        const T *from = u->from + (ptrdiff_t)f * u->ldf + col;
        TSA_TILE_EACH(rows, nv)
            acc[r][c] = v_load(from + r * u->ldf + c * VL);
    } else {
        TSA_TILE_EACH(rows, nv)
            acc[r][c] = v_zero();
    }
    const T *a = u->phi + (ptrdiff_t)f * O_TOKENS, *b = u->v + col;
    const ptrdiff_t ldp = O_TOKENS, ldv = u->ldv;
    struct pending *p = u->pending;
    size_t t = u->tokens;
    if (p) {
        struct pending_at at = p->at;
        for (; t > 1 && at.left > 0; t -= 2) {
            TSA_TILE_STEP(rows, nv, a, ldp, b);
            b += ldv;
            TSA_TILE_STEP(rows, nv, a + 1, ldp, b);
            a += 2;
            b += ldv;
            pending_step(gated, &at);
        }
        p->at = at;
    }
    for (; t > 0; t--, a++, b += ldv)
        TSA_TILE_STEP(rows, nv, a, ldp, b);
    T *hi = u->hi + (ptrdiff_t)f * u->ldh + col;
    if (!p) {
        TSA_TILE_EACH(rows, nv)
            v_store(hi + r * u->ldh + c * VL, acc[r][c]);
        return;
    }
    while (p->at.left > 0)
        pending_step(gated, &p->at);
    TSA_TILE_EACH(rows, nv)
        v_store(p->x + (r * nv + c) * VL, acc[r][c]);
    p->at.next = p->x;
    p->at.hi = hi;
    p->at.lo = u->lo + (ptrdiff_t)f * u->ldh + col;
    p->at.ld = u->ldh;
    p->at.left = rows * nv;
    p->at.column = 0;
    p->at.vectors = nv;
    p->at.hi_pairs = u->hi_pairs ? u->hi_pairs + (ptrdiff_t)(f / 2) * u->ldh + col : NULL;
    p->at.alone = PENDING_ROWS == 1 || rows == 1;
}

#define X(rows, nv)                                                                                \
    static void update_##rows##x##nv(const struct update_tiles *u, size_t f, size_t col)           \
    {                                                                                              \
        update_tile(rows, nv, 0, u, f, col);                                                       \
    }                                                                                              \
    static void update_gated_##rows##x##nv(const struct update_tiles *u, size_t f, size_t col)     \
    {                                                                                              \
        update_tile(rows, nv, 1, u, f, col);                                                       \
    }
TSA_TILES(X)
#undef X

typedef void (*update_fn)(const struct update_tiles *, size_t, size_t);
static const update_fn update_table[2][TSA_TILE_VECTORS + 1][TSA_MOST_ROWS + 1] = {
#define X(rows, nv)                                                                                \
    [0][nv][rows] = update_##rows##x##nv, [1][nv][rows] = update_gated_##rows##x##nv,
    TSA_TILES(X)
#undef X
};

static void update_all(size_t features, size_t columns, const struct update_tiles *u,
                       struct tsa_prefetch *prefetch)
{
    const size_t share = prefetch_share(prefetch, tile_count(features, columns / VL));
    const int gated = u->pending && u->pending->at.e != 1;
    for (size_t c = 0; c < columns;) {
        const size_t left = (columns - c) / VL;
        const size_t nv = left < TSA_TILE_VECTORS ? left : TSA_TILE_VECTORS;
        for (size_t f = 0; f < features;) {
            const size_t n = tile_rows(nv, features - f);
            update_table[gated][nv][n](u, f, c);
            if (share > 0)
                prefetch_next(prefetch, share);
            f += n;
        }
        c += nv * VL;
    }
}

static void update(const struct ARGS(update) *a)
{
    const struct update_tiles u = {.tokens = a->tokens,
                                   .phi = a->phi,
                                   .v = a->v,
                                   .ldv = a->ldv,
                                   .from = a->first ? NULL : a->local,
                                   .ldf = a->ldl,
                                   .hi = a->local,
                                   .ldh = a->ldl};
    update_all(a->features, a->columns, &u, a->prefetch);
}

static void update_fold(const struct ARGS(update_fold) *a)
{
    struct pending pending;
    pending.at.left = 0;
    pending.at.e = a->e;
    const struct update_tiles u = {.tokens = a->tokens,
                                   .phi = a->phi,
                                   .v = a->v,
                                   .ldv = a->ldv,
                                   .from = a->local,
                                   .ldf = a->ldl,
                                   .hi = a->hi,
                                   .lo = a->lo,
                                   .ldh = a->ldh,
                                   .hi_pairs = a->hi_pairs,
                                   .pending = &pending};
    update_all(a->features, a->columns, &u, a->prefetch);
    while (pending.at.left > 0)
        pending_step(a->e != 1, &pending.at);
}
