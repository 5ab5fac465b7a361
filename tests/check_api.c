/* SPDX-License-Identifier: MIT */
/* Every way to be refused: status, argument, text and place of the error, and nothing changed.
 * All statuses are reached here but TSA_EIO, which is reserved for state files. */
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

/* The error is complete and names the argument (temperatures: "temperature of head 1"). */
static void assert_error(const struct tsa_error *err, enum tsa_status got, enum tsa_status want,
                         const char *argument)
{
    ck_assert_msg(got == want, "%s, wanted %s for %s: %s", tsa_status_string(got),
                  tsa_status_string(want), argument, err->text);
    ck_assert_int_eq(err->status, want);
    ck_assert_str_eq(err->argument, argument);
    ck_assert_uint_gt(strlen(err->text), 8);
    ck_assert_uint_lt(strlen(err->text), sizeof err->text);
    ck_assert_ptr_null(strchr(err->text, '\n'));
    char name[32];
    snprintf(name, sizeof name, "%s", argument);
    if (strcmp(name, "temperatures") == 0 || strcmp(name, "coefficients") == 0)
        name[strlen(name) - 1] = '\0';
    ck_assert_msg(strstr(err->text, name) != NULL, "\"%s\" does not say %s", err->text, name);
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
    REFUSED_OPTION(flags, 2, TSA_EINVAL, "flags");
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

START_TEST(arguments)
{
    struct desk s;
    desk_begin(&s, _i == 0 ? TSA_F32 : TSA_F64, TSA_NORMALIZE_L2);
    struct tsa_error *e = &s.err;
    const struct tsa_plan *p = s.plan;
    struct tsa_state *const *st = s.states;
    struct tsa_state *twice[B] = {st[1], st[1]}, *none[B] = {st[0], NULL};
    struct tsa_view view;
    double out[6 * (V + 1)];
    int equal;
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
    REFUSED(&s, tsa_state_merge(p, NULL, st[0], NULL, e), TSA_EINVAL, "dst");
    REFUSED(&s, tsa_state_merge(p, st[0], NULL, NULL, e), TSA_EINVAL, "src");
    REFUSED(&s, tsa_state_copy(p, NULL, st[0], e), TSA_EINVAL, "dst");
    REFUSED(&s, tsa_state_copy(p, st[0], NULL, e), TSA_EINVAL, "src");
    REFUSED(&s, tsa_state_reset(p, NULL, e), TSA_EINVAL, "state");
    REFUSED(&s, tsa_state_reset(NULL, st[0], e), TSA_EINVAL, "plan");
    REFUSED(&s, tsa_state_equal(p, NULL, st[0], &equal, e), TSA_EINVAL, "a");
    REFUSED(&s, tsa_state_equal(p, st[0], NULL, &equal, e), TSA_EINVAL, "b");
    REFUSED(&s, tsa_state_equal(p, st[0], st[1], NULL, e), TSA_EINVAL, "equal");
    REFUSED(&s, tsa_state_view(p, st[0], 2, 0, &view, e), TSA_EINVAL, "layer");
    REFUSED(&s, tsa_state_view(p, st[0], 0, G, &view, e), TSA_EINVAL, "kv_head");
    REFUSED(&s, tsa_state_view(p, st[0], 0, 0, NULL, e), TSA_EINVAL, "view");
    REFUSED(&s, tsa_state_export(p, st[0], 0, 0, 3, TSA_BASIS_PLAIN, out, V + 1, e), TSA_EINVAL,
            "degree");
    REFUSED(&s, tsa_state_export(p, st[0], 0, 0, 2, 9, out, V + 1, e), TSA_EINVAL, "basis");
    REFUSED(&s, tsa_state_export(p, st[0], 0, 0, 2, TSA_BASIS_PLAIN, NULL, V + 1, e), TSA_EINVAL,
            "out");
    REFUSED(&s, tsa_state_export(p, st[0], 0, 0, 2, TSA_BASIS_PLAIN, out, V, e), TSA_EINVAL,
            "stride");
    struct tsa_workspace *ws = NULL;
    REFUSED(&s, tsa_workspace_create(NULL, 1, &ws, e), TSA_EINVAL, "plan");
    REFUSED(&s, tsa_workspace_create(p, -1, &ws, e), TSA_EINVAL, "threads");
    REFUSED(&s, tsa_workspace_create(p, 1, NULL, e), TSA_EINVAL, "ws");
    const size_t bytes = tsa_workspace_bytes(p, 1);
    char *memory = aligned_alloc(64, (bytes + 127) / 64 * 64);
    REFUSED(&s, tsa_workspace_init(p, 1, NULL, bytes, &ws, e), TSA_EINVAL, "memory");
    REFUSED(&s, tsa_workspace_init(p, 1, memory + 8, bytes, &ws, e), TSA_EINVAL, "memory");
    REFUSED(&s, tsa_workspace_init(p, 1, memory, bytes - 1, &ws, e), TSA_ENOMEM, "bytes");
    free(memory);
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

    struct desk s;
    desk_begin(&s, TSA_F32, TSA_NORMALIZE_L2);
    char text[4096], cut[20];
    const size_t length = tsa_plan_describe(s.plan, text, sizeof text);
    ck_assert_uint_eq(length, strlen(text));
    ck_assert_ptr_nonnull(strstr(text, "chunk: 8"));
    ck_assert_ptr_nonnull(strstr(text, "compute: f32\nexact_degrees: "));
    memset(cut, 'x', sizeof cut);
    ck_assert_uint_eq(tsa_plan_describe(s.plan, cut, 10), length);
    ck_assert_uint_eq(strlen(cut), 9);
    ck_assert_int_eq(cut[10], 'x');
    ck_assert_int_eq(strncmp(cut, text, 9), 0);
    ck_assert_uint_eq(tsa_plan_describe(s.plan, NULL, 0), length);
    desk_end(&s);
}
END_TEST

/* TSA_ISA lowers the choice; a name that cannot be used is an error. */
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
    Suite *suite = suite_create("api");
    TCase *option = add_case(suite, "options");
    tcase_add_test(option, options);
    tcase_add_test(option, versions);
    TCase *calls = add_case(suite, "calls");
    tcase_add_loop_test(calls, tensors, 0, 2);
    tcase_add_loop_test(calls, arguments, 0, 2);
    tcase_add_test(calls, foreign_states);
    TCase *values = add_case(suite, "values");
    tcase_add_loop_test(values, nonfinite, 0, 4);
    tcase_add_loop_test(values, monomial_overflow, 0, 2);
    TCase *fact = add_case(suite, "facts");
    tcase_add_test(fact, facts);
    tcase_add_test(fact, default_chunks);
    tcase_add_test(fact, declared_length);
    tcase_add_test(fact, isa_by_environment);
    return run_suite(suite);
}
