/* SPDX-License-Identifier: MIT */
/* Passes over the sums, block by block, in the order of the chains: queries read them, then a
 * window is folded into them. Part of engine_tmpl.h. */

/* Sums of features f from some column on, as elements or in pairs: what a query multiplies. */
struct operands {
    struct tsa_range f;
    const T *hi, *ones;
    ptrdiff_t ld;
    size_t steps; /* of a chain over them */
};
static struct operands operands_of(const struct context *x, const struct sums *s,
                                   struct tsa_range f, size_t c, size_t cols)
{
    const struct tsa_plan *plan = x->plan;
    const struct sums b = sums_from(plan, s, f.f0);
    const size_t n = f.f1 - f.f0;
    if (f.f0 < plan->high)
        return (struct operands){f, b.hi + c, b.ones_hi, s->ld, n};
    if (b.hi_pairs)
        return (struct operands){f, b.hi_pairs + c, b.ones_pairs, s->ld, half_of(n)};
    T *hi_pairs = x->scratch + plan->scratch.hi_pairs;
    T *ones_pairs = x->scratch + plan->scratch.ones_pairs;
    PAIR_KERNELS(plan)->pair_rows(n, cols, b.hi + c, s->ld, hi_pairs, s->ld);
    PAIR_KERNELS(plan)->pair_cols(1, n, b.ones_hi, 0, ones_pairs, 0);
    return (struct operands){f, hi_pairs, ones_pairs, s->ld, half_of(n)};
}

/* A pass over features f of the sums: query heads h0 .. h0+heads-1 with m packed tokens each read
 * them, then `fold`, if not NULL, is folded into them. */
struct pass {
    struct tsa_range f;
    size_t h0, heads, m;
    struct queries queries;
    const struct window *fold;
};

/* The features of a block of m packed queries of head i of the pass; then acc and den go on. */
static void query_block(const struct context *x, const struct pass *p, size_t i,
                        const struct operands *b, struct tsa_prefetch *prefetch)
{
    const struct tsa_plan *plan = x->plan;
    const struct queries q = queries_of_head(plan, &p->queries, i);
    const T *weight = coefficients_of(plan, p->h0 + i).weight;
    const ptrdiff_t ldv = (ptrdiff_t)plan->layout.ldv;
    const struct tsa_range f = b->f;
    const PRODUCTS *products = products_of(plan, f.f0);
    const int first = f.f1 == plan->mono.total;
    T *rows = x->scratch + plan->scratch.psi;
    for (size_t t = 0; t < p->m; t += TSA_TILE_TOKENS) {
        const size_t n = tile_tokens(p->m - t), lanes = tsa_round_up(n, plan->lanes);
        T *base = tile_at(plan, q.base, t), *acc = q.acc + (ptrdiff_t)t * ldv;
        const T *psi = plan->unit_weights ? features_in_place(plan, base, f) : NULL;
        const struct ARGS(psi) of = {.mono = &plan->mono,
                                     .f0 = f.f0,
                                     .f1 = f.f1,
                                     .tokens = n,
                                     .base = base,
                                     .ldb = TSA_TILE_TOKENS,
                                     .weight = weight,
                                     .psi = rows,
                                     .ldp = TSA_TILE_TOKENS};
        if (f.f0 >= plan->high) {
            PAIR_KERNELS(plan)->psi_pairs(&of);
            psi = rows;
        } else if (!psi) {
            KERNELS(plan)->psi_t(&of);
            psi = rows;
        }
        products->query_ones(n, b->steps, psi, TSA_TILE_TOKENS, b->ones, q.den + t, first);
        if (plan->transpose_query)
            products->query(&(const struct ARGS(query)){.tokens = plan->dv,
                                                        .columns = lanes,
                                                        .features = b->steps,
                                                        .psi = b->hi,
                                                        .ldp = b->ld,
                                                        .hi = psi,
                                                        .ldh = TSA_TILE_TOKENS,
                                                        .acc = acc,
                                                        .lda = TSA_TILE_TOKENS,
                                                        .first = first,
                                                        .prefetch = prefetch});
        else
            products->query(&(const struct ARGS(query)){.tokens = n,
                                                        .columns = (size_t)ldv,
                                                        .features = b->steps,
                                                        .psi = psi,
                                                        .ldp = TSA_TILE_TOKENS,
                                                        .hi = b->hi,
                                                        .ldh = b->ld,
                                                        .acc = acc,
                                                        .lda = ldv,
                                                        .first = first,
                                                        .prefetch = prefetch});
    }
}

/* The block that ends before feature f1. */
static struct tsa_range block_before(const struct tsa_plan *plan, const struct pass *p, size_t f1)
{
    const bool high = f1 > plan->high; /* no block has features on both sides */
    const size_t zero = high ? plan->high : 0, block = high ? plan->block : plan->low_block;
    const size_t from = p->f.f0 > zero ? p->f.f0 : zero;
    return (struct tsa_range){f1 - from <= block ? from : zero + (f1 - 1 - zero) / block * block,
                              f1};
}

/* While a block is at work, of which there are `calls` calls of kernels: its share of what was
 * listed before, and the block after it where sums do not stay in L2. */
static void prefetch_block(const struct tsa_plan *plan, const struct sums *s, const struct pass *p,
                           struct tsa_range f, size_t share, size_t calls,
                           struct tsa_prefetch *prefetch)
{
    prefetch->budget = share;
    if (f.f0 == p->f.f0 || !plan->large)
        return;
    const size_t lines = prefetch_line_count(prefetch);
    const struct tsa_range next = block_before(plan, p, f.f0);
    const struct sums sums = sums_from(plan, s, next.f0);
    const size_t count = (next.f1 - next.f0) * (size_t)s->ld;
    const bool folds = p->fold != NULL;
    if (sums.hi_pairs)
        prefetch_elements(prefetch, sums.hi_pairs, count / 2, folds);
    if (!sums.hi_pairs || folds)
        prefetch_elements(prefetch, sums.hi, count, folds);
    if (folds && sums.lo)
        prefetch_elements(prefetch, sums.lo, count, true);
    prefetch->budget += (prefetch_line_count(prefetch) - lines) / calls + 1;
}

/* The lower monomials of the queries of a pass. */
static void query_base(const struct tsa_plan *plan, const struct pass *p)
{
    for (size_t i = 0; i < p->heads; i++) {
        const struct queries q = queries_of_head(plan, &p->queries, i);
        for (size_t t = 0; t < p->m; t += TSA_TILE_TOKENS) {
            T *base = tile_at(plan, q.base, t);
            KERNELS(plan)->base_t(&plan->mono, tile_tokens(p->m - t), base, TSA_TILE_TOKENS);
            if (plan->unit_weights)
                set_degree_0(base, coefficients_of(plan, p->h0 + i).weight[0]);
        }
    }
}

static void run_pass(const struct context *x, const struct sums *s, const struct pass *p,
                     struct tsa_prefetch *prefetch)
{
    const struct tsa_plan *plan = x->plan;
    const size_t heads = s->folded ? p->heads : 0, features = p->f.f1 - p->f.f0;
    if ((!p->fold && heads == 0) || features == 0)
        return;
    if (heads > 0)
        query_base(plan, p);
    if (p->fold)
        key_base(x, p->fold);
    const size_t calls = heads * tile_count(p->m) + (p->fold ? tile_count(p->fold->n) : 0);
    const size_t share =
        prefetch ? prefetch_line_count(prefetch) * plan->block / features / calls + 1 : 0;
    struct tsa_range f = {p->f.f1, p->f.f1};
    while (f.f0 > p->f.f0) {
        f = block_before(plan, p, f.f0);
        if (prefetch)
            prefetch_block(plan, s, p, f, share, calls, prefetch);
        struct operands b = {0};
        if (heads > 0)
            b = operands_of(x, s, f, 0, (size_t)s->ld);
        for (size_t i = 0; i < heads; i++)
            query_block(x, p, i, &b, prefetch);
        if (p->fold) {
            const struct sums block = sums_from(plan, s, f.f0);
            fold_block(x, p->fold, &block, f, prefetch);
        }
    }
}

/* A window into all sums. */
static void fold_window(const struct context *x, const struct sums *s, const struct window *w,
                        struct tsa_prefetch *prefetch)
{
    const struct pass all = {.f = {0, x->plan->mono.total}, .fold = w};
    run_pass(x, s, &all, prefetch);
}
