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
        struct tsa_state *const *states = r->states + first;
        struct tsa_workspace *ws = run_workspace(r);
        if (verb == DECODE)
            ok(tsa_decode(r->plan, states, batch, 0, &q, &k, &v, &o, ws, &err), &err);
        else if (verb == ABSORB)
            ok(tsa_absorb(r->plan, states, batch, 0, n, &k, &v, ws, &err), &err);
        else
            ok(tsa_prefill(r->plan, states, batch, 0, n, &q, &k, &v, &o, ws, &err), &err);
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
    ok(tsa_query(r->plan, (const struct tsa_state *const *)r->states, s->batch, 0, p->queries,
                 &p->q, &o, run_workspace(r), &err),
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
        ok(n == 1 ? tsa_decode(r->plan, r->states, s->batch, 0, &qt, &kt, &vt, &ot, ws, &err)
                  : tsa_prefill(r->plan, r->states, s->batch, 0, n, &qt, &kt, &vt, &ot, ws, &err),
           &err);
    }
    strided_read(o, r->o);
    check_run(r, "strided views");
}
