/* SPDX-License-Identifier: MIT */
/* Exact softmax, for one arithmetic type. For engine_tmpl.h.
 *
 * Segments of TSA_SEGMENT_KEYS keys, at absolute positions, start afresh and are combined in
 * order; within one, tiles of TSA_TILE_TOKENS keys are added in order. So the bits do not depend
 * on how queries are shared out, and a row on many keys can be split between threads. */

/* How the exponentials of a query head are made: bounded scores need no maximum. */
static bool scores_bounded(const struct tsa_plan *plan, size_t head)
{
    return plan->normalize == TSA_NORMALIZE_L2 && ((const T *)plan->scale)[head] <= (T)0.5;
}

/* Keys that query t of the call sees, from the first on. */
static size_t keys_seen(const struct tsa_call *call, size_t t)
{
    return call->causal ? call->keys - call->tokens + t + 1 : call->keys;
}

/* A run of packed keys and their values. */
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

/* Values of keys k .. k+n-1 in whole vectors. */
static const T *pack_values(const struct tsa_call *call, T *scratch, size_t b, size_t g, size_t k,
                            size_t n, ptrdiff_t *ldv)
{
    const struct tsa_plan *plan = call->plan;
    const struct tsa_softmax_scratch *r = &plan->scratch.softmax;
    T *v = scratch + r->v;
    *ldv = (ptrdiff_t)plan->layout.ldv;
    if (values_in_place(call)) {
        *ldv = call->v->token;
        return tsa_row(call->v, b, g, k);
    }
    for (size_t i = 0; i < n; i += TSA_TILE_TOKENS) {
        ptrdiff_t stride;
        const T *src = rows_in(plan, call->v, b, g, k + i, tile_tokens(n - i), plan->dv,
                               scratch + r->rows, &stride);
        KERNELS(plan)->pack_v(tile_tokens(n - i), plan->dv, src, stride, v + (ptrdiff_t)i * *ldv,
                              *ldv);
    }
    return v;
}

static struct packed_keys pack_keys(const struct tsa_call *call, T *scratch, size_t b, size_t g,
                                    size_t k, size_t n)
{
    const struct tsa_plan *plan = call->plan;
    const struct tsa_softmax_scratch *r = &plan->scratch.softmax;
    const int l2 = plan->normalize == TSA_NORMALIZE_L2;
    struct packed_keys keys;
    T *kt = scratch + r->kt;
    ptrdiff_t stride;
    for (size_t i = 0; i < n; i += TSA_TILE_TOKENS) {
        const T *src = rows_in(plan, call->k, b, g, k + i, tile_tokens(n - i), plan->d,
                               scratch + r->rows, &stride);
        KERNELS(plan)->pack_t(tile_tokens(n - i), plan->d, src, stride, l2, 1, kt + i * plan->d,
                              TSA_TILE_TOKENS);
    }
    keys.kt = kt;
    keys.v = pack_values(call, scratch, b, g, k, n, &keys.ldv);
    return keys;
}

static void write_row(const struct tsa_call *call, T *scratch, size_t b, size_t h, size_t t,
                      const T *acc, T den)
{
    const struct tsa_plan *plan = call->plan;
    T *rows = scratch + plan->scratch.softmax.rows;
    ptrdiff_t stride;
    T *dst = rows_out(call->o, b, h, t, plan->dv, rows, &stride);
    KERNELS(plan)->divide(plan->dv, acc, den, dst);
    rows_out_done(plan, call->o, b, h, t, 1, 0, plan->dv, rows);
}

/* -- many queries: tiles of up to TSA_TILE_TOKENS that end where tiles of keys do ----------- */

/* Sums of queries: of the segment under way, or of all before it. Those of a tile start at a
 * multiple of TSA_TILE_TOKENS rows, as kernels write whole vectors of max and den. */
struct sums_of_rows {
    T *acc, *max, *den;
};
static struct sums_of_rows rows_from(const struct tsa_plan *plan, struct sums_of_rows s, size_t t)
{
    return (struct sums_of_rows){s.acc + t * plan->layout.ldv, s.max + t, s.den + t};
}

/* One head's queries first .. first+n-1. Rows of tile i start at offset[i], offset[tiles] = n. */
struct query_range {
    size_t b, h, first, n, tiles;
    size_t offset[TSA_SOFTMAX_TILES + 1];
    bool bounded;
    T *qt;
};

/* Tile i of queries on a tile of `keys` keys, of which its query t sees those up to diag + t. */
static void tile_keys(const struct tsa_plan *plan, T *scratch, const struct query_range *range,
                      size_t i, struct sums_of_rows sums, const T *kt, const T *v, ptrdiff_t ldv,
                      size_t keys, ptrdiff_t diag, bool first)
{
    const struct tsa_softmax_scratch *r = &plan->scratch.softmax;
    const ptrdiff_t lda = (ptrdiff_t)plan->layout.ldv;
    const size_t t = range->offset[i], m = range->offset[i + 1] - t;
    const T *qt = range->qt + i * plan->d * TSA_TILE_TOKENS;
    const struct sums_of_rows s = rows_from(plan, sums, i * TSA_TILE_TOKENS);
    T *w = scratch + r->weights, *shrink = scratch + r->shrink;
    KERNELS(plan)->softmax_scores(keys, m, plan->d, kt, TSA_TILE_TOKENS, qt, TSA_TILE_TOKENS, w,
                                  TSA_TILE_TOKENS, diag, range->bounded);
    bool less = false;
    if (range->bounded)
        KERNELS(plan)->window_ones(keys, m, w, TSA_TILE_TOKENS, diag, s.den, first);
    else
        less = KERNELS(plan)->softmax_weights(keys, m, w, TSA_TILE_TOKENS, diag, first, s.max,
                                              s.den, shrink) != 0;
    KERNELS(plan)->softmax_values(m, plan->layout.ldv, keys, diag, w, TSA_TILE_TOKENS, v, ldv,
                                  s.acc, lda, first, less ? shrink : NULL);
}

/* Keys from .. to-1, whole tiles of one segment, for all tiles that see some. */
static void range_keys(const struct tsa_call *call, T *scratch, const struct query_range *range,
                       struct sums_of_rows sums, size_t from, size_t to)
{
    const struct tsa_plan *plan = call->plan;
    const struct packed_keys keys =
        pack_keys(call, scratch, range->b, range->h / plan->group, from, to - from);
    for (size_t i = 0; i < range->tiles; i++) {
        const size_t t = range->first + range->offset[i];
        const size_t seen = keys_seen(call, range->first + range->offset[i + 1] - 1);
        for (size_t k = from; k < to && k < seen; k += TSA_TILE_TOKENS) {
            const size_t n = tile_tokens((seen < to ? seen : to) - k);
            const ptrdiff_t diag =
                call->causal ? (ptrdiff_t)(keys_seen(call, t) - 1 - k) : (ptrdiff_t)n;
            tile_keys(plan, scratch, range, i, sums, keys.kt + (k - from) * plan->d,
                      keys.v + (ptrdiff_t)(k - from) * keys.ldv, keys.ldv, n, diag,
                      k % TSA_SEGMENT_KEYS == 0);
        }
    }
}

/* The row of the sums that query t of the range has. */
static size_t range_row(const struct query_range *range, size_t t)
{
    size_t i = 0;
    while (range->offset[i + 1] <= t)
        i++;
    return i * TSA_TILE_TOKENS + t - range->offset[i];
}

/* Cut the range into tiles, packed. */
static void pack_tiles(const struct tsa_call *call, T *scratch, struct query_range *range)
{
    const struct tsa_plan *plan = call->plan;
    const struct tsa_softmax_scratch *r = &plan->scratch.softmax;
    const int l2 = plan->normalize == TSA_NORMALIZE_L2;
    const T scale = coefficients_of(plan, range->h).scale;
    range->bounded = scores_bounded(plan, range->h);
    range->qt = scratch + r->qt;
    range->tiles = 0;
    for (size_t t = 0, m; t < range->n; t += m, range->tiles++) {
        const size_t at = keys_seen(call, range->first + t) - 1;
        const size_t most = TSA_TILE_TOKENS - (call->causal ? at % TSA_TILE_TOKENS : 0);
        m = range->n - t < most ? range->n - t : most;
        ptrdiff_t stride;
        const T *src = rows_in(plan, call->q, range->b, range->h, range->first + t, m, plan->d,
                               scratch + r->rows, &stride);
        KERNELS(plan)->pack_t(m, plan->d, src, stride, l2, scale,
                              range->qt + range->tiles * plan->d * TSA_TILE_TOKENS,
                              TSA_TILE_TOKENS);
        range->offset[range->tiles] = t;
    }
    range->offset[range->tiles] = range->n;
}

static void softmax_range(const struct tsa_call *call, T *scratch, struct query_range *range)
{
    const struct tsa_plan *plan = call->plan;
    const struct tsa_softmax_scratch *r = &plan->scratch.softmax;
    const size_t seen = keys_seen(call, range->first + range->n - 1);
    const struct sums_of_rows all = {scratch + r->acc, scratch + r->max, scratch + r->den};
    const struct sums_of_rows part = {scratch + r->part_acc, scratch + r->part_max,
                                      scratch + r->part_den};
    pack_tiles(call, scratch, range);
    for (size_t segment = 0; segment < seen; segment += TSA_SEGMENT_KEYS) {
        const size_t end = seen - segment < TSA_SEGMENT_KEYS ? seen : segment + TSA_SEGMENT_KEYS;
        for (size_t k = segment; k < end; k += r->keys)
            range_keys(call, scratch, range, segment == 0 ? all : part, k,
                       end - k < r->keys ? end : k + r->keys);
        for (size_t t = 0; segment > 0 && t < range->n; t++) {
            const size_t row = range_row(range, t);
            const struct sums_of_rows a = rows_from(plan, all, row);
            const struct sums_of_rows p = rows_from(plan, part, row);
            if (keys_seen(call, range->first + t) > segment)
                KERNELS(plan)->softmax_combine(plan->layout.ldv, range->bounded, *p.max, *p.den,
                                               p.acc, a.max, a.den, a.acc);
        }
    }
    for (size_t t = 0; t < range->n; t++) {
        const struct sums_of_rows a = rows_from(plan, all, range_row(range, t));
        write_row(call, scratch, range->b, range->h, range->first + t, a.acc, *a.den);
    }
}

/* Queries of a range, unless that leaves threads idle: at most plan->scratch.softmax.queries. */
static size_t range_queries(const struct tsa_call *call)
{
    const size_t heads = call->batch * call->plan->heads, wanted = 8 * call->team.threads;
    size_t most = call->plan->scratch.softmax.queries;
    while (call->team.threads > 1 && most > TSA_TILE_TOKENS && heads * call->tokens / most < wanted)
        most = most / (2 * TSA_TILE_TOKENS) * TSA_TILE_TOKENS;
    return most < TSA_TILE_TOKENS ? TSA_TILE_TOKENS : most;
}
/* Ranges end at multiples of their size, counted in keys seen if causal. */
static size_t range_start(const struct tsa_call *call)
{
    return call->causal ? call->keys - call->tokens : 0;
}
static size_t range_count(const struct tsa_call *call)
{
    const size_t start = range_start(call), size = range_queries(call);
    return (start + call->tokens - 1) / size - start / size + 1;
}

static void range_task(const struct tsa_call *call, T *scratch, size_t index)
{
    const struct tsa_plan *plan = call->plan;
    const size_t start = range_start(call), size = range_queries(call);
    const size_t items = call->batch * plan->heads, item = index % items;
    /* the last ranges see most keys and go first */
    const size_t part = start / size + range_count(call) - 1 - index / items;
    const size_t from = part * size > start ? part * size - start : 0;
    const size_t to = (part + 1) * size - start;
    struct query_range range = {.b = item / plan->heads,
                                .h = item % plan->heads,
                                .first = from,
                                .n = (to < call->tokens ? to : call->tokens) - from};
    softmax_range(call, scratch, &range);
}

/* -- few queries: row by row ----------------------------------------------------------------- */

/* Rows of one kv head are the queries of its group: row r is query r % tokens of head r / tokens.
 */
struct row {
    size_t h, t, seen;
    bool bounded;
};
static struct row row_at(const struct tsa_call *call, size_t g, size_t index)
{
    const size_t h = g * call->plan->group + index / call->tokens, t = index % call->tokens;
    return (struct row){h, t, keys_seen(call, t), scores_bounded(call->plan, h)};
}

/* Sums of one row, q, over the segment at key `segment`. */
static void one_row(const struct tsa_call *call, T *scratch, size_t b, size_t g, struct row row,
                    size_t segment, const T *q, struct sums_of_rows s)
{
    const struct tsa_plan *plan = call->plan;
    const struct tsa_softmax_scratch *r = &plan->scratch.softmax;
    const size_t end =
        row.seen - segment < TSA_SEGMENT_KEYS ? row.seen : segment + TSA_SEGMENT_KEYS;
    const size_t most = call->k->dtype != TSA_DTYPE ? TSA_TILE_TOKENS
                        : values_in_place(call)     ? TSA_SEGMENT_KEYS
                                                    : r->keys;
    for (size_t k = segment; k < end; k += most) {
        const size_t n = end - k < most ? end - k : most;
        ptrdiff_t stride, ldv;
        const T *v = pack_values(call, scratch, b, g, k, n, &ldv);
        const T *keys = rows_in(plan, call->k, b, g, k, n, plan->d, scratch + r->rows, &stride);
        KERNELS(plan)->softmax_decode(n, plan->d, keys, stride, plan->normalize == TSA_NORMALIZE_L2,
                                      q, row.bounded, plan->layout.ldv, v, ldv, k == segment, s.max,
                                      s.den, s.acc, scratch + r->kt, scratch + r->weights);
    }
}

/* Sums of n rows from `first` on over the segment at key `segment`. */
static void rows_segment(const struct tsa_call *call, T *scratch, size_t item, size_t first,
                         size_t n, size_t segment, struct sums_of_rows s)
{
    const struct tsa_plan *plan = call->plan;
    const struct tsa_softmax_scratch *r = &plan->scratch.softmax;
    const size_t b = item / plan->kv_heads, g = item % plan->kv_heads, d = plan->d;
    T *q = scratch + r->qt;
    for (size_t i = 0; i < n; i++) {
        const struct row row = row_at(call, g, first + i);
        ptrdiff_t stride;
        const T *src = rows_in(plan, call->q, b, row.h, row.t, 1, d, scratch + r->rows, &stride);
        KERNELS(plan)->pack_t(1, d, src, stride, plan->normalize == TSA_NORMALIZE_L2,
                              coefficients_of(plan, row.h).scale, q + i * d, 1);
    }
    if (n == 1 && d % TSA_MAX_LANES == 0) {
        one_row(call, scratch, b, g, row_at(call, g, first), segment, q, s);
        return;
    }
    const size_t all = keys_seen(call, call->tokens - 1);
    const size_t end = all - segment < TSA_SEGMENT_KEYS ? all : segment + TSA_SEGMENT_KEYS;
    for (size_t k = segment; k < end; k += TSA_TILE_TOKENS) {
        const size_t count = tile_tokens(end - k);
        const struct packed_keys keys = pack_keys(call, scratch, b, g, k, count);
        for (size_t i = 0; i < n; i++) {
            const struct row row = row_at(call, g, first + i);
            const struct sums_of_rows x = rows_from(plan, s, i);
            if (row.seen > k)
                KERNELS(plan)->softmax_row(row.seen - k < count ? row.seen - k : count, d, keys.kt,
                                           TSA_TILE_TOKENS, q + i * d, row.bounded,
                                           plan->layout.ldv, keys.v, keys.ldv, k == segment, x.max,
                                           x.den, x.acc, scratch + r->weights);
        }
    }
}

static void combine_rows(const struct tsa_call *call, size_t g, size_t first, size_t n,
                         size_t segment, struct sums_of_rows all, struct sums_of_rows part)
{
    const struct tsa_plan *plan = call->plan;
    for (size_t i = 0; i < n; i++) {
        const struct row row = row_at(call, g, first + i);
        const struct sums_of_rows a = rows_from(plan, all, i), p = rows_from(plan, part, i);
        if (row.seen > segment)
            KERNELS(plan)->softmax_combine(plan->layout.ldv, row.bounded, *p.max, *p.den, p.acc,
                                           a.max, a.den, a.acc);
    }
}

static void write_rows(const struct tsa_call *call, T *scratch, size_t item, size_t first, size_t n,
                       struct sums_of_rows s)
{
    const struct tsa_plan *plan = call->plan;
    for (size_t i = 0; i < n; i++) {
        const struct row row = row_at(call, item % plan->kv_heads, first + i);
        const struct sums_of_rows x = rows_from(plan, s, i);
        write_row(call, scratch, item / plan->kv_heads, row.h, row.t, x.acc, *x.den);
    }
}

/* Rows TSA_TOKEN_ROWS at a time, each run of rows a task. */
static size_t row_runs(const struct tsa_call *call)
{
    return (call->plan->group * call->tokens + TSA_TOKEN_ROWS - 1) / TSA_TOKEN_ROWS;
}
static size_t run_rows(const struct tsa_call *call, size_t first)
{
    const size_t left = call->plan->group * call->tokens - first;
    return left < TSA_TOKEN_ROWS ? left : TSA_TOKEN_ROWS;
}

static void rows_task(const struct tsa_call *call, T *scratch, size_t index)
{
    const struct tsa_plan *plan = call->plan;
    const struct tsa_softmax_scratch *r = &plan->scratch.softmax;
    const size_t runs = row_runs(call), item = index / runs;
    const size_t first = index % runs * TSA_TOKEN_ROWS, n = run_rows(call, first);
    const struct sums_of_rows all = {scratch + r->acc, scratch + r->max, scratch + r->den};
    const struct sums_of_rows part = {scratch + r->part_acc, scratch + r->part_max,
                                      scratch + r->part_den};
    rows_segment(call, scratch, item, first, n, 0, all);
    for (size_t segment = TSA_SEGMENT_KEYS; segment < call->keys; segment += TSA_SEGMENT_KEYS) {
        rows_segment(call, scratch, item, first, n, segment, part);
        combine_rows(call, item % plan->kv_heads, first, n, segment, all, part);
    }
    write_rows(call, scratch, item, first, n, all);
}

/* Segments of one run of rows, which the team shares out: TSA_SOFTMAX_PARTS in the scratch of
 * each thread. */
struct segment_wave {
    const struct tsa_call *call;
    size_t item, first, n, segment;
};

static struct sums_of_rows part_at(const struct tsa_call *call, size_t index)
{
    const struct tsa_softmax_scratch *r = &call->plan->scratch.softmax;
    T *s = scratch_at(call, index % call->team.threads) + r->parts +
           index / call->team.threads * r->part;
    return (struct sums_of_rows){s + 2 * TSA_TOKEN_ROWS, s, s + TSA_TOKEN_ROWS};
}

static void segment_task(const void *argument, size_t thread, size_t index)
{
    const struct segment_wave *w = argument;
    rows_segment(w->call, scratch_at(w->call, thread), w->item, w->first, w->n,
                 w->segment + index * TSA_SEGMENT_KEYS, part_at(w->call, index));
}

static void rows_by_segments(const struct tsa_call *call, size_t item, size_t first)
{
    const struct tsa_plan *plan = call->plan;
    const struct tsa_softmax_scratch *r = &plan->scratch.softmax;
    const size_t n = run_rows(call, first), most = call->team.threads * TSA_SOFTMAX_PARTS;
    const size_t all = keys_seen(call, call->tokens - 1);
    T *scratch = scratch_at(call, 0);
    const struct sums_of_rows sums = {scratch + r->acc, scratch + r->max, scratch + r->den};
    struct segment_wave w = {call, item, first, n, 0};
    while (w.segment < all) {
        const size_t left = (all - w.segment + TSA_SEGMENT_KEYS - 1) / TSA_SEGMENT_KEYS;
        const size_t count = left < most ? left : most;
        tsa_team_run(&call->team, count, count, segment_task, &w);
        for (size_t i = 0; i < count; i++) {
            const size_t segment = w.segment + i * TSA_SEGMENT_KEYS;
            const struct sums_of_rows part = part_at(call, i);
            if (segment > 0) {
                combine_rows(call, item % plan->kv_heads, first, n, segment, sums, part);
                continue;
            }
            memcpy(sums.acc, part.acc, n * plan->layout.ldv * sizeof(T));
            memcpy(sums.max, part.max, n * sizeof(T));
            memcpy(sums.den, part.den, n * sizeof(T));
        }
        w.segment += count * TSA_SEGMENT_KEYS;
    }
    write_rows(call, scratch, item, first, n, sums);
}

/* -- the call -------------------------------------------------------------------------------- */

/* So few queries of a head go row by row. */
#define FEW_QUERIES 4
/* Products of a query and a key, times d + dv, that are worth a second thread. */
#define SPLIT_PRODUCTS 2e5

static void softmax(const struct tsa_call *call)
{
    const struct tsa_plan *plan = call->plan;
    const size_t rows = call->batch * plan->heads * call->tokens;
    struct tsa_call alone;
    if (call->team.threads > 1 &&
        (double)rows * (double)call->keys * (double)(plan->d + plan->dv) < SPLIT_PRODUCTS) {
        alone = *call;
        alone.team.threads = 1;
        call = &alone;
    }
    if (call->tokens > FEW_QUERIES) {
        const size_t count = call->batch * plan->heads * range_count(call);
        run_tasks(call, count, count, range_task);
        return;
    }
    const size_t tasks = call->batch * plan->kv_heads * row_runs(call);
    if (call->team.threads == 1 || tasks >= 2 * call->team.threads ||
        call->keys <= 2 * TSA_SEGMENT_KEYS) {
        run_tasks(call, tasks, tasks, rows_task);
        return;
    }
    for (size_t i = 0; i < tasks; i++)
        rows_by_segments(call, i / row_runs(call), i % row_runs(call) * TSA_TOKEN_ROWS);
}
