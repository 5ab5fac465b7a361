/* SPDX-License-Identifier: MIT */
/* Tests of the kernels that add up double-float sums: fold, merge. */

/* fold and merge: `how` says which arrays there are. */
static void one_fold(struct kc *kc, const struct KERNELS *table, size_t count, bool merge,
                     unsigned how)
{
    size_t ld = tsa_round_up(count, LINE);
    struct kc_array *hi, *lo, *x, *y = NULL;
    const T e = merge || kc_chance(kc, 50) ? 1 : some_decay(kc);

    kc_case(kc, "count %zu variant %u e %g", count, how, (double)e);
    hi = kc_scratch(kc, "hi", 1, count, ld);
    lo = kc_scratch(kc, "lo", 1, count, ld);
    x = kc_scratch(kc, merge ? "hi2" : "local", 1, count, ld);
    kc_fill(kc, hi, kc_chance(kc, 5) ? KC_SPECIAL : KC_ANY);
    kc_fill(kc, x, kc_chance(kc, 5) ? KC_SPECIAL : KC_ANY);
    for (size_t i = 0; i < count; i++) {
        GOT(lo)[i] = GOT(hi)[i] * (T)(U * kc_unit(kc));
        if (kc_chance(kc, 10)) /* sums that cancel, nearly or fully */
            GOT(x)[i] = -GOT(hi)[i] * (T)(1 + (T)kc_between(kc, 0, 2) * U);
    }
    if (merge || how == 1)
        y = kc_scratch(kc, merge ? "lo2" : "prefix", 1, count, ld);
    if (merge)
        for (size_t i = 0; i < count; i++)
            GOT(y)[i] = GOT(x)[i] * (T)(U * kc_unit(kc));
    for (size_t i = 0; i < kc->arrays; i++)
        kc_free(&kc->array[i], count, ld);
    kc_freeze(kc);
    for (SIDES) {
        if (merge)
            K->merge(count, P(hi), P(lo), P(how == 1 ? hi : x), P(how == 1 ? lo : y));
        else
            K->fold(count, P(hi), P(lo), e, P(x), how == 0 ? NULL : P(how == 1 ? y : x));
    }
    kc_finish(kc);
    for (size_t i = 0; i < count; i++) {
        REAL high = BEFORE(hi)[i], low = BEFORE(lo)[i], more = BEFORE(x)[i], less = 0, all;

        if (merge) {
            more = how == 1 ? high : more;
            less = how == 1 ? low : (REAL)BEFORE(y)[i];
        }
        high *= e;
        low *= e;
        all = R_FABS(high) + R_FABS(more);
        near(kc, hi, 0, i, high + more + (low + less) - GOT(lo)[i],
             8 * U * (R_FABS(low) + R_FABS(less) + U * all) + 8 * TINY +
                 (TEST_F64 ? (REAL)LDBL_EPSILON * 4 : (REAL)0x1p-50) * all);
    }
}

static void folds(struct kc *kc, const struct KERNELS *table, bool merge)
{
    for (size_t count = 0; count <= 5 * TSA_MAX_LANES + 1; count++)
        for (unsigned how = 0; how < (merge ? 2 : 3); how++)
            one_fold(kc, table, count, merge, how);
    for (size_t i = kc_rounds(kc, 500); i-- > 0;)
        one_fold(kc, table, kc_between(kc, 1, 2000), merge,
                 (unsigned)kc_between(kc, 0, merge ? 1 : 2));
}

static void test_fold(struct kc *kc, const struct KERNELS *table)
{
    folds(kc, table, false);
}

static void test_merge(struct kc *kc, const struct KERNELS *table)
{
    folds(kc, table, true);
}
