/* SPDX-License-Identifier: MIT */
/* One call and its cost for every kernel, for one arithmetic type. Kernels of the state take padded
 * columns; useful operations count the columns there are. The includer defines T, ARGS(name)
 * (the struct of arguments), S(name) (the name with a suffix) and KERNELS (the struct of the
 * table). */

struct S(kernel_bench) {
    const struct KERNELS *k;
    struct tsa_monomials mono;
    size_t c, d, dv, features, terms; /* features: those of one block */
    ptrdiff_t ldt, ldv;               /* tokens, values */
    T *src, *srcv, *dst, *xt, *base, *psi, *v, *hi, *lo, *local, *ones, *den;
    T *acc, *w, *weight, *coef, *one_base, *one_psi;
    size_t *suffix;
    void *memory[20];
    int blocks;
};

static T *S(block)(struct S(kernel_bench) * b, size_t count, double low, double high)
{
    T *p = bench_memory((count + 64) * sizeof(T));
    if (!p)
        return NULL;
    uint32_t seed = 1;
    for (size_t i = 0; i < count + 64; i++) {
        seed = seed * 1664525u + 1013904223u;
        p[i] = (T)(low + (high - low) * (double)(seed >> 8) * 0x1p-24);
    }
    b->memory[b->blocks++] = p;
    return p;
}

static void S(kernel_bench_destroy)(struct S(kernel_bench) * b)
{
    for (int i = 0; i < b->blocks; i++)
        free(b->memory[i]);
    free(b->suffix);
}

static bool S(kernel_bench_create)(struct S(kernel_bench) * b, const struct KERNELS *kernels,
                                   const struct bench_problem *p, size_t chunk)
{
    memset(b, 0, sizeof *b);
    b->k = kernels;
    b->c = chunk < TSA_TILE_TOKENS ? chunk : TSA_TILE_TOKENS;
    b->d = p->d;
    b->dv = p->dv;
    b->terms = p->terms;
    if (!tsa_monomials_init(&b->mono, p->d, p->terms))
        return false;
    b->suffix = bench_memory(tsa_monomials_suffix_count(p->d, p->terms) * sizeof *b->suffix);
    if (!b->suffix)
        return false;
    tsa_monomials_fill_suffix(&b->mono, b->suffix);
    b->features = b->mono.total < 512 ? b->mono.total : 512;
    b->ldt = TSA_TILE_TOKENS;
    b->ldv = (ptrdiff_t)tsa_round_up(p->dv, TSA_ROW_PAD);
    const size_t ldt = (size_t)b->ldt, ldv = (size_t)b->ldv, f = b->features;
    b->src = S(block)(b, ldt * p->d, -0.4, 0.5);
    b->srcv = S(block)(b, ldt * p->dv, -0.5, 0.5);
    b->dst = S(block)(b, ldt * ldv, 0, 1);
    b->xt = S(block)(b, ldt * p->d, -0.4, 0.5);
    b->base = S(block)(b, ldt * b->mono.rows, -0.4, 0.5);
    b->psi = S(block)(b, tsa_round_up(f, TSA_ROW_PAD) * ldt, 0, 0.5);
    b->v = S(block)(b, ldt * ldv, -0.5, 0.5);
    b->hi = S(block)(b, f * ldv, 0, 1);
    b->lo = S(block)(b, f * ldv, 0, 1e-8);
    b->local = S(block)(b, f * ldv, 0, 1e-12);
    b->ones = S(block)(b, f + ldv, 0, 1);
    b->den = S(block)(b, 3 * ldt, 1, 2);
    b->acc = S(block)(b, ldt * ldv, 0, 1);
    b->w = S(block)(b, 2 * ldt * ldt, 0.5, 1.5);
    b->weight = S(block)(b, b->mono.total, 0.1, 1);
    b->coef = S(block)(b, TSA_MAX_TERMS, 0.1, 1);
    b->one_base = S(block)(b, b->mono.lower + 2 * TSA_MAX_LANES, -0.4, 0.5);
    b->one_psi = S(block)(b, b->mono.total + 2 * TSA_MAX_LANES, 0, 0);
    for (int i = 0; i < b->blocks; i++)
        if (!b->memory[i])
            return false;
    return b->blocks == 18;
}

#define BYTES(count) ((double)(count) * sizeof(T))
#define TRIANGLE(b) ((double)(b)->c * (double)((b)->c + 1) / 2)
#define KERNEL(name)                                                                               \
    static struct kernel_cost S(call_##name)(struct S(kernel_bench) * b);                          \
    static struct kernel_cost S(name)(void *operands)                                              \
    {                                                                                              \
        return S(call_##name)(operands);                                                           \
    }                                                                                              \
    static struct kernel_cost S(call_##name)(struct S(kernel_bench) * b)

KERNEL(absmax)
{
    b->den[0] += b->k->absmax(b->c, b->d, b->src, (ptrdiff_t)b->d) * (T)1e-30;
    return (struct kernel_cost){0, BYTES(b->c * b->d)};
}
KERNEL(pack_t)
{
    b->k->pack_t(b->c, b->d, b->src, (ptrdiff_t)b->d, 1, (T)0.5, b->xt, b->ldt);
    return (struct kernel_cost){0, BYTES(2 * b->c * b->d)};
}
KERNEL(unit_rows)
{
    const T *src[8];
    T *out[8], scale[8];
    const size_t rows = b->c < 8 ? b->c : 8;
    for (size_t r = 0; r < rows; r++) {
        src[r] = b->src + r * b->d;
        out[r] = b->psi + r * tsa_round_up(b->d, TSA_ROW_PAD);
        scale[r] = 1;
    }
    b->k->unit_rows(rows, b->d, src, 1, scale, out);
    return (struct kernel_cost){2.0 * (double)(rows * b->d), BYTES(2 * rows * b->d)};
}
KERNEL(pack_v)
{
    b->k->pack_v(b->c, b->dv, b->srcv, (ptrdiff_t)b->dv, b->v, b->ldv);
    return (struct kernel_cost){0, BYTES(2 * b->c * b->dv)};
}
/* Of halves, bf16 and f16 one after the other. */
KERNEL(load_half)
{
    for (int f16 = 0; f16 <= 1; f16++)
        b->k->load_half(b->c, b->dv, b->srcv, (ptrdiff_t)b->dv, f16, b->dst, (ptrdiff_t)b->dv);
    return (struct kernel_cost){0, 2 * (BYTES(b->c * b->dv) + 2 * (double)(b->c * b->dv))};
}
KERNEL(store_half)
{
    for (int f16 = 0; f16 <= 1; f16++)
        b->k->store_half(b->c, b->dv, b->srcv, (ptrdiff_t)b->dv, f16, b->dst, (ptrdiff_t)b->dv);
    return (struct kernel_cost){0, 2 * (BYTES(b->c * b->dv) + 2 * (double)(b->c * b->dv))};
}
KERNEL(absmax_half)
{
    for (int f16 = 0; f16 <= 1; f16++)
        b->dst[f16] = b->k->absmax_half(b->c, b->dv, b->srcv, (ptrdiff_t)b->dv, f16);
    return (struct kernel_cost){0, 4 * (double)(b->c * b->dv)};
}
KERNEL(base_t)
{
    b->k->base_t(&b->mono, b->c, b->base, b->ldt);
    return (struct kernel_cost){(double)((b->mono.base - b->d) * b->c), BYTES(b->mono.base * b->c)};
}
KERNEL(psi_t)
{
    b->k->psi_t(&(const struct ARGS(psi)){.mono = &b->mono,
                                          .f1 = b->features,
                                          .tokens = b->c,
                                          .base = b->base,
                                          .ldb = b->ldt,
                                          .weight = b->weight,
                                          .psi = b->psi,
                                          .ldp = b->ldt});
    return (struct kernel_cost){2.0 * (double)(b->features * b->c), BYTES(b->features * b->c)};
}
KERNEL(transpose)
{
    b->k->products.transpose(&(const struct ARGS(transpose)){.features = b->features,
                                                             .tokens = b->c,
                                                             .in = b->psi,
                                                             .ldi = b->ldt,
                                                             .sum = b->ones,
                                                             .first = 1});
    return (struct kernel_cost){(double)(b->features * b->c), BYTES(b->features * b->c)};
}
KERNEL(psi_k)
{
    b->k->psi_k(&b->mono, b->one_base, b->weight, b->one_psi);
    return (struct kernel_cost){2.0 * (double)b->mono.total, BYTES(2 * b->mono.total)};
}
KERNEL(query)
{
    b->k->products.query(&(const struct ARGS(query)){.tokens = b->c,
                                                     .columns = (size_t)b->ldv,
                                                     .features = b->features,
                                                     .psi = b->psi,
                                                     .ldp = b->ldt,
                                                     .hi = b->hi,
                                                     .ldh = b->ldv,
                                                     .acc = b->acc,
                                                     .lda = b->ldv,
                                                     .first = 1});
    return (struct kernel_cost){2.0 * (double)(b->c * b->dv * b->features),
                                BYTES(b->features * (b->dv + b->c))};
}
KERNEL(query_ones)
{
    b->k->products.query_ones(b->c, b->features, b->psi, b->ldt, b->ones, b->den, 1);
    return (struct kernel_cost){2.0 * (double)(b->c * b->features), BYTES(b->features * b->c)};
}
KERNEL(update)
{
    b->k->products.update(&(const struct ARGS(update)){.features = b->features,
                                                       .columns = (size_t)b->ldv,
                                                       .tokens = b->c,
                                                       .phi = b->psi,
                                                       .v = b->v,
                                                       .ldv = b->ldv,
                                                       .local = b->local,
                                                       .ldl = b->ldv,
                                                       .first = 1});
    return (struct kernel_cost){2.0 * (double)(b->c * b->dv * b->features),
                                BYTES(b->features * (b->dv + b->c))};
}
KERNEL(update_fold)
{
    b->k->products.update_fold(&(const struct ARGS(update_fold)){.features = b->features,
                                                                 .columns = (size_t)b->ldv,
                                                                 .tokens = b->c,
                                                                 .phi = b->psi,
                                                                 .v = b->v,
                                                                 .ldv = b->ldv,
                                                                 .hi = b->hi,
                                                                 .lo = b->lo,
                                                                 .e = 1,
                                                                 .ldh = b->ldv});
    return (struct kernel_cost){2.0 * (double)(b->c * b->dv * b->features),
                                BYTES(b->features * (4 * b->dv + b->c))};
}
KERNEL(fold)
{
    const size_t count = b->features * (size_t)b->ldv;
    b->k->fold(count, b->hi, b->lo, 1, b->local, NULL);
    return (struct kernel_cost){0, BYTES(5 * count)};
}
KERNEL(decay)
{
    const size_t count = b->features * (size_t)b->ldv;
    b->k->decay(count, (T)0.999, b->hi, b->lo);
    return (struct kernel_cost){0, BYTES(4 * count)};
}
KERNEL(multiply)
{
    b->k->multiply(b->c, b->ones, b->den);
    return (struct kernel_cost){(double)b->c, BYTES(3 * b->c)};
}
KERNEL(gate_weights)
{
    for (size_t i = 0; i < b->c; i++)
        b->den[i] = 1;
    b->k->gate_weights(&(const struct ARGS(gate_weights)){
        .keys = b->c, .queries = b->c, .gate = b->acc, .decay = b->den, .w = b->w, .ldw = b->ldt});
    return (struct kernel_cost){2 * TRIANGLE(b), BYTES(b->c * b->c)};
}
KERNEL(finish)
{
    const struct ARGS(finish) args = {0, (T)1e-6, (T)1e-3};
    b->k->finish(b->c, &args, b->den);
    return (struct kernel_cost){(double)b->c, BYTES(2 * b->c)};
}
KERNEL(scale_rows)
{
    const ptrdiff_t dv = (ptrdiff_t)b->dv;
    b->k->scale_rows(b->c, b->dv, b->weight, 0, b->srcv, dv, b->dst, dv);
    return (struct kernel_cost){(double)(b->c * b->dv), BYTES(2 * b->c * b->dv)};
}
KERNEL(merge)
{
    const size_t count = b->features * (size_t)b->ldv;
    b->k->merge(count, b->hi, b->lo, b->local, b->local);
    return (struct kernel_cost){0, BYTES(6 * count)};
}
KERNEL(scores)
{
    b->k->scores(&(const struct ARGS(scores)){.keys = b->c,
                                              .queries = b->c,
                                              .d = b->d,
                                              .kt = b->xt,
                                              .ldk = b->ldt,
                                              .qt = b->base,
                                              .ldq = b->ldt,
                                              .terms = b->terms,
                                              .coef = b->coef,
                                              .w = b->w,
                                              .ldw = b->ldt});
    return (struct kernel_cost){2 * TRIANGLE(b) * (double)(b->d + b->terms - 1),
                                BYTES(2 * b->c * b->d + b->c * b->c)};
}
KERNEL(window_ones)
{
    b->k->window_ones(b->c, b->c, b->w, b->ldt, 0, b->den, 1);
    return (struct kernel_cost){TRIANGLE(b), BYTES(b->c * b->c)};
}
KERNEL(window)
{
    b->k->window(&(const struct ARGS(window)){.queries = b->c,
                                              .columns = b->dv,
                                              .keys = b->c,
                                              .w = b->w,
                                              .ldw = b->ldt,
                                              .v = b->v,
                                              .ldv = b->ldv,
                                              .acc = b->acc,
                                              .lda = b->ldv,
                                              .den = b->den,
                                              .dst = b->dst,
                                              .stride = (ptrdiff_t)b->dv});
    return (struct kernel_cost){2 * TRIANGLE(b) * (double)b->dv, BYTES(b->c * (b->c + 3 * b->dv))};
}
KERNEL(decode_scores)
{
    b->k->decode_scores(b->c, b->d, b->xt, b->ldt, b->src, b->terms, b->coef, b->w);
    return (struct kernel_cost){2.0 * (double)(b->c * (b->d + b->terms - 1)), BYTES(b->c * b->d)};
}
KERNEL(decode_heads)
{
    const T *const hi[1] = {b->hi}, *const ones[1] = {b->ones}, *const v[1] = {b->v};
    T *const dst[1] = {b->dst};
    b->k->decode_heads(&(const struct ARGS(decode_heads)){.state.heads = 1,
                                                          .state.columns = b->dv,
                                                          .state.features = b->features,
                                                          .state.psi = b->one_psi,
                                                          .state.hi = hi,
                                                          .state.ldh = b->ldv,
                                                          .state.ones = ones,
                                                          .w = b->w,
                                                          .keys = &b->c,
                                                          .v = v,
                                                          .ldv = b->ldv,
                                                          .state.den = b->den,
                                                          .state.first = 1,
                                                          .dst = dst});
    const double rows = (double)(b->features + b->c);
    return (struct kernel_cost){2 * rows * (double)(b->dv + 1),
                                rows * (double)(b->dv + 1) * sizeof(T)};
}
KERNEL(exp_bounded)
{
    const size_t count = b->c * (size_t)b->ldt;
    b->k->exp_bounded(count, b->w, b->w + count);
    return (struct kernel_cost){0, BYTES(2 * count)};
}
KERNEL(softmax_scores)
{
    b->k->scores(&(const struct ARGS(scores)){.keys = b->c,
                                              .queries = b->c,
                                              .d = b->d,
                                              .kt = b->xt,
                                              .ldk = b->ldt,
                                              .qt = b->base,
                                              .ldq = b->ldt,
                                              .w = b->w,
                                              .ldw = b->ldt,
                                              .diag = (ptrdiff_t)b->c,
                                              .kind = 1 ? TSA_SCORE_EXP : TSA_SCORE_ONLY});
    return (struct kernel_cost){2.0 * (double)(b->c * b->c * b->d),
                                BYTES(2 * b->c * b->d + b->c * b->c)};
}
KERNEL(softmax_weights)
{
    b->k->softmax_weights(&(const struct ARGS(softmax_weights)){.keys = b->c,
                                                                .queries = b->c,
                                                                .w = b->w,
                                                                .ldw = b->ldt,
                                                                .diag = (ptrdiff_t)b->c,
                                                                .first = 1,
                                                                .max = b->den + b->ldt,
                                                                .den = b->den,
                                                                .shrink = b->den + 2 * b->ldt});
    return (struct kernel_cost){0, BYTES(3 * b->c * b->c)};
}
KERNEL(softmax_values)
{
    b->k->window(&(const struct ARGS(window)){.queries = b->c,
                                              .columns = (size_t)b->ldv,
                                              .keys = b->c,
                                              .diag = (ptrdiff_t)b->c,
                                              .w = b->w,
                                              .ldw = b->ldt,
                                              .v = b->v,
                                              .ldv = b->ldv,
                                              .acc = b->acc,
                                              .dst = b->acc,
                                              .lda = b->ldv,
                                              .stride = b->ldv,
                                              .first = 1});
    return (struct kernel_cost){2.0 * (double)(b->c * b->c * b->dv),
                                BYTES(b->c * (b->c + 2 * b->dv))};
}
KERNEL(softmax_row)
{
    b->k->softmax_row(&(const struct ARGS(softmax_row)){.keys = b->c,
                                                        .d = b->d,
                                                        .kt = b->xt,
                                                        .ldk = b->ldt,
                                                        .q = b->src,
                                                        .bounded = 1,
                                                        .columns = (size_t)b->ldv,
                                                        .v = b->v,
                                                        .ldv = b->ldv,
                                                        .first = 1,
                                                        .max = b->den + 1,
                                                        .den = b->den,
                                                        .acc = b->acc,
                                                        .w = b->w});
    return (struct kernel_cost){2.0 * (double)(b->c * (b->d + b->dv)),
                                BYTES(b->c * (b->d + b->dv))};
}
KERNEL(softmax_decode)
{
    b->k->softmax_decode(&(const struct ARGS(softmax_decode)){.keys = b->c,
                                                              .d = b->d,
                                                              .k = b->src,
                                                              .stride = (ptrdiff_t)b->d,
                                                              .l2 = 1,
                                                              .q = b->den,
                                                              .bounded = 1,
                                                              .columns = (size_t)b->ldv,
                                                              .v = b->v,
                                                              .ldv = b->ldv,
                                                              .first = 1,
                                                              .max = b->den + 2 * b->ldt - 1,
                                                              .den = b->den + 2 * b->ldt - 2,
                                                              .acc = b->acc,
                                                              .kt = b->psi,
                                                              .scratch = b->w});
    return (struct kernel_cost){2.0 * (double)(b->c * (b->d + b->dv)),
                                BYTES(b->c * (b->d + b->dv))};
}
KERNEL(softmax_combine)
{
    b->k->softmax_combine((size_t)b->ldv, 0, 0, 1, b->acc, b->den + 1, b->den, b->acc);
    return (struct kernel_cost){0, BYTES(2 * b->dv)};
}
KERNEL(divide)
{
    b->k->divide(b->dv, b->acc, (T)3, b->dst);
    return (struct kernel_cost){0, BYTES(2 * b->dv)};
}

/* Every kernel of one table; false if one could not be timed. A kernel without a bench does not
 * compile. */
static bool S(kernel_table)(const struct kernel_table *table, const struct KERNELS *kernels)
{
    struct S(kernel_bench) bench;
    bool ok = S(kernel_bench_create)(&bench, kernels, table->problem, table->chunk);
#define TSA_KERNEL(result, name, args) ok = ok && kernel_time(table, #name, S(name), &bench);
#include "products.def"

#include "kernels.def"
    /* what softmax asks of `scores` and `window` */
    TSA_KERNEL(void, softmax_scores, ())
    TSA_KERNEL(void, softmax_values, ())
#undef TSA_KERNEL
    S(kernel_bench_destroy)(&bench);
    return ok;
}

#undef BYTES
#undef TRIANGLE
#undef KERNEL
