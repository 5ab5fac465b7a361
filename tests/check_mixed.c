/* SPDX-License-Identifier: MIT */
/* Mixed plans, whose high degrees have bf16 operands: tables of other instruction sets, threads of
 * a host, how far outputs are from the definition, options and what is refused. (Their bits under
 * all schedules are in check_contract and check_views.) */
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "run.h"
#include "shapes.h"
#include "truth.h"

#define L2 TSA_NORMALIZE_L2
#define RAW TSA_NORMALIZE_NONE

/* As on a CPU that has the vectors but no instructions for bf16, or fewer vectors for them. */
START_TEST(tables)
{
    struct problem p;
    contract_problem(&p, _i);
    for (size_t i = 0; tsa_isa_at(i) != NULL; i++)
        for (size_t k = i; tsa_isa_at(k) != NULL; k++) {
            const struct tsa_pair_kernels_f32 *pairs = tsa_isa_at(k)->pair_kernels;
            if (pairs == NULL || !tsa_isa_usable(tsa_isa_at(i)) || !tsa_isa_usable(tsa_isa_at(k)) ||
                (i + k + (size_t)_i) % 3 != 0)
                continue;
            for (int verb = PREFILL; verb <= DECODE; verb++) {
                struct run r;
                run_begin(&r, &p, tsa_isa_at(i)->name, 1, WAY_AUTO);
                r.plan->pair_kernels = pairs;
                feed(&r, (enum verb)verb, 0, p.shape.batch, 0, p.shape.tokens);
                check_run(&r, pairs->name);
                run_end(&r);
            }
        }
    problem_free(&p);
}
END_TEST

static void *counting_allocate(void *user, size_t bytes, size_t alignment)
{
    ++*(size_t *)user;
    return aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
}

static void counting_release(void *user, void *memory, size_t bytes)
{
    (void)user, (void)bytes;
    free(memory);
}

static void run_backwards(void *user, size_t count, void (*function)(void *argument, size_t index),
                          void *argument)
{
    ++*(size_t *)user;
    while (count-- > 0)
        function(argument, count);
}

/* With a workspace nothing is allocated, also on the threads of a host, in any order. */
START_TEST(host)
{
    struct problem p;
    struct tsa_options options;
    struct tsa_error err;
    struct tsa_workspace *ws = NULL;
    size_t allocations = 0, executions = 0;
    contract_problem(&p, contract_first_mixed() + 4);
    const struct shape *s = &p.shape;
    problem_options(&p, &options);
    options.threads = 3;
    options.allocate = counting_allocate;
    options.release = counting_release;
    options.allocator_user = &allocations;
    options.execute = run_backwards;
    options.execute_user = &executions;
    struct tsa_plan *plan = make_plan(&options);
    struct tsa_state **st = states_make(plan, s->batch);
    float *got = make_zeros(p.o_count, TSA_F32);
    const struct tsa_tensor o = dense(got, TSA_F32, s->heads, s->tokens, s->dv);
    ok(tsa_workspace_create(plan, 0, &ws, &err), &err);
    const size_t before = allocations;
    ok(tsa_prefill(plan,
                   BATCH(.states = st, .count = s->batch, .tokens = s->tokens, .q = p.q, .k = p.k,
                         .v = p.v, .o = o),
                   ws, &err),
       &err);
    assert_bits(got, p.o, TSA_F32, p.o_count, "backwards");
    ok(tsa_decode(plan,
                  BATCH(.states = st, .count = s->batch, .q = p.q, .k = p.k, .v = p.v, .o = o), ws,
                  &err),
       &err);
    ok(tsa_absorb(plan,
                  BATCH(.states = st, .count = s->batch, .tokens = s->tokens, .k = p.k, .v = p.v),
                  ws, &err),
       &err);
    ok(tsa_query(plan,
                 BATCH(.states = st, .count = s->batch, .tokens = s->tokens, .q = p.q, .o = o), ws,
                 &err),
       &err);
    ok(tsa_state_merge(plan, st[0], st[1], ws, &err), &err);
    ok(tsa_state_copy(plan, st[1], st[0], &err), &err);
    ck_assert_uint_eq(allocations, before);
    ck_assert_uint_gt(executions, 0);
    tsa_workspace_destroy(ws);
    states_free(st, s->batch);
    tsa_plan_destroy(plan);
    free(got);
    problem_free(&p);
}
END_TEST

/* -- against the definition -------------------------------------------------------------------- */

static void fill_values(const struct problem *p, double value)
{
    for (size_t i = 0; i < p->shape.batch * (size_t)p->v.batch; i++)
        put(p->v.data, TSA_F32, i, value);
}

static void assert_value(const struct run *r, double value, const char *what)
{
    for (size_t i = 0; i < r->p->o_count; i++)
        CHECK(((float *)r->o)[i] == (float)value, "%s: output %zu is %a, not %a", what, i,
              (double)((float *)r->o)[i], value);
}

/* Numerator and denominator are the same chain if v is 1, and differ by a power of two if v is. */
START_TEST(constants)
{
    static const struct shape s = {
        5, 19, 3, 16, 4, 2, 2, 70, TSA_F32, L2, COEF_PER_HEAD, TEMP_PER_HEAD};
    static const double values[] = {1, 2, -0.25};
    for (size_t i = 0; i < 3; i++) {
        struct problem p;
        struct run r;
        struct tsa_error err;
        problem_make(&p, &s, 71);
        problem_mix(&p, (unsigned)_i);
        fill_values(&p, values[i]);
        run_begin(&r, &p, NULL, 1, WAY_AUTO);
        feed_pieces(&r, PREFILL, 23);
        assert_value(&r, values[i], "prefill");
        feed(&r, DECODE, 0, s.batch, 0, s.tokens);
        assert_value(&r, values[i], "decode");
        ok(tsa_state_merge(r.plan, r.states[0], r.states[1], NULL, &err), &err);
        ok(tsa_query(r.plan,
                     BATCH(.states = r.states, .count = s.batch, .tokens = s.tokens, .q = p.q,
                           .o = r.out),
                     NULL, &err),
           &err);
        assert_value(&r, values[i], "query after merge");
        run_end(&r);
        problem_free(&p);
    }
}
END_TEST

/* Keys of zeros weigh 1 each, so that everything is counted. Threes are exact as long as bf16 holds
 * the sums: after 87 folds of 16, where degree 0 has bf16 operands, 3 x 87 = 261 becomes 260. */
START_TEST(threes)
{
    static const struct shape s = {1, 1, 3, 16, 1, 1, 1, 1393, TSA_F32, L2, COEF_TAYLOR, TEMP_TWO};
    struct problem p;
    struct run r;
    problem_make(&p, &s, 72);
    problem_mix(&p, (unsigned)_i);
    fill_values(&p, 3);
    memset(p.k.data, 0, s.tokens * sizeof(float));
    run_begin(&r, &p, NULL, 1, WAY_AUTO);
    feed(&r, PREFILL, 0, 1, 0, s.tokens);
    for (size_t t = 0; t < s.tokens; t++) {
        const float got = ((float *)r.o)[t];
        const bool held = _i > 0 || t / 16 <= 85 || t / 16 == 86;
        CHECK(got == (held ? 3 : 4163 / 1393.0f), "output %zu is %a", t, (double)got);
    }
    run_end(&r);
    problem_free(&p);
}
END_TEST

/* The bound is that of explicit_row; and some output is outside of what f32 would be held to. */
START_TEST(definition)
{
    static const struct shape shapes[] = {
        {3, 4, 4, 16, 4, 2, 1, 200, TSA_F32, L2, COEF_PER_HEAD, TEMP_PER_HEAD},
        {16, 8, 3, 64, 2, 2, 1, 200, TSA_F32, L2, COEF_TAYLOR, TEMP_TWO},
        {6, 4, 5, 2, 2, 1, 1, 150, TSA_F32, RAW, COEF_SHARED, TEMP_SHARED},
    };
    const struct shape *s = &shapes[_i / 3];
    struct problem p;
    struct run r;
    double beyond = 0;
    problem_make(&p, s, 80 + (uint64_t)_i);
    problem_mix(&p, (unsigned)_i % 3);
    run_begin(&r, &p, NULL, 1, WAY_AUTO);
    feed(&r, PREFILL, 0, 1, 0, s->tokens);
    struct model plain = p.model;
    plain.high = plain.features;
    struct truth *truth = calloc(2 * s->dv, sizeof *truth), *narrow = truth + s->dv;
    for (size_t i = 0; i < s->heads * s->tokens; i += 3) {
        const size_t h = i / s->tokens, g = h / (s->heads / s->kv_heads) * s->tokens;
        const float *q = (float *)p.q.data + i * s->d, *k = (float *)p.k.data + g * s->d;
        const float *v = (float *)p.v.data + g * s->dv;
        explicit_row(&p.model, h, q, k, v, i % s->tokens + 1, truth);
        explicit_row(&plain, h, q, k, v, i % s->tokens + 1, narrow);
        for (size_t c = 0; c < s->dv; c++) {
            const double off = fabs((double)((float *)r.o)[i * s->dv + c] - truth[c].value);
            CHECK(off <= truth[c].bound, "row %zu, column %zu is off by %g: %g bounds", i, c, off,
                  off / truth[c].bound);
            beyond = fmax(beyond, off / narrow[c].bound);
        }
    }
    ck_assert_double_gt(beyond, 1);
    free(truth);
    run_end(&r);
    problem_free(&p);
}
END_TEST

/* |o - o_f64| / |o_f64| over all outputs, where a plan of f64 evaluates the same kernel. */
static double distance(const struct problem *p, unsigned exact_degrees)
{
    struct tsa_options options;
    struct tsa_error err;
    void *o[2];
    for (int wide = 0; wide < 2; wide++) {
        problem_options(p, &options);
        options.dtype = wide ? TSA_F64 : TSA_F32;
        options.compute = wide ? TSA_COMPUTE_EXACT : TSA_COMPUTE_MIXED;
        options.exact_degrees = exact_degrees;
        struct tsa_plan *plan = make_plan(&options);
        struct tsa_state **st = states_make(plan, 1);
        o[wide] = make_zeros(p->o_count, options.dtype);
        const struct tsa_tensor out =
            dense(o[wide], options.dtype, p->shape.heads, p->shape.tokens, p->shape.dv);
        ok(tsa_prefill(plan,
                       BATCH(.states = st, .count = 1, .tokens = p->shape.tokens, .q = p->q,
                             .k = p->k, .v = p->v, .o = out),
                       NULL, &err),
           &err);
        states_free(st, 1);
        tsa_plan_destroy(plan);
    }
    double off = 0, all = 0;
    for (size_t i = 0; i < p->o_count; i++) {
        const double want = ((double *)o[1])[i], x = ((float *)o[0])[i] - want;
        off += x * x;
        all += want * want;
    }
    free(o[0]), free(o[1]);
    return sqrt(off / all);
}

/* What doc/accuracy.md says of the usual shape: 2.3e-5 with two exact degrees, 1.5e-3 with none. */
START_TEST(usual_accuracy)
{
    static const struct shape s = {16, 64,   3,       64, 1,           1,
                                   1,  2048, TSA_F32, L2, COEF_TAYLOR, TEMP_TWO};
    struct problem p;
    problem_make(&p, &s, 90);
    const double exact = distance(&p, 3), two = distance(&p, 2), none = distance(&p, 0);
    ck_assert_double_le(two, 5e-5);
    ck_assert_double_gt(two, 10 * exact);
    ck_assert_double_gt(none, 10 * two);
    ck_assert_double_le(none, 5e-3);
    problem_free(&p);
}
END_TEST

/* -- options ----------------------------------------------------------------------------------- */

static void usual_options(struct tsa_options *o)
{
    ck_assert_int_eq(tsa_options_init(o, sizeof *o), TSA_OK);
    ck_assert_int_eq(o->compute, TSA_COMPUTE_EXACT);
    ck_assert_uint_eq(o->exact_degrees, 2);
    o->head_dim = 16;
    o->value_dim = 64;
}

static void assert_refused(const struct tsa_options *o, const char *argument)
{
    struct tsa_plan *plan = NULL;
    struct tsa_error err;
    ck_assert_int_eq(tsa_plan_create(o, &plan, &err), TSA_EINVAL);
    ck_assert_ptr_null(plan);
    ck_assert_str_eq(err.argument, argument);
    ck_assert(err.text[0] != 0);
}

START_TEST(refused)
{
    struct tsa_options o;
    for (int j = -1; j <= 3; j += 4) {
        usual_options(&o);
        o.compute = (enum tsa_compute)j;
        assert_refused(&o, "compute");
    }
    usual_options(&o);
    o.compute = TSA_COMPUTE_MIXED;
    o.dtype = TSA_F64;
    assert_refused(&o, "compute");
    o.exact_degrees = 8; /* though it would be no mixed plan */
    assert_refused(&o, "compute");
    for (size_t chunk = 1; chunk < 100; chunk += 14) {
        usual_options(&o);
        o.compute = TSA_COMPUTE_MIXED;
        o.chunk = chunk;
        assert_refused(&o, "chunk");
    }
    for (int j = 0; j <= TSA_COMPUTE_FASTEST; j++) {
        usual_options(&o);
        o.compute = (enum tsa_compute)j;
        o.exact_degrees = 9;
        assert_refused(&o, "exact_degrees");
        o.exact_degrees = (unsigned)-1;
        assert_refused(&o, "exact_degrees");
    }
}
END_TEST

/* A plan has so many exact degrees, and its description says so; `exact` = terms: f32. */
static void assert_exact(const struct tsa_options *o, unsigned exact)
{
    struct tsa_plan *plan = make_plan(o);
    char text[4096], line[100];
    const bool mixed = exact < o->terms;
    snprintf(line, sizeof line, "\ncompute: %s\nexact_degrees: %u\n", mixed ? "mixed" : "f32",
             exact);
    ck_assert_int_eq(tsa_plan_compute(plan), mixed ? TSA_COMPUTE_MIXED : TSA_COMPUTE_EXACT);
    ck_assert_uint_eq(tsa_plan_exact_degrees(plan), exact);
    ck_assert_uint_lt(tsa_plan_describe(plan, text, sizeof text), sizeof text);
    ck_assert_msg(strstr(text, line) != NULL, "%s", text);
    snprintf(line, sizeof line, "\nbf16_products: %s%s\n", plan->pair_kernels->name,
             plan->pair_kernels->fast ? "" : " (no faster than f32)");
    ck_assert_msg((strstr(text, line) != NULL) == mixed, "%s", text);
    ck_assert_int_eq(strstr(text, "bf16_products") != NULL, mixed);
    ck_assert(!mixed || tsa_plan_chunk(plan) % 2 == 0);
    tsa_plan_destroy(plan);
}

START_TEST(options)
{
    struct tsa_options o;
    struct tsa_plan *plan;
    ck_assert_int_eq(tsa_plan_compute(NULL), TSA_COMPUTE_EXACT);
    ck_assert_uint_eq(tsa_plan_exact_degrees(NULL), 0);
    for (o.terms = 1; o.terms <= TSA_MAX_TERMS; o.terms++)
        for (unsigned exact = 0; exact <= TSA_MAX_TERMS; exact++) {
            const size_t terms = o.terms;
            usual_options(&o);
            o.head_dim = 3;
            o.terms = terms;
            o.exact_degrees = exact;
            assert_exact(&o, (unsigned)terms);
            o.compute = TSA_COMPUTE_MIXED;
            assert_exact(&o, exact < terms ? exact : (unsigned)terms);
        }
    /* a state that keeps sums in pairs is larger; one that keeps none is as that of f32 */
    size_t bytes[3];
    for (unsigned j = 0; j < 3; j++) {
        usual_options(&o);
        o.compute = j == 0 ? TSA_COMPUTE_EXACT : TSA_COMPUTE_MIXED;
        o.exact_degrees = j == 1 ? 3 : 2;
        plan = make_plan(&o);
        bytes[j] = tsa_state_bytes(plan);
        tsa_plan_destroy(plan);
    }
    ck_assert_uint_eq(bytes[1], bytes[0]);
    ck_assert_uint_gt(bytes[2], bytes[0]);
    /* chunks that the library chooses are even, also when they are to hold a sequence */
    for (size_t n = 100; n < 120; n++) {
        usual_options(&o);
        o.compute = TSA_COMPUTE_MIXED;
        o.max_tokens = n;
        assert_exact(&o, 2);
    }
}
END_TEST

/* The fastest is f32 where mixed cannot be, or would be emulated; and never anything else. */
START_TEST(fastest)
{
    struct tsa_options o;
    struct tsa_plan *plan;
    const char *isa;
    for (size_t i = 0; (isa = usable_isa(i)) != NULL; i++)
        for (int j = 0; j < 3; j++) {
            usual_options(&o);
            o.compute = TSA_COMPUTE_FASTEST;
            o.isa = isa;
            o.dtype = j == 1 ? TSA_F64 : TSA_F32;
            o.chunk = j == 2 ? 63 : 0;
            plan = make_plan(&o);
            const enum tsa_compute got = tsa_plan_compute(plan);
            ck_assert(got == TSA_COMPUTE_EXACT || got == TSA_COMPUTE_MIXED);
            if (j > 0 || strcmp(isa, "scalar") == 0)
                ck_assert_int_eq(got, TSA_COMPUTE_EXACT);
            ck_assert_uint_eq(tsa_plan_exact_degrees(plan), got == TSA_COMPUTE_EXACT ? 3 : 2);
            tsa_plan_destroy(plan);
        }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("mixed");
    const int first = contract_first_mixed();
    tcase_add_loop_test(add_case(suite, "tables"), tables, first, contract_first_gated());
    tcase_add_test(add_case(suite, "host"), host);
    TCase *truth = add_case(suite, "truth");
    tcase_add_loop_test(truth, constants, 0, 4);
    tcase_add_loop_test(truth, threes, 0, 3);
    tcase_add_loop_test(truth, definition, 0, 9);
    tcase_add_test(truth, usual_accuracy);
    TCase *choices = add_case(suite, "options");
    tcase_add_test(choices, refused);
    tcase_add_test(choices, options);
    tcase_add_test(choices, fastest);
    return run_suite(suite);
}
