/* SPDX-License-Identifier: MIT */
/* Prefill of one item by the whole team, where items do not fill it. Part of engine_tmpl.h. */

/* -- waves of chunks ------------------------------------------------------------------------- */

/* Chunk j of an item: tokens t .. t+n-1 of the tensors in slots from `at` on. */
struct span {
    size_t t, n, at;
};
static struct span span_at(const struct tsa_call *call, const struct item *it, size_t j)
{
    const size_t chunk = call->plan->chunk;
    struct span s = {.t = it->t + (j == 0 ? 0 : j * chunk - it->open), .at = j == 0 ? it->open : 0};
    const size_t left = it->end - s.t, space = chunk - s.at;
    s.n = left < space ? left : space;
    return s;
}
static bool span_is_full(const struct tsa_call *call, const struct span *s)
{
    return s->at + s->n == call->plan->chunk;
}

/* Chunks c0 .. c0+chunks-1 of each of some items, one slot per pair. */
struct wave {
    const size_t *items;
    size_t count, c0, chunks;
};
static const struct wave *wave_of(const struct tsa_call *call)
{
    return call->work;
}

static size_t chunk_count(const struct tsa_call *call, const struct item *it)
{
    return (it->open + it->end - it->t + call->plan->chunk - 1) / call->plan->chunk;
}

static void slot_views(const struct tsa_call *call, size_t index, struct sums *s, struct window *w)
{
    T *slot = room_at(call, call->team.threads) + index * call->plan->slot.total;
    const struct tsa_layout *l = &call->plan->layout;
    *s = (struct sums){slot + call->plan->slot.sums,
                       NULL,
                       slot + call->plan->slot.ones,
                       NULL,
                       (ptrdiff_t)l->ldv,
                       true};
    *w = (struct window){slot + call->plan->slot.kt, slot + call->plan->slot.v, (ptrdiff_t)l->ldk,
                         (ptrdiff_t)l->ldv};
}

/* Phase 1: pack a chunk, and its local sums if it is full. */
static void wave_local(const struct tsa_call *call, T *room, size_t task)
{
    const struct tsa_plan *plan = call->plan;
    const struct wave *wave = wave_of(call);
    const size_t j = wave->c0 + task % wave->chunks;
    const struct item it = item_at(call, wave->items[task / wave->chunks]);
    if (j >= chunk_count(call, &it))
        return;
    const struct span span = span_at(call, &it, j);
    struct sums s;
    struct window w;
    slot_views(call, task, &s, &w);
    if (span.at > 0) { /* the tokens that were waiting */
        for (size_t i = 0; i < plan->d; i++)
            memcpy(w.kt + (ptrdiff_t)i * w.ldk, it.window.kt + (ptrdiff_t)i * it.window.ldk,
                   span.at * sizeof(T));
        memcpy(w.v, it.window.v, span.at * (size_t)w.ldv * sizeof(T));
    }
    append(call, room, &it, &w, span.at, span.t, span.n);
    if (span_is_full(call, &span))
        pass(plan, room, &s, 0, 0, 0, &w, NULL);
}

/* Phase 2: fold the wave's chunks in order, for one block of features of one item. */
static void wave_fold(const struct tsa_call *call, T *room, size_t task)
{
    const struct tsa_plan *plan = call->plan;
    const struct wave *wave = wave_of(call);
    const size_t block = call->plan->block, features = plan->mono.total;
    const size_t blocks = (features + block - 1) / block;
    const size_t i = task / blocks, f = task % blocks * block;
    const size_t n = features - f < block ? features - f : block;
    const struct item it = item_at(call, wave->items[i]);
    (void)room;
    for (size_t c = 0; c < wave->chunks; c++) {
        if (wave->c0 + c >= chunk_count(call, &it))
            return;
        const struct span span = span_at(call, &it, wave->c0 + c);
        struct sums s;
        struct window w;
        slot_views(call, i * wave->chunks + c, &s, &w);
        T *local = s.hi + (ptrdiff_t)f * s.ld, *ones = s.ones_hi + f;
        T *hi = it.sums.hi + (ptrdiff_t)f * it.sums.ld,
          *lo = it.sums.lo + (ptrdiff_t)f * it.sums.ld;
        if (span_is_full(call, &span)) {
            KERNELS(plan)->fold(n * (size_t)s.ld, hi, lo, local, local);
            KERNELS(plan)->fold(n, it.sums.ones_hi + f, it.sums.ones_lo + f, ones, ones);
        } else {
            memcpy(local, hi, n * (size_t)s.ld * sizeof(T));
            memcpy(ones, it.sums.ones_hi + f, n * sizeof(T));
        }
    }
}

/* Phase 3: outputs of one query head of one chunk; its first head keeps an open window. */
static void wave_outputs(const struct tsa_call *call, T *room, size_t task)
{
    const struct tsa_plan *plan = call->plan;
    const struct wave *wave = wave_of(call);
    const size_t slot = task / plan->group, j = wave->c0 + slot % wave->chunks;
    const struct item it = item_at(call, wave->items[slot / wave->chunks]);
    if (j >= chunk_count(call, &it))
        return;
    const struct span span = span_at(call, &it, j);
    struct sums s;
    struct window w;
    slot_views(call, slot, &s, &w);
    s.folded = it.sums.folded || j > 0;
    if (call->q)
        outputs(call, room, it.b, it.g * plan->group + task % plan->group, 1, &s, &w, true, span.at,
                span.t, span.n, false, NULL);
    if (task % plan->group == 0 && !span_is_full(call, &span)) {
        for (size_t i = 0; i < plan->d; i++)
            memcpy(it.window.kt + (ptrdiff_t)i * it.window.ldk, w.kt + (ptrdiff_t)i * w.ldk,
                   (span.at + span.n) * sizeof(T));
        memcpy(it.window.v, w.v, (span.at + span.n) * (size_t)w.ldv * sizeof(T));
    }
}

static void prefill_waves(const struct tsa_call *call, const size_t *items, size_t count)
{
    const struct tsa_plan *plan = call->plan;
    const size_t together = count < call->wave_slots ? count : call->wave_slots;
    const size_t blocks = (plan->mono.total + call->plan->block - 1) / call->plan->block;
    struct wave wave = {.chunks = call->wave_slots / together};
    struct tsa_call phase = *call;
    phase.work = &wave;
    for (size_t first = 0; first < count; first += together) {
        wave.items = items + first;
        wave.count = count - first < together ? count - first : together;
        size_t most = 0;
        for (size_t i = 0; i < wave.count; i++) {
            const struct item it = item_at(call, wave.items[i]);
            const size_t n = chunk_count(call, &it);
            most = n > most ? n : most;
        }
        for (wave.c0 = 0; wave.c0 < most; wave.c0 += wave.chunks) {
            const size_t slots = wave.count * wave.chunks;
            run_tasks(&phase, 0, slots, wave_local);
            run_tasks(&phase, 0, wave.count * blocks, wave_fold);
            run_tasks(&phase, 0, slots * plan->group, wave_outputs);
        }
    }
}

/* -- sums too large for that: one chunk at a time, tiles of its outputs, then parts of the fold -- */

struct step {
    const struct item *item;
    size_t at, t, n, tiles;
};

static void step_outputs(const struct tsa_call *call, T *room, size_t task)
{
    const struct step *step = call->work;
    const struct item *it = step->item;
    const size_t h = it->g * call->plan->group + task / step->tiles;
    const size_t from = task % step->tiles * TSA_TILE_TOKENS;
    outputs(call, room, it->b, h, 1, &it->sums, &it->window, true, step->at + from, step->t + from,
            tile_tokens(step->n - from), false, NULL);
}

static void step_fold(const struct tsa_call *call, T *room, size_t task)
{
    const struct step *step = call->work;
    fold_part(call->plan, room, step->item, task, call->team.threads);
}

static void prefill_steps(const struct tsa_call *call, size_t index)
{
    const struct tsa_plan *plan = call->plan;
    struct item it = item_at(call, index);
    struct step step = {.item = &it, .at = it.open};
    struct tsa_call phase = *call;
    phase.work = &step;
    for (step.t = it.t; step.t < it.end; step.t += step.n) {
        const size_t left = it.end - step.t, space = plan->chunk - step.at;
        step.n = left < space ? left : space;
        step.tiles = (step.n + TSA_TILE_TOKENS - 1) / TSA_TILE_TOKENS;
        append(call, room_at(call, 0), &it, &it.window, step.at, step.t, step.n);
        if (call->q)
            run_tasks(&phase, 0, plan->group * step.tiles, step_outputs);
        step.at += step.n;
        if (step.at < plan->chunk)
            continue;
        run_tasks(&phase, 0, call->team.threads, step_fold);
        step.at = 0;
        it.sums.folded = true;
    }
}
