/* SPDX-License-Identifier: MIT */
/* The AVX-512 kernels: built with TSA_AVX512_CFLAGS, reached through tsa_isa_avx512. */
#if !defined(__AVX512F__) || !defined(__AVX512DQ__) || !defined(__AVX512BW__) ||                   \
    !defined(__AVX512VL__) || !defined(__FMA__)
#error "isa_avx512.c must be built with TSA_AVX512_CFLAGS"
#endif
#include <immintrin.h>

#define TSA_ISA_NAME avx512
#define TSA_ISA_EXP "Sleef_finz_exp_u10avx512f"
#define TSA_ISA_PAIR_KERNELS 0 /* without AVX512_BF16 those of AVX2 are as good */
#define TSA_VECTORS "v_avx512.h"
#include "tiles_32.h"
#include "isa_tmpl.h"
