/* SPDX-License-Identifier: MIT */
/* Every way for a call to be refused: status, argument, text and place of the error, and nothing
 * changed. All statuses are reached here or in check_options.c but TSA_EIO, which is reserved for
 * state files. */
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support.h"

#define B 2
#define H 4
#define G 2
#define N 20
#define D 3
#define V 5

/* A plan, two states in the middle of a window, tensors, and copies of all that may not change. */
struct desk {
    struct problem p;
    struct tsa_plan *plan;
    struct tsa_state *states[B];
    struct tsa_tensor q, k, v, o;
    void *out, *out_before;
    char *states_before;
    struct tsa_error err;
};

static void desk_begin(struct desk *s, enum tsa_dtype dtype, enum tsa_normalize normalize)
{
    const struct shape shape = {D, V, 3, 8, H, G, B, N, dtype, normalize, COEF_TAYLOR, TEMP_TWO};
    struct tsa_options options;
    problem_make(&s->p, &shape, 200);
    problem_options(&s->p, &options);
    options.layers = 2;
    s->plan = make_plan(&options);
    s->q = s->p.q, s->k = s->p.k, s->v = s->p.v;
    s->out = make_zeros(2 * s->p.o_count, dtype);
    s->out_before = make_zeros(2 * s->p.o_count, dtype);
    memset(s->out, 0xff, 2 * s->p.o_count * dtype_size(dtype));
    memcpy(s->out_before, s->out, 2 * s->p.o_count * dtype_size(dtype));
    s->o = dense(s->out, dtype, H, N, V);
    const size_t bytes = tsa_state_bytes(s->plan);
    s->states_before = malloc(B * bytes);
    for (size_t b = 0; b < B; b++)
        ok(tsa_state_create(s->plan, &s->states[b], &s->err), &s->err);
    ok(tsa_absorb(s->plan,
                  BATCH(.states = s->states, .count = B, .tokens = 13, .k = s->k, .v = s->v), NULL,
                  &s->err),
       &s->err);
    for (size_t b = 0; b < B; b++)
        memcpy(s->states_before + b * bytes, s->states[b], bytes);
}

static void desk_end(struct desk *s)
{
    for (size_t b = 0; b < B; b++)
        tsa_state_destroy(s->states[b]);
    free(s->states_before);
    free(s->out);
    free(s->out_before);
    tsa_plan_destroy(s->plan);
    problem_free(&s->p);
}

static void assert_untouched(const struct desk *s)
{
    const size_t bytes = tsa_state_bytes(s->plan);
    for (size_t b = 0; b < B; b++)
        ck_assert_mem_eq(s->states_before + b * bytes, s->states[b], bytes);
    ck_assert_mem_eq(s->out, s->out_before, 2 * s->p.o_count * dtype_size(s->p.shape.dtype));
}

#define REFUSED(s, call, want, argument)                                                           \
    do {                                                                                           \
        memset(&(s)->err, 0x5a, sizeof(s)->err);                                                   \
        const enum tsa_status got_ = (call);                                                       \
        assert_error(&(s)->err, got_, want, argument);                                             \
        assert_untouched(s);                                                                       \
    } while (0)

/* -- calls ------------------------------------------------------------------------------------- */

/* Every call that takes the tensor with the given letter. */
static void refuse_tensor(struct desk *s, char letter, enum tsa_status want, const char *name)
{
    struct tsa_error *e = &s->err;
    const struct tsa_plan *p = s->plan;
    REFUSED(s,
            tsa_prefill(p,
                        BATCH(.states = s->states, .count = B, .tokens = 9, .q = s->q, .k = s->k,
                              .v = s->v, .o = s->o),
                        NULL, e),
            want, name);
    if (letter == 'q' || letter == 'o')
        REFUSED(s,
                tsa_query(p,
                          BATCH(.states = s->states, .count = B, .tokens = 9, .q = s->q, .o = s->o),
                          NULL, e),
                want, name);
    else
        REFUSED(
            s,
            tsa_absorb(p, BATCH(.states = s->states, .count = B, .tokens = 9, .k = s->k, .v = s->v),
                       NULL, e),
            want, name);
    REFUSED(s, tsa_softmax(p, B, 9, 9, 1, &s->q, &s->k, &s->v, &s->o, NULL, e), want, name);
}

START_TEST(tensors)
{
    static const char *const name[] = {"q", "k", "v", "o"};
    struct desk s;
    desk_begin(&s, _i == 0 ? TSA_F32 : TSA_F64, TSA_NORMALIZE_L2);
    struct tsa_tensor *const tensor[] = {&s.q, &s.k, &s.v, &s.o};
    for (int j = 0; j < 4; j++) {
        const struct tsa_tensor good = *tensor[j];
        tensor[j]->data = NULL;
        refuse_tensor(&s, name[j][0], TSA_EINVAL, name[j]);
        *tensor[j] = good;
        tensor[j]->dtype = 77;
        refuse_tensor(&s, name[j][0], TSA_EINVAL, name[j]);
        tensor[j]->dtype = 0;
        refuse_tensor(&s, name[j][0], TSA_EINVAL, name[j]);
        *tensor[j] = good;
        tensor[j]->token = PTRDIFF_MAX / 2; /* the ninth token lies nowhere */
        refuse_tensor(&s, name[j][0], TSA_EINVAL, name[j]);
        tensor[j]->token = PTRDIFF_MIN;
        refuse_tensor(&s, name[j][0], TSA_EINVAL, name[j]);
        *tensor[j] = good;
        tensor[j]->reserved[1] = 1;
        refuse_tensor(&s, name[j][0], TSA_EINVAL, name[j]);
        *tensor[j] = good;
    }
    const struct tsa_tensor good = s.o; /* rows of an output that meet, in every dimension */
    s.o.token = V - 1;
    refuse_tensor(&s, 'o', TSA_EINVAL, "o");
    s.o.token = 0;
    refuse_tensor(&s, 'o', TSA_EINVAL, "o");
    s.o = good;
    s.o.head = 0;
    refuse_tensor(&s, 'o', TSA_EINVAL, "o");
    s.o.head = V * 8;
    refuse_tensor(&s, 'o', TSA_EINVAL, "o");
    s.o = good;
    s.o.batch = 0;
    refuse_tensor(&s, 'o', TSA_EINVAL, "o");
    s.o.batch = H * N * V / 2;
    refuse_tensor(&s, 'o', TSA_EINVAL, "o");
    s.o.batch = -V;
    refuse_tensor(&s, 'o', TSA_EINVAL, "o");
    s.o = good;
    const struct tsa_tensor v = s.v; /* an output on top of an input */
    s.v = s.o;
    REFUSED(&s,
            tsa_prefill(s.plan,
                        BATCH(.states = s.states, .count = B, .tokens = 9, .q = s.q, .k = s.k,
                              .v = s.v, .o = s.o),
                        NULL, &s.err),
            TSA_EINVAL, "o");
    s.v = v;
    struct tsa_error *e = &s.err;
    const struct tsa_plan *p = s.plan;
    REFUSED(&s,
            tsa_prefill(
                p, BATCH(.states = s.states, .count = B, .tokens = 9, .k = s.k, .v = s.v, .o = s.o),
                NULL, e),
            TSA_EINVAL, "q");
    REFUSED(&s,
            tsa_prefill(
                p, BATCH(.states = s.states, .count = B, .tokens = 9, .q = s.q, .v = s.v, .o = s.o),
                NULL, e),
            TSA_EINVAL, "k");
    REFUSED(
        &s,
        tsa_decode(p, BATCH(.states = s.states, .count = B, .q = s.q, .k = s.k, .o = s.o), NULL, e),
        TSA_EINVAL, "v");
    REFUSED(&s, tsa_query(p, BATCH(.states = s.states, .count = B, .tokens = 9, .q = s.q), NULL, e),
            TSA_EINVAL, "o");
    desk_end(&s);
}
END_TEST

static void refuse_state_arguments(struct desk *s)
{
    struct tsa_error *e = &s->err;
    const struct tsa_plan *p = s->plan;
    struct tsa_state *const *st = s->states;
    struct tsa_view view;
    double out[6 * (V + 1)];
    int equal;
    REFUSED(s, tsa_state_merge(p, NULL, st[0], NULL, e), TSA_EINVAL, "dst");
    REFUSED(s, tsa_state_merge(p, st[0], NULL, NULL, e), TSA_EINVAL, "src");
    REFUSED(s, tsa_state_copy(p, NULL, st[0], e), TSA_EINVAL, "dst");
    REFUSED(s, tsa_state_copy(p, st[0], NULL, e), TSA_EINVAL, "src");
    REFUSED(s, tsa_state_reset(p, NULL, e), TSA_EINVAL, "state");
    REFUSED(s, tsa_state_reset(NULL, st[0], e), TSA_EINVAL, "plan");
    REFUSED(s, tsa_state_equal(p, NULL, st[0], &equal, e), TSA_EINVAL, "a");
    REFUSED(s, tsa_state_equal(p, st[0], NULL, &equal, e), TSA_EINVAL, "b");
    REFUSED(s, tsa_state_equal(p, st[0], st[1], NULL, e), TSA_EINVAL, "equal");
    REFUSED(s, tsa_state_view(p, st[0], 2, 0, &view, e), TSA_EINVAL, "layer");
    REFUSED(s, tsa_state_view(p, st[0], 0, G, &view, e), TSA_EINVAL, "kv_head");
    REFUSED(s, tsa_state_view(p, st[0], 0, 0, NULL, e), TSA_EINVAL, "view");
    REFUSED(s, tsa_state_export(p, st[0], 0, 0, 3, TSA_BASIS_PLAIN, out, V + 1, e), TSA_EINVAL,
            "degree");
    REFUSED(s, tsa_state_export(p, st[0], 0, 0, 2, 9, out, V + 1, e), TSA_EINVAL, "basis");
    REFUSED(s, tsa_state_export(p, st[0], 0, 0, 2, TSA_BASIS_PLAIN, NULL, V + 1, e), TSA_EINVAL,
            "out");
    REFUSED(s, tsa_state_export(p, st[0], 0, 0, 2, TSA_BASIS_PLAIN, out, V, e), TSA_EINVAL,
            "stride");
}

static void refuse_workspace_arguments(struct desk *s)
{
    struct tsa_error *e = &s->err;
    const struct tsa_plan *p = s->plan;
    struct tsa_workspace *ws = NULL;
    REFUSED(s, tsa_workspace_create(NULL, 1, &ws, e), TSA_EINVAL, "plan");
    REFUSED(s, tsa_workspace_create(p, -1, &ws, e), TSA_EINVAL, "threads");
    REFUSED(s, tsa_workspace_create(p, 1, NULL, e), TSA_EINVAL, "ws");
    const size_t bytes = tsa_workspace_bytes(p, 1);
    char *memory = aligned_alloc(64, (bytes + 127) / 64 * 64);
    REFUSED(s, tsa_workspace_init(p, 1, NULL, bytes, &ws, e), TSA_EINVAL, "memory");
    REFUSED(s, tsa_workspace_init(p, 1, memory + 8, bytes, &ws, e), TSA_EINVAL, "memory");
    REFUSED(s, tsa_workspace_init(p, 1, memory, bytes - 1, &ws, e), TSA_ENOMEM, "bytes");
    free(memory);
}

START_TEST(arguments)
{
    struct desk s;
    desk_begin(&s, _i == 0 ? TSA_F32 : TSA_F64, TSA_NORMALIZE_L2);
    struct tsa_error *e = &s.err;
    const struct tsa_plan *p = s.plan;
    struct tsa_state *const *st = s.states;
    struct tsa_state *twice[B] = {st[1], st[1]}, *none[B] = {st[0], NULL};
    REFUSED(&s,
            tsa_prefill(NULL,
                        BATCH(.states = st, .count = B, .tokens = 9, .q = s.q, .k = s.k, .v = s.v,
                              .o = s.o),
                        NULL, e),
            TSA_EINVAL, "plan");
    REFUSED(&s,
            tsa_prefill(p, BATCH(.count = B, .tokens = 9, .q = s.q, .k = s.k, .v = s.v, .o = s.o),
                        NULL, e),
            TSA_EINVAL, "states");
    REFUSED(&s,
            tsa_prefill(p,
                        BATCH(.states = none, .count = B, .tokens = 9, .q = s.q, .k = s.k, .v = s.v,
                              .o = s.o),
                        NULL, e),
            TSA_EINVAL, "states");
    ck_assert_int_eq(e->sequence, 1);
    REFUSED(&s,
            tsa_prefill(p,
                        BATCH(.states = twice, .count = B, .tokens = 9, .q = s.q, .k = s.k,
                              .v = s.v, .o = s.o),
                        NULL, e),
            TSA_EINVAL, "states");
    ck_assert_int_ge(e->sequence, 0); /* one of the two */
    REFUSED(&s,
            tsa_decode(p,
                       BATCH(.states = twice, .count = B, .q = s.q, .k = s.k, .v = s.v, .o = s.o),
                       NULL, e),
            TSA_EINVAL, "states");
    REFUSED(
        &s,
        tsa_absorb(p, BATCH(.states = twice, .count = B, .tokens = 2, .k = s.k, .v = s.v), NULL, e),
        TSA_EINVAL, "states");
    REFUSED(&s,
            tsa_prefill(p,
                        BATCH(.states = st, .count = B, .layer = 2, .tokens = 9, .q = s.q, .k = s.k,
                              .v = s.v, .o = s.o),
                        NULL, e),
            TSA_EINVAL, "layer");
    REFUSED(&s,
            tsa_query(
                p,
                BATCH(.states = s.states, .count = B, .layer = 7, .tokens = 9, .q = s.q, .o = s.o),
                NULL, e),
            TSA_EINVAL, "layer");
    REFUSED(&s,
            tsa_query(
                p,
                BATCH(.states = s.states, .count = B, .layer = 1, .tokens = 9, .q = s.q, .o = s.o),
                NULL, e),
            TSA_EINVAL, "states"); /* layer 1 is empty */
    ck_assert_int_eq(e->sequence, 0);
    ck_assert_int_eq(tsa_prefill(p,
                                 BATCH(.states = twice, .count = B, .tokens = 9, .q = s.q, .k = s.k,
                                       .v = s.v, .o = s.o),
                                 NULL, NULL),
                     TSA_EINVAL);
    REFUSED(&s, tsa_softmax(p, B, 9, 8, 1, &s.q, &s.k, &s.v, &s.o, NULL, e), TSA_EINVAL, "keys");
    REFUSED(&s, tsa_softmax(p, B, 9, 0, 0, &s.q, &s.k, &s.v, &s.o, NULL, e), TSA_EINVAL, "keys");
    refuse_state_arguments(&s);
    refuse_workspace_arguments(&s);
    desk_end(&s);
}
END_TEST

/* Memory that is no state, and states of other plans. */
START_TEST(foreign_states)
{
    struct desk s;
    desk_begin(&s, TSA_F32, TSA_NORMALIZE_L2);
    struct tsa_error *e = &s.err;
    const size_t bytes = tsa_state_bytes(s.plan), room = (bytes + 63) / 64 * 64 + 64;
    char *memory = aligned_alloc(64, room);
    memset(memory, 0x33, room);
    struct tsa_state *fake = (struct tsa_state *)(void *)memory;
    struct tsa_state *mixed[B] = {s.states[0], fake};
    REFUSED(&s,
            tsa_decode(s.plan,
                       BATCH(.states = mixed, .count = B, .q = s.q, .k = s.k, .v = s.v, .o = s.o),
                       NULL, e),
            TSA_EFORMAT, "states");
    ck_assert_int_eq(e->sequence, 1);
    REFUSED(&s, tsa_state_reset(s.plan, fake, e), TSA_EFORMAT, "state");
    REFUSED(&s, tsa_state_merge(s.plan, s.states[0], fake, NULL, e), TSA_EFORMAT, "src");
    mixed[1] = (struct tsa_state *)(void *)(memory + 8);
    REFUSED(&s,
            tsa_decode(s.plan,
                       BATCH(.states = mixed, .count = B, .q = s.q, .k = s.k, .v = s.v, .o = s.o),
                       NULL, e),
            TSA_EINVAL, "states");
    struct tsa_state *made = fake;
    REFUSED(&s, tsa_state_init(s.plan, memory + 8, bytes, &made, e), TSA_EINVAL, "memory");
    REFUSED(&s, tsa_state_init(s.plan, memory, bytes - 1, &made, e), TSA_ENOMEM, "bytes");
    REFUSED(&s, tsa_state_init(s.plan, NULL, bytes, &made, e), TSA_EINVAL, "memory");
    REFUSED(&s, tsa_state_init(s.plan, memory, bytes, NULL, e), TSA_EINVAL, "state");
    REFUSED(&s, tsa_state_create(NULL, &made, e), TSA_EINVAL, "plan");
    REFUSED(&s, tsa_state_create(s.plan, NULL, e), TSA_EINVAL, "state");
    for (int j = 0; j < 7; j++) {
        struct tsa_options o;
        problem_options(&s.p, &o);
        o.layers = 2;
        switch (j) {
        case 0:
            o.head_dim = D + 1;
            break;
        case 1:
            o.value_dim = V + 1;
            break;
        case 2:
            o.kv_heads = H;
            break;
        case 3:
            o.dtype = TSA_F64;
            break;
        case 4:
            o.normalize = TSA_NORMALIZE_NONE;
            break;
        case 5:
            o.terms = 2;
            break;
        default:
            o.layers = 3;
            break;
        }
        struct tsa_plan *other = make_plan(&o);
        struct tsa_state *state = NULL;
        ok(tsa_state_create(other, &state, e), e);
        mixed[1] = state;
        REFUSED(
            &s,
            tsa_decode(s.plan,
                       BATCH(.states = mixed, .count = B, .q = s.q, .k = s.k, .v = s.v, .o = s.o),
                       NULL, e),
            TSA_EMISMATCH, "states");
        ck_assert_int_eq(e->sequence, 1);
        REFUSED(&s, tsa_state_merge(s.plan, s.states[0], state, NULL, e), TSA_EMISMATCH, "src");
        REFUSED(&s, tsa_state_copy(s.plan, s.states[0], state, e), TSA_EMISMATCH, "src");
        tsa_state_destroy(state);
        tsa_plan_destroy(other);
    }
    free(memory);
    desk_end(&s);
}
END_TEST

/* -- values ------------------------------------------------------------------------------------ */

/* A NaN or an infinity anywhere is found before anything changes, and named. */
START_TEST(nonfinite)
{
    static const double bad[] = {NAN, INFINITY, -INFINITY};
    const enum tsa_dtype dtype = _i % 2 == 0 ? TSA_F32 : TSA_F64;
    struct desk s;
    desk_begin(&s, dtype, _i / 2 == 0 ? TSA_NORMALIZE_L2 : TSA_NORMALIZE_NONE);
    struct tsa_error *e = &s.err;
    struct tsa_tensor *const tensor[] = {&s.q, &s.k, &s.v};
    static const char *const name[] = {"q", "k", "v"};
    for (int j = 0; j < 3; j++)
        for (size_t at = 0; at < B * (j == 0 ? H : G) * N; at += 7) {
            const size_t heads = j == 0 ? H : G, width = j == 2 ? V : D, column = at % width;
            const size_t b = at / N / heads, h = at / N % heads, t = at % N;
            const double old = get(tensor[j]->data, dtype, at * width + column);
            put(tensor[j]->data, dtype, at * width + column, bad[at % 3]);
            REFUSED(&s,
                    tsa_prefill(s.plan,
                                BATCH(.states = s.states, .count = B, .tokens = N, .q = s.q,
                                      .k = s.k, .v = s.v, .o = s.o),
                                NULL, e),
                    TSA_ENONFINITE, name[j]);
            ck_assert_int_eq(e->sequence, (ptrdiff_t)b);
            ck_assert_int_eq(e->head, (ptrdiff_t)h);
            ck_assert_int_eq(e->token, (ptrdiff_t)t);
            ck_assert_int_eq(e->column, (ptrdiff_t)column);
            if (j == 0)
                REFUSED(&s,
                        tsa_query(
                            s.plan,
                            BATCH(.states = s.states, .count = B, .tokens = N, .q = s.q, .o = s.o),
                            NULL, e),
                        TSA_ENONFINITE, "q");
            else
                REFUSED(&s,
                        tsa_absorb(
                            s.plan,
                            BATCH(.states = s.states, .count = B, .tokens = N, .k = s.k, .v = s.v),
                            NULL, e),
                        TSA_ENONFINITE, name[j]);
            REFUSED(&s, tsa_softmax(s.plan, B, N, N, 1, &s.q, &s.k, &s.v, &s.o, NULL, e),
                    TSA_ENONFINITE, name[j]);
            if (t == 0)
                REFUSED(&s,
                        tsa_decode(s.plan,
                                   BATCH(.states = s.states, .count = B, .q = s.q, .k = s.k,
                                         .v = s.v, .o = s.o),
                                   NULL, e),
                        TSA_ENONFINITE, name[j]);
            put(tensor[j]->data, dtype, at * width + column, old);
        }
    desk_end(&s);
}
END_TEST

/* max|k|^(n-1) max(1, max|v|) C >= MAX/4 is refused, what is below is not. Here n = 3, C = 8. */
START_TEST(monomial_overflow)
{
    const enum tsa_dtype dtype = _i == 0 ? TSA_F32 : TSA_F64;
    const double limit = (dtype == TSA_F32 ? (double)FLT_MAX : DBL_MAX) / 4;
    struct desk s;
    desk_begin(&s, dtype, TSA_NORMALIZE_NONE);
    struct tsa_error *e = &s.err;
    const size_t token = 15, head = 1, b = 1, row = (b * G + head) * N + token;
    for (size_t c = 0; c < V; c++) /* values below 1, or exactly 1e10 in that token */
        put(s.v.data, dtype, row * V + c, 0.5);
    put(s.k.data, dtype, row * D + 1, -1.01 * sqrt(limit / 8));
    for (int j = 0; j < 2; j++) { /* the second time the key alone would do */
        const char *name = j == 0 ? "k" : "v";
        REFUSED(&s,
                tsa_prefill(s.plan,
                            BATCH(.states = s.states, .count = B, .tokens = N, .q = s.q, .k = s.k,
                                  .v = s.v, .o = s.o),
                            NULL, e),
                TSA_EOVERFLOW, name);
        ck_assert_int_eq(e->sequence, (ptrdiff_t)b);
        ck_assert_int_eq(e->head, (ptrdiff_t)head);
        ck_assert_int_eq(e->token, (ptrdiff_t)token);
        REFUSED(&s,
                tsa_absorb(s.plan,
                           BATCH(.states = s.states, .count = B, .tokens = N, .k = s.k, .v = s.v),
                           NULL, e),
                TSA_EOVERFLOW, name);
        put(s.v.data, dtype, row * V, -1e10);
        put(s.k.data, dtype, row * D + 1, 1.01 * sqrt(limit / 8e10));
    }
    put(s.v.data, dtype, row * V, 0.5);
    for (size_t i = 0; i < B * G * N * V; i++) /* no token is larger than the limit allows */
        put(s.v.data, dtype, i, 0.5);
    put(s.k.data, dtype, row * D + 1, 0.9 * sqrt(limit / 8));
    ok(tsa_absorb(s.plan, BATCH(.states = s.states, .count = B, .tokens = N, .k = s.k, .v = s.v),
                  NULL, e),
       e);
    desk_end(&s);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("api");
    TCase *calls = add_case(suite, "calls");
    tcase_add_loop_test(calls, tensors, 0, 2);
    tcase_add_loop_test(calls, arguments, 0, 2);
    tcase_add_test(calls, foreign_states);
    TCase *values = add_case(suite, "values");
    tcase_add_loop_test(values, nonfinite, 0, 4);
    tcase_add_loop_test(values, monomial_overflow, 0, 2);
    return run_suite(suite);
}
