/* SPDX-License-Identifier: MIT */
/* From sums to outputs, where these are not just numerators over denominators. */

/* What the numerators of a row are divided by. A NaN stays one. */
static inline T finish_one(const struct ARGS(finish) *args, T den)
{
    if (args->sum)
        return 1;
    if (args->add != 0)
        den = den + args->add;
    if (args->floor != 0) {
        den = den < 0 ? -den : den;
        den = den < args->floor ? args->floor : den;
    }
    return den;
}

static void finish(size_t queries, const struct ARGS(finish) *args, T *den)
{
    for (size_t t = 0; t < queries; t++)
        den[t] = finish_one(args, den[t]);
}

static void scale_rows(size_t rows, size_t columns, const T *factor, ptrdiff_t step, const T *src,
                       ptrdiff_t stride, T *dst, ptrdiff_t ldd)
{
    for (size_t r = 0; r < rows; r++, factor += step, src += stride, dst += ldd) {
        const V f = v_set1(*factor);
        size_t c = 0;
        for (; c + 4 * VL <= columns; c += 4 * VL) {
            TSA_UNROLL
            for (int j = 0; j < 4; j++)
                v_store(dst + c + j * VL, v_canonical(v_mul(v_load(src + c + j * VL), f)));
        }
        for (; c + VL <= columns; c += VL)
            v_store(dst + c, v_canonical(v_mul(v_load(src + c), f)));
        if (c < columns)
            v_store_first(dst + c, columns - c,
                          v_canonical(v_mul(v_load_first(src + c, columns - c), f)));
    }
}
