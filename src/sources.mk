# SPDX-License-Identifier: MIT
TSA_CORE_SOURCES = src/call.h src/fpenv.h src/internal.h src/state_merge_tmpl.h src/cpu.c \
	src/facts.c src/memory.c src/monomials.c src/plan.c src/plan_describe.c src/sizes.c \
	src/state.c src/state_merge.c src/status.c src/threads.c src/workspace.c
