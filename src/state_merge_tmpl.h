/* SPDX-License-Identifier: MIT */
/* Sums of a kv head with its open window folded in, feature block by feature block; merging and
 * export, which read them. Included once with T = float and once with T = double; TSA_TABLE is
 * the member of struct tsa_isa, TSA_NAME(x) the name of a function for this T. */

/* Arrays of one call, carved out of its scratch. */
struct TSA_NAME(arrays) {
    T *base, *phi;                     /* monomials of the window's keys: lower ones, a block */
    T *pairs;                          /* [block][tile / 2], then values [tile / 2][ldv] */
    T *hi, *lo, *local;                /* [block][ldv] */
    T *ones_hi, *ones_lo, *ones_local; /* [block] */
};

static void TSA_NAME(carve)(const struct tsa_plan *p, T *scratch, struct TSA_NAME(arrays) * a)
{
    struct scratch_sizes s;
    scratch_sizes(p, &s);
    a->base = scratch;
    a->phi = a->base + s.base;
    a->pairs = a->phi + s.phi;
    a->hi = a->pairs + s.pairs;
    a->lo = a->hi + s.sums;
    a->local = a->lo + s.sums;
    a->ones_hi = a->local + s.sums;
    a->ones_lo = a->ones_hi + s.ones;
    a->ones_local = a->ones_lo + s.ones;
}

/* The lower degrees of the window's keys, once per section of a state. */
static void TSA_NAME(window_base)(const struct tsa_plan *p, const T *section,
                                  const struct tsa_layout *l, size_t w,
                                  const struct TSA_NAME(arrays) * a)
{
    for (size_t t = 0; t < w; t += TSA_TILE_TOKENS) {
        size_t n = w - t < TSA_TILE_TOKENS ? w - t : TSA_TILE_TOKENS;
        T *base = a->base + t * p->mono.rows;
        for (size_t i = 0; i < p->d; i++)
            memcpy(base + i * TSA_TILE_TOKENS, section + l->kt + i * l->ldk + t, n * sizeof(T));
        p->isa->TSA_TABLE->base_t(&p->mono, n, base, TSA_TILE_TOKENS);
    }
}

/* Features f0..f1-1 of a section. */
struct TSA_NAME(rows) {
    T *hi, *lo, *ones_hi, *ones_lo;
};

static struct TSA_NAME(rows) TSA_NAME(rows_of)(T *section, const struct tsa_layout *l, size_t f0)
{
    return (struct TSA_NAME(rows)){section + l->hi + f0 * l->ldv, section + l->lo + f0 * l->ldv,
                                   section + l->ones_hi + f0, section + l->ones_lo + f0};
}
static void TSA_NAME(copy_rows)(const struct TSA_NAME(rows) * to,
                                const struct TSA_NAME(rows) * from, size_t count, size_t ldv)
{
    memcpy(to->hi, from->hi, count * ldv * sizeof(T));
    memcpy(to->lo, from->lo, count * ldv * sizeof(T));
    memcpy(to->ones_hi, from->ones_hi, count * sizeof(T));
    memcpy(to->ones_lo, from->ones_lo, count * sizeof(T));
}

/* A window of w >= 1 tokens, whose base is in *a, is folded into these rows as one short chunk. */
static void TSA_NAME(fold_window)(const struct tsa_plan *p, const T *section,
                                  const struct tsa_layout *l, size_t w, size_t f0, size_t f1,
                                  const struct TSA_NAME(arrays) * a,
                                  const struct TSA_NAME(rows) * rows)
{
    const struct TSA_KERNELS *k = p->isa->TSA_TABLE;
    size_t count = f1 - f0, sums = count * l->ldv;
    ptrdiff_t ldv = (ptrdiff_t)l->ldv;
    for (size_t t = 0; t < w; t += TSA_TILE_TOKENS) {
        size_t n = w - t < TSA_TILE_TOKENS ? w - t : TSA_TILE_TOKENS;
        k->psi_t(&p->mono, f0, f1, n, a->base + t * p->mono.rows, TSA_TILE_TOKENS, NULL, a->phi,
                 TSA_TILE_TOKENS);
        const T *v = section + l->v + t * l->ldv;
        if (f0 < p->high) {
            k->transpose(count, n, a->phi, TSA_TILE_TOKENS, a->ones_local, t == 0, NULL, 0);
            k->update(count, l->ldv, n, a->phi, v, ldv, a->local, ldv, t == 0, NULL);
            continue;
        }
        const struct TSA_PAIR_KERNELS *pairs = TSA_PAIR_KERNELS_OF(p);
        const size_t half = (n + 1) / 2;
        T *v_pairs = a->pairs + p->block * (TSA_TILE_TOKENS / 2);
        pairs->pair_cols(count, n, a->phi, TSA_TILE_TOKENS, a->pairs, TSA_TILE_TOKENS / 2);
        pairs->pair_rows(n, l->ldv, v, ldv, v_pairs, ldv);
        pairs->transpose(count, half, a->pairs, TSA_TILE_TOKENS / 2, a->ones_local, t == 0, NULL,
                         0);
        pairs->update(count, l->ldv, half, a->pairs, v_pairs, ldv, a->local, ldv, t == 0, NULL);
    }
    k->fold(sums, rows->hi, rows->lo, a->local, NULL);
    k->fold(count, rows->ones_hi, rows->ones_lo, a->ones_local, NULL);
}

/* (hi, lo) and (ones_hi, ones_lo) of *a become features f0..f1-1 of the section, its window folded
 * in. */
static void TSA_NAME(folded)(const struct tsa_plan *p, const T *section, const struct tsa_layout *l,
                             size_t w, size_t f0, size_t f1, const struct TSA_NAME(arrays) * a)
{
    const struct TSA_NAME(rows) from =
        TSA_NAME(rows_of)((T *)(uintptr_t)section, l, f0); /* only read */
    const struct TSA_NAME(rows) to = {a->hi, a->lo, a->ones_hi, a->ones_lo};
    TSA_NAME(copy_rows)(&to, &from, f1 - f0, l->ldv);
    TSA_NAME(fold_window)(p, section, l, w, f0, f1, a, &to);
}

/* Add src's history to the sums of dst; src may be dst. scratch is NULL if w = 0. */
static void TSA_NAME(merge_section)(const struct tsa_plan *p, void *to, const struct tsa_layout *dl,
                                    const void *from, const struct tsa_layout *sl, size_t w,
                                    void *scratch)
{
    const struct TSA_KERNELS *k = p->isa->TSA_TABLE;
    T *dst = to;
    const T *src = from;
    size_t features = p->mono.total;
    if (w == 0) {
        k->merge(features * dl->ldv, dst + dl->hi, dst + dl->lo, src + sl->hi, src + sl->lo);
        k->merge(features, dst + dl->ones_hi, dst + dl->ones_lo, src + sl->ones_hi,
                 src + sl->ones_lo);
        return;
    }
    struct TSA_NAME(arrays) a;
    TSA_NAME(carve)(p, scratch, &a);
    TSA_NAME(window_base)(p, src, sl, w, &a);
    for (size_t i = 0; i < tsa_block_count(p); i++) {
        size_t f0, f1;
        tsa_block_at(p, i, &f0, &f1);
        TSA_NAME(folded)(p, src, sl, w, f0, f1, &a);
        T *hi = dst + dl->hi + f0 * dl->ldv, *lo = dst + dl->lo + f0 * dl->ldv;
        k->merge((f1 - f0) * dl->ldv, hi, lo, a.hi, a.lo);
        k->merge(f1 - f0, dst + dl->ones_hi + f0, dst + dl->ones_lo + f0, a.ones_hi, a.ones_lo);
    }
}

/* Rows of sums as doubles: dv values and the ones column, times the square root of the
 * multiplicity if tuple is not NULL; moves the tuple on. */
static void TSA_NAME(export_rows)(size_t count, size_t dv, size_t ldv, const T *hi, const T *lo,
                                  const T *ones_hi, const T *ones_lo, struct tsa_tuple *tuple,
                                  double *out, ptrdiff_t stride)
{
    for (size_t f = 0; f < count; f++) {
        const T *row_hi = hi + f * ldv, *row_lo = lo + f * ldv;
        double *row = out + (ptrdiff_t)f * stride;
        for (size_t c = 0; c < dv; c++)
            row[c] = (double)row_hi[c] + (double)row_lo[c];
        row[dv] = (double)ones_hi[f] + (double)ones_lo[f];
        if (tuple) {
            double factor = sqrt(tsa_tuple_multiplicity(tuple));
            for (size_t c = 0; c <= dv; c++)
                row[c] *= factor;
            tsa_tuple_next(tuple);
        }
    }
}

static void TSA_NAME(export_section)(const struct tsa_plan *p, const void *from,
                                     const struct tsa_layout *l, size_t w, size_t degree,
                                     struct tsa_tuple *tuple, void *scratch, double *out,
                                     ptrdiff_t stride)
{
    const T *section = from;
    size_t start = p->mono.start[degree], end = p->mono.start[degree + 1];
    if (w == 0) {
        TSA_NAME(export_rows)
        (end - start, p->dv, l->ldv, section + l->hi + start * l->ldv,
         section + l->lo + start * l->ldv, section + l->ones_hi + start,
         section + l->ones_lo + start, tuple, out, stride);
        return;
    }
    struct TSA_NAME(arrays) a;
    TSA_NAME(carve)(p, scratch, &a);
    TSA_NAME(window_base)(p, section, l, w, &a);
    for (size_t f0 = start; f0 < end; f0 += p->block) {
        size_t f1 = end - f0 < p->block ? end : f0 + p->block;
        TSA_NAME(folded)(p, section, l, w, f0, f1, &a);
        TSA_NAME(export_rows)
        (f1 - f0, p->dv, l->ldv, a.hi, a.lo, a.ones_hi, a.ones_lo, tuple,
         out + (ptrdiff_t)(f0 - start) * stride, stride);
    }
}

/* -- the tree -------------------------------------------------------------------------------- */

/* Rows of level `level` of a thread's scratch. */
static struct TSA_NAME(rows) TSA_NAME(level)(const struct reduction *r, T *scratch, size_t level)
{
    T *hi = scratch + r->sizes.total + level * 2 * (r->sizes.sums + r->sizes.ones);
    T *lo = hi + r->sizes.sums, *ones_hi = lo + r->sizes.sums;
    return (struct TSA_NAME(rows)){hi, lo, ones_hi, ones_hi + r->sizes.ones};
}

/* Features f0..f1-1 of states from..to-1 together become the rows of `level`; those above it are
 * used. The left part of the tree has the largest power of two of states that leaves some. */
static void TSA_NAME(reduce_rows)(const struct reduction *r, T *scratch, const struct range *at,
                                  size_t from, size_t to, size_t level)
{
    const struct tsa_plan *p = r->plan;
    const struct TSA_NAME(rows) rows = TSA_NAME(level)(r, scratch, level);
    const size_t count = at->f1 - at->f0;
    struct tsa_layout l;
    if (to - from == 1) {
        const struct tsa_state *s = r->states[from];
        tsa_state_layout(s, &l);
        const struct TSA_NAME(rows) own = TSA_NAME(rows_of)(
            tsa_state_section(s, &l, sizeof(T), at->layer, at->kv_head), &l, at->f0);
        TSA_NAME(copy_rows)(&rows, &own, count, l.ldv);
        return;
    }
    const size_t middle = from + left_part(to - from);
    const size_t right = first_with_tokens(r, middle, to, at->layer);
    if (right == to || first_with_tokens(r, from, middle, at->layer) == middle) {
        const bool left = right == to;
        TSA_NAME(reduce_rows)(r, scratch, at, left ? from : middle, left ? middle : to, level);
        return;
    }
    TSA_NAME(reduce_rows)(r, scratch, at, from, middle, level);
    TSA_NAME(reduce_rows)(r, scratch, at, middle, to, level + 1);
    const struct TSA_NAME(rows) more = TSA_NAME(level)(r, scratch, level + 1);
    const struct tsa_state *s = r->states[right]; /* whose window is the one that is open */
    const size_t w = tsa_state_window(s, at->layer);
    tsa_state_layout(s, &l);
    if (w > 0) {
        const T *section = tsa_state_section(s, &l, sizeof(T), at->layer, at->kv_head);
        struct TSA_NAME(arrays) a;
        TSA_NAME(carve)(p, scratch, &a);
        TSA_NAME(window_base)(p, section, &l, w, &a);
        TSA_NAME(fold_window)(p, section, &l, w, at->f0, at->f1, &a, &more);
    }
    const struct TSA_KERNELS *k = p->isa->TSA_TABLE;
    k->merge(count * l.ldv, rows.hi, rows.lo, more.hi, more.lo);
    k->merge(count, rows.ones_hi, rows.ones_lo, more.ones_hi, more.ones_lo);
}

static void TSA_NAME(reduce_range)(const struct reduction *r, void *scratch, const struct range *at)
{
    struct tsa_layout l;
    TSA_NAME(reduce_rows)(r, scratch, at, 0, r->count, 0);
    tsa_state_layout(r->dst, &l);
    const struct TSA_NAME(rows) rows = TSA_NAME(level)(r, scratch, 0);
    const struct TSA_NAME(rows) to = TSA_NAME(rows_of)(
        tsa_state_section(r->dst, &l, sizeof(T), at->layer, at->kv_head), &l, at->f0);
    TSA_NAME(copy_rows)(&to, &rows, at->f1 - at->f0, l.ldv);
}

#undef T
#undef TSA_PAIR_KERNELS
#undef TSA_KERNELS
#undef TSA_TABLE
#undef TSA_NAME
