/* SPDX-License-Identifier: MIT */
/* Products of pairs by AVX512_BF16: built with TSA_AVX512BF16_CFLAGS, for plans on AVX-512. */
#if !defined(__AVX512BF16__) || !defined(__AVX512BW__) || !defined(__AVX512VL__)
#error "pairs_avx512bf16.c must be built with TSA_AVX512BF16_CFLAGS"
#endif
#include <immintrin.h>

#define TSA_VECTORS "v_avx512.h"
#include "tiles_32.h"
#include "unit.h"

#define TSA_PAIR_TABLE const struct tsa_pair_kernels_f32 tsa_pair_kernels_avx512bf16
#define TSA_PAIR_NAME "avx512_bf16"
#define TSA_PAIR_FAST true
#include "pairs_tmpl.h"
