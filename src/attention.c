/* SPDX-License-Identifier: MIT */
/* The calls: checks first, then an engine, then the counts. */
#include "config.h"

#include <errno.h>

#include "call.h"
#include "fpenv.h"

static const struct tsa_engine *engine_of(const struct tsa_plan *plan)
{
    return plan->dtype == TSA_F64 ? &tsa_engine_f64 : &tsa_engine_f32;
}

static enum tsa_status check_tensors(const struct tsa_call *call, size_t keys,
                                     struct tsa_error *err)
{
    const struct tsa_plan *p = call->plan;
    size_t batch = call->batch, queries = call->tokens;
    if (call->offsets && batch > 0) { /* rows up to the last one */
        queries = keys = queries > 0 ? (size_t)call->offsets[batch] : 0;
        batch = 1;
    }
    for (size_t b = 0; call->slots && b < call->batch; b++) /* batches up to the last one */
        batch = (size_t)call->slots[b] + 1 > batch ? (size_t)call->slots[b] + 1 : batch;
    const bool asks = call->q || !call->k;
    enum tsa_status status = TSA_OK;
    if (asks)
        status = tsa_check_tensor(call->q, "q", batch, p->heads, queries, p->d, false, err);
    if (status == TSA_OK && call->k)
        status = tsa_check_tensor(call->k, "k", batch, p->kv_heads, keys, p->d, false, err);
    if (status == TSA_OK && call->k)
        status = tsa_check_tensor(call->v, "v", batch, p->kv_heads, keys, p->dv, false, err);
    if (status == TSA_OK && asks)
        status = tsa_check_tensor(call->o, "o", batch, p->heads, queries, p->dv, true, err);
    return status;
}

/* Queries need something to average. */
static enum tsa_status check_tokens(const struct tsa_call *call, struct tsa_error *err)
{
    for (size_t b = 0; b < call->batch; b++)
        if (tsa_state_layer(call->states[b], call->layer)->tokens == 0) {
            tsa_fail(err, TSA_EINVAL, "states",
                     "states[%zu] has absorbed no token: there is nothing to average", b);
            if (err)
                err->sequence = (ptrdiff_t)b;
            return TSA_EINVAL;
        }
    return TSA_OK;
}

/* Check the call as filled so far, and take scratch, which is left only if all is right. */
static enum tsa_status begin(struct tsa_call *call, struct tsa_workspace *ws, struct tsa_error *err)
{
    enum tsa_status status = tsa_check_sequences(call, err);
    if (status == TSA_OK)
        status = check_tensors(call, call->keys ? call->keys : call->tokens, err);
    if (status != TSA_OK)
        return status;
    const struct tsa_tensor *const inputs[3] = {call->q, call->k, call->v};
    static const char *const names[3] = {"q", "k", "v"};
    for (int i = 0; i < 3; i++)
        if (call->o && call->o->data && inputs[i] && inputs[i]->data == call->o->data &&
            call->batch > 0 && call->tokens > 0)
            return tsa_fail(err, TSA_EINVAL, "o", "o overlaps %s", names[i]);
    status = tsa_call_begin(call, ws, err);
    if (status != TSA_OK)
        return status;
    if (!call->keys)
        status = tsa_check_states(call, err);
    if (status == TSA_OK && !call->keys && !call->writable && call->tokens > 0)
        status = check_tokens(call, err);
    if (status == TSA_OK)
        status = tsa_check_values(call, err);
    if (status != TSA_OK)
        tsa_call_end(call, ws);
    return status;
}

/* What some states have absorbed. */
static void count_task(const void *argument, size_t thread, size_t index)
{
    const struct tsa_call *call = argument;
    const size_t chunk = call->plan->chunk, end = (index + 1) * TSA_TASK_SEQUENCES;
    (void)thread;
    for (size_t b = index * TSA_TASK_SEQUENCES; b < end && b < call->batch; b++) {
        struct tsa_state *state = call->writable[tsa_call_slot(call, b)];
        struct tsa_layer_header *header = tsa_state_layer(state, call->layer);
        const size_t tokens = tsa_call_tokens(call, b);
        if (tokens == 0)
            continue;
        header->tokens += tokens;
        header->window += tokens;
        if (header->window >= chunk)
            header->window %= chunk;
        state->header.fold = chunk;
    }
}

/* Check, run and end a call, in the arithmetic's floating-point mode. */
static enum tsa_status run(struct tsa_call *call, void (*engine)(const struct tsa_call *),
                           struct tsa_workspace *ws, struct tsa_error *err)
{
    const int saved_errno = errno; /* an OpenMP runtime may set it */
    const struct tsa_fpenv mode = tsa_fpenv_enter();
    const enum tsa_status status = begin(call, ws, err);
    if (status == TSA_OK) {
        if (call->batch > 0 && call->tokens > 0)
            engine(call);
        if (call->writable)
            tsa_run_sequences(call, count_task, call);
        tsa_call_end(call, ws);
    }
    tsa_fpenv_leave(mode);
    errno = saved_errno;
    return status == TSA_OK ? tsa_succeed(err) : status;
}

static enum tsa_status need(const void *x, const char *name, struct tsa_error *err)
{
    return x ? TSA_OK : tsa_fail(err, TSA_EINVAL, name, "%s is NULL", name);
}

/* All calls that append tokens; the ragged ones name what is ragged. */
static enum tsa_status append_tokens(struct tsa_call *call, struct tsa_workspace *ws,
                                     struct tsa_error *err)
{
    if (need(call->plan, "plan", err) || need(call->k, "k", err))
        return TSA_EINVAL;
    call->states = (const struct tsa_state *const *)call->writable;
    return run(call, engine_of(call->plan)->prefill, ws, err);
}

enum tsa_status tsa_prefill(const struct tsa_plan *plan, struct tsa_state *const *states,
                            size_t batch, size_t layer, size_t tokens, const struct tsa_tensor *q,
                            const struct tsa_tensor *k, const struct tsa_tensor *v,
                            const struct tsa_tensor *o, struct tsa_workspace *ws,
                            struct tsa_error *err)
{
    struct tsa_call call = {.plan = plan,
                            .writable = states,
                            .batch = batch,
                            .layer = layer,
                            .tokens = tokens,
                            .q = q,
                            .k = k,
                            .v = v,
                            .o = o};
    if (need(plan, "plan", err) || need(q, "q", err))
        return TSA_EINVAL;
    return append_tokens(&call, ws, err);
}

enum tsa_status tsa_absorb(const struct tsa_plan *plan, struct tsa_state *const *states,
                           size_t batch, size_t layer, size_t tokens, const struct tsa_tensor *k,
                           const struct tsa_tensor *v, struct tsa_workspace *ws,
                           struct tsa_error *err)
{
    struct tsa_call call = {.plan = plan,
                            .writable = states,
                            .batch = batch,
                            .layer = layer,
                            .tokens = tokens,
                            .k = k,
                            .v = v};
    return append_tokens(&call, ws, err);
}

enum tsa_status tsa_prefill_packed(const struct tsa_plan *plan, struct tsa_state *const *states,
                                   size_t batch, size_t layer, const int64_t *offsets,
                                   const struct tsa_tensor *q, const struct tsa_tensor *k,
                                   const struct tsa_tensor *v, const struct tsa_tensor *o,
                                   struct tsa_workspace *ws, struct tsa_error *err)
{
    struct tsa_call call = {.plan = plan,
                            .writable = states,
                            .batch = batch,
                            .layer = layer,
                            .offsets = offsets,
                            .q = q,
                            .k = k,
                            .v = v,
                            .o = o};
    if (need(plan, "plan", err) || need(q, "q", err) || need(offsets, "offsets", err))
        return TSA_EINVAL;
    return append_tokens(&call, ws, err);
}

enum tsa_status tsa_absorb_packed(const struct tsa_plan *plan, struct tsa_state *const *states,
                                  size_t batch, size_t layer, const int64_t *offsets,
                                  const struct tsa_tensor *k, const struct tsa_tensor *v,
                                  struct tsa_workspace *ws, struct tsa_error *err)
{
    struct tsa_call call = {.plan = plan,
                            .writable = states,
                            .batch = batch,
                            .layer = layer,
                            .offsets = offsets,
                            .k = k,
                            .v = v};
    if (need(plan, "plan", err) || need(offsets, "offsets", err))
        return TSA_EINVAL;
    return append_tokens(&call, ws, err);
}

enum tsa_status tsa_prefill_padded(const struct tsa_plan *plan, struct tsa_state *const *states,
                                   size_t batch, size_t layer, size_t tokens,
                                   const int64_t *lengths, const struct tsa_tensor *q,
                                   const struct tsa_tensor *k, const struct tsa_tensor *v,
                                   const struct tsa_tensor *o, struct tsa_workspace *ws,
                                   struct tsa_error *err)
{
    struct tsa_call call = {.plan = plan,
                            .writable = states,
                            .batch = batch,
                            .layer = layer,
                            .tokens = tokens,
                            .lengths = lengths,
                            .q = q,
                            .k = k,
                            .v = v,
                            .o = o};
    if (need(plan, "plan", err) || need(q, "q", err) || need(lengths, "lengths", err))
        return TSA_EINVAL;
    return append_tokens(&call, ws, err);
}

enum tsa_status tsa_absorb_padded(const struct tsa_plan *plan, struct tsa_state *const *states,
                                  size_t batch, size_t layer, size_t tokens, const int64_t *lengths,
                                  const struct tsa_tensor *k, const struct tsa_tensor *v,
                                  struct tsa_workspace *ws, struct tsa_error *err)
{
    struct tsa_call call = {.plan = plan,
                            .writable = states,
                            .batch = batch,
                            .layer = layer,
                            .tokens = tokens,
                            .lengths = lengths,
                            .k = k,
                            .v = v};
    if (need(plan, "plan", err) || need(lengths, "lengths", err))
        return TSA_EINVAL;
    return append_tokens(&call, ws, err);
}

enum tsa_status tsa_decode(const struct tsa_plan *plan, struct tsa_state *const *states,
                           size_t batch, size_t layer, const struct tsa_tensor *q,
                           const struct tsa_tensor *k, const struct tsa_tensor *v,
                           const struct tsa_tensor *o, struct tsa_workspace *ws,
                           struct tsa_error *err)
{
    return tsa_prefill(plan, states, batch, layer, 1, q, k, v, o, ws, err);
}

enum tsa_status tsa_decode_slots(const struct tsa_plan *plan, struct tsa_state *const *states,
                                 const int64_t *slots, size_t count, size_t layer,
                                 const struct tsa_tensor *q, const struct tsa_tensor *k,
                                 const struct tsa_tensor *v, const struct tsa_tensor *o,
                                 struct tsa_workspace *ws, struct tsa_error *err)
{
    struct tsa_call call = {.plan = plan,
                            .writable = states,
                            .batch = count,
                            .layer = layer,
                            .tokens = 1,
                            .slots = slots,
                            .q = q,
                            .k = k,
                            .v = v,
                            .o = o};
    if (need(plan, "plan", err) || need(q, "q", err) || need(slots, "slots", err))
        return TSA_EINVAL;
    return append_tokens(&call, ws, err);
}

enum tsa_status tsa_query(const struct tsa_plan *plan, const struct tsa_state *const *states,
                          size_t batch, size_t layer, size_t queries, const struct tsa_tensor *q,
                          const struct tsa_tensor *o, struct tsa_workspace *ws,
                          struct tsa_error *err)
{
    if (need(plan, "plan", err))
        return TSA_EINVAL;
    struct tsa_call call = {.plan = plan,
                            .states = states,
                            .batch = batch,
                            .layer = layer,
                            .tokens = queries,
                            .q = q,
                            .o = o};
    return run(&call, engine_of(plan)->query, ws, err);
}

enum tsa_status tsa_softmax(const struct tsa_plan *plan, size_t batch, size_t queries, size_t keys,
                            int causal, const struct tsa_tensor *q, const struct tsa_tensor *k,
                            const struct tsa_tensor *v, const struct tsa_tensor *o,
                            struct tsa_workspace *ws, struct tsa_error *err)
{
    if (need(plan, "plan", err) || need(q, "q", err) || need(k, "k", err))
        return TSA_EINVAL;
    const bool work = batch > 0 && queries > 0;
    if (work && (keys == 0 || (causal && keys < queries))) {
        tsa_fail(err, TSA_EINVAL, "keys", "%zu keys leave a query of %zu without any", keys,
                 queries);
        tsa_error_numbers(err, (int64_t)(causal ? queries : 1), (int64_t)keys);
        return TSA_EINVAL;
    }
    struct tsa_call call = {.plan = plan,
                            .batch = batch,
                            .tokens = queries,
                            .keys = keys,
                            .causal = causal,
                            .q = q,
                            .k = k,
                            .v = v,
                            .o = o};
    if (work)
        return run(&call, engine_of(plan)->softmax, ws, err);
    enum tsa_status status = check_tensors(&call, keys, err);
    if (status == TSA_OK)
        status = tsa_workspace_check(plan, ws, 0, err);
    return status == TSA_OK ? tsa_succeed(err) : status;
}
