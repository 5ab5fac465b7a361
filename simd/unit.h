/* SPDX-License-Identifier: MIT */
/* What the units of kernels share: compiler words, memory asked for prefetch, rows of a tile. The unit
 * defines
 *   TSA_VECTORS                 its vector header
 *   TSA_TILES(X)                X(rows, vectors) for every tile to build
 *   TSA_TILE_VECTORS            widest tile, in vectors
 *   TSA_TILE_ROWS               {0, most rows with 1 vector, with 2, ...} */
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
#define TSA_UNUSED __attribute__((unused))
#else
#define TSA_INLINE static inline
#define TSA_UNUSED
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

/* Ask for the line of *x. */
static inline void prefetch_line(const void *x)
{
#if defined(__GNUC__)
    __builtin_prefetch(x, 0, 3);
#else
    (void)x;
#endif
}

/* Ask for the next n lines. */
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

/* Lines per tile of a kernel that has so many. */
static inline size_t prefetch_share(struct tsa_prefetch *prefetch, size_t tiles)
{
    return !prefetch || prefetch->count == 0 ? 0 : (prefetch->budget + tiles - 1) / tiles;
}

/* Rows that a tile may have; a remainder is covered by the next smaller ones. */
#define TSA_ROWS_4(X, nv) X(1, nv) X(2, nv) X(4, nv)
#define TSA_ROWS_6(X, nv) TSA_ROWS_4(X, nv) X(6, nv)
#define TSA_ROWS_8(X, nv) TSA_ROWS_4(X, nv) X(8, nv)
#define TSA_ROWS_12(X, nv) TSA_ROWS_8(X, nv) X(12, nv)
#define TSA_ROWS_16(X, nv) TSA_ROWS_8(X, nv) X(16, nv)
#define TSA_MOST_ROWS 16

/* The tallest tile of `vectors` vectors for `left` rows. */
static inline size_t tile_rows(size_t vectors, size_t left)
{
    static const unsigned char most[] = TSA_TILE_ROWS;
    if (left >= most[vectors])
        return most[vectors];
    size_t n = 8;
    while (n > left || n > most[vectors])
        n /= 2;
    return n;
}

static inline size_t tile_count(size_t rows, size_t vectors)
{
    static const unsigned char most[] = TSA_TILE_ROWS;
    const size_t widest = sizeof most - 1, nv = vectors < widest ? vectors : widest;
    return nv == 0 ? 1 : (vectors + nv - 1) / nv * (rows / most[nv] + 1);
}

#include "names.h"
