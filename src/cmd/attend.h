/* SPDX-License-Identifier: MIT */
/* The parts of `tsa attend`. */
#ifndef TSA_ATTEND_H
#define TSA_ATTEND_H

#include <stdbool.h>
#include <stddef.h>

#include <jansson.h>

#include "feed.h"
#include "npy.h"
#include "tsa.h"

/* What the command line asks for. */
struct attend_options {
    const char *q, *k, *v, *o;
    size_t terms, chunk, step, softmax_window;
    int threads;
    const char *isa;
    double temperature;
    enum tsa_normalize normalize;
    enum tsa_dtype dtype; /* 0: as the queries' file */
    enum tsa_compute compute;
    unsigned exact_degrees;
    bool exact_degrees_given; /* else the library's default */
    double coefficients[TSA_MAX_TERMS];
    size_t coefficient_count; /* 0: Taylor's */
    bool sphere;              /* until they are known: the library's for random unit rows */
    bool softmax, noncausal, compare, report, json, force;
    /* Of recurrences other than the paper's (recurrence.c) */
    const char *model, *gate, *value_gate; /* a name; files, or NULL */
    enum tsa_output output;
    double output_scale, denominator_add, denominator_floor;
};

/* The problem in the files. */
struct attend {
    struct attend_options options;
    struct npy q, k, v, gate, value_gate;
    size_t rank, batch, heads, kv_heads, queries, keys, head_dim, value_dim;
    struct tsa_tensor tq, tk, tv, to, tgate, tvalue_gate; /* gates: data NULL if none */
    void *out;
    size_t out_bytes;
};

/* Is there no output to compute? Then nothing is, whatever the other dimensions. */
bool attend_is_empty(const struct attend *attend);
/* What the plan for the problem is made from; change it as needed. For an empty problem it is of
 * the smallest shape, and only to check the other options. */
void attend_plan_options(const struct attend *attend, struct tsa_options *options);
/* The problem as a feed without outputs. */
struct feed attend_feed(const struct attend *attend, const struct tsa_plan *plan,
                        struct progress *progress);
/* Name the file and the token in what the library said of a feed. Returns CMD_FAILURE. */
int attend_fail(const struct attend *attend, const struct feed *feed, enum tsa_status status,
                const struct tsa_error *err);

/* -- input.c: options and files to a problem; an exit code, after a line on stderr ------------- */

int attend_parse(int argc, char **argv, struct attend_options *options, bool *done);
int attend_load(struct attend *attend);
/* A contiguous tensor of the problem's rank. */
struct tsa_tensor attend_tensor(void *data, enum tsa_dtype dtype, size_t heads, size_t tokens,
                                size_t width);

/* -- recurrence.c ------------------------------------------------------------------------------ */

/* Set what a published model sets; false after a line on stderr. A temperature or a scale of 0
 * waits for the shape. */
bool attend_parse_model(const char *name, struct attend_options *options);
/* Do the options go together? An exit code. */
int attend_check_recurrence(const struct attend_options *options);
/* What the model leaves to the shape. */
void attend_settle_recurrence(struct attend *attend);
/* Read the files of gates. An exit code. */
int attend_load_gates(struct attend *attend);
json_t *attend_recurrence_json(const struct attend *attend);
void attend_print_recurrence(const struct attend *attend);

/* -- range.c --------------------------------------------------------------------------------- */

/* Largest |q_t| |k_i| / a over the pairs that meet in one head, after normalisation. */
double attend_largest_score(const struct attend *attend, size_t sequence, size_t head);
/* A text for the user if scores may be beyond what the series is good for, else "". */
void attend_check_range(const struct attend *attend, char *warning, size_t size);

/* -- report.c -------------------------------------------------------------------------------- */

/* One query head, over the whole batch. */
struct attend_report {
    double largest;       /* attend_largest_score() */
    double smallest_mean; /* smallest denominator over the number of keys it sums */
    size_t rows, nonpositive, near_zero;
};

/* Denominators nearer to 0 than this, per key and in units of c_0, are counted as near it. */
#define ATTEND_NEAR_ZERO 1e-3

/* Fill one entry per head. Returns an exit code. */
int attend_report(const struct attend *attend, struct attend_report *heads);

/* Above this |q||k|/a powers of scores no longer fall with the degree. */
#define ATTEND_LARGE_SCORE 1.0
/* The part of a weight that degrees from `exact_degrees` on have, all terms taken as positive, at a
 * score of x > 0. */
double attend_high_share(const struct attend *attend, unsigned exact_degrees, double x);
/* Relative error of outputs that come from bf16 operands alone, nearly (doc/accuracy.md). */
#define ATTEND_MIXED_UNIT 0x1p-8

/* -- mixed.c --------------------------------------------------------------------------------- */

struct attend_error {
    double relative_l2, max_abs;
};

/* Numbers of exact degrees that are tried: those up to MOST_EXACT, the one asked for if it is
 * larger, and all of them, which is f32. */
enum { ATTEND_MOST_EXACT = 3, ATTEND_MOST_VARIANTS = ATTEND_MOST_EXACT + 3 };

struct attend_variant {
    enum tsa_compute compute;
    unsigned exact_degrees;
    struct attend_error truncated, softmax; /* of the outputs, against both in f64 */
    double seconds;
};

struct attend_variants {
    size_t count; /* 0: not asked for, or not for the arithmetic of this problem */
    struct attend_variant of[ATTEND_MOST_VARIANTS];
};

/* Compute the problem in all ways. Returns an exit code. */
int attend_variants(const struct attend *attend, struct attend_variants *variants);
void attend_variants_print(const struct attend_variants *variants);
json_t *attend_variants_json(const struct attend_variants *variants);

#endif
