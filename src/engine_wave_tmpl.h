/* SPDX-License-Identifier: MIT */
/* Prefill in waves of chunks, where heads do not fill the team. Part of engine_tmpl.h. */

/* Chunk j of an item: tokens t .. t+n-1 of the call in slots from `at` on. */
struct span {
    size_t t, n, at;
};
static struct span span_at(const struct tsa_call *call, size_t open, size_t j)
{
    const size_t chunk = call->plan->chunk;
    struct span s = {.t = j == 0 ? 0 : j * chunk - open, .at = j == 0 ? open : 0};
    const size_t left = call->tokens - s.t, space = chunk - s.at;
    s.n = left < space ? left : space;
    return s;
}
static bool span_is_full(const struct tsa_call *call, const struct span *s)
{
    return s->at + s->n == call->plan->chunk;
}

/* Items first .. first+items-1 and chunks c0 .. c0+chunks-1 of each, one slot per pair. */
struct wave {
    size_t first, items, c0, chunks;
};

static size_t chunk_count(const struct tsa_call *call, size_t open)
{
    return (open + call->tokens + call->plan->chunk - 1) / call->plan->chunk;
}

static void slot_views(const struct tsa_call *call, size_t index, struct sums *s, struct window *w)
{
    T *slot = room_at(call, call->threads) + index * call->plan->slot.total;
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
static void wave_local(const struct tsa_call *call, T *room, const struct wave *wave, size_t task)
{
    const struct tsa_plan *plan = call->plan;
    const size_t j = wave->c0 + task % wave->chunks;
    const struct item it = item_at(call, wave->first + task / wave->chunks);
    if (j >= chunk_count(call, it.open))
        return;
    const struct span span = span_at(call, it.open, j);
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
static void wave_fold(const struct tsa_call *call, const struct wave *wave, size_t task)
{
    const struct tsa_plan *plan = call->plan;
    const size_t block = call->plan->block, features = plan->mono.total;
    const size_t blocks = (features + block - 1) / block;
    const size_t i = task / blocks, f = task % blocks * block;
    const size_t n = features - f < block ? features - f : block;
    const struct item it = item_at(call, wave->first + i);
    for (size_t c = 0; c < wave->chunks; c++) {
        if (wave->c0 + c >= chunk_count(call, it.open))
            return;
        const struct span span = span_at(call, it.open, wave->c0 + c);
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
static void wave_outputs(const struct tsa_call *call, T *room, const struct wave *wave, size_t task)
{
    const struct tsa_plan *plan = call->plan;
    const size_t slot = task / plan->group, j = wave->c0 + slot % wave->chunks;
    const struct item it = item_at(call, wave->first + slot / wave->chunks);
    if (j >= chunk_count(call, it.open))
        return;
    const struct span span = span_at(call, it.open, j);
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

/* Whole items leave threads idle at the end, or from the start. */
static bool worth_waves(const struct tsa_call *call, size_t items)
{
    if (call->slots < 2 && call->plan->wave == 0)
        return false;
    if (call->slots == 0 || call->tokens < 2 * call->plan->chunk)
        return false;
    const size_t rounds = (items + call->threads - 1) / call->threads;
    return call->plan->wave > 0 || 10 * items < 9 * rounds * call->threads;
}

static void prefill_waves(const struct tsa_call *call, T *room, size_t items)
{
    const struct tsa_plan *plan = call->plan;
    const size_t together = items < call->slots ? items : call->slots;
    const size_t blocks = (plan->mono.total + call->plan->block - 1) / call->plan->block;
    struct wave wave = {.chunks = call->slots / together};
    for (wave.first = 0; wave.first < items; wave.first += together) {
        wave.items = items - wave.first < together ? items - wave.first : together;
        size_t most = 0;
        for (size_t i = 0; i < wave.items; i++) {
            const struct item it = item_at(call, wave.first + i);
            const size_t n = chunk_count(call, it.open);
            most = n > most ? n : most;
        }
        for (wave.c0 = 0; wave.c0 < most; wave.c0 += wave.chunks) {
            const size_t slots = wave.items * wave.chunks;
#pragma omp for schedule(dynamic)
            for (size_t i = 0; i < slots; i++)
                wave_local(call, room, &wave, i);
#pragma omp for schedule(static)
            for (size_t i = 0; i < wave.items * blocks; i++)
                wave_fold(call, &wave, i);
#pragma omp for schedule(dynamic)
            for (size_t i = 0; i < slots * plan->group; i++)
                wave_outputs(call, room, &wave, i);
        }
    }
}
