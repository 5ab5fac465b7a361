/* SPDX-License-Identifier: MIT */
/* Kernels over rows of user memory: largest magnitude, packing, normalisation. */

static T absmax(size_t rows, size_t width, const T *src, ptrdiff_t stride)
{
    V m0 = v_zero(), m1 = v_zero(), m2 = v_zero(), m3 = v_zero();
    if (stride == (ptrdiff_t)width) { /* one long row has no tails */
        width *= rows;
        rows = rows ? 1 : 0;
    }
    for (size_t r = 0; r < rows; r++, src += stride) {
        size_t c = 0;
        for (; c + 4 * VL <= width; c += 4 * VL) {
            m0 = v_absmax(m0, v_load(src + c));
            m1 = v_absmax(m1, v_load(src + c + VL));
            m2 = v_absmax(m2, v_load(src + c + 2 * VL));
            m3 = v_absmax(m3, v_load(src + c + 3 * VL));
        }
        for (; c + VL <= width; c += VL)
            m0 = v_absmax(m0, v_load(src + c));
        if (c < width)
            m1 = v_absmax(m1, v_load_first(src + c, width - c));
    }
    m0 = v_absmax(v_absmax(m0, m1), v_absmax(m2, m3));
    T lane[VL];
    v_store(lane, m0);
    V m = v_set1(lane[0]);
    for (int i = 1; i < VL; i++)
        m = v_absmax(m, v_set1(lane[i]));
    v_store(lane, m);
    return lane[0];
}

/* One row, in the same order as pack_lanes: the sum of squares is one chain anyway. */
static void pack_one(size_t width, const T *src, int l2, T scale, T *out, ptrdiff_t ldo)
{
    T e = 1, r = 1;
    if (l2) {
        e = scale_of(absmax(1, width, src, (ptrdiff_t)width));
        T s = 0;
        for (size_t c = 0; c < width; c++) {
            const T x = src[c] * e;
            s = s_fma(x, x, s);
        }
        T lane[VL];
        v_store(lane, v_zero_where_zero(v_div(v_set1(1), v_sqrt(v_set1(s))), v_set1(s)));
        r = lane[0];
    }
    for (size_t c = 0; c < width; c++)
        out[(ptrdiff_t)c * ldo] = src[c] * e * r * scale;
}

/* Up to VL rows, lanes = rows. The block is transposed VL columns at a time; the raw transposed
 * rows wait in out itself until the norm is known. */
static void pack_lanes(size_t rows, size_t width, const T *src, ptrdiff_t stride, int l2, T scale,
                       T *out, ptrdiff_t ldo)
{
    V m = v_zero();
    for (size_t c = 0; c < width; c += VL) {
        const size_t n = width - c < VL ? width - c : VL;
        V x[VL];
        if (n == VL && rows == VL) {
            TSA_UNROLL
            for (int r = 0; r < VL; r++)
                x[r] = v_load(src + r * stride + (ptrdiff_t)c);
        } else {
            for (size_t r = 0; r < VL; r++)
                x[r] = r < rows ? v_load_first(src + (ptrdiff_t)r * stride + (ptrdiff_t)c, n)
                                : v_zero();
        }
        v_transpose(x);
        for (size_t i = 0; i < n; i++) {
            m = v_absmax(m, x[i]);
            v_store_first(out + (ptrdiff_t)(c + i) * ldo, rows, x[i]);
        }
    }
    if (!l2 && scale == 1)
        return;
    V e = v_set1(1), r = v_set1(1);
    if (l2) {
        V s = v_zero();
        e = v_inverse_scale(m);
        for (size_t c = 0; c < width; c++) {
            const V x = v_mul(v_load_first(out + (ptrdiff_t)c * ldo, rows), e);
            s = v_fma(x, x, s);
        }
        r = v_zero_where_zero(v_div(v_set1(1), v_sqrt(s)), s);
    }
    for (size_t c = 0; c < width; c++) {
        T *p = out + (ptrdiff_t)c * ldo;
        const V y = v_mul(v_mul(v_load_first(p, rows), e), r);
        v_store_first(p, rows, v_mul(y, v_set1(scale)));
    }
}

static void pack_t(size_t rows, size_t width, const T *src, ptrdiff_t stride, int l2, T scale, T *out,
            ptrdiff_t ldo)
{
    if (rows == 1) {
        pack_one(width, src, l2, scale, out, ldo);
        return;
    }
    for (size_t r = 0; r < rows; r += VL)
        pack_lanes(rows - r < VL ? rows - r : VL, width, src + (ptrdiff_t)r * stride, stride, l2,
                   scale, out + r, ldo);
}

static void pack_v(size_t rows, size_t width, const T *src, ptrdiff_t stride, T *out, ptrdiff_t ldo)
{
    for (size_t r = 0; r < rows; r++, src += stride, out += ldo) {
        size_t c = 0;
        for (; c + VL <= width; c += VL)
            v_store(out + c, v_load(src + c));
        if (c < width) {
            v_store(out + c, v_load_first(src + c, width - c));
            c += VL;
        }
        for (; c < (size_t)ldo; c += VL)
            v_store(out + c, v_zero());
    }
}

static void transpose(size_t rows, size_t cols, const T *in, ptrdiff_t ldi, T *out, ptrdiff_t ldo)
{
    for (size_t r = 0; r < rows; r += VL)
        for (size_t c = 0; c < cols; c += VL) {
            const size_t nr = rows - r < VL ? rows - r : VL, nc = cols - c < VL ? cols - c : VL;
            V x[VL];
            for (size_t i = 0; i < VL; i++)
                x[i] = i < nr ? v_load_first(in + (ptrdiff_t)(r + i) * ldi + (ptrdiff_t)c, nc)
                              : v_zero();
            v_transpose(x);
            for (size_t i = 0; i < nc; i++)
                v_store_first(out + (ptrdiff_t)(c + i) * ldo + (ptrdiff_t)r, nr, x[i]);
        }
}
