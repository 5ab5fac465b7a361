# SPDX-License-Identifier: MIT
TSA_CORE_SOURCES = src/internal.h src/fpenv.h
