/* SPDX-License-Identifier: MIT */
/* The model of tsa_softmax for one type T, an output row at a time; included by softmax_run.c
 * with T, UINT, FN(name), FMA, QNAN, EXP_FMA, EXP_PLAIN and the table FN(e). Like model_tmpl.h it
 * is meant to be read beside the definition of the arithmetic. */

#define BLOCK 64   /* keys, by absolute position, between which the maximum may change */
#define SUPER 4096 /* keys, likewise, that are summed on their own */

static T FN(exp_general)(T x)
{
#if (defined(__x86_64__) || defined(__i386__)) && defined(__GNUC__)
    if (!__builtin_cpu_supports("fma")) /* as the library: see v_scalar.h */
        return EXP_PLAIN(x);
#endif
    return EXP_FMA(x);
}

/* 1 + x g(x), for |x| of little more than 1/2. */
static T FN(exp_bounded)(T x)
{
    size_t j = sizeof FN(e) / sizeof *FN(e);
    T p = FN(e)[--j];
    while (j-- > 0)
        p = FMA(p, x, FN(e)[j]);
    return FMA(p, x, (T)1);
}

static T FN(larger)(T a, T b)
{
    return a > b ? a : b;
}

/* Sums of weights and of weighted values; in the general form, of exp(x - max). */
struct FN(sums) {
    T max, den, *acc;
};

static void FN(add_key)(struct FN(sums) * s, size_t dv, T weight, const T *v)
{
    s->den = s->den + weight;
    for (size_t c = 0; c < dv; c++)
        s->acc[c] = FMA(weight, v[c], s->acc[c]);
}

/* One segment. */
static void FN(sum_bounded)(struct FN(sums) * s, size_t dv, size_t keys, const T *x, const T *v)
{
    for (size_t i = 0; i < keys; i++)
        FN(add_key)(s, dv, FN(exp_bounded)(x[i]), v + i * dv);
}

static void FN(sum_general)(struct FN(sums) * s, size_t dv, size_t keys, const T *x, const T *v)
{
    for (size_t b = 0; b < keys; b += BLOCK) {
        const size_t end = b + BLOCK < keys ? b + BLOCK : keys;
        T top = x[b];
        for (size_t i = b; i < end; i++)
            top = FN(larger)(top, x[i]);
        if (b > 0) {
            top = FN(larger)(s->max, top);
            const T r = FN(exp_general)(s->max - top);
            s->den = s->den * r;
            for (size_t c = 0; c < dv; c++)
                s->acc[c] = s->acc[c] * r;
        }
        s->max = top;
        for (size_t i = b; i < end; i++)
            FN(add_key)(s, dv, FN(exp_general)(x[i] - top), v + i * dv);
    }
}

/* Segments so far, and the next one. */
static void FN(combine_bounded)(struct FN(sums) * s, size_t dv, const struct FN(sums) * next)
{
    s->den = s->den + next->den;
    for (size_t c = 0; c < dv; c++)
        s->acc[c] = s->acc[c] + next->acc[c];
}

static void FN(combine_general)(struct FN(sums) * s, size_t dv, const struct FN(sums) * next)
{
    const T max = FN(larger)(s->max, next->max);
    const T r1 = FN(exp_general)(s->max - max), r2 = FN(exp_general)(next->max - max);
    s->max = max;
    s->den = FMA(next->den, r2, s->den * r1);
    for (size_t c = 0; c < dv; c++)
        s->acc[c] = FMA(next->acc[c], r2, s->acc[c] * r1);
}

/* o of query q of head h over the first `keys` of k, whose rows are normalised, and of v. */
static void FN(row)(const struct model *m, size_t h, const T *q, const T *k, const T *v,
                    size_t keys, T *o)
{
    const T scale = (T)(1.0 / m->temperature[h]);
    const bool bounded = m->normalize == TSA_NORMALIZE_L2 && scale <= (T)0.5;
    const size_t d = m->d, dv = m->dv;
    T *y = calloc(d + keys + 2 * dv, sizeof(T)), *x = y + d, *acc = x + keys;
    struct FN(sums) all = {0, 0, acc};
    model_normalise(m, q, y);
    for (size_t c = 0; c < d; c++)
        y[c] = y[c] * scale;
    for (size_t i = 0; i < keys; i++)
        for (size_t c = 0; c < d; c++)
            x[i] = FMA(y[c], k[i * d + c], x[i]);
    for (size_t i = 0; i < keys; i += SUPER) {
        const size_t n = keys - i < SUPER ? keys - i : SUPER;
        struct FN(sums) one = {0, 0, acc + dv};
        memset(one.acc, 0, dv * sizeof(T));
        (bounded ? FN(sum_bounded) : FN(sum_general))(&one, dv, n, x + i, v + i * dv);
        if (i > 0) {
            (bounded ? FN(combine_bounded) : FN(combine_general))(&all, dv, &one);
        } else {
            all.max = one.max, all.den = one.den;
            memcpy(all.acc, one.acc, dv * sizeof(T));
        }
    }
    for (size_t c = 0; c < dv; c++) {
        const UINT nan = QNAN;
        o[c] = all.acc[c] / all.den;
        if (o[c] != o[c])
            memcpy(o + c, &nan, sizeof nan);
    }
    free(y);
}

#undef BLOCK
#undef SUPER
