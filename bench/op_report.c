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
                             .compute = options->dtype == TSA_F64 ? "f64" : "f32",
                             .threads = tsa_plan_threads(op->plan),
                             .cold = options->timing.cold,
                             .gbytes = NAN,
                             .percent_bandwidth = NAN,
                             .us_step = NAN,
                             .us_read = NAN,
                             .us_fold = NAN,
                             .ratio = NAN};
    snprintf(r.problem, sizeof r.problem, "%s", op->problem.text);
    r.peak = (options->dtype == TSA_F64 ? machine->peak_f64 : machine->peak_f32) * r.threads;
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

size_t bench_op_report(const struct bench_problem *problem, const struct bench_options *options,
                       const struct bench_machine *machine, struct bench_result *results,
                       size_t max, int *wrong)
{
    struct bench_op_state *op = bench_op_create(problem, options);
    struct rival rivals[1 + MOST_CONTENDERS];
    struct bench_work works[1 + MOST_CONTENDERS];
    struct bench_stats stats[1 + MOST_CONTENDERS];
    double errors[1 + MOST_CONTENDERS] = {0};
    size_t count = 1, done = 0;

    if (!op || max < 1)
        goto out;
    if (!bench_op_verify(op))
        goto out;
    works[0] = (struct bench_work){.run = bench_op_work, .context = op};
    errors[0] = op->max_error;
    struct bench_timing timing = options->timing;
    timing.cpu = tsa_plan_threads(op->plan) == 1;
    if (options->contenders && options->dtype == TSA_F32 && timing.cpu) {
        for (size_t i = 0; i < MOST_CONTENDERS && count < max; i++) {
            struct contender *c = contender_create(i, problem, machine->unit);
            if (!c)
                continue;
            rivals[count] = (struct rival){c, problem, &op->in};
            errors[count] = contender_error(c, problem, &op->in);
            works[count] = (struct bench_work){.run = rival_work, .context = &rivals[count]};
            count++;
        }
    }
    if (!bench_measure(&timing, works, count, stats))
        goto out;
    for (size_t i = 0; i < count; i++) {
        struct bench_result *r = &results[i];
        const bool steps = problem->op == BENCH_DECODE, single = bench_is_decode(problem->op);
        const double rows = (double)(problem->batch * problem->heads);
        const double per_row = steps && !op->cold ? (double)op->chunk
                               : single           ? 1
                                                  : (double)problem->n;
        *r = blank(op, options, machine);
        if (i)
            snprintf(r->contender, sizeof r->contender, "%s", contender_name(rivals[i].contender));
        fill_times(r, problem, &stats[i], rows * per_row,
                   i ? contender_chunk(rivals[i].contender) : op->chunk);
        r->max_error = errors[i];
        if (!(errors[i] <= bench_error_bound(options->dtype)))
            ++*wrong;
        if (i) {
            r->ratio = stats[i].min / stats[0].min;
            continue;
        }
        const double bytes = bench_op_bytes(op);
        r->gbytes = bytes / stats[0].min * 1e-9;
        if (steps && !fill_decode(r, op, &timing, bytes))
            goto out;
        r->level = bench_machine_level(machine, bytes);
        if (single)
            r->percent_bandwidth = 100 * r->gbytes / (machine->bandwidth[r->level] * r->threads);
    }
    done = count;
out:
    for (size_t i = 1; i < count; i++)
        contender_destroy(rivals[i].contender);
    bench_op_destroy(op);
    return done;
}
