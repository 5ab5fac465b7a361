/* SPDX-License-Identifier: MIT */
/* Tables of kernels, one per instruction set and arithmetic type. */
#ifndef TSA_KERNELS_H
#define TSA_KERNELS_H

#include <stddef.h>
#include <stdint.h>

/* Rows of scratch and state are padded to a multiple of this many bytes, and aligned to it. */
#define TSA_ALIGN 64
/* No instruction set here has more lanes: 16 f32 or 8 f64. */
#define TSA_MAX_LANES 16
/* Rows rounded up to this stay inside every scratch array with lanes = tokens. */
#define TSA_ROW_PAD 16

/* The symmetric monomials of degrees 0..terms-1 in d variables, ascending degree, each degree in
 * lexicographic order of its index tuple i1 <= ... <= im. */
struct tsa_monomials {
    size_t d, terms;
    size_t total;         /* F */
    size_t base;          /* rows of base[]: monomials of degrees 1..terms-2, at least d */
    size_t start[10];     /* start[m]: first feature of degree m; start[terms] = total */
    const size_t *suffix; /* suffix[m*(d+1)+i]: position within degree m of the first tuple whose
                             first index is >= i, for 0 <= i <= d; degree m has
                             suffix[m*(d+1)+d] tuples */
};

#define T float
#define TSA_KERNEL(result, name, args) result(*name) args;
struct tsa_kernels_f32 {
#include "kernels.def"
};
#undef T
#define T double
struct tsa_kernels_f64 {
#include "kernels.def"
};
#undef TSA_KERNEL
#undef T

struct tsa_isa {
    const char *name;
    const char *exp; /* name of the exponential used */
    unsigned lanes;  /* of f32 */
    const struct tsa_kernels_f32 *f32;
    const struct tsa_kernels_f64 *f64;
};

extern const struct tsa_isa tsa_isa_scalar;
extern const struct tsa_isa tsa_isa_avx512;
extern const struct tsa_isa tsa_isa_avx2;
extern const struct tsa_isa tsa_isa_neon;

#endif
