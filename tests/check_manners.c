/* SPDX-License-Identifier: MIT */
/* Manners towards the host: what stays as it was after a call, whatever came of it, and what the
 * host may do with the memory of states and options. */
#include <errno.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#if defined(__SSE2__)
#include <xmmintrin.h>
#endif

#include "support.h"

static const struct shape usual = {
    5, 19, 3, 16, 4, 2, 2, 20, TSA_F32, TSA_NORMALIZE_NONE, COEF_TAYLOR, TEMP_TWO};

enum entry { PREFILL, ABSORB, QUERY, DECODE, SOFTMAX, ENTRIES };

/* A call on all tokens of q, k and v. */
static enum tsa_status enter(enum entry entry, const struct tsa_plan *plan,
                             struct tsa_state *const *states, const struct tsa_tensor x[3],
                             const struct tsa_tensor *o, size_t batch, size_t tokens,
                             struct tsa_error *err)
{
    const struct tsa_tensor *q = &x[0], *k = &x[1], *v = &x[2];
    switch (entry) {
    case PREFILL:
        return tsa_prefill(plan,
                           BATCH(.states = states, .count = batch, .tokens = tokens, .q = *q,
                                 .k = *k, .v = *v, .o = *o),
                           NULL, err);
    case ABSORB:
        return tsa_absorb(
            plan, BATCH(.states = states, .count = batch, .tokens = tokens, .k = *k, .v = *v), NULL,
            err);
    case QUERY:
        return tsa_query(
            plan, BATCH(.states = states, .count = batch, .tokens = tokens, .q = *q, .o = *o), NULL,
            err);
    case DECODE:
        return tsa_decode(
            plan, BATCH(.states = states, .count = batch, .q = *q, .k = *k, .v = *v, .o = *o), NULL,
            err);
    default:
        return tsa_softmax(plan, batch, tokens, tokens, 1, q, k, v, o, NULL, err);
    }
}

/* -- before the constructors ------------------------------------------------------------------- */

static const char *isa_before_main;

#ifdef __GNUC__
__attribute__((constructor(101)))
#endif
static void
before_constructors(void)
{
    isa_before_main = tsa_isa_active();
}

/* The instruction set is the best one, also where other constructors have not run. */
START_TEST(constructors)
{
    ck_assert_ptr_nonnull(isa_before_main);
    ck_assert_str_eq(isa_before_main, tsa_isa_active());
}
END_TEST

/* -- failed calls ------------------------------------------------------------------------------ */

#if defined(__SSE2__)
static uint64_t get_mode(void)
{
    return _mm_getcsr();
}
static void set_mode(uint64_t mode)
{
    _mm_setcsr((unsigned)mode);
}
/* Flush to zero, denormals are zero, round down, the flag of an inexact result. */
static const uint64_t strange_mode = 0x8000 | 0x0040 | 0x2000 | 0x1f80 | 0x0020;
#elif defined(__aarch64__)
static uint64_t get_mode(void)
{
    uint64_t mode;
    __asm__ volatile("mrs %0, fpcr" : "=r"(mode));
    return mode;
}
static void set_mode(uint64_t mode)
{
    __asm__ volatile("msr fpcr, %0" : : "r"(mode));
}
static const uint64_t strange_mode = 1u << 24 | 2u << 22 | 1u << 25;
#else
static uint64_t get_mode(void)
{
    return 0;
}
static void set_mode(uint64_t mode)
{
    (void)mode;
}
static const uint64_t strange_mode = 0;
#endif

/* What a call left behind; the usual mode is back when it returns. */
struct left {
    uint64_t mode;
    int error;
};

#define LEAVES(call, want)                                                                         \
    do {                                                                                           \
        const uint64_t usual_mode = get_mode();                                                    \
        set_mode(strange_mode);                                                                    \
        errno = 12345;                                                                             \
        const enum tsa_status status_ = (call);                                                    \
        const struct left left_ = {get_mode(), errno};                                             \
        set_mode(usual_mode);                                                                      \
        CHECK(status_ == (want), "%s returned %d, wanted %d", #call, (int)status_, (int)(want));   \
        CHECK(left_.mode == strange_mode, "%s left the mode %#llx", #call,                         \
              (unsigned long long)left_.mode);                                                     \
        CHECK(left_.error == 12345, "%s left errno %d", #call, left_.error);                       \
    } while (0)

/* Memory that is granted until it is not. */
static bool refuse;
static void *allocate_or_refuse(void *user, size_t bytes, size_t alignment)
{
    (void)user;
    errno = ENOMEM;
    return refuse ? NULL
                  : aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
}
static void release(void *user, void *memory, size_t bytes)
{
    (void)user;
    (void)bytes;
    errno = EINVAL;
    free(memory);
}

/* Every kind of failure of every call leaves mode and errno alone, as success does. */
START_TEST(failures)
{
    struct problem p;
    struct tsa_options options;
    struct tsa_error err;
    struct tsa_plan *none = NULL;
    problem_make(&p, &usual, 4300);
    problem_options(&p, &options);
    options.allocate = allocate_or_refuse;
    options.release = release;
    options.threads = 2;
    refuse = false;
    struct tsa_plan *plan = make_plan(&options);
    struct tsa_state **st = states_make(plan, 2), *null[2] = {NULL, st[1]}, *state;
    void *out = make_zeros(p.o_count, TSA_F32);
    const struct tsa_tensor good[3] = {p.q, p.k, p.v};
    const struct tsa_tensor o = dense(out, TSA_F32, usual.heads, usual.tokens, usual.dv);
    for (enum entry e = 0; e < ENTRIES; e++) {
        LEAVES(enter(e, plan, st, good, &o, 2, 20, &err), TSA_OK);
        if (e != SOFTMAX)
            LEAVES(enter(e, plan, null, good, &o, 2, 20, &err), TSA_EINVAL);
        struct tsa_tensor bad[3] = {p.q, p.k, p.v};
        bad[e == QUERY ? 0 : 1].dtype = 77;
        LEAVES(enter(e, plan, st, bad, &o, 2, 20, &err), TSA_EINVAL);
        const struct tsa_tensor *hurt = e == QUERY ? &p.q : &p.k;
        const double kept = get(hurt->data, TSA_F32, 1);
        put(hurt->data, TSA_F32, 1, NAN);
        LEAVES(enter(e, plan, st, good, &o, 2, 20, &err), TSA_ENONFINITE);
        put(hurt->data, TSA_F32, 1, 1e30);
        LEAVES(enter(e, plan, st, good, &o, 2, 20, &err), e == SOFTMAX ? TSA_OK : TSA_EOVERFLOW);
        put(hurt->data, TSA_F32, 1, kept);
        refuse = true;
        LEAVES(enter(e, plan, st, good, &o, 2, 20, &err), TSA_ENOMEM);
        refuse = false;
    }
    refuse = true;
    LEAVES(tsa_state_create(plan, &state, &err), TSA_ENOMEM);
    LEAVES(tsa_plan_create(&options, &none, &err), TSA_ENOMEM);
    LEAVES(tsa_state_merge(plan, st[0], st[1], NULL, &err), TSA_ENOMEM);
    LEAVES(tsa_state_reduce(plan, st[0], (const struct tsa_state *const *)st, 2, &err), TSA_ENOMEM);
    LEAVES(tsa_state_export(plan, st[0], 0, 0, 0, TSA_BASIS_PLAIN, (double[20]){0}, 20, &err),
           TSA_ENOMEM);
    refuse = false;
    options.temperature = -1;
    LEAVES(tsa_plan_create(&options, &none, &err), TSA_EINVAL);
    options.temperature = 1e-320; /* its reciprocal is infinite */
    LEAVES(tsa_plan_create(&options, &none, &err), TSA_EINVAL);
    options.temperature = 2;
    options.coefficients = (double[3]){1, 1, 1e300};
    LEAVES(tsa_plan_create(&options, &none, &err), TSA_EINVAL);
    options.coefficients = NULL;
    options.head_dim = SIZE_MAX;
    LEAVES(tsa_plan_create(&options, &none, &err), TSA_EOVERFLOW);
    LEAVES(tsa_state_copy(plan, st[0], NULL, &err), TSA_EINVAL);
    LEAVES(tsa_state_merge(plan, st[0], NULL, NULL, &err), TSA_EINVAL);
    states_free(st, 2);
    tsa_plan_destroy(plan);
    free(out);
    problem_free(&p);
}
END_TEST

/* An executor whose threads set errno, as system calls in them may. */
static void noisy(void *user, size_t count, void (*function)(void *argument, size_t index),
                  void *argument)
{
    (*(size_t *)user)++;
    for (size_t i = 0; i < count; i++)
        function(argument, i);
    errno = EAGAIN;
}

/* errno stays where a parallel call is no call of attention, which would restore it as well. */
START_TEST(noisy_executor)
{
    struct tsa_options options;
    struct tsa_error err;
    size_t runs = 0;
    ck_assert_int_eq(tsa_options_init(&options, sizeof options), TSA_OK);
    options.head_dim = 16;
    options.value_dim = 64;
    options.heads = 8;
    options.threads = 4;
    options.execute = noisy;
    options.execute_user = &runs;
    struct tsa_plan *plan = make_plan(&options);
    struct tsa_state **st = states_make(plan, 3);
    LEAVES(tsa_state_reduce(plan, st[0], (const struct tsa_state *const *)st, 3, &err), TSA_OK);
    ck_assert_uint_gt(runs, 0);
    states_free(st, 3);
    tsa_plan_destroy(plan);
}
END_TEST

/* -- numbers in messages ----------------------------------------------------------------------- */

/* A locale that writes numbers with a comma, if the system can make one. */
static bool set_comma(void)
{
    char folder[] = "/tmp/tsa-locale-XXXXXX", command[256];
    if (mkdtemp(folder) == NULL || setenv("LOCPATH", folder, 1) != 0)
        return false;
    snprintf(command, sizeof command, "%s/numbers", folder);
    FILE *file = fopen(command, "w");
    ck_assert_ptr_nonnull(file);
    fputs("LC_NUMERIC\ndecimal_point \",\"\nthousands_sep \"\"\ngrouping -1\nEND LC_NUMERIC\n",
          file);
    fclose(file);
    /* it warns of all that the file does not say, and ends with 1 */
    snprintf(command, sizeof command,
             "cd %s && localedef -c -i ./numbers -f UTF-8 ./tsa.UTF-8 >log 2>&1", folder);
    const bool made = system(command) != -1;
    const bool set = made && setlocale(LC_NUMERIC, "tsa.UTF-8") != NULL;
    snprintf(command, sizeof command, "rm -r '%s'", folder);
    return system(command) == 0 && set && strcmp(localeconv()->decimal_point, ",") == 0;
}

static void assert_points(const struct tsa_error *err)
{
    bool point = false;
    for (const char *at = err->text; at[0] && at[1] && at[2]; at++) {
        const bool digits = strchr("0123456789", at[0]) && strchr("0123456789", at[2]);
        CHECK(!digits || at[1] != ',', "a comma in \"%s\"", err->text);
        point = point || (digits && at[1] == '.');
    }
    CHECK(point, "no number with a point in \"%s\"", err->text);
}

START_TEST(commas)
{
    struct problem p;
    struct tsa_options options;
    struct tsa_error err;
    struct tsa_plan *plan;
    if (!set_comma())
        return; /* there is none here */
    problem_make(&p, &usual, 4301);
    problem_options(&p, &options);
    options.head_dim = 1234567890123;
    ck_assert_int_eq(tsa_plan_create(&options, &plan, &err), TSA_EOVERFLOW);
    assert_points(&err);
    options.head_dim = usual.d;
    options.temperature = -1.5;
    ck_assert_int_eq(tsa_plan_create(&options, &plan, &err), TSA_EINVAL);
    assert_points(&err);
    options.temperature = 2;
    options.coefficients = (double[3]){1, 1, 1.5e300};
    ck_assert_int_eq(tsa_plan_create(&options, &plan, &err), TSA_EINVAL);
    assert_points(&err);
    plan = problem_plan(&p, NULL, 1);
    struct tsa_state **st = states_make(plan, 2);
    void *out = make_zeros(p.o_count, TSA_F32);
    const struct tsa_tensor o = dense(out, TSA_F32, usual.heads, usual.tokens, usual.dv);
    struct tsa_tensor x[3] = {p.q, p.k, p.v};
    put(p.k.data, TSA_F32, 1, 1.5e19);
    ck_assert_int_eq(enter(ABSORB, plan, st, x, &o, 2, 20, &err), TSA_EOVERFLOW);
    assert_points(&err);
    put(p.k.data, TSA_F32, 1, 1);
    ok(enter(ABSORB, plan, st, x, &o, 2, 20, &err), &err);
    put(p.q.data, TSA_F32, 1, 1.5e25);
    ck_assert_int_eq(enter(QUERY, plan, st, x, &o, 2, 20, &err), TSA_EOVERFLOW);
    assert_points(&err);
    double *wide = calloc(p.o_count, sizeof *wide);
    wide[0] = 1.5e300;
    x[1] = dense(wide, TSA_F64, usual.kv_heads, usual.tokens, usual.d);
    ck_assert_int_eq(enter(ABSORB, plan, st, x, &o, 2, 20, &err), TSA_ENONFINITE);
    assert_points(&err);
    free(wide);
    free(out);
    states_free(st, 2);
    tsa_plan_destroy(plan);
    problem_free(&p);
}
END_TEST

/* -- memory ------------------------------------------------------------------------------------ */

/* An allocator that counts what it holds, and may grant less alignment than it was asked for. */
struct meter {
    size_t held, granted, short_of; /* bytes that addresses are moved by */
};
static void *meter_allocate(void *user, size_t bytes, size_t alignment)
{
    struct meter *m = user;
    char *memory = aligned_alloc(alignment, (bytes + 2 * alignment) / alignment * alignment);
    ck_assert_ptr_nonnull(memory);
    m->held++;
    m->granted++;
    return memory + m->short_of;
}
static void meter_release(void *user, void *memory, size_t bytes)
{
    struct meter *m = user;
    (void)bytes;
    m->held--;
    free((char *)memory - m->short_of);
}

/* Memory that is not aligned as was asked for is given back, and is a refusal. */
START_TEST(less_alignment)
{
    static const size_t moved[] = {1, 4, 8, 16, 32};
    struct meter m = {0, 0, 0};
    struct problem p;
    struct tsa_options options;
    struct tsa_error err;
    struct tsa_plan *none = NULL;
    struct tsa_workspace *ws = NULL;
    problem_make(&p, &usual, 4302);
    problem_options(&p, &options);
    options.allocate = meter_allocate;
    options.release = meter_release;
    options.allocator_user = &m;
    struct tsa_plan *plan = make_plan(&options);
    struct tsa_state **st = states_make(plan, 2), *state = NULL;
    void *out = make_zeros(p.o_count, TSA_F32);
    const struct tsa_tensor x[3] = {p.q, p.k, p.v};
    const struct tsa_tensor o = dense(out, TSA_F32, usual.heads, usual.tokens, usual.dv);
    ok(enter(ABSORB, plan, st, x, &o, 2, 20, &err), &err);
    const size_t held = m.held;
    for (size_t i = 0; i < sizeof moved / sizeof *moved; i++) {
        const size_t before = m.granted;
        m.short_of = moved[i];
        ck_assert_int_eq(tsa_plan_create(&options, &none, &err), TSA_ENOMEM);
        ck_assert_int_eq(tsa_state_create(plan, &state, &err), TSA_ENOMEM);
        ck_assert_int_eq(tsa_workspace_create(plan, 1, &ws, &err), TSA_ENOMEM);
        for (enum entry e = 0; e < ENTRIES; e++)
            ck_assert_int_eq(enter(e, plan, st, x, &o, 2, 20, &err), TSA_ENOMEM);
        ck_assert_uint_eq(m.granted, before + 3 + ENTRIES);
        ck_assert_uint_eq(m.held, held);
        m.short_of = 0;
    }
    states_free(st, 2);
    tsa_plan_destroy(plan);
    ck_assert_uint_eq(m.held, 0);
    free(out);
    problem_free(&p);
}
END_TEST

/* The bytes of any state may be copied over any other: each memory is freed by who made it. */
START_TEST(overwritten)
{
    struct meter m = {0, 0, 0};
    struct problem p;
    struct tsa_options options;
    struct tsa_error err;
    problem_make(&p, &usual, 4303);
    problem_options(&p, &options);
    options.allocate = meter_allocate;
    options.release = meter_release;
    options.allocator_user = &m;
    struct tsa_plan *plan = make_plan(&options);
    const size_t bytes = tsa_state_bytes(plan), held = m.held;
    struct tsa_state **st = states_make(plan, 5), *own = NULL;
    void *memory = aligned_alloc(64, bytes);
    ok(tsa_state_init(plan, memory, bytes, &own, &err), &err);
    memcpy(st[1], st[0], bytes); /* of the library, over one of the library */
    memcpy(st[2], own, bytes);   /* of the caller, over one of the library */
    memset(st[3], 0xff, bytes);
    memcpy(own, st[4], bytes); /* of the library, over one of the caller */
    ok(tsa_state_reset(plan, st[1], &err), &err);
    assert_equal(plan, st[2], own, true);
    ck_assert_uint_eq(m.held, held + 5);
    tsa_state_destroy(own);
    ck_assert_uint_eq(m.held, held + 5);
    assert_equal(plan, own, st[4], true);
    for (size_t i = 0; i < 5; i++) {
        tsa_state_destroy(st[4 - i]);
        ck_assert_uint_eq(m.held, held + 4 - i);
    }
    free(st);
    free(memory);
    tsa_plan_destroy(plan);
    problem_free(&p);
}
END_TEST

/* -- options of other versions ----------------------------------------------------------------- */

START_TEST(option_sizes)
{
    union {
        struct tsa_options options;
        unsigned char bytes[8192];
    } x;
    struct tsa_error err;
    struct tsa_plan *plan = NULL;
    for (size_t size = 0; size < sizeof x; size++) {
        const bool right = size == offsetof(struct tsa_options, gate) || /* of version 0.1 */
                           size == sizeof x.options ||
                           (size > sizeof x.options && size <= 4096 && size % sizeof(void *) == 0);
        memset(&x, 0x77, sizeof x);
        const enum tsa_status set = tsa_options_init(&x.options, size);
        CHECK(set == (right ? TSA_OK : TSA_EINVAL), "size %zu: %d", size, (int)set);
        CHECK(x.bytes[right ? size : 0] == 0x77, "size %zu: more was written", size);
        memset(&x, 0, sizeof x);
        CHECK(tsa_options_init(&x.options, sizeof x.options) == TSA_OK, "the right size");
        x.options.head_dim = 5;
        x.options.value_dim = 3;
        x.options.size = size;
        const enum tsa_status status = tsa_plan_create(&x.options, &plan, &err);
        CHECK(status == (right ? TSA_OK : TSA_EINVAL), "size %zu: %d", size, (int)status);
        CHECK(right || strcmp(err.argument, "size") == 0, "size %zu: %s", size, err.argument);
        tsa_plan_destroy(plan);
    }
}
END_TEST

/* -- strides ----------------------------------------------------------------------------------- */

/* The stride of a dimension of one element plays no part: no pointer past it is computed. */
START_TEST(unused_strides)
{
    static const ptrdiff_t strides[] = {PTRDIFF_MAX, PTRDIFF_MIN, PTRDIFF_MAX / 8, PTRDIFF_MIN / 8};
    static const enum tsa_dtype dtypes[] = {TSA_F32, TSA_F64, TSA_BF16, TSA_F16};
    struct shape s = usual;
    s.heads = s.kv_heads = s.batch = 1;
    s.chunk = _i / 2 % 2 == 0 ? 16 : 1;
    s.dtype = _i % 2 == 0 ? TSA_F32 : TSA_F64;
    s.dv = _i / 4 == 0 ? 19 : 16; /* or whole vectors */
    s.d = _i / 4 == 0 ? 5 : 16;
    struct problem p;
    struct tsa_error err;
    problem_make(&p, &s, 4304);
    struct tsa_plan *plan = problem_plan(&p, NULL, 1);
    double room[4][20];
    for (size_t n = 0; n < 16 * ENTRIES; n++) {
        struct tsa_tensor x[4];
        struct tsa_state **st = states_make(plan, 1);
        for (int j = 0; j < 4; j++) {
            x[j] = (struct tsa_tensor){.data = room[j], .dtype = dtypes[n / 4 % 4]};
            x[j].batch = x[j].head = x[j].token = strides[n % 4];
            for (size_t i = 0; i < 20; i++)
                put(room[j], x[j].dtype, i, 0.5);
        }
        if (n / 16 == QUERY)
            ok(enter(ABSORB, plan, st, x, &x[3], 1, 1, &err), &err);
        ok(enter((enum entry)(n / 16), plan, st, x, &x[3], 1, 1, &err), &err);
        for (size_t i = 0; n / 16 != ABSORB && i < s.dv; i++)
            CHECK(get(room[3], x[3].dtype, i) == 0.5, "%g", get(room[3], x[3].dtype, i));
        states_free(st, 1);
    }
    tsa_plan_destroy(plan);
    problem_free(&p);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("manners");
    TCase *host = add_case(suite, "host");
    tcase_add_test(host, constructors);
    tcase_add_test(host, failures);
    tcase_add_test(host, noisy_executor);
    tcase_add_test(host, commas);
    TCase *memory = add_case(suite, "memory");
    tcase_add_test(memory, less_alignment);
    tcase_add_test(memory, overwritten);
    TCase *arguments = add_case(suite, "arguments");
    tcase_add_test(arguments, option_sizes);
    tcase_add_loop_test(arguments, unused_strides, 0, 8);
    return run_suite(suite);
}
