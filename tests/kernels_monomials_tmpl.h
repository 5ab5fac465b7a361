/* SPDX-License-Identifier: MIT */
/* Monomials from their definition, and the cases of kernels that make blocks of them. */

static const struct kc_mono *model_mono; /* tuples behind the struct that kernels get */

/* Monomial f of the variables x[0], x[step], ...: x_i1 * (x_i2 * (... x_im)), 1 for degree 0. */
static T monomial(size_t f, const T *x, size_t step)
{
    const unsigned char *index = model_mono->index[f];
    size_t m = model_mono->degree[f];
    T product = m == 0 ? 1 : x[index[m - 1] * step];

    for (size_t j = m - 1; m > 1 && j-- > 0;)
        product = x[index[j] * step] * product;
    return product;
}

static enum kc_data some_variables(struct kc *kc)
{
    static const enum kc_data kinds[] = {KC_NORMAL, KC_UNIT,  KC_UNIT,        KC_MIXED,
                                         KC_WIDE,   KC_ZEROS, KC_ALTERNATING, KC_DENORMAL};

    return kinds[kc_between(kc, 0, sizeof kinds / sizeof *kinds - 1)];
}

/* Features f0 .. f1-1 of model_mono. */
typedef void blocks_fn(struct kc *kc, const struct KERNELS *table, size_t f0, size_t f1,
                       size_t tokens);

static void with_mono(struct kc *kc, const struct KERNELS *table, blocks_fn *one, size_t d,
                      size_t terms, bool cuts)
{
    struct kc_mono mono;
    size_t total;

    kc_mono_init(&mono, d, terms);
    kc_mono_store(&mono, kc_between(kc, 1, mono.mono.stored)); /* higher degrees as needed */
    model_mono = &mono;
    total = mono.mono.total;
    if (!cuts) { /* every number of tokens */
        for (size_t tokens = 0; tokens <= 2 * TSA_MAX_LANES + 1; tokens++)
            if (kc_keep(kc))
                one(kc, table, 0, total, tokens);
    } else {
        size_t rounds = total < 40 ? 6 : total < 1000 ? 3 : 1;

        one(kc, table, 0, total, kc_between(kc, 1, total > 2000 ? 3 : 20));
        for (size_t i = kc_rounds(kc, rounds); i-- > 0;) { /* the list in pieces */
            for (size_t f0 = 0, f1; f0 < total; f0 = f1) {
                size_t most = kc_chance(kc, 50) ? 70 : total;

                f1 = f0 + kc_between(kc, 1, most);
                f1 = f1 > total ? total : f1;
                one(kc, table, f0, f1, kc_between(kc, 1, f1 - f0 > 1000 ? 3 : 20));
            }
        }
        one(kc, table, total / 2, total / 2, 3); /* an empty block */
    }
    model_mono = NULL;
    kc_mono_free(&mono);
}

static void all_monos(struct kc *kc, const struct KERNELS *table, blocks_fn *one)
{
    static const unsigned char large[][2] = {{16, 3}, {16, 4}, {17, 3}, {31, 3}, {33, 2},
                                             {64, 2}, {64, 3}, {65, 2}, {15, 4}, {130, 2}};

    for (size_t d = 1; d <= 9; d++)
        for (size_t terms = 1; terms <= 8; terms++)
            with_mono(kc, table, one, d, terms, true);
    for (size_t i = 0; i < sizeof large / sizeof *large; i++)
        with_mono(kc, table, one, large[i][0], large[i][1], true);
    with_mono(kc, table, one, 3, 4, false);
    with_mono(kc, table, one, 5, 3, false);
    with_mono(kc, table, one, 17, 3, false);
    with_mono(kc, table, one, 1, 5, false);
}
