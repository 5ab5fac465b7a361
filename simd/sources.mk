# SPDX-License-Identifier: MIT
# One library of kernels per instruction set, each with its own flags. Headers of all of them are
# distributed, whatever is built here.
TSA_SIMD_FILES = simd/decode_state_tmpl.h simd/decode_tmpl.h simd/element_tmpl.h simd/exp_tmpl.h \
	simd/features_tmpl.h simd/fold_tmpl.h simd/half_tmpl.h simd/isa_tmpl.h simd/kernels.def \
	simd/kernels.h simd/names.h simd/pairs.def simd/pairs_tmpl.h simd/products.def simd/psi_tmpl.h \
	simd/round_tmpl.h simd/rows_tmpl.h simd/softmax_tmpl.h simd/state_tmpl.h simd/table_tmpl.h \
	simd/tiles_32.h simd/transpose_tmpl.h simd/unit.h simd/v_avx2.h simd/v_avx512.h simd/v_neon.h \
	simd/v_scalar.h simd/widened_pairs.h simd/window_tmpl.h simd/isa_avx2.c simd/isa_avx512.c simd/isa_neon.c \
	simd/pairs_avx512bf16.c simd/pairs_neonbf16.c
EXTRA_DIST += $(TSA_SIMD_FILES)

noinst_LTLIBRARIES += libk_scalar.la
libk_scalar_la_SOURCES = simd/isa_scalar.c
libk_scalar_la_CFLAGS = $(AM_CFLAGS) $(SLEEF_CFLAGS)
TSA_KERNEL_LIBS += libk_scalar.la

if TSA_HAVE_AVX512
noinst_LTLIBRARIES += libk_avx512.la
libk_avx512_la_SOURCES = simd/isa_avx512.c
libk_avx512_la_CFLAGS = $(AM_CFLAGS) $(TSA_AVX512_CFLAGS) $(SLEEF_CFLAGS)
TSA_KERNEL_LIBS += libk_avx512.la
endif

if TSA_HAVE_AVX2
noinst_LTLIBRARIES += libk_avx2.la
libk_avx2_la_SOURCES = simd/isa_avx2.c
libk_avx2_la_CFLAGS = $(AM_CFLAGS) $(TSA_AVX2_CFLAGS) $(SLEEF_CFLAGS)
TSA_KERNEL_LIBS += libk_avx2.la
endif

if TSA_HAVE_NEON
noinst_LTLIBRARIES += libk_neon.la
libk_neon_la_SOURCES = simd/isa_neon.c
libk_neon_la_CFLAGS = $(AM_CFLAGS) $(TSA_NEON_CFLAGS) $(SLEEF_CFLAGS)
TSA_KERNEL_LIBS += libk_neon.la
endif

# Products of pairs of bf16 in hardware.
if TSA_HAVE_AVX512BF16
noinst_LTLIBRARIES += libk_avx512bf16.la
libk_avx512bf16_la_SOURCES = simd/pairs_avx512bf16.c
libk_avx512bf16_la_CFLAGS = $(AM_CFLAGS) $(TSA_AVX512BF16_CFLAGS) $(SLEEF_CFLAGS)
TSA_KERNEL_LIBS += libk_avx512bf16.la
endif

if TSA_HAVE_NEONBF16
noinst_LTLIBRARIES += libk_neonbf16.la
libk_neonbf16_la_SOURCES = simd/pairs_neonbf16.c
libk_neonbf16_la_CFLAGS = $(AM_CFLAGS) $(TSA_NEONBF16_CFLAGS) $(SLEEF_CFLAGS)
TSA_KERNEL_LIBS += libk_neonbf16.la
endif
