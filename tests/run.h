/* SPDX-License-Identifier: MIT */
/* Runs of a problem by the library under some schedule, and their comparison with the model. */
#ifndef TSA_TEST_RUN_H
#define TSA_TEST_RUN_H

#include "support.h"

/* Plan, states and outputs of one run, and a workspace whose scratch is filled with NaN now and
 * then. */
struct run {
    const struct problem *p;
    struct tsa_plan *plan;
    struct tsa_state **states; /* [batch] */
    void *o, *scratch;
    size_t scratch_bytes, calls;
    struct tsa_workspace *ws;
    struct tsa_tensor out; /* dense, on o */
};
enum verb { PREFILL, DECODE, ABSORB };

/* isa NULL: the default. The team is granted, or the test fails. */
void run_begin(struct run *r, const struct problem *p, const char *isa, int threads, enum way way);
void run_end(struct run *r);
/* The workspace for the next call. */
struct tsa_workspace *run_workspace(struct run *r);
/* Tokens from..to of sequences first..last in one call; DECODE: one call a token. */
void feed(struct run *r, enum verb verb, size_t first, size_t last, size_t from, size_t to);
/* All tokens of all sequences, `piece` at a time. */
void feed_pieces(struct run *r, enum verb verb, size_t piece);
/* All tokens through the given views, `piece` at a time; outputs go to o, and are compared. */
void feed_views(struct run *r, const struct tsa_tensor *q, const struct tsa_tensor *k,
                const struct tsa_tensor *v, const struct strided *o, size_t piece);
/* States against the model; then all queries at once against the model's non-causal answer. */
void check_states(struct run *r, const char *what);
/* Outputs and states. */
void check_run(struct run *r, const char *what);

/* The ladder of cuttings: rung 0 is all tokens in one call, then pieces of several lengths, token
 * by token, absorbed, one sequence at a time, absorbed first. Checked against the model. */
enum { RUNGS = 13 };
void feed_by_rung(struct run *r, size_t rung);
/* Prefill, then decode or absorb, by a team of threads; more of them than heads, so that one item
 * has the whole team, in the given way. */
void check_team(const struct problem *p, const char *isa, int team, enum way way);

/* -- models of states, token by token (f32) ---------------------------------------------------- */

/* A model of each kv head. */
struct model_head **heads_new(const struct model *m);
void heads_copy(const struct model *m, struct model_head *const *to,
                struct model_head *const *from);
void heads_merge(const struct model *m, struct model_head *const *to,
                 struct model_head *const *from);
void heads_free(const struct model *m, struct model_head **head);
/* Token t of sequence b of the problem; outputs, if wanted, in their place of a dense array. */
void model_token(const struct model *m, struct model_head *const *head, const struct problem *p,
                 size_t b, size_t t, float *want);

#endif
