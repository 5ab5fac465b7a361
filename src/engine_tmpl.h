/* SPDX-License-Identifier: MIT */
/* The schedule, for one arithmetic type: what is computed when, by which thread. Included by
 * engine_f32.c and engine_f64.c, which define T, OTHER (the other type that tensors may hold),
 * TSA_DTYPE, KERNELS(plan), PAIR_KERNELS(plan) and ENGINE.
 *
 * Work items are (sequence, kv head). Items that fill the team run serially, each on one thread;
 * otherwise the team works on an item together, in a relay or in waves of chunks. Bits do not
 * depend on any of this. */

#include <math.h>
#include <string.h>

#include "call.h"

#include "engine_chunk_tmpl.h"

/* -- one kv head, serially ------------------------------------------------------------------ */

/* While query heads h .. h+heads-1 of a chunk are at work: their outputs, and what the next heads,
 * or the next chunk, will read. */
static void prefetch_chunk(const struct tsa_call *call, const struct item *it, size_t h,
                           size_t heads, size_t t, size_t n, struct tsa_prefetch *prefetch)
{
    const struct tsa_plan *plan = call->plan;
    const size_t first = it->g * plan->group, next = t + n;
    prefetch->count = 0;
    for (size_t i = 0; i < heads; i++)
        prefetch_add(prefetch, call->o, it->b, first + h + i, t, n, plan->dv, true);
    if (heads > 0 && h + heads < plan->group) {
        for (size_t i = h + heads; i < plan->group && i < h + 2 * heads; i++)
            prefetch_add(prefetch, call->q, it->b, first + i, t, n, plan->d, false);
        return;
    }
    const size_t left = it->end - next, m = left < plan->chunk ? left : plan->chunk;
    for (size_t i = 0; call->q && i < plan->scratch.heads; i++)
        prefetch_add(prefetch, call->q, it->b, first + i, next, m, plan->d, false);
    prefetch_add(prefetch, call->k, it->b, it->g, next, m, plan->d, false);
    prefetch_add(prefetch, call->v, it->b, it->g, next, m, plan->dv, false);
}

static void prefill_item(const struct tsa_call *call, T *scratch, size_t index)
{
    const struct tsa_plan *plan = call->plan;
    struct item it = item_at(call, index);
    for (size_t t = it.t, n; t < it.end; t += n) {
        const size_t left = it.end - t, space = plan->chunk - it.window.n;
        n = left < space ? left : space;
        const bool full = n == space;
        struct window w = it.window;
        const bool in_place = read_in_place(call, &it, &w, t, n);
        if (n == plan->chunk && n <= TSA_TILE_TOKENS) { /* where the fold wants the keys */
            w.kt = tile_at(plan, scratch + plan->scratch.kbase, 0);
            w.ldk = TSA_TILE_TOKENS;
        }
        append(call, scratch, &it, &w, t, n, in_place);
        struct tsa_prefetch prefetch;
        if (call->q)
            for (size_t h = 0, heads; h < plan->group; h += heads) {
                const size_t more = plan->group - h;
                heads = more < plan->scratch.heads ? more : plan->scratch.heads;
                prefetch_chunk(call, &it, h, heads, t, n, &prefetch);
                outputs(call, scratch, it.b, it.g * plan->group + h, heads, &it.sums, &w, true, t,
                        n, full && heads == more, &prefetch);
            }
        else if (full) {
            prefetch_chunk(call, &it, 0, 0, t, n, &prefetch);
            fold_window(plan, scratch, &it.sums, &w, &prefetch);
        }
        it.window.n = full ? 0 : w.n;
        it.sums.folded |= full;
    }
    if (!it.sums.hi_pairs && it.open + (it.end - it.t) >= plan->chunk)
        tsa_state_round(plan, it.state, call->layer, it.g, 0, 1);
}

/* -- teams ----------------------------------------------------------------------------------- */

typedef void (*task_fn)(const struct tsa_call *call, T *scratch, size_t index);

struct tasks {
    const struct tsa_call *call;
    task_fn run;
};

static void run_task(const void *argument, size_t thread, size_t index)
{
    const struct tasks *tasks = argument;
    tasks->run(tasks->call, scratch_at(tasks->call, thread), index);
}

/* Run tasks 0 .. count-1, each with the scratch of its thread; the first `queue` in order. */
static void run_tasks(const struct tsa_call *call, size_t queue, size_t count, task_fn run)
{
    const struct tasks tasks = {call, run};
    tsa_team_run(&call->team, queue, count, run_task, &tasks);
}

/* Items that the team has folded: these, or all items of the call; `rounded` if their folds have kept
 * what states have in pairs for this plan. */
struct folded {
    const size_t *items;
    bool rounded;
};

/* Are pairs of an item older than its sums, which this call has folded? */
static bool pairs_are_old(const struct tsa_call *call, const struct folded *f,
                          const struct item *it)
{
    return it->open + (it->end - it->t) >= call->plan->chunk && !(f->rounded && it->sums.hi_pairs);
}

static void round_task(const struct tsa_call *call, T *scratch, size_t index)
{
    const struct folded *f = call->work;
    const size_t parts = call->team.threads, i = index / parts;
    const struct item it = item_at(call, f->items ? f->items[i] : i);
    (void)scratch;
    if (pairs_are_old(call, f, &it))
        tsa_state_round(call->plan, it.state, call->layer, it.g, index % parts, parts);
}

static void round_items(const struct tsa_call *call, const struct folded *f, size_t count)
{
    struct tsa_call phase = *call;
    bool any = false;
    for (size_t i = 0; i < count && !any; i++) {
        const struct item it = item_at(call, f->items ? f->items[i] : i);
        any = it.state->header.pair_degree > 0 && pairs_are_old(call, f, &it);
    }
    phase.work = f;
    if (any)
        run_tasks(&phase, 0, count * call->team.threads, round_task);
}

#include "engine_token_tmpl.h"
#include "engine_relay_tmpl.h"
#include "engine_wave_tmpl.h"

#include "engine_prefill_tmpl.h"

/* -- query ----------------------------------------------------------------------------------- */

static size_t query_parts(const struct tsa_call *call)
{
    const size_t most = call->plan->scratch.queries;
    return (call->tokens + most - 1) / most;
}

static void query_task(const struct tsa_call *call, T *scratch, size_t index)
{
    const struct tsa_plan *plan = call->plan;
    const size_t parts = query_parts(call), part = index % parts;
    const size_t h = index / parts % plan->heads, b = index / parts / plan->heads;
    const struct item it = item_at(call, b * plan->kv_heads + h / plan->group);
    const size_t t = part * plan->scratch.queries, left = call->tokens - t;
    outputs(call, scratch, b, h, 1, &it.sums, &it.window, false, t,
            left < plan->scratch.queries ? left : plan->scratch.queries, false, NULL);
}

static void query(const struct tsa_call *call)
{
    if (call->tokens == 1) {
        decode(call);
        return;
    }
    run_tasks(call, 0, call->batch * call->plan->heads * query_parts(call), query_task);
}

#include "engine_softmax_tmpl.h"
#include "engine_merge_tmpl.h"

const struct tsa_engine ENGINE = {prefill,          query,      softmax,    open_window,
                                  fold_open_window, merge_rows, export_rows};
