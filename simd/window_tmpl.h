/* SPDX-License-Identifier: MIT */
/* Sums of weights and of weighted values, over the keys that each query of a tile sees. */

/* Keys i0 .. i1-1 added to vectors j .. nv-1; vector j only in lanes >= k, k+1, ... if masked. */
TSA_INLINE void window_ones_keys(const int j, const int masked, const int nv, size_t i0, size_t i1,
                                 const T *w, ptrdiff_t ldw, V *acc)
{
    const T *p = w + (ptrdiff_t)i0 * ldw;
    ptrdiff_t k = 1;
    for (size_t i = i0; i < i1; i++, p += ldw, k++) {
        TSA_UNROLL
        for (int c = j; c < nv; c++) {
            const V x = v_load(p + c * VL);
            const V sum = v_add(acc[c], x);
            acc[c] = masked && c == j ? v_from(acc[c], sum, k) : sum;
        }
    }
}

TSA_INLINE void window_ones_vectors(const int nv, size_t keys, const T *w, ptrdiff_t ldw,
                                    size_t past, T *den, int first)
{
    V acc[4];
    TSA_UNROLL
    for (int c = 0; c < nv; c++)
        acc[c] = first ? v_zero() : v_load(den + c * VL);
    /* keys before `past` are seen by all queries; then each vector has its own triangle */
    window_ones_keys(0, 0, nv, 0, past < keys ? past : keys, w, ldw, acc);
    TSA_UNROLL
    for (int j = 0; j < nv; j++) {
        const size_t i0 = past + (size_t)j * VL, i1 = i0 + VL;
        if (i0 < keys)
            window_ones_keys(j, 1, nv, i0, i1 < keys ? i1 : keys, w, ldw, acc);
    }
    TSA_UNROLL
    for (int c = 0; c < nv; c++)
        v_store(den + c * VL, acc[c]);
}

static void window_ones(size_t keys, size_t queries, const T *w, ptrdiff_t ldw, ptrdiff_t diag,
                        T *den, int first)
{
    size_t t = 0;
    for (; t + 3 * VL < queries; t += 4 * VL)
        window_ones_vectors(4, keys, w + t, ldw, (size_t)((ptrdiff_t)t + diag + 1), den + t, first);
    for (; t < queries; t += VL)
        window_ones_vectors(1, keys, w + t, ldw, (size_t)((ptrdiff_t)t + diag + 1), den + t, first);
}

TSA_INLINE void window_tile(const int rows, const int nv, const struct ARGS(window) *p, size_t t,
                            size_t col)
{
    V acc[TSA_MOST_ROWS][TSA_TILE_VECTORS];
    const T *in = p->acc + (ptrdiff_t)t * p->lda + col;
    if (p->first) {
        TSA_TILE_EACH(rows, nv)
            acc[r][c] = v_zero();
    } else {
        TSA_TILE_EACH(rows, nv)
            acc[r][c] = v_load(in + r * p->lda + c * VL);
        if (p->shrink)
            TSA_TILE_EACH(rows, nv)
                acc[r][c] = v_mul(acc[r][c], v_set1(p->shrink[t + (size_t)r]));
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
            for (int r = 1; r < rows; r++)
                TSA_UNROLL
            for (int c = 0; c < nv; c++)
                if (r >= s)
                    acc[r][c] = v_fma(v_set1(a[r]), b_row[c], acc[r][c]);
            a += p->ldw;
            b += p->ldv;
        }
    }
    const size_t left = p->columns - col;
    T *out = p->dst + (ptrdiff_t)t * p->stride + (ptrdiff_t)col;
    if (!p->den) {
        TSA_TILE_EACH(rows, nv)
            v_store(out + r * p->stride + c * VL, acc[r][c]);
        return;
    }
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
    static void window_##rows##x##nv(const struct ARGS(window) *p, size_t t, size_t col)           \
    {                                                                                              \
        window_tile(rows, nv, p, t, col);                                                          \
    }
TSA_TILES(X)
#undef X

typedef void (*window_fn)(const struct ARGS(window) *, size_t, size_t);
static const window_fn window_table[TSA_TILE_VECTORS + 1][TSA_MOST_ROWS + 1] = {
#define X(rows, nv) [nv][rows] = window_##rows##x##nv,
    TSA_TILES(X)
#undef X
};

static void window(const struct ARGS(window) *p)
{
    const size_t vectors = (p->columns + VL - 1) / VL;
    for (size_t c = 0; c < vectors;) {
        const size_t left = vectors - c, nv = left < TSA_TILE_VECTORS ? left : TSA_TILE_VECTORS;
        for (size_t t = 0; t < p->queries;) {
            const size_t n = tile_rows(nv, p->queries - t);
            window_table[nv][n](p, t, c * VL);
            t += n;
        }
        c += nv;
    }
}
