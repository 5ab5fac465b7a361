/* SPDX-License-Identifier: MIT */
/* Single rows of several heads, normalised. The sum of squares of a row is one chain: those of
 * several rows advance together. */

TSA_INLINE void square_sums(const int n, size_t columns, T *const *rows, T *sum)
{
    T s[8] = {0};
    for (size_t c = 0; c < columns; c++) {
        TSA_UNROLL
        for (int r = 0; r < n; r++)
            s[r] = s_fma(rows[r][c], rows[r][c], s[r]);
    }
    TSA_UNROLL
    for (int r = 0; r < n; r++)
        sum[r] = s[r];
}

/* out = src times a power of two that brings its largest element near 1. absmax() and a second
 * reading of src would cost 3 % of a step of eight heads (measured). */
TSA_INLINE void scale_row(size_t columns, const T *src, T *out)
{
    V most = v_zero();
    for (size_t c = 0; c < columns; c += VL) {
        const V x = v_load_first(src + c, columns - c < VL ? columns - c : VL);
        most = v_absmax(most, x);
        v_store(out + c, x);
    }
    const V down = v_set1(scale_of(s_absmax(most)));
    for (size_t c = 0; c < columns; c += VL)
        v_store(out + c, v_mul(v_load(out + c), down));
}

static void unit_rows(size_t rows, size_t columns, const T *const *src, int l2, const T *scale,
                      T *const *out)
{
    T sum[TSA_MOST_UNIT_ROWS + TSA_MAX_LANES] = {0};
    if (!l2) {
        for (size_t r = 0; r < rows; r++)
            for (size_t c = 0; c < columns; c += VL) {
                const size_t n = columns - c < VL ? columns - c : VL;
                v_store(out[r] + c, v_mul(v_load_first(src[r] + c, n), v_set1(scale[r])));
            }
        return;
    }
    for (size_t r = 0; r < rows; r++)
        scale_row(columns, src[r], out[r]);
    size_t r = 0;
    for (; r + 8 <= rows; r += 8)
        square_sums(8, columns, out + r, sum + r);
    for (; r + 4 <= rows; r += 4)
        square_sums(4, columns, out + r, sum + r);
    for (; r + 2 <= rows; r += 2)
        square_sums(2, columns, out + r, sum + r);
    for (; r < rows; r++)
        square_sums(1, columns, out + r, sum + r);
    for (r = 0; r < rows; r += VL)
        v_store(sum + r, inverse_norm(v_load(sum + r)));
    for (r = 0; r < rows; r++) {
        const V i = v_set1(sum[r]), f = v_set1(scale[r]);
        for (size_t c = 0; c < columns; c += VL)
            v_store(out[r] + c, v_mul(v_mul(v_load(out[r] + c), i), f));
    }
}
