/* SPDX-License-Identifier: MIT */
/* Types shared by the files of `tsa paper`: the paper's experiments, run again on this machine. */
#ifndef TSA_PAPER_H
#define TSA_PAPER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bench.h"
#include "contend/contend.h"

/* The subcommand: argv[0] is its name. Returns the exit code. */
int paper_main(int argc, char **argv);

/* -- what an experiment comes to (result.c) --------------------------------------------- */

#define PAPER_COLUMNS 16
#define PAPER_SERIES 8
/* Draws of the inputs where a figure depends on them. */
#define PAPER_SEEDS 20

enum paper_verdict {
    PAPER_REPRODUCED,
    PAPER_BETTER, /* faster or smaller than the paper's by more than the tolerance */
    PAPER_WORSE,
    PAPER_DIFFERS, /* where neither is better */
    PAPER_HOLDS,   /* the paper has no figure, but theory or a bound has to hold */
    PAPER_FAILS,
    PAPER_NO_FIGURE, /* the paper has none */
    PAPER_NOT_RUN,
    PAPER_VERDICTS
};

/* A figure of the paper beside ours. Numbers that are unknown or do not apply are NaN. */
struct paper_figure {
    char name[120], why[640];
    double paper, ours;
    double low, high; /* over the draws */
    bool exact;       /* true on any machine: if it differs, the command fails */
    enum paper_verdict verdict;
};

/* Text, or a number if the text is empty; NaN prints as nothing. */
struct paper_cell {
    double value;
    char text[48];
};

struct paper_table {
    char name[32]; /* of its file, "" for the first of an experiment */
    char title[200];
    char heads[PAPER_COLUMNS][48];
    size_t columns, rows;
    struct paper_cell (*cells)[PAPER_COLUMNS];
};

enum paper_axes { PAPER_LINEAR, PAPER_LOG_Y, PAPER_LOG_XY };
/* Columns of a table of the same experiment against its first one. */
struct paper_plot {
    char name[32], title[120], y_label[64];
    enum paper_axes axes;
    size_t table, y[PAPER_SERIES]; /* as many as are not 0 */
    size_t ours;                   /* the one of these to stand out; 0: none */
    char *svg;                     /* drawn, or NULL */
};

struct paper_experiment {
    int number;
    const char *id, *title;
    char setting[1200], note[1200];
    struct paper_figure figures[24];
    struct paper_table tables[6];
    struct paper_plot plots[3];
    size_t figure_count, table_count, plot_count;
    bool failed; /* it could not be run: the note says why */
};

/* Statistics over the draws; the first is that of the first seed. */
struct paper_spread {
    double first, low, high, median, mean, deviation; /* that of a sample, with n - 1 */
};
struct paper_spread paper_spread_of(const double *values, size_t count);

#define PAPER_COUNT(array) (sizeof(array) / sizeof *(array))
/* `heads` names the columns, with | between them. */
struct paper_table *paper_table(struct paper_experiment *e, const char *name, const char *title,
                                const char *heads);
/* A new row of numbers, NaN beyond `count`; and text instead of one of them. */
void paper_row(struct paper_table *t, const double *values, size_t count);
#define PAPER_ROW(t, ...)                                                                          \
    paper_row((t), (const double[]){__VA_ARGS__}, PAPER_COUNT(((const double[]){__VA_ARGS__})))
void paper_row_text(struct paper_table *t, size_t column, const char *text);
/* The last column that is filled. */
double paper_cell_value(const struct paper_table *t, size_t row, size_t column);
/* Of the first table unless that is changed; `y` ends with 0. */
struct paper_plot *paper_plot(struct paper_experiment *e, const char *name, const char *title,
                              const char *y_label, enum paper_axes axes, const size_t *y);
void paper_add_note(struct paper_experiment *e, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void paper_experiment_clear(struct paper_experiment *e);

/* A number as a person reads it: 9,945, 0.0123, 6.5e-04. Returns text of 32 bytes. */
const char *paper_number(double x, char *text);

/* Figures, each judged by its rule (doc/paper.md, "Verdicts"); `why` explains a difference and may
 * be NULL. */

/* Equal to what the paper has (NaN: to what theory has). An exact fact. */
void paper_equal(struct paper_experiment *e, const char *name, double paper, double wanted,
                 double ours);
/* At most a derived bound, or at least it. An exact fact. */
void paper_at_most(struct paper_experiment *e, const char *name, double bound, double ours);
void paper_at_least(struct paper_experiment *e, const char *name, double bound, double ours);
/* A rounding error: the median over the draws at most four times the paper's, if it has one. */
void paper_rounding(struct paper_experiment *e, const char *name, double paper,
                    const struct paper_spread *ours);
/* It depends on the draw: the paper's lies within ours. */
void paper_drawn(struct paper_experiment *e, const char *name, double paper,
                 const struct paper_spread *ours, const char *why);
/* The same where the paper does not say what it measured: by any of several measures. `ours` is
 * that of the first that reproduces it, or of the first. */
#define PAPER_MEASURES 3
struct paper_measures {
    size_t count;
    const char *names[PAPER_MEASURES];
    double values[PAPER_MEASURES][PAPER_SEEDS];
};
void paper_drawn_by(struct paper_experiment *e, const char *name, double paper,
                    const struct paper_measures *by);
/* Most of the draws lie in the range that the paper has, by any of the measures. */
void paper_within_by(struct paper_experiment *e, const char *name, double low, double high,
                     const struct paper_measures *by);
/* Something that the paper says: true in most of the draws, `holds` of them. */
void paper_claim(struct paper_experiment *e, const char *name, size_t holds);
/* An exponent of growth: within 0.25, or 0.05 where there is none. */
void paper_exponent(struct paper_experiment *e, const char *name, double paper, double theory,
                    double ours);
/* Growth as N doubles: within a tenth. */
void paper_growth(struct paper_experiment *e, const char *name, double paper, double theory,
                  double ours);
/* It depends on the machine: within a quarter, or else better or worse. */
enum paper_sense { PAPER_MORE_IS_BETTER, PAPER_LESS_IS_BETTER };
void paper_speed(struct paper_experiment *e, const char *name, double paper, double ours,
                 enum paper_sense sense, const char *why);
/* The paper has no figure, or we have none. */
void paper_ours(struct paper_experiment *e, const char *name, double ours, const char *why);
void paper_not_run(struct paper_experiment *e, const char *name, double paper, const char *why);

/* -- inputs and reference (model.c) ----------------------------------------------------- */

/* One sequence of one head, rows of doubles. */
struct paper_draw {
    size_t n, d, dv;
    double *q, *k, *v;
};

/* Independent normal numbers; `unit`: rows of q and k divided by their length. */
bool paper_draw_create(struct paper_draw *draw, size_t n, size_t d, size_t dv, uint64_t seed,
                       bool unit);
void paper_draw_destroy(struct paper_draw *draw);

/* How the library is asked. Rows are taken as they are: a draw is normalised, or not. */
struct paper_model {
    size_t terms, chunk; /* chunk 0: by the shape */
    double a;
    enum tsa_dtype dtype;
    const char *isa;
};

bool paper_plan(const struct paper_model *model, const struct paper_draw *draw,
                struct tsa_plan **plan);
struct tsa_tensor paper_rows(double *rows, size_t width);
/* Outputs by the library's states, and by its softmax. */
bool paper_states(const struct paper_model *model, const struct paper_draw *draw, double *o);
bool paper_softmax(const struct paper_model *model, const struct paper_draw *draw, double *o);
/* Say what a call said, and return false. */
bool paper_fail(enum tsa_status status, const struct tsa_error *err);
bool paper_no_memory(void);

double paper_dot(const double *a, const double *b, size_t width);
/* The materialised causal kernel, and the outputs from it; `bound`, unless NULL, gets for each
 * output a bound of the rounding error of any schedule of chains no longer than `chain`. */
bool paper_explicit(const struct paper_model *model, const struct paper_draw *draw, double chain,
                    double *o, double *bound);
double paper_max_difference(const double *a, const double *b, size_t count);
/* Two measures of error: the Frobenius norm of the difference over that of `exact`, and the largest
 * difference over the largest of `exact`. */
double paper_relative_l2(const double *o, const double *exact, size_t count);
double paper_relative_max(const double *o, const double *exact, size_t count);
/* Slope of log y against log x over the rows where both are finite. */
double paper_fit(const double *x, const double *y, size_t count, double *intercept);

/* -- experiments ------------------------------------------------------------------------------ */

struct paper_run {
    bool quick;
    const char *isa;
    struct bench_machine machine; /* of a quick run without the limits */
    struct bench_timing timing;
    const char *out;
    double start; /* cmd_seconds() */
};

/* Whether the time is up after which longer lengths are left out; then the note says so. */
bool paper_late(const struct paper_run *run, struct paper_experiment *e, const char *what,
                size_t n);
/* A line on stderr while the command works, unless it is quick. */
void paper_progress(const struct paper_run *run, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

typedef bool paper_function(const struct paper_run *run, struct paper_experiment *e);
paper_function paper_lossless, paper_additive, paper_rescan; /* facts.c */
paper_function paper_converge, paper_signed;                 /* series.c */
paper_function paper_rank;                                   /* rank.c */
paper_function paper_prefill, paper_longer, paper_decode;    /* time.c */
paper_function paper_order, paper_short;                     /* order.c */
paper_function paper_sizes;                                  /* size.c */
paper_function paper_beyond;                                 /* beyond.c */

/* -- speed against others (race.c) ------------------------------------------------------ */

struct paper_race {
    const struct paper_run *run;
    struct bench_race all;
    int repeats; /* 0: as the run */
    bool failed;
};

/* Enter a problem string, which is formatted. */
struct bench_racer *paper_enter(struct paper_race *race, const char *name, enum tsa_dtype dtype,
                                int threads, const char *format, ...)
    __attribute__((format(printf, 5, 6)));
/* Enter what contenders there are for an operator that was entered: "NAME: CONTENDER". Or of these
 * only one by its name, unless that is NULL. */
void paper_enter_contenders(struct paper_race *race, const struct bench_racer *beside,
                            const char *only);
/* Verify and time all in turn. */
bool paper_race_run(struct paper_race *race);
void paper_race_clear(struct paper_race *race);
/* The one of that name, or NULL. */
const struct bench_racer *paper_find(const struct paper_race *race, const char *name);
/* The fastest of those whose name begins so, or NULL. */
const struct bench_racer *paper_fastest(const struct paper_race *race, const char *prefix);

/* -- files (report.c, document.c, plot.c) ----------------------------------------------------- */

/* What the files are made of. */
struct paper_report {
    const struct paper_run *run;
    const struct paper_experiment *experiments;
    size_t count;
    const char *machine; /* lines about it and the build */
    const char *plots;   /* why there are none, or "" */
    const char *tally;   /* a sentence */
};

extern const char *const paper_verdict_name[PAPER_VERDICTS];
/* The name of a table's CSV file. */
void paper_table_file(const struct paper_experiment *e, const struct paper_table *t,
                      char name[100]);

/* paper.md, and paper.html. False if one cannot be written. */
bool paper_write_documents(const struct paper_report *report);
/* Where gnuplot writes them: name.gp and name.svg in the folder `out`. False only if a file cannot
 * be written; *drawn is false without gnuplot. */
bool paper_draw_plot(const char *out, const struct paper_experiment *e, struct paper_plot *plot,
                     bool *drawn);
/* All files; an exit code. `json` also goes to standard output. */
int paper_write_report(const struct paper_run *run, struct paper_experiment *experiments,
                       size_t count, bool json);

#endif
