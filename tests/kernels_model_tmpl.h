/* SPDX-License-Identifier: MIT */
/* Every kernel as the plainest C that performs the defined sequence of operations, one element at
 * a time: what all tables are compared with, bit by bit. T is the arithmetic type. */

static T canonical(T x)
{
    const BITS bits = CANONICAL_NAN;

    if (x != x)
        memcpy(&x, &bits, sizeof x);
    return x;
}

static T model_absmax(size_t rows, size_t width, const T *src, ptrdiff_t stride)
{
    BITS most = 0, bits;
    T x;

    for (size_t r = 0; r < rows; r++)
        for (size_t c = 0; c < width; c++) {
            memcpy(&bits, &src[(ptrdiff_t)r * stride + (ptrdiff_t)c], sizeof bits);
            bits &= ~SIGN_BIT;
            if (bits > most)
                most = bits;
        }
    memcpy(&x, &most, sizeof x);
    return x;
}

static void model_pack_t(size_t rows, size_t width, const T *src, ptrdiff_t stride, int l2, T scale,
                         T *out, ptrdiff_t ldo)
{
    for (size_t r = 0; r < rows; r++) {
        const T *x = src + (ptrdiff_t)r * stride;
        T most = 0, s = 0, inverse;
        int e;

        for (size_t c = 0; c < width; c++)
            if (FABS(x[c]) > most)
                most = FABS(x[c]);
        e = most == 0 ? 0 : ILOGB(most); /* of infinity: a large number */
        e = e > E_CLAMP ? E_CLAMP : e < -E_CLAMP ? -E_CLAMP : e;
        for (size_t c = 0; c < width; c++) {
            T scaled = SCALBN(x[c], -e);

            s = FMA(scaled, scaled, s);
        }
        inverse = 1 / SQRT(s);
        for (size_t c = 0; c < width; c++) {
            T y = x[c];

            if (l2 && s != 0) /* a row of zeros stays */
                y = SCALBN(x[c], -e) * inverse;
            out[(ptrdiff_t)c * ldo + (ptrdiff_t)r] = y * scale;
        }
    }
}

static void model_pack_v(size_t rows, size_t width, const T *src, ptrdiff_t stride, T *out,
                         ptrdiff_t ldo)
{
    for (size_t r = 0; r < rows; r++)
        for (size_t c = 0; c < (size_t)ldo; c++)
            out[r * (size_t)ldo + c] = c < width ? src[(ptrdiff_t)r * stride + (ptrdiff_t)c] : 0;
}

/* Halves at any byte. */
static uint16_t model_half(const void *src, ptrdiff_t i)
{
    uint16_t bits;

    memcpy(&bits, (const char *)src + 2 * i, sizeof bits);
    return bits;
}

static void model_load_half(size_t rows, size_t width, const void *src, ptrdiff_t stride, int f16,
                            T *out, ptrdiff_t ldo)
{
    for (size_t r = 0; r < rows; r++)
        for (size_t c = 0; c < width; c++)
            out[r * (size_t)ldo + c] =
                (T)half_value(model_half(src, (ptrdiff_t)r * stride + (ptrdiff_t)c), f16);
}

static void model_store_half(size_t rows, size_t width, const T *in, ptrdiff_t ldi, int f16,
                             void *dst, ptrdiff_t stride)
{
    for (size_t r = 0; r < rows; r++)
        for (size_t c = 0; c < width; c++) {
            const uint16_t bits = half_nearest(in[r * (size_t)ldi + c], f16);

            memcpy((char *)dst + 2 * ((ptrdiff_t)r * stride + (ptrdiff_t)c), &bits, sizeof bits);
        }
}

static T model_absmax_half(size_t rows, size_t width, const void *src, ptrdiff_t stride, int f16)
{
    T most = 0;

    for (size_t r = 0; r < rows; r++)
        for (size_t c = 0; c < width; c++) {
            T x = (T)half_value(model_half(src, (ptrdiff_t)r * stride + (ptrdiff_t)c), f16);

            if (x != x)
                return x;
            most = FABS(x) > most ? FABS(x) : most;
        }
    return most;
}

static void model_base_t(const struct tsa_monomials *mono, size_t cols, T *base, ptrdiff_t ldb)
{
    for (size_t g = mono->d; g < mono->base; g++)
        for (size_t t = 0; t < cols; t++)
            base[g * (size_t)ldb + t] = monomial(g + 1, base + t, (size_t)ldb);
}

static void model_psi_t(const struct tsa_monomials *mono, size_t f0, size_t f1, size_t cols,
                        T *base, ptrdiff_t ldb, const T *weight, T *psi, ptrdiff_t ldp)
{
    (void)mono;
    for (size_t f = f0; f < f1; f++)
        for (size_t t = 0; t < cols; t++) {
            T x = monomial(f, base + t, (size_t)ldb);

            psi[(f - f0) * (size_t)ldp + t] = weight != NULL ? x * weight[f] : x;
        }
}

static void model_psi_k(const struct tsa_monomials *mono, T *base, const T *weight, T *psi)
{
    for (size_t g = mono->d; g < mono->lower; g++)
        base[g] = monomial(g + 1, base, 1);
    for (size_t f = 0; f < mono->total; f++)
        psi[f] = monomial(f, base, 1) * weight[f];
}

static void model_fold(size_t count, T *hi, T *lo, const T *local, T *prefix)
{
    for (size_t i = 0; i < count; i++) {
        T was = hi[i];

        add_double_float(&hi[i], &lo[i], local[i], lo[i]);
        if (prefix != NULL)
            prefix[i] = was;
    }
}

static void model_merge(size_t count, T *hi, T *lo, const T *hi2, const T *lo2)
{
    for (size_t i = 0; i < count; i++)
        add_double_float(&hi[i], &lo[i], hi2[i], lo[i] + lo2[i]);
}

static T horner(size_t terms, const T *coef, T x)
{
    T acc = coef[terms - 1];

    for (size_t m = terms - 1; m-- > 0;)
        acc = FMA(acc, x, coef[m]);
    return acc;
}

/* Keys that query t sees. */
static size_t seen(size_t keys, ptrdiff_t diag, size_t t)
{
    size_t past = (size_t)diag + t + 1;

    return past < keys ? past : keys;
}

static T score(size_t width, const T *k, ptrdiff_t ldk, const T *q, ptrdiff_t ldq)
{
    T x = 0;

    for (size_t c = 0; c < width; c++)
        x = FMA(q[c * (size_t)ldq], k[c * (size_t)ldk], x);
    return x;
}

static void model_scores(size_t keys, size_t queries, size_t width, const T *kt, ptrdiff_t ldk,
                         const T *qt, ptrdiff_t ldq, size_t terms, const T *coef, T *w,
                         ptrdiff_t ldw, ptrdiff_t diag)
{
    for (size_t t = 0; t < queries; t++)
        for (size_t i = 0; i < seen(keys, diag, t); i++) {
            T x = score(width, kt + i, ldk, qt + t, ldq);

            w[i * (size_t)ldw + t] = horner(terms, coef, x);
        }
}

static void model_window_ones(size_t keys, size_t queries, const T *w, ptrdiff_t ldw,
                              ptrdiff_t diag, T *den, int first)
{
    for (size_t t = 0; t < queries; t++) {
        T s = first ? 0 : den[t];

        for (size_t i = 0; i < seen(keys, diag, t); i++)
            s = FMA(w[i * (size_t)ldw + t], 1, s);
        den[t] = s;
    }
}

static void model_window(size_t rows, size_t width, size_t keys, ptrdiff_t diag, const T *w,
                         ptrdiff_t ldw, const T *v, ptrdiff_t ldv, const T *acc, ptrdiff_t lda,
                         int first, const T *den, T *dst, ptrdiff_t stride)
{
    for (size_t t = 0; t < rows; t++)
        for (size_t c = 0; c < width; c++) {
            T s = first ? 0 : acc[t * (size_t)lda + c];

            for (size_t i = 0; i < seen(keys, diag, t); i++)
                s = FMA(w[i * (size_t)ldw + t], v[i * (size_t)ldv + c], s);
            dst[(ptrdiff_t)t * stride + (ptrdiff_t)c] = canonical(s / den[t]);
        }
}

static void model_decode_scores(size_t keys, size_t width, const T *kt, ptrdiff_t ldk, const T *q,
                                size_t terms, const T *coef, T *w)
{
    for (size_t i = 0; i < keys; i++)
        w[i] = horner(terms, coef, score(width, kt + i, ldk, q, 1));
}

static void model_decode_window(size_t width, size_t keys, const T *w, const T *v, ptrdiff_t ldv,
                                const T *acc, T den, int first, T *dst)
{
    T sum = first ? 0 : den;

    for (size_t i = 0; i < keys; i++)
        sum = FMA(w[i], 1, sum);
    for (size_t c = 0; c < width; c++) {
        T s = first ? 0 : acc[c];

        for (size_t i = 0; i < keys; i++)
            s = FMA(w[i], v[i * (size_t)ldv + c], s);
        dst[c] = canonical(s / sum);
    }
}

/* 1 + x g(x), where g is the polynomial through (e^x - 1) / x at the Chebyshev nodes of
 * [-1/2, 1/2], 7 of them in f32 and 13 in f64. */
static T bounded_exponential(T x)
{
    static const T coef[] = {
#if TEST_F64
        1,
        1,
        0x1.0000000000000p-1,
        0x1.5555555555555p-3,
        0x1.55555555555e5p-5,
        0x1.1111111111137p-7,
        0x1.6c16c16bf2c5dp-10,
        0x1.a01a01a006d2ap-13,
        0x1.a01a021b73430p-16,
        0x1.71de3a972f8cap-19,
        0x1.27e42df3ab7bcp-22,
        0x1.ae637b5a397c8p-26,
        0x1.2036290a2a4e6p-29,
        0x1.6282cd6876bd7p-33,
#else
        1,
        1,
        0x1.000002p-1F,
        0x1.555556p-3F,
        0x1.55527ap-5F,
        0x1.110fccp-7F,
        0x1.6ef178p-10F,
        0x1.a2a31ep-13F,
#endif
    };

    return horner(sizeof coef / sizeof *coef, coef, x);
}

/* SLEEF's: its functions for all instruction sets have the same bits, but for this on x86 without
 * FMA, where only the scalar kernels run and call the same. */
static T exponential(T x)
{
#if (defined(__x86_64__) || defined(__i386__)) && defined(__GNUC__)
    if (!__builtin_cpu_supports("fma"))
        return EXP_PLAIN(x);
#endif
    return EXP_FMA(x);
}

static void model_exp_bounded(size_t n, const T *x, T *y)
{
    for (size_t i = 0; i < n; i++)
        y[i] = bounded_exponential(x[i]);
}

static void model_softmax_scores(size_t keys, size_t queries, size_t width, const T *kt,
                                 ptrdiff_t ldk, const T *qt, ptrdiff_t ldq, T *w, ptrdiff_t ldw,
                                 ptrdiff_t diag, int bounded)
{
    for (size_t t = 0; t < queries; t++)
        for (size_t i = 0; i < seen(keys, diag, t); i++) {
            T x = score(width, kt + i, ldk, qt + t, ldq);

            w[i * (size_t)ldw + t] = bounded ? bounded_exponential(x) : x;
        }
}

static int model_softmax_weights(size_t keys, size_t queries, T *w, ptrdiff_t ldw, ptrdiff_t diag,
                                 int first, T *max, T *den, T *shrink)
{
    int differs = 0;

    for (size_t t = 0; t < queries; t++) {
        size_t n = seen(keys, diag, t);
        T top = first ? w[t] : max[t], sum = 0;

        for (size_t i = 0; i < n; i++)
            if (w[i * (size_t)ldw + t] > top)
                top = w[i * (size_t)ldw + t];
        if (!first) {
            shrink[t] = exponential(max[t] - top);
            differs |= shrink[t] != 1;
            sum = den[t] * shrink[t];
        }
        for (size_t i = 0; i < n; i++) {
            T *x = &w[i * (size_t)ldw + t];

            *x = exponential(*x - top);
            sum = sum + *x;
        }
        max[t] = top;
        den[t] = sum;
    }
    return differs;
}

static void model_softmax_values(size_t rows, size_t cols, size_t keys, ptrdiff_t diag, const T *w,
                                 ptrdiff_t ldw, const T *v, ptrdiff_t ldv, T *acc, ptrdiff_t lda,
                                 int first, const T *shrink)
{
    for (size_t t = 0; t < rows; t++)
        for (size_t c = 0; c < cols; c++) {
            T *sum = &acc[t * (size_t)lda + c], s = first ? 0 : *sum;

            if (!first && shrink != NULL)
                s = s * shrink[t];
            for (size_t i = 0; i < seen(keys, diag, t); i++)
                s = FMA(w[i * (size_t)ldw + t], v[i * (size_t)ldv + c], s);
            *sum = s;
        }
}

static void model_softmax_row(size_t keys, size_t d, const T *kt, ptrdiff_t ldk, const T *q,
                              int bounded, size_t cols, const T *v, ptrdiff_t ldv, int first,
                              T *max, T *den, T *acc, T *w)
{
    ptrdiff_t all = (ptrdiff_t)keys;
    T shrink = 1;

    model_softmax_scores(keys, 1, d, kt, ldk, q, 1, w, 1, all, bounded);
    if (bounded)
        model_window_ones(keys, 1, w, 1, all, den, first);
    else
        model_softmax_weights(keys, 1, w, 1, all, first, max, den, &shrink);
    model_softmax_values(1, cols, keys, all, w, 1, v, ldv, acc, 0, first, &shrink);
}

static void model_softmax_decode(size_t keys, size_t d, const T *k, ptrdiff_t stride, int l2,
                                 const T *q, int bounded, size_t cols, const T *v, ptrdiff_t ldv,
                                 int first, T *max, T *den, T *acc, T *kt, T *scratch)
{
    T *w = scratch;

    for (size_t i = 0; i < keys; i += TSA_TILE_TOKENS) {
        size_t n = keys - i < TSA_TILE_TOKENS ? keys - i : TSA_TILE_TOKENS;

        model_pack_t(n, d, k + (ptrdiff_t)i * stride, stride, l2, 1, kt, TSA_TILE_TOKENS);
        model_softmax_row(n, d, kt, TSA_TILE_TOKENS, q, bounded, cols, v + (ptrdiff_t)i * ldv, ldv,
                          first && i == 0, max, den, acc, w);
    }
}

static void model_softmax_combine(size_t cols, int bounded, T max2, T den2, const T *acc2, T *max,
                                  T *den, T *acc)
{
    T r1 = 1, r2 = 1;

    if (!bounded) {
        T top = *max > max2 ? *max : max2;

        r1 = exponential(*max - top);
        r2 = exponential(max2 - top);
        *max = top;
    }
    *den = FMA(den2, r2, *den * r1);
    for (size_t c = 0; c < cols; c++)
        acc[c] = FMA(acc2[c], r2, acc[c] * r1);
}

static void model_divide(size_t width, const T *acc, T sum, T *dst)
{
    for (size_t c = 0; c < width; c++)
        dst[c] = canonical(acc[c] / sum);
}

#define TSA_KERNEL(result, name, args) .name = model_##name,
static const struct KERNELS model = {
#include "kernels.def"
};
#undef TSA_KERNEL
