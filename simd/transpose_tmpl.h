/* SPDX-License-Identifier: MIT */
/* Scratch transposed, and its rows added up: lanes = tokens become lanes = monomials. */

/* Squares of VL by VL are transposed in registers, so that the chains of VL rows go on together. */
TSA_INLINE void transpose_squares(const int add, const int store, size_t rows, size_t cols,
                                  const T *in, ptrdiff_t ldi, T *sum, int first, T *out,
                                  ptrdiff_t ldo)
{
    for (size_t r = 0; r < rows; r += VL, in += VL * ldi) {
        const size_t n = rows - r < VL ? rows - r : VL;
        V s = !add || first ? v_zero() : v_load_first(sum + r, n);
        size_t c = 0;
        for (; c + VL <= cols; c += VL) {
            V x[VL];
            TSA_UNROLL
            for (int j = 0; j < VL; j++)
                x[j] = v_load(in + j * ldi + c);
            v_transpose(x);
            TSA_UNROLL
            for (int j = 0; j < VL; j++) {
                if (add)
                    s = o_count(x[j], s);
                if (store)
                    v_store(out + ((ptrdiff_t)c + j) * ldo + r, x[j]);
            }
        }
        if (c < cols) {
            V x[VL];
            for (size_t j = 0; j < VL; j++)
                x[j] = v_load(in + (ptrdiff_t)j * ldi + c);
            v_transpose(x);
            for (size_t j = 0; j < cols - c; j++) {
                if (add)
                    s = o_count(x[j], s);
                if (store)
                    v_store(out + (ptrdiff_t)(c + j) * ldo + r, x[j]);
            }
        }
        if (add)
            v_store_first(sum + r, n, s);
    }
}

static void transpose(size_t rows, size_t cols, const T *in, ptrdiff_t ldi, T *sum, int first,
                      T *out, ptrdiff_t ldo)
{
    if (sum && out)
        transpose_squares(1, 1, rows, cols, in, ldi, sum, first, out, ldo);
    else if (sum)
        transpose_squares(1, 0, rows, cols, in, ldi, sum, first, NULL, 0);
    else
        transpose_squares(0, 1, rows, cols, in, ldi, NULL, 0, out, ldo);
}
