# SPDX-License-Identifier: MIT
# Programs on Check, each one tests/check_<name>.c with the shared helpers; and scripts.
TSA_CHECKS = tests/check_api tests/check_batch tests/check_bits tests/check_chunks \
	tests/check_contract tests/check_exact tests/check_executors tests/check_facts \
	tests/check_far_sums tests/check_half tests/check_host tests/check_hostile_state \
	tests/check_kernels_bf16 tests/check_kernels_f32 tests/check_kernels_f64 tests/check_limits \
	tests/check_manners tests/check_mixed tests/check_mixed_states tests/check_options \
	tests/check_processes tests/check_quota tests/check_edges tests/check_gates tests/check_models tests/check_ragged \
	tests/check_ragged_errors tests/check_reduce tests/check_rest tests/check_slots tests/check_softmax_window tests/check_sphere tests/check_softmax \
	tests/check_softmax_values tests/check_state tests/check_threads tests/check_turns \
	tests/check_views
TSA_SHELL_TESTS = tests/command.sh tests/command_bench.sh tests/command_files.sh tests/command_models.sh tests/exports.sh tests/rooms.sh
TSA_TEST_SUPPORT = tests/bf16.h tests/half_model.h tests/kcheck.c tests/kcheck.h \
	tests/kernels_features_tmpl.h tests/kernels_gates_tmpl.h tests/kernels_half_tmpl.h tests/kernels_model_tmpl.h \
	tests/kernels_monomials_tmpl.h tests/kernels_operands_tmpl.h \
	tests/kernels_products_tmpl.h tests/kernels_rows_tmpl.h tests/kernels_softmax_tmpl.h \
	tests/kernels_state_tmpl.h tests/kernels_suite_tmpl.h tests/kernels_types.h \
	tests/kernels_window_tmpl.h tests/model.c tests/model.h tests/model_tmpl.h tests/ragged.c \
	tests/ragged.h tests/run.c tests/run.h tests/scene.c tests/scene.h tests/shapes.c \
	tests/shapes.h tests/softmax_model_tmpl.h tests/softmax_run.c tests/softmax_run.h \
	tests/problem.c tests/support.c tests/support.h tests/truth.c tests/truth.h

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
TESTS += tests/command.sh tests/command_bench.sh tests/command_files.sh tests/command_models.sh
endif
tests_npy_tool_SOURCES = tests/npy_tool.c tests/half_model.h
tests_npy_tool_LDADD =
# loads the shared library, and links nothing of it
check_PROGRAMS += tests/loading
tests_loading_SOURCES = tests/loading.c
tests_loading_CFLAGS = $(TSA_CFLAGS) $(TSA_WARN_CFLAGS)
tests_loading_LDADD = $(TSA_DLOPEN_LIBS)
TESTS += tests/loading
EXTRA_DIST += $(TSA_SHELL_TESTS) tests/command_lib.sh tests/cross.sh tests/exports.list tests/README \
	tests/same_code.sh tests/mutants/run.py tests/mutants/list

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
