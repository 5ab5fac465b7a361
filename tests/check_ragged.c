/* SPDX-License-Identifier: MIT */
/* Sequences of different lengths in one call, and the slots of a decoder: the bits are those of one
 * call for each sequence, nothing else is read or written, and what cannot be is refused. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "support.h"

#define L2 TSA_NORMALIZE_L2
#define RAW TSA_NORMALIZE_NONE

#define MOST 320            /* sequences of a call */
#define PAST 200            /* tokens that states may have absorbed before it */
#define LAYERS 2            /* of states, */
#define LAYER 1             /* of which the calls use this one */
#define FIRST 3             /* rows before the first packed sequence, */
#define BEHIND 2            /* behind the last one, and behind the longest padded one */
#define SLOTS 9             /* of a decoder */
#define UNTOUCHED 0.7109375 /* what outputs hold before a call */

/* Sequences that lie one after another in a problem, the states before the call, and what calls
 * with each of them alone make of these. */
struct batch {
    struct problem p, past;
    size_t count, length[MOST], start[MOST], before[MOST];
    struct tsa_plan *alone;
    struct tsa_state **given, **want, **got; /* got: those of the call */
    void *o;                                 /* [heads][rows][dv] */
};

static struct tsa_plan *plan_of(const struct problem *p, int threads, enum way way, unsigned flags)
{
    struct tsa_options options;
    problem_options(p, &options);
    poison_allocations(&options);
    options.layers = LAYERS;
    options.threads = threads;
    options.flags = flags;
    struct tsa_plan *plan = make_plan(&options);
    ck_assert_int_eq(tsa_plan_threads(plan), threads);
    assert_team(threads);
    set_way(plan, way);
    return plan;
}

static void absorb_past(const struct batch *x, size_t b)
{
    const struct tsa_tensor k = from_token(x->past.k, b % 7), v = from_token(x->past.v, b % 7);
    struct tsa_error err;
    ok(tsa_absorb(x->alone,
                  BATCH(.states = &x->given[b], .count = 1, .layer = LAYER, .tokens = x->before[b],
                        .k = k, .v = v),
                  NULL, &err),
       &err);
    ok(tsa_absorb(x->alone,
                  BATCH(.states = &x->given[b], .count = 1, .tokens = b % 5, .k = k, .v = v), NULL,
                  &err),
       &err);
}

static void run_alone(const struct batch *x, size_t b)
{
    const struct shape *s = &x->p.shape;
    const size_t t = x->start[b], n = x->length[b];
    const struct tsa_tensor out = dense(x->o, s->dtype, s->heads, s->tokens, s->dv);
    const struct tsa_tensor q = from_token(x->p.q, t), k = from_token(x->p.k, t);
    const struct tsa_tensor v = from_token(x->p.v, t), o = from_token(out, t);
    struct tsa_error err;
    ok(tsa_state_copy(x->alone, x->want[b], x->given[b], &err), &err);
    if (n == 1)
        ok(tsa_decode(x->alone,
                      BATCH(.states = &x->want[b], .count = 1, .layer = LAYER, .q = q, .k = k,
                            .v = v, .o = o),
                      NULL, &err),
           &err);
    else if (n > 0)
        ok(tsa_prefill(x->alone,
                       BATCH(.states = &x->want[b], .count = 1, .layer = LAYER, .tokens = n, .q = q,
                             .k = k, .v = v, .o = o),
                       NULL, &err),
           &err);
}

/* length[] and before[] are filled in. */
static void batch_begin(struct batch *x, const struct shape *shape, uint64_t seed)
{
    struct shape s = *shape;
    ck_assert_uint_le(x->count, MOST);
    s.batch = 1;
    s.tokens = 1; /* one more than there are */
    for (size_t b = 0; b < x->count; b++) {
        x->start[b] = s.tokens;
        s.tokens += x->length[b];
        ck_assert_uint_le(x->before[b] + 7, PAST);
    }
    problem_make(&x->p, &s, seed);
    s.tokens = PAST;
    problem_make(&x->past, &s, seed + 1);
    x->alone = plan_of(&x->p, 1, 0, 0);
    x->given = states_make(x->alone, x->count);
    x->want = states_make(x->alone, x->count);
    x->got = states_make(x->alone, x->count);
    x->o = make_zeros(x->p.o_count, s.dtype);
    for (size_t b = 0; b < x->count; b++) {
        absorb_past(x, b);
        run_alone(x, b);
    }
}

static void batch_end(struct batch *x)
{
    states_free(x->given, x->count);
    states_free(x->want, x->count);
    states_free(x->got, x->count);
    tsa_plan_destroy(x->alone);
    free(x->o);
    problem_free(&x->p);
    problem_free(&x->past);
}

/* -- one call ---------------------------------------------------------------------------------- */

enum kind { PACKED, PADDED };

/* Which sequence comes where in a call. */
struct place {
    enum kind kind;
    size_t count, order[MOST];
    size_t batch, tokens;     /* of the tensors */
    int64_t number[MOST + 1]; /* offsets or lengths */
    bool finite;              /* rows of no sequence are; else a look at them would be seen */
};

static void shuffle(struct rng *r, size_t *list, size_t count)
{
    for (size_t i = count; i > 1; i--) {
        const size_t j = rng_next(r) % i, swap = list[i - 1];
        list[i - 1] = list[j];
        list[j] = swap;
    }
}

/* seed 0: in their own order. */
static void place_make(struct place *at, const struct batch *x, enum kind kind, uint64_t seed)
{
    struct rng r = {seed};
    size_t rows = FIRST, most = 0;
    at->finite = false;
    at->kind = kind;
    at->count = x->count;
    for (size_t i = 0; i < x->count; i++)
        at->order[i] = i;
    if (seed > 0)
        shuffle(&r, at->order, at->count);
    for (size_t i = 0; i < x->count; i++) {
        const size_t n = x->length[at->order[i]];
        at->number[i] = (int64_t)(kind == PACKED ? rows : n);
        rows += n;
        most = n > most ? n : most;
    }
    at->number[x->count] = (int64_t)rows;
    at->batch = kind == PACKED ? 1 : x->count;
    at->tokens = kind == PACKED ? rows + BEHIND : most + BEHIND;
}

/* Rows of an array [heads][rows][width] at their places in the call. All others hold what must not
 * be read, or what outputs hold before the call. */
static void *spread(const struct place *at, const struct batch *x, const void *from, size_t heads,
                    size_t width, enum tsa_dtype as, bool output)
{
    const struct shape *s = &x->p.shape;
    const size_t count = at->batch * heads * at->tokens * width;
    void *to = make_zeros(count, as);
    for (size_t i = 0; i < count; i++)
        put(to, as, i, output || at->finite ? UNTOUCHED : i % 2 == 0 ? NAN : -INFINITY);
    for (size_t j = 0; j < at->count * heads; j++) {
        const size_t i = j / heads, h = j % heads, b = at->order[i];
        const size_t row = at->kind == PACKED ? h * at->tokens + (size_t)at->number[i]
                                              : (i * heads + h) * at->tokens;
        const size_t own = h * s->tokens + x->start[b];
        for (size_t c = 0; c < x->length[b] * width; c++)
            put(to, as, row * width + c, get(from, s->dtype, own * width + c));
    }
    return to;
}

struct views {
    struct strided q, k, v, o;
};

static void views_make(struct views *y, const struct place *at, const struct batch *x, int layout,
                       enum tsa_dtype as)
{
    const struct shape *s = &x->p.shape;
    struct place nothing = *at;
    nothing.count = 0;
    const struct {
        struct strided *to;
        const struct place *at;
        const void *from;
        size_t heads, width;
    } part[] = {
        {&y->q, at, x->p.q.data, s->heads, s->d},
        {&y->k, at, x->p.k.data, s->kv_heads, s->d},
        {&y->v, at, x->p.v.data, s->kv_heads, s->dv},
        {&y->o, &nothing, NULL, s->heads, s->dv},
    };
    for (int j = 0; j < 4; j++) {
        void *rows = spread(part[j].at, x, part[j].from, part[j].heads, part[j].width, as, j == 3);
        strided_make(part[j].to, (enum layout)((layout + j) % LAYOUTS), as, at->batch,
                     part[j].heads, at->tokens, part[j].width, rows);
        if (at->kind == PACKED)
            part[j].to->tensor.batch = PTRDIFF_MAX - j; /* which is not used */
        free(rows);
    }
}

static void views_free(struct views *y)
{
    strided_free(&y->q);
    strided_free(&y->k);
    strided_free(&y->v);
    strided_free(&y->o);
}

/* The outputs of the call, and nothing but these. */
static void check_outputs(const struct views *y, const struct place *at, const struct batch *x)
{
    const struct shape *s = &x->p.shape;
    const enum tsa_dtype as = y->o.tensor.dtype;
    const size_t count = at->batch * s->heads * at->tokens * s->dv;
    void *got = make_zeros(count, as), *want = spread(at, x, x->o, s->heads, s->dv, as, true);
    strided_read(&y->o, got);
    assert_bits(got, want, as, count, at->kind == PACKED ? "packed" : "padded");
    free(got);
    free(want);
}

static enum tsa_status enter(const struct tsa_plan *plan, struct tsa_state *const *states,
                             const struct place *at, const struct views *y, bool absorb,
                             struct tsa_workspace *ws, struct tsa_error *err)
{
    const struct tsa_tensor *q = &y->q.tensor, *k = &y->k.tensor, *v = &y->v.tensor;
    const struct tsa_tensor *o = &y->o.tensor;
    const size_t n = at->count;
    if (at->kind == PACKED)
        return absorb
                   ? tsa_absorb(plan,
                                BATCH(.states = states, .count = n, .layer = LAYER,
                                      .offsets = at->number, .k = *k, .v = *v),
                                ws, err)
                   : tsa_prefill(plan,
                                 BATCH(.states = states, .count = n, .layer = LAYER,
                                       .offsets = at->number, .q = *q, .k = *k, .v = *v, .o = *o),
                                 ws, err);
    return absorb ? tsa_absorb(plan,
                               BATCH(.states = states, .count = n, .layer = LAYER,
                                     .tokens = at->tokens, .lengths = at->number, .k = *k, .v = *v),
                               ws, err)
                  : tsa_prefill(plan,
                                BATCH(.states = states, .count = n, .layer = LAYER,
                                      .tokens = at->tokens, .lengths = at->number, .q = *q, .k = *k,
                                      .v = *v, .o = *o),
                                ws, err);
}

static void check_state(const struct tsa_plan *plan, const struct tsa_state *got,
                        const struct tsa_state *want, const char *what, size_t b)
{
    struct tsa_error err;
    int equal = -1;
    CHECK(tsa_state_equal(plan, got, want, &equal, &err) == TSA_OK && equal == 1,
          "%s: state %zu differs", what, b);
}

/* All sequences in one call, prefill and absorb, from the states that are given. */
static void run(const struct batch *x, const struct tsa_plan *plan, struct tsa_workspace *ws,
                enum kind kind, uint64_t seed, int layout, enum tsa_dtype as)
{
    struct place at;
    struct views y;
    struct tsa_error err;
    place_make(&at, x, kind, seed);
    views_make(&y, &at, x, layout, as);
    for (int absorb = 0; absorb < 2; absorb++) {
        for (size_t i = 0; i < x->count; i++)
            CHECK(tsa_state_copy(plan, x->got[i], x->given[at.order[i]], &err) == TSA_OK, "copy");
        ok(enter(plan, x->got, &at, &y, absorb, ws, &err), &err);
        for (size_t i = 0; i < x->count; i++)
            check_state(plan, x->got[i], x->want[at.order[i]], absorb ? "absorb" : "prefill", i);
    }
    check_outputs(&y, &at, x);
    views_free(&y);
}

/* Both kinds, by teams of several sizes, with waves and steps that are forced, in any order,
 * through views of all layouts. */
static void run_all(const struct batch *x, size_t sizes)
{
    static const int teams[] = {1, 4, 8, 16, 3};
    int round = 0;
    for (size_t i = 0; i < (quick() ? 2 : sizes); i++)
        for (int way = 0; way < WAY_WAVES_OF_3; way++) {
            if (teams[i] == 1 && way != WAY_AUTO)
                continue;
            struct tsa_plan *plan = plan_of(&x->p, teams[i], (enum way)way, 0);
            struct tsa_workspace *ws = NULL;
            struct tsa_error err;
            if (way != WAY_RELAY)
                ok(tsa_workspace_create(plan, 0, &ws, &err), &err);
            for (int kind = 0; kind < 2; kind++, round++)
                run(x, plan, ws, (enum kind)kind, (uint64_t)round, round, x->p.shape.dtype);
            tsa_workspace_destroy(ws);
            tsa_plan_destroy(plan);
        }
}

/* -- all lengths ------------------------------------------------------------------------------- */

static const struct shape shapes[] = {
    /* d  dv  n   C  H  G */
    {5, 7, 4, 16, 4, 2, 0, 0, 0, L2, COEF_PER_HEAD, TEMP_PER_HEAD},
    {3, 5, 5, 1, 4, 2, 0, 0, 0, RAW, COEF_SHARED, TEMP_PER_HEAD},
    {16, 64, 3, 64, 2, 2, 0, 0, 0, L2, COEF_TAYLOR, TEMP_TWO}, /* work for a team unforced */
    {5, 7, 3, 64, 4, 2, 0, 0, 0, RAW, COEF_TAYLOR, TEMP_SHARED},
    {16, 65, 3, 16, 6, 2, 0, 0, 0, L2, COEF_TAYLOR, TEMP_TWO},
    {1, 1, 8, 5, 1, 1, 0, 0, 0, L2, COEF_SHARED, TEMP_TWO},
};
#define SHAPES ((int)(sizeof shapes / sizeof shapes[0]))

static struct shape shape_at(int index)
{
    struct shape s = shapes[index / 2];
    s.dtype = index % 2 == 0 ? TSA_F32 : TSA_F64;
    return s;
}

/* None, one, few; whole chunks; several; over windows that are open or not. */
static void mixed_lengths(struct batch *x, size_t c)
{
    const size_t length[] = {0, 1, 3, c, 2 * c, 5 * c + 3, 0, 1, 1, c + 1, 2, 3 * c - 1, 0};
    const size_t before[] = {5, 0, c - 1, 0, c / 2, c + 3, 0, c - 1, 2 * c, 1, 0, c / 2 + 1, c};
    x->count = sizeof length / sizeof length[0];
    memcpy(x->length, length, sizeof length);
    memcpy(x->before, before, sizeof before);
}

START_TEST(mixed)
{
    const struct shape s = shape_at(_i);
    struct batch x;
    mixed_lengths(&x, s.chunk);
    batch_begin(&x, &s, 2000 + (uint64_t)_i);
    size_t windows = 0, folds = 0;
    for (size_t b = 0; b < x.count; b++) {
        windows += tsa_state_window(x.given[b], LAYER) > 0;
        folds += tsa_state_tokens(x.want[b], LAYER) > tsa_state_window(x.want[b], LAYER);
    }
    ck_assert(folds > 5 && (windows > 3 || s.chunk == 1));
    run_all(&x, _i < 4 ? 5 : 3);
    batch_end(&x);
}
END_TEST

/* One long sequence, which the whole team works on, and short ones; many long ones. */
START_TEST(long_ones)
{
    const struct shape s = {
        16, 64, 3, 16, 2, 1, 0, 0, _i % 2 == 0 ? TSA_F32 : TSA_F64, L2, COEF_TAYLOR, TEMP_TWO};
    const size_t most = quick() ? 100 : 300;
    struct batch x;
    x.count = 12;
    for (size_t b = 0; b < x.count; b++) {
        x.length[b] = _i / 2 == 0 ? (b == 4 ? most : b) : _i / 2 == 1 ? 20 * b : most / 12;
        x.before[b] = 3 * b;
    }
    batch_begin(&x, &s, 2100);
    run_all(&x, 3);
    batch_end(&x);
}
END_TEST

/* Hundreds of sequences of one token: beside a long one and empty ones, beside empty ones, and
 * nothing else, which is a step of a decoder. */
START_TEST(single_tokens)
{
    const struct shape s = {
        8, 16, 3, 16, 4, 2, 0, 0, _i % 2 == 0 ? TSA_F32 : TSA_F64, L2, COEF_TAYLOR, TEMP_TWO};
    struct batch x;
    x.count = quick() ? 70 : 303;
    for (size_t b = 0; b < x.count; b++) {
        x.length[b] = _i / 2 < 2 && b % 60 == 5 ? 0 : _i / 2 == 0 && b == 37 ? 35 : 1;
        x.before[b] = b % 37;
    }
    batch_begin(&x, &s, 2200);
    run_all(&x, 2);
    batch_end(&x);
}
END_TEST

/* Sums of which a step shares out the columns. */
START_TEST(columns)
{
    const struct shape s = {
        16, 80, 5, 16, 3, 1, 0, 0, _i % 2 == 0 ? TSA_F32 : TSA_F64, L2, COEF_TAYLOR, TEMP_PER_HEAD};
    struct batch x;
    x.count = 2;
    x.length[0] = 1;
    x.length[1] = (size_t)(_i / 2);
    x.before[0] = 31; /* which it folds */
    x.before[1] = 20;
    batch_begin(&x, &s, 2300);
    for (int team = quick() ? 4 : 2; team <= 4; team += 2) {
        struct tsa_plan *plan = plan_of(&x.p, team, 0, 0);
        struct tsa_workspace *ws;
        struct tsa_error err;
        ok(tsa_workspace_create(plan, 0, &ws, &err), &err);
        for (int kind = 0; kind < 2; kind++)
            run(&x, plan, ws, (enum kind)kind, (uint64_t)kind, kind, s.dtype);
        tsa_workspace_destroy(ws);
        tsa_plan_destroy(plan);
    }
    batch_end(&x);
}
END_TEST

/* Rows of no sequence are not looked at where nothing looks at inputs either; and tensors may be of
 * another type. */
START_TEST(other_ways)
{
    const struct shape s = shape_at(_i);
    struct batch x;
    mixed_lengths(&x, s.chunk);
    batch_begin(&x, &s, 2400);
    for (int way = 0; way < WAY_WAVES_OF_3; way++) {
        struct tsa_plan *plan = plan_of(&x.p, 3, (enum way)way, TSA_SKIP_INPUT_CHECK);
        for (int kind = 0; kind < 2; kind++)
            run(&x, plan, NULL, (enum kind)kind, (uint64_t)way, kind, s.dtype);
        tsa_plan_destroy(plan);
        plan = plan_of(&x.p, 3, (enum way)way, 0);
        for (int kind = 0; kind < 2; kind++)
            run(&x, plan, NULL, (enum kind)kind, (uint64_t)way, kind, TSA_F64);
        tsa_plan_destroy(plan);
    }
    batch_end(&x);
}
END_TEST

/* Nothing but empty sequences, or no sequence: no row is needed, and nothing changes. */
START_TEST(nothing)
{
    const struct shape s = shape_at(_i);
    const int64_t alike[] = {7, 7, 7, 7}, none[] = {0, 0, 0};
    const struct tsa_tensor empty = {.dtype = s.dtype};
    struct batch x;
    struct tsa_error err;
    x.count = 3;
    for (size_t b = 0; b < 3; b++) {
        x.length[b] = 0;
        x.before[b] = 5 * b;
    }
    batch_begin(&x, &s, 2500);
    run_all(&x, 3);
    const size_t bytes = tsa_state_bytes(x.alone);
    struct tsa_state **st = x.given;
    char *before = malloc(3 * bytes);
    for (size_t b = 0; b < 3; b++)
        memcpy(before + b * bytes, st[b], bytes);
    for (size_t n = 0; n < 4; n += 3) { /* 0: states are not needed either */
        struct tsa_state **states = n > 0 ? st : NULL;
        const struct tsa_tensor *e = &empty;
        const struct tsa_plan *p = x.alone;
        ok(tsa_prefill(p,
                       BATCH(.states = states, .count = n, .layer = LAYER, .offsets = alike,
                             .q = *e, .k = *e, .v = *e, .o = *e),
                       NULL, &err),
           &err);
        ok(tsa_absorb(p,
                      BATCH(.states = states, .count = n, .layer = LAYER, .offsets = alike, .k = *e,
                            .v = *e),
                      NULL, &err),
           &err);
        ok(tsa_prefill(p,
                       BATCH(.states = states, .count = n, .layer = LAYER, .tokens = 4,
                             .lengths = none, .q = *e, .k = *e, .v = *e, .o = *e),
                       NULL, &err),
           &err);
        ok(tsa_absorb(p,
                      BATCH(.states = states, .count = n, .layer = LAYER, .tokens = 4,
                            .lengths = none, .k = *e, .v = *e),
                      NULL, &err),
           &err);
        ok(tsa_prefill(p,
                       BATCH(.states = states, .count = n, .layer = LAYER, .tokens = 0,
                             .lengths = none, .q = *e, .k = *e, .v = *e, .o = *e),
                       NULL, &err),
           &err);
        ok(tsa_decode(p,
                      BATCH(.states = states, .slots = none, .count = 0, .layer = LAYER, .q = *e,
                            .k = *e, .v = *e, .o = *e),
                      NULL, &err),
           &err);
    }
    for (size_t b = 0; b < 3; b++)
        ck_assert_mem_eq(before + b * bytes, st[b], bytes);
    free(before);
    batch_end(&x);
}
END_TEST

/* -- slots ------------------------------------------------------------------------------------- */

/* Sequences come and go; each step decodes some of them, in any order. A mirror decodes each of
 * them alone. */
struct decoder {
    struct problem p;
    struct tsa_plan *plan, *alone;
    struct tsa_state *states[SLOTS], *mirror[SLOTS];
    size_t count;         /* in the step: */
    int64_t slots[SLOTS]; /* these, */
    bool chosen[SLOTS];   /* which are marked here, */
    size_t room, most;    /* of so many slots, and at most so many in a step */
    struct tsa_workspace *ws;
    uint64_t most_tokens; /* that any sequence has had */
};

static void come_and_go(struct decoder *x, struct rng *r)
{
    struct tsa_error err;
    for (size_t s = 0; s < x->room; s++) {
        const uint64_t dice = rng_next(r);
        if (x->states[s] == NULL && dice % 3 == 0) {
            ok(tsa_state_create(x->plan, &x->states[s], &err), &err);
            ok(tsa_state_create(x->alone, &x->mirror[s], &err), &err);
        } else if (x->states[s] != NULL && dice % 25 == 0) {
            tsa_state_destroy(x->states[s]);
            tsa_state_destroy(x->mirror[s]);
            x->states[s] = x->mirror[s] = NULL;
        }
    }
}

static void choose(struct decoder *x, struct rng *r)
{
    size_t order[SLOTS];
    for (size_t s = 0; s < SLOTS; s++) {
        order[s] = s;
        x->chosen[s] = false;
    }
    shuffle(r, order, SLOTS);
    x->count = 0;
    for (size_t i = 0; i < SLOTS && x->count < x->most; i++)
        if (x->states[order[i]] != NULL && rng_next(r) % 4 > 0) {
            x->slots[x->count++] = (int64_t)order[i];
            x->chosen[order[i]] = true;
        }
}

/* Token t of the chosen slots, as a tensor of its own; the others hold NaN. */
static void step_rows(const struct decoder *x, struct strided *to, int layout,
                      const struct tsa_tensor *from, size_t heads, size_t t)
{
    const struct shape *s = &x->p.shape;
    const size_t width = (size_t)from->token;
    void *rows = make_zeros(SLOTS * heads * width, s->dtype);
    for (size_t i = 0; i < SLOTS * heads * width; i++) {
        const size_t row = i / width * s->tokens + t, slot = i / width / heads;
        put(rows, s->dtype, i,
            x->chosen[slot] ? get(from->data, s->dtype, row * width + i % width) : NAN);
    }
    strided_make(to, (enum layout)(layout % LAYOUTS), s->dtype, SLOTS, heads, 1, width, rows);
    free(rows);
}

static void step(struct decoder *x, size_t t)
{
    const struct shape *s = &x->p.shape;
    const size_t width = s->heads * s->dv, e = dtype_size(s->dtype);
    struct strided q, k, v, o;
    struct tsa_error err;
    struct tsa_state *given[SLOTS];
    void *got = make_zeros(SLOTS * width, s->dtype), *want = make_zeros(SLOTS * width, s->dtype);
    for (size_t i = 0; i < SLOTS * width; i++)
        put(want, s->dtype, i, UNTOUCHED);
    step_rows(x, &q, (int)t, &x->p.q, s->heads, t);
    step_rows(x, &k, (int)t + 1, &x->p.k, s->kv_heads, t);
    step_rows(x, &v, (int)t + 2, &x->p.v, s->kv_heads, t);
    strided_make(&o, (enum layout)((t + 3) % LAYOUTS), s->dtype, SLOTS, s->heads, 1, s->dv, want);
    for (size_t i = 0; i < SLOTS; i++) {
        given[i] = x->chosen[i] ? x->states[i] : NULL;
        if (!x->chosen[i])
            continue;
        const struct tsa_tensor qi = from_token(from_batch(x->p.q, i), t);
        const struct tsa_tensor ki = from_token(from_batch(x->p.k, i), t);
        const struct tsa_tensor vi = from_token(from_batch(x->p.v, i), t);
        const struct tsa_tensor oi =
            dense((char *)want + i * width * e, s->dtype, s->heads, 1, s->dv);
        ok(tsa_decode(x->alone,
                      BATCH(.states = &x->mirror[i], .count = 1, .layer = LAYER, .q = qi, .k = ki,
                            .v = vi, .o = oi),
                      NULL, &err),
           &err);
    }
    ok(tsa_decode(x->plan,
                  BATCH(.states = given, .slots = x->slots, .count = x->count, .layer = LAYER,
                        .q = q.tensor, .k = k.tensor, .v = v.tensor, .o = o.tensor),
                  t % 8 == 3 ? NULL : x->ws, &err),
       &err);
    strided_read(&o, got);
    assert_bits(got, want, s->dtype, SLOTS * width, "slots");
    for (size_t i = 0; i < SLOTS; i++) {
        if (x->states[i] == NULL || (!x->chosen[i] && t % 8 != 3))
            continue;
        check_state(x->plan, x->states[i], x->mirror[i], "slots", i);
        const uint64_t tokens = tsa_state_tokens(x->states[i], LAYER);
        x->most_tokens = tokens > x->most_tokens ? tokens : x->most_tokens;
    }
    strided_free(&q);
    strided_free(&k);
    strided_free(&v);
    strided_free(&o);
    free(got);
    free(want);
}

static const struct shape slot_shapes[] = {
    {5, 7, 4, 4, 4, 2, 0, 0, 0, L2, COEF_PER_HEAD, TEMP_PER_HEAD},
    {3, 5, 2, 1, 4, 2, 0, 0, 0, RAW, COEF_TAYLOR, TEMP_TWO},
    {16, 64, 4, 8, 4, 2, 0, 0, 0, L2, COEF_TAYLOR, TEMP_TWO}, /* work for a team */
    {16, 80, 5, 3, 3, 1, 0, 0, 0, L2, COEF_TAYLOR, TEMP_TWO}, /* of which columns are shared */
};

START_TEST(slots)
{
    static const int teams[] = {1, 4, 8};
    struct shape s = slot_shapes[_i / 2];
    s.dtype = _i % 2 == 0 ? TSA_F32 : TSA_F64;
    s.batch = SLOTS;
    const bool large = _i / 2 == 3;
    s.tokens = large ? 8 : quick() ? 15 : _i / 2 == 2 ? 30 : 50;
    for (int i = quick() || _i > 3 ? 1 : 0; i < (quick() || large ? 2 : 3); i++) {
        struct rng r = {77 + (uint64_t)i};
        struct tsa_error err;
        struct decoder x = {.room = large ? 3 : SLOTS, .most = large ? 2 : SLOTS};
        problem_make(&x.p, &s, 2600);
        x.plan = plan_of(&x.p, teams[i], 0, 0);
        ok(tsa_workspace_create(x.plan, 0, &x.ws, &err), &err);
        x.alone = plan_of(&x.p, 1, 0, 0);
        for (size_t t = 0; t < s.tokens; t++) {
            come_and_go(&x, &r);
            choose(&x, &r);
            step(&x, t);
        }
        ck_assert_uint_gt(x.most_tokens, s.chunk);
        for (size_t slot = 0; slot < SLOTS; slot++) {
            tsa_state_destroy(x.states[slot]);
            tsa_state_destroy(x.mirror[slot]);
        }
        tsa_workspace_destroy(x.ws);
        tsa_plan_destroy(x.plan);
        tsa_plan_destroy(x.alone);
        problem_free(&x.p);
    }
}
END_TEST

/* -- errors ------------------------------------------------------------------------------------ */

#define SEQUENCES 5

/* A call that is right, and copies of all that a failed one may not change. */
struct desk {
    struct batch x;
    struct tsa_plan *plan;
    struct place at;
    struct views y;
    struct tsa_state **states;
    size_t bytes;
    char *states_before, *o_before;
    struct tsa_error err;
};

static void desk_begin(struct desk *d, enum kind kind, enum tsa_dtype dtype)
{
    static const size_t length[SEQUENCES] = {3, 0, 20, 5, 1}, before[SEQUENCES] = {0, 3, 9, 8};
    const struct shape s = {5, 7, 3, 8, 4, 2, 0, 0, dtype, RAW, COEF_TAYLOR, TEMP_TWO};
    d->x.count = SEQUENCES;
    memcpy(d->x.length, length, sizeof length);
    memcpy(d->x.before, before, sizeof before);
    batch_begin(&d->x, &s, 2700);
    place_make(&d->at, &d->x, kind, 0);
    d->at.finite = dtype == TSA_F64; /* so that only what is refused can be what was seen */
    views_make(&d->y, &d->at, &d->x, 2, dtype);
    d->plan = plan_of(&d->x.p, 3, 0, 0);
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
    views_free(&d->y);
    batch_end(&d->x);
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
        REFUSED(d, enter(d->plan, d->states, &d->at, &d->y, absorb, NULL, &d->err), want, argument,
                sequence);
}

/* Offsets and lengths that cannot be, by the number that is wrong. */
START_TEST(bad_numbers)
{
    const enum kind kind = _i % 2 == 0 ? PACKED : PADDED;
    const char *name = kind == PACKED ? "offsets" : "lengths";
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
        {kind == PACKED ? 2 : 3, kind == PACKED ? 2 : (int64_t)d.at.tokens + 1},
        {SEQUENCES - (kind == PADDED), kind == PACKED ? 20 : INT64_MAX},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        const int64_t good = number[bad[i].at];
        number[bad[i].at] = bad[i].number;
        refuse_both(&d, TSA_EINVAL, name, kind == PADDED ? (ptrdiff_t)bad[i].at : -1);
        ck_assert_int_eq(d.err.found, bad[i].number);
        number[bad[i].at] = good;
    }
    if (kind == PACKED) {
        number[SEQUENCES] = INT64_MAX / 4; /* no such rows in memory */
        REFUSED(&d, enter(d.plan, d.states, &d.at, &d.y, false, NULL, &d.err), TSA_EINVAL, "q", -1);
        REFUSED(&d, enter(d.plan, d.states, &d.at, &d.y, true, NULL, &d.err), TSA_EINVAL, "k", -1);
    }
    desk_end(&d);
}
END_TEST

/* Arguments that the calls share with the others. */
START_TEST(bad_arguments)
{
    struct desk d;
    desk_begin(&d, _i % 2 == 0 ? PACKED : PADDED, _i / 2 == 0 ? TSA_F32 : TSA_F64);
    struct tsa_state *const kept = d.states[3];
    REFUSED(&d, enter(NULL, d.states, &d.at, &d.y, false, NULL, &d.err), TSA_EINVAL, "plan", -1);
    REFUSED(&d, enter(d.plan, NULL, &d.at, &d.y, false, NULL, &d.err), TSA_EINVAL, "states", -1);
    struct tsa_state *list[SEQUENCES];
    memcpy(list, d.states, sizeof list);
#define REFUSED_LIST(want, sequence)                                                               \
    for (int absorb = 0; absorb < 2; absorb++)                                                     \
    REFUSED(&d, enter(d.plan, list, &d.at, &d.y, absorb, NULL, &d.err), want, "states", sequence)
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
    struct tsa_plan *wider = plan_of(&other, 1, 0, 0);
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
        REFUSED(&d, enter(d.plan, d.states, &d.at, &d.y, j == 1 || j == 2, NULL, &d.err),
                TSA_EINVAL, name[j], -1);
        *tensor[j] = good;
        tensor[j]->data = NULL;
        REFUSED(&d, enter(d.plan, d.states, &d.at, &d.y, j == 1 || j == 2, NULL, &d.err),
                TSA_EINVAL, name[j], -1);
        *tensor[j] = good;
    }
    const struct tsa_tensor good = d.y.o.tensor;
    d.y.o.tensor.token = 1; /* rows that overlap */
    REFUSED(&d, enter(d.plan, d.states, &d.at, &d.y, false, NULL, &d.err), TSA_EINVAL, "o", -1);
    d.y.o.tensor = good;
    d.y.o.tensor.data = d.y.v.tensor.data;
    REFUSED(&d, enter(d.plan, d.states, &d.at, &d.y, false, NULL, &d.err), TSA_EINVAL, "o", -1);
    d.y.o.tensor = good;
    const struct tsa_tensor *k = &d.y.k.tensor, *v = &d.y.v.tensor;
    REFUSED(&d,
            d.at.kind == PACKED
                ? tsa_absorb(d.plan,
                             BATCH(.states = d.states, .count = SEQUENCES, .layer = LAYERS,
                                   .offsets = d.at.number, .k = *k, .v = *v),
                             NULL, &d.err)
                : tsa_absorb(d.plan,
                             BATCH(.states = d.states, .count = SEQUENCES, .layer = LAYERS,
                                   .tokens = d.at.tokens, .lengths = d.at.number, .k = *k, .v = *v),
                             NULL, &d.err),
            TSA_EINVAL, "layer", -1);
    /* and all is as it was */
    ok(enter(d.plan, d.states, &d.at, &d.y, false, NULL, &d.err), &d.err);
    check_outputs(&d.y, &d.at, &d.x);
    desk_end(&d);
}
END_TEST

/* Element c of token t of a sequence; returns what it was. */
static double poke(const struct desk *d, const struct tsa_tensor *x, size_t b, size_t h, size_t t,
                   size_t c, double value)
{
    const bool packed = d->at.kind == PACKED;
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
    desk_begin(&d, _i % 2 == 0 ? PACKED : PADDED, dtype);
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
                    REFUSED(&d, enter(d.plan, d.states, &d.at, &d.y, absorb, NULL, &d.err),
                            finite ? TSA_EOVERFLOW : TSA_ENONFINITE, name[j], (ptrdiff_t)b);
                    CHECK(d.err.head == (ptrdiff_t)h && d.err.token == (ptrdiff_t)t,
                          "head %td, token %td of %s, wanted %zu, %zu", d.err.head, d.err.token,
                          name[j], h, t);
                    CHECK(d.err.column == (finite ? -1 : (ptrdiff_t)c), "column %td, wanted %zu",
                          d.err.column, c);
                }
                poke(&d, tensor[j], b, h, t, c, old);
            }
    ok(enter(d.plan, d.states, &d.at, &d.y, false, NULL, &d.err), &d.err);
    check_outputs(&d.y, &d.at, &d.x);
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
    desk_begin(&d, _i % 2 == 0 ? PACKED : PADDED, _i / 2 == 0 ? TSA_F32 : TSA_F64);
    problem_options(&d.x.p, &options);
    options.layers = LAYERS;
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
                       BATCH(.states = d.states, .slots = one, .count = 1, .layer = LAYER,
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
    desk_begin(&d, PADDED, _i == 0 ? TSA_F32 : TSA_F64);
    struct tsa_tensor q = d.y.q.tensor, k = d.y.k.tensor, v = d.y.v.tensor, o = d.y.o.tensor;
    struct tsa_state *list[SEQUENCES];
    memcpy(list, d.states, sizeof list);
    list[1] = NULL; /* where rows hold NaN */
#define SLOTS_CALL(list_, count_)                                                                  \
    tsa_decode(d.plan,                                                                             \
               BATCH(.states = list, .slots = list_, .count = count_, .layer = LAYER, .q = q,      \
                     .k = k, .v = v, .o = o),                                                      \
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
                       BATCH(.states = list, .slots = good, .count = 4, .layer = LAYER, .q = q,
                             .k = k, .v = v, .o = o),
                       NULL, &d.err),
            TSA_EINVAL, "plan", -1);
    REFUSED(
        &d,
        tsa_decode(d.plan,
                   BATCH(.slots = good, .count = 4, .layer = LAYER, .q = q, .k = k, .v = v, .o = o),
                   NULL, &d.err),
        TSA_EINVAL, "states", -1);
    REFUSED(&d,
            tsa_decode(d.plan,
                       BATCH(.states = list, .slots = good, .count = 4, .layer = LAYERS, .q = q,
                             .k = k, .v = v, .o = o),
                       NULL, &d.err),
            TSA_EINVAL, "layer", -1);
    REFUSED(&d,
            tsa_decode(d.plan,
                       BATCH(.states = list, .slots = good, .count = 4, .layer = LAYER, .k = k,
                             .v = v, .o = o),
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
    Suite *suite = suite_create("ragged");
    TCase *lengths = add_case(suite, "lengths");
    tcase_add_loop_test(lengths, mixed, 0, quick() ? 4 : 2 * SHAPES);
    tcase_add_loop_test(lengths, long_ones, 0, quick() ? 1 : 6);
    tcase_add_loop_test(lengths, single_tokens, 0, 6);
    tcase_add_loop_test(lengths, columns, 0, quick() ? 1 : 4);
    tcase_add_loop_test(lengths, other_ways, 0, quick() ? 2 : 6);
    tcase_add_loop_test(lengths, nothing, 0, 2);
    tcase_add_loop_test(add_case(suite, "slots"), slots, 0, quick() ? 7 : 8);
    TCase *errors = add_case(suite, "errors");
    tcase_add_loop_test(errors, bad_numbers, 0, 4);
    tcase_add_loop_test(errors, bad_arguments, 0, 4);
    tcase_add_loop_test(errors, bad_values, 0, 4);
    tcase_add_loop_test(errors, no_memory, 0, 4);
    tcase_add_loop_test(errors, bad_slots, 0, 2);
    return run_suite(suite);
}
