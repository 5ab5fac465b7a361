/* SPDX-License-Identifier: MIT */
/* Tensors of bf16 and f16 in every call: a call on them has the bits of the same call on the
 * widened numbers, its outputs rounded once by the model of half_model.h. The kernels that convert
 * have their tests in kernels_half_tmpl.h. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "half_model.h"
#include "support.h"

#define TYPES 4
static const enum tsa_dtype types[TYPES] = {TSA_F32, TSA_F64, TSA_BF16, TSA_F16};

/* -- calls ------------------------------------------------------------------------------------- */

enum op {
    PREFILL,      /* all tokens at once */
    STEPS,        /* some, then one at a time, by slots and by states in turn */
    QUERY,        /* absorbed, then asked about */
    PACKED,       /* two sequences of the first batch index */
    PADDED,       /* of different lengths */
    SOFTMAX,      /* causal */
    SOFTMAX_FEW,  /* two queries, on all keys */
    SOFTMAX_LAST, /* one query */
    OPS
};

struct rows {
    struct tsa_tensor q, k, v, o;
};
static struct rows rows_at(const struct rows *r, size_t t)
{
    return (struct rows){from_token(r->q, t), from_token(r->k, t), from_token(r->v, t),
                         from_token(r->o, t)};
}

static void run_steps(const struct tsa_plan *plan, struct tsa_state **states, size_t batch,
                      size_t tokens, const struct rows *r, struct tsa_error *err)
{
    const size_t first = tokens > 4 ? tokens - 4 : 1;
    int64_t slots[8];
    ok(tsa_prefill(plan,
                   BATCH(.states = states, .count = batch, .tokens = first, .q = r->q, .k = r->k,
                         .v = r->v, .o = r->o),
                   NULL, err),
       err);
    for (size_t b = 0; b < batch; b++)
        slots[b] = (int64_t)(batch - 1 - b);
    for (size_t t = first; t < tokens; t++) {
        const struct rows x = rows_at(r, t);
        ok(t % 2 ? tsa_decode(plan,
                              BATCH(.states = states, .count = batch, .q = x.q, .k = x.k, .v = x.v,
                                    .o = x.o),
                              NULL, err)
                 : tsa_decode(plan,
                              BATCH(.states = states, .slots = slots, .count = batch, .q = x.q,
                                    .k = x.k, .v = x.v, .o = x.o),
                              NULL, err),
           err);
    }
}

static void run(enum op op, const struct tsa_plan *plan, struct tsa_state **states, size_t batch,
                size_t n, const struct rows *r)
{
    const int64_t offsets[] = {0, (int64_t)n / 3, (int64_t)n}, lengths[] = {(int64_t)n, 1};
    const struct rows second = rows_at(r, 1);
    const struct tsa_tensor *q = &r->q, *k = &r->k, *v = &r->v, *o = &r->o;
    struct tsa_error err;
    switch (op) {
    case PREFILL:
        ok(tsa_prefill(plan,
                       BATCH(.states = states, .count = batch, .tokens = n, .q = *q, .k = *k,
                             .v = *v, .o = *o),
                       NULL, &err),
           &err);
        break;
    case STEPS:
        run_steps(plan, states, batch, n, r, &err);
        break;
    case QUERY:
        ok(tsa_absorb(plan, BATCH(.states = states, .count = batch, .tokens = n, .k = *k, .v = *v),
                      NULL, &err),
           &err);
        ok(tsa_query(plan, BATCH(.states = states, .count = batch, .tokens = 1, .q = *q, .o = *o),
                     NULL, &err),
           &err);
        ok(tsa_query(plan,
                     BATCH(.states = states, .count = batch, .tokens = n - 1, .q = second.q,
                           .o = second.o),
                     NULL, &err),
           &err);
        break;
    case PACKED:
        ok(tsa_prefill(plan,
                       BATCH(.states = states, .count = batch, .offsets = offsets, .q = *q, .k = *k,
                             .v = *v, .o = *o),
                       NULL, &err),
           &err);
        break;
    case PADDED:
        ok(tsa_prefill(plan,
                       BATCH(.states = states, .count = batch, .tokens = n, .lengths = lengths,
                             .q = *q, .k = *k, .v = *v, .o = *o),
                       NULL, &err),
           &err);
        break;
    default:
        ok(tsa_softmax(plan, batch,
                       op == SOFTMAX       ? n
                       : op == SOFTMAX_FEW ? 2
                                           : 1,
                       n, op != SOFTMAX_FEW, q, k, v, o, NULL, &err),
           &err);
        break;
    }
}

/* -- a problem in some types, and the same widened --------------------------------------------- */

struct task {
    size_t d, dv, terms, chunk, heads, kv_heads, batch, tokens;
};
static const struct task tasks[] = {
    {16, 20, 3, 8, 2, 2, 2, 19},
    {5, 7, 2, 4, 4, 2, 2, 11},
    {9, 33, 3, 8, 2, 1, 2, 12},
};
#define TASKS (sizeof tasks / sizeof tasks[0])

/* Numbers of a type that reach its subnormal ones, but not where powers would overflow. */
static void *numbers(struct rng *rng, enum tsa_dtype dtype, size_t count)
{
    void *data = make_zeros(count, dtype);
    for (size_t i = 0; i < count; i++) {
        const int e = (int)(rng_next(rng) % 40);
        put(data, dtype, i, ldexp(rng_normal(rng), e > 30 ? 15 - e : 0));
    }
    return data;
}

/* Values also, now and then, that an output in f16 cannot hold, or only as a subnormal. */
static void spread(struct rng *rng, void *data, enum tsa_dtype dtype, size_t count)
{
    const double scale = dtype == TSA_F16 ? 0x1p12 : 0x1p17;
    for (size_t i = 0; i < count; i++)
        if (rng_next(rng) % 4 == 0)
            put(data, dtype, i, get(data, dtype, i) * scale);
}

static void *convert(const void *from, enum tsa_dtype from_type, enum tsa_dtype to, size_t count)
{
    void *data = make_zeros(count, to);
    for (size_t i = 0; i < count; i++)
        put(data, to, i, get(from, from_type, i));
    return data;
}

/* One tensor: in its own type and layout, and dense in the plan's. */
struct both {
    struct strided own;
    struct tsa_tensor wide;
    void *data; /* of wide */
};
static struct both both_make(struct rng *rng, enum tsa_dtype dtype, enum tsa_dtype arithmetic,
                             size_t batch, size_t heads, size_t tokens, size_t width, int spreads)
{
    const size_t count = batch * heads * tokens * width;
    struct both b;
    void *narrow = numbers(rng, dtype, count);
    if (spreads)
        spread(rng, narrow, dtype, count);
    strided_make(&b.own, (enum layout)(rng_next(rng) % LAYOUTS), dtype, batch, heads, tokens, width,
                 narrow);
    b.data = convert(narrow, dtype, arithmetic, count);
    b.wide = dense(b.data, arithmetic, heads, tokens, width);
    free(narrow);
    return b;
}
static struct both output_make(struct rng *rng, enum tsa_dtype dtype, enum tsa_dtype arithmetic,
                               size_t batch, size_t heads, size_t tokens, size_t width)
{
    struct both b;
    strided_make(&b.own, (enum layout)(rng_next(rng) % LAYOUTS), dtype, batch, heads, tokens, width,
                 NULL);
    b.data = make_zeros(batch * heads * tokens * width, arithmetic);
    for (size_t i = 0; i < batch * heads * tokens * width; i++)
        put(b.data, arithmetic, i, NAN);
    b.wide = dense(b.data, arithmetic, heads, tokens, width);
    return b;
}
static void both_free(struct both *b)
{
    strided_free(&b->own);
    free(b->data);
}

static struct tsa_plan *task_plan(const struct task *s, enum tsa_dtype arithmetic, const char *isa,
                                  int threads)
{
    struct tsa_options options;
    ck_assert_int_eq(tsa_options_init(&options, sizeof options), TSA_OK);
    options.head_dim = s->d;
    options.value_dim = s->dv;
    options.terms = s->terms;
    options.chunk = s->chunk;
    options.heads = s->heads;
    options.kv_heads = s->kv_heads;
    options.dtype = arithmetic;
    options.isa = isa;
    options.threads = threads;
    poison_allocations(&options);
    return make_plan(&options);
}

/* Types of q, k, v and o. */
static void compare(const struct task *s, const struct tsa_plan *plan, enum op op,
                    const enum tsa_dtype *type, struct rng *rng)
{
    const enum tsa_dtype p = plan->dtype;
    const size_t count = s->batch * s->heads * s->tokens * s->dv;
    struct both q = both_make(rng, type[0], p, s->batch, s->heads, s->tokens, s->d, 0);
    struct both k = both_make(rng, type[1], p, s->batch, s->kv_heads, s->tokens, s->d, 0);
    struct both v = both_make(rng, type[2], p, s->batch, s->kv_heads, s->tokens, s->dv, 1);
    struct both o = output_make(rng, type[3], p, s->batch, s->heads, s->tokens, s->dv);
    const struct rows own = {q.own.tensor, k.own.tensor, v.own.tensor, o.own.tensor};
    const struct rows wide = {q.wide, k.wide, v.wide, o.wide};
    struct tsa_state **a = states_make(plan, s->batch), **b = states_make(plan, s->batch);
    char what[120];
    run(op, plan, a, s->batch, s->tokens, &wide);
    run(op, plan, b, s->batch, s->tokens, &own);
    snprintf(what, sizeof what, "%s, d %zu, plan %d, op %d, types %d %d %d %d, %d threads",
             tsa_plan_isa(plan), s->d, (int)p, (int)op, (int)type[0], (int)type[1], (int)type[2],
             (int)type[3], tsa_plan_threads(plan));
    void *want = convert(o.data, p, type[3], count), *got = make_zeros(count, type[3]);
    strided_read(&o.own, got);
    assert_bits(got, want, type[3], count, what);
    for (size_t i = 0; i < s->batch; i++)
        assert_equal(plan, a[i], b[i], true);
    free(want), free(got);
    states_free(a, s->batch), states_free(b, s->batch);
    both_free(&q), both_free(&k), both_free(&v), both_free(&o);
}

/* -- the bits ---------------------------------------------------------------------------------- */

/* One op, on every instruction set, in both arithmetics, with 1 to 3 threads. */
START_TEST(same_bits)
{
    struct rng rng = {77 + (uint64_t)_i};
    for (size_t i = 0; usable_isa(i); i++)
        for (int n = 0; n < 6 * (int)TASKS; n += quick() ? 5 : 1) {
            const struct task *s = &tasks[n / 6];
            struct tsa_plan *plan =
                task_plan(s, n % 2 ? TSA_F64 : TSA_F32, usable_isa(i), 1 + n % 6 / 2);
            const enum tsa_dtype half = (n / 2 + n / 6) % 2 ? TSA_F16 : TSA_BF16;
            const enum tsa_dtype all[4] = {half, half, half, half};
            enum tsa_dtype mixed[4];
            for (int j = 0; j < 4; j++)
                mixed[j] = types[rng_next(&rng) % TYPES];
            compare(s, plan, (enum op)_i, all, &rng);
            /* an input in f64 would have to be rounded first for a plan in f32 */
            for (int j = 0; j < 3 && plan->dtype == TSA_F32; j++)
                mixed[j] = mixed[j] == TSA_F64 ? TSA_BF16 : mixed[j];
            compare(s, plan, (enum op)_i, mixed, &rng);
            tsa_plan_destroy(plan);
        }
}
END_TEST

/* The whole team on one item, in a relay and in waves, and a large state by columns. */
START_TEST(teams)
{
    const struct task one = {16, 20, 3, 16, 1, 1, 1, 100};
    const struct task large = {64, 128, 3, 8, 1, 1, 1, 10};
    struct rng rng = {5};
    for (int i = 0; i < 4; i++) {
        const enum tsa_dtype type = i % 2 ? TSA_F16 : TSA_BF16, all[4] = {type, type, type, type};
        struct tsa_plan *plan = task_plan(&one, TSA_F32, NULL, 3);
        set_way(plan, i < 2 ? WAY_RELAY : WAY_WAVES_OF_2);
        compare(&one, plan, PREFILL, all, &rng);
        tsa_plan_destroy(plan);
        plan = task_plan(&large, i / 2 ? TSA_F64 : TSA_F32, NULL, 3);
        ck_assert_uint_ge(plan->mono.total * plan->layout.ldv * plan->elem, (size_t)1 << 20);
        compare(&large, plan, STEPS, all, &rng);
        tsa_plan_destroy(plan);
    }
}
END_TEST

/* A NaN that comes out is stored as the canonical one, what is too large as an infinity. */
START_TEST(special_outputs)
{
    for (size_t i = 0; usable_isa(i); i++)
        for (int n = 0; n < 4; n++) {
            const bool f16 = n % 2;
            const double values[4] = {-NAN, 1e38, -1e38, 0x1p-25};
            const uint16_t want[2][4] = {{0x7fc0, 0x7e96, 0xfe96, 0x3300},
                                         {0x7e00, 0x7c00, 0xfc00, 0x0000}};
            struct tsa_options options;
            struct tsa_error err;
            uint16_t q = 0x3c00, k = 0x3c00, o[4];
            float v[4];
            ck_assert_int_eq(tsa_options_init(&options, sizeof options), TSA_OK);
            options.head_dim = 1;
            options.value_dim = 4;
            options.isa = usable_isa(i);
            options.dtype = n / 2 ? TSA_F64 : TSA_F32;
            options.flags = TSA_SKIP_INPUT_CHECK;
            struct tsa_plan *plan = make_plan(&options);
            struct tsa_state **states = states_make(plan, 1);
            for (int c = 0; c < 4; c++)
                v[c] = (float)values[c];
            const struct tsa_tensor tq = {.data = &q, .dtype = TSA_F16};
            const struct tsa_tensor tk = {.data = &k, .dtype = TSA_BF16};
            const struct tsa_tensor tv = {.data = v, .dtype = TSA_F32};
            const struct tsa_tensor to = {.data = o, .dtype = f16 ? TSA_F16 : TSA_BF16};
            ok(tsa_decode(plan,
                          BATCH(.states = states, .count = 1, .q = tq, .k = tk, .v = tv, .o = to),
                          NULL, &err),
               &err);
            for (int c = 0; c < 4; c++)
                ck_assert_uint_eq(o[c], want[f16][c]);
            states_free(states, 1);
            tsa_plan_destroy(plan);
        }
}
END_TEST

/* -- refusals ---------------------------------------------------------------------------------- */

enum { B = 2, H = 2, N = 5, D = 3, V = 4 };

struct desk {
    struct tsa_plan *plan;
    struct tsa_state **states;
    struct strided x[3], o;
    unsigned char *outputs; /* as they were */
};

static void desk_begin(struct desk *k, const struct tsa_options *changes, enum tsa_dtype type)
{
    struct rng rng = {9};
    struct tsa_options options = *changes;
    options.head_dim = D;
    options.value_dim = V;
    options.heads = H;
    k->plan = make_plan(&options);
    k->states = states_make(k->plan, B);
    for (int i = 0; i < 3; i++) {
        const size_t width = i == 2 ? V : D;
        void *data = numbers(&rng, type, B * H * N * width);
        strided_make(&k->x[i], (enum layout)(i + 2), type, B, H, N, width, data);
        free(data);
    }
    strided_make(&k->o, LAYOUT_GAPS, type, B, H, N, V, NULL);
    k->outputs = malloc(k->o.bytes);
    ck_assert_ptr_nonnull(k->outputs);
    memcpy(k->outputs, k->o.memory, k->o.bytes);
}

static void desk_end(struct desk *k)
{
    for (int i = 0; i < 3; i++)
        strided_free(&k->x[i]);
    strided_free(&k->o);
    free(k->outputs);
    states_free(k->states, B);
    tsa_plan_destroy(k->plan);
}

/* Element (b, h, t, c) of input i becomes x: the call must name it, and change nothing. */
static void refuse(struct desk *k, int i, const size_t *at, double x, enum tsa_status status,
                   const char *argument)
{
    const struct tsa_tensor *t = &k->x[i].tensor;
    const ptrdiff_t element = (ptrdiff_t)at[0] * t->batch + (ptrdiff_t)at[1] * t->head +
                              (ptrdiff_t)at[2] * t->token + (ptrdiff_t)at[3];
    char *place = (char *)t->data + 2 * element;
    const bool overflow = status == TSA_EOVERFLOW;
    struct tsa_error err;
    uint16_t before;
    memcpy(&before, place, sizeof before);
    put(place, t->dtype, 0, x);
    for (int softmax = 0; softmax <= !overflow; softmax++) {
        const struct tsa_tensor *q = &k->x[0].tensor, *key = &k->x[1].tensor;
        const struct tsa_tensor *v = &k->x[2].tensor, *o = &k->o.tensor;
        const enum tsa_status found =
            softmax ? tsa_softmax(k->plan, B, N, N, 1, q, key, v, o, NULL, &err)
                    : tsa_prefill(k->plan,
                                  BATCH(.states = k->states, .count = B, .tokens = N, .q = *q,
                                        .k = *key, .v = *v, .o = *o),
                                  NULL, &err);
        ck_assert_int_eq(found, status);
        ck_assert_str_eq(err.argument, argument);
        ck_assert_int_eq(err.sequence, (int)at[0]);
        ck_assert_int_eq(err.head, (int)at[1]);
        ck_assert_int_eq(err.token, (int)at[2]);
        ck_assert_int_eq(err.column, overflow ? -1 : (int)at[3]);
    }
    ck_assert_mem_eq(k->o.memory, k->outputs, k->o.bytes);
    for (int b = 0; b < B; b++)
        ck_assert_uint_eq(tsa_state_tokens(k->states[b], 0), 0);
    memcpy(place, &before, sizeof before);
}

static void works(struct desk *k)
{
    struct tsa_error err;
    ok(tsa_prefill(k->plan,
                   BATCH(.states = k->states, .count = B, .tokens = N, .q = k->x[0].tensor,
                         .k = k->x[1].tensor, .v = k->x[2].tensor, .o = k->o.tensor),
                   NULL, &err),
       &err);
}

START_TEST(not_finite)
{
    static const char *const name[] = {"q", "k", "v"};
    const enum tsa_dtype type = _i % 2 ? TSA_F16 : TSA_BF16;
    struct rng rng = {3};
    for (size_t isa = 0; usable_isa(isa); isa++) {
        struct tsa_options options;
        struct desk k;
        ck_assert_int_eq(tsa_options_init(&options, sizeof options), TSA_OK);
        options.dtype = _i / 2 ? TSA_F64 : TSA_F32;
        options.isa = usable_isa(isa);
        desk_begin(&k, &options, type);
        for (int i = 0; i < 3; i++)
            for (int n = 0; n < 12; n++) {
                const double x = n % 3 == 0 ? NAN : n % 3 == 1 ? INFINITY : -INFINITY;
                const size_t at[] = {rng_next(&rng) % B, rng_next(&rng) % H, rng_next(&rng) % N,
                                     rng_next(&rng) % (i == 2 ? V : D)};
                refuse(&k, i, at, x, TSA_ENONFINITE, name[i]);
            }
        works(&k);
        desk_end(&k);
    }
}
END_TEST

/* With 8 terms and no normalisation: 65504^7 = 5e33 in the key passes alone, not times values of
 * 65504 and 16 tokens; a bf16 of 1e6 does not pass alone; nor do queries divided by 0.1. */
START_TEST(overflow)
{
    const size_t at[] = {1, 0, 3, 2};
    struct tsa_options options;
    struct desk k;
    ck_assert_int_eq(tsa_options_init(&options, sizeof options), TSA_OK);
    options.normalize = TSA_NORMALIZE_NONE;
    options.terms = 8;
    options.chunk = 16;
    options.temperature = 0.1;
    desk_begin(&k, &options, TSA_F16);
    refuse(&k, 0, at, 65504, TSA_EOVERFLOW, "q");
    works(&k);
    desk_end(&k);
    desk_begin(&k, &options, TSA_F16);
    const struct tsa_tensor *t = &k.x[1].tensor;
    put((char *)t->data + 2 * ((ptrdiff_t)at[0] * t->batch + (ptrdiff_t)at[2] * t->token), TSA_F16,
        0, 65504);
    refuse(&k, 2, at, 65504, TSA_EOVERFLOW, "v");
    works(&k);
    desk_end(&k);
    desk_begin(&k, &options, TSA_BF16);
    refuse(&k, 1, at, 1e6, TSA_EOVERFLOW, "k");
    works(&k);
    desk_end(&k);
}
END_TEST

/* Rows are counted in elements of two bytes. */
START_TEST(strides)
{
    struct tsa_options options;
    struct tsa_error err;
    struct desk k;
    ck_assert_int_eq(tsa_options_init(&options, sizeof options), TSA_OK);
    desk_begin(&k, &options, TSA_BF16);
    const struct tsa_tensor *q = &k.x[0].tensor, *key = &k.x[1].tensor, *v = &k.x[2].tensor;
    struct tsa_tensor o = k.o.tensor;
    o.token = V - 1;
    ck_assert_int_eq(tsa_prefill(k.plan,
                                 BATCH(.states = k.states, .count = B, .tokens = N, .q = *q,
                                       .k = *key, .v = *v, .o = o),
                                 NULL, &err),
                     TSA_EINVAL);
    ck_assert_str_eq(err.argument, "o");
    struct tsa_tensor far = *key;
    far.token = PTRDIFF_MAX / 2 / (N - 1) + 1;
    ck_assert_int_eq(tsa_prefill(k.plan,
                                 BATCH(.states = k.states, .count = B, .tokens = N, .q = *q,
                                       .k = far, .v = *v, .o = k.o.tensor),
                                 NULL, &err),
                     TSA_EINVAL);
    ck_assert_str_eq(err.argument, "k");
    /* the same row again and again */
    struct tsa_tensor same = *v;
    same.token = same.head = same.batch = 0;
    ok(tsa_prefill(k.plan,
                   BATCH(.states = k.states, .count = B, .tokens = N, .q = *q, .k = *key, .v = same,
                         .o = k.o.tensor),
                   NULL, &err),
       &err);
    uint16_t *got = make_zeros(B * H * N * V, TSA_BF16);
    strided_read(&k.o, got);
    for (size_t i = 0; i < B * H * N * V; i++) {
        uint16_t want;
        memcpy(&want, (const char *)same.data + 2 * (i % V), sizeof want);
        ck_assert_uint_eq(got[i], want); /* a mean of equal values, within half a step */
    }
    free(got);
    desk_end(&k);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("half");
    TCase *c = add_case(suite, "bits");
    tcase_add_loop_test(c, same_bits, 0, OPS);
    tcase_add_test(c, teams);
    tcase_add_test(c, special_outputs);
    c = add_case(suite, "refusals");
    tcase_add_loop_test(c, not_finite, 0, 4);
    tcase_add_test(c, overflow);
    tcase_add_test(c, strides);
    return run_suite(suite);
}
