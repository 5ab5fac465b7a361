/* SPDX-License-Identifier: MIT */
/* Tables of kernels, one per instruction set and arithmetic type. */
#ifndef TSA_KERNELS_H
#define TSA_KERNELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Rows of scratch and state are aligned to this many bytes, and padded to a multiple of it. */
#define TSA_ALIGN 64
/* No instruction set here has more lanes: 16 f32 or 8 f64. */
#define TSA_MAX_LANES 16
/* Scratch arrays with lanes = tokens have their tokens padded to a multiple of this. */
#define TSA_ROW_PAD 16

/* Tokens whose features, scores or keys are in L1 together. */
#define TSA_TILE_TOKENS 64
/* Most entries of a list of prefetches. */
#define TSA_PREFETCH_ROWS 16
/* Most rows that are normalised together. */
#define TSA_MOST_UNIT_ROWS 16
/* Monomials that are made together, of a degree above the stored ones. */
#define TSA_PIECE 48

/* The symmetric monomials of degrees 0..terms-1 in d variables, ascending degree, each degree in
 * lexicographic order of its index tuple i1 <= ... <= im. */
struct tsa_monomials {
    size_t d, terms;
    size_t total;         /* F */
    size_t lower;         /* monomials of degrees 1..terms-2, at least d */
    size_t stored;        /* base[] with lanes = tokens holds degrees 1..stored */
    size_t base, rows;    /* rows of base[]: those of degrees 1..stored; scratch rows included */
    size_t start[10];     /* start[m]: first feature of degree m; start[terms] = total */
    const size_t *suffix; /* suffix[m*(d+1)+i]: position within degree m of the first tuple whose
                             first index is >= i, for 0 <= i <= d; degree m has
                             suffix[m*(d+1)+d] tuples */
};

/* Memory that the caller will soon touch, in lines of TSA_ALIGN bytes: a long kernel prefetches
 * `budget` of them, a few after each register tile, so that they arrive while it computes. */
struct tsa_prefetch {
    size_t budget;
    struct tsa_prefetch_rows {
        const char *row;
        ptrdiff_t stride; /* to the next row, in bytes */
        size_t rows;      /* that are left, this one included */
        size_t lines;     /* of each row */
        size_t line;      /* the next one of this row */
        bool write;
    } rows[TSA_PREFETCH_ROWS];
    size_t count; /* the last of rows[] comes first */
};

/* What becomes of a score x: p(x), x itself, or exp(x) where x is bounded. */
enum tsa_score_kind { TSA_SCORE_SERIES, TSA_SCORE_ONLY, TSA_SCORE_EXP };

#define TSA_ARGS_F32(name) tsa_##name##_args_f32
#define TSA_ARGS_F64(name) tsa_##name##_args_f64
#define TSA_KERNEL(result, name, args) result(*name) args;

#define T float
#define ARGS TSA_ARGS_F32
#include "args_tmpl.h"
struct tsa_products_f32 {
#include "products.def"
};
struct tsa_kernels_f32 {
    unsigned lanes; /* of a vector */
    struct tsa_products_f32 products;
#include "kernels.def"
};
/* Products of pairs of bf16, added in f32. */
struct tsa_pair_kernels_f32 {
    const char *name;
    unsigned lanes;
    bool fast; /* a pair is multiplied in the time of an element */
    struct tsa_products_f32 products;
#include "pairs.def"
};
#undef T
#undef ARGS
#define T double
#define ARGS TSA_ARGS_F64
#include "args_tmpl.h"
struct tsa_products_f64 {
#include "products.def"
};
struct tsa_kernels_f64 {
    unsigned lanes;
    struct tsa_products_f64 products;
#include "kernels.def"
};
struct tsa_pair_kernels_f64 { /* never filled */
    struct tsa_products_f64 products;
#include "pairs.def"
};
#undef T
#undef ARGS
#undef TSA_KERNEL

struct tsa_isa {
    const char *name;
    const char *exp; /* name of the exponential used */
    unsigned lanes;  /* of f32 */
    const struct tsa_kernels_f32 *f32;
    const struct tsa_kernels_f64 *f64;
    /* For pairs of bf16: a table for any CPU of the set, or NULL if that of a lesser set is as
     * good; and one for CPUs with instructions for pairs, as has_hardware_pairs() says, or NULL. */
    const struct tsa_pair_kernels_f32 *pair_kernels, *hardware_pairs;
    bool (*usable)(void); /* NULL: every CPU that the library is built for */
    bool (*has_hardware_pairs)(void);
};

extern const struct tsa_isa *const tsa_isas[]; /* that are built, best first; then NULL */
extern const struct tsa_isa tsa_isa_scalar;

#endif
