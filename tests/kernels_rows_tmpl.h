/* SPDX-License-Identifier: MIT */
/* Tests of the kernels that read and write rows of the user's: absmax, packing, division. */

static ptrdiff_t some_stride(struct kc *kc, size_t width)
{
    switch (kc_between(kc, 0, 5)) {
    case 0:
        return 0;
    case 1:
        return -(ptrdiff_t)(width + kc_between(kc, 0, 9));
    case 2:
        return (ptrdiff_t)width;
    default:
        return (ptrdiff_t)(width + kc_between(kc, 0, 40));
    }
}

static void one_absmax(struct kc *kc, const struct KERNELS *table, size_t rows, size_t width)
{
    ptrdiff_t stride = some_stride(kc, width);
    enum kc_data kind = kc_chance(kc, 20) ? KC_SPECIAL : KC_ANY;
    struct kc_array *src, *out;

    kc_case(kc, "rows %zu width %zu stride %td", rows, width, stride);
    src = kc_user(kc, "src", rows, width, stride);
    out = kc_user(kc, "result", 1, 1, 1);
    kc_fill(kc, src, kind);
    if (rows * width > 0) { /* one element decides, anywhere */
        size_t r = kc_between(kc, 0, rows - 1), c = kc_between(kc, 0, width - 1);
        static const T values[] = {0, INFINITY, -INFINITY, 9, -9, -0.0F};
        unsigned which = (unsigned)kc_between(kc, 0, 11);

        if (which == 0 || which > 6) {
            BITS nan = CANONICAL_NAN | (BITS)kc_between(kc, 0, 1000);

            if (which == 0)
                memcpy(&GOT(src)[(ptrdiff_t)r * stride + (ptrdiff_t)c], &nan, sizeof nan);
        } else {
            GOT(src)[(ptrdiff_t)r * stride + (ptrdiff_t)c] = values[which - 1];
        }
    }
    kc_freeze(kc);
    out->canonical = true;
    for (SIDES) {
        T x = K->absmax(rows, width, P(src), stride);

        memcpy(P(out), &x, sizeof x);
    }
    kc_finish(kc);
    if (kind == KC_ANY) { /* once more, in the numbers' own order */
        T most = 0;

        for (size_t r = 0; r < rows; r++)
            for (size_t c = 0; c < width; c++)
                most = (T)fmax(most, fabs(GOT(src)[(ptrdiff_t)r * stride + (ptrdiff_t)c]));
        if (*GOT(out) == *GOT(out) && *GOT(out) != most)
            kc_fail(kc, "got %.17g, the maximum is %.17g", (double)*GOT(out), (double)most);
    }
}

static void test_absmax(struct kc *kc, const struct KERNELS *table)
{
    for (size_t rows = 0; rows <= 5; rows++)
        for (size_t width = 0; width <= 5 * TSA_MAX_LANES + 1; width++)
            if (kc_keep(kc))
                one_absmax(kc, table, rows, width);
    for (size_t i = kc_rounds(kc, 1500); i-- > 0;)
        one_absmax(kc, table, kc_between(kc, 0, 20), kc_between(kc, 0, 150));
}

static void one_pack_t(struct kc *kc, const struct KERNELS *table, size_t rows, size_t width)
{
    ptrdiff_t stride = some_stride(kc, width);
    size_t offset = kc_chance(kc, 50) ? 0 : kc_between(kc, 0, 20);
    size_t ldo = SOME_LD(kc, offset + rows);
    int l2 = (int)kc_between(kc, 0, 1);
    T scale = kc_chance(kc, 50) ? 1 : (T)(0.1 + 3 * fabs(kc_unit(kc)));
    struct kc_array *src, *out;

    if (rows == 1 && kc_chance(kc, 50)) { /* one token: a contiguous row */
        offset = 0;
        ldo = 1;
    }
    kc_case(kc, "rows %zu width %zu stride %td l2 %d scale %g out + %zu ldo %zu", rows, width,
            stride, l2, (double)scale, offset, ldo);
    src = kc_user(kc, "src", rows, width, stride);
    out = kc_scratch(kc, "out", width, ldo, ldo);
    if (kc_chance(kc, 15)) { /* any numbers at all, rows of them near each other or not */
        kc_fill(kc, src, kc_chance(kc, 50) ? KC_FULL : KC_SPECIAL);
    } else {
        kc_fill(kc, src, KC_ANY);
        if (rows > 0 && width > 0 && kc_chance(kc, 30)) { /* rows differ in exponent */
            int e = (int)kc_between(kc, 0, 2 * E_CLAMP + 2 * 23) - E_CLAMP - 23;
            size_t r = kc_between(kc, 0, rows - 1);

            for (size_t c = 0; c < width; c++) {
                T *x = &GOT(src)[(ptrdiff_t)r * stride + (ptrdiff_t)c];

                *x = SCALBN(*x, e);
            }
        }
    }
    kc_freeze(kc);
    for (SIDES)
        K->pack_t(rows, width, P(src), stride, l2, scale, P(out) + offset, (ptrdiff_t)ldo);
    kc_finish(kc);
    for (size_t r = 0; r < rows; r++) {
        const T *x = GOT(src) + (ptrdiff_t)r * stride;
        REAL most = 0, s = 0;

        for (size_t c = 0; c < width; c++)
            most = R_FABS(x[c]) > most || x[c] != x[c] ? R_FABS(x[c]) : most;
        if (!(most <= LARGEST))
            continue; /* compared with the model above */
        for (size_t c = 0; c < width && most > 0; c++)
            s += x[c] / most * (x[c] / most);
        for (size_t c = 0; c < width; c++) {
            REAL y = (REAL)x[c] * scale, error = U * R_FABS(y) + TINY;

            if (l2 && most > 0) {
                y = x[c] / most / R_SQRT(s) * scale;
                /* sum of squares, half by the root; root, reciprocal, two products */
                error = ((REAL)width / 2 + 6) * U * R_FABS(y) + 4 * TINY * (1 + scale);
            }
            near(kc, out, c, offset + r, y, error);
        }
    }
}

static void test_pack_t(struct kc *kc, const struct KERNELS *table)
{
    /* around 4 vectors of rows, which go together, and of columns */
    static const unsigned char edges[] = {1,  15, 16, 17, 31, 32, 33,  47,  48,
                                          49, 63, 64, 65, 66, 79, 100, 128, 129};
    static const unsigned char widths[] = {1,  7,  8,  9,  15, 16, 17, 23, 24,
                                           25, 31, 32, 33, 48, 63, 64, 65, 128};

    for (size_t rows = 0; rows <= 2 * TSA_MAX_LANES + 1; rows++)
        for (size_t width = 1; width <= 2 * TSA_MAX_LANES + 1; width++)
            if (kc_keep(kc))
                one_pack_t(kc, table, rows, width);
    for (size_t i = 0; i < sizeof edges / sizeof *edges; i++)
        for (size_t j = 0; j < sizeof widths / sizeof *widths; j++)
            if (kc_keep(kc))
                one_pack_t(kc, table, edges[i], widths[j]);
    for (size_t i = kc_rounds(kc, 400); i-- > 0;)
        one_pack_t(kc, table, kc_between(kc, 1, 140), kc_between(kc, 1, 140));
}

/* As pack_t of single rows, with which it is compared by the model. */
static void one_unit_rows(struct kc *kc, const struct KERNELS *table, size_t rows, size_t columns)
{
    ptrdiff_t stride = some_stride(kc, columns);
    size_t ldo = SOME_LD(kc, columns);
    int l2 = (int)kc_between(kc, 0, 1);
    T scale[TSA_MOST_UNIT_ROWS];
    struct kc_array *src, *out;

    kc_case(kc, "rows %zu columns %zu stride %td l2 %d ldo %zu", rows, columns, stride, l2, ldo);
    src = kc_user(kc, "src", rows, columns, stride);
    out = kc_scratch(kc, "out", rows, columns, ldo);
    kc_free(out, columns, ROW16(columns));
    kc_fill(kc, src, kc_chance(kc, 15) ? KC_SPECIAL : kc_chance(kc, 20) ? KC_FULL : KC_ANY);
    for (size_t r = 0; r < rows; r++)
        scale[r] = kc_chance(kc, 50) ? 1 : (T)(0.1 + 3 * fabs(kc_unit(kc)));
    kc_freeze(kc);
    for (SIDES) {
        const T *from[TSA_MOST_UNIT_ROWS];
        T *to[TSA_MOST_UNIT_ROWS];

        for (size_t r = 0; r < rows; r++) {
            from[r] = P(src) + (ptrdiff_t)r * stride;
            to[r] = P(out) + r * ldo;
        }
        K->unit_rows(rows, columns, from, l2, scale, to);
    }
    kc_finish(kc);
}

static void test_unit_rows(struct kc *kc, const struct KERNELS *table)
{
    for (size_t rows = 0; rows <= TSA_MOST_UNIT_ROWS; rows++)
        for (size_t columns = 1; columns <= 4 * TSA_MAX_LANES + 1; columns++)
            if (kc_keep(kc))
                one_unit_rows(kc, table, rows, columns);
    for (size_t i = kc_rounds(kc, 200); i-- > 0;)
        one_unit_rows(kc, table, kc_between(kc, 1, TSA_MOST_UNIT_ROWS), kc_between(kc, 1, 200));
}

static void one_pack_v(struct kc *kc, const struct KERNELS *table, size_t rows, size_t width)
{
    ptrdiff_t stride = some_stride(kc, width);
    size_t ldo = tsa_round_up(width, LINE) + LINE * kc_between(kc, 0, 1);
    struct kc_array *src, *out;

    kc_case(kc, "rows %zu width %zu stride %td ldo %zu", rows, width, stride, ldo);
    src = kc_user(kc, "src", rows, width, stride);
    out = kc_scratch(kc, "out", rows, ldo, ldo);
    out->canonical = true; /* a copy */
    kc_fill(kc, src, kc_chance(kc, 25) ? KC_SPECIAL : KC_ANY);
    kc_freeze(kc);
    for (SIDES)
        K->pack_v(rows, width, P(src), stride, P(out), (ptrdiff_t)ldo);
    kc_finish(kc);
}

static void test_pack_v(struct kc *kc, const struct KERNELS *table)
{
    for (size_t rows = 0; rows <= 5; rows++)
        for (size_t width = 1; width <= 5 * TSA_MAX_LANES + 1; width++)
            if (kc_keep(kc))
                one_pack_v(kc, table, rows, width);
    for (size_t i = kc_rounds(kc, 400); i-- > 0;)
        one_pack_v(kc, table, kc_between(kc, 1, 70), kc_between(kc, 1, 200));
}

/* What a sum may be divided by; the quotient must be rounded once whatever the exponents are. */
static T some_divisor(struct kc *kc)
{
    T x;

    switch (kc_between(kc, 0, 9)) {
    case 0:
        return 0;
    case 1:
        return kc_chance(kc, 50) ? (T)INFINITY : (T)-0.0;
    case 2:
        return (T)NAN;
    case 3: {
        BITS bits = (BITS)kc_element(kc, KC_DENORMAL, 0, 0);
        memcpy(&x, &bits, sizeof x);
        return x;
    }
    case 4:
    case 5: {
        BITS bits = (BITS)kc_element(kc, KC_FULL, 0, 0);
        memcpy(&x, &bits, sizeof x);
        return x;
    }
    case 6:
        return (T)kc_between(kc, 1, 4096);
    default:
        return (T)(kc_unit(kc) * 100);
    }
}

static void one_divide(struct kc *kc, const struct KERNELS *table, size_t width)
{
    size_t ld = tsa_round_up(width, LINE);
    T sum = some_divisor(kc);
    struct kc_array *acc, *dst;

    kc_case(kc, "width %zu sum %g", width, (double)sum);
    acc = kc_scratch(kc, "acc", 1, width, ld);
    dst = kc_user(kc, "dst", 1, width, (ptrdiff_t)width);
    dst->canonical = true;
    kc_fill(kc, acc, kc_chance(kc, 30) ? KC_FULL : kc_chance(kc, 30) ? KC_SPECIAL : KC_ANY);
    kc_freeze(kc);
    for (SIDES)
        K->divide(width, P(acc), sum, P(dst));
    kc_finish(kc);
    for (size_t c = 0; c < width; c++) {
        REAL ref = (REAL)GOT(acc)[c] / sum;

        near(kc, dst, 0, c, ref, U * R_FABS(ref) + TINY);
    }
}

static void test_divide(struct kc *kc, const struct KERNELS *table)
{
    for (size_t width = 0; width <= 5 * TSA_MAX_LANES + 1; width++)
        for (size_t i = kc_rounds(kc, 40); i-- > 0;)
            one_divide(kc, table, width);
    for (size_t i = kc_rounds(kc, 2000); i-- > 0;)
        one_divide(kc, table, kc_between(kc, 1, 300));
}
