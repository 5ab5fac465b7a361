/* SPDX-License-Identifier: MIT */
/* One kv head, or the queries of one head, by one thread. Part of engine_tmpl.h. */

/* While query heads h .. h+heads-1 of chunk r are at work: their outputs, and what the next heads,
 * or the next chunk, will read. */
static void prefetch_chunk(const struct tsa_call *call, const struct tsa_item *it,
                           const struct job *job, struct tsa_prefetch *prefetch)
{
    const struct tsa_plan *plan = call->plan;
    const size_t end = (it->g + 1) * plan->group, next = job->r.h + job->heads;
    struct rows r = job->r;
    prefetch->count = 0;
    for (; r.h < next; r.h++)
        prefetch_rows(prefetch, call->o, &r, plan->dv, true);
    if (job->heads > 0 && next < end) {
        for (; r.h < end && r.h < next + job->heads; r.h++)
            prefetch_rows(prefetch, call->q, &r, plan->d, false);
        return;
    }
    const size_t t = r.t + r.n, left = it->end - t;
    prefetch_inputs(prefetch, call, it, plan->scratch.heads, t,
                    left < plan->chunk ? left : plan->chunk);
}

/* Outputs of n tokens from t on, which end the window w; then its fold if it is full. */
static void chunk_outputs(const struct context *x, const struct kv_head *kv, const struct window *w,
                          size_t t, size_t n)
{
    const struct tsa_plan *plan = x->plan;
    const bool full = w->n == plan->chunk;
    const size_t end = (kv->item.g + 1) * plan->group;
    struct job job = {{kv->item.b, end - plan->group, t, n}, 0, true, false};
    struct tsa_prefetch prefetch;
    if (!tsa_call_has_queries(x->call)) {
        if (full) {
            const struct window folded = window_to_fold(x, w, w->n - n);
            prefetch_chunk(x->call, &kv->item, &job, &prefetch);
            fold_window(x, &kv->sums, &folded, &prefetch);
        }
        return;
    }
    for (; job.r.h < end; job.r.h += job.heads) {
        const size_t more = end - job.r.h;
        job.heads = more < plan->scratch.heads ? more : plan->scratch.heads;
        job.fold = full && job.heads == more;
        prefetch_chunk(x->call, &kv->item, &job, &prefetch);
        outputs(x, &kv->sums, w, &job, &prefetch);
    }
}

static void prefill_item(const struct context *x, size_t index)
{
    const struct tsa_plan *plan = x->plan;
    struct kv_head kv = kv_head_at(x->call, index);
    for (size_t t = kv.item.t, n; t < kv.item.end; t += n) {
        const size_t left = kv.item.end - t, space = plan->chunk - kv.window.n;
        n = left < space ? left : space;
        struct window w = kv.window;
        const bool in_place = read_in_place(x->call, &kv.item, &w, t, n);
        if (n == plan->chunk && n <= TSA_TILE_TOKENS) { /* where the fold wants the keys */
            w.kt = tile_at(plan, x->scratch + plan->scratch.kbase, 0);
            w.ldk = TSA_TILE_TOKENS;
        }
        append(x, &kv.item, &w, t, n, in_place);
        chunk_outputs(x, &kv, &w, t, n);
        const bool full = w.n == plan->chunk;
        kv.window.n = full ? 0 : w.n;
        kv.window.e = 1;
        kv.sums.folded |= full;
    }
    if (!kv.sums.hi_pairs && tsa_item_folds(x->call, &kv.item))
        tsa_state_round(plan, kv.item.state, x->call->layer, kv.item.g, 0, 1);
}

/* Some queries of one head, in tsa_query. */
static void query_task(const struct context *x, size_t index)
{
    const struct tsa_plan *plan = x->plan;
    const size_t parts = tsa_query_parts(x->call), part = index % parts;
    const size_t h = index / parts % plan->heads, b = index / parts / plan->heads;
    const struct kv_head kv = kv_head_at(x->call, b * plan->kv_heads + h / plan->group);
    const size_t t = part * plan->scratch.queries, left = x->call->tokens - t;
    const size_t n = left < plan->scratch.queries ? left : plan->scratch.queries;
    const struct job job = {{kv.item.b, h, t, n}, 1, false, false};
    outputs(x, &kv.sums, &kv.window, &job, NULL);
}
