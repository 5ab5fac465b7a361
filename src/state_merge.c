/* SPDX-License-Identifier: MIT */
/* Merging of two or many states, and export of their sums, open windows included. */
#include "config.h"

#include "call.h"
#include "fpenv.h"

#include <math.h>
#include <string.h>

/* Elements of the arrays that folding a window needs. */
struct scratch_sizes {
    size_t base, phi, pairs, sums, ones, total;
};

/* false if they do not fit in size_t. */
static bool scratch_sizes(const struct tsa_plan *p, struct scratch_sizes *s)
{
    size_t block = tsa_round_up(p->block, TSA_ROW_PAD), sum;
    s->phi = block * TSA_TILE_TOKENS;
    s->pairs = 0;
    if (p->high < p->mono.total &&
        !tsa_size_mul(TSA_TILE_TOKENS / 2, block + p->layout.ldv, &s->pairs))
        return false;
    s->ones = block + TSA_ROW_PAD;
    return tsa_size_mul(p->mono.rows, p->scratch.keys, &s->base) &&
           tsa_size_mul(block, p->layout.ldv, &s->sums) && tsa_size_mul(s->sums, 3, &sum) &&
           tsa_size_add(sum, 3 * s->ones + s->phi, &sum) && tsa_size_add(sum, s->pairs, &sum) &&
           tsa_size_add(sum, s->base, &s->total);
}

/* Many states on their way into one. */
struct reduction {
    const struct tsa_plan *plan;
    struct tsa_state *dst;
    const struct tsa_state *const *states;
    size_t count;
    struct scratch_sizes sizes;
    size_t blocks; /* of features */
    char *scratch; /* of threads, */
    size_t stride; /* so many bytes each */
};
/* Features f0..f1-1 of one kv head. */
struct range {
    size_t layer, kv_head, f0, f1;
};

/* Of a tree over n >= 2. */
static size_t left_part(size_t n)
{
    size_t part = 1;
    while (part < n - part)
        part *= 2;
    return part;
}

static size_t first_with_tokens(const struct reduction *r, size_t from, size_t to, size_t layer)
{
    while (from < to && tsa_state_layer(r->states[from], layer)->tokens == 0)
        from++;
    return from;
}

/* Only f32 plans have any. */
#define TSA_PAIR_KERNELS_OF(p) ((const struct TSA_PAIR_KERNELS *)(const void *)(p)->pair_kernels)

#define T float
#define TSA_KERNELS tsa_kernels_f32
#define TSA_PAIR_KERNELS tsa_pair_kernels_f32
#define TSA_TABLE f32
#define TSA_NAME(x) x##_f32
#include "state_merge_tmpl.h"

#define T double
#define TSA_KERNELS tsa_kernels_f64
#define TSA_PAIR_KERNELS tsa_pair_kernels_f64
#define TSA_TABLE f64
#define TSA_NAME(x) x##_f64
#include "state_merge_tmpl.h"

size_t tsa_merge_scratch_bytes(const struct tsa_plan *plan)
{
    struct scratch_sizes s;
    size_t bytes;
    return scratch_sizes(plan, &s) && tsa_size_mul(s.total, plan->elem, &bytes) ? bytes : SIZE_MAX;
}

static enum tsa_status no_scratch(struct tsa_error *err, size_t bytes)
{
    return tsa_fail(err, TSA_ENOMEM, "ws", "no memory for %zu bytes of scratch", bytes);
}

/* One layer of tsa_state_merge. */
static void merge_layer(const struct tsa_plan *p, struct tsa_state *dst,
                        const struct tsa_layout *dl, const struct tsa_state *src,
                        const struct tsa_layout *sl, size_t layer, void *scratch)
{
    struct tsa_layer_header *to = tsa_state_layer(dst, layer);
    const struct tsa_layer_header from = *tsa_state_layer(src, layer);
    if (from.tokens == 0)
        return;
    for (size_t g = 0; g < p->kv_heads; g++) {
        void *a = tsa_state_section(dst, dl, p->elem, layer, g);
        const void *b = tsa_state_section(src, sl, p->elem, layer, g);
        if (to->tokens == 0)
            tsa_section_copy(p->elem, p->d, p->mono.total, (size_t)from.window, a, dl, b, sl);
        else if (p->dtype == TSA_F32)
            merge_section_f32(p, a, dl, b, sl, (size_t)from.window, scratch);
        else
            merge_section_f64(p, a, dl, b, sl, (size_t)from.window, scratch);
        tsa_state_round(p, dst, layer, g, 0, 1);
    }
    if (to->tokens == 0)
        to->window = from.window;
    to->tokens += from.tokens;
}

enum tsa_status tsa_state_merge(const struct tsa_plan *plan, struct tsa_state *dst,
                                const struct tsa_state *src, struct tsa_workspace *ws,
                                struct tsa_error *err)
{
    enum tsa_status status = tsa_state_check(plan, dst, true, "dst", TSA_NO_SEQUENCE, err);
    if (status == TSA_OK)
        status = tsa_state_check(plan, src, false, "src", TSA_NO_SEQUENCE, err);
    if (status != TSA_OK)
        return status;
    size_t bytes = tsa_merge_scratch_bytes(plan);
    status = tsa_workspace_check(plan, ws, bytes, err);
    if (status != TSA_OK)
        return status;

    bool fold = false;
    for (size_t layer = 0; layer < plan->layers; layer++) {
        uint64_t to = tsa_state_tokens(dst, layer), from = tsa_state_tokens(src, layer);
        if (from > UINT64_MAX - to)
            return tsa_fail(err, TSA_EOVERFLOW, "src", "layer %zu would have 2^64 tokens or more",
                            layer);
        fold = fold || (to > 0 && tsa_state_window(src, layer) > 0);
    }
    void *scratch = fold ? tsa_scratch_begin(plan, ws, bytes) : NULL;
    if (fold && !scratch)
        return no_scratch(err, bytes);

    struct tsa_layout dl, sl;
    tsa_state_layout(dst, &dl);
    tsa_state_layout(src, &sl);
    struct tsa_fpenv saved = tsa_fpenv_enter();
    for (size_t layer = 0; layer < plan->layers; layer++)
        merge_layer(plan, dst, &dl, src, &sl, layer, scratch);
    tsa_fpenv_leave(saved);
    dst->header.fold = plan->chunk;
    if (scratch)
        tsa_scratch_end(plan, ws, scratch, bytes);
    return tsa_succeed(err);
}

static void reduce_task(const void *argument, size_t thread, size_t index)
{
    const struct reduction *r = argument;
    const struct tsa_plan *p = r->plan;
    const size_t head = index / r->blocks;
    struct range at = {head / p->kv_heads, head % p->kv_heads, 0, 0};
    tsa_block_at(p, index % r->blocks, &at.f0, &at.f1);
    void *scratch = r->scratch + thread * r->stride;
    if (p->dtype == TSA_F32)
        reduce_range_f32(r, scratch, &at);
    else
        reduce_range_f64(r, scratch, &at);
}

/* The window that stays open, and the counts: after the sums, for dst may be one of the states. */
static void reduce_windows(const struct reduction *r, size_t layer)
{
    const struct tsa_plan *p = r->plan;
    struct tsa_layer_header *to = tsa_state_layer(r->dst, layer);
    const size_t first = first_with_tokens(r, 0, r->count, layer);
    struct tsa_layer_header total = {0};
    for (size_t i = first; i < r->count; i++)
        total.tokens += tsa_state_layer(r->states[i], layer)->tokens;
    if (first < r->count) {
        const struct tsa_state *s = r->states[first];
        struct tsa_layout dl, sl;
        tsa_state_layout(r->dst, &dl);
        tsa_state_layout(s, &sl);
        total.window = tsa_state_layer(s, layer)->window;
        for (size_t g = 0; s != r->dst && g < p->kv_heads; g++)
            tsa_section_copy(p->elem, p->d, 0, (size_t)total.window,
                             tsa_state_section(r->dst, &dl, p->elem, layer, g), &dl,
                             tsa_state_section(s, &sl, p->elem, layer, g), &sl);
    }
    *to = total;
}

static enum tsa_status check_reduce(const struct tsa_plan *plan, struct tsa_state *dst,
                                    const struct tsa_state *const *states, size_t count,
                                    struct tsa_error *err)
{
    enum tsa_status status = tsa_state_check_replaced(plan, dst, "dst", err);
    if (status != TSA_OK)
        return status;
    if (!states || count == 0)
        return tsa_fail(err, TSA_EINVAL, states ? "count" : "states",
                        states ? "count is 0: there is nothing to reduce" : "states is NULL");
    for (size_t i = 0; i < count; i++) {
        status = tsa_state_check(plan, states[i], false, "states", i, err);
        if (status != TSA_OK)
            return status;
    }
    for (size_t layer = 0; layer < plan->layers; layer++) {
        uint64_t total = 0;
        for (size_t i = 0; i < count; i++) {
            const uint64_t tokens = tsa_state_tokens(states[i], layer);
            if (tokens > UINT64_MAX - total)
                return tsa_fail(err, TSA_EOVERFLOW, "states",
                                "layer %zu would have 2^64 tokens or more", layer);
            total += tokens;
        }
    }
    return TSA_OK;
}

enum tsa_status tsa_state_reduce(const struct tsa_plan *plan, struct tsa_state *dst,
                                 const struct tsa_state *const *states, size_t count,
                                 struct tsa_error *err)
{
    const enum tsa_status status = check_reduce(plan, dst, states, count, err);
    if (status != TSA_OK)
        return status;
    struct reduction r = {.plan = plan, .dst = dst, .states = states, .count = count};
    size_t levels = 1, elements, bytes;
    for (size_t n = count; n > 1; n -= n / 2) /* one per halving, rounded up */
        levels++;
    r.blocks = tsa_block_count(plan);
    const size_t tasks = plan->layers * plan->kv_heads * r.blocks;
    struct tsa_team team = {.plan = plan, .threads = tsa_team_threads(plan)};
    if ((double)plan->state_bytes * (double)count < TSA_SPLIT_BYTES / 2)
        team.threads = 1;
    const size_t shares = (1 + team.threads) * sizeof *team.shares;
    if (!scratch_sizes(plan, &r.sizes) ||
        !tsa_size_mul(2 * (r.sizes.sums + r.sizes.ones), levels, &elements) ||
        !tsa_size_add(elements, r.sizes.total + TSA_ALIGN, &elements) ||
        !tsa_size_mul(tsa_round_up(elements, TSA_ALIGN), plan->elem, &r.stride) ||
        !tsa_size_mul(r.stride, team.threads, &bytes) || !tsa_size_add(bytes, shares, &bytes))
        return no_scratch(err, SIZE_MAX);
    char *memory = tsa_allocate(&plan->allocator, bytes);
    if (!memory)
        return no_scratch(err, bytes);
    team.shares = (struct tsa_share *)(void *)memory;
    r.scratch = memory + shares;
    const struct tsa_fpenv saved = tsa_fpenv_enter();
    tsa_team_run(&team, 0, tasks, reduce_task, &r);
    for (size_t layer = 0; layer < plan->layers; layer++) {
        reduce_windows(&r, layer);
        for (size_t g = 0; g < plan->kv_heads; g++)
            tsa_state_round(plan, dst, layer, g, 0, 1);
    }
    tsa_fpenv_leave(saved);
    dst->header.fold = plan->chunk;
    tsa_release(&plan->allocator, memory, bytes);
    return tsa_succeed(err);
}

static enum tsa_status check_export(const struct tsa_plan *p, const struct tsa_state *state,
                                    size_t layer, size_t kv_head, size_t degree,
                                    enum tsa_basis basis, const double *out, ptrdiff_t stride,
                                    struct tsa_error *err)
{
    enum tsa_status status = tsa_state_check(p, state, false, "state", TSA_NO_SEQUENCE, err);
    if (status == TSA_OK)
        status = tsa_check_section(p, layer, kv_head, err);
    if (status != TSA_OK)
        return status;
    if (degree >= p->terms) {
        status = tsa_fail(err, TSA_EINVAL, "degree", "degree is %zu, the plan has 0 to %zu", degree,
                          p->terms - 1);
        tsa_error_numbers(err, (int64_t)p->terms - 1, (int64_t)degree);
        return status;
    }
    if (basis != TSA_BASIS_PLAIN && basis != TSA_BASIS_SYMMETRIC)
        return tsa_fail(err, TSA_EINVAL, "basis",
                        "basis is %d, wanted TSA_BASIS_PLAIN (1) or TSA_BASIS_SYMMETRIC (2)",
                        (int)basis);
    if (!out)
        return tsa_fail(err, TSA_EINVAL, "out", "out is NULL");
    if (stride < (ptrdiff_t)p->dv + 1) {
        status = tsa_fail(err, TSA_EINVAL, "stride", "stride is %td, wanted %zu or more", stride,
                          p->dv + 1);
        tsa_error_numbers(err, (int64_t)p->dv + 1, stride);
        return status;
    }
    return TSA_OK;
}

enum tsa_status tsa_state_export(const struct tsa_plan *plan, const struct tsa_state *state,
                                 size_t layer, size_t kv_head, size_t degree, enum tsa_basis basis,
                                 double *out, ptrdiff_t stride, struct tsa_error *err)
{
    enum tsa_status status =
        check_export(plan, state, layer, kv_head, degree, basis, out, stride, err);
    if (status != TSA_OK)
        return status;

    size_t w = tsa_state_window(state, layer), bytes = tsa_merge_scratch_bytes(plan);
    void *scratch = w > 0 ? tsa_scratch_begin(plan, NULL, bytes) : NULL;
    if (w > 0 && !scratch)
        return no_scratch(err, bytes);

    struct tsa_layout l;
    struct tsa_tuple first, *tuple = NULL;
    if (basis == TSA_BASIS_SYMMETRIC) {
        tuple = &first;
        tsa_tuple_first(tuple, plan->d, degree);
    }
    tsa_state_layout(state, &l);
    const void *section = tsa_state_section(state, &l, plan->elem, layer, kv_head);
    struct tsa_fpenv saved = tsa_fpenv_enter();
    if (plan->dtype == TSA_F32)
        export_section_f32(plan, section, &l, w, degree, tuple, scratch, out, stride);
    else
        export_section_f64(plan, section, &l, w, degree, tuple, scratch, out, stride);
    tsa_fpenv_leave(saved);
    if (scratch)
        tsa_scratch_end(plan, NULL, scratch, bytes);
    return tsa_succeed(err);
}
