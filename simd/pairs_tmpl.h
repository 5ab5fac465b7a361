/* SPDX-License-Identifier: MIT */
/* All kernels for pairs of bf16, added in f32, and their table, which the unit names:
 *   TSA_PAIR_TABLE   its declaration
 *   TSA_PAIR_NAME    its name
 *   TSA_PAIR_FAST    is a pair multiplied in the time of an element?
 * The templates of products are those of float with other operands: a pair in an element's place,
 * of which o_load() and o_set1() make what o_fma() multiplies. */

#define T float
#define TSA_F64 0
#define TSA_OPERAND_PAIRS 1
#define TSA_NAME(name) name##_pairs

#include "element_tmpl.h"
#include TSA_VECTORS
#define O_TOKENS (TSA_TILE_TOKENS / 2)

#include "psi_tmpl.h"
#include "state_tmpl.h"
#include "decode_state_tmpl.h"
#include "transpose_tmpl.h"
#include "round_tmpl.h"

/* in the order of the struct, which comes from the same lists */
#define TSA_KERNEL(result, name, args) name,
TSA_PAIR_TABLE = {
    TSA_PAIR_NAME,
    sizeof(V) / sizeof(T),
    TSA_PAIR_FAST,
#include "products.def"
#include "pairs.def"
};
#undef TSA_KERNEL
#undef O_TOKENS
#undef O
#undef V
#undef VL
#undef TSA_NAME
#undef TSA_OPERAND_PAIRS
#undef TSA_F64
#undef T
