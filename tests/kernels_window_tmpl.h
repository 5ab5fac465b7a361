/* SPDX-License-Identifier: MIT */
/* Tests of the kernels of the open window. Keys that a query does not see, and padding, hold NaN or
 * infinity. */

/* Score x of key i and query t and p(x), with running bounds of their errors. */
static REAL score_ref(size_t width, const T *k, size_t ldk, const T *q, size_t ldq, size_t terms,
                      const T *coef, REAL *error)
{
    REAL x = 0, all = 0, of_x, p = coef[terms - 1];

    for (size_t c = 0; c < width; c++) {
        x += (REAL)q[c * ldq] * k[c * ldk];
        all += R_FABS((REAL)q[c * ldq] * k[c * ldk]);
    }
    of_x = chain_error(width, all);
    *error = 0;
    if (!(all < LARGEST / 8))
        *error = INFINITY;
    for (size_t m = terms - 1; m-- > 0;) {
        /* (p + e)(x + d) + c, rounded once */
        *error = R_FABS(x) * *error + R_FABS(p) * of_x + *error * of_x;
        p = p * x + coef[m];
        *error += U * (R_FABS(p) + *error) + TINY;
        if (!(R_FABS(p) < LARGEST / 8) || !(R_FABS(x) * R_FABS(p) < LARGEST / 8))
            *error = INFINITY;
    }
    return p;
}

static void fill_coef(struct kc *kc, struct kc_array *coef)
{
    T c = 1;

    kc_fill(kc, coef, KC_ANY);
    if (kc_chance(kc, 60)) /* those of the exponential */
        for (size_t m = 0; m < coef->cols; m++) {
            GOT(coef)[m] = c;
            c /= (T)(m + 1);
        }
}

static void one_scores(struct kc *kc, const struct KERNELS *table, size_t keys, size_t queries,
                       size_t width, ptrdiff_t diag)
{
    size_t ldk = SOME_LD(kc, keys), ldq = SOME_LD(kc, queries), ldw = SOME_LD(kc, queries);
    size_t terms = kc_between(kc, 1, TSA_MAX_TERMS);
    struct kc_array *kt, *qt, *coef, *w;

    kc_case(kc, "keys %zu queries %zu width %zu terms %zu diag %td", keys, queries, width, terms,
            diag);
    kt = kc_scratch(kc, "kt", width, keys, ldk);
    qt = kc_scratch(kc, "qt", width, queries, ldq);
    coef = kc_user(kc, "coef", 1, terms, 0);
    w = kc_scratch(kc, "w", keys, queries, ldw);
    kc_free(w, queries, ROW16(queries));
    kc_fill(kc, kt, some_terms(kc));
    kc_fill(kc, qt, some_terms(kc));
    for (size_t i = 0; i < keys && queries > 0; i++) /* keys after the last query */
        if ((ptrdiff_t)i > diag + (ptrdiff_t)queries - 1)
            for (size_t c = 0; c < width; c++)
                GOT(kt)[c * ldk + i] = (T)NAN;
    fill_coef(kc, coef);
    kc_freeze(kc);
    for (SIDES)
        K->scores(&(const struct ARGS(scores)){.keys = keys,
                                               .queries = queries,
                                               .d = width,
                                               .kt = P(kt),
                                               .ldk = (ptrdiff_t)ldk,
                                               .qt = P(qt),
                                               .ldq = (ptrdiff_t)ldq,
                                               .terms = terms,
                                               .coef = P(coef),
                                               .w = P(w),
                                               .ldw = (ptrdiff_t)ldw,
                                               .diag = diag});
    for (size_t i = 0; i < keys; i++)
        for (size_t t = 0; t < queries; t++) {
            REAL ref, error;

            if ((ptrdiff_t)i > diag + (ptrdiff_t)t) { /* may hold anything */
                memcpy(&WANT(w)[i * ldw + t], &GOT(w)[i * ldw + t], sizeof(T));
                continue;
            }
            ref = score_ref(width, GOT(kt) + i, ldk, GOT(qt) + t, ldq, terms, GOT(coef), &error);
            near(kc, w, i, t, ref, error);
        }
    kc_finish(kc);
}

static ptrdiff_t some_diag(struct kc *kc, size_t keys)
{
    return (ptrdiff_t)(kc_chance(kc, 30) ? 0 : kc_between(kc, 0, keys + 3));
}

static void test_scores(struct kc *kc, const struct KERNELS *table)
{
    for (size_t keys = 0; keys <= 2 * TSA_MAX_LANES + 1; keys++)
        for (size_t queries = 0; queries <= 2 * TSA_MAX_LANES + 1; queries++)
            if (kc_keep(kc))
                one_scores(kc, table, keys, queries, kc_between(kc, 1, 12), some_diag(kc, keys));
    for (size_t i = kc_rounds(kc, 120); i-- > 0;) {
        size_t keys = kc_between(kc, 1, 120);

        one_scores(kc, table, keys, kc_between(kc, 1, 120), kc_between(kc, 1, 70),
                   some_diag(kc, keys));
    }
}

static void one_window_ones(struct kc *kc, const struct KERNELS *table, size_t keys, size_t queries,
                            ptrdiff_t diag)
{
    size_t ldw = SOME_LD(kc, queries);
    int first = (int)kc_between(kc, 0, 1);
    struct kc_array *w, *den;

    kc_case(kc, "keys %zu queries %zu diag %td first %d", keys, queries, diag, first);
    w = kc_scratch(kc, "w", keys, queries, ldw);
    den = kc_scratch(kc, "den", 1, queries, ROW16(queries));
    kc_free(den, queries, ROW16(queries));
    kc_fill(kc, w, some_terms(kc));
    for (size_t i = 0; i < keys; i++)
        for (size_t t = 0; t < queries; t++)
            if ((ptrdiff_t)i > diag + (ptrdiff_t)t)
                memcpy(&GOT(w)[i * ldw + t], &kc->poison, sizeof(T));
    if (!first)
        kc_fill(kc, den, KC_ANY);
    kc_freeze(kc);
    for (SIDES)
        K->window_ones(keys, queries, P(w), (ptrdiff_t)ldw, diag, P(den), first);
    kc_finish(kc);
    for (size_t t = 0; t < queries; t++) {
        REAL ref = first ? 0 : BEFORE(den)[t], all = R_FABS(ref);

        for (size_t i = 0; i < seen(keys, diag, t); i++) {
            ref += GOT(w)[i * ldw + t];
            all += R_FABS((REAL)GOT(w)[i * ldw + t]);
        }
        near(kc, den, 0, t, ref, chain_error(keys + 1, all));
    }
}

static void test_window_ones(struct kc *kc, const struct KERNELS *table)
{
    /* around 4 vectors of queries, which go together */
    static const unsigned char edges[] = {1,  7,  8,  9,  15, 16, 17, 31, 32,  33,
                                          47, 48, 49, 63, 64, 65, 66, 81, 100, 129};
    static const unsigned char diags[] = {0, 1, 15, 16, 17, 63, 64};

    for (size_t keys = 0; keys <= 2 * TSA_MAX_LANES + 1; keys++)
        for (size_t queries = 0; queries <= 5 * TSA_MAX_LANES + 1; queries++)
            if (kc_keep(kc))
                one_window_ones(kc, table, keys, queries, some_diag(kc, keys));
    for (size_t i = 0; i < sizeof edges / sizeof *edges; i++)
        for (size_t j = 0; j < sizeof diags / sizeof *diags; j++) {
            size_t queries = edges[i], all = diags[j] + queries; /* keys of the last query */
            size_t keys[] = {1,
                             diags[j],
                             diags[j] + 1U,
                             diags[j] + 1U + kc_between(kc, 0, queries - 1),
                             all - 1,
                             all,
                             all + kc_between(kc, 1, 70)};

            for (size_t k = 0; k < sizeof keys / sizeof *keys; k++)
                if (kc_keep(kc))
                    one_window_ones(kc, table, keys[k], queries, diags[j]);
        }
    for (size_t i = kc_rounds(kc, 300); i-- > 0;) {
        size_t keys = kc_between(kc, 1, 150);

        one_window_ones(kc, table, keys, kc_between(kc, 1, 200), some_diag(kc, keys));
    }
}

static void one_window(struct kc *kc, const struct KERNELS *table, size_t rows, size_t width,
                       size_t keys, ptrdiff_t diag)
{
    size_t ldw = SOME_LD(kc, rows), ldv = some_line_ld(kc, width), lda = some_line_ld(kc, width);
    ptrdiff_t stride = (ptrdiff_t)(width + (kc_chance(kc, 50) ? 0 : kc_between(kc, 1, 40)));
    int first = (int)kc_between(kc, 0, 1);
    struct kc_array *w, *v, *acc, *den, *dst;

    kc_case(kc, "rows %zu width %zu keys %zu diag %td first %d stride %td", rows, width, keys, diag,
            first, stride);
    w = kc_scratch(kc, "w", keys, rows, ldw);
    v = kc_scratch(kc, "v", keys, width, ldv);
    acc = kc_scratch(kc, "acc", rows, width, lda);
    den = kc_scratch(kc, "den", 1, rows, ROW16(rows));
    dst = kc_user(kc, "dst", rows, width, stride);
    dst->canonical = true;
    kc_fill(kc, w, some_terms(kc));
    kc_fill(kc, v, some_terms(kc));
    for (size_t i = 0; i < keys; i++) {
        for (size_t t = 0; t < rows; t++)
            if ((ptrdiff_t)i > diag + (ptrdiff_t)t)
                memcpy(&GOT(w)[i * ldw + t], &kc->poison, sizeof(T));
        /* a value that only the later rows may see */
        if ((ptrdiff_t)i > diag && kc_chance(kc, 10))
            for (size_t c = 0; c < width; c++)
                GOT(v)[i * ldv + c] = (T)(c % 2 ? NAN : INFINITY);
    }
    if (!first)
        kc_fill(kc, acc, kc_chance(kc, 20) ? KC_FULL : KC_ANY);
    for (size_t t = 0; t < rows; t++)
        GOT(den)[t] = some_divisor(kc);
    kc_freeze(kc);
    for (SIDES)
        K->window(&(const struct ARGS(window)){.queries = rows,
                                               .columns = width,
                                               .keys = keys,
                                               .diag = diag,
                                               .w = P(w),
                                               .ldw = (ptrdiff_t)ldw,
                                               .v = P(v),
                                               .ldv = (ptrdiff_t)ldv,
                                               .acc = P(acc),
                                               .lda = (ptrdiff_t)lda,
                                               .first = first,
                                               .den = P(den),
                                               .dst = P(dst),
                                               .stride = stride});
    kc_finish(kc);
    for (size_t t = 0; t < rows; t++)
        for (size_t c = 0; c < width; c++) {
            REAL ref = first ? 0 : BEFORE(acc)[t * lda + c], all = R_FABS(ref);
            REAL by = R_FABS((REAL)GOT(den)[t]);

            for (size_t i = 0; i < seen(keys, diag, t); i++) {
                REAL term = (REAL)GOT(w)[i * ldw + t] * GOT(v)[i * ldv + c];

                ref += term;
                all += R_FABS(term);
            }
            if (!(all < LARGEST / 8))
                continue;
            ref /= GOT(den)[t];
            near(kc, dst, t, c, ref,
                 chain_error(keys + 1, all) / by * (1 + U) + U * R_FABS(ref) + TINY);
        }
}

static void test_window(struct kc *kc, const struct KERNELS *table)
{
    for (size_t rows = 0; rows <= TSA_MAX_LANES + 2; rows++)
        for (size_t width = 1; width <= 5 * LINE + 1; width += kc_between(kc, 1, 3))
            for (size_t keys = 0; keys <= 20; keys += kc_between(kc, 1, 4))
                if (kc_keep(kc))
                    one_window(kc, table, rows, width, keys, some_diag(kc, keys));
    for (size_t i = kc_rounds(kc, 120); i-- > 0;) {
        size_t keys = kc_between(kc, 1, 80);

        one_window(kc, table, kc_between(kc, 1, 80), kc_between(kc, 1, 150), keys,
                   some_diag(kc, keys));
    }
}

static void one_decode_scores(struct kc *kc, const struct KERNELS *table, size_t keys, size_t width)
{
    size_t ldk = SOME_LD(kc, keys), terms = kc_between(kc, 1, TSA_MAX_TERMS);
    struct kc_array *kt, *q, *coef, *w;

    kc_case(kc, "keys %zu width %zu terms %zu", keys, width, terms);
    kt = kc_scratch(kc, "kt", width, keys, ldk);
    q = kc_user(kc, "q", 1, width, 0);
    coef = kc_user(kc, "coef", 1, terms, 0);
    w = kc_scratch(kc, "w", 1, keys, ROW16(keys));
    kc_free(w, keys, ROW16(keys));
    kc_fill(kc, kt, some_terms(kc));
    kc_fill(kc, q, some_terms(kc));
    fill_coef(kc, coef);
    kc_freeze(kc);
    for (SIDES)
        K->decode_scores(keys, width, P(kt), (ptrdiff_t)ldk, P(q), terms, P(coef), P(w));
    kc_finish(kc);
    for (size_t i = 0; i < keys; i++) {
        REAL error;
        REAL ref = score_ref(width, GOT(kt) + i, ldk, GOT(q), 1, terms, GOT(coef), &error);

        near(kc, w, 0, i, ref, error);
    }
}

static void test_decode_scores(struct kc *kc, const struct KERNELS *table)
{
    for (size_t keys = 0; keys <= 5 * TSA_MAX_LANES + 1; keys++)
        for (size_t width = 1; width <= 12; width++)
            if (kc_keep(kc))
                one_decode_scores(kc, table, keys, width);
    for (size_t i = kc_rounds(kc, 200); i-- > 0;)
        one_decode_scores(kc, table, kc_between(kc, 0, 300), kc_between(kc, 1, 130));
}

static void one_decode_window(struct kc *kc, const struct KERNELS *table, size_t width, size_t keys)
{
    size_t ldv = some_line_ld(kc, width);
    int first = (int)kc_between(kc, 0, 1);
    T den = first ? (T)NAN : some_divisor(kc);
    struct kc_array *w, *v, *acc, *dst;

    kc_case(kc, "width %zu keys %zu first %d den %g", width, keys, first, (double)den);
    w = kc_scratch(kc, "w", 1, keys, ROW16(keys));
    v = kc_scratch(kc, "v", keys, width, ldv);
    acc = kc_scratch(kc, "acc", 1, width, tsa_round_up(width, LINE));
    dst = kc_user(kc, "dst", 1, width, 0);
    dst->canonical = true;
    kc_fill(kc, w, some_terms(kc));
    kc_fill(kc, v, some_terms(kc));
    if (!first)
        kc_fill(kc, acc, kc_chance(kc, 20) ? KC_FULL : KC_ANY);
    kc_freeze(kc);
    for (SIDES)
        K->decode_window(&(const struct ARGS(decode_window)){.columns = width,
                                                             .keys = keys,
                                                             .w = P(w),
                                                             .v = P(v),
                                                             .ldv = (ptrdiff_t)ldv,
                                                             .acc = P(acc),
                                                             .den = den,
                                                             .first = first,
                                                             .dst = P(dst)});
    kc_finish(kc);
    for (size_t c = 0; c < width; c++) {
        REAL ref = first ? 0 : BEFORE(acc)[c], all = R_FABS(ref);
        REAL by = first ? 0 : den, all_by = R_FABS(by), error, of_by;

        for (size_t i = 0; i < keys; i++) {
            REAL term = (REAL)GOT(w)[i] * GOT(v)[i * ldv + c];

            ref += term;
            all += R_FABS(term);
            by += GOT(w)[i];
            all_by += R_FABS((REAL)GOT(w)[i]);
        }
        error = chain_error(keys + 1, all);
        of_by = chain_error(keys + 1, all_by);
        if (!(all < LARGEST / 8) || !(all_by < LARGEST / 8) || !(R_FABS(by) > 2 * of_by))
            continue;
        ref /= by; /* |(a + e)/(b + d) - a/b| <= (|e| + |a/b| |d|) / (|b| - |d|) */
        near(kc, dst, 0, c, ref,
             (error + R_FABS(ref) * of_by) / (R_FABS(by) - of_by) * (1 + U) + U * R_FABS(ref) +
                 TINY);
    }
}

static void test_decode_window(struct kc *kc, const struct KERNELS *table)
{
    for (size_t width = 1; width <= 9 * LINE + 1; width++)
        for (size_t keys = 0; keys <= 17; keys++)
            if (kc_keep(kc))
                one_decode_window(kc, table, width, keys);
    for (size_t i = kc_rounds(kc, 400); i-- > 0;)
        one_decode_window(kc, table, kc_between(kc, 1, 300), kc_between(kc, 0, 100));
}
