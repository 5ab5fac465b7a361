/* SPDX-License-Identifier: MIT */
/* Every kernel as the plainest C that performs the defined sequence of operations, one element at
 * a time: what all tables are compared with, bit by bit. T is the arithmetic type. */

static const struct kc_mono *model_mono; /* tuples behind the struct that kernels get */

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

/* Monomial f of the variables x[0], x[step], ...: x_i1 * (x_i2 * (... x_im)), 1 for degree 0. */
static T monomial(size_t f, const T *x, size_t step)
{
    const unsigned char *index = model_mono->index[f];
    size_t m = model_mono->degree[f];
    T product = m == 0 ? 1 : x[index[m - 1] * step];

    for (size_t j = m - 1; m > 1 && j-- > 0;)
        product = x[index[j] * step] * product;
    return product;
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

static void model_turn(size_t rows, size_t cols, const T *in, ptrdiff_t ldi, T *sum, int first,
                       T *out, ptrdiff_t ldo)
{
    for (size_t r = 0; r < rows; r++) {
        T s = first || sum == NULL ? 0 : sum[r];

        for (size_t c = 0; c < cols; c++) {
            s = FMA(in[r * (size_t)ldi + c], 1, s);
            if (out != NULL)
                out[c * (size_t)ldo + r] = in[r * (size_t)ldi + c];
        }
        if (sum != NULL)
            sum[r] = s;
    }
}

static void model_psi_k(const struct tsa_monomials *mono, T *base, const T *weight, T *psi)
{
    for (size_t g = mono->d; g < mono->lower; g++)
        base[g] = monomial(g + 1, base, 1);
    for (size_t f = 0; f < mono->total; f++)
        psi[f] = monomial(f, base, 1) * weight[f];
}

static void model_query(size_t rows, size_t cols, size_t features, const T *psi, ptrdiff_t ldp,
                        const T *hi, ptrdiff_t ldh, T *acc, ptrdiff_t lda, int first,
                        struct tsa_ahead *ahead)
{
    (void)ahead;
    for (size_t t = 0; t < rows; t++)
        for (size_t c = 0; c < cols; c++) {
            T s = first ? 0 : acc[t * (size_t)lda + c];

            for (size_t f = features; f-- > 0;)
                s = FMA(psi[f * (size_t)ldp + t], hi[f * (size_t)ldh + c], s);
            acc[t * (size_t)lda + c] = s;
        }
}

static void model_query_ones(size_t rows, size_t features, const T *psi, ptrdiff_t ldp,
                             const T *ones, T *den, int first)
{
    for (size_t t = 0; t < rows; t++) {
        T s = first ? 0 : den[t];

        for (size_t f = features; f-- > 0;)
            s = FMA(psi[f * (size_t)ldp + t], ones[f], s);
        den[t] = s;
    }
}

static T update_chain(size_t rows, const T *phi, const T *v, size_t ldv, T s)
{
    for (size_t t = 0; t < rows; t++)
        s = FMA(phi[t], v[t * ldv], s);
    return s;
}

static void model_update(size_t features, size_t cols, size_t rows, const T *phi, const T *v,
                         ptrdiff_t ldv, T *local, ptrdiff_t ldl, int first, struct tsa_ahead *ahead)
{
    (void)ahead;
    for (size_t f = 0; f < features; f++)
        for (size_t c = 0; c < cols; c++) {
            T *sum = &local[f * (size_t)ldl + c];

            *sum = update_chain(rows, phi + f * TSA_TILE_TOKENS, v + c, (size_t)ldv,
                                first ? 0 : *sum);
        }
}

/* (hi, lo) += (x, y): TwoSum of the high parts, then renormalised. */
static void add_double_float(T *hi, T *lo, T x, T y)
{
    T s = *hi + x, b = s - *hi;
    T e = (*hi - (s - b)) + (x - b);

    e = e + y;
    *hi = s + e;
    *lo = e - (*hi - s);
}

static void model_update_fold(size_t features, size_t cols, size_t rows, const T *phi, const T *v,
                              ptrdiff_t ldv, const T *local, ptrdiff_t ldl, T *hi, T *lo,
                              ptrdiff_t ldh, struct tsa_ahead *ahead)
{
    (void)ahead;
    for (size_t f = 0; f < features; f++)
        for (size_t c = 0; c < cols; c++) {
            size_t at = f * (size_t)ldh + c;
            T s = local != NULL ? local[f * (size_t)ldl + c] : 0;

            s = update_chain(rows, phi + f * TSA_TILE_TOKENS, v + c, (size_t)ldv, s);
            add_double_float(&hi[at], &lo[at], s, lo[at]);
        }
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

static void model_scores(size_t keys, size_t queries, size_t width, const T *kt, ptrdiff_t ldk,
                         const T *qt, ptrdiff_t ldq, size_t terms, const T *coef, T *w,
                         ptrdiff_t ldw, ptrdiff_t diag)
{
    for (size_t t = 0; t < queries; t++)
        for (size_t i = 0; i < seen(keys, diag, t); i++) {
            T x = 0;

            for (size_t c = 0; c < width; c++)
                x = FMA(qt[c * (size_t)ldq + t], kt[c * (size_t)ldk + i], x);
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

static void model_decode_state(size_t rows, size_t cols, size_t features, const T *psi,
                               ptrdiff_t ldp, const T *const *hi, ptrdiff_t ldh,
                               const T *const *ones, T *acc, ptrdiff_t lda, T *den)
{
    for (size_t r = 0; r < rows; r++) {
        for (size_t c = 0; c < cols; c++) {
            T s = 0;

            for (size_t f = features; f-- > 0;)
                s = FMA(psi[r * (size_t)ldp + f], hi[r][f * (size_t)ldh + c], s);
            acc[r * (size_t)lda + c] = s;
        }
        den[r] = 0;
        for (size_t f = features; f-- > 0;)
            den[r] = FMA(psi[r * (size_t)ldp + f], ones[r][f], den[r]);
    }
}

static void model_decode_scores(size_t keys, size_t width, const T *kt, ptrdiff_t ldk, const T *q,
                                size_t terms, const T *coef, T *w)
{
    for (size_t i = 0; i < keys; i++) {
        T x = 0;

        for (size_t c = 0; c < width; c++)
            x = FMA(q[c], kt[c * (size_t)ldk + i], x);
        w[i] = horner(terms, coef, x);
    }
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

/* The contract leaves the blocking of the running maximum open: the plainest, key by key. Its
 * bits are compared with nothing. */
static void model_softmax(size_t keys, size_t d, const T *kt, ptrdiff_t ldk, const T *q,
                          size_t width, const T *v, ptrdiff_t ldv, T *max, T *sum, T *acc,
                          T *scratch)
{
    (void)scratch;
    for (size_t i = 0; i < keys; i++) {
        T x = 0, keep, term;

        for (size_t c = 0; c < d; c++)
            x = FMA(q[c], kt[c * (size_t)ldk + i], x);
        keep = x > *max ? EXP(*max - x) : 1;
        if (x > *max)
            *max = x;
        term = EXP(x - *max);
        *sum = FMA(*sum, keep, term);
        for (size_t c = 0; c < width; c++)
            acc[c] = FMA(acc[c], keep, v[i * (size_t)ldv + c] * term);
    }
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
