/* SPDX-License-Identifier: MIT */
/* Tests of the kernels of exact softmax. Keys that a query does not see, and padding, hold NaN or
 * infinity. */

/* Magnitudes of scores; differences of the last are beyond the range of exp. */
static T some_size(struct kc *kc)
{
    static const T sizes[] = {0, 0.5F, 1, 8, 100, 1000};

    return sizes[kc_between(kc, 0, sizeof sizes / sizeof *sizes - 1)];
}

/* Value columns: whole vectors of the table. */
static size_t some_cols(struct kc *kc, size_t most)
{
    return LANES(kc) * kc_between(kc, 1, (most + LANES(kc) - 1) / LANES(kc));
}

/* Values are packed; or the user's, at any element, whose rows are at most twice as long. */
static struct kc_array *some_values(struct kc *kc, size_t keys, size_t cols)
{
    if (kc_chance(kc, 50))
        return kc_scratch(kc, "v", keys, cols, some_line_ld(kc, cols));
    return kc_user(kc, "v", keys, cols, (ptrdiff_t)(cols + kc_between(kc, 0, cols)));
}

/* The maximum of zeros is either of them; that of scores with a NaN, whose sums are NaN, is
 * anything. */
static void settle_max(const T *got, T *want, T den)
{
    if (den != den || (*got == 0 && *want == 0))
        *want = *got;
}

/* -- the exponential of bounded scores ------------------------------------------------------ */

#define BOUNDED_MOST ((T)(0.5 + 0x1p-18))

static void fill_bounded(struct kc *kc, struct kc_array *x, enum kc_data kind)
{
    static const T edges[] = {BOUNDED_MOST, -BOUNDED_MOST, 0.5F, -0.5F, -0.0F, 0};

    kc_fill(kc, x, kind);
    if (kind == KC_UNIT) /* of the whole range, without gaps */
        for (size_t i = 0; i < x->cols; i++) {
            double at = ((double)i + fabs(kc_unit(kc))) / (double)x->cols;

            GOT(x)[i] = BOUNDED_MOST * (T)(2 * at - 1);
        }
    for (size_t i = 0; i < x->cols; i++)
        if (R_FABS((REAL)GOT(x)[i]) > BOUNDED_MOST && kind != KC_SPECIAL)
            GOT(x)[i] = edges[i % (sizeof edges / sizeof *edges)];
}

static void one_exp_bounded(struct kc *kc, const struct KERNELS *table, size_t n)
{
    enum kc_data kind = kc_chance(kc, 60) ? KC_UNIT : some_terms(kc);
    struct kc_array *x, *y;

    kc_case(kc, "n %zu", n);
    x = kc_user(kc, "x", 1, n, 0);
    y = kc_user(kc, "y", 1, n, 0);
    fill_bounded(kc, x, kind);
    kc_freeze(kc);
    for (SIDES)
        K->exp_bounded(n, P(x), P(y));
    kc_finish(kc);
    for (size_t i = 0; i < n && kind != KC_SPECIAL; i++) {
        REAL ref = R_EXP((REAL)GOT(x)[i]);

        near(kc, y, 0, i, ref, ref < 1 ? U : 2 * U); /* 1 ulp: ref is in (1/2, 2) */
    }
}

static void test_exp_bounded(struct kc *kc, const struct KERNELS *table)
{
    for (size_t n = 0; n <= 5 * TSA_MAX_LANES + 1; n++)
        one_exp_bounded(kc, table, n);
    for (size_t i = kc_rounds(kc, 60); i-- > 0;)
        one_exp_bounded(kc, table, kc_between(kc, 1, 4000));
}

/* -- tiles of queries ----------------------------------------------------------------------- */

/* Scores, and maxima of earlier keys: below, among, equal to or above those of the block. */
static void fill_score_block(struct kc *kc, struct kc_array *w, struct kc_array *max,
                             ptrdiff_t diag, int first)
{
    T size = some_size(kc);
    bool general = kc_chance(kc, 25), above = kc_chance(kc, 20);

    kc_fill(kc, w, !general ? KC_UNIT : kc_chance(kc, 50) ? KC_SPECIAL : KC_ANY);
    if (!first)
        kc_fill(kc, max, general ? some_terms(kc) : KC_UNIT);
    for (size_t t = 0; t < w->cols; t++) {
        for (size_t i = 0; i < w->rows; i++) {
            T *x = &GOT(w)[(ptrdiff_t)i * w->ld + (ptrdiff_t)t];

            if ((ptrdiff_t)i > diag + (ptrdiff_t)t)
                memcpy(x, &kc->poison, sizeof *x);
            else if (!general)
                *x *= size;
        }
        if (first || general)
            continue;
        GOT(max)[t] = (above ? 2 + GOT(max)[t] : 2 * GOT(max)[t]) * size;
        if (kc_chance(kc, 20))
            GOT(max)[t] = GOT(w)[t];
    }
}

static void one_softmax_weights(struct kc *kc, const struct KERNELS *table, size_t keys,
                                size_t queries, ptrdiff_t diag)
{
    size_t ldw = SOME_LD(kc, queries);
    int first = (int)kc_between(kc, 0, 1), got = 0;
    bool differs = false;
    struct kc_array *w, *max, *den, *shrink;

    kc_case(kc, "keys %zu queries %zu diag %td first %d", keys, queries, diag, first);
    w = kc_scratch(kc, "w", keys, queries, ldw);
    max = kc_scratch(kc, "max", 1, queries, ROW16(queries));
    den = kc_scratch(kc, "den", 1, queries, ROW16(queries));
    shrink = kc_scratch(kc, "shrink", 1, queries, ROW16(queries));
    for (size_t i = 0; i < kc->arrays; i++)
        kc_free(&kc->array[i], queries, ROW16(queries));
    fill_score_block(kc, w, max, diag, first);
    if (!first)
        kc_fill(kc, den, KC_ANY);
    kc_freeze(kc);
    for (SIDES) {
        int result = K->softmax_weights(&(const struct ARGS(softmax_weights)){.keys = keys,
                                                                              .queries = queries,
                                                                              .w = P(w),
                                                                              .ldw = (ptrdiff_t)ldw,
                                                                              .diag = diag,
                                                                              .first = first,
                                                                              .max = P(max),
                                                                              .den = P(den),
                                                                              .shrink = P(shrink)});

        got = side ? got : result;
    }
    for (size_t t = 0; t < queries; t++) {
        bool nan = WANT(den)[t] != WANT(den)[t]; /* of the others, anything */

        settle_max(&GOT(max)[t], &WANT(max)[t], WANT(den)[t]);
        if (nan)
            WANT(shrink)[t] = GOT(shrink)[t];
        for (size_t i = 0; i < keys; i++)
            if (nan || (ptrdiff_t)i > diag + (ptrdiff_t)t)
                memcpy(&WANT(w)[i * ldw + t], &GOT(w)[i * ldw + t], sizeof(T));
        differs |= !first && GOT(shrink)[t] != 1;
    }
    kc_finish(kc);
    if (differs && got == 0)
        kc_fail(kc, "the result is 0, but not every shrink is 1");
    if (!differs && got != 0 && queries % LANES(kc) == 0) /* no padding that may differ */
        kc_fail(kc, "the result is %d, but every shrink is 1", got);
}

static void test_softmax_weights(struct kc *kc, const struct KERNELS *table)
{
    for (size_t keys = 1; keys <= 2 * TSA_MAX_LANES + 1; keys++)
        for (size_t queries = 0; queries <= 2 * TSA_MAX_LANES + 1; queries++)
            if (kc_keep(kc))
                one_softmax_weights(kc, table, keys, queries, some_diag(kc, keys));
    for (size_t i = kc_rounds(kc, 600); i-- > 0;) {
        size_t keys = kc_between(kc, 1, 100);

        one_softmax_weights(kc, table, keys, kc_between(kc, 1, 100), some_diag(kc, keys));
    }
}

static void one_softmax_values(struct kc *kc, const struct KERNELS *table, size_t rows, size_t cols,
                               size_t keys, ptrdiff_t diag)
{
    size_t ldw = SOME_LD(kc, rows), lda = some_line_ld(kc, cols);
    int first = (int)kc_between(kc, 0, 1);
    bool shrinks = kc_chance(kc, 60);
    struct kc_array *w, *v, *acc, *shrink;

    kc_case(kc, "rows %zu cols %zu keys %zu diag %td first %d shrink %d", rows, cols, keys, diag,
            first, shrinks);
    w = kc_scratch(kc, "w", keys, rows, ldw);
    v = some_values(kc, keys, cols);
    acc = kc_scratch(kc, "acc", rows, cols, lda);
    shrink = kc_scratch(kc, "shrink", 1, rows, ROW16(rows));
    kc_fill(kc, w, some_terms(kc));
    kc_fill(kc, v, some_terms(kc));
    for (size_t i = 0; i < keys; i++) {
        for (size_t t = 0; t < rows; t++)
            if ((ptrdiff_t)i > diag + (ptrdiff_t)t)
                memcpy(&GOT(w)[i * ldw + t], &kc->poison, sizeof(T));
        if ((ptrdiff_t)i > diag && kc_chance(kc, 10)) /* a value that only later rows may see */
            for (size_t c = 0; c < cols; c++)
                GOT(v)[(ptrdiff_t)i * v->ld + (ptrdiff_t)c] = (T)(c % 2 ? NAN : INFINITY);
    }
    if (!first) {
        kc_fill(kc, acc, kc_chance(kc, 20) ? KC_FULL : KC_ANY);
        kc_fill(kc, shrink, kc_chance(kc, 70) ? KC_UNIT : some_terms(kc));
    }
    kc_freeze(kc);
    for (SIDES)
        K->window(&(const struct ARGS(window)){.queries = rows,
                                               .columns = cols,
                                               .keys = keys,
                                               .diag = diag,
                                               .w = P(w),
                                               .ldw = (ptrdiff_t)ldw,
                                               .v = P(v),
                                               .ldv = v->ld,
                                               .acc = P(acc),
                                               .dst = P(acc),
                                               .lda = (ptrdiff_t)lda,
                                               .stride = (ptrdiff_t)lda,
                                               .first = first,
                                               .shrink = shrinks ? P(shrink) : NULL});
    kc_finish(kc);
}

static void test_softmax_values(struct kc *kc, const struct KERNELS *table)
{
    for (size_t rows = 0; rows <= TSA_MAX_LANES + 2; rows++)
        for (size_t vectors = 1; vectors <= 6; vectors++)
            for (size_t keys = 0; keys <= 20; keys += kc_between(kc, 1, 4))
                if (kc_keep(kc))
                    one_softmax_values(kc, table, rows, vectors * LANES(kc), keys,
                                       some_diag(kc, keys));
    for (size_t i = kc_rounds(kc, 120); i-- > 0;) {
        size_t keys = kc_between(kc, 1, 80);

        one_softmax_values(kc, table, kc_between(kc, 1, 80), some_cols(kc, 150), keys,
                           some_diag(kc, keys));
    }
}

/* -- one row -------------------------------------------------------------------------------- */

enum { ROW_BLOCKS = 4 };

/* A row of keys in blocks, and the sums of a query over them. */
struct row_case {
    size_t blocks, keys, d, cols;
    size_t cut[ROW_BLOCKS + 1]; /* where each begins; the last element is the end */
    int bounded;
    bool special; /* infinities and NaNs among the scores */
    struct kc_array *kt, *q, *v, *acc, *run, *w;
};

/* Column i of the array, `step` apart, becomes a vector of this length, or stays 0. */
static void set_length(T *x, size_t d, size_t step, REAL length)
{
    REAL sum = 0;

    for (size_t c = 0; c < d; c++)
        sum += (REAL)x[c * step] * x[c * step];
    for (size_t c = 0; c < d && sum > 0; c++)
        x[c * step] = (T)(x[c * step] * length / R_SQRT(sum));
}

static void fill_row(struct kc *kc, const struct row_case *r)
{
    size_t ldk = (size_t)r->kt->ld;
    double size = some_size(kc);

    kc_fill(kc, r->kt, r->special ? KC_SPECIAL : KC_UNIT);
    kc_fill(kc, r->q, KC_UNIT);
    kc_fill(kc, r->v, kc_chance(kc, 80) ? KC_NORMAL : KC_ALTERNATING);
    if (!r->bounded) {
        for (size_t c = 0; c < r->d; c++)
            GOT(r->q)[c] *= (T)(size / sqrt((double)r->d));
        return;
    }
    set_length(GOT(r->q), r->d, 1, 0.5F);
    for (size_t i = 0; i < r->keys && !r->special; i++) {
        T sign = kc_chance(kc, 50) ? 1 : -1;

        if (kc_chance(kc, 30)) /* the ends of the range */
            for (size_t c = 0; c < r->d; c++)
                GOT(r->kt)[c * ldk + i] = sign * GOT(r->q)[c];
        set_length(GOT(r->kt) + i, r->d, ldk, 1);
    }
}

/* Column c of the sums, the last one of which is that of the weights, against the sum of
 * exp(x_i - top) v_i in REAL, top being the kernel's maximum, or 0 if bounded. Relative errors of a
 * term: that of the score, absolute; of the differences x_i - max and max - max' on the way, which
 * add up to x_i - top; 1 ulp, 2 U, of each exponential and U of each product with one; U of each
 * step of the chain. Absolute: each of these may underflow. */
static void check_row_sum(struct kc *kc, const struct row_case *r, size_t c)
{
    size_t ldk = (size_t)r->kt->ld;
    REAL ref = 0, error = 0, top = r->bounded ? 0 : GOT(r->run)[0];

    for (size_t i = 0; i < r->keys; i++) {
        REAL x = 0, all = 0, term, relative;
        REAL value = c < r->cols ? GOT(r->v)[(ptrdiff_t)i * r->v->ld + (ptrdiff_t)c] : 1;

        for (size_t j = 0; j < r->d; j++) {
            REAL product = (REAL)GOT(r->q)[j] * GOT(r->kt)[j * ldk + i];

            x += product;
            all += R_FABS(product);
        }
        term = R_EXP(x - top) * value;
        relative = chain_error(r->d, all) + U * (REAL)(r->keys + 2);
        relative += r->bounded ? 2 * U : U * (R_FABS(x - top) + 3 * (REAL)r->blocks);
        ref += term;
        error += R_FABS(term) * relative * (1 + relative) +
                 2 * TINY * (REAL)(r->blocks + 1) * (1 + R_FABS(value));
    }
    if (c < r->cols)
        near(kc, r->acc, 0, c, ref, error);
    else
        near(kc, r->run, 0, 1, ref, error);
}

static void one_softmax_row(struct kc *kc, const struct KERNELS *table, size_t blocks, size_t last,
                            size_t d, size_t cols)
{
    struct row_case r = {.blocks = blocks, .d = d, .cols = cols};
    size_t ldk, most = last;

    for (size_t b = 0; b + 1 < blocks; b++) {
        size_t n = TSA_ROW_PAD * kc_between(kc, 1, TSA_TILE_TOKENS / TSA_ROW_PAD);

        most = n > most ? n : most;
        r.cut[b + 1] = r.cut[b] + n;
    }
    r.keys = r.cut[blocks] = r.cut[blocks - 1] + last;
    r.bounded = (int)kc_between(kc, 0, 1);
    r.special = kc_chance(kc, 5);
    ldk = SOME_LD(kc, r.keys);
    kc_case(kc, "keys %zu in %zu blocks, the last %zu; d %zu cols %zu bounded %d", r.keys, blocks,
            last, d, cols, r.bounded);
    r.kt = kc_scratch(kc, "kt", d, r.keys, ldk);
    r.q = kc_user(kc, "q", 1, d, 0);
    r.v = some_values(kc, r.keys, cols);
    r.acc = kc_scratch(kc, "acc", 1, cols, tsa_round_up(cols, LINE));
    r.run = kc_user(kc, "max, den", 1, 2, 0);
    r.w = kc_scratch(kc, "w", 1, most, tsa_round_up(most, LANES(kc)));
    kc_free(r.w, 0, tsa_round_up(most, LANES(kc)));
    fill_row(kc, &r);
    kc_freeze(kc);
    for (size_t b = 0; b < blocks; b++)
        for (SIDES)
            K->softmax_row(
                &(const struct ARGS(softmax_row)){.keys = r.cut[b + 1] - r.cut[b],
                                                  .d = d,
                                                  .kt = P(r.kt) + r.cut[b],
                                                  .ldk = (ptrdiff_t)ldk,
                                                  .q = P(r.q),
                                                  .bounded = r.bounded,
                                                  .columns = cols,
                                                  .v = P(r.v) + (ptrdiff_t)r.cut[b] * r.v->ld,
                                                  .ldv = r.v->ld,
                                                  .first = b == 0,
                                                  .max = P(r.run),
                                                  .den = P(r.run) + 1,
                                                  .acc = P(r.acc),
                                                  .w = P(r.w)});
    if (!r.bounded)
        settle_max(&GOT(r.run)[0], &WANT(r.run)[0], WANT(r.run)[1]);
    kc_finish(kc);
    for (size_t c = 0; c <= cols && !r.special; c++)
        check_row_sum(kc, &r, c);
}

static void test_softmax_row(struct kc *kc, const struct KERNELS *table)
{
    for (size_t keys = 1; keys <= TSA_TILE_TOKENS; keys++)
        for (size_t vectors = 1; vectors <= 9; vectors += kc_between(kc, 1, 4))
            if (kc_keep(kc))
                one_softmax_row(kc, table, kc_between(kc, 1, 2), keys, kc_between(kc, 1, 9),
                                vectors * LANES(kc));
    for (size_t i = kc_rounds(kc, 300); i-- > 0;)
        one_softmax_row(kc, table, kc_between(kc, 1, ROW_BLOCKS),
                        kc_between(kc, 1, TSA_TILE_TOKENS), kc_between(kc, 1, 20),
                        some_cols(kc, 60));
}

/* -- a row that reads keys where they are ----------------------------------------------------- */

/* One call, or two: the sums go on. */
static void one_softmax_decode(struct kc *kc, const struct KERNELS *table, size_t keys, size_t d,
                               size_t cols)
{
    int l2 = (int)kc_between(kc, 0, 1), bounded = (int)kc_between(kc, 0, 1);
    size_t blocks = kc_chance(kc, 30) ? kc_between(kc, 0, keys / TSA_TILE_TOKENS) : 0;
    size_t cut = TSA_TILE_TOKENS * blocks;
    size_t ld = d + kc_between(kc, 0, 3), room = 3 * (TSA_TILE_TOKENS + d * TSA_MAX_LANES);
    ptrdiff_t stride = kc_chance(kc, 20) ? -(ptrdiff_t)ld : (ptrdiff_t)ld;
    struct kc_array *k, *q, *v, *acc, *run, *kt, *scratch;
    T size = some_size(kc);

    if (cut == keys)
        cut = 0;
    kc_case(kc, "keys %zu (cut at %zu) d %zu stride %td cols %zu l2 %d bounded %d", keys, cut, d,
            stride, cols, l2, bounded);
    k = kc_user(kc, "k", keys, d, stride);
    q = kc_user(kc, "q", 1, d, 0);
    v = some_values(kc, keys, cols);
    acc = kc_scratch(kc, "acc", 1, cols, tsa_round_up(cols, LINE));
    run = kc_user(kc, "max, den", 1, 2, 0);
    kt = kc_scratch(kc, "kt", d, TSA_TILE_TOKENS, TSA_TILE_TOKENS);
    kc_free(kt, 0, TSA_TILE_TOKENS);
    scratch = kc_scratch(kc, "scratch", 1, room, room);
    kc_free(scratch, 0, room);
    kc_fill(kc, k, kc_chance(kc, 90) ? KC_UNIT : KC_NORMAL);
    kc_fill(kc, q, KC_UNIT);
    kc_fill(kc, v, kc_chance(kc, 80) ? KC_NORMAL : KC_ALTERNATING);
    set_length(GOT(q), d, 1, bounded ? 0.5F : size);
    for (size_t i = 0; i < keys && bounded && !l2; i++)
        set_length(GOT(k) + (ptrdiff_t)i * stride, d, 1, 1);
    kc_freeze(kc);
    for (size_t i = 0, n; i < keys; i += n) {
        n = i == 0 && cut > 0 ? cut : keys - i;
        for (SIDES)
            K->softmax_decode(
                &(const struct ARGS(softmax_decode)){.keys = n,
                                                     .d = d,
                                                     .k = P(k) + (ptrdiff_t)i * stride,
                                                     .stride = stride,
                                                     .l2 = l2,
                                                     .q = P(q),
                                                     .bounded = bounded,
                                                     .columns = cols,
                                                     .v = P(v) + (ptrdiff_t)i * v->ld,
                                                     .ldv = v->ld,
                                                     .first = i == 0,
                                                     .max = P(run),
                                                     .den = P(run) + 1,
                                                     .acc = P(acc),
                                                     .kt = P(kt),
                                                     .scratch = P(scratch)});
    }
    if (!bounded)
        settle_max(&GOT(run)[0], &WANT(run)[0], WANT(run)[1]);
    kc_finish(kc);
}

static void test_softmax_decode(struct kc *kc, const struct KERNELS *table)
{
    for (size_t keys = 1; keys <= 4 * TSA_TILE_TOKENS + 1; keys++)
        if (kc_keep(kc))
            one_softmax_decode(kc, table, keys, TSA_MAX_LANES * kc_between(kc, 1, 3),
                               some_cols(kc, 160));
    for (size_t i = kc_rounds(kc, 200); i-- > 0;)
        one_softmax_decode(kc, table, kc_between(kc, 1, 700), TSA_MAX_LANES * kc_between(kc, 1, 4),
                           some_cols(kc, 100));
}

/* -- sums of super-blocks ------------------------------------------------------------------- */

static void one_softmax_combine(struct kc *kc, const struct KERNELS *table, size_t cols)
{
    size_t lda = tsa_round_up(cols, LINE);
    int bounded = (int)kc_between(kc, 0, 1);
    bool general = kc_chance(kc, 25);
    T size = some_size(kc), later[2];
    struct kc_array *acc, *acc2, *run;

    kc_case(kc, "cols %zu bounded %d", cols, bounded);
    acc = kc_scratch(kc, "acc", 1, cols, lda);
    acc2 = kc_scratch(kc, "acc2", 1, cols, lda);
    run = kc_user(kc, "max, den, max2, den2", 1, 4, 0);
    kc_fill(kc, acc, some_terms(kc));
    kc_fill(kc, acc2, some_terms(kc));
    kc_fill(kc, run, general ? some_terms(kc) : KC_UNIT);
    for (size_t i = 0; i < 4 && !general; i++)
        GOT(run)[i] = i % 2 == 0 ? GOT(run)[i] * size : 1 + 4096 * FABS(GOT(run)[i]);
    if (kc_chance(kc, 10))
        GOT(run)[2] = GOT(run)[0];
    if (bounded) /* there are no maxima */
        memcpy(&GOT(run)[0], &kc->poison, sizeof(T));
    memcpy(later, GOT(run) + 2, sizeof later);
    if (bounded)
        memcpy(&later[0], &kc->poison, sizeof(T));
    kc_freeze(kc);
    for (SIDES)
        K->softmax_combine(cols, bounded, later[0], later[1], P(acc2), P(run), P(run) + 1, P(acc));
    if (!bounded)
        settle_max(&GOT(run)[0], &WANT(run)[0], WANT(run)[1]);
    kc_finish(kc);
}

static void test_softmax_combine(struct kc *kc, const struct KERNELS *table)
{
    for (size_t vectors = 1; vectors <= 9; vectors++)
        for (size_t i = kc_rounds(kc, 100); i-- > 0;)
            one_softmax_combine(kc, table, vectors * LANES(kc));
    for (size_t i = kc_rounds(kc, 1000); i-- > 0;)
        one_softmax_combine(kc, table, some_cols(kc, 300));
}
