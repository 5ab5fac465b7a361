/* SPDX-License-Identifier: MIT */
/* Products of pairs by BFMLALB and BFMLALT (FEAT_BF16): built with TSA_NEONBF16_CFLAGS, for plans
 * on NEON. BFDOT is no choice: it rounds otherwise. */
#if !defined(__aarch64__) || !defined(__ARM_FEATURE_BF16_VECTOR_ARITHMETIC)
#error "pairs_neonbf16.c must be built with TSA_NEONBF16_CFLAGS"
#endif
#include <arm_neon.h>

#define TSA_VECTORS "v_neon.h"
#include "tiles_32.h"
#include "unit.h"

#define TSA_PAIR_TABLE const struct tsa_pair_kernels_f32 tsa_pair_kernels_neonbf16
#define TSA_PAIR_NAME "neon_bf16"
#define TSA_PAIR_FAST false /* two instructions per pair, of as many lanes as an fma */
#include "pairs_tmpl.h"
