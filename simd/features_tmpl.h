/* SPDX-License-Identifier: MIT */
/* Monomials. Those of degree m that begin with index i are x_i times the contiguous suffix of the
 * degree m-1 list whose first index is >= i, so a feature costs one product and no gather.
 * base[] holds degrees 1..terms-2; the top degree is made from it block by block. */

/* A run of features that share degree m and first index i: [f, end). low is the base row of the
 * lower factor of its first feature, or of that feature itself below the top degree (then the
 * run is the whole degree). */
struct run {
    size_t f, end, m, i, low;
    bool product;
};

/* Set all but f, m and i from them; p features of the run are before f. */
TSA_INLINE void run_set(const struct tsa_monomials *mono, struct run *run, size_t p, size_t limit)
{
    run->product = run->m > 1 && run->m + 1 == mono->terms;
    if (run->product) {
        const size_t *s = mono->suffix + run->m * (mono->d + 1), *low = s - (mono->d + 1);
        run->low = mono->start[run->m - 1] - 1 + low[run->i] + p;
        run->end = mono->start[run->m] + s[run->i + 1];
    } else {
        run->low = run->f - 1; /* degrees 1, 2, ... follow one another in base */
        run->end = mono->start[run->m + 1];
    }
    run->end = run->end < limit ? run->end : limit;
}

TSA_INLINE struct run run_first(const struct tsa_monomials *mono, size_t f, size_t limit)
{
    struct run run = {.f = f};
    while (mono->start[run.m + 1] <= f)
        run.m++;
    size_t p = f - mono->start[run.m];
    if (p > 0) { /* mid-degree: find i with s[i] <= p < s[i+1] */
        const size_t *s = mono->suffix + run.m * (mono->d + 1);
        size_t end = mono->d;
        while (end - run.i > 1) {
            const size_t mid = (run.i + end) / 2;
            if (s[mid] <= p)
                run.i = mid;
            else
                end = mid;
        }
        p -= s[run.i];
    }
    run_set(mono, &run, p, limit);
    return run;
}

/* Call only while run->end < limit. */
TSA_INLINE void run_next(const struct tsa_monomials *mono, struct run *run, size_t limit)
{
    run->f = run->end;
    run->i++;
    if (!run->product || run->f == mono->start[run->m + 1]) {
        run->m++;
        run->i = 0;
    }
    run_set(mono, run, 0, limit);
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

static void psi_t(const struct tsa_monomials *mono, size_t f0, size_t f1, size_t cols,
                  const T *base, ptrdiff_t ldb, const T *weight, T *psi, ptrdiff_t ldp)
{
    if (f0 >= f1)
        return;
    for (struct run run = run_first(mono, f0, f1);; run_next(mono, &run, f1)) {
        T *out = psi + (ptrdiff_t)(run.f - f0) * ldp;
        if (run.m == 0) {
            for (size_t c = 0; c < cols; c += VL)
                v_store(out + c, v_set1(weight[0]));
        } else {
            const size_t n = run.end - run.f;
            const T *low = base + (ptrdiff_t)run.low * ldb;
            const T *x = run.product ? base + (ptrdiff_t)run.i * ldb : NULL;
            size_t c = 0;
            for (; c + 3 * VL < cols; c += 4 * VL)
                psi_run(4, n, x ? x + c : NULL, low + c, ldb, weight + run.f, out + c, ldp);
            for (; c < cols; c += VL)
                psi_run(1, n, x ? x + c : NULL, low + c, ldb, weight + run.f, out + c, ldp);
        }
        if (run.end == f1)
            return;
    }
}

/* One run of phi for all rows: x times the low factors, or the low factors themselves. Stores may
 * pass the end of the run, where the next run or the row's room lies. */
TSA_INLINE void phi_run(size_t n, size_t rows, const T *x, const T *low, ptrdiff_t ldb, T *phi,
                        ptrdiff_t ldp)
{
    for (size_t p = 0; p < n; p += VL, low += VL, phi += VL) {
        const T *xr = x, *a = low;
        T *out = phi;
        if (x)
            for (size_t r = rows; r > 0; r--, xr += ldb, a += ldb, out += ldp)
                v_store(out, v_mul(v_set1(*xr), v_load(a)));
        else
            for (size_t r = rows; r > 0; r--, a += ldb, out += ldp)
                v_store(out, v_load(a));
    }
}

/* Degree 2 where it is the top and a row fits one vector: both factors are picked from the row, so
 * that stores are whole aligned vectors, not one per run at any place. run is the first to make;
 * features end at f1. The lanes before run.f belong to lower degrees, and are kept. */
static void phi_pairs(const struct tsa_monomials *mono, struct run run, size_t f0, size_t f1,
                      size_t rows, const T *base, ptrdiff_t ldb, T *phi, ptrdiff_t ldp)
{
    const size_t begin = run.f - f0, end = f1 - f0;
    size_t i = run.i, j = run.low; /* degree 1: the base row of x_j is j */
    for (size_t at = begin - begin % VL; at < end; at += VL) {
        unsigned char first[TSA_MAX_LANES] = {0}, second[TSA_MAX_LANES] = {0};
        const ptrdiff_t skip = at < begin ? (ptrdiff_t)(begin - at) : 0;
        for (size_t lane = (size_t)skip; lane < VL && i < mono->d; lane++) {
            first[lane] = (unsigned char)i;
            second[lane] = (unsigned char)j;
            if (++j == mono->d)
                j = ++i;
        }
        const VI a = v_lanes(first), b = v_lanes(second);
        const T *x = base;
        T *out = phi + at;
        for (size_t r = rows; r > 0; r--, x += ldb, out += ldp) {
            const V row = v_load(x);
            const V y = v_mul(v_pick(row, a), v_pick(row, b));
            v_store(out, skip > 0 ? v_from(v_load(out), y, skip) : y);
        }
    }
}

static void phi_k(const struct tsa_monomials *mono, size_t f0, size_t f1, size_t rows,
                  const T *base, ptrdiff_t ldb, T *phi, ptrdiff_t ldp)
{
    if (f0 >= f1)
        return;
    for (struct run run = run_first(mono, f0, f1);; run_next(mono, &run, f1)) {
        T *out = phi + (run.f - f0);
        if (run.product && run.m == 2 && mono->d <= VL && rows >= VL) {
            phi_pairs(mono, run, f0, f1, rows, base, ldb, phi, ldp);
            return;
        }
        if (run.m == 0)
            for (size_t r = 0; r < rows; r++)
                out[(ptrdiff_t)r * ldp] = 1;
        else
            phi_run(run.end - run.f, rows, run.product ? base + run.i : NULL, base + run.low, ldb,
                    out, ldp);
        if (run.end == f1)
            return;
    }
}

/* Like base_k and phi_k in one, for one row, with weights; no search for runs. */
static void psi_k(const struct tsa_monomials *mono, T *base, const T *weight, T *psi)
{
    const size_t top = mono->terms - 1;
    if (top > 2)
        base_k(mono, 1, base, 0);
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
