/* SPDX-License-Identifier: MIT */
/* Runs of a problem by the library under some schedule, and their comparison with the model. */
#include <stdlib.h>
#include <string.h>

#include "run.h"

void run_begin(struct run *r, const struct problem *p, const char *isa, int threads, enum way way)
{
    const struct shape *s = &p->shape;
    struct tsa_options options;
    problem_options(p, &options);
    options.isa = isa;
    options.threads = threads;
    poison_allocations(&options);
    r->p = p;
    r->calls = 0;
    r->plan = make_plan(&options);
    ck_assert(isa == NULL || strcmp(tsa_plan_isa(r->plan), isa) == 0);
    ck_assert_int_eq(tsa_plan_threads(r->plan), threads);
    assert_team(threads);
    set_way(r->plan, way);
    r->states = states_make(r->plan, s->batch);
    r->o = make_zeros(p->o_count, s->dtype);
    memset(r->o, 0xff, p->o_count * dtype_size(s->dtype));
    r->out = dense(r->o, s->dtype, s->heads, s->tokens, s->dv);
    r->scratch_bytes = tsa_workspace_bytes(r->plan, 0);
    r->scratch = aligned_alloc(64, (r->scratch_bytes + 63) / 64 * 64);
    ck_assert_ptr_nonnull(r->scratch);
}

void run_end(struct run *r)
{
    states_free(r->states, r->p->shape.batch);
    tsa_plan_destroy(r->plan);
    free(r->o);
    free(r->scratch);
}

struct tsa_workspace *run_workspace(struct run *r)
{
    struct tsa_error err;
    if (r->calls++ % 8 == 0) {
        memset(r->scratch, 0xff, r->scratch_bytes);
        ok(tsa_workspace_init(r->plan, 0, r->scratch, r->scratch_bytes, &r->ws, &err), &err);
    }
    return r->ws;
}

void feed(struct run *r, enum verb verb, size_t first, size_t last, size_t from, size_t to)
{
    struct tsa_error err;
    const size_t batch = last - first;
    for (size_t t = from, n = verb == DECODE ? 1 : to - from; t < to; t += n) {
        const struct tsa_tensor q = from_token(from_batch(r->p->q, first), t);
        const struct tsa_tensor k = from_token(from_batch(r->p->k, first), t);
        const struct tsa_tensor v = from_token(from_batch(r->p->v, first), t);
        const struct tsa_tensor o = from_token(from_batch(r->out, first), t);
        const struct tsa_tensor gate = from_token(from_batch(r->p->gate, first), t);
        const struct tsa_tensor value_gate = from_token(from_batch(r->p->value_gate, first), t);
        struct tsa_state *const *states = r->states + first;
        struct tsa_workspace *ws = run_workspace(r);
        if (verb == DECODE)
            ok(tsa_decode(r->plan,
                          BATCH(.states = states, .count = batch, .q = q, .k = k, .v = v,
                                .gate = gate, .value_gate = value_gate, .o = o),
                          ws, &err),
               &err);
        else if (verb == ABSORB)
            ok(tsa_absorb(r->plan,
                          BATCH(.states = states, .count = batch, .tokens = n, .k = k, .v = v,
                                .gate = gate, .value_gate = value_gate),
                          ws, &err),
               &err);
        else
            ok(tsa_prefill(r->plan,
                           BATCH(.states = states, .count = batch, .tokens = n, .q = q, .k = k,
                                 .v = v, .gate = gate, .value_gate = value_gate, .o = o),
                           ws, &err),
               &err);
    }
}

void feed_pieces(struct run *r, enum verb verb, size_t piece)
{
    const size_t tokens = r->p->shape.tokens;
    for (size_t t = 0; t < tokens; t += piece)
        feed(r, verb, 0, r->p->shape.batch, t, t + piece < tokens ? t + piece : tokens);
}

void check_states(struct run *r, const char *what)
{
    const struct problem *p = r->p;
    const struct shape *s = &p->shape;
    struct tsa_error err;
    for (size_t b = 0; b < s->batch; b++) {
        assert_state(r->plan, r->states[b], 0, &p->model, p->head + b * s->kv_heads, what);
        assert_export(r->plan, r->states[b], 0, &p->model, p->head + b * s->kv_heads, what);
    }
    const size_t count = s->batch * s->heads * p->queries * s->dv;
    void *got = make_zeros(count, s->dtype);
    memset(got, 0xff, count * dtype_size(s->dtype));
    const struct tsa_tensor o = dense(got, s->dtype, s->heads, p->queries, s->dv);
    ok(tsa_query(
           r->plan,
           BATCH(.states = r->states, .count = s->batch, .tokens = p->queries, .q = p->q, .o = o),
           run_workspace(r), &err),
       &err);
    assert_bits(got, p->answers, s->dtype, count, "query");
    free(got);
}

void check_run(struct run *r, const char *what)
{
    assert_bits(r->o, r->p->o, r->p->shape.dtype, r->p->o_count, what);
    check_states(r, what);
}

void feed_views(struct run *r, const struct tsa_tensor *q, const struct tsa_tensor *k,
                const struct tsa_tensor *v, const struct strided *o, size_t piece)
{
    const struct shape *s = &r->p->shape;
    struct tsa_error err;
    for (size_t t = 0; t < s->tokens; t += piece) {
        const size_t n = t + piece < s->tokens ? piece : s->tokens - t;
        const struct tsa_tensor qt = from_token(*q, t), kt = from_token(*k, t);
        const struct tsa_tensor vt = from_token(*v, t), ot = from_token(o->tensor, t);
        struct tsa_workspace *ws = run_workspace(r);
        ok(n == 1 ? tsa_decode(r->plan,
                               BATCH(.states = r->states, .count = s->batch, .q = qt, .k = kt,
                                     .v = vt, .o = ot),
                               ws, &err)
                  : tsa_prefill(r->plan,
                                BATCH(.states = r->states, .count = s->batch, .tokens = n, .q = qt,
                                      .k = kt, .v = vt, .o = ot),
                                ws, &err),
           &err);
    }
    strided_read(o, r->o);
    check_run(r, "strided views");
}

/* Absorb some tokens; the rest with outputs. The rows in between have none: take the model's. */
static void absorb_first(struct run *r, enum verb verb)
{
    const struct shape *s = &r->p->shape;
    const size_t n = s->tokens, row = s->dv * dtype_size(s->dtype), cut = n - n / 3;
    feed(r, ABSORB, 0, s->batch, 0, cut);
    feed(r, verb, 0, s->batch, cut, n);
    for (size_t h = 0; h < s->batch * s->heads; h++)
        memcpy((char *)r->o + h * n * row, (char *)r->p->o + h * n * row, cut * row);
    check_run(r, "absorb, then outputs");
}

void feed_by_rung(struct run *r, size_t rung)
{
    const struct shape *s = &r->p->shape;
    const size_t c = s->chunk, n = s->tokens;
    const size_t piece[] = {n, 1, 3, 7, c > 1 ? c - 1 : 2, c, c + 1, 2 * c + 3};
    const size_t pieces = sizeof piece / sizeof *piece;
    if (rung < pieces) {
        feed_pieces(r, PREFILL, piece[rung]);
        check_run(r, "pieces");
        return;
    }
    switch (rung - pieces) {
    case 0:
        feed_pieces(r, DECODE, n);
        check_run(r, "token by token");
        break;
    case 1:
        feed_pieces(r, ABSORB, c + 2);
        check_states(r, "absorbed in pieces");
        break;
    case 2:
        for (size_t b = 0; b < s->batch; b++)
            feed(r, PREFILL, b, b + 1, 0, n);
        check_run(r, "one sequence at a time");
        break;
    case 3:
        absorb_first(r, DECODE);
        break;
    default:
        absorb_first(r, PREFILL);
    }
}

void check_team(const struct problem *p, const char *isa, int team, enum way way)
{
    const size_t n = p->shape.tokens, batch = p->shape.batch;
    struct run r;
    run_begin(&r, p, isa, team, way);
    if (way == WAY_WAVES_OF_2)
        feed_pieces(&r, PREFILL, 3 * p->shape.chunk + 2);
    else
        feed(&r, PREFILL, 0, batch, 0, n);
    check_run(&r, "prefill by a team");
    run_end(&r);
    run_begin(&r, p, isa, team, way);
    if (way == WAY_AUTO) {
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

/* -- models of states, token by token ---------------------------------------------------------- */

struct model_head **heads_new(const struct model *m)
{
    struct model_head **head = calloc(m->kv_heads, sizeof(struct model_head *));
    for (size_t g = 0; g < m->kv_heads; g++)
        head[g] = model_head_new(m);
    return head;
}

void heads_copy(const struct model *m, struct model_head *const *to, struct model_head *const *from)
{
    for (size_t g = 0; g < m->kv_heads; g++)
        model_head_copy(m, to[g], from[g]);
}

void heads_merge(const struct model *m, struct model_head *const *to,
                 struct model_head *const *from)
{
    for (size_t g = 0; g < m->kv_heads; g++)
        model_merge(m, to[g], from[g]);
}

void heads_free(const struct model *m, struct model_head **head)
{
    for (size_t g = 0; g < m->kv_heads; g++)
        model_head_free(head[g]);
    free(head);
}

void model_token(const struct model *m, struct model_head *const *head, const struct problem *p,
                 size_t b, size_t t, float *want)
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
