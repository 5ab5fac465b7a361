/* SPDX-License-Identifier: MIT */
/* Random journeys: plans of any kind take turns on states, by any call, and after each step states
 * and outputs have the bits of the model. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "run.h"

#define L2 TSA_NORMALIZE_L2
#define RAW TSA_NORMALIZE_NONE
#define STATES 3
#define LAYERS 2
#define MOST_PLANS (TSA_MAX_TERMS + 2)

/* States with the model beside them; the plans have every exact_degrees, and one is f32. That made
 * state 0, and mixed ones made the others. State i takes tokens from sequence i. */
struct journey {
    struct problem p;
    struct rng rng;
    size_t plans;
    struct tsa_plan *plan[MOST_PLANS];
    struct model model[MOST_PLANS];
    struct tsa_state *state[STATES];
    void *memory[STATES];
    size_t bytes[STATES];
    struct model_head **head[STATES][LAYERS];
    float *got, *want;
    char what[100];
};

static size_t draw(struct journey *j, size_t count)
{
    return (size_t)(rng_next(&j->rng) >> 20) % count;
}

static void journey_begin(struct journey *j, const struct shape *s, uint64_t seed)
{
    struct tsa_error err;
    size_t isas = 0;
    memset(j, 0, sizeof *j);
    j->rng.state = seed;
    problem_make(&j->p, s, seed);
    while (usable_isa(isas) != NULL)
        isas++;
    j->plans = s->terms + 2;
    for (size_t i = 0; i < j->plans; i++) { /* exact_degrees 0, 1, ..., terms; f32 */
        struct tsa_options options;
        const int team = 1 + (int)draw(j, 3);
        if (i <= s->terms)
            problem_mix(&j->p, (unsigned)i);
        else
            j->p.mixed = false;
        problem_options(&j->p, &options);
        options.layers = LAYERS;
        options.isa = usable_isa(draw(j, isas));
        options.threads = team;
        j->plan[i] = make_plan(&options);
        set_way(j->plan[i], (enum way)draw(j, 3));
        j->model[i] = j->p.model;
        assert_team(team);
    }
    for (size_t i = 0; i < STATES; i++) {
        const struct tsa_plan *maker = j->plan[i == 0 ? j->plans - 1 : draw(j, s->terms)];
        j->bytes[i] = tsa_state_bytes(maker);
        j->memory[i] = aligned_alloc(64, (j->bytes[i] + 63) / 64 * 64);
        memset(j->memory[i], 0xff, j->bytes[i]);
        ok(tsa_state_init(maker, j->memory[i], j->bytes[i], &j->state[i], &err), &err);
        ck_assert_uint_eq(tsa_state_size(j->state[i]), j->bytes[i]);
        for (size_t layer = 0; layer < LAYERS; layer++)
            j->head[i][layer] = heads_new(&j->p.model);
    }
    j->got = make_zeros(j->p.o_count, TSA_F32);
    j->want = make_zeros(j->p.o_count, TSA_F32);
}

static void journey_end(struct journey *j)
{
    for (size_t i = 0; i < STATES; i++) {
        for (size_t layer = 0; layer < LAYERS; layer++)
            heads_free(&j->p.model, j->head[i][layer]);
        tsa_state_destroy(j->state[i]);
        free(j->memory[i]);
    }
    for (size_t i = 0; i < j->plans; i++)
        tsa_plan_destroy(j->plan[i]);
    free(j->got), free(j->want);
    problem_free(&j->p);
}

/* Some tokens into one state, or as many into each. */
static void absorb_some(struct journey *j, enum verb verb)
{
    static const char *const names[] = {"prefill", "decode", "absorb"};
    const struct shape *s = &j->p.shape;
    const size_t x = draw(j, j->plans), layer = draw(j, LAYERS), one = draw(j, 2 * STATES);
    const size_t first = one < STATES ? one : 0, count = one < STATES ? 1 : STATES;
    const size_t most = verb == DECODE ? 5 : 2 * s->chunk + 3;
    const size_t n = 1 + draw(j, most), from = draw(j, s->tokens - n);
    const struct tsa_tensor out = dense(j->got, TSA_F32, s->heads, s->tokens, s->dv);
    struct tsa_error err;
    snprintf(j->what, sizeof j->what, "%s of %zu tokens, plan %zu, states %zu to %zu", names[verb],
             n, x, first, first + count - 1);
    for (size_t t = from, step = verb == DECODE ? 1 : n; t < from + n; t += step) {
        const struct tsa_tensor q = from_token(from_batch(j->p.q, first), t);
        const struct tsa_tensor k = from_token(from_batch(j->p.k, first), t);
        const struct tsa_tensor v = from_token(from_batch(j->p.v, first), t);
        const struct tsa_tensor o = from_token(from_batch(out, first), t);
        struct tsa_state *const *st = j->state + first;
        const struct tsa_plan *plan = j->plan[x];
        if (verb == DECODE)
            ok(tsa_decode(plan,
                          BATCH(.states = st, .count = count, .layer = layer, .q = q, .k = k,
                                .v = v, .o = o),
                          NULL, &err),
               &err);
        else if (verb == ABSORB)
            ok(tsa_absorb(
                   plan,
                   BATCH(.states = st, .count = count, .layer = layer, .tokens = n, .k = k, .v = v),
                   NULL, &err),
               &err);
        else
            ok(tsa_prefill(plan,
                           BATCH(.states = st, .count = count, .layer = layer, .tokens = n, .q = q,
                                 .k = k, .v = v, .o = o),
                           NULL, &err),
               &err);
    }
    for (size_t b = first; b < first + count; b++)
        for (size_t t = from; t < from + n; t++)
            model_token(&j->model[x], j->head[b][layer], &j->p, b, t,
                        verb == ABSORB ? NULL : j->want);
    assert_bits(j->got, j->want, TSA_F32, j->p.o_count, j->what);
}

static void merge_two(struct journey *j)
{
    const size_t x = draw(j, j->plans), to = draw(j, STATES), from = draw(j, STATES);
    const struct model *m = &j->model[x];
    struct tsa_error err;
    snprintf(j->what, sizeof j->what, "merge of %zu into %zu, plan %zu", from, to, x);
    ok(tsa_state_merge(j->plan[x], j->state[to], j->state[from], NULL, &err), &err);
    for (size_t layer = 0; layer < LAYERS; layer++) {
        struct model_head **copy = heads_new(m);
        heads_copy(m, copy, j->head[from][layer]);
        heads_merge(m, j->head[to][layer], copy);
        heads_free(m, copy);
    }
}

/* The tree over all states, as it is defined: neighbours, then the results. */
static void reduce_all(struct journey *j)
{
    const size_t x = draw(j, j->plans), to = draw(j, STATES);
    const struct model *m = &j->model[x];
    struct tsa_error err;
    snprintf(j->what, sizeof j->what, "reduce into %zu, plan %zu", to, x);
    ok(tsa_state_reduce(j->plan[x], j->state[to], (const struct tsa_state *const *)j->state, STATES,
                        &err),
       &err);
    for (size_t layer = 0; layer < LAYERS; layer++) {
        struct model_head **copy[STATES];
        for (size_t i = 0; i < STATES; i++) {
            copy[i] = heads_new(m);
            heads_copy(m, copy[i], j->head[i][layer]);
        }
        for (size_t step = 1; step < STATES; step *= 2)
            for (size_t i = 0; i + step < STATES; i += 2 * step)
                heads_merge(m, copy[i], copy[i + step]);
        heads_copy(m, j->head[to][layer], copy[0]);
        for (size_t i = 0; i < STATES; i++)
            heads_free(m, copy[i]);
    }
}

static void copy_one(struct journey *j)
{
    const size_t x = draw(j, j->plans), to = draw(j, STATES), from = draw(j, STATES);
    struct tsa_error err;
    snprintf(j->what, sizeof j->what, "copy of %zu to %zu, plan %zu", from, to, x);
    ok(tsa_state_copy(j->plan[x], j->state[to], j->state[from], &err), &err);
    assert_equal(j->plan[draw(j, j->plans)], j->state[to], j->state[from], true);
    for (size_t layer = 0; layer < LAYERS; layer++)
        if (to != from)
            heads_copy(&j->p.model, j->head[to][layer], j->head[from][layer]);
}

static void reset_one(struct journey *j)
{
    const size_t x = draw(j, j->plans), i = draw(j, STATES);
    struct tsa_error err;
    snprintf(j->what, sizeof j->what, "reset of %zu, plan %zu", i, x);
    ok(tsa_state_reset(j->plan[x], j->state[i], &err), &err);
    for (size_t layer = 0; layer < LAYERS; layer++) {
        heads_free(&j->p.model, j->head[i][layer]);
        j->head[i][layer] = heads_new(&j->p.model);
    }
}

static void move_one(struct journey *j)
{
    const size_t i = draw(j, STATES);
    void *place = aligned_alloc(64, (j->bytes[i] + 63) / 64 * 64);
    snprintf(j->what, sizeof j->what, "move of %zu", i);
    memcpy(place, j->memory[i], j->bytes[i]);
    memset(j->memory[i], 0xff, j->bytes[i]);
    free(j->memory[i]);
    j->memory[i] = place;
    j->state[i] = place;
}

/* All states against the model, by a view, by an export and by queries of some plan. */
static void check_journey(struct journey *j)
{
    const struct shape *s = &j->p.shape;
    const size_t x = draw(j, j->plans), queries = 2, group = s->heads / s->kv_heads;
    const struct model *m = &j->model[x];
    float *got = make_zeros(s->heads * queries * s->dv, TSA_F32);
    float *want = make_zeros(s->dv, TSA_F32);
    struct tsa_error err;
    for (size_t i = 0; i < STATES; i++)
        for (size_t layer = 0; layer < LAYERS; layer++) {
            struct tsa_state *state = j->state[i];
            struct model_head *const *head = j->head[i][layer];
            const struct tsa_tensor q = from_batch(j->p.q, i);
            const struct tsa_tensor o = dense(got, TSA_F32, s->heads, queries, s->dv);
            assert_state(j->plan[x], state, layer, m, head, j->what);
            assert_export(j->plan[x], state, layer, m, head, j->what);
            if (head[0]->tokens == 0)
                continue;
            ok(tsa_query(j->plan[x],
                         BATCH(.states = &state, .count = 1, .layer = layer, .tokens = queries,
                               .q = q, .o = o),
                         NULL, &err),
               &err);
            for (size_t h = 0; h < s->heads; h++)
                for (size_t t = 0; t < queries; t++) {
                    model_query(m, head[h / group], h, (float *)q.data + (h * s->tokens + t) * s->d,
                                want);
                    assert_bits(got + (h * queries + t) * s->dv, want, TSA_F32, s->dv, j->what);
                }
        }
    free(got);
    free(want);
}

/* Any call may come next, with any plan. A state that a mixed plan made keeps more than its sums,
 * which must be right whoever wrote them last. */
START_TEST(turns)
{
    static const struct shape shapes[] = {
        {3, 17, 3, 8, 4, 2, STATES, 40, TSA_F32, L2, COEF_PER_HEAD, TEMP_PER_HEAD},
        {5, 7, 4, 16, 2, 1, STATES, 50, TSA_F32, RAW, COEF_TAYLOR, TEMP_TWO},
        {16, 33, 3, 4, 2, 2, STATES, 30, TSA_F32, L2, COEF_TAYLOR, TEMP_PER_HEAD},
        {2, 64, 5, 66, 1, 1, STATES, 200, TSA_F32, L2, COEF_SHARED, TEMP_TWO},
        {16, 16, 3, 64, 1, 1, STATES, 140, TSA_F32, L2, COEF_TAYLOR, TEMP_TWO},
        {1, 1, 2, 2, 1, 1, STATES, 20, TSA_F32, L2, COEF_TAYLOR, TEMP_TWO},
    };
    struct journey j;
    const size_t count = sizeof shapes / sizeof shapes[0];
    journey_begin(&j, &shapes[(size_t)_i % count], 8000 + (uint64_t)_i);
    for (int step = quick() ? 8 : 40; step-- > 0;) {
        const size_t next = draw(&j, 12);
        if (next < 3)
            absorb_some(&j, PREFILL);
        else if (next < 5)
            absorb_some(&j, DECODE);
        else if (next < 7)
            absorb_some(&j, ABSORB);
        else if (next == 7)
            merge_two(&j);
        else if (next == 8)
            reduce_all(&j);
        else if (next == 9)
            copy_one(&j);
        else if (next == 10 && step % 3 == 0)
            reset_one(&j);
        else
            move_one(&j);
        check_journey(&j);
    }
    journey_end(&j);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("turns");
    tcase_add_loop_test(add_case(suite, "turns"), turns, 0, 12);
    return run_suite(suite);
}
