/* SPDX-License-Identifier: MIT */
/* Scratch transposed, and its rows added up: lanes = tokens become lanes = monomials. */

/* Squares of VL by VL are transposed in registers, so that the chains of VL rows go on together. */
TSA_INLINE void transpose_squares(const int add, const int weighted, const int store,
                                  const struct ARGS(transpose) *args)
{
    const struct ARGS(transpose) a = *args;
    const T *in = a.in;
    for (size_t r = 0; r < a.features; r += VL, in += VL * a.ldi) {
        const size_t n = a.features - r < VL ? a.features - r : VL;
        V s = !add || a.first ? v_zero() : v_load_first(a.sum + r, n);
        size_t c = 0;
        for (; c + VL <= a.tokens; c += VL) {
            V x[VL];
            TSA_UNROLL
            for (int j = 0; j < VL; j++)
                x[j] = v_load(in + j * a.ldi + c);
            v_transpose(x);
            TSA_UNROLL
            for (int j = 0; j < VL; j++) {
                if (add)
                    s = weighted ? o_fma(o_from(x[j]), o_set1(a.weight[c + (size_t)j]), s)
                                 : o_count(x[j], s);
                if (store)
                    v_store(a.out + ((ptrdiff_t)c + j) * a.ldo + r, x[j]);
            }
        }
        if (c < a.tokens) {
            V x[VL];
            for (size_t j = 0; j < VL; j++)
                x[j] = v_load(in + (ptrdiff_t)j * a.ldi + c);
            v_transpose(x);
            for (size_t j = 0; j < a.tokens - c; j++) {
                if (add)
                    s = weighted ? o_fma(o_from(x[j]), o_set1(a.weight[c + j]), s)
                                 : o_count(x[j], s);
                if (store)
                    v_store(a.out + (ptrdiff_t)(c + j) * a.ldo + r, x[j]);
            }
        }
        if (add)
            v_store_first(a.sum + r, n, s);
    }
}

static void transpose(const struct ARGS(transpose) *args)
{
    if (args->sum && args->weight && args->out)
        transpose_squares(1, 1, 1, args);
    else if (args->sum && args->weight)
        transpose_squares(1, 1, 0, args);
    else if (args->sum && args->out)
        transpose_squares(1, 0, 1, args);
    else if (args->sum)
        transpose_squares(1, 0, 0, args);
    else
        transpose_squares(0, 0, 1, args);
}
