/* SPDX-License-Identifier: MIT */
/* Register tiles for 32 registers: 24 accumulators, 4 loads of b and 1 broadcast of a. Tiles of
 * fewer vectors have more rows, so that 16 or more independent chains hide the latency of the fma,
 * also on cores with four fma units. */
#define TSA_TILES(X) TSA_ROWS_16(X, 1) TSA_ROWS_12(X, 2) TSA_ROWS_8(X, 3) TSA_ROWS_6(X, 4)
#define TSA_TILE_VECTORS 4
#define TSA_TILE_ROWS 0, 16, 12, 8, 6
