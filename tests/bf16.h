/* SPDX-License-Identifier: MIT */
/* Rounding to bf16 and sums of products of what was rounded, in plain C. */
#ifndef TSA_TEST_BF16_H
#define TSA_TEST_BF16_H

/* x rounded to the 8 significant bits of bf16, to nearest even; below 2^-126 a zero. */
float bf16_round(float x);
/* a0 b0 + (a1 b1 + acc), the four rounded to bf16 first. Fails the test if a result is subnormal:
 * then bits are not defined, and the data are badly chosen. */
float bf16_dot(float a0, float b0, float a1, float b1, float acc);

#endif
