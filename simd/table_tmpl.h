/* SPDX-License-Identifier: MIT */
/* All kernels for one arithmetic type, and their table. */

#include "element_tmpl.h"
#include TSA_VECTORS
typedef V vector;

/* operands of the products are elements */
#define O V
#define O_TOKENS TSA_TILE_TOKENS
#define o_load v_load
#define o_set1 v_set1
#define o_fma v_fma
#define o_fma1 s_fma
#define o_count(x, sum) v_add(sum, x)

#include "rows_tmpl.h"
#include "psi_tmpl.h"
#include "half_tmpl.h"
#include "features_tmpl.h"
#include "transpose_tmpl.h"
#include "exp_tmpl.h"
#include "state_tmpl.h"
#include "fold_tmpl.h"
#include "window_tmpl.h"
#include "decode_state_tmpl.h"
#include "decode_tmpl.h"
#include "softmax_tmpl.h"

/* in the order of the struct, which comes from the same list */
#define TSA_KERNEL(result, name, args) name,
#if TSA_F64
static const struct tsa_kernels_f64 table = {
#else
static const struct tsa_kernels_f32 table = {
#endif
#include "kernels.def"
};
#undef TSA_KERNEL
#undef O
#undef O_TOKENS
#undef o_load
#undef o_set1
#undef o_fma
#undef o_fma1
#undef o_count
#undef V
#undef VL
