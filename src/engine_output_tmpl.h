/* SPDX-License-Identifier: MIT */
/* Outputs of many tokens: queries are packed, pass over the sums, see the window, and are written.
 * Part of engine_tmpl.h. */

/* Pack the queries of a pass, tokens t .. of batch b of the tensors. */
static void pack_queries(const struct context *x, size_t b, size_t t, const struct pass *p)
{
    const struct tsa_plan *plan = x->plan;
    const int l2 = plan->normalize == TSA_NORMALIZE_L2;
    for (size_t i = 0; i < p->heads; i++) {
        const struct queries q = queries_of_head(plan, &p->queries, i);
        const T scale = coefficients_of(plan, p->h0 + i).scale;
        const struct matrix src =
            rows_in(plan, x->call->q, &(const struct rows){b, p->h0 + i, t, p->m}, plan->d,
                    x->scratch + plan->scratch.rows);
        for (size_t u = 0; u < p->m; u += TSA_TILE_TOKENS)
            KERNELS(plan)->pack_t(tile_tokens(p->m - u), plan->d, src.at + (ptrdiff_t)u * src.ld,
                                  src.ld, l2, scale, tile_at(plan, q.base, u), TSA_TILE_TOKENS);
    }
}

/* What queries see of a window: its first `seen` tokens; if causal, token i of them i more, itself
 * among them. */
struct sight {
    const struct window *w;
    bool causal;
    size_t seen;
    bool first; /* no sums were read before */
    T e;        /* decay of the sums so far */
};

/* Queries that see the first `seen` tokens of a window, or from there on one more each. */
static struct sight sight_of(const struct context *x, const struct sums *s, const struct window *w,
                             bool causal, size_t seen)
{
    if (w->decay)
        memcpy(x->scratch + x->plan->scratch.decay_pass, w->decay, w->n * sizeof(T));
    return (struct sight){w, causal, seen, !s->folded, w->e};
}

/* The decay of the sums for each of m queries; *e goes on to the last of them. */
static void decay_of_sums(const struct context *x, struct sight *s, size_t m)
{
    T *decay = x->scratch + x->plan->scratch.decay_sums;
    for (size_t t = 0; t < m; t++) {
        if (s->causal)
            s->e = s->e * s->w->gate[s->seen + t];
        decay[t] = s->e;
    }
}

/* The weights of n queries that see keys of the window times the decay of these; from token t of a
 * pass on. */
static void decay_weights(const struct context *x, const struct sight *s, size_t keys, size_t n,
                          size_t diag, T *weights)
{
    T *decay = x->scratch + x->plan->scratch.decay_run;
    if (s->causal)
        KERNELS(x->plan)->gate_weights(&(const struct ARGS(gate_weights)){.keys = keys,
                                                                          .queries = n,
                                                                          .diag = (ptrdiff_t)diag,
                                                                          .gate = s->w->gate + diag,
                                                                          .decay = decay,
                                                                          .w = weights,
                                                                          .ldw = TSA_TILE_TOKENS});
    else
        KERNELS(x->plan)->scale_rows(keys, n, decay, 1, weights, TSA_TILE_TOKENS, weights,
                                     TSA_TILE_TOKENS);
}

/* Outputs of m packed queries of one head from the window, after the sums. */
static void window_outputs(const struct context *x, const struct queries *q, const T *coef,
                           const struct sight *s, size_t m, struct matrix dst)
{
    const struct tsa_plan *plan = x->plan;
    const struct window *w = s->w;
    const ptrdiff_t lda = (ptrdiff_t)plan->layout.ldv;
    T *weights = x->scratch + plan->scratch.weights;
    for (size_t t = 0; t < m; t += TSA_TILE_TOKENS) {
        const size_t n = tile_tokens(m - t);
        T *acc = q->acc + (ptrdiff_t)t * lda;
        if (plan->transpose_query && !s->first) {
            T *rows = x->scratch + plan->scratch.local;
            KERNELS(plan)->products.transpose(
                &(const struct ARGS(transpose)){.features = plan->dv,
                                                .tokens = n,
                                                .in = acc,
                                                .ldi = TSA_TILE_TOKENS,
                                                .out = rows,
                                                .ldo = lda});
            acc = rows;
        }
        const size_t diag = s->causal ? s->seen + t : s->seen, keys = s->causal ? diag + n : diag;
        KERNELS(plan)->scores(&(const struct ARGS(scores)){.keys = keys,
                                                           .queries = n,
                                                           .d = plan->d,
                                                           .kt = w->kt,
                                                           .ldk = w->ldk,
                                                           .qt = tile_at(plan, q->base, t),
                                                           .ldq = TSA_TILE_TOKENS,
                                                           .terms = plan->terms,
                                                           .coef = coef,
                                                           .w = weights,
                                                           .ldw = TSA_TILE_TOKENS,
                                                           .diag = (ptrdiff_t)diag});
        const T *decay = w->decay ? x->scratch + plan->scratch.decay_sums + t : NULL;
        if (decay)
            decay_weights(x, s, keys, n, diag, weights);
        if (decay && !s->first)
            KERNELS(plan)->multiply(n, decay, q->den + t);
        KERNELS(plan)->window_ones(keys, n, weights, TSA_TILE_TOKENS, (ptrdiff_t)diag, q->den + t,
                                   s->first);
        if (plan->finishes)
            KERNELS(plan)->finish(n, FINISH(plan), q->den + t);
        KERNELS(plan)->window(&(const struct ARGS(window)){.queries = n,
                                                           .columns = plan->dv,
                                                           .keys = keys,
                                                           .diag = (ptrdiff_t)diag,
                                                           .w = weights,
                                                           .ldw = TSA_TILE_TOKENS,
                                                           .v = w->v,
                                                           .ldv = w->ldv,
                                                           .acc = acc,
                                                           .lda = lda,
                                                           .first = s->first,
                                                           .shrink = decay,
                                                           .den = q->den + t,
                                                           .dst = dst.at + (ptrdiff_t)t * dst.ld,
                                                           .stride = dst.ld});
    }
}

/* Outputs are multiplied by a factor that is not 1. */
static void scale_outputs(const struct tsa_plan *plan, size_t rows, size_t columns,
                          struct matrix dst)
{
    const T factor = (T)plan->output_scale;
    if (factor != 1)
        KERNELS(plan)->scale_rows(rows, columns, &factor, 0, dst.at, dst.ld, dst.at, dst.ld);
}

/* The outputs of the queries of a pass, which are behind the sums. What they see goes on. */
static void write_outputs(const struct context *x, size_t b, size_t t, const struct pass *p,
                          struct sight *sight)
{
    const struct tsa_plan *plan = x->plan;
    const struct tsa_tensor *o = x->call->o;
    const struct window *w = sight->w;
    T *buffer = x->scratch + plan->scratch.rows;
    T *pass = x->scratch + plan->scratch.decay_pass, *run = x->scratch + plan->scratch.decay_run;
    if (w->decay)
        decay_of_sums(x, sight, p->m);
    for (size_t i = 0; i < p->heads; i++) {
        if (w->decay)
            memcpy(run, pass, w->n * sizeof(T));
        const struct rows r = {b, p->h0 + i, t, p->m};
        const struct queries q = queries_of_head(plan, &p->queries, i);
        const struct matrix dst = rows_out(plan, o, &r, buffer);
        window_outputs(x, &q, coefficients_of(plan, r.h).coef, sight, p->m, dst);
        scale_outputs(plan, p->m, plan->dv, dst);
        rows_out_done(plan, o, &r, 0, plan->dv, buffer);
    }
    if (w->decay)
        memcpy(pass, run, w->n * sizeof(T));
    if (sight->causal)
        sight->seen += p->m;
}

/* Outputs of tokens r of `heads` query heads from r.h on: if causal the last tokens of the window,
 * of which each sees those up to itself, else queries that see it whole. With `fold` the window is
 * folded into the sums once these were read for the last time. */
struct job {
    struct rows r;
    size_t heads;
    bool causal, fold;
};
static void outputs(const struct context *x, const struct sums *s, const struct window *w,
                    const struct job *job, struct tsa_prefetch *prefetch)
{
    const struct tsa_plan *plan = x->plan;
    const size_t n = job->r.n;
    const size_t seen = job->causal ? w->n - n : w->n;
    struct sight sight = sight_of(x, s, w, job->causal, seen);
    struct window folded;
    struct pass pass = {.f = {0, plan->mono.total},
                        .h0 = job->r.h,
                        .heads = job->heads,
                        .queries = scratch_queries(x)};
    for (size_t done = 0; done < n; done += pass.m) {
        const size_t left = n - done;
        pass.m = left < plan->scratch.queries ? left : plan->scratch.queries;
        if (job->fold && pass.m == left) {
            folded = window_to_fold(x, w, seen);
            pass.fold = &folded;
        }
        pack_queries(x, job->r.b, job->r.t + done, &pass);
        run_pass(x, s, &pass, prefetch);
        write_outputs(x, job->r.b, job->r.t + done, &pass, &sight);
    }
}
