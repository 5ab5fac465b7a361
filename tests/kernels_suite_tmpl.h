/* SPDX-License-Identifier: MIT */
/* All kernel tests of one type as a program. The list of kernels makes the list of tests: a
 * kernel without test_<name>() or model_<name>() does not compile. */
#include "kernels_types.h"

#include "kernels_monomials_tmpl.h"
#include "kernels_products_tmpl.h"
#include "kernels_model_tmpl.h"
#include "kernels_rows_tmpl.h"
#include "kernels_half_tmpl.h"
#include "kernels_features_tmpl.h"
#include "kernels_gates_tmpl.h"
#include "kernels_state_tmpl.h"
#include "kernels_window_tmpl.h"
#include "kernels_softmax_tmpl.h"

static void run(int i, const char *name, void (*test)(struct kc *kc, const struct KERNELS *table))
{
    static struct kc kc;

    kc_open(&kc, name, kc_isa(i), sizeof(T));
    test(&kc, TABLE(kc.isa));
    ck_assert_uint_gt(kc.cases, 0);
}

/* What an instruction set says of its vectors is what its kernels are built with. */
START_TEST(check_lanes)
{
    const struct tsa_isa *isa = kc_isa(_i);

    ck_assert_uint_ge(TABLE(isa)->lanes, 1);
    ck_assert_uint_eq(TABLE(isa)->lanes, LANES(&(struct kc){.isa = isa}));
}
END_TEST

/* The table of monomials that kernels get from the library is the one they are tested with. */
START_TEST(check_monomials)
{
    for (size_t d = 1; d <= 20; d++)
        for (size_t terms = 1; terms <= (d <= 9 ? 8U : 4U); terms++) {
            struct kc_mono want;
            struct tsa_monomials got;
            size_t count = tsa_monomials_suffix_count(d, terms), suffix[8 * 21];

            kc_mono_init(&want, d, terms);
            memset(&got, 0xff, sizeof got);
            ck_assert(tsa_monomials_init(&got, d, terms));
            ck_assert_uint_eq(count, terms * (d + 1));
            tsa_monomials_fill_suffix(&got, suffix);
            ck_assert_uint_eq(got.d, d);
            ck_assert_uint_eq(got.terms, terms);
            ck_assert_uint_eq(got.total, want.mono.total);
            ck_assert_uint_eq(got.lower, want.mono.lower);
            ck_assert_uint_ge(got.stored, 1);
            ck_assert_uint_le(got.stored, want.mono.stored);
            for (size_t stored = 1; stored <= want.mono.stored; stored++) {
                kc_mono_store(&want, stored);
                if (stored == got.stored) {
                    ck_assert_uint_eq(got.base, want.mono.base);
                    ck_assert_uint_eq(got.rows, want.mono.rows);
                }
            }
            ck_assert_mem_eq(got.start, want.mono.start, sizeof got.start);
            ck_assert_ptr_eq(got.suffix, suffix);
            ck_assert_mem_eq(suffix, want.suffix, count * sizeof *suffix);
            kc_mono_free(&want);
        }
}
END_TEST

#define TSA_KERNEL(result, name, args)                                                             \
    START_TEST(check_##name)                                                                       \
    {                                                                                              \
        run(_i, #name, test_##name);                                                               \
    }                                                                                              \
    END_TEST
#include "products.def"
#include "kernels.def"
/* what softmax asks of `window` */
TSA_KERNEL(void, softmax_values, ())
#undef TSA_KERNEL

int main(void)
{
    Suite *suite = suite_create(TEST_F64 ? "kernels f64" : "kernels f32");
    TCase *monomials = tcase_create("monomials");

    tcase_add_test(monomials, check_monomials);
    tcase_add_loop_test(monomials, check_lanes, 0, kc_isa_count());
    suite_add_tcase(suite, monomials);

#define TSA_KERNEL(result, name, args)                                                             \
    do {                                                                                           \
        TCase *tcase = tcase_create(#name);                                                        \
        tcase_set_timeout(tcase, 600);                                                             \
        tcase_add_loop_test(tcase, check_##name, 0, kc_isa_count());                               \
        suite_add_tcase(suite, tcase);                                                             \
    } while (0);
#include "products.def"
#include "kernels.def"
    TSA_KERNEL(void, softmax_values, ())
#undef TSA_KERNEL
    return kc_main(suite);
}
