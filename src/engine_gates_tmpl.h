/* SPDX-License-Identifier: MIT */
/* What gates do to a window: the decay of its tokens, and of the sums before it, as of a token.
 * Part of engine_tmpl.h.
 *
 * While tokens from position s on are new in a window, its decay is that as of the token before
 * them (new tokens have their value gate), and w->e that of the sums. Outputs advance copies of
 * both from token to token; a fold takes them as of the last one. Once a call has done its work,
 * close_task advances what states keep. Single tokens advance it at once. */

/* The gates of tokens t .. t+n-1 of an item, -0 as +0; ones where the caller gave none. */
static void gates_in(const struct tsa_tensor *x, const struct tsa_item *it, size_t t, size_t n,
                     T *gates)
{
    if (!x->data) {
        for (size_t i = 0; i < n; i++)
            gates[i] = 1;
        return;
    }
    const char *at = tsa_row(x, it->b, it->g, t);
    const ptrdiff_t step = x->token * (ptrdiff_t)tsa_dtype_bytes(x->dtype);
    OTHER other;
    for (size_t i = 0; x->dtype == TSA_DTYPE && i < n; i++)
        memcpy(gates + i, at + (ptrdiff_t)i * step, sizeof *gates);
    for (size_t i = 0; x->dtype != TSA_DTYPE && i < n; i++) {
        memcpy(&other, at + (ptrdiff_t)i * step, sizeof other);
        gates[i] = (T)other;
    }
    for (size_t i = 0; i < n; i++)
        gates[i] = gates[i] + (T)0;
}

/* The gates of tokens t .. t+n-1 of the tensors, behind those of a window. */
static void append_gates(const struct tsa_call *call, const struct tsa_item *it, struct window *w,
                         size_t t, size_t n)
{
    if (!w->decay)
        return;
    gates_in(call->gate, it, t, n, w->gate + w->n);
    gates_in(call->value_gate, it, t, n, w->value_gate + w->n);
    memcpy(w->decay + w->n, w->value_gate + w->n, n * sizeof(T));
}

/* decay[0 .. n-1] as of the last token, where those from position s on are new; and *e. */
static void advance(const struct tsa_plan *plan, const struct window *w, size_t s, T *decay, T *e)
{
    if (s == w->n)
        return;
    KERNELS(plan)->gate_weights(&(const struct ARGS(gate_weights)){.keys = w->n,
                                                                   .queries = w->n - s,
                                                                   .diag = (ptrdiff_t)s,
                                                                   .gate = w->gate + s,
                                                                   .decay = decay});
    for (size_t i = s; i < w->n; i++)
        *e = *e * w->gate[i];
}

/* A window with gates as folds want it, in scratch: its values times their decay. */
static struct window folded_window(const struct context *x, const struct window *w)
{
    struct window to = *w;
    if (!w->decay)
        return to;
    to.decay = x->scratch + x->plan->scratch.decay_end;
    to.v = x->scratch + x->plan->scratch.gated_v;
    to.ldv = (ptrdiff_t)x->plan->layout.ldv;
    return to;
}

/* The same, made: tokens from position s on are new. */
static struct window window_to_fold(const struct context *x, const struct window *w, size_t s)
{
    struct window to = folded_window(x, w);
    if (!w->decay)
        return to;
    memcpy(to.decay, w->decay, w->n * sizeof(T));
    advance(x->plan, w, s, to.decay, &to.e);
    KERNELS(x->plan)->scale_rows(w->n, x->plan->layout.ldv, to.decay, 1, w->v, w->ldv, to.v,
                                 to.ldv);
    return to;
}

/* The last token of a window was single: what the state keeps is as of it. */
static void advance_token(const struct tsa_plan *plan, struct window *w)
{
    if (!w->decay)
        return;
    const size_t last = w->n - 1;
    const T g = w->gate[last];
    KERNELS(plan)->scale_rows(1, last, &g, 0, w->decay, 0, w->decay, 0);
    w->past[0] = w->e = w->e * g;
    w->past[1] = w->past[1] * g;
}

/* States without tokens were never decayed. */
static void open_gates(const struct tsa_call *call)
{
    const struct tsa_plan *plan = call->plan;
    for (size_t b = 0; b < call->batch; b++) {
        const struct tsa_state *s = call->states[tsa_call_slot(call, b)];
        if (tsa_call_tokens(call, b) == 0 || tsa_state_layer(s, call->layer)->tokens > 0)
            continue;
        for (size_t g = 0; g < plan->kv_heads; g++) {
            struct kv_head kv;
            set_kv_head(&kv, call, b, g);
            kv.window.past[0] = kv.window.past[1] = 1;
        }
    }
}

/* Advance what the state of an item keeps over the tokens of the call. */
static void close_task(const struct context *x, size_t index)
{
    const struct tsa_call *call = x->call;
    const struct tsa_plan *plan = x->plan;
    struct kv_head kv;
    set_kv_head(&kv, call, index / plan->kv_heads, index % plan->kv_heads);
    const struct tsa_item *it = &kv.item;
    const size_t all = it->open + (it->end - it->t), s = all < plan->chunk ? it->open : 0;
    struct window w = kv.window;
    if (it->end == it->t || (tsa_call_has_queries(call) && it->end - it->t == 1))
        return; /* no token, or advance_token has been there */
    w.n = all % plan->chunk;
    w.e = all < plan->chunk ? w.e : 1;
    advance(plan, &w, s, w.decay, &w.e);
    w.past[0] = w.e;
    T product = w.past[1], *gates = x->scratch + plan->scratch.decay_run;
    for (size_t t = it->t, n; t < it->end; t += n) {
        n = it->end - t < plan->chunk ? it->end - t : plan->chunk;
        gates_in(call->gate, it, t, n, gates);
        for (size_t i = 0; i < n; i++)
            product = product * gates[i];
    }
    w.past[1] = product;
}
