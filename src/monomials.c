/* SPDX-License-Identifier: MIT */
/* The list of symmetric monomials: counts, suffix table, multiplicities (doc/math.md). */
#include "config.h"

#include "internal.h"
#include "tuning.h"

void tsa_monomials_store(struct tsa_monomials *mono, size_t stored)
{
    const size_t below = mono->terms > 3 ? mono->terms - 2 : 1; /* the top degree */
    mono->stored = stored;
    mono->base = mono->terms > 2 ? mono->start[stored + 1] - 1 : mono->d;
    mono->rows = mono->base + (below - stored) * TSA_PIECE;
}

bool tsa_monomials_init(struct tsa_monomials *mono, size_t d, size_t terms)
{
    size_t total = 0, lower = 0;
    if (d == 0 || terms == 0 || terms > TSA_MAX_TERMS)
        return false;
    mono->d = d;
    mono->terms = terms;
    mono->suffix = NULL;
    for (size_t m = 0; m < terms; m++) {
        size_t top, count;
        mono->start[m] = total;
        /* binom(d - 1 + m, m), which is 1 for m = 0 */
        if (!tsa_size_add(d - 1, m, &top) || !tsa_binomial(top, m, &count) ||
            !tsa_size_add(total, count, &total))
            return false;
        if (m >= 1 && m + 1 < terms)
            lower += count;
    }
    for (size_t m = terms; m < sizeof mono->start / sizeof *mono->start; m++)
        mono->start[m] = total;
    mono->total = total;
    /* Packed rows of q and k, the degree 1, lie there even if no higher degree needs them. */
    mono->lower = lower < d ? d : lower;
    size_t stored = terms > 3 ? terms - 2 : 1;
    while (stored > 1 && mono->start[stored + 1] - 1 > TSA_MOST_STORED)
        stored--;
    tsa_monomials_store(mono, stored);
    return true;
}

size_t tsa_monomials_suffix_count(size_t d, size_t terms)
{
    size_t count;
    if (!tsa_size_add(d, 1, &count) || !tsa_size_mul(count, terms, &count))
        return SIZE_MAX;
    return count;
}

void tsa_monomials_fill_suffix(struct tsa_monomials *mono, size_t *suffix)
{
    size_t d = mono->d;
    /* The empty tuple of degree 0 follows every first index. */
    for (size_t i = 0; i < d; i++)
        suffix[i] = 0;
    suffix[d] = 1;
    for (size_t m = 1; m < mono->terms; m++) {
        const size_t *lower = suffix + (m - 1) * (d + 1);
        size_t *row = suffix + m * (d + 1);
        row[0] = 0;
        for (size_t i = 0; i < d; i++)
            row[i + 1] = row[i] + (lower[d] - lower[i]);
    }
    mono->suffix = suffix;
}

void tsa_tuple_first(struct tsa_tuple *tuple, size_t d, size_t degree)
{
    tuple->d = d;
    tuple->degree = degree;
    for (size_t j = 0; j < degree; j++)
        tuple->index[j] = 0;
}

bool tsa_tuple_next(struct tsa_tuple *tuple)
{
    size_t j = tuple->degree;
    while (j > 0 && tuple->index[j - 1] + 1 == tuple->d)
        j--;
    if (j == 0)
        return false;
    size_t value = tuple->index[j - 1] + 1;
    for (j--; j < tuple->degree; j++)
        tuple->index[j] = value;
    return true;
}

double tsa_tuple_multiplicity(const struct tsa_tuple *tuple)
{
    /* m! / prod(alpha_i!), kept whole: after j indices it is that of the tuple's first j. */
    unsigned multiplicity = 1, run = 0;
    for (unsigned j = 0; j < tuple->degree; j++) {
        run = j > 0 && tuple->index[j] == tuple->index[j - 1] ? run + 1 : 1;
        multiplicity = multiplicity * (j + 1) / run;
    }
    return (double)multiplicity;
}
