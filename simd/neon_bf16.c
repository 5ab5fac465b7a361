/* SPDX-License-Identifier: MIT */
/* The kernels for pairs of bf16 by BFMLALB and BFMLALT (FEAT_BF16), built with TSA_NEONBF16_CFLAGS.
 * Not by BFDOT: it rounds otherwise. */
#if !defined(__ARM_FEATURE_BF16_VECTOR_ARITHMETIC)
#error "neon_bf16.c must be built with TSA_NEONBF16_CFLAGS"
#endif
#define TSA_TABLE tsa_kernels_neon_bf16
#define TSA_TABLE_NAME "neon_bf16"
#define TSA_TABLE_FAST false /* two instructions per pair, of as many lanes as an fma */
#include "f32.h"
#include "v_neon.h"

#define O bfloat16x8_t
static inline O o_from(V bits) { return vreinterpretq_bf16_f32(bits); }
static inline O o_load(const T *p) { return o_from(v_load(p)); }
static inline O o_set1(T pair) { return o_from(v_set1(pair)); }
static inline V o_fma(O a, O b, V c) { return vbfmlalbq_f32(vbfmlaltq_f32(c, a, b), a, b); }
static inline T o_fma1(T a, T b, T c)
{
    return vgetq_lane_f32(o_fma(o_set1(a), o_set1(b), v_set1(c)), 0);
}
static inline V o_count(V x, V sum) { return v_add(v_add(sum, v_pair_odd(x)), v_pair_even(x)); }
static inline V v_pair_columns(V a, V b) { return v_pair(v_evens(a, b), v_odds(a, b)); }

#include "pairs_tmpl.h"
