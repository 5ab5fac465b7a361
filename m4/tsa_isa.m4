# SPDX-License-Identifier: MIT
# Instruction sets: which units of kernels are built, and with which flags.
#
# TSA_ISA_BEGIN reads --enable-simd, one TSA_ISA_<NAME> follows per instruction set that has
# units simd/<name>_*.c, and TSA_ISA_END refuses the names that are left over. Each sets
# TSA_<NAME>_CFLAGS, the conditional and the macro TSA_HAVE_<NAME>. What simd/isa.c asks of the CPU
# at run time must be what the flags here let the compiler use.

AC_DEFUN([TSA_ISA_ALL],
[TSA_ISA_BEGIN
TSA_ISA_AVX512
TSA_ISA_AVX2
TSA_ISA_NEON
TSA_ISA_END
TSA_PAIRS_AVX512BF16
TSA_PAIRS_NEONBF16
AC_SUBST([TSA_ISAS_BUILT], ["scalar$tsa_isa_built"])
AC_SUBST([TSA_PAIRS_BUILT], ["$tsa_pairs_built"])
])

AC_DEFUN([TSA_ISA_BEGIN],
[AC_ARG_ENABLE([simd],
  [AS_HELP_STRING([--enable-simd=auto|none|LIST],
    [instruction sets to build besides scalar code: all that the compiler can do (auto, the
     default), none, or names with commas between them, each then required])],
  [], [enable_simd=auto])
AS_CASE([$enable_simd], [yes|''], [enable_simd=auto], [no], [enable_simd=none])
tsa_isa_known=
tsa_isa_built=
tsa_pairs_built=
])

# TSA_ISA(name, NAME, flags, flags to add where the compiler knows them, prologue, body)
# The program must link with an intrinsic of every feature that the flags name.
AC_DEFUN([TSA_ISA],
[tsa_isa_known="$tsa_isa_known $1"
tsa_isa_wanted=no
tsa_isa_required=no
AS_CASE([",$enable_simd,"],
  [,auto,], [tsa_isa_wanted=yes],
  [*,$1,*], [tsa_isa_wanted=yes tsa_isa_required=yes])
tsa_isa_have=no
TSA_$2_CFLAGS=
AS_IF([test $tsa_isa_wanted = yes],
  [AC_CACHE_CHECK([whether $CC can build $1 kernels], [tsa_cv_isa_$1],
    [tsa_save_CFLAGS=$CFLAGS
     CFLAGS="$TSA_CFLAGS $3 $tsa_save_CFLAGS"
     AC_LINK_IFELSE([AC_LANG_PROGRAM([$5], [$6])], [tsa_cv_isa_$1=yes], [tsa_cv_isa_$1=no])
     CFLAGS=$tsa_save_CFLAGS])
   tsa_isa_have=$tsa_cv_isa_$1
   AS_IF([test $tsa_isa_have = yes],
     [tsa_isa_flags="$3"
      m4_ifnblank([$4], [TSA_TRY_FLAG([$4], [tsa_isa_flags="$tsa_isa_flags $4"])])
      TSA_$2_CFLAGS=$tsa_isa_flags
      tsa_isa_built="$tsa_isa_built $1"
      AC_DEFINE([TSA_HAVE_$2], [1], [Define if the $1 kernels are built.])],
     [test $tsa_isa_required = yes],
     [AC_MSG_ERROR([--enable-simd asks for $1, but "$CC $3 $CFLAGS" cannot build it for $host_cpu.
Use --enable-simd=auto to build only what this compiler can do.])])])
AC_SUBST([TSA_$2_CFLAGS])
AM_CONDITIONAL([TSA_HAVE_$2], [test $tsa_isa_have = yes])
])

AC_DEFUN([TSA_ISA_END],
[AS_CASE([$enable_simd], [auto|none], [],
  [for tsa_isa in `AS_ECHO(["$enable_simd"]) | tr ',' ' '`; do
     AS_CASE([" scalar $tsa_isa_known "], [*" $tsa_isa "*], [],
       [AC_MSG_ERROR([--enable-simd: "$tsa_isa" is not an instruction set of this version.
Known are: auto, none, scalar$tsa_isa_known.])])
   done])
])

# TSA_TRY_FLAG(flag, if the compiler takes it): as an error where it would only warn.
AC_DEFUN([TSA_TRY_FLAG],
[AS_VAR_PUSHDEF([tsa_cache], [tsa_cv_flag_$1])dnl
AC_CACHE_CHECK([whether $CC takes $1], [tsa_cache],
  [tsa_save_CFLAGS=$CFLAGS
   CFLAGS="$tsa_save_CFLAGS -Werror $1"
   AC_COMPILE_IFELSE([AC_LANG_PROGRAM([], [])],
     [AS_VAR_SET([tsa_cache], [yes])], [AS_VAR_SET([tsa_cache], [no])])
   CFLAGS=$tsa_save_CFLAGS])
AS_VAR_IF([tsa_cache], [yes], [$2])
AS_VAR_POPDEF([tsa_cache])dnl
])

AC_DEFUN([TSA_ISA_AVX512],
[TSA_ISA([avx512], [AVX512],
  [-mavx512f -mavx512dq -mavx512bw -mavx512vl -mavx2 -mfma], [-mprefer-vector-width=512],
  [[#include <immintrin.h>
    volatile float number;]],
  [[__m512 a = _mm512_set1_ps(number);
    a = _mm512_and_ps(_mm512_fmadd_ps(a, a, a), a);                      /* f, dq */
    __m512i b = _mm512_add_epi8(_mm512_castps_si512(a), _mm512_castps_si512(a)); /* bw */
    __m256 c = _mm256_maskz_add_ps((__mmask8)3, _mm512_castps512_ps256(a),
                                   _mm512_castps512_ps256(a));           /* vl */
    number = _mm512_reduce_add_ps(_mm512_castsi512_ps(b)) + _mm256_cvtss_f32(c);]])])

AC_DEFUN([TSA_ISA_AVX2],
[TSA_ISA([avx2], [AVX2], [-mavx2 -mfma -mf16c], [],
  [[#include <immintrin.h>
    volatile float number;]],
  [[__m256 a = _mm256_set1_ps(number);
    a = _mm256_fmadd_ps(a, a, a);                                        /* fma */
    __m256i b = _mm256_castps_si256(a);
    b = _mm256_add_epi32(b, b);                                          /* avx2 */
    a = _mm256_cvtph_ps(_mm256_castsi256_si128(b));                      /* f16c */
    number = _mm256_cvtss_f32(a);]])])

# Every AArch64 CPU has it, so there are no flags; 32-bit Arm has no f64 lanes.
AC_DEFUN([TSA_ISA_NEON],
[TSA_ISA([neon], [NEON], [], [],
  [[#ifndef __aarch64__
    #error "not AArch64"
    #endif
    #include <arm_neon.h>
    volatile double number;]],
  [[float64x2_t a = vdupq_n_f64(number);
    a = vfmaq_f64(a, a, a);
    number = vgetq_lane_f64(a, 0);]])])

# TSA_PAIRS(name, NAME, instruction set that it belongs to, flags, prologue, body): products of
# pairs of bf16 in hardware, built wherever that set is and the compiler knows the flags.
AC_DEFUN([TSA_PAIRS],
[tsa_isa_have=no
TSA_$2_CFLAGS=
AS_CASE([" $tsa_isa_built "], [*" $3 "*],
  [AC_CACHE_CHECK([whether $CC can build $1 products], [tsa_cv_isa_$1],
    [tsa_save_CFLAGS=$CFLAGS
     CFLAGS="$TSA_CFLAGS $4 $tsa_save_CFLAGS"
     AC_LINK_IFELSE([AC_LANG_PROGRAM([$5], [$6])], [tsa_cv_isa_$1=yes], [tsa_cv_isa_$1=no])
     CFLAGS=$tsa_save_CFLAGS])
   tsa_isa_have=$tsa_cv_isa_$1
   AS_IF([test $tsa_isa_have = yes],
     [TSA_$2_CFLAGS="$4"
      tsa_pairs_built="$tsa_pairs_built $1"
      AC_DEFINE([TSA_HAVE_$2], [1], [Define if the $1 products are built.])])])
AC_SUBST([TSA_$2_CFLAGS])
AM_CONDITIONAL([TSA_HAVE_$2], [test $tsa_isa_have = yes])
])

AC_DEFUN([TSA_PAIRS_AVX512BF16],
[TSA_PAIRS([avx512bf16], [AVX512BF16], [avx512],
  [-mavx512f -mavx512dq -mavx512bw -mavx512vl -mavx2 -mfma -mavx512bf16],
  [[#include <immintrin.h>
    volatile float number;]],
  [[__m512 a = _mm512_set1_ps(number);
    __m512bh b = _mm512_cvtne2ps_pbh(a, a);
    number = _mm512_reduce_add_ps(_mm512_dpbf16_ps(a, b, b));]])])

AC_DEFUN([TSA_PAIRS_NEONBF16],
[TSA_PAIRS([neonbf16], [NEONBF16], [neon], [-march=armv8.2-a+bf16],
  [[#include <arm_neon.h>
    volatile float number;]],
  [[float32x4_t a = vdupq_n_f32(number);
    bfloat16x8_t b = vreinterpretq_bf16_f32(a);
    number = vgetq_lane_f32(vbfmlaltq_f32(a, b, b), 0);]])])
