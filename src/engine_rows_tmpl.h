/* SPDX-License-Identifier: MIT */
/* Rows of the caller's tensors, of any dtype, and their way into a window. Part of
 * engine_tmpl.h. */

/* Tokens t .. t+n-1 of head h of batch b of a tensor. */
struct rows {
    size_t b, h, t, n;
};
/* Rows of T. */
struct matrix {
    T *at;
    ptrdiff_t ld;
};

/* Rows to read: the caller's memory where it holds T, else `buffer`, to which they are
 * converted. */
static struct matrix rows_in(const struct tsa_plan *plan, const struct tsa_tensor *tensor,
                             const struct rows *r, size_t width, T *buffer)
{
    const struct matrix in = {buffer, (ptrdiff_t)width};
    void *src = tsa_row(tensor, r->b, r->h, r->t);
    if (tensor->dtype == TSA_DTYPE)
        return (struct matrix){src, tensor->token};
    if (tsa_is_half(tensor->dtype)) {
        KERNELS(plan)->load_half(r->n, width, src, tensor->token, tensor->dtype == TSA_F16, in.at,
                                 in.ld);
        return in;
    }
    for (size_t row = 0; row < r->n; row++)
        for (size_t c = 0; c < width; c++) {
            const ptrdiff_t from = (ptrdiff_t)row * tensor->token + (ptrdiff_t)c;
            OTHER value; /* of any alignment */
            memcpy(&value, (const char *)src + from * (ptrdiff_t)sizeof value, sizeof value);
            buffer[row * width + c] = (T)value;
        }
    return in;
}

/* Where output rows are to be written; rows_out_done then moves their columns c0 .. c1-1 on if that
 * is not the caller's memory. */
static struct matrix rows_out(const struct tsa_plan *plan, const struct tsa_tensor *tensor,
                              const struct rows *r, T *buffer)
{
    if (tensor->dtype == TSA_DTYPE)
        return (struct matrix){tsa_row(tensor, r->b, r->h, r->t), tensor->token};
    return (struct matrix){buffer, (ptrdiff_t)plan->dv};
}
static void rows_out_done(const struct tsa_plan *plan, const struct tsa_tensor *tensor,
                          const struct rows *r, size_t c0, size_t c1, const T *buffer)
{
    if (tensor->dtype == TSA_DTYPE)
        return;
    char *dst = tsa_row(tensor, r->b, r->h, r->t);
    if (tsa_is_half(tensor->dtype)) {
        KERNELS(plan)->store_half(r->n, c1 - c0, buffer + c0, (ptrdiff_t)plan->dv,
                                  tensor->dtype == TSA_F16,
                                  dst + c0 * tsa_dtype_bytes(tensor->dtype), tensor->token);
        return;
    }
    for (size_t row = 0; row < r->n; row++)
        for (size_t c = c0; c < c1; c++) {
            const ptrdiff_t to = (ptrdiff_t)row * tensor->token + (ptrdiff_t)c;
            const OTHER value = (OTHER)buffer[row * plan->dv + c];
            memcpy(dst + to * (ptrdiff_t)sizeof value, &value, sizeof value);
        }
}

/* Where a call brings a whole chunk in rows that the kernels can read, w->v becomes the caller's
 * rows, n tokens from t on; false if they have to be packed. Rows far apart would fall into few
 * sets of L1. */
static bool read_in_place(const struct tsa_call *call, const struct tsa_item *it, struct window *w,
                          size_t t, size_t n)
{
    const struct tsa_plan *plan = call->plan;
    const ptrdiff_t width = (ptrdiff_t)plan->dv;
    if (n != plan->chunk || call->v->dtype != TSA_DTYPE || plan->dv != plan->layout.ldv ||
        call->v->token < width || call->v->token > 2 * width)
        return false;
    w->v = tsa_row(call->v, it->b, it->g, t);
    w->ldv = call->v->token;
    return true;
}

/* Pack tokens t .. t+n-1 of the tensors behind those of a window; their keys alone where the values
 * are read in place. */
static void append(const struct context *x, const struct tsa_item *it, struct window *w, size_t t,
                   size_t n, bool in_place)
{
    const struct tsa_plan *plan = x->plan;
    const int l2 = plan->normalize == TSA_NORMALIZE_L2;
    T *buffer = x->scratch + plan->scratch.rows;
    struct rows r = {it->b, it->g, t, 0};
    append_gates(x->call, it, w, t, n);
    for (size_t left = n; left > 0; left -= r.n, r.t += r.n, w->n += r.n) {
        r.n = left < plan->scratch.queries ? left : plan->scratch.queries;
        const struct matrix k = rows_in(plan, x->call->k, &r, plan->d, buffer);
        KERNELS(plan)->pack_t(r.n, plan->d, k.at, k.ld, l2, 1, w->kt + w->n, w->ldk);
        if (in_place)
            continue;
        const struct matrix v = rows_in(plan, x->call->v, &r, plan->dv, buffer);
        KERNELS(plan)->pack_v(r.n, plan->dv, v.at, v.ld, w->v + (ptrdiff_t)w->n * w->ldv, w->ldv);
    }
}

/* Make a window hold the tokens of another. */
static void window_copy(const struct tsa_plan *plan, struct window *to, const struct window *from)
{
    const size_t n = to->n = from->n;
    for (size_t i = 0; n > 0 && i < plan->d; i++)
        memcpy(to->kt + (ptrdiff_t)i * to->ldk, from->kt + (ptrdiff_t)i * from->ldk, n * sizeof(T));
    if (n > 0)
        memcpy(to->v, from->v, n * (size_t)to->ldv * sizeof(T));
    if (n > 0 && to->decay) {
        memcpy(to->decay, from->decay, n * sizeof(T));
        memcpy(to->gate, from->gate, n * sizeof(T));
        memcpy(to->value_gate, from->value_gate, n * sizeof(T));
    }
}
