/* SPDX-License-Identifier: MIT */
/* Monomials. Those of degree m that begin with index i are x_i times the contiguous suffix of the
 * degree m-1 list whose first index is >= i, so a feature costs one product and no gather. With
 * lanes = tokens, base[] holds the low degrees; each degree above is made from the one below it,
 * block by block, where it is needed. */

/* How psi_rows makes a row: from a row of the degree below, or as a copy; weighted or plain. */
enum row_kind { ROW_PRODUCT = 1, ROW_WEIGHTED = 2 };

TSA_INLINE void psi_vectors(const int nv, const int kind, size_t n, const T *x, const T *low,
                            ptrdiff_t ldl, const T *weight, T *out, ptrdiff_t ldo)
{
    V xi[4];
    if (kind & ROW_PRODUCT) {
        TSA_UNROLL
        for (int j = 0; j < nv; j++)
            xi[j] = v_load(x + j * VL);
    }
    for (; n > 0; n--, low += ldl, out += ldo) {
        V w;
        if (kind & ROW_WEIGHTED)
            w = v_set1(*weight++);
        TSA_UNROLL
        for (int j = 0; j < nv; j++) {
            V y = v_load(low + j * VL);
            if (kind & ROW_PRODUCT)
                y = v_mul(xi[j], y);
            if (kind & ROW_WEIGHTED)
                y = v_mul(y, w);
            v_store(out + j * VL, y);
        }
    }
}

/* out[r] = x * low[r] * weight[r], as far as kind says. */
TSA_INLINE void psi_rows(const int kind, size_t n, size_t cols, const T *x, const T *low,
                         ptrdiff_t ldl, const T *weight, T *out, ptrdiff_t ldo)
{
    size_t c = 0;
    for (; c + 3 * VL < cols; c += 4 * VL)
        psi_vectors(4, kind, n, x + c, low + c, ldl, weight, out + c, ldo);
    for (; c < cols; c += VL)
        psi_vectors(1, kind, n, x + c, low + c, ldl, weight, out + c, ldo);
}

/* The first index of the monomial at position p of its degree: s[i] <= p < s[i+1]. Selections, not
 * branches: their outcome is not foreseeable. */
static size_t first_index(const size_t *s, size_t d, size_t p)
{
    size_t i = 0, step = 1;
    while (step < d)
        step *= 2;
    for (; step > 0; step /= 2) {
        size_t j = i + step;
        j = j < d ? j : i;
        i = s[j] <= p ? j : i;
    }
    return i;
}

/* Rows of the n <= TSA_PIECE monomials of degree m >= 1 from position p on: those of base, or made
 * in its scratch rows. */
static const T *degree_t(const struct tsa_monomials *mono, size_t m, size_t p, size_t n,
                         size_t cols, T *base, ptrdiff_t ldb)
{
    if (m <= mono->stored)
        return base + (ptrdiff_t)(mono->start[m] - 1 + p) * ldb;
    const size_t *s = mono->suffix + m * (mono->d + 1), *t = s - (mono->d + 1);
    const size_t level = m - mono->stored - 1;
    T *rows = base + (ptrdiff_t)(mono->base + level * TSA_PIECE) * ldb, *out = rows;
    for (size_t i = first_index(s, mono->d, p); n > 0; i++) {
        const size_t left = s[i + 1] - p, k = n < left ? n : left;
        const T *low = degree_t(mono, m - 1, t[i] + p - s[i], k, cols, base, ldb);
        psi_rows(ROW_PRODUCT, k, cols, base + (ptrdiff_t)i * ldb, low, ldb, NULL, out, ldb);
        out += (ptrdiff_t)k * ldb;
        p += k;
        n -= k;
    }
    return rows;
}

static void base_t(const struct tsa_monomials *mono, size_t cols, T *base, ptrdiff_t ldb)
{
    for (size_t m = 2; m <= mono->stored; m++) {
        const size_t *s = mono->suffix + m * (mono->d + 1), *t = s - (mono->d + 1);
        T *rows = base + (ptrdiff_t)(mono->start[m] - 1) * ldb;
        const T *low = base + (ptrdiff_t)(mono->start[m - 1] - 1) * ldb;
        for (size_t i = 0; i < mono->d; i++)
            psi_rows(ROW_PRODUCT, s[i + 1] - s[i], cols, base + (ptrdiff_t)i * ldb,
                     low + (ptrdiff_t)t[i] * ldb, ldb, NULL, rows + (ptrdiff_t)s[i] * ldb, ldb);
    }
}

/* Rows of degree m > mono->stored, positions p .. end-1, run by run. */
TSA_INLINE void psi_runs(const int kind, const struct tsa_monomials *mono, size_t m, size_t p,
                         size_t end, size_t cols, T *base, ptrdiff_t ldb, const T *weight, T *psi,
                         ptrdiff_t ldp)
{
    const size_t *s = mono->suffix + m * (mono->d + 1), *t = s - (mono->d + 1);
    const size_t most = m - 1 > mono->stored ? TSA_PIECE : SIZE_MAX;
    for (size_t i = first_index(s, mono->d, p); p < end;) {
        const size_t stop = s[i + 1] < end ? s[i + 1] : end;
        const size_t n = stop - p < most ? stop - p : most;
        const T *low = degree_t(mono, m - 1, t[i] + p - s[i], n, cols, base, ldb);
        psi_rows(kind, n, cols, base + (ptrdiff_t)i * ldb, low, ldb, weight, psi, ldp);
        psi += (ptrdiff_t)n * ldp;
        if (kind & ROW_WEIGHTED)
            weight += n;
        p += n;
        i += p == s[i + 1];
    }
}

static void psi_t(const struct tsa_monomials *mono, size_t f0, size_t f1, size_t cols, T *base,
                  ptrdiff_t ldb, const T *weight, T *psi, ptrdiff_t ldp)
{
    size_t m = 0;
    for (size_t f = f0, end; f < f1; f = end) {
        while (mono->start[m + 1] <= f)
            m++;
        end = mono->start[m + 1] < f1 ? mono->start[m + 1] : f1;
        const T *w = weight ? weight + f : NULL;
        if (m == 0) {
            for (size_t c = 0; c < cols; c += VL)
                v_store(psi + c, v_set1(w ? *w : 1));
        } else if (m <= mono->stored) {
            const T *low = base + (ptrdiff_t)(f - 1) * ldb; /* degrees follow one another */
            if (w)
                psi_rows(ROW_WEIGHTED, end - f, cols, base, low, ldb, w, psi, ldp);
            else
                psi_rows(0, end - f, cols, base, low, ldb, NULL, psi, ldp);
        } else {
            const size_t p = f - mono->start[m], to = end - mono->start[m];
            if (w)
                psi_runs(ROW_PRODUCT | ROW_WEIGHTED, mono, m, p, to, cols, base, ldb, w, psi, ldp);
            else
                psi_runs(ROW_PRODUCT, mono, m, p, to, cols, base, ldb, NULL, psi, ldp);
        }
        psi += (ptrdiff_t)(end - f) * ldp;
    }
}

/* All lower degrees of one token, lanes = monomials. */
static void lower_k(const struct tsa_monomials *mono, T *base)
{
    for (size_t m = 2; m + 1 < mono->terms; m++) {
        const size_t *s = mono->suffix + m * (mono->d + 1), *t = s - (mono->d + 1);
        T *out = base + mono->start[m] - 1;
        const T *low = base + mono->start[m - 1] - 1;
        for (size_t i = 0; i < mono->d; i++) {
            const V x = v_set1(base[i]);
            /* may write past the run: the next run, or the row's padding, lies there */
            for (size_t p = 0; p < s[i + 1] - s[i]; p += VL)
                v_store(out + s[i] + p, v_mul(x, v_load(low + t[i] + p)));
        }
    }
}

/* No search for runs here: a token makes all of them. */
static void psi_k(const struct tsa_monomials *mono, T *base, const T *weight, T *psi)
{
    const size_t top = mono->terms - 1;
    if (top > 2)
        lower_k(mono, base);
    psi[0] = weight[0];
    if (top == 0)
        return;
    /* degrees 1 .. top-1, or 1 if that is the top, stand in base; stores may pass their end */
    const size_t stored = mono->start[top == 1 ? 2 : top] - 1;
    for (size_t f = 0; f < stored; f += VL) {
        const size_t n = stored - f < VL ? stored - f : VL;
        v_store(psi + 1 + f, v_mul(v_load(base + f), v_load_first(weight + 1 + f, n)));
    }
    if (top == 1)
        return;
    const size_t *s = mono->suffix + top * (mono->d + 1), *t = s - (mono->d + 1);
    psi += mono->start[top];
    weight += mono->start[top];
    for (size_t i = 0; i < mono->d; i++) {
        const V x = v_set1(base[i]);
        const T *low = base + mono->start[top - 1] - 1 + t[i];
        size_t n = s[i + 1] - s[i];
        for (; n >= VL; n -= VL, low += VL, psi += VL, weight += VL)
            v_store(psi, v_mul(v_mul(x, v_load(low)), v_load(weight)));
        if (n > 0) {
            v_store(psi, v_mul(v_mul(x, v_load(low)), v_load_first(weight, n)));
            psi += n;
            weight += n;
        }
    }
}
