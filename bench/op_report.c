/* SPDX-License-Identifier: MIT */
/* One problem from verification to a line of figures, the contenders beside it. */
#include "config.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"

struct rival {
    struct contender *contender;
    const struct bench_problem *problem;
    const struct bench_inputs *in;
};

static bool rival_work(void *context, size_t iterations)
{
    const struct rival *r = context;
    for (; iterations; iterations--)
        contender_run_all(r->contender, r->problem, r->in);
    return true;
}

static struct bench_result blank(const struct bench_op_state *op,
                                 const struct bench_options *options,
                                 const struct bench_machine *machine)
{
    struct bench_result r = {.isa = tsa_plan_isa(op->plan),
                             .compute = bench_op_compute(op),
                             .threads = tsa_plan_threads(op->plan),
                             .cold = options->timing.cold,
                             .gbytes = NAN,
                             .percent_bandwidth = NAN,
                             .us_step = NAN,
                             .us_read = NAN,
                             .us_fold = NAN,
                             .ratio = NAN,
                             .ratio_median = NAN};
    snprintf(r.problem, sizeof r.problem, "%s", op->problem.text);
    r.peak = (options->dtype == TSA_F64 ? machine->peak_f64 : machine->peak_f32) * r.threads;
    r.peak_bf16 = machine->peak_bf16 * r.threads;
    return r;
}

static void fill_times(struct bench_result *r, const struct bench_problem *problem,
                       const struct bench_stats *stats, double tokens, size_t chunk)
{
    r->tokens = tokens;
    r->chunk = chunk;
    r->seconds_min = stats->min;
    r->seconds_median = stats->median;
    r->spread = stats->spread;
    r->us_per_token = stats->min * 1e6 / tokens;
    r->gflops = bench_problem_flops(problem, chunk) * tokens / stats->min * 1e-9;
    r->percent = 100 * r->gflops / r->peak;
}

/* The figures of decoding that come besides the amortised time. */
static bool fill_decode(struct bench_result *r, struct bench_op_state *op,
                        const struct bench_timing *timing, double bytes)
{
    const double rows = (double)(op->problem.batch * op->problem.heads);
    const struct bench_work reading = {.run = bench_op_read_work, .context = op};
    struct bench_stats stats;
    double step = op->step;

    if (!bench_op_fill_window(op, op->chunk / 2) || !bench_measure(timing, &reading, 1, &stats))
        return false;
    r->us_read = stats.min * 1e6 / rows;
    if (op->cold || !isfinite(step))
        step = r->seconds_min;
    else
        r->us_fold = (op->fold - step) * 1e6 / (rows * (double)op->chunk);
    r->us_step = step * 1e6 / rows;
    r->gbytes = bytes / step * 1e-9;
    return true;
}

/* What is timed in turn: ours, the same in f32 if that was asked for, contenders. */
struct entry {
    struct bench_op_state *op; /* NULL: a contender */
    struct rival rival;
    double error, bound;
};
enum { MOST_ENTRIES = 2 + MOST_CONTENDERS };

static bool add_op(struct entry *entries, size_t *count, struct bench_op_state *op)
{
    struct entry *e = &entries[*count];
    if (!op)
        return false;
    *e = (struct entry){.op = op};
    ++*count;
    if (!bench_op_verify(op))
        return false;
    e->error = op->max_error;
    e->bound = bench_op_error_bound(op);
    return true;
}

/* The same problem, inputs and place of the outputs. */
static bool add_f32(struct entry *entries, size_t *count, const struct bench_problem *problem,
                    const struct bench_options *options)
{
    struct bench_problem plain = *problem;
    struct bench_options own = *options;
    plain.mixed = false;
    own.compute = TSA_COMPUTE_EXACT;
    bench_problem_name(&plain);
    return add_op(entries, count, bench_op_create_from(&plain, &own, NULL, entries[0].op, NULL));
}

static void add_contenders(struct entry *entries, size_t *count, size_t max,
                           const struct bench_problem *problem, const struct bench_unit *unit)
{
    const struct bench_inputs *in = &entries[0].op->in;
    for (size_t i = 0; i < MOST_CONTENDERS && *count < max; i++) {
        struct contender *c = contender_create(i, problem, unit);
        if (!c)
            continue;
        entries[(*count)++] = (struct entry){.rival = {c, problem, in},
                                             .error = contender_error(c, problem, in),
                                             .bound = bench_error_bound(TSA_F32)};
    }
}

static bool measure_entries(const struct bench_timing *timing, struct entry *entries, size_t count,
                            struct bench_stats *stats)
{
    struct bench_work works[MOST_ENTRIES];
    for (size_t i = 0; i < count; i++)
        works[i] = entries[i].op
                       ? (struct bench_work){.run = bench_op_work, .context = entries[i].op}
                       : (struct bench_work){.run = rival_work, .context = &entries[i].rival};
    return bench_measure(timing, works, count, stats);
}

/* Entry i as a line; the first has more figures than these. */
static struct bench_result fill(const struct entry *entries, size_t i,
                                const struct bench_options *options,
                                const struct bench_machine *machine,
                                const struct bench_stats *stats)
{
    const struct entry *e = &entries[i];
    const struct bench_op_state *op = entries[0].op;
    const struct bench_problem *problem = &op->problem;
    struct bench_result r = blank(op, options, machine);
    const double per_row = problem->op == BENCH_DECODE && !op->cold ? (double)op->chunk
                           : bench_is_decode(problem->op)           ? 1
                                                                    : (double)problem->n;
    if (i) {
        snprintf(r.contender, sizeof r.contender, "%s",
                 e->op ? "f32" : contender_name(e->rival.contender));
        r.compute = e->op ? bench_op_compute(e->op) : "f32";
        r.ratio = stats[i].min / stats[0].min;
        r.ratio_median = stats[i].median / stats[0].median;
    }
    fill_times(&r, problem, &stats[i], (double)(problem->batch * problem->heads) * per_row,
               e->op ? e->op->chunk : contender_chunk(e->rival.contender));
    r.max_error = e->error;
    return r;
}

size_t bench_op_report(const struct bench_problem *problem, const struct bench_options *options,
                       const struct bench_machine *machine, struct bench_result *results,
                       size_t max, int *wrong)
{
    struct entry entries[MOST_ENTRIES];
    struct bench_stats stats[MOST_ENTRIES];
    struct bench_timing timing = options->timing;
    size_t count = 0, done = 0;

    if (max > MOST_ENTRIES)
        max = MOST_ENTRIES;
    if (!add_op(entries, &count, bench_op_create(problem, options)))
        goto out;
    struct bench_op_state *op = entries[0].op;
    timing.cpu = tsa_plan_threads(op->plan) == 1;
    if (options->beside_f32 && op->problem.mixed && count < max &&
        !add_f32(entries, &count, problem, options))
        goto out;
    if (options->contenders && options->dtype == TSA_F32 && timing.cpu)
        add_contenders(entries, &count, max, problem, machine->unit);
    if (!measure_entries(&timing, entries, count, stats))
        goto out;
    for (size_t i = 0; i < count; i++) {
        results[i] = fill(entries, i, options, machine, stats);
        *wrong += !(entries[i].error <= entries[i].bound);
    }
    const double bytes = bench_op_bytes(op);
    results->gbytes = bytes / stats[0].min * 1e-9;
    if (problem->op == BENCH_DECODE && !fill_decode(results, op, &timing, bytes))
        goto out;
    results->level = bench_machine_level(machine, bytes);
    if (bench_is_decode(problem->op))
        results->percent_bandwidth =
            100 * results->gbytes / (machine->bandwidth[results->level] * results->threads);
    done = count;
out:
    while (count--) {
        if (entries[count].op)
            bench_op_destroy(entries[count].op);
        else
            contender_destroy(entries[count].rival.contender);
    }
    return done;
}
