/* SPDX-License-Identifier: MIT */
/* Prefill of items by the whole team, in waves of chunks. Part of engine_tmpl.h. */

/* Chunks c0 .. c0+chunks-1 of each of some items, one at a time. */
struct wave {
    const size_t *items;
    size_t count, c0, chunks;
};

/* One chunk of a wave: its item, and its own sums and window. */
struct wave_chunk {
    struct kv_head kv;
    bool exists; /* Else the item has ended before */
    struct tsa_span span;
    struct sums sums; /* its local sums, then the prefix before it */
    struct window window;
};
static struct wave_chunk wave_chunk_at(const struct tsa_call *call, size_t index)
{
    const struct tsa_plan *plan = call->plan;
    const struct tsa_wave_chunk *parts = &plan->wave_chunk;
    const struct wave *wave = call->work;
    const size_t j = wave->c0 + index % wave->chunks;
    T *own = scratch_at(call, call->team.threads) + index * parts->total;
    struct wave_chunk c = {.kv = kv_head_at(call, wave->items[index / wave->chunks])};
    c.exists = j < tsa_chunk_count(call, &c.kv.item);
    if (!c.exists)
        return c;
    c.span = tsa_span_at(call, &c.kv.item, j);
    c.sums = (struct sums){.hi = own + parts->sums,
                           .ones_hi = own + parts->ones,
                           .ld = (ptrdiff_t)plan->layout.ldv,
                           .folded = c.kv.sums.folded || j > 0};
    const struct tsa_layout l = {.kt = parts->kt,
                                 .v = parts->v,
                                 .ldk = plan->layout.ldk,
                                 .ldv = plan->layout.ldv,
                                 .decay = parts->decay,
                                 .past = plan->layout.past > 0 ? parts->past : 0};
    c.window = section_window(own, &l, c.span.at + c.span.n);
    if (j == 0)
        c.window.e = c.kv.window.e;
    return c;
}

/* Phase 1: pack a chunk, and its local sums if it is full. */
static void wave_local(const struct context *x, size_t task)
{
    struct wave_chunk c = wave_chunk_at(x->call, task);
    if (!c.exists)
        return;
    c.window.n = 0;
    if (c.span.at > 0) /* the tokens that were waiting */
        window_copy(x->plan, &c.window, &c.kv.window);
    append(x, &c.kv.item, &c.window, c.span.t, c.span.n, false);
    if (c.window.n == x->plan->chunk) {
        const struct window folded = window_to_fold(x, &c.window, c.span.at);
        fold_window(x, &c.sums, &folded, NULL);
        if (c.window.past)
            c.window.past[0] = folded.e;
    }
}

/* Phase 2: fold the wave's chunks in order, for one block of features of one item. */
static void wave_fold(const struct context *x, size_t task)
{
    const struct tsa_plan *plan = x->plan;
    const struct wave *wave = x->call->work;
    const size_t block = plan->block, features = plan->mono.total;
    const size_t blocks = (features + block - 1) / block;
    const size_t i = task / blocks, f = task % blocks * block;
    const size_t n = features - f < block ? features - f : block;
    for (size_t j = 0; j < wave->chunks; j++) {
        const struct wave_chunk c = wave_chunk_at(x->call, i * wave->chunks + j);
        if (!c.exists)
            return;
        const struct sums *s = &c.sums, *all = &c.kv.sums;
        T *local = s->hi + (ptrdiff_t)f * s->ld, *ones = s->ones_hi + f;
        T *hi = all->hi + (ptrdiff_t)f * all->ld, *lo = all->lo + (ptrdiff_t)f * all->ld;
        if (tsa_span_is_full(x->call, &c.span)) {
            const T e = c.window.past ? c.window.past[0] : 1;
            KERNELS(plan)->fold(n * (size_t)s->ld, hi, lo, e, local, local);
            KERNELS(plan)->fold(n, all->ones_hi + f, all->ones_lo + f, e, ones, ones);
        } else {
            memcpy(local, hi, n * (size_t)s->ld * sizeof(T));
            memcpy(ones, all->ones_hi + f, n * sizeof(T));
        }
    }
}

/* Phase 3: outputs of one query head of one chunk; its first head keeps an open window. */
static void wave_outputs(const struct context *x, size_t task)
{
    const size_t group = x->plan->group, head = task % group;
    struct wave_chunk c = wave_chunk_at(x->call, task / group);
    const struct tsa_item *it = &c.kv.item;
    if (!c.exists)
        return;
    if (tsa_call_has_queries(x->call)) {
        const struct rows r = {it->b, it->g * group + head, c.span.t, c.span.n};
        outputs(x, &c.sums, &c.window, &(const struct job){r, 1, true, false}, NULL);
    }
    if (head == 0 && !tsa_span_is_full(x->call, &c.span))
        window_copy(x->plan, &c.kv.window, &c.window);
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
            const struct kv_head kv = kv_head_at(call, wave.items[i]);
            const size_t n = tsa_chunk_count(call, &kv.item);
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
