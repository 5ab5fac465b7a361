/* SPDX-License-Identifier: MIT */
/* Rounding to bf16 and sums of products of what was rounded, in plain C. */
#include <math.h>
#include <stdint.h>
#include <string.h>

#include <check.h>

#include "bf16.h"

float bf16_round(float x)
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

static float step(float a, float b, float acc)
{
    const float sum = fmaf(bf16_round(a), bf16_round(b), acc);
    if (fpclassify(sum) == FP_SUBNORMAL)
        ck_abort_msg("the data lead to a subnormal sum, %a", (double)sum);
    return sum;
}

float bf16_dot(float a0, float b0, float a1, float b1, float acc)
{
    return step(a0, b0, step(a1, b1, acc));
}
