/* SPDX-License-Identifier: MIT */
/* Loops that find the limits of one instruction set. The includer defines
 *   VF, VD               vector types (or float and double)
 *   SET_F(x), SET_D(x)   all lanes x
 *   FMA_F, FMA_D(a,b,c)  a*b + c, fused
 *   REGISTER             asm constraint of a register that holds them
 * and ends with PEAK_UNIT(name of the set).
 * The empty asm makes the compiler keep every accumulator in its own register: 12 chains cover
 * the latency of two fma units (4 to 5 cycles), and with b and c fit in 16 registers. */

#define PEAK_CHAINS 12
#define KEEP(a) __asm__ volatile("" : "+" REGISTER(a))
#define EACH_CHAIN(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11)

static void peak_f32(size_t rounds)
{
    VF b = SET_F(0.999f), c = SET_F(1e-3f);
#define START(i) VF a##i = SET_F(1.0f + (float)(i));
#define STEP(i)                                                                                    \
    a##i = FMA_F(a##i, b, c);                                                                      \
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

static void peak_f64(size_t rounds)
{
    VD b = SET_D(0.999), c = SET_D(1e-3);
#define START(i) VD a##i = SET_D(1.0 + (double)(i));
#define STEP(i)                                                                                    \
    a##i = FMA_D(a##i, b, c);                                                                      \
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

/* Loads only: the empty asm uses each value, so none can be dropped. */
static void peak_read(const void *memory, size_t bytes, size_t rounds)
{
    const size_t count = bytes / sizeof(VF);
    for (size_t r = 0; r < rounds; r++) {
        const VF *p = memory;
        for (size_t i = 0; i + 8 <= count; i += 8) {
#define LOAD(j) __asm__ volatile("" : : REGISTER(p[i + (j)]));
            LOAD(0) LOAD(1) LOAD(2) LOAD(3) LOAD(4) LOAD(5) LOAD(6) LOAD(7)
#undef LOAD
        }
    }
}

#define PEAK_UNIT(isa)                                                                             \
    const struct bench_unit bench_unit_##isa = {                                                   \
        .name = #isa,                                                                              \
        .lanes_f32 = sizeof(VF) / sizeof(float),                                                   \
        .lanes_f64 = sizeof(VD) / sizeof(double),                                                  \
        .chains = PEAK_CHAINS,                                                                     \
        .fma_f32 = peak_f32,                                                                       \
        .fma_f64 = peak_f64,                                                                       \
        .read = peak_read,                                                                         \
        .flags = TSA_BENCH_FLAGS,                                                                  \
    }
