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

static void model_unit_rows(size_t rows, size_t columns, const T *const *src, int l2,
                            const T *scale, T *const *out)
{
    for (size_t r = 0; r < rows; r++)
        model_pack_t(1, columns, src[r], 0, l2, scale[r], out[r], 1);
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

static void model_psi_t(const struct ARGS(psi) *a)
{
    for (size_t f = a->f0; f < a->f1; f++)
        for (size_t t = 0; t < a->tokens; t++) {
            T x = monomial(f, a->base + t, (size_t)a->ldb);

            a->psi[(f - a->f0) * (size_t)a->ldp + t] = a->weight != NULL ? x * a->weight[f] : x;
        }
}

static void model_psi_k(const struct tsa_monomials *mono, T *base, const T *weight, T *psi)
{
    for (size_t g = mono->d; g < mono->lower; g++)
        base[g] = monomial(g + 1, base, 1);
    for (size_t f = 0; f < mono->total; f++)
        psi[f] = monomial(f, base, 1) * weight[f];
}

static void model_decay(size_t count, T e, T *hi, T *lo)
{
    for (size_t i = 0; i < count; i++)
        decay_double_float(&hi[i], &lo[i], e);
}

static void model_fold(size_t count, T *hi, T *lo, T e, const T *local, T *prefix)
{
    for (size_t i = 0; i < count; i++) {
        T was = hi[i];

        if (e != 1)
            decay_double_float(&hi[i], &lo[i], e);
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

static void model_multiply(size_t count, const T *x, T *y)
{
    for (size_t i = 0; i < count; i++)
        y[i] = y[i] * x[i];
}

static void model_gate_weights(const struct ARGS(gate_weights) *a)
{
    for (size_t t = 0; t < a->queries; t++)
        for (size_t i = 0; i < a->keys && (ptrdiff_t)i <= a->diag + (ptrdiff_t)t; i++) {
            if ((ptrdiff_t)i < a->diag + (ptrdiff_t)t)
                a->decay[i] = a->decay[i] * a->gate[t];
            if (a->w != NULL)
                a->w[i * (size_t)a->ldw + t] = a->w[i * (size_t)a->ldw + t] * a->decay[i];
        }
}

static void model_finish(size_t queries, const struct ARGS(finish) *args, T *den)
{
    for (size_t t = 0; t < queries; t++) {
        if (args->sum)
            den[t] = 1;
        else if (args->add != 0)
            den[t] = den[t] + args->add;
        if (!args->sum && args->floor > 0 && FABS(den[t]) < args->floor)
            den[t] = args->floor;
        else if (!args->sum && args->floor > 0)
            den[t] = FABS(den[t]);
    }
}

static void model_scale_rows(size_t rows, size_t columns, const T *factor, ptrdiff_t step,
                             const T *src, ptrdiff_t stride, T *dst, ptrdiff_t ldd)
{
    for (size_t r = 0; r < rows; r++)
        for (size_t c = 0; c < columns; c++)
            dst[(ptrdiff_t)r * ldd + (ptrdiff_t)c] =
                canonical(src[(ptrdiff_t)r * stride + (ptrdiff_t)c] * factor[(ptrdiff_t)r * step]);
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

static void model_window(const struct ARGS(window) *a)
{
    for (size_t t = 0; t < a->queries; t++)
        for (size_t c = 0; c < a->columns; c++) {
            T s = a->first ? 0 : a->acc[t * (size_t)a->lda + c];

            if (!a->first && a->shrink != NULL)
                s = s * a->shrink[t];
            for (size_t i = 0; i < seen(a->keys, a->diag, t); i++)
                s = FMA(a->w[i * (size_t)a->ldw + t], a->v[i * (size_t)a->ldv + c], s);
            a->dst[(ptrdiff_t)t * a->stride + (ptrdiff_t)c] =
                a->den != NULL ? canonical(s / a->den[t]) : s;
        }
}

static void model_decode_scores(size_t keys, size_t width, const T *kt, ptrdiff_t ldk, const T *q,
                                size_t terms, const T *coef, T *w)
{
    for (size_t i = 0; i < keys; i++)
        w[i] = horner(terms, coef, score(width, kt + i, ldk, q, 1));
}

static void model_decode_heads(const struct ARGS(decode_heads) *a)
{
    const struct ARGS(decode_state) *q = &a->state;

    for (size_t h = 0; h < q->heads; h++) {
        const T *psi = q->psi + h * (size_t)q->ldp, *w = a->w + h * (size_t)a->ldw;
        T den = q->first ? 0 : q->den[h];

        T by;

        for (size_t f = q->features; f-- > 0;)
            den = FMA(psi[f], q->ones[h][f], den);
        if (a->decay != NULL)
            den = den * a->decay[h];
        for (size_t i = 0; i < a->keys[h]; i++)
            den = FMA(w[i], 1, den);
        by = den;
        if (a->finish != NULL)
            model_finish(1, a->finish, &by);
        for (size_t c = 0; c < q->columns; c++) {
            T s = q->first ? 0 : q->acc[h * (size_t)q->lda + c];

            for (size_t f = q->features; f-- > 0;)
                s = FMA(psi[f], q->hi[h][f * (size_t)q->ldh + c], s);
            if (a->decay != NULL)
                s = s * a->decay[h];
            for (size_t i = 0; i < a->keys[h]; i++)
                s = FMA(w[i], a->v[h][i * (size_t)a->ldv + c], s);
            a->dst[h][c] = canonical(s / by);
        }
        q->den[h] = den;
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

static void model_scores(const struct ARGS(scores) *a)
{
    for (size_t t = 0; t < a->queries; t++)
        for (size_t i = 0; i < seen(a->keys, a->diag, t); i++) {
            T x = score(a->d, a->kt + i, a->ldk, a->qt + t, a->ldq);

            if (a->kind == TSA_SCORE_SERIES)
                x = horner(a->terms, a->coef, x);
            else if (a->kind == TSA_SCORE_EXP)
                x = bounded_exponential(x);
            a->w[i * (size_t)a->ldw + t] = x;
        }
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

static int model_softmax_weights(const struct ARGS(softmax_weights) *a)
{
    int differs = 0;

    for (size_t t = 0; t < a->queries; t++) {
        size_t n = seen(a->keys, a->diag, t);
        T top = a->first ? a->w[t] : a->max[t], sum = 0;

        for (size_t i = 0; i < n; i++)
            if (a->w[i * (size_t)a->ldw + t] > top)
                top = a->w[i * (size_t)a->ldw + t];
        if (!a->first) {
            a->shrink[t] = exponential(a->max[t] - top);
            differs |= a->shrink[t] != 1;
            sum = a->den[t] * a->shrink[t];
        }
        for (size_t i = 0; i < n; i++) {
            T *x = &a->w[i * (size_t)a->ldw + t];

            *x = exponential(*x - top);
            sum = sum + *x;
        }
        a->max[t] = top;
        a->den[t] = sum;
    }
    return differs;
}

static void model_softmax_row(const struct ARGS(softmax_row) *a)
{
    ptrdiff_t all = (ptrdiff_t)a->keys;
    T shrink = 1;

    model_scores(&(const struct ARGS(scores)){.keys = a->keys,
                                              .queries = 1,
                                              .d = a->d,
                                              .kt = a->kt,
                                              .ldk = a->ldk,
                                              .qt = a->q,
                                              .ldq = 1,
                                              .w = a->w,
                                              .ldw = 1,
                                              .diag = all,
                                              .kind = a->bounded ? TSA_SCORE_EXP : TSA_SCORE_ONLY});
    if (a->bounded)
        model_window_ones(a->keys, 1, a->w, 1, all, a->den, a->first);
    else
        model_softmax_weights(&(const struct ARGS(softmax_weights)){.keys = a->keys,
                                                                    .queries = 1,
                                                                    .w = a->w,
                                                                    .ldw = 1,
                                                                    .diag = all,
                                                                    .first = a->first,
                                                                    .max = a->max,
                                                                    .den = a->den,
                                                                    .shrink = &shrink});
    model_window(&(const struct ARGS(window)){.queries = 1,
                                              .columns = a->columns,
                                              .keys = a->keys,
                                              .diag = all,
                                              .w = a->w,
                                              .ldw = 1,
                                              .v = a->v,
                                              .ldv = a->ldv,
                                              .acc = a->acc,
                                              .dst = a->acc,
                                              .first = a->first,
                                              .shrink = &shrink});
}

static void model_softmax_decode(const struct ARGS(softmax_decode) *a)
{
    T *w = a->scratch;

    for (size_t i = 0; i < a->keys; i += TSA_TILE_TOKENS) {
        size_t n = a->keys - i < TSA_TILE_TOKENS ? a->keys - i : TSA_TILE_TOKENS;

        model_pack_t(n, a->d, a->k + (ptrdiff_t)i * a->stride, a->stride, a->l2, 1, a->kt,
                     TSA_TILE_TOKENS);
        model_softmax_row(&(const struct ARGS(softmax_row)){.keys = n,
                                                            .d = a->d,
                                                            .kt = a->kt,
                                                            .ldk = TSA_TILE_TOKENS,
                                                            .q = a->q,
                                                            .bounded = a->bounded,
                                                            .columns = a->columns,
                                                            .v = a->v + (ptrdiff_t)i * a->ldv,
                                                            .ldv = a->ldv,
                                                            .first = a->first && i == 0,
                                                            .max = a->max,
                                                            .den = a->den,
                                                            .acc = a->acc,
                                                            .w = w});
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
    .products =
        {
#include "products.def"
        },
#include "kernels.def"
};
#undef TSA_KERNEL
