/* SPDX-License-Identifier: MIT */
/* Single tokens: decoding steps and queries of one row. Part of engine_tmpl.h. */

/* One row: a query head and the kv head it reads. */
struct token {
    const struct item *item;
    size_t h;
};

/* The queries of n <= TSA_TOKEN_ROWS rows. */
static void token_queries(const struct tsa_call *call, T *scratch, const struct token *tokens,
                          size_t n)
{
    const struct tsa_plan *plan = call->plan;
    const int l2 = plan->normalize == TSA_NORMALIZE_L2;
    for (size_t i = 0; i < n; i++) {
        ptrdiff_t stride;
        const struct item *it = tokens[i].item;
        const T *src = rows_in(plan, call->q, it->b, tokens[i].h, it->t, 1, plan->d,
                               scratch + plan->scratch.rows, &stride);
        KERNELS(plan)->pack_t(1, plan->d, src, stride, l2, coefficients_of(plan, tokens[i].h).scale,
                              scratch + plan->scratch.qbase + i * plan->scratch.ld_base, 1);
    }
}

/* The chains over features in pairs of a row whose state keeps none: block by block. */
static void token_rounded(const struct tsa_plan *plan, T *scratch, const struct sums *s,
                          const T *psi, size_t c, size_t cols, T *acc, T *den)
{
    const size_t total = plan->mono.total;
    for (size_t at = tsa_block_count(plan), f0 = total, f1; f0 > plan->high;) {
        tsa_block_at(plan, --at, &f0, &f1);
        const struct operands b = operands_of(plan, scratch, s, f0, f1, c, cols);
        PAIR_KERNELS(plan)->decode_state(1, cols, b.steps, psi + (f0 - plan->high) / 2, 0, &b.hi,
                                         s->ld, &b.ones, acc, 0, den, f1 == total);
    }
}

/* The chains over features in pairs, of rows whose psi are in pairs: those that follow one another
 * and have pairs together. */
static void token_pairs(const struct tsa_plan *plan, T *scratch, const struct sums *const *sums,
                        size_t rows, size_t c, size_t cols)
{
    const struct tsa_scratch *r = &plan->scratch;
    const size_t pairs = half_of(plan->mono.total - plan->high);
    const ptrdiff_t ldv = (ptrdiff_t)plan->layout.ldv, ldp = (ptrdiff_t)r->ld_psi;
    const T *hi[TSA_TOKEN_ROWS], *ones[TSA_TOKEN_ROWS];
    for (size_t row = 0, n; row < rows; row += n) {
        const T *psi = scratch + r->psi_pairs + (ptrdiff_t)row * ldp;
        T *acc = scratch + r->acc + (ptrdiff_t)row * ldv, *den = scratch + r->den + row;
        for (n = 0; row + n < rows && sums[row + n]->hi_pairs; n++) {
            hi[n] = sums[row + n]->hi_pairs + c;
            ones[n] = sums[row + n]->ones_pairs;
        }
        if (n > 0) {
            PAIR_KERNELS(plan)->decode_state(n, cols, pairs, psi, ldp, hi, ldv, ones, acc, ldv, den,
                                             1);
        } else {
            n = 1;
            token_rounded(plan, scratch, sums[row], psi, c, cols, acc, den);
        }
    }
}

/* The chains over the features of rows, whose psi wait in scratch; the rows' acc and den. */
static void token_sums(const struct tsa_plan *plan, T *scratch, const struct sums *const *sums,
                       size_t rows, size_t c0, size_t c1)
{
    const struct tsa_scratch *r = &plan->scratch;
    const size_t total = plan->mono.total;
    const ptrdiff_t ldv = (ptrdiff_t)plan->layout.ldv, ldp = (ptrdiff_t)r->ld_psi;
    const T *hi[TSA_TOKEN_ROWS], *ones[TSA_TOKEN_ROWS];
    if (plan->high < total) {
        PAIR_KERNELS(plan)->pair_cols(rows, total - plan->high, scratch + r->psi + plan->high, ldp,
                                      scratch + r->psi_pairs, ldp);
        token_pairs(plan, scratch, sums, rows, c0, c1 - c0);
    }
    if (plan->high == 0)
        return;
    for (size_t i = 0; i < rows; i++) {
        hi[i] = sums[i]->hi + c0;
        ones[i] = sums[i]->ones_hi;
    }
    KERNELS(plan)->decode_state(rows, c1 - c0, plan->high, scratch + r->psi, ldp, hi, ldv, ones,
                                scratch + r->acc, ldv, scratch + r->den, plan->high == total);
}

/* Their outputs, value columns c0 .. c1-1 of the padded ones: features, weights of the windows, the
 * chains over the sums of all rows together, then those over the windows. */
static void token_outputs(const struct tsa_call *call, T *scratch, const struct token *tokens,
                          size_t n, size_t c0, size_t c1)
{
    const struct tsa_plan *plan = call->plan;
    const struct tsa_scratch *r = &plan->scratch;
    const ptrdiff_t ldv = (ptrdiff_t)plan->layout.ldv;
    T *acc = scratch + r->acc, *den = scratch + r->den, *w = scratch + r->weights,
      *q = scratch + r->qbase;
    const struct sums *sums[TSA_TOKEN_ROWS];
    const size_t ldw = tsa_round_up(plan->chunk, TSA_ROW_PAD);
    const size_t width = (c1 < plan->dv ? c1 : plan->dv) - c0;
    size_t rows = 0; /* of psi, acc and den */
    for (size_t i = 0; i < n; i++, q += r->ld_base) {
        const struct item *it = tokens[i].item;
        const struct coefficients c = coefficients_of(plan, tokens[i].h);
        if (it->sums.folded) {
            KERNELS(plan)->psi_k(&plan->mono, q, c.weight, scratch + r->psi + rows * r->ld_psi);
            sums[rows++] = &it->sums;
        }
        KERNELS(plan)->decode_scores(it->window.n, plan->d, it->window.kt, it->window.ldk, q,
                                     plan->terms, c.coef, w + i * ldw);
    }
    if (rows > 0)
        token_sums(plan, scratch, sums, rows, c0, c1);
    for (size_t i = 0; i < n; i++) {
        const struct item *it = tokens[i].item;
        ptrdiff_t stride;
        T *dst = rows_out(call->o, it->b, tokens[i].h, it->t, plan->dv, scratch + r->rows, &stride);
        KERNELS(plan)->decode_window(width, it->window.n, w + i * ldw, it->window.v + c0, ldv, acc,
                                     *den, !it->sums.folded, dst + c0);
        rows_out_done(plan, call->o, it->b, tokens[i].h, it->t, 1, c0, c0 + width,
                      scratch + r->rows);
        if (it->sums.folded) {
            acc += ldv;
            den++;
        }
    }
}

/* Kv heads that advance together: enough to fill TSA_TOKEN_ROWS. */
static size_t items_together(const struct tsa_call *call)
{
    const size_t group = call->plan->group;
    return group < TSA_TOKEN_ROWS ? TSA_TOKEN_ROWS / group : 1;
}

/* One token of `count` <= items_together kv heads: attend from all their query heads, append it,
 * fold. Without k the states are only read. Nothing is read back soon after it was stored where
 * that can be helped: a load that spans stores waits for them. */
static void token_items(const struct tsa_call *call, T *scratch, struct item *items, size_t count)
{
    const struct tsa_plan *plan = call->plan;
    const size_t rows = count * plan->group;
    struct token tokens[TSA_TOKEN_ROWS];
    struct item *it = items;
    size_t h = it->g * plan->group;
    for (size_t row = 0; row < rows; row += TSA_TOKEN_ROWS) {
        const size_t n = rows - row < TSA_TOKEN_ROWS ? rows - row : TSA_TOKEN_ROWS;
        for (size_t i = 0; i < n; i++) {
            tokens[i] = (struct token){it, h};
            if (++h == (it->g + 1) * plan->group && i + 1 + row < rows) {
                it++;
                h = it->g * plan->group;
            }
        }
        token_queries(call, scratch, tokens, n);
        for (size_t i = 0; call->k && row == 0 && i < count; i++)
            append(call, scratch, &items[i], &items[i].window, items[i].t, 1, false);
        token_outputs(call, scratch, tokens, n, 0, plan->layout.ldv);
    }
    for (size_t i = 0; call->k && i < count; i++)
        if (items[i].window.n == plan->chunk) {
            fold_window(plan, scratch, &items[i].sums, &items[i].window, NULL);
            if (!items[i].sums.hi_pairs)
                tsa_state_round(plan, items[i].state, call->layer, items[i].g, 0, 1);
        }
}

/* Kv heads of a task, unless that leaves threads idle. */
static size_t token_share(const struct tsa_call *call)
{
    const size_t items = call->batch * call->plan->kv_heads, fill = items_together(call);
    const size_t share = (items + call->team.threads - 1) / call->team.threads;
    return share < fill ? share : fill;
}

static void token_task(const struct tsa_call *call, T *scratch, size_t index)
{
    const struct tsa_plan *plan = call->plan;
    const size_t total = call->batch * plan->kv_heads, share = token_share(call);
    const size_t first = index * share, left = total - first, count = left < share ? left : share;
    struct item items[TSA_TOKEN_ROWS];
    size_t b = first / plan->kv_heads, g = first % plan->kv_heads;
    for (size_t i = 0; i < count; i++) {
        items[i] = item_of(call, b, g);
        if (++g == plan->kv_heads) {
            b++;
            g = 0;
        }
    }
    token_items(call, scratch, items, count);
}

/* Parts of the value columns, each a task, where a few large states leave threads idle. */
static size_t column_parts(const struct tsa_call *call)
{
    const struct tsa_plan *plan = call->plan;
    const size_t items = call->batch * plan->kv_heads, unit = TSA_ALIGN / sizeof(T);
    const size_t columns = plan->layout.ldv / unit, share = call->team.threads / items;
    if (plan->crowded || plan->mono.total * plan->layout.ldv * sizeof(T) < TSA_SPLIT_BYTES)
        return 1;
    return share < columns ? (share > 1 ? share : 1) : columns;
}

static void column_task(const struct tsa_call *call, T *scratch, size_t index)
{
    const struct tsa_plan *plan = call->plan;
    const size_t parts = column_parts(call), unit = TSA_ALIGN / sizeof(T);
    const size_t part = index % parts, columns = plan->layout.ldv / unit;
    struct item item = item_at(call, index / parts);
    struct token tokens[TSA_TOKEN_ROWS];
    item.window.n += call->k != NULL; /* the token that decode_columns has appended */
    for (size_t row = 0; row < plan->group; row += TSA_TOKEN_ROWS) {
        const size_t left = plan->group - row, n = left < TSA_TOKEN_ROWS ? left : TSA_TOKEN_ROWS;
        for (size_t i = 0; i < n; i++)
            tokens[i] = (struct token){&item, item.g * plan->group + row + i};
        token_queries(call, scratch, tokens, n);
        token_outputs(call, scratch, tokens, n, columns * part / parts * unit,
                      columns * (part + 1) / parts * unit);
    }
}

static void fold_task(const struct tsa_call *call, T *scratch, size_t index)
{
    struct item item = item_at(call, index / call->team.threads);
    item.window.n++;
    if (item.window.n == call->plan->chunk)
        fold_part(call->plan, scratch, &item, index % call->team.threads, call->team.threads);
}

static void decode_columns(const struct tsa_call *call)
{
    const size_t items = call->batch * call->plan->kv_heads;
    for (size_t i = 0; call->k && i < items; i++) {
        struct item item = item_at(call, i);
        append(call, scratch_at(call, 0), &item, &item.window, item.t, 1, false);
    }
    run_tasks(call, 0, items * column_parts(call), column_task);
    if (call->k) {
        run_tasks(call, 0, items * call->team.threads, fold_task);
        round_items(call, &(const struct folded){.rounded = true}, items);
    }
}

static void decode(const struct tsa_call *call)
{
    if (call->team.threads > 1 && column_parts(call) > 1) {
        decode_columns(call);
        return;
    }
    const struct tsa_plan *plan = call->plan;
    const size_t bytes = plan->mono.total * plan->layout.ldv * sizeof(T);
    struct tsa_call alone;
    if (call->team.threads > 1 && call->batch * plan->kv_heads * bytes < TSA_SPLIT_BYTES / 2) {
        alone = *call;
        alone.team.threads = 1;
        call = &alone;
    }
    const size_t share = token_share(call);
    run_tasks(call, 0, (call->batch * plan->kv_heads + share - 1) / share, token_task);
}
