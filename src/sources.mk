# SPDX-License-Identifier: MIT
TSA_CORE_SOURCES = src/internal.h src/fpenv.h src/cpu.c src/facts.c src/memory.c src/monomials.c \
	src/sizes.c src/status.c src/threads.c
