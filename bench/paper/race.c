/* SPDX-License-Identifier: MIT */
/* `tsa paper`: speed against others. What computes something else does not take part. */
#include "config.h"

#include <stdarg.h>
#include <string.h>

#include "cmd.h"
#include "paper.h"

/* Whoever has inputs that can be shared: heads-major rows of the same problem. */
static const struct bench_op_state *inputs_for(const struct bench_race *race,
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

struct bench_racer *paper_enter(struct paper_race *race, const char *name, enum tsa_dtype dtype,
                                int threads, const char *format, ...)
{
    const struct bench_options options = {
        .timing = race->run->timing, .threads = threads, .isa = race->run->isa, .dtype = dtype};
    struct bench_op_state *op = NULL;
    struct bench_problem p;
    char problem[BENCH_PROBLEM_TEXT];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(problem, sizeof problem, format, arguments);
    va_end(arguments);
    if (bench_problem_parse(problem, &p))
        op = bench_op_create_from(&p, &options, NULL, inputs_for(&race->all, &p, dtype), NULL);
    struct bench_racer *r = bench_race_enter(&race->all, name, op);
    race->failed |= !r;
    return r;
}

void paper_enter_contenders(struct paper_race *race, const struct bench_racer *beside,
                            const char *only)
{
    if (beside)
        bench_race_enter_contenders(&race->all, beside, &contend_all, only);
}

/* Contenders beyond the bound are left out, which is said. */
static bool verify(struct bench_race *race)
{
    if (!bench_race_verify(race))
        return false;
    for (size_t i = 0; i < race->count;) {
        const struct bench_racer *r = &race->racers[i];
        if (r->error <= r->bound) {
            i++;
        } else if (r->op) {
            cmd_fail("%s: the error %.1e is beyond the bound %.1e", r->op->problem.text, r->error,
                     r->bound);
            return false;
        } else {
            cmd_warn("%s is left out: its error %.1e is beyond the bound %.1e", r->name, r->error,
                     r->bound);
            bench_race_remove(race, i);
        }
    }
    return true;
}

bool paper_race_run(struct paper_race *race)
{
    struct bench_timing timing = race->run->timing;
    if (race->repeats)
        timing.repeats = race->repeats;
    return !race->failed && verify(&race->all) && bench_race_time(&race->all, &timing);
}

void paper_race_clear(struct paper_race *race)
{
    bench_race_clear(&race->all);
}

const struct bench_racer *paper_find(const struct paper_race *race, const char *name)
{
    for (size_t i = 0; i < race->all.count; i++)
        if (strcmp(race->all.racers[i].name, name) == 0)
            return &race->all.racers[i];
    return NULL;
}

const struct bench_racer *paper_fastest(const struct paper_race *race, const char *prefix)
{
    const struct bench_racer *best = NULL;
    for (size_t i = 0; i < race->all.count; i++) {
        const struct bench_racer *r = &race->all.racers[i];
        if (strncmp(r->name, prefix, strlen(prefix)) == 0 && (!best || r->seconds < best->seconds))
            best = r;
    }
    return best;
}
