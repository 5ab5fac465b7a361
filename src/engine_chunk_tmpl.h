/* SPDX-License-Identifier: MIT */
/* Chunks of one kv head, for one arithmetic type: packing, outputs, folding. For engine_tmpl.h. */

/* -- views ----------------------------------------------------------------------------------- */

/* The sums of a kv head, or of a prefix of its history. */
struct sums {
    T *hi, *lo, *ones_hi, *ones_lo; /* a prefix has no lo */
    ptrdiff_t ld;
    bool folded; /* anything in them? the chain over features is not executed otherwise */
};
struct window {
    T *kt, *v;
    ptrdiff_t ldk, ldv;
};
/* One kv head of one sequence. */
struct item {
    size_t b, g;
    size_t open; /* tokens in its window at the start of the call */
    struct sums sums;
    struct window window;
};

static struct item item_of(const struct tsa_call *call, size_t b, size_t g)
{
    const struct tsa_plan *plan = call->plan;
    struct item it = {.b = b, .g = g};
    const struct tsa_state *s = call->states[it.b];
    const struct tsa_layer_head *head = tsa_state_layer(s, call->layer);
    struct tsa_layout own;
    const struct tsa_layout *l = &plan->layout;
    if (s->head.chunk != plan->chunk || s->head.terms != plan->terms) {
        tsa_state_layout(s, &own);
        l = &own;
    }
    T *block = tsa_state_block(s, l, sizeof(T), call->layer, it.g);
    it.open = head->window;
    it.sums = (struct sums){block + l->hi,      block + l->lo,     block + l->ones_hi,
                            block + l->ones_lo, (ptrdiff_t)l->ldv, head->tokens > head->window};
    it.window = (struct window){block + l->kt, block + l->v, (ptrdiff_t)l->ldk, (ptrdiff_t)l->ldv};
    return it;
}

static struct item item_at(const struct tsa_call *call, size_t index)
{
    return item_of(call, index / call->plan->kv_heads, index % call->plan->kv_heads);
}

static T *room_at(const struct tsa_call *call, size_t thread)
{
    return (T *)(void *)call->scratch + thread * call->plan->room.total;
}

struct coefficients {
    const T *weight, *coef;
    T scale;
};
static struct coefficients coefficients_of(const struct tsa_plan *plan, size_t head)
{
    const size_t set = plan->coef_sets > 1 ? head : 0;
    return (struct coefficients){(const T *)plan->weight + set * plan->mono.total,
                                 (const T *)plan->coef + set * plan->terms,
                                 ((const T *)plan->scale)[head]};
}

/* -- rows of any dtype ----------------------------------------------------------------------- */

/* n rows from token t on, as T: the caller's memory where it holds T, else converted to `rows`. */
static const T *rows_in(const struct tsa_tensor *x, size_t b, size_t h, size_t t, size_t n,
                        size_t width, T *rows, ptrdiff_t *stride)
{
    const void *src = tsa_row(x, b, h, t);
    *stride = x->token;
    if (x->dtype == TSA_DTYPE)
        return src;
    *stride = (ptrdiff_t)width;
    for (size_t r = 0; r < n; r++)
        for (size_t c = 0; c < width; c++) {
            const ptrdiff_t from = (ptrdiff_t)r * x->token + (ptrdiff_t)c;
            OTHER value; /* of any alignment */
            memcpy(&value, (const char *)src + from * (ptrdiff_t)sizeof value, sizeof value);
            rows[r * width + c] = (T)value;
        }
    return rows;
}

/* Where n output rows go; rows_out_done moves them on if that is not the caller's memory. */
static T *rows_out(const struct tsa_tensor *x, size_t b, size_t h, size_t t, size_t width, T *rows,
                   ptrdiff_t *stride)
{
    *stride = x->token;
    if (x->dtype == TSA_DTYPE)
        return tsa_row(x, b, h, t);
    *stride = (ptrdiff_t)width;
    return rows;
}
static void rows_out_done(const struct tsa_tensor *x, size_t b, size_t h, size_t t, size_t n,
                          size_t width, const T *rows)
{
    if (x->dtype == TSA_DTYPE)
        return;
    void *dst = tsa_row(x, b, h, t);
    for (size_t r = 0; r < n; r++)
        for (size_t c = 0; c < width; c++) {
            const ptrdiff_t to = (ptrdiff_t)r * x->token + (ptrdiff_t)c;
            const OTHER value = (OTHER)rows[r * width + c];
            memcpy((char *)dst + to * (ptrdiff_t)sizeof value, &value, sizeof value);
        }
}

/* -- chunks ---------------------------------------------------------------------------------- */

/* Pack tokens t .. t+n-1 of the call into slots `at` .. of a window. */
static void append(const struct tsa_call *call, T *room, const struct item *it,
                   const struct window *w, size_t at, size_t t, size_t n)
{
    const struct tsa_plan *plan = call->plan;
    const int l2 = plan->normalize == TSA_NORMALIZE_L2;
    for (size_t done = 0; done < n;) {
        const size_t left = n - done,
                     m = left < call->plan->room.queries ? left : call->plan->room.queries;
        ptrdiff_t stride;
        const T *src = rows_in(call->k, it->b, it->g, t + done, m, plan->d,
                               room + call->plan->room.rows, &stride);
        KERNELS(plan)->pack_t(m, plan->d, src, stride, l2, 1, w->kt + at + done, w->ldk);
        src = rows_in(call->v, it->b, it->g, t + done, m, plan->dv, room + call->plan->room.rows,
                      &stride);
        KERNELS(plan)->pack_v(m, plan->dv, src, stride, w->v + (ptrdiff_t)(at + done) * w->ldv,
                              w->ldv);
        done += m;
    }
}

/* acc and den of m packed queries over all folded sums, blocks of features in descending order. */
static void query_state(const struct tsa_call *call, T *room, const struct sums *s, const T *weight,
                        size_t m)
{
    const struct tsa_plan *plan = call->plan;
    const struct tsa_room *r = &call->plan->room;
    const ptrdiff_t ldq = (ptrdiff_t)r->queries;
    KERNELS(plan)->base_t(&plan->mono, m, room + r->qbase, ldq);
    const size_t features = plan->mono.total;
    for (size_t f1 = features; f1 > 0;) {
        const size_t f0 = (f1 - 1) / plan->block * plan->block;
        const int first = f1 == features;
        KERNELS(plan)->psi_t(&plan->mono, f0, f1, m, room + r->qbase, ldq, weight, room + r->psi,
                             ldq);
        KERNELS(plan)->query_ones(m, f1 - f0, room + r->psi, ldq, s->ones_hi + f0, room + r->den,
                                  first);
        KERNELS(plan)->query(m, plan->layout.ldv, f1 - f0, room + r->psi, ldq,
                             s->hi + (ptrdiff_t)f0 * s->ld, s->ld, room + r->acc,
                             (ptrdiff_t)plan->layout.ldv, first);
        f1 = f0;
    }
}

/* Outputs of query head h for tokens t .. t+n-1: the sums, then the window. Causal: token t+i sees
 * the window up to slot at+i; otherwise all see its first `at` slots. */
static void outputs(const struct tsa_call *call, T *room, size_t b, size_t h, const struct sums *s,
                    const struct window *w, bool causal, size_t at, size_t t, size_t n)
{
    const struct tsa_plan *plan = call->plan;
    const struct tsa_room *r = &call->plan->room;
    const struct coefficients c = coefficients_of(plan, h);
    const int l2 = plan->normalize == TSA_NORMALIZE_L2, first = !s->folded;
    const ptrdiff_t ldq = (ptrdiff_t)r->queries, lda = (ptrdiff_t)plan->layout.ldv;
    for (size_t done = 0; done < n;) {
        const size_t left = n - done, m = left < r->queries ? left : r->queries;
        ptrdiff_t stride;
        const T *src = rows_in(call->q, b, h, t + done, m, plan->d, room + r->rows, &stride);
        KERNELS(plan)->pack_t(m, plan->d, src, stride, l2, c.scale, room + r->qbase, ldq);
        if (s->folded)
            query_state(call, room, s, c.weight, m);
        T *dst = rows_out(call->o, b, h, t + done, plan->dv, room + r->rows, &stride);
        for (size_t u = 0; u < m; u += TSA_WINDOW_QUERIES) {
            const size_t mu = m - u < TSA_WINDOW_QUERIES ? m - u : TSA_WINDOW_QUERIES;
            const size_t seen = at + done + u;
            const size_t keys = causal ? seen + mu : at;
            const ptrdiff_t diag = (ptrdiff_t)(causal ? seen : at);
            KERNELS(plan)->scores(keys, mu, plan->d, w->kt, w->ldk, room + r->qbase + u, ldq,
                                  plan->terms, c.coef, room + r->weights, TSA_WINDOW_QUERIES, diag);
            KERNELS(plan)->window_ones(keys, mu, room + r->weights, TSA_WINDOW_QUERIES, diag,
                                       room + r->den + u, first);
            KERNELS(plan)->window(mu, plan->dv, keys, diag, room + r->weights, TSA_WINDOW_QUERIES,
                                  w->v, w->ldv, room + r->acc + (ptrdiff_t)u * lda, lda, first,
                                  room + r->den + u, dst + (ptrdiff_t)u * stride, stride);
        }
        rows_out_done(call->o, b, h, t + done, m, plan->dv, room + r->rows);
        done += m;
    }
}

/* Key monomials of a whole window below the top degree, token-major. */
static void key_base(const struct tsa_call *call, T *room, const struct window *w)
{
    const struct tsa_plan *plan = call->plan;
    T *base = room + call->plan->room.kbase;
    const ptrdiff_t ld = (ptrdiff_t)call->plan->room.ld_base;
    KERNELS(plan)->transpose(plan->d, plan->chunk, w->kt, w->ldk, base, ld);
    KERNELS(plan)->base_k(&plan->mono, plan->chunk, base, ld);
}

/* Fold a full window into the sums, features f0 .. f1-1, after key_base. */
static void fold_features(const struct tsa_call *call, T *room, const struct window *w,
                          const struct sums *s, size_t f0, size_t f1)
{
    const struct tsa_plan *plan = call->plan;
    const struct tsa_room *r = &call->plan->room;
    T *phi = room + r->phi, *ones = room + r->sums;
    const ptrdiff_t ldp = (ptrdiff_t)r->ld_phi;
    for (size_t f = f0; f < f1;) {
        const size_t n = f1 - f < plan->block ? f1 - f : plan->block;
        KERNELS(plan)->phi_k(&plan->mono, f, f + n, plan->chunk, room + r->kbase,
                             (ptrdiff_t)r->ld_base, phi, ldp);
        T *hi = s->hi + (ptrdiff_t)f * s->ld;
        if (s->lo) {
            KERNELS(plan)->ones_k(n, plan->chunk, phi, ldp, ones);
            KERNELS(plan)->fold(n, s->ones_hi + f, s->ones_lo + f, ones, NULL);
            KERNELS(plan)->update_fold(n, plan->layout.ldv, plan->chunk, phi, ldp, w->v, w->ldv, hi,
                                       s->lo + (ptrdiff_t)f * s->ld, s->ld);
        } else { /* local sums of one chunk */
            KERNELS(plan)->ones_k(n, plan->chunk, phi, ldp, s->ones_hi + f);
            KERNELS(plan)->update(n, plan->layout.ldv, plan->chunk, phi, ldp, w->v, w->ldv, hi,
                                  s->ld);
        }
        f += n;
    }
}

static void fold_window(const struct tsa_call *call, T *room, const struct window *w,
                        const struct sums *s)
{
    key_base(call, room, w);
    fold_features(call, room, w, s, 0, call->plan->mono.total);
}
