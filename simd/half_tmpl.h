/* SPDX-License-Identifier: MIT */
/* Kernels over rows of bf16 and f16 in user memory, two bytes an element at any address: widened
 * to T, rounded from T, largest magnitude. To and from f32 by vectors; to and from f64, and in
 * plain C, by integers. f64 is rounded once, without an f32 between. */

#if TSA_F64 || VL == 1

/* Exact: every bf16 and f16 number is an f32. */
static inline T widen(uint16_t half, const int f16)
{
    const uint32_t sign = (uint32_t)(half & 0x8000) << 16, magnitude = half & 0x7fff;
    uint32_t bits = magnitude << 16;
    float x;
    if (f16 && magnitude < 0x400) { /* 0, or subnormal: a multiple of 2^-24 */
        x = (float)magnitude * 0x1p-24f;
        memcpy(&bits, &x, sizeof bits);
    } else if (f16) {
        bits = (magnitude << 13) + ((uint32_t)(magnitude < 0x7c00 ? 112 : 224) << 23);
    }
    bits |= sign;
    memcpy(&x, &bits, sizeof x);
    return (T)x;
}

static inline uint16_t narrow(T x, const int f16)
{
    const BITS infinity = f16 ? 0x7c00 : 0x7f80;
    const int least = BIAS - (f16 ? 14 : 126); /* exponent of the smallest normal, in T */
    int drop = FRACTION - (f16 ? 10 : 7);
    BITS bits;
    memcpy(&bits, &x, sizeof bits);
    const uint16_t sign = (uint16_t)(bits >> (8 * sizeof bits - 16) & 0x8000);
    bits = bits << 1 >> 1;
    if (bits > (BITS)(2 * BIAS + 1) << FRACTION)
        return f16 ? 0x7e00 : 0x7fc0;
    const int exponent = (int)(bits >> FRACTION);
    if (least == 1 || exponent >= least) {
        bits -= (BITS)(least - 1) << FRACTION;
    } else {
        bits = (bits & (((BITS)1 << FRACTION) - 1)) | (BITS)1 << FRACTION;
        drop += least - exponent;
        if (drop > FRACTION + 1) /* less than half of the smallest */
            return sign;
    }
    bits += ((BITS)1 << (drop - 1)) - 1 + (bits >> drop & 1);
    bits >>= drop;
    return (uint16_t)(sign | (bits < infinity ? bits : infinity));
}

TSA_INLINE void widen_row(size_t n, const char *src, const int f16, T *out)
{
    for (size_t i = 0; i < n; i++) {
        uint16_t half;
        memcpy(&half, src + 2 * i, sizeof half);
        out[i] = widen(half, f16);
    }
}

TSA_INLINE void narrow_row(size_t n, const T *src, const int f16, char *dst)
{
    for (size_t i = 0; i < n; i++) {
        const uint16_t half = narrow(src[i], f16);
        memcpy(dst + 2 * i, &half, sizeof half);
    }
}

TSA_INLINE V absmax_row(size_t n, const char *src, const int f16, V most)
{
    for (size_t i = 0; i < n; i++) {
        uint16_t half;
        memcpy(&half, src + 2 * i, sizeof half);
        most = v_absmax(most, v_set1(widen(half, f16)));
    }
    return most;
}

#else

TSA_INLINE V load_halves(const char *p, const int f16)
{
    return f16 ? v_load_f16(p) : v_load_bf16(p);
}
TSA_INLINE void store_halves(char *p, V x, const int f16)
{
    if (f16)
        v_store_f16(p, x);
    else
        v_store_bf16(p, x);
}
/* n < VL of them; the others are +0. */
static inline V load_few(size_t n, const char *src, const int f16)
{
    char few[2 * VL] = {0};
    memcpy(few, src, 2 * n);
    return load_halves(few, f16);
}

/* The last vector of a row overlaps the one before it where the row has no whole vectors. */
TSA_INLINE void widen_row(size_t n, const char *src, const int f16, T *out)
{
    if (n < VL) {
        v_store_first(out, n, load_few(n, src, f16));
        return;
    }
    size_t i = 0;
    for (; i + VL <= n; i += VL)
        v_store(out + i, load_halves(src + 2 * i, f16));
    if (i < n)
        v_store(out + n - VL, load_halves(src + 2 * (n - VL), f16));
}

TSA_INLINE void narrow_row(size_t n, const T *src, const int f16, char *dst)
{
    if (n < VL) {
        char few[2 * VL];
        store_halves(few, v_load_first(src, n), f16);
        memcpy(dst, few, 2 * n);
        return;
    }
    size_t i = 0;
    for (; i + VL <= n; i += VL)
        store_halves(dst + 2 * i, v_load(src + i), f16);
    if (i < n)
        store_halves(dst + 2 * (n - VL), v_load(src + n - VL), f16);
}

TSA_INLINE V absmax_row(size_t n, const char *src, const int f16, V most)
{
    if (n < VL)
        return v_absmax(most, load_few(n, src, f16));
    size_t i = 0;
    for (; i + VL <= n; i += VL)
        most = v_absmax(most, load_halves(src + 2 * i, f16));
    return i < n ? v_absmax(most, load_halves(src + 2 * (n - VL), f16)) : most;
}

#endif

static void load_half(size_t tokens, size_t columns, const void *src, ptrdiff_t stride, int f16,
                      T *out, ptrdiff_t ldo)
{
    if (stride == (ptrdiff_t)columns && ldo == stride) { /* one long row */
        columns *= tokens;
        tokens = tokens ? 1 : 0;
    }
    for (size_t t = 0; t < tokens; t++) {
        const char *row = (const char *)src + (ptrdiff_t)t * stride * 2;
        T *to = out + (ptrdiff_t)t * ldo;
        if (f16)
            widen_row(columns, row, 1, to);
        else
            widen_row(columns, row, 0, to);
    }
}

static void store_half(size_t tokens, size_t columns, const T *in, ptrdiff_t ldi, int f16,
                       void *dst, ptrdiff_t stride)
{
    if (stride == (ptrdiff_t)columns && ldi == stride) {
        columns *= tokens;
        tokens = tokens ? 1 : 0;
    }
    for (size_t t = 0; t < tokens; t++) {
        char *row = (char *)dst + (ptrdiff_t)t * stride * 2;
        const T *from = in + (ptrdiff_t)t * ldi;
        if (f16)
            narrow_row(columns, from, 1, row);
        else
            narrow_row(columns, from, 0, row);
    }
}

static T absmax_half(size_t tokens, size_t columns, const void *src, ptrdiff_t stride, int f16)
{
    V most = v_zero();
    if (stride == (ptrdiff_t)columns) {
        columns *= tokens;
        tokens = tokens ? 1 : 0;
    }
    for (size_t t = 0; t < tokens; t++) {
        const char *row = (const char *)src + (ptrdiff_t)t * stride * 2;
        most = f16 ? absmax_row(columns, row, 1, most) : absmax_row(columns, row, 0, most);
    }
    return s_absmax(most);
}
