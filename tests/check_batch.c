/* SPDX-License-Identifier: MIT */
/* struct tsa_batch: versions of the struct, contradictions, tensors that a call does not use,
 * widths, and slots beside packed and padded sequences, bit by bit against calls for one
 * sequence. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "run.h"

enum { SEQUENCES = 4, TOKENS = 21, HEADS = 4, WIDTH = 5, VALUES = 7 };

struct desk {
    struct problem p;
    struct run r;
    struct tsa_error err;
};

static void desk_begin(struct desk *d, enum tsa_dtype dtype)
{
    const struct shape shape = {WIDTH,       VALUES,    3,      8,     HEADS,
                                2,           SEQUENCES, TOKENS, dtype, TSA_NORMALIZE_L2,
                                COEF_TAYLOR, TEMP_TWO};
    problem_make(&d->p, &shape, 77);
    run_begin(&d->r, &d->p, NULL, 1, WAY_AUTO);
}

static void desk_end(struct desk *d)
{
    run_end(&d->r);
    problem_free(&d->p);
}

/* All that a call may need; .o is where run.c keeps outputs. */
static struct tsa_batch whole(const struct desk *d)
{
    return *BATCH(.states = d->r.states, .count = SEQUENCES, .tokens = TOKENS, .q = d->p.q,
                  .k = d->p.k, .v = d->p.v, .o = d->r.out);
}

typedef enum tsa_status (*call)(const struct tsa_plan *, const struct tsa_batch *,
                                struct tsa_workspace *, struct tsa_error *);
static enum tsa_status prefill(const struct tsa_plan *p, const struct tsa_batch *b,
                               struct tsa_workspace *w, struct tsa_error *e)
{
    return tsa_prefill(p, b, w, e);
}
static enum tsa_status decode(const struct tsa_plan *p, const struct tsa_batch *b,
                              struct tsa_workspace *w, struct tsa_error *e)
{
    return tsa_decode(p, b, w, e);
}
static enum tsa_status absorb(const struct tsa_plan *p, const struct tsa_batch *b,
                              struct tsa_workspace *w, struct tsa_error *e)
{
    return tsa_absorb(p, b, w, e);
}
static enum tsa_status query(const struct tsa_plan *p, const struct tsa_batch *b,
                             struct tsa_workspace *w, struct tsa_error *e)
{
    return tsa_query(p, b, w, e);
}
static const call calls[] = {prefill, decode, absorb, query};
enum { CALLS = sizeof calls / sizeof *calls };

/* The call fails with this status and argument, and no state has tokens after it. */
static void refused(struct desk *d, call function, const struct tsa_batch *batch,
                    enum tsa_status want, const char *argument)
{
    memset(&d->err, 0x5a, sizeof d->err);
    const enum tsa_status got = function(d->r.plan, batch, NULL, &d->err);
    ck_assert_msg(got == want, "%s, wanted %s for %s: %s", tsa_status_string(got),
                  tsa_status_string(want), argument, d->err.text);
    ck_assert_int_eq(d->err.status, want);
    ck_assert_str_eq(d->err.argument, argument);
    for (size_t b = 0; b < SEQUENCES; b++)
        ck_assert_uint_eq(tsa_state_tokens(d->r.states[b], 0), 0);
}

START_TEST(sizes)
{
    struct tsa_batch batch;
    struct desk d;
    desk_begin(&d, TSA_F32);
    memset(&batch, 0x5a, sizeof batch);
    ck_assert_int_eq(tsa_batch_init(&batch, sizeof batch), TSA_OK);
    ck_assert_mem_eq(&batch, BATCH(.tokens = 0), sizeof batch);
    ck_assert_int_eq(tsa_batch_init(NULL, sizeof batch), TSA_EINVAL);
    const size_t wrong[] = {0, 1, sizeof batch - 1, sizeof batch - 8, 4097, SIZE_MAX};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        ck_assert_int_eq(tsa_batch_init(&batch, wrong[i]), TSA_EINVAL);
        batch = whole(&d);
        batch.size = wrong[i];
        for (size_t c = 0; c < CALLS; c++)
            refused(&d, calls[c], &batch, TSA_EINVAL, "size");
    }
    for (size_t c = 0; c < CALLS; c++)
        refused(&d, calls[c], NULL, TSA_EINVAL, "batch");
    batch = whole(&d);
    batch.reserved[3] = &d;
    for (size_t c = 0; c < CALLS; c++)
        refused(&d, calls[c], &batch, TSA_EINVAL, "reserved");
    desk_end(&d);
}
END_TEST

/* A caller built against a newer header: what this version does not know has to be zero. */
START_TEST(newer)
{
    struct {
        struct tsa_batch batch;
        unsigned char tail[64];
    } later;
    struct desk d;
    desk_begin(&d, TSA_F32);
    memset(&later, 0x5a, sizeof later);
    ck_assert_int_eq(tsa_batch_init(&later.batch, sizeof later), TSA_OK);
    ck_assert_uint_eq(later.batch.size, sizeof later);
    for (size_t i = 0; i < sizeof later.tail; i++)
        ck_assert_int_eq(later.tail[i], 0);
    later.batch = whole(&d);
    later.batch.tokens = 1;
    later.batch.size = sizeof later;
    for (size_t i = 0; i < sizeof later.tail; i += sizeof later.tail - 1) {
        later.tail[i] = 1;
        for (size_t c = 0; c < CALLS; c++)
            refused(&d, calls[c], &later.batch, TSA_EINVAL, "size");
        later.tail[i] = 0;
    }
    for (size_t c = 0; c < CALLS; c++)
        ok(calls[c](d.r.plan, &later.batch, NULL, &d.err), &d.err);
    desk_end(&d);
}
END_TEST

START_TEST(contradictions)
{
    const int64_t offsets[SEQUENCES + 1] = {0, 1, 2, 3, 4}, lengths[SEQUENCES] = {1, 1, 1, 1};
    struct desk d;
    desk_begin(&d, TSA_F32);
    for (size_t c = 0; c < CALLS; c++) {
        struct tsa_batch batch = whole(&d);
        batch.offsets = offsets;
        batch.lengths = lengths;
        refused(&d, calls[c], &batch, TSA_EINVAL, "lengths");
        batch = whole(&d);
        batch.gate = d.p.v;
        refused(&d, calls[c], &batch, TSA_EINVAL, "gate");
        batch = whole(&d);
        batch.value_gate = d.p.v;
        refused(&d, calls[c], &batch, TSA_EINVAL, "value_gate");
    }
    for (int i = 0; i < 2; i++) { /* as many rows of every sequence */
        struct tsa_batch batch = whole(&d);
        batch.tokens = 1;
        batch.offsets = offsets;
        refused(&d, i ? decode : query, &batch, TSA_EINVAL, "offsets");
        batch.offsets = NULL;
        batch.lengths = lengths;
        refused(&d, i ? decode : query, &batch, TSA_EINVAL, "lengths");
    }
    struct tsa_batch batch = whole(&d);
    batch.tokens = 2;
    refused(&d, decode, &batch, TSA_EINVAL, "tokens");
    ck_assert_int_eq(d.err.wanted, 1);
    ck_assert_int_eq(d.err.found, 2);
    for (size_t tokens = 0; tokens < 2; tokens++) { /* both mean one */
        batch.tokens = tokens;
        ok(tsa_decode(d.r.plan, &batch, NULL, &d.err), &d.err);
        ck_assert_uint_eq(tsa_state_tokens(d.r.states[3], 0), 1 + tokens);
    }
    desk_end(&d);
}
END_TEST

START_TEST(widths)
{
    struct desk d;
    desk_begin(&d, TSA_F32);
    for (int i = 0; i < 4; i++) {
        static const char *const name[] = {"q", "k", "v", "o"};
        struct tsa_batch batch = whole(&d);
        struct tsa_tensor *const tensor[] = {&batch.q, &batch.k, &batch.v, &batch.o};
        const size_t width = i < 2 ? WIDTH : VALUES;
        for (size_t wrong = width - 1; wrong <= width + 1; wrong += 2) {
            tensor[i]->width = wrong;
            refused(&d, prefill, &batch, TSA_EINVAL, name[i]);
            ck_assert_int_eq(d.err.wanted, (int64_t)width);
            ck_assert_int_eq(d.err.found, (int64_t)wrong);
            batch.tokens = 0; /* no rows are needed to see it */
            refused(&d, prefill, &batch, TSA_EINVAL, name[i]);
            batch.tokens = TOKENS;
        }
    }
    struct tsa_batch batch = whole(&d);
    batch.q.width = batch.k.width = WIDTH;
    batch.v.width = batch.o.width = VALUES;
    ok(tsa_prefill(d.r.plan, &batch, NULL, &d.err), &d.err);
    desk_end(&d);
}
END_TEST

/* What a call does not use may be anything; what it needs may not be missing, if there are rows. */
START_TEST(unused_tensors)
{
    struct desk d;
    desk_begin(&d, TSA_F64);
    const struct tsa_tensor wild = {.data = &d, .dtype = (enum tsa_dtype)99, .width = 1};
    struct tsa_batch batch = whole(&d);
    batch.q = batch.o = wild;
    ok(tsa_absorb(d.r.plan, &batch, NULL, &d.err), &d.err);
    batch = whole(&d);
    batch.k = batch.v = wild;
    ok(tsa_query(d.r.plan, &batch, NULL, &d.err), &d.err);
    for (size_t b = 0; b < SEQUENCES; b++)
        ok(tsa_state_reset(d.r.plan, d.r.states[b], &d.err), &d.err);
    for (int i = 0; i < 4; i++) {
        static const char *const name[] = {"q", "k", "v", "o"};
        batch = whole(&d);
        struct tsa_tensor *const tensor[] = {&batch.q, &batch.k, &batch.v, &batch.o};
        memset(tensor[i], 0, sizeof *tensor[i]);
        refused(&d, prefill, &batch, TSA_EINVAL, name[i]);
        if (i == 1 || i == 2)
            refused(&d, absorb, &batch, TSA_EINVAL, name[i]);
        else
            refused(&d, query, &batch, TSA_EINVAL, name[i]);
    }
    const struct tsa_batch nothing = *BATCH(.states = d.r.states, .count = SEQUENCES);
    ok(tsa_prefill(d.r.plan, &nothing, NULL, &d.err), &d.err);
    ok(tsa_absorb(d.r.plan, &nothing, NULL, &d.err), &d.err);
    ok(tsa_query(d.r.plan, &nothing, NULL, &d.err), &d.err);
    desk_end(&d);
}
END_TEST

/* -- slots ------------------------------------------------------------------------------------- */

static const int64_t slots[] = {2, 0, 3}, lengths[] = {TOKENS, 3, 17};
enum { LISTED = sizeof slots / sizeof *slots };

/* What a call for one sequence each gives: states and outputs of another run. */
static void one_by_one(struct run *alone, const struct problem *p)
{
    struct tsa_error err;
    for (size_t i = 0; i < LISTED; i++) {
        const size_t s = (size_t)slots[i];
        ok(tsa_prefill(alone->plan,
                       BATCH(.states = alone->states + s, .count = 1, .tokens = (size_t)lengths[i],
                             .q = from_batch(p->q, s), .k = from_batch(p->k, s),
                             .v = from_batch(p->v, s), .o = from_batch(alone->out, s)),
                       NULL, &err),
           &err);
    }
}

static void assert_same(const struct desk *d, const struct run *alone, const char *what)
{
    for (size_t s = 0; s < SEQUENCES; s++)
        assert_equal(d->r.plan, d->r.states[s], alone->states[s], true);
    assert_bits(d->r.o, alone->o, d->p.shape.dtype, d->p.o_count, what);
}

/* Padded sequences in slots: lengths go by place in the list, rows and states by slot. */
START_TEST(padded_slots)
{
    struct desk d;
    struct run alone;
    desk_begin(&d, _i == 0 ? TSA_F32 : TSA_F64);
    run_begin(&alone, &d.p, NULL, 1, WAY_AUTO);
    one_by_one(&alone, &d.p);
    struct tsa_batch batch = whole(&d);
    batch.count = LISTED;
    batch.slots = slots;
    batch.lengths = lengths;
    ok(tsa_prefill(d.r.plan, &batch, NULL, &d.err), &d.err);
    assert_same(&d, &alone, "padded");
    const int64_t twice[] = {1, 2, 1};
    batch.slots = twice;
    ck_assert_int_eq(tsa_absorb(d.r.plan, &batch, NULL, &d.err), TSA_EINVAL);
    ck_assert_str_eq(d.err.argument, "slots");
    assert_same(&d, &alone, "refused");
    /* queries of some states: of those that have tokens */
    batch = whole(&d);
    batch.count = LISTED;
    batch.slots = slots;
    ok(tsa_query(d.r.plan, &batch, NULL, &d.err), &d.err);
    for (size_t i = 0; i < LISTED; i++) {
        const size_t s = (size_t)slots[i];
        ok(tsa_query(alone.plan,
                     BATCH(.states = alone.states + s, .count = 1, .tokens = TOKENS,
                           .q = from_batch(d.p.q, s), .o = from_batch(alone.out, s)),
                     NULL, &d.err),
           &d.err);
    }
    assert_same(&d, &alone, "queries");
    const int64_t empty[] = {2, 1};
    batch.slots = empty;
    batch.count = 2;
    ck_assert_int_eq(tsa_query(d.r.plan, &batch, NULL, &d.err), TSA_EINVAL);
    ck_assert_int_eq(d.err.sequence, 1); /* the slot, not its place */
    run_end(&alone);
    desk_end(&d);
}
END_TEST

/* Packed sequences into the states of slots; the rows lie one after another. */
START_TEST(packed_slots)
{
    struct desk d;
    struct run alone;
    desk_begin(&d, _i == 0 ? TSA_F32 : TSA_F64);
    run_begin(&alone, &d.p, NULL, 1, WAY_AUTO);
    one_by_one(&alone, &d.p);
    const struct shape *s = &d.p.shape;
    const struct tsa_tensor *from[] = {&d.p.q, &d.p.k, &d.p.v};
    struct tsa_tensor packed[3];
    int64_t offsets[LISTED + 1] = {0};
    for (size_t i = 0; i < LISTED; i++)
        offsets[i + 1] = offsets[i] + lengths[i];
    const size_t rows = (size_t)offsets[LISTED], elem = dtype_size(s->dtype);
    for (int j = 0; j < 3; j++) {
        const size_t heads = j == 0 ? s->heads : s->kv_heads, width = j == 2 ? s->dv : s->d;
        packed[j] = dense(make_zeros(heads * rows * width, s->dtype), s->dtype, heads, rows, width);
        for (size_t i = 0; i < LISTED; i++)
            for (size_t h = 0; h < heads; h++)
                memcpy((char *)packed[j].data + (h * rows + (size_t)offsets[i]) * width * elem,
                       (const char *)from[j]->data +
                           (((size_t)slots[i] * heads + h) * TOKENS) * width * elem,
                       (size_t)lengths[i] * width * elem);
    }
    void *o = make_zeros(s->heads * rows * s->dv, s->dtype);
    ok(tsa_prefill(d.r.plan,
                   BATCH(.states = d.r.states, .count = LISTED, .slots = slots, .offsets = offsets,
                         .q = packed[0], .k = packed[1], .v = packed[2],
                         .o = dense(o, s->dtype, s->heads, rows, s->dv)),
                   NULL, &d.err),
       &d.err);
    for (size_t i = 0; i < LISTED; i++)
        for (size_t h = 0; h < s->heads; h++)
            memcpy((char *)d.r.o + (((size_t)slots[i] * s->heads + h) * TOKENS) * s->dv * elem,
                   (char *)o + (h * rows + (size_t)offsets[i]) * s->dv * elem,
                   (size_t)lengths[i] * s->dv * elem);
    assert_same(&d, &alone, "packed");
    for (int j = 0; j < 3; j++)
        free(packed[j].data);
    free(o);
    run_end(&alone);
    desk_end(&d);
}
END_TEST

/* Numbers go by place, but the sequence of an error is the slot; slots are looked at first. */
START_TEST(numbers)
{
    struct desk d;
    desk_begin(&d, TSA_F32);
    struct tsa_batch batch = whole(&d);
    batch.count = LISTED;
    batch.slots = slots;
    const int64_t backwards[] = {0, 5, 4, 9}, below[] = {-1, 5, 6, 9},
                  longer[] = {3, 4, TOKENS + 1};
    const int64_t negative[] = {2, -1, 3};
    const struct {
        const int64_t *offsets, *lengths;
        ptrdiff_t sequence;
    } bad[] = {{backwards, NULL, 0}, {below, NULL, 2}, {NULL, longer, 3}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        batch.offsets = bad[i].offsets;
        batch.lengths = bad[i].lengths;
        for (int j = 0; j < 2; j++) {
            batch.slots = slots;
            refused(&d, j ? prefill : absorb, &batch, TSA_EINVAL,
                    batch.offsets ? "offsets" : "lengths");
            ck_assert_int_eq(d.err.sequence, bad[i].sequence);
            batch.slots = negative;
            refused(&d, j ? prefill : absorb, &batch, TSA_EINVAL, "slots");
            ck_assert_int_eq(d.err.sequence, -1);
            ck_assert_int_eq(d.err.found, -1);
        }
    }
    desk_end(&d);
}
END_TEST

/* -- values in slots --------------------------------------------------------------------------- */

enum shape_of_rows { EVEN, PADDED, PACKED };

/* The call on some states, of which each has three tokens, is refused for one element, and has
 * changed neither states nor outputs. `at`: sequence, head, token, column, the last -1 if the whole
 * row is to blame. */
static void refused_at(struct desk *d, call function, const struct tsa_batch *batch,
                       enum tsa_status want, const char *argument, const ptrdiff_t at[4])
{
    const size_t bytes = d->p.o_count * dtype_size(d->p.shape.dtype);
    void *o = malloc(bytes);
    memcpy(o, d->r.o, bytes);
    const enum tsa_status got = function(d->r.plan, batch, NULL, &d->err);
    ck_assert_msg(got == want, "%s, wanted %s for %s, slot %td", tsa_status_string(got),
                  tsa_status_string(want), argument, at[0]);
    ck_assert_str_eq(d->err.argument, argument);
    ck_assert_int_eq(d->err.sequence, at[0]);
    ck_assert_int_eq(d->err.head, at[1]);
    ck_assert_int_eq(d->err.token, at[2]);
    ck_assert_int_eq(d->err.column, at[3]);
    for (size_t b = 0; b < SEQUENCES; b++)
        ck_assert_uint_eq(tsa_state_tokens(d->r.states[b], 0), 3);
    ck_assert_mem_eq(o, d->r.o, bytes);
    free(o);
}

/* A bad element in any listed slot is found, wherever it stands in the list; rows of slots that are
 * not listed, and pads, may hold NaN. Without normalisation, so that finite values overflow too. */
START_TEST(values_in_slots)
{
    const enum tsa_dtype dtype = _i % 2 == 0 ? TSA_F32 : TSA_F64;
    const enum shape_of_rows rows = _i / 2 % 3;
    const bool wide = _i / 6 == 1; /* worth a team */
    const struct shape shape = {wide ? 64 : WIDTH,
                                VALUES,
                                3,
                                8,
                                HEADS,
                                2,
                                SEQUENCES,
                                wide ? 600 : TOKENS,
                                dtype,
                                TSA_NORMALIZE_NONE,
                                COEF_TAYLOR,
                                TEMP_TWO};
    static const int64_t offsets[LISTED + 1] = {1, 8, 8 + 3, 8 + 3 + 5};
    static const int64_t padded[LISTED] = {7, 3, 5};
    struct desk d;
    problem_make(&d.p, &shape, 78);
    run_begin(&d.r, &d.p, NULL, wide ? 3 : 1, WAY_AUTO);
    struct tsa_batch batch = whole(&d);
    batch.tokens = 3;
    ok(tsa_absorb(d.r.plan, &batch, NULL, &d.err), &d.err);
    batch.tokens = shape.tokens;
    batch.count = LISTED;
    batch.slots = slots;
    batch.offsets = rows == PACKED ? offsets : NULL;
    batch.lengths = rows == PADDED ? padded : NULL;
    const struct tsa_tensor *const x[] = {&d.p.q, &d.p.k, &d.p.v};
    static const char *const name[] = {"q", "k", "v"};
#define ELEMENT(s, h, t, c) ((((s)*heads + (h)) * shape.tokens + (t)) * width + (c))
    const double large = dtype == TSA_F32 ? 1e38 : 1e308;
    for (size_t i = 0; i < LISTED; i++)
        for (int j = 0; j < 3; j++)
            for (int finite = 0; finite < 2; finite++) {
                const size_t heads = j == 0 ? HEADS : 2, width = j == 2 ? shape.dv : shape.d;
                const size_t s = (size_t)slots[i], h = heads - 1, t = 2, c = width - 1;
                const size_t e =
                    rows == PACKED ? ELEMENT(0, h, (size_t)offsets[i] + t, c) : ELEMENT(s, h, t, c);
                const ptrdiff_t at[] = {slots[i], (ptrdiff_t)h, (ptrdiff_t)t,
                                        finite ? -1 : (ptrdiff_t)c};
                const enum tsa_status want = finite ? TSA_EOVERFLOW : TSA_ENONFINITE;
                const double old = get(x[j]->data, dtype, e);
                /* what no call may look at */
                const size_t unlisted = rows == PACKED   ? ELEMENT(0, 0, 0, 1)
                                        : rows == PADDED ? ELEMENT(0, 0, 3, 1)
                                                         : ELEMENT(1, h, 2, 1);
                const double other = get(x[j]->data, dtype, unlisted);
                if (finite)
                    put(x[j]->data, dtype, unlisted, NAN);
                put(x[j]->data, dtype, e, finite ? large : INFINITY);
                refused_at(&d, prefill, &batch, want, name[j], at);
                if (j > 0)
                    refused_at(&d, absorb, &batch, want, name[j], at);
                else if (rows == EVEN)
                    refused_at(&d, query, &batch, want, name[j], at);
                put(x[j]->data, dtype, e, old);
                put(x[j]->data, dtype, unlisted, other);
            }
    for (int j = 0; j < 3; j++) {
        const size_t heads = j == 0 ? HEADS : 2, width = j == 2 ? shape.dv : shape.d;
        put(x[j]->data, dtype,
            rows == PACKED   ? ELEMENT(0, 0, 0, 1)
            : rows == PADDED ? ELEMENT(0, 0, 3, 1)
                             : ELEMENT(1, 0, 2, 1),
            NAN);
    }
#undef ELEMENT
    if (rows == EVEN)
        ok(tsa_query(d.r.plan, &batch, NULL, &d.err), &d.err);
    ok(tsa_prefill(d.r.plan, &batch, NULL, &d.err), &d.err);
    run_end(&d.r);
    problem_free(&d.p);
}
END_TEST

/* -- slots of queries -------------------------------------------------------------------------- */

/* A slot that is there twice is refused however far apart its places are; states may repeat. */
START_TEST(query_slots)
{
    enum { MANY = 70001 };
    static const size_t pairs[][2] = {{0, 1}, {1, 0}, {0, MANY - 1}, {40000, 7}, {32768, 65536}};
    const int threads = _i + 1;
    struct desk d;
    struct tsa_options options;
    desk_begin(&d, TSA_F32);
    problem_options(&d.p, &options);
    options.threads = threads;
    struct tsa_plan *plan = make_plan(&options);
    ok(tsa_absorb(plan,
                  BATCH(.states = d.r.states, .count = 1, .tokens = 9, .k = d.p.k, .v = d.p.v),
                  NULL, &d.err),
       &d.err);
    struct tsa_state **states = malloc(MANY * sizeof *states);
    int64_t *list = malloc(MANY * sizeof *list);
    float *o = malloc(sizeof(float) * MANY * HEADS * VALUES);
    for (size_t i = 0; i < MANY; i++) {
        states[i] = d.r.states[0];
        list[i] = (int64_t)(MANY - 1 - i);
    }
    struct tsa_tensor q = d.p.q;
    q.batch = 0;
    struct tsa_batch batch = *BATCH(.states = states, .count = MANY, .tokens = 1, .slots = list,
                                    .q = q, .o = dense(o, TSA_F32, HEADS, 1, VALUES));
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        const int64_t old = list[pairs[i][0]], other = list[pairs[i][1]];
        list[pairs[i][0]] = other;
        memset(o, 0x5a, sizeof(float) * MANY * HEADS * VALUES);
        ck_assert_int_eq(tsa_query(plan, &batch, NULL, &d.err), TSA_EINVAL);
        ck_assert_str_eq(d.err.argument, "slots");
        ck_assert_int_eq(d.err.sequence, other);
        char text[64];
        const size_t first = pairs[i][0] < pairs[i][1] ? pairs[i][0] : pairs[i][1];
        snprintf(text, sizeof text, "slots[%zu] and slots[%zu]", first,
                 pairs[i][0] + pairs[i][1] - first);
        ck_assert_msg(strstr(d.err.text, text) != NULL, "\"%s\", wanted %s", d.err.text, text);
        for (size_t j = 0; j < MANY * HEADS * VALUES * sizeof(float); j++)
            CHECK(((unsigned char *)o)[j] == 0x5a, "byte %zu of the outputs has changed", j);
        list[pairs[i][0]] = old;
    }
    ok(tsa_query(plan, &batch, NULL, &d.err), &d.err);
    for (size_t i = 1; i < MANY; i++)
        CHECK(memcmp(o, o + i * HEADS * VALUES, sizeof(float) * HEADS * VALUES) == 0,
              "slot %zu differs", i);
    free(states);
    free(list);
    free(o);
    tsa_plan_destroy(plan);
    desk_end(&d);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("batch");
    TCase *refusals = add_case(suite, "refusals"), *lists = add_case(suite, "slots");
    tcase_add_test(refusals, sizes);
    tcase_add_test(refusals, newer);
    tcase_add_test(refusals, contradictions);
    tcase_add_test(refusals, numbers);
    tcase_add_test(refusals, widths);
    tcase_add_test(refusals, unused_tensors);
    tcase_add_loop_test(lists, padded_slots, 0, 2);
    tcase_add_loop_test(lists, packed_slots, 0, 2);
    tcase_add_loop_test(lists, values_in_slots, 0, 12);
    tcase_add_loop_test(lists, query_slots, 0, 2);
    return run_suite(suite);
}
