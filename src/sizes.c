/* SPDX-License-Identifier: MIT */
/* Products, sums and binomials of sizes that notice overflow. */
#include "config.h"

#include "internal.h"

bool tsa_size_mul(size_t a, size_t b, size_t *product)
{
    if (b != 0 && a > SIZE_MAX / b)
        return false;
    *product = a * b;
    return true;
}

bool tsa_size_add(size_t a, size_t b, size_t *sum)
{
    if (a > SIZE_MAX - b)
        return false;
    *sum = a + b;
    return true;
}

static size_t gcd(size_t a, size_t b)
{
    while (b != 0) {
        size_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

bool tsa_binomial(size_t n, size_t k, size_t *value)
{
    *value = 0;
    if (k > n)
        return true;
    size_t result = 1; /* binom(n - k + i, i) after step i */
    for (size_t i = 1; i <= k; i++) {
        /* Divide before multiplying: what is left of i after factor gave its share divides
         * result, because the quotient is a whole number. */
        size_t factor = n - k + i;
        size_t common = gcd(factor, i);
        result /= i / common;
        if (!tsa_size_mul(result, factor / common, &result))
            return false;
    }
    *value = result;
    return true;
}
