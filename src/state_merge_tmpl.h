/* SPDX-License-Identifier: MIT */
/* Sums of a kv head with its open window folded in, block by block of features; merging and
 * export, which read them. Included once with T = float and once with T = double; TSA_TABLE is
 * the member of struct tsa_isa, TSA_NAME(x) the name of a function for this T. */

/* Arrays of one call, carved out of its scratch. */
struct TSA_NAME(arrays) {
    T *base, *phi;                     /* monomials of the window's keys: lower ones, a block */
    T *hi, *lo, *local;                /* [block][ldv] */
    T *ones_hi, *ones_lo, *ones_local; /* [block] */
};

static void TSA_NAME(carve)(const struct tsa_plan *p, T *scratch, struct TSA_NAME(arrays) * a)
{
    struct scratch_sizes s;
    scratch_sizes(p, &s);
    a->base = scratch;
    a->phi = a->base + s.base;
    a->hi = a->phi + s.phi;
    a->lo = a->hi + s.sums;
    a->local = a->lo + s.sums;
    a->ones_hi = a->local + s.sums;
    a->ones_lo = a->ones_hi + s.ones;
    a->ones_local = a->ones_lo + s.ones;
}

/* The lower degrees of the window's keys, once per block of a state. */
static void TSA_NAME(window_base)(const struct tsa_plan *p, const T *block,
                                  const struct tsa_layout *l, size_t w,
                                  const struct TSA_NAME(arrays) * a)
{
    for (size_t t = 0; t < w; t += TSA_TILE_TOKENS) {
        size_t n = w - t < TSA_TILE_TOKENS ? w - t : TSA_TILE_TOKENS;
        T *base = a->base + t * p->mono.rows;
        for (size_t i = 0; i < p->d; i++)
            memcpy(base + i * TSA_TILE_TOKENS, block + l->kt + i * l->ldk + t, n * sizeof(T));
        p->isa->TSA_TABLE->base_t(&p->mono, n, base, TSA_TILE_TOKENS);
    }
}

/* (hi, lo) and (ones_hi, ones_lo) of *a become features f0..f1-1 of the block, its window of
 * w >= 1 tokens folded in as one short chunk. */
static void TSA_NAME(folded)(const struct tsa_plan *p, const T *block, const struct tsa_layout *l,
                             size_t w, size_t f0, size_t f1, const struct TSA_NAME(arrays) * a)
{
    const struct TSA_KERNELS *k = p->isa->TSA_TABLE;
    size_t count = f1 - f0, sums = count * l->ldv;
    ptrdiff_t ldv = (ptrdiff_t)l->ldv;
    memcpy(a->hi, block + l->hi + f0 * l->ldv, sums * sizeof(T));
    memcpy(a->lo, block + l->lo + f0 * l->ldv, sums * sizeof(T));
    memcpy(a->ones_hi, block + l->ones_hi + f0, count * sizeof(T));
    memcpy(a->ones_lo, block + l->ones_lo + f0, count * sizeof(T));
    for (size_t t = 0; t < w; t += TSA_TILE_TOKENS) {
        size_t n = w - t < TSA_TILE_TOKENS ? w - t : TSA_TILE_TOKENS;
        k->psi_t(&p->mono, f0, f1, n, a->base + t * p->mono.rows, TSA_TILE_TOKENS, NULL,
                 a->phi, TSA_TILE_TOKENS);
        k->turn(count, n, a->phi, TSA_TILE_TOKENS, a->ones_local, t == 0, NULL, 0);
        k->update(count, l->ldv, n, a->phi, block + l->v + t * l->ldv, ldv, a->local, ldv,
                  t == 0, NULL);
    }
    k->fold(sums, a->hi, a->lo, a->local, NULL);
    k->fold(count, a->ones_hi, a->ones_lo, a->ones_local, NULL);
}

/* Add src's history to the sums of dst; src may be dst. scratch is NULL if w = 0. */
static void TSA_NAME(merge_block)(const struct tsa_plan *p, void *to, const struct tsa_layout *dl,
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
    for (size_t f0 = 0; f0 < features; f0 += p->block) {
        size_t f1 = features - f0 < p->block ? features : f0 + p->block;
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

static void TSA_NAME(export_block)(const struct tsa_plan *p, const void *from,
                                   const struct tsa_layout *l, size_t w, size_t degree,
                                   struct tsa_tuple *tuple, void *scratch, double *out,
                                   ptrdiff_t stride)
{
    const T *block = from;
    size_t start = p->mono.start[degree], end = p->mono.start[degree + 1];
    if (w == 0) {
        TSA_NAME(export_rows)
        (end - start, p->dv, l->ldv, block + l->hi + start * l->ldv, block + l->lo + start * l->ldv,
         block + l->ones_hi + start, block + l->ones_lo + start, tuple, out, stride);
        return;
    }
    struct TSA_NAME(arrays) a;
    TSA_NAME(carve)(p, scratch, &a);
    TSA_NAME(window_base)(p, block, l, w, &a);
    for (size_t f0 = start; f0 < end; f0 += p->block) {
        size_t f1 = end - f0 < p->block ? end : f0 + p->block;
        TSA_NAME(folded)(p, block, l, w, f0, f1, &a);
        TSA_NAME(export_rows)
        (f1 - f0, p->dv, l->ldv, a.hi, a.lo, a.ones_hi, a.ones_lo, tuple,
         out + (ptrdiff_t)(f0 - start) * stride, stride);
    }
}

#undef T
#undef TSA_KERNELS
#undef TSA_TABLE
#undef TSA_NAME
