# SPDX-License-Identifier: MIT
# Programs that show how to embed the library; `make check` runs them.
check_PROGRAMS += examples/pthread_pool
examples_pthread_pool_SOURCES = examples/pthread_pool.c
examples_pthread_pool_CFLAGS = $(AM_CFLAGS) -pthread
examples_pthread_pool_LDFLAGS = -pthread
examples_pthread_pool_LDADD = libtsa.la
TESTS += examples/pthread_pool
