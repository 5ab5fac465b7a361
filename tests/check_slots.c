/* SPDX-License-Identifier: MIT */
/* The slots of a decoder: the bits are those of one call for each slot, and nothing else is read or
 * written. */
#include <math.h>
#include <stdlib.h>

#include "ragged.h"

#define L2 TSA_NORMALIZE_L2
#define RAW TSA_NORMALIZE_NONE

#define SLOTS 9 /* of a decoder */

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
    shuffle_list(r, order, SLOTS);
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
        put(want, s->dtype, i, RAGGED_UNTOUCHED);
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
                      BATCH(.states = &x->mirror[i], .count = 1, .layer = RAGGED_LAYER, .q = qi,
                            .k = ki, .v = vi, .o = oi),
                      NULL, &err),
           &err);
    }
    ok(tsa_decode(x->plan,
                  BATCH(.states = given, .slots = x->slots, .count = x->count,
                        .layer = RAGGED_LAYER, .q = q.tensor, .k = k.tensor, .v = v.tensor,
                        .o = o.tensor),
                  t % 8 == 3 ? NULL : x->ws, &err),
       &err);
    strided_read(&o, got);
    assert_bits(got, want, s->dtype, SLOTS * width, "slots");
    for (size_t i = 0; i < SLOTS; i++) {
        if (x->states[i] == NULL || (!x->chosen[i] && t % 8 != 3))
            continue;
        ragged_check_state(x->plan, x->states[i], x->mirror[i], "slots", i);
        const uint64_t tokens = tsa_state_tokens(x->states[i], RAGGED_LAYER);
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
        x.plan = ragged_plan(&x.p, teams[i], 0, 0);
        ok(tsa_workspace_create(x.plan, 0, &x.ws, &err), &err);
        x.alone = ragged_plan(&x.p, 1, 0, 0);
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

int main(void)
{
    Suite *suite = suite_create("slots");
    tcase_add_loop_test(add_case(suite, "slots"), slots, 0, quick() ? 7 : 8);
    return run_suite(suite);
}
