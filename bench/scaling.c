/* SPDX-License-Identifier: MIT */
/* How cases speed up with threads. All numbers of threads of a case share inputs, outputs and
 * states, are compared bit by bit with one thread, and are then timed in turn. */
#include "config.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"

/* What grows with the threads where the work of each is fixed (weak scaling). */
enum growth { FIXED, BY_HEADS, BY_SEQUENCES, BY_TOKENS };

struct scaling_case {
    const char *id, *name, *problem;
    enum growth growth;
    bool tree; /* beside it the same tokens as a tree of segments */
    /* Packed if count > 0: so many sequences of `tokens`, then one of `last` unless that is 0. */
    size_t count, tokens, last;
};

static const struct scaling_case cases[] = {
    {.id = "prefill-heads",
     .name = "prefill of many heads",
     .problem = "prefill:b1:h64:n2048:d16:dv64:t3",
     .growth = BY_HEADS},
    {.id = "prefill-long",
     .name = "prefill of one long sequence",
     .problem = "prefill:b1:h1:n262144:d16:dv64:t3",
     .growth = BY_TOKENS},
    {.id = "decode-many",
     .name = "decode of many sequences",
     .problem = "decode:b256:h8:n100:d16:dv64:t3",
     .growth = BY_SEQUENCES},
    {.id = "decode-large",
     .name = "decode with one large state",
     .problem = "decode:b1:h1:n1024:d64:dv64:t4"},
    {.id = "absorb-long",
     .name = "absorb of one long document",
     .problem = "absorb:b1:h1:n262144:d16:dv64:t3",
     .growth = BY_TOKENS,
     .tree = true},
    {.id = "ragged-short",
     .name = "prefill of 70000 sequences of 1 token",
     .problem = "prefill:b1:h1:n70000:d16:dv16:t2:c16",
     .count = 70000,
     .tokens = 1},
    {.id = "ragged-long",
     .name = "prefill of 1000000 tokens beside 31 x 10",
     .problem = "prefill:b1:h1:n1000310:d16:dv64:t3",
     .count = 31,
     .tokens = 10,
     .last = 1000000},
};

enum { MOST_COUNTS = 12, MOST_LINES = 2 * MOST_COUNTS, EVERY_COUNT = 8 };

struct scaling {
    const struct bench_options *options;
    struct bench_region regions[MOST_COUNTS]; /* per number of threads */
    size_t counts;
    int wrong;
    struct bench_rows rows;
};

/* One case on one number of threads, and its figures. */
struct line {
    const struct bench_region *region; /* of so many threads */
    struct bench_op_state *op;
    struct tsa_state *whole; /* of a tree: what its segments come to */
    const char *id, *name;   /* of the case */
    char problem[BENCH_PROBLEM_TEXT];
    bool weak;
    struct bench_stats stats;
    double speedup, efficiency, max_error;
    const char *verified;
};

/* -- output ---------------------------------------------------------------------------------- */

/* NULL puts the names of the columns. */
static void put_line(struct bench_rows *rows, const struct line *line)
{
    static const struct bench_region no_region;
    static const struct line blank = {.region = &no_region};
    const struct line *l = line ? line : &blank;
    char name[BENCH_PROBLEM_TEXT];
    bench_put_text(rows, BENCH_COLUMN("case", "case", 13, 0), l->id);
    bench_put_text(rows, BENCH_DATA("name"), l->name);
    bench_put_text(rows, BENCH_DATA("problem"), l->problem);
    bench_put_text(rows, BENCH_DATA("isa"), line ? tsa_plan_isa(l->op->plan) : "");
    bench_put_text(rows, BENCH_DATA("compute"), line ? bench_op_compute(l->op) : "");
    bench_put_count(rows, BENCH_DATA("chunk"), line ? l->op->chunk : 0);
    bench_put_text(rows, BENCH_COLUMN("scaling", "", 6, 0), l->weak ? "weak" : "strong");
    bench_put_text(rows, BENCH_COLUMN(NULL, "problem", 34, 0),
                   bench_problem_short(l->problem, name));
    bench_put_count(rows, BENCH_COLUMN("threads", "th", 2, 0), (size_t)l->region->threads);
    bench_put_count(rows, BENCH_DATA("threads_granted"), (size_t)l->region->granted);
    bench_put_number(rows, BENCH_DATA("seconds_min"), l->stats.min);
    bench_put_number(rows, BENCH_COLUMN(NULL, "ms", 9, 3), l->stats.min * 1e3);
    bench_put_number(rows, BENCH_DATA("seconds_median"), l->stats.median);
    bench_put_number(rows, BENCH_DATA("spread"), l->stats.spread);
    bench_put_number(rows, BENCH_COLUMN(NULL, "%spr", 4, 0), 100 * l->stats.spread);
    bench_put_number(rows, BENCH_COLUMN("speedup", "speedup", 7, 2), l->speedup);
    bench_put_number(rows, BENCH_DATA("efficiency"), l->efficiency);
    bench_put_number(rows, BENCH_COLUMN(NULL, "%eff", 4, 0), 100 * l->efficiency);
    bench_put_number(rows, BENCH_DATA("region_us"), l->region->region * 1e6);
    bench_put_number(rows, BENCH_DATA("barrier_us"), l->region->barrier * 1e6);
    bench_put_number(rows, BENCH_COLUMN("max_error", "error", 7, BENCH_EXPONENT), l->max_error);
    bench_put_text(rows, BENCH_COLUMN("verified", "check", 5, 0), l->verified);
    bench_rows_next(rows);
}

/* -- what is timed --------------------------------------------------------------------------- */

static bool join_segments(struct line *line)
{
    struct bench_op_state *op = line->op;
    return tsa_state_reduce(op->plan, line->whole, (const struct tsa_state *const *)op->states,
                            op->sequences, &op->err) == TSA_OK ||
           bench_op_complain(op, "reduction");
}

static bool run_line(void *context, size_t iterations)
{
    struct line *line = context;
    if (!line->whole)
        return bench_op_work(line->op, iterations);
    while (iterations--)
        if (!bench_op_work(line->op, 1) || !join_segments(line))
            return false;
    return true;
}

static bool before_line(void *context)
{
    const struct line *line = context;
    const bool ragged = line->op->offsets && !line->whole;
    if (ragged && !bench_op_reset(line->op))
        return false;
    bench_region_enter(line->region->threads);
    return true;
}

/* -- problems -------------------------------------------------------------------------------- */

static size_t *growing(struct bench_problem *p, enum growth growth)
{
    return growth == BY_HEADS ? &p->heads : growth == BY_SEQUENCES ? &p->batch : &p->n;
}

/* Every thread has at least one head or sequence. */
static void widen(struct bench_problem *p, enum growth growth, size_t threads)
{
    if (growth != BY_HEADS && growth != BY_SEQUENCES)
        return;
    size_t *size = growing(p, growth);
    if (*size < threads)
        *size = threads;
    bench_problem_name(p);
}

/* The part of a problem for `most` threads that belongs to `threads` of them. */
static struct bench_problem part_of(const struct bench_problem *whole, enum growth growth,
                                    size_t chunk, size_t threads, size_t most)
{
    struct bench_problem p = *whole;
    size_t *size = growing(&p, growth), unit = *size / most;
    if (growth == BY_TOKENS && unit > chunk)
        unit = unit / chunk * chunk;
    *size = unit * threads;
    bench_problem_name(&p);
    return p;
}

static struct bench_op_state *create_op(const struct scaling *s, const struct bench_problem *p,
                                        const struct bench_packing *packing, int threads,
                                        const struct bench_op_state *inputs,
                                        const struct bench_op_state *states)
{
    struct bench_options options = *s->options;
    options.threads = threads;
    return bench_op_create_from(p, &options, packing, inputs, states);
}

/* Segments of whole chunks, as equal as these allow. */
static struct bench_op_state *create_segments(const struct scaling *s,
                                              const struct bench_problem *p, int threads,
                                              const struct bench_op_state *first)
{
    const size_t count = (size_t)threads, chunks = p->n / first->chunk;
    int64_t *offsets = malloc((count + 1) * sizeof *offsets);
    if (!offsets) {
        cmd_fail("%s: not enough memory for the offsets", p->text);
        return NULL;
    }
    for (size_t i = 0; i < count; i++)
        offsets[i] = (int64_t)(chunks * i / count * first->chunk);
    offsets[count] = (int64_t)p->n;
    const struct bench_packing packing = {count, offsets};
    struct bench_op_state *op = create_op(s, p, &packing, threads, first, first);
    free(offsets);
    return op;
}

/* -- verification ---------------------------------------------------------------------------- */

static void note_error(struct scaling *s, const struct line *line)
{
    if (line->max_error <= bench_op_error_bound(line->op))
        return;
    cmd_fail("%s: error %.1e on %d threads", line->op->problem.text, line->max_error,
             line->region->threads);
    s->wrong++;
}

/* Outputs and states are, bit by bit, those of one thread, and these are right. */
static bool verify_bits(struct scaling *s, struct line *line, struct bench_op_state *serial)
{
    const size_t bytes = bench_op_record_bytes(serial);
    void *record = bench_memory(bytes);
    size_t differ = 0;
    bool equal = false, done = false;

    if (!record) {
        cmd_fail("%s: not enough memory to compare outputs", serial->problem.text);
        return false;
    }
    if (!bench_op_verify(serial) || !bench_op_replay(serial, record, false, &differ) ||
        !bench_op_replay(line->op, record, true, &differ) ||
        !bench_op_states_equal(serial, line->op, &equal))
        goto out;
    line->max_error = serial->max_error;
    line->verified = "bits";
    note_error(s, line);
    if (differ)
        cmd_fail("%s: %d threads change the bits of %zu rows of the output", line->op->problem.text,
                 line->region->threads, differ);
    if (!equal)
        cmd_fail("%s: %d threads change the bits of a state", line->op->problem.text,
                 line->region->threads);
    done = !differ && equal;
out:
    free(record);
    return done;
}

/* Largest difference between the sums of two states, relative to the largest sum of its degree. */
static bool compare_sums(struct bench_op_state *op, const struct tsa_state *a,
                         const struct tsa_state *b, double *error)
{
    const struct bench_problem *p = &op->problem;
    const size_t width = p->dv + 1, most = tsa_features(p->d, p->terms) * width;
    double *sums = malloc(2 * most * sizeof *sums);
    bool done = false;

    *error = 0;
    if (!sums) {
        cmd_fail("%s: not enough memory to compare states", p->text);
        return false;
    }
    for (size_t m = 0; m < p->terms; m++) {
        const size_t lower = m ? tsa_features(p->d, m) : 0;
        const size_t count = (tsa_features(p->d, m + 1) - lower) * width;
        double difference = 0, largest = 0;
        if (tsa_state_export(op->plan, a, 0, 0, m, TSA_BASIS_PLAIN, sums, (ptrdiff_t)width,
                             &op->err) != TSA_OK ||
            tsa_state_export(op->plan, b, 0, 0, m, TSA_BASIS_PLAIN, sums + most, (ptrdiff_t)width,
                             &op->err) != TSA_OK) {
            bench_op_complain(op, "export");
            goto out;
        }
        for (size_t i = 0; i < count; i++) {
            const double apart = fabs(sums[i] - sums[most + i]);
            if (!(apart <= difference))
                difference = apart; /* a NaN stays */
            largest = fmax(largest, fabs(sums[i]));
        }
        if (!(difference / largest <= *error))
            *error = difference / largest;
    }
    done = true;
out:
    free(sums);
    return done;
}

/* Segments add up in another order: the sums are close, not equal. */
static bool verify_tree(struct scaling *s, struct line *line, struct bench_op_state *serial)
{
    if (!bench_op_replay(line->op, NULL, false, NULL) || !join_segments(line) ||
        !bench_op_replay(serial, NULL, false, NULL) ||
        !compare_sums(serial, serial->states[0], line->whole, &line->max_error))
        return false;
    line->verified = "close";
    note_error(s, line);
    return true;
}

static bool verify_line(struct scaling *s, struct line *line, const struct bench_packing *packing,
                        const struct bench_op_state *first)
{
    struct bench_op_state *serial =
        create_op(s, &line->op->problem, line->whole ? NULL : packing, 1, first, NULL);
    bool done = false;
    if (serial)
        done = line->whole ? verify_tree(s, line, serial) : verify_bits(s, line, serial);
    bench_op_destroy(serial);
    return done;
}

/* -- cases ----------------------------------------------------------------------------------- */

/* The lines of a case, those of a tree behind the others. Returns false after a failure; *count
 * lines are there to be destroyed even so. */
static bool create_lines(const struct scaling *s, const struct scaling_case *c, bool weak,
                         const struct bench_packing *packing, const struct bench_op_state *first,
                         struct line *lines, size_t *count)
{
    const int most = s->regions[s->counts - 1].threads;
    for (size_t i = 0; i < (c->tree ? 2 : 1) * s->counts; i++) {
        struct line *line = &lines[i];
        const bool tree = i >= s->counts;
        *line = (struct line){.region = &s->regions[i % s->counts]};
        const int threads = line->region->threads;
        struct bench_problem p = first->problem;
        if (weak)
            p = part_of(&p, c->growth, first->chunk, (size_t)threads, (size_t)most);
        line->op = tree ? create_segments(s, &p, threads, first)
                        : create_op(s, &p, packing, threads, first, first);
        if (!line->op)
            return false;
        ++*count;
        if (tree && tsa_state_create(line->op->plan, &line->whole, &line->op->err) != TSA_OK)
            return bench_op_complain(line->op, "state");
        line->id = tree ? "absorb-tree" : c->id;
        line->name = tree ? "absorb of segments then their reduction" : c->name;
        line->weak = weak;
        snprintf(line->problem, sizeof line->problem, "%s", p.text);
    }
    return true;
}

/* Time all lines in turn; the first has one thread. */
static bool measure_lines(struct scaling *s, const struct scaling_case *c,
                          struct bench_op_state *first, struct line *lines, size_t count)
{
    struct bench_timing timing = s->options->timing;
    struct bench_work works[MOST_LINES];
    struct bench_stats stats[MOST_LINES];

    if (c->count > 0)
        timing.seconds = 0; /* one iteration, from the states that were reset before it */
    if (first->problem.op == BENCH_DECODE && !bench_op_start_decode(first))
        return false;
    for (size_t i = 0; i < count; i++) {
        lines[i].op->append = true;
        works[i] =
            (struct bench_work){.run = run_line, .context = &lines[i], .before = before_line};
    }
    if (!bench_measure(&timing, works, count, stats))
        return false;
    for (size_t i = 0; i < count; i++) {
        struct line *l = &lines[i];
        const double threads = l->region->threads, ratio = stats[0].min / stats[i].min;
        l->stats = stats[i];
        l->speedup = l->weak ? ratio * threads : ratio;
        l->efficiency = l->speedup / threads;
        put_line(&s->rows, l);
    }
    return true;
}

static bool run_lines(struct scaling *s, const struct scaling_case *c, bool weak,
                      const struct bench_packing *packing, struct bench_op_state *first)
{
    struct line lines[MOST_LINES];
    size_t count = 0;
    bool done = create_lines(s, c, weak, packing, first, lines, &count);
    for (size_t i = 0; done && i < count; i++)
        done = verify_line(s, &lines[i], packing, first);
    done = done && measure_lines(s, c, first, lines, count);
    for (size_t i = 0; i < count; i++) {
        tsa_state_destroy(lines[i].whole);
        bench_op_destroy(lines[i].op);
    }
    return done;
}

static int64_t *pack(const struct scaling_case *c, struct bench_packing *packing)
{
    const size_t count = c->count + (c->last > 0);
    int64_t *offsets = malloc((count + 1) * sizeof *offsets);
    for (size_t i = 0; offsets && i <= count; i++)
        offsets[i] = (int64_t)(i <= c->count ? i * c->tokens : c->count * c->tokens + c->last);
    *packing = (struct bench_packing){count, offsets};
    return offsets;
}

/* packed:31x10+1000000:d16:dv64:t3 */
static void name_packed(const struct scaling_case *c, struct bench_problem *p)
{
    char last[32] = "", form[sizeof p->text];
    snprintf(form, sizeof form, "%s", strstr(p->text, ":d"));
    if (c->last > 0)
        snprintf(last, sizeof last, "+%zu", c->last);
    snprintf(p->text, sizeof p->text, "packed:%zux%zu%s%.64s", c->count, c->tokens, last, form);
}

static bool run_case(struct scaling *s, const struct scaling_case *c, struct bench_problem *p)
{
    struct bench_packing packing;
    int64_t *offsets = c->count > 0 ? pack(c, &packing) : NULL;
    struct bench_op_state *first = NULL;
    bool done = false;

    widen(p, c->growth, (size_t)s->regions[s->counts - 1].threads);
    if (c->count > 0 && !offsets) {
        cmd_fail("%s: not enough memory for the offsets", p->text);
        return false;
    }
    const struct bench_packing *packed = offsets ? &packing : NULL;
    if (packed)
        name_packed(c, p);
    first = create_op(s, p, packed, 1, NULL, NULL);
    if (first)
        done = run_lines(s, c, false, packed, first) &&
               (c->growth == FIXED || run_lines(s, c, true, packed, first));
    bench_op_destroy(first);
    free(offsets);
    return done;
}

/* All numbers of threads up to a few, then powers of two and the most. */
static bool measure_regions(struct scaling *s, int most)
{
    for (int threads = 1; threads <= most;) {
        struct bench_region *r = &s->regions[s->counts++];
        if (!bench_region_measure(r, threads))
            return false;
        if (r->granted < threads)
            cmd_warn("only %d of %d threads are granted", r->granted, threads);
        if (most <= EVERY_COUNT)
            threads++;
        else
            threads = threads < most && 2 * threads > most ? most : 2 * threads;
    }
    return true;
}

static void print_head(const struct scaling *s, const struct bench_machine *machine)
{
    bench_report_machine(s->options, machine);
    for (size_t i = 0; s->options->form != BENCH_JSON && i < s->counts; i++) {
        const struct bench_region *r = &s->regions[i];
        if (r->threads > 1)
            printf("# team         %d threads, %d granted: region %.2f us, barrier %.2f us\n",
                   r->threads, r->granted, r->region * 1e6, r->barrier * 1e6);
    }
}

int bench_scaling(const struct bench_options *options, const struct bench_problem *problems,
                  size_t count, const struct bench_machine *machine)
{
    struct scaling s = {.options = options, .rows = {.form = options->form}};
    const size_t case_count = sizeof cases / sizeof *cases;

    if (!measure_regions(&s, machine->threads))
        return CMD_FAILURE;
    print_head(&s, machine);
    bench_rows_begin(&s.rows);
    put_line(&s.rows, NULL);
    for (size_t i = 0; i < (count ? count : case_count); i++) {
        const struct scaling_case given = {.id = "given", .name = "given"};
        const struct scaling_case *c = count ? &given : &cases[i];
        struct bench_problem p;
        if (count)
            p = problems[i];
        else if (!bench_problem_parse(c->problem, &p))
            return CMD_FAILURE;
        if (!run_case(&s, c, &p))
            return CMD_FAILURE;
    }
    bench_rows_end(&s.rows);
    return bench_report_wrong(s.wrong);
}
