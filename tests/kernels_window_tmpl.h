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
                       size_t width, ptrdiff_t diag, enum tsa_score_kind kind)
{
    size_t ldk = SOME_LD(kc, keys), ldq = SOME_LD(kc, queries), ldw = SOME_LD(kc, queries);
    size_t terms = kc_between(kc, 1, TSA_MAX_TERMS);
    struct kc_array *kt, *qt, *coef, *w;

    kc_case(kc, "keys %zu queries %zu width %zu terms %zu diag %td kind %d", keys, queries, width,
            terms, diag, (int)kind);
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
    if (kind == TSA_SCORE_EXP && kc_chance(kc, 70)) /* scores as bounded as they should be */
        for (size_t c = 0; c < width; c++)
            for (size_t t = 0; t < queries; t++)
                GOT(qt)[c * ldq + t] = (T)(kc_unit(kc) / (2 * (double)width));
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
                                               .diag = diag,
                                               .kind = kind});
    for (size_t i = 0; i < keys; i++)
        for (size_t t = 0; t < queries; t++) {
            REAL ref, error;

            if ((ptrdiff_t)i > diag + (ptrdiff_t)t) { /* may hold anything */
                memcpy(&WANT(w)[i * ldw + t], &GOT(w)[i * ldw + t], sizeof(T));
                continue;
            }
            if (kind != TSA_SCORE_SERIES)
                continue; /* compared with the model */
            ref = score_ref(width, GOT(kt) + i, ldk, GOT(qt) + t, ldq, terms, GOT(coef), &error);
            near(kc, w, i, t, ref, error);
        }
    kc_finish(kc);
}

static void scores_of(struct kc *kc, const struct KERNELS *table, enum tsa_score_kind kind)
{
    for (size_t keys = 0; keys <= 2 * TSA_MAX_LANES + 1; keys++)
        for (size_t queries = 0; queries <= 2 * TSA_MAX_LANES + 1; queries++)
            if (kc_keep(kc))
                one_scores(kc, table, keys, queries, kc_between(kc, 1, 12), some_diag(kc, keys),
                           kind);
    for (size_t i = kc_rounds(kc, 120); i-- > 0;) {
        size_t keys = kc_between(kc, 1, 120);

        one_scores(kc, table, keys, kc_between(kc, 1, 120), kc_between(kc, 1, 70),
                   some_diag(kc, keys), kind);
    }
}

static void test_scores(struct kc *kc, const struct KERNELS *table)
{
    scores_of(kc, table, TSA_SCORE_SERIES);
    scores_of(kc, table, TSA_SCORE_ONLY);
    scores_of(kc, table, TSA_SCORE_EXP);
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

/* Sums and windows of the heads of decode_heads: shared by all, by neighbours, or own. */
struct decode_case {
    size_t heads, columns, features;
    size_t state[MOST_DECODE_ROWS], keys[MOST_DECODE_ROWS];
    size_t ldp, ldh, ldv, ldw, lda, ldo, most_keys;
    int first;
    bool decays, finishes;
    struct ARGS(finish) finish;
    struct kc_array *psi, *hi, *ones, *w, *v, *acc, *den, *dst, *decay;
};

/* |got - ref| for the output in column c of head h. */
static void near_decoded(struct kc *kc, const struct decode_case *x, size_t h, size_t c)
{
    const T *psi = GOT(x->psi) + h * x->ldp, *w = GOT(x->w) + h * x->ldw;
    const T *hi = GOT(x->hi) + x->state[h] * x->features * x->ldh + c;
    const T *v = GOT(x->v) + x->state[h] * x->most_keys * x->ldv + c;
    const T *ones = GOT(x->ones) + x->state[h] * x->ldo;
    const size_t steps = x->features + x->keys[h] + 1;
    REAL ref = x->first ? 0 : BEFORE(x->acc)[h * x->lda + c], all = R_FABS(ref), error, of_by;
    REAL by = x->first ? 0 : BEFORE(x->den)[h], all_by = R_FABS(by);

    for (size_t f = 0; f < x->features; f++) {
        add_term(psi[f], hi[f * x->ldh], &ref, &all);
        add_term(psi[f], ones[f], &by, &all_by);
    }
    for (size_t i = 0; i < x->keys[h]; i++) {
        add_term(w[i], v[i * x->ldv], &ref, &all);
        add_term(w[i], 1, &by, &all_by);
    }
    error = chain_error(steps, all);
    of_by = chain_error(steps, all_by);
    if (!(all < LARGEST / 8) || !(all_by < LARGEST / 8) || !(R_FABS(by) > 2 * of_by))
        return;
    ref /= by; /* |(a + e)/(b + d) - a/b| <= (|e| + |a/b| |d|) / (|b| - |d|) */
    near(kc, x->dst, h, c, ref,
         (error + R_FABS(ref) * of_by) / (R_FABS(by) - of_by) * (1 + U) + U * R_FABS(ref) + TINY);
}

static void decode_both(struct kc *kc, const struct KERNELS *table, struct decode_case *x)
{
    for (SIDES) {
        const T *hi[MOST_DECODE_ROWS], *ones[MOST_DECODE_ROWS], *v[MOST_DECODE_ROWS];
        T *dst[MOST_DECODE_ROWS];

        for (size_t h = 0; h < x->heads; h++) {
            hi[h] = P(x->hi) + x->state[h] * x->features * x->ldh;
            ones[h] = P(x->ones) + x->state[h] * x->ldo;
            v[h] = P(x->v) + x->state[h] * x->most_keys * x->ldv;
            dst[h] = P(x->dst) + (ptrdiff_t)h * x->dst->ld;
        }
        K->decode_heads(
            &(const struct ARGS(decode_heads)){.state.heads = x->heads,
                                               .state.columns = x->columns,
                                               .state.features = x->features,
                                               .state.psi = P(x->psi),
                                               .state.ldp = (ptrdiff_t)x->ldp,
                                               .state.hi = hi,
                                               .state.ldh = (ptrdiff_t)x->ldh,
                                               .state.ones = ones,
                                               .w = P(x->w),
                                               .ldw = (ptrdiff_t)x->ldw,
                                               .keys = x->keys,
                                               .v = v,
                                               .ldv = (ptrdiff_t)x->ldv,
                                               .state.acc = P(x->acc),
                                               .state.lda = (ptrdiff_t)x->lda,
                                               .state.den = P(x->den),
                                               .state.first = x->first,
                                               .dst = dst,
                                               .decay = x->decays ? P(x->decay) : NULL,
                                               .finish = x->finishes ? &x->finish : NULL});
    }
    (void)kc;
}

static void one_decode_heads(struct kc *kc, const struct KERNELS *table, size_t heads,
                             size_t columns, size_t features)
{
    struct decode_case x = {.heads = heads,
                            .columns = columns,
                            .features = features,
                            .ldp = SOME_LD(kc, features + 2 * TSA_MAX_LANES),
                            .ldh = some_line_ld(kc, columns),
                            .ldv = some_line_ld(kc, columns),
                            .lda = some_line_ld(kc, columns),
                            .ldo = ROW16(features) + TSA_ROW_PAD,
                            .most_keys = kc_between(kc, 0, 20),
                            .first = (int)kc_between(kc, 0, 1),
                            .decays = kc_chance(kc, 30),
                            .finishes = kc_chance(kc, 30),
                            .finish = some_finish(kc)};
    const size_t states = some_states(kc, heads, x.state);
    size_t of_state[MOST_DECODE_ROWS];

    x.ldw = SOME_LD(kc, x.most_keys);
    for (size_t i = 0; i < MOST_DECODE_ROWS; i++)
        of_state[i] = kc_chance(kc, 40) ? x.most_keys : kc_between(kc, 0, x.most_keys);
    for (size_t h = 0; h < heads; h++)
        x.keys[h] = of_state[x.state[h]];
    kc_case(kc, "heads %zu states %zu columns %zu features %zu keys <= %zu first %d ldh %zu", heads,
            states, columns, features, x.most_keys, x.first, x.ldh);
    x.psi = kc_scratch(kc, "psi", heads, features, x.ldp);
    x.hi = kc_scratch(kc, "hi", states * features, columns, x.ldh);
    x.ones = kc_scratch(kc, "ones", states, features, x.ldo);
    x.w = kc_scratch(kc, "w", heads, x.most_keys, x.ldw);
    x.v = kc_scratch(kc, "v", states * x.most_keys, columns, x.ldv);
    x.acc = kc_scratch(kc, "acc", heads, columns, x.lda);
    x.den = kc_scratch(kc, "den", 1, heads, ROW16(heads));
    x.dst = kc_user(kc, "dst", heads, columns, (ptrdiff_t)(columns + kc_between(kc, 0, 20)));
    x.dst->canonical = true;
    x.decay = kc_scratch(kc, "decay", 1, heads, ROW16(heads));
    for (size_t h = 0; h < heads; h++)
        GOT(x.decay)[h] = some_decay(kc);
    fill_operands(kc, x.psi);
    fill_operands(kc, x.hi);
    fill_operands(kc, x.ones);
    kc_fill(kc, x.w, some_terms(kc));
    kc_fill(kc, x.v, some_terms(kc));
    if (!x.first) {
        fill_sums(kc, x.acc);
        fill_sums(kc, x.den);
    }
    kc_freeze(kc);
    decode_both(kc, table, &x);
    kc_finish(kc);
    for (size_t h = 0; h < heads && !x.decays && !x.finishes; h++)
        for (size_t c = 0; c < columns; c++)
            near_decoded(kc, &x, h, c);
}

static void test_decode_heads(struct kc *kc, const struct KERNELS *table)
{
    for (size_t heads = 0; heads <= MOST_DECODE_ROWS; heads++)
        for (size_t columns = 1; columns <= 9 * LINE + 1; columns += kc_between(kc, 1, 5))
            for (size_t features = 0; features <= 20; features += kc_between(kc, 1, 9))
                if (kc_keep(kc))
                    one_decode_heads(kc, table, heads, columns, features);
    for (size_t i = kc_rounds(kc, 60); i-- > 0;)
        one_decode_heads(kc, table, kc_between(kc, 1, MOST_DECODE_ROWS), kc_between(kc, 1, 300),
                         kc_between(kc, 1, 60));
    one_decode_heads(kc, table, 1, 5 * LINE, 300);
}
