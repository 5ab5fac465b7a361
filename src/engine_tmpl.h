/* SPDX-License-Identifier: MIT */
/* The schedule, for one arithmetic type: what is computed when, by which thread. Included by
 * engine_f32.c and engine_f64.c, which define T, OTHER (the other type that tensors may hold),
 * TSA_DTYPE, KERNELS(plan) and ENGINE.
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
static void ask_ahead(const struct tsa_call *call, const struct item *it, size_t h, size_t heads,
                      size_t t, size_t n, struct tsa_ahead *ahead)
{
    const struct tsa_plan *plan = call->plan;
    const size_t first = it->g * plan->group, next = t + n;
    ahead->count = 0;
    for (size_t i = 0; i < heads; i++)
        ahead_add(ahead, call->o, it->b, first + h + i, t, n, plan->dv, true);
    if (heads > 0 && h + heads < plan->group) {
        for (size_t i = h + heads; i < plan->group && i < h + 2 * heads; i++)
            ahead_add(ahead, call->q, it->b, first + i, t, n, plan->d, false);
        return;
    }
    const size_t left = it->end - next, m = left < plan->chunk ? left : plan->chunk;
    for (size_t i = 0; call->q && i < plan->room.heads; i++)
        ahead_add(ahead, call->q, it->b, first + i, next, m, plan->d, false);
    ahead_add(ahead, call->k, it->b, it->g, next, m, plan->d, false);
    ahead_add(ahead, call->v, it->b, it->g, next, m, plan->dv, false);
}

static void prefill_item(const struct tsa_call *call, T *room, size_t index)
{
    const struct tsa_plan *plan = call->plan;
    struct item it = item_at(call, index);
    size_t at = it.open;
    for (size_t t = it.t; t < it.end;) {
        const size_t left = it.end - t, space = plan->chunk - at;
        const size_t n = left < space ? left : space;
        const bool full = n == space;
        struct window w = it.window;
        const bool in_place = read_in_place(call, &it, &w, t, n);
        if (n == plan->chunk && n <= TSA_TILE_TOKENS) { /* where the fold wants the keys */
            w.kt = tile_at(plan, room + plan->room.kbase, 0);
            w.ldk = TSA_TILE_TOKENS;
        }
        append(call, room, &it, &w, at, t, n, in_place);
        struct tsa_ahead ahead;
        if (call->q)
            for (size_t h = 0, heads; h < plan->group; h += heads) {
                const size_t more = plan->group - h;
                heads = more < plan->room.heads ? more : plan->room.heads;
                ask_ahead(call, &it, h, heads, t, n, &ahead);
                outputs(call, room, it.b, it.g * plan->group + h, heads, &it.sums, &w, true, at, t,
                        n, full && heads == more, &ahead);
            }
        else if (full) {
            ask_ahead(call, &it, 0, 0, t, n, &ahead);
            fold_window(plan, room, &it.sums, &w, &ahead);
        }
        at = full ? 0 : at + n;
        t += n;
        it.sums.folded |= full;
    }
}

/* -- teams ----------------------------------------------------------------------------------- */

typedef void (*task_fn)(const struct tsa_call *call, T *room, size_t index);

struct tasks {
    const struct tsa_call *call;
    task_fn run;
};

static void run_task(const void *argument, size_t thread, size_t index)
{
    const struct tasks *tasks = argument;
    tasks->run(tasks->call, room_at(tasks->call, thread), index);
}

/* Run tasks 0 .. count-1, each with the room of its thread; the first `queue` in order. */
static void run_tasks(const struct tsa_call *call, size_t queue, size_t count, task_fn run)
{
    const struct tasks tasks = {call, run};
    tsa_team_run(&call->team, queue, count, run_task, &tasks);
}

#include "engine_token_tmpl.h"
#include "engine_relay_tmpl.h"
#include "engine_wave_tmpl.h"

#include "engine_prefill_tmpl.h"

/* -- query ----------------------------------------------------------------------------------- */

static size_t query_blocks(const struct tsa_call *call)
{
    const size_t most = call->plan->room.queries;
    return (call->tokens + most - 1) / most;
}

static void query_task(const struct tsa_call *call, T *room, size_t index)
{
    const struct tsa_plan *plan = call->plan;
    const size_t blocks = query_blocks(call), block = index % blocks;
    const size_t h = index / blocks % plan->heads, b = index / blocks / plan->heads;
    const struct item it = item_at(call, b * plan->kv_heads + h / plan->group);
    const size_t t = block * plan->room.queries, left = call->tokens - t;
    outputs(call, room, b, h, 1, &it.sums, &it.window, false, it.open, t,
            left < plan->room.queries ? left : plan->room.queries, false, NULL);
}

static void query(const struct tsa_call *call)
{
    if (call->tokens == 1) {
        decode(call);
        return;
    }
    run_tasks(call, 0, call->batch * call->plan->heads * query_blocks(call), query_task);
}

/* -- softmax --------------------------------------------------------------------------------- */

static void softmax_task(const struct tsa_call *call, T *room, size_t index)
{
    const struct tsa_plan *plan = call->plan;
    const struct tsa_room *r = &call->plan->room;
    const size_t blocks = query_blocks(call);
    const size_t h = index / blocks % plan->heads, b = index / blocks / plan->heads;
    const size_t g = h / plan->group, t = index % blocks * r->queries;
    const size_t m = call->tokens - t < r->queries ? call->tokens - t : r->queries;
    const int l2 = plan->normalize == TSA_NORMALIZE_L2;
    const ptrdiff_t lda = (ptrdiff_t)plan->layout.ldv;
    T *top = room + r->psi, *sum = room + r->den, *acc = room + r->acc;
    T *q = room + r->qbase, *kt = room + r->kt, *v = room + r->v;
    const T scale = ((const T *)plan->scale)[h];
    ptrdiff_t stride;
    for (size_t i = 0; i < m; i++) {
        const T *src = rows_in(call->q, b, h, t + i, 1, plan->d, room + r->rows, &stride);
        KERNELS(plan)->pack_t(1, plan->d, src, stride, l2, scale, q + i * plan->d, 1);
        top[i] = -(T)INFINITY;
        sum[i] = 0;
        memset(acc + (ptrdiff_t)i * lda, 0, (size_t)lda * sizeof(T));
    }
    for (size_t k = 0; k < call->keys; k += TSA_TILE_TOKENS) {
        const size_t left = call->keys - k,
                     n = left < TSA_TILE_TOKENS ? left : TSA_TILE_TOKENS;
        const T *src = rows_in(call->k, b, g, k, n, plan->d, room + r->rows, &stride);
        KERNELS(plan)->pack_t(n, plan->d, src, stride, l2, 1, kt, TSA_TILE_TOKENS);
        src = rows_in(call->v, b, g, k, n, plan->dv, room + r->rows, &stride);
        KERNELS(plan)->pack_v(n, plan->dv, src, stride, v, lda);
        for (size_t i = 0; i < m; i++) {
            size_t seen = n;
            if (call->causal) { /* query t+i sees keys 0 .. keys - queries + t + i */
                const size_t end = call->keys - call->tokens + t + i + 1;
                seen = end <= k ? 0 : end - k < n ? end - k : n;
            }
            KERNELS(plan)->softmax(seen, plan->d, kt, TSA_TILE_TOKENS, q + i * plan->d, plan->dv,
                                   v, lda, top + i, sum + i, acc + (ptrdiff_t)i * lda,
                                   room + r->weights);
        }
    }
    for (size_t i = 0; i < m; i++) {
        T *dst = rows_out(call->o, b, h, t + i, plan->dv, room + r->rows, &stride);
        KERNELS(plan)->divide(plan->dv, acc + (ptrdiff_t)i * lda, sum[i], dst);
        rows_out_done(call->o, b, h, t + i, 1, plan->dv, room + r->rows);
    }
}

static void softmax(const struct tsa_call *call)
{
    run_tasks(call, 0, call->batch * call->plan->heads * query_blocks(call), softmax_task);
}

const struct tsa_engine ENGINE = {prefill, query, softmax};
