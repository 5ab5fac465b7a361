/* SPDX-License-Identifier: MIT */
/* Kernels of monomials, for elements. */

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

static void psi_t(const struct tsa_monomials *mono, size_t f0, size_t f1, size_t cols, T *base,
                  ptrdiff_t ldb, const T *weight, T *psi, ptrdiff_t ldp)
{
    struct psi_out out = {.rows = psi, .ld = ldp};
    if (weight)
        psi_walk(PSI_ROWS, ROW_WEIGHTED, mono, f0, f1, cols, base, ldb, weight + f0, &out);
    else
        psi_walk(PSI_ROWS, 0, mono, f0, f1, cols, base, ldb, NULL, &out);
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
