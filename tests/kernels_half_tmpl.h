/* SPDX-License-Identifier: MIT */
/* Tests of the kernels that read and write rows of bf16 and f16. */

static void half_put(struct kc_array *a, ptrdiff_t i, uint16_t bits)
{
    memcpy(a->data + ((ptrdiff_t)a->origin + i) * 2, &bits, sizeof bits);
}
/* Row 0 of an array of halves, on the side under way. */
#define H(a) ((side ? (a)->want : (a)->data) + (a)->origin * 2)

static void fill_halves(struct kc *kc, struct kc_array *a)
{
    for (size_t r = 0; r < a->rows; r++)
        for (size_t c = 0; c < a->cols; c++)
            half_put(a, (ptrdiff_t)r * a->ld + (ptrdiff_t)c, (uint16_t)kc_random(kc));
}

static void one_load_half(struct kc *kc, const struct KERNELS *table, size_t rows, size_t width,
                          int f16)
{
    ptrdiff_t stride = some_stride(kc, width);
    size_t ldo = kc_chance(kc, 50) ? width : width + kc_between(kc, 0, 20);
    struct kc_array *src, *out;

    kc_case(kc, "rows %zu width %zu stride %td f16 %d ldo %zu", rows, width, stride, f16, ldo);
    src = kc_half(kc, "src", rows, width, stride);
    out = kc_user(kc, "out", rows, width, (ptrdiff_t)ldo);
    fill_halves(kc, src);
    kc_freeze(kc);
    for (SIDES)
        K->load_half(rows, width, H(src), stride, f16, P(out), (ptrdiff_t)ldo);
    kc_finish(kc);
}

/* Every pattern of two bytes. A NaN may become quiet, and changes in nothing else. */
static void all_halves(struct kc *kc, const struct KERNELS *table, int f16)
{
    struct kc_array *src, *out;

    kc_case(kc, "all patterns, f16 %d", f16);
    src = kc_half(kc, "src", 1, 0x10000, 0x10000);
    out = kc_user(kc, "out", 1, 0x10000, 0x10000);
    for (ptrdiff_t i = 0; i < 0x10000; i++)
        half_put(src, i, (uint16_t)i);
    kc_freeze(kc);
    for (SIDES)
        K->load_half(1, 0x10000, H(src), 0x10000, f16, P(out), 0x10000);
    kc_finish(kc);
    for (ptrdiff_t i = 0; i < 0x10000; i++) {
        const int fraction = f16 ? 10 : 7;
        const BITS payload = (BITS)i << (T_FRACTION - fraction) & (((BITS)1 << T_FRACTION) - 1);
        const BITS quiet = (BITS)1 << (T_FRACTION - 1);
        BITS bits;

        if (half_value((uint16_t)i, f16) == half_value((uint16_t)i, f16))
            continue;
        memcpy(&bits, GOT(out) + i, sizeof bits);
        if ((bits & SIGN_BIT) != (i & 0x8000 ? SIGN_BIT : 0) ||
            ((bits & (((BITS)1 << T_FRACTION) - 1)) | quiet) != (payload | quiet))
            kc_fail(kc, "the NaN 0x%x became 0x%llx", (unsigned)i, (unsigned long long)bits);
    }
}

static void test_load_half(struct kc *kc, const struct KERNELS *table)
{
    for (int f16 = 0; f16 <= 1; f16++) {
        all_halves(kc, table, f16);
        for (size_t rows = 0; rows <= 3; rows++)
            for (size_t width = 0; width <= 3 * TSA_MAX_LANES + 1; width++)
                if (kc_keep(kc))
                    one_load_half(kc, table, rows, width, f16);
        for (size_t i = kc_rounds(kc, 200); i-- > 0;)
            one_load_half(kc, table, kc_between(kc, 1, 20), kc_between(kc, 1, 150), f16);
    }
}

static void one_store_half(struct kc *kc, const struct KERNELS *table, size_t rows, size_t width,
                           int f16)
{
    ptrdiff_t stride = some_stride(kc, width);
    size_t ldi = kc_chance(kc, 50) ? width : width + kc_between(kc, 0, 20);
    struct kc_array *in, *dst;

    if (stride == 0) /* rows of an output do not overlap */
        stride = (ptrdiff_t)width;
    kc_case(kc, "rows %zu width %zu ldi %zu f16 %d stride %td", rows, width, ldi, f16, stride);
    in = kc_user(kc, "in", rows, width, (ptrdiff_t)ldi);
    dst = kc_half(kc, "dst", rows, width, stride);
    kc_fill(kc, in, kc_chance(kc, 30) ? KC_SPECIAL : KC_ANY);
    kc_freeze(kc);
    for (SIDES)
        K->store_half(rows, width, P(in), (ptrdiff_t)ldi, f16, H(dst), stride);
    kc_finish(kc);
}

enum { DENSE = 6 };

/* Around every number and every middle between neighbours, subnormal and infinite ones included. */
static void store_boundaries(struct kc *kc, const struct KERNELS *table, int f16)
{
    const ptrdiff_t infinity = f16 ? 0x7c00 : 0x7f80, width = 2 * (infinity + 1);
    const double *value = half_table(f16);
    struct kc_array *in, *dst;

    kc_case(kc, "boundaries, f16 %d", f16);
    in = kc_user(kc, "in", DENSE, (size_t)width, width);
    dst = kc_half(kc, "dst", DENSE, (size_t)width, width);
    for (ptrdiff_t i = 0; i < width; i++) {
        const T sign = i % 2 ? -1 : 1, to = 0, far = (T)INFINITY;
        /* f32 has no more than the largest bf16 and what lies half a step above */
        const T at = (T)fmin(value[i / 2], (double)LARGEST);
        const T middle = i / 2 == 0 ? 0 : (T)((value[i / 2 - 1] + value[i / 2]) / 2);
        const T all[DENSE] = {at,     NEXT(at, to),     NEXT(at, far),
                              middle, NEXT(middle, to), NEXT(middle, far)};

        for (ptrdiff_t r = 0; r < DENSE; r++)
            GOT(in)[r * width + i] = sign * all[r];
    }
    kc_freeze(kc);
    for (SIDES)
        K->store_half(DENSE, (size_t)width, P(in), width, f16, H(dst), width);
    kc_finish(kc);
}

/* All bits of T at a stride that is odd, from anywhere: NaNs and infinities are among them. */
static void store_patterns(struct kc *kc, const struct KERNELS *table, int f16)
{
    const size_t count = kc_rounds(kc, 1 << 17);
    const BITS stride = ((BITS)-1 / count) | 1;
    BITS bits = (BITS)kc_random(kc);
    struct kc_array *in, *dst;

    kc_case(kc, "patterns, f16 %d", f16);
    in = kc_user(kc, "in", 1, count, (ptrdiff_t)count);
    dst = kc_half(kc, "dst", 1, count, (ptrdiff_t)count);
    for (size_t i = 0; i < count; i++, bits += stride)
        memcpy(GOT(in) + i, &bits, sizeof bits);
    kc_freeze(kc);
    for (SIDES)
        K->store_half(1, count, P(in), (ptrdiff_t)count, f16, H(dst), (ptrdiff_t)count);
    kc_finish(kc);
}

static void test_store_half(struct kc *kc, const struct KERNELS *table)
{
    for (int f16 = 0; f16 <= 1; f16++) {
        store_boundaries(kc, table, f16);
        store_patterns(kc, table, f16);
        for (size_t rows = 0; rows <= 3; rows++)
            for (size_t width = 0; width <= 3 * TSA_MAX_LANES + 1; width++)
                if (kc_keep(kc))
                    one_store_half(kc, table, rows, width, f16);
        for (size_t i = kc_rounds(kc, 200); i-- > 0;)
            one_store_half(kc, table, kc_between(kc, 1, 20), kc_between(kc, 1, 150), f16);
    }
}

static void one_absmax_half(struct kc *kc, const struct KERNELS *table, size_t rows, size_t width,
                            int f16)
{
    const uint16_t infinity = f16 ? 0x7c00 : 0x7f80;
    ptrdiff_t stride = some_stride(kc, width);
    struct kc_array *src, *out;

    kc_case(kc, "rows %zu width %zu stride %td f16 %d", rows, width, stride, f16);
    src = kc_half(kc, "src", rows, width, stride);
    out = kc_user(kc, "result", 1, 1, 1);
    for (size_t r = 0; r < rows; r++) /* not yet the infinity or a NaN */
        for (size_t c = 0; c < width; c++)
            half_put(src, (ptrdiff_t)r * stride + (ptrdiff_t)c,
                     (uint16_t)(kc_between(kc, 0, infinity - 1U) | (kc_random(kc) & 0x8000)));
    if (rows * width > 0 && kc_chance(kc, 40)) { /* one element decides, anywhere */
        size_t r = kc_between(kc, 0, rows - 1), c = kc_between(kc, 0, width - 1);
        uint16_t bits = (uint16_t)kc_between(kc, infinity - 1U, infinity + 2U);

        half_put(src, (ptrdiff_t)r * stride + (ptrdiff_t)c, bits);
    }
    kc_freeze(kc);
    for (SIDES) {
        T x = K->absmax_half(rows, width, H(src), stride, f16);

        memcpy(P(out), &x, sizeof x);
    }
    kc_finish(kc);
}

static void test_absmax_half(struct kc *kc, const struct KERNELS *table)
{
    for (int f16 = 0; f16 <= 1; f16++) {
        for (size_t rows = 0; rows <= 3; rows++)
            for (size_t width = 0; width <= 3 * TSA_MAX_LANES + 1; width++)
                if (kc_keep(kc))
                    one_absmax_half(kc, table, rows, width, f16);
        for (size_t i = kc_rounds(kc, 400); i-- > 0;)
            one_absmax_half(kc, table, kc_between(kc, 1, 20), kc_between(kc, 1, 150), f16);
    }
}
#undef H
