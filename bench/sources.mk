# SPDX-License-Identifier: MIT
# The benchmark is part of the command. Its loops per instruction set are compiled like kernels.
# (Headers are in _SOURCES: automake takes a name in _HEADERS for files to install.)
TSA_BENCH_SOURCES = bench/bench.h bench/contender.h bench/contender_softmax_tmpl.h \
	bench/contender_tmpl.h bench/kernel_bench.h bench/kernels_tmpl.h bench/peak_pairs_tmpl.h \
	bench/peak_tmpl.h bench/unit.h bench/bench.c \
	bench/contender.c bench/contender_openblas.c bench/contender_softmax.c \
	bench/contender_taylor.c bench/contender_xsmm.c bench/grid.c bench/inputs.c \
	bench/kernels.c bench/kernels_pairs.c bench/library.c bench/machine.c bench/op.c \
	bench/op_report.c bench/problem.c bench/region.c bench/report.c bench/scaling.c \
	bench/timing.c
EXTRA_DIST += bench/README bench/peer_numpy.py bench/plot bench/peak_avx512.c bench/peak_avx512bf16.c \
	bench/peak_avx2.c bench/peak_neon.c bench/peak_neonbf16.c
TSA_DOCS += doc/bench.md

TSA_BENCH_LIBS = libbench_scalar.la
noinst_LTLIBRARIES += libbench_scalar.la
libbench_scalar_la_SOURCES = bench/peak_scalar.c
libbench_scalar_la_CPPFLAGS = $(AM_CPPFLAGS) -DTSA_BENCH_FLAGS='"$(CFLAGS)"'

if TSA_HAVE_AVX512
TSA_BENCH_LIBS += libbench_avx512.la
noinst_LTLIBRARIES += libbench_avx512.la
libbench_avx512_la_SOURCES = bench/peak_avx512.c
libbench_avx512_la_CPPFLAGS = $(AM_CPPFLAGS) -DTSA_BENCH_FLAGS='"$(TSA_AVX512_CFLAGS) $(CFLAGS)"'
libbench_avx512_la_CFLAGS = $(AM_CFLAGS) $(TSA_AVX512_CFLAGS) $(SLEEF_CFLAGS)
endif

if TSA_HAVE_AVX2
TSA_BENCH_LIBS += libbench_avx2.la
noinst_LTLIBRARIES += libbench_avx2.la
libbench_avx2_la_SOURCES = bench/peak_avx2.c
libbench_avx2_la_CPPFLAGS = $(AM_CPPFLAGS) -DTSA_BENCH_FLAGS='"$(TSA_AVX2_CFLAGS) $(CFLAGS)"'
libbench_avx2_la_CFLAGS = $(AM_CFLAGS) $(TSA_AVX2_CFLAGS) $(SLEEF_CFLAGS)
endif

if TSA_HAVE_NEON
TSA_BENCH_LIBS += libbench_neon.la
noinst_LTLIBRARIES += libbench_neon.la
libbench_neon_la_SOURCES = bench/peak_neon.c
libbench_neon_la_CPPFLAGS = $(AM_CPPFLAGS) -DTSA_BENCH_FLAGS='"$(TSA_NEON_CFLAGS) $(CFLAGS)"'
libbench_neon_la_CFLAGS = $(AM_CFLAGS) $(TSA_NEON_CFLAGS) $(SLEEF_CFLAGS)
endif

# Products of pairs of bf16 in hardware.
if TSA_HAVE_AVX512BF16
TSA_BENCH_LIBS += libbench_avx512bf16.la
noinst_LTLIBRARIES += libbench_avx512bf16.la
libbench_avx512bf16_la_SOURCES = bench/peak_avx512bf16.c
libbench_avx512bf16_la_CFLAGS = $(AM_CFLAGS) $(TSA_AVX512BF16_CFLAGS)
endif

if TSA_HAVE_NEONBF16
TSA_BENCH_LIBS += libbench_neonbf16.la
noinst_LTLIBRARIES += libbench_neonbf16.la
libbench_neonbf16_la_SOURCES = bench/peak_neonbf16.c
libbench_neonbf16_la_CFLAGS = $(AM_CFLAGS) $(TSA_NEONBF16_CFLAGS)
endif

# The experiments of the paper, `tsa paper`.
TSA_BENCH_SOURCES += bench/paper.h bench/paper.c bench/paper_beyond.c bench/paper_facts.c \
	bench/paper_model.c bench/paper_order.c bench/paper_plot.c bench/paper_race.c \
	bench/paper_rank.c bench/paper_report.c bench/paper_result.c bench/paper_series.c \
	bench/paper_size.c bench/paper_time.c
TSA_DOCS += doc/paper.md
