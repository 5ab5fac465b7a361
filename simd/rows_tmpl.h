/* SPDX-License-Identifier: MIT */
/* Kernels over rows of user memory: largest magnitude, packing, normalisation. */

static T absmax(size_t tokens, size_t columns, const T *src, ptrdiff_t stride)
{
    V m0 = v_zero(), m1 = v_zero(), m2 = v_zero(), m3 = v_zero();
    if (stride == (ptrdiff_t)columns) { /* one long row has one remainder */
        columns *= tokens;
        tokens = tokens ? 1 : 0;
    }
    for (size_t t = 0; t < tokens; t++) {
        const T *row = src + (ptrdiff_t)t * stride; /* strides of single rows may reach anywhere */
        size_t c = 0;
        for (; c + 4 * VL <= columns; c += 4 * VL) {
            m0 = v_absmax(m0, v_load(row + c));
            m1 = v_absmax(m1, v_load(row + c + VL));
            m2 = v_absmax(m2, v_load(row + c + 2 * VL));
            m3 = v_absmax(m3, v_load(row + c + 3 * VL));
        }
        for (; c + VL <= columns; c += VL)
            m0 = v_absmax(m0, v_load(row + c));
        if (c < columns)
            m1 = v_absmax(m1, v_load_first(row + c, columns - c));
    }
    m0 = v_absmax(v_absmax(m0, m1), v_absmax(m2, m3));
    return s_absmax(m0);
}

TSA_INLINE V inverse_norm(V sum_of_squares)
{
    const V r = v_div(v_set1(1), v_sqrt(sum_of_squares));
    return v_zero_where_zero(r, sum_of_squares);
}

/* One row: its norm is one chain anyway. */
static void pack_one(size_t columns, const T *src, int l2, T scale, T *out, ptrdiff_t ldo)
{
    V e = v_set1(1), r = v_set1(1);
    const V f = v_set1(scale);
    if (l2) {
        const T down = scale_of(absmax(1, columns, src, (ptrdiff_t)columns));
        T s = 0;
        for (size_t c = 0; c < columns; c++) {
            const T x = s_load(src + c) * down;
            s = s_fma(x, x, s);
        }
        e = v_set1(down);
        r = inverse_norm(v_set1(s));
    }
    for (size_t c = 0; c < columns; c += VL) {
        const size_t n = columns - c < VL ? columns - c : VL;
        const V y = v_mul(v_mul(v_mul(v_load_first(src + c, n), e), r), f);
        if (ldo == 1) {
            v_store_first(out + c, n, y);
        } else {
            T lane[VL];
            v_store(lane, y);
            for (size_t i = 0; i < n; i++)
                out[(ptrdiff_t)(c + i) * ldo] = lane[i];
        }
    }
}

/* p[c][r] = src[r][c] for a whole VL x VL square; returns m with the magnitudes of the square. The
 * square must stay in registers, therefore the partial one is a function of its own. */
TSA_INLINE V transpose_full(const T *src, ptrdiff_t stride, T *p, ptrdiff_t ldp, V m)
{
    V x[VL];
    TSA_UNROLL
    for (int r = 0; r < VL; r++)
        x[r] = v_load(src + r * stride);
    v_transpose(x);
    TSA_UNROLL
    for (int c = 0; c < VL; c++) {
        m = v_absmax(m, x[c]);
        v_store(p + c * ldp, x[c]);
    }
    return m;
}

static V transpose_part(size_t tokens, size_t columns, const T *src, ptrdiff_t stride, T *p,
                        ptrdiff_t ldp, V m)
{
    V x[VL];
    for (size_t r = 0; r < VL; r++)
        x[r] = r < tokens ? v_load_first(src + (ptrdiff_t)r * stride, columns) : v_zero();
    v_transpose(x);
    for (size_t c = 0; c < columns; c++) {
        m = v_absmax(m, x[c]);
        v_store_first(p + (ptrdiff_t)c * ldp, tokens, x[c]);
    }
    return m;
}

struct pack_args {
    size_t columns;
    const T *src;
    ptrdiff_t stride;
    int l2;
    T scale;
    T *out;
    ptrdiff_t ldo;
};

/* nb strips of VL tokens from token `first` on, or one strip of `lanes` tokens; lanes = tokens.
 * Their transposed rows wait in out until the norm is known; strips go together so that their
 * chains overlap. */
TSA_INLINE void pack_strips(const int nb, size_t lanes, const struct pack_args *args, size_t first)
{
    const struct pack_args a = *args;
    const bool full = nb > 1 || lanes == VL;
    const T *src = a.src + (ptrdiff_t)first * a.stride;
    T *out = a.out + first;
    V m[4], e[4], r[4];
    TSA_UNROLL
    for (int j = 0; j < nb; j++) {
        m[j] = v_zero();
        e[j] = r[j] = v_set1(1);
        for (size_t c = 0; c < a.columns; c += VL) {
            const size_t n = a.columns - c < VL ? a.columns - c : VL;
            const T *square = src + j * VL * a.stride + (ptrdiff_t)c;
            T *p = out + (ptrdiff_t)c * a.ldo + j * VL;
            if (full && n == VL)
                m[j] = transpose_full(square, a.stride, p, a.ldo, m[j]);
            else
                m[j] = transpose_part(lanes, n, square, a.stride, p, a.ldo, m[j]);
        }
    }
    if (a.l2) {
        V s[4];
        TSA_UNROLL
        for (int j = 0; j < nb; j++) {
            e[j] = v_inverse_scale(m[j]);
            s[j] = v_zero();
        }
        const T *p = out;
        for (size_t c = 0; c < a.columns; c++, p += a.ldo) {
            TSA_UNROLL
            for (int j = 0; j < nb; j++) {
                const V x = full ? v_load(p + j * VL) : v_load_first(p, lanes);
                const V y = v_mul(x, e[j]);
                s[j] = v_fma(y, y, s[j]);
            }
        }
        TSA_UNROLL
        for (int j = 0; j < nb; j++)
            r[j] = inverse_norm(s[j]);
    } else if (a.scale == 1) {
        return;
    }
    const V f = v_set1(a.scale);
    for (size_t c = 0; c < a.columns; c++, out += a.ldo) {
        TSA_UNROLL
        for (int j = 0; j < nb; j++) {
            const V x = full ? v_load(out + j * VL) : v_load_first(out, lanes);
            const V y = v_mul(v_mul(v_mul(x, e[j]), r[j]), f);
            if (full)
                v_store(out + j * VL, y);
            else
                v_store_first(out, lanes, y);
        }
    }
}

static void pack_t(size_t tokens, size_t columns, const T *src, ptrdiff_t stride, int l2, T scale,
                   T *out, ptrdiff_t ldo)
{
    if (tokens == 1) {
        pack_one(columns, src, l2, scale, out, ldo);
        return;
    }
    const struct pack_args a = {columns, src, stride, l2, scale, out, ldo};
    size_t t = 0;
    for (; t + 4 * VL <= tokens; t += 4 * VL)
        pack_strips(4, VL, &a, t);
    for (; t + 2 * VL <= tokens; t += 2 * VL)
        pack_strips(2, VL, &a, t);
    for (; t < tokens; t += VL)
        pack_strips(1, tokens - t < VL ? tokens - t : VL, &a, t);
}

static void pack_v(size_t tokens, size_t columns, const T *src, ptrdiff_t stride, T *out,
                   ptrdiff_t ldo)
{
    for (size_t t = 0; t < tokens; t++) {
        const T *row = src + (ptrdiff_t)t * stride;
        T *to = out + (ptrdiff_t)t * ldo;
        size_t c = 0;
        for (; c + VL <= columns; c += VL)
            v_store(to + c, v_load(row + c));
        if (c < columns) {
            v_store(to + c, v_load_first(row + c, columns - c));
            c += VL;
        }
        for (; c < (size_t)ldo; c += VL)
            v_store(to + c, v_zero());
    }
}
