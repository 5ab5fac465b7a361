/* SPDX-License-Identifier: MIT */
/* The model for one type T; included by model.c with T, UINT, FN(name), FMA, DOT, SQRT, EMAX, QNAN.
 * It is meant to be read beside the definition of the arithmetic, and does nothing cleverly. */

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
    ((T *)s->decay)[s->window] = 1;
    s->window++;
    s->tokens++;
}

/* Of the last token: it forgets what came before, but not itself. */
static void FN(gate)(struct model_head *s, const T *g, const T *value_gate)
{
    T *decay = s->decay, *past = s->past;
    past[0] = past[0] * *g;
    past[1] = past[1] * *g;
    for (size_t i = 0; i + 1 < s->window; i++)
        decay[i] = decay[i] * *g;
    decay[s->window - 1] = *value_gate;
}

/* (hi, lo) times e. */
static void FN(forget)(T *hi, T *lo, T e)
{
    if (e == 1)
        return;
    const T p = *hi * e, small = *lo * e, r = FMA(*hi, e, -p) + small;
    *hi = p + r;
    *lo = r - (*hi - p);
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

/* local[c] = sums of feature f over the window's tokens, their values decayed if there are gates;
 * returns that of the column of ones. High
 * features take two tokens at a time, and zeros for one that is missing. */
static T FN(sum_window)(const struct model *m, const struct model_head *s, size_t f, T *local)
{
    const T *k = s->k, *v = s->v, *decay = s->decay;
    T ones = 0;
    memset(local, 0, m->dv * sizeof(T));
    for (size_t t = 0; f < m->high && t < s->window; t++) {
        const T phi = FN(monomial)(m, f, k + t * m->d);
        for (size_t c = 0; c < m->dv; c++)
            local[c] = FMA(phi, decay[t] * v[t * m->dv + c], local[c]);
        ones = FMA(phi, decay[t], ones);
    }
    for (size_t t = 0; f >= m->high && t < s->window; t += 2) {
        const bool two = t + 1 < s->window;
        const T even = FN(monomial)(m, f, k + t * m->d), next = two ? decay[t + 1] : 0;
        const T odd = two ? FN(monomial)(m, f, k + (t + 1) * m->d) : 0;
        for (size_t c = 0; c < m->dv; c++)
            local[c] = DOT(even, decay[t] * v[t * m->dv + c], odd,
                           two ? next * v[(t + 1) * m->dv + c] : 0, local[c]);
        ones = DOT(even, decay[t], odd, next, ones);
    }
    return ones;
}

/* Add the window's local sums to (hi, lo) as one chunk. The window itself is left alone. */
static void FN(fold_window)(const struct model *m, const struct model_head *s, T *hi, T *lo,
                            T *ones_hi, T *ones_lo)
{
    T *local = calloc(m->dv, sizeof(T));
    const T e = *(const T *)s->past;
    for (size_t f = 0; f < m->features; f++) {
        const T ones = FN(sum_window)(m, s, f, local);
        for (size_t c = 0; c < m->dv; c++) {
            FN(forget)(hi + f * m->dv + c, lo + f * m->dv + c, e);
            FN(add)(hi + f * m->dv + c, lo + f * m->dv + c, local[c], lo[f * m->dv + c]);
        }
        FN(forget)(ones_hi + f, ones_lo + f, e);
        FN(add)(ones_hi + f, ones_lo + f, ones, ones_lo[f]);
    }
    free(local);
}

/* Monomial f of the scaled query x, with its weight. */
static T FN(psi)(const struct model *m, size_t h, size_t f, const T *x)
{
    const double coef = m->coefficients[h * m->terms + m->degree[f]];
    return FN(monomial)(m, f, x) * (T)(coef * m->multiplicity[f]);
}

/* num[c] = sums over features, from the last down; returns that of the column of ones. High
 * features go in pairs, and zeros stand for one that is missing. */
static T FN(sum_features)(const struct model *m, const struct model_head *s, size_t h, const T *x,
                          T *num)
{
    const T *hi = s->hi, *ones = s->ones_hi;
    T den = 0;
    for (size_t p = (m->features - m->high + 1) / 2; p-- > 0;) {
        const size_t f = m->high + 2 * p;
        const bool two = f + 1 < m->features;
        const T even = FN(psi)(m, h, f, x), odd = two ? FN(psi)(m, h, f + 1, x) : 0;
        for (size_t c = 0; c < m->dv; c++)
            num[c] = DOT(even, hi[f * m->dv + c], odd, two ? hi[(f + 1) * m->dv + c] : 0, num[c]);
        den = DOT(even, ones[f], odd, two ? ones[f + 1] : 0, den);
    }
    for (size_t f = m->high; f-- > 0;) {
        const T psi = FN(psi)(m, h, f, x);
        for (size_t c = 0; c < m->dv; c++)
            num[c] = FMA(psi, hi[f * m->dv + c], num[c]);
        den = FMA(psi, ones[f], den);
    }
    return den;
}

/* What a numerator becomes. */
static T FN(finish)(const struct model *m, T num, T den)
{
    const T add = (T)m->denominator_add, floor = (T)m->denominator_floor,
            scale = (T)m->output_scale;
    if (add != 0)
        den = den + add;
    if (floor > 0)
        den = ABS(den) < floor ? floor : ABS(den);
    const T o = m->output == TSA_OUTPUT_SUM ? num : num / den;
    return scale == 1 ? o : o * scale;
}

static void FN(query)(const struct model *m, const struct model_head *s, size_t h, const T *q, T *o)
{
    const double *coef = m->coefficients + h * m->terms;
    const T *k = s->k, *v = s->v, *decay = s->decay, e = *(const T *)s->past;
    const T scale = (T)(1.0 / m->temperature[h]);
    T *x = calloc(m->d, sizeof(T)), *num = calloc(m->dv, sizeof(T)), den = 0;
    FN(normalise)(m, q, x);
    for (size_t i = 0; i < m->d; i++)
        x[i] = x[i] * scale;
    if (s->tokens > s->window)
        den = FN(sum_features)(m, s, h, x, num);
    for (size_t c = 0; c < m->dv; c++)
        num[c] = num[c] * e;
    den = den * e;
    for (size_t t = 0; t < s->window; t++) {
        T score = 0, w = (T)coef[m->terms - 1];
        for (size_t i = 0; i < m->d; i++)
            score = FMA(x[i], k[t * m->d + i], score);
        for (size_t j = m->terms - 1; j-- > 0;)
            w = FMA(w, score, (T)coef[j]);
        w = decay[t] * w;
        for (size_t c = 0; c < m->dv; c++)
            num[c] = FMA(w, v[t * m->dv + c], num[c]);
        den = FMA(w, (T)1, den);
    }
    for (size_t c = 0; c < m->dv; c++) {
        const UINT nan = QNAN;
        o[c] = FN(finish)(m, num[c], den);
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
    *(T *)s->past = 1;
}

/* dst keeps its own window open; src's is folded into a copy of src's sums. */
static void FN(merge)(const struct model *m, struct model_head *dst, const struct model_head *src)
{
    struct model_head *copy = model_head_new(m);
    model_head_copy(m, copy, src);
    if (src->window > 0)
        FN(fold)(m, copy);
    T *hi = dst->hi, *lo = dst->lo, *decay = dst->decay, *past = dst->past;
    const T *hi2 = copy->hi, *lo2 = copy->lo, all = ((const T *)copy->past)[1];
    for (size_t i = 0; i < m->features * m->dv; i++) {
        FN(forget)(hi + i, lo + i, past[0]);
        FN(forget)(hi + i, lo + i, all);
        FN(add)(hi + i, lo + i, hi2[i], lo[i] + lo2[i]);
    }
    hi = dst->ones_hi, lo = dst->ones_lo, hi2 = copy->ones_hi, lo2 = copy->ones_lo;
    for (size_t f = 0; f < m->features; f++) {
        FN(forget)(hi + f, lo + f, past[0]);
        FN(forget)(hi + f, lo + f, all);
        FN(add)(hi + f, lo + f, hi2[f], lo[f] + lo2[f]);
    }
    for (size_t i = 0; i < dst->window; i++)
        decay[i] = decay[i] * all;
    past[0] = 1;
    past[1] = past[1] * all;
    dst->tokens += copy->tokens;
    model_head_free(copy);
}

/* F rows of dv+1 sums, those of the window in them. */
static void FN(export)(const struct model *m, const struct model_head *s, double *sums)
{
    struct model_head *copy = model_head_new(m);
    model_head_copy(m, copy, s);
    if (s->window > 0)
        FN(fold)(m, copy);
    const T *hi = copy->hi, *lo = copy->lo, *ones_hi = copy->ones_hi, *ones_lo = copy->ones_lo;
    for (size_t f = 0; f < m->features; f++, sums++) {
        for (size_t c = 0; c < m->dv; c++)
            *sums++ = (double)hi[f * m->dv + c] + (double)lo[f * m->dv + c];
        *sums = (double)ones_hi[f] + (double)ones_lo[f];
    }
    model_head_free(copy);
}
