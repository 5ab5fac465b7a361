/* SPDX-License-Identifier: MIT */
/* See truth.h. */
#include <math.h>
#include <stdlib.h>

#include "truth.h"

/* Row by the definition, in long double, without features and without recursion.
 *
 * The bound. Let X = sum_c |q'_c k_c| and M_m = |c_m| X^m: by the multinomial theorem M_m is also
 * the sum of |psi_f phi_f| over the monomials of degree m, so M_m |v| majorises the magnitudes of
 * degree m that key i adds to a numerator on either path. Roundings that a product of degree m
 * passes through, at most:
 *   normalisation d/2 + 3 for each of q and k, scale 2, on every one of its m factors: m (d + 8)
 *   state: monomials 2 (m-1), weight and product 2, local chain C, fold 2, and the descending
 *     walk: everything after it, that is features 0 .. start[m+1]-1, and then the window: C
 *   window: score chain m d, Horner 2 n, chain C
 * so K_m = m (2 d + 10) + 2 n + 5 + 2 min(C, keys) + start[m+1] covers both. High degrees, of keys
 * in the sums, are rounded to bf16 four times as well: phi, v, Hi, psi; each by at most 2^-8, and
 * that of Hi by 2^-8 of magnitudes that these majorise. The last pair may have a zero in it: one
 * step more. The same holds for the denominator, and the quotient o = num/den then errs by at most
 *   u (sum_i sum_m K_m M_m (|v_i| + |o|)) / (|den| - error of den) + u |o|,
 * to first order in numerator and denominator; 2 % more covers the second: of bf16 it is
 * (1 + 2^-8)^4 - 1 < 1.006 (4 2^-8). Subnormal steps may add a few least numbers. */
void explicit_row(const struct model *m, size_t h, const void *q, const void *k, const void *v,
                  size_t keys, struct truth *out)
{
    const double *coef = m->coefficients + h * m->terms;
    const bool l2 = m->normalize == TSA_NORMALIZE_L2;
    const double u = roundoff(m->dtype);
    const double chunk = (double)(m->chunk < keys ? m->chunk : keys);
    long double *w = calloc(2 * keys + 1, sizeof *w), *majorant = w + keys, den = 0, all = 0;
    long double qq = 0;
    for (size_t c = 0; c < m->d; c++)
        qq += (long double)get(q, m->dtype, c) * get(q, m->dtype, c);
    for (size_t i = 0; i < keys; i++) {
        long double x = 0, magnitude = 0, kk = 0;
        for (size_t c = 0; c < m->d; c++) {
            const long double kc = get(k, m->dtype, i * m->d + c), qc = get(q, m->dtype, c);
            x += qc * kc;
            magnitude += fabsl(qc * kc);
            kk += kc * kc;
        }
        const long double norm =
            (l2 && qq > 0 && kk > 0 ? sqrtl(qq) * sqrtl(kk) : 1) * (long double)m->temperature[h];
        long double power = 1, bound = 1;
        for (size_t j = 0; j < m->terms; j++) {
            const bool narrow = m->start[j] >= m->high && i < keys / m->chunk * m->chunk;
            const double roundings = (double)(j * (2 * m->d + 10) + 2 * m->terms + 5) + 2 * chunk +
                                     (double)m->start[j + 1] + (narrow ? 1 + 4 * 0x1p-8 / u : 0);
            w[i] += coef[j] * power;
            majorant[i] += roundings * fabs(coef[j]) * bound;
            power *= x / norm;
            bound *= magnitude / norm;
        }
        den += w[i];
        all += majorant[i];
    }
    for (size_t c = 0; c < m->dv; c++) {
        long double num = 0, sum = 0;
        for (size_t i = 0; i < keys; i++) {
            const long double vc = get(v, m->dtype, i * m->dv + c);
            num += w[i] * vc;
            sum += majorant[i] * fabsl(vc);
        }
        const long double o = num / den;
        out[c].value = (double)o;
        out[c].bound =
            (double)(1.02L * u * ((sum + fabsl(o) * all) / (fabsl(den) - u * all) + fabsl(o))) +
            (m->dtype == TSA_F32 ? 0x1p-140 : 0x1p-1070);
    }
    free(w);
}
