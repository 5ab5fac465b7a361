/* SPDX-License-Identifier: MIT */
/* Scratch memory: what the team shares, one scratch per thread, then what it needs to work on an item
 * together. */
#include "config.h"

#include <string.h>

#include "call.h"

struct tsa_workspace {
    char magic[8];
    uint64_t threads;
    uint64_t scratch, together; /* elements: a workspace serves plans that need no more */
    uint64_t elem;
    uint64_t capacity; /* bytes after this head */
    uint64_t bytes;    /* allocated by the library, else 0 */
    struct tsa_allocator allocator;
};

static const char workspace_magic[8] = "tsawork";

/* Most tokens that pass over the sums together: as many as keep a pass over sums that lie in memory
 * bound by arithmetic. */
#define MOST_QUERIES 512
/* High parts beyond these bytes, with the low parts, do not stay in L2: they are
 * prefetched, and read once for several query heads, whose accumulators and monomials may take
 * some memory. */
#define LARGE_SUMS ((size_t)384 << 10)
#define MOST_HEADS_BYTES ((size_t)8 << 20)
/* Memory that the chunks of a wave or of a relay may take. */
#define MOST_TOGETHER_BYTES ((size_t)256 << 20)
/* Fewer features per stage of a relay cost more than a wave's traffic. */
#define STAGE_FEATURES 24
/* Tokens of the chunks that move from stage to stage in a step, at most. */
#define STEP_TOKENS 1024

/* Append n*m elements, aligned; false on overflow. */
static bool add(size_t *total, size_t *offset, size_t n, size_t m)
{
    size_t count;
    *offset = *total;
    return tsa_size_mul(n, m, &count) && count < SIZE_MAX - 2 * TSA_MAX_LANES &&
           tsa_size_add(*total, tsa_round_up(count, TSA_MAX_LANES), total);
}

static size_t heads_together(const struct tsa_plan *plan, size_t queries)
{
    const double head =
        ((double)plan->mono.rows + (double)plan->layout.ldv) * (double)(queries * plan->elem);
    const double fit = (double)MOST_HEADS_BYTES / head;
    if (!plan->large || fit < 2)
        return 1;
    return fit < (double)plan->group ? (size_t)fit : plan->group;
}

/* Sums of a range of queries, and packed keys with their values that it sees together, in bytes. */
#define SOFTMAX_SUMS ((size_t)128 << 10)
#define SOFTMAX_KEYS ((size_t)128 << 10)

/* Whole tiles that fit in `bytes`, each row of `row` elements: one to TSA_SOFTMAX_TILES. */
static size_t softmax_tiles(const struct tsa_plan *plan, size_t bytes, size_t row)
{
    const size_t fit = bytes / plan->elem / TSA_TILE_TOKENS / row;
    size_t tiles = 1; /* a power of two: segments are whole numbers of them */
    while (2 * tiles <= fit && 2 * tiles <= TSA_SOFTMAX_TILES)
        tiles *= 2;
    return tiles * TSA_TILE_TOKENS;
}

static bool softmax_scratch_init(const struct tsa_plan *plan, struct tsa_softmax_scratch *r)
{
    const size_t tile = TSA_TILE_TOKENS, ldv = plan->layout.ldv, d = plan->d;
    const size_t widest = d > plan->dv ? d : plan->dv;
    r->queries = softmax_tiles(plan, SOFTMAX_SUMS, ldv);
    r->keys = softmax_tiles(plan, SOFTMAX_KEYS, ldv + d);
    r->total = 0;
    size_t weights;
    if (!tsa_size_mul(d, 3 * TSA_MAX_LANES, &weights) ||
        !tsa_size_add(weights, 3 * tile, &weights) ||
        !tsa_size_mul(TSA_TOKEN_ROWS, ldv + 2, &r->part))
        return false;
    weights = weights > tile * tile ? weights : tile * tile;
    return add(&r->total, &r->qt, r->queries, d) && add(&r->total, &r->kt, r->keys, d) &&
           add(&r->total, &r->v, r->keys, ldv) && add(&r->total, &r->weights, weights, 1) &&
           add(&r->total, &r->acc, r->queries, ldv) && add(&r->total, &r->max, r->queries, 1) &&
           add(&r->total, &r->den, r->queries, 1) &&
           add(&r->total, &r->part_acc, r->queries, ldv) &&
           add(&r->total, &r->part_max, r->queries, 1) &&
           add(&r->total, &r->part_den, r->queries, 1) && add(&r->total, &r->shrink, tile, 1) &&
           add(&r->total, &r->rows, tile, widest) &&
           add(&r->total, &r->parts, TSA_SOFTMAX_PARTS, r->part);
}

bool tsa_scratch_init(struct tsa_plan *plan)
{
    const size_t spill = 2 * TSA_MAX_LANES, tile = TSA_TILE_TOKENS;
    const size_t chunk = tsa_round_up(plan->chunk, TSA_ROW_PAD);
    const struct tsa_layout *l = &plan->layout;
    struct tsa_scratch *scratch = &plan->scratch;
    memset(scratch, 0, sizeof *scratch);
    plan->large = plan->mono.total * l->ldv * plan->elem > LARGE_SUMS; /* fits: a state does */
    scratch->keys = tsa_round_up(plan->chunk, tile);
    scratch->queries = scratch->keys < MOST_QUERIES ? scratch->keys : MOST_QUERIES;
    scratch->heads = heads_together(plan, scratch->queries);
    scratch->ld_base = tsa_round_up(plan->mono.lower, TSA_ROW_PAD) + spill;
    scratch->ld_psi = tsa_round_up(plan->mono.total, TSA_ROW_PAD) + spill;
    const size_t widest = plan->d > plan->dv ? plan->d : plan->dv;
    const size_t tokens = scratch->heads * scratch->queries;
    const bool mixed = plan->high < plan->mono.total;
    size_t base, token_base, psi, token_psi, weights, token_weights;
    if (!tsa_size_mul(plan->mono.rows + 1, tokens, &base) ||
        !tsa_size_mul(TSA_TOKEN_ROWS, scratch->ld_base, &token_base) ||
        !tsa_size_mul(plan->block, tile, &psi) ||
        !tsa_size_mul(TSA_TOKEN_ROWS, scratch->ld_psi, &token_psi) ||
        !tsa_size_mul(chunk, tile, &weights) ||
        !tsa_size_mul(chunk, TSA_TOKEN_ROWS, &token_weights) ||
        /* for folds, so that merging needs no more */
        !add(&scratch->total, &scratch->psi, psi > token_psi ? psi : token_psi, 1) ||
        !add(&scratch->total, &scratch->kbase, plan->mono.rows + 1, scratch->keys) ||
        !add(&scratch->total, &scratch->local, plan->block > tile ? plan->block : tile, l->ldv) ||
        !add(&scratch->total, &scratch->transposed, plan->transpose_update ? tile : 0,
             plan->block) ||
        !add(&scratch->total, &scratch->vt, plan->transpose_update ? scratch->keys : 0, plan->dv) ||
        !add(&scratch->total, &scratch->local_t, plan->transpose_update ? plan->block : 0,
             l->ldv) ||
        !add(&scratch->total, &scratch->ones, plan->block + TSA_ROW_PAD, 1) ||
        !add(&scratch->total, &scratch->v_pairs, mixed ? scratch->keys / 2 : 0, l->ldv) ||
        !add(&scratch->total, &scratch->fold, 0, 0) ||
        /* for queries */
        !add(&scratch->total, &scratch->qbase, base > token_base ? base : token_base, 1) ||
        !add(&scratch->total, &scratch->acc, tokens, l->ldv) ||
        !add(&scratch->total, &scratch->den, tokens, 1) ||
        !add(&scratch->total, &scratch->weights, weights > token_weights ? weights : token_weights,
             1) ||
        !add(&scratch->total, &scratch->psi_pairs, mixed ? token_psi : 0, 1) ||
        !add(&scratch->total, &scratch->hi_pairs, mixed ? plan->block / 2 : 0, l->ldv) ||
        !add(&scratch->total, &scratch->ones_pairs, mixed ? plan->block / 2 + TSA_ROW_PAD : 0, 1) ||
        !add(&scratch->total, &scratch->rows, scratch->queries, widest) ||
        !softmax_scratch_init(plan, &scratch->softmax))
        return false;
    size_t half, rows_end = 0;
    if (!add(&rows_end, &half, plan->block, 2 * l->ldv) ||
        !add(&rows_end, &half, tsa_round_up(plan->block, TSA_ROW_PAD), 2))
        return false;
    scratch->block_rows = rows_end;
    if (scratch->total < scratch->softmax.total)
        scratch->total = scratch->softmax.total;
    struct tsa_wave_chunk *chunk_parts =
        &plan->wave_chunk; /* parts of a state's section, which fits */
    chunk_parts->total = 0;
    add(&chunk_parts->total, &chunk_parts->sums, l->features, l->ldv);
    add(&chunk_parts->total, &chunk_parts->ones,
        tsa_round_up(l->features, TSA_ROW_PAD) + TSA_ROW_PAD, 1);
    add(&chunk_parts->total, &chunk_parts->kt, plan->d, l->ldk);
    add(&chunk_parts->total, &chunk_parts->v, plan->chunk, l->ldv);
    size_t rows, offset;
    plan->relay_chunk = 0;
    if (!tsa_size_mul(plan->group, scratch->keys, &rows) ||
        !add(&plan->relay_chunk, &offset, rows, l->ldv + 1))
        plan->relay_chunk = 0; /* no relay */
    return true;
}

size_t tsa_wave_chunks(const struct tsa_plan *plan, size_t threads)
{
    if (threads < 2)
        return 0;
    const size_t fit = MOST_TOGETHER_BYTES / (plan->wave_chunk.total * plan->elem);
    const size_t wanted = plan->wave > 1 ? plan->wave : 4 * threads;
    return fit < 2 ? 0 : fit < wanted ? fit : wanted;
}

/* Stages that are worth it; tests want as many as there can be. */
static size_t most_stages(const struct tsa_plan *plan)
{
    const size_t features = plan->mono.total;
    const size_t most =
        plan->wave > 0 ? (features + TSA_ROW_PAD - 1) / TSA_ROW_PAD : features / STAGE_FEATURES;
    return most > 1 ? most : 1;
}

size_t tsa_relay_stages(const struct tsa_plan *plan, size_t threads)
{
    const size_t most = most_stages(plan);
    return threads < most ? threads : most;
}

size_t tsa_relay_chunks(const struct tsa_plan *plan, size_t threads)
{
    if (threads < 2 || plan->relay_chunk == 0)
        return 0;
    const size_t stages = tsa_relay_stages(plan, threads), own = tsa_stage_elements(plan);
    const size_t each = MOST_TOGETHER_BYTES / plan->elem / stages; /* elements of a stage */
    const size_t fit = own < each ? (each - own) / plan->relay_chunk : 0;
    const size_t wanted = STEP_TOKENS / plan->chunk + 1;
    return stages * (fit < wanted ? fit : wanted);
}

size_t tsa_stage_elements(const struct tsa_plan *plan)
{
    const struct tsa_layout *l = &plan->layout;
    const size_t elements = l->hi_pairs - (plan->large ? l->kt : 0);  /* window, sums */
    return tsa_round_up(elements, TSA_MAX_LANES) + 2 * TSA_MAX_LANES; /* lines apart */
}

bool tsa_use_relay(const struct tsa_plan *plan, size_t threads)
{
    if (tsa_relay_chunks(plan, threads) == 0)
        return false;
    if (plan->wave > 0)
        return plan->wave == 1;
    return 10 * threads < 16 * most_stages(plan) || tsa_wave_chunks(plan, threads) == 0;
}

static size_t together_elements(const struct tsa_plan *plan, size_t threads)
{
    if (!tsa_use_relay(plan, threads))
        return tsa_wave_chunks(plan, threads) * plan->wave_chunk.total;
    return tsa_relay_chunks(plan, threads) * plan->relay_chunk +
           tsa_relay_stages(plan, threads) * tsa_stage_elements(plan);
}

/* Of a workspace for so many threads, of which calls with the plan may use fewer. */
static size_t most_together(const struct tsa_plan *plan, size_t threads)
{
    const size_t all = together_elements(plan, threads), used = (size_t)plan->threads;
    const size_t some = used < threads ? together_elements(plan, used) : 0;
    return all > some ? all : some;
}

/* Shares of the team, then the order of long items and the loads of threads. */
static size_t team_bytes(size_t threads)
{
    return (1 + threads) * sizeof(struct tsa_share) +
           tsa_round_up((TSA_LONG_ITEMS + 1) * threads * sizeof(size_t), TSA_ALIGN);
}

size_t tsa_merge_scratch_bytes(const struct tsa_plan *plan)
{
    size_t bytes;
    return tsa_size_mul(plan->scratch.fold + plan->scratch.block_rows, plan->elem, &bytes)
               ? bytes
               : SIZE_MAX;
}

static size_t workspace_bytes(const struct tsa_plan *plan, size_t threads)
{
    size_t elements, bytes;
    const size_t merge = tsa_merge_scratch_bytes(plan);
    if (!tsa_size_mul(plan->scratch.total, threads, &elements) ||
        !tsa_size_add(elements, most_together(plan, threads), &elements) ||
        !tsa_size_mul(elements, plan->elem, &bytes) ||
        !tsa_size_add(bytes, team_bytes(threads), &bytes) ||
        !tsa_size_add(bytes > merge ? bytes : merge,
                      tsa_round_up(sizeof(struct tsa_workspace), TSA_ALIGN), &bytes) ||
        bytes > (size_t)PTRDIFF_MAX)
        return 0;
    return bytes;
}

static size_t thread_count(const struct tsa_plan *plan, int threads)
{
    return (size_t)(threads > 0 ? threads : plan->threads);
}

size_t tsa_workspace_bytes(const struct tsa_plan *plan, int threads)
{
    return plan && threads >= 0 ? workspace_bytes(plan, thread_count(plan, threads)) : 0;
}

enum tsa_status tsa_workspace_init(const struct tsa_plan *plan, int threads, void *memory,
                                   size_t bytes, struct tsa_workspace **ws, struct tsa_error *err)
{
    if (!ws)
        return tsa_fail(err, TSA_EINVAL, "ws", "ws is NULL: nowhere to put the workspace");
    *ws = NULL;
    if (!plan)
        return tsa_fail(err, TSA_EINVAL, "plan", "plan is NULL");
    if (threads < 0 || threads > TSA_MAX_THREADS)
        return tsa_fail(err, TSA_EINVAL, "threads", "threads is %d; wanted 0 (the plan's) to %d",
                        threads, TSA_MAX_THREADS);
    if (!memory)
        return tsa_fail(err, TSA_EINVAL, "memory", "memory is NULL");
    if ((uintptr_t)memory % TSA_ALIGN)
        return tsa_fail(err, TSA_EINVAL, "memory", "memory is not aligned to %d bytes", TSA_ALIGN);
    const size_t n = thread_count(plan, threads), wanted = workspace_bytes(plan, n);
    if (wanted == 0)
        return tsa_fail(err, TSA_EOVERFLOW, "threads",
                        "the scratch of %zu threads does not fit in memory", n);
    if (bytes < wanted) {
        tsa_fail(err, TSA_ENOMEM, "bytes", "the workspace has %zu bytes; wanted %zu", bytes,
                 wanted);
        tsa_error_numbers(err, (int64_t)wanted, (int64_t)bytes);
        return TSA_ENOMEM;
    }
    struct tsa_workspace *w = memory;
    memset(w, 0, sizeof *w);
    memcpy(w->magic, workspace_magic, sizeof w->magic);
    w->threads = n;
    w->scratch = plan->scratch.total;
    w->together = most_together(plan, n);
    w->elem = plan->elem;
    w->capacity = wanted - tsa_round_up(sizeof *w, TSA_ALIGN);
    *ws = w;
    return tsa_succeed(err);
}

enum tsa_status tsa_workspace_create(const struct tsa_plan *plan, int threads,
                                     struct tsa_workspace **ws, struct tsa_error *err)
{
    if (!ws)
        return tsa_fail(err, TSA_EINVAL, "ws", "ws is NULL: nowhere to put the workspace");
    *ws = NULL;
    if (!plan)
        return tsa_fail(err, TSA_EINVAL, "plan", "plan is NULL");
    if (threads < 0 || threads > TSA_MAX_THREADS)
        return tsa_fail(err, TSA_EINVAL, "threads", "threads is %d; wanted 0 (the plan's) to %d",
                        threads, TSA_MAX_THREADS);
    const size_t bytes = tsa_workspace_bytes(plan, threads);
    if (bytes == 0)
        return tsa_fail(err, TSA_EOVERFLOW, "threads", "the scratch does not fit in memory");
    void *memory = tsa_allocate(&plan->allocator, bytes);
    if (!memory)
        return tsa_fail(err, TSA_ENOMEM, "ws", "no memory for a workspace of %zu bytes", bytes);
    struct tsa_workspace *w;
    const enum tsa_status status = tsa_workspace_init(plan, threads, memory, bytes, &w, err);
    if (status != TSA_OK) {
        tsa_release(&plan->allocator, memory, bytes);
        return status;
    }
    w->bytes = bytes;
    w->allocator = plan->allocator;
    *ws = w;
    return TSA_OK;
}

void tsa_workspace_destroy(struct tsa_workspace *ws)
{
    if (!ws || ws->bytes == 0)
        return;
    const struct tsa_allocator allocator = ws->allocator;
    tsa_release(&allocator, ws, ws->bytes);
}

static char *first_scratch(struct tsa_workspace *ws)
{
    return (char *)ws + tsa_round_up(sizeof *ws, TSA_ALIGN);
}

/* SIZE_MAX if they do not fit. */
static size_t call_bytes(const struct tsa_call *call)
{
    const struct tsa_plan *plan = call->plan;
    size_t elements, bytes;
    if (!tsa_size_mul(call->team.threads, plan->scratch.total, &elements) ||
        !tsa_size_add(elements, call->together, &elements) ||
        !tsa_size_mul(elements, plan->elem, &bytes) ||
        !tsa_size_add(bytes, team_bytes(call->team.threads), &bytes))
        return SIZE_MAX;
    return bytes;
}

enum tsa_status tsa_workspace_check(const struct tsa_plan *plan, const struct tsa_workspace *ws,
                                    size_t bytes, struct tsa_error *err)
{
    if (!ws)
        return TSA_OK;
    if (memcmp(ws->magic, workspace_magic, sizeof ws->magic) != 0)
        return tsa_fail(err, TSA_EINVAL, "ws", "ws is not a workspace");
    if (ws->elem != plan->elem || ws->scratch < plan->scratch.total || ws->capacity < bytes)
        return tsa_fail(err, TSA_EINVAL, "ws",
                        "the workspace was made for a plan that needs less scratch");
    return TSA_OK;
}

enum tsa_status tsa_call_begin(struct tsa_call *call, struct tsa_workspace *ws,
                               struct tsa_error *err)
{
    const struct tsa_plan *plan = call->plan;
    const enum tsa_status status = tsa_workspace_check(plan, ws, 0, err);
    if (status != TSA_OK)
        return status;
    struct tsa_team *team = &call->team;
    *team = (struct tsa_team){.plan = plan, .threads = tsa_team_threads(plan)};
    char *memory;
    if (ws) {
        if (team->threads > ws->threads)
            team->threads = ws->threads;
        call->together = together_elements(plan, team->threads);
        if (call->together > ws->together)
            call->together = 0; /* of another plan: whole items only */
        memory = first_scratch(ws);
    } else {
        if (call->writable && call->tokens > plan->chunk)
            call->together = together_elements(plan, team->threads);
        const size_t bytes = call_bytes(call);
        memory = tsa_allocate(&plan->allocator, bytes);
        if (!memory)
            return tsa_fail(err, TSA_ENOMEM, "ws", "no memory for %zu bytes of scratch", bytes);
    }
    team->shares = (struct tsa_share *)(void *)memory;
    call->order = (size_t *)(void *)(team->shares + 1 + team->threads);
    call->loads = call->order + TSA_LONG_ITEMS * team->threads;
    call->scratch = memory + team_bytes(team->threads);
    return TSA_OK;
}

void tsa_call_end(struct tsa_call *call, struct tsa_workspace *ws)
{
    if (ws)
        return;
    tsa_release(&call->plan->allocator, call->team.shares, call_bytes(call));
}

void *tsa_scratch_begin(const struct tsa_plan *plan, struct tsa_workspace *ws, size_t bytes)
{
    return ws ? first_scratch(ws) : tsa_allocate(&plan->allocator, bytes);
}

void tsa_scratch_end(const struct tsa_plan *plan, struct tsa_workspace *ws, void *scratch,
                     size_t bytes)
{
    if (!ws)
        tsa_release(&plan->allocator, scratch, bytes);
}
