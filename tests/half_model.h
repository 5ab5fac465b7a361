/* SPDX-License-Identifier: MIT */
/* bf16 and f16 by their definition: a table of all values, and rounding by comparison with the
 * middle between neighbours, both in double, where all of these are exact. */
#ifndef TSA_TEST_HALF_MODEL_H
#define TSA_TEST_HALF_MODEL_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>

/* Of the positive numbers, by bits; at the infinity stands what would follow the largest. */
static inline const double *half_table(bool f16)
{
    static double table[2][0x7f81];
    double *value = table[f16];
    const int fraction = f16 ? 10 : 7, infinity = f16 ? 0x7c00 : 0x7f80, bias = f16 ? 15 : 127;

    if (value[infinity] == 0)
        for (int i = 0; i <= infinity; i++) {
            const int e = i >> fraction, m = i & ((1 << fraction) - 1);

            value[i] = e == 0 ? ldexp(m, 1 - bias - fraction)
                              : ldexp((1 << fraction) + m, e - bias - fraction);
        }
    return value;
}

static inline double half_value(uint16_t bits, bool f16)
{
    const unsigned infinity = f16 ? 0x7c00 : 0x7f80, magnitude = bits & 0x7fff;
    const double x = magnitude > infinity    ? NAN
                     : magnitude == infinity ? INFINITY
                                             : half_table(f16)[magnitude];

    return bits & 0x8000 ? -x : x;
}

static inline uint16_t half_nearest(double x, bool f16)
{
    const double *value = half_table(f16), magnitude = fabs(x);
    const unsigned infinity = f16 ? 0x7c00 : 0x7f80, sign = signbit(x) ? 0x8000 : 0;
    unsigned low = 0, high = infinity;

    if (x != x)
        return f16 ? 0x7e00 : 0x7fc0;
    if (magnitude >= value[infinity])
        return (uint16_t)(sign | infinity);
    while (high - low > 1) { /* value[low] <= magnitude < value[high] */
        const unsigned middle = (low + high) / 2;
        const bool below = value[middle] <= magnitude;

        low = below ? middle : low;
        high = below ? high : middle;
    }
    const double middle = (value[low] + value[high]) / 2;
    if (magnitude > middle || (magnitude == middle && low % 2 == 1))
        low = high;
    return (uint16_t)(sign | low);
}

#endif
