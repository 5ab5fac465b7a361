/* SPDX-License-Identifier: MIT */
/* Tests of the kernels of gates, and of outputs that are not just ratios: multiply, decay,
 * gate_weights, finish, scale_rows. */

static ptrdiff_t some_diag(struct kc *kc, size_t keys)
{
    return (ptrdiff_t)(kc_chance(kc, 30) ? 0 : kc_between(kc, 0, keys + 3));
}

static void test_multiply(struct kc *kc, const struct KERNELS *table)
{
    for (size_t count = 0; count <= 5 * TSA_MAX_LANES + 1; count++) {
        struct kc_array *x, *y;

        kc_case(kc, "count %zu", count);
        x = kc_scratch(kc, "x", 1, count, ROW16(count));
        y = kc_scratch(kc, "y", 1, count, ROW16(count));
        kc_free(y, count, ROW16(count));
        kc_fill(kc, x, some_terms(kc));
        kc_fill(kc, y, some_terms(kc));
        kc_freeze(kc);
        for (SIDES)
            K->multiply(count, P(x), P(y));
        kc_finish(kc);
    }
}

static void one_decay(struct kc *kc, const struct KERNELS *table, size_t count)
{
    const size_t ld = tsa_round_up(count, LINE);
    const T e = some_decay(kc);
    struct kc_array *hi, *lo;

    kc_case(kc, "count %zu e %g", count, (double)e);
    hi = kc_scratch(kc, "hi", 1, count, ld);
    lo = kc_scratch(kc, "lo", 1, count, ld);
    kc_free(hi, count, ld);
    kc_free(lo, count, ld);
    kc_fill(kc, hi, kc_chance(kc, 5) ? KC_SPECIAL : KC_ANY);
    for (size_t i = 0; i < count; i++)
        GOT(lo)[i] = GOT(hi)[i] * (T)(U * kc_unit(kc));
    kc_freeze(kc);
    for (SIDES)
        K->decay(count, e, P(hi), P(lo));
    kc_finish(kc);
    for (size_t i = 0; i < count; i++) {
        const REAL want = ((REAL)BEFORE(hi)[i] + BEFORE(lo)[i]) * e;

        near(kc, hi, 0, i, want - GOT(lo)[i],
             8 * U * U * R_FABS(want) + 8 * TINY +
                 (TEST_F64 ? (REAL)LDBL_EPSILON * 4 : (REAL)0x1p-50) * R_FABS(want));
    }
}

static void test_decay(struct kc *kc, const struct KERNELS *table)
{
    for (size_t count = 0; count <= 5 * TSA_MAX_LANES + 1; count++)
        one_decay(kc, table, count);
    for (size_t i = kc_rounds(kc, 300); i-- > 0;)
        one_decay(kc, table, kc_between(kc, 1, 500));
}

static void one_gate_weights(struct kc *kc, const struct KERNELS *table, size_t keys,
                             size_t queries, ptrdiff_t diag)
{
    const size_t ldw = SOME_LD(kc, queries), ldd = ROW16(keys);
    const bool weights = kc_chance(kc, 70);
    struct kc_array *gate, *decay, *w;

    kc_case(kc, "keys %zu queries %zu diag %td weights %d", keys, queries, diag, weights);
    gate = kc_user(kc, "gate", 1, queries, (ptrdiff_t)queries);
    decay = kc_scratch(kc, "decay", 1, keys, ldd);
    kc_free(decay, keys, ldd);
    w = kc_scratch(kc, "w", keys, queries, ldw);
    kc_free(w, queries, ROW16(queries));
    for (size_t t = 0; t < queries; t++)
        GOT(gate)[t] = some_decay(kc);
    kc_fill(kc, decay, some_terms(kc));
    kc_fill(kc, w, some_terms(kc));
    kc_freeze(kc);
    for (SIDES)
        K->gate_weights(&(const struct ARGS(gate_weights)){.keys = keys,
                                                           .queries = queries,
                                                           .diag = diag,
                                                           .gate = P(gate),
                                                           .decay = P(decay),
                                                           .w = weights ? P(w) : NULL,
                                                           .ldw = (ptrdiff_t)ldw});
    for (size_t i = 0; i < keys; i++) /* what queries do not see may be anything */
        for (size_t t = 0; weights && t < queries; t++)
            if ((ptrdiff_t)i > diag + (ptrdiff_t)t)
                WANT(w)[i * ldw + t] = GOT(w)[i * ldw + t];
    kc_finish(kc);
}

static void test_gate_weights(struct kc *kc, const struct KERNELS *table)
{
    for (size_t keys = 0; keys <= 2 * TSA_MAX_LANES + 1; keys++)
        for (size_t queries = 0; queries <= 2 * TSA_MAX_LANES + 1; queries++)
            if (kc_keep(kc))
                one_gate_weights(kc, table, keys, queries, some_diag(kc, keys));
    for (size_t i = kc_rounds(kc, 300); i-- > 0;) {
        const size_t keys = kc_between(kc, 1, 150);

        one_gate_weights(kc, table, keys, kc_between(kc, 1, 80), some_diag(kc, keys));
    }
}

static struct ARGS(finish) some_finish(struct kc *kc)
{
    return (struct ARGS(finish)){kc_chance(kc, 20), kc_chance(kc, 50) ? 0 : (T)kc_unit(kc),
                                 kc_chance(kc, 50) ? 0 : (T)fabs(kc_unit(kc))};
}

static void test_finish(struct kc *kc, const struct KERNELS *table)
{
    for (size_t i = kc_rounds(kc, 300); i-- > 0;) {
        const size_t queries = kc_between(kc, 0, TSA_TILE_TOKENS);
        const struct ARGS(finish) args = some_finish(kc);
        struct kc_array *den;

        kc_case(kc, "queries %zu sum %d add %g floor %g", queries, args.sum, (double)args.add,
                (double)args.floor);
        den = kc_scratch(kc, "den", 1, queries, ROW16(queries));
        kc_fill(kc, den, some_terms(kc));
        kc_freeze(kc);
        for (SIDES)
            K->finish(queries, &args, P(den));
        kc_finish(kc);
    }
}

static void one_scale_rows(struct kc *kc, const struct KERNELS *table, size_t rows, size_t columns)
{
    const bool in_place = kc_chance(kc, 30);
    const ptrdiff_t step = (ptrdiff_t)kc_between(kc, 0, 1);
    const ptrdiff_t stride = (ptrdiff_t)(columns + kc_between(kc, 0, 20));
    struct kc_array *factor, *src, *dst;

    kc_case(kc, "rows %zu columns %zu step %td in place %d", rows, columns, step, in_place);
    factor = kc_user(kc, "factor", 1, rows + 1, (ptrdiff_t)rows + 1);
    src = kc_user(kc, "src", rows, columns, stride);
    dst = in_place ? src : kc_user(kc, "dst", rows, columns, stride + 3);
    dst->canonical = true;
    kc_fill(kc, factor, some_terms(kc));
    kc_fill(kc, src, some_terms(kc));
    kc_freeze(kc);
    for (SIDES)
        K->scale_rows(rows, columns, P(factor), step, P(src), stride, P(dst), dst->ld);
    kc_finish(kc);
}

static void test_scale_rows(struct kc *kc, const struct KERNELS *table)
{
    for (size_t rows = 0; rows <= 3; rows++)
        for (size_t columns = 0; columns <= 3 * TSA_MAX_LANES + 1; columns++)
            one_scale_rows(kc, table, rows, columns);
    for (size_t i = kc_rounds(kc, 200); i-- > 0;)
        one_scale_rows(kc, table, kc_between(kc, 1, 70), kc_between(kc, 1, 150));
}
