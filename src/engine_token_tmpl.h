/* SPDX-License-Identifier: MIT */
/* Single tokens: decoding steps and queries of one row. Part of engine_tmpl.h. */

/* One row: a query head and the kv head it reads. */
struct token {
    const struct kv_head *kv;
    size_t h;
};

/* Pack the queries of n <= TSA_TOKEN_ROWS rows. */
static void token_queries(const struct context *x, const struct token *tokens, size_t n)
{
    const struct tsa_plan *plan = x->plan;
    const struct tsa_scratch *r = &plan->scratch;
    const int l2 = plan->normalize == TSA_NORMALIZE_L2;
    for (size_t i = 0; i < n; i++) {
        const struct tsa_item *it = &tokens[i].kv->item;
        const struct rows row = {it->b, tokens[i].h, it->t, 1};
        const struct matrix q = rows_in(plan, x->call->q, &row, plan->d, x->scratch + r->rows);
        KERNELS(plan)->pack_t(1, plan->d, q.at, q.ld, l2, coefficients_of(plan, row.h).scale,
                              x->scratch + r->qbase + i * r->ld_base, 1);
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
        PAIR_KERNELS(plan)->products.decode_state(
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

/* The chains over features in pairs, of rows whose psi are in pairs: rows that follow one another
 * and whose states keep pairs go together. */
static void token_pairs(const struct context *x, const struct sums *const *sums, size_t rows,
                        struct columns c)
{
    const struct tsa_plan *plan = x->plan;
    const struct tsa_scratch *r = &plan->scratch;
    const size_t pairs = half_of(plan->mono.total - plan->high);
    const ptrdiff_t ldv = (ptrdiff_t)plan->layout.ldv, ldp = (ptrdiff_t)r->ld_psi;
    const T *hi[TSA_TOKEN_ROWS], *ones[TSA_TOKEN_ROWS];
    for (size_t row = 0, n; row < rows; row += n) {
        const T *psi = x->scratch + r->psi_pairs + (ptrdiff_t)row * ldp;
        T *acc = x->scratch + r->acc + (ptrdiff_t)row * ldv, *den = x->scratch + r->den + row;
        for (n = 0; row + n < rows && sums[row + n]->hi_pairs; n++) {
            hi[n] = sums[row + n]->hi_pairs + c.c0;
            ones[n] = sums[row + n]->ones_pairs;
        }
        if (n > 0) {
            PAIR_KERNELS(plan)->products.decode_state(
                &(const struct ARGS(decode_state)){.heads = n,
                                                   .columns = c.c1 - c.c0,
                                                   .features = pairs,
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
    }
}

/* The chains over the features of rows, whose psi wait in scratch; the rows' acc and den. */
static void token_sums(const struct context *x, const struct sums *const *sums, size_t rows,
                       struct columns c)
{
    const struct tsa_plan *plan = x->plan;
    const struct tsa_scratch *r = &plan->scratch;
    const size_t total = plan->mono.total;
    const ptrdiff_t ldv = (ptrdiff_t)plan->layout.ldv, ldp = (ptrdiff_t)r->ld_psi;
    T *psi = x->scratch + r->psi;
    const T *hi[TSA_TOKEN_ROWS], *ones[TSA_TOKEN_ROWS];
    if (plan->high < total) {
        PAIR_KERNELS(plan)->pair_cols(rows, total - plan->high, psi + plan->high, ldp,
                                      x->scratch + r->psi_pairs, ldp);
        token_pairs(x, sums, rows, c);
    }
    if (plan->high == 0)
        return;
    for (size_t i = 0; i < rows; i++) {
        hi[i] = sums[i]->hi + c.c0;
        ones[i] = sums[i]->ones_hi;
    }
    KERNELS(plan)->products.decode_state(
        &(const struct ARGS(decode_state)){.heads = rows,
                                           .columns = c.c1 - c.c0,
                                           .features = plan->high,
                                           .psi = psi,
                                           .ldp = ldp,
                                           .hi = hi,
                                           .ldh = ldv,
                                           .ones = ones,
                                           .acc = x->scratch + r->acc,
                                           .lda = ldv,
                                           .den = x->scratch + r->den,
                                           .first = plan->high == total});
}

/* Outputs of rows whose queries are packed: features, weights of the windows, the chains over the
 * sums of all rows together, then those over the windows. */
static void token_outputs(const struct context *x, const struct token *tokens, size_t n,
                          struct columns c)
{
    const struct tsa_plan *plan = x->plan;
    const struct tsa_scratch *r = &plan->scratch;
    const ptrdiff_t ldv = (ptrdiff_t)plan->layout.ldv;
    const size_t end = c.c1 < plan->dv ? c.c1 : plan->dv;
    const size_t ldw = tsa_round_up(plan->chunk, TSA_ROW_PAD);
    T *acc = x->scratch + r->acc, *den = x->scratch + r->den, *w = x->scratch + r->weights;
    T *q = x->scratch + r->qbase, *psi = x->scratch + r->psi, *buffer = x->scratch + r->rows;
    const struct sums *sums[TSA_TOKEN_ROWS];
    size_t rows = 0; /* of psi, acc and den */
    for (size_t i = 0; i < n; i++, q += r->ld_base) {
        const struct kv_head *kv = tokens[i].kv;
        const struct coefficients of = coefficients_of(plan, tokens[i].h);
        if (kv->sums.folded) {
            KERNELS(plan)->psi_k(&plan->mono, q, of.weight, psi + rows * r->ld_psi);
            sums[rows++] = &kv->sums;
        }
        KERNELS(plan)->decode_scores(kv->window.n, plan->d, kv->window.kt, kv->window.ldk, q,
                                     plan->terms, of.coef, w + i * ldw);
    }
    if (rows > 0)
        token_sums(x, sums, rows, c);
    for (size_t i = 0; i < n; i++) {
        const struct kv_head *kv = tokens[i].kv;
        const struct rows row = {kv->item.b, tokens[i].h, kv->item.t, 1};
        const struct matrix dst = rows_out(plan, x->call->o, &row, buffer);
        KERNELS(plan)->decode_window(&(const struct ARGS(decode_window)){.columns = end - c.c0,
                                                                         .keys = kv->window.n,
                                                                         .w = w + i * ldw,
                                                                         .v = kv->window.v + c.c0,
                                                                         .ldv = ldv,
                                                                         .acc = acc,
                                                                         .den = *den,
                                                                         .first = !kv->sums.folded,
                                                                         .dst = dst.at + c.c0});
        rows_out_done(plan, x->call->o, &row, c.c0, end, buffer);
        if (kv->sums.folded) {
            acc += ldv;
            den++;
        }
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
        token_queries(x, tokens, n);
        for (size_t i = 0; tsa_call_has_keys(x->call) && row == 0 && i < count; i++)
            append(x, &heads[i].item, &heads[i].window, heads[i].item.t, 1, false);
        token_outputs(x, tokens, n, all);
    }
    for (size_t i = 0; tsa_call_has_keys(x->call) && i < count; i++)
        if (heads[i].window.n == plan->chunk) {
            const struct tsa_item *it = &heads[i].item;
            fold_window(x, &heads[i].sums, &heads[i].window, NULL);
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
        token_queries(x, tokens, n);
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
    }
    run_tasks(call, 0, items * tsa_column_parts(call), column_task);
    if (tsa_call_has_keys(call)) {
        run_tasks(call, 0, items * call->team.threads, fold_task);
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
