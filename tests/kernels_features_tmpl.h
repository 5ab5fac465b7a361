/* SPDX-License-Identifier: MIT */
/* Tests of the kernels that make features: base_t, psi_t, psi_k. */

/* Kernels may use this much room past the monomials of a row. */
#define ROOM (2 * (size_t)TSA_MAX_LANES)

/* Monomial f of x[0], x[step], ... in REAL, and a bound for the error of the product that rounds
 * once per level: e' = |x| e + U |x p| + TINY. */
static REAL monomial_ref(size_t f, const T *x, size_t step, REAL *error)
{
    const unsigned char *index = model_mono->index[f];
    size_t m = model_mono->degree[f];
    REAL product = m == 0 ? 1 : x[index[m - 1] * step];

    *error = 0;
    for (size_t j = m - 1; m > 1 && j-- > 0;) {
        REAL factor = x[index[j] * step];

        product *= factor;
        *error = R_FABS(factor) * *error * (1 + U) + U * R_FABS(product) + TINY;
        if (!(R_FABS(product) < LARGEST / 8))
            *error = INFINITY; /* a later factor may bring the product back, not the kernel's */
    }
    return product;
}

static void near_monomial(struct kc *kc, const struct kc_array *a, size_t row, size_t col, size_t f,
                          const T *x, size_t step, const T *weight)
{
    REAL error, ref = monomial_ref(f, x, step, &error);

    if (weight != NULL) {
        ref *= weight[f];
        error = R_FABS((REAL)weight[f]) * error * (1 + U) + U * R_FABS(ref) + TINY;
    }
    near(kc, a, row, col, ref, error);
}

static void one_base_t(struct kc *kc, const struct KERNELS *table, size_t cols)
{
    const struct tsa_monomials *mono = &model_mono->mono;
    size_t ldb = SOME_LD(kc, cols);
    struct kc_array *base;

    kc_case(kc, "d %zu terms %zu cols %zu", mono->d, mono->terms, cols);
    base = kc_scratch(kc, "base", mono->base, cols, ldb);
    kc_free(base, cols, ROW16(cols));
    base->rows = mono->d; /* only they are given */
    kc_fill(kc, base, some_variables(kc));
    kc_freeze(kc);
    for (SIDES)
        K->base_t(mono, cols, P(base), (ptrdiff_t)ldb);
    kc_finish(kc);
    for (size_t g = mono->d; g < mono->base; g++)
        for (size_t t = 0; t < cols; t++)
            near_monomial(kc, base, g, t, g + 1, BEFORE(base) + t, ldb, NULL);
}

/* The rows of base past those stored are scratch, and may end as anything. */
static void one_psi_t(struct kc *kc, const struct KERNELS *table, size_t f0, size_t f1, size_t cols)
{
    const struct tsa_monomials *mono = &model_mono->mono;
    size_t ldb = SOME_LD(kc, cols), ldp = SOME_LD(kc, cols);
    int weighted = (int)kc_between(kc, 0, 1);
    struct kc_array *base, *weight, *psi;

    kc_case(kc, "d %zu terms %zu stored %zu features %zu..%zu of %zu cols %zu weighted %d", mono->d,
            mono->terms, mono->stored, f0, f1, mono->total, cols, weighted);
    base = kc_scratch(kc, "base", mono->rows, cols, ldb);
    weight = kc_user(kc, "weight", 1, mono->total, 0);
    psi = kc_scratch(kc, "psi", f1 - f0, cols, ldp);
    kc_free(psi, cols, ROW16(cols));
    base->given = mono->base;
    base->rows = mono->d;
    kc_fill(kc, base, some_variables(kc));
    model.base_t(mono, cols, GOT(base), (ptrdiff_t)ldb);
    kc_fill(kc, weight, KC_ANY);
    kc_freeze(kc);
    for (SIDES)
        K->psi_t(&(const struct ARGS(psi)){.mono = mono,
                                           .f0 = f0,
                                           .f1 = f1,
                                           .tokens = cols,
                                           .base = P(base),
                                           .ldb = (ptrdiff_t)ldb,
                                           .weight = weighted ? P(weight) : NULL,
                                           .psi = P(psi),
                                           .ldp = (ptrdiff_t)ldp});
    kc_finish(kc);
    for (size_t f = f0; f < f1; f++)
        for (size_t t = 0; t < cols; t++)
            near_monomial(kc, psi, f - f0, t, f, BEFORE(base) + t, ldb,
                          weighted ? GOT(weight) : NULL);
}

/* Both rows end with their room: a store past it faults. */
static void one_psi_k(struct kc *kc, const struct KERNELS *table)
{
    const struct tsa_monomials *mono = &model_mono->mono;
    struct kc_array *base, *weight, *psi;

    kc_case(kc, "d %zu terms %zu", mono->d, mono->terms);
    base = kc_scratch(kc, "base", 1, mono->d, mono->lower + ROOM);
    weight = kc_scratch(kc, "weight", 1, mono->total, mono->total + ROOM);
    psi = kc_scratch(kc, "psi", 1, mono->total, mono->total + ROOM);
    kc_free(base, mono->lower, mono->lower + ROOM);
    kc_free(psi, mono->total, mono->total + ROOM);
    kc_fill(kc, base, some_variables(kc));
    kc_fill(kc, weight, KC_ANY);
    kc_freeze(kc);
    for (SIDES)
        K->psi_k(mono, P(base), P(weight), P(psi));
    kc_finish(kc);
    for (size_t g = mono->d; g < mono->lower; g++)
        near_monomial(kc, base, 0, g, g + 1, BEFORE(base), 1, NULL);
    for (size_t f = 0; f < mono->total; f++)
        near_monomial(kc, psi, 0, f, f, BEFORE(base), 1, GOT(weight));
}

/* base_t ignores the block. */
static void block_base_t(struct kc *kc, const struct KERNELS *table, size_t f0, size_t f1,
                         size_t tokens)
{
    (void)f0;
    (void)f1;
    one_base_t(kc, table, tokens);
}

static void test_base_t(struct kc *kc, const struct KERNELS *table)
{
    all_monos(kc, table, block_base_t);
}

static void test_psi_t(struct kc *kc, const struct KERNELS *table)
{
    all_monos(kc, table, one_psi_t);
}

static void test_psi_k(struct kc *kc, const struct KERNELS *table)
{
    static const unsigned char large[][2] = {{15, 3}, {16, 2}, {16, 3}, {16, 4}, {16, 5}, {17, 3},
                                             {17, 4}, {31, 3}, {32, 3}, {33, 3}, {64, 3}, {130, 2}};
    size_t count = 9 * 8 + sizeof large / sizeof *large;

    for (size_t i = 0; i < count; i++) {
        const unsigned char *shape = i < 9 * 8 ? NULL : large[i - 9 * 8];
        struct kc_mono mono;

        kc_mono_init(&mono, shape ? shape[0] : 1 + i / 8, shape ? shape[1] : 1 + i % 8);
        model_mono = &mono;
        for (size_t n = mono.mono.total > 2000 ? 2 : kc_rounds(kc, 12); n-- > 0;)
            one_psi_k(kc, table);
        model_mono = NULL;
        kc_mono_free(&mono);
    }
}
