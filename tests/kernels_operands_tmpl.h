/* SPDX-License-Identifier: MIT */
/* Operands of products: elements or, if TEST_PAIRS, pairs of bf16 in the place of elements. It is
 * included by kernels_products_tmpl.h. */

#if TEST_PAIRS

#define OPERAND_TILE (TSA_TILE_TOKENS / 2)
#define ROUNDINGS 2 /* of a product added to a sum */

/* The number in the even (lower) or odd half. */
static T half_of(T pair, bool odd)
{
    BITS bits;

    memcpy(&bits, &pair, sizeof bits);
    bits = odd ? bits & 0xffff0000U : bits << 16;
    memcpy(&pair, &bits, sizeof bits);
    return pair;
}

static T make_pair(T even, T odd)
{
    BITS low, high;

    even = bf16_round(even);
    odd = bf16_round(odd);
    memcpy(&low, &even, sizeof low);
    memcpy(&high, &odd, sizeof high);
    low = low >> 16 | high;
    memcpy(&even, &low, sizeof even);
    return even;
}

/* a b + c */
static T multiply_add(T a, T b, T c)
{
    return bf16_dot(half_of(a, false), half_of(b, false), half_of(a, true), half_of(b, true), c);
}

static T operand_one(void)
{
    return make_pair(1, 1);
}

static void add_term(T a, T b, REAL *sum, REAL *all)
{
    for (int odd = 0; odd < 2; odd++) {
        REAL term = (REAL)half_of(a, odd) * half_of(b, odd);

        *sum += term;
        *all += R_FABS(term);
    }
}

/* Of an array of pairs: any quiet NaN will do; both sides get the same. */
static void settle_nans(struct kc *kc, struct kc_array *a)
{
    for (size_t i = 0; i < a->elements; i++)
        for (int side = 0; side < 2; side++) {
            unsigned char *at = (side ? a->want : a->data) + i * sizeof(BITS);
            BITS bits;

            memcpy(&bits, at, sizeof bits);
            for (int shift = 0; bits != kc->poison && shift < 32; shift += 16) {
                uint32_t x = bits >> shift & 0xffff;

                if ((x & 0x7fff) <= 0x7f80)
                    continue;
                if ((x & 0x0040) == 0)
                    kc_fail(kc, "%s: element %zu has a NaN that is not quiet: %08x", a->name, i,
                            (unsigned)bits);
                bits = (bits & ~(UINT32_C(0xffff) << shift)) | UINT32_C(0x7fc0) << shift;
            }
            memcpy(at, &bits, sizeof bits);
        }
}

/* One half. Products of two are far from subnormal, and so is what is left when they cancel. */
static T some_half(struct kc *kc, enum kc_data kind, size_t index, double base)
{
    BITS bits;
    T x;

    if (kind == KC_WIDE) {
        x = SCALBN((T)(kc_unit(kc) < 0 ? -1 : 1), (int)kc_between(kc, 0, 60) - 30);
        return x + x * (T)kc_unit(kc) / 2;
    }
    bits = (BITS)kc_element(kc, kind, index, base);
    memcpy(&x, &bits, sizeof x);
    return x;
}

static void fill_operands(struct kc *kc, struct kc_array *a)
{
    static const enum kc_data kinds[] = {KC_UNIT, KC_CONSTANT, KC_ALTERNATING, KC_WIDE, KC_ZEROS};
    enum kc_data kind = KC_NORMAL;
    double base = kc_unit(kc) * 3;

    if (kc_chance(kc, 5)) /* infinities and NaNs, which must stay in their chains */
        kind = KC_SPECIAL;
    else if (kc_chance(kc, 50))
        kind = kinds[kc_between(kc, 0, sizeof kinds / sizeof *kinds - 1)];
    for (size_t r = 0; r < a->rows; r++)
        for (size_t c = 0; c < a->cols; c++) {
            T even = some_half(kc, kind, r + c, base), odd = some_half(kc, kind, r + c + 1, base);

            GOT(a)[(ptrdiff_t)r * a->ld + (ptrdiff_t)c] = make_pair(even, odd);
        }
}

/* hi_pairs[p][c] = (hi[2p][c], hi[2p+1][c]), a missing one +0; unless hi_pairs is NULL. */
static void keep_pairs(size_t features, size_t cols, const T *hi, size_t ld, T *hi_pairs)
{
    for (size_t f = 0; hi_pairs != NULL && f < features; f += 2)
        for (size_t c = 0; c < cols; c++)
            hi_pairs[f / 2 * ld + c] =
                make_pair(hi[f * ld + c], f + 1 < features ? hi[(f + 1) * ld + c] : 0);
}

/* What a chain starts from. */
static void fill_sums(struct kc *kc, struct kc_array *a)
{
    kc_fill(kc, a, kc_chance(kc, 30) ? KC_WIDE : kc_chance(kc, 20) ? KC_ZEROS : KC_NORMAL);
}

#else

#define OPERAND_TILE TSA_TILE_TOKENS
#define ROUNDINGS 1

static T multiply_add(T a, T b, T c)
{
    return FMA(a, b, c);
}

static T operand_one(void)
{
    return 1;
}

static void keep_pairs(size_t features, size_t cols, const T *hi, size_t ld, T *hi_pairs)
{
    (void)features, (void)cols, (void)hi, (void)ld, (void)hi_pairs;
}

static void settle_nans(struct kc *kc, struct kc_array *a)
{
    (void)kc, (void)a;
}

static void add_term(T a, T b, REAL *sum, REAL *all)
{
    REAL term = (REAL)a * b;

    *sum += term;
    *all += R_FABS(term);
}

/* Sometimes with infinities and NaNs, which must stay in their chains. */
static void fill_operands(struct kc *kc, struct kc_array *a)
{
    kc_fill(kc, a, some_terms(kc));
}

static void fill_sums(struct kc *kc, struct kc_array *a)
{
    kc_fill(kc, a, KC_ANY);
}

#endif
