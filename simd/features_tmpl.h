/* SPDX-License-Identifier: MIT */
/* Kernels of monomials, for elements. */

struct psi_out {
    T *rows; /* of the next features */
    ptrdiff_t ld;
};

TSA_INLINE void psi_emit(const int what, const int kind, size_t tokens, const struct psi_run *run,
                         struct psi_out *o)
{
    (void)what;
    psi_rows(kind, tokens, run, o->rows, o->ld);
    o->rows += (ptrdiff_t)run->features * o->ld;
}
#include "psi_walk_tmpl.h"

static void psi_t(const struct ARGS(psi) *a)
{
    struct psi_out out = {.rows = a->psi, .ld = a->ldp};
    if (a->weight)
        psi_walk(0, ROW_WEIGHTED, a, &out);
    else
        psi_walk(0, 0, a, &out);
}

static void base_t(const struct tsa_monomials *mono, size_t tokens, T *base, ptrdiff_t ldb)
{
    for (size_t m = 2; m <= mono->stored; m++) {
        const size_t *s = mono->suffix + m * (mono->d + 1), *t = s - (mono->d + 1);
        T *rows = base + (ptrdiff_t)(mono->start[m] - 1) * ldb;
        const T *low = base + (ptrdiff_t)(mono->start[m - 1] - 1) * ldb;
        for (size_t i = 0; i < mono->d; i++) {
            const struct psi_run run = {.features = s[i + 1] - s[i],
                                        .x = base + (ptrdiff_t)i * ldb,
                                        .low = low + (ptrdiff_t)t[i] * ldb,
                                        .ldl = ldb};
            psi_rows(ROW_PRODUCT, tokens, &run, rows + (ptrdiff_t)s[i] * ldb, ldb);
        }
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
            /* stores may pass the end of the run, into the next run or the padding */
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
    /* base holds degrees 1 .. top-1, or 1 if that is the top; stores may pass their end */
    const size_t stored = mono->start[top == 1 ? 2 : top] - 1;
    for (size_t f = 0; f < stored; f += VL)
        v_store(psi + 1 + f, v_mul(v_load(base + f), v_load(weight + 1 + f)));
    if (top == 1)
        return;
    const size_t *s = mono->suffix + top * (mono->d + 1), *t = s - (mono->d + 1);
    psi += mono->start[top];
    weight += mono->start[top];
    for (size_t i = 0; i < mono->d; i++) {
        const V x = v_set1(base[i]);
        const T *low = base + mono->start[top - 1] - 1 + t[i];
        /* stores pass the end of the run, into the next one or the padding */
        const size_t n = s[i + 1] - s[i];
        for (size_t p = 0; p < n; p += VL)
            v_store(psi + p, v_mul(v_mul(x, v_load(low + p)), v_load(weight + p)));
        psi += n;
        weight += n;
    }
}
