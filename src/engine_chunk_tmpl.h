/* SPDX-License-Identifier: MIT */
/* Chunks of one kv head, for one arithmetic type: packing, outputs, folding. For engine_tmpl.h. */

/* -- views ----------------------------------------------------------------------------------- */

/* The sums of a kv head, or of a prefix of its history. */
struct sums {
    T *hi, *lo, *ones_hi, *ones_lo; /* a prefix has no lo */
    ptrdiff_t ld;
    bool folded; /* anything in them? the chain over features is not executed otherwise */
    T *pairs, *ones_pairs; /* features from plan->high on rounded to bf16, which folds keep so; or
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
    const struct tsa_layer_head *head = tsa_state_layer(s, call->layer);
    struct tsa_layout own;
    const struct tsa_layout *l = &plan->layout;
    if (s->head.chunk != plan->chunk || s->head.terms != plan->terms ||
        s->head.pairs != plan->kept) {
        tsa_state_layout(s, &own);
        l = &own;
    }
    T *block = tsa_state_block(s, l, sizeof(T), call->layer, it.g);
    it.end = it.t + tsa_call_tokens(call, b);
    it.open = head->window;
    it.state = s;
    it.sums = (struct sums){.hi = block + l->hi,
                            .lo = block + l->lo,
                            .ones_hi = block + l->ones_hi,
                            .ones_lo = block + l->ones_lo,
                            .ld = (ptrdiff_t)l->ldv,
                            .folded = head->tokens > head->window};
    /* in a state of more terms the partner of an odd last feature is not the padding */
    const bool padded = s->head.terms == plan->terms || (plan->mono.total - plan->high) % 2 == 0;
    if (s->head.pairs > 0 && s->head.pairs == plan->kept && padded) {
        it.sums.pairs = block + l->pairs;
        it.sums.ones_pairs = block + l->ones_pairs;
    }
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
 * sets of the first-level cache. */
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

/* Pack tokens t .. t+n-1 of the tensors into slots `at` .. of a window; of their keys alone where
 * the values are read in place. */
static void append(const struct tsa_call *call, T *room, const struct item *it,
                   const struct window *w, size_t at, size_t t, size_t n, bool in_place)
{
    const struct tsa_plan *plan = call->plan;
    const int l2 = plan->normalize == TSA_NORMALIZE_L2;
    for (size_t done = 0; done < n;) {
        const size_t left = n - done,
                     m = left < call->plan->room.queries ? left : call->plan->room.queries;
        ptrdiff_t stride;
        const T *src = rows_in(plan, call->k, it->b, it->g, t + done, m, plan->d,
                               room + call->plan->room.rows, &stride);
        KERNELS(plan)->pack_t(m, plan->d, src, stride, l2, 1, w->kt + at + done, w->ldk);
        if (!in_place) {
            src = rows_in(plan, call->v, it->b, it->g, t + done, m, plan->dv,
                          room + call->plan->room.rows, &stride);
            KERNELS(plan)->pack_v(m, plan->dv, src, stride, w->v + (ptrdiff_t)(at + done) * w->ldv,
                                  w->ldv);
        }
        done += m;
    }
}

/* Chunk j of an item: tokens t .. t+n-1 of the tensors in slots from `at` on. */
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
static struct queries room_queries(const struct tsa_plan *plan, T *room)
{
    return (struct queries){room + plan->room.qbase, room + plan->room.acc, room + plan->room.den,
                            plan->room.queries};
}
static struct queries head_of(const struct tsa_plan *plan, const struct queries *q, size_t i)
{
    return (struct queries){q->base + base_elements(plan, i * plan->room.queries),
                            q->acc + i * q->apart * plan->layout.ldv, q->den + i * q->apart,
                            q->apart};
}

/* -- memory asked for ahead ------------------------------------------------------------------- */

static void ahead_add(struct tsa_ahead *ahead, const struct tsa_tensor *x, size_t b, size_t h,
                      size_t t, size_t n, size_t width, bool write)
{
    const size_t elem = tsa_dtype_bytes(x->dtype), bytes = width * elem;
    if (ahead->count == TSA_AHEAD_ROWS || n == 0)
        return;
    struct tsa_ahead_rows r = {tsa_row(x, b, h, t),
                               x->token * (ptrdiff_t)elem,
                               n,
                               (bytes + TSA_ALIGN - 1) / TSA_ALIGN,
                               0,
                               write};
    if (r.stride == (ptrdiff_t)bytes) { /* one long row */
        r.lines = (n * bytes + TSA_ALIGN - 1) / TSA_ALIGN;
        r.rows = 1;
    }
    ahead->rows[ahead->count++] = r;
}

/* n elements of T that follow one another. */
static void ahead_add_elements(struct tsa_ahead *ahead, const T *x, size_t n, bool write)
{
    if (ahead->count < TSA_AHEAD_ROWS)
        ahead->rows[ahead->count++] = (struct tsa_ahead_rows){
            (const char *)x, 0, 1, (n * sizeof(T) + TSA_ALIGN - 1) / TSA_ALIGN, 0, write};
}

static size_t ahead_lines(const struct tsa_ahead *ahead)
{
    size_t lines = 0;
    for (size_t i = 0; i < ahead->count; i++)
        lines += ahead->rows[i].rows * ahead->rows[i].lines;
    return lines;
}

/* -- features in pairs of bf16 ----------------------------------------------------------------- */

/* Tokens of a tile in pairs. */
#define PAIR_TOKENS (TSA_TILE_TOKENS / 2)
/* The product kernel for features from f0 on, none below plan->high if that is not. */
#define PRODUCT(plan, f0, kernel)                                                                  \
    ((f0) < (plan)->high ? KERNELS(plan)->kernel : PAIRS(plan)->kernel)

static size_t half_of(size_t n)
{
    return (n + 1) / 2;
}

/* Operands of the query: sums of features f0 .. f1-1 from column c on, as they are or in pairs. */
struct block {
    const T *hi, *ones;
    size_t steps; /* of a chain over them */
};
static struct block block_of(const struct tsa_plan *plan, T *room, const struct sums *s, size_t f0,
                             size_t f1, size_t c, size_t cols)
{
    const size_t n = f1 - f0, pair = (f0 - plan->high) / 2;
    const T *hi = s->hi + (ptrdiff_t)f0 * s->ld + c, *ones = s->ones_hi + f0;
    if (f0 < plan->high)
        return (struct block){hi, ones, n};
    if (s->pairs)
        return (struct block){s->pairs + (ptrdiff_t)pair * s->ld + c, s->ones_pairs + pair,
                              half_of(n)};
    T *hi_pairs = room + plan->room.hi_pairs, *ones_pairs = room + plan->room.ones_pairs;
    PAIRS(plan)->pair_rows(n, cols, hi, s->ld, hi_pairs, s->ld);
    PAIRS(plan)->pair_cols(1, n, ones, 0, ones_pairs, 0);
    return (struct block){hi_pairs, ones_pairs, half_of(n)};
}

/* -- passes over the sums ---------------------------------------------------------------------- */

/* Features f0 .. f1-1 of m packed queries: their psi, then acc and den go on. */
static void query_block(const struct tsa_plan *plan, T *room, const struct queries *q,
                        const T *weight, const struct block *b, ptrdiff_t ld, size_t f0, size_t f1,
                        size_t m, struct tsa_ahead *ahead)
{
    const ptrdiff_t lda = (ptrdiff_t)plan->layout.ldv;
    const int first = f1 == plan->mono.total;
    T *rows = room + plan->room.psi;
    for (size_t t = 0; t < m; t += TSA_TILE_TOKENS) {
        const size_t n = tile_tokens(m - t);
        T *base = tile_at(plan, q->base, t);
        const size_t lanes = tsa_round_up(n, plan->lanes);
        const T *psi = plan->unit_weights ? features_in_place(plan, base, f0, f1) : NULL;
        if (f0 >= plan->high) {
            PAIRS(plan)->psi_pairs(&plan->mono, f0, f1, n, base, TSA_TILE_TOKENS, weight, rows,
                                   TSA_TILE_TOKENS);
            psi = rows;
        } else if (!psi) {
            KERNELS(plan)->psi_t(&plan->mono, f0, f1, n, base, TSA_TILE_TOKENS, weight, rows,
                                 TSA_TILE_TOKENS);
            psi = rows;
        }
        PRODUCT(plan, f0, query_ones)
        (n, b->steps, psi, TSA_TILE_TOKENS, b->ones, q->den + t, first);
        T *acc = q->acc + (ptrdiff_t)t * lda;
        if (plan->turn_query)
            PRODUCT(plan, f0, query)
            (plan->dv, lanes, b->steps, b->hi, ld, psi, TSA_TILE_TOKENS, acc, TSA_TILE_TOKENS,
             first, ahead);
        else
            PRODUCT(plan, f0, query)
            (n, (size_t)lda, b->steps, psi, TSA_TILE_TOKENS, b->hi, ld, acc, lda, first, ahead);
    }
}

/* Values of a tile of the window in pairs of tokens; of their turned rows if updates are turned. */
static T *v_pairs_at(const struct tsa_plan *plan, T *room, size_t t)
{
    return room + plan->room.v_pairs + t / 2 * (plan->turn_update ? plan->dv : plan->layout.ldv);
}

/* Lower monomials of the keys of a whole window, and its values as the updates want them. */
static void key_base(const struct tsa_plan *plan, T *room, const struct window *w)
{
    for (size_t t = 0; t < plan->chunk; t += TSA_TILE_TOKENS) {
        const size_t n = tile_tokens(plan->chunk - t);
        T *base = tile_at(plan, room + plan->room.kbase, t);
        if (w->kt != base)
            KERNELS(plan)->pack_v(plan->d, n, w->kt + t, w->ldk, base, TSA_TILE_TOKENS);
        set_degree_0(base, 1);
        KERNELS(plan)->base_t(&plan->mono, n, base, TSA_TILE_TOKENS);
        const T *v = w->v + (ptrdiff_t)t * w->ldv;
        T *vt = room + plan->room.vt + t * plan->dv;
        if (plan->turn_update) /* not by turn, which reads whole vectors of rows: a window ends */
            KERNELS(plan)->pack_t(n, plan->dv, v, w->ldv, 0, 1, vt, TSA_TILE_TOKENS);
        if (plan->high == plan->mono.total)
            continue;
        if (plan->turn_update)
            PAIRS(plan)->pair_cols(plan->dv, n, vt, TSA_TILE_TOKENS, v_pairs_at(plan, room, t),
                                   PAIR_TOKENS);
        else
            PAIRS(plan)->pair_rows(n, plan->layout.ldv, v, w->ldv, v_pairs_at(plan, room, t),
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

/* The sums of a tile for features from f0 on go on in local; or in its turned form, which is turned
 * back after the last tile. */
static void update_tile(const struct tsa_plan *plan, T *room, const struct keys *k, size_t f0,
                        size_t features, T *local, ptrdiff_t ldl, struct tsa_ahead *ahead)
{
    const struct tsa_room *r = &plan->room;
    const ptrdiff_t block = (ptrdiff_t)plan->block;
    T *turned = room + r->turned, *sums = room + r->local_t;
    if (!plan->turn_update) {
        PRODUCT(plan, f0, update)
        (features, plan->layout.ldv, k->steps, k->phi, k->v, k->ldv, local, ldl, k->t == 0, ahead);
        return;
    }
    PRODUCT(plan, f0, update)
    (plan->dv, tsa_round_up(features, plan->lanes), k->steps, k->v, turned, block, sums, block,
     k->t == 0, ahead);
    if (k->t + k->n == plan->chunk) {
        /* whole rows, whose padding is zero */
        memset(sums + (ptrdiff_t)plan->dv * block, 0,
               (plan->layout.ldv - plan->dv) * plan->block * sizeof(T));
        KERNELS(plan)->turn(plan->layout.ldv, features, sums, block, NULL, 0, local, ldl);
    }
}

/* Fold features f0 .. f1-1 of a whole window into the sums, after key_base; at most plan->block. */
static void fold_block(const struct tsa_plan *plan, T *room, const struct window *w,
                       const struct sums *s, size_t f0, size_t f1, struct tsa_ahead *ahead)
{
    const struct tsa_room *r = &plan->room;
    const size_t features = f1 - f0, ldv = plan->layout.ldv;
    T *hi = s->hi + (ptrdiff_t)f0 * s->ld;
    /* local sums of a wave's chunk stay where they are made */
    T *local = s->lo ? room + r->local : hi, *ones = s->lo ? room + r->ones : s->ones_hi + f0;
    T *lo = s->lo ? s->lo + (ptrdiff_t)f0 * s->ld : NULL, *kept = NULL;
    const size_t pair = (f0 - plan->high) / 2; /* if it has */
    if (f0 >= plan->high && s->pairs)
        kept = s->pairs + (ptrdiff_t)pair * s->ld;
    const ptrdiff_t ldl = s->lo ? (ptrdiff_t)ldv : s->ld;
    for (size_t t = 0; t < plan->chunk; t += TSA_TILE_TOKENS) {
        const size_t n = tile_tokens(plan->chunk - t);
        T *base = tile_at(plan, room + r->kbase, t);
        struct keys k = {t, n, n, features_in_place(plan, base, f0, f1),
                         w->v + (ptrdiff_t)t * w->ldv, w->ldv};
        ptrdiff_t ldp = TSA_TILE_TOKENS;
        if (plan->turn_update)
            k.v = room + r->vt + t * plan->dv;
        if (f0 >= plan->high) {
            ldp = PAIR_TOKENS;
            k.steps = half_of(n);
            k.phi = room + r->psi;
            k.v = v_pairs_at(plan, room, t);
            k.ldv = (ptrdiff_t)ldv;
            PAIRS(plan)->phi_pairs(&plan->mono, f0, f1, n, base, TSA_TILE_TOKENS, room + r->psi,
                                   ldp);
        } else if (!k.phi) {
            KERNELS(plan)->psi_t(&plan->mono, f0, f1, n, base, TSA_TILE_TOKENS, NULL, room + r->psi,
                                 TSA_TILE_TOKENS);
            k.phi = room + r->psi;
        }
        PRODUCT(plan, f0, turn)
        (features, k.steps, k.phi, ldp, ones, t == 0, plan->turn_update ? room + r->turned : NULL,
         (ptrdiff_t)plan->block);
        if (lo && t + n == plan->chunk && !plan->turn_update)
            PRODUCT(plan, f0, update_fold)
            (features, ldv, k.steps, k.phi, k.v, k.ldv, t ? local : NULL, ldl, hi, lo, s->ld,
             kept, ahead);
        else
            update_tile(plan, room, &k, f0, features, local, ldl, ahead);
    }
    if (lo)
        KERNELS(plan)->fold(features, s->ones_hi + f0, s->ones_lo + f0, ones, NULL);
    if (lo && plan->turn_update) {
        KERNELS(plan)->fold(features * ldv, hi, lo, local, NULL);
        if (kept)
            PAIRS(plan)->pair_rows(features, ldv, hi, s->ld, kept, s->ld);
    }
    if (kept)
        PAIRS(plan)->pair_cols(1, features, s->ones_hi + f0, 0, s->ones_pairs + pair, 0);
}

/* Fold one of `parts` shares of the features of a full window. */
static void fold_part(const struct tsa_plan *plan, T *room, const struct item *item, size_t part,
                      size_t parts)
{
    const size_t blocks = tsa_block_count(plan), end = blocks * (part + 1) / parts;
    size_t i = blocks * part / parts, f0, f1;
    if (i == end)
        return;
    key_base(plan, room, &item->window);
    for (; i < end; i++) {
        tsa_block_at(plan, i, &f0, &f1);
        fold_block(plan, room, &item->window, &item->sums, f0, f1, NULL);
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
static void ahead_of_block(const struct tsa_plan *plan, const struct sums *s, const struct pass *p,
                           size_t f0, size_t share, size_t calls, struct tsa_ahead *ahead)
{
    ahead->budget = share;
    if (f0 == p->from || !plan->large)
        return;
    const size_t lines = ahead_lines(ahead), next = block_start(plan, p, f0);
    const size_t count = (f0 - next) * (size_t)s->ld;
    const ptrdiff_t at = (ptrdiff_t)next * s->ld;
    const bool folds = p->fold != NULL, pairs = next >= plan->high && s->pairs;
    if (pairs)
        ahead_add_elements(ahead, s->pairs + (ptrdiff_t)(next - plan->high) / 2 * s->ld, count / 2,
                           folds);
    if (!pairs || folds)
        ahead_add_elements(ahead, s->hi + at, count, folds);
    if (folds && s->lo)
        ahead_add_elements(ahead, s->lo + at, count, true);
    ahead->budget += (ahead_lines(ahead) - lines) / calls + 1;
}

/* Block by block, in the order of the chains. */
static void run_pass(const struct tsa_plan *plan, T *room, const struct sums *s,
                     const struct pass *p, struct tsa_ahead *ahead)
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
        key_base(plan, room, p->fold);
    const size_t calls = heads * ((m + TSA_TILE_TOKENS - 1) / TSA_TILE_TOKENS) +
                         (p->fold ? plan->room.keys / TSA_TILE_TOKENS : 0); /* per block */
    const size_t share =
        ahead ? ahead_lines(ahead) * plan->block / (p->to - p->from) / calls + 1 : 0;
    for (size_t f1 = p->to, f0; f1 > p->from; f1 = f0) {
        f0 = block_start(plan, p, f1);
        if (ahead)
            ahead_of_block(plan, s, p, f0, share, calls, ahead);
        struct block b = {0};
        if (heads > 0)
            b = block_of(plan, room, s, f0, f1, 0, (size_t)s->ld);
        for (size_t i = 0; i < heads; i++) {
            const struct queries q = head_of(plan, &p->queries, i);
            query_block(plan, room, &q, coefficients_of(plan, p->h0 + i).weight, &b, s->ld, f0, f1,
                        m, ahead);
        }
        if (p->fold)
            fold_block(plan, room, p->fold, s, f0, f1, ahead);
    }
}

/* A whole window into all sums. */
static void fold_window(const struct tsa_plan *plan, T *room, const struct sums *s,
                        const struct window *w, struct tsa_ahead *ahead)
{
    const struct pass all = {.to = plan->mono.total, .fold = w};
    run_pass(plan, room, s, &all, ahead);
}

/* Outputs of m packed queries from the window, after the sums. Causal: token i sees the window up
 * to slot seen+i; otherwise all see its first `seen` slots. */
static void window_outputs(const struct tsa_plan *plan, T *room, const struct queries *q,
                           const struct window *w, const T *coef, bool causal, size_t seen,
                           size_t m, int first, T *dst, ptrdiff_t stride)
{
    const ptrdiff_t lda = (ptrdiff_t)plan->layout.ldv;
    T *weights = room + plan->room.weights;
    for (size_t t = 0; t < m; t += TSA_TILE_TOKENS) {
        const size_t n = tile_tokens(m - t);
        T *acc = q->acc + (ptrdiff_t)t * lda;
        if (plan->turn_query && !first) {
            KERNELS(plan)->turn(plan->dv, n, acc, TSA_TILE_TOKENS, NULL, 0, room + plan->room.local,
                                lda);
            acc = room + plan->room.local;
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
static void pack_queries(const struct tsa_call *call, T *room, size_t b, size_t t,
                         const struct pass *pass)
{
    const struct tsa_plan *plan = call->plan;
    const int l2 = plan->normalize == TSA_NORMALIZE_L2;
    for (size_t i = 0; i < pass->heads; i++) {
        const struct queries q = head_of(plan, &pass->queries, i);
        const T scale = coefficients_of(plan, pass->h0 + i).scale;
        ptrdiff_t stride;
        const T *src = rows_in(plan, call->q, b, pass->h0 + i, t, pass->m, plan->d,
                               room + plan->room.rows, &stride);
        for (size_t u = 0; u < pass->m; u += TSA_TILE_TOKENS)
            KERNELS(plan)->pack_t(tile_tokens(pass->m - u), plan->d, src + (ptrdiff_t)u * stride,
                                  stride, l2, scale, tile_at(plan, q.base, u), TSA_TILE_TOKENS);
    }
}

/* Their outputs from the window, after the sums. */
static void write_outputs(const struct tsa_call *call, T *room, size_t b, size_t t,
                          const struct pass *pass, const struct window *w, bool causal, size_t seen,
                          bool first)
{
    const struct tsa_plan *plan = call->plan;
    T *rows = room + plan->room.rows;
    for (size_t i = 0; i < pass->heads; i++) {
        const size_t h = pass->h0 + i;
        const struct queries q = head_of(plan, &pass->queries, i);
        ptrdiff_t stride;
        T *dst = rows_out(call->o, b, h, t, plan->dv, rows, &stride);
        window_outputs(plan, room, &q, w, coefficients_of(plan, h).coef, causal, seen, pass->m,
                       first, dst, stride);
        rows_out_done(plan, call->o, b, h, t, pass->m, 0, plan->dv, rows);
    }
}

/* Outputs of query heads h0 .. h0+heads-1 for tokens t .. t+n-1, which lie in the window from slot
 * `at` on if causal, else see its first `at` slots. With `fold` the window, full by then, is folded
 * into the sums once these were read for the last time. */
static void outputs(const struct tsa_call *call, T *room, size_t b, size_t h0, size_t heads,
                    const struct sums *s, const struct window *w, bool causal, size_t at, size_t t,
                    size_t n, bool fold, struct tsa_ahead *ahead)
{
    const struct tsa_plan *plan = call->plan;
    struct pass pass = {
        .to = plan->mono.total, .h0 = h0, .heads = heads, .queries = room_queries(plan, room)};
    for (size_t done = 0; done < n; done += pass.m) {
        const size_t left = n - done;
        pass.m = left < plan->room.queries ? left : plan->room.queries;
        pass.fold = fold && pass.m == left ? w : NULL;
        pack_queries(call, room, b, t + done, &pass);
        run_pass(plan, room, s, &pass, ahead);
        write_outputs(call, room, b, t + done, &pass, w, causal, causal ? at + done : at,
                      !s->folded);
    }
}
