/* SPDX-License-Identifier: MIT */
/* The model for one type T; included by model.c with T, UINT, FN(name), FMA, SQRT, EMAX, QNAN. It
 * is meant to be read beside the definition of the arithmetic, and does nothing cleverly. */

/* y = x / |x|, by an exact scaling to about 1 first; a zero row stays zero. */
static void FN(normalise)(const struct model *m, const T *x, T *y)
{
    T max = 0, sum = 0;
    for (size_t i = 0; i < m->d; i++) {
        y[i] = x[i];
        max = (T)fmax((double)max, fabs((double)x[i]));
        sum += x[i] != 0;
    }
    if (m->normalize == TSA_NORMALIZE_NONE || sum == 0)
        return;
    int e = ilogb((double)max);
    e = e < -EMAX ? -EMAX : e > EMAX ? EMAX : e;
    const T scale = (T)ldexp(1.0, -e);
    sum = 0;
    for (size_t i = 0; i < m->d; i++) {
        y[i] = x[i] * scale;
        sum = FMA(y[i], y[i], sum);
    }
    const T root = SQRT(sum);
    const T r = (T)1 / root;
    for (size_t i = 0; i < m->d; i++)
        y[i] = y[i] * r;
}

/* x_i1 * (x_i2 * (... x_im)), one rounded product per level. */
static T FN(monomial)(const struct model *m, size_t f, const T *x)
{
    const unsigned degree = m->degree[f];
    if (degree == 0)
        return 1;
    T product = x[m->tuple[f][degree - 1]];
    for (unsigned j = degree - 1; j-- > 0;)
        product = x[m->tuple[f][j]] * product;
    return product;
}

static void FN(append)(const struct model *m, struct model_head *s, const T *k, const T *v)
{
    FN(normalise)(m, k, (T *)s->k + s->window * m->d);
    memcpy((T *)s->v + s->window * m->dv, v, m->dv * sizeof(T));
    s->window++;
    s->tokens++;
}

/* Add `more` to hi; `low` is what goes with the exact error of that sum: lo for a fold, lo plus the
 * other's lo for a merge. */
static void FN(add)(T *hi, T *lo, T more, T low)
{
    const T a = *hi, sum = a + more;
    const T b = sum - a;
    T e = (a - (sum - b)) + (more - b);
    e = e + low;
    *hi = sum + e;
    *lo = e - (*hi - sum);
}

/* Add the window's local sums to (hi, lo) as one chunk. The window itself is left alone. */
static void FN(fold_window)(const struct model *m, const struct model_head *s, T *hi, T *lo,
                            T *ones_hi, T *ones_lo)
{
    const T *k = s->k, *v = s->v;
    T *local = calloc(m->dv, sizeof(T));
    for (size_t f = 0; f < m->features; f++) {
        T ones = 0;
        memset(local, 0, m->dv * sizeof(T));
        for (size_t t = 0; t < s->window; t++) {
            const T phi = FN(monomial)(m, f, k + t * m->d);
            for (size_t c = 0; c < m->dv; c++)
                local[c] = FMA(phi, v[t * m->dv + c], local[c]);
            ones = FMA(phi, (T)1, ones);
        }
        for (size_t c = 0; c < m->dv; c++)
            FN(add)(hi + f * m->dv + c, lo + f * m->dv + c, local[c], lo[f * m->dv + c]);
        FN(add)(ones_hi + f, ones_lo + f, ones, ones_lo[f]);
    }
    free(local);
}

static void FN(query)(const struct model *m, const struct model_head *s, size_t h, const T *q,
                      T *o)
{
    const double *coef = m->coefficients + h * m->terms;
    const T *hi = s->hi, *ones = s->ones_hi, *k = s->k, *v = s->v;
    const T scale = (T)(1.0 / m->temperature[h]);
    T *x = calloc(m->d, sizeof(T)), *num = calloc(m->dv, sizeof(T)), den = 0;
    FN(normalise)(m, q, x);
    for (size_t i = 0; i < m->d; i++)
        x[i] = x[i] * scale;
    if (s->tokens > s->window) {
        for (size_t f = m->features; f-- > 0;) {
            const T weight = (T)(coef[m->degree[f]] * m->multiplicity[f]);
            const T psi = FN(monomial)(m, f, x) * weight;
            for (size_t c = 0; c < m->dv; c++)
                num[c] = FMA(psi, hi[f * m->dv + c], num[c]);
            den = FMA(psi, ones[f], den);
        }
    }
    for (size_t t = 0; t < s->window; t++) {
        T score = 0, w = (T)coef[m->terms - 1];
        for (size_t i = 0; i < m->d; i++)
            score = FMA(x[i], k[t * m->d + i], score);
        for (size_t j = m->terms - 1; j-- > 0;)
            w = FMA(w, score, (T)coef[j]);
        for (size_t c = 0; c < m->dv; c++)
            num[c] = FMA(w, v[t * m->dv + c], num[c]);
        den = FMA(w, (T)1, den);
    }
    for (size_t c = 0; c < m->dv; c++) {
        const UINT nan = QNAN;
        o[c] = num[c] / den;
        if (o[c] != o[c])
            memcpy(o + c, &nan, sizeof nan);
    }
    free(x);
    free(num);
}

static void FN(fold)(const struct model *m, struct model_head *s)
{
    FN(fold_window)(m, s, s->hi, s->lo, s->ones_hi, s->ones_lo);
    s->window = 0;
}

/* dst keeps its own window open; src's is folded into a copy of src's sums. */
static void FN(merge)(const struct model *m, struct model_head *dst, const struct model_head *src)
{
    struct model_head *copy = model_head_new(m);
    model_head_copy(m, copy, src);
    if (src->window > 0)
        FN(fold)(m, copy);
    T *hi = dst->hi, *lo = dst->lo;
    const T *hi2 = copy->hi, *lo2 = copy->lo;
    for (size_t i = 0; i < m->features * m->dv; i++)
        FN(add)(hi + i, lo + i, hi2[i], lo[i] + lo2[i]);
    hi = dst->ones_hi, lo = dst->ones_lo, hi2 = copy->ones_hi, lo2 = copy->ones_lo;
    for (size_t f = 0; f < m->features; f++)
        FN(add)(hi + f, lo + f, hi2[f], lo[f] + lo2[f]);
    dst->tokens += copy->tokens;
    model_head_free(copy);
}

static void FN(export)(const struct model *m, const struct model_head *s, size_t degree,
                       double *sums, double *scale)
{
    const T *k = s->k, *v = s->v;
    for (size_t f = m->start[degree]; f < m->start[degree + 1]; f++)
        for (size_t c = 0; c <= m->dv; c++, sums++, scale++) {
            const size_t at = f * m->dv + c;
            const double hi = c < m->dv ? ((T *)s->hi)[at] : ((T *)s->ones_hi)[f];
            const double lo = c < m->dv ? ((T *)s->lo)[at] : ((T *)s->ones_lo)[f];
            *sums = hi + lo;
            *scale = fabs(hi) + fabs(lo);
            for (size_t t = 0; t < s->window; t++) {
                const double phi = FN(monomial)(m, f, k + t * m->d);
                const double x = c < m->dv ? phi * v[t * m->dv + c] : phi;
                *sums += x;
                *scale += fabs(x);
            }
        }
}
