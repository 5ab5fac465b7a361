# SPDX-License-Identifier: MIT
# The subcommands `tsa bench` and `tsa paper`. Three folders that call in one direction only:
# bench/paper -> bench/contend -> bench -> library (tests/rooms.sh checks it). Loops per instruction
# set are compiled like kernels. Everything is distributed, whatever is built here.
# (Headers are in _SOURCES: automake takes a name in _HEADERS for files to install.)
TSA_BENCH_SOURCES = bench/bench.h bench/kernel_bench.h bench/kernels_tmpl.h \
	bench/peak.h bench/peak_pairs_tmpl.h bench/peak_tmpl.h bench/command.c \
	bench/grid.c bench/inputs.c bench/kernels.c bench/kernels_pairs.c bench/machine.c bench/op.c \
	bench/op_report.c bench/problem.c bench/race.c bench/region.c bench/report.c bench/rows.c bench/scaling.c \
	bench/timing.c
TSA_CONTEND_SOURCES = bench/contend/contend.h bench/contend/loops.h bench/contend/loops_tmpl.h \
	bench/contend/plain_tmpl.h bench/contend/softmax_tmpl.h bench/contend/contend.c bench/contend/features.c bench/contend/library.c \
	bench/contend/openblas.c bench/contend/plain.c bench/contend/softmax.c bench/contend/taylor.c bench/contend/xsmm.c
TSA_PAPER_SOURCES = bench/paper/paper.h bench/paper/beyond.c bench/paper/command.c \
	bench/paper/document.c bench/paper/facts.c bench/paper/model.c bench/paper/order.c \
	bench/paper/plot.c bench/paper/race.c bench/paper/rank.c bench/paper/report.c \
	bench/paper/result.c bench/paper/series.c bench/paper/size.c bench/paper/time.c
TSA_BENCH_UNITS = bench/peak_scalar.c bench/peak_avx512.c bench/peak_avx512bf16.c bench/peak_avx2.c \
	bench/peak_neon.c bench/peak_neonbf16.c bench/contend/loops_scalar.c \
	bench/contend/loops_avx512.c bench/contend/loops_avx2.c bench/contend/loops_neon.c
EXTRA_DIST += bench/README bench/peer_numpy.py bench/plot $(TSA_BENCH_UNITS)
TSA_DOCS += doc/bench.md doc/paper.md
TSA_BENCH_LIBS =

if TSA_BENCH
TSA_BENCH_LIBS += libbench_scalar.la
noinst_LTLIBRARIES += libbench_scalar.la
libbench_scalar_la_SOURCES = bench/peak_scalar.c bench/contend/loops_scalar.c
libbench_scalar_la_CPPFLAGS = $(AM_CPPFLAGS) -DTSA_BENCH_FLAGS='"$(CFLAGS)"'

if TSA_HAVE_AVX512
TSA_BENCH_LIBS += libbench_avx512.la
noinst_LTLIBRARIES += libbench_avx512.la
libbench_avx512_la_SOURCES = bench/peak_avx512.c bench/contend/loops_avx512.c
libbench_avx512_la_CPPFLAGS = $(AM_CPPFLAGS) \
	-DTSA_BENCH_FLAGS='"$(TSA_AVX512_CFLAGS) $(CFLAGS)"'
libbench_avx512_la_CFLAGS = $(AM_CFLAGS) $(TSA_AVX512_CFLAGS) $(SLEEF_CFLAGS)
endif

if TSA_HAVE_AVX2
TSA_BENCH_LIBS += libbench_avx2.la
noinst_LTLIBRARIES += libbench_avx2.la
libbench_avx2_la_SOURCES = bench/peak_avx2.c bench/contend/loops_avx2.c
libbench_avx2_la_CPPFLAGS = $(AM_CPPFLAGS) -DTSA_BENCH_FLAGS='"$(TSA_AVX2_CFLAGS) $(CFLAGS)"'
libbench_avx2_la_CFLAGS = $(AM_CFLAGS) $(TSA_AVX2_CFLAGS) $(SLEEF_CFLAGS)
endif

if TSA_HAVE_NEON
TSA_BENCH_LIBS += libbench_neon.la
noinst_LTLIBRARIES += libbench_neon.la
libbench_neon_la_SOURCES = bench/peak_neon.c bench/contend/loops_neon.c
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

.PHONY: bench bench-scaling paper
bench: tsa$(EXEEXT)
	./tsa$(EXEEXT) bench $(BENCHFLAGS)

# The paper's experiments as a report, in the folder paper-results.
paper: tsa$(EXEEXT)
	./tsa$(EXEEXT) paper $(PAPERFLAGS)

# Figures, and pictures of them where gnuplot is installed, in the folder of the build.
bench-scaling: tsa$(EXEEXT)
	./tsa$(EXEEXT) bench --scaling --csv $(BENCHFLAGS) > scaling.csv
	if command -v gnuplot > /dev/null; then $(SHELL) $(srcdir)/bench/plot scaling.csv; fi
endif
CLEANFILES = scaling.csv scaling.svg scaling.png
