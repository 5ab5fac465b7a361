/* SPDX-License-Identifier: MIT */
/* What the definition says of an output, and how far a computed one may be from it. */
#ifndef TSA_TEST_TRUTH_H
#define TSA_TEST_TRUTH_H

#include "support.h"

/* What the definition says, and how far T may be from it. */
struct truth {
    double value, bound;
};
/* Output (head h, query q) over keys 0..keys-1 of dense rows k, v, by the definition, with the
 * error that the arithmetic may have in T (derived in truth.c). `out` has dv entries. */
void explicit_row(const struct model *m, size_t h, const void *q, const void *k, const void *v,
                  size_t keys, struct truth *out);

#endif
