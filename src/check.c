/* SPDX-License-Identifier: MIT */
/* What is checked before a call may change anything, in the order that tsa.h gives:
 *
 *    tsa_check_batch   1. plan and batch: NULL, size, fields of a newer version, reserved, gates
 *                      2. offsets, lengths and tokens that the operation does not take, or that
 *                         contradict one another
 *    tsa_check_shapes  3. numbers in slots, offsets and lengths; keys of tsa_softmax
 *                      4. q, k, v, o as far as the operation uses them; o against the others
 *    tsa_call_begin    5. the workspace, or memory for scratch: what follows needs a team
 *    tsa_check_states  6. states NULL, layer, every state; repeated states or slots; for
 *                         tsa_query, tokens to average
 *    tsa_check_values  7. the values of k, v and q (check_values.c)
 *
 * tsa_softmax has no batch and no states: 1, 2 and 6 are not for it. */
#include "config.h"

#include <string.h>

#include "call.h"

/* -- batch ------------------------------------------------------------------------------- */

static enum tsa_status check_version(const struct tsa_batch *batch, struct tsa_error *err)
{
    if (batch->size < sizeof *batch || batch->size > TSA_MOST_BATCH_BYTES) {
        tsa_fail(err, TSA_EINVAL, "size",
                 "batch.size is %zu, wanted sizeof(struct tsa_batch) = %zu: was tsa_batch_init "
                 "called?",
                 batch->size, sizeof *batch);
        tsa_error_numbers(err, (int64_t)sizeof *batch, (int64_t)batch->size);
        return TSA_EINVAL;
    }
    for (size_t i = sizeof *batch; i < batch->size; i++)
        if (((const unsigned char *)batch)[i] != 0)
            return tsa_fail(err, TSA_EINVAL, "size",
                            "the batch is set at byte %zu, which is of a newer version than this "
                            "library, %s: its size is %zu here",
                            i, tsa_version(), sizeof *batch);
    for (size_t i = 0; i < sizeof batch->reserved / sizeof *batch->reserved; i++)
        if (batch->reserved[i])
            return tsa_fail(err, TSA_EINVAL, "reserved", "reserved[%zu] is not NULL", i);
    return TSA_OK;
}

/* Gates go with a plan that has them, where keys are. */
static enum tsa_status check_gates(enum tsa_operation operation, const struct tsa_plan *plan,
                                   const struct tsa_batch *batch, struct tsa_error *err)
{
    const char *name = batch->gate.data ? "gate" : "value_gate";
    if (plan->gate == TSA_GATE_NONE && (batch->gate.data || batch->value_gate.data))
        return tsa_fail(err, TSA_EINVAL, name, "%s is given, but the plan has no gates", name);
    const struct tsa_tensor *const gates[] = {&batch->gate, &batch->value_gate};
    for (int i = 0; i < 2 && operation != TSA_QUERY; i++)
        if (gates[i]->data && gates[i]->dtype != TSA_F32 && gates[i]->dtype != TSA_F64)
            return tsa_fail(err, TSA_EINVAL, i ? "value_gate" : "gate",
                            "%s: dtype is %d, wanted TSA_F32 (1) or TSA_F64 (2)",
                            i ? "value_gate" : "gate", (int)gates[i]->dtype);
    return TSA_OK;
}

enum tsa_status tsa_check_batch(enum tsa_operation operation, const struct tsa_plan *plan,
                                const struct tsa_batch *batch, struct tsa_error *err)
{
    if (!plan)
        return tsa_fail(err, TSA_EINVAL, "plan", "plan is NULL");
    if (!batch)
        return tsa_fail(err, TSA_EINVAL, "batch", "batch is NULL");
    enum tsa_status status = check_version(batch, err);
    if (status == TSA_OK)
        status = check_gates(operation, plan, batch, err);
    if (status != TSA_OK)
        return status;
    if (batch->offsets && batch->lengths)
        return tsa_fail(err, TSA_EINVAL, "lengths",
                        "sequences are packed (offsets) or padded (lengths), not both");
    const bool even = operation == TSA_DECODE || operation == TSA_QUERY;
    if (even && (batch->offsets || batch->lengths))
        return tsa_fail(err, TSA_EINVAL, batch->offsets ? "offsets" : "lengths",
                        "%s takes as many rows of every sequence: %s must be NULL",
                        operation == TSA_DECODE ? "tsa_decode" : "tsa_query",
                        batch->offsets ? "offsets" : "lengths");
    if (operation == TSA_DECODE && batch->tokens > 1) {
        tsa_fail(err, TSA_EINVAL, "tokens", "tokens is %zu; tsa_decode takes 1 of a sequence",
                 batch->tokens);
        tsa_error_numbers(err, 1, (int64_t)batch->tokens);
        return TSA_EINVAL;
    }
    return TSA_OK;
}

/* -- tensors ----------------------------------------------------------------------------- */

/* Rows of an output may not overlap: taken by growing stride, each dimension must step over all
 * that the smaller ones cover. */
static enum tsa_status check_rows_apart(const char *name, const ptrdiff_t *stride,
                                        const size_t *count, size_t width, struct tsa_error *err)
{
    static const char *const dimension[3] = {"batch", "head", "token"};
    int order[3] = {2, 1, 0};
    size_t step[3];
    for (int i = 0; i < 3; i++)
        step[i] = stride[i] < 0 ? (size_t)0 - (size_t)stride[i] : (size_t)stride[i];
    for (int i = 0; i < 2; i++)
        for (int j = 0; j < 2 - i; j++)
            if (step[order[j]] > step[order[j + 1]]) {
                const int swap = order[j];
                order[j] = order[j + 1];
                order[j + 1] = swap;
            }
    size_t covered = width;
    for (int i = 0; i < 3; i++) {
        const int k = order[i];
        if (count[k] < 2)
            continue;
        if (step[k] < covered) {
            tsa_fail(err, TSA_EINVAL, name,
                     "%s: %s stride %td lets rows overlap; wanted at least %zu", name, dimension[k],
                     stride[k], covered);
            tsa_error_numbers(err, (int64_t)covered, stride[k]);
            return TSA_EINVAL;
        }
        covered += step[k] * (count[k] - 1);
    }
    return TSA_OK;
}

/* A tensor of a call, and what the call wants of it. */
struct wanted {
    const struct tsa_tensor *x;
    const char *name;
    size_t batch, heads, tokens, width;
    bool output;
};

static enum tsa_status check_tensor(const struct wanted *wanted, struct tsa_error *err)
{
    const struct tsa_tensor *x = wanted->x;
    const char *name = wanted->name;
    const size_t tokens = wanted->tokens, width = wanted->width;
    const bool rows = wanted->batch > 0 && wanted->heads > 0 && tokens > 0;
    if (!x)
        return tsa_fail(err, TSA_EINVAL, name, "%s is NULL", name);
    if (!x->data)
        return rows ? tsa_fail(err, TSA_EINVAL, name, "%s: data is NULL", name) : TSA_OK;
    if (x->dtype != TSA_F32 && x->dtype != TSA_F64 && !tsa_is_half(x->dtype))
        return tsa_fail(err, TSA_EINVAL, name, "%s: unknown dtype %d", name, (int)x->dtype);
    for (size_t i = 0; i < sizeof x->reserved / sizeof x->reserved[0]; i++)
        if (x->reserved[i] != 0)
            return tsa_fail(err, TSA_EINVAL, name, "%s: reserved fields must be 0", name);
    if (x->width != 0 && x->width != width) {
        tsa_fail(err, TSA_EINVAL, name, "%s: rows are %zu wide, the plan wants %zu", name, x->width,
                 width);
        tsa_error_numbers(err, (int64_t)width, (int64_t)x->width);
        return TSA_EINVAL;
    }
    if (!rows)
        return TSA_OK;
    const size_t elem = tsa_dtype_bytes(x->dtype);
    const ptrdiff_t stride[3] = {x->batch, x->head, tokens > 1 ? x->token : 0};
    const size_t count[3] = {wanted->batch, wanted->heads, tokens};
    /* the farthest element on either side must stay within half the address space */
    const size_t limit = (size_t)PTRDIFF_MAX / elem;
    size_t reach = width;
    for (int i = 0; i < 3; i++) {
        if (count[i] < 2)
            continue;
        const size_t step = stride[i] < 0 ? (size_t)0 - (size_t)stride[i] : (size_t)stride[i];
        if (step > 0 && count[i] - 1 > (limit - reach) / step)
            return tsa_fail(err, TSA_EINVAL, name, "%s: strides reach past the address space",
                            name);
        reach += step * (count[i] - 1);
    }
    return wanted->output ? check_rows_apart(name, stride, count, width, err) : TSA_OK;
}

/* -- sequences --------------------------------------------------------------------------- */

/* A number of argument[at], which belongs to sequence b; -1: to none that can be named. */
static enum tsa_status bad_number(struct tsa_error *err, const char *argument, size_t at,
                                  ptrdiff_t b, int64_t found, const char *wanted)
{
    tsa_fail(err, TSA_EINVAL, argument, "%s[%zu] is %lld, wanted %s", argument, at,
             (long long)found, wanted);
    tsa_error_numbers(err, 0, found);
    if (err)
        err->sequence = b;
    return TSA_EINVAL;
}

static enum tsa_status check_sequences(struct tsa_call *call, struct tsa_error *err)
{
    size_t most = 0;
    for (size_t b = 0; call->slots && b < call->batch; b++)
        if (call->slots[b] < 0 || (uint64_t)call->slots[b] >= (uint64_t)PTRDIFF_MAX)
            return bad_number(err, "slots", b, -1, call->slots[b], "0 or more");
    for (size_t b = 0; call->offsets && b < call->batch; b++) {
        const ptrdiff_t sequence = (ptrdiff_t)tsa_call_slot(call, b);
        const int64_t from = call->offsets[b], to = call->offsets[b + 1];
        if (from < 0)
            return bad_number(err, "offsets", b, sequence, from, "0 or more");
        if (to < from) /* where this sequence ends */
            return bad_number(err, "offsets", b + 1, sequence, to, "at least the one before it");
        if ((uint64_t)to > (uint64_t)PTRDIFF_MAX)
            return bad_number(err, "offsets", b + 1, sequence, to, "a number of rows in memory");
        most = (size_t)(to - from) > most ? (size_t)(to - from) : most;
    }
    for (size_t b = 0; call->lengths && b < call->batch; b++) {
        const int64_t n = call->lengths[b];
        if (n < 0 || (uint64_t)n > call->tokens)
            return bad_number(err, "lengths", b, (ptrdiff_t)tsa_call_slot(call, b), n,
                              "0 to tokens");
        most = (size_t)n > most ? (size_t)n : most;
    }
    if (call->offsets || call->lengths)
        call->tokens = most;
    return TSA_OK;
}

/* Of tsa_softmax: does every query see a key? */
static enum tsa_status check_keys(const struct tsa_call *call, struct tsa_error *err)
{
    const size_t wanted = call->causal ? call->tokens : 1;
    if (call->batch == 0 || call->tokens == 0 || call->keys >= wanted)
        return TSA_OK;
    tsa_fail(err, TSA_EINVAL, "keys", "%zu keys leave a query of %zu without any", call->keys,
             call->tokens);
    tsa_error_numbers(err, (int64_t)wanted, (int64_t)call->keys);
    return TSA_EINVAL;
}

/* -- tensors of a call ------------------------------------------------------------------- */

static enum tsa_status check_tensors(const struct tsa_call *call, struct tsa_error *err)
{
    const struct tsa_plan *p = call->plan;
    size_t batch = call->batch, queries = call->tokens;
    size_t keys = call->operation == TSA_SOFTMAX ? call->keys : call->tokens;
    if (call->offsets && batch > 0) { /* rows up to the last one */
        queries = keys = queries > 0 ? (size_t)call->offsets[batch] : 0;
        batch = 1;
    } else if (call->slots) { /* batch indices up to the last one */
        for (size_t b = 0; b < call->batch; b++)
            batch = (size_t)call->slots[b] + 1 > batch ? (size_t)call->slots[b] + 1 : batch;
    }
    const bool asks = tsa_call_has_queries(call), tells = tsa_call_has_keys(call);
    const struct {
        bool used;
        struct wanted wanted;
    } tensors[] = {
        {asks, {call->q, "q", batch, p->heads, queries, p->d, false}},
        {tells, {call->k, "k", batch, p->kv_heads, keys, p->d, false}},
        {tells, {call->v, "v", batch, p->kv_heads, keys, p->dv, false}},
        {call->gate, {call->gate, "gate", batch, p->kv_heads, keys, 1, false}},
        {call->value_gate && call->value_gate->data,
         {call->value_gate, "value_gate", batch, p->kv_heads, keys, 1, false}},
        {asks, {call->o, "o", batch, p->heads, queries, p->dv, true}},
    };
    enum tsa_status status = TSA_OK;
    for (size_t i = 0; i < sizeof tensors / sizeof *tensors && status == TSA_OK; i++)
        if (tensors[i].used)
            status = check_tensor(&tensors[i].wanted, err);
    return status;
}

/* Equal data pointers always overlap; other overlaps are the caller's to avoid. */
static enum tsa_status check_overlap(const struct tsa_call *call, struct tsa_error *err)
{
    const struct tsa_tensor *const inputs[] = {call->q, call->k, call->v, call->gate,
                                               call->value_gate};
    static const char *const names[] = {"q", "k", "v", "gate", "value_gate"};
    if (!call->o || !call->o->data || call->batch == 0 || call->tokens == 0)
        return TSA_OK;
    for (int i = 0; i < 5; i++)
        if (inputs[i] && inputs[i]->data == call->o->data)
            return tsa_fail(err, TSA_EINVAL, "o", "o overlaps %s", names[i]);
    return TSA_OK;
}

/* -- the shapes of a usual step: one token of one sequence, in rows of f32 or f64 -------------- */

/* Far from any overflow of addresses. */
#define FAR ((ptrdiff_t)1 << 40)

static bool is_usual_tensor(const struct tsa_tensor *x, size_t heads, size_t width, bool output)
{
    if (!x->data || (x->dtype != TSA_F32 && x->dtype != TSA_F64) ||
        (x->reserved[0] | x->reserved[1] | x->reserved[2]) != 0 ||
        (x->width != 0 && x->width != width))
        return false;
    const ptrdiff_t least = output ? (ptrdiff_t)width : -FAR;
    return heads == 1 || (x->head >= least && x->head < FAR && heads < (size_t)1 << 16);
}

/* Nothing to complain of; else the checks below have a look. */
static bool is_usual_step(const struct tsa_call *call)
{
    const struct tsa_plan *p = call->plan;
    if (call->operation > TSA_DECODE || call->batch != 1 || call->tokens != 1 || call->offsets ||
        call->lengths || call->slots || p->gate != TSA_GATE_NONE)
        return false;
    return is_usual_tensor(call->q, p->heads, p->d, false) &&
           is_usual_tensor(call->k, p->kv_heads, p->d, false) &&
           is_usual_tensor(call->v, p->kv_heads, p->dv, false) &&
           is_usual_tensor(call->o, p->heads, p->dv, true) && call->o->data != call->q->data &&
           call->o->data != call->k->data && call->o->data != call->v->data;
}

enum tsa_status tsa_check_shapes(struct tsa_call *call, struct tsa_error *err)
{
    if (is_usual_step(call))
        return TSA_OK;

    enum tsa_status status =
        call->operation == TSA_SOFTMAX ? check_keys(call, err) : check_sequences(call, err);
    if (status == TSA_OK)
        status = check_tensors(call, err);
    return status == TSA_OK ? check_overlap(call, err) : status;
}

/* -- states ------------------------------------------------------------------------------ */

static enum tsa_status check_state(const struct tsa_call *call, size_t b, struct tsa_error *err)
{
    const size_t slot = tsa_call_slot(call, b), more = tsa_call_tokens(call, b);
    return tsa_state_check_layer(call->plan, call->states[slot], call->layer,
                                 tsa_call_writes_states(call) ? &more : NULL, slot, err);
}

/* A state that is there twice keeps the mark of one of its places. */
static void mark(const struct tsa_call *call, size_t b, uint64_t value)
{
    __atomic_store_n(&call->states[tsa_call_slot(call, b)]->header.mark, value, __ATOMIC_RELAXED);
}
static size_t marked(const struct tsa_call *call, size_t b)
{
    return (size_t)call->states[tsa_call_slot(call, b)]->header.mark;
}

enum step { CHECK, COMPARE, CLEAR };
struct state_step {
    const struct tsa_call *call;
    enum step step;
};

/* One step for some sequences; the share of the thread notes that something is wrong. */
static void state_task(const void *argument, size_t thread, size_t index)
{
    const struct state_step *s = argument;
    const struct tsa_call *call = s->call;
    const size_t end = (index + 1) * TSA_TASK_SEQUENCES;
    bool wrong = false;
    for (size_t b = index * TSA_TASK_SEQUENCES; b < end && b < call->batch && !wrong; b++) {
        if (s->step == CHECK)
            wrong = check_state(call, b, NULL) != TSA_OK;
        else if (s->step == COMPARE)
            wrong = marked(call, b) != b;
        if (tsa_call_writes_states(call) && s->step != COMPARE && !wrong)
            mark(call, b, s->step == CLEAR ? 0 : b);
    }
    if (wrong)
        call->team.shares[1 + thread].most = 1;
}

/* true if something was wrong. */
static bool step_states(const struct tsa_call *call, enum step step)
{
    const struct state_step s = {call, step};
    bool wrong = false;
    for (size_t i = 0; i < call->team.threads; i++)
        call->team.shares[1 + i].most = 0;
    tsa_run_sequences(call, state_task, &s);
    for (size_t i = 0; i < call->team.threads; i++)
        wrong |= call->team.shares[1 + i].most > 0;
    return wrong;
}

/* Name the first of the states that are there twice, and its last place. */
static enum tsa_status twice(const struct tsa_call *call, struct tsa_error *err)
{
    for (size_t b = 0; b < call->batch; b++)
        mark(call, b, b);
    size_t b = 0;
    while (marked(call, b) == b)
        b++;
    const size_t other = marked(call, b), slot = tsa_call_slot(call, b);
    if (slot == tsa_call_slot(call, other))
        tsa_fail(err, TSA_EINVAL, "slots", "slots[%zu] and slots[%zu] are the same", b, other);
    else
        tsa_fail(err, TSA_EINVAL, "states", "states[%zu] and states[%zu] are the same", slot,
                 tsa_call_slot(call, other));
    if (err)
        err->sequence = (ptrdiff_t)slot;
    return TSA_EINVAL;
}

/* The slots of tsa_query: its states may repeat, but two tasks may not write the same output. Marks
 * in the states will not do, as other calls may be reading them. */
static enum tsa_status check_slots_apart(const struct tsa_call *call, struct tsa_error *err)
{
    size_t ascending = 1;
    while (ascending < call->batch && call->slots[ascending - 1] < call->slots[ascending])
        ascending++;
    if (ascending >= call->batch)
        return TSA_OK;
    uint64_t seen[512]; /* a bit for each slot from `from` on */
    const size_t span = 8 * sizeof seen;
    for (size_t from = 0, next; from != SIZE_MAX; from = next) {
        memset(seen, 0, sizeof seen);
        next = SIZE_MAX;
        for (size_t b = 0; b < call->batch; b++) {
            const size_t slot = (size_t)call->slots[b];
            if (slot < from)
                continue;
            if (slot - from >= span) {
                next = slot < next ? slot : next;
                continue;
            }
            uint64_t *word = &seen[(slot - from) / 64];
            const uint64_t bit = (uint64_t)1 << (slot - from) % 64;
            if (*word & bit) {
                size_t first = 0;
                while (call->slots[first] != call->slots[b])
                    first++;
                tsa_fail(err, TSA_EINVAL, "slots", "slots[%zu] and slots[%zu] are the same", first,
                         b);
                if (err)
                    err->sequence = (ptrdiff_t)slot;
                return TSA_EINVAL;
            }
            *word |= bit;
        }
    }
    return TSA_OK;
}

/* Queries need something to average. */
static enum tsa_status check_tokens(const struct tsa_call *call, struct tsa_error *err)
{
    for (size_t b = 0; b < call->batch && call->tokens > 0; b++) {
        const size_t slot = tsa_call_slot(call, b);
        if (tsa_state_layer(call->states[slot], call->layer)->tokens == 0) {
            tsa_fail(err, TSA_EINVAL, "states",
                     "states[%zu] has absorbed no token: there is nothing to average", slot);
            if (err)
                err->sequence = (ptrdiff_t)slot;
            return TSA_EINVAL;
        }
    }
    return TSA_OK;
}

static enum tsa_status check_states(const struct tsa_call *call, struct tsa_error *err)
{
    const struct tsa_plan *plan = call->plan;
    if (call->batch > 0 && !call->states)
        return tsa_fail(err, TSA_EINVAL, "states", "states is NULL");
    if (call->layer >= plan->layers)
        return tsa_fail(err, TSA_EINVAL, "layer", "layer is %zu; the plan has %zu", call->layer,
                        plan->layers);
    enum tsa_status status = TSA_OK;
    if (call->batch == 1)
        return check_state(call, 0, err);
    if (step_states(call, CHECK))
        for (size_t b = 0; b < call->batch && status == TSA_OK; b++)
            status = check_state(call, b, err);
    if (!tsa_call_writes_states(call))
        return status;
    if (status == TSA_OK && step_states(call, COMPARE))
        status = twice(call, err);
    if (status == TSA_OK)
        step_states(call, CLEAR);
    else /* marks stand in states that passed */
        for (size_t b = 0; b < call->batch; b++)
            if (check_state(call, b, NULL) == TSA_OK)
                mark(call, b, 0);
    return status;
}

enum tsa_status tsa_check_states(const struct tsa_call *call, struct tsa_error *err)
{
    enum tsa_status status = check_states(call, err);
    if (tsa_call_writes_states(call))
        return status;
    if (status == TSA_OK && call->slots)
        status = check_slots_apart(call, err);
    return status == TSA_OK ? check_tokens(call, err) : status;
}
