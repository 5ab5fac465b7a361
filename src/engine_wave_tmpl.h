/* SPDX-License-Identifier: MIT */
/* Prefill of items by the whole team, in waves of chunks. Part of engine_tmpl.h. */

/* Chunks c0 .. c0+chunks-1 of each of some items, one at a time. */
struct wave {
    const size_t *items;
    size_t count, c0, chunks;
};
static const struct wave *wave_of(const struct tsa_call *call)
{
    return call->work;
}

static void wave_chunk_views(const struct tsa_call *call, size_t index, struct sums *s,
                             struct window *w)
{
    T *parts = scratch_at(call, call->team.threads) + index * call->plan->wave_chunk.total;
    const struct tsa_layout *l = &call->plan->layout;
    *s = (struct sums){.hi = parts + call->plan->wave_chunk.sums,
                       .ones_hi = parts + call->plan->wave_chunk.ones,
                       .ld = (ptrdiff_t)l->ldv,
                       .folded = true};
    *w = (struct window){0, parts + call->plan->wave_chunk.kt, parts + call->plan->wave_chunk.v,
                         (ptrdiff_t)l->ldk, (ptrdiff_t)l->ldv};
}

/* Phase 1: pack a chunk, and its local sums if it is full. */
static void wave_local(const struct tsa_call *call, T *scratch, size_t task)
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
    wave_chunk_views(call, task, &s, &w);
    if (j == 0)
        window_copy(plan, &w, &it.window); /* the tokens that were waiting */
    append(call, scratch, &it, &w, span.t, span.n, false);
    if (w.n == plan->chunk)
        fold_window(plan, scratch, &s, &w, NULL);
}

/* Phase 2: fold the wave's chunks in order, for one block of features of one item. */
static void wave_fold(const struct tsa_call *call, T *scratch, size_t task)
{
    const struct tsa_plan *plan = call->plan;
    const struct wave *wave = wave_of(call);
    const size_t block = plan->block, features = plan->mono.total;
    const size_t blocks = (features + block - 1) / block;
    const size_t i = task / blocks, f = task % blocks * block;
    const size_t n = features - f < block ? features - f : block;
    const struct item it = item_at(call, wave->items[i]);
    (void)scratch;
    for (size_t c = 0; c < wave->chunks; c++) {
        if (wave->c0 + c >= chunk_count(call, &it))
            return;
        const struct span span = span_at(call, &it, wave->c0 + c);
        struct sums s;
        struct window w;
        wave_chunk_views(call, i * wave->chunks + c, &s, &w);
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
static void wave_outputs(const struct tsa_call *call, T *scratch, size_t task)
{
    const struct tsa_plan *plan = call->plan;
    const struct wave *wave = wave_of(call);
    const size_t chunk = task / plan->group, j = wave->c0 + chunk % wave->chunks;
    struct item it = item_at(call, wave->items[chunk / wave->chunks]);
    if (j >= chunk_count(call, &it))
        return;
    const struct span span = span_at(call, &it, j);
    struct sums s;
    struct window w;
    wave_chunk_views(call, chunk, &s, &w);
    w.n = span.at + span.n;
    s.folded = it.sums.folded || j > 0;
    if (call->q)
        outputs(call, scratch, it.b, it.g * plan->group + task % plan->group, 1, &s, &w, true,
                span.t, span.n, false, NULL);
    if (task % plan->group == 0 && !span_is_full(call, &span))
        window_copy(plan, &it.window, &w);
}

static void prefill_waves(const struct tsa_call *call, const size_t *items, size_t count)
{
    const struct tsa_plan *plan = call->plan;
    const size_t fit = tsa_wave_chunks(plan, call->team.threads);
    const size_t together = count < fit ? count : fit;
    const size_t blocks = (plan->mono.total + plan->block - 1) / plan->block;
    struct wave wave = {.chunks = fit / together};
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
            const size_t chunks = wave.count * wave.chunks;
            run_tasks(&phase, 0, chunks, wave_local);
            run_tasks(&phase, 0, wave.count * blocks, wave_fold);
            run_tasks(&phase, 0, chunks * plan->group, wave_outputs);
        }
    }
    round_items(call, &(const struct folded){.items = items}, count);
}
