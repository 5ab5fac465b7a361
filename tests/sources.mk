# SPDX-License-Identifier: MIT
# Programs on Check, each one tests/check_<name>.c with the shared helpers; and scripts.
TSA_CHECKS = tests/check_api tests/check_bits tests/check_contract tests/check_exact \
	tests/check_facts tests/check_half tests/check_host tests/check_kernels_bf16 \
	tests/check_kernels_f32 tests/check_kernels_f64 tests/check_limits tests/check_mixed \
	tests/check_ragged tests/check_softmax tests/check_state \
	tests/check_threads
TSA_SHELL_TESTS = tests/command.sh tests/exports.sh tests/rooms.sh
TSA_TEST_SUPPORT = tests/bf16.h tests/half_model.h tests/kcheck.h tests/kernels_features_tmpl.h \
	tests/kernels_half_tmpl.h tests/kernels_model_tmpl.h tests/kernels_monomials_tmpl.h \
	tests/kernels_products_tmpl.h tests/kernels_rows_tmpl.h tests/kernels_softmax_tmpl.h \
	tests/kernels_state_tmpl.h tests/kernels_suite_tmpl.h tests/kernels_types.h \
	tests/kernels_window_tmpl.h tests/model.h tests/model_tmpl.h tests/run.h \
	tests/softmax_model_tmpl.h tests/support.h tests/kcheck.c tests/model.c tests/run.c \
	tests/support.c

# The same makefile variables serve all programs, so a new one is one word in TSA_CHECKS.
AM_CPPFLAGS += $(CHECK_CFLAGS) $(SLEEF_CFLAGS)
LDADD = tests/libsupport.la libtsa_core.la $(CHECK_LIBS) $(SLEEF_LIBS)

# verdicts of `tsa paper`
if TSA_BENCH
TSA_CHECKS += tests/check_paper
endif
tests_check_paper_SOURCES = tests/check_paper.c bench/paper/result.c bench/timing.c \
	src/cmd/common.c
tests_check_paper_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/src/cmd -I$(top_srcdir)/bench
tests_check_paper_CFLAGS = $(AM_CFLAGS) $(JANSSON_CFLAGS)
tests_check_paper_LDADD = $(LDADD) $(JANSSON_LIBS)

check_PROGRAMS = tests/header
tests_header_SOURCES = tests/header.c
tests_header_CFLAGS = $(AM_CFLAGS) -std=c11 -pedantic
tests_header_LDADD = libtsa.la
TESTS = tests/header tests/exports.sh tests/rooms.sh
# writes and compares the arrays of the command's tests
if TSA_COMMAND
check_PROGRAMS += tests/npy_tool
TESTS += tests/command.sh
endif
tests_npy_tool_SOURCES = tests/npy_tool.c tests/half_model.h
tests_npy_tool_LDADD =
EXTRA_DIST += $(TSA_SHELL_TESTS) tests/cross.sh tests/exports.list tests/README

if HAVE_CHECK
check_LTLIBRARIES = tests/libsupport.la
tests_libsupport_la_SOURCES = $(TSA_TEST_SUPPORT)
check_PROGRAMS += $(TSA_CHECKS)
TESTS += $(TSA_CHECKS)
endif

# Scripts find what they test by these; TSA_TEST_SOURCE is the top of the source tree.
TEST_EXTENSIONS = .sh
SH_LOG_COMPILER = $(SHELL)
AM_TESTS_ENVIRONMENT = \
	TSA_TEST_SOURCE='$(abs_top_srcdir)'; export TSA_TEST_SOURCE; \
	TSA_TEST_BUILD='$(abs_top_builddir)'; export TSA_TEST_BUILD; \
	TSA_TEST_ISAS='$(TSA_ISAS_BUILT)'; export TSA_TEST_ISAS; \
	TSA='$(abs_top_builddir)/tsa$(EXEEXT)'; export TSA; \
	TSA_TEST_BENCH='$(TSA_BENCH_BUILT)'; export TSA_TEST_BENCH; \
	NM='$(NM)'; export NM;
