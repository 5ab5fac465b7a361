/* SPDX-License-Identifier: MIT */
/* Single tokens: decoding steps and queries of one row. Part of engine_tmpl.h. */

/* One row: a query head and the kv head it reads. */
struct token {
    const struct kv_head *kv;
    size_t h;
};

/* Pack the queries of n <= TSA_TOKEN_ROWS rows, and append the tokens of `count` kv heads to their
 * windows. */
static void token_inputs(const struct context *x, const struct token *tokens, size_t n,
                         struct kv_head *heads, size_t count)
{
    const struct tsa_plan *plan = x->plan;
    const struct tsa_scratch *r = &plan->scratch;
    const struct tsa_call *call = x->call;
    const size_t ldk = tsa_round_up(plan->d, TSA_ROW_PAD);
    const T *src[2 * TSA_TOKEN_ROWS];
    T *out[2 * TSA_TOKEN_ROWS], scale[2 * TSA_TOKEN_ROWS], *keys = x->scratch + r->token_keys;
    for (size_t i = 0; i < n; i++) {
        const struct tsa_item *it = &tokens[i].kv->item;
        const struct rows row = {it->b, tokens[i].h, it->t, 1};
        src[i] = rows_in(plan, call->q, &row, plan->d, x->scratch + r->rows + i * plan->d).at;
        out[i] = x->scratch + r->qbase + i * r->ld_base;
        scale[i] = ((const T *)plan->scale)[row.h];
    }
    for (size_t i = 0; i < count; i++) {
        const struct tsa_item *it = &heads[i].item;
        const struct rows row = {it->b, it->g, it->t, 1};
        T *buffer = x->scratch + r->rows + (n + i) * plan->d;
        src[n + i] = rows_in(plan, call->k, &row, plan->d, buffer).at;
        out[n + i] = keys + i * ldk;
        scale[n + i] = 1;
    }
    KERNELS(plan)->unit_rows(n + count, plan->d, src, plan->normalize == TSA_NORMALIZE_L2, scale,
                             out);
    for (size_t i = 0; i < count; i++, keys += ldk) {
        const struct tsa_item *it = &heads[i].item;
        const struct rows row = {it->b, it->g, it->t, 1};
        struct window *w = &heads[i].window;
        const struct matrix v = rows_in(plan, call->v, &row, plan->dv, x->scratch + r->rows);
        for (size_t c = 0; c < plan->d; c++)
            w->kt[(ptrdiff_t)c * w->ldk + (ptrdiff_t)w->n] = keys[c];
        append_gates(call, it, w, it->t, 1);
        KERNELS(plan)->pack_v(1, plan->dv, v.at, v.ld, w->v + (ptrdiff_t)w->n * w->ldv, w->ldv);
        w->n++;
        advance_token(plan, w);
    }
}

/* Value columns c0 .. c1-1 of the padded ones, or of the outputs. */
struct columns {
    size_t c0, c1;
};

/* The chains over features in pairs of one row whose state keeps none: block by block. */
static void token_rounded(const struct context *x, const struct sums *s, struct columns c,
                          const T *psi, T *acc, T *den)
{
    const struct tsa_plan *plan = x->plan;
    const size_t total = plan->mono.total, cols = c.c1 - c.c0;
    struct tsa_range f = {total, total};
    for (size_t at = tsa_block_count(plan); f.f0 > plan->high;) {
        f = tsa_block_at(plan, --at);
        const struct operands b = operands_of(x, s, f, c.c0, cols);
        PAIR_KERNELS(plan)->decode_state(
            &(const struct ARGS(decode_state)){.heads = 1,
                                               .columns = cols,
                                               .features = b.steps,
                                               .psi = psi + (f.f0 - plan->high) / 2,
                                               .hi = &b.hi,
                                               .ldh = s->ld,
                                               .ones = &b.ones,
                                               .acc = acc,
                                               .den = den,
                                               .first = f.f1 == total});
    }
}

/* The chains over features in pairs of rows from `at` on, whose psi wait in scratch: neighbours
 * whose states keep pairs go together. */
static void token_pairs(const struct context *x, const struct sums *const *sums, size_t rows,
                        struct columns c, size_t at)
{
    const struct tsa_plan *plan = x->plan;
    const struct tsa_scratch *r = &plan->scratch;
    const size_t features = plan->mono.total - plan->high;
    const ptrdiff_t ldv = (ptrdiff_t)plan->layout.ldv, ldp = (ptrdiff_t)r->ld_psi;
    const T *hi[TSA_TOKEN_ROWS], *ones[TSA_TOKEN_ROWS];
    T *psi = x->scratch + r->psi_pairs + (ptrdiff_t)at * ldp;
    T *acc = x->scratch + r->acc + (ptrdiff_t)at * ldv, *den = x->scratch + r->den + at;
    PAIR_KERNELS(plan)->pair_cols(
        rows, features, x->scratch + r->psi + plan->high + (ptrdiff_t)at * ldp, ldp, psi, ldp);
    for (size_t row = 0, n; row < rows; row += n) {
        for (n = 0; row + n < rows && sums[row + n]->hi_pairs; n++) {
            hi[n] = sums[row + n]->hi_pairs + c.c0;
            ones[n] = sums[row + n]->ones_pairs;
        }
        if (n > 0) {
            PAIR_KERNELS(plan)->decode_state(
                &(const struct ARGS(decode_state)){.heads = n,
                                                   .columns = c.c1 - c.c0,
                                                   .features = half_of(features),
                                                   .psi = psi,
                                                   .ldp = ldp,
                                                   .hi = hi,
                                                   .ldh = ldv,
                                                   .ones = ones,
                                                   .acc = acc,
                                                   .lda = ldv,
                                                   .den = den,
                                                   .first = 1});
        } else {
            n = 1;
            token_rounded(x, sums[row], c, psi, acc, den);
        }
        psi += (ptrdiff_t)n * ldp;
        acc += (ptrdiff_t)n * ldv;
        den += n;
    }
}

/* Outputs of rows whose queries are packed: features, weights of the windows, then the chains over
 * sums and windows of neighbours together, as far as all have sums or none. */
static void token_outputs(const struct context *x, const struct token *tokens, size_t n,
                          struct columns c)
{
    const struct tsa_plan *plan = x->plan;
    const struct tsa_scratch *r = &plan->scratch;
    const ptrdiff_t ldp = (ptrdiff_t)r->ld_psi, ldv = (ptrdiff_t)plan->layout.ldv;
    const ptrdiff_t ldw = (ptrdiff_t)tsa_round_up(plan->chunk, TSA_ROW_PAD);
    const size_t end = c.c1 < plan->dv ? c.c1 : plan->dv;
    T *psi = x->scratch + r->psi, *w = x->scratch + r->weights, *q = x->scratch + r->qbase;
    const struct sums *sums[TSA_TOKEN_ROWS];
    const T *hi[TSA_TOKEN_ROWS], *ones[TSA_TOKEN_ROWS], *v[TSA_TOKEN_ROWS];
    T *dst[TSA_TOKEN_ROWS];
    size_t keys[TSA_TOKEN_ROWS];
    T decay[TSA_TOKEN_ROWS];
    for (size_t i = 0; i < n; i++, q += r->ld_base) {
        const struct kv_head *kv = tokens[i].kv;
        const struct coefficients of = coefficients_of(plan, tokens[i].h);
        const struct rows row = {kv->item.b, tokens[i].h, kv->item.t, 1};
        sums[i] = &kv->sums;
        hi[i] = kv->sums.hi + c.c0;
        ones[i] = kv->sums.ones_hi;
        v[i] = kv->window.v + c.c0;
        keys[i] = kv->window.n;
        dst[i] = rows_out(plan, x->call->o, &row, x->scratch + r->rows + i * plan->dv).at + c.c0;
        if (kv->sums.folded)
            KERNELS(plan)->psi_k(&plan->mono, q, of.weight, psi + (ptrdiff_t)i * ldp);
        KERNELS(plan)->decode_scores(keys[i], plan->d, kv->window.kt, kv->window.ldk, q,
                                     plan->terms, of.coef, w + (ptrdiff_t)i * ldw);
        decay[i] = kv->window.e;
        if (kv->window.decay)
            KERNELS(plan)->multiply(keys[i], kv->window.decay, w + (ptrdiff_t)i * ldw);
    }
    for (size_t i = 0, m; i < n; i += m) {
        const bool folded = sums[i]->folded, pairs = folded && plan->high < plan->mono.total;
        for (m = 1; i + m < n && sums[i + m]->folded == folded; m++)
            ;
        if (pairs)
            token_pairs(x, sums + i, m, c, i);
        KERNELS(plan)->decode_heads(&(const struct ARGS(decode_heads)){
            .state.heads = m,
            .state.columns = end - c.c0,
            .state.features = folded ? plan->high : 0,
            .state.psi = psi + (ptrdiff_t)i * ldp,
            .state.ldp = ldp,
            .state.hi = hi + i,
            .state.ldh = ldv,
            .state.ones = ones + i,
            .w = w + (ptrdiff_t)i * ldw,
            .ldw = ldw,
            .keys = keys + i,
            .v = v + i,
            .ldv = ldv,
            .state.acc = x->scratch + r->acc + (ptrdiff_t)i * ldv,
            .state.lda = ldv,
            .state.den = x->scratch + r->den + i,
            .state.first = !pairs,
            .dst = dst + i,
            .decay = folded && plan->gate != TSA_GATE_NONE ? decay + i : NULL,
            .finish = plan->finishes ? FINISH(plan) : NULL});
    }
    for (size_t i = 0; i < n; i++) {
        const struct tsa_item *it = &tokens[i].kv->item;
        const struct rows row = {it->b, tokens[i].h, it->t, 1};
        if (end > c.c0)
            scale_outputs(plan, 1, end - c.c0, (struct matrix){dst[i], 0});
        rows_out_done(plan, x->call->o, &row, c.c0, end, x->scratch + r->rows + i * plan->dv);
    }
}

/* One token of `count` <= tsa_heads_together() kv heads: attend from all their query heads, append
 * it, fold. Without k the states are only read. Nothing is read back soon after it was stored where
 * that can be helped: a load that spans stores cannot be forwarded from them, and waits. */
static void token_heads(const struct context *x, struct kv_head *heads, size_t count)
{
    const struct tsa_plan *plan = x->plan;
    const size_t rows = count * plan->group;
    const struct columns all = {0, plan->layout.ldv};
    struct token tokens[TSA_TOKEN_ROWS];
    const struct kv_head *kv = heads;
    size_t h = kv->item.g * plan->group; /* cppcheck-suppress uninitvar ; count is not 0 */
    for (size_t row = 0; row < rows; row += TSA_TOKEN_ROWS) {
        const size_t n = rows - row < TSA_TOKEN_ROWS ? rows - row : TSA_TOKEN_ROWS;
        for (size_t i = 0; i < n; i++) {
            tokens[i] = (struct token){kv, h};
            if (++h == (kv->item.g + 1) * plan->group && i + 1 + row < rows) {
                kv++;
                h = kv->item.g * plan->group;
            }
        }
        token_inputs(x, tokens, n, heads, tsa_call_has_keys(x->call) && row == 0 ? count : 0);
        token_outputs(x, tokens, n, all);
    }
    for (size_t i = 0; tsa_call_has_keys(x->call) && i < count; i++)
        if (heads[i].window.n == plan->chunk) {
            const struct tsa_item *it = &heads[i].item;
            const struct window w = window_to_fold(x, &heads[i].window, plan->chunk);
            fold_window(x, &heads[i].sums, &w, NULL);
            if (w.past)
                w.past[0] = 1;
            if (!heads[i].sums.hi_pairs)
                tsa_state_round(plan, it->state, x->call->layer, it->g, 0, 1);
        }
}

static void token_task(const struct context *x, size_t index)
{
    const size_t kv_heads = x->plan->kv_heads, total = x->call->batch * kv_heads;
    const size_t share = tsa_token_share(x->call), first = index * share, left = total - first;
    const size_t count = left < share ? left : share;
    struct kv_head heads[TSA_TOKEN_ROWS];
    size_t b = first / kv_heads, g = first % kv_heads;
    for (size_t i = 0; i < count; i++) {
        set_kv_head(&heads[i], x->call, b, g);
        if (++g == kv_heads) {
            b++;
            g = 0;
        }
    }
    token_heads(x, heads, count);
}

/* -- a few large states: value columns are shared out ------------------------------------------ */

/* One part of the value columns of a kv head, to whose window decode_columns has appended the
 * token. */
static void column_task(const struct context *x, size_t index)
{
    const struct tsa_plan *plan = x->plan;
    const size_t parts = tsa_column_parts(x->call), part = index % parts;
    const size_t unit = TSA_ALIGN / sizeof(T), units = plan->layout.ldv / unit;
    const struct columns c = {units * part / parts * unit, units * (part + 1) / parts * unit};
    struct kv_head kv = kv_head_at(x->call, index / parts);
    struct token tokens[TSA_TOKEN_ROWS];
    if (tsa_call_has_keys(x->call))
        kv.window.n++;
    for (size_t row = 0; row < plan->group; row += TSA_TOKEN_ROWS) {
        const size_t left = plan->group - row, n = left < TSA_TOKEN_ROWS ? left : TSA_TOKEN_ROWS;
        for (size_t i = 0; i < n; i++)
            tokens[i] = (struct token){&kv, kv.item.g * plan->group + row + i};
        token_inputs(x, tokens, n, NULL, 0);
        token_outputs(x, tokens, n, c);
    }
}

/* One part of the features of a kv head, if its window is full now. */
static void fold_task(const struct context *x, size_t index)
{
    const size_t threads = x->call->team.threads;
    struct kv_head kv = kv_head_at(x->call, index / threads);
    kv.window.n++;
    if (kv.window.n == x->plan->chunk)
        fold_part(x, &kv, index % threads, threads);
}

static void decode_columns(const struct tsa_call *call)
{
    const size_t items = call->batch * call->plan->kv_heads;
    const struct context x = context_of(call, 0);
    for (size_t i = 0; tsa_call_has_keys(call) && i < items; i++) {
        struct kv_head kv = kv_head_at(call, i);
        append(&x, &kv.item, &kv.window, kv.item.t, 1, false);
        advance_token(call->plan, &kv.window);
    }
    run_tasks(call, 0, items * tsa_column_parts(call), column_task);
    if (tsa_call_has_keys(call)) {
        run_tasks(call, 0, items * call->team.threads, fold_task);
        for (size_t i = 0; call->plan->gate != TSA_GATE_NONE && i < items; i++) {
            const struct kv_head kv = kv_head_at(call, i);
            if (kv.item.open + 1 == call->plan->chunk)
                kv.window.past[0] = 1;
        }
        round_items(call, &(const struct folded){.rounded = true}, items);
    }
}

static void decode(const struct tsa_call *call)
{
    struct tsa_call alone;
    if (call->team.threads > 1 && tsa_column_parts(call) > 1) {
        decode_columns(call);
        return;
    }
    if (call->team.threads > 1 && tsa_decode_is_short(call)) {
        alone = *call;
        alone.team.threads = 1;
        call = &alone;
    }
    const size_t items = call->batch * call->plan->kv_heads, share = tsa_token_share(call);
    run_tasks(call, 0, (items + share - 1) / share, token_task);
}
