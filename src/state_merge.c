/* SPDX-License-Identifier: MIT */
/* Merging of two or many states, and export of their sums, open windows included. */
#include "config.h"

#include "call.h"
#include "fpenv.h"
#include "tuning.h"

#include <string.h>

/* -- sections, and rows of their sums ---------------------------------------------------------- */

static struct tsa_section section_of(const struct tsa_plan *p, const struct tsa_state *s,
                                     size_t layer, size_t kv_head)
{
    struct tsa_section section = {.window = tsa_state_window(s, layer)};
    tsa_state_layout(s, &section.layout);
    section.data = tsa_state_section(s, &section.layout, p->elem, layer, kv_head);
    return section;
}

/* Rows of a section from feature f0 on. */
static struct tsa_rows section_rows(const struct tsa_plan *p, const struct tsa_section *s,
                                    size_t f0)
{
    const struct tsa_layout *l = &s->layout;
    char *data = s->data;
    return (struct tsa_rows){
        data + (l->hi + f0 * l->ldv) * p->elem, data + (l->lo + f0 * l->ldv) * p->elem,
        data + (l->ones_hi + f0) * p->elem, data + (l->ones_lo + f0) * p->elem};
}

/* Those of a block of features in scratch, behind what a fold needs and `level` others. */
static struct tsa_rows scratch_rows(const struct tsa_plan *p, char *scratch, size_t level)
{
    const struct tsa_scratch *r = &p->scratch;
    char *hi = scratch + (r->fold + level * r->block_rows) * p->elem;
    char *lo = hi + p->block * p->layout.ldv * p->elem, *ones = lo + (lo - hi);
    return (struct tsa_rows){hi, lo, ones, ones + tsa_round_up(p->block, TSA_ROW_PAD) * p->elem};
}

static void copy_rows(const struct tsa_plan *p, size_t count, const struct tsa_rows *to,
                      const struct tsa_rows *from)
{
    memcpy(to->hi, from->hi, count * p->layout.ldv * p->elem);
    memcpy(to->lo, from->lo, count * p->layout.ldv * p->elem);
    memcpy(to->ones_hi, from->ones_hi, count * p->elem);
    memcpy(to->ones_lo, from->ones_lo, count * p->elem);
}

/* Features f of a section with its open window folded in: its own rows if none is open and `copy`
 * is false, else a copy in scratch, where engine->open_window has been. */
static struct tsa_rows folded_rows(const struct tsa_plan *p, const struct tsa_section *s,
                                   struct tsa_range f, bool copy, char *scratch)
{
    const struct tsa_rows own = section_rows(p, s, f.f0);
    if (s->window == 0 && !copy)
        return own;
    const struct tsa_rows rows = scratch_rows(p, scratch, 0);
    copy_rows(p, f.f1 - f.f0, &rows, &own);
    if (s->window > 0)
        tsa_engine_of(p)->fold_open_window(p, s, &rows, f, scratch);
    return rows;
}

/* -- two states -------------------------------------------------------------------------------- */

/* A state with gates whose own history comes to it again forgets, and then gets what it was. */
static bool needs_copy(const struct tsa_plan *p, const void *dst, const void *src)
{
    return p->gate != TSA_GATE_NONE && dst == src;
}

/* Add src's history to the sums of dst; they may be the same section. scratch may be NULL if no
 * window of src is open and src needs no copy. */
static void merge_section(const struct tsa_plan *p, const struct tsa_section *dst,
                          const struct tsa_section *src, char *scratch)
{
    const struct tsa_engine *engine = tsa_engine_of(p);
    const bool copy = needs_copy(p, dst->data, src->data), gates = p->gate != TSA_GATE_NONE;
    if (src->window > 0)
        engine->open_window(p, src, scratch);
    for (size_t i = 0; i < tsa_block_count(p); i++) {
        const struct tsa_range f = tsa_block_at(p, i);
        const struct tsa_rows to = section_rows(p, dst, f.f0);
        const struct tsa_rows from = folded_rows(p, src, f, copy, scratch);
        if (gates)
            engine->decay_rows(p, f.f1 - f.f0, &to, dst, src);
        engine->merge_rows(p, f.f1 - f.f0, &to, &from);
    }
    if (gates)
        engine->merge_gates(p, dst, src);
}

static enum tsa_status no_scratch(struct tsa_error *err, size_t bytes)
{
    return tsa_fail(err, TSA_ENOMEM, "ws", "no memory for %zu bytes of scratch", bytes);
}

/* One layer of tsa_state_merge. */
static void merge_layer(const struct tsa_plan *p, struct tsa_state *dst,
                        const struct tsa_state *src, size_t layer, char *scratch)
{
    struct tsa_layer_header *to = tsa_state_layer(dst, layer);
    const struct tsa_layer_header from = *tsa_state_layer(src, layer);
    if (from.tokens == 0)
        return;
    for (size_t g = 0; g < p->kv_heads; g++) {
        const struct tsa_section a = section_of(p, dst, layer, g), b = section_of(p, src, layer, g);
        if (to->tokens == 0)
            tsa_section_copy(p->elem, p->d, p->mono.total, b.window, a.data, &a.layout, b.data,
                             &b.layout);
        else
            merge_section(p, &a, &b, scratch);
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
        fold = fold || (to > 0 && tsa_state_window(src, layer) > 0) || needs_copy(plan, dst, src);
    }
    void *scratch = fold ? tsa_scratch_begin(plan, ws, bytes) : NULL;
    if (fold && !scratch)
        return no_scratch(err, bytes);

    struct tsa_fpenv saved = tsa_fpenv_enter();
    for (size_t layer = 0; layer < plan->layers; layer++)
        merge_layer(plan, dst, src, layer, scratch);
    tsa_fpenv_leave(saved);
    dst->header.fold = plan->chunk;
    if (scratch)
        tsa_scratch_end(plan, ws, scratch, bytes);
    return tsa_succeed(err);
}

/* -- many states ------------------------------------------------------------------------------- */

/* Many states on their way into one. */
struct reduction {
    const struct tsa_plan *plan;
    struct tsa_state *dst;
    const struct tsa_state *const *states;
    size_t count;
    size_t blocks; /* of features */
    char *scratch; /* of threads, */
    size_t stride; /* so many bytes each */
};
/* What a thread reduces: features f of one kv head; and its scratch. */
struct part {
    size_t layer, kv_head;
    struct tsa_range f;
    char *scratch;
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

/* The part of states from .. to-1 together becomes the rows of `level`; those of higher levels are
 * used. The left part of the tree has the largest power of two of states that leaves some. */
static void reduce_rows(const struct reduction *r, const struct part *at, size_t from, size_t to,
                        size_t level)
{
    const struct tsa_plan *p = r->plan;
    const struct tsa_engine *engine = tsa_engine_of(p);
    const struct tsa_rows rows = scratch_rows(p, at->scratch, level);
    const size_t count = at->f.f1 - at->f.f0;
    if (to - from == 1) {
        const struct tsa_section s = section_of(p, r->states[from], at->layer, at->kv_head);
        const struct tsa_rows own = section_rows(p, &s, at->f.f0);
        copy_rows(p, count, &rows, &own);
        return;
    }
    const size_t middle = from + left_part(to - from);
    const size_t right = first_with_tokens(r, middle, to, at->layer);
    if (right == to || first_with_tokens(r, from, middle, at->layer) == middle) {
        const bool left = right == to;
        reduce_rows(r, at, left ? from : middle, left ? middle : to, level);
        return;
    }
    reduce_rows(r, at, from, middle, level);
    reduce_rows(r, at, middle, to, level + 1);
    const struct tsa_rows more = scratch_rows(p, at->scratch, level + 1);
    /* its window is the one that is still open in the right part */
    const struct tsa_section s = section_of(p, r->states[right], at->layer, at->kv_head);
    if (s.window > 0) {
        engine->open_window(p, &s, at->scratch);
        engine->fold_open_window(p, &s, &more, at->f, at->scratch);
    }
    engine->merge_rows(p, count, &rows, &more);
}

static void reduce_task(const void *argument, size_t thread, size_t index)
{
    const struct reduction *r = argument;
    const struct tsa_plan *p = r->plan;
    const size_t head = index / r->blocks;
    const struct part at = {head / p->kv_heads, head % p->kv_heads,
                            tsa_block_at(p, index % r->blocks), r->scratch + thread * r->stride};
    reduce_rows(r, &at, 0, r->count, 0);
    const struct tsa_section s = section_of(p, r->dst, at.layer, at.kv_head);
    const struct tsa_rows rows = scratch_rows(p, at.scratch, 0), to = section_rows(p, &s, at.f.f0);
    copy_rows(p, at.f.f1 - at.f.f0, &to, &rows);
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
        total.window = tsa_state_layer(s, layer)->window;
        for (size_t g = 0; s != r->dst && g < p->kv_heads; g++) {
            const struct tsa_section a = section_of(p, r->dst, layer, g);
            const struct tsa_section b = section_of(p, s, layer, g);
            tsa_section_copy(p->elem, p->d, 0, b.window, a.data, &a.layout, b.data, &b.layout);
        }
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

/* The part of states from .. to-1 together, with gates: each merge needs the whole of its states,
 * as what forgets is the sums, the window and what was forgotten before. `levels` are states for
 * the right parts, one per level. */
static enum tsa_status reduce_states(const struct tsa_plan *p, struct tsa_state *dst,
                                     const struct tsa_state *const *states, size_t count,
                                     struct tsa_state *const *levels, struct tsa_error *err)
{
    if (count == 1)
        return tsa_state_copy(p, dst, states[0], err);
    const size_t left = left_part(count);
    enum tsa_status status = reduce_states(p, dst, states, left, levels, err);
    if (status == TSA_OK)
        status = reduce_states(p, levels[0], states + left, count - left, levels + 1, err);
    return status == TSA_OK ? tsa_state_merge(p, dst, levels[0], NULL, err) : status;
}

static enum tsa_status reduce_gated(const struct tsa_plan *plan, struct tsa_state *dst,
                                    const struct tsa_state *const *states, size_t count,
                                    struct tsa_error *err)
{
    struct tsa_state *levels[8 * sizeof count + 1] = {0};
    enum tsa_status status = TSA_OK;
    size_t n = 0, left = 2 * count; /* one for the whole, and one per halving, rounded up */
    while (status == TSA_OK && left > 1) {
        left -= left / 2;
        status = tsa_state_create(plan, &levels[n++], err);
    }
    if (status == TSA_OK)
        status = reduce_states(plan, levels[0], states, count, levels + 1, err);
    if (status == TSA_OK)
        status = tsa_state_copy(plan, dst, levels[0], err);
    else if (status == TSA_ENOMEM)
        status = tsa_fail(err, TSA_ENOMEM, "ws", "no memory for %zu states on the way", n);
    for (size_t i = 0; i < n; i++)
        tsa_state_destroy(levels[i]);
    return status;
}

enum tsa_status tsa_state_reduce(const struct tsa_plan *plan, struct tsa_state *dst,
                                 const struct tsa_state *const *states, size_t count,
                                 struct tsa_error *err)
{
    const enum tsa_status status = check_reduce(plan, dst, states, count, err);
    if (status != TSA_OK)
        return status;
    if (plan->gate != TSA_GATE_NONE)
        return reduce_gated(plan, dst, states, count, err);
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
    if (!tsa_size_mul(plan->scratch.block_rows, levels, &elements) ||
        !tsa_size_add(elements, plan->scratch.fold + TSA_ALIGN, &elements) ||
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

/* -- export ------------------------------------------------------------------------------------ */

/* The sums of a degree, window folded in, to rows of `out`; in the symmetric basis if tuple, the
 * first of the degree, is not NULL. */
static void export_degree(const struct tsa_plan *p, const struct tsa_section *s, size_t degree,
                          struct tsa_tuple *tuple, char *scratch, double *out, ptrdiff_t stride)
{
    const size_t start = p->mono.start[degree], end = p->mono.start[degree + 1];
    if (s->window > 0)
        tsa_engine_of(p)->open_window(p, s, scratch);
    for (struct tsa_range f = {start, start}; f.f1 < end; f.f0 = f.f1) {
        f.f1 = end - f.f0 < p->block ? end : f.f0 + p->block;
        const struct tsa_rows rows = folded_rows(p, s, f, false, scratch);
        tsa_engine_of(p)->export_rows(p, f.f1 - f.f0, &rows, tuple,
                                      out + (ptrdiff_t)(f.f0 - start) * stride, stride);
    }
}

static enum tsa_status check_export(const struct tsa_plan *p, size_t degree, enum tsa_basis basis,
                                    const double *out, ptrdiff_t stride, struct tsa_error *err)
{
    enum tsa_status status;
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
    enum tsa_status status = tsa_state_check(plan, state, false, "state", TSA_NO_SEQUENCE, err);
    if (status == TSA_OK)
        status = tsa_check_section(plan, layer, kv_head, err);
    if (status == TSA_OK)
        status = check_export(plan, degree, basis, out, stride, err);
    if (status != TSA_OK)
        return status;

    const struct tsa_section section = section_of(plan, state, layer, kv_head);
    const size_t bytes = tsa_merge_scratch_bytes(plan);
    void *scratch = section.window > 0 ? tsa_scratch_begin(plan, NULL, bytes) : NULL;
    if (section.window > 0 && !scratch)
        return no_scratch(err, bytes);

    struct tsa_tuple first, *tuple = NULL;
    if (basis == TSA_BASIS_SYMMETRIC) {
        tuple = &first;
        tsa_tuple_first(tuple, plan->d, degree);
    }
    const struct tsa_fpenv saved = tsa_fpenv_enter();
    export_degree(plan, &section, degree, tuple, scratch, out, stride);
    tsa_fpenv_leave(saved);
    if (scratch)
        tsa_scratch_end(plan, NULL, scratch, bytes);
    return tsa_succeed(err);
}
