/* SPDX-License-Identifier: MIT */
/* Tests of the kernels that read and add to a state: query, update, fold, merge, decode_state. */

static size_t some_line_ld(struct kc *kc, size_t cols)
{
    return tsa_round_up(cols != 0 ? cols : 1, LINE) + LINE * kc_between(kc, 0, 2);
}

/* KC_ANY; sometimes with infinities and NaNs, which must stay in their chains. */
static enum kc_data some_terms(struct kc *kc)
{
    return kc_chance(kc, 5) ? KC_SPECIAL : KC_ANY;
}

/* Asking for memory ahead changes nothing, wherever it points; or nothing is asked for. */
static struct tsa_ahead *some_ahead(struct kc *kc, struct tsa_ahead *ahead)
{
    static const char line[TSA_ALIGN];

    if (kc_chance(kc, 50))
        return NULL;
    memset(ahead, 0, sizeof *ahead);
    ahead->budget = kc_between(kc, 0, 100);
    ahead->count = kc_between(kc, 0, TSA_AHEAD_ROWS);
    for (size_t i = 0; i < ahead->count; i++)
        ahead->rows[i] = (struct tsa_ahead_rows){line,
                                                 (ptrdiff_t)kc_between(kc, 0, 1000) - 500,
                                                 kc_between(kc, 1, 5),
                                                 kc_between(kc, 1, 5),
                                                 0,
                                                 kc_chance(kc, 50)};
    return ahead;
}

static void one_query(struct kc *kc, const struct KERNELS *table, size_t rows, size_t cols,
                      size_t features)
{
    size_t ldp = SOME_LD(kc, rows), ldh = some_line_ld(kc, cols), lda = some_line_ld(kc, cols);
    int first = (int)kc_between(kc, 0, 1);
    struct kc_array *psi, *hi, *acc;
    struct tsa_ahead ahead;

    kc_case(kc, "rows %zu cols %zu features %zu first %d ldh %zu", rows, cols, features, first,
            ldh);
    psi = kc_scratch(kc, "psi", features, rows, ldp);
    hi = kc_scratch(kc, "hi", features, cols, ldh);
    acc = kc_scratch(kc, "acc", rows, cols, lda);
    kc_fill(kc, psi, some_terms(kc));
    kc_fill(kc, hi, some_terms(kc));
    if (!first)
        kc_fill(kc, acc, KC_ANY);
    kc_freeze(kc);
    for (SIDES)
        K->query(rows, cols, features, P(psi), (ptrdiff_t)ldp, P(hi), (ptrdiff_t)ldh, P(acc),
                 (ptrdiff_t)lda, first, some_ahead(kc, &ahead));
    kc_finish(kc);
    for (size_t t = 0; t < rows; t++)
        for (size_t c = 0; c < cols; c++) {
            REAL ref = first ? 0 : BEFORE(acc)[t * lda + c], all = R_FABS(ref);

            for (size_t f = 0; f < features; f++) {
                REAL term = (REAL)GOT(psi)[f * ldp + t] * GOT(hi)[f * ldh + c];

                ref += term;
                all += R_FABS(term);
            }
            near(kc, acc, t, c, ref, chain_error(features + 1, all));
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
    kc_fill(kc, psi, some_terms(kc));
    kc_fill(kc, ones, some_terms(kc));
    if (!first)
        kc_fill(kc, den, KC_ANY);
    kc_freeze(kc);
    for (SIDES)
        K->query_ones(rows, features, P(psi), (ptrdiff_t)ldp, P(ones), P(den), first);
    kc_finish(kc);
    for (size_t t = 0; t < rows; t++) {
        REAL ref = first ? 0 : BEFORE(den)[t], all = R_FABS(ref);

        for (size_t f = 0; f < features; f++) {
            REAL term = (REAL)GOT(psi)[f * ldp + t] * GOT(ones)[f];

            ref += term;
            all += R_FABS(term);
        }
        near(kc, den, 0, t, ref, chain_error(features + 1, all));
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

/* Both update kernels: into `local`, or with it into (hi, lo). */
static void one_update(struct kc *kc, const struct KERNELS *table, size_t features, size_t cols,
                       size_t rows, bool fold)
{
    size_t ldv = some_line_ld(kc, cols), ldh = some_line_ld(kc, cols), ldl = some_line_ld(kc, cols);
    int first = (int)kc_between(kc, 0, 1);
    struct kc_array *phi, *v, *local, *hi = NULL, *lo = NULL, *sum;
    struct tsa_ahead ahead;

    kc_case(kc, "features %zu cols %zu rows %zu ldv %zu ldh %zu ldl %zu first %d", features, cols,
            rows, ldv, ldh, ldl, first);
    phi = kc_scratch(kc, "phi", features, rows, TSA_TILE_TOKENS);
    v = kc_scratch(kc, "v", rows, cols, ldv);
    sum = local = kc_scratch(kc, "local", features, cols, ldl);
    kc_fill(kc, phi, some_terms(kc));
    kc_fill(kc, v, some_terms(kc));
    if (!first)
        kc_fill(kc, local, KC_ANY);
    if (fold) {
        sum = hi = kc_scratch(kc, "hi", features, cols, ldh);
        lo = kc_scratch(kc, "lo", features, cols, ldh);
        kc_fill(kc, hi, KC_ANY);
        for (size_t i = 0; i < features; i++)
            for (size_t c = 0; c < cols; c++)
                GOT(lo)[i * ldh + c] = GOT(hi)[i * ldh + c] * (T)(U * kc_unit(kc));
    }
    kc_freeze(kc);
    for (SIDES) {
        if (fold)
            K->update_fold(features, cols, rows, P(phi), P(v), (ptrdiff_t)ldv,
                           first ? NULL : P(local), (ptrdiff_t)ldl, P(hi), P(lo), (ptrdiff_t)ldh,
                           NULL, some_ahead(kc, &ahead));
        else
            K->update(features, cols, rows, P(phi), P(v), (ptrdiff_t)ldv, P(local), (ptrdiff_t)ldl,
                      first, some_ahead(kc, &ahead));
    }
    kc_finish(kc);
    for (size_t f = 0; f < features; f++)
        for (size_t c = 0; c < cols; c++) {
            REAL ref = first ? 0 : BEFORE(local)[f * ldl + c], all = R_FABS(ref), error;

            for (size_t t = 0; t < rows; t++) {
                REAL term = (REAL)GOT(phi)[f * TSA_TILE_TOKENS + t] * GOT(v)[t * ldv + c];

                ref += term;
                all += R_FABS(term);
            }
            error = chain_error(rows + 1, all);
            if (fold) {
                REAL high = BEFORE(hi)[f * ldh + c], low = BEFORE(lo)[f * ldh + c];

                /* hi + lo is the sum up to roundings of the low parts, each relative U of e
                 * and lo, where |e| <= U |hi + local| */
                ref += high + low - GOT(lo)[f * ldh + c];
                error += 8 * U * (R_FABS(low) + U * (R_FABS(high) + all)) + 8 * TINY;
                error += U * U * R_FABS(ref); /* of the reference */
                if (!TEST_F64)
                    error += 0x1p-50 * (R_FABS(high) + all);
                else
                    error += LDBL_EPSILON * 4 * (R_FABS(high) + all);
            }
            near(kc, sum, f, c, ref, error);
        }
}

static void updates(struct kc *kc, const struct KERNELS *table, bool fold)
{
    for (size_t features = 0; features <= 20; features++)
        for (size_t vectors = 0; vectors <= 6; vectors++)
            for (size_t rows = 0; rows <= 2 * TSA_MAX_LANES + 1;
                 rows += kc_between(kc, 1, rows < 8 ? 3 : 9))
                if (kc_keep(kc))
                    one_update(kc, table, features, vectors * LANES(kc), rows, fold);
    for (size_t i = kc_rounds(kc, 120); i-- > 0;)
        one_update(kc, table, kc_between(kc, 1, 80), LINE * kc_between(kc, 1, 160 / LINE),
                   kc_between(kc, 0, TSA_TILE_TOKENS), fold);
}

static void test_update(struct kc *kc, const struct KERNELS *table)
{
    updates(kc, table, false);
}

static void test_update_fold(struct kc *kc, const struct KERNELS *table)
{
    updates(kc, table, true);
}

/* fold and merge: `how` says which arrays there are. */
static void one_fold(struct kc *kc, const struct KERNELS *table, size_t count, bool merge,
                     unsigned how)
{
    size_t ld = tsa_round_up(count, LINE);
    struct kc_array *hi, *lo, *x, *y = NULL;

    kc_case(kc, "count %zu variant %u", count, how);
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
            K->fold(count, P(hi), P(lo), P(x), how == 0 ? NULL : P(how == 1 ? y : x));
    }
    kc_finish(kc);
    for (size_t i = 0; i < count; i++) {
        REAL high = BEFORE(hi)[i], low = BEFORE(lo)[i], more = BEFORE(x)[i], less = 0, all;

        if (merge) {
            more = how == 1 ? high : more;
            less = how == 1 ? low : (REAL)BEFORE(y)[i];
        }
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

static void one_decode_state(struct kc *kc, const struct KERNELS *table, size_t rows, size_t cols,
                             size_t features)
{
    size_t ldp = SOME_LD(kc, features + 2 * TSA_MAX_LANES), ldh = some_line_ld(kc, cols);
    size_t lda = some_line_ld(kc, cols), ldo = ROW16(features) + TSA_ROW_PAD;
    size_t state[MOST_DECODE_ROWS], states = some_states(kc, rows, state);
    struct kc_array *psi, *hi, *ones, *acc, *den;

    kc_case(kc, "rows %zu states %zu cols %zu features %zu ldh %zu", rows, states, cols, features,
            ldh);
    psi = kc_scratch(kc, "psi", rows, features, ldp);
    hi = kc_scratch(kc, "hi", states * features, cols, ldh);
    ones = kc_scratch(kc, "ones", states, features, ldo);
    acc = kc_scratch(kc, "acc", rows, cols, lda);
    den = kc_scratch(kc, "den", 1, rows, ROW16(rows));
    kc_free(den, rows, ROW16(rows));
    kc_fill(kc, psi, some_terms(kc));
    kc_fill(kc, hi, some_terms(kc));
    kc_fill(kc, ones, some_terms(kc));
    kc_freeze(kc);
    for (SIDES) {
        const T *hi_of[MOST_DECODE_ROWS], *ones_of[MOST_DECODE_ROWS];

        for (size_t r = 0; r < rows; r++) {
            hi_of[r] = P(hi) + state[r] * features * ldh;
            ones_of[r] = P(ones) + state[r] * ldo;
        }
        K->decode_state(rows, cols, features, P(psi), (ptrdiff_t)ldp, hi_of, (ptrdiff_t)ldh,
                        ones_of, P(acc), (ptrdiff_t)lda, P(den), 1);
    }
    kc_finish(kc);
    for (size_t r = 0; r < rows; r++) {
        const T *row_hi = GOT(hi) + state[r] * features * ldh;
        const T *row_ones = GOT(ones) + state[r] * ldo;

        for (size_t c = 0; c <= cols; c++) { /* the column of ones is the last */
            REAL ref = 0, all = 0;

            for (size_t f = 0; f < features; f++) {
                REAL term = c < cols ? row_hi[f * ldh + c] : row_ones[f];

                term *= GOT(psi)[r * ldp + f];
                ref += term;
                all += R_FABS(term);
            }
            if (c < cols)
                near(kc, acc, r, c, ref, chain_error(features, all));
            else
                near(kc, den, 0, r, ref, chain_error(features, all));
        }
    }
}

static void test_decode_state(struct kc *kc, const struct KERNELS *table)
{
    for (size_t rows = 0; rows <= MOST_DECODE_ROWS; rows++)
        for (size_t vectors = 1; vectors <= 17; vectors++)
            for (size_t features = 0; features <= 20; features += kc_between(kc, 1, 9))
                if (kc_keep(kc))
                    one_decode_state(kc, table, rows, vectors * LANES(kc), features);
    for (size_t i = kc_rounds(kc, 60); i-- > 0;)
        one_decode_state(kc, table, kc_between(kc, 1, MOST_DECODE_ROWS),
                         LINE * kc_between(kc, 1, 256 / LINE), kc_between(kc, 1, 60));
    one_decode_state(kc, table, 8, LINE * kc_between(kc, 1, 5), 300);
}
