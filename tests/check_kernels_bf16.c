/* SPDX-License-Identifier: MIT */
/* Every kernel for pairs of bf16 of every usable table: products as for elements, and rounding. */
#define TEST_F64 0
#define TEST_PAIRS 1
#include "kernels_types.h"

#include "bf16.h"

#include "kernels_monomials_tmpl.h"
#include "kernels_products_tmpl.h"

/* -- tables ------------------------------------------------------------------------------------ */

#define MOST_TABLES 8

/* Each usable table once, as an instruction set that has no other kernels. */
static struct tsa_isa tables[MOST_TABLES];

static void add_table(const struct tsa_pair_kernels_f32 *pairs)
{
    size_t i = 0;

    while (i < MOST_TABLES && tables[i].pair_kernels != NULL && tables[i].pair_kernels != pairs)
        i++;
    if (pairs != NULL && i < MOST_TABLES)
        tables[i] =
            (struct tsa_isa){.name = pairs->name, .lanes = pairs->lanes, .pair_kernels = pairs};
}

static int table_count(void)
{
    int n = 0;

    for (int i = 0; i < kc_isa_count(); i++) {
        add_table(tsa_pair_kernels_for(kc_isa(i)));
        add_table(kc_isa(i)->pair_kernels);
    }
    while (n < MOST_TABLES && tables[n].pair_kernels != NULL)
        n++;
    return n;
}

/* Every instruction set has a table that fits its vectors, and there is one that any CPU runs. */
START_TEST(check_tables)
{
    bool portable = false;

    for (int i = 0; i < kc_isa_count(); i++) {
        const struct tsa_isa *isa = kc_isa(i);
        const struct tsa_pair_kernels_f32 *hardware = tsa_hardware_pair_kernels(isa);
        const struct tsa_pair_kernels_f32 *pairs = tsa_pair_kernels_for(isa);

        ck_assert_ptr_nonnull(pairs);
        ck_assert_uint_le(pairs->lanes, isa->lanes);
        ck_assert(!hardware || (pairs == hardware && pairs != isa->pair_kernels));
        portable = portable || isa == &tsa_isa_scalar;
    }
    ck_assert(portable);
    ck_assert_int_lt(table_count(), MOST_TABLES);
    ck_assert_ptr_nonnull(tsa_isa_scalar.pair_kernels);
}
END_TEST

/* -- rounding ---------------------------------------------------------------------------------- */

static const uint16_t lower_halves[] = {0, 1, 0x7fff, 0x8000, 0x8001, 0xffff};
#define LOWER_HALVES (sizeof lower_halves / sizeof *lower_halves)

static T from_bits(uint32_t bits)
{
    T x;

    memcpy(&x, &bits, sizeof x);
    return x;
}

/* The bf16 with these bits; beyond the largest, what the next power of two would be. */
static double bf16_value(uint32_t upper)
{
    double x = from_bits(upper << 16);

    return isinf(x) ? copysign(0x1p128, x) : x;
}

/* The model against the definition of rounding: no neighbour is nearer, and an even one wins. */
START_TEST(check_model)
{
    for (uint32_t i = 0; i < 0x10000 * LOWER_HALVES; i++) {
        uint32_t upper = i / LOWER_HALVES, got;
        T x = from_bits(upper << 16 | lower_halves[i % LOWER_HALVES]), y = bf16_round(x);

        memcpy(&got, &y, sizeof got);
        if (x != x) {
            if ((got & 0x7fc00000U) != 0x7fc00000U)
                ck_abort_msg("NaN became %08x", got);
        } else if (isinf(x) || fpclassify(x) == FP_SUBNORMAL || x == 0) {
            uint32_t kept = isinf(x) ? 0xffff0000U : SIGN_BIT;

            if (got != (upper << 16 & kept))
                ck_abort_msg("%a became %08x", (double)x, got);
        } else {
            uint32_t at = got >> 16;
            double off = fabs(bf16_value(at) - x);

            if ((got & 0xffffU) != 0)
                ck_abort_msg("%a became %08x", (double)x, got);
            for (uint32_t next = at - 1; next <= at + 1; next += 2) {
                double other = fabs(bf16_value(next) - x);

                if (off > other || (off == other && at % 2 != 0))
                    ck_abort_msg("%a became %a", (double)x, (double)y);
            }
        }
    }
}
END_TEST

/* Numbers of any size, in the middle between two of bf16 or near that; NaNs with any payload. */
static void fill_roundings(struct kc *kc, struct kc_array *a)
{
    static const enum kc_data kinds[] = {KC_NORMAL,   KC_WIDE, KC_ZEROS,
                                         KC_DENORMAL, KC_FULL, KC_SPECIAL};
    enum kc_data kind = kinds[kc_between(kc, 0, sizeof kinds / sizeof *kinds - 1)];
    bool ties = kc_chance(kc, 50);

    kc_fill(kc, a, kind);
    for (size_t r = 0; ties && r < a->rows; r++)
        for (size_t c = 0; c < a->cols; c++) {
            T *x = &GOT(a)[r * (size_t)a->ld + c];
            BITS bits;

            memcpy(&bits, x, sizeof bits);
            bits = (bits & 0xffff0000U) | lower_halves[kc_between(kc, 0, LOWER_HALVES - 1)];
            memcpy(x, &bits, sizeof bits);
        }
}

static void model_pair_rows(size_t rows, size_t cols, const T *in, ptrdiff_t ldi, T *out,
                            ptrdiff_t ldo)
{
    for (size_t r = 0; r < rows; r += 2)
        for (size_t c = 0; c < cols; c++) {
            const T *even = in + r * (size_t)ldi + c;

            out[r / 2 * (size_t)ldo + c] = make_pair(*even, r + 1 < rows ? even[ldi] : 0);
        }
}

static void model_pair_cols(size_t rows, size_t cols, const T *in, ptrdiff_t ldi, T *out,
                            ptrdiff_t ldo)
{
    for (size_t r = 0; r < rows; r++)
        for (size_t c = 0; c < cols; c += 2) {
            const T *even = in + r * (size_t)ldi + c;

            out[r * (size_t)ldo + c / 2] = make_pair(*even, c + 1 < cols ? even[1] : 0);
        }
}

static void model_psi_pairs(const struct ARGS(psi) *a)
{
    for (size_t f = a->f0; f < a->f1; f += 2)
        for (size_t t = 0; t < a->tokens; t++) {
            T even = monomial(f, a->base + t, (size_t)a->ldb) * a->weight[f], odd = 0;

            if (f + 1 < a->f1)
                odd = monomial(f + 1, a->base + t, (size_t)a->ldb) * a->weight[f + 1];
            a->psi[(f - a->f0) / 2 * (size_t)a->ldp + t] = make_pair(even, odd);
        }
}

static void model_phi_pairs(const struct ARGS(psi) *a)
{
    for (size_t f = a->f0; f < a->f1; f++)
        for (size_t t = 0; t < a->tokens; t += 2)
            a->psi[(f - a->f0) * (size_t)a->ldp + t / 2] =
                make_pair(monomial(f, a->base + t, (size_t)a->ldb),
                          monomial(f, a->base + t + 1, (size_t)a->ldb));
}

static void model_decode_state(const struct ARGS(decode_state) *a)
{
    for (size_t r = 0; r < a->heads; r++) {
        for (size_t c = 0; c < a->columns; c++) {
            T s = a->first ? 0 : a->acc[r * (size_t)a->lda + c];

            for (size_t f = a->features; f-- > 0;)
                s = multiply_add(a->psi[r * (size_t)a->ldp + f], a->hi[r][f * (size_t)a->ldh + c],
                                 s);
            a->acc[r * (size_t)a->lda + c] = s;
        }
        a->den[r] = a->first ? 0 : a->den[r];
        for (size_t f = a->features; f-- > 0;)
            a->den[r] = multiply_add(a->psi[r * (size_t)a->ldp + f], a->ones[r][f], a->den[r]);
    }
}

#define TSA_KERNEL(result, name, args) .name = model_##name,
static const struct KERNELS model = {
    .products =
        {
#include "products.def"
        },
#include "pairs.def"
};
#undef TSA_KERNEL

static void one_pair_rows(struct kc *kc, const struct KERNELS *table, size_t rows, size_t cols)
{
    size_t ldi = some_line_ld(kc, cols), ldo = some_line_ld(kc, cols);
    struct kc_array *in, *out;

    kc_case(kc, "rows %zu cols %zu ldi %zu ldo %zu", rows, cols, ldi, ldo);
    in = kc_scratch(kc, "in", rows, cols, ldi);
    out = kc_scratch(kc, "out", (rows + 1) / 2, cols, ldo);
    out->canonical = true;
    fill_roundings(kc, in);
    kc_freeze(kc);
    for (SIDES)
        K->pair_rows(rows, cols, P(in), (ptrdiff_t)ldi, P(out), (ptrdiff_t)ldo);
    settle_nans(kc, out);
    kc_finish(kc);
}

static void test_pair_rows(struct kc *kc, const struct KERNELS *table)
{
    for (size_t rows = 0; rows <= 9; rows++)
        for (size_t vectors = 0; vectors <= 6; vectors++)
            one_pair_rows(kc, table, rows, vectors * LANES(kc));
    for (size_t i = kc_rounds(kc, 300); i-- > 0;)
        one_pair_rows(kc, table, kc_between(kc, 1, 140), LINE * kc_between(kc, 1, 10));
}

static void one_pair_cols(struct kc *kc, const struct KERNELS *table, size_t rows, size_t cols)
{
    size_t pairs = (cols + 1) / 2;
    size_t ldi = tsa_round_up(cols + (cols == 0), 2 * TSA_ROW_PAD), ldo = SOME_LD(kc, pairs);
    struct kc_array *in, *out;

    ldi += TSA_ROW_PAD * kc_between(kc, 0, 2);
    kc_case(kc, "rows %zu cols %zu ldi %zu ldo %zu", rows, cols, ldi, ldo);
    in = kc_scratch(kc, "in", rows, cols, ldi);
    out = kc_scratch(kc, "out", rows, pairs, ldo);
    out->canonical = true;
    kc_free(out, pairs, ROW16(pairs));
    fill_roundings(kc, in);
    kc_freeze(kc);
    for (SIDES)
        K->pair_cols(rows, cols, P(in), (ptrdiff_t)ldi, P(out), (ptrdiff_t)ldo);
    settle_nans(kc, out);
    kc_finish(kc);
}

static void test_pair_cols(struct kc *kc, const struct KERNELS *table)
{
    for (size_t rows = 0; rows <= 5; rows++)
        for (size_t cols = 0; cols <= 5 * TSA_MAX_LANES + 1; cols++)
            if (kc_keep(kc))
                one_pair_cols(kc, table, rows, cols);
    for (size_t i = kc_rounds(kc, 300); i-- > 0;)
        one_pair_cols(kc, table, kc_between(kc, 1, 100), kc_between(kc, 1, 100));
}

/* base[] of `cols` tokens, whose rows may be read up to two vectors; its scratch may end as
 * anything. */
static struct kc_array *some_base(struct kc *kc, size_t cols, size_t *ldb)
{
    const struct tsa_monomials *mono = &model_mono->mono;
    struct kc_array *base;

    *ldb = tsa_round_up(cols + (cols == 0), 2 * TSA_ROW_PAD) + TSA_ROW_PAD * kc_between(kc, 0, 2);
    base = kc_scratch(kc, "base", mono->rows, cols, *ldb);
    base->given = mono->base;
    base->rows = mono->d;
    kc_fill(kc, base, some_variables(kc));
    for (size_t g = mono->d; g < mono->base; g++)
        for (size_t t = 0; t < cols; t++)
            GOT(base)[g * *ldb + t] = monomial(g + 1, GOT(base) + t, *ldb);
    return base;
}

static void one_psi_pairs(struct kc *kc, const struct KERNELS *table, size_t f0, size_t f1,
                          size_t cols)
{
    const struct tsa_monomials *mono = &model_mono->mono;
    size_t ldb, ldp = SOME_LD(kc, cols);
    struct kc_array *base, *weight, *psi;

    kc_case(kc, "d %zu terms %zu stored %zu features %zu..%zu of %zu cols %zu", mono->d,
            mono->terms, mono->stored, f0, f1, mono->total, cols);
    base = some_base(kc, cols, &ldb);
    weight = kc_user(kc, "weight", 1, mono->total, 0);
    psi = kc_scratch(kc, "psi", (f1 - f0 + 1) / 2, cols, ldp);
    psi->canonical = true;
    kc_free(psi, cols, ROW16(cols));
    kc_fill(kc, weight, KC_ANY);
    kc_freeze(kc);
    for (SIDES)
        K->psi_pairs(&(const struct ARGS(psi)){.mono = mono,
                                               .f0 = f0,
                                               .f1 = f1,
                                               .tokens = cols,
                                               .base = P(base),
                                               .ldb = (ptrdiff_t)ldb,
                                               .weight = P(weight),
                                               .psi = P(psi),
                                               .ldp = (ptrdiff_t)ldp});
    settle_nans(kc, psi);
    kc_finish(kc);
}

static void one_phi_pairs(struct kc *kc, const struct KERNELS *table, size_t f0, size_t f1,
                          size_t cols)
{
    const struct tsa_monomials *mono = &model_mono->mono;
    size_t even = cols + cols % 2, ldb, ldp = SOME_LD(kc, even / 2);
    struct kc_array *base, *phi;

    kc_case(kc, "d %zu terms %zu stored %zu features %zu..%zu of %zu cols %zu", mono->d,
            mono->terms, mono->stored, f0, f1, mono->total, even);
    base = some_base(kc, even, &ldb);
    phi = kc_scratch(kc, "phi", f1 - f0, even / 2, ldp);
    phi->canonical = true;
    kc_free(phi, even / 2, ROW16(even / 2));
    kc_freeze(kc);
    for (SIDES)
        K->phi_pairs(&(const struct ARGS(psi)){.mono = mono,
                                               .f0 = f0,
                                               .f1 = f1,
                                               .tokens = even,
                                               .base = P(base),
                                               .ldb = (ptrdiff_t)ldb,
                                               .psi = P(phi),
                                               .ldp = (ptrdiff_t)ldp});
    settle_nans(kc, phi);
    kc_finish(kc);
}

static void test_psi_pairs(struct kc *kc, const struct KERNELS *table)
{
    all_monos(kc, table, one_psi_pairs);
}

static void test_phi_pairs(struct kc *kc, const struct KERNELS *table)
{
    all_monos(kc, table, one_phi_pairs);
}

static void one_decode_state(struct kc *kc, const struct KERNELS *table, size_t rows, size_t cols,
                             size_t features)
{
    size_t ldp = SOME_LD(kc, features + 2 * TSA_MAX_LANES), ldh = some_line_ld(kc, cols);
    size_t lda = some_line_ld(kc, cols), ldo = ROW16(features) + TSA_ROW_PAD;
    size_t state[MOST_DECODE_ROWS], states = some_states(kc, rows, state);
    int first = (int)kc_between(kc, 0, 1);
    struct kc_array *psi, *hi, *ones, *acc, *den;

    kc_case(kc, "rows %zu states %zu cols %zu features %zu first %d ldh %zu", rows, states, cols,
            features, first, ldh);
    psi = kc_scratch(kc, "psi", rows, features, ldp);
    hi = kc_scratch(kc, "hi", states * features, cols, ldh);
    ones = kc_scratch(kc, "ones", states, features, ldo);
    acc = kc_scratch(kc, "acc", rows, cols, lda);
    den = kc_scratch(kc, "den", 1, rows, ROW16(rows));
    kc_free(den, rows, ROW16(rows));
    fill_operands(kc, psi);
    fill_operands(kc, hi);
    fill_operands(kc, ones);
    if (!first) {
        fill_sums(kc, acc);
        fill_sums(kc, den);
    }
    kc_freeze(kc);
    for (SIDES) {
        const T *hi_of[MOST_DECODE_ROWS], *ones_of[MOST_DECODE_ROWS];

        for (size_t r = 0; r < rows; r++) {
            hi_of[r] = P(hi) + state[r] * features * ldh;
            ones_of[r] = P(ones) + state[r] * ldo;
        }
        K->decode_state(&(const struct ARGS(decode_state)){.heads = rows,
                                                           .columns = cols,
                                                           .features = features,
                                                           .psi = P(psi),
                                                           .ldp = (ptrdiff_t)ldp,
                                                           .hi = hi_of,
                                                           .ldh = (ptrdiff_t)ldh,
                                                           .ones = ones_of,
                                                           .acc = P(acc),
                                                           .lda = (ptrdiff_t)lda,
                                                           .den = P(den),
                                                           .first = first});
    }
    kc_finish(kc);
    for (size_t r = 0; r < rows; r++) {
        const T *row_hi = GOT(hi) + state[r] * features * ldh;
        const T *row_ones = GOT(ones) + state[r] * ldo;

        for (size_t c = 0; c <= cols; c++) { /* the column of ones is the last */
            REAL ref = first ? 0 : c < cols ? BEFORE(acc)[r * lda + c] : BEFORE(den)[r];
            REAL all = R_FABS(ref), error;

            for (size_t f = 0; f < features; f++)
                add_term(GOT(psi)[r * ldp + f], c < cols ? row_hi[f * ldh + c] : row_ones[f], &ref,
                         &all);
            error = chain_error(ROUNDINGS * features + 1, all);
            if (c < cols)
                near(kc, acc, r, c, ref, error);
            else
                near(kc, den, 0, r, ref, error);
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

/* Every upper half, by both kernels. */
START_TEST(check_all_halves)
{
    static struct kc kc;
    const struct KERNELS *table;
    static const size_t wide = 1 << 12; /* the sixteenth part of them in a row */

    kc_open(&kc, "every upper half", &tables[_i], sizeof(T));
    table = kc.isa->pair_kernels;
    for (size_t i = 0; i < 16 * LOWER_HALVES; i++) {
        uint32_t first = (uint32_t)(i / LOWER_HALVES * wide) << 16 | lower_halves[i % LOWER_HALVES];
        struct kc_array *in, *rows, *cols;

        kc_case(&kc, "bits from 0x%08x on", (unsigned)first);
        in = kc_scratch(&kc, "in", 1, wide, wide);
        rows = kc_scratch(&kc, "rows", 1, wide, wide);
        cols = kc_scratch(&kc, "cols", 1, wide / 2, wide / 2);
        rows->canonical = cols->canonical = true;
        for (uint32_t j = 0; j < wide; j++)
            GOT(in)[j] = from_bits(first + (j << 16));
        kc_freeze(&kc);
        for (SIDES) {
            K->pair_rows(1, wide, P(in), 0, P(rows), 0);
            K->pair_cols(1, wide, P(in), 0, P(cols), 0);
        }
        settle_nans(&kc, rows);
        settle_nans(&kc, cols);
        kc_finish(&kc);
    }
}
END_TEST

/* -- all of them ------------------------------------------------------------------------------- */

static void run(int i, const char *name, void (*test)(struct kc *kc, const struct KERNELS *table))
{
    static struct kc kc;

    kc_open(&kc, name, &tables[i], sizeof(T));
    test(&kc, TABLE(kc.isa));
    ck_assert_uint_gt(kc.cases, 0);
}

#define TSA_KERNEL(result, name, args)                                                             \
    START_TEST(check_##name)                                                                       \
    {                                                                                              \
        run(_i, #name, test_##name);                                                               \
    }                                                                                              \
    END_TEST
#include "products.def"
#include "pairs.def"
#undef TSA_KERNEL

static void add_loop(Suite *suite, const char *name, const TTest *test)
{
    TCase *tcase = tcase_create(name);

    tcase_set_timeout(tcase, 600);
    tcase_add_loop_test(tcase, test, 0, table_count());
    suite_add_tcase(suite, tcase);
}

int main(void)
{
    Suite *suite = suite_create("kernels bf16");
    TCase *once = tcase_create("tables and model");

    tcase_add_test(once, check_tables);
    tcase_add_test(once, check_model);
    suite_add_tcase(suite, once);
    add_loop(suite, "every upper half", check_all_halves);
#define TSA_KERNEL(result, name, args) add_loop(suite, #name, check_##name);
#include "products.def"
#include "pairs.def"
#undef TSA_KERNEL
    return kc_main(suite);
}
