/* SPDX-License-Identifier: MIT */
/* Feeding a sequence to the library, whole or in pieces: the bits are the same. */
#ifndef TSA_FEED_H
#define TSA_FEED_H

#include <stdbool.h>
#include <stddef.h>

#include "progress.h"
#include "tsa.h"

struct feed {
    const struct tsa_plan *plan;
    struct tsa_tensor q, k, v, o, gate, value_gate;
    size_t batch, queries, keys;
    bool causal;
    size_t step; /* tokens a call; 0: all at once, or pieces of our choice under a progress bar */
    bool marker; /* before the keys, absorb one zero key with the value one (report.c) */
    size_t head_dim; /* for the marker */
    struct progress *progress;
    /* What came of it. */
    size_t calls; /* that fed tokens or asked for rows */
    size_t folds; /* of each sequence's window */
    size_t start; /* first token of the last call: where the positions of an error count from */
};

/* Absorb and answer by recurrent states. Takes and releases them. */
enum tsa_status feed_states(struct feed *feed, struct tsa_error *err);
/* Exact attention over the same tensors. */
enum tsa_status feed_softmax(struct feed *feed, struct tsa_error *err);

#endif
