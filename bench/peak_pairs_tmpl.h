/* SPDX-License-Identifier: MIT */
/* The loop that finds the limit of products of pairs of bf16. The includer defines
 *   VF, VB            vector types of sums, and of pairs
 *   SET_F(x)          all lanes x
 *   SET_B(even, odd)  all pairs of the bf16 with these bits
 *   DOT(a, b, c)      a + b.odd * c.odd + b.even * c.even
 *   REGISTER          asm constraint of a register that holds them
 * The sums stay as they are, since even and odd products cancel. 16 chains cover a latency of 8
 * cycles on two units. */

#define KEEP(a) __asm__ volatile("" : "+" REGISTER(a))
#define EACH_CHAIN(X)                                                                              \
    X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12) X(13) X(14) X(15)
#define PEAK_PAIRS_FLOPS (16 * (unsigned)sizeof(VF)) /* four for each float of each chain */

static void peak_pairs(size_t rounds)
{
    VB b = SET_B(0x3f80, 0x3f80), c = SET_B(0x3f00, 0xbf00);
#define START(i) VF a##i = SET_F(1.0f + (float)(i));
#define STEP(i)                                                                                    \
    a##i = DOT(a##i, b, c);                                                                        \
    KEEP(a##i);
    EACH_CHAIN(START)
    KEEP(b);
    KEEP(c);
    for (size_t r = 0; r < rounds; r++) {
        EACH_CHAIN(STEP)
    }
#undef START
#undef STEP
}
