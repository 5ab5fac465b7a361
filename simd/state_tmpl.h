/* SPDX-License-Identifier: MIT */
/* The state: query of the folded sums, and the sums of a chunk. One register tile carries both:
 * rows x vectors accumulators, each one fma chain in the order of the arithmetic; `rows` values of
 * a are broadcast against `vectors` loads of b. Operands are of type O, elements or pairs. */

/* acc[r][c] = fma(a[r], b[c], acc[r][c]) */
#define TSA_TILE_STEP(rows_, nv_, a_, rs_, b_)                                                     \
    do {                                                                                           \
        O b_row[TSA_TILE_VECTORS];                                                                 \
        TSA_UNROLL                                                                                 \
        for (int c_ = 0; c_ < (nv_); c_++)                                                         \
            b_row[c_] = o_load((b_) + c_ * VL);                                                    \
        TSA_UNROLL                                                                                 \
        for (int r_ = 0; r_ < (rows_); r_++) {                                                     \
            const O a_r = o_set1((a_)[r_ * (rs_)]);                                                \
            TSA_UNROLL                                                                             \
            for (int c_ = 0; c_ < (nv_); c_++)                                                     \
                acc[r_][c_] = o_fma(a_r, b_row[c_], acc[r_][c_]);                                  \
        }                                                                                          \
    } while (0)

#define TSA_TILE_EACH(rows_, nv_)                                                                  \
    TSA_UNROLL                                                                                     \
    for (int r = 0; r < (rows_); r++)                                                              \
        TSA_UNROLL                                                                                 \
    for (int c = 0; c < (nv_); c++)

/* -- query -- */

struct query_args {
    size_t features;
    const T *psi;
    ptrdiff_t ldp;
    const T *hi;
    ptrdiff_t ldh;
    T *acc;
    ptrdiff_t lda;
    int first;
};

TSA_INLINE void query_tile(const int rows, const int nv, const struct query_args *q, size_t t,
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
    static void TSA_NAME(query_##rows##x##nv)(const struct query_args *q, size_t t, size_t col)    \
    {                                                                                              \
        query_tile(rows, nv, q, t, col);                                                           \
    }
TSA_TILES(X)
#undef X

typedef void (*query_fn)(const struct query_args *, size_t, size_t);
static const query_fn query_table[TSA_TILE_VECTORS + 1][TSA_MOST_ROWS + 1] = {
#define X(rows, nv) [nv][rows] = TSA_NAME(query_##rows##x##nv),
    TSA_TILES(X)
#undef X
};

static void query(size_t rows, size_t cols, size_t features, const T *psi, ptrdiff_t ldp,
                  const T *hi, ptrdiff_t ldh, T *acc, ptrdiff_t lda, int first,
                  struct tsa_prefetch *prefetch)
{
    const struct query_args q = {features, psi, ldp, hi, ldh, acc, lda, first};
    const size_t share = prefetch_share(prefetch, tile_count(rows, cols / VL));
    for (size_t c = 0; c < cols;) {
        const size_t left = (cols - c) / VL, nv = left < TSA_TILE_VECTORS ? left : TSA_TILE_VECTORS;
        for (size_t t = 0; t < rows;) {
            const size_t n = tile_rows(nv, rows - t);
            query_table[nv][n](&q, t, c);
            if (share > 0)
                prefetch_next(prefetch, share);
            t += n;
        }
        c += nv * VL;
    }
}

TSA_INLINE void ones_vectors(const int nv, size_t features, const T *psi, ptrdiff_t ldp,
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

static void query_ones(size_t rows, size_t features, const T *psi, ptrdiff_t ldp, const T *ones,
                       T *den, int first)
{
    size_t t = 0;
    for (; t + 7 * VL < rows; t += 8 * VL)
        ones_vectors(8, features, psi + t, ldp, ones, den + t, first);
    for (; t + 3 * VL < rows; t += 4 * VL)
        ones_vectors(4, features, psi + t, ldp, ones, den + t, first);
    for (; t + VL < rows; t += 2 * VL)
        ones_vectors(2, features, psi + t, ldp, ones, den + t, first);
    for (; t < rows; t += VL)
        ones_vectors(1, features, psi + t, ldp, ones, den + t, first);
}

/* -- update -- */

/* (hi, lo) += (x, y): (s, e) = TwoSum(hi, x), e += lo or lo + y, then renormalised. */
TSA_INLINE void add_double(V *hi, V *lo, V x, V low)
{
    const V s = v_add(*hi, x);
    const V b = v_sub(s, *hi);
    const V e = v_add(v_add(v_sub(*hi, v_sub(s, b)), v_sub(x, b)), low);
    *hi = v_add(s, e);
    *lo = v_sub(e, v_sub(*hi, s));
}

/* Local sums of the last tile that are not yet in (hi, lo). A fold is ten dependent additions per
 * vector, which would hold up the end of a tile; so they are made between the steps of the next
 * tile: a vector at a time, or of pairs of rows, which may have to be hi_pairs, two. */
struct pending_at {
    const T *next; /* in x */
    T *hi, *lo;    /* of the next vector */
    ptrdiff_t ld;
    int left, column, vectors; /* vectors to go; place in the row; vectors per row */
    T *hi_pairs;               /* place for the next pairs, or NULL */
    bool alone;                /* a tile of one row, which has no partner */
};
struct pending {
    T x[TSA_TILE_VECTORS * TSA_MOST_ROWS * VL];
    struct pending_at at;
};

TSA_INLINE V pending_vector(struct pending_at *p, ptrdiff_t row, int x)
{
    V h = v_load(p->hi + row), l = v_load(p->lo + row);
    add_double(&h, &l, v_load(p->next + x * VL), l);
    v_store(p->hi + row, h);
    v_store(p->lo + row, l);
    return h;
}

#ifdef TSA_OPERAND_PAIRS
#define PENDING_VECTORS 2
#else
#define PENDING_VECTORS 1
#endif
TSA_INLINE void pending_some(struct pending_at *p)
{
#ifdef TSA_OPERAND_PAIRS
    const V even = pending_vector(p, 0, 0);
    V odd = v_zero();
    if (!p->alone)
        odd = pending_vector(p, p->ld, p->vectors);
    if (p->hi_pairs) {
        v_store(p->hi_pairs, v_pair(even, odd));
        p->hi_pairs += VL;
    }
#else
    pending_vector(p, 0, 0);
#endif
    const int rows = p->alone ? 1 : PENDING_VECTORS;
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

struct update_args {
    size_t rows;
    const T *phi, *v;
    ptrdiff_t ldv;
    const T *from; /* NULL: from +0 */
    ptrdiff_t ldf;
    T *hi, *lo; /* hi alone: local sums */
    ptrdiff_t ldh;
    T *hi_pairs;
    struct pending *pending;
};

TSA_INLINE void update_tile(const int rows, const int nv, const struct update_args *u, size_t f,
                            size_t col)
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
    size_t t = u->rows;
    if (p) {
        struct pending_at at = p->at;
        for (; t > 1 && at.left > 0; t -= 2) {
            TSA_TILE_STEP(rows, nv, a, ldp, b);
            b += ldv;
            TSA_TILE_STEP(rows, nv, a + 1, ldp, b);
            a += 2;
            b += ldv;
            pending_some(&at);
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
        pending_some(&p->at);
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
    p->at.alone = PENDING_VECTORS == 1 || rows == 1;
}

#define X(rows, nv)                                                                                \
    static void TSA_NAME(update_##rows##x##nv)(const struct update_args *u, size_t f, size_t col)  \
    {                                                                                              \
        update_tile(rows, nv, u, f, col);                                                          \
    }
TSA_TILES(X)
#undef X

typedef void (*update_fn)(const struct update_args *, size_t, size_t);
static const update_fn update_table[TSA_TILE_VECTORS + 1][TSA_MOST_ROWS + 1] = {
#define X(rows, nv) [nv][rows] = TSA_NAME(update_##rows##x##nv),
    TSA_TILES(X)
#undef X
};

static void update_all(size_t features, size_t cols, const struct update_args *u,
                       struct tsa_prefetch *prefetch)
{
    const size_t share = prefetch_share(prefetch, tile_count(features, cols / VL));
    for (size_t c = 0; c < cols;) {
        const size_t left = (cols - c) / VL, nv = left < TSA_TILE_VECTORS ? left : TSA_TILE_VECTORS;
        for (size_t f = 0; f < features;) {
            const size_t n = tile_rows(nv, features - f);
            update_table[nv][n](u, f, c);
            if (share > 0)
                prefetch_next(prefetch, share);
            f += n;
        }
        c += nv * VL;
    }
}

static void update(size_t features, size_t cols, size_t rows, const T *phi, const T *v,
                   ptrdiff_t ldv, T *local, ptrdiff_t ldl, int first, struct tsa_prefetch *prefetch)
{
    const struct update_args u = {rows, phi, v,    ldv, first ? NULL : local, ldl, local,
                                  NULL, ldl, NULL, NULL};
    update_all(features, cols, &u, prefetch);
}

static void update_fold(size_t features, size_t cols, size_t rows, const T *phi, const T *v,
                        ptrdiff_t ldv, const T *local, ptrdiff_t ldl, T *hi, T *lo, ptrdiff_t ldh,
                        T *hi_pairs, struct tsa_prefetch *prefetch)
{
    struct pending pending;
    pending.at.left = 0;
    const struct update_args u = {rows, phi, v, ldv, local, ldl, hi, lo, ldh, hi_pairs, &pending};
    update_all(features, cols, &u, prefetch);
    while (pending.at.left > 0)
        pending_some(&pending.at);
}
#undef PENDING_VECTORS
