/* SPDX-License-Identifier: MIT */
/* A small harness for kernels on top of Check: guarded and poisoned arrays, replayable random
 * data, comparison of memory with a model's, the list of usable kernel tables. */
#ifndef KCHECK_H
#define KCHECK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <check.h>

#include "internal.h"

#if defined(__GNUC__)
#define KC_PRINTF(text, first) __attribute__((__format__(__printf__, text, first)))
#define KC_NORETURN __attribute__((noreturn))
#else
#define KC_PRINTF(text, first)
#define KC_NORETURN
#endif

/* What an array is filled with. */
enum kc_data {
    KC_NORMAL,      /* about N(0,1) */
    KC_UNIT,        /* uniform in [-1, 1) */
    KC_CONSTANT,    /* one value everywhere */
    KC_ALTERNATING, /* +x, -x, +x ... along rows and columns: sums cancel */
    KC_WIDE,        /* either sign, magnitudes 1e-20 .. 1e20 */
    KC_ZEROS,       /* +0 and -0 */
    KC_DENORMAL,    /* below the smallest normal number */
    KC_MIXED,       /* each element one of the above */
    KC_FULL,        /* any finite number */
    KC_SPECIAL,     /* normal, with some infinities, NaNs, zeros and extremes */
    KC_ANY          /* draw one of KC_NORMAL .. KC_MIXED for the array, mostly the first */
};

/* An array that a kernel sees as `rows` rows of `cols` elements, `ld` apart. Everything else in
 * it is poison. It lies in `data`; `want` is the copy that the model works on and `before` the
 * copy of what both started from. */
struct kc_array {
    const char *name;
    unsigned char *data, *want, *before;
    unsigned char *low, *high; /* the accessible bytes around data */
    size_t elem;               /* bytes of an element */
    size_t elements, origin;   /* all elements; the one of row 0, column 0 */
    size_t rows, cols;
    ptrdiff_t ld;
    size_t free_from, free_to; /* columns of each row that may end as anything */
    size_t given;              /* rows from here on may end as anything; 0: none */
    bool canonical;            /* NaNs compare by their bits as well */
};

enum { KC_MAX_ARRAYS = 12 };

struct kc {
    const char *kernel;
    const struct tsa_isa *isa;
    size_t elem;          /* bytes of an element of T */
    uint64_t seed, state; /* of the run; of the generator now */
    uint64_t poison;      /* bits of the poison of this case */
    bool guard_after;     /* this case: arrays end at the guard page, else they start at it */
    bool quick;
    size_t cases, arrays;
    struct kc_array array[KC_MAX_ARRAYS];
    char what[240]; /* the case in words, for messages */
};

/* Usable tables, best first. */
int kc_isa_count(void);
const struct tsa_isa *kc_isa(int i);

/* The seed of this run: $TSA_TEST_SEED, else the clock. Prints it when first asked. */
uint64_t kc_seed(void);

/* Start testing one kernel of one table. The data depend on the seed, the kernel and the
 * shapes only, so tables of as many lanes see the same. */
void kc_open(struct kc *kc, const char *kernel, const struct tsa_isa *isa, size_t elem);

/* Start a case, described by the text: no arrays yet, a new guard side and poison. */
void kc_case(struct kc *kc, const char *format, ...) KC_PRINTF(2, 3);
void kc_fail(struct kc *kc, const char *format, ...) KC_PRINTF(2, 3) KC_NORETURN;

/* Scratch: 64-byte aligned, whole rows. User memory: any alignment, ends with its last element;
 * the stride may be 0 or negative. Both start poisoned. */
struct kc_array *kc_scratch(struct kc *kc, const char *name, size_t rows, size_t cols, size_t ld);
struct kc_array *kc_user(struct kc *kc, const char *name, size_t rows, size_t cols,
                         ptrdiff_t stride);
/* User memory of two-byte elements, at any byte. kc_fill() is not for these. */
struct kc_array *kc_half(struct kc *kc, const char *name, size_t rows, size_t cols,
                         ptrdiff_t stride);
void kc_fill(struct kc *kc, struct kc_array *a, enum kc_data kind);

/* After filling: take the copies. After kernel and model ran: every byte of every array must be
 * as the model left it (NaNs count as equal, poison does not), and the bytes around untouched. */
void kc_freeze(struct kc *kc);
void kc_finish(struct kc *kc);

/* Columns from..to-1 of the array may end as anything. */
static inline void kc_free(struct kc_array *a, size_t from, size_t to)
{
    a->free_from = from;
    a->free_to = to;
}

uint64_t kc_random(struct kc *kc);
size_t kc_between(struct kc *kc, size_t low, size_t high); /* both included */
double kc_unit(struct kc *kc);                             /* uniform in [-1, 1) */
/* One element as bits; index only matters to KC_ALTERNATING, base to KC_CONSTANT and that. */
uint64_t kc_element(struct kc *kc, enum kc_data kind, size_t index, double base);
bool kc_chance(struct kc *kc, unsigned percent);

/* TSA_TEST_QUICK=1: fewer random cases, and a sample of the exhaustive ones. */
size_t kc_rounds(const struct kc *kc, size_t n);
bool kc_keep(struct kc *kc);

/* Monomials enumerated from their definition, for kernels and models. */
struct kc_mono {
    struct tsa_monomials mono;
    size_t *suffix;
    unsigned char *degree;     /* [F] */
    unsigned char (*index)[8]; /* [F][8]: i1 <= ... <= im, variables are below 256 */
};
void kc_mono_init(struct kc_mono *m, size_t d, size_t terms); /* all lower degrees stored */
void kc_mono_store(struct kc_mono *m, size_t stored);         /* fewer of them */
void kc_mono_free(struct kc_mono *m);

/* Run the suite and return what main() should. */
int kc_main(Suite *suite);

#endif
