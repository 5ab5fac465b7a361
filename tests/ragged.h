/* SPDX-License-Identifier: MIT */
/* Sequences of different lengths in one call, packed or padded, and what calls with each of them
 * alone make of them. */
#ifndef TSA_TEST_RAGGED_H
#define TSA_TEST_RAGGED_H

#include "support.h"

#define RAGGED_MOST 320            /* sequences of a call */
#define RAGGED_LAYERS 2            /* of states, */
#define RAGGED_LAYER 1             /* of which the calls use this one */
#define RAGGED_UNTOUCHED 0.7109375 /* what outputs hold before a call */

/* Sequences that lie one after another in a problem, the states before the call, and what calls
 * with each of them alone make of these. */
struct ragged_batch {
    struct problem p, past;
    size_t count, length[RAGGED_MOST], start[RAGGED_MOST], before[RAGGED_MOST];
    struct tsa_plan *alone;
    struct tsa_state **given, **want, **got; /* got: those of the call */
    void *o;                                 /* [heads][rows][dv] */
};

/* A plan whose team works in the given way. */
struct tsa_plan *ragged_plan(const struct problem *p, int threads, enum way way, unsigned flags);
/* count, length[] and before[] are filled in. */
void ragged_begin(struct ragged_batch *x, const struct shape *shape, uint64_t seed);
void ragged_end(struct ragged_batch *x);

/* -- one call ---------------------------------------------------------------------------------- */

enum ragged_kind { RAGGED_PACKED, RAGGED_PADDED };

/* Which sequence comes where in a call. */
struct ragged_place {
    enum ragged_kind kind;
    size_t count, order[RAGGED_MOST];
    size_t batch, tokens;            /* of the tensors */
    int64_t number[RAGGED_MOST + 1]; /* offsets or lengths */
    bool finite; /* rows of no sequence are; else a look at them would be seen */
};

void shuffle_list(struct rng *r, size_t *list, size_t count);
/* seed 0: in their own order. */
void ragged_place_make(struct ragged_place *at, const struct ragged_batch *x, enum ragged_kind kind,
                       uint64_t seed);

struct ragged_views {
    struct strided q, k, v, o;
};

/* Views of the inputs at their places, each of another layout from `layout` on, and of outputs. */
void ragged_views_make(struct ragged_views *y, const struct ragged_place *at,
                       const struct ragged_batch *x, int layout, enum tsa_dtype as);
void ragged_views_free(struct ragged_views *y);
/* The outputs of the call, and nothing but these. */
void ragged_check_outputs(const struct ragged_views *y, const struct ragged_place *at,
                          const struct ragged_batch *x);
/* Prefill or absorb. */
enum tsa_status ragged_call(const struct tsa_plan *plan, struct tsa_state *const *states,
                            const struct ragged_place *at, const struct ragged_views *y,
                            bool absorb, struct tsa_workspace *ws, struct tsa_error *err);
void ragged_check_state(const struct tsa_plan *plan, const struct tsa_state *got,
                        const struct tsa_state *want, const char *what, size_t b);
/* All sequences in one call, prefill and absorb, from the states that are given. */
void ragged_run(const struct ragged_batch *x, const struct tsa_plan *plan, struct tsa_workspace *ws,
                enum ragged_kind kind, uint64_t seed, int layout, enum tsa_dtype as);
/* Both kinds, by teams of several sizes, with waves and steps that are forced, in any order,
 * through views of all layouts. */
void ragged_run_all(const struct ragged_batch *x, size_t sizes);

#endif
