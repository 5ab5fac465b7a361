/* SPDX-License-Identifier: MIT */
/* What a plan chooses by itself: the chunk, how tiles lie, which degrees are rounded, blocks. */
#include "config.h"

#include "internal.h"
#include "tuning.h"

/* -- chunk ------------------------------------------------------------------------------------- */

/* Do `columns` fill too little of whole vectors of `lanes`? */
static bool mostly_padding(size_t columns, size_t lanes)
{
    return 100 * columns < TSA_VECTOR_USE * tsa_round_up(columns, lanes);
}

/* The chunk when the caller leaves it open: a rule on the shape alone, because the chunk is part of
 * the arithmetic. A longer one reads and folds the sums less often, but takes more of its tokens
 * through the window. Within a few percent of the fastest power of two. */
static size_t default_chunk(const struct tsa_monomials *mono, size_t dv)
{
    const double sums = (double)mono->total * ((double)dv + 1);
    const bool partial = mostly_padding(dv, TSA_MAX_LANES);
    if (mono->terms <= 2)
        return TSA_CHUNK_FEW_TERMS;
    if (partial && sums >= TSA_PARTIAL_SUMS_LARGE && sums < TSA_SUMS_LARGE)
        return TSA_PARTIAL_CHUNK;
    if (sums < (partial ? TSA_PARTIAL_SUMS_MIDDLE : TSA_SUMS_MIDDLE))
        return TSA_CHUNK_SMALL;
    return sums < TSA_SUMS_LARGE ? TSA_CHUNK_MIDDLE : TSA_CHUNK_LARGE;
}

/* For a token a window costs half its length times d + dv products, the sums 2 F (dv + 1) and half
 * a chunk. */
size_t tsa_direct_tokens(const struct tsa_options *o)
{
    const double d = (double)o->head_dim, dv = (double)o->value_dim;
    struct tsa_monomials mono;
    if (!tsa_monomials_init(&mono, o->head_dim, o->terms))
        return 0;
    const double tokens =
        (double)default_chunk(&mono, o->value_dim) + 4 * (double)mono.total * (dv + 1) / (d + dv);
    return tokens < TSA_MOST_DIRECT ? (size_t)tokens : TSA_MOST_DIRECT;
}

size_t tsa_choose_chunk(const struct tsa_options *o)
{
    struct tsa_monomials mono;
    if (o->chunk > 0)
        return o->chunk;
    if (o->max_tokens > 0 && o->max_tokens < tsa_direct_tokens(o))
        return tsa_round_up(o->max_tokens + 1, 64);
    if (!tsa_monomials_init(&mono, o->head_dim, o->terms))
        return TSA_CHUNK_SMALL; /* the plan will be refused */
    return default_chunk(&mono, o->value_dim);
}

/* -- tiles ------------------------------------------------------------------------------------- */

/* Lanes of value columns need no transpose of features, but the last vector may be partly empty;
 * and a single vector per row makes a tile that is bound by its loads. */
void tsa_choose_lanes(struct tsa_plan *p)
{
    p->lanes = p->dtype == TSA_F64 ? p->isa->f64->lanes : p->isa->f32->lanes;
    p->transpose_update = mostly_padding(p->dv, p->lanes);
    p->transpose_query = p->lanes > 1 && (p->transpose_update || p->dv <= p->lanes);
}

/* -- bf16 -------------------------------------------------------------------------------------- */

/* Does rounding the features from `high` on pay? */
static bool mixed_is_faster(const struct tsa_plan *p, size_t high)
{
    return p->dtype == TSA_F32 && p->chunk % 2 == 0 && p->pair_kernels->fast &&
           p->mono.total - high >= TSA_MIXED_FEATURES;
}

void tsa_choose_compute(struct tsa_plan *p, const struct tsa_options *o)
{
    p->compute = TSA_COMPUTE_EXACT;
    p->high = p->mono.total;
    p->pair_kernels = tsa_pair_kernels_for(p->isa);
    if (o->exact_degrees >= p->terms)
        return;
    const size_t high = p->mono.start[o->exact_degrees];
    if (o->compute == TSA_COMPUTE_MIXED ||
        (o->compute == TSA_COMPUTE_FASTEST && mixed_is_faster(p, high))) {
        p->compute = TSA_COMPUTE_MIXED;
        p->high = high;
        p->pair_degree = 1 + o->exact_degrees;
    }
}

/* -- blocks ------------------------------------------------------------------------------------ */

void tsa_choose_blocks(struct tsa_plan *p)
{
    const size_t most = p->high < p->mono.total ? TSA_BLOCK_PAIRS : TSA_BLOCK_FEATURES;
    const size_t features = tsa_round_up(p->mono.total, TSA_ROW_PAD);
    p->block = features < most ? features : most;
    p->low_block = p->block < TSA_BLOCK_FEATURES ? p->block : TSA_BLOCK_FEATURES;
}

static size_t low_blocks(const struct tsa_plan *plan)
{
    return (plan->high + plan->low_block - 1) / plan->low_block;
}

size_t tsa_block_count(const struct tsa_plan *plan)
{
    return low_blocks(plan) + (plan->mono.total - plan->high + plan->block - 1) / plan->block;
}

struct tsa_range tsa_block_at(const struct tsa_plan *plan, size_t index)
{
    const size_t low = low_blocks(plan), block = index < low ? plan->low_block : plan->block;
    const size_t end = index < low ? plan->high : plan->mono.total;
    const size_t f0 = index < low ? index * block : plan->high + (index - low) * block;
    return (struct tsa_range){f0, end - f0 < block ? end : f0 + block};
}
