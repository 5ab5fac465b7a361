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
    const struct item *item;
    size_t stages, chunks;
    size_t step_chunks, ring; /* chunks of a step; of the ring of accumulators */
    size_t step;
};

/* Scratch of the relay: accumulators of chunks, then what stages have for themselves. */
static T *relay_scratch(const struct tsa_call *call)
{
    return scratch_at(call, call->team.threads);
}

static struct queries relay_queries(const struct tsa_call *call, T *scratch,
                                    const struct relay *relay, size_t chunk)
{
    const struct tsa_plan *plan = call->plan;
    const size_t tokens = plan->group * plan->scratch.keys;
    T *accumulators = relay_scratch(call) + chunk % relay->ring * plan->relay_chunk;
    return (struct queries){scratch + plan->scratch.qbase, accumulators,
                            accumulators + tokens * plan->layout.ldv, plan->scratch.keys};
}

/* The window and the sums of a stage: its own copies, the sums except where they are large. Where
 * shares of two threads meet, the hardware prefetcher would take lines from the other thread,
 * chunk for chunk. */
static struct item stage_item(const struct tsa_call *call, const struct relay *relay, size_t stage)
{
    const struct tsa_plan *plan = call->plan;
    const struct tsa_layout *l = &plan->layout;
    struct item it = *relay->item;
    T *own = relay_scratch(call) + tsa_relay_chunks(plan, call->team.threads) * plan->relay_chunk +
             stage * tsa_stage_elements(plan);
    it.window = (struct window){0, own, own + (l->v - l->kt), (ptrdiff_t)l->ldk, (ptrdiff_t)l->ldv};
    own += l->hi_pairs - l->kt;
    it.sums.hi_pairs = it.sums.ones_pairs = NULL; /* stages share them */
    if (!plan->large)
        it.sums = (struct sums){.hi = own + l->hi,
                                .lo = own + l->lo,
                                .ones_hi = own + l->ones_hi,
                                .ones_lo = own + l->ones_lo,
                                .ld = it.sums.ld,
                                .folded = it.sums.folded};
    return it;
}

static void copy_sums(const struct sums *to, const struct sums *from, const struct pass *p)
{
    const size_t n = p->to - p->from;
    const ptrdiff_t at = (ptrdiff_t)p->from * to->ld;
    if (to->hi == from->hi)
        return;
    memcpy(to->hi + at, from->hi + at, n * (size_t)to->ld * sizeof(T));
    memcpy(to->lo + at, from->lo + at, n * (size_t)to->ld * sizeof(T));
    memcpy(to->ones_hi + p->from, from->ones_hi + p->from, n * sizeof(T));
    memcpy(to->ones_lo + p->from, from->ones_lo + p->from, n * sizeof(T));
}

/* Stages have whole tiles of so many features. */
#define STAGE_UNIT 6

/* A border between features that parts no pair. */
static size_t whole_pairs(const struct tsa_plan *plan, size_t f)
{
    return f > plan->high && f < plan->mono.total ? f - (f - plan->high) % 2 : f;
}

/* The features of a stage. The window takes the last one as much time as some features would
 * (measured), so that it has fewer, or none. */
static void stage_features(const struct tsa_call *call, const struct relay *relay, size_t stage,
                           struct pass *p)
{
    const struct tsa_plan *plan = call->plan;
    const size_t units = (plan->mono.total + STAGE_UNIT - 1) / STAGE_UNIT;
    const size_t others = relay->stages - 1;
    size_t last = units / relay->stages;
    if (call->q) {
        const double window = (double)plan->chunk * (double)(plan->d + plan->dv + 3) /
                              (2.5 * (double)plan->dv + 30) / STAGE_UNIT;
        const double share = ((double)units + window) / (double)relay->stages - window;
        last = share > 0 ? (size_t)(share + 0.5) : 0;
    }
    if (others == 0)
        last = units;
    else if (last > units - others)
        last = units - others;
    p->from = 0;
    p->to = last;
    if (stage < others) {
        p->from = last + (units - last) * (others - 1 - stage) / others;
        p->to = last + (units - last) * (others - stage) / others;
    }
    p->from *= STAGE_UNIT;
    p->to *= STAGE_UNIT;
    p->from = whole_pairs(plan, p->from);
    p->to = whole_pairs(plan, p->to < plan->mono.total ? p->to : plan->mono.total);
}

/* What the stage will read next: the next chunk, and what the stage before it has left. */
static void relay_prefetch(const struct tsa_call *call, T *scratch, const struct relay *relay,
                           size_t chunk, struct tsa_prefetch *prefetch)
{
    const struct tsa_plan *plan = call->plan;
    const struct item *it = relay->item;
    prefetch->count = 0;
    if (chunk == relay->chunks)
        return;
    const struct span span = span_at(call, it, chunk);
    if (call->q && chunk % relay->step_chunks > 0) {
        const struct queries q = relay_queries(call, scratch, relay, chunk);
        prefetch_add_elements(prefetch, q.acc, span.n * plan->layout.ldv, false);
        prefetch_add_elements(prefetch, q.den, span.n, false);
    }
    if (call->q)
        prefetch_add(prefetch, call->q, it->b, it->g * plan->group, span.t, span.n, plan->d, false);
    prefetch_add(prefetch, call->k, it->b, it->g, span.t, span.n, plan->d, false);
    prefetch_add(prefetch, call->v, it->b, it->g, span.t, span.n, plan->dv, false);
}

/* The queries of a chunk in one stage, then the fold. `all` has the features, the accumulators of
 * the chunk, and what to fold; the last stage writes the outputs. */
static void relay_outputs(const struct tsa_call *call, T *scratch, const struct item *it,
                          const struct span *span, const struct window *w, const struct pass *all,
                          bool ends, struct tsa_prefetch *prefetch)
{
    const struct tsa_plan *plan = call->plan;
    struct pass pass = *all;
    for (size_t h = 0; h < plan->group; h += pass.heads) {
        const size_t more = plan->group - h;
        pass.heads = more < plan->scratch.heads ? more : plan->scratch.heads;
        pass.h0 = it->g * plan->group + h;
        for (size_t done = 0; done < span->n; done += pass.m) {
            const size_t left = span->n - done, at = h * plan->scratch.keys + done;
            pass.m = left < plan->scratch.queries ? left : plan->scratch.queries;
            pass.fold = pass.heads == more && pass.m == left ? all->fold : NULL;
            pass.queries.acc = all->queries.acc + at * plan->layout.ldv;
            pass.queries.den = all->queries.den + at;
            pack_queries(call, scratch, it->b, span->t + done, &pass);
            run_pass(plan, scratch, &it->sums, &pass, prefetch);
            if (ends)
                write_outputs(call, scratch, it->b, span->t + done, &pass, w, true, span->at + done,
                              !it->sums.folded);
        }
    }
}

/* One chunk in one stage. */
static void relay_chunk(const struct tsa_call *call, T *scratch, const struct relay *relay,
                        size_t stage, size_t chunk)
{
    const struct tsa_plan *plan = call->plan;
    struct item it = stage_item(call, relay, stage);
    const struct span span = span_at(call, &it, chunk);
    const bool full = span_is_full(call, &span), ends = stage + 1 == relay->stages;
    struct pass pass = {0};
    struct tsa_prefetch prefetch;
    stage_features(call, relay, stage, &pass);
    if (chunk == 0) {
        copy_sums(&it.sums, &relay->item->sums, &pass);
        window_copy(plan, &it.window, &relay->item->window);
    }
    it.sums.folded |= chunk > 0;
    struct window w = it.window;
    const bool in_place = read_in_place(call, &it, &w, span.t, span.n);
    append(call, scratch, &it, &w, span.t, span.n, in_place);
    pass.fold = full ? &w : NULL;
    relay_prefetch(call, scratch, relay, chunk + 1, &prefetch);
    if (call->q) {
        pass.queries = relay_queries(call, scratch, relay, chunk);
        relay_outputs(call, scratch, &it, &span, &w, &pass, ends, &prefetch);
    } else {
        run_pass(plan, scratch, &it.sums, &pass, &prefetch);
    }
    if (chunk + 1 == relay->chunks)
        copy_sums(&relay->item->sums, &it.sums, &pass);
}

static void relay_task(const struct tsa_call *call, T *scratch, size_t stage)
{
    const struct relay *relay = call->work;
    const size_t behind = call->q ? stage : 0;
    if (relay->step < behind)
        return;
    const size_t first = (relay->step - behind) * relay->step_chunks;
    for (size_t chunk = first; chunk < first + relay->step_chunks && chunk < relay->chunks; chunk++)
        relay_chunk(call, scratch, relay, stage, chunk);
}

static void prefill_relay(const struct tsa_call *call, size_t index)
{
    const struct tsa_plan *plan = call->plan;
    struct item it = item_at(call, index);
    struct relay relay = {.item = &it, .stages = tsa_relay_stages(plan, call->team.threads)};
    relay.step_chunks = relay.chunks = chunk_count(call, &it);
    const size_t behind = call->q ? relay.stages - 1 : 0;
    if (call->q) {
        /* A step costs the team about 3 us besides its work. Long groups leave stages without any
         * at both ends, short ones take more steps. */
        const double work = (double)(plan->mono.total * (plan->dv + 1)) * (double)plan->chunk *
                            (1 + (double)plan->group) / (double)relay.stages / 50e3;
        const double best = sqrt((double)relay.chunks * 3 / work / (double)relay.stages);
        const size_t most = tsa_relay_chunks(plan, call->team.threads) / relay.stages;
        relay.step_chunks = best < 1 ? 1 : best < (double)most ? (size_t)best : most;
        relay.ring = relay.stages * relay.step_chunks;
    }
    const size_t groups = (relay.chunks + relay.step_chunks - 1) / relay.step_chunks;
    struct tsa_call phase = *call;
    phase.work = &relay;
    for (; relay.step < groups + behind; relay.step++)
        run_tasks(&phase, 0, relay.stages, relay_task);
    const struct span last = span_at(call, &it, relay.chunks - 1);
    struct item stage = stage_item(call, &relay, 0);
    stage.window.n = last.at + last.n;
    if (!span_is_full(call, &last))
        window_copy(plan, &it.window, &stage.window);
    round_items(call, &(const struct folded){.items = &index}, 1);
}
