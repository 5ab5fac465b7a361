/* SPDX-License-Identifier: MIT */
/* Types shared by the files of the benchmark, `tsa bench`. */
#ifndef TSA_BENCH_H
#define TSA_BENCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "cmd.h"
#include "peak.h"
#include "tsa.h"

struct bench_contenders;
/* The subcommand: argv[0] is its name. --contenders takes these. Returns the exit code. */
int bench_main(int argc, char **argv, const struct bench_contenders *contenders);

/* -- problems (problem.c) -------------------------------------------------------------------- */

#define BENCH_PROBLEM_TEXT 128
enum bench_op { BENCH_PREFILL, BENCH_DECODE, BENCH_ABSORB, BENCH_SOFTMAX, BENCH_SOFTMAX_DECODE };

struct bench_problem {
    enum bench_op op;
    size_t batch, heads, kv_heads; /* kv_heads 0: as heads */
    size_t n, d, dv, terms;
    size_t chunk; /* 0: the library's default */
    bool mixed;   /* with `exact` exact degrees, whatever the options say */
    size_t exact;
    char text[BENCH_PROBLEM_TEXT];
};

/* Read a problem string; false after a line on stderr. */
bool bench_problem_parse(const char *text, struct bench_problem *problem);
/* Write the canonical string into problem->text. */
void bench_problem_name(struct bench_problem *problem);
/* A canonical string without the fields b1 and h1, for tables. Returns text, which has
 * BENCH_PROBLEM_TEXT bytes. */
const char *bench_problem_short(const char *name, char *text);
/* Useful FLOPs per token and query head with this chunk (doc/bench.md has the formula). */
double bench_problem_flops(const struct bench_problem *problem, size_t chunk);
/* Numbers in the folded state of one kv head. */
double bench_problem_elements(const struct bench_problem *problem);
bool bench_is_decode(enum bench_op op);
/* All but softmax. */
bool bench_has_state(enum bench_op op);

/* -- time (timing.c) ------------------------------------------------------------------------- */

struct bench_timing {
    double seconds; /* shortest time of one repeat */
    int repeats;
    bool cold; /* wipe the caches before each repeat, one iteration per repeat */
    bool cpu;  /* one thread: the smaller of wall and processor time */
};

struct bench_stats {
    double min, median, spread; /* seconds of one iteration; spread = median/min - 1 */
    size_t iterations;
};

/* Something to time: run it `iterations` times, false on failure. */
struct bench_work {
    bool (*run)(void *context, size_t iterations);
    void *context;
    bool (*before)(void *context); /* before each repeat, outside the clock; may be NULL */
};

/* Time `count` works, repeat by repeat in turn, so that their ratios are fair. */
bool bench_measure(const struct bench_timing *timing, const struct bench_work *works, size_t count,
                   struct bench_stats *stats);

/* -- the machine (machine.c) ----------------------------------------------------------------- */

enum bench_level { BENCH_L1, BENCH_L2, BENCH_L3, BENCH_DRAM, BENCH_LEVELS };

struct bench_machine {
    const struct bench_unit *unit;
    int threads;
    double peak_f32, peak_f64;            /* GFLOP/s of one thread */
    double peak_all_f32, peak_all_f64;    /* of `threads` threads together */
    const struct bench_pairs_unit *pairs; /* NULL: no bf16 in hardware, or not for this unit */
    double peak_bf16;                     /* GFLOP/s of one thread; NaN without */
    size_t cache[3];                      /* bytes of L1d, L2, L3 */
    size_t footprint[BENCH_LEVELS];
    double bandwidth[BENCH_LEVELS]; /* GB/s read by one thread */
    char cpu[128];
};

/* The CPU, its caches, and the unit: false if there is none for this instruction set. */
bool bench_machine_identify(struct bench_machine *machine, const char *isa, int threads);
/* The same, and all limits. */
bool bench_machine_measure(struct bench_machine *machine, const char *isa, int threads);
/* Measure the peaks again and keep the better figures. */
void bench_machine_peak(struct bench_machine *machine);
/* Lines about it; the limits only if they were measured. */
void bench_machine_print(const struct bench_machine *machine, FILE *file, const char *prefix);
/* The level in which `bytes` lie when they are read again and again. */
enum bench_level bench_machine_level(const struct bench_machine *machine, double bytes);
extern const char *const bench_level_name[BENCH_LEVELS];

/* -- inputs and their reference (inputs.c) --------------------------------------------------- */

/* Rows of a ring of tokens; token i of a sequence is row i % ring. */
struct bench_inputs {
    size_t ring;
    enum tsa_dtype dtype;
    struct tsa_tensor q, k, v, o; /* token 0 of the ring */
    void *memory[4];
};

/* Decoded tokens come fresh from a projection in an engine: timed steps take turns among a few. */
#define BENCH_FRESH 8
/* heads-major rows, or token-major rows (one decoding step is contiguous). */
bool bench_inputs_create(struct bench_inputs *in, const struct bench_problem *problem, size_t ring,
                         size_t out_tokens, enum tsa_dtype dtype, bool token_major);
void bench_inputs_destroy(struct bench_inputs *in);
/* A tensor moved to a row, a head or a sequence. */
struct tsa_tensor bench_at(const struct tsa_tensor *t, size_t batch, size_t head, size_t token);
/* Largest |o - reference| over dv columns of one output row, after `seen` tokens, the query being
 * ring row q_row; o points at the row. Taylor coefficients, or exp for the softmax problems. */
double bench_row_error(const struct bench_inputs *in, const struct bench_problem *problem,
                       size_t batch, size_t head, size_t q_row, size_t seen, const void *o);
/* The truncated exponential. */
double bench_series(size_t terms, double x);
/* The features of a row in the symmetric basis: binom(d+m-1, m) monomials times sqrt(multiplicity),
 * m < terms, one degree after another. */
void bench_features(const double *x, size_t d, size_t terms, double *out);
/* For qsort: ascending. */
int bench_compare(const void *a, const void *b);
/* The larger error; a NaN is the largest. */
double bench_worse(double a, double b);
/* Beyond this an output is wrong, not rounded; mixed plans: bench_op_error_bound(). */
double bench_error_bound(enum tsa_dtype dtype);
void *bench_memory(size_t bytes);

/* -- threads (region.c) ---------------------------------------------------------------------- */

/* What it costs to have threads at all. */
struct bench_region {
    int threads, granted;   /* asked for, and given by OpenMP */
    double region, barrier; /* shortest seconds of an empty parallel region, and of a barrier */
};
/* One thread costs nothing, as no region is opened for it. */
bool bench_region_measure(struct bench_region *region, int threads);
/* An empty region: the team has its size, and is awake. */
void bench_region_enter(int threads);

/* -- output (rows.c) ------------------------------------------------------------------------- */

enum bench_form { BENCH_TABLE, BENCH_CSV, BENCH_JSON };

/* One description of the columns writes all forms: a function that puts a row, value by value. The
 * rows of a table and of CSV are headed by its names, for which it is called once beforehand. */
struct bench_rows {
    enum bench_form form;
    bool heading; /* names are put, not values */
    bool
        left_out; /* what is put does not apply: JSON leaves it out, CSV and the table have a gap */
    size_t rows, columns;
    json_t *object;
};

/* In CSV and JSON the value is called `key`, in the table `head`; NULL: not there. In the table it
 * is `width` wide; numbers have as many digits after the point as fit, but at most `digits`, or
 * with BENCH_EXPONENT a power of ten. A number that is not finite is null, a gap or a dash. */
#define BENCH_EXPONENT (-1)
struct bench_column {
    const char *key, *head;
    int width, digits;
};
#define BENCH_COLUMN(key, head, width, digits) ((struct bench_column){key, head, width, digits})
#define BENCH_DATA(key) BENCH_COLUMN(key, NULL, 0, 0) /* not in the table */
void bench_put_text(struct bench_rows *rows, struct bench_column column, const char *text);
void bench_put_count(struct bench_rows *rows, struct bench_column column, size_t count);
void bench_put_number(struct bench_rows *rows, struct bench_column column, double number);
/* Around the rows, and after each. */
void bench_rows_begin(struct bench_rows *rows);
void bench_rows_next(struct bench_rows *rows);
void bench_rows_end(struct bench_rows *rows);

/* -- the operators (op.c) ------------------------------------------------------- */

struct bench_options {
    struct bench_timing timing;
    int threads;
    const char *isa;
    enum tsa_dtype dtype;
    enum tsa_compute compute; /* of problems that do not say themselves */
    unsigned exact_degrees;
    enum bench_form form;
    const struct bench_contenders *contenders; /* NULL: none */
    bool beside_f32;                           /* mixed plans in turn with f32 ones */
};

/* Sequences that lie one after another in the n tokens of a problem of batch 1: sequence i has
 * tokens offsets[i] .. offsets[i+1]-1. */
struct bench_packing {
    size_t count;
    const int64_t *offsets;
};

struct bench_op_state {
    struct bench_problem problem;
    enum tsa_dtype dtype; /* of the plan */
    struct bench_inputs in;
    struct tsa_plan *plan;
    struct tsa_state **states;
    size_t sequences; /* states */
    bool borrowed;    /* the states are another's */
    void *block;      /* the memory of all states of packed sequences */
    int64_t *offsets; /* of packed sequences, else NULL */
    bool append;      /* passes of prefill and absorb do not reset the states */
    struct tsa_workspace *ws;
    size_t chunk;
    uint64_t steps;    /* decoding steps so far */
    double step, fold; /* best seconds of a step without a fold, and with one */
    bool cold;
    double max_error;
    struct tsa_error err;
};

/* A line of the report. Figures that do not apply are NaN. */
struct bench_result {
    char problem[BENCH_PROBLEM_TEXT], contender[32]; /* contender "": ours */
    const char *isa, *compute;
    int threads;
    size_t chunk;
    bool cold;
    double tokens, seconds_min, seconds_median, spread, us_per_token, gflops, peak, percent;
    double peak_bf16;
    double gbytes, percent_bandwidth, us_step, us_read, us_fold, max_error;
    double ratio, ratio_median;
    enum bench_level level;
};

/* Plan, states, inputs and a workspace for a problem; prints what fails. */
struct bench_op_state *bench_op_create(const struct bench_problem *problem,
                                       const struct bench_options *options);
/* The same with sequences packed (prefill and absorb) unless packing is NULL, and with the inputs
 * and the states of others, which are at least as large and outlive it, unless those are NULL. A
 * state of another number of heads does not fit: then it has its own. */
struct bench_op_state *bench_op_create_from(const struct bench_problem *problem,
                                            const struct bench_options *options,
                                            const struct bench_packing *packing,
                                            const struct bench_op_state *inputs,
                                            const struct bench_op_state *states);
void bench_op_destroy(struct bench_op_state *op);
/* Forget all tokens. */
bool bench_op_reset(struct bench_op_state *op);
/* The states of a decoding problem as they are when its clock starts. */
bool bench_op_start_decode(struct bench_op_state *op);
/* Bytes of the outputs of bench_op_replay. */
size_t bench_op_record_bytes(const struct bench_op_state *op);
/* Compute once from empty states, or decode a chunk and a few steps more after the n tokens. The
 * outputs are copied to `record`, or compared with it: then *differ counts the rows that differ. */
bool bench_op_replay(struct bench_op_state *op, void *record, bool compare, size_t *differ);
/* *equal: the states of both, which are of the same problem, have the same bits. */
bool bench_op_states_equal(struct bench_op_state *a, const struct bench_op_state *b, bool *equal);
/* Say what failed, op->err being about it; always false. */
bool bench_op_complain(const struct bench_op_state *op, const char *what);
/* Compute once, leave the largest error on sampled rows in op->max_error. */
bool bench_op_verify(struct bench_op_state *op);
/* What its products are computed in: "f32", "f64" or "mixed". */
const char *bench_op_compute(const struct bench_op_state *op);
/* Beyond this an output of its plan is wrong, not rounded. */
double bench_op_error_bound(const struct bench_op_state *op);
bool bench_op_work(void *op, size_t iterations);
bool bench_op_read_work(void *op, size_t iterations);
/* Bytes that one pass (one step of decoding) must move. */
double bench_op_bytes(const struct bench_op_state *op);
/* Bring the open window to `fill` tokens. */
bool bench_op_fill_window(struct bench_op_state *op, size_t fill);

/* -- contenders ------------------------------------------------------------------------------ */

/* Another way to compute a problem, on one thread in f32. It is the first member of a larger struct
 * that its maker knows. */
struct bench_contender {
    char name[32];
    size_t chunk; /* tokens of a chunk; of softmax the keys of a tile */
    double bound; /* of its errors; 0: as everywhere in f32 */
    /* One head in contiguous f32 rows: n outputs of causal attention; of decoding by softmax, where
     * q is one row, one output over n keys. NULL where there is a step. */
    void (*run)(struct bench_contender *c, size_t n, const float *q, const float *k, const float *v,
                float *o);
    /* Of decoding by states: take one token into the state of a head of B x H; and do so, then
     * answer the token's query. All states are empty at first. */
    void (*absorb)(struct bench_contender *c, size_t head, const float *k, const float *v);
    void (*step)(struct bench_contender *c, size_t head, const float *q, const float *k,
                 const float *v, float *o);
    void (*destroy)(struct bench_contender *c);
};

/* Where they come from. The benchmark knows none itself: whoever starts it hands them in. */
enum { MOST_CONTENDERS = 6 };
struct bench_contenders {
    /* The i-th for this problem: NULL past the end, or when it cannot be made. */
    struct bench_contender *(*create)(size_t i, const struct bench_problem *problem,
                                      const char *isa);
    /* Lines about the libraries behind them. */
    void (*describe)(FILE *file, const char *prefix);
};

/* -- races (race.c) -------------------------------------------------------------------------- */

#define BENCH_RACERS 20

/* What is verified and then timed in turn. */
struct bench_race {
    struct bench_racer {
        char name[48];
        struct bench_op_state *op; /* NULL: a contender */
        struct bench_contender *contender;
        const struct bench_op_state *inputs; /* of a contender */
        size_t steps;  /* of decoding that a contender was timed with so far */
        size_t passes; /* over the tokens, one after another into the same states */
        double error, bound;
        struct bench_stats stats;
        double seconds, median; /* of one pass, or of one token decoded */
    } racers[BENCH_RACERS];
    size_t count;
};

/* Enter an operator, which belongs to the race then. NULL if it is NULL, or one too many. */
struct bench_racer *bench_race_enter(struct bench_race *race, const char *name,
                                     struct bench_op_state *op);
/* Enter the contenders for an operator of one thread in f32, as "NAME: CONTENDER"; or of these only
 * one by its name, unless that is NULL. */
void bench_race_enter_contenders(struct bench_race *race, const struct bench_racer *beside,
                                 const struct bench_contenders *from, const char *only);
/* Compute once, and leave the largest errors on sampled rows; false if an operator fails. */
bool bench_race_verify(struct bench_race *race);
bool bench_race_time(struct bench_race *race, const struct bench_timing *timing);
void bench_race_remove(struct bench_race *race, size_t i);
void bench_race_clear(struct bench_race *race);

/* -- reports (op_report.c, report.c, grid.c, kernels.c, scaling.c) ---------------------------- */

/* Verify, time and fill results: ours first, then the same in f32 if that was asked for, then the
 * contenders. Returns the number of results, 0 on failure; *wrong counts the outputs beyond the
 * bound. */
enum { BENCH_RESULTS = 2 + MOST_CONTENDERS };
size_t bench_op_report(const struct bench_problem *problem, const struct bench_options *options,
                       const struct bench_machine *machine,
                       struct bench_result results[BENCH_RESULTS], int *wrong);
/* The head: the machine, and the contenders if they take part. Nothing before JSON. */
void bench_report_machine(const struct bench_options *options, const struct bench_machine *machine);
/* A result; NULL puts the names of the columns. */
void bench_report(struct bench_rows *rows, const struct bench_result *result);
/* Say how many outputs are beyond the bound. Returns the exit code. */
int bench_report_wrong(int wrong);

struct bench_grid_options {
    size_t max_bytes; /* largest state */
    bool chunks;      /* try every chunk */
    bool odd_only;
    size_t min_elements; /* smallest state */
};
int bench_grid(const struct bench_options *options, const struct bench_grid_options *grid,
               struct bench_machine *machine);
int bench_kernels(const struct bench_options *options, const struct bench_problem *problem,
                  struct bench_machine *machine);

/* Every case on 1 to machine->threads threads, or these problems instead of the cases. */
int bench_scaling(const struct bench_options *options, const struct bench_problem *problems,
                  size_t count, const struct bench_machine *machine);

#endif
