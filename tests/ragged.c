/* SPDX-License-Identifier: MIT */
/* See ragged.h. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ragged.h"

#define PAST 200 /* tokens that states may have absorbed before the call */
#define FIRST 3  /* rows before the first packed sequence, */
#define BEHIND 2 /* behind the last one, and behind the longest padded one */

struct tsa_plan *ragged_plan(const struct problem *p, int threads, enum way way, unsigned flags)
{
    struct tsa_options options;
    problem_options(p, &options);
    poison_allocations(&options);
    options.layers = RAGGED_LAYERS;
    options.threads = threads;
    options.flags = flags;
    struct tsa_plan *plan = make_plan(&options);
    ck_assert_int_eq(tsa_plan_threads(plan), threads);
    assert_team(threads);
    set_way(plan, way);
    return plan;
}

static void absorb_past(const struct ragged_batch *x, size_t b)
{
    const struct tsa_tensor k = from_token(x->past.k, b % 7), v = from_token(x->past.v, b % 7);
    struct tsa_error err;
    ok(tsa_absorb(x->alone,
                  BATCH(.states = &x->given[b], .count = 1, .layer = RAGGED_LAYER,
                        .tokens = x->before[b], .k = k, .v = v),
                  NULL, &err),
       &err);
    ok(tsa_absorb(x->alone,
                  BATCH(.states = &x->given[b], .count = 1, .tokens = b % 5, .k = k, .v = v), NULL,
                  &err),
       &err);
}

static void run_alone(const struct ragged_batch *x, size_t b)
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
                      BATCH(.states = &x->want[b], .count = 1, .layer = RAGGED_LAYER, .q = q,
                            .k = k, .v = v, .o = o),
                      NULL, &err),
           &err);
    else if (n > 0)
        ok(tsa_prefill(x->alone,
                       BATCH(.states = &x->want[b], .count = 1, .layer = RAGGED_LAYER, .tokens = n,
                             .q = q, .k = k, .v = v, .o = o),
                       NULL, &err),
           &err);
}

void ragged_begin(struct ragged_batch *x, const struct shape *shape, uint64_t seed)
{
    struct shape s = *shape;
    ck_assert_uint_le(x->count, RAGGED_MOST);
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
    x->alone = ragged_plan(&x->p, 1, 0, 0);
    x->given = states_make(x->alone, x->count);
    x->want = states_make(x->alone, x->count);
    x->got = states_make(x->alone, x->count);
    x->o = make_zeros(x->p.o_count, s.dtype);
    for (size_t b = 0; b < x->count; b++) {
        absorb_past(x, b);
        run_alone(x, b);
    }
}

void ragged_end(struct ragged_batch *x)
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

void shuffle_list(struct rng *r, size_t *list, size_t count)
{
    for (size_t i = count; i > 1; i--) {
        const size_t j = rng_next(r) % i, swap = list[i - 1];
        list[i - 1] = list[j];
        list[j] = swap;
    }
}

void ragged_place_make(struct ragged_place *at, const struct ragged_batch *x, enum ragged_kind kind,
                       uint64_t seed)
{
    struct rng r = {seed};
    size_t rows = FIRST, most = 0;
    at->finite = false;
    at->kind = kind;
    at->count = x->count;
    for (size_t i = 0; i < x->count; i++)
        at->order[i] = i;
    if (seed > 0)
        shuffle_list(&r, at->order, at->count);
    for (size_t i = 0; i < x->count; i++) {
        const size_t n = x->length[at->order[i]];
        at->number[i] = (int64_t)(kind == RAGGED_PACKED ? rows : n);
        rows += n;
        most = n > most ? n : most;
    }
    at->number[x->count] = (int64_t)rows;
    at->batch = kind == RAGGED_PACKED ? 1 : x->count;
    at->tokens = kind == RAGGED_PACKED ? rows + BEHIND : most + BEHIND;
}

/* Rows of an array [heads][rows][width] at their places in the call. All others hold what must not
 * be read, or what outputs hold before the call. */
static void *spread(const struct ragged_place *at, const struct ragged_batch *x, const void *from,
                    size_t heads, size_t width, enum tsa_dtype as, bool output)
{
    const struct shape *s = &x->p.shape;
    const size_t count = at->batch * heads * at->tokens * width;
    void *to = make_zeros(count, as);
    for (size_t i = 0; i < count; i++)
        put(to, as, i, output || at->finite ? RAGGED_UNTOUCHED : i % 2 == 0 ? NAN : -INFINITY);
    for (size_t j = 0; j < at->count * heads; j++) {
        const size_t i = j / heads, h = j % heads, b = at->order[i];
        const size_t row = at->kind == RAGGED_PACKED ? h * at->tokens + (size_t)at->number[i]
                                                     : (i * heads + h) * at->tokens;
        const size_t own = h * s->tokens + x->start[b];
        for (size_t c = 0; c < x->length[b] * width; c++)
            put(to, as, row * width + c, get(from, s->dtype, own * width + c));
    }
    return to;
}

void ragged_views_make(struct ragged_views *y, const struct ragged_place *at,
                       const struct ragged_batch *x, int layout, enum tsa_dtype as)
{
    const struct shape *s = &x->p.shape;
    struct ragged_place nothing = *at;
    nothing.count = 0;
    const struct {
        struct strided *to;
        const struct ragged_place *at;
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
        if (at->kind == RAGGED_PACKED)
            part[j].to->tensor.batch = PTRDIFF_MAX - j; /* which is not used */
        free(rows);
    }
}

void ragged_views_free(struct ragged_views *y)
{
    strided_free(&y->q);
    strided_free(&y->k);
    strided_free(&y->v);
    strided_free(&y->o);
}

void ragged_check_outputs(const struct ragged_views *y, const struct ragged_place *at,
                          const struct ragged_batch *x)
{
    const struct shape *s = &x->p.shape;
    const enum tsa_dtype as = y->o.tensor.dtype;
    const size_t count = at->batch * s->heads * at->tokens * s->dv;
    void *got = make_zeros(count, as), *want = spread(at, x, x->o, s->heads, s->dv, as, true);
    strided_read(&y->o, got);
    assert_bits(got, want, as, count, at->kind == RAGGED_PACKED ? "packed" : "padded");
    free(got);
    free(want);
}

enum tsa_status ragged_call(const struct tsa_plan *plan, struct tsa_state *const *states,
                            const struct ragged_place *at, const struct ragged_views *y,
                            bool absorb, struct tsa_workspace *ws, struct tsa_error *err)
{
    const struct tsa_tensor *q = &y->q.tensor, *k = &y->k.tensor, *v = &y->v.tensor;
    const struct tsa_tensor *o = &y->o.tensor;
    const size_t n = at->count;
    if (at->kind == RAGGED_PACKED)
        return absorb
                   ? tsa_absorb(plan,
                                BATCH(.states = states, .count = n, .layer = RAGGED_LAYER,
                                      .offsets = at->number, .k = *k, .v = *v),
                                ws, err)
                   : tsa_prefill(plan,
                                 BATCH(.states = states, .count = n, .layer = RAGGED_LAYER,
                                       .offsets = at->number, .q = *q, .k = *k, .v = *v, .o = *o),
                                 ws, err);
    return absorb ? tsa_absorb(plan,
                               BATCH(.states = states, .count = n, .layer = RAGGED_LAYER,
                                     .tokens = at->tokens, .lengths = at->number, .k = *k, .v = *v),
                               ws, err)
                  : tsa_prefill(plan,
                                BATCH(.states = states, .count = n, .layer = RAGGED_LAYER,
                                      .tokens = at->tokens, .lengths = at->number, .q = *q, .k = *k,
                                      .v = *v, .o = *o),
                                ws, err);
}

void ragged_check_state(const struct tsa_plan *plan, const struct tsa_state *got,
                        const struct tsa_state *want, const char *what, size_t b)
{
    struct tsa_error err;
    int equal = -1;
    CHECK(tsa_state_equal(plan, got, want, &equal, &err) == TSA_OK && equal == 1,
          "%s: state %zu differs", what, b);
}

void ragged_run(const struct ragged_batch *x, const struct tsa_plan *plan, struct tsa_workspace *ws,
                enum ragged_kind kind, uint64_t seed, int layout, enum tsa_dtype as)
{
    struct ragged_place at;
    struct ragged_views y;
    struct tsa_error err;
    ragged_place_make(&at, x, kind, seed);
    ragged_views_make(&y, &at, x, layout, as);
    for (int absorb = 0; absorb < 2; absorb++) {
        for (size_t i = 0; i < x->count; i++)
            CHECK(tsa_state_copy(plan, x->got[i], x->given[at.order[i]], &err) == TSA_OK, "copy");
        ok(ragged_call(plan, x->got, &at, &y, absorb, ws, &err), &err);
        for (size_t i = 0; i < x->count; i++)
            ragged_check_state(plan, x->got[i], x->want[at.order[i]], absorb ? "absorb" : "prefill",
                               i);
    }
    ragged_check_outputs(&y, &at, x);
    ragged_views_free(&y);
}

void ragged_run_all(const struct ragged_batch *x, size_t sizes)
{
    static const int teams[] = {1, 4, 8, 16, 3};
    int round = 0;
    for (size_t i = 0; i < (quick() ? 2 : sizes); i++)
        for (int way = 0; way < WAY_WAVES_OF_3; way++) {
            if (teams[i] == 1 && way != WAY_AUTO)
                continue;
            struct tsa_plan *plan = ragged_plan(&x->p, teams[i], (enum way)way, 0);
            struct tsa_workspace *ws = NULL;
            struct tsa_error err;
            if (way != WAY_RELAY)
                ok(tsa_workspace_create(plan, 0, &ws, &err), &err);
            for (int kind = 0; kind < 2; kind++, round++)
                ragged_run(x, plan, ws, (enum ragged_kind)kind, (uint64_t)round, round,
                           x->p.shape.dtype);
            tsa_workspace_destroy(ws);
            tsa_plan_destroy(plan);
        }
}
