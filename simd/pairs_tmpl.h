/* SPDX-License-Identifier: MIT */
/* All kernels for pairs of bf16, added in f32, and their table, of which the unit says
 *   TSA_TABLE        the symbol
 *   TSA_TABLE_NAME   the name that it goes by
 *   TSA_TABLE_FAST   is a pair multiplied in the time of an element?
 * The templates of products are those of f32 with other operands: pairs in an element's place. For
 * these the unit has
 *   O                what o_fma multiplies, a vector of pairs
 *   o_load, o_set1   of pairs in memory; of one pair in all lanes; o_from(x): of a V of pairs
 *   o_fma(a, b, c)   fma(a.even, b.even, fma(a.odd, b.odd, c)); o_fma1 of one lane
 *   o_count(x, sum)  o_fma of the pairs x with pairs of ones
 *   v_pair           as in v_scalar.h; v_pair_columns(a, b) of neighbouring lanes of a, then b */

#define TSA_OPERAND_PAIRS 1
#define O_TOKENS (TSA_TILE_TOKENS / 2)

#include "tile_tmpl.h"

#include "psi_tmpl.h"
#include "psi_pairs_tmpl.h"
#include "query_tmpl.h"
#include "update_tmpl.h"
#include "decode_step_tmpl.h"
#include "decode_state_tmpl.h"
#include "transpose_tmpl.h"
#include "round_tmpl.h"

extern const struct tsa_pair_kernels_f32 TSA_TABLE;
const struct tsa_pair_kernels_f32 TSA_TABLE = {
    .name = TSA_TABLE_NAME,
    .lanes = VL,
    .fast = TSA_TABLE_FAST,
#define TSA_KERNEL(result, name, args) .name = name,
    .products =
        {
#include "products.def"
        },
#include "pairs.def"
};
