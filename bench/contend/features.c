/* SPDX-License-Identifier: MIT */
/* How the contenders lay out and weigh features. */
#include "config.h"

#include <math.h>
#include <stdlib.h>

#include "contend.h"

/* Monomials of degree m in lexicographic order: those whose first index is i are x_i times the
 * suffix of degree m-1 that starts at first index i. first[i] is where that suffix starts. */
struct contend_run_of *contend_runs(size_t d, size_t terms, size_t *count)
{
    struct contend_run_of *runs = bench_memory((terms * d + 1) * sizeof *runs);
    size_t *first = bench_memory((d + 1) * sizeof *first); /* degree 0: one monomial, for any i */
    size_t start = 1, below = 0, length = 1;
    *count = 0;
    for (size_t m = 1; runs && first && m < terms; m++) {
        size_t at = 0;
        for (size_t i = 0; i < d; i++) {
            const struct contend_run_of r = {start + at, length - first[i], below + first[i], i};
            if (m >= 2)
                runs[(*count)++] = r;
            first[i] = at;
            at += r.count;
        }
        below = start;
        start += at;
        length = at;
    }
    if (!first) {
        free(runs);
        return NULL;
    }
    free(first);
    return runs;
}

/* Of each feature c_m a^-m times its multiplicity, m!/prod(alpha!): a row of ones has its root. */
float *contend_weights(size_t d, size_t terms)
{
    const size_t features = tsa_features(d, terms);
    float *weight = bench_memory((features + 16) * sizeof *weight); /* for whole vectors */
    double *row = bench_memory((d + features) * sizeof *row), coef = 1;
    for (size_t i = 0; row && i < d; i++)
        row[i] = 1;
    if (row)
        bench_features(row, d, terms, row + d);
    for (size_t m = 0, f = 0; row && weight && m < terms; coef /= 2.0 * (double)++m)
        for (; f < tsa_features(d, m + 1); f++)
            weight[f] = (float)((float)coef * round(row[d + f] * row[d + f]));
    if (!row) {
        free(weight);
        return NULL;
    }
    free(row);
    return weight;
}
