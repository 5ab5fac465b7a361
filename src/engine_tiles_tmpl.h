/* SPDX-License-Identifier: MIT */
/* Tiles of TSA_TILE_TOKENS packed queries or keys with their lower monomials, in scratch. Part of
 * engine_tmpl.h. */

/* Tokens of a tile in pairs. */
#define PAIR_TOKENS (TSA_TILE_TOKENS / 2)

static size_t tile_tokens(size_t left)
{
    return left < TSA_TILE_TOKENS ? left : TSA_TILE_TOKENS;
}
static size_t tile_count(size_t tokens)
{
    return (tokens + TSA_TILE_TOKENS - 1) / TSA_TILE_TOKENS;
}

/* Elements of packed queries or keys, with the row of degree 0 before each tile. */
static size_t base_elements(const struct tsa_plan *plan, size_t tokens)
{
    return tokens * (plan->mono.rows + 1);
}
/* Degree 1 of tokens t .. of a tile of them, t a multiple of TSA_TILE_TOKENS. */
static T *tile_at(const struct tsa_plan *plan, T *base, size_t t)
{
    return base + base_elements(plan, t) + TSA_TILE_TOKENS;
}
static void set_degree_0(T *tile, T value)
{
    for (size_t i = 0; i < TSA_TILE_TOKENS; i++)
        tile[(ptrdiff_t)i - TSA_TILE_TOKENS] = value;
}
/* Features f of a tile, where its rows hold them, else NULL. */
static const T *features_in_place(const struct tsa_plan *plan, const T *tile, struct tsa_range f)
{
    if (f.f1 > plan->mono.start[plan->mono.stored + 1])
        return NULL;
    return tile + ((ptrdiff_t)f.f0 - 1) * TSA_TILE_TOKENS;
}

/* Packed queries of some query heads, the tiles of each after those of the one before it; and what
 * becomes of them, `apart` tokens from head to head. */
struct queries {
    T *base, *acc, *den;
    size_t apart;
};
static struct queries scratch_queries(const struct context *x)
{
    const struct tsa_scratch *r = &x->plan->scratch;
    return (struct queries){x->scratch + r->qbase, x->scratch + r->acc, x->scratch + r->den,
                            r->queries};
}
static struct queries queries_of_head(const struct tsa_plan *plan, const struct queries *q,
                                      size_t i)
{
    return (struct queries){q->base + base_elements(plan, i * plan->scratch.queries),
                            q->acc + i * q->apart * plan->layout.ldv, q->den + i * q->apart,
                            q->apart};
}
