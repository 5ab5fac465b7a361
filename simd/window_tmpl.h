/* SPDX-License-Identifier: MIT */
/* The open window, token by token: weights p(q.k/a) of pairs, and their sums over values. */

struct score_args {
    size_t width;
    const T *kt;
    ptrdiff_t ldk;
    const T *qt;
    ptrdiff_t ldq;
    size_t terms;
    const T *coef;
    T *w;
    ptrdiff_t ldw;
};

/* rows = keys, lanes = queries */
TSA_INLINE void score_tile(const int rows, const int nv, const struct score_args *s, size_t i,
                           size_t t)
{
    V acc[TSA_MOST_ROWS][TSA_TILE_VECTORS];
    TSA_TILE_EACH(rows, nv) acc[r][c] = v_zero();
    const T *a = s->kt + i, *b = s->qt + t;
    for (size_t n = s->width; n > 0; n--, a += s->ldk, b += s->ldq)
        TSA_TILE_STEP(rows, nv, a, 1, b);
    T *out = s->w + (ptrdiff_t)i * s->ldw + t;
    const V top = v_set1(s->coef[s->terms - 1]);
    if (s->terms == 3) {
        const V c1 = v_set1(s->coef[1]), c0 = v_set1(s->coef[0]);
        TSA_TILE_EACH(rows, nv)
        v_store(out + r * s->ldw + c * VL, v_fma(v_fma(top, acc[r][c], c1), acc[r][c], c0));
        return;
    }
    TSA_TILE_EACH(rows, nv)
    {
        V p = top;
        for (size_t m = s->terms - 1; m > 0; m--)
            p = v_fma(p, acc[r][c], v_set1(s->coef[m - 1]));
        v_store(out + r * s->ldw + c * VL, p);
    }
}

#define X(rows, nv)                                                                                \
    static void TSA_NAME(score_##rows##x##nv)(const struct score_args *s, size_t i, size_t t)      \
    {                                                                                              \
        score_tile(rows, nv, s, i, t);                                                             \
    }
TSA_TILES(X)
#undef X

typedef void (*score_fn)(const struct score_args *, size_t, size_t);
static const score_fn score_table[TSA_TILE_VECTORS + 1][TSA_MOST_ROWS + 1] = {
#define X(rows, nv) [nv][rows] = TSA_NAME(score_##rows##x##nv),
    TSA_TILES(X)
#undef X
};

static void scores(size_t keys, size_t queries, size_t width, const T *kt, ptrdiff_t ldk, const T *qt,
            ptrdiff_t ldq, size_t terms, const T *coef, T *w, ptrdiff_t ldw, ptrdiff_t diag)
{
    const struct score_args s = {width, kt, ldk, qt, ldq, terms, coef, w, ldw};
    const size_t vectors = (queries + VL - 1) / VL;
    for (size_t panel = 0; panel < vectors; panel += TSA_TILE_VECTORS) {
        const size_t end =
            vectors - panel < TSA_TILE_VECTORS ? vectors : panel + TSA_TILE_VECTORS;
        for (size_t i = 0; i < keys;) {
            /* the first query that sees key i is i - diag */
            const ptrdiff_t seen = (ptrdiff_t)i - diag;
            size_t v = seen > 0 ? (size_t)seen / VL : 0;
            v = v < panel ? panel : v;
            if (v >= end)
                break;
            const size_t nv = end - v;
            const size_t n = tile_rows(nv, keys - i);
            score_table[nv][n](&s, i, v * VL);
            i += n;
        }
    }
}

static void window_ones(size_t keys, size_t queries, const T *w, ptrdiff_t ldw, ptrdiff_t diag, T *den,
                 int first)
{
    for (size_t t = 0; t < queries; t += 4 * VL) {
        const size_t left = (queries - t + VL - 1) / VL, nv = left < 4 ? left : 4;
        V acc[4];
        for (size_t j = 0; j < 4; j++)
            acc[j] = first || j >= nv ? v_zero() : v_load(den + t + j * VL);
        /* keys that all queries from t on see, then those of the triangle */
        const size_t past = (size_t)((ptrdiff_t)t + diag + 1), full = past < keys ? past : keys;
        const size_t last = past + 4 * VL - 1 < keys ? past + 4 * VL - 1 : keys;
        const T *p = w + t;
        size_t i = 0;
        if (nv == 4) {
            for (; i < full; i++, p += ldw) {
                acc[0] = v_add(acc[0], v_load(p));
                acc[1] = v_add(acc[1], v_load(p + VL));
                acc[2] = v_add(acc[2], v_load(p + 2 * VL));
                acc[3] = v_add(acc[3], v_load(p + 3 * VL));
            }
            for (; i < last; i++, p += ldw) {
                const ptrdiff_t k = (ptrdiff_t)(i + 1 - past);
                acc[0] = v_add_from(acc[0], v_load(p), k);
                acc[1] = v_add_from(acc[1], v_load(p + VL), k - VL);
                acc[2] = v_add_from(acc[2], v_load(p + 2 * VL), k - 2 * VL);
                acc[3] = v_add_from(acc[3], v_load(p + 3 * VL), k - 3 * VL);
            }
        } else {
            for (; i < last; i++, p += ldw) {
                const ptrdiff_t k = (ptrdiff_t)i - (ptrdiff_t)past + 1;
                acc[0] = v_add_from(acc[0], v_load(p), k);
                if (nv > 1)
                    acc[1] = v_add_from(acc[1], v_load(p + VL), k - VL);
                if (nv > 2)
                    acc[2] = v_add_from(acc[2], v_load(p + 2 * VL), k - 2 * VL);
            }
        }
        for (size_t j = 0; j < nv; j++)
            v_store(den + t + j * VL, acc[j]);
    }
}

struct window_args {
    size_t width, keys;
    ptrdiff_t diag;
    const T *w;
    ptrdiff_t ldw;
    const T *v;
    ptrdiff_t ldv;
    const T *acc;
    ptrdiff_t lda;
    int first;
    const T *den;
    T *dst;
    ptrdiff_t stride;
};

TSA_INLINE void window_tile(const int rows, const int nv, const struct window_args *p, size_t t,
                            size_t col)
{
    V acc[TSA_MOST_ROWS][TSA_TILE_VECTORS];
    const T *in = p->acc + (ptrdiff_t)t * p->lda + col;
    if (p->first) {
        TSA_TILE_EACH(rows, nv) acc[r][c] = v_zero();
    } else {
        TSA_TILE_EACH(rows, nv) acc[r][c] = v_load(in + r * p->lda + c * VL);
    }
    /* keys that all rows see, then the triangle: row r sees r keys more */
    const size_t past = (size_t)((ptrdiff_t)t + p->diag + 1);
    const size_t full = past < p->keys ? past : p->keys;
    const T *a = p->w + t, *b = p->v + col;
    for (size_t i = full; i > 0; i--, a += p->ldw, b += p->ldv)
        TSA_TILE_STEP(rows, nv, a, 1, b);
    TSA_UNROLL
    for (int s = 1; s < rows; s++) {
        if (past - 1 + (size_t)s < p->keys) {
            V b_row[TSA_TILE_VECTORS];
            TSA_UNROLL
            for (int c = 0; c < nv; c++)
                b_row[c] = v_load(b + c * VL);
            TSA_UNROLL
            for (int r = s; r < rows; r++)
                TSA_UNROLL
                for (int c = 0; c < nv; c++)
                    acc[r][c] = v_fma(v_set1(a[r]), b_row[c], acc[r][c]);
            a += p->ldw;
            b += p->ldv;
        }
    }
    const size_t left = p->width - col;
    T *out = p->dst + (ptrdiff_t)t * p->stride + (ptrdiff_t)col;
    TSA_UNROLL
    for (int r = 0; r < rows; r++) {
        const V den = v_set1(p->den[t + (size_t)r]);
        TSA_UNROLL
        for (int c = 0; c < nv; c++) {
            const V y = v_canonical(v_div(acc[r][c], den));
            if (left >= (size_t)(c + 1) * VL)
                v_store(out + r * p->stride + c * VL, y);
            else
                v_store_first(out + r * p->stride + c * VL, left - (size_t)c * VL, y);
        }
    }
}

#define X(rows, nv)                                                                                \
    static void TSA_NAME(window_##rows##x##nv)(const struct window_args *p, size_t t, size_t col)  \
    {                                                                                              \
        window_tile(rows, nv, p, t, col);                                                          \
    }
TSA_TILES(X)
#undef X

typedef void (*window_fn)(const struct window_args *, size_t, size_t);
static const window_fn window_table[TSA_TILE_VECTORS + 1][TSA_MOST_ROWS + 1] = {
#define X(rows, nv) [nv][rows] = TSA_NAME(window_##rows##x##nv),
    TSA_TILES(X)
#undef X
};

static void window(size_t rows, size_t width, size_t keys, ptrdiff_t diag, const T *w, ptrdiff_t ldw,
            const T *v, ptrdiff_t ldv, const T *acc, ptrdiff_t lda, int first, const T *den, T *dst,
            ptrdiff_t stride)
{
    const struct window_args p = {width, keys, diag,  w,   ldw, v,     ldv,
                                  acc,   lda,  first, den, dst, stride};
    const size_t vectors = (width + VL - 1) / VL;
    for (size_t c = 0; c < vectors;) {
        const size_t left = vectors - c, nv = left < TSA_TILE_VECTORS ? left : TSA_TILE_VECTORS;
        for (size_t t = 0; t < rows;) {
            const size_t n = tile_rows(nv, rows - t);
            window_table[nv][n](&p, t, c * VL);
            t += n;
        }
        c += nv;
    }
}
