/* SPDX-License-Identifier: MIT */
/* How single tokens, queries and rows of softmax are shared out; see schedule.h. */
#include "config.h"

#include "schedule.h"
#include "tuning.h"

/* -- single tokens ----------------------------------------------------------------------------- */

size_t tsa_heads_together(const struct tsa_plan *plan)
{
    return plan->group < TSA_TOKEN_ROWS ? TSA_TOKEN_ROWS / plan->group : 1;
}

size_t tsa_token_share(const struct tsa_call *call)
{
    const size_t items = call->batch * call->plan->kv_heads, fill = tsa_heads_together(call->plan);
    const size_t share = (items + call->team.threads - 1) / call->team.threads;
    return share < fill ? share : fill;
}

/* Bytes of the high parts of the sums of a kv head. */
static size_t sum_bytes(const struct tsa_plan *plan)
{
    return plan->mono.total * plan->layout.ldv * plan->elem;
}

size_t tsa_column_parts(const struct tsa_call *call)
{
    const struct tsa_plan *plan = call->plan;
    const size_t columns = plan->layout.ldv / (TSA_ALIGN / plan->elem);
    const size_t share = call->team.threads / (call->batch * plan->kv_heads);
    if (plan->crowded || sum_bytes(plan) < TSA_SPLIT_BYTES)
        return 1;
    return share < columns ? (share > 1 ? share : 1) : columns;
}

bool tsa_decode_is_short(const struct tsa_call *call)
{
    return call->batch * call->plan->kv_heads * sum_bytes(call->plan) < TSA_SPLIT_BYTES / 2;
}

size_t tsa_query_parts(const struct tsa_call *call)
{
    const size_t most = call->plan->scratch.queries;
    return (call->tokens + most - 1) / most;
}

/* -- softmax ----------------------------------------------------------------------------------- */

/* Keys that a row sees, at most. */
static size_t most_keys(const struct tsa_call *call)
{
    const size_t window = call->plan->softmax_window;
    return window > 0 && window < call->keys ? window : call->keys;
}

bool tsa_softmax_is_short(const struct tsa_call *call)
{
    const struct tsa_plan *plan = call->plan;
    const size_t rows = call->batch * plan->heads * call->tokens;
    return (double)rows * (double)most_keys(call) * (double)(plan->d + plan->dv) <
           TSA_SPLIT_PRODUCTS;
}

/* Queries of a range: at most plan->scratch.softmax.queries, fewer if that leaves threads idle. */
static size_t range_size(const struct tsa_call *call)
{
    const size_t heads = call->batch * call->plan->heads;
    const size_t wanted = TSA_RANGES_PER_THREAD * call->team.threads;
    size_t most = call->plan->scratch.softmax.queries;
    while (call->team.threads > 1 && most > TSA_TILE_TOKENS && heads * call->tokens / most < wanted)
        most = most / (2 * TSA_TILE_TOKENS) * TSA_TILE_TOKENS;
    return most < TSA_TILE_TOKENS ? TSA_TILE_TOKENS : most;
}

/* Ranges end at multiples of their size, counted in keys seen if causal: keys that the query before
 * the first one sees. */
static size_t range_start(const struct tsa_call *call)
{
    return call->causal ? call->keys - call->tokens : 0;
}

static size_t ranges_of_head(const struct tsa_call *call)
{
    const size_t start = range_start(call), size = range_size(call);
    return (start + call->tokens - 1) / size - start / size + 1;
}

size_t tsa_softmax_ranges(const struct tsa_call *call)
{
    return call->batch * call->plan->heads * ranges_of_head(call);
}

struct tsa_queries tsa_softmax_range(const struct tsa_call *call, size_t index)
{
    const size_t heads = call->plan->heads, items = call->batch * heads, item = index % items;
    const size_t start = range_start(call), size = range_size(call);
    const size_t part = start / size + ranges_of_head(call) - 1 - index / items;
    const size_t from = part * size > start ? part * size - start : 0;
    const size_t to = (part + 1) * size - start;
    return (struct tsa_queries){.b = item / heads,
                                .h = item % heads,
                                .first = from,
                                .n = (to < call->tokens ? to : call->tokens) - from};
}

/* Runs of the heads of one query, where rows of a run have to see the same keys. */
static size_t runs_of_query(const struct tsa_call *call)
{
    return (call->plan->group + TSA_TOKEN_ROWS - 1) / TSA_TOKEN_ROWS;
}

size_t tsa_softmax_runs(const struct tsa_call *call)
{
    if (call->plan->softmax_window > 0)
        return call->tokens * runs_of_query(call);
    return (call->plan->group * call->tokens + TSA_TOKEN_ROWS - 1) / TSA_TOKEN_ROWS;
}

size_t tsa_run_first(const struct tsa_call *call, size_t index)
{
    const size_t runs = runs_of_query(call);
    if (call->plan->softmax_window > 0)
        return index / runs * call->plan->group + index % runs * TSA_TOKEN_ROWS;
    return index * TSA_TOKEN_ROWS;
}

size_t tsa_run_rows(const struct tsa_call *call, size_t first)
{
    const size_t group = call->plan->group;
    const size_t left =
        call->plan->softmax_window > 0 ? group - first % group : group * call->tokens - first;
    return left < TSA_TOKEN_ROWS ? left : TSA_TOKEN_ROWS;
}

bool tsa_softmax_splits_keys(const struct tsa_call *call)
{
    const size_t tasks = call->batch * call->plan->kv_heads * tsa_softmax_runs(call);
    return call->team.threads > 1 && tasks < 2 * call->team.threads &&
           most_keys(call) > 2 * TSA_SEGMENT_KEYS;
}
