/* SPDX-License-Identifier: MIT */
/* The kernels of products.def, for operands that are elements or, if TEST_PAIRS, pairs of bf16 in
 * the place of elements: models, and tests. Features of a query and rows of an update count
 * operands. */

#include "kernels_operands_tmpl.h"

/* -- models ------------------------------------------------------------------------------------ */

/* (hi, lo) += (x, y): TwoSum of the high parts, then renormalised. */
static void add_double_float(T *hi, T *lo, T x, T y)
{
    T s = *hi + x, b = s - *hi;
    T e = (*hi - (s - b)) + (x - b);

    e = e + y;
    *hi = s + e;
    *lo = e - (*hi - s);
}

static void decay_double_float(T *hi, T *lo, T e)
{
    T p = *hi * e, product = *lo * e, r = FMA(*hi, e, -p) + product;

    *hi = p + r;
    *lo = r - (*hi - p);
}

static void model_transpose(const struct ARGS(transpose) *a)
{
    for (size_t r = 0; r < a->features; r++) {
        T s = a->first || a->sum == NULL ? 0 : a->sum[r];

        for (size_t c = 0; c < a->tokens; c++) {
            const T x = a->in[r * (size_t)a->ldi + c];

            s = multiply_add(x, a->weight != NULL ? a->weight[c] : operand_one(), s);
            if (a->out != NULL)
                a->out[c * (size_t)a->ldo + r] = x;
        }
        if (a->sum != NULL)
            a->sum[r] = s;
    }
}

static void model_query(const struct ARGS(query) *a)
{
    for (size_t t = 0; t < a->tokens; t++)
        for (size_t c = 0; c < a->columns; c++) {
            T s = a->first ? 0 : a->acc[t * (size_t)a->lda + c];

            for (size_t f = a->features; f-- > 0;)
                s = multiply_add(a->psi[f * (size_t)a->ldp + t], a->hi[f * (size_t)a->ldh + c], s);
            a->acc[t * (size_t)a->lda + c] = s;
        }
}

static void model_query_ones(size_t rows, size_t features, const T *psi, ptrdiff_t ldp,
                             const T *ones, T *den, int first)
{
    for (size_t t = 0; t < rows; t++) {
        T s = first ? 0 : den[t];

        for (size_t f = features; f-- > 0;)
            s = multiply_add(psi[f * (size_t)ldp + t], ones[f], s);
        den[t] = s;
    }
}

static T update_chain(size_t rows, const T *phi, const T *v, size_t ldv, T s)
{
    for (size_t t = 0; t < rows; t++)
        s = multiply_add(phi[t], v[t * ldv], s);
    return s;
}

static void model_update(const struct ARGS(update) *a)
{
    for (size_t f = 0; f < a->features; f++)
        for (size_t c = 0; c < a->columns; c++) {
            T *sum = &a->local[f * (size_t)a->ldl + c];

            *sum = update_chain(a->tokens, a->phi + f * OPERAND_TILE, a->v + c, (size_t)a->ldv,
                                a->first ? 0 : *sum);
        }
}

static void model_update_fold(const struct ARGS(update_fold) *a)
{
    for (size_t f = 0; f < a->features; f++)
        for (size_t c = 0; c < a->columns; c++) {
            size_t at = f * (size_t)a->ldh + c;
            T s = a->local != NULL ? a->local[f * (size_t)a->ldl + c] : 0;

            s = update_chain(a->tokens, a->phi + f * OPERAND_TILE, a->v + c, (size_t)a->ldv, s);
            if (a->e != 1)
                decay_double_float(&a->hi[at], &a->lo[at], a->e);
            add_double_float(&a->hi[at], &a->lo[at], s, a->lo[at]);
        }
    keep_pairs(a->features, a->columns, a->hi, (size_t)a->ldh, a->hi_pairs);
}

/* -- tests ------------------------------------------------------------------------------------- */

static const struct KERNELS model; /* of all kernels, below */

/* A factor of sums: often 1 or 0, also so small that products underflow. */
static T some_decay(struct kc *kc)
{
    static const T values[] = {1, 1, 0, (T)0.5, (T)1e-30, (T)TINY};

    return kc_chance(kc, 60) ? (T)fabs(kc_unit(kc))
                             : values[kc_between(kc, 0, sizeof values / sizeof *values - 1)];
}

/* Prefetching changes nothing, wherever it points; or nothing is prefetched. */
static struct tsa_prefetch *some_prefetch(struct kc *kc, struct tsa_prefetch *prefetch)
{
    static const char line[TSA_ALIGN];

    if (kc_chance(kc, 50))
        return NULL;
    memset(prefetch, 0, sizeof *prefetch);
    prefetch->budget = kc_between(kc, 0, 100);
    prefetch->count = kc_between(kc, 0, TSA_PREFETCH_ROWS);
    for (size_t i = 0; i < prefetch->count; i++)
        prefetch->rows[i] = (struct tsa_prefetch_rows){line,
                                                       (ptrdiff_t)kc_between(kc, 0, 1000) - 500,
                                                       kc_between(kc, 1, 5),
                                                       kc_between(kc, 1, 5),
                                                       0,
                                                       kc_chance(kc, 50)};
    return prefetch;
}

static void one_query(struct kc *kc, const struct KERNELS *table, size_t rows, size_t cols,
                      size_t features)
{
    size_t ldp = SOME_LD(kc, rows), ldh = some_line_ld(kc, cols), lda = some_line_ld(kc, cols);
    int first = (int)kc_between(kc, 0, 1);
    struct kc_array *psi, *hi, *acc;
    struct tsa_prefetch prefetch;

    kc_case(kc, "rows %zu cols %zu features %zu first %d ldh %zu", rows, cols, features, first,
            ldh);
    psi = kc_scratch(kc, "psi", features, rows, ldp);
    hi = kc_scratch(kc, "hi", features, cols, ldh);
    acc = kc_scratch(kc, "acc", rows, cols, lda);
    fill_operands(kc, psi);
    fill_operands(kc, hi);
    if (!first)
        fill_sums(kc, acc);
    kc_freeze(kc);
    for (SIDES)
        K->products.query(&(const struct ARGS(query)){.tokens = rows,
                                                      .columns = cols,
                                                      .features = features,
                                                      .psi = P(psi),
                                                      .ldp = (ptrdiff_t)ldp,
                                                      .hi = P(hi),
                                                      .ldh = (ptrdiff_t)ldh,
                                                      .acc = P(acc),
                                                      .lda = (ptrdiff_t)lda,
                                                      .first = first,
                                                      .prefetch = some_prefetch(kc, &prefetch)});
    kc_finish(kc);
    for (size_t t = 0; t < rows; t++)
        for (size_t c = 0; c < cols; c++) {
            REAL ref = first ? 0 : BEFORE(acc)[t * lda + c], all = R_FABS(ref);

            for (size_t f = 0; f < features; f++)
                add_term(GOT(psi)[f * ldp + t], GOT(hi)[f * ldh + c], &ref, &all);
            near(kc, acc, t, c, ref, chain_error(ROUNDINGS * features + 1, all));
        }
}

static void test_query(struct kc *kc, const struct KERNELS *table)
{
    for (size_t rows = 0; rows <= 2 * TSA_MAX_LANES + 1; rows++)
        for (size_t vectors = 0; vectors <= 6; vectors++)
            for (size_t features = 0; features <= 20; features += kc_between(kc, 1, 4))
                if (kc_keep(kc))
                    one_query(kc, table, rows, vectors * LANES(kc), features);
    for (size_t i = kc_rounds(kc, 120); i-- > 0;)
        one_query(kc, table, kc_between(kc, 1, 50), LINE * kc_between(kc, 1, 160 / LINE),
                  kc_between(kc, 1, 100));
}

static void one_query_ones(struct kc *kc, const struct KERNELS *table, size_t rows, size_t features)
{
    size_t ldp = SOME_LD(kc, rows);
    int first = (int)kc_between(kc, 0, 1);
    struct kc_array *psi, *ones, *den;

    kc_case(kc, "rows %zu features %zu first %d", rows, features, first);
    psi = kc_scratch(kc, "psi", features, rows, ldp);
    ones = kc_scratch(kc, "ones", 1, features, ROW16(features) + TSA_ROW_PAD);
    den = kc_scratch(kc, "den", 1, rows, ROW16(rows));
    kc_free(den, rows, ROW16(rows));
    fill_operands(kc, psi);
    fill_operands(kc, ones);
    if (!first)
        fill_sums(kc, den);
    kc_freeze(kc);
    for (SIDES)
        K->products.query_ones(rows, features, P(psi), (ptrdiff_t)ldp, P(ones), P(den), first);
    kc_finish(kc);
    for (size_t t = 0; t < rows; t++) {
        REAL ref = first ? 0 : BEFORE(den)[t], all = R_FABS(ref);

        for (size_t f = 0; f < features; f++)
            add_term(GOT(psi)[f * ldp + t], GOT(ones)[f], &ref, &all);
        near(kc, den, 0, t, ref, chain_error(ROUNDINGS * features + 1, all));
    }
}

static void test_query_ones(struct kc *kc, const struct KERNELS *table)
{
    for (size_t rows = 0; rows <= 5 * TSA_MAX_LANES + 1; rows++)
        for (size_t features = 0; features <= 20; features++)
            if (kc_keep(kc))
                one_query_ones(kc, table, rows, features);
    for (size_t i = kc_rounds(kc, 200); i-- > 0;)
        one_query_ones(kc, table, kc_between(kc, 1, 150), kc_between(kc, 1, 300));
}

/* High parts of any size, and low parts that belong to them. */
static void fill_double_float(struct kc *kc, struct kc_array *hi, struct kc_array *lo)
{
    kc_fill(kc, hi, KC_ANY);
    for (size_t i = 0; i < hi->rows; i++)
        for (size_t c = 0; c < hi->cols; c++) {
            const size_t at = i * (size_t)hi->ld + c;

            GOT(lo)[at] = GOT(hi)[at] * (T)(U * kc_unit(kc));
        }
}

/* Both update kernels: into `local`, or with it into (hi, lo). */
static void one_update(struct kc *kc, const struct KERNELS *table, size_t features, size_t cols,
                       size_t rows, bool fold)
{
    size_t ldv = some_line_ld(kc, cols), ldh = some_line_ld(kc, cols), ldl = some_line_ld(kc, cols);
    int first = (int)kc_between(kc, 0, 1);
    const T e = fold && kc_chance(kc, 40) ? some_decay(kc) : 1;
    struct kc_array *phi, *v, *local, *hi = NULL, *lo = NULL, *hi_pairs = NULL, *sum;
    struct tsa_prefetch prefetch;

    kc_case(kc, "features %zu cols %zu rows %zu ldv %zu ldh %zu ldl %zu first %d e %g", features,
            cols, rows, ldv, ldh, ldl, first, (double)e);
    phi = kc_scratch(kc, "phi", features, rows, OPERAND_TILE);
    v = kc_scratch(kc, "v", rows, cols, ldv);
    sum = local = kc_scratch(kc, "local", features, cols, ldl);
    fill_operands(kc, phi);
    fill_operands(kc, v);
    if (!first)
        fill_sums(kc, local);
    if (fold) {
        sum = hi = kc_scratch(kc, "hi", features, cols, ldh);
        lo = kc_scratch(kc, "lo", features, cols, ldh);
        if (TEST_PAIRS && kc_chance(kc, 50)) {
            hi_pairs = kc_scratch(kc, "hi_pairs", (features + 1) / 2, cols, ldh);
            hi_pairs->canonical = true;
        }
        fill_double_float(kc, hi, lo);
    }
    kc_freeze(kc);
    for (SIDES) {
        if (fold)
            K->products.update_fold(
                &(const struct ARGS(update_fold)){.features = features,
                                                  .columns = cols,
                                                  .tokens = rows,
                                                  .phi = P(phi),
                                                  .v = P(v),
                                                  .ldv = (ptrdiff_t)ldv,
                                                  .local = first ? NULL : P(local),
                                                  .ldl = (ptrdiff_t)ldl,
                                                  .hi = P(hi),
                                                  .lo = P(lo),
                                                  .ldh = (ptrdiff_t)ldh,
                                                  .e = e,
                                                  .hi_pairs = hi_pairs != NULL ? P(hi_pairs) : NULL,
                                                  .prefetch = some_prefetch(kc, &prefetch)});
        else
            K->products.update(
                &(const struct ARGS(update)){.features = features,
                                             .columns = cols,
                                             .tokens = rows,
                                             .phi = P(phi),
                                             .v = P(v),
                                             .ldv = (ptrdiff_t)ldv,
                                             .local = P(local),
                                             .ldl = (ptrdiff_t)ldl,
                                             .first = first,
                                             .prefetch = some_prefetch(kc, &prefetch)});
    }
    if (hi_pairs != NULL)
        settle_nans(kc, hi_pairs);
    kc_finish(kc);
    for (size_t f = 0; f < features; f++)
        for (size_t c = 0; c < cols; c++) {
            REAL ref = first ? 0 : BEFORE(local)[f * ldl + c], all = R_FABS(ref), error;

            for (size_t t = 0; t < rows; t++)
                add_term(GOT(phi)[f * OPERAND_TILE + t], GOT(v)[t * ldv + c], &ref, &all);
            error = chain_error(ROUNDINGS * rows + 1, all);
            if (fold) {
                REAL high = BEFORE(hi)[f * ldh + c] * (REAL)e, low = BEFORE(lo)[f * ldh + c] * e;

                /* hi + lo is the sum up to roundings of the low parts, each relative U of e
                 * and lo, where |e| <= U |hi + local| */
                ref += high + low - GOT(lo)[f * ldh + c];
                error += 8 * U * (R_FABS(low) + U * (R_FABS(high) + all)) + 8 * TINY;
                error += U * U * R_FABS(ref); /* of the reference */
                error += (TEST_F64 ? LDBL_EPSILON * 4 : (REAL)0x1p-50) * (R_FABS(high) + all);
            }
            near(kc, sum, f, c, ref, error);
        }
}

static void updates(struct kc *kc, const struct KERNELS *table, bool fold)
{
    for (size_t features = 0; features <= 20; features++)
        for (size_t vectors = 0; vectors <= 6; vectors++)
            for (size_t rows = 0; rows <= 2 * TSA_MAX_LANES + 1 && rows <= OPERAND_TILE;
                 rows += kc_between(kc, 1, rows < 8 ? 3 : 9))
                if (kc_keep(kc))
                    one_update(kc, table, features, vectors * LANES(kc), rows, fold);
    for (size_t i = kc_rounds(kc, 120); i-- > 0;)
        one_update(kc, table, kc_between(kc, 1, 80), LINE * kc_between(kc, 1, 160 / LINE),
                   kc_between(kc, 0, OPERAND_TILE), fold);
}

static void test_update(struct kc *kc, const struct KERNELS *table)
{
    updates(kc, table, false);
}

static void test_update_fold(struct kc *kc, const struct KERNELS *table)
{
    updates(kc, table, true);
}

/* States of the rows of decode_state: all rows share one, each has its own in any order, groups
 * of neighbours share, or any row has any. */
static size_t some_states(struct kc *kc, size_t rows, size_t *state)
{
    size_t n = rows, group;

    switch (kc_between(kc, 0, 3)) {
    case 0:
        n = rows != 0;
        for (size_t r = 0; r < rows; r++)
            state[r] = 0;
        break;
    case 1:
        for (size_t r = 0, at; r < rows; r++) {
            at = kc_between(kc, 0, r);
            state[r] = state[at];
            state[at] = r;
        }
        break;
    case 2:
        group = kc_between(kc, 2, 5);
        n = (rows + group - 1) / group;
        for (size_t r = 0; r < rows; r++)
            state[r] = r / group;
        break;
    default:
        for (size_t r = 0; r < rows; r++)
            state[r] = kc_between(kc, 0, rows - 1);
        break;
    }
    return n;
}

#define MOST_DECODE_ROWS (TSA_MAX_LANES + 1)

static void one_transpose(struct kc *kc, const struct KERNELS *table, size_t rows, size_t cols)
{
    size_t ldi = SOME_LD(kc, cols), ldo = SOME_LD(kc, rows), ld = ROW16(rows) + TSA_ROW_PAD;
    int first = (int)kc_between(kc, 0, 1), which = (int)kc_between(kc, 1, 3);
    const bool weighted = kc_chance(kc, 40);
    struct kc_array *in, *sum, *out, *weight;

    kc_case(kc, "rows %zu cols %zu first %d which %d weighted %d", rows, cols, first, which,
            weighted);
    in = kc_scratch(kc, "in", tsa_round_up(rows, LANES(kc)), cols, ldi);
    sum = kc_scratch(kc, "sum", 1, rows, ld);
    kc_free(sum, rows, ROW16(rows));
    out = kc_scratch(kc, "out", cols, rows, ldo);
    kc_free(out, rows, ROW16(rows));
    out->canonical = TEST_PAIRS; /* a NaN in one half must not hide the other */
    in->rows = rows;
    weight = kc_scratch(kc, "weight", 1, cols, ROW16(cols));
    fill_operands(kc, in);
    fill_operands(kc, weight);
    if (!first)
        fill_sums(kc, sum);
    kc_freeze(kc);
    for (SIDES)
        K->products.transpose(&(const struct ARGS(transpose)){.features = rows,
                                                              .tokens = cols,
                                                              .in = P(in),
                                                              .ldi = (ptrdiff_t)ldi,
                                                              .weight = weighted ? P(weight) : NULL,
                                                              .sum = which & 1 ? P(sum) : NULL,
                                                              .first = first,
                                                              .out = which & 2 ? P(out) : NULL,
                                                              .ldo = (ptrdiff_t)ldo});
    kc_finish(kc);
    for (size_t r = 0; which & 1 && r < rows; r++) {
        REAL ref = first ? 0 : BEFORE(sum)[r], all = R_FABS(ref);

        for (size_t c = 0; c < cols; c++)
            add_term(GOT(in)[r * ldi + c], weighted ? GOT(weight)[c] : operand_one(), &ref, &all);
        near(kc, sum, 0, r, ref, chain_error(ROUNDINGS * cols + 1, all));
    }
}

static void test_transpose(struct kc *kc, const struct KERNELS *table)
{
    for (size_t rows = 0; rows <= 2 * TSA_MAX_LANES + 1; rows++)
        for (size_t cols = 0; cols <= 2 * TSA_MAX_LANES + 1; cols++)
            if (kc_keep(kc))
                one_transpose(kc, table, rows, cols);
    for (size_t i = kc_rounds(kc, 300); i-- > 0;)
        one_transpose(kc, table, kc_between(kc, 1, 400), kc_between(kc, 0, 70));
}
