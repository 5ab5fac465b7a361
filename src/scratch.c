/* SPDX-License-Identifier: MIT */
/* The scratch of one thread: which arrays it has, and where. */
#include "config.h"

#include <string.h>

#include "internal.h"
#include "tuning.h"

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
    const double fit = (double)TSA_MOST_HEADS_BYTES / head;
    if (!plan->large || fit < 2)
        return 1;
    return fit < (double)plan->group ? (size_t)fit : plan->group;
}

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
    r->queries = softmax_tiles(plan, TSA_SOFTMAX_SUMS, ldv);
    r->keys = softmax_tiles(plan, TSA_SOFTMAX_KEYS, ldv + d);
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

static size_t larger(size_t a, size_t b)
{
    return a > b ? a : b;
}

/* What folding a window needs, so that merging states needs no more. */
static bool place_fold(const struct tsa_plan *plan, struct tsa_scratch *r)
{
    const size_t tile = TSA_TILE_TOKENS, ldv = plan->layout.ldv, block = plan->block;
    const bool transposed = plan->transpose_update, mixed = plan->high < plan->mono.total;
    const bool gates = plan->gate != TSA_GATE_NONE;
    size_t psi, token_psi, ends = 0, unused;
    if (!tsa_size_mul(block, tile, &psi) || !tsa_size_mul(TSA_TOKEN_ROWS, r->ld_psi, &token_psi) ||
        !add(&r->total, &r->psi, larger(psi, token_psi), 1) ||
        !add(&r->total, &r->kbase, plan->mono.rows + 1, r->keys) ||
        !add(&r->total, &r->local, larger(block, tile), ldv) ||
        !add(&r->total, &r->transposed, transposed ? tile : 0, block) ||
        !add(&r->total, &r->vt, transposed ? r->keys : 0, plan->dv) ||
        !add(&r->total, &r->local_t, transposed ? block : 0, ldv) ||
        !add(&r->total, &r->ones, block + TSA_ROW_PAD, 1) ||
        !add(&r->total, &r->v_pairs, mixed ? r->keys / 2 : 0, ldv) ||
        !add(&r->total, &r->decay_end, gates ? r->keys : 0, 1) ||
        !add(&r->total, &r->decay_pairs, gates && mixed ? r->keys / 2 + TSA_ROW_PAD : 0, 1) ||
        !add(&r->total, &r->gated_v, gates ? r->keys : 0, ldv) ||
        !add(&ends, &unused, block, 2 * ldv) ||
        !add(&ends, &unused, tsa_round_up(block, TSA_ROW_PAD), 2))
        return false;
    r->fold = r->total;
    r->block_rows = ends;
    return true;
}

static bool place_queries(const struct tsa_plan *plan, struct tsa_scratch *r)
{
    const size_t tokens = r->heads * r->queries, ldv = plan->layout.ldv, half = plan->block / 2;
    const size_t chunk = tsa_round_up(plan->chunk, TSA_ROW_PAD);
    const bool mixed = plan->high < plan->mono.total, gates = plan->gate != TSA_GATE_NONE;
    size_t base, token_base, token_psi, weights, token_weights;
    return tsa_size_mul(plan->mono.rows + 1, tokens, &base) &&
           tsa_size_mul(TSA_TOKEN_ROWS, r->ld_base, &token_base) &&
           tsa_size_mul(TSA_TOKEN_ROWS, r->ld_psi, &token_psi) &&
           tsa_size_mul(chunk, TSA_TILE_TOKENS, &weights) &&
           tsa_size_mul(chunk, TSA_TOKEN_ROWS, &token_weights) &&
           add(&r->total, &r->qbase, larger(base, token_base), 1) &&
           add(&r->total, &r->acc, tokens, ldv) && add(&r->total, &r->den, tokens, 1) &&
           add(&r->total, &r->weights, larger(weights, token_weights), 1) &&
           add(&r->total, &r->decay_pass, gates ? r->keys : 0, 1) &&
           add(&r->total, &r->decay_run, gates ? r->keys : 0, 1) &&
           add(&r->total, &r->decay_sums, gates ? r->queries : 0, 1) &&
           add(&r->total, &r->token_keys, TSA_TOKEN_ROWS, tsa_round_up(plan->d, TSA_ROW_PAD)) &&
           add(&r->total, &r->psi_pairs, mixed ? token_psi : 0, 1) &&
           add(&r->total, &r->hi_pairs, mixed ? half : 0, ldv) &&
           add(&r->total, &r->ones_pairs, mixed ? half + TSA_ROW_PAD : 0, 1) &&
           add(&r->total, &r->rows, r->queries, larger(plan->d, plan->dv));
}

/* What a team on one item needs: parts of the section of a state, which fits; and a chunk of a
 * relay, or 0, which means that there is none. */
static void place_together(struct tsa_plan *plan)
{
    const struct tsa_layout *l = &plan->layout;
    struct tsa_wave_chunk *wave = &plan->wave_chunk;
    size_t rows, offset;
    wave->total = plan->relay_chunk = 0;
    add(&wave->total, &wave->sums, l->features, l->ldv);
    add(&wave->total, &wave->ones, tsa_round_up(l->features, TSA_ROW_PAD) + TSA_ROW_PAD, 1);
    add(&wave->total, &wave->kt, plan->d, l->ldk);
    add(&wave->total, &wave->v, plan->chunk, l->ldv);
    add(&wave->total, &wave->decay, l->past > 0 ? 3 : 0, l->ldk);
    add(&wave->total, &wave->past, l->past > 0 ? 2 : 0, 1);
    if (!tsa_size_mul(plan->group, plan->scratch.keys, &rows) ||
        !add(&plan->relay_chunk, &offset, rows, l->ldv + 1))
        plan->relay_chunk = 0;
}

bool tsa_scratch_init(struct tsa_plan *plan)
{
    const size_t spill = 2 * TSA_MAX_LANES;
    struct tsa_scratch *r = &plan->scratch;
    memset(r, 0, sizeof *r);
    plan->large = plan->mono.total * plan->layout.ldv * plan->elem > TSA_LARGE_SUMS; /* fits */
    r->keys = tsa_round_up(plan->chunk, TSA_TILE_TOKENS);
    r->queries = r->keys < TSA_MOST_QUERIES ? r->keys : TSA_MOST_QUERIES;
    r->heads = heads_together(plan, r->queries);
    r->ld_base = tsa_round_up(plan->mono.lower, TSA_ROW_PAD) + spill;
    r->ld_psi = tsa_round_up(plan->mono.total, TSA_ROW_PAD) + spill;
    if (!place_fold(plan, r) || !place_queries(plan, r) || !softmax_scratch_init(plan, &r->softmax))
        return false;
    r->total = larger(r->total, r->softmax.total);
    place_together(plan);
    return true;
}

size_t tsa_merge_scratch_bytes(const struct tsa_plan *plan)
{
    size_t elements, bytes;
    return tsa_size_add(plan->scratch.fold, plan->scratch.block_rows, &elements) &&
                   tsa_size_mul(elements, plan->elem, &bytes)
               ? bytes
               : SIZE_MAX;
}
