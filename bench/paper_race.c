/* SPDX-License-Identifier: MIT */
/* `tsa paper`: operators and contenders verified, then timed in turn. */
#include "config.h"

#include <math.h>
#include <string.h>

#include "cmd.h"
#include "paper.h"

static struct paper_racer *next(struct paper_race *race, const char *name)
{
    if (race->count == PAPER_RACERS) {
        cmd_fail("too many to compare");
        race->failed = true;
        return NULL;
    }
    struct paper_racer *r = &race->racers[race->count];
    *r = (struct paper_racer){.passes = 1, .seconds = NAN, .median = NAN, .error = NAN};
    snprintf(r->name, sizeof r->name, "%s", name);
    return r;
}

/* Whoever has inputs that can be shared: heads-major rows of the same problem. */
static const struct bench_op_state *inputs_for(const struct paper_race *race,
                                               const struct bench_problem *p, enum tsa_dtype dtype)
{
    for (size_t i = 0; p->op != BENCH_DECODE && i < race->count; i++) {
        const struct bench_op_state *op = race->racers[i].op;
        if (op && (op->problem.op == BENCH_PREFILL || op->problem.op == BENCH_SOFTMAX) &&
            op->problem.n == p->n && op->problem.d == p->d && op->problem.dv == p->dv &&
            op->problem.heads == p->heads && op->problem.batch == p->batch && op->in.dtype == dtype)
            return op;
    }
    return NULL;
}

struct paper_racer *paper_enter(struct paper_race *race, const char *name, const char *problem,
                                enum tsa_dtype dtype, int threads)
{
    const struct bench_options options = {
        .timing = race->run->timing, .threads = threads, .isa = race->run->isa, .dtype = dtype};
    struct bench_problem p;
    char why[200];
    struct paper_racer *r = next(race, name);
    if (!r)
        return NULL;
    if (!bench_problem_parse(problem, &p, why, sizeof why)) {
        cmd_fail("%s: %s", problem, why);
        race->failed = true;
        return NULL;
    }
    r->op = bench_op_create_from(&p, &options, NULL, inputs_for(race, &p, dtype), NULL);
    if (!r->op) {
        race->failed = true;
        return NULL;
    }
    race->count++;
    return r;
}

void paper_enter_contenders(struct paper_race *race, const struct paper_racer *beside,
                            const char *only)
{
    if (!beside || beside->op->in.dtype != TSA_F32 || tsa_plan_threads(beside->op->plan) != 1)
        return;
    for (size_t i = 0; i < PAPER_RACERS; i++) {
        struct contender *c = contender_create(i, &beside->op->problem, race->run->machine.unit);
        if (!c)
            continue;
        if (only && strcmp(only, contender_name(c)) != 0) {
            contender_destroy(c);
            continue;
        }
        struct paper_racer *r = next(race, "");
        if (!r) {
            contender_destroy(c);
            return;
        }
        snprintf(r->name, sizeof r->name, "%.12s: %.30s", beside->name, contender_name(c));
        r->contender = c;
        r->inputs = beside->op;
        race->count++;
    }
}

/* -- verification and time -------------------------------------------------------------------- */

static bool is_prefill(const struct bench_problem *p)
{
    return p->op == BENCH_PREFILL;
}

static bool run_racer(void *context, size_t iterations)
{
    struct paper_racer *r = context;
    if (r->contender) {
        for (; iterations; iterations--)
            contender_run_all(r->contender, &r->inputs->problem, &r->inputs->in);
        return true;
    }
    if (r->passes == 1)
        return bench_op_work(r->op, iterations);
    r->op->append = true;
    for (; iterations; iterations--)
        if (!bench_op_reset(r->op) || !bench_op_work(r->op, r->passes))
            return false;
    return true;
}

/* Contenders that compute something else are left out, which is said. */
static bool verify(struct paper_race *race)
{
    for (size_t i = 0; i < race->count; i++) {
        struct paper_racer *r = &race->racers[i];
        if (r->op && !bench_op_verify(r->op))
            return false;
        r->error = r->op ? r->op->max_error
                         : contender_error(r->contender, &r->inputs->problem, &r->inputs->in);
        const enum tsa_dtype dtype = r->op ? r->op->in.dtype : TSA_F32;
        if (r->error <= bench_error_bound(dtype))
            continue;
        if (r->op) {
            cmd_fail("%s: the error %.1e is beyond the bound %.1e", r->op->problem.text, r->error,
                     bench_error_bound(dtype));
            return false;
        }
        fprintf(stderr, "tsa paper: %s is left out: its error %.1e is beyond the bound %.1e\n",
                r->name, r->error, bench_error_bound(dtype));
        contender_destroy(r->contender);
        memmove(r, r + 1, (race->count - i - 1) * sizeof *r);
        race->count--;
        i--;
    }
    return true;
}

/* Tokens of one pass of a decoding operator; else 1. */
static double parts(const struct paper_racer *r)
{
    if (r->op && r->op->problem.op == BENCH_DECODE)
        return (double)r->op->chunk;
    return (double)r->passes;
}

bool paper_race_run(struct paper_race *race)
{
    struct bench_work works[PAPER_RACERS];
    struct bench_stats stats[PAPER_RACERS];
    struct bench_timing timing = race->run->timing;

    if (race->failed || !verify(race))
        return false;
    timing.cpu = true;
    if (race->repeats)
        timing.repeats = race->repeats;
    for (size_t i = 0; i < race->count; i++) {
        struct paper_racer *r = &race->racers[i];
        works[i] = (struct bench_work){.run = run_racer, .context = r};
        if (r->op && tsa_plan_threads(r->op->plan) > 1)
            timing.cpu = false;
        if (r->passes > 1 && !(r->op && is_prefill(&r->op->problem)))
            return false;
    }
    if (!bench_measure(&timing, works, race->count, stats))
        return false;
    for (size_t i = 0; i < race->count; i++) {
        struct paper_racer *r = &race->racers[i];
        r->seconds = stats[i].min / parts(r);
        r->median = stats[i].median / parts(r);
    }
    return true;
}

void paper_race_clear(struct paper_race *race)
{
    for (size_t i = race->count; i-- > 0;) { /* inputs belong to the first */
        contender_destroy(race->racers[i].contender);
        bench_op_destroy(race->racers[i].op);
    }
    race->count = 0;
    race->failed = false;
}

const struct paper_racer *paper_find(const struct paper_race *race, const char *name)
{
    for (size_t i = 0; i < race->count; i++)
        if (strcmp(race->racers[i].name, name) == 0)
            return &race->racers[i];
    return NULL;
}

const struct paper_racer *paper_fastest(const struct paper_race *race, const char *prefix)
{
    const struct paper_racer *best = NULL;
    for (size_t i = 0; i < race->count; i++) {
        const struct paper_racer *r = &race->racers[i];
        if (strncmp(r->name, prefix, strlen(prefix)) == 0 && (!best || r->seconds < best->seconds))
            best = r;
    }
    return best;
}
