/* SPDX-License-Identifier: MIT */
/* The entries of a table: kernels with many operands take them from a struct here, and one by one
 * in the table. */

static void entry_query(size_t tokens, size_t columns, size_t features, const T *psi, ptrdiff_t ldp,
                        const T *hi, ptrdiff_t ldh, T *acc, ptrdiff_t lda, int first,
                        struct tsa_prefetch *prefetch)
{
    query(&(const struct query_args){.features = features,
                                     .psi = psi,
                                     .ldp = ldp,
                                     .hi = hi,
                                     .ldh = ldh,
                                     .acc = acc,
                                     .lda = lda,
                                     .first = first,
                                     .tokens = tokens,
                                     .columns = columns,
                                     .prefetch = prefetch});
}

static void entry_update(size_t features, size_t columns, size_t tokens, const T *phi, const T *v,
                         ptrdiff_t ldv, T *local, ptrdiff_t ldl, int first,
                         struct tsa_prefetch *prefetch)
{
    update(&(const struct update_args){.features = features,
                                       .columns = columns,
                                       .tokens = tokens,
                                       .phi = phi,
                                       .v = v,
                                       .ldv = ldv,
                                       .local = local,
                                       .ldl = ldl,
                                       .first = first,
                                       .prefetch = prefetch});
}

static void entry_update_fold(size_t features, size_t columns, size_t tokens, const T *phi,
                              const T *v, ptrdiff_t ldv, const T *local, ptrdiff_t ldl, T *hi,
                              T *lo, ptrdiff_t ldh, T *hi_pairs, struct tsa_prefetch *prefetch)
{
    update_fold(&(const struct update_fold_args){.features = features,
                                                 .columns = columns,
                                                 .tokens = tokens,
                                                 .phi = phi,
                                                 .v = v,
                                                 .ldv = ldv,
                                                 .local = local,
                                                 .ldl = ldl,
                                                 .hi = hi,
                                                 .lo = lo,
                                                 .ldh = ldh,
                                                 .hi_pairs = hi_pairs,
                                                 .prefetch = prefetch});
}

static void entry_decode_state(size_t heads, size_t columns, size_t features, const T *psi,
                               ptrdiff_t ldp, const T *const *hi, ptrdiff_t ldh,
                               const T *const *ones, T *acc, ptrdiff_t lda, T *den, int first)
{
    decode_state(&(const struct decode_state_args){.features = features,
                                                   .psi = psi,
                                                   .ldp = ldp,
                                                   .hi = hi,
                                                   .ldh = ldh,
                                                   .ones = ones,
                                                   .acc = acc,
                                                   .lda = lda,
                                                   .den = den,
                                                   .first = first,
                                                   .heads = heads,
                                                   .columns = columns});
}
#define entry_query_ones query_ones
#define entry_transpose transpose

#if TSA_OPERAND_PAIRS
static void entry_psi_pairs(const struct tsa_monomials *mono, size_t f0, size_t f1, size_t tokens,
                            T *base, ptrdiff_t ldb, const T *weight, T *psi, ptrdiff_t ldp)
{
    psi_pairs(&(const struct psi_args){mono, f0, f1, tokens, base, ldb, weight, psi, ldp});
}
static void entry_phi_pairs(const struct tsa_monomials *mono, size_t f0, size_t f1, size_t tokens,
                            T *base, ptrdiff_t ldb, T *phi, ptrdiff_t ldp)
{
    phi_pairs(&(const struct psi_args){mono, f0, f1, tokens, base, ldb, NULL, phi, ldp});
}
#define entry_pair_rows pair_rows
#define entry_pair_cols pair_cols

#else

static void entry_psi_t(const struct tsa_monomials *mono, size_t f0, size_t f1, size_t tokens,
                        T *base, ptrdiff_t ldb, const T *weight, T *psi, ptrdiff_t ldp)
{
    psi_t(&(const struct psi_args){mono, f0, f1, tokens, base, ldb, weight, psi, ldp});
}

static void entry_scores(size_t keys, size_t queries, size_t d, const T *kt, ptrdiff_t ldk,
                         const T *qt, ptrdiff_t ldq, size_t terms, const T *coef, T *w,
                         ptrdiff_t ldw, ptrdiff_t diag)
{
    scores(&(const struct score_args){.d = d,
                                      .kt = kt,
                                      .ldk = ldk,
                                      .qt = qt,
                                      .ldq = ldq,
                                      .terms = terms,
                                      .coef = coef,
                                      .w = w,
                                      .ldw = ldw,
                                      .kind = SCORE_SERIES,
                                      .keys = keys,
                                      .queries = queries,
                                      .diag = diag});
}

static void entry_softmax_scores(size_t keys, size_t queries, size_t d, const T *kt, ptrdiff_t ldk,
                                 const T *qt, ptrdiff_t ldq, T *w, ptrdiff_t ldw, ptrdiff_t diag,
                                 int bounded)
{
    scores(&(const struct score_args){.d = d,
                                      .kt = kt,
                                      .ldk = ldk,
                                      .qt = qt,
                                      .ldq = ldq,
                                      .w = w,
                                      .ldw = ldw,
                                      .kind = bounded ? SCORE_EXP : SCORE_ONLY,
                                      .keys = keys,
                                      .queries = queries,
                                      .diag = diag});
}

static void entry_window(size_t queries, size_t columns, size_t keys, ptrdiff_t diag, const T *w,
                         ptrdiff_t ldw, const T *v, ptrdiff_t ldv, const T *acc, ptrdiff_t lda,
                         int first, const T *den, T *dst, ptrdiff_t stride)
{
    window(&(const struct window_args){.columns = columns,
                                       .keys = keys,
                                       .diag = diag,
                                       .w = w,
                                       .ldw = ldw,
                                       .v = v,
                                       .ldv = ldv,
                                       .acc = acc,
                                       .lda = lda,
                                       .first = first,
                                       .den = den,
                                       .dst = dst,
                                       .stride = stride,
                                       .queries = queries});
}

static void entry_softmax_values(size_t queries, size_t columns, size_t keys, ptrdiff_t diag,
                                 const T *w, ptrdiff_t ldw, const T *v, ptrdiff_t ldv, T *acc,
                                 ptrdiff_t lda, int first, const T *shrink)
{
    window(&(const struct window_args){.columns = columns,
                                       .keys = keys,
                                       .diag = diag,
                                       .w = w,
                                       .ldw = ldw,
                                       .v = v,
                                       .ldv = ldv,
                                       .acc = acc,
                                       .lda = lda,
                                       .first = first,
                                       .shrink = shrink,
                                       .dst = acc,
                                       .stride = lda,
                                       .queries = queries});
}

static void entry_decode_window(size_t columns, size_t keys, const T *w, const T *v, ptrdiff_t ldv,
                                const T *acc, T den, int first, T *dst)
{
    decode_window(
        &(const struct decode_window_args){columns, keys, w, v, ldv, acc, den, first, dst});
}

static int entry_softmax_weights(size_t keys, size_t queries, T *w, ptrdiff_t ldw, ptrdiff_t diag,
                                 int first, T *max, T *den, T *shrink)
{
    return softmax_weights(
        &(const struct softmax_weights_args){keys, queries, w, ldw, diag, first, max, den, shrink});
}

static void entry_softmax_row(size_t keys, size_t d, const T *kt, ptrdiff_t ldk, const T *q,
                              int bounded, size_t columns, const T *v, ptrdiff_t ldv, int first,
                              T *max, T *den, T *acc, T *w)
{
    softmax_row(&(const struct softmax_row_args){.keys = keys,
                                                 .d = d,
                                                 .columns = columns,
                                                 .kt = kt,
                                                 .ldk = ldk,
                                                 .q = q,
                                                 .bounded = bounded,
                                                 .v = v,
                                                 .ldv = ldv,
                                                 .first = first,
                                                 .max = max,
                                                 .den = den,
                                                 .acc = acc,
                                                 .w = w});
}

static void entry_softmax_decode(size_t keys, size_t d, const T *k, ptrdiff_t stride, int l2,
                                 const T *q, int bounded, size_t columns, const T *v, ptrdiff_t ldv,
                                 int first, T *max, T *den, T *acc, T *kt, T *scratch)
{
    softmax_decode(&(const struct softmax_decode_args){.keys = keys,
                                                       .d = d,
                                                       .columns = columns,
                                                       .k = k,
                                                       .stride = stride,
                                                       .l2 = l2,
                                                       .q = q,
                                                       .bounded = bounded,
                                                       .v = v,
                                                       .ldv = ldv,
                                                       .first = first,
                                                       .max = max,
                                                       .den = den,
                                                       .acc = acc,
                                                       .kt = kt,
                                                       .scratch = scratch});
}
#define entry_absmax absmax
#define entry_pack_t pack_t
#define entry_pack_v pack_v
#define entry_load_half load_half
#define entry_store_half store_half
#define entry_absmax_half absmax_half
#define entry_base_t base_t
#define entry_psi_k psi_k
#define entry_fold fold
#define entry_merge merge
#define entry_window_ones window_ones
#define entry_decode_scores decode_scores
#define entry_exp_bounded exp_bounded
#define entry_softmax_combine softmax_combine
#define entry_divide divide
#endif
