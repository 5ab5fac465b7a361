/* SPDX-License-Identifier: MIT */
/* Softmax of few queries, or of queries with a window, row by row. Part of engine_softmax_tmpl.h.
 *
 * Rows of one kv head are the queries of its group: row r is query r % tokens of head r / tokens;
 * with a window query r / group of head r % group. Keys are counted from the first one that the
 * rows of a run may see. */

struct softmax_row {
    size_t h, t, seen;
    bool bounded;
};
/* Up to TSA_TOKEN_ROWS rows of a kv head, from `first` on; `base` is the key that counts as 0, and
 * `keys` how many the rows see from it on, at most. */
struct row_run {
    size_t b, g, first, n, base, keys;
};
static struct row_run run_at(const struct tsa_call *call, size_t item, size_t index)
{
    const struct tsa_plan *plan = call->plan;
    const size_t first = tsa_run_first(call, index), window = plan->softmax_window;
    struct row_run run = {item / plan->kv_heads,
                          item % plan->kv_heads,
                          first,
                          tsa_run_rows(call, first),
                          0,
                          tsa_keys_seen(call, call->tokens - 1)};
    if (window > 0) {
        const size_t seen = tsa_keys_seen(call, first / plan->group);
        run.keys = seen < window ? seen : window;
        run.base = seen - run.keys;
    }
    return run;
}
/* Row i of a run. */
static struct softmax_row row_at(const struct tsa_call *call, const struct row_run *run, size_t i)
{
    const struct tsa_plan *plan = call->plan;
    const bool window = plan->softmax_window > 0;
    const size_t index = run->first + i;
    const size_t t = window ? index / plan->group : index % call->tokens;
    const size_t h = run->g * plan->group + (window ? index % plan->group : index / call->tokens);
    return (struct softmax_row){h, t, tsa_keys_seen(call, t) - run->base, scores_bounded(plan, h)};
}

/* Sums of one row, q, over the segment at key `segment`, with keys where the caller has them. */
static void one_row(const struct context *x, const struct row_run *run, size_t segment, const T *q,
                    struct softmax_sums s)
{
    const struct tsa_plan *plan = x->plan;
    const struct tsa_softmax_scratch *r = &plan->scratch.softmax;
    const struct softmax_row row = row_at(x->call, run, 0);
    const size_t left = row.seen - segment;
    const size_t end = left < TSA_SEGMENT_KEYS ? row.seen : segment + TSA_SEGMENT_KEYS;
    const size_t most = x->call->k->dtype != TSA_DTYPE ? TSA_TILE_TOKENS
                        : values_in_place(x->call)     ? TSA_SEGMENT_KEYS
                                                       : r->keys;
    for (size_t k = segment; k < end; k += most) {
        const struct rows some = {run->b, run->g, run->base + k, end - k < most ? end - k : most};
        const struct matrix v = pack_values(x, some);
        const struct matrix keys = rows_in(plan, x->call->k, &some, plan->d, x->scratch + r->rows);
        KERNELS(plan)->softmax_decode(
            &(const struct ARGS(softmax_decode)){.keys = some.n,
                                                 .d = plan->d,
                                                 .k = keys.at,
                                                 .stride = keys.ld,
                                                 .l2 = normalizes_keys(plan),
                                                 .q = q,
                                                 .bounded = row.bounded,
                                                 .columns = plan->layout.ldv,
                                                 .v = v.at,
                                                 .ldv = v.ld,
                                                 .first = k == segment,
                                                 .max = s.max,
                                                 .den = s.den,
                                                 .acc = s.acc,
                                                 .kt = x->scratch + r->kt,
                                                 .scratch = x->scratch + r->weights});
    }
}

/* Sums of some rows, q, over a tile of keys at key k. */
static void rows_tile(const struct context *x, const struct row_run *run, const struct rows *tile,
                      const T *q, struct softmax_sums s)
{
    const struct tsa_plan *plan = x->plan;
    const struct rows at = {tile->b, tile->h, run->base + tile->t, tile->n};
    const struct packed_keys keys = pack_keys(x, at);
    T *w = x->scratch + plan->scratch.softmax.weights;
    for (size_t i = 0; i < run->n; i++) {
        const struct softmax_row row = row_at(x->call, run, i);
        const struct softmax_sums sums = sums_of_row(plan, s, i);
        if (row.seen <= tile->t)
            continue;
        const size_t left = row.seen - tile->t;
        KERNELS(plan)->softmax_row(
            &(const struct ARGS(softmax_row)){.keys = left < tile->n ? left : tile->n,
                                              .d = plan->d,
                                              .kt = keys.kt,
                                              .ldk = TSA_TILE_TOKENS,
                                              .q = q + i * plan->d,
                                              .bounded = row.bounded,
                                              .columns = plan->layout.ldv,
                                              .v = keys.v,
                                              .ldv = keys.ldv,
                                              .first = tile->t % TSA_SEGMENT_KEYS == 0,
                                              .max = sums.max,
                                              .den = sums.den,
                                              .acc = sums.acc,
                                              .w = w});
    }
}

/* Sums of a run of rows over the segment at key `segment`. */
static void rows_segment(const struct context *x, const struct row_run *run, size_t segment,
                         struct softmax_sums s)
{
    const struct tsa_plan *plan = x->plan;
    const struct tsa_call *call = x->call;
    const struct tsa_softmax_scratch *r = &plan->scratch.softmax;
    const int l2 = plan->normalize == TSA_NORMALIZE_L2;
    T *q = x->scratch + r->qt;
    for (size_t i = 0; i < run->n; i++) {
        const struct softmax_row row = row_at(call, run, i);
        const struct rows in = {run->b, row.h, row.t, 1};
        const struct matrix src = rows_in(plan, call->q, &in, plan->d, x->scratch + r->rows);
        KERNELS(plan)->pack_t(1, plan->d, src.at, src.ld, l2, coefficients_of(plan, row.h).scale,
                              q + i * plan->d, 1);
    }
    if (run->n == 1 && plan->d % TSA_MAX_LANES == 0) {
        one_row(x, run, segment, q, s);
        return;
    }
    const size_t all = run->keys;
    const size_t end = all - segment < TSA_SEGMENT_KEYS ? all : segment + TSA_SEGMENT_KEYS;
    struct rows tile = {run->b, run->g, segment, 0};
    for (; tile.t < end; tile.t += tile.n) {
        tile.n = tile_tokens(end - tile.t);
        rows_tile(x, run, &tile, q, s);
    }
}

static void combine_rows(const struct context *x, const struct row_run *run, size_t segment,
                         struct softmax_sums all, struct softmax_sums part)
{
    for (size_t i = 0; i < run->n; i++) {
        const struct softmax_row row = row_at(x->call, run, i);
        if (row.seen > segment)
            combine(x->plan, row.bounded, sums_of_row(x->plan, all, i),
                    sums_of_row(x->plan, part, i));
    }
}

static void write_rows(const struct context *x, const struct row_run *run, struct softmax_sums s)
{
    for (size_t i = 0; i < run->n; i++) {
        const struct softmax_row row = row_at(x->call, run, i);
        write_row(x, run->b, row.h, row.t, sums_of_row(x->plan, s, i));
    }
}

/* A run of rows on one thread. */
static void rows_task(const struct context *x, size_t index)
{
    const size_t runs = tsa_softmax_runs(x->call);
    const struct row_run run = run_at(x->call, index / runs, index % runs);
    const struct softmax_sums all = all_sums(x), part = segment_sums(x);
    rows_segment(x, &run, 0, all);
    for (size_t segment = TSA_SEGMENT_KEYS; segment < run.keys; segment += TSA_SEGMENT_KEYS) {
        rows_segment(x, &run, segment, part);
        combine_rows(x, &run, segment, all, part);
    }
    write_rows(x, &run, all);
}

/* -- one run by the whole team ----------------------------------------------------------------- */

/* Segments of one run of rows, which the team shares out: TSA_SOFTMAX_PARTS in the scratch of each
 * thread. */
struct segment_wave {
    const struct tsa_call *call;
    struct row_run run;
    size_t segment;
};

static struct softmax_sums part_at(const struct tsa_call *call, size_t index)
{
    const struct tsa_softmax_scratch *r = &call->plan->scratch.softmax;
    T *s = scratch_at(call, index % call->team.threads) + r->parts +
           index / call->team.threads * r->part;
    return (struct softmax_sums){s + 2 * TSA_TOKEN_ROWS, s, s + TSA_TOKEN_ROWS};
}

static void segment_task(const void *argument, size_t thread, size_t index)
{
    const struct segment_wave *w = argument;
    const struct context x = context_of(w->call, thread);
    rows_segment(&x, &w->run, w->segment + index * TSA_SEGMENT_KEYS, part_at(w->call, index));
}

static void rows_by_segments(const struct tsa_call *call, size_t item, size_t index)
{
    const size_t most = call->team.threads * TSA_SOFTMAX_PARTS;
    const struct context x = context_of(call, 0);
    const struct softmax_sums sums = all_sums(&x);
    struct segment_wave w = {call, run_at(call, item, index), 0};
    const size_t all = w.run.keys;
    while (w.segment < all) {
        const size_t left = (all - w.segment + TSA_SEGMENT_KEYS - 1) / TSA_SEGMENT_KEYS;
        const size_t count = left < most ? left : most;
        tsa_team_run(&call->team, count, count, segment_task, &w);
        for (size_t i = 0; i < count; i++) {
            const size_t segment = w.segment + i * TSA_SEGMENT_KEYS, n = w.run.n;
            const struct softmax_sums part = part_at(call, i);
            if (segment > 0) {
                combine_rows(&x, &w.run, segment, sums, part);
                continue;
            }
            memcpy(sums.acc, part.acc, n * call->plan->layout.ldv * sizeof(T));
            memcpy(sums.max, part.max, n * sizeof(T));
            memcpy(sums.den, part.den, n * sizeof(T));
        }
        w.segment += count * TSA_SEGMENT_KEYS;
    }
    write_rows(&x, &w.run, sums);
}
