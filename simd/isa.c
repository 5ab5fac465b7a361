/* SPDX-License-Identifier: MIT */
/* The instruction sets: which tables of kernels make one, and what it asks of the CPU. */
#include "config.h"

#include "kernels.h"

#ifdef TSA_HAVE_AVX2
#include <cpuid.h>
#endif
#ifdef HAVE_GETAUXVAL
#include <sys/auxv.h>
#endif

/* The tables of a set's units. */
#define TABLES(set)                                                                                \
    extern const struct tsa_kernels_f32 tsa_kernels_##set##_f32;                                   \
    extern const struct tsa_kernels_f64 tsa_kernels_##set##_f64
#define PAIR_TABLE(unit) extern const struct tsa_pair_kernels_f32 tsa_kernels_##unit

/* Each has_...() asks for exactly the features that the compiler flags in m4/tsa_isa.m4 allow. The
 * builtin also asks whether the system saves the registers. */

#ifdef TSA_HAVE_AVX512
TABLES(avx512);

static bool has_avx512(void)
{
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
           __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl");
}

#ifdef TSA_HAVE_AVX512BF16
PAIR_TABLE(avx512_bf16);

static bool has_avx512_bf16(void) { return __builtin_cpu_supports("avx512bf16"); }
#endif

static const struct tsa_isa avx512 = {
    .name = "avx512",
    .exp = "Sleef_finz_exp_u10avx512f",
    .lanes = 16,
    .f32 = &tsa_kernels_avx512_f32,
    .f64 = &tsa_kernels_avx512_f64,
    .usable = has_avx512,
#ifdef TSA_HAVE_AVX512BF16 /* without it the pair kernels of AVX2 are as good */
    .hardware_pairs = &tsa_kernels_avx512_bf16,
    .has_hardware_pairs = has_avx512_bf16,
#endif
};
#endif

#ifdef TSA_HAVE_AVX2
TABLES(avx2);
PAIR_TABLE(avx2_bf16);

static bool has_avx2(void)
{
    unsigned a, b, c, d;

    /* the builtin of older compilers does not know F16C */
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
           __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C);
}

static const struct tsa_isa avx2 = {
    .name = "avx2",
    .exp = "Sleef_finz_exp_u10avx2",
    .lanes = 8,
    .f32 = &tsa_kernels_avx2_f32,
    .f64 = &tsa_kernels_avx2_f64,
    .pair_kernels = &tsa_kernels_avx2_bf16,
    .usable = has_avx2,
};
#endif

#ifdef TSA_HAVE_NEON
TABLES(neon);
PAIR_TABLE(neon_widened_bf16);

#if defined(TSA_HAVE_NEONBF16) && defined(HAVE_GETAUXVAL) && defined(HWCAP2_BF16)
#define HAVE_NEON_BF16
PAIR_TABLE(neon_bf16);

static bool has_neon_bf16(void) { return getauxval(AT_HWCAP2) & HWCAP2_BF16; }
#endif

/* every AArch64 CPU has it */
static const struct tsa_isa neon = {
    .name = "neon",
    .exp = "Sleef_finz_exp_u10advsimd",
    .lanes = 4,
    .f32 = &tsa_kernels_neon_f32,
    .f64 = &tsa_kernels_neon_f64,
    .pair_kernels = &tsa_kernels_neon_widened_bf16,
#ifdef HAVE_NEON_BF16
    .hardware_pairs = &tsa_kernels_neon_bf16,
    .has_hardware_pairs = has_neon_bf16,
#endif
};
#endif

TABLES(scalar);
PAIR_TABLE(scalar_bf16);

const struct tsa_isa tsa_isa_scalar = {
    .name = "scalar",
    .exp = "Sleef_finz_exp1_u10purecfma",
    .lanes = 1,
    .f32 = &tsa_kernels_scalar_f32,
    .f64 = &tsa_kernels_scalar_f64,
    .pair_kernels = &tsa_kernels_scalar_bf16,
};

const struct tsa_isa *const tsa_isas[] = {
#ifdef TSA_HAVE_AVX512
    &avx512,
#endif
#ifdef TSA_HAVE_AVX2
    &avx2,
#endif
#ifdef TSA_HAVE_NEON
    &neon,
#endif
    &tsa_isa_scalar, NULL, /* the end */
};
