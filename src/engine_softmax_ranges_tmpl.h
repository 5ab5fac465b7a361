/* SPDX-License-Identifier: MIT */
/* Softmax of many queries: tiles of up to TSA_TILE_TOKENS of them, which end where tiles of keys
 * do. Part of engine_softmax_tmpl.h. */

/* A range of queries, packed. Tile i holds its queries offset[i] .. offset[i+1]-1, and its sums
 * start at row i TSA_TILE_TOKENS, as kernels write whole vectors of max and den. */
struct query_range {
    struct tsa_queries q;
    size_t tiles, offset[TSA_SOFTMAX_TILES + 1];
    bool bounded;
    T *qt;
};

/* Cut the range into tiles, and pack them. */
static void pack_tiles(const struct context *x, struct query_range *range)
{
    const struct tsa_plan *plan = x->plan;
    const struct tsa_softmax_scratch *s = &plan->scratch.softmax;
    const int l2 = plan->normalize == TSA_NORMALIZE_L2;
    const T scale = coefficients_of(plan, range->q.h).scale;
    struct rows r = {range->q.b, range->q.h, range->q.first, 0};
    range->bounded = scores_bounded(plan, r.h);
    range->qt = x->scratch + s->qt;
    range->tiles = 0;
    for (size_t t = 0; t < range->q.n; t += r.n, r.t += r.n, range->tiles++) {
        const size_t at = tsa_keys_seen(x->call, r.t) - 1, left = range->q.n - t;
        const size_t most = TSA_TILE_TOKENS - (x->call->causal ? at % TSA_TILE_TOKENS : 0);
        r.n = left < most ? left : most;
        const struct matrix q = rows_in(plan, x->call->q, &r, plan->d, x->scratch + s->rows);
        KERNELS(plan)->pack_t(r.n, plan->d, q.at, q.ld, l2, scale,
                              range->qt + range->tiles * plan->d * TSA_TILE_TOKENS,
                              TSA_TILE_TOKENS);
        range->offset[range->tiles] = t;
    }
    range->offset[range->tiles] = range->q.n;
}

/* A tile of keys; query t of a tile of queries sees those from low + t up to diag + t. */
struct key_tile {
    struct packed_keys keys;
    size_t n;
    ptrdiff_t diag, low;
    bool first; /* of a segment */
};

/* Weights of keys that have left the window of a query become 0. They stand before all that it
 * sees, where its sums are still +0, so that they change no bit of these: values are finite. */
static void clear_weights(const struct key_tile *k, size_t queries, T *w)
{
    for (ptrdiff_t i = 0; i < (ptrdiff_t)k->n && i < k->low + (ptrdiff_t)queries; i++) {
        const size_t from = i >= k->low ? (size_t)(i - k->low + 1) : 0;
        if (from < queries)
            memset(w + i * TSA_TILE_TOKENS + from, 0, (queries - from) * sizeof(T));
    }
}

/* Tile i of queries on a tile of keys. */
static void tile_keys(const struct context *x, const struct query_range *range, size_t i,
                      struct softmax_sums sums, const struct key_tile *k)
{
    const struct tsa_plan *plan = x->plan;
    const struct tsa_softmax_scratch *r = &plan->scratch.softmax;
    const size_t ldv = plan->layout.ldv, m = range->offset[i + 1] - range->offset[i];
    const T *qt = range->qt + i * plan->d * TSA_TILE_TOKENS;
    const struct softmax_sums s = sums_of_row(plan, sums, i * TSA_TILE_TOKENS);
    T *w = x->scratch + r->weights, *shrink = x->scratch + r->shrink;
    bool less = false;
    KERNELS(plan)->scores(
        &(const struct ARGS(scores)){.keys = k->n,
                                     .queries = m,
                                     .d = plan->d,
                                     .kt = k->keys.kt,
                                     .ldk = TSA_TILE_TOKENS,
                                     .qt = qt,
                                     .ldq = TSA_TILE_TOKENS,
                                     .w = w,
                                     .ldw = TSA_TILE_TOKENS,
                                     .diag = k->diag,
                                     .kind = range->bounded ? TSA_SCORE_EXP : TSA_SCORE_ONLY});
    clear_weights(k, m, w);
    if (range->bounded)
        KERNELS(plan)->window_ones(k->n, m, w, TSA_TILE_TOKENS, k->diag, s.den, k->first);
    else
        less = KERNELS(plan)->softmax_weights(
                   &(const struct ARGS(softmax_weights)){.keys = k->n,
                                                         .queries = m,
                                                         .w = w,
                                                         .ldw = TSA_TILE_TOKENS,
                                                         .diag = k->diag,
                                                         .first = k->first,
                                                         .max = s.max,
                                                         .den = s.den,
                                                         .shrink = shrink}) != 0;
    KERNELS(plan)->window(&(const struct ARGS(window)){.queries = m,
                                                       .columns = ldv,
                                                       .keys = k->n,
                                                       .diag = k->diag,
                                                       .w = w,
                                                       .ldw = TSA_TILE_TOKENS,
                                                       .v = k->keys.v,
                                                       .ldv = k->keys.ldv,
                                                       .acc = s.acc,
                                                       .dst = s.acc,
                                                       .lda = (ptrdiff_t)ldv,
                                                       .stride = (ptrdiff_t)ldv,
                                                       .first = k->first,
                                                       .shrink = less ? shrink : NULL});
}

/* Where the tile of keys begins that has the first one that query t sees. */
static size_t first_tile(const struct tsa_call *call, size_t t)
{
    const size_t window = call->plan->softmax_window, seen = tsa_keys_seen(call, t);
    return window == 0 || seen < window ? 0 : (seen - window) / TSA_TILE_TOKENS * TSA_TILE_TOKENS;
}

/* With a window, where do ranges give the bits of rows? Where a row is one chain over its keys: no
 * maximum, one segment. And unseen values have to be finite. */
static bool ranges_fit(const struct tsa_plan *plan)
{
    bool fit = plan->softmax_window <= TSA_SEGMENT_KEYS && !(plan->flags & TSA_SKIP_INPUT_CHECK);
    for (size_t h = 0; fit && h < plan->heads; h++)
        fit = scores_bounded(plan, h);
    return fit || plan->softmax_window == 0;
}

/* Keys from .. to-1, whole tiles of one segment, for all tiles that see some. */
static void range_keys(const struct context *x, const struct query_range *range,
                       struct softmax_sums sums, size_t from, size_t to)
{
    const struct tsa_plan *plan = x->plan;
    const struct tsa_call *call = x->call;
    const struct tsa_queries *q = &range->q;
    const size_t window = plan->softmax_window;
    const struct rows r = {q->b, q->h / plan->group, from, to - from};
    const struct packed_keys keys = pack_keys(x, r);
    for (size_t i = 0; i < range->tiles; i++) {
        const size_t t = q->first + range->offset[i];
        const size_t seen = tsa_keys_seen(call, q->first + range->offset[i + 1] - 1);
        const size_t begin = first_tile(call, t);
        for (size_t k = from > begin ? from : begin; k < to && k < seen; k += TSA_TILE_TOKENS) {
            struct key_tile tile = {.n = tile_tokens((seen < to ? seen : to) - k),
                                    .low = -TSA_TILE_TOKENS,
                                    .first =
                                        k == begin || (window == 0 && k % TSA_SEGMENT_KEYS == 0)};
            if (window > 0)
                tile.low = (ptrdiff_t)tsa_keys_seen(call, t) - (ptrdiff_t)(window + k);
            tile.keys = (struct packed_keys){keys.kt + (k - from) * plan->d,
                                             keys.v + (ptrdiff_t)(k - from) * keys.ldv, keys.ldv};
            tile.diag =
                call->causal ? (ptrdiff_t)(tsa_keys_seen(call, t) - 1 - k) : (ptrdiff_t)tile.n;
            tile_keys(x, range, i, sums, &tile);
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

static void range_task(const struct context *x, size_t index)
{
    const struct tsa_plan *plan = x->plan;
    struct query_range range = {.q = tsa_softmax_range(x->call, index)};
    const struct tsa_queries *q = &range.q;
    const size_t seen = tsa_keys_seen(x->call, q->first + q->n - 1);
    const size_t most = plan->scratch.softmax.keys;
    const struct softmax_sums all = all_sums(x), part = segment_sums(x);
    pack_tiles(x, &range);
    const size_t begin = first_tile(x->call, q->first);
    for (size_t k = begin; plan->softmax_window > 0 && k < seen; k += most)
        range_keys(x, &range, all, k, seen - k < most ? seen : k + most);
    for (size_t segment = 0; plan->softmax_window == 0 && segment < seen;
         segment += TSA_SEGMENT_KEYS) {
        const size_t end = seen - segment < TSA_SEGMENT_KEYS ? seen : segment + TSA_SEGMENT_KEYS;
        for (size_t k = segment; k < end; k += most)
            range_keys(x, &range, segment == 0 ? all : part, k, end - k < most ? end : k + most);
        for (size_t t = 0; segment > 0 && t < q->n; t++) {
            const size_t row = range_row(&range, t);
            if (tsa_keys_seen(x->call, q->first + t) > segment)
                combine(plan, range.bounded, sums_of_row(plan, all, row),
                        sums_of_row(plan, part, row));
        }
    }
    for (size_t t = 0; t < q->n; t++)
        write_row(x, q->b, q->h, q->first + t, sums_of_row(plan, all, range_row(&range, t)));
}
