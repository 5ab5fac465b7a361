/* SPDX-License-Identifier: MIT */
/* What all units of kernels share. A unit holds the kernels of one instruction set and one type; it
 * includes, in this order,
 *   f32.h or f64.h        the type T, and what follows from it; includes this file
 *   v_<isa>.h             vectors of T, and the register tiles that suit the registers:
 *     TSA_TILES(X)          X(rows, vectors) for every tile to build
 *     TSA_TILE_VECTORS      widest tile, in vectors
 *     TSA_TILE_ROWS         0, most rows with 1 vector, with 2, ...
 *   elements_tmpl.h       the kernels and their table; or pairs_tmpl.h, those for pairs of bf16
 * and exports that table, tsa_kernels_<unit>, and nothing else. */
#ifndef FP_FAST_FMA
#define FP_FAST_FMA /* makes sleef.h declare the exponential that v_scalar.h calls */
#endif
#include <math.h>
#include <sleef.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "kernels.h"

#ifdef __FAST_MATH__
#error "the arithmetic is defined operation by operation: build without -ffast-math"
#endif
#if defined(__FLT_EVAL_METHOD__) && __FLT_EVAL_METHOD__ != 0
#error "intermediate results must have the precision of their type (FLT_EVAL_METHOD 0)"
#endif

#if defined(__clang__)
#define TSA_UNROLL _Pragma("clang loop unroll(full)")
#elif defined(__GNUC__)
#define TSA_UNROLL _Pragma("GCC unroll 16")
#else
#define TSA_UNROLL
#endif
#if defined(__GNUC__)
#define TSA_INLINE static inline __attribute__((always_inline))
#else
#define TSA_INLINE static inline
#endif

static inline void prefetch_lines(const char *line, size_t n, bool write)
{
#if defined(__GNUC__)
    if (write)
        for (; n > 0; n--, line += TSA_ALIGN)
            __builtin_prefetch(line, 1, 2);
    else
        for (; n > 0; n--, line += TSA_ALIGN)
            __builtin_prefetch(line, 0, 2);
#else
    (void)line, (void)n, (void)write;
#endif
}

/* Prefetch the line of *x. */
static inline void prefetch_line(const void *x)
{
#if defined(__GNUC__)
    __builtin_prefetch(x, 0, 3);
#else
    (void)x;
#endif
}

/* Prefetch the next n lines of the list. */
static inline void prefetch_next(struct tsa_prefetch *prefetch, size_t n)
{
    while (n > 0 && prefetch->count > 0) {
        struct tsa_prefetch_rows *r = prefetch->rows + prefetch->count - 1;
        const size_t left = r->lines - r->line, k = n < left ? n : left;
        prefetch_lines(r->row + r->line * TSA_ALIGN, k, r->write);
        n -= k;
        r->line += k;
        if (k == left) {
            r->line = 0;
            if (--r->rows == 0)
                prefetch->count--;
            else
                r->row += r->stride;
        }
    }
}

/* How many lines a kernel of so many register tiles prefetches after each of them. */
static inline size_t prefetch_share(struct tsa_prefetch *prefetch, size_t tiles)
{
    return !prefetch || prefetch->count == 0 ? 0 : (prefetch->budget + tiles - 1) / tiles;
}
