/* SPDX-License-Identifier: MIT */
/* Folding a window, whole or short, into sums. Part of engine_tmpl.h. */

/* Values of a tile of the window in pairs of tokens; of their transposed rows if the plan
 * transposes its updates. */
static T *v_pairs_at(const struct context *x, size_t t)
{
    const struct tsa_plan *plan = x->plan;
    return x->scratch + plan->scratch.v_pairs +
           t / 2 * (plan->transpose_update ? plan->dv : plan->layout.ldv);
}

/* The decay of its keys in pairs. */
static T *decay_pairs_at(const struct context *x, size_t t)
{
    return x->scratch + x->plan->scratch.decay_pairs + t / 2;
}

/* Lower monomials of the keys of a window, and its values as the updates want them. Pairs of an odd
 * number of tokens end with a key of zeros: pack_v has put it there, as no full window is odd. */
static void key_base(const struct context *x, const struct window *w)
{
    const struct tsa_plan *plan = x->plan;
    const bool pairs = plan->high < plan->mono.total;
    for (size_t t = 0; t < w->n; t += TSA_TILE_TOKENS) {
        const size_t n = tile_tokens(w->n - t);
        T *base = tile_at(plan, x->scratch + plan->scratch.kbase, t);
        if (w->kt != base)
            KERNELS(plan)->pack_v(plan->d, n, w->kt + t, w->ldk, base, TSA_TILE_TOKENS);
        set_degree_0(base, 1);
        KERNELS(plan)->base_t(&plan->mono, pairs ? 2 * half_of(n) : n, base, TSA_TILE_TOKENS);
        const T *v = w->v + (ptrdiff_t)t * w->ldv;
        T *vt = x->scratch + plan->scratch.vt + t * plan->dv;
        if (plan->transpose_update) /* `transpose` would read rows past the end of the window */
            KERNELS(plan)->pack_t(n, plan->dv, v, w->ldv, 0, 1, vt, TSA_TILE_TOKENS);
        if (!pairs)
            continue;
        if (w->decay)
            PAIR_KERNELS(plan)->pair_cols(1, n, w->decay + t, 0, decay_pairs_at(x, t), 0);
        if (plan->transpose_update)
            PAIR_KERNELS(plan)->pair_cols(plan->dv, n, vt, TSA_TILE_TOKENS, v_pairs_at(x, t),
                                          PAIR_TOKENS);
        else
            PAIR_KERNELS(plan)->pair_rows(n, plan->layout.ldv, v, w->ldv, v_pairs_at(x, t),
                                          (ptrdiff_t)plan->layout.ldv);
    }
}

/* Keys of a tile with their values, as elements or in pairs of tokens. */
struct keys {
    size_t steps;     /* of a chain over them */
    bool first, last; /* tile of the window? */
    const T *phi, *v;
    ptrdiff_t ldv;
    const T *decay; /* of windows with gates, else NULL */
};

/* The keys of the tile of a window that starts at token t: their features f, and the chain over
 * their ones column. */
static struct keys key_features(const struct context *x, const struct window *w, size_t t,
                                struct tsa_range f, T *ones)
{
    const struct tsa_plan *plan = x->plan;
    const struct tsa_scratch *r = &plan->scratch;
    const size_t n = tile_tokens(w->n - t);
    T *base = tile_at(plan, x->scratch + r->kbase, t), *phi = x->scratch + r->psi;
    const PRODUCTS *products = products_of(plan, f.f0);
    T *transposed = plan->transpose_update ? x->scratch + r->transposed : NULL;
    struct ARGS(psi) of = {.mono = &plan->mono,
                           .f0 = f.f0,
                           .f1 = f.f1,
                           .tokens = n,
                           .base = base,
                           .ldb = TSA_TILE_TOKENS,
                           .psi = phi,
                           .ldp = TSA_TILE_TOKENS};
    struct keys k = {n,
                     t == 0,
                     t + n == w->n,
                     features_in_place(plan, base, f),
                     w->v + (ptrdiff_t)t * w->ldv,
                     w->ldv,
                     w->decay ? w->decay + t : NULL};
    if (plan->transpose_update)
        k.v = x->scratch + r->vt + t * plan->dv;
    if (f.f0 >= plan->high) {
        k.steps = half_of(n);
        k.phi = phi;
        k.v = v_pairs_at(x, t);
        k.ldv = (ptrdiff_t)plan->layout.ldv;
        k.decay = w->decay ? decay_pairs_at(x, t) : NULL;
        of.tokens = 2 * k.steps;
        of.ldp = PAIR_TOKENS;
        PAIR_KERNELS(plan)->phi_pairs(&of);
        if (f.f0 == 0 && n % 2 != 0) /* degree 0 is 1 for a key of zeros, too */
            PAIR_KERNELS(plan)->pair_cols(1, n, base - TSA_TILE_TOKENS, 0, phi, 0);
    } else if (!k.phi) {
        KERNELS(plan)->psi_t(&of);
        k.phi = phi;
    }
    products->transpose(&(const struct ARGS(transpose)){.features = f.f1 - f.f0,
                                                        .tokens = k.steps,
                                                        .in = k.phi,
                                                        .ldi = of.ldp,
                                                        .weight = k.decay,
                                                        .sum = ones,
                                                        .first = k.first,
                                                        .out = transposed,
                                                        .ldo = (ptrdiff_t)plan->block});
    return k;
}

/* The sums of a tile for features f go on in `local`; or in their transposed form, which is
 * transposed back after the last tile. */
static void update_tile(const struct context *x, const struct keys *k, struct tsa_range f,
                        struct matrix local, struct tsa_prefetch *prefetch)
{
    const struct tsa_plan *plan = x->plan;
    const struct tsa_scratch *r = &plan->scratch;
    const ptrdiff_t block = (ptrdiff_t)plan->block;
    const PRODUCTS *products = products_of(plan, f.f0);
    const size_t features = f.f1 - f.f0, ldv = plan->layout.ldv;
    T *transposed = x->scratch + r->transposed, *sums = x->scratch + r->local_t;
    if (!plan->transpose_update) {
        products->update(&(const struct ARGS(update)){.features = features,
                                                      .columns = ldv,
                                                      .tokens = k->steps,
                                                      .phi = k->phi,
                                                      .v = k->v,
                                                      .ldv = k->ldv,
                                                      .local = local.at,
                                                      .ldl = local.ld,
                                                      .first = k->first,
                                                      .prefetch = prefetch});
        return;
    }
    products->update(&(const struct ARGS(update)){.features = plan->dv,
                                                  .columns = tsa_round_up(features, plan->lanes),
                                                  .tokens = k->steps,
                                                  .phi = k->v,
                                                  .v = transposed,
                                                  .ldv = block,
                                                  .local = sums,
                                                  .ldl = block,
                                                  .first = k->first,
                                                  .prefetch = prefetch});
    if (k->last) {
        /* whole rows, whose padding is zero */
        memset(sums + (ptrdiff_t)plan->dv * block, 0, (ldv - plan->dv) * plan->block * sizeof(T));
        KERNELS(plan)->products.transpose(&(const struct ARGS(transpose)){.features = ldv,
                                                                          .tokens = features,
                                                                          .in = sums,
                                                                          .ldi = block,
                                                                          .out = local.at,
                                                                          .ldo = local.ld});
    }
}

/* Fold features f, at most plan->block of them, of a window into their sums, after key_base. */
static void fold_block(const struct context *x, const struct window *w, const struct sums *s,
                       struct tsa_range f, struct tsa_prefetch *prefetch)
{
    const struct tsa_plan *plan = x->plan;
    const struct tsa_scratch *r = &plan->scratch;
    const PRODUCTS *products = products_of(plan, f.f0);
    const size_t features = f.f1 - f.f0, ldv = plan->layout.ldv;
    /* local sums of a wave's chunk stay where they are made */
    struct matrix local = {s->hi, s->ld};
    T *ones = s->ones_hi;
    if (s->lo) {
        local = (struct matrix){x->scratch + r->local, (ptrdiff_t)ldv};
        ones = x->scratch + r->ones;
    }
    for (size_t t = 0; t < w->n; t += TSA_TILE_TOKENS) {
        const struct keys k = key_features(x, w, t, f, ones);
        if (s->lo && k.last && !plan->transpose_update)
            products->update_fold(
                &(const struct ARGS(update_fold)){.features = features,
                                                  .columns = ldv,
                                                  .tokens = k.steps,
                                                  .phi = k.phi,
                                                  .v = k.v,
                                                  .ldv = k.ldv,
                                                  .local = k.first ? NULL : local.at,
                                                  .ldl = local.ld,
                                                  .hi = s->hi,
                                                  .lo = s->lo,
                                                  .e = w->e,
                                                  .ldh = s->ld,
                                                  .hi_pairs = s->hi_pairs,
                                                  .prefetch = prefetch});
        else
            update_tile(x, &k, f, local, prefetch);
    }
    if (s->lo)
        KERNELS(plan)->fold(features, s->ones_hi, s->ones_lo, w->e, ones, NULL);
    if (s->lo && plan->transpose_update) {
        KERNELS(plan)->fold(features * ldv, s->hi, s->lo, w->e, local.at, NULL);
        if (s->hi_pairs)
            PAIR_KERNELS(plan)->pair_rows(features, ldv, s->hi, s->ld, s->hi_pairs, s->ld);
    }
    if (s->hi_pairs)
        PAIR_KERNELS(plan)->pair_cols(1, features, s->ones_hi, 0, s->ones_pairs, 0);
}

/* Fold one of `parts` shares of the features of a window. */
static void fold_part(const struct context *x, const struct kv_head *kv, size_t part, size_t parts)
{
    const size_t blocks = tsa_block_count(x->plan), end = blocks * (part + 1) / parts;
    size_t i = blocks * part / parts;
    if (i == end)
        return;
    const struct window w = window_to_fold(x, &kv->window, kv->window.n);
    key_base(x, &w);
    for (; i < end; i++) {
        const struct tsa_range f = tsa_block_at(x->plan, i);
        const struct sums block = sums_from(x->plan, &kv->sums, f.f0);
        fold_block(x, &w, &block, f, NULL);
    }
}
