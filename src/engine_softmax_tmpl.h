/* SPDX-License-Identifier: MIT */
/* Exact softmax: what its two ways have in common. Part of engine_tmpl.h.
 *
 * Segments of TSA_SEGMENT_KEYS keys, at absolute positions, start afresh and are combined in order;
 * within one, tiles of TSA_TILE_TOKENS keys are added in order. So the bits do not depend on how
 * queries are shared out, and a row on many keys can be split between threads. */

/* How the exponentials of a query head are made: bounded scores need no maximum. */
static bool scores_bounded(const struct tsa_plan *plan, size_t head)
{
    return plan->normalize == TSA_NORMALIZE_L2 && ((const T *)plan->scale)[head] <= (T)0.5;
}

/* Are keys still to be normalised? */
static bool normalizes_keys(const struct tsa_plan *plan)
{
    return plan->normalize == TSA_NORMALIZE_L2 && !(plan->flags & TSA_UNIT_KEYS);
}

/* Sums of queries: of the segment under way, or of all before it. */
struct softmax_sums {
    T *acc, *max, *den;
};
static struct softmax_sums sums_of_row(const struct tsa_plan *plan, struct softmax_sums s,
                                       size_t row)
{
    return (struct softmax_sums){s.acc + row * plan->layout.ldv, s.max + row, s.den + row};
}
static struct softmax_sums all_sums(const struct context *x)
{
    const struct tsa_softmax_scratch *r = &x->plan->scratch.softmax;
    return (struct softmax_sums){x->scratch + r->acc, x->scratch + r->max, x->scratch + r->den};
}
static struct softmax_sums segment_sums(const struct context *x)
{
    const struct tsa_softmax_scratch *r = &x->plan->scratch.softmax;
    return (struct softmax_sums){x->scratch + r->part_acc, x->scratch + r->part_max,
                                 x->scratch + r->part_den};
}

/* The sums of a segment of one row go to those of all before it. */
static void combine(const struct tsa_plan *plan, bool bounded, struct softmax_sums all,
                    struct softmax_sums part)
{
    KERNELS(plan)->softmax_combine(plan->layout.ldv, bounded, *part.max, *part.den, part.acc,
                                   all.max, all.den, all.acc);
}

/* The output of query t of head h of sequence b. */
static void write_row(const struct context *x, size_t b, size_t h, size_t t, struct softmax_sums s)
{
    const struct tsa_plan *plan = x->plan;
    const struct rows r = {b, h, t, 1};
    T *buffer = x->scratch + plan->scratch.softmax.rows;
    KERNELS(plan)->divide(plan->dv, s.acc, *s.den, rows_out(plan, x->call->o, &r, buffer).at);
    rows_out_done(plan, x->call->o, &r, 0, plan->dv, buffer);
}

/* -- keys -------------------------------------------------------------------------------------- */

/* Packed keys and their values. */
struct packed_keys {
    const T *kt, *v; /* kt: tiles of [d][TSA_TILE_TOKENS] */
    ptrdiff_t ldv;
};

static bool values_in_place(const struct tsa_call *call)
{
    const ptrdiff_t width = (ptrdiff_t)call->plan->dv;
    return call->v->dtype == TSA_DTYPE && call->plan->dv == call->plan->layout.ldv &&
           call->v->token >= width && call->v->token <= 2 * width;
}

/* Values of keys r in whole vectors. */
static struct matrix pack_values(const struct context *x, struct rows r)
{
    const struct tsa_plan *plan = x->plan;
    const struct tsa_softmax_scratch *s = &plan->scratch.softmax;
    const struct tsa_tensor *v = x->call->v;
    const struct matrix out = {x->scratch + s->v, (ptrdiff_t)plan->layout.ldv};
    if (values_in_place(x->call))
        return (struct matrix){tsa_row(v, r.b, r.h, r.t), v->token};
    for (size_t i = 0, n = r.n; i < n; i += TSA_TILE_TOKENS, r.t += TSA_TILE_TOKENS) {
        r.n = tile_tokens(n - i);
        const struct matrix in = rows_in(plan, v, &r, plan->dv, x->scratch + s->rows);
        KERNELS(plan)->pack_v(r.n, plan->dv, in.at, in.ld, out.at + (ptrdiff_t)i * out.ld, out.ld);
    }
    return out;
}

static struct packed_keys pack_keys(const struct context *x, struct rows r)
{
    const struct tsa_plan *plan = x->plan;
    const struct tsa_softmax_scratch *s = &plan->scratch.softmax;
    const int l2 = normalizes_keys(plan);
    T *kt = x->scratch + s->kt;
    struct rows tile = r;
    for (size_t i = 0; i < r.n; i += TSA_TILE_TOKENS, tile.t += TSA_TILE_TOKENS) {
        tile.n = tile_tokens(r.n - i);
        const struct matrix k = rows_in(plan, x->call->k, &tile, plan->d, x->scratch + s->rows);
        KERNELS(plan)->pack_t(tile.n, plan->d, k.at, k.ld, l2, 1, kt + i * plan->d,
                              TSA_TILE_TOKENS);
    }
    const struct matrix v = pack_values(x, r);
    return (struct packed_keys){kt, v.at, v.ld};
}

#include "engine_softmax_ranges_tmpl.h"
#include "engine_softmax_rows_tmpl.h"

/* -- the call ---------------------------------------------------------------------------------- */

static void softmax(const struct tsa_call *call)
{
    struct tsa_call alone;
    if (call->team.threads > 1 && tsa_softmax_is_short(call)) {
        alone = *call;
        alone.team.threads = 1;
        call = &alone;
    }
    if (call->tokens > TSA_FEW_QUERIES && ranges_fit(call->plan)) {
        const size_t count = tsa_softmax_ranges(call);
        run_tasks(call, count, count, range_task);
        return;
    }
    const size_t runs = tsa_softmax_runs(call), tasks = call->batch * call->plan->kv_heads * runs;
    if (!tsa_softmax_splits_keys(call)) {
        run_tasks(call, tasks, tasks, rows_task);
        return;
    }
    for (size_t i = 0; i < tasks; i++)
        rows_by_segments(call, i / runs, i % runs);
}
