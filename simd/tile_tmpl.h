/* SPDX-License-Identifier: MIT */
/* The register tile that almost all work is done in: rows x vectors accumulators, each one fma
 * chain in the order of the arithmetic; `rows` values of a are broadcast against `vectors` loads of
 * b. Operands are of type O, elements or pairs. */

/* Rows that a tile may have; a remainder is covered by the next smaller ones. */
#define TSA_ROWS_4(X, nv) X(1, nv) X(2, nv) X(4, nv)
#define TSA_ROWS_6(X, nv) TSA_ROWS_4(X, nv) X(6, nv)
#define TSA_ROWS_8(X, nv) TSA_ROWS_4(X, nv) X(8, nv)
#define TSA_ROWS_12(X, nv) TSA_ROWS_8(X, nv) X(12, nv)
#define TSA_ROWS_16(X, nv) TSA_ROWS_8(X, nv) X(16, nv)
#define TSA_MOST_ROWS 16

static const unsigned char most_rows[] = {TSA_TILE_ROWS};

/* The tallest tile of `vectors` vectors for `left` rows. */
static inline size_t tile_rows(size_t vectors, size_t left)
{
    if (left >= most_rows[vectors])
        return most_rows[vectors];
    size_t n = 8;
    while (n > left || n > most_rows[vectors])
        n /= 2;
    return n;
}

/* An estimate of how many tiles a product has: prefetches are shared out among them. */
static inline size_t tile_count(size_t rows, size_t vectors)
{
    const size_t nv = vectors < TSA_TILE_VECTORS ? vectors : TSA_TILE_VECTORS;
    return nv == 0 ? 1 : (vectors + nv - 1) / nv * (rows / most_rows[nv] + 1);
}

/* acc[r][c] = fma(a[r], b[c], acc[r][c]) */
#define TSA_TILE_STEP(rows_, nv_, a_, rs_, b_)                                                     \
    do {                                                                                           \
        O b_row[TSA_TILE_VECTORS];                                                                 \
        TSA_UNROLL                                                                                 \
        for (int c_ = 0; c_ < (nv_); c_++)                                                         \
            b_row[c_] = o_load((b_) + c_ * VL);                                                    \
        TSA_UNROLL                                                                                 \
        for (int r_ = 0; r_ < (rows_); r_++) {                                                     \
            const O a_r = o_set1((a_)[r_ * (rs_)]);                                                \
            TSA_UNROLL                                                                             \
            for (int c_ = 0; c_ < (nv_); c_++)                                                     \
                acc[r_][c_] = o_fma(a_r, b_row[c_], acc[r_][c_]);                                  \
        }                                                                                          \
    } while (0)

#define TSA_TILE_EACH(rows_, nv_)                                                                  \
    TSA_UNROLL                                                                                     \
    for (int r = 0; r < (rows_); r++)                                                              \
        TSA_UNROLL                                                                                 \
    for (int c = 0; c < (nv_); c++)
