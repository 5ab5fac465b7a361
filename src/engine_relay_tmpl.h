/* SPDX-License-Identifier: MIT */
/* Prefill and absorb of one item by a team whose threads keep shares of the sums. Part of
 * engine_tmpl.h.
 *
 * A stage is a share of the features. It goes over all chunks, packs them for itself, reads and
 * folds its part of the sums, which so stay with their thread. Without queries stages need nothing
 * of each other. With queries, the accumulators of a chunk pass from stage to stage, highest
 * features first as the chains go, and the last one adds the window: in each step of the team every
 * stage is at work on other chunks, one step behind the stage before it. */

struct relay {
    const struct kv_head *kv;
    struct tsa_relay sizes;
    size_t step;
};

/* Scratch of the relay: accumulators of chunks, then what stages have for themselves. */
static T *relay_scratch(const struct tsa_call *call)
{
    return scratch_at(call, call->team.threads);
}

static struct queries relay_queries(const struct context *x, const struct relay *relay,
                                    size_t chunk)
{
    const struct tsa_plan *plan = x->plan;
    const size_t tokens = plan->group * plan->scratch.keys;
    T *accumulators = relay_scratch(x->call) + chunk % relay->sizes.ring * plan->relay_chunk;
    return (struct queries){x->scratch + plan->scratch.qbase, accumulators,
                            accumulators + tokens * plan->layout.ldv, plan->scratch.keys};
}

/* The window and the sums of a stage: its own copies, the sums except where they are large. Where
 * shares of two threads meet, the hardware prefetcher would take lines from the other thread,
 * chunk for chunk. */
static struct kv_head stage_head(const struct tsa_call *call, const struct relay *relay,
                                 size_t stage)
{
    const struct tsa_plan *plan = call->plan;
    const struct tsa_layout *l = &plan->layout;
    struct kv_head kv = *relay->kv;
    const bool folded = kv.sums.folded;
    T *own = relay_scratch(call) + tsa_relay_chunks(plan, call->team.threads) * plan->relay_chunk +
             stage * tsa_stage_elements(plan);
    const T e = kv.window.e;
    const struct tsa_layout at = {.v = l->v - l->kt,
                                  .ldk = l->ldk,
                                  .ldv = l->ldv,
                                  .decay = l->decay - l->kt,
                                  .past = l->past > 0 ? l->past - l->kt : 0};
    kv.window = section_window(own, &at, 0);
    kv.window.e = e;
    kv.sums.hi_pairs = kv.sums.ones_pairs = NULL; /* stages share them */
    if (!plan->large)
        kv.sums = section_sums(own + (l->hi_pairs - l->kt), l);
    kv.sums.folded = folded;
    return kv;
}

static void copy_sums(const struct sums *to, const struct sums *from, struct tsa_range f)
{
    const size_t n = f.f1 - f.f0, rows = n * (size_t)to->ld;
    const ptrdiff_t at = (ptrdiff_t)f.f0 * to->ld;
    if (to->hi == from->hi)
        return;
    memcpy(to->hi + at, from->hi + at, rows * sizeof(T));
    memcpy(to->lo + at, from->lo + at, rows * sizeof(T));
    memcpy(to->ones_hi + f.f0, from->ones_hi + f.f0, n * sizeof(T));
    memcpy(to->ones_lo + f.f0, from->ones_lo + f.f0, n * sizeof(T));
}

/* What the stage will read next: the next chunk, and what the stage before it has left. */
static void relay_prefetch(const struct context *x, const struct relay *relay, size_t chunk,
                           struct tsa_prefetch *prefetch)
{
    const struct tsa_item *it = &relay->kv->item;
    prefetch->count = 0;
    if (chunk == relay->sizes.chunks)
        return;
    const struct tsa_span span = tsa_span_at(x->call, it, chunk);
    if (tsa_call_has_queries(x->call) && chunk % relay->sizes.step_chunks > 0) {
        const struct queries q = relay_queries(x, relay, chunk);
        prefetch_elements(prefetch, q.acc, span.n * x->plan->layout.ldv, false);
        prefetch_elements(prefetch, q.den, span.n, false);
    }
    prefetch_inputs(prefetch, x->call, it, 1, span.t, span.n);
}

/* The queries of a chunk in one stage, then the fold. `all` has the features, the accumulators of
 * the chunk, and what to fold; the last stage writes the outputs. */
static void relay_outputs(const struct context *x, const struct kv_head *kv, const struct window *w,
                          size_t t, const struct pass *all, bool ends,
                          struct tsa_prefetch *prefetch)
{
    const struct tsa_plan *plan = x->plan;
    const struct tsa_item *it = &kv->item;
    const size_t n = all->m;
    struct pass pass = *all;
    for (size_t h = 0; h < plan->group; h += pass.heads) {
        const size_t more = plan->group - h;
        pass.heads = more < plan->scratch.heads ? more : plan->scratch.heads;
        pass.h0 = it->g * plan->group + h;
        struct sight sight = sight_of(x, &kv->sums, w, true, w->n - n);
        for (size_t done = 0; done < n; done += pass.m) {
            const size_t left = n - done, at = h * plan->scratch.keys + done;
            pass.m = left < plan->scratch.queries ? left : plan->scratch.queries;
            pass.fold = pass.heads == more && pass.m == left ? all->fold : NULL;
            pass.queries.acc = all->queries.acc + at * plan->layout.ldv;
            pass.queries.den = all->queries.den + at;
            pack_queries(x, it->b, t + done, &pass);
            run_pass(x, &kv->sums, &pass, prefetch);
            if (ends)
                write_outputs(x, it->b, t + done, &pass, &sight);
        }
    }
}

/* One chunk in one stage. */
static void relay_chunk(const struct context *x, const struct relay *relay, size_t stage,
                        size_t chunk)
{
    const struct tsa_call *call = x->call;
    struct kv_head kv = stage_head(call, relay, stage);
    const struct tsa_span span = tsa_span_at(call, &kv.item, chunk);
    struct pass pass = {.f = tsa_stage_features(call, relay->sizes.stages, stage), .m = span.n};
    struct tsa_prefetch prefetch;
    if (chunk == 0) {
        copy_sums(&kv.sums, &relay->kv->sums, pass.f);
        window_copy(x->plan, &kv.window, &relay->kv->window);
    }
    kv.sums.folded |= chunk > 0;
    struct window w = kv.window, folded;
    if (chunk > 0)
        w.e = 1;
    const bool in_place = read_in_place(call, &kv.item, &w, span.t, span.n);
    append(x, &kv.item, &w, span.t, span.n, in_place);
    if (tsa_span_is_full(call, &span)) {
        folded = window_to_fold(x, &w, w.n - span.n);
        pass.fold = &folded;
    }
    relay_prefetch(x, relay, chunk + 1, &prefetch);
    if (tsa_call_has_queries(call)) {
        pass.queries = relay_queries(x, relay, chunk);
        relay_outputs(x, &kv, &w, span.t, &pass, stage + 1 == relay->sizes.stages, &prefetch);
    } else {
        run_pass(x, &kv.sums, &pass, &prefetch);
    }
    if (chunk + 1 == relay->sizes.chunks)
        copy_sums(&relay->kv->sums, &kv.sums, pass.f);
}

static void relay_task(const struct context *x, size_t stage)
{
    const struct relay *relay = x->call->work;
    const struct tsa_relay *sizes = &relay->sizes;
    const size_t behind = tsa_call_has_queries(x->call) ? stage : 0;
    if (relay->step < behind)
        return;
    const size_t first = (relay->step - behind) * sizes->step_chunks;
    for (size_t chunk = first; chunk < first + sizes->step_chunks && chunk < sizes->chunks; chunk++)
        relay_chunk(x, relay, stage, chunk);
}

static void prefill_relay(const struct tsa_call *call, size_t index)
{
    struct kv_head kv = kv_head_at(call, index);
    struct relay relay = {.kv = &kv, .sizes = tsa_relay_of(call, &kv.item)};
    struct tsa_call phase = *call;
    phase.work = &relay;
    for (; relay.step < relay.sizes.steps; relay.step++)
        run_tasks(&phase, 0, relay.sizes.stages, relay_task);
    const struct tsa_span last = tsa_span_at(call, &kv.item, relay.sizes.chunks - 1);
    struct kv_head stage = stage_head(call, &relay, 0);
    stage.window.n = last.at + last.n;
    if (!tsa_span_is_full(call, &last))
        window_copy(call->plan, &kv.window, &stage.window);
    round_items(call, &(const struct folded){.items = &index}, 1);
}
