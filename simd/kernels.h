/* SPDX-License-Identifier: MIT */
/* Tables of kernels, one per instruction set and arithmetic type. */
#ifndef TSA_KERNELS_H
#define TSA_KERNELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Rows of scratch and state are padded to a multiple of this many bytes, and aligned to it. */
#define TSA_ALIGN 64
/* No instruction set here has more lanes: 16 f32 or 8 f64. */
#define TSA_MAX_LANES 16
/* Rows rounded up to this stay inside every scratch array with lanes = tokens. */
#define TSA_ROW_PAD 16

/* Tokens whose features, scores or keys are in L1 together. */
#define TSA_TILE_TOKENS 64
/* Arrays that can be prefetched. */
#define TSA_PREFETCH_ROWS 16
/* Monomials of a degree above those stored that are made together. */
#define TSA_PIECE 48

/* The symmetric monomials of degrees 0..terms-1 in d variables, ascending degree, each degree in
 * lexicographic order of its index tuple i1 <= ... <= im. */
struct tsa_monomials {
    size_t d, terms;
    size_t total;         /* F */
    size_t lower;         /* monomials of degrees 1..terms-2, at least d */
    size_t stored;        /* of them, degrees that stay in base[] with lanes = tokens: 1..stored */
    size_t base, rows;    /* rows of base[]: monomials stored; with the scratch of higher ones */
    size_t start[10];     /* start[m]: first feature of degree m; start[terms] = total */
    const size_t *suffix; /* suffix[m*(d+1)+i]: position within degree m of the first tuple whose
                             first index is >= i, for 0 <= i <= d; degree m has
                             suffix[m*(d+1)+d] tuples */
};

/* Memory that the caller will soon touch, in lines of TSA_ALIGN bytes: a long kernel asks for
 * `budget` of them, a few per register tile, so that they arrive while it computes. */
struct tsa_prefetch {
    size_t budget;
    struct tsa_prefetch_rows {
        const char *row;
        ptrdiff_t stride;   /* to the next row, in bytes */
        size_t rows, lines; /* to go; of one row */
        size_t line;        /* of the row under way */
        bool write;
    } rows[TSA_PREFETCH_ROWS];
    size_t count; /* the last of rows[] comes first */
};

#define T float
#define TSA_KERNEL(result, name, args) result(*name) args;
struct tsa_kernels_f32 {
#include "kernels.def"
};
/* Products of pairs of bf16, added in f32. */
struct tsa_pair_kernels_f32 {
    const char *name;
    unsigned lanes;
    bool fast; /* a pair is multiplied in the time of an element */
#include "products.def"
#include "pairs.def"
};
#undef T
#define T double
struct tsa_kernels_f64 {
#include "kernels.def"
};
struct tsa_pair_kernels_f64 { /* never filled */
#include "products.def"
#include "pairs.def"
};
#undef TSA_KERNEL
#undef T

struct tsa_isa {
    const char *name;
    const char *exp; /* name of the exponential used */
    unsigned lanes;  /* of f32 */
    const struct tsa_kernels_f32 *f32;
    const struct tsa_kernels_f64 *f64;
    const struct tsa_pair_kernels_f32
        *pair_kernels; /* that need no more; NULL: those of a lesser set */
};

extern const struct tsa_isa tsa_isa_scalar;
extern const struct tsa_isa tsa_isa_avx512;
extern const struct tsa_isa tsa_isa_avx2;
extern const struct tsa_isa tsa_isa_neon;
/* With dot products of bf16 in hardware. */
extern const struct tsa_pair_kernels_f32 tsa_pair_kernels_avx512bf16;
extern const struct tsa_pair_kernels_f32 tsa_pair_kernels_neonbf16;

#endif
