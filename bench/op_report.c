/* SPDX-License-Identifier: MIT */
/* One problem from verification to a line of figures, the contenders beside it. */
#include "config.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"

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

/* The same problem, inputs and place of the outputs. */
static bool enter_f32(struct bench_race *race, const struct bench_problem *problem,
                      const struct bench_options *options)
{
    struct bench_problem plain = *problem;
    struct bench_options own = *options;
    plain.mixed = false;
    own.compute = TSA_COMPUTE_EXACT;
    bench_problem_name(&plain);
    return bench_race_enter(race, "f32",
                            bench_op_create_from(&plain, &own, NULL, race->racers[0].op, NULL));
}

/* Racer i as a line; the first has more figures than these. */
static struct bench_result fill(const struct bench_race *race, size_t i,
                                const struct bench_options *options,
                                const struct bench_machine *machine)
{
    const struct bench_racer *first = race->racers, *e = &race->racers[i];
    const struct bench_op_state *op = first->op;
    const struct bench_problem *problem = &op->problem;
    struct bench_result r = blank(op, options, machine);
    const double per_row = problem->op == BENCH_DECODE && !op->cold ? (double)op->chunk
                           : bench_is_decode(problem->op)           ? 1
                                                                    : (double)problem->n;
    if (i) {
        snprintf(r.contender, sizeof r.contender, "%s", e->op ? e->name : e->contender->name);
        r.compute = e->op ? bench_op_compute(e->op) : "f32";
        r.ratio = e->stats.min / first->stats.min;
        r.ratio_median = e->stats.median / first->stats.median;
    }
    fill_times(&r, problem, &e->stats, (double)(problem->batch * problem->heads) * per_row,
               e->op ? e->op->chunk : e->contender->chunk);
    r.max_error = e->error;
    return r;
}

/* Bytes, bandwidth, and what decoding has besides. */
static bool fill_first(struct bench_result *r, struct bench_op_state *op,
                       const struct bench_timing *timing, const struct bench_machine *machine)
{
    const double bytes = bench_op_bytes(op);
    r->gbytes = bytes / r->seconds_min * 1e-9;
    if (op->problem.op == BENCH_DECODE && !fill_decode(r, op, timing, bytes))
        return false;
    r->level = bench_machine_level(machine, bytes);
    if (bench_is_decode(op->problem.op))
        r->percent_bandwidth = 100 * r->gbytes / (machine->bandwidth[r->level] * r->threads);
    return true;
}

size_t bench_op_report(const struct bench_problem *problem, const struct bench_options *options,
                       const struct bench_machine *machine,
                       struct bench_result results[BENCH_RESULTS], int *wrong)
{
    struct bench_race race = {.count = 0};
    struct bench_timing timing = options->timing;
    struct bench_racer *first = bench_race_enter(&race, "", bench_op_create(problem, options));
    size_t count = 0;

    if (!first ||
        (options->beside_f32 && first->op->problem.mixed && !enter_f32(&race, problem, options)))
        goto out;
    if (options->contenders)
        bench_race_enter_contenders(&race, first, options->contenders, NULL);
    if (!bench_race_verify(&race) || !bench_race_time(&race, &timing))
        goto out;
    for (size_t i = 0; i < race.count; i++) {
        results[i] = fill(&race, i, options, machine);
        *wrong += !(race.racers[i].error <= race.racers[i].bound);
    }
    timing.cpu = tsa_plan_threads(first->op->plan) == 1;
    if (fill_first(results, first->op, &timing, machine))
        count = race.count;
out:
    bench_race_clear(&race);
    return count;
}
