/* SPDX-License-Identifier: MIT */
/* Sizes and thresholds that decide how fast a call is, in one place. Results do not depend on them,
 * except on the default chunk, which is part of the arithmetic and belongs to a plan once it is
 * made. Each line: the value; what it tunes, in which unit; how it was found. "Measured" means on
 * the machine of doc/performance.md. */
#ifndef TSA_TUNING_H
#define TSA_TUNING_H

/* -- default chunk (choices.c), measured over the grid of doc/performance.md ------------------- */

/* Tokens. Two terms or fewer: a window costs more than the sums. */
#define TSA_CHUNK_FEW_TERMS 32
/* Tokens, by elements of the sums of a kv head, F (dv + 1): below the first border, below the
 * second, and from there on. */
#define TSA_CHUNK_SMALL 64
#define TSA_CHUNK_MIDDLE 128
#define TSA_CHUNK_LARGE 512
#define TSA_SUMS_MIDDLE 1e5
#define TSA_SUMS_LARGE 1.5e6
/* Shapes whose value columns fill less than TSA_VECTOR_USE of their vectors have dearer sums: the
 * first border is lower, and the chunk longer from the second one to TSA_SUMS_LARGE. */
#define TSA_PARTIAL_SUMS_MIDDLE 3e4
#define TSA_PARTIAL_SUMS_LARGE 2e5
#define TSA_PARTIAL_CHUNK 256
/* Tokens: the longest sequence in one window, which is memory of each state and thread. */
#define TSA_MOST_DIRECT 8192

/* -- tiles and blocks (choices.c, monomials.c) ------------------------------------------------- */

/* Percent of whole vectors that value columns must fill, or tiles are transposed (measured). */
#define TSA_VECTOR_USE 85
/* Features of a block of the chunk loop, whose sums and features of a tile stay in L1. In pairs
 * twice as many take the same place, and accumulators move half as often (measured). */
#define TSA_BLOCK_FEATURES ((size_t)96)
#define TSA_BLOCK_PAIRS (2 * TSA_BLOCK_FEATURES)
/* Features: rounding fewer than this gains little in a long call, and a decoding step loses more to
 * the kernels that it calls (measured; doc/accuracy.md). */
#define TSA_MIXED_FEATURES 96
/* Rows of base[] up to which degrees are stored rather than made again for each block: they are
 * read once per chunk and tile, and should come from L2 (by its size). */
#define TSA_MOST_STORED 1024

/* -- scratch of a thread (scratch.c) ----------------------------------------------------------- */

/* Tokens that pass over the sums together: as many as keep a pass over sums that lie in memory
 * bound by arithmetic (measured). */
#define TSA_MOST_QUERIES 512
/* Bytes. High parts beyond this, with as many low parts, do not stay in L2 (by its size): they are
 * prefetched, and read once for several query heads. */
#define TSA_LARGE_SUMS ((size_t)384 << 10)
/* Bytes for accumulators and monomials of these query heads (by the size of L3). */
#define TSA_MOST_HEADS_BYTES ((size_t)8 << 20)
/* Query heads that decode a token together: their chains hide the latency of the fma (measured). */
#define TSA_TOKEN_ROWS 8
/* Bytes of softmax's sums of a range of queries, and of the keys and values that it sees together;
 * and the most tiles of each (by the size of L2). */
#define TSA_SOFTMAX_SUMS ((size_t)128 << 10)
#define TSA_SOFTMAX_KEYS ((size_t)128 << 10)
#define TSA_SOFTMAX_TILES 8
/* Segments of a row of softmax whose sums wait in the scratch of a thread: fewer rounds of the
 * team. */
#define TSA_SOFTMAX_PARTS 4

/* -- threads (schedule.c, state_merge.c; doc/threads.md) --------------------------------------- */

/* ns. Teams rest when they have lost so much more than they gained, where gains count up to the
 * credit; for so many times as long as was lost. */
#define TSA_REST_LOSS ((int64_t)50000)
#define TSA_REST_CREDIT ((int64_t)200000)
#define TSA_REST_FACTOR 16
/* ns. A thread's processor time is asked for at most once in so long. */
#define TSA_REST_SAMPLE ((int64_t)100000)
/* Elements of a task of the check of values, about, and of a tensor that is worth a team: 3 us and
 * 10 us (measured). */
#define TSA_SCAN_ELEMENTS ((size_t)1 << 15)
#define TSA_SCAN_TEAM (4 * TSA_SCAN_ELEMENTS)
/* Products of prefill that are worth a team: about 20 us of one thread (measured). */
#define TSA_TEAM_PRODUCTS 1e6
/* Bytes of sums of a kv head that are worth two threads in a decoding step: about 20 us of reading
 * (measured). Half as many bytes of all sums are worth a team. */
#define TSA_SPLIT_BYTES ((size_t)1 << 20)
/* Products of queries and keys, times d + dv, that are worth a team in softmax (measured). */
#define TSA_SPLIT_PRODUCTS 2e5
/* Queries: up to so many of a head softmax goes row by row (measured). */
#define TSA_FEW_QUERIES 4
/* Tasks of softmax per thread that are wanted before ranges of queries become shorter. */
#define TSA_RANGES_PER_THREAD 8
/* Items of less than a thread's share divided by this are short: not listed, not sorted. The list
 * has scratch for this many items per thread. */
#define TSA_LONG_ITEMS 16
/* Sequences of one task, where a task costs little per sequence: of prefill of one token, which
 * computes; of checks and counts. */
#define TSA_SINGLES 64
#define TSA_TASK_SEQUENCES 512
/* A team on one item takes so many times as long as threads that share nothing (measured). */
#define TSA_TOGETHER_COST 1.35
/* Bytes that the chunks of a wave or of a relay may take. */
#define TSA_MOST_TOGETHER_BYTES ((size_t)256 << 20)
/* Chunks of a wave per thread. */
#define TSA_WAVE_CHUNKS 4
/* Features of a stage of a relay, on average: fewer cost more than the traffic of waves (measured).
 * From TSA_RELAY_SURPLUS tenths as many threads as such stages on, waves are faster (measured). */
#define TSA_STAGE_FEATURES 24
#define TSA_RELAY_SURPLUS 16
/* Features: stages have whole tiles of so many (the tallest tile of most kernels). */
#define TSA_STAGE_UNIT 6
/* Tokens of the chunks that move from stage to stage in a step, at most (256 to 8,192 measured:
 * equal). */
#define TSA_STEP_TOKENS 1024
/* A step costs the team so many us besides its work; products of a thread per us (measured). */
#define TSA_STEP_COST 3
#define TSA_PRODUCTS_PER_US 50e3

#endif
