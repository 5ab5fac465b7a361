/* SPDX-License-Identifier: MIT */
/* Mixed plans, whose high degrees have bf16 operands. Outputs and states equal the model bit by bit
 * whatever the schedule, and when plans of any kind take turns on a state; how far outputs are from
 * the definition; and what is refused. */
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "run.h"

#define L2 TSA_NORMALIZE_L2
#define RAW TSA_NORMALIZE_NONE

static const struct mixed {
    struct shape shape;
    unsigned exact;
} problems[] = {
    /* d  dv  n   C  H  G  B   N; all high features even or odd in number; E = 0 .. n */
    {{1, 1, 1, 2, 1, 1, 1, 9, TSA_F32, L2, COEF_TAYLOR, TEMP_TWO}, 0},
    {{2, 7, 2, 4, 2, 1, 3, 23, TSA_F32, L2, COEF_PER_HEAD, TEMP_PER_HEAD}, 1},
    {{3, 17, 3, 16, 4, 2, 3, 61, TSA_F32, L2, COEF_PER_HEAD, TEMP_PER_HEAD}, 2},
    {{5, 33, 4, 16, 3, 1, 2, 75, TSA_F32, L2, COEF_SHARED, TEMP_PER_HEAD}, 3},
    {{16, 64, 3, 64, 2, 2, 2, 150, TSA_F32, L2, COEF_TAYLOR, TEMP_TWO}, 2},
    {{16, 65, 3, 66, 6, 2, 1, 150, TSA_F32, L2, COEF_PER_HEAD, TEMP_PER_HEAD}, 1},
    {{17, 16, 3, 128, 2, 1, 1, 270, TSA_F32, RAW, COEF_TAYLOR, TEMP_SHARED}, 2},
    {{5, 65, 5, 2, 2, 1, 2, 21, TSA_F32, L2, COEF_TAYLOR, TEMP_PER_HEAD}, 4},
    {{3, 1, 6, 200, 2, 2, 2, 430, TSA_F32, L2, COEF_SHARED, TEMP_SHARED}, 5},
    {{1, 7, 6, 4, 1, 1, 3, 35, TSA_F32, RAW, COEF_TAYLOR, TEMP_TWO}, 3},
    {{16, 16, 2, 64, 5, 5, 1, 131, TSA_F32, L2, COEF_FIRST, TEMP_PER_HEAD}, 0},
    {{16, 17, 3, 128, 2, 1, 1, 261, TSA_F32, L2, COEF_TAYLOR, TEMP_TWO}, 0},
    {{2, 64, 5, 200, 3, 1, 1, 410, TSA_F32, L2, COEF_PER_HEAD, TEMP_PER_HEAD}, 1},
    {{17, 7, 2, 16, 4, 2, 2, 40, TSA_F32, L2, COEF_TAYLOR, TEMP_PER_HEAD}, 1},
    {{5, 16, 4, 66, 2, 1, 1, 140, TSA_F32, L2, COEF_TAYLOR, TEMP_TWO}, 4},
    {{3, 33, 1, 16, 2, 1, 2, 40, TSA_F32, L2, COEF_SHARED, TEMP_TWO}, 0},
    {{5, 7, 6, 16, 2, 1, 1, 40, TSA_F32, RAW, COEF_SHARED, TEMP_SHARED}, 2},
    /* sums that are large; degrees that are made as they are needed; more features than a block */
    {{16, 128, 4, 16, 3, 1, 1, 40, TSA_F32, L2, COEF_PER_HEAD, TEMP_PER_HEAD}, 2},
    {{17, 33, 4, 64, 1, 1, 1, 70, TSA_F32, L2, COEF_TAYLOR, TEMP_TWO}, 3},
    {{16, 5, 5, 16, 1, 1, 1, 35, TSA_F32, L2, COEF_TAYLOR, TEMP_TWO}, 3},
    {{130, 16, 2, 48, 1, 1, 1, 100, TSA_F32, RAW, COEF_TAYLOR, TEMP_TWO}, 1},
    /* chunks of several tiles, and of several passes */
    {{7, 32, 4, 150, 3, 1, 1, 310, TSA_F32, L2, COEF_PER_HEAD, TEMP_PER_HEAD}, 2},
    {{2, 3, 3, 600, 2, 1, 1, 650, TSA_F32, L2, COEF_TAYLOR, TEMP_TWO}, 1},
};
#define PROBLEMS ((int)(sizeof problems / sizeof problems[0]))

static void problem_begin(struct problem *p, int index)
{
    const struct mixed *x = &problems[index];
    problem_make(p, &x->shape, 5000 + (uint64_t)index);
    problem_mix(p, x->exact);
    problem_solve(p);
    ck_assert_uint_gt(p->head[0]->tokens - p->head[0]->window, 0);
}

/* -- schedules --------------------------------------------------------------------------------- */

/* Absorb some tokens; the rest with outputs. The rows in between have none: take the model's. */
static void absorb_first(struct run *r, enum verb verb)
{
    const struct shape *s = &r->p->shape;
    const size_t n = s->tokens, row = s->dv * sizeof(float), cut = n - n / 3;
    feed(r, ABSORB, 0, s->batch, 0, cut);
    feed(r, verb, 0, s->batch, cut, n);
    for (size_t h = 0; h < s->batch * s->heads; h++)
        memcpy((char *)r->o + h * n * row, (char *)r->p->o + h * n * row, cut * row);
    check_run(r, "absorb, then outputs");
}

START_TEST(cutting)
{
    struct problem p;
    problem_begin(&p, _i);
    const size_t c = p.shape.chunk, n = p.shape.tokens, batch = p.shape.batch;
    const size_t piece[] = {n, 1, 3, 7, c - 1, c, c + 1, 2 * c + 3};
    const size_t count = sizeof piece / sizeof piece[0];
    const char *isa;
    for (size_t i = 0; (isa = usable_isa(i)) != NULL; i++)
        for (size_t j = 0; j < count + 5; j++) {
            struct run r;
            if ((i > 0 || quick()) && j % 3 != (i + (size_t)_i) % 3)
                continue; /* all of them with the best one */
            run_begin(&r, &p, isa, 1, 0);
            if (j < count) {
                feed_pieces(&r, PREFILL, piece[j]);
                check_run(&r, "pieces");
            } else if (j == count) {
                feed_pieces(&r, DECODE, n);
                check_run(&r, "token by token");
            } else if (j == count + 1) {
                feed_pieces(&r, ABSORB, c + 2);
                check_states(&r, "absorbed in pieces");
            } else if (j == count + 2) {
                for (size_t b = 0; b < batch; b++)
                    feed(&r, PREFILL, b, b + 1, 0, n);
                check_run(&r, "one sequence at a time");
            } else {
                absorb_first(&r, j == count + 3 ? DECODE : PREFILL);
            }
            run_end(&r);
        }
    problem_free(&p);
}
END_TEST

START_TEST(threads)
{
    static const int team[] = {2, 3, 5};
    struct problem p;
    problem_begin(&p, _i);
    const size_t n = p.shape.tokens, batch = p.shape.batch;
    const char *isa;
    for (size_t i = 0; (isa = usable_isa(i)) != NULL; i++)
        for (size_t wave = 0; wave < 4; wave++) {
            struct run r;
            const int t = team[(wave + i + (size_t)_i) % 3];
            if ((quick() || i > 0) && wave % 3 != (size_t)_i % 3)
                continue;
            run_begin(&r, &p, isa, t, wave);
            if (wave == 2)
                feed_pieces(&r, PREFILL, 3 * p.shape.chunk + 2);
            else
                feed(&r, PREFILL, 0, batch, 0, n);
            check_run(&r, "prefill by a team");
            run_end(&r);
            run_begin(&r, &p, isa, t, wave);
            if (wave == 0) {
                feed(&r, DECODE, 0, batch, 0, n);
                check_run(&r, "decode by a team");
            } else { /* one sequence, so that one kv head may have the whole team */
                for (size_t b = 0; b < batch; b++) {
                    feed(&r, ABSORB, b, b + 1, 0, 3);
                    feed(&r, ABSORB, b, b + 1, 3, n);
                }
                check_states(&r, "absorb by a team");
            }
            run_end(&r);
        }
    problem_free(&p);
}
END_TEST

/* As on a CPU that has the vectors but no instructions for bf16, or fewer vectors for them. */
START_TEST(tables)
{
    struct problem p;
    problem_begin(&p, _i);
    for (size_t i = 0; tsa_isa_at(i) != NULL; i++)
        for (size_t k = i; tsa_isa_at(k) != NULL; k++) {
            const struct tsa_pair_kernels_f32 *pairs = tsa_isa_at(k)->pair_kernels;
            if (pairs == NULL || !tsa_isa_usable(tsa_isa_at(i)) || !tsa_isa_usable(tsa_isa_at(k)) ||
                (i + k + (size_t)_i) % 3 != 0)
                continue;
            for (int verb = PREFILL; verb <= DECODE; verb++) {
                struct run r;
                run_begin(&r, &p, tsa_isa_at(i)->name, 1, 0);
                r.plan->pair_kernels = pairs;
                feed(&r, (enum verb)verb, 0, p.shape.batch, 0, p.shape.tokens);
                check_run(&r, pairs->name);
                run_end(&r);
            }
        }
    problem_free(&p);
}
END_TEST

/* Strided, reversed and misaligned views; and tensors of f64, which become f32 first. */
START_TEST(views)
{
    struct problem p;
    problem_begin(&p, 2);
    const struct shape *s = &p.shape;
    const size_t b = s->batch, n = s->tokens;
    for (int l = 0; l < LAYOUTS; l++) {
        struct strided q, k, v, o;
        struct run r;
        strided_make(&q, l, TSA_F32, b, s->heads, n, s->d, p.q.data);
        strided_make(&k, (l + 1) % LAYOUTS, TSA_F32, b, s->kv_heads, n, s->d, p.k.data);
        strided_make(&v, (l + 2) % LAYOUTS, TSA_F32, b, s->kv_heads, n, s->dv, p.v.data);
        strided_make(&o, (l + 3) % LAYOUTS, TSA_F32, b, s->heads, n, s->dv, NULL);
        run_begin(&r, &p, NULL, 1 + l % 3, 0);
        feed_views(&r, &q.tensor, &k.tensor, &v.tensor, &o, l % 2 == 0 ? n : 1);
        run_end(&r);
        strided_free(&q), strided_free(&k), strided_free(&v), strided_free(&o);
    }
    problem_free(&p);
}
END_TEST

/* A copy `off` bytes from where it would lie. */
static struct tsa_tensor shifted(const struct tsa_tensor *x, size_t batch, size_t off,
                                 void **memory)
{
    struct tsa_tensor y = *x;
    const size_t bytes = batch * (size_t)x->batch * sizeof(float);
    *memory = malloc(bytes + off);
    y.data = (char *)*memory + off;
    memcpy(y.data, x->data, bytes);
    return y;
}

START_TEST(misaligned)
{
    struct problem p;
    problem_begin(&p, 3);
    const struct shape *s = &p.shape;
    for (size_t off = 1; off < 8; off += 3) { /* 1, 4, 7 bytes */
        struct strided o;
        struct run r;
        void *memory[3];
        const struct tsa_tensor q = shifted(&p.q, s->batch, off, &memory[0]);
        const struct tsa_tensor k = shifted(&p.k, s->batch, off, &memory[1]);
        const struct tsa_tensor v = shifted(&p.v, s->batch, off, &memory[2]);
        strided_make(&o, LAYOUT_SKEW, TSA_F32, s->batch, s->heads, s->tokens, s->dv, NULL);
        run_begin(&r, &p, NULL, 1, 0);
        feed_views(&r, &q, &k, &v, &o, s->chunk + 5);
        run_end(&r);
        strided_free(&o);
        for (int j = 0; j < 3; j++)
            free(memory[j]);
    }
    problem_free(&p);
}
END_TEST

static struct tsa_tensor widened(const struct tsa_tensor *x, size_t batch)
{
    struct tsa_tensor y = *x;
    const size_t count = batch * (size_t)x->batch;
    y.dtype = TSA_F64;
    y.data = make_zeros(count, TSA_F64);
    for (size_t i = 0; i < count; i++) /* 2^-30 more than a float holds */
        put(y.data, TSA_F64, i, get(x->data, TSA_F32, i) * (1 + 0x1p-30));
    return y;
}

START_TEST(f64_tensors)
{
    struct problem p;
    struct run r;
    struct tsa_error err;
    problem_begin(&p, 2);
    const struct shape *s = &p.shape;
    const struct tsa_tensor q = widened(&p.q, s->batch), k = widened(&p.k, s->batch);
    const struct tsa_tensor v = widened(&p.v, s->batch);
    double *o = make_zeros(p.o_count, TSA_F64);
    const struct tsa_tensor out = dense(o, TSA_F64, s->heads, s->tokens, s->dv);
    run_begin(&r, &p, NULL, 2, 0);
    ok(tsa_prefill(r.plan, r.states, s->batch, 0, s->tokens, &q, &k, &v, &out, run_workspace(&r),
                   &err),
       &err);
    for (size_t i = 0; i < p.o_count; i++) {
        put(r.o, TSA_F32, i, o[i]);
        CHECK(get(r.o, TSA_F32, i) == o[i], "output %zu is no float: %a", i, o[i]);
    }
    check_run(&r, "f64 tensors");
    run_end(&r);
    free(q.data), free(k.data), free(v.data), free(o);
    problem_free(&p);
}
END_TEST

/* NaN and infinities, let through by the flag: canonical NaN, and rows before them are clean. */
START_TEST(nonfinite)
{
    static const struct shape s = {5, 19, 4, 16, 2, 1, 1, 60, TSA_F32, RAW, COEF_TAYLOR, TEMP_TWO};
    const size_t bad = 37; /* after folds, within a window */
    for (int j = 0; j < 6; j++) {
        struct problem p;
        struct tsa_error err;
        struct tsa_options options;
        problem_make(&p, &s, 31);
        problem_mix(&p, 1);
        struct tsa_tensor *x = j % 3 == 0 ? &p.v : j % 3 == 1 ? &p.k : &p.q;
        put(x->data, TSA_F32, bad * (size_t)x->token + 1, j < 3 ? (double)-NAN : -INFINITY);
        problem_solve(&p);
        const char *isa;
        for (size_t i = 0; (isa = usable_isa(i)) != NULL; i++) {
            problem_options(&p, &options);
            options.flags = TSA_SKIP_INPUT_CHECK;
            options.isa = isa;
            struct tsa_plan *plan = make_plan(&options);
            struct tsa_state **states = states_make(plan, 1);
            float *got = make_zeros(p.o_count, TSA_F32);
            const struct tsa_tensor o = dense(got, TSA_F32, s.heads, s.tokens, s.dv);
            ok(tsa_prefill(plan, states, 1, 0, s.tokens, &p.q, &p.k, &p.v, &o, NULL, &err), &err);
            assert_bits(got, p.o, TSA_F32, p.o_count, "outputs with NaN");
            size_t nans = 0;
            for (size_t t = 0; t < p.o_count; t++) {
                nans += isnan(got[t]) != 0;
                CHECK(t / s.dv % s.tokens >= bad || isfinite(got[t]), "output %zu is not clean", t);
            }
            ck_assert_uint_gt(nans, 0);
            free(got);
            states_free(states, 1);
            tsa_plan_destroy(plan);
        }
        problem_free(&p);
    }
}
END_TEST

/* -- plans that take turns --------------------------------------------------------------------- */

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

static struct model_head **heads_new(const struct model *m)
{
    struct model_head **head = calloc(m->kv_heads, sizeof(struct model_head *));
    for (size_t g = 0; g < m->kv_heads; g++)
        head[g] = model_head_new(m);
    return head;
}

static void heads_copy(const struct model *m, struct model_head *const *to,
                       struct model_head *const *from)
{
    for (size_t g = 0; g < m->kv_heads; g++)
        model_head_copy(m, to[g], from[g]);
}

static void heads_merge(const struct model *m, struct model_head *const *to,
                        struct model_head *const *from)
{
    for (size_t g = 0; g < m->kv_heads; g++)
        model_merge(m, to[g], from[g]);
}

static void heads_free(const struct model *m, struct model_head **head)
{
    for (size_t g = 0; g < m->kv_heads; g++)
        model_head_free(head[g]);
    free(head);
}

/* Token t of sequence b of the problem; outputs, if wanted, in their place of a dense array. */
static void model_token(const struct model *m, struct model_head *const *head,
                        const struct problem *p, size_t b, size_t t, float *want)
{
    const size_t group = m->heads / m->kv_heads, n = p->shape.tokens;
    for (size_t g = 0; g < m->kv_heads; g++) {
        const size_t row = (b * m->kv_heads + g) * n + t;
        model_append(m, head[g], (float *)p->k.data + row * m->d, (float *)p->v.data + row * m->dv);
        for (size_t h = g * group; want != NULL && h < (g + 1) * group; h++) {
            const size_t at = (b * m->heads + h) * n + t;
            model_query(m, head[g], h, (float *)p->q.data + at * m->d, want + at * m->dv);
        }
        model_fold(m, head[g]);
    }
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
        j->plan[i]->wave = draw(j, 3);
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
            ok(tsa_decode(plan, st, count, layer, &q, &k, &v, &o, NULL, &err), &err);
        else if (verb == ABSORB)
            ok(tsa_absorb(plan, st, count, layer, n, &k, &v, NULL, &err), &err);
        else
            ok(tsa_prefill(plan, st, count, layer, n, &q, &k, &v, &o, NULL, &err), &err);
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
            const struct tsa_state *state = j->state[i];
            struct model_head *const *head = j->head[i][layer];
            const struct tsa_tensor q = from_batch(j->p.q, i);
            const struct tsa_tensor o = dense(got, TSA_F32, s->heads, queries, s->dv);
            assert_state(j->plan[x], state, layer, m, head, j->what);
            assert_export(j->plan[x], state, layer, m, head, j->what);
            if (head[0]->tokens == 0)
                continue;
            ok(tsa_query(j->plan[x], &state, 1, layer, queries, &q, &o, NULL, &err), &err);
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

/* A state large enough for the columns of one step to be shared out; another plan, which keeps no
 * pairs of its kind in that state, or keeps them for other degrees, takes the first steps. */
START_TEST(decode_columns)
{
    static const struct shape s = {16, 49, 5,       4,  2,           1,
                                   1,  11, TSA_F32, L2, COEF_TAYLOR, TEMP_PER_HEAD};
    const size_t cut = _i == 0 ? 0 : 9;
    struct problem p;
    struct run r;
    struct tsa_error err;
    problem_make(&p, &s, 51);
    problem_mix(&p, _i == 1 ? 5 : 2);
    struct model first = p.model;
    struct tsa_plan *plan = problem_plan(&p, NULL, 2);
    problem_mix(&p, 1);
    run_begin(&r, &p, NULL, 5, 0);
    struct model_head **head = heads_new(&p.model);
    float *want = make_zeros(p.o_count, TSA_F32), *row = make_zeros(s.dv, TSA_F32);
    for (size_t t = 0; t < cut; t++) {
        const struct tsa_tensor q = from_token(p.q, t), k = from_token(p.k, t);
        const struct tsa_tensor v = from_token(p.v, t), o = from_token(r.out, t);
        ok(tsa_decode(plan, r.states, 1, 0, &q, &k, &v, &o, NULL, &err), &err);
    }
    feed(&r, DECODE, 0, 1, cut, s.tokens);
    for (size_t t = 0; t < s.tokens; t++)
        model_token(t < cut ? &first : &p.model, head, &p, 0, t, want);
    assert_bits(r.o, want, TSA_F32, p.o_count, "decode of a large state");
    assert_state(r.plan, r.states[0], 0, &p.model, head, "decode of a large state");
    const struct tsa_tensor o = dense(r.o, TSA_F32, s.heads, 1, s.dv);
    ok(tsa_query(r.plan, (const struct tsa_state *const *)r.states, 1, 0, 1, &p.q, &o, NULL, &err),
       &err);
    model_query(&p.model, head[0], 0, p.q.data, row);
    assert_bits(r.o, row, TSA_F32, s.dv, "query of a large state");
    heads_free(&p.model, head);
    run_end(&r);
    tsa_plan_destroy(plan);
    free(want), free(row);
    problem_free(&p);
}
END_TEST

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

/* Between chunks, when no window is open, plans of other chunks may take turns too. */
START_TEST(other_chunks)
{
    static const struct shape s = {5, 19, 3, 16, 2, 1, 1, 90, TSA_F32, L2, COEF_TAYLOR, TEMP_TWO};
    static const struct {
        size_t chunk, tokens;
        bool mixed;
    } leg[] = {{5, 15, false}, {16, 16, true}, {16, 16, false},
               {8, 8, true},   {7, 14, false}, {16, 21, true}};
    struct problem p;
    struct tsa_error err;
    problem_make(&p, &s, 61);
    problem_mix(&p, (unsigned)_i);
    float *got = make_zeros(p.o_count, TSA_F32), *want = make_zeros(p.o_count, TSA_F32);
    struct tsa_plan *first = problem_plan(&p, NULL, 1);
    struct tsa_state **st = states_make(first, 1);
    struct model_head **head = heads_new(&p.model);
    for (size_t i = 0, t = 0; i < sizeof leg / sizeof leg[0]; t += leg[i].tokens, i++) {
        const struct tsa_tensor q = from_token(p.q, t), k = from_token(p.k, t);
        const struct tsa_tensor v = from_token(p.v, t);
        const struct tsa_tensor o = from_token(dense(got, TSA_F32, s.heads, s.tokens, s.dv), t);
        struct tsa_options options;
        struct model m = p.model;
        m.chunk = leg[i].chunk;
        if (!leg[i].mixed)
            m.high = m.features;
        problem_options(&p, &options);
        options.chunk = leg[i].chunk;
        options.compute = leg[i].mixed ? TSA_COMPUTE_MIXED : TSA_COMPUTE_F32;
        struct tsa_plan *plan = make_plan(&options);
        ok(tsa_prefill(plan, st, 1, 0, leg[i].tokens, &q, &k, &v, &o, NULL, &err), &err);
        for (size_t j = t; j < t + leg[i].tokens; j++)
            model_token(&m, head, &p, 0, j, want);
        assert_bits(got, want, TSA_F32, p.o_count, "chunks of any length");
        assert_state(plan, st[0], 0, &m, head, "chunks of any length");
        tsa_plan_destroy(plan);
    }
    heads_free(&p.model, head);
    states_free(st, 1);
    tsa_plan_destroy(first);
    free(got), free(want);
    problem_free(&p);
}
END_TEST

/* Plans of fewer terms read a state, with any exact_degrees: where the sums that they need are odd
 * in number, the state pairs the last of them with one of the next degree. */
START_TEST(fewer_terms)
{
    static const size_t most = 4;
    struct shape s = {3, 17, most, 8, 2, 1, 1, 41, TSA_F32, L2, COEF_TAYLOR, TEMP_TWO};
    const size_t queries = 5;
    struct problem whole;
    struct run r;
    problem_make(&whole, &s, 67);
    problem_mix(&whole, (unsigned)_i);
    run_begin(&r, &whole, NULL, 1, 0);
    feed_pieces(&r, PREFILL, 19);
    for (s.terms = 1; s.terms < most; s.terms++)
        for (unsigned exact = 0; exact <= s.terms; exact++) {
            struct problem p;
            struct tsa_error err;
            problem_make(&p, &s, 67);      /* the same rows */
            problem_mix(&p, (unsigned)_i); /* whoever wrote the sums */
            struct model_head **head = heads_new(&p.model), **sum = heads_new(&p.model);
            for (size_t t = 0; t < s.tokens; t++)
                model_token(&p.model, head, &p, 0, t, NULL);
            problem_mix(&p, exact);
            struct tsa_plan *plan = problem_plan(&p, NULL, 1);
            float *got = make_zeros(s.heads * queries * s.dv, TSA_F32);
            float *want = make_zeros(s.dv, TSA_F32);
            const struct tsa_tensor o = dense(got, TSA_F32, s.heads, queries, s.dv);
            for (size_t n = 1; n <= queries; n += queries - 1) { /* a token, or several */
                ok(tsa_query(plan, (const struct tsa_state *const *)r.states, 1, 0, n, &p.q, &o,
                             NULL, &err),
                   &err);
                for (size_t i = 0; i < s.heads * n; i++) {
                    const size_t h = i / n, t = i % n;
                    model_query(&p.model, head[0], h, (float *)p.q.data + (h * s.tokens + t) * s.d,
                                want);
                    assert_bits(got + (h * queries + t) * s.dv, want, TSA_F32, s.dv, "query");
                }
            }
            /* into a state of so many terms, which has folded once, and has one token more */
            struct tsa_state **st = states_make(plan, 2);
            ok(tsa_absorb(plan, st, 1, 0, 9, &p.k, &p.v, NULL, &err), &err);
            for (size_t t = 0; t < 9; t++)
                model_token(&p.model, sum, &p, 0, t, NULL);
            ok(tsa_state_merge(plan, st[0], r.states[0], NULL, &err), &err);
            heads_merge(&p.model, sum, head);
            assert_state(plan, st[0], 0, &p.model, sum, "merged");
            ok(tsa_state_copy(plan, st[1], r.states[0], &err), &err);
            assert_state(plan, st[1], 0, &p.model, head, "copied");
            for (int i = 0; i < 2; i++) {
                ok(tsa_query(plan, (const struct tsa_state *const *)st + i, 1, 0, 1, &p.q, &o, NULL,
                             &err),
                   &err);
                model_query(&p.model, i == 0 ? sum[0] : head[0], 0, p.q.data, want);
                assert_bits(got, want, TSA_F32, s.dv, "query after that");
            }
            states_free(st, 2);
            heads_free(&p.model, head), heads_free(&p.model, sum);
            tsa_plan_destroy(plan);
            free(got), free(want);
            problem_free(&p);
        }
    run_end(&r);
    problem_free(&whole);
}
END_TEST

/* Such a partner may have overflowed, here in degree 3; it is no business of a plan of 3 terms. */
START_TEST(overflowed_partner)
{
    struct shape s = {1, 1, 4, 2, 1, 1, 1, 2000, TSA_F32, RAW, COEF_TAYLOR, TEMP_TWO};
    struct problem whole, p;
    struct run r;
    struct tsa_error err;
    struct tsa_view view;
    problem_make(&whole, &s, 68);
    problem_mix(&whole, 2);
    s.terms = 3;
    problem_make(&p, &s, 68);
    problem_mix(&p, 2);
    for (size_t t = 0; t < s.tokens; t++) {
        put(whole.k.data, TSA_F32, t, 6e11), put(p.k.data, TSA_F32, t, 6e11);
        put(p.q.data, TSA_F32, t, 1e-12);
    }
    run_begin(&r, &whole, NULL, 1, 0);
    feed(&r, ABSORB, 0, 1, 0, s.tokens);
    ok(tsa_state_view(r.plan, r.states[0], 0, 0, &view, &err), &err);
    ck_assert(isnan(get(view.ones_hi, TSA_F32, 3)) && isfinite(get(view.ones_hi, TSA_F32, 2)));
    struct model_head **head = heads_new(&p.model);
    for (size_t t = 0; t < s.tokens; t++)
        model_token(&p.model, head, &p, 0, t, NULL);
    struct tsa_plan *plan = problem_plan(&p, NULL, 1);
    for (size_t n = 1; n <= 5; n += 4) { /* a token, or several */
        float got[5], want;
        const struct tsa_tensor o = dense(got, TSA_F32, 1, n, 1);
        ok(tsa_query(plan, (const struct tsa_state *const *)r.states, 1, 0, n, &p.q, &o, NULL,
                     &err),
           &err);
        model_query(&p.model, head[0], 0, p.q.data, &want);
        ck_assert(isfinite(want));
        for (size_t t = 0; t < n; t++)
            assert_bits(got + t, &want, TSA_F32, 1, "query beside an overflow");
    }
    heads_free(&p.model, head);
    tsa_plan_destroy(plan);
    run_end(&r);
    problem_free(&p), problem_free(&whole);
}
END_TEST

/* -- other calls ------------------------------------------------------------------------------- */

/* Packed, padded and slots, one after the other on the same states. */
START_TEST(ragged)
{
    static const int64_t packed[2][4] = {{0, 20, 20, 55}, {3, 3, 24, 61}};
    static const int64_t padded[2][3] = {{5, 17, 0}, {19, 0, 33}}, slots[] = {2, 0};
    struct problem p;
    struct run r;
    struct tsa_error err;
    problem_make(&p, &problems[2].shape, 63);
    problem_mix(&p, 1 + (unsigned)_i);
    float *want = make_zeros(p.o_count, TSA_F32);
    struct model_head **head[STATES];
    for (size_t b = 0; b < STATES; b++)
        head[b] = heads_new(&p.model);
    run_begin(&r, &p, NULL, 1 + 2 * _i, 0);
    memset(r.o, 0, p.o_count * sizeof(float));
    const struct tsa_tensor *q = &p.q, *k = &p.k, *v = &p.v, *o = &r.out;
    for (int call = 0; call < 5; call++) {
        if (call == 0)
            ok(tsa_prefill_packed(r.plan, r.states, STATES, 0, packed[0], q, k, v, o, NULL, &err),
               &err);
        else if (call == 1)
            ok(tsa_absorb_padded(r.plan, r.states, STATES, 0, 20, padded[0], k, v, NULL, &err),
               &err);
        else if (call == 2)
            ok(tsa_decode_slots(r.plan, r.states, slots, 2, 0, q, k, v, o, NULL, &err), &err);
        else if (call == 3)
            ok(tsa_absorb_packed(r.plan, r.states, STATES, 0, packed[1], k, v, NULL, &err), &err);
        else
            ok(tsa_prefill_padded(r.plan, r.states, STATES, 0, 33, padded[1], q, k, v, o, NULL,
                                  &err),
               &err);
        for (size_t b = 0; b < STATES; b++) {
            const bool rows = call == 0 || call == 3; /* of sequence 0 */
            const int64_t *of = packed[call == 3], *length = padded[call == 4];
            const int64_t from = rows ? of[b] : 0;
            const int64_t to = rows ? of[b + 1] : call == 2 ? b != 1 : length[b];
            for (int64_t t = from; t < to; t++)
                model_token(&p.model, head[b], &p, rows ? 0 : b, (size_t)t,
                            call == 1 || call == 3 ? NULL : want);
            assert_state(r.plan, r.states[b], 0, &p.model, head[b], "ragged");
            assert_export(r.plan, r.states[b], 0, &p.model, head[b], "ragged");
        }
        assert_bits(r.o, want, TSA_F32, p.o_count, "ragged");
    }
    run_end(&r);
    for (size_t b = 0; b < STATES; b++)
        heads_free(&p.model, head[b]);
    free(want);
    problem_free(&p);
}
END_TEST

static void *counting_allocate(void *user, size_t bytes, size_t alignment)
{
    ++*(size_t *)user;
    return aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
}

static void counting_release(void *user, void *memory, size_t bytes)
{
    (void)user, (void)bytes;
    free(memory);
}

static void run_backwards(void *user, size_t count, void (*function)(void *argument, size_t index),
                          void *argument)
{
    ++*(size_t *)user;
    while (count-- > 0)
        function(argument, count);
}

/* With a workspace nothing is allocated, also on the threads of a host, in any order. */
START_TEST(host)
{
    struct problem p;
    struct tsa_options options;
    struct tsa_error err;
    struct tsa_workspace *ws = NULL;
    size_t allocations = 0, executions = 0;
    problem_begin(&p, 4);
    const struct shape *s = &p.shape;
    problem_options(&p, &options);
    options.threads = 3;
    options.allocate = counting_allocate;
    options.release = counting_release;
    options.allocator_user = &allocations;
    options.execute = run_backwards;
    options.execute_user = &executions;
    struct tsa_plan *plan = make_plan(&options);
    struct tsa_state **st = states_make(plan, s->batch);
    const struct tsa_state *const *read = (const struct tsa_state *const *)st;
    float *got = make_zeros(p.o_count, TSA_F32);
    const struct tsa_tensor o = dense(got, TSA_F32, s->heads, s->tokens, s->dv);
    ok(tsa_workspace_create(plan, 0, &ws, &err), &err);
    const size_t before = allocations;
    ok(tsa_prefill(plan, st, s->batch, 0, s->tokens, &p.q, &p.k, &p.v, &o, ws, &err), &err);
    assert_bits(got, p.o, TSA_F32, p.o_count, "backwards");
    ok(tsa_decode(plan, st, s->batch, 0, &p.q, &p.k, &p.v, &o, ws, &err), &err);
    ok(tsa_absorb(plan, st, s->batch, 0, s->tokens, &p.k, &p.v, ws, &err), &err);
    ok(tsa_query(plan, read, s->batch, 0, s->tokens, &p.q, &o, ws, &err), &err);
    ok(tsa_state_merge(plan, st[0], st[1], ws, &err), &err);
    ok(tsa_state_copy(plan, st[1], st[0], &err), &err);
    ck_assert_uint_eq(allocations, before);
    ck_assert_uint_gt(executions, 0);
    tsa_workspace_destroy(ws);
    states_free(st, s->batch);
    tsa_plan_destroy(plan);
    free(got);
    problem_free(&p);
}
END_TEST

/* -- against the definition -------------------------------------------------------------------- */

static void fill_values(const struct problem *p, double value)
{
    for (size_t i = 0; i < p->shape.batch * (size_t)p->v.batch; i++)
        put(p->v.data, TSA_F32, i, value);
}

static void assert_value(const struct run *r, double value, const char *what)
{
    for (size_t i = 0; i < r->p->o_count; i++)
        CHECK(((float *)r->o)[i] == (float)value, "%s: output %zu is %a, not %a", what, i,
              (double)((float *)r->o)[i], value);
}

/* Numerator and denominator are the same chain if v is 1, and differ by a power of two if v is. */
START_TEST(constants)
{
    static const struct shape s = {
        5, 19, 3, 16, 4, 2, 2, 70, TSA_F32, L2, COEF_PER_HEAD, TEMP_PER_HEAD};
    static const double values[] = {1, 2, -0.25};
    for (size_t i = 0; i < 3; i++) {
        struct problem p;
        struct run r;
        struct tsa_error err;
        problem_make(&p, &s, 71);
        problem_mix(&p, (unsigned)_i);
        fill_values(&p, values[i]);
        run_begin(&r, &p, NULL, 1, 0);
        feed_pieces(&r, PREFILL, 23);
        assert_value(&r, values[i], "prefill");
        feed(&r, DECODE, 0, s.batch, 0, s.tokens);
        assert_value(&r, values[i], "decode");
        ok(tsa_state_merge(r.plan, r.states[0], r.states[1], NULL, &err), &err);
        ok(tsa_query(r.plan, (const struct tsa_state *const *)r.states, s.batch, 0, s.tokens, &p.q,
                     &r.out, NULL, &err),
           &err);
        assert_value(&r, values[i], "query after merge");
        run_end(&r);
        problem_free(&p);
    }
}
END_TEST

/* Keys of zeros weigh 1 each, so that everything is counted. Threes are exact as long as bf16 holds
 * the sums: after 87 folds of 16, where degree 0 has bf16 operands, 3 x 87 = 261 becomes 260. */
START_TEST(threes)
{
    static const struct shape s = {1, 1, 3, 16, 1, 1, 1, 1393, TSA_F32, L2, COEF_TAYLOR, TEMP_TWO};
    struct problem p;
    struct run r;
    problem_make(&p, &s, 72);
    problem_mix(&p, (unsigned)_i);
    fill_values(&p, 3);
    memset(p.k.data, 0, s.tokens * sizeof(float));
    run_begin(&r, &p, NULL, 1, 0);
    feed(&r, PREFILL, 0, 1, 0, s.tokens);
    for (size_t t = 0; t < s.tokens; t++) {
        const float got = ((float *)r.o)[t];
        const bool held = _i > 0 || t / 16 <= 85 || t / 16 == 86;
        CHECK(got == (held ? 3 : 4163 / 1393.0f), "output %zu is %a", t, (double)got);
    }
    run_end(&r);
    problem_free(&p);
}
END_TEST

/* The bound is that of explicit_row; and some output is outside of what f32 would be held to. */
START_TEST(definition)
{
    static const struct shape shapes[] = {
        {3, 4, 4, 16, 4, 2, 1, 200, TSA_F32, L2, COEF_PER_HEAD, TEMP_PER_HEAD},
        {16, 8, 3, 64, 2, 2, 1, 200, TSA_F32, L2, COEF_TAYLOR, TEMP_TWO},
        {6, 4, 5, 2, 2, 1, 1, 150, TSA_F32, RAW, COEF_SHARED, TEMP_SHARED},
    };
    const struct shape *s = &shapes[_i / 3];
    struct problem p;
    struct run r;
    double beyond = 0;
    problem_make(&p, s, 80 + (uint64_t)_i);
    problem_mix(&p, (unsigned)_i % 3);
    run_begin(&r, &p, NULL, 1, 0);
    feed(&r, PREFILL, 0, 1, 0, s->tokens);
    struct model plain = p.model;
    plain.high = plain.features;
    struct truth *truth = calloc(2 * s->dv, sizeof *truth), *narrow = truth + s->dv;
    for (size_t i = 0; i < s->heads * s->tokens; i += 3) {
        const size_t h = i / s->tokens, g = h / (s->heads / s->kv_heads) * s->tokens;
        const float *q = (float *)p.q.data + i * s->d, *k = (float *)p.k.data + g * s->d;
        const float *v = (float *)p.v.data + g * s->dv;
        explicit_row(&p.model, h, q, k, v, i % s->tokens + 1, truth);
        explicit_row(&plain, h, q, k, v, i % s->tokens + 1, narrow);
        for (size_t c = 0; c < s->dv; c++) {
            const double off = fabs((double)((float *)r.o)[i * s->dv + c] - truth[c].value);
            CHECK(off <= truth[c].bound, "row %zu, column %zu is off by %g: %g bounds", i, c, off,
                  off / truth[c].bound);
            beyond = fmax(beyond, off / narrow[c].bound);
        }
    }
    ck_assert_double_gt(beyond, 1);
    free(truth);
    run_end(&r);
    problem_free(&p);
}
END_TEST

/* |o - o_f64| / |o_f64| over all outputs, where a plan of f64 evaluates the same kernel. */
static double distance(const struct problem *p, unsigned exact_degrees)
{
    struct tsa_options options;
    struct tsa_error err;
    void *o[2];
    for (int wide = 0; wide < 2; wide++) {
        problem_options(p, &options);
        options.dtype = wide ? TSA_F64 : TSA_F32;
        options.compute = wide ? TSA_COMPUTE_F32 : TSA_COMPUTE_MIXED;
        options.exact_degrees = exact_degrees;
        struct tsa_plan *plan = make_plan(&options);
        struct tsa_state **st = states_make(plan, 1);
        o[wide] = make_zeros(p->o_count, options.dtype);
        const struct tsa_tensor out =
            dense(o[wide], options.dtype, p->shape.heads, p->shape.tokens, p->shape.dv);
        ok(tsa_prefill(plan, st, 1, 0, p->shape.tokens, &p->q, &p->k, &p->v, &out, NULL, &err),
           &err);
        states_free(st, 1);
        tsa_plan_destroy(plan);
    }
    double off = 0, all = 0;
    for (size_t i = 0; i < p->o_count; i++) {
        const double want = ((double *)o[1])[i], x = ((float *)o[0])[i] - want;
        off += x * x;
        all += want * want;
    }
    free(o[0]), free(o[1]);
    return sqrt(off / all);
}

/* What doc/accuracy.md says of the usual shape: 2.3e-5 with two exact degrees, 1.5e-3 with none. */
START_TEST(usual_accuracy)
{
    static const struct shape s = {16, 64,   3,       64, 1,           1,
                                   1,  2048, TSA_F32, L2, COEF_TAYLOR, TEMP_TWO};
    struct problem p;
    problem_make(&p, &s, 90);
    const double exact = distance(&p, 3), two = distance(&p, 2), none = distance(&p, 0);
    ck_assert_double_le(two, 5e-5);
    ck_assert_double_gt(two, 10 * exact);
    ck_assert_double_gt(none, 10 * two);
    ck_assert_double_le(none, 5e-3);
    problem_free(&p);
}
END_TEST

/* -- options ----------------------------------------------------------------------------------- */

static void usual_options(struct tsa_options *o)
{
    ck_assert_int_eq(tsa_options_init(o, sizeof *o), TSA_OK);
    ck_assert_int_eq(o->compute, TSA_COMPUTE_F32);
    ck_assert_uint_eq(o->exact_degrees, 2);
    o->head_dim = 16;
    o->value_dim = 64;
}

static void assert_refused(const struct tsa_options *o, const char *argument)
{
    struct tsa_plan *plan = NULL;
    struct tsa_error err;
    ck_assert_int_eq(tsa_plan_create(o, &plan, &err), TSA_EINVAL);
    ck_assert_ptr_null(plan);
    ck_assert_str_eq(err.argument, argument);
    ck_assert(err.text[0] != 0);
}

START_TEST(refused)
{
    struct tsa_options o;
    for (int j = -1; j <= 3; j += 4) {
        usual_options(&o);
        o.compute = (enum tsa_compute)j;
        assert_refused(&o, "compute");
    }
    usual_options(&o);
    o.compute = TSA_COMPUTE_MIXED;
    o.dtype = TSA_F64;
    assert_refused(&o, "compute");
    o.exact_degrees = 8; /* though it would be no mixed plan */
    assert_refused(&o, "compute");
    for (size_t chunk = 1; chunk < 100; chunk += 14) {
        usual_options(&o);
        o.compute = TSA_COMPUTE_MIXED;
        o.chunk = chunk;
        assert_refused(&o, "chunk");
    }
    for (int j = 0; j <= TSA_COMPUTE_FASTEST; j++) {
        usual_options(&o);
        o.compute = (enum tsa_compute)j;
        o.exact_degrees = 9;
        assert_refused(&o, "exact_degrees");
        o.exact_degrees = (unsigned)-1;
        assert_refused(&o, "exact_degrees");
    }
}
END_TEST

/* A plan has so many exact degrees, and its description says so; `exact` = terms: f32. */
static void assert_exact(const struct tsa_options *o, unsigned exact)
{
    struct tsa_plan *plan = make_plan(o);
    char text[4096], line[100];
    const bool mixed = exact < o->terms;
    snprintf(line, sizeof line, "\ncompute: %s\nexact_degrees: %u\n", mixed ? "mixed" : "f32",
             exact);
    ck_assert_int_eq(tsa_plan_compute(plan), mixed ? TSA_COMPUTE_MIXED : TSA_COMPUTE_F32);
    ck_assert_uint_eq(tsa_plan_exact_degrees(plan), exact);
    ck_assert_uint_lt(tsa_plan_describe(plan, text, sizeof text), sizeof text);
    ck_assert_msg(strstr(text, line) != NULL, "%s", text);
    snprintf(line, sizeof line, "\nbf16_products: %s%s\n", plan->pair_kernels->name,
             plan->pair_kernels->fast ? "" : " (no faster than f32)");
    ck_assert_msg((strstr(text, line) != NULL) == mixed, "%s", text);
    ck_assert_int_eq(strstr(text, "bf16_products") != NULL, mixed);
    ck_assert(!mixed || tsa_plan_chunk(plan) % 2 == 0);
    tsa_plan_destroy(plan);
}

START_TEST(options)
{
    struct tsa_options o;
    struct tsa_plan *plan;
    ck_assert_int_eq(tsa_plan_compute(NULL), TSA_COMPUTE_F32);
    ck_assert_uint_eq(tsa_plan_exact_degrees(NULL), 0);
    for (o.terms = 1; o.terms <= TSA_MAX_TERMS; o.terms++)
        for (unsigned exact = 0; exact <= TSA_MAX_TERMS; exact++) {
            const size_t terms = o.terms;
            usual_options(&o);
            o.head_dim = 3;
            o.terms = terms;
            o.exact_degrees = exact;
            assert_exact(&o, (unsigned)terms);
            o.compute = TSA_COMPUTE_MIXED;
            assert_exact(&o, exact < terms ? exact : (unsigned)terms);
        }
    /* a state that keeps sums in pairs is larger; one that keeps none is as that of f32 */
    size_t bytes[3];
    for (unsigned j = 0; j < 3; j++) {
        usual_options(&o);
        o.compute = j == 0 ? TSA_COMPUTE_F32 : TSA_COMPUTE_MIXED;
        o.exact_degrees = j == 1 ? 3 : 2;
        plan = make_plan(&o);
        bytes[j] = tsa_state_bytes(plan);
        tsa_plan_destroy(plan);
    }
    ck_assert_uint_eq(bytes[1], bytes[0]);
    ck_assert_uint_gt(bytes[2], bytes[0]);
    /* chunks that the library chooses are even, also when they are to hold a sequence */
    for (size_t n = 100; n < 120; n++) {
        usual_options(&o);
        o.compute = TSA_COMPUTE_MIXED;
        o.max_tokens = n;
        assert_exact(&o, 2);
    }
}
END_TEST

/* The fastest is f32 where mixed cannot be, or would be emulated; and never anything else. */
START_TEST(fastest)
{
    struct tsa_options o;
    struct tsa_plan *plan;
    const char *isa;
    for (size_t i = 0; (isa = usable_isa(i)) != NULL; i++)
        for (int j = 0; j < 3; j++) {
            usual_options(&o);
            o.compute = TSA_COMPUTE_FASTEST;
            o.isa = isa;
            o.dtype = j == 1 ? TSA_F64 : TSA_F32;
            o.chunk = j == 2 ? 63 : 0;
            plan = make_plan(&o);
            const enum tsa_compute got = tsa_plan_compute(plan);
            ck_assert(got == TSA_COMPUTE_F32 || got == TSA_COMPUTE_MIXED);
            if (j > 0 || strcmp(isa, "scalar") == 0)
                ck_assert_int_eq(got, TSA_COMPUTE_F32);
            ck_assert_uint_eq(tsa_plan_exact_degrees(plan), got == TSA_COMPUTE_F32 ? 3 : 2);
            tsa_plan_destroy(plan);
        }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("mixed");
    TCase *schedules = add_case(suite, "schedules");
    tcase_add_loop_test(schedules, cutting, 0, PROBLEMS);
    tcase_add_loop_test(schedules, threads, 0, PROBLEMS);
    tcase_add_loop_test(schedules, tables, 0, PROBLEMS);
    TCase *tensors = add_case(suite, "tensors");
    tcase_add_test(tensors, views);
    tcase_add_test(tensors, misaligned);
    tcase_add_test(tensors, f64_tensors);
    tcase_add_test(tensors, nonfinite);
    TCase *taking_turns = add_case(suite, "turns");
    tcase_add_loop_test(taking_turns, turns, 0, 12);
    tcase_add_loop_test(taking_turns, decode_columns, 0, 3);
    tcase_add_loop_test(taking_turns, other_chunks, 0, 3);
    tcase_add_loop_test(taking_turns, fewer_terms, 0, 5);
    tcase_add_test(taking_turns, overflowed_partner);
    TCase *calls = add_case(suite, "calls");
    tcase_add_loop_test(calls, ragged, 0, 2);
    tcase_add_test(calls, host);
    TCase *truth = add_case(suite, "truth");
    tcase_add_loop_test(truth, constants, 0, 4);
    tcase_add_loop_test(truth, threes, 0, 3);
    tcase_add_loop_test(truth, definition, 0, 9);
    tcase_add_test(truth, usual_accuracy);
    TCase *choices = add_case(suite, "options");
    tcase_add_test(choices, refused);
    tcase_add_test(choices, options);
    tcase_add_test(choices, fastest);
    return run_suite(suite);
}
