# SPDX-License-Identifier: MIT
# One library of kernels per set of compiler flags, of one unit per type. All units are distributed,
# whatever is built here.
TSA_CORE_SOURCES += simd/isa.c
EXTRA_DIST += simd/args_tmpl.h simd/decode_heads_tmpl.h simd/decode_scores_tmpl.h simd/decode_state_tmpl.h simd/decode_step_tmpl.h \
	simd/element_tmpl.h \
	simd/elements_tmpl.h simd/exp_tmpl.h simd/f32.h simd/f64.h \
	simd/features_tmpl.h simd/finish_tmpl.h simd/fold_tmpl.h simd/gates_tmpl.h simd/half_tmpl.h simd/kernels.def simd/kernels.h \
	simd/pairs.def simd/pairs_tmpl.h simd/products.def simd/psi_pairs_tmpl.h simd/psi_tmpl.h \
	simd/psi_walk_tmpl.h simd/query_tmpl.h simd/round_tmpl.h simd/rows_tmpl.h simd/scores_tmpl.h \
	simd/softmax_decode_tmpl.h simd/softmax_row_tmpl.h simd/softmax_tmpl.h simd/tile_tmpl.h \
	simd/tiles_32.h simd/transpose_tmpl.h simd/unit.h simd/unit_rows_tmpl.h simd/update_tmpl.h simd/v_avx2.h \
	simd/v_avx512.h simd/v_neon.h simd/v_scalar.h simd/widened_pairs.h simd/window_tmpl.h

noinst_LTLIBRARIES += libk_scalar.la
libk_scalar_la_SOURCES = simd/scalar_bf16.c simd/scalar_f32.c simd/scalar_f64.c
libk_scalar_la_CFLAGS = $(AM_CFLAGS) $(SLEEF_CFLAGS)
TSA_KERNEL_LIBS += libk_scalar.la

if TSA_HAVE_AVX512
noinst_LTLIBRARIES += libk_avx512.la
libk_avx512_la_SOURCES = simd/avx512_f32.c simd/avx512_f64.c
libk_avx512_la_CFLAGS = $(AM_CFLAGS) $(TSA_AVX512_CFLAGS) $(SLEEF_CFLAGS)
TSA_KERNEL_LIBS += libk_avx512.la
endif

if TSA_HAVE_AVX2
noinst_LTLIBRARIES += libk_avx2.la
libk_avx2_la_SOURCES = simd/avx2_bf16.c simd/avx2_f32.c simd/avx2_f64.c
libk_avx2_la_CFLAGS = $(AM_CFLAGS) $(TSA_AVX2_CFLAGS) $(SLEEF_CFLAGS)
TSA_KERNEL_LIBS += libk_avx2.la
endif

if TSA_HAVE_NEON
noinst_LTLIBRARIES += libk_neon.la
libk_neon_la_SOURCES = simd/neon_f32.c simd/neon_f64.c simd/neon_widened_bf16.c
libk_neon_la_CFLAGS = $(AM_CFLAGS) $(TSA_NEON_CFLAGS) $(SLEEF_CFLAGS)
TSA_KERNEL_LIBS += libk_neon.la
endif

# Products of pairs of bf16 in hardware.
if TSA_HAVE_AVX512BF16
noinst_LTLIBRARIES += libk_avx512bf16.la
libk_avx512bf16_la_SOURCES = simd/avx512_bf16.c
libk_avx512bf16_la_CFLAGS = $(AM_CFLAGS) $(TSA_AVX512BF16_CFLAGS) $(SLEEF_CFLAGS)
TSA_KERNEL_LIBS += libk_avx512bf16.la
endif

if TSA_HAVE_NEONBF16
noinst_LTLIBRARIES += libk_neonbf16.la
libk_neonbf16_la_SOURCES = simd/neon_bf16.c
libk_neonbf16_la_CFLAGS = $(AM_CFLAGS) $(TSA_NEONBF16_CFLAGS) $(SLEEF_CFLAGS)
TSA_KERNEL_LIBS += libk_neonbf16.la
endif
