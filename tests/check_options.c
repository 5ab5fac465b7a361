/* SPDX-License-Identifier: MIT */
/* Options: every one that is refused, versions of their struct, defaults; and small facts that a
 * program may ask for. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "support.h"

#define D 3
#define V 5

/* -- options ----------------------------------------------------------------------------------- */

static void refuse_options(const struct tsa_options *options, enum tsa_status want,
                           const char *argument)
{
    struct tsa_error err;
    struct tsa_plan *plan = (struct tsa_plan *)(uintptr_t)64;
    memset(&err, 0x5a, sizeof err);
    assert_error(&err, tsa_plan_create(options, &plan, &err), want, argument);
    ck_assert_int_eq(tsa_plan_create(options, &plan, NULL), want);
    ck_assert_ptr_null(plan);
}

static void *allocate_nothing(void *user, size_t bytes, size_t alignment)
{
    (void)user, (void)bytes, (void)alignment;
    return NULL;
}

static void release_nothing(void *user, void *memory, size_t bytes)
{
    (void)user, (void)memory, (void)bytes;
}

START_TEST(options)
{
    static const double nan_at[] = {2, NAN, 2, 2}, zero_at[] = {2, 2, 0, 2};
    static const double bad_coef[] = {1, INFINITY, 0.5};
    struct tsa_options base, o;
    struct tsa_error err;
    ck_assert_int_eq(tsa_options_init(&base, sizeof base), TSA_OK);
    ck_assert_uint_eq(base.size, sizeof base);
    ck_assert_uint_eq(base.terms, 3);
    ck_assert_double_eq(base.temperature, 2);
    refuse_options(NULL, TSA_EINVAL, "options");
    refuse_options(&base, TSA_EINVAL, "head_dim"); /* not set yet */
    base.head_dim = D;
    refuse_options(&base, TSA_EINVAL, "value_dim");
    base.value_dim = V;
    ck_assert_int_eq(tsa_plan_create(&base, NULL, &err), TSA_EINVAL);
    ck_assert_str_eq(err.argument, "plan");
#define REFUSED_OPTION(field, value, want, argument)                                               \
    do {                                                                                           \
        o = base;                                                                                  \
        o.field = value;                                                                           \
        refuse_options(&o, want, argument);                                                        \
    } while (0)
    REFUSED_OPTION(size, 0, TSA_EINVAL, "size");
    REFUSED_OPTION(size, 16, TSA_EINVAL, "size");
    REFUSED_OPTION(size, SIZE_MAX, TSA_EINVAL, "size");
    REFUSED_OPTION(terms, 0, TSA_EINVAL, "terms");
    REFUSED_OPTION(terms, 9, TSA_EINVAL, "terms");
    REFUSED_OPTION(heads, 0, TSA_EINVAL, "heads");
    REFUSED_OPTION(kv_heads, 3, TSA_EINVAL, "kv_heads");
    REFUSED_OPTION(layers, 0, TSA_EINVAL, "layers");
    REFUSED_OPTION(chunk, TSA_MAX_CHUNK + 1, TSA_EINVAL, "chunk");
    REFUSED_OPTION(dtype, 99, TSA_EINVAL, "dtype");
    REFUSED_OPTION(dtype, 0, TSA_EINVAL, "dtype");
    REFUSED_OPTION(dtype, TSA_BF16, TSA_EUNSUPPORTED, "dtype");
    REFUSED_OPTION(dtype, TSA_F16, TSA_EUNSUPPORTED, "dtype");
    REFUSED_OPTION(normalize, 0, TSA_EINVAL, "normalize");
    REFUSED_OPTION(normalize, 7, TSA_EINVAL, "normalize");
    REFUSED_OPTION(temperature, 0, TSA_EINVAL, "temperature");
    REFUSED_OPTION(temperature, -1, TSA_EINVAL, "temperature");
    REFUSED_OPTION(temperature, NAN, TSA_EINVAL, "temperature");
    REFUSED_OPTION(temperature, INFINITY, TSA_EINVAL, "temperature");
    REFUSED_OPTION(temperature, 1e-300, TSA_EINVAL, "temperature"); /* 1/a is no float */
    REFUSED_OPTION(coefficients, bad_coef, TSA_EINVAL, "coefficients");
    REFUSED_OPTION(coefficients_per_head, 1, TSA_EINVAL, "coefficients");
    REFUSED_OPTION(threads, -1, TSA_EINVAL, "threads");
    REFUSED_OPTION(threads, 65537, TSA_EINVAL, "threads");
    REFUSED_OPTION(flags, 4, TSA_EINVAL, "flags");
    REFUSED_OPTION(isa, "sse9", TSA_EUNSUPPORTED, "isa");
    REFUSED_OPTION(isa, "", TSA_EUNSUPPORTED, "isa");
    REFUSED_OPTION(allocate, allocate_nothing, TSA_EINVAL, "release");
    REFUSED_OPTION(release, release_nothing, TSA_EINVAL, "allocate");
    REFUSED_OPTION(reserved[3], &o, TSA_EINVAL, "reserved");
    REFUSED_OPTION(head_dim, SIZE_MAX, TSA_EOVERFLOW, "head_dim");
    REFUSED_OPTION(head_dim, (size_t)1 << 30, TSA_EOVERFLOW, "head_dim");
    o = base;
    o.value_dim = SIZE_MAX / 2;
    ck_assert_int_eq(tsa_plan_create(&o, &(struct tsa_plan *){NULL}, &err), TSA_EOVERFLOW);
    ck_assert_ptr_nonnull(strstr(err.text, "bytes"));
    o = base;
    o.heads = o.kv_heads = o.layers = SIZE_MAX / 8;
    ck_assert_int_eq(tsa_plan_create(&o, &(struct tsa_plan *){NULL}, &err), TSA_EOVERFLOW);
    base.heads = 4;
    REFUSED_OPTION(temperatures, nan_at, TSA_EINVAL, "temperatures");
    REFUSED_OPTION(temperatures, zero_at, TSA_EINVAL, "temperatures");
    ck_assert_int_eq(tsa_plan_create(&o, &(struct tsa_plan *){NULL}, &err), TSA_EINVAL);
    ck_assert_int_eq(err.head, 2);
    o = base;
    o.allocate = allocate_nothing, o.release = release_nothing;
    refuse_options(&o, TSA_ENOMEM, "plan");
    tsa_plan_destroy(NULL);
}
END_TEST

/* Callers built against a newer header. */
START_TEST(versions)
{
    struct {
        struct tsa_options options;
        char tail[64];
    } newer;
    struct tsa_error err;
    struct tsa_plan *plan = NULL;
    ck_assert_int_eq(tsa_options_init(&newer.options, sizeof newer), TSA_OK);
    newer.options.head_dim = D, newer.options.value_dim = V;
    tsa_plan_destroy(make_plan(&newer.options));
    newer.tail[60] = 1;
    ck_assert_int_eq(tsa_plan_create(&newer.options, &plan, &err), TSA_EINVAL);
    ck_assert_int_ne(tsa_options_init(&newer.options, 0), TSA_OK);
    ck_assert_int_ne(tsa_options_init(NULL, sizeof newer), TSA_OK);
}
END_TEST

/* -- small facts ------------------------------------------------------------------------------- */

START_TEST(facts)
{
    int usable = -1;
    size_t count = 0;
    const char *name, *last = NULL, *reason = NULL;
    for (int status = 1; status >= -12; status--) {
        ck_assert_ptr_nonnull(tsa_status_string(status));
        ck_assert_uint_gt(strlen(tsa_status_string(status)), 0);
        if (status < 0 && status >= TSA_EIO)
            ck_assert_str_ne(tsa_status_string(status), tsa_status_string(status + 1));
    }
    ck_assert_int_eq(tsa_arithmetic(), 1);
    ck_assert_str_eq(tsa_version(), "0.1.0");
    while ((name = tsa_isa_list(count, &usable)) != NULL) {
        ck_assert(usable == 0 || usable == 1);
        last = name;
        count++;
    }
    ck_assert_str_eq(last, "scalar");
    ck_assert_str_eq(tsa_isa_list(count - 1, &usable), "scalar");
    ck_assert_int_eq(usable, 1);
    ck_assert_ptr_null(tsa_isa_list(count + 5, NULL));
    ck_assert_ptr_nonnull(tsa_exp_name());
    ck_assert_int_ge(tsa_default_threads(&reason), 1);
    ck_assert_ptr_nonnull(reason);
    ck_assert_int_ge(tsa_default_threads(NULL), 1);

    struct tsa_options o;
    ck_assert_int_eq(tsa_options_init(&o, sizeof o), TSA_OK);
    o.head_dim = D, o.value_dim = V, o.chunk = 8;
    struct tsa_plan *plan = make_plan(&o);
    char text[4096], cut[20];
    const size_t length = tsa_plan_describe(plan, text, sizeof text);
    ck_assert_uint_eq(length, strlen(text));
    ck_assert_ptr_nonnull(strstr(text, "chunk: 8"));
    ck_assert_ptr_nonnull(strstr(text, "compute: f32\nexact_degrees: "));
    memset(cut, 'x', sizeof cut);
    ck_assert_uint_eq(tsa_plan_describe(plan, cut, 10), length);
    ck_assert_uint_eq(strlen(cut), 9);
    ck_assert_int_eq(cut[10], 'x');
    ck_assert_int_eq(strncmp(cut, text, 9), 0);
    ck_assert_uint_eq(tsa_plan_describe(plan, NULL, 0), length);
    tsa_plan_destroy(plan);
}
END_TEST

/* The chunk is part of the arithmetic, and so is its default: a change would change bits. */
START_TEST(default_chunks)
{
    static const struct {
        size_t d, dv, terms, chunk;
    } shapes[] = {
        {1, 1, 1, 32},    {5, 7, 5, 64},     {8, 16, 2, 32},    {8, 64, 2, 32},    {16, 64, 2, 32},
        {17, 65, 2, 32},  {16, 64, 3, 64},   {128, 128, 2, 32}, {32, 32, 4, 128},  {64, 16, 3, 64},
        {64, 64, 3, 128}, {16, 128, 4, 128}, {16, 64, 5, 128},  {128, 64, 3, 128}, {64, 32, 4, 512},
        {64, 64, 4, 512}, {32, 128, 5, 512}, {12, 20, 4, 64},   {12, 20, 5, 128},  {17, 65, 4, 128},
        {17, 65, 5, 256},
    };
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        struct tsa_options o;
        ck_assert_int_eq(tsa_options_init(&o, sizeof o), TSA_OK);
        o.head_dim = shapes[i].d;
        o.value_dim = shapes[i].dv;
        o.terms = shapes[i].terms;
        for (int dtype = TSA_F32; dtype <= TSA_F64; dtype++) {
            o.dtype = (enum tsa_dtype)dtype;
            struct tsa_plan *plan = make_plan(&o);
            ck_assert_uint_eq(tsa_plan_chunk(plan), shapes[i].chunk);
            tsa_plan_destroy(plan);
        }
    }
}
END_TEST

/* A declared length short enough goes without folds; a chunk that is given counts more. */
START_TEST(declared_length)
{
    static const struct {
        size_t max_tokens, chunk, wanted;
    } cases[] = {
        {0, 0, 64},    {1, 0, 64},   {63, 0, 64},   {64, 0, 128},      {500, 0, 512},
        {560, 0, 576}, {561, 0, 64}, {500, 16, 16}, {SIZE_MAX, 0, 64},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct tsa_options o;
        ck_assert_int_eq(tsa_options_init(&o, sizeof o), TSA_OK);
        ck_assert_uint_eq(o.max_tokens, 0);
        o.head_dim = 16;
        o.value_dim = 64;
        o.max_tokens = cases[i].max_tokens;
        o.chunk = cases[i].chunk;
        struct tsa_plan *plan = make_plan(&o);
        ck_assert_uint_eq(tsa_plan_chunk(plan), cases[i].wanted);
        tsa_plan_destroy(plan);
    }
    for (size_t tokens = 8191; tokens <= 8192; tokens++) { /* a window is not longer */
        struct tsa_options wide;
        ck_assert_int_eq(tsa_options_init(&wide, sizeof wide), TSA_OK);
        wide.head_dim = 64;
        wide.value_dim = 2;
        wide.terms = 4;
        wide.max_tokens = tokens;
        struct tsa_plan *plan = make_plan(&wide);
        ck_assert_uint_eq(tsa_plan_chunk(plan), tokens == 8191 ? 8192 : 128);
        tsa_plan_destroy(plan);
    }
}
END_TEST

/* TSA_ISA lowers the choice; a name that cannot be used is an error. */
START_TEST(isa_by_environment)
{
    struct tsa_options o;
    struct tsa_error err;
    struct tsa_plan *plan = NULL;
    ck_assert_int_eq(tsa_options_init(&o, sizeof o), TSA_OK);
    o.head_dim = D, o.value_dim = V;
    setenv("TSA_ISA", "scalar", 1);
    ck_assert_str_eq(tsa_isa_active(), "scalar");
    plan = make_plan(&o);
    ck_assert_str_eq(tsa_plan_isa(plan), "scalar");
    tsa_plan_destroy(plan);
    setenv("TSA_ISA", "sse9", 1);
    ck_assert_ptr_null(tsa_isa_active());
    ck_assert_int_eq(tsa_plan_create(&o, &plan, &err), TSA_EUNSUPPORTED);
    ck_assert_ptr_nonnull(strstr(err.text, "sse9"));
    unsetenv("TSA_ISA");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("options");
    TCase *option = add_case(suite, "options");
    tcase_add_test(option, options);
    tcase_add_test(option, versions);
    TCase *fact = add_case(suite, "facts");
    tcase_add_test(fact, facts);
    tcase_add_test(fact, default_chunks);
    tcase_add_test(fact, declared_length);
    tcase_add_test(fact, isa_by_environment);
    return run_suite(suite);
}
