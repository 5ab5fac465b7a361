/* SPDX-License-Identifier: MIT */
/* Problems for tsa_softmax, a plain model of its arithmetic, runs by the library and their
 * comparison, and what the definition says. */
#ifndef TSA_TEST_SOFTMAX_RUN_H
#define TSA_TEST_SOFTMAX_RUN_H

#include "support.h"
#include "truth.h"

/* The model's exponentials of the bounded form. */
float softmax_exp_bounded_f32(float x);
double softmax_exp_bounded_f64(double x);

/* -- problems ---------------------------------------------------------------------------------- */

/* Which form the heads have: bounded, general, both in turn, or general by unnormalised rows. The
 * scale of 2 - 1e-10 is 1/2 in f32, and more in f64. */
enum softmax_form { BOUNDED, GENERAL, MIXED, UNSCALED, FORMS };

/* Of a problem: SIZE(.d = 16, .dv = 64, ...). */
struct softmax_size {
    size_t d, dv, heads, kv_heads, batch, keys;
};
#define SIZE(...) (&(struct softmax_size){__VA_ARGS__})

#define COUNT(array) (sizeof(array) / sizeof *(array))

/* Inputs for `keys` tokens of q, k and v: queries are taken from the end of q. */
void softmax_problem(struct problem *p, enum softmax_form form, enum tsa_dtype dtype,
                     const struct softmax_size *size);
/* k of kv head g of sequence b, normalised. */
void *softmax_keys(const struct problem *p, size_t b, size_t g);
/* Output (sequence b, head h, token t) over the first `keys` of k, which softmax_keys() made. */
void softmax_row(const struct problem *p, size_t b, size_t h, size_t t, const void *k, size_t keys,
                 void *o);
/* Outputs of all tokens, each of which sees itself and those before it, or all keys: every row for
 * which `t % every == 0`, or that is near the end of a segment or of all. The others are NaN. */
void *softmax_solve(const struct problem *p, bool causal, size_t every);

/* -- runs -------------------------------------------------------------------------------------- */

/* A plan; outputs; and a workspace that holds NaN and lies before bytes that must stay. */
struct softmax_run {
    const struct problem *p;
    struct tsa_plan *plan;
    struct tsa_workspace *ws;
    unsigned char *memory;
    size_t bytes;
    void *o;
    struct tsa_tensor q, k, v, out;
};

void softmax_run_begin(struct softmax_run *r, const struct problem *p, const char *isa, int threads,
                       bool workspace, unsigned flags);
void softmax_run_end(struct softmax_run *r);
/* The queries t .. t+queries-1 over the first `keys` keys. */
void softmax_attend(struct softmax_run *r, size_t t, size_t queries, size_t keys, bool causal);
void softmax_poison(struct softmax_run *r);
/* Queries t .. t+queries-1 of every head have the bits of `want`, if they are among `every`; and
 * nothing else has been written. */
void softmax_check(const struct softmax_run *r, const void *want, size_t t, size_t queries,
                   size_t every, const char *what);
/* One call for the last `queries` tokens. */
void softmax_check_last(struct softmax_run *r, const void *want, size_t queries, bool causal,
                        const char *what);

/* -- the definition ---------------------------------------------------------------------------- */

/* Output row (head h, token t of sequence b) by the definition, in long double, and how far T may
 * be from it. `out` has dv entries. */
void softmax_define(const struct problem *p, size_t b, size_t h, size_t t, size_t keys,
                    struct truth *out);
/* Each step-th of the rows of `o` that softmax_solve() made: what the model computes, and the
 * library with it. */
void softmax_check_definition(const struct problem *p, const void *o, bool causal, size_t every,
                              size_t step);

#endif
