/* SPDX-License-Identifier: MIT */
/* What the tests share: problems with their expected results, strided tensors, comparisons. */
#ifndef TSA_TEST_SUPPORT_H
#define TSA_TEST_SUPPORT_H

#include <check.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "internal.h"
#include "model.h"
#include "tsa.h"

/* -- running ----------------------------------------------------------------------------------- */

/* TSA_TEST_QUICK=1: fewer and smaller cases, for emulators and sanitizers. */
bool quick(void);
/* Run the suite under CK_ENV and free it; the exit code of main(). */
int run_suite(Suite *suite);
TCase *add_case(Suite *suite, const char *name);
/* The i-th usable instruction set, or NULL past the end. */
const char *usable_isa(size_t i);
/* Fail unless OpenMP, where it is on, grants a team of exactly `threads`. */
void assert_team(int threads);

/* How a plan uses its team: as it likes, or on each long item in one way. */
enum way { WAY_AUTO, WAY_RELAY, WAY_WAVES_OF_2, WAY_WAVES_OF_3, WAYS };
void set_way(struct tsa_plan *plan, enum way way);

/* An assertion for inner loops: Check's own report every success to the parent process. */
#define CHECK(condition, ...)                                                                      \
    do {                                                                                           \
        if (!(condition))                                                                          \
            ck_abort_msg(__VA_ARGS__);                                                             \
    } while (0)

/* -- numbers ----------------------------------------------------------------------------------- */

struct rng {
    uint64_t state;
};
uint64_t rng_next(struct rng *r);
double rng_uniform(struct rng *r); /* (0, 1) */
double rng_normal(struct rng *r);
size_t dtype_size(enum tsa_dtype dtype);
double get(const void *data, enum tsa_dtype dtype, size_t i);
void put(void *data, enum tsa_dtype dtype, size_t i, double x);
/* `count` normal numbers times `scale`. */
void fill_normal(struct rng *r, void *data, enum tsa_dtype dtype, size_t count, double scale);
void *make_zeros(size_t count, enum tsa_dtype dtype);
/* Unit roundoff of T: 2^-24 or 2^-53. */
double roundoff(enum tsa_dtype dtype);

/* -- tensors ----------------------------------------------------------------------------------- */

enum layout {
    LAYOUT_BHND,     /* [batch][head][token][width] */
    LAYOUT_BNHD,     /* [batch][token][head][width] */
    LAYOUT_GAPS,     /* BHND with unused elements after every row, head and sequence */
    LAYOUT_NEGATIVE, /* BHND with all three strides negative */
    LAYOUT_SKEW,     /* [head][token][batch][width], off any vector: an element, halves a byte */
    LAYOUTS
};

/* A tensor in memory of its own; bytes that no element occupies hold a pattern. */
struct strided {
    struct tsa_tensor tensor;
    size_t batch, heads, tokens, width;
    unsigned char *memory;
    size_t bytes;
};
/* Copies the dense [batch][heads][tokens][width] array in; NULL: all elements are NaN. */
void strided_make(struct strided *s, enum layout layout, enum tsa_dtype dtype, size_t batch,
                  size_t heads, size_t tokens, size_t width, const void *dense);
void strided_free(struct strided *s);
/* Copies the elements out; fails the test if a byte between them has changed. */
void strided_read(const struct strided *s, void *dense);

/* A dense [heads][tokens][width] view of every sequence. */
struct tsa_tensor dense(void *data, enum tsa_dtype dtype, size_t heads, size_t tokens,
                        size_t width);
/* The same view from a token or a sequence on. */
struct tsa_tensor from_token(struct tsa_tensor x, size_t token);
struct tsa_tensor from_batch(struct tsa_tensor x, size_t batch);

/* The description of a call: BATCH(.states = st, .count = 2, .tokens = 9, .q = q, ...). */
#define BATCH(...) (&(struct tsa_batch){.size = sizeof(struct tsa_batch), __VA_ARGS__})

/* -- problems ---------------------------------------------------------------------------------- */

/* COEF_FIRST: Taylor but for c_0. */
enum coefficients { COEF_TAYLOR, COEF_SHARED, COEF_PER_HEAD, COEF_FIRST };
enum temperatures { TEMP_TWO, TEMP_SHARED, TEMP_PER_HEAD };

struct shape {
    size_t d, dv, terms, chunk, heads, kv_heads, batch, tokens;
    enum tsa_dtype dtype;
    enum tsa_normalize normalize;
    enum coefficients coefficients;
    enum temperatures temperatures;
};

#define MAX_HEADS 16

/* Inputs of T in dense arrays, and what the model makes of them. */
struct problem {
    struct shape shape;
    double temperature[MAX_HEADS];
    double coefficient[MAX_HEADS * TSA_MAX_TERMS];
    struct model model;
    struct tsa_tensor q, k, v; /* [batch][heads][tokens][.] dense */
    /* [batch][kv_heads][tokens], data NULL if there are none: see problem_gate */
    struct tsa_tensor gate, value_gate;
    void *o;                  /* expected outputs */
    struct model_head **head; /* [batch][kv_heads] expected states */
    size_t o_count;           /* elements of o */
    size_t queries;           /* rows of q, from the first, for which there are */
    void *answers; /* [batch][heads][queries][dv]: expected outputs of tsa_query on these states */
    bool mixed;
    unsigned exact_degrees; /* if mixed */
};
/* Random inputs, not yet run. */
void problem_make(struct problem *p, const struct shape *shape, uint64_t seed);
/* Plans are mixed from now on, and so is the model. f32 only. */
void problem_mix(struct problem *p, unsigned exact_degrees);
/* Plans have gates from now on, and so has the model; with and without value gates, sums, addends
 * and floors, four ways of them. */
void problem_gate(struct problem *p, int how);
/* Let the model compute p->o, p->head and p->answers. */
void problem_solve(struct problem *p);
void problem_free(struct problem *p);
void problem_options(const struct problem *p, struct tsa_options *options);
/* A plan for the problem; isa NULL, threads 0: defaults. */
struct tsa_plan *problem_plan(const struct problem *p, const char *isa, int threads);
struct tsa_plan *make_plan(const struct tsa_options *options);
/* Memory that the library allocates holds NaN before and after its use. */
void poison_allocations(struct tsa_options *options);

struct tsa_state **states_make(const struct tsa_plan *plan, size_t count);
void states_free(struct tsa_state **states, size_t count);

/* Fail unless the status is TSA_OK, with the text of the error. */
void ok(enum tsa_status status, const struct tsa_error *err);

/* -- comparisons ------------------------------------------------------------------------------- */

/* memcmp of `count` elements; on failure names the element and both values. */
void assert_bits(const void *got, const void *want, enum tsa_dtype dtype, size_t count,
                 const char *what);
/* A layer of a state against the model's kv heads: counts and sums bit by bit. */
void assert_state(const struct tsa_plan *plan, const struct tsa_state *state, size_t layer,
                  const struct model *m, struct model_head *const *head, const char *what);
/* All degrees of all kv heads of a layer, F x (dv+1) doubles each; free() it. */
double *export_all(const struct tsa_plan *plan, const struct tsa_state *state, size_t layer,
                   size_t *count);
/* The export against the model's, bit by bit. */
void assert_export(const struct tsa_plan *plan, const struct tsa_state *state, size_t layer,
                   const struct model *m, struct model_head *const *head, const char *what);
void assert_equal(const struct tsa_plan *plan, const struct tsa_state *a, const struct tsa_state *b,
                  bool wanted);
/* |a - b| in units of the last place of b. */
double ulps(double a, double b, enum tsa_dtype dtype);
/* The error is complete and names the argument (temperatures: "temperature of head 1"). */
void assert_error(const struct tsa_error *err, enum tsa_status got, enum tsa_status want,
                  const char *argument);

/* -- files ------------------------------------------------------------------------------------- */

/* Path of a file in the data folder, or NULL if it is not there; static memory. */
const char *data_path(const char *name);
/* A .npy file (version 1.0, C order, <f4 or <f8) as doubles; fails the test if it is not one. */
double *npy_read(const char *path, size_t *count);

#endif
