/* SPDX-License-Identifier: MIT */
/* Rounding to bf16, and sums of products of what was rounded, in plain C. */
#ifndef TSA_TEST_BF16_H
#define TSA_TEST_BF16_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#include <check.h>

/* x rounded to the 8 significant bits of bf16, to nearest even; below 2^-126 a zero. */
static inline float bf16_round(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    const uint32_t magnitude = bits & 0x7fffffffu, rest = bits & 0xffffu;
    if (magnitude > 0x7f800000u)
        return NAN;
    bits -= rest;
    if (magnitude < 0x00800000u)
        bits &= 0x80000000u;
    else if (rest > 0x8000u || (rest == 0x8000u && (bits & 0x10000u) != 0))
        bits += 0x10000u;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* a b + acc of numbers of bf16. Fails the test if it is subnormal: then bits are not defined, and
 * the data are badly chosen. */
static inline float bf16_step(float a, float b, float acc)
{
    const float sum = fmaf(a, b, acc);
    if (sum != 0 && fabsf(sum) < 0x1p-126f)
        ck_abort_msg("the data lead to a subnormal sum, %a", (double)sum);
    return sum;
}

/* a0 b0 + (a1 b1 + acc), the four rounded to bf16 first. */
static inline float bf16_dot(float a0, float b0, float a1, float b1, float acc)
{
    acc = bf16_step(bf16_round(a1), bf16_round(b1), acc);
    return bf16_step(bf16_round(a0), bf16_round(b0), acc);
}

#endif
