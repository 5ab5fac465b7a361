/* SPDX-License-Identifier: MIT */
/* The calls on tokens: what the caller gave, the checks, an engine, then the counts. */
#include "config.h"

#include <errno.h>
#include <string.h>

#include "call.h"
#include "fpenv.h"

enum tsa_status tsa_batch_init(struct tsa_batch *batch, size_t size)
{
    if (!batch || size < sizeof *batch || size > TSA_MOST_BATCH_BYTES)
        return TSA_EINVAL;
    memset(batch, 0, size); /* a newer caller's fields are not set: the calls refuse others */
    batch->size = size;
    return TSA_OK;
}

/* Check the call as filled so far, and take scratch, which is left only if all is right. */
static enum tsa_status begin(struct tsa_call *call, struct tsa_workspace *ws, struct tsa_error *err)
{
    enum tsa_status status = tsa_check_shapes(call, err);
    if (status == TSA_OK)
        status = tsa_call_begin(call, ws, err);
    if (status != TSA_OK)
        return status;
    if (call->operation != TSA_SOFTMAX)
        status = tsa_check_states(call, err);
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
        struct tsa_state *state = call->states[tsa_call_slot(call, b)];
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

static void run_engine(const struct tsa_call *call)
{
    const struct tsa_engine *engine = tsa_engine_of(call->plan);
    if (call->operation == TSA_SOFTMAX)
        engine->softmax(call);
    else if (call->operation == TSA_QUERY)
        engine->query(call);
    else
        engine->prefill(call);
}

/* Check, run and end a call, in the arithmetic's floating-point mode. */
static enum tsa_status run(struct tsa_call *call, struct tsa_workspace *ws, struct tsa_error *err)
{
    const int saved_errno = errno; /* an OpenMP runtime may set it */
    const struct tsa_fpenv mode = tsa_fpenv_enter();
    const enum tsa_status status = begin(call, ws, err);
    if (status == TSA_OK) {
        if (call->batch > 0 && call->tokens > 0)
            run_engine(call);
        if (tsa_call_writes_states(call))
            tsa_run_sequences(call, count_task, call);
        tsa_call_end(call, ws);
    }
    tsa_fpenv_leave(mode);
    errno = saved_errno;
    return status == TSA_OK ? tsa_succeed(err) : status;
}

static enum tsa_status run_batch(enum tsa_operation operation, const struct tsa_plan *plan,
                                 const struct tsa_batch *batch, struct tsa_workspace *ws,
                                 struct tsa_error *err)
{
    const enum tsa_status status = tsa_check_batch(operation, plan, batch, err);
    if (status != TSA_OK)
        return status;
    struct tsa_call call = {.operation = operation,
                            .plan = plan,
                            .states = batch->states,
                            .batch = batch->count,
                            .layer = batch->layer,
                            .tokens = operation == TSA_DECODE ? 1 : batch->tokens,
                            .offsets = batch->offsets,
                            .lengths = batch->lengths,
                            .slots = batch->slots};
    if (tsa_call_has_queries(&call)) {
        call.q = &batch->q;
        call.o = &batch->o;
    }
    if (tsa_call_has_keys(&call)) {
        call.k = &batch->k;
        call.v = &batch->v;
        if (plan->gate != TSA_GATE_NONE) {
            call.gate = &batch->gate;
            call.value_gate = &batch->value_gate;
        }
    }
    return run(&call, ws, err);
}

enum tsa_status tsa_prefill(const struct tsa_plan *plan, const struct tsa_batch *batch,
                            struct tsa_workspace *ws, struct tsa_error *err)
{
    return run_batch(TSA_PREFILL, plan, batch, ws, err);
}

enum tsa_status tsa_decode(const struct tsa_plan *plan, const struct tsa_batch *batch,
                           struct tsa_workspace *ws, struct tsa_error *err)
{
    return run_batch(TSA_DECODE, plan, batch, ws, err);
}

enum tsa_status tsa_absorb(const struct tsa_plan *plan, const struct tsa_batch *batch,
                           struct tsa_workspace *ws, struct tsa_error *err)
{
    return run_batch(TSA_ABSORB, plan, batch, ws, err);
}

enum tsa_status tsa_query(const struct tsa_plan *plan, const struct tsa_batch *batch,
                          struct tsa_workspace *ws, struct tsa_error *err)
{
    return run_batch(TSA_QUERY, plan, batch, ws, err);
}

/* Keys before every window are not looked at: the call begins behind them. */
static void skip_keys(struct tsa_call *call, struct tsa_tensor seen[2])
{
    const size_t window = call->plan->softmax_window;
    if (window == 0 || call->keys < call->tokens || call->keys - call->tokens < window)
        return;
    call->first_key = call->keys - call->tokens - window + 1;
    call->keys -= call->first_key;
    seen[0] = *call->k;
    seen[1] = *call->v;
    for (int i = 0; i < 2; i++)
        if (seen[i].dtype >= TSA_F32 && seen[i].dtype <= TSA_F16) /* else it is refused */
            seen[i].data = tsa_row(&seen[i], 0, 0, call->first_key);
    call->k = &seen[0];
    call->v = &seen[1];
}

enum tsa_status tsa_softmax(const struct tsa_plan *plan, size_t batch, size_t queries, size_t keys,
                            int causal, const struct tsa_tensor *q, const struct tsa_tensor *k,
                            const struct tsa_tensor *v, const struct tsa_tensor *o,
                            struct tsa_workspace *ws, struct tsa_error *err)
{
    if (!plan)
        return tsa_fail(err, TSA_EINVAL, "plan", "plan is NULL");
    struct tsa_call call = {.operation = TSA_SOFTMAX,
                            .plan = plan,
                            .batch = batch,
                            .tokens = queries,
                            .keys = keys,
                            .causal = causal,
                            .q = q,
                            .k = k,
                            .v = v,
                            .o = o};
    if (plan->softmax_window > 0 && !causal)
        return tsa_fail(err, TSA_EINVAL, "causal",
                        "causal is 0, but the plan has a softmax_window of %zu keys, which ends "
                        "where a query stands",
                        plan->softmax_window);
    struct tsa_tensor seen[2];
    if (batch > 0 && queries > 0 && k && v && k->data && v->data)
        skip_keys(&call, seen);
    if (batch > 0 && queries > 0)
        return run(&call, ws, err);
    /* nothing to do needs no scratch */
    enum tsa_status status = tsa_check_shapes(&call, err);
    if (status == TSA_OK)
        status = tsa_workspace_check(plan, ws, 0, err);
    return status == TSA_OK ? tsa_succeed(err) : status;
}
