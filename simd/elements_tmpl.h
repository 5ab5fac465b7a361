/* SPDX-License-Identifier: MIT */
/* All kernels for one arithmetic type, and their table, TSA_TABLE. */

/* operands of the products are elements */
#define TSA_OPERAND_PAIRS 0
#define O V
#define O_TOKENS TSA_TILE_TOKENS
#define o_load v_load
#define o_from(x) (x)
#define o_set1 v_set1
#define o_fma v_fma
#define o_fma1 s_fma
#define o_count(x, sum) v_add(sum, x)

#include "tile_tmpl.h"

#include "rows_tmpl.h"
#include "half_tmpl.h"
#include "unit_rows_tmpl.h"
#include "psi_tmpl.h"
#include "features_tmpl.h"
#include "query_tmpl.h"
#include "update_tmpl.h"
#include "transpose_tmpl.h"
#include "fold_tmpl.h"
#include "gates_tmpl.h"
#include "exp_tmpl.h"
#include "scores_tmpl.h"
#include "window_tmpl.h"
#include "finish_tmpl.h"
#include "decode_scores_tmpl.h"
#include "decode_step_tmpl.h"
#include "decode_heads_tmpl.h"
#include "softmax_tmpl.h"
#include "softmax_row_tmpl.h"
#include "softmax_decode_tmpl.h"

#if TSA_F64
extern const struct tsa_kernels_f64 TSA_TABLE;
const struct tsa_kernels_f64 TSA_TABLE = {
#else
extern const struct tsa_kernels_f32 TSA_TABLE;
const struct tsa_kernels_f32 TSA_TABLE = {
#endif
#define TSA_KERNEL(result, name, args) .name = name,
    .lanes = VL,
    .products =
        {
#include "products.def"
        },
#include "kernels.def"
};
