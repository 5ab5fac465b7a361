/* SPDX-License-Identifier: MIT */
/* Elements of scratch and state rounded to bf16, in pairs. */

static void pair_rows(size_t rows, size_t columns, const T *in, ptrdiff_t ldi, T *out,
                      ptrdiff_t ldo)
{
    for (; rows >= 2; rows -= 2, in += 2 * ldi, out += ldo)
        for (size_t c = 0; c < columns; c += VL)
            v_store(out + c, v_pair(v_load(in + c), v_load(in + ldi + (ptrdiff_t)c)));
    if (rows > 0)
        for (size_t c = 0; c < columns; c += VL)
            v_store(out + c, v_pair(v_load(in + c), v_zero()));
}

static void pair_cols(size_t rows, size_t columns, const T *in, ptrdiff_t ldi, T *out,
                      ptrdiff_t ldo)
{
    for (size_t r = 0; r < rows; r++, in += ldi, out += ldo) {
        size_t c = 0;
        for (; c + 2 * VL <= columns; c += 2 * VL)
            v_store(out + c / 2, v_pair_columns(v_load(in + c), v_load(in + c + VL)));
        if (c < columns) {
            const size_t left = columns - c, n = left < VL ? left : VL;
            const V x = v_load_first(in + c, n), y = v_load_first(in + c + VL, left - n);
            v_store(out + c / 2, v_pair_columns(x, y));
        }
    }
}
