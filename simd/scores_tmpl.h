/* SPDX-License-Identifier: MIT */
/* Scores of every query of a tile and every key that it sees, for the window and for softmax. */

static void exp_rows(int rows, int nv, T *w, ptrdiff_t ldw)
{
    for (int r = 0; r < rows; r++)
        for (int c = 0; c < nv; c++) {
            T *x = w + r * ldw + c * VL;
            v_store(x, exp_near_zero(v_load(x)));
        }
}

/* Rows of the tile are keys, lanes are queries. */
TSA_INLINE void score_tile(const int rows, const int nv, const struct ARGS(scores) *s, size_t i,
                           size_t t)
{
    V acc[TSA_MOST_ROWS][TSA_TILE_VECTORS];
    TSA_TILE_EACH(rows, nv)
        acc[r][c] = v_zero();
    const T *a = s->kt + i, *b = s->qt + t;
    for (size_t n = s->d; n > 0; n--, a += s->ldk, b += s->ldq)
        TSA_TILE_STEP(rows, nv, a, 1, b);
    T *out = s->w + (ptrdiff_t)i * s->ldw + t;
    if (s->kind == TSA_SCORE_EXP && rows * nv >= (TSA_TILE_VECTORS > 2 ? 24 : 12)) {
        TSA_TILE_EACH(rows, nv)
            v_store(out + r * s->ldw + c * VL, exp_near_zero(acc[r][c]));
        return;
    }
    if (s->kind != TSA_SCORE_SERIES) {
        TSA_TILE_EACH(rows, nv)
            v_store(out + r * s->ldw + c * VL, acc[r][c]);
        if (s->kind == TSA_SCORE_EXP) /* small tiles are rare; inlining exp there only adds code */
            exp_rows(rows, nv, out, s->ldw);
        return;
    }
    const V top = v_set1(s->coef[s->terms - 1]);
    if (s->terms == 3) {
        const V c1 = v_set1(s->coef[1]), c0 = v_set1(s->coef[0]);
        TSA_TILE_EACH(rows, nv)
            v_store(out + r * s->ldw + c * VL, v_fma(v_fma(top, acc[r][c], c1), acc[r][c], c0));
        return;
    }
    TSA_TILE_EACH(rows, nv) {
        V p = top;
        for (size_t m = s->terms - 1; m > 0; m--)
            p = v_fma(p, acc[r][c], v_set1(s->coef[m - 1]));
        v_store(out + r * s->ldw + c * VL, p);
    }
}

#define X(rows, nv)                                                                                \
    static void score_##rows##x##nv(const struct ARGS(scores) *s, size_t i, size_t t)              \
    {                                                                                              \
        score_tile(rows, nv, s, i, t);                                                             \
    }
TSA_TILES(X)
#undef X

typedef void (*score_fn)(const struct ARGS(scores) *, size_t, size_t);
static const score_fn score_table[TSA_TILE_VECTORS + 1][TSA_MOST_ROWS + 1] = {
#define X(rows, nv) [nv][rows] = score_##rows##x##nv,
    TSA_TILES(X)
#undef X
};

static void scores(const struct ARGS(scores) *s)
{
    const size_t vectors = (s->queries + VL - 1) / VL;
    for (size_t panel = 0; panel < vectors; panel += TSA_TILE_VECTORS) {
        const size_t end = vectors - panel < TSA_TILE_VECTORS ? vectors : panel + TSA_TILE_VECTORS;
        for (size_t i = 0; i < s->keys;) {
            /* the first query that sees key i is i - diag */
            const ptrdiff_t seen = (ptrdiff_t)i - s->diag;
            size_t v = seen > 0 ? (size_t)seen / VL : 0;
            v = v < panel ? panel : v;
            if (v >= end)
                break;
            const size_t nv = end - v;
            const size_t n = tile_rows(nv, s->keys - i);
            score_table[nv][n](s, i, v * VL);
            i += n;
        }
    }
}
