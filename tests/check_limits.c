/* SPDX-License-Identifier: MIT */
/* At the edges: of the range of numbers, of what a size_t counts, of memory that is handed in. */
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "measure.h"
#include "support.h"

#define D 2
#define V 3

static enum tsa_dtype dtype_of(int index)
{
    return index % 2 == 0 ? TSA_F32 : TSA_F64;
}

static double largest_of(enum tsa_dtype dtype)
{
    return dtype == TSA_F32 ? (double)FLT_MAX : DBL_MAX;
}

/* One head, rows as they are. */
static void bare_options(struct tsa_options *o, enum tsa_dtype dtype, size_t terms, size_t chunk)
{
    ck_assert_int_eq(tsa_options_init(o, sizeof *o), TSA_OK);
    o->head_dim = D, o->value_dim = V;
    o->terms = terms, o->chunk = chunk;
    o->dtype = dtype;
    o->normalize = TSA_NORMALIZE_NONE;
    o->threads = 1;
}

/* Any number of equal rows, each element x; the one row is in `room`. */
static struct tsa_tensor equal_rows(double room[V], enum tsa_dtype dtype, double x)
{
    for (size_t c = 0; c < V; c++)
        put(room, dtype, c, x);
    return (struct tsa_tensor){.data = room, .dtype = dtype};
}

struct rows {
    double room[3][V];
    struct tsa_tensor q, k, v;
};
static void rows_make(struct rows *r, enum tsa_dtype dtype, double q, double k, double v)
{
    r->q = equal_rows(r->room[0], dtype, q);
    r->k = equal_rows(r->room[1], dtype, k);
    r->v = equal_rows(r->room[2], dtype, v);
}

/* -- values ------------------------------------------------------------------------------------ */

/* Degree 0 sums the values themselves, which small keys do not make smaller. */
START_TEST(small_keys)
{
    enum { TOKENS = 200, CHUNK = 64 };
    const enum tsa_dtype dtype = dtype_of(_i);
    const double largest = largest_of(dtype);
    for (size_t terms = 1; terms <= TSA_MAX_TERMS; terms++) {
        struct tsa_options options;
        struct tsa_error err;
        struct rows r;
        bare_options(&options, dtype, terms, CHUNK);
        struct tsa_plan *plan = make_plan(&options);
        struct tsa_state **st = states_make(plan, 1);
        void *out = make_zeros(TOKENS * V, dtype);
        const struct tsa_tensor o = dense(out, dtype, 1, TOKENS, V);
        rows_make(&r, dtype, 0.05, 0.05, 0.88 * largest);
        for (int i = 0; i < 3; i++) {
            const enum tsa_status status =
                i == 0   ? tsa_prefill(plan,
                                       BATCH(.states = st, .count = 1, .tokens = TOKENS, .q = r.q,
                                             .k = r.k, .v = r.v, .o = o),
                                       NULL, &err)
                : i == 1 ? tsa_decode(plan,
                                      BATCH(.states = st, .count = 1, .q = r.q, .k = r.k, .v = r.v,
                                            .o = o),
                                      NULL, &err)
                         : tsa_absorb(plan,
                                      BATCH(.states = st, .count = 1, .tokens = TOKENS, .k = r.k,
                                            .v = r.v),
                                      NULL, &err);
            ck_assert_int_eq(status, TSA_EOVERFLOW);
            ck_assert_str_eq(err.argument, "v");
            ck_assert_int_eq(err.token, 0);
            ck_assert_uint_eq(tsa_state_tokens(st[0], 0), 0);
        }
        rows_make(&r, dtype, 0.05, 0.05, 0.99 * largest / 4 / CHUNK);
        ok(tsa_prefill(plan,
                       BATCH(.states = st, .count = 1, .tokens = TOKENS, .q = r.q, .k = r.k,
                             .v = r.v, .o = o),
                       NULL, &err),
           &err);
        for (size_t i = 0; i < TOKENS * V; i++)
            CHECK(isfinite(get(out, dtype, i)), "%zu terms: output %zu is not finite", terms, i);
        free(out);
        states_free(st, 1);
        tsa_plan_destroy(plan);
    }
}
END_TEST

/* All `count` numbers are the canonical quiet NaN. */
static void assert_canonical(const void *data, enum tsa_dtype dtype, size_t count, const char *what)
{
    static const float f32 = NAN;
    static const double f64 = NAN;
    for (size_t i = 0; i < count; i++)
        if (dtype == TSA_F32)
            assert_bits((const float *)data + i, &f32, dtype, 1, what);
        else
            assert_bits((const double *)data + i, &f64, dtype, 1, what);
}

/* Keys and queries are judged apart, so their product may still overflow: NaN then, in the outputs
 * and not in the state. */
START_TEST(large_products)
{
    enum { TOKENS = 10, CHUNK = 4 };
    const enum tsa_dtype dtype = dtype_of(_i);
    const double large = dtype == TSA_F32 ? 1e13 : 1e100;
    const char *isa;
    for (size_t i = 0; (isa = usable_isa(i)) != NULL; i++) {
        struct tsa_options options;
        struct tsa_error err;
        struct rows r, small;
        bare_options(&options, dtype, 3, CHUNK);
        options.isa = isa;
        struct tsa_plan *plan = make_plan(&options);
        struct tsa_state **st = states_make(plan, 1);
        void *out = make_zeros(TOKENS * V, dtype);
        const struct tsa_tensor o = dense(out, dtype, 1, TOKENS, V);
        rows_make(&r, dtype, large, large, 1);
        rows_make(&small, dtype, 1 / large, 1 / large, 1);
        ok(tsa_prefill(plan,
                       BATCH(.states = st, .count = 1, .tokens = TOKENS, .q = r.q, .k = r.k,
                             .v = r.v, .o = o),
                       NULL, &err),
           &err);
        assert_canonical(out, dtype, TOKENS * V, "prefill");
        ok(tsa_decode(plan, BATCH(.states = st, .count = 1, .q = r.q, .k = r.k, .v = r.v, .o = o),
                      NULL, &err),
           &err);
        assert_canonical(out, dtype, V, "decode");
        ok(tsa_query(plan, BATCH(.states = st, .count = 1, .tokens = 1, .q = r.q, .o = o), NULL,
                     &err),
           &err);
        assert_canonical(out, dtype, V, "query, window");
        ok(tsa_absorb(plan, BATCH(.states = st, .count = 1, .tokens = 1, .k = r.k, .v = r.v), NULL,
                      &err),
           &err);
        ck_assert_uint_eq(tsa_state_window(st[0], 0), 0);
        ok(tsa_query(plan, BATCH(.states = st, .count = 1, .tokens = 1, .q = r.q, .o = o), NULL,
                     &err),
           &err);
        assert_canonical(out, dtype, V, "query, sums");
        size_t count;
        double *sums = export_all(plan, st[0], 0, &count);
        for (size_t j = 0; j < count; j++)
            CHECK(isfinite(sums[j]), "sum %zu is not finite", j);
        ok(tsa_query(plan, BATCH(.states = st, .count = 1, .tokens = 1, .q = small.q, .o = o), NULL,
                     &err),
           &err);
        for (size_t c = 0; c < V; c++)
            CHECK(get(out, dtype, c) == 1, "column %zu is not 1", c);
        free(sums);
        free(out);
        states_free(st, 1);
        tsa_plan_destroy(plan);
    }
}
END_TEST

/* A chunk's sums are bounded, those of a state are not: tokens at the limit overflow it in time. */
START_TEST(large_sums)
{
    enum { TOKENS = 40, CHUNK = 4 };
    const enum tsa_dtype dtype = dtype_of(_i);
    struct tsa_options options;
    struct tsa_error err;
    struct rows r;
    bare_options(&options, dtype, 3, CHUNK);
    struct tsa_plan *plan = make_plan(&options);
    struct tsa_state **st = states_make(plan, 1);
    void *out = make_zeros(TOKENS * V, dtype);
    const struct tsa_tensor o = dense(out, dtype, 1, TOKENS, V);
    rows_make(&r, dtype, 0.5, 1, 0.99 * largest_of(dtype) / 4 / CHUNK);
    ok(tsa_prefill(
           plan,
           BATCH(.states = st, .count = 1, .tokens = TOKENS, .q = r.q, .k = r.k, .v = r.v, .o = o),
           NULL, &err),
       &err);
    for (size_t c = 0; c < V; c++)
        CHECK(isfinite(get(out, dtype, c)), "column %zu of the first token", c);
    assert_canonical((char *)out + (TOKENS - 1) * V * dtype_size(dtype), dtype, V, "last token");
    free(out);
    states_free(st, 1);
    tsa_plan_destroy(plan);
}
END_TEST

/* What a double holds and a float does not is called by its name. */
START_TEST(beyond_f32)
{
    const enum tsa_normalize normalize = _i == 0 ? TSA_NORMALIZE_L2 : TSA_NORMALIZE_NONE;
    struct tsa_options options;
    struct tsa_error err;
    struct rows r;
    bare_options(&options, TSA_F32, 3, 4);
    options.normalize = normalize;
    struct tsa_plan *plan = make_plan(&options);
    struct tsa_state **st = states_make(plan, 1);
    float out[V];
    const struct tsa_tensor o = dense(out, TSA_F32, 1, 1, V);
    struct tsa_tensor *const tensor[] = {&r.q, &r.k, &r.v};
    static const char *const name[] = {"q", "k", "v"};
    for (int j = 0; j < 3; j++) {
        const struct {
            double x;
            const char *text;
        } bad[] = {
            {-1e300, "outside the range of f32 (-1e+300)"},
            {0x1p128, "outside the range of f32 (3.40282e+38)"},
            {INFINITY, "not finite (inf)"},
        };
        for (int i = 0; i < 3; i++) {
            rows_make(&r, TSA_F64, 1, 1, 1);
            put(tensor[j]->data, TSA_F64, 1, bad[i].x);
            ck_assert_int_eq(
                tsa_decode(plan,
                           BATCH(.states = st, .count = 1, .q = r.q, .k = r.k, .v = r.v, .o = o),
                           NULL, &err),
                TSA_ENONFINITE);
            ck_assert_str_eq(err.argument, name[j]);
            ck_assert_int_eq(err.column, 1);
            ck_assert_msg(strstr(err.text, bad[i].text) != NULL, "\"%s\"", err.text);
            ck_assert_msg(strlen(err.text) < 120, "\"%s\"", err.text);
        }
    }
    states_free(st, 1);
    tsa_plan_destroy(plan);
}
END_TEST

/* -- nothing to do ----------------------------------------------------------------------------- */

/* Without work tsa_softmax looks at its arguments as the other calls do: as far as sizes allow. */
START_TEST(nothing_to_do)
{
    struct tsa_options options;
    struct tsa_error err;
    struct rows r;
    bare_options(&options, TSA_F32, 3, 4);
    struct tsa_plan *plan = make_plan(&options);
    float out[V];
    rows_make(&r, TSA_F32, 1, 1, 1);
    const struct tsa_tensor o = {.data = out, .dtype = TSA_F32};
    const struct tsa_tensor nothing = {.dtype = TSA_F32}, unknown = {.data = out, .dtype = 77};
    const struct tsa_tensor untyped = {.data = out};
    for (int i = 0; i < 4; i++) {
        const size_t batch = i == 0 ? 0 : 1, queries = i == 0 ? 2 : 0, keys = i == 2 ? 0 : 2;
        const int causal = i != 3;
#define SOFTMAX(q, k, v, o, ws)                                                                    \
    tsa_softmax(plan, batch, queries, keys, causal, q, k, v, o, ws, &err)
        ok(SOFTMAX(&r.q, &r.k, &r.v, &o, NULL), &err);
        const struct tsa_tensor *const bad[] = {NULL, &unknown, &untyped};
        for (int j = 0; j < 3; j++) {
            const struct tsa_tensor *x = bad[j];
            ck_assert_int_eq(SOFTMAX(x, &r.k, &r.v, &o, NULL), TSA_EINVAL);
            ck_assert_str_eq(err.argument, "q");
            ck_assert_int_eq(SOFTMAX(&r.q, x, &r.v, &o, NULL), TSA_EINVAL);
            ck_assert_str_eq(err.argument, "k");
            ck_assert_int_eq(SOFTMAX(&r.q, &r.k, x, &o, NULL), TSA_EINVAL);
            ck_assert_str_eq(err.argument, "v");
            ck_assert_int_eq(SOFTMAX(&r.q, &r.k, &r.v, x, NULL), TSA_EINVAL);
            ck_assert_str_eq(err.argument, "o");
        }
        /* rows that there are none of need no data; two keys do */
        ok(SOFTMAX(&nothing, &r.k, &r.v, &nothing, NULL), &err);
        const bool none = batch == 0 || keys == 0;
        ck_assert_int_eq(SOFTMAX(&r.q, &r.k, &nothing, &o, NULL), none ? TSA_OK : TSA_EINVAL);
        ck_assert_str_eq(err.argument, none ? "" : "v");
        void *fake = aligned_alloc(64, 64);
        memset(fake, 0x33, 64);
        ck_assert_int_eq(SOFTMAX(&r.q, &r.k, &r.v, &o, fake), TSA_EINVAL);
        ck_assert_str_eq(err.argument, "ws");
        free(fake);
#undef SOFTMAX
    }
    tsa_plan_destroy(plan);
}
END_TEST

/* -- plans ------------------------------------------------------------------------------------- */

/* A plan too large to count is refused with its bytes, whichever of its arrays is to blame. */
START_TEST(large_plans)
{
    static const struct {
        size_t head_dim, heads;
        int per_head;
        const char *text; /* where size_t has 64 bits */
    } cases[] = {
        {D, SIZE_MAX, 0, "2.21e+20 bytes"},
        {300, SIZE_MAX / 65536 + 1, 1, "5.12e+19 bytes"},
    };
    double one[] = {1, 1, 1};
    for (int i = 0; i < 2; i++) {
        struct tsa_options options;
        struct tsa_error err;
        struct tsa_plan *plan;
        bare_options(&options, TSA_F32, 3, 4);
        options.head_dim = cases[i].head_dim;
        options.heads = cases[i].heads, options.kv_heads = 1;
        options.coefficients = cases[i].per_head ? one : NULL; /* not read: nothing is made */
        options.coefficients_per_head = cases[i].per_head;
        ck_assert_int_eq(tsa_plan_create(&options, &plan, &err), TSA_EOVERFLOW);
        ck_assert_ptr_null(plan);
        ck_assert_str_eq(err.argument, "heads");
        ck_assert_msg(strstr(err.text, sizeof(size_t) == 8 ? cases[i].text : " bytes") != NULL,
                      "\"%s\"", err.text);
        ck_assert_msg(strstr(err.text, "heads") != NULL, "\"%s\"", err.text);
        ck_assert_msg(strlen(err.text) < sizeof err.text - 1, "\"%s\" is cut", err.text);
    }
}
END_TEST

/* What is measured is what is made, and costs nothing where making would. */
START_TEST(measured)
{
    static const size_t shape[][5] = {
        /* d, dv, terms, kv_heads, chunk */
        {1, 1, 1, 1, 0},   {3, 5, 8, 2, 0},     {16, 64, 3, 8, 0}, {16, 64, 3, 1, 100},
        {64, 64, 4, 1, 0}, {128, 128, 3, 1, 0}, {128, 1, 2, 3, 1},
    };
    struct tsa_options o;
    struct tsa_error err;
    struct tsa_measure measure;
    for (size_t i = 0; i < sizeof shape / sizeof *shape; i++) {
        bare_options(&o, dtype_of(_i), shape[i][2], shape[i][4]);
        o.head_dim = shape[i][0], o.value_dim = shape[i][1];
        o.kv_heads = shape[i][3], o.heads = 2 * o.kv_heads;
        o.layers = 1 + i % 3;
        struct tsa_plan *plan = make_plan(&o);
        ok(tsa_plan_measure(&o, &measure, &err), &err);
        ck_assert_uint_eq(measure.chunk, tsa_plan_chunk(plan));
        ck_assert_uint_eq(measure.state_bytes, tsa_state_bytes(plan));
        tsa_plan_destroy(plan);
    }
    o.terms = 9;
    ck_assert_int_eq(tsa_plan_measure(&o, &measure, &err), TSA_EINVAL);
    ck_assert_str_eq(err.argument, "terms");
    o.terms = 8, o.head_dim = SIZE_MAX;
    ck_assert_int_eq(tsa_plan_measure(&o, &measure, &err), TSA_EOVERFLOW);
    ck_assert_ptr_nonnull(strstr(err.text, " bytes"));
}
END_TEST

/* -- workspaces -------------------------------------------------------------------------------- */

static struct tsa_workspace *workspace_of(enum tsa_dtype dtype, size_t head_dim, size_t value_dim,
                                          size_t terms, size_t chunk)
{
    struct tsa_options options;
    struct tsa_error err;
    struct tsa_workspace *ws;
    bare_options(&options, dtype, terms, chunk);
    options.head_dim = head_dim, options.value_dim = value_dim;
    struct tsa_plan *plan = make_plan(&options);
    ok(tsa_workspace_create(plan, 1, &ws, &err), &err);
    tsa_plan_destroy(plan);
    return ws;
}

/* src merges into dst in ws, or both calls that take ws say why not and nothing changes. */
static void refuse_workspace(const struct tsa_plan *plan, struct tsa_state **st,
                             const struct tsa_tensor *k, const struct tsa_tensor *v,
                             struct tsa_workspace *ws, const char *text)
{
    const size_t bytes = tsa_state_bytes(plan);
    struct tsa_error err;
    char *before = malloc(2 * bytes);
    memcpy(before, st[0], bytes);
    memcpy(before + bytes, st[1], bytes);
    for (int i = 0; i < 3; i++) {
        const enum tsa_status status =
            i == 0
                ? tsa_absorb(plan, BATCH(.states = st, .count = 1, .tokens = 1, .k = *k, .v = *v),
                             ws, &err)
            : i == 1 ? tsa_state_merge(plan, st[0], st[1], ws, &err)
                     : tsa_state_merge(plan, st[1], st[0], ws, &err);
        ck_assert_int_eq(status, TSA_EINVAL);
        ck_assert_int_eq(err.status, TSA_EINVAL);
        ck_assert_str_eq(err.argument, "ws");
        ck_assert_str_eq(err.text, text);
    }
    ck_assert_mem_eq(before, st[0], bytes);
    ck_assert_mem_eq(before + bytes, st[1], bytes);
    free(before);
}

/* Merging asks of a workspace what the calls ask, whether or not it needs scratch. */
START_TEST(merge_workspace)
{
    static const char too_small[] = "the workspace was made for a plan that needs less scratch";
    const enum tsa_dtype dtype = dtype_of(_i), other = dtype_of(_i + 1);
    struct tsa_options options;
    struct tsa_error err;
    struct rows r;
    bare_options(&options, dtype, 3, 64);
    struct tsa_plan *plan = make_plan(&options);
    struct tsa_state **st = states_make(plan, 2);
    rows_make(&r, dtype, 1, 1, 1);
    for (int round = 0; round < 2; round++) { /* with st[1] empty, then with both windows open */
        void *fake = aligned_alloc(64, 64);
        memset(fake, 0x33, 64);
        refuse_workspace(plan, st, &r.k, &r.v, fake, "ws is not a workspace");
        free(fake);
        struct tsa_workspace *ws = workspace_of(dtype, 1, 1, 1, 1);
        refuse_workspace(plan, st, &r.k, &r.v, ws, too_small);
        tsa_workspace_destroy(ws);
        ws = workspace_of(other, D, V, 3, 64);
        refuse_workspace(plan, st, &r.k, &r.v, ws, too_small);
        tsa_workspace_destroy(ws);
        ws = workspace_of(dtype, D, V, 3, 64);
        ok(tsa_absorb(plan, BATCH(.states = st, .count = 1, .tokens = 5, .k = r.k, .v = r.v), ws,
                      &err),
           &err);
        ok(tsa_state_merge(plan, st[1], st[0], ws, &err), &err);
        ok(tsa_state_merge(plan, st[0], st[1], ws, &err), &err);
        tsa_workspace_destroy(ws);
    }
    states_free(st, 2);
    tsa_plan_destroy(plan);
}
END_TEST

/* After a failure there is no pointer to a workspace, as there is none to a plan or a state. */
START_TEST(no_workspace)
{
    struct tsa_workspace *const dangling = (struct tsa_workspace *)(uintptr_t)64;
    struct tsa_options options;
    struct tsa_error err;
    bare_options(&options, TSA_F32, 3, 4);
    struct tsa_plan *plan = make_plan(&options);
    const size_t bytes = tsa_workspace_bytes(plan, 1);
    char *memory = aligned_alloc(64, bytes / 64 * 64 + 128);
    const struct {
        const struct tsa_plan *plan;
        int threads;
        char *memory;
        size_t bytes;
        enum tsa_status status;
        const char *argument;
    } bad[] = {
        {NULL, 1, memory, bytes, TSA_EINVAL, "plan"},
        {plan, -1, memory, bytes, TSA_EINVAL, "threads"},
        {plan, TSA_MAX_THREADS + 1, memory, bytes, TSA_EINVAL, "threads"},
        {plan, 1, NULL, bytes, TSA_EINVAL, "memory"},
        {plan, 1, memory + 8, bytes, TSA_EINVAL, "memory"},
        {plan, 1, memory, bytes - 1, TSA_ENOMEM, "bytes"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct tsa_workspace *ws = dangling;
        ck_assert_int_eq(
            tsa_workspace_init(bad[i].plan, bad[i].threads, bad[i].memory, bad[i].bytes, &ws, &err),
            bad[i].status);
        ck_assert_str_eq(err.argument, bad[i].argument);
        ck_assert_ptr_null(ws);
        if (i < 3) {
            ws = dangling;
            ck_assert_int_eq(tsa_workspace_create(bad[i].plan, bad[i].threads, &ws, &err),
                             bad[i].status);
            ck_assert_str_eq(err.argument, bad[i].argument);
            ck_assert_ptr_null(ws);
        }
    }
    ck_assert_int_eq(tsa_workspace_create(NULL, 1, NULL, &err), TSA_EINVAL);
    ck_assert_int_eq(tsa_workspace_init(NULL, 1, memory, bytes, NULL, &err), TSA_EINVAL);
    free(memory);
    tsa_plan_destroy(plan);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("limits");
    TCase *values = add_case(suite, "values");
    tcase_add_loop_test(values, small_keys, 0, 2);
    tcase_add_loop_test(values, large_products, 0, 2);
    tcase_add_loop_test(values, large_sums, 0, 2);
    tcase_add_loop_test(values, beyond_f32, 0, 2);
    tcase_add_test(add_case(suite, "nothing"), nothing_to_do);
    TCase *plans = add_case(suite, "plans");
    tcase_add_test(plans, large_plans);
    tcase_add_loop_test(plans, measured, 0, 2);
    TCase *workspaces = add_case(suite, "workspaces");
    tcase_add_loop_test(workspaces, merge_workspace, 0, 2);
    tcase_add_test(workspaces, no_workspace);
    return run_suite(suite);
}
