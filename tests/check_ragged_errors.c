/* SPDX-License-Identifier: MIT */
/* Sequences of different lengths and slots that cannot be: each is refused, and nothing changes. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ragged.h"

#define RAW TSA_NORMALIZE_NONE

#define SEQUENCES 5

/* A call that is right, and copies of all that a failed one may not change. */
struct desk {
    struct ragged_batch x;
    struct tsa_plan *plan;
    struct ragged_place at;
    struct ragged_views y;
    struct tsa_state **states;
    size_t bytes;
    char *states_before, *o_before;
    struct tsa_error err;
};

static void desk_begin(struct desk *d, enum ragged_kind kind, enum tsa_dtype dtype)
{
    static const size_t length[SEQUENCES] = {3, 0, 20, 5, 1}, before[SEQUENCES] = {0, 3, 9, 8};
    const struct shape s = {5, 7, 3, 8, 4, 2, 0, 0, dtype, RAW, COEF_TAYLOR, TEMP_TWO};
    d->x.count = SEQUENCES;
    memcpy(d->x.length, length, sizeof length);
    memcpy(d->x.before, before, sizeof before);
    ragged_begin(&d->x, &s, 2700);
    ragged_place_make(&d->at, &d->x, kind, 0);
    d->at.finite = dtype == TSA_F64; /* so that only what is refused can be what was seen */
    ragged_views_make(&d->y, &d->at, &d->x, 2, dtype);
    d->plan = ragged_plan(&d->x.p, 3, 0, 0);
    d->states = states_make(d->plan, SEQUENCES);
    d->bytes = tsa_state_bytes(d->plan);
    d->states_before = malloc(SEQUENCES * d->bytes);
    d->o_before = malloc(d->y.o.bytes);
    memcpy(d->o_before, d->y.o.memory, d->y.o.bytes);
    for (size_t b = 0; b < SEQUENCES; b++) {
        ok(tsa_state_copy(d->plan, d->states[b], d->x.given[b], &d->err), &d->err);
        memcpy(d->states_before + b * d->bytes, d->states[b], d->bytes);
    }
}

static void desk_end(struct desk *d)
{
    states_free(d->states, SEQUENCES);
    tsa_plan_destroy(d->plan);
    ragged_views_free(&d->y);
    ragged_end(&d->x);
    free(d->states_before);
    free(d->o_before);
}

static void assert_refused(const struct desk *d, enum tsa_status got, enum tsa_status want,
                           const char *argument, ptrdiff_t sequence)
{
    CHECK(got == want && d->err.status == want, "%s, wanted %s for %s: %s", tsa_status_string(got),
          tsa_status_string(want), argument, d->err.text);
    CHECK(strcmp(d->err.argument, argument) == 0, "argument \"%s\", wanted \"%s\": %s",
          d->err.argument, argument, d->err.text);
    CHECK(strstr(d->err.text, argument) != NULL || strcmp(argument, "ws") == 0,
          "\"%s\" does not say %s", d->err.text, argument);
    CHECK(sequence < 0 || d->err.sequence == sequence, "sequence %td, wanted %td: %s",
          d->err.sequence, sequence, d->err.text);
    for (size_t b = 0; b < SEQUENCES; b++)
        CHECK(memcmp(d->states_before + b * d->bytes, d->states[b], d->bytes) == 0,
              "%s: state %zu has changed", argument, b);
    CHECK(memcmp(d->o_before, d->y.o.memory, d->y.o.bytes) == 0, "%s: outputs have changed",
          argument);
}

/* sequence -1: not looked at */
#define REFUSED(d, call, want, argument, sequence)                                                 \
    do {                                                                                           \
        memset(&(d)->err, 0x5a, sizeof(d)->err);                                                   \
        const enum tsa_status got_ = (call);                                                       \
        assert_refused(d, got_, want, argument, sequence);                                         \
    } while (0)

/* Prefill and absorb of the desk's call. */
static void refuse_both(struct desk *d, enum tsa_status want, const char *argument,
                        ptrdiff_t sequence)
{
    for (int absorb = 0; absorb < 2; absorb++)
        REFUSED(d, ragged_call(d->plan, d->states, &d->at, &d->y, absorb, NULL, &d->err), want,
                argument, sequence);
}

/* Offsets and lengths that cannot be, by the number that is wrong. */
START_TEST(bad_numbers)
{
    const enum ragged_kind kind = _i % 2 == 0 ? RAGGED_PACKED : RAGGED_PADDED;
    const char *name = kind == RAGGED_PACKED ? "offsets" : "lengths";
    struct desk d;
    desk_begin(&d, kind, _i / 2 == 0 ? TSA_F32 : TSA_F64);
    int64_t *number = d.at.number;
    const struct {
        size_t at;
        int64_t number;
    } bad[] = {
        {0, -1},
        {0, INT64_MIN},
        {2, -5},
        {4, -1},
        {kind == RAGGED_PACKED ? 2 : 3, kind == RAGGED_PACKED ? 2 : (int64_t)d.at.tokens + 1},
        {SEQUENCES - (kind == RAGGED_PADDED), kind == RAGGED_PACKED ? 20 : INT64_MAX},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        const int64_t good = number[bad[i].at];
        number[bad[i].at] = bad[i].number;
        refuse_both(&d, TSA_EINVAL, name, kind == RAGGED_PADDED ? (ptrdiff_t)bad[i].at : -1);
        ck_assert_int_eq(d.err.found, bad[i].number);
        number[bad[i].at] = good;
    }
    if (kind == RAGGED_PACKED) {
        number[SEQUENCES] = INT64_MAX / 4; /* no such rows in memory */
        REFUSED(&d, ragged_call(d.plan, d.states, &d.at, &d.y, false, NULL, &d.err), TSA_EINVAL,
                "q", -1);
        REFUSED(&d, ragged_call(d.plan, d.states, &d.at, &d.y, true, NULL, &d.err), TSA_EINVAL, "k",
                -1);
    }
    desk_end(&d);
}
END_TEST

/* Arguments that the calls share with the others. */
START_TEST(bad_arguments)
{
    struct desk d;
    desk_begin(&d, _i % 2 == 0 ? RAGGED_PACKED : RAGGED_PADDED, _i / 2 == 0 ? TSA_F32 : TSA_F64);
    struct tsa_state *const kept = d.states[3];
    REFUSED(&d, ragged_call(NULL, d.states, &d.at, &d.y, false, NULL, &d.err), TSA_EINVAL, "plan",
            -1);
    REFUSED(&d, ragged_call(d.plan, NULL, &d.at, &d.y, false, NULL, &d.err), TSA_EINVAL, "states",
            -1);
    struct tsa_state *list[SEQUENCES];
    memcpy(list, d.states, sizeof list);
#define REFUSED_LIST(want, sequence)                                                               \
    for (int absorb = 0; absorb < 2; absorb++)                                                     \
    REFUSED(&d, ragged_call(d.plan, list, &d.at, &d.y, absorb, NULL, &d.err), want, "states",      \
            sequence)
    list[3] = NULL;
    REFUSED_LIST(TSA_EINVAL, 3);
    list[3] = list[0];
    REFUSED_LIST(TSA_EINVAL, -1);
    ck_assert(d.err.sequence == 0 || d.err.sequence == 3);
    list[3] = list[1]; /* once for an empty sequence */
    REFUSED_LIST(TSA_EINVAL, -1);
    list[3] = aligned_alloc(64, (d.bytes + 63) / 64 * 64);
    memset(list[3], 0, d.bytes);
    REFUSED_LIST(TSA_EFORMAT, 3);
    free(list[3]);
    struct shape s = d.x.p.shape;
    struct problem other;
    s.dv++;
    problem_make(&other, &s, 1);
    struct tsa_plan *wider = ragged_plan(&other, 1, 0, 0);
    ok(tsa_state_create(wider, &list[3], &d.err), &d.err);
    REFUSED_LIST(TSA_EMISMATCH, 3);
    tsa_state_destroy(list[3]);
    tsa_plan_destroy(wider);
    problem_free(&other);
#undef REFUSED_LIST
    ck_assert_ptr_eq(d.states[3], kept);

    struct tsa_tensor *const tensor[] = {&d.y.q.tensor, &d.y.k.tensor, &d.y.v.tensor,
                                         &d.y.o.tensor};
    static const char *const name[] = {"q", "k", "v", "o"};
    for (int j = 0; j < 4; j++) {
        const struct tsa_tensor good = *tensor[j];
        tensor[j]->dtype = 77;
        REFUSED(&d, ragged_call(d.plan, d.states, &d.at, &d.y, j == 1 || j == 2, NULL, &d.err),
                TSA_EINVAL, name[j], -1);
        *tensor[j] = good;
        tensor[j]->data = NULL;
        REFUSED(&d, ragged_call(d.plan, d.states, &d.at, &d.y, j == 1 || j == 2, NULL, &d.err),
                TSA_EINVAL, name[j], -1);
        *tensor[j] = good;
    }
    const struct tsa_tensor good = d.y.o.tensor;
    d.y.o.tensor.token = 1; /* rows that overlap */
    REFUSED(&d, ragged_call(d.plan, d.states, &d.at, &d.y, false, NULL, &d.err), TSA_EINVAL, "o",
            -1);
    d.y.o.tensor = good;
    d.y.o.tensor.data = d.y.v.tensor.data;
    REFUSED(&d, ragged_call(d.plan, d.states, &d.at, &d.y, false, NULL, &d.err), TSA_EINVAL, "o",
            -1);
    d.y.o.tensor = good;
    const struct tsa_tensor *k = &d.y.k.tensor, *v = &d.y.v.tensor;
    REFUSED(&d,
            d.at.kind == RAGGED_PACKED
                ? tsa_absorb(d.plan,
                             BATCH(.states = d.states, .count = SEQUENCES, .layer = RAGGED_LAYERS,
                                   .offsets = d.at.number, .k = *k, .v = *v),
                             NULL, &d.err)
                : tsa_absorb(d.plan,
                             BATCH(.states = d.states, .count = SEQUENCES, .layer = RAGGED_LAYERS,
                                   .tokens = d.at.tokens, .lengths = d.at.number, .k = *k, .v = *v),
                             NULL, &d.err),
            TSA_EINVAL, "layer", -1);
    /* and all is as it was */
    ok(ragged_call(d.plan, d.states, &d.at, &d.y, false, NULL, &d.err), &d.err);
    ragged_check_outputs(&d.y, &d.at, &d.x);
    desk_end(&d);
}
END_TEST

/* Element c of token t of a sequence; returns what it was. */
static double poke(const struct desk *d, const struct tsa_tensor *x, size_t b, size_t h, size_t t,
                   size_t c, double value)
{
    const bool packed = d->at.kind == RAGGED_PACKED;
    const ptrdiff_t row = (ptrdiff_t)t + (packed ? (ptrdiff_t)d->at.number[b] : 0);
    const ptrdiff_t at = (packed ? 0 : (ptrdiff_t)b * x->batch) + (ptrdiff_t)h * x->head +
                         row * x->token + (ptrdiff_t)c;
    void *element = (char *)x->data + at * (ptrdiff_t)dtype_size(x->dtype);
    const double old = get(element, x->dtype, 0);
    put(element, x->dtype, 0, value);
    return old;
}

/* The token counts from the start of its sequence. */
START_TEST(bad_values)
{
    const enum tsa_dtype dtype = _i / 2 == 0 ? TSA_F32 : TSA_F64;
    struct desk d;
    desk_begin(&d, _i % 2 == 0 ? RAGGED_PACKED : RAGGED_PADDED, dtype);
    struct tsa_tensor *const tensor[] = {&d.y.q.tensor, &d.y.k.tensor, &d.y.v.tensor};
    static const char *const name[] = {"q", "k", "v"};
    static const size_t place[][2] = {{0, 2}, {2, 0}, {2, 11}, {2, 19}, {4, 0}};
    const double key = dtype == TSA_F32 ? 1e30 : 1e200, value = dtype == TSA_F32 ? 2e38 : 1e308;
    const double bad[] = {NAN, INFINITY, -INFINITY};
    for (int j = 0; j < 3; j++)
        for (size_t i = 0; i < sizeof place / sizeof *place; i++)
            for (size_t n = 0; n < 4; n++) {
                const size_t b = place[i][0], t = place[i][1], heads = j == 0 ? 4 : 2;
                const size_t h = (i + n) % heads, c = 1 + n;
                const bool finite = n == 3;
                const double x = finite ? (j == 2 ? value : key) : bad[n];
                const double old = poke(&d, tensor[j], b, h, t, c, x);
                for (int absorb = 0; absorb < (j == 0 ? 1 : 2); absorb++) {
                    REFUSED(&d, ragged_call(d.plan, d.states, &d.at, &d.y, absorb, NULL, &d.err),
                            finite ? TSA_EOVERFLOW : TSA_ENONFINITE, name[j], (ptrdiff_t)b);
                    CHECK(d.err.head == (ptrdiff_t)h && d.err.token == (ptrdiff_t)t,
                          "head %td, token %td of %s, wanted %zu, %zu", d.err.head, d.err.token,
                          name[j], h, t);
                    CHECK(d.err.column == (finite ? -1 : (ptrdiff_t)c), "column %td, wanted %zu",
                          d.err.column, c);
                }
                poke(&d, tensor[j], b, h, t, c, old);
            }
    ok(ragged_call(d.plan, d.states, &d.at, &d.y, false, NULL, &d.err), &d.err);
    ragged_check_outputs(&d.y, &d.at, &d.x);
    desk_end(&d);
}
END_TEST

static void *allocate_some(void *user, size_t bytes, size_t alignment)
{
    size_t *left = user;
    if (*left == 0)
        return NULL;
    --*left;
    return aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
}

static void release_some(void *user, void *memory, size_t bytes)
{
    (void)user, (void)bytes;
    free(memory);
}

START_TEST(no_memory)
{
    struct desk d;
    struct tsa_options options;
    size_t left = 1;
    desk_begin(&d, _i % 2 == 0 ? RAGGED_PACKED : RAGGED_PADDED, _i / 2 == 0 ? TSA_F32 : TSA_F64);
    problem_options(&d.x.p, &options);
    options.layers = RAGGED_LAYERS;
    options.threads = 3;
    options.allocate = allocate_some, options.release = release_some;
    options.allocator_user = &left;
    tsa_plan_destroy(d.plan);
    d.plan = make_plan(&options);
    refuse_both(&d, TSA_ENOMEM, "ws", -1);
    const int64_t one[] = {0};
    const struct tsa_tensor rows = {.data = d.y.v.memory, .dtype = d.x.p.shape.dtype};
    REFUSED(&d,
            tsa_decode(d.plan,
                       BATCH(.states = d.states, .slots = one, .count = 1, .layer = RAGGED_LAYER,
                             .q = rows, .k = rows, .v = rows, .o = d.y.o.tensor),
                       NULL, &d.err),
            TSA_ENOMEM, "ws", -1);
    desk_end(&d);
}
END_TEST

/* Slots that cannot be, and values in them. The desk's padded tensors serve: token 0 of each. */
START_TEST(bad_slots)
{
    struct desk d;
    desk_begin(&d, RAGGED_PADDED, _i == 0 ? TSA_F32 : TSA_F64);
    struct tsa_tensor q = d.y.q.tensor, k = d.y.k.tensor, v = d.y.v.tensor, o = d.y.o.tensor;
    struct tsa_state *list[SEQUENCES];
    memcpy(list, d.states, sizeof list);
    list[1] = NULL; /* where rows hold NaN */
#define SLOTS_CALL(list_, count_)                                                                  \
    tsa_decode(d.plan,                                                                             \
               BATCH(.states = list, .slots = list_, .count = count_, .layer = RAGGED_LAYER,       \
                     .q = q, .k = k, .v = v, .o = o),                                              \
               NULL, &d.err)
    const int64_t good[] = {4, 0, 3, 2};
    const int64_t negative[] = {4, 0, -1, 2}, least[] = {INT64_MIN}, unused[] = {4, 1, 2};
    const int64_t twice[] = {4, 0, 3, 0};
    REFUSED(&d, SLOTS_CALL(negative, 4), TSA_EINVAL, "slots", -1);
    ck_assert_int_eq(d.err.found, -1);
    REFUSED(&d, SLOTS_CALL(least, 1), TSA_EINVAL, "slots", -1);
    REFUSED(&d, SLOTS_CALL(twice, 4), TSA_EINVAL, "slots", 0);
    REFUSED(&d, SLOTS_CALL(unused, 3), TSA_EINVAL, "states", 1);
    list[3] = list[0];
    REFUSED(&d, SLOTS_CALL(good, 4), TSA_EINVAL, "states", -1);
    ck_assert(d.err.sequence == 0 || d.err.sequence == 3);
    list[3] = d.states[3];
    REFUSED(&d,
            tsa_decode(NULL,
                       BATCH(.states = list, .slots = good, .count = 4, .layer = RAGGED_LAYER,
                             .q = q, .k = k, .v = v, .o = o),
                       NULL, &d.err),
            TSA_EINVAL, "plan", -1);
    REFUSED(&d,
            tsa_decode(d.plan,
                       BATCH(.slots = good, .count = 4, .layer = RAGGED_LAYER, .q = q, .k = k,
                             .v = v, .o = o),
                       NULL, &d.err),
            TSA_EINVAL, "states", -1);
    REFUSED(&d,
            tsa_decode(d.plan,
                       BATCH(.states = list, .slots = good, .count = 4, .layer = RAGGED_LAYERS,
                             .q = q, .k = k, .v = v, .o = o),
                       NULL, &d.err),
            TSA_EINVAL, "layer", -1);
    REFUSED(&d,
            tsa_decode(d.plan,
                       BATCH(.states = list, .slots = good, .count = 4, .layer = RAGGED_LAYER,
                             .k = k, .v = v, .o = o),
                       NULL, &d.err),
            TSA_EINVAL, "q", -1);
    struct tsa_tensor *const tensor[] = {&q, &k, &v};
    static const char *const name[] = {"q", "k", "v"};
    for (int j = 0; j < 3; j++) {
        const double old = poke(&d, tensor[j], 3, 1, 0, 2, NAN);
        REFUSED(&d, SLOTS_CALL(good, 4), TSA_ENONFINITE, name[j], 3);
        ck_assert_int_eq(d.err.head, 1);
        ck_assert_int_eq(d.err.token, 0);
        ck_assert_int_eq(d.err.column, 2);
        poke(&d, tensor[j], 3, 1, 0, 2, old);
    }
    o.batch = 3; /* slots that overlap */
    REFUSED(&d, SLOTS_CALL(good, 4), TSA_EINVAL, "o", -1);
    o = d.y.o.tensor;
    k.batch = PTRDIFF_MAX / 4; /* slot 4 is past the address space */
    REFUSED(&d, SLOTS_CALL(good, 4), TSA_EINVAL, "k", -1);
    k = d.y.k.tensor;
    ok(SLOTS_CALL(good, 4), &d.err);
#undef SLOTS_CALL
    desk_end(&d);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("ragged_errors");
    TCase *errors = add_case(suite, "errors");
    tcase_add_loop_test(errors, bad_numbers, 0, 4);
    tcase_add_loop_test(errors, bad_arguments, 0, 4);
    tcase_add_loop_test(errors, bad_values, 0, 4);
    tcase_add_loop_test(errors, no_memory, 0, 4);
    tcase_add_loop_test(errors, bad_slots, 0, 2);
    return run_suite(suite);
}
