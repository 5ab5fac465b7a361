/* SPDX-License-Identifier: MIT */
/* Every entry of a table of products of pairs of bf16, on the sizes of one chunk of a problem.
 * Useful operations are those of the elements, two for each product, as for the other kernels. */
#include "config.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "kernel_bench.h"

enum { MOST_ARRAYS = 20, MOST_FEATURES = 512, LDT = TSA_TILE_TOKENS, LDP = TSA_TILE_TOKENS / 2 };

#define ARGS TSA_ARGS_F32

struct pairs_bench {
    const struct tsa_pair_kernels_f32 *k;
    size_t c, dv, features;
    size_t token_pairs, feature_pairs;
    ptrdiff_t ldv;
    float *psi, *phi, *hi_pairs, *one_psi, *ones_pairs, *v_pairs; /* of pairs */
    struct tsa_monomials mono;
    size_t *suffix;
    float *base, *weight, *features_in, *v_in, *hi, *lo, *local, *acc, *ones, *den;
    void *memory[MOST_ARRAYS];
    int arrays;
};

static float *block(struct pairs_bench *b, size_t count)
{
    float *p = bench_memory((count + 64) * sizeof *p);
    if (!p)
        return NULL;
    uint32_t seed = 1;
    for (size_t i = 0; i < count + 64; i++) {
        seed = seed * 1664525u + 1013904223u;
        p[i] = 0.25f + 0.5f * (float)(seed >> 8) * 0x1p-24f;
    }
    b->memory[b->arrays++] = p;
    return p;
}

/* Pairs of what block() makes: the upper half of each float is a bf16. */
static float *block_of_pairs(struct pairs_bench *b, size_t count)
{
    float *p = block(b, count);
    for (size_t i = 0; p && i < count + 64; i++) {
        uint32_t bits;
        memcpy(&bits, &p[i], sizeof bits);
        bits = (bits & 0xffff0000u) | bits >> 16;
        memcpy(&p[i], &bits, sizeof bits);
    }
    return p;
}

static void destroy(struct pairs_bench *b)
{
    for (int i = 0; i < b->arrays; i++)
        free(b->memory[i]);
    free(b->suffix);
}

static bool create(struct pairs_bench *b, const struct tsa_pair_kernels_f32 *k,
                   const struct bench_problem *p, size_t chunk)
{
    const size_t total = tsa_features(p->d, p->terms);
    memset(b, 0, sizeof *b);
    b->k = k;
    b->c = chunk < TSA_TILE_TOKENS ? chunk : TSA_TILE_TOKENS;
    b->dv = p->dv;
    b->features = total < MOST_FEATURES ? total : MOST_FEATURES;
    b->token_pairs = (b->c + 1) / 2;
    b->feature_pairs = (b->features + 1) / 2;
    b->ldv = (ptrdiff_t)tsa_round_up(p->dv, TSA_ROW_PAD);
    const size_t ldv = (size_t)b->ldv, f = tsa_round_up(b->features, TSA_ROW_PAD);
    b->psi = block_of_pairs(b, b->feature_pairs * LDT);
    b->phi = block_of_pairs(b, f * LDP);
    b->hi_pairs = block_of_pairs(b, b->feature_pairs * ldv);
    b->one_psi = block_of_pairs(b, b->feature_pairs);
    b->ones_pairs = block_of_pairs(b, b->feature_pairs + ldv);
    b->v_pairs = block_of_pairs(b, LDP * ldv);
    b->features_in = block(b, f * LDT);
    b->v_in = block(b, LDT * ldv);
    b->hi = block(b, f * ldv);
    b->lo = block(b, f * ldv);
    b->local = block(b, f * ldv);
    b->acc = block(b, LDT * ldv);
    b->ones = block(b, f);
    b->den = block(b, LDT);
    if (!tsa_monomials_init(&b->mono, p->d, p->terms))
        return false;
    b->suffix = bench_memory(tsa_monomials_suffix_count(p->d, p->terms) * sizeof *b->suffix);
    if (!b->suffix)
        return false;
    tsa_monomials_fill_suffix(&b->mono, b->suffix);
    b->base = block(b, b->mono.rows * LDT);
    b->weight = block(b, b->mono.total);
    return b->arrays == 16;
}

#define BYTES(count) ((double)(count) * sizeof(float))
#define KERNEL(name)                                                                               \
    static struct kernel_cost call_##name(struct pairs_bench *b);                                  \
    static struct kernel_cost name(void *operands)                                                 \
    {                                                                                              \
        return call_##name(operands);                                                              \
    }                                                                                              \
    static struct kernel_cost call_##name(struct pairs_bench *b)

KERNEL(query)
{
    b->k->products.query(&(const struct ARGS(query)){.tokens = b->c,
                                                     .columns = (size_t)b->ldv,
                                                     .features = b->feature_pairs,
                                                     .psi = b->psi,
                                                     .ldp = LDT,
                                                     .hi = b->hi_pairs,
                                                     .ldh = b->ldv,
                                                     .acc = b->acc,
                                                     .lda = b->ldv,
                                                     .first = 1});
    return (struct kernel_cost){2.0 * (double)(b->c * b->dv * b->features),
                                BYTES(b->feature_pairs * (b->dv + b->c))};
}
KERNEL(query_ones)
{
    b->k->products.query_ones(b->c, b->feature_pairs, b->psi, LDT, b->ones_pairs, b->den, 1);
    return (struct kernel_cost){2.0 * (double)(b->c * b->features), BYTES(b->feature_pairs * b->c)};
}
KERNEL(update)
{
    b->k->products.update(&(const struct ARGS(update)){.features = b->features,
                                                       .columns = (size_t)b->ldv,
                                                       .tokens = b->token_pairs,
                                                       .phi = b->phi,
                                                       .v = b->v_pairs,
                                                       .ldv = b->ldv,
                                                       .local = b->local,
                                                       .ldl = b->ldv,
                                                       .first = 1});
    return (struct kernel_cost){2.0 * (double)(b->c * b->dv * b->features),
                                BYTES(b->features * (b->dv + b->token_pairs))};
}
KERNEL(update_fold)
{
    b->k->products.update_fold(&(const struct ARGS(update_fold)){.features = b->features,
                                                                 .columns = (size_t)b->ldv,
                                                                 .tokens = b->token_pairs,
                                                                 .phi = b->phi,
                                                                 .v = b->v_pairs,
                                                                 .ldv = b->ldv,
                                                                 .hi = b->hi,
                                                                 .lo = b->lo,
                                                                 .e = 1,
                                                                 .ldh = b->ldv});
    return (struct kernel_cost){2.0 * (double)(b->c * b->dv * b->features),
                                BYTES(b->features * (4 * b->dv + b->token_pairs))};
}
KERNEL(decode_state)
{
    const float *const hi[1] = {b->hi_pairs}, *const ones[1] = {b->ones_pairs};
    b->k->decode_state(&(const struct ARGS(decode_state)){.heads = 1,
                                                          .columns = (size_t)b->ldv,
                                                          .features = b->feature_pairs,
                                                          .psi = b->one_psi,
                                                          .hi = hi,
                                                          .ldh = b->ldv,
                                                          .ones = ones,
                                                          .acc = b->acc,
                                                          .lda = b->ldv,
                                                          .den = b->den,
                                                          .first = 1});
    return (struct kernel_cost){2.0 * (double)(b->features * (b->dv + 1)),
                                BYTES(b->feature_pairs * (b->dv + 1))};
}
KERNEL(transpose)
{
    b->k->products.transpose(&(const struct ARGS(transpose)){.features = b->features,
                                                             .tokens = b->token_pairs,
                                                             .in = b->phi,
                                                             .ldi = LDP,
                                                             .sum = b->ones,
                                                             .first = 1});
    return (struct kernel_cost){(double)(b->features * b->c), BYTES(b->features * b->token_pairs)};
}
KERNEL(pair_rows)
{
    b->k->pair_rows(b->c, (size_t)b->ldv, b->v_in, b->ldv, b->v_pairs, b->ldv);
    return (struct kernel_cost){0, BYTES((b->c + b->token_pairs) * b->dv)};
}
KERNEL(pair_cols)
{
    b->k->pair_cols(b->features, b->c, b->features_in, LDT, b->phi, LDP);
    return (struct kernel_cost){0, BYTES(b->features * (b->c + b->token_pairs))};
}

KERNEL(psi_pairs)
{
    b->k->psi_pairs(&(const struct ARGS(psi)){.mono = &b->mono,
                                              .f1 = b->features,
                                              .tokens = b->c,
                                              .base = b->base,
                                              .ldb = LDT,
                                              .weight = b->weight,
                                              .psi = b->psi,
                                              .ldp = LDT});
    return (struct kernel_cost){2.0 * (double)(b->features * b->c),
                                BYTES((b->features + b->feature_pairs) * b->c)};
}
KERNEL(phi_pairs)
{
    b->k->phi_pairs(&(const struct ARGS(psi)){.mono = &b->mono,
                                              .f1 = b->features,
                                              .tokens = b->c,
                                              .base = b->base,
                                              .ldb = LDT,
                                              .psi = b->phi,
                                              .ldp = LDP});
    return (struct kernel_cost){(double)(b->features * b->c),
                                BYTES(b->features * (b->c + b->token_pairs))};
}

bool kernel_table_pairs(const struct kernel_table *table, const struct tsa_pair_kernels_f32 *pairs)
{
    struct pairs_bench bench;
    bool ok = create(&bench, pairs, table->problem, table->chunk);
#define TSA_KERNEL(result, name, args) ok = ok && kernel_time(table, #name, name, &bench);
#include "products.def"

#include "pairs.def"
#undef TSA_KERNEL
    destroy(&bench);
    return ok;
}
