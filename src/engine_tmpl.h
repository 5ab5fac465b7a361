/* SPDX-License-Identifier: MIT */
/* The schedule, for one arithmetic type: what is computed when, by which thread. Included by
 * engine_f32.c and engine_f64.c, which define T, OTHER (the other type that
 * tensors may hold), TSA_DTYPE, KERNELS(plan) and ENGINE.
 *
 * Work items are (sequence, kv head). Items that fill the team run serially, each on one thread;
 * otherwise chunks run in waves: local sums of all chunks of the wave, then folds in chunk order
 * that leave the prefix before each chunk in place of its sums, then the outputs. Bits do not
 * depend on any of this. */

#include <string.h>
#ifdef _OPENMP
#include <omp.h>
#endif

#include "call.h"
#include "fpenv.h"

/* -- views ----------------------------------------------------------------------------------- */

/* The sums of a kv head, or of a prefix of its history. */
struct sums {
    T *hi, *lo, *ones_hi, *ones_lo; /* a prefix has no lo */
    ptrdiff_t ld;
    bool folded; /* anything in them? the chain over features is not executed otherwise */
};
struct window {
    T *kt, *v;
    ptrdiff_t ldk, ldv;
};
/* One kv head of one sequence. */
struct item {
    size_t b, g;
    size_t open; /* tokens in its window at the start of the call */
    struct sums sums;
    struct window window;
};

static struct item item_of(const struct tsa_call *call, size_t b, size_t g)
{
    const struct tsa_plan *plan = call->plan;
    struct item it = {.b = b, .g = g};
    const struct tsa_state *s = call->states[it.b];
    const struct tsa_layer_head *head = tsa_state_layer(s, call->layer);
    struct tsa_layout own;
    const struct tsa_layout *l = &plan->layout;
    if (s->head.chunk != plan->chunk || s->head.terms != plan->terms) {
        tsa_state_layout(s, &own);
        l = &own;
    }
    T *block = tsa_state_block(s, l, sizeof(T), call->layer, it.g);
    it.open = head->window;
    it.sums = (struct sums){block + l->hi,      block + l->lo,     block + l->ones_hi,
                            block + l->ones_lo, (ptrdiff_t)l->ldv, head->tokens > head->window};
    it.window = (struct window){block + l->kt, block + l->v, (ptrdiff_t)l->ldk, (ptrdiff_t)l->ldv};
    return it;
}

static struct item item_at(const struct tsa_call *call, size_t index)
{
    return item_of(call, index / call->plan->kv_heads, index % call->plan->kv_heads);
}

static T *room_at(const struct tsa_call *call, size_t thread)
{
    return (T *)(void *)call->scratch + thread * call->plan->room.total;
}

struct coefficients {
    const T *weight, *coef;
    T scale;
};
static struct coefficients coefficients_of(const struct tsa_plan *plan, size_t head)
{
    const size_t set = plan->coef_sets > 1 ? head : 0;
    return (struct coefficients){(const T *)plan->weight + set * plan->mono.total,
                                 (const T *)plan->coef + set * plan->terms,
                                 ((const T *)plan->scale)[head]};
}

/* -- rows of any dtype ----------------------------------------------------------------------- */

/* n rows from token t on, as T: the caller's memory where it holds T, else converted to `rows`. */
static const T *rows_in(const struct tsa_tensor *x, size_t b, size_t h, size_t t, size_t n,
                        size_t width, T *rows, ptrdiff_t *stride)
{
    const void *src = tsa_row(x, b, h, t);
    *stride = x->token;
    if (x->dtype == TSA_DTYPE)
        return src;
    *stride = (ptrdiff_t)width;
    for (size_t r = 0; r < n; r++)
        for (size_t c = 0; c < width; c++) {
            const ptrdiff_t from = (ptrdiff_t)r * x->token + (ptrdiff_t)c;
            OTHER value; /* of any alignment */
            memcpy(&value, (const char *)src + from * (ptrdiff_t)sizeof value, sizeof value);
            rows[r * width + c] = (T)value;
        }
    return rows;
}

/* Where n output rows go; rows_out_done moves them on if that is not the caller's memory. */
static T *rows_out(const struct tsa_tensor *x, size_t b, size_t h, size_t t, size_t width, T *rows,
                   ptrdiff_t *stride)
{
    *stride = x->token;
    if (x->dtype == TSA_DTYPE)
        return tsa_row(x, b, h, t);
    *stride = (ptrdiff_t)width;
    return rows;
}
static void rows_out_done(const struct tsa_tensor *x, size_t b, size_t h, size_t t, size_t n,
                          size_t width, const T *rows)
{
    if (x->dtype == TSA_DTYPE)
        return;
    void *dst = tsa_row(x, b, h, t);
    for (size_t r = 0; r < n; r++)
        for (size_t c = 0; c < width; c++) {
            const ptrdiff_t to = (ptrdiff_t)r * x->token + (ptrdiff_t)c;
            const OTHER value = (OTHER)rows[r * width + c];
            memcpy((char *)dst + to * (ptrdiff_t)sizeof value, &value, sizeof value);
        }
}

/* -- chunks ---------------------------------------------------------------------------------- */

/* Pack tokens t .. t+n-1 of the call into slots `at` .. of a window. */
static void append(const struct tsa_call *call, T *room, const struct item *it,
                   const struct window *w, size_t at, size_t t, size_t n)
{
    const struct tsa_plan *plan = call->plan;
    const int l2 = plan->normalize == TSA_NORMALIZE_L2;
    for (size_t done = 0; done < n;) {
        const size_t left = n - done,
                     m = left < call->plan->room.queries ? left : call->plan->room.queries;
        ptrdiff_t stride;
        const T *src = rows_in(call->k, it->b, it->g, t + done, m, plan->d,
                               room + call->plan->room.rows, &stride);
        KERNELS(plan)->pack_t(m, plan->d, src, stride, l2, 1, w->kt + at + done, w->ldk);
        src = rows_in(call->v, it->b, it->g, t + done, m, plan->dv, room + call->plan->room.rows,
                      &stride);
        KERNELS(plan)->pack_v(m, plan->dv, src, stride, w->v + (ptrdiff_t)(at + done) * w->ldv,
                              w->ldv);
        done += m;
    }
}

/* acc and den of m packed queries over all folded sums, blocks of features in descending order. */
static void query_state(const struct tsa_call *call, T *room, const struct sums *s, const T *weight,
                        size_t m)
{
    const struct tsa_plan *plan = call->plan;
    const struct tsa_room *r = &call->plan->room;
    const ptrdiff_t ldq = (ptrdiff_t)r->queries;
    KERNELS(plan)->base_t(&plan->mono, m, room + r->qbase, ldq);
    const size_t features = plan->mono.total;
    for (size_t f1 = features; f1 > 0;) {
        const size_t f0 = (f1 - 1) / plan->block * plan->block;
        const int first = f1 == features;
        KERNELS(plan)->psi_t(&plan->mono, f0, f1, m, room + r->qbase, ldq, weight, room + r->psi,
                             ldq);
        KERNELS(plan)->query_ones(m, f1 - f0, room + r->psi, ldq, s->ones_hi + f0, room + r->den,
                                  first);
        KERNELS(plan)->query(m, plan->layout.ldv, f1 - f0, room + r->psi, ldq,
                             s->hi + (ptrdiff_t)f0 * s->ld, s->ld, room + r->acc,
                             (ptrdiff_t)plan->layout.ldv, first);
        f1 = f0;
    }
}

/* Outputs of query head h for tokens t .. t+n-1: the sums, then the window. Causal: token t+i sees
 * the window up to slot at+i; otherwise all see its first `at` slots. */
static void outputs(const struct tsa_call *call, T *room, size_t b, size_t h, const struct sums *s,
                    const struct window *w, bool causal, size_t at, size_t t, size_t n)
{
    const struct tsa_plan *plan = call->plan;
    const struct tsa_room *r = &call->plan->room;
    const struct coefficients c = coefficients_of(plan, h);
    const int l2 = plan->normalize == TSA_NORMALIZE_L2, first = !s->folded;
    const ptrdiff_t ldq = (ptrdiff_t)r->queries, lda = (ptrdiff_t)plan->layout.ldv;
    for (size_t done = 0; done < n;) {
        const size_t left = n - done, m = left < r->queries ? left : r->queries;
        ptrdiff_t stride;
        const T *src = rows_in(call->q, b, h, t + done, m, plan->d, room + r->rows, &stride);
        KERNELS(plan)->pack_t(m, plan->d, src, stride, l2, c.scale, room + r->qbase, ldq);
        if (s->folded)
            query_state(call, room, s, c.weight, m);
        T *dst = rows_out(call->o, b, h, t + done, plan->dv, room + r->rows, &stride);
        for (size_t u = 0; u < m; u += TSA_WINDOW_QUERIES) {
            const size_t mu = m - u < TSA_WINDOW_QUERIES ? m - u : TSA_WINDOW_QUERIES;
            const size_t seen = at + done + u;
            const size_t keys = causal ? seen + mu : at;
            const ptrdiff_t diag = (ptrdiff_t)(causal ? seen : at);
            KERNELS(plan)->scores(keys, mu, plan->d, w->kt, w->ldk, room + r->qbase + u, ldq,
                                  plan->terms, c.coef, room + r->weights, TSA_WINDOW_QUERIES, diag);
            KERNELS(plan)->window_ones(keys, mu, room + r->weights, TSA_WINDOW_QUERIES, diag,
                                       room + r->den + u, first);
            KERNELS(plan)->window(mu, plan->dv, keys, diag, room + r->weights, TSA_WINDOW_QUERIES,
                                  w->v, w->ldv, room + r->acc + (ptrdiff_t)u * lda, lda, first,
                                  room + r->den + u, dst + (ptrdiff_t)u * stride, stride);
        }
        rows_out_done(call->o, b, h, t + done, m, plan->dv, room + r->rows);
        done += m;
    }
}

/* Key monomials of a whole window below the top degree, token-major. */
static void key_base(const struct tsa_call *call, T *room, const struct window *w)
{
    const struct tsa_plan *plan = call->plan;
    T *base = room + call->plan->room.kbase;
    const ptrdiff_t ld = (ptrdiff_t)call->plan->room.ld_base;
    KERNELS(plan)->transpose(plan->d, plan->chunk, w->kt, w->ldk, base, ld);
    KERNELS(plan)->base_k(&plan->mono, plan->chunk, base, ld);
}

/* Fold a full window into the sums, features f0 .. f1-1, after key_base. */
static void fold_features(const struct tsa_call *call, T *room, const struct window *w,
                          const struct sums *s, size_t f0, size_t f1)
{
    const struct tsa_plan *plan = call->plan;
    const struct tsa_room *r = &call->plan->room;
    T *phi = room + r->phi, *ones = room + r->sums;
    const ptrdiff_t ldp = (ptrdiff_t)r->ld_phi;
    for (size_t f = f0; f < f1;) {
        const size_t n = f1 - f < plan->block ? f1 - f : plan->block;
        KERNELS(plan)->phi_k(&plan->mono, f, f + n, plan->chunk, room + r->kbase,
                             (ptrdiff_t)r->ld_base, phi, ldp);
        T *hi = s->hi + (ptrdiff_t)f * s->ld;
        if (s->lo) {
            KERNELS(plan)->ones_k(n, plan->chunk, phi, ldp, ones);
            KERNELS(plan)->fold(n, s->ones_hi + f, s->ones_lo + f, ones, NULL);
            KERNELS(plan)->update_fold(n, plan->layout.ldv, plan->chunk, phi, ldp, w->v, w->ldv, hi,
                                       s->lo + (ptrdiff_t)f * s->ld, s->ld);
        } else { /* local sums of one chunk */
            KERNELS(plan)->ones_k(n, plan->chunk, phi, ldp, s->ones_hi + f);
            KERNELS(plan)->update(n, plan->layout.ldv, plan->chunk, phi, ldp, w->v, w->ldv, hi,
                                  s->ld);
        }
        f += n;
    }
}

static void fold_window(const struct tsa_call *call, T *room, const struct window *w,
                        const struct sums *s)
{
    key_base(call, room, w);
    fold_features(call, room, w, s, 0, call->plan->mono.total);
}

/* -- prefill and absorb ---------------------------------------------------------------------- */

static void prefill_item(const struct tsa_call *call, T *room, size_t index)
{
    const struct tsa_plan *plan = call->plan;
    struct item it = item_at(call, index);
    size_t at = it.open;
    for (size_t t = 0; t < call->tokens;) {
        const size_t left = call->tokens - t, space = plan->chunk - at;
        const size_t n = left < space ? left : space;
        append(call, room, &it, &it.window, at, t, n);
        if (call->q)
            for (size_t h = it.g * plan->group; h < (it.g + 1) * plan->group; h++)
                outputs(call, room, it.b, h, &it.sums, &it.window, true, at, t, n);
        at += n;
        t += n;
        if (at == plan->chunk) {
            fold_window(call, room, &it.window, &it.sums);
            it.sums.folded = true;
            at = 0;
        }
    }
}

#ifdef _OPENMP /* without, there are no waves */

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
        fold_window(call, room, &w, &s);
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
        outputs(call, room, it.b, it.g * plan->group + task % plan->group, &s, &w, true, span.at,
                span.t, span.n);
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

#endif

/* -- teams ----------------------------------------------------------------------------------- */

typedef void (*task_fn)(const struct tsa_call *call, T *room, size_t index);

/* Run tasks 0 .. count-1, each with the room of its thread. The caller has entered the arithmetic's
 * floating-point mode; the team's threads do so themselves. */
static void run_tasks(const struct tsa_call *call, size_t count, task_fn task)
{
#ifdef _OPENMP
    const size_t threads = call->threads < count ? call->threads : count;
    if (threads > 1) {
#pragma omp parallel num_threads((int)threads)
        {
            const struct tsa_fpenv saved = tsa_fpenv_enter();
            T *room = room_at(call, (size_t)omp_get_thread_num());
#pragma omp for schedule(dynamic)
            for (size_t i = 0; i < count; i++)
                task(call, room, i);
            tsa_fpenv_leave(saved);
        }
        return;
    }
#endif
    for (size_t i = 0; i < count; i++)
        task(call, room_at(call, 0), i);
}

/* -- single tokens --------------------------------------------------------------------------- */

/* One row: a query head and the kv head it reads. */
struct token {
    const struct item *item;
    size_t h;
};

/* The queries of n <= TSA_TOKEN_ROWS rows. */
static void token_queries(const struct tsa_call *call, T *room, const struct token *tokens,
                          size_t n)
{
    const struct tsa_plan *plan = call->plan;
    const int l2 = plan->normalize == TSA_NORMALIZE_L2;
    for (size_t i = 0; i < n; i++) {
        ptrdiff_t stride;
        const T *src = rows_in(call->q, tokens[i].item->b, tokens[i].h, 0, 1, plan->d,
                               room + plan->room.rows, &stride);
        KERNELS(plan)->pack_t(1, plan->d, src, stride, l2, coefficients_of(plan, tokens[i].h).scale,
                              room + plan->room.qbase + i * plan->room.ld_base, 1);
    }
}

/* Their outputs, value columns c0 .. c1-1 of the padded ones: features, weights of the windows, the
 * chains over the sums of all rows together, then those over the windows. These hold `more` tokens
 * than the states count. */
static void token_outputs(const struct tsa_call *call, T *room, const struct token *tokens,
                          size_t n, size_t more, size_t c0, size_t c1)
{
    const struct tsa_plan *plan = call->plan;
    const struct tsa_room *r = &plan->room;
    const ptrdiff_t ldv = (ptrdiff_t)plan->layout.ldv;
    T *acc = room + r->acc, *den = room + r->den, *w = room + r->weights, *q = room + r->qbase;
    const T *hi[TSA_TOKEN_ROWS], *ones[TSA_TOKEN_ROWS];
    const size_t ldw = tsa_round_up(plan->chunk, TSA_ROW_PAD);
    const size_t width = (c1 < plan->dv ? c1 : plan->dv) - c0;
    size_t rows = 0; /* of psi, acc and den */
    for (size_t i = 0; i < n; i++, q += r->ld_base) {
        const struct item *it = tokens[i].item;
        const struct coefficients c = coefficients_of(plan, tokens[i].h);
        if (it->sums.folded) {
            KERNELS(plan)->psi_k(&plan->mono, q, c.weight, room + r->psi + rows * r->ld_psi);
            hi[rows] = it->sums.hi + c0;
            ones[rows++] = it->sums.ones_hi;
        }
        KERNELS(plan)->decode_scores(it->open + more, plan->d, it->window.kt, it->window.ldk, q,
                                     plan->terms, c.coef, w + i * ldw);
    }
    if (rows > 0)
        KERNELS(plan)->decode_state(rows, c1 - c0, plan->mono.total, room + r->psi,
                                    (ptrdiff_t)r->ld_psi, hi, ldv, ones, acc, ldv, den);
    for (size_t i = 0; i < n; i++) {
        const struct item *it = tokens[i].item;
        ptrdiff_t stride;
        T *dst = rows_out(call->o, it->b, tokens[i].h, 0, plan->dv, room + r->rows, &stride);
        KERNELS(plan)->decode_window(width, it->open + more, w + i * ldw, it->window.v + c0, ldv,
                                     acc, *den, !it->sums.folded, dst + c0);
        rows_out_done(call->o, it->b, tokens[i].h, 0, 1, plan->dv, room + r->rows);
        if (it->sums.folded) {
            acc += ldv;
            den++;
        }
    }
}

/* Kv heads per task: enough to fill TSA_TOKEN_ROWS, unless that leaves threads idle. */
static size_t items_together(const struct tsa_call *call)
{
    const size_t group = call->plan->group, items = call->batch * call->plan->kv_heads;
    const size_t fill = group < TSA_TOKEN_ROWS ? TSA_TOKEN_ROWS / group : 1;
    const size_t share = (items + call->threads - 1) / call->threads;
    return share < fill ? share : fill;
}

static size_t token_tasks(const struct tsa_call *call)
{
    const size_t items = call->batch * call->plan->kv_heads, together = items_together(call);
    return (items + together - 1) / together;
}

/* One token of some kv heads: attend from all their query heads, append it, fold. Without k the
 * states are only read. Nothing is read back soon after it was stored where that can be helped: a
 * load that spans stores waits for them. */
static void token_task(const struct tsa_call *call, T *room, size_t index)
{
    const struct tsa_plan *plan = call->plan;
    const size_t total = call->batch * plan->kv_heads, together = items_together(call);
    const size_t first = index * together, left = total - first;
    const size_t count = left < together ? left : together, more = call->k ? 1 : 0;
    const size_t rows = count * plan->group;
    struct item items[TSA_TOKEN_ROWS];
    struct token tokens[TSA_TOKEN_ROWS];
    items[0] = item_at(call, first);
    for (size_t i = 1; i < count; i++) {
        const struct item *it = &items[i - 1];
        const bool last = it->g + 1 == plan->kv_heads;
        items[i] = item_of(call, last ? it->b + 1 : it->b, last ? 0 : it->g + 1);
    }
    const struct item *it = items;
    size_t h = it->g * plan->group;
    for (size_t row = 0; row < rows; row += TSA_TOKEN_ROWS) {
        const size_t n = rows - row < TSA_TOKEN_ROWS ? rows - row : TSA_TOKEN_ROWS;
        for (size_t i = 0; i < n; i++) {
            tokens[i] = (struct token){it, h};
            if (++h == (it->g + 1) * plan->group && i + 1 + row < rows) {
                it++;
                h = it->g * plan->group;
            }
        }
        token_queries(call, room, tokens, n);
        for (size_t i = 0; more && row == 0 && i < count; i++)
            append(call, room, &items[i], &items[i].window, items[i].open, 0, 1);
        token_outputs(call, room, tokens, n, more, 0, plan->layout.ldv);
    }
    for (size_t i = 0; more && i < count; i++)
        if (items[i].open + 1 == plan->chunk)
            fold_window(call, room, &items[i].window, &items[i].sums);
}

/* Parts of the value columns, each a task, where a few large states leave threads idle. Values of
 * other types are not split: their rows are converted whole. */
static size_t column_parts(const struct tsa_call *call)
{
    const struct tsa_plan *plan = call->plan;
    const size_t items = call->batch * plan->kv_heads, unit = TSA_ALIGN / sizeof(T);
    const size_t columns = plan->layout.ldv / unit, share = call->threads / items;
    if (call->o->dtype != TSA_DTYPE ||
        plan->mono.total * plan->layout.ldv * sizeof(T) < TSA_SPLIT_BYTES)
        return 1;
    return share < columns ? (share > 1 ? share : 1) : columns;
}

static void column_task(const struct tsa_call *call, T *room, size_t index)
{
    const struct tsa_plan *plan = call->plan;
    const size_t parts = column_parts(call), unit = TSA_ALIGN / sizeof(T);
    const size_t part = index % parts, columns = plan->layout.ldv / unit;
    const struct item item = item_at(call, index / parts);
    struct token tokens[TSA_TOKEN_ROWS];
    for (size_t row = 0; row < plan->group; row += TSA_TOKEN_ROWS) {
        const size_t left = plan->group - row, n = left < TSA_TOKEN_ROWS ? left : TSA_TOKEN_ROWS;
        for (size_t i = 0; i < n; i++)
            tokens[i] = (struct token){&item, item.g * plan->group + row + i};
        token_queries(call, room, tokens, n);
        token_outputs(call, room, tokens, n, call->k ? 1 : 0, columns * part / parts * unit,
                      columns * (part + 1) / parts * unit);
    }
}

/* A share of the features of a full window: threads x items tasks. */
static void fold_task(const struct tsa_call *call, T *room, size_t index)
{
    const struct tsa_plan *plan = call->plan;
    const struct item item = item_at(call, index / call->threads);
    const size_t part = index % call->threads, features = plan->mono.total;
    const size_t blocks = (features + plan->block - 1) / plan->block;
    const size_t f0 = blocks * part / call->threads * plan->block;
    const size_t f1 = blocks * (part + 1) / call->threads * plan->block;
    if (item.open + 1 != plan->chunk || f0 >= features || f0 == f1)
        return;
    key_base(call, room, &item.window);
    fold_features(call, room, &item.window, &item.sums, f0, f1 < features ? f1 : features);
}

static void decode_columns(const struct tsa_call *call)
{
    const size_t items = call->batch * call->plan->kv_heads;
    for (size_t i = 0; call->k && i < items; i++) {
        const struct item item = item_at(call, i);
        append(call, room_at(call, 0), &item, &item.window, item.open, 0, 1);
    }
    run_tasks(call, items * column_parts(call), column_task);
    if (call->k)
        run_tasks(call, items * call->threads, fold_task);
}

static void decode(const struct tsa_call *call)
{
    if (call->threads > 1 && column_parts(call) > 1) {
        decode_columns(call);
        return;
    }
    const struct tsa_plan *plan = call->plan;
    const size_t bytes = plan->mono.total * plan->layout.ldv * sizeof(T);
    const size_t worth = 1 + call->batch * plan->kv_heads * bytes / (TSA_SPLIT_BYTES / 2);
    struct tsa_call team = *call;
    if (worth < team.threads)
        team.threads = worth;
    run_tasks(&team, token_tasks(&team), token_task);
}

static void prefill(const struct tsa_call *call)
{
    if (call->tokens == 1 && call->q) {
        decode(call);
        return;
    }
    const size_t items = call->batch * call->plan->kv_heads;
#ifdef _OPENMP
    if (call->threads > 1 && worth_waves(call, items)) {
#pragma omp parallel num_threads((int)call->threads)
        {
            const struct tsa_fpenv saved = tsa_fpenv_enter();
            prefill_waves(call, room_at(call, (size_t)omp_get_thread_num()), items);
            tsa_fpenv_leave(saved);
        }
        return;
    }
#endif
    run_tasks(call, items, prefill_item);
}

/* -- query ----------------------------------------------------------------------------------- */

static size_t query_blocks(const struct tsa_call *call)
{
    return (call->tokens + call->plan->room.queries - 1) / call->plan->room.queries;
}

static void query_task(const struct tsa_call *call, T *room, size_t index)
{
    const struct tsa_plan *plan = call->plan;
    const size_t blocks = query_blocks(call), block = index % blocks;
    const size_t h = index / blocks % plan->heads, b = index / blocks / plan->heads;
    const struct item it = item_at(call, b * plan->kv_heads + h / plan->group);
    const size_t t = block * call->plan->room.queries, left = call->tokens - t;
    outputs(call, room, b, h, &it.sums, &it.window, false, it.open, t,
            left < call->plan->room.queries ? left : call->plan->room.queries);
}

static void query(const struct tsa_call *call)
{
    if (call->tokens == 1) {
        decode(call);
        return;
    }
    run_tasks(call, call->batch * call->plan->heads * query_blocks(call), query_task);
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
    for (size_t k = 0; k < call->keys; k += TSA_WINDOW_QUERIES) {
        const size_t left = call->keys - k,
                     n = left < TSA_WINDOW_QUERIES ? left : TSA_WINDOW_QUERIES;
        const T *src = rows_in(call->k, b, g, k, n, plan->d, room + r->rows, &stride);
        KERNELS(plan)->pack_t(n, plan->d, src, stride, l2, 1, kt, TSA_WINDOW_QUERIES);
        src = rows_in(call->v, b, g, k, n, plan->dv, room + r->rows, &stride);
        KERNELS(plan)->pack_v(n, plan->dv, src, stride, v, lda);
        for (size_t i = 0; i < m; i++) {
            size_t seen = n;
            if (call->causal) { /* query t+i sees keys 0 .. keys - queries + t + i */
                const size_t end = call->keys - call->tokens + t + i + 1;
                seen = end <= k ? 0 : end - k < n ? end - k : n;
            }
            KERNELS(plan)->softmax(seen, plan->d, kt, TSA_WINDOW_QUERIES, q + i * plan->d, plan->dv,
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
    run_tasks(call, call->batch * call->plan->heads * query_blocks(call), softmax_task);
}

const struct tsa_engine ENGINE = {prefill, decode, query, softmax};
