/* SPDX-License-Identifier: MIT */
/* Chunks of one kv head, for one arithmetic type: packing, outputs, folding. For engine_tmpl.h. */

/* -- views ----------------------------------------------------------------------------------- */

/* The sums of a kv head, or of a prefix of its history. */
struct sums {
    T *hi, *lo, *ones_hi, *ones_lo; /* a prefix has no lo */
    ptrdiff_t ld;
    bool folded; /* anything in them? the chain over features is not executed otherwise */
    T *hi_pairs,
        *ones_pairs; /* features from plan->high on rounded to bf16, which folds keep so; or
                              NULL: to be rounded when read */
};
struct window {
    T *kt, *v;
    ptrdiff_t ldk, ldv;
};
/* One kv head of one sequence. */
struct item {
    size_t b, g;   /* batch index in the tensors, kv head */
    size_t t, end; /* its tokens in the tensors */
    size_t open;   /* tokens in its window at the start of the call */
    const struct tsa_state *state;
    struct sums sums;
    struct window window;
};

static struct item item_of(const struct tsa_call *call, size_t b, size_t g)
{
    const struct tsa_plan *plan = call->plan;
    struct item it = {.b = tsa_call_batch(call, b), .g = g, .t = tsa_call_first(call, b)};
    const struct tsa_state *s = call->states[tsa_call_slot(call, b)];
    const struct tsa_layer_header *header = tsa_state_layer(s, call->layer);
    struct tsa_layout own;
    const struct tsa_layout *l = &plan->layout;
    if (s->header.chunk != plan->chunk || s->header.terms != plan->terms ||
        s->header.pair_degree != plan->pair_degree) {
        tsa_state_layout(s, &own);
        l = &own;
    }
    T *section = tsa_state_section(s, l, sizeof(T), call->layer, it.g);
    it.end = it.t + tsa_call_tokens(call, b);
    it.open = header->window;
    it.state = s;
    it.sums = (struct sums){.hi = section + l->hi,
                            .lo = section + l->lo,
                            .ones_hi = section + l->ones_hi,
                            .ones_lo = section + l->ones_lo,
                            .ld = (ptrdiff_t)l->ldv,
                            .folded = header->tokens > header->window};
    /* in a state of more terms the partner of an odd last feature is not the padding */
    const bool padded = s->header.terms == plan->terms || (plan->mono.total - plan->high) % 2 == 0;
    if (s->header.pair_degree > 0 && s->header.pair_degree == plan->pair_degree && padded) {
        it.sums.hi_pairs = section + l->hi_pairs;
        it.sums.ones_pairs = section + l->ones_pairs;
    }
    it.window =
        (struct window){section + l->kt, section + l->v, (ptrdiff_t)l->ldk, (ptrdiff_t)l->ldv};
    return it;
}

static struct item item_at(const struct tsa_call *call, size_t index)
{
    return item_of(call, index / call->plan->kv_heads, index % call->plan->kv_heads);
}

static T *scratch_at(const struct tsa_call *call, size_t thread)
{
    return (T *)(void *)call->scratch + thread * call->plan->scratch.total;
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
static const T *rows_in(const struct tsa_plan *plan, const struct tsa_tensor *x, size_t b, size_t h,
                        size_t t, size_t n, size_t width, T *rows, ptrdiff_t *stride)
{
    const void *src = tsa_row(x, b, h, t);
    *stride = x->token;
    if (x->dtype == TSA_DTYPE)
        return src;
    *stride = (ptrdiff_t)width;
    if (tsa_is_half(x->dtype)) {
        KERNELS(plan)->load_half(n, width, src, x->token, x->dtype == TSA_F16, rows, *stride);
        return rows;
    }
    for (size_t r = 0; r < n; r++)
        for (size_t c = 0; c < width; c++) {
            const ptrdiff_t from = (ptrdiff_t)r * x->token + (ptrdiff_t)c;
            OTHER value; /* of any alignment */
            memcpy(&value, (const char *)src + from * (ptrdiff_t)sizeof value, sizeof value);
            rows[r * width + c] = (T)value;
        }
    return rows;
}

/* Where n output rows go; rows_out_done moves their columns c0 .. c1-1 on if that is not the
 * caller's memory. */
static T *rows_out(const struct tsa_tensor *x, size_t b, size_t h, size_t t, size_t width, T *rows,
                   ptrdiff_t *stride)
{
    *stride = x->token;
    if (x->dtype == TSA_DTYPE)
        return tsa_row(x, b, h, t);
    *stride = (ptrdiff_t)width;
    return rows;
}
static void rows_out_done(const struct tsa_plan *plan, const struct tsa_tensor *x, size_t b,
                          size_t h, size_t t, size_t n, size_t c0, size_t c1, const T *rows)
{
    if (x->dtype == TSA_DTYPE)
        return;
    char *dst = tsa_row(x, b, h, t);
    if (tsa_is_half(x->dtype)) {
        KERNELS(plan)->store_half(n, c1 - c0, rows + c0, (ptrdiff_t)plan->dv, x->dtype == TSA_F16,
                                  dst + c0 * tsa_dtype_bytes(x->dtype), x->token);
        return;
    }
    for (size_t r = 0; r < n; r++)
        for (size_t c = c0; c < c1; c++) {
            const ptrdiff_t to = (ptrdiff_t)r * x->token + (ptrdiff_t)c;
            const OTHER value = (OTHER)rows[r * plan->dv + c];
            memcpy(dst + to * (ptrdiff_t)sizeof value, &value, sizeof value);
        }
}

/* -- chunks ---------------------------------------------------------------------------------- */

/* Where a call brings a whole chunk in rows that the kernels can read, w->v becomes the caller's
 * rows, n tokens from t on; false if they have to be packed. Rows far apart would fall into few
 * sets of L1. */
static bool read_in_place(const struct tsa_call *call, const struct item *it, struct window *w,
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

/* Pack tokens t .. t+n-1 of the tensors into positions `at` .. of a window; of their keys alone where
 * the values are read in place. */
static void append(const struct tsa_call *call, T *scratch, const struct item *it,
                   const struct window *w, size_t at, size_t t, size_t n, bool in_place)
{
    const struct tsa_plan *plan = call->plan;
    const int l2 = plan->normalize == TSA_NORMALIZE_L2;
    for (size_t done = 0; done < n;) {
        const size_t left = n - done,
                     m = left < call->plan->scratch.queries ? left : call->plan->scratch.queries;
        ptrdiff_t stride;
        const T *src = rows_in(plan, call->k, it->b, it->g, t + done, m, plan->d,
                               scratch + call->plan->scratch.rows, &stride);
        KERNELS(plan)->pack_t(m, plan->d, src, stride, l2, 1, w->kt + at + done, w->ldk);
        if (!in_place) {
            src = rows_in(plan, call->v, it->b, it->g, t + done, m, plan->dv,
                          scratch + call->plan->scratch.rows, &stride);
            KERNELS(plan)->pack_v(m, plan->dv, src, stride, w->v + (ptrdiff_t)(at + done) * w->ldv,
                                  w->ldv);
        }
        done += m;
    }
}

/* Chunk j of an item: tokens t .. t+n-1 of the tensors in window positions from `at` on. */
struct span {
    size_t t, n, at;
};
static struct span span_at(const struct tsa_call *call, const struct item *it, size_t j)
{
    const size_t chunk = call->plan->chunk;
    struct span s = {.t = it->t + (j == 0 ? 0 : j * chunk - it->open), .at = j == 0 ? it->open : 0};
    const size_t left = it->end - s.t, space = chunk - s.at;
    s.n = left < space ? left : space;
    return s;
}
static bool span_is_full(const struct tsa_call *call, const struct span *s)
{
    return s->at + s->n == call->plan->chunk;
}

static size_t chunk_count(const struct tsa_call *call, const struct item *it)
{
    return (it->open + it->end - it->t + call->plan->chunk - 1) / call->plan->chunk;
}

/* The first n tokens of a window. */
static void window_copy(const struct tsa_plan *plan, const struct window *to,
                        const struct window *from, size_t n)
{
    for (size_t i = 0; n > 0 && i < plan->d; i++)
        memcpy(to->kt + (ptrdiff_t)i * to->ldk, from->kt + (ptrdiff_t)i * from->ldk, n * sizeof(T));
    if (n > 0)
        memcpy(to->v, from->v, n * (size_t)to->ldv * sizeof(T));
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
/* Features f0 .. f1-1 of a tile, where its rows hold them, else NULL. */
static const T *features_in_place(const struct tsa_plan *plan, const T *tile, size_t f0, size_t f1)
{
    if (f1 > plan->mono.start[plan->mono.stored + 1])
        return NULL;
    return tile + ((ptrdiff_t)f0 - 1) * TSA_TILE_TOKENS;
}
static size_t tile_tokens(size_t left)
{
    return left < TSA_TILE_TOKENS ? left : TSA_TILE_TOKENS;
}
/* Packed queries of some query heads, the tiles of each after those of the one before it; and what
 * becomes of them, `apart` tokens from head to head. */
struct queries {
    T *base, *acc, *den;
    size_t apart;
};
static struct queries scratch_queries(const struct tsa_plan *plan, T *scratch)
{
    return (struct queries){scratch + plan->scratch.qbase, scratch + plan->scratch.acc,
                            scratch + plan->scratch.den, plan->scratch.queries};
}
static struct queries head_of(const struct tsa_plan *plan, const struct queries *q, size_t i)
{
    return (struct queries){q->base + base_elements(plan, i * plan->scratch.queries),
                            q->acc + i * q->apart * plan->layout.ldv, q->den + i * q->apart,
                            q->apart};
}

/* -- prefetching ------------------------------------------------------------------- */

static void prefetch_add(struct tsa_prefetch *prefetch, const struct tsa_tensor *x, size_t b,
                         size_t h, size_t t, size_t n, size_t width, bool write)
{
    const size_t elem = tsa_dtype_bytes(x->dtype), bytes = width * elem;
    if (prefetch->count == TSA_PREFETCH_ROWS || n == 0)
        return;
    struct tsa_prefetch_rows r = {tsa_row(x, b, h, t),
                                  n > 1 ? x->token * (ptrdiff_t)elem : 0,
                                  n,
                                  (bytes + TSA_ALIGN - 1) / TSA_ALIGN,
                                  0,
                                  write};
    if (r.stride == (ptrdiff_t)bytes) { /* one long row */
        r.lines = (n * bytes + TSA_ALIGN - 1) / TSA_ALIGN;
        r.rows = 1;
    }
    prefetch->rows[prefetch->count++] = r;
}

/* n elements of T that follow one another. */
static void prefetch_add_elements(struct tsa_prefetch *prefetch, const T *x, size_t n, bool write)
{
    if (prefetch->count < TSA_PREFETCH_ROWS)
        prefetch->rows[prefetch->count++] = (struct tsa_prefetch_rows){
            (const char *)x, 0, 1, (n * sizeof(T) + TSA_ALIGN - 1) / TSA_ALIGN, 0, write};
}

static size_t prefetch_line_count(const struct tsa_prefetch *prefetch)
{
    size_t lines = 0;
    for (size_t i = 0; i < prefetch->count; i++)
        lines += prefetch->rows[i].rows * prefetch->rows[i].lines;
    return lines;
}

/* -- features in pairs of bf16 ----------------------------------------------------------------- */

/* Tokens of a tile in pairs. */
#define PAIR_TOKENS (TSA_TILE_TOKENS / 2)
/* The product kernel for features from f0 on, none below plan->high if that is not. */
#define PRODUCT(plan, f0, kernel)                                                                  \
    ((f0) < (plan)->high ? KERNELS(plan)->kernel : PAIR_KERNELS(plan)->kernel)

static size_t half_of(size_t n)
{
    return (n + 1) / 2;
}

/* Operands of the query: sums of features f0 .. f1-1 from column c on, as they are or in pairs. */
struct operands {
    const T *hi, *ones;
    size_t steps; /* of a chain over them */
};
static struct operands operands_of(const struct tsa_plan *plan, T *scratch, const struct sums *s,
                                   size_t f0, size_t f1, size_t c, size_t cols)
{
    const size_t n = f1 - f0, pair = (f0 - plan->high) / 2;
    const T *hi = s->hi + (ptrdiff_t)f0 * s->ld + c, *ones = s->ones_hi + f0;
    if (f0 < plan->high)
        return (struct operands){hi, ones, n};
    if (s->hi_pairs)
        return (struct operands){s->hi_pairs + (ptrdiff_t)pair * s->ld + c, s->ones_pairs + pair,
                                 half_of(n)};
    T *hi_pairs = scratch + plan->scratch.hi_pairs,
      *ones_pairs = scratch + plan->scratch.ones_pairs;
    PAIR_KERNELS(plan)->pair_rows(n, cols, hi, s->ld, hi_pairs, s->ld);
    PAIR_KERNELS(plan)->pair_cols(1, n, ones, 0, ones_pairs, 0);
    return (struct operands){hi_pairs, ones_pairs, half_of(n)};
}

/* -- passes over the sums ---------------------------------------------------------------------- */

/* Features f0 .. f1-1 of m packed queries: their psi, then acc and den go on. */
static void query_block(const struct tsa_plan *plan, T *scratch, const struct queries *q,
                        const T *weight, const struct operands *b, ptrdiff_t ld, size_t f0,
                        size_t f1, size_t m, struct tsa_prefetch *prefetch)
{
    const ptrdiff_t lda = (ptrdiff_t)plan->layout.ldv;
    const int first = f1 == plan->mono.total;
    T *rows = scratch + plan->scratch.psi;
    for (size_t t = 0; t < m; t += TSA_TILE_TOKENS) {
        const size_t n = tile_tokens(m - t);
        T *base = tile_at(plan, q->base, t);
        const size_t lanes = tsa_round_up(n, plan->lanes);
        const T *psi = plan->unit_weights ? features_in_place(plan, base, f0, f1) : NULL;
        if (f0 >= plan->high) {
            PAIR_KERNELS(plan)->psi_pairs(&plan->mono, f0, f1, n, base, TSA_TILE_TOKENS, weight,
                                          rows, TSA_TILE_TOKENS);
            psi = rows;
        } else if (!psi) {
            KERNELS(plan)->psi_t(&plan->mono, f0, f1, n, base, TSA_TILE_TOKENS, weight, rows,
                                 TSA_TILE_TOKENS);
            psi = rows;
        }
        PRODUCT(plan, f0, query_ones)
        (n, b->steps, psi, TSA_TILE_TOKENS, b->ones, q->den + t, first);
        T *acc = q->acc + (ptrdiff_t)t * lda;
        if (plan->transpose_query)
            PRODUCT(plan, f0, query)
        (plan->dv, lanes, b->steps, b->hi, ld, psi, TSA_TILE_TOKENS, acc, TSA_TILE_TOKENS, first,
         prefetch);
        else PRODUCT(plan, f0, query)(n, (size_t)lda, b->steps, psi, TSA_TILE_TOKENS, b->hi, ld,
                                      acc, lda, first, prefetch);
    }
}

/* Values of a tile of the window in pairs of tokens; of their transposed rows if updates are transposed. */
static T *v_pairs_at(const struct tsa_plan *plan, T *scratch, size_t t)
{
    return scratch + plan->scratch.v_pairs +
           t / 2 * (plan->transpose_update ? plan->dv : plan->layout.ldv);
}

/* Lower monomials of the keys of a whole window, and its values as the updates want them. */
static void key_base(const struct tsa_plan *plan, T *scratch, const struct window *w)
{
    for (size_t t = 0; t < plan->chunk; t += TSA_TILE_TOKENS) {
        const size_t n = tile_tokens(plan->chunk - t);
        T *base = tile_at(plan, scratch + plan->scratch.kbase, t);
        if (w->kt != base)
            KERNELS(plan)->pack_v(plan->d, n, w->kt + t, w->ldk, base, TSA_TILE_TOKENS);
        set_degree_0(base, 1);
        KERNELS(plan)->base_t(&plan->mono, n, base, TSA_TILE_TOKENS);
        const T *v = w->v + (ptrdiff_t)t * w->ldv;
        T *vt = scratch + plan->scratch.vt + t * plan->dv;
        if (plan->transpose_update) /* not by transpose, which reads whole vectors of rows: a window ends */
            KERNELS(plan)->pack_t(n, plan->dv, v, w->ldv, 0, 1, vt, TSA_TILE_TOKENS);
        if (plan->high == plan->mono.total)
            continue;
        if (plan->transpose_update)
            PAIR_KERNELS(plan)->pair_cols(plan->dv, n, vt, TSA_TILE_TOKENS,
                                          v_pairs_at(plan, scratch, t), PAIR_TOKENS);
        else
            PAIR_KERNELS(plan)->pair_rows(n, plan->layout.ldv, v, w->ldv,
                                          v_pairs_at(plan, scratch, t),
                                          (ptrdiff_t)plan->layout.ldv);
    }
}

/* Keys of a tile with their values, as elements or in pairs of tokens. */
struct keys {
    size_t t, n; /* of the window */
    size_t steps;
    const T *phi, *v;
    ptrdiff_t ldv;
};

/* The sums of a tile for features from f0 on go on in local; or in its transposed form, which is transposed
 * back after the last tile. */
static void update_tile(const struct tsa_plan *plan, T *scratch, const struct keys *k, size_t f0,
                        size_t features, T *local, ptrdiff_t ldl, struct tsa_prefetch *prefetch)
{
    const struct tsa_scratch *r = &plan->scratch;
    const ptrdiff_t block = (ptrdiff_t)plan->block;
    T *transposed = scratch + r->transposed, *sums = scratch + r->local_t;
    if (!plan->transpose_update) {
        PRODUCT(plan, f0, update)
        (features, plan->layout.ldv, k->steps, k->phi, k->v, k->ldv, local, ldl, k->t == 0,
         prefetch);
        return;
    }
    PRODUCT(plan, f0, update)
    (plan->dv, tsa_round_up(features, plan->lanes), k->steps, k->v, transposed, block, sums, block,
     k->t == 0, prefetch);
    if (k->t + k->n == plan->chunk) {
        /* whole rows, whose padding is zero */
        memset(sums + (ptrdiff_t)plan->dv * block, 0,
               (plan->layout.ldv - plan->dv) * plan->block * sizeof(T));
        KERNELS(plan)->transpose(plan->layout.ldv, features, sums, block, NULL, 0, local, ldl);
    }
}

/* Fold features f0 .. f1-1 of a whole window into the sums, after key_base; at most plan->block. */
static void fold_block(const struct tsa_plan *plan, T *scratch, const struct window *w,
                       const struct sums *s, size_t f0, size_t f1, struct tsa_prefetch *prefetch)
{
    const struct tsa_scratch *r = &plan->scratch;
    const size_t features = f1 - f0, ldv = plan->layout.ldv;
    T *hi = s->hi + (ptrdiff_t)f0 * s->ld;
    /* local sums of a wave's chunk stay where they are made */
    T *local = s->lo ? scratch + r->local : hi, *ones = s->lo ? scratch + r->ones : s->ones_hi + f0;
    T *lo = s->lo ? s->lo + (ptrdiff_t)f0 * s->ld : NULL, *hi_pairs = NULL;
    const size_t pair = (f0 - plan->high) / 2; /* if it has */
    if (f0 >= plan->high && s->hi_pairs)
        hi_pairs = s->hi_pairs + (ptrdiff_t)pair * s->ld;
    const ptrdiff_t ldl = s->lo ? (ptrdiff_t)ldv : s->ld;
    for (size_t t = 0; t < plan->chunk; t += TSA_TILE_TOKENS) {
        const size_t n = tile_tokens(plan->chunk - t);
        T *base = tile_at(plan, scratch + r->kbase, t);
        struct keys k = {
            t, n, n, features_in_place(plan, base, f0, f1), w->v + (ptrdiff_t)t * w->ldv, w->ldv};
        ptrdiff_t ldp = TSA_TILE_TOKENS;
        if (plan->transpose_update)
            k.v = scratch + r->vt + t * plan->dv;
        if (f0 >= plan->high) {
            ldp = PAIR_TOKENS;
            k.steps = half_of(n);
            k.phi = scratch + r->psi;
            k.v = v_pairs_at(plan, scratch, t);
            k.ldv = (ptrdiff_t)ldv;
            PAIR_KERNELS(plan)->phi_pairs(&plan->mono, f0, f1, n, base, TSA_TILE_TOKENS,
                                          scratch + r->psi, ldp);
        } else if (!k.phi) {
            KERNELS(plan)->psi_t(&plan->mono, f0, f1, n, base, TSA_TILE_TOKENS, NULL,
                                 scratch + r->psi, TSA_TILE_TOKENS);
            k.phi = scratch + r->psi;
        }
        PRODUCT(plan, f0, transpose)
        (features, k.steps, k.phi, ldp, ones, t == 0,
         plan->transpose_update ? scratch + r->transposed : NULL, (ptrdiff_t)plan->block);
        if (lo && t + n == plan->chunk && !plan->transpose_update)
            PRODUCT(plan, f0, update_fold)
        (features, ldv, k.steps, k.phi, k.v, k.ldv, t ? local : NULL, ldl, hi, lo, s->ld, hi_pairs,
         prefetch);
        else update_tile(plan, scratch, &k, f0, features, local, ldl, prefetch);
    }
    if (lo)
        KERNELS(plan)->fold(features, s->ones_hi + f0, s->ones_lo + f0, ones, NULL);
    if (lo && plan->transpose_update) {
        KERNELS(plan)->fold(features * ldv, hi, lo, local, NULL);
        if (hi_pairs)
            PAIR_KERNELS(plan)->pair_rows(features, ldv, hi, s->ld, hi_pairs, s->ld);
    }
    if (hi_pairs)
        PAIR_KERNELS(plan)->pair_cols(1, features, s->ones_hi + f0, 0, s->ones_pairs + pair, 0);
}

/* Fold one of `parts` shares of the features of a full window. */
static void fold_part(const struct tsa_plan *plan, T *scratch, const struct item *item, size_t part,
                      size_t parts)
{
    const size_t blocks = tsa_block_count(plan), end = blocks * (part + 1) / parts;
    size_t i = blocks * part / parts, f0, f1;
    if (i == end)
        return;
    key_base(plan, scratch, &item->window);
    for (; i < end; i++) {
        tsa_block_at(plan, i, &f0, &f1);
        fold_block(plan, scratch, &item->window, &item->sums, f0, f1, NULL);
    }
}

/* A pass over features from .. to-1 of the sums: query heads h0 .. h0+heads-1 with m packed tokens
 * each read them, then `fold`, if not NULL, is folded into them. */
struct pass {
    size_t from, to, h0, heads, m;
    struct queries queries;
    const struct window *fold;
};

/* Start of the block that ends before feature f1. */
static size_t block_start(const struct tsa_plan *plan, const struct pass *p, size_t f1)
{
    const bool high = f1 > plan->high; /* no block has features on both sides */
    const size_t zero = high ? plan->high : 0, block = high ? plan->block : plan->low_block;
    const size_t from = p->from > zero ? p->from : zero;
    return f1 - from <= block ? from : zero + (f1 - 1 - zero) / block * block;
}

/* The budget of the calls on features f0 .. f1-1, of which there are `calls`. */
static void prefetch_block(const struct tsa_plan *plan, const struct sums *s, const struct pass *p,
                           size_t f0, size_t share, size_t calls, struct tsa_prefetch *prefetch)
{
    prefetch->budget = share;
    if (f0 == p->from || !plan->large)
        return;
    const size_t lines = prefetch_line_count(prefetch), next = block_start(plan, p, f0);
    const size_t count = (f0 - next) * (size_t)s->ld;
    const ptrdiff_t at = (ptrdiff_t)next * s->ld;
    const bool folds = p->fold != NULL, pairs = next >= plan->high && s->hi_pairs;
    if (pairs)
        prefetch_add_elements(prefetch, s->hi_pairs + (ptrdiff_t)(next - plan->high) / 2 * s->ld,
                              count / 2, folds);
    if (!pairs || folds)
        prefetch_add_elements(prefetch, s->hi + at, count, folds);
    if (folds && s->lo)
        prefetch_add_elements(prefetch, s->lo + at, count, true);
    prefetch->budget += (prefetch_line_count(prefetch) - lines) / calls + 1;
}

/* Block by block, in the order of the chains. */
static void run_pass(const struct tsa_plan *plan, T *scratch, const struct sums *s,
                     const struct pass *p, struct tsa_prefetch *prefetch)
{
    const size_t heads = s->folded ? p->heads : 0, m = p->m;
    if ((!p->fold && heads == 0) || p->from == p->to)
        return;
    for (size_t i = 0; i < heads; i++) {
        const struct queries q = head_of(plan, &p->queries, i);
        for (size_t t = 0; t < m; t += TSA_TILE_TOKENS) {
            T *base = tile_at(plan, q.base, t);
            KERNELS(plan)->base_t(&plan->mono, tile_tokens(m - t), base, TSA_TILE_TOKENS);
            if (plan->unit_weights)
                set_degree_0(base, coefficients_of(plan, p->h0 + i).weight[0]);
        }
    }
    if (p->fold)
        key_base(plan, scratch, p->fold);
    const size_t calls = heads * ((m + TSA_TILE_TOKENS - 1) / TSA_TILE_TOKENS) +
                         (p->fold ? plan->scratch.keys / TSA_TILE_TOKENS : 0); /* per block */
    const size_t share =
        prefetch ? prefetch_line_count(prefetch) * plan->block / (p->to - p->from) / calls + 1 : 0;
    for (size_t f1 = p->to, f0; f1 > p->from; f1 = f0) {
        f0 = block_start(plan, p, f1);
        if (prefetch)
            prefetch_block(plan, s, p, f0, share, calls, prefetch);
        struct operands b = {0};
        if (heads > 0)
            b = operands_of(plan, scratch, s, f0, f1, 0, (size_t)s->ld);
        for (size_t i = 0; i < heads; i++) {
            const struct queries q = head_of(plan, &p->queries, i);
            query_block(plan, scratch, &q, coefficients_of(plan, p->h0 + i).weight, &b, s->ld, f0,
                        f1, m, prefetch);
        }
        if (p->fold)
            fold_block(plan, scratch, p->fold, s, f0, f1, prefetch);
    }
}

/* A whole window into all sums. */
static void fold_window(const struct tsa_plan *plan, T *scratch, const struct sums *s,
                        const struct window *w, struct tsa_prefetch *prefetch)
{
    const struct pass all = {.to = plan->mono.total, .fold = w};
    run_pass(plan, scratch, s, &all, prefetch);
}

/* Outputs of m packed queries from the window, after the sums. Causal: token i sees the window up
 * to position seen+i; otherwise all see its first `seen` positions. */
static void window_outputs(const struct tsa_plan *plan, T *scratch, const struct queries *q,
                           const struct window *w, const T *coef, bool causal, size_t seen,
                           size_t m, int first, T *dst, ptrdiff_t stride)
{
    const ptrdiff_t lda = (ptrdiff_t)plan->layout.ldv;
    T *weights = scratch + plan->scratch.weights;
    for (size_t t = 0; t < m; t += TSA_TILE_TOKENS) {
        const size_t n = tile_tokens(m - t);
        T *acc = q->acc + (ptrdiff_t)t * lda;
        if (plan->transpose_query && !first) {
            KERNELS(plan)->transpose(plan->dv, n, acc, TSA_TILE_TOKENS, NULL, 0,
                                     scratch + plan->scratch.local, lda);
            acc = scratch + plan->scratch.local;
        }
        const size_t diag = causal ? seen + t : seen, keys = causal ? diag + n : seen;
        KERNELS(plan)->scores(keys, n, plan->d, w->kt, w->ldk, tile_at(plan, q->base, t),
                              TSA_TILE_TOKENS, plan->terms, coef, weights, TSA_TILE_TOKENS,
                              (ptrdiff_t)diag);
        KERNELS(plan)->window_ones(keys, n, weights, TSA_TILE_TOKENS, (ptrdiff_t)diag, q->den + t,
                                   first);
        KERNELS(plan)->window(n, plan->dv, keys, (ptrdiff_t)diag, weights, TSA_TILE_TOKENS, w->v,
                              w->ldv, acc, lda, first, q->den + t, dst + (ptrdiff_t)t * stride,
                              stride);
    }
}

/* Pack m queries of pass->heads query heads, tokens t .. of the tensors. */
static void pack_queries(const struct tsa_call *call, T *scratch, size_t b, size_t t,
                         const struct pass *pass)
{
    const struct tsa_plan *plan = call->plan;
    const int l2 = plan->normalize == TSA_NORMALIZE_L2;
    for (size_t i = 0; i < pass->heads; i++) {
        const struct queries q = head_of(plan, &pass->queries, i);
        const T scale = coefficients_of(plan, pass->h0 + i).scale;
        ptrdiff_t stride;
        const T *src = rows_in(plan, call->q, b, pass->h0 + i, t, pass->m, plan->d,
                               scratch + plan->scratch.rows, &stride);
        for (size_t u = 0; u < pass->m; u += TSA_TILE_TOKENS)
            KERNELS(plan)->pack_t(tile_tokens(pass->m - u), plan->d, src + (ptrdiff_t)u * stride,
                                  stride, l2, scale, tile_at(plan, q.base, u), TSA_TILE_TOKENS);
    }
}

/* Their outputs from the window, after the sums. */
static void write_outputs(const struct tsa_call *call, T *scratch, size_t b, size_t t,
                          const struct pass *pass, const struct window *w, bool causal, size_t seen,
                          bool first)
{
    const struct tsa_plan *plan = call->plan;
    T *rows = scratch + plan->scratch.rows;
    for (size_t i = 0; i < pass->heads; i++) {
        const size_t h = pass->h0 + i;
        const struct queries q = head_of(plan, &pass->queries, i);
        ptrdiff_t stride;
        T *dst = rows_out(call->o, b, h, t, plan->dv, rows, &stride);
        window_outputs(plan, scratch, &q, w, coefficients_of(plan, h).coef, causal, seen, pass->m,
                       first, dst, stride);
        rows_out_done(plan, call->o, b, h, t, pass->m, 0, plan->dv, rows);
    }
}

/* Outputs of query heads h0 .. h0+heads-1 for tokens t .. t+n-1, which lie in the window from position
 * `at` on if causal, else see its first `at` positions. With `fold` the window, full by then, is folded
 * into the sums once these were read for the last time. */
static void outputs(const struct tsa_call *call, T *scratch, size_t b, size_t h0, size_t heads,
                    const struct sums *s, const struct window *w, bool causal, size_t at, size_t t,
                    size_t n, bool fold, struct tsa_prefetch *prefetch)
{
    const struct tsa_plan *plan = call->plan;
    struct pass pass = {.to = plan->mono.total,
                        .h0 = h0,
                        .heads = heads,
                        .queries = scratch_queries(plan, scratch)};
    for (size_t done = 0; done < n; done += pass.m) {
        const size_t left = n - done;
        pass.m = left < plan->scratch.queries ? left : plan->scratch.queries;
        pass.fold = fold && pass.m == left ? w : NULL;
        pack_queries(call, scratch, b, t + done, &pass);
        run_pass(plan, scratch, s, &pass, prefetch);
        write_outputs(call, scratch, b, t + done, &pass, w, causal, causal ? at + done : at,
                      !s->folded);
    }
}
