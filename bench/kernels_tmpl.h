/* SPDX-License-Identifier: MIT */
/* One call and its cost for every kernel, for one arithmetic type. Kernels of the state take padded
 * columns; useful operations count the columns there are. The includer defines T, S(name)
 * (the name with a suffix) and KERNELS (the struct of the table). */

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
    b->k->psi_t(&b->mono, 0, b->features, b->c, b->base, b->ldt, b->weight, b->psi, b->ldt);
    return (struct kernel_cost){2.0 * (double)(b->features * b->c), BYTES(b->features * b->c)};
}
KERNEL(transpose)
{
    b->k->transpose(b->features, b->c, b->psi, b->ldt, b->ones, 1, NULL, 0);
    return (struct kernel_cost){(double)(b->features * b->c), BYTES(b->features * b->c)};
}
KERNEL(psi_k)
{
    b->k->psi_k(&b->mono, b->one_base, b->weight, b->one_psi);
    return (struct kernel_cost){2.0 * (double)b->mono.total, BYTES(2 * b->mono.total)};
}
KERNEL(query)
{
    b->k->query(b->c, (size_t)b->ldv, b->features, b->psi, b->ldt, b->hi, b->ldv, b->acc, b->ldv, 1,
                NULL);
    return (struct kernel_cost){2.0 * (double)(b->c * b->dv * b->features),
                                BYTES(b->features * (b->dv + b->c))};
}
KERNEL(query_ones)
{
    b->k->query_ones(b->c, b->features, b->psi, b->ldt, b->ones, b->den, 1);
    return (struct kernel_cost){2.0 * (double)(b->c * b->features), BYTES(b->features * b->c)};
}
KERNEL(update)
{
    b->k->update(b->features, (size_t)b->ldv, b->c, b->psi, b->v, b->ldv, b->local, b->ldv, 1,
                 NULL);
    return (struct kernel_cost){2.0 * (double)(b->c * b->dv * b->features),
                                BYTES(b->features * (b->dv + b->c))};
}
KERNEL(update_fold)
{
    b->k->update_fold(b->features, (size_t)b->ldv, b->c, b->psi, b->v, b->ldv, NULL, 0, b->hi,
                      b->lo, b->ldv, NULL, NULL);
    return (struct kernel_cost){2.0 * (double)(b->c * b->dv * b->features),
                                BYTES(b->features * (4 * b->dv + b->c))};
}
KERNEL(fold)
{
    const size_t count = b->features * (size_t)b->ldv;
    b->k->fold(count, b->hi, b->lo, b->local, NULL);
    return (struct kernel_cost){0, BYTES(5 * count)};
}
KERNEL(merge)
{
    const size_t count = b->features * (size_t)b->ldv;
    b->k->merge(count, b->hi, b->lo, b->local, b->local);
    return (struct kernel_cost){0, BYTES(6 * count)};
}
KERNEL(scores)
{
    b->k->scores(b->c, b->c, b->d, b->xt, b->ldt, b->base, b->ldt, b->terms, b->coef, b->w, b->ldt,
                 0);
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
    b->k->window(b->c, b->dv, b->c, 0, b->w, b->ldt, b->v, b->ldv, b->acc, b->ldv, 0, b->den,
                 b->dst, (ptrdiff_t)b->dv);
    return (struct kernel_cost){2 * TRIANGLE(b) * (double)b->dv, BYTES(b->c * (b->c + 3 * b->dv))};
}
KERNEL(decode_state)
{
    const T *const hi[1] = {b->hi}, *const ones[1] = {b->ones};
    b->k->decode_state(1, (size_t)b->ldv, b->features, b->one_psi, 0, hi, b->ldv, ones, b->acc,
                       b->ldv, b->den, 1);
    return (struct kernel_cost){2.0 * (double)(b->features * (b->dv + 1)),
                                BYTES(b->features * (b->dv + 1))};
}
KERNEL(decode_scores)
{
    b->k->decode_scores(b->c, b->d, b->xt, b->ldt, b->src, b->terms, b->coef, b->w);
    return (struct kernel_cost){2.0 * (double)(b->c * (b->d + b->terms - 1)), BYTES(b->c * b->d)};
}
KERNEL(decode_window)
{
    b->k->decode_window(b->dv, b->c, b->w, b->v, b->ldv, b->acc, (T)1, 0, b->dst);
    return (struct kernel_cost){2.0 * (double)(b->c * b->dv), BYTES(b->c * b->dv)};
}
KERNEL(exp_bounded)
{
    const size_t count = b->c * (size_t)b->ldt;
    b->k->exp_bounded(count, b->w, b->w + count);
    return (struct kernel_cost){0, BYTES(2 * count)};
}
KERNEL(softmax_scores)
{
    b->k->softmax_scores(b->c, b->c, b->d, b->xt, b->ldt, b->base, b->ldt, b->w, b->ldt,
                         (ptrdiff_t)b->c, 1);
    return (struct kernel_cost){2.0 * (double)(b->c * b->c * b->d),
                                BYTES(2 * b->c * b->d + b->c * b->c)};
}
KERNEL(softmax_weights)
{
    b->k->softmax_weights(b->c, b->c, b->w, b->ldt, (ptrdiff_t)b->c, 1, b->den + b->ldt, b->den,
                          b->den + 2 * b->ldt);
    return (struct kernel_cost){0, BYTES(3 * b->c * b->c)};
}
KERNEL(softmax_values)
{
    b->k->softmax_values(b->c, (size_t)b->ldv, b->c, (ptrdiff_t)b->c, b->w, b->ldt, b->v, b->ldv,
                         b->acc, b->ldv, 1, NULL);
    return (struct kernel_cost){2.0 * (double)(b->c * b->c * b->dv),
                                BYTES(b->c * (b->c + 2 * b->dv))};
}
KERNEL(softmax_row)
{
    b->k->softmax_row(b->c, b->d, b->xt, b->ldt, b->src, 1, (size_t)b->ldv, b->v, b->ldv, 1,
                      b->den + 1, b->den, b->acc, b->w);
    return (struct kernel_cost){2.0 * (double)(b->c * (b->d + b->dv)),
                                BYTES(b->c * (b->d + b->dv))};
}
KERNEL(softmax_decode)
{
    b->k->softmax_decode(b->c, b->d, b->src, (ptrdiff_t)b->d, 1, b->den, 1, (size_t)b->ldv, b->v,
                         b->ldv, 1, b->den + 2 * b->ldt - 1, b->den + 2 * b->ldt - 2, b->acc,
                         b->psi, b->w);
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
#include "kernels.def"
#undef TSA_KERNEL
    S(kernel_bench_destroy)(&bench);
    return ok;
}

#undef BYTES
#undef TRIANGLE
#undef KERNEL
