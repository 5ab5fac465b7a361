/* SPDX-License-Identifier: MIT */
/* Who computes what, and in which order, as far as the arithmetic type has no say in it. Bits do
 * not depend on any of this.
 *
 * Work items are (sequence, kv head). Items that fill the team run serially, each on one thread;
 * otherwise the team works on an item together, in a relay or in waves of chunks. */
#ifndef TSA_SCHEDULE_H
#define TSA_SCHEDULE_H

#include "call.h"

/* -- items and their chunks -------------------------------------------------------------------- */

/* One kv head of one sequence of a call. */
struct tsa_item {
    size_t b, g;   /* batch index in the tensors, kv head */
    size_t t, end; /* its tokens in the tensors */
    size_t open;   /* tokens in its window at the start of the call */
    const struct tsa_state *state;
};
static inline struct tsa_item tsa_item_of(const struct tsa_call *call, size_t b, size_t g)
{
    const size_t t = tsa_call_first(call, b);
    const struct tsa_state *s = call->states[tsa_call_slot(call, b)];
    return (struct tsa_item){.b = tsa_call_batch(call, b),
                             .g = g,
                             .t = t,
                             .end = t + tsa_call_tokens(call, b),
                             .open = (size_t)tsa_state_layer(s, call->layer)->window,
                             .state = s};
}

/* Chunk j of an item: tokens t .. t+n-1 of the tensors, in window positions from `at` on. */
struct tsa_span {
    size_t t, n, at;
};
struct tsa_span tsa_span_at(const struct tsa_call *call, const struct tsa_item *it, size_t j);
static inline bool tsa_span_is_full(const struct tsa_call *call, const struct tsa_span *s)
{
    return s->at + s->n == call->plan->chunk;
}
/* Chunks that the tokens of the item are in, the first with those that wait in its window. */
size_t tsa_chunk_count(const struct tsa_call *call, const struct tsa_item *it);
/* Does the call fill the window of the item? */
bool tsa_item_folds(const struct tsa_call *call, const struct tsa_item *it);

/* -- a team on one item ------------------------------------------------------------------------ */

/* Does a team of so many threads work on an item in a relay, not in waves? */
bool tsa_use_relay(const struct tsa_plan *plan, size_t threads);
/* Chunks per wave. */
size_t tsa_wave_chunks(const struct tsa_plan *plan, size_t threads);
/* Stages of a relay, and chunks whose accumulators it keeps: at least one per stage, or 0. */
size_t tsa_relay_stages(const struct tsa_plan *plan, size_t threads);
size_t tsa_relay_chunks(const struct tsa_plan *plan, size_t threads);
/* Elements of a stage's own window and sums, behind them. */
size_t tsa_stage_elements(const struct tsa_plan *plan);
/* Elements of scratch for all this. */
size_t tsa_together_elements(const struct tsa_plan *plan, size_t threads);

/* How a team goes over the chunks of an item in a relay. */
struct tsa_relay {
    size_t stages, chunks;
    size_t step_chunks, ring; /* chunks of a step; of the ring of accumulators */
    size_t steps;             /* of the team */
};
struct tsa_relay tsa_relay_of(const struct tsa_call *call, const struct tsa_item *it);
/* The features of a stage. */
struct tsa_range tsa_stage_features(const struct tsa_call *call, size_t stages, size_t stage);

/* -- prefill and absorb ------------------------------------------------------------------------ */

/* Items whose tokens are more than a small share of a thread's work are listed, longest first. The
 * first of the list are done by the team, if threads would be idle otherwise; then threads draw the
 * rest of the list, and go on with the items that are not in it. */
struct tsa_schedule {
    bool relay;              /* how the team works on an item */
    size_t tokens;           /* of all items */
    size_t listed, together; /* items in call->order; the first of them by the whole team */
    size_t longest, last;    /* items of more tokens than this, up to this one, are in the list */
    size_t alone;            /* tasks for the rest of the list, */
    size_t rest, singles;    /* for other items, and for sequences of one token, in this order */
};
/* Has every sequence one token, with queries? Then the call is a decoding step. */
bool tsa_is_decode(const struct tsa_call *call);
/* The schedule of another call: fills call->order, and makes its team one thread if more do not
 * pay. */
struct tsa_schedule tsa_schedule_prefill(struct tsa_call *call);
/* The item of task `index` of the first s->alone + s->rest ones; false if it has none to do. */
bool tsa_schedule_item(const struct tsa_call *call, const struct tsa_schedule *s, size_t index,
                       size_t *item);

/* -- single tokens ----------------------------------------------------------------------------- */

/* Kv heads that advance together: enough to fill TSA_TOKEN_ROWS. */
size_t tsa_heads_together(const struct tsa_plan *plan);
/* Kv heads of a task, unless that leaves threads idle. */
size_t tsa_token_share(const struct tsa_call *call);
/* Parts of the value columns, each a task, where a few large states leave threads idle; else 1. */
size_t tsa_column_parts(const struct tsa_call *call);
/* Is there too little to read for a team? */
bool tsa_decode_is_short(const struct tsa_call *call);
/* Parts of the rows of a head in tsa_query. */
size_t tsa_query_parts(const struct tsa_call *call);

/* -- softmax ----------------------------------------------------------------------------------- */

/* Keys that query t of the call sees, from the first on. */
static inline size_t tsa_keys_seen(const struct tsa_call *call, size_t t)
{
    return call->causal ? call->keys - call->tokens + t + 1 : call->keys;
}
/* Is there too little to do for a team? */
bool tsa_softmax_is_short(const struct tsa_call *call);
/* Queries of one head that see keys together: `first` .. first+n-1. */
struct tsa_queries {
    size_t b, h, first, n;
};
/* All of them, those that see most keys first. */
size_t tsa_softmax_ranges(const struct tsa_call *call);
struct tsa_queries tsa_softmax_range(const struct tsa_call *call, size_t index);
/* Runs of rows of one kv head, where queries go row by row: those of the same query if there is a
 * window. The first row of a run; rows of the run from `first` on. */
size_t tsa_softmax_runs(const struct tsa_call *call);
size_t tsa_run_first(const struct tsa_call *call, size_t index);
size_t tsa_run_rows(const struct tsa_call *call, size_t first);
/* Do the runs leave threads idle that had better share out the keys? */
bool tsa_softmax_splits_keys(const struct tsa_call *call);

#endif
