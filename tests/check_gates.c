/* SPDX-License-Identifier: MIT */
/* Gates, sums and denominators: what follows from their definition, states with gates, the ways in
 * which gates come, and what is refused. (That every schedule gives the model's bits is tested in
 * check_contract.c.) */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "run.h"

#define L2 TSA_NORMALIZE_L2
#define RAW TSA_NORMALIZE_NONE

static const struct shape small = {5, 19, 3, 16, 4, 2, 3, 75, 0, L2, COEF_TAYLOR, TEMP_PER_HEAD};

static void gated_problem(struct problem *p, const struct shape *shape, enum tsa_dtype dtype,
                          int how)
{
    struct shape s = *shape;
    s.dtype = dtype;
    problem_make(p, &s, 400 + (uint64_t)how);
    problem_gate(p, how);
}

static enum tsa_dtype dtype_of(int i)
{
    return i % 2 == 0 ? TSA_F32 : TSA_F64;
}

static void fill(struct problem *p, const struct tsa_tensor *gates, double value)
{
    const struct shape *s = &p->shape;
    for (size_t i = 0; i < s->batch * s->kv_heads * s->tokens; i++)
        put(gates->data, s->dtype, i, value);
}

/* -- consequences ------------------------------------------------------------------------------ */

/* Gates of 1 are none: outputs and exported sums. */
START_TEST(ones)
{
    struct problem p;
    struct run with, without;
    size_t count, count2;
    gated_problem(&p, &small, dtype_of(_i), 0);
    p.model.denominator_add = 0;
    if (_i >= 2 && dtype_of(_i) == TSA_F32)
        problem_mix(&p, 1);
    fill(&p, &p.gate, 1);
    run_begin(&with, &p, NULL, 1, WAY_AUTO);
    feed_pieces(&with, PREFILL, 41);
    const struct tsa_tensor gates[] = {p.gate, p.value_gate};
    p.gate.data = p.value_gate.data = NULL;
    p.model.gated = false;
    run_begin(&without, &p, NULL, 1, WAY_AUTO);
    feed_pieces(&without, PREFILL, 41);
    assert_bits(with.o, without.o, p.shape.dtype, p.o_count, "gates of 1");
    for (size_t b = 0; b < p.shape.batch; b++) {
        double *x = export_all(with.plan, with.states[b], 0, &count);
        double *y = export_all(without.plan, without.states[b], 0, &count2);
        assert_bits(x, y, TSA_F64, count, "sums by gates of 1");
        free(x);
        free(y);
    }
    struct tsa_error err;
    int equal = 7;
    assert_error(&err, tsa_state_equal(with.plan, with.states[0], without.states[0], &equal, &err),
                 TSA_EMISMATCH, "b");
    ck_assert_int_eq(equal, 7);
    ck_assert_uint_gt(tsa_state_bytes(with.plan), tsa_state_bytes(without.plan));
    run_end(&with);
    run_end(&without);
    p.gate = gates[0];
    p.value_gate = gates[1];
    problem_free(&p);
}
END_TEST

/* Values of 1 give exactly 1, whatever the gates. */
START_TEST(constant)
{
    struct problem p;
    struct run r;
    gated_problem(&p, &small, dtype_of(_i), 0);
    const struct shape *s = &p.shape;
    for (size_t i = 0; i < s->batch * s->kv_heads * s->tokens * s->dv; i++)
        put(p.v.data, s->dtype, i, 1);
    run_begin(&r, &p, NULL, 1, WAY_AUTO);
    feed_pieces(&r, PREFILL, 20);
    for (size_t i = 0; i < p.o_count; i++)
        CHECK(get(r.o, s->dtype, i) == 1, "output %d is %.17g", (int)i, get(r.o, s->dtype, i));
    run_end(&r);
    problem_free(&p);
}
END_TEST

/* A gate of 0 forgets: what comes from then on is what a fresh state gives, to rounding, however
 * large what came before was. At the first token of all, in a window, where one begins. */
START_TEST(forgets)
{
    static const size_t cuts[] = {0, 5, 16, 32, 47, 70};
    struct problem p;
    gated_problem(&p, &small, dtype_of(_i), 0);
    const struct shape *s = &p.shape;
    const size_t n = s->tokens, row = s->dv * dtype_size(s->dtype);
    for (size_t c = 0; c < sizeof cuts / sizeof *cuts; c++) {
        const size_t cut = cuts[c];
        struct run r, fresh;
        fill(&p, &p.gate, 0.5);
        for (size_t g = 0; g < s->batch * s->kv_heads; g++) {
            put(p.gate.data, s->dtype, g * n + cut, 0);
            for (size_t i = 0; i < cut * s->dv; i++)
                put(p.v.data, s->dtype, g * n * s->dv + i, i % 2 ? 1e30 : -1e30);
        }
        run_begin(&r, &p, NULL, 1, WAY_AUTO);
        run_begin(&fresh, &p, NULL, 1, WAY_AUTO);
        feed_pieces(&r, PREFILL, n);
        feed(&fresh, PREFILL, 0, s->batch, cut, n);
        for (size_t h = 0; h < s->batch * s->heads; h++)
            for (size_t i = cut * s->dv; i < n * s->dv; i++) {
                const size_t at = h * (n * row / dtype_size(s->dtype)) + i;
                const double got = get(r.o, s->dtype, at), want = get(fresh.o, s->dtype, at);
                /* chains of products of at most 153 and 16 terms, both sides */
                CHECK(fabs(got - want) <= 800 * roundoff(s->dtype) * 8, "cut %d: %g, fresh %g",
                      (int)cut, got, want);
            }
        run_end(&r);
        run_end(&fresh);
    }
    problem_free(&p);
}
END_TEST

/* A gate of -0 is 0 in every schedule, also before anything was folded. */
START_TEST(minus_zero)
{
    struct problem p;
    struct run whole, steps;
    gated_problem(&p, &small, dtype_of(_i), 0);
    const struct shape *s = &p.shape;
    fill(&p, &p.gate, 0.5);
    for (size_t g = 0; g < s->batch * s->kv_heads; g++)
        put(p.gate.data, s->dtype, g * s->tokens, -0.0);
    for (size_t i = 0; i < s->batch * s->kv_heads * s->tokens * s->dv; i++)
        put(p.v.data, s->dtype, i, -0.0);
    run_begin(&whole, &p, NULL, 1, WAY_AUTO);
    run_begin(&steps, &p, NULL, 1, WAY_AUTO);
    feed_pieces(&whole, PREFILL, s->tokens);
    feed_pieces(&steps, DECODE, s->tokens);
    assert_bits(whole.o, steps.o, s->dtype, p.o_count, "gates of -0");
    run_end(&whole);
    run_end(&steps);
    problem_free(&p);
}
END_TEST

/* A million tokens: no drift. With values of 1 and without a division the output is the sum of the
 * weights; two terms, rows of one kind: 1.5 / (1 - g) in the end. Decays underflow on the way. */
START_TEST(long_run)
{
    static const double gates[] = {0.5, 0.999};
    const double g = (float)gates[_i % 2], want = 1.5 / (1 - g);
    const size_t n = quick() ? 20000 : 1000000, piece = 20000;
    const size_t chunk = _i < 2 ? 64 : 512;
    struct tsa_options options;
    struct tsa_error err;
    struct tsa_state *state;
    ck_assert_int_eq(tsa_options_init(&options, sizeof options), TSA_OK);
    options.head_dim = options.value_dim = options.threads = 1;
    options.terms = 2;
    options.chunk = chunk;
    options.gate = TSA_GATE_SCALAR;
    options.output = TSA_OUTPUT_SUM;
    struct tsa_plan *plan = make_plan(&options);
    ok(tsa_state_create(plan, &state, &err), &err);
    float one = 1, gate = (float)g, *o = calloc(piece, sizeof *o);
    const struct tsa_tensor x = {.data = &one, .dtype = TSA_F32};
    const struct tsa_tensor y = {.data = &gate, .dtype = TSA_F32};
    for (size_t t = 0; t < n; t += piece)
        ok(tsa_prefill(plan,
                       BATCH(.states = &state, .count = 1, .tokens = piece, .q = x, .k = x, .v = x,
                             .gate = y, .o = {.data = o, .dtype = TSA_F32, .token = 1}),
                       NULL, &err),
           &err);
    /* D and E are products of up to C factors, rounded once each; sums decay by E at each fold */
    CHECK(fabs(o[piece - 1] - want) <= want * (4 * (double)chunk + 40) * 0x1p-24, "%.9g, not %.9g",
          (double)o[piece - 1], want);
    free(o);
    tsa_state_destroy(state);
    tsa_plan_destroy(plan);
}
END_TEST

/* -- states ------------------------------------------------------------------------------------ */

/* States of pieces of one sequence, merged in order, against the model's bits and against the
 * whole; reduced, copied, reset. */
START_TEST(merge)
{
    static const size_t ends[][3] = {{16, 32, 75}, {5, 40, 75}, {0, 75, 75}, {33, 33, 75}};
    const size_t *end = ends[_i / 2];
    struct problem p;
    struct run r;
    struct tsa_error err;
    gated_problem(&p, &small, dtype_of(_i), 1);
    const struct shape *s = &p.shape;
    const struct model *m = &p.model;
    const size_t e = dtype_size(s->dtype);
    struct model_head **part[3];
    run_begin(&r, &p, NULL, 1, WAY_AUTO);
    for (size_t i = 0, from = 0; i < 3; from = end[i++]) { /* state i: a part of sequence 0 */
        part[i] = heads_new(m);
        if (end[i] > from)
            ok(tsa_absorb(r.plan,
                          BATCH(.states = r.states + i, .count = 1, .tokens = end[i] - from,
                                .k = from_token(p.k, from), .v = from_token(p.v, from),
                                .gate = from_token(p.gate, from),
                                .value_gate = from_token(p.value_gate, from)),
                          NULL, &err),
               &err);
        for (size_t g = 0; g < s->kv_heads; g++)
            for (size_t t = from; t < end[i]; t++) {
                const size_t row = g * s->tokens + t;
                model_append(m, part[i][g], (char *)p.k.data + row * s->d * e,
                             (char *)p.v.data + row * s->dv * e);
                model_gate(m, part[i][g], (char *)p.gate.data + row * e,
                           (char *)p.value_gate.data + row * e);
                model_fold(m, part[i][g]);
            }
    }
    struct tsa_state *reduced, *copy;
    ok(tsa_state_create(r.plan, &reduced, &err), &err);
    ok(tsa_state_create(r.plan, &copy, &err), &err);
    ok(tsa_state_reduce(r.plan, reduced, (const struct tsa_state *const *)r.states, 3, &err), &err);
    for (int i = 1; i < 3; i++) {
        ok(tsa_state_merge(r.plan, r.states[0], r.states[i], NULL, &err), &err);
        for (size_t g = 0; g < s->kv_heads; g++)
            model_merge(m, part[0][g], part[i][g]);
    }
    assert_state(r.plan, r.states[0], 0, m, part[0], "merged in order");
    assert_export(r.plan, r.states[0], 0, m, part[0], "merged in order");
    assert_equal(r.plan, reduced, r.states[0], true); /* a tree over three: the same order */
    ok(tsa_state_copy(r.plan, copy, r.states[0], &err), &err);
    assert_equal(r.plan, copy, r.states[0], true);
    /* as if the tokens had come at once, to rounding */
    size_t count, count2;
    feed(&r, ABSORB, 1, 2, 0, 0);
    ok(tsa_state_reset(r.plan, r.states[1], &err), &err);
    ok(tsa_absorb(r.plan,
                  BATCH(.states = r.states + 1, .count = 1, .tokens = s->tokens, .k = p.k, .v = p.v,
                        .gate = p.gate, .value_gate = p.value_gate),
                  NULL, &err),
       &err);
    double *x = export_all(r.plan, copy, 0, &count);
    double *y = export_all(r.plan, r.states[1], 0, &count2);
    for (size_t i = 0; i < count; i++)
        CHECK(fabs(x[i] - y[i]) <= 400 * roundoff(s->dtype) * (fabs(y[i]) + 60),
              "sum %d: %g merged, %g at once", (int)i, x[i], y[i]);
    /* itself, later: its own sums forget and come again */
    ok(tsa_state_merge(r.plan, copy, copy, NULL, &err), &err);
    for (size_t g = 0; g < s->kv_heads; g++) {
        struct model_head *twin = model_head_new(m);
        model_head_copy(m, twin, part[0][g]);
        model_merge(m, part[0][g], twin);
        model_head_free(twin);
    }
    assert_state(r.plan, copy, 0, m, part[0], "merged with itself");
    assert_export(r.plan, copy, 0, m, part[0], "merged with itself");
    free(x);
    free(y);
    for (int i = 0; i < 3; i++)
        heads_free(m, part[i]);
    tsa_state_destroy(reduced);
    tsa_state_destroy(copy);
    run_end(&r);
    problem_free(&p);
}
END_TEST

/* Reduced by a tree of merges, however many there are, in layers too; dst may be one of them. */
START_TEST(reduce)
{
    struct problem p;
    struct tsa_error err;
    struct tsa_state *state[8], *want;
    gated_problem(&p, &small, TSA_F32, 3);
    struct tsa_options options;
    problem_options(&p, &options);
    options.layers = 2;
    struct tsa_plan *plan = make_plan(&options);
    const size_t n = 3 + (size_t)_i;
    for (size_t i = 0; i < n; i++) {
        ok(tsa_state_create(plan, &state[i], &err), &err);
        for (size_t layer = 0; layer < 2; layer++)
            ok(tsa_absorb(plan,
                          BATCH(.states = state + i, .count = 1, .layer = layer,
                                .tokens = (7 * i + 5 * layer) % 30, .k = from_token(p.k, i),
                                .v = p.v, .gate = from_token(p.gate, i),
                                .value_gate = p.value_gate),
                          NULL, &err),
               &err);
    }
    ok(tsa_state_create(plan, &want, &err), &err);
    ok(tsa_state_reduce(plan, want, (const struct tsa_state *const *)state, n, &err), &err);
    /* the same by hand: neighbours, then neighbours of these */
    for (size_t step = 1; step < n; step *= 2)
        for (size_t i = 0; i + step < n; i += 2 * step)
            ok(tsa_state_merge(plan, state[i], state[i + step], NULL, &err), &err);
    assert_equal(plan, want, state[0], true);
    ok(tsa_state_reduce(plan, state[0], (const struct tsa_state *const *)&want, 1, &err), &err);
    assert_equal(plan, want, state[0], true);
    for (size_t i = 0; i < n; i++)
        tsa_state_destroy(state[i]);
    tsa_state_destroy(want);
    tsa_plan_destroy(plan);
    problem_free(&p);
}
END_TEST

/* States are equal only if what a rollback would need is: a value gate counts after it was
 * forgotten. */
START_TEST(raw_gates)
{
    struct problem p;
    struct tsa_error err;
    gated_problem(&p, &small, dtype_of(_i), 1);
    const enum tsa_dtype dtype = p.shape.dtype;
    struct tsa_plan *plan = problem_plan(&p, NULL, 1);
    struct tsa_state **states = states_make(plan, 2);
    for (size_t g = 0; g < p.shape.kv_heads; g++) /* the second token forgets the first */
        put(p.gate.data, dtype, g * p.shape.tokens + 1, 0);
    for (int i = 0; i < 2; i++) {
        put(p.value_gate.data, dtype, 0, 1 + i);
        ok(tsa_absorb(plan,
                      BATCH(.states = states + i, .count = 1, .tokens = 2, .k = p.k, .v = p.v,
                            .gate = p.gate, .value_gate = p.value_gate),
                      NULL, &err),
           &err);
    }
    assert_equal(plan, states[0], states[1], false);
    states_free(states, 2);
    tsa_plan_destroy(plan);
    problem_free(&p);
}
END_TEST

/* -- the ways in which gates come -------------------------------------------------------------- */

/* Packed, padded and with slots: the bits of one call for each sequence. Gates of any layout, and
 * of the other dtype. */
START_TEST(ragged)
{
    const int64_t offsets[] = {0, 1, 41, 75}, lengths[] = {75, 1, 40}, slots[] = {2, 0, 1};
    struct problem p;
    struct tsa_error err;
    gated_problem(&p, &small, dtype_of(_i), 1 + 2 * (_i / 2 % 2));
    const struct shape *s = &p.shape;
    struct strided gate, value_gate;
    strided_make(&gate, (enum layout)(_i / 2 % LAYOUTS), s->dtype, s->batch, s->kv_heads, s->tokens,
                 1, p.gate.data);
    strided_make(&value_gate, (enum layout)((_i / 2 + 1) % LAYOUTS), s->dtype, s->batch,
                 s->kv_heads, s->tokens, 1, p.value_gate.data);
    for (int way = 0; way < 3; way++) {
        struct run r, alone;
        run_begin(&r, &p, NULL, 1 + _i % 3, WAY_AUTO);
        run_begin(&alone, &p, NULL, 1, WAY_AUTO);
        struct tsa_batch batch =
            *BATCH(.states = r.states, .count = s->batch, .tokens = s->tokens, .q = p.q, .k = p.k,
                   .v = p.v, .o = r.out, .gate = gate.tensor, .value_gate = value_gate.tensor);
        batch.offsets = way == 0 ? offsets : NULL;
        batch.lengths = way == 1 ? lengths : NULL;
        batch.slots = way == 2 ? slots : NULL;
        ok(tsa_prefill(r.plan, &batch, run_workspace(&r), &err), &err);
        for (size_t b = 0; b < s->batch; b++) {
            const size_t place = way == 0 ? 0 : b, from = way == 0 ? (size_t)offsets[b] : 0;
            const size_t to = way == 0   ? (size_t)offsets[b + 1]
                              : way == 1 ? (size_t)lengths[b]
                                         : s->tokens;
            ok(tsa_prefill(alone.plan,
                           BATCH(.states = alone.states + b, .count = 1, .tokens = to - from,
                                 .q = from_token(from_batch(p.q, place), from),
                                 .k = from_token(from_batch(p.k, place), from),
                                 .v = from_token(from_batch(p.v, place), from),
                                 .gate = from_token(from_batch(p.gate, place), from),
                                 .value_gate = from_token(from_batch(p.value_gate, place), from),
                                 .o = from_token(from_batch(alone.out, place), from)),
                           NULL, &err),
               &err);
            assert_equal(r.plan, r.states[b], alone.states[b], true);
        }
        assert_bits(r.o, alone.o, s->dtype, p.o_count, "ragged with gates");
        run_end(&r);
        run_end(&alone);
    }
    strided_free(&gate);
    strided_free(&value_gate);
    problem_free(&p);
}
END_TEST

/* Gates of the other dtype are the same numbers. */
START_TEST(other_dtype)
{
    struct problem p;
    gated_problem(&p, &small, dtype_of(_i), 1);
    problem_solve(&p);
    const struct shape *s = &p.shape;
    const size_t count = s->batch * s->kv_heads * s->tokens;
    const enum tsa_dtype other = dtype_of(_i + 1);
    struct tsa_tensor own[] = {p.gate, p.value_gate}, *tensor[] = {&p.gate, &p.value_gate};
    for (int i = 0; i < 2; i++) {
        *tensor[i] = dense(make_zeros(count, other), other, s->kv_heads, s->tokens, 1);
        for (size_t j = 0; j < count; j++)
            put(tensor[i]->data, other, j, get(own[i].data, s->dtype, j));
    }
    struct run r;
    run_begin(&r, &p, NULL, 2, WAY_AUTO);
    feed_pieces(&r, PREFILL, 33);
    check_run(&r, "gates of the other dtype");
    run_end(&r);
    for (int i = 0; i < 2; i++)
        free(own[i].data);
    problem_free(&p);
}
END_TEST

/* -- refusals ---------------------------------------------------------------------------------- */

struct refusal {
    struct problem p;
    struct run r;
    struct tsa_state *before;
    struct tsa_batch batch;
};

static void refused(struct refusal *x, enum tsa_status want, const char *argument, ptrdiff_t place)
{
    struct tsa_error err;
    void *o = make_zeros(x->p.o_count, x->p.shape.dtype);
    memcpy(o, x->r.o, x->p.o_count * dtype_size(x->p.shape.dtype));
    assert_error(&err, tsa_prefill(x->r.plan, &x->batch, NULL, &err), want, argument);
    if (place >= 0) {
        ck_assert_int_eq(err.sequence, place / 1000);
        ck_assert_int_eq(err.head, place / 100 % 10);
        ck_assert_int_eq(err.token, place % 100);
    }
    x->batch.q = x->batch.o = (struct tsa_tensor){.data = NULL};
    assert_error(&err, tsa_absorb(x->r.plan, &x->batch, NULL, &err), want, argument);
    x->batch.q = x->p.q;
    x->batch.o = x->r.out;
    assert_bits(o, x->r.o, x->p.shape.dtype, x->p.o_count, "outputs of a refused call");
    assert_equal(x->r.plan, x->r.states[1], x->before, true);
    free(o);
}

START_TEST(refusals)
{
    static const struct {
        double value;
        enum tsa_status gate, value_gate;
    } values[] = {{-0.001, TSA_EINVAL, TSA_EINVAL},
                  {1.001, TSA_EINVAL, TSA_OK},
                  {NAN, TSA_ENONFINITE, TSA_ENONFINITE},
                  {INFINITY, TSA_ENONFINITE, TSA_ENONFINITE},
                  {-INFINITY, TSA_ENONFINITE, TSA_ENONFINITE},
                  {-1e30, TSA_EINVAL, TSA_EINVAL}};
    struct refusal x;
    struct tsa_error err;
    gated_problem(&x.p, &small, dtype_of(_i), 1);
    const struct shape *s = &x.p.shape;
    run_begin(&x.r, &x.p, NULL, 1, WAY_AUTO);
    feed(&x.r, PREFILL, 0, s->batch, 0, 20);
    ok(tsa_state_create(x.r.plan, &x.before, &err), &err);
    ok(tsa_state_copy(x.r.plan, x.before, x.r.states[1], &err), &err);
    x.batch =
        *BATCH(.states = x.r.states, .count = s->batch, .tokens = s->tokens, .q = x.p.q, .k = x.p.k,
               .v = x.p.v, .o = x.r.out, .gate = x.p.gate, .value_gate = x.p.value_gate);
    const struct tsa_batch good = x.batch;
    const size_t at = (1 * s->kv_heads + 1) * s->tokens + 33; /* sequence 1, head 1, token 33 */
    for (size_t i = 0; i < sizeof values / sizeof *values; i++)
        for (int which = 0; which < 2; which++) {
            void *data = which ? x.p.value_gate.data : x.p.gate.data;
            const double was = get(data, s->dtype, at);
            const enum tsa_status want = which ? values[i].value_gate : values[i].gate;
            put(data, s->dtype, at, values[i].value);
            if (want != TSA_OK)
                refused(&x, want, which ? "value_gate" : "gate", 1133);
            put(data, s->dtype, at, was);
        }
    /* so large a value gate that the value could overflow */
    const double was = get(x.p.value_gate.data, s->dtype, at);
    put(x.p.value_gate.data, s->dtype, at, s->dtype == TSA_F32 ? 1e38 : 1e308);
    refused(&x, TSA_EOVERFLOW, "v", 1133);
    put(x.p.value_gate.data, s->dtype, at, was);

    x.batch.gate.data = NULL;
    refused(&x, TSA_EINVAL, "gate", -1);
    x.batch = good;
    x.batch.gate.dtype = TSA_BF16;
    refused(&x, TSA_EINVAL, "gate", -1);
    x.batch = good;
    x.batch.value_gate.dtype = TSA_F16;
    refused(&x, TSA_EINVAL, "value_gate", -1);
    x.batch = good;
    x.batch.gate.width = 2;
    refused(&x, TSA_EINVAL, "gate", -1);
    x.batch = good;
    x.batch.gate.reserved[0] = 1;
    refused(&x, TSA_EINVAL, "gate", -1);
    x.batch = good;
    x.batch.o.data = x.batch.gate.data;
    assert_error(&err, tsa_prefill(x.r.plan, &x.batch, NULL, &err), TSA_EINVAL, "o");

    /* no gates for plans without, no states for the other kind of plan */
    struct tsa_options options;
    problem_options(&x.p, &options);
    options.gate = TSA_GATE_NONE;
    struct tsa_plan *plain = make_plan(&options);
    assert_error(&err, tsa_prefill(plain, &good, NULL, &err), TSA_EINVAL, "gate");
    x.batch = good;
    x.batch.gate.data = NULL;
    assert_error(&err, tsa_prefill(plain, &x.batch, NULL, &err), TSA_EINVAL, "value_gate");
    x.batch.value_gate.data = NULL;
    assert_error(&err, tsa_prefill(plain, &x.batch, NULL, &err), TSA_EMISMATCH, "states");
    tsa_plan_destroy(plain);
    tsa_state_destroy(x.before);
    run_end(&x.r);
    problem_free(&x.p);
}
END_TEST

/* Options that cannot be, each by name. */
START_TEST(options)
{
    struct tsa_plan *plan;
    struct tsa_error err;
#define REFUSED(name, statement)                                                                   \
    do {                                                                                           \
        struct tsa_options o;                                                                      \
        ck_assert_int_eq(tsa_options_init(&o, sizeof o), TSA_OK);                                  \
        o.head_dim = o.value_dim = 4;                                                              \
        statement;                                                                                 \
        assert_error(&err, tsa_plan_create(&o, &plan, &err), TSA_EINVAL, name);                    \
        ck_assert_ptr_null(plan);                                                                  \
    } while (0)
    REFUSED("gate", o.gate = (enum tsa_gate)2);
    REFUSED("output", o.output = (enum tsa_output)2);
    REFUSED("output_scale", o.output_scale = NAN);
    REFUSED("output_scale", o.output_scale = 1e39);
    REFUSED("denominator_add", o.denominator_add = INFINITY);
    REFUSED("denominator_floor", o.denominator_floor = -1);
    REFUSED("denominator_floor", o.denominator_floor = 1e-60);
    REFUSED("denominator_add", (o.output = TSA_OUTPUT_SUM, o.denominator_add = 1));
    REFUSED("denominator_floor", (o.output = TSA_OUTPUT_SUM, o.denominator_floor = 1));
#undef REFUSED
    /* options of version 0.1 end before these */
    struct tsa_options old;
    const size_t size = offsetof(struct tsa_options, gate);
    memset(&old, 0x55, sizeof old);
    ck_assert_int_eq(tsa_options_init(&old, size), TSA_OK);
    ck_assert_int_eq(*((unsigned char *)&old + size), 0x55);
    old.head_dim = old.value_dim = 4;
    ok(tsa_plan_create(&old, &plan, &err), &err);
    ck_assert_int_eq(plan->gate, TSA_GATE_NONE);
    ck_assert(plan->output_scale == 1 && !plan->finishes);
    tsa_plan_destroy(plan);
    /* and a plan says what it does */
    struct tsa_options o;
    char text[2000];
    ck_assert_int_eq(tsa_options_init(&o, sizeof o), TSA_OK);
    o.head_dim = o.value_dim = 4;
    o.gate = TSA_GATE_SCALAR;
    o.denominator_add = 0.5;
    o.denominator_floor = 0.25;
    o.output_scale = 2;
    plan = make_plan(&o);
    ck_assert_uint_lt(tsa_plan_describe(plan, text, sizeof text), sizeof text);
    ck_assert_ptr_nonnull(strstr(text, "\ngate: scalar\noutput_scale: 2\ndenominator_add: 0.5\n"
                                       "denominator_floor: 0.25\n"));
    tsa_plan_destroy(plan);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("gates");
    tcase_add_loop_test(add_case(suite, "ones"), ones, 0, 4);
    tcase_add_loop_test(add_case(suite, "constant"), constant, 0, 2);
    tcase_add_loop_test(add_case(suite, "forgets"), forgets, 0, 2);
    tcase_add_loop_test(add_case(suite, "minus_zero"), minus_zero, 0, 2);
    tcase_add_loop_test(add_case(suite, "long_run"), long_run, 0, 4);
    tcase_add_loop_test(add_case(suite, "merge"), merge, 0, 8);
    tcase_add_loop_test(add_case(suite, "reduce"), reduce, 0, 6);
    tcase_add_loop_test(add_case(suite, "raw_gates"), raw_gates, 0, 2);
    tcase_add_loop_test(add_case(suite, "ragged"), ragged, 0, 2 * LAYOUTS);
    tcase_add_loop_test(add_case(suite, "other_dtype"), other_dtype, 0, 2);
    tcase_add_loop_test(add_case(suite, "refusals"), refusals, 0, 2);
    tcase_add_test(add_case(suite, "options"), options);
    return run_suite(suite);
}
