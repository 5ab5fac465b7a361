/* SPDX-License-Identifier: MIT */
/* Coefficients that fit exp(t/a) best where rows are unit vectors in random directions.
 *
 * t = q.k of such rows has the density (1-t^2)^((d-3)/2) on [-1, 1], up to a factor. Its monic
 * orthogonal polynomials are p_0 = 1, p_1 = t, p_(k+1) = t p_k - beta_k p_(k-1). The polynomial of
 * degree n-1 with the least mean square error is the sum of b_k p_k, k < n, where b_k is what the
 * expansion of exp(t/a) in all p_k has; and that follows from the series of the exponential, as
 * t p_k = p_(k+1) + beta_k p_(k-1) turns the expansion of t^m into that of t^(m+1). No term of it
 * is negative, so that nothing cancels. Only + - * / in double: the same numbers everywhere. */
#include "config.h"

#include "internal.h"

enum { MOST_POWERS = 1024 };

/* Of the density in d dimensions, k >= 1; in one dimension t is -1 or 1. */
static double beta(double d, double k)
{
    return d == 2 && k == 1 ? 0.5 : k * (k + d - 3) / ((2 * k + d - 2) * (2 * k + d - 4));
}

/* b[k], k < terms. u holds the expansion of (t/a)^m / m!. */
static void expand(double d, double a, size_t terms, double *b)
{
    double u[MOST_POWERS + 2] = {1}, sum = 1;
    int small = 0; /* powers in a row that add nothing: each has every other k */
    for (size_t k = 0; k < terms; k++)
        b[k] = k == 0;
    for (size_t m = 1; m < MOST_POWERS; m++) {
        const double factor = 1 / (a * (double)m);
        double below = 0, most = 0; /* u[k-1] before this step */
        for (size_t k = 0; k <= m; k++) {
            const double own = u[k];
            u[k] = (below + beta(d, (double)k + 1) * u[k + 1]) * factor;
            below = own;
            if (k < terms) {
                b[k] += u[k];
                most = u[k] > most ? u[k] : most;
            }
        }
        sum += most;
        small = most < sum * 1e-20 && (double)m > 2 / a ? small + 1 : 0;
        if (small == 2)
            return;
    }
}

void tsa_sphere_coefficients(size_t d, size_t terms, double a, double *coefficients)
{
    double b[TSA_MAX_TERMS], p[TSA_MAX_TERMS] = {1}, before[TSA_MAX_TERMS] = {0};
    expand((double)d, a, terms, b);
    for (size_t m = 0; m < terms; m++)
        coefficients[m] = 0;
    for (size_t k = 0; k < terms; k++) { /* p is p_k in powers of t */
        for (size_t m = 0; m <= k; m++)
            coefficients[m] += b[k] * p[m];
        for (size_t m = k + 1 < terms ? k + 2 : k + 1; m-- > 0;) {
            const double next =
                (m > 0 ? p[m - 1] : 0) - (k > 0 ? beta((double)d, (double)k) * before[m] : 0);
            before[m] = p[m];
            p[m] = next;
        }
    }
    double power = 1; /* t^m = a^m x^m */
    for (size_t m = 0; m < terms; m++, power *= a)
        coefficients[m] *= power;
}
