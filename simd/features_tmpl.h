/* SPDX-License-Identifier: MIT */
/* Monomials. Those of degree m that begin with index i are x_i times the contiguous suffix of the
 * degree m-1 list whose first index is >= i, so a feature costs one product and no gather.
 * base[] holds degrees 1..terms-2; the top degree is made from it block by block. */

/* The run of features from f on that share (degree, first index): ends before *end, degree *m,
 * first index *i; *low is the base row of its lower factor, or of itself below the top degree. */
struct run {
    size_t end, m, i, low;
};
TSA_INLINE struct run run_at(const struct tsa_monomials *mono, size_t f, size_t limit)
{
    struct run run = {.end = limit, .m = 0, .i = 0, .low = 0};
    while (mono->start[run.m + 1] <= f)
        run.m++;
    const size_t end = mono->start[run.m + 1], p = f - mono->start[run.m];
    if (end < run.end)
        run.end = end;
    if (run.m == 0)
        return run;
    run.low = f - 1; /* row of f itself: degrees 1.. follow one another */
    if (run.m + 1 < mono->terms || run.m == 1)
        return run;
    const size_t *s = mono->suffix + run.m * (mono->d + 1), *t = s - (mono->d + 1);
    size_t lo = 0, hi = mono->d; /* s[lo] <= p < s[hi] */
    while (hi - lo > 1) {
        const size_t mid = (lo + hi) / 2;
        if (s[mid] <= p)
            lo = mid;
        else
            hi = mid;
    }
    run.i = lo;
    run.low = mono->start[run.m - 1] - 1 + t[lo] + (p - s[lo]);
    if (mono->start[run.m] + s[lo + 1] < run.end)
        run.end = mono->start[run.m] + s[lo + 1];
    return run;
}

static void base_t(const struct tsa_monomials *mono, size_t cols, T *base, ptrdiff_t ldb)
{
    for (size_t m = 2; m + 1 < mono->terms; m++) {
        const size_t *s = mono->suffix + m * (mono->d + 1), *t = s - (mono->d + 1);
        for (size_t i = 0; i < mono->d; i++) {
            T *out = base + (ptrdiff_t)(mono->start[m] - 1 + s[i]) * ldb;
            const T *x = base + (ptrdiff_t)i * ldb;
            const T *low = base + (ptrdiff_t)(mono->start[m - 1] - 1 + t[i]) * ldb;
            for (size_t n = s[i + 1] - s[i]; n > 0; n--, out += ldb, low += ldb)
                for (size_t c = 0; c < cols; c += VL)
                    v_store(out + c, v_mul(v_load(x + c), v_load(low + c)));
        }
    }
}

static void base_k(const struct tsa_monomials *mono, size_t rows, T *base, ptrdiff_t ldb)
{
    for (size_t r = 0; r < rows; r++, base += ldb)
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

/* Rows of psi for one run, a group of NV vectors of tokens. */
TSA_INLINE void psi_run(const int nv, size_t n, const T *x, const T *low, ptrdiff_t ldb,
                        const T *weight, T *psi, ptrdiff_t ldp)
{
    V xi[4];
    if (x) {
        TSA_UNROLL
        for (int j = 0; j < nv; j++)
            xi[j] = v_load(x + j * VL);
    }
    for (; n > 0; n--, low += ldb, psi += ldp, weight++) {
        const V w = v_set1(*weight);
        TSA_UNROLL
        for (int j = 0; j < nv; j++) {
            V y = v_load(low + j * VL);
            if (x)
                y = v_mul(xi[j], y);
            v_store(psi + j * VL, v_mul(y, w));
        }
    }
}

static void psi_t(const struct tsa_monomials *mono, size_t f0, size_t f1, size_t cols, const T *base,
           ptrdiff_t ldb, const T *weight, T *psi, ptrdiff_t ldp)
{
    for (size_t f = f0; f < f1;) {
        const struct run run = run_at(mono, f, f1);
        T *out = psi + (ptrdiff_t)(f - f0) * ldp;
        if (run.m == 0) {
            for (size_t c = 0; c < cols; c += VL)
                v_store(out + c, v_set1(weight[0]));
        } else {
            const bool top = run.m + 1 == mono->terms && run.m > 1;
            const T *low = base + (ptrdiff_t)run.low * ldb;
            const T *x = base + (ptrdiff_t)run.i * ldb;
            size_t c = 0;
            for (; c + 3 * VL < cols; c += 4 * VL)
                psi_run(4, run.end - f, top ? x + c : NULL, low + c, ldb, weight + f, out + c, ldp);
            for (; c < cols; c += VL)
                psi_run(1, run.end - f, top ? x + c : NULL, low + c, ldb, weight + f, out + c, ldp);
        }
        f = run.end;
    }
}

static void phi_k(const struct tsa_monomials *mono, size_t f0, size_t f1, size_t rows, const T *base,
           ptrdiff_t ldb, const T *weight, T *phi, ptrdiff_t ldp)
{
    for (size_t f = f0; f < f1;) {
        const struct run run = run_at(mono, f, f1);
        const bool top = run.m + 1 == mono->terms && run.m > 1;
        const size_t n = run.end - f;
        T *out = phi + (f - f0);
        for (size_t r = 0; r < rows; r++, out += ldp) {
            const T *b = base + (ptrdiff_t)r * ldb;
            if (run.m == 0) {
                out[0] = 1;
            } else if (top) { /* stores past the run are overwritten by the next one */
                const V x = v_set1(b[run.i]);
                for (size_t p = 0; p < n; p += VL)
                    v_store(out + p, v_mul(x, v_load(b + run.low + p)));
            } else {
                for (size_t p = 0; p < n; p += VL)
                    v_store(out + p, v_load(b + run.low + p));
            }
        }
        f = run.end;
    }
    if (weight)
        for (size_t r = 0; r < rows; r++)
            for (size_t f = 0; f < f1 - f0; f += VL) {
                T *p = phi + (ptrdiff_t)r * ldp + f;
                const size_t n = f1 - f0 - f < VL ? f1 - f0 - f : VL;
                v_store(p, v_mul(v_load(p), v_load_first(weight + f0 + f, n)));
            }
}

static void ones_k(size_t features, size_t rows, const T *phi, ptrdiff_t ldp, T *sum)
{
    for (size_t f = 0; f < features; f += 4 * VL) {
        V s0 = v_zero(), s1 = v_zero(), s2 = v_zero(), s3 = v_zero();
        const T *p = phi + f;
        const size_t n = features - f;
        if (n > 3 * VL) {
            for (size_t r = 0; r < rows; r++, p += ldp) {
                s0 = v_add(s0, v_load(p));
                s1 = v_add(s1, v_load(p + VL));
                s2 = v_add(s2, v_load(p + 2 * VL));
                s3 = v_add(s3, v_load(p + 3 * VL));
            }
        } else {
            for (size_t r = 0; r < rows; r++, p += ldp) {
                s0 = v_add(s0, v_load(p));
                if (n > VL)
                    s1 = v_add(s1, v_load(p + VL));
                if (n > 2 * VL)
                    s2 = v_add(s2, v_load(p + 2 * VL));
            }
        }
        v_store_first(sum + f, n < VL ? n : VL, s0);
        if (n > VL)
            v_store_first(sum + f + VL, n < 2 * VL ? n - VL : VL, s1);
        if (n > 2 * VL)
            v_store_first(sum + f + 2 * VL, n < 3 * VL ? n - 2 * VL : VL, s2);
        if (n > 3 * VL)
            v_store_first(sum + f + 3 * VL, n < 4 * VL ? n - 3 * VL : VL, s3);
    }
}
