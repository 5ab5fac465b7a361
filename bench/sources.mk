# SPDX-License-Identifier: MIT
TSA_BENCH_SOURCES =
