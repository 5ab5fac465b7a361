/* SPDX-License-Identifier: MIT */
/* Operators and contenders of one comparison: verified, then timed in turn. */
#include "config.h"

#include <math.h>
#include <string.h>

#include "bench.h"

/* -- who takes part --------------------------------------------------------------------------- */

static struct bench_racer *next(struct bench_race *race)
{
    struct bench_racer *r = &race->racers[race->count];
    if (race->count == BENCH_RACERS) {
        cmd_fail("too many to compare");
        return NULL;
    }
    *r = (struct bench_racer){.passes = 1, .seconds = NAN, .median = NAN, .error = NAN};
    race->count++;
    return r;
}

struct bench_racer *bench_race_enter(struct bench_race *race, const char *name,
                                     struct bench_op_state *op)
{
    struct bench_racer *r = op ? next(race) : NULL;
    if (!r) {
        bench_op_destroy(op);
        return NULL;
    }
    snprintf(r->name, sizeof r->name, "%s", name);
    r->op = op;
    r->bound = bench_op_error_bound(op);
    return r;
}

void bench_race_enter_contenders(struct bench_race *race, const struct bench_racer *beside,
                                 const struct bench_contenders *from, const char *only)
{
    const struct bench_op_state *op = beside->op;
    if (op->in.dtype != TSA_F32 || tsa_plan_threads(op->plan) != 1)
        return;
    for (size_t i = 0; i < MOST_CONTENDERS; i++) {
        struct bench_contender *c = from->create(i, &op->problem, tsa_plan_isa(op->plan));
        const bool wanted = c && (!only || strcmp(only, c->name) == 0);
        struct bench_racer *r = wanted ? next(race) : NULL;
        if (c && !r)
            c->destroy(c);
        if (!r)
            continue;
        snprintf(r->name, sizeof r->name, "%.12s: %.31s", beside->name, c->name);
        r->contender = c;
        r->inputs = op;
        r->bound = c->bound > 0 ? c->bound : bench_error_bound(TSA_F32);
    }
}

void bench_race_remove(struct bench_race *race, size_t i)
{
    struct bench_racer *r = &race->racers[i];
    if (r->contender)
        r->contender->destroy(r->contender);
    bench_op_destroy(r->op);
    memmove(r, r + 1, (race->count - i - 1) * sizeof *r);
    race->count--;
}

void bench_race_clear(struct bench_race *race)
{
    while (race->count) /* inputs belong to the first */
        bench_race_remove(race, race->count - 1);
}

/* -- contenders ------------------------------------------------------------------------------- */

/* Contenders are for f32; inline, as a step of theirs takes less than a microsecond. */
static inline float *row_of(const struct tsa_tensor *t, size_t batch, size_t head, size_t token)
{
    return (float *)t->data + (ptrdiff_t)batch * t->batch + (ptrdiff_t)head * t->head +
           (ptrdiff_t)token * t->token;
}

/* What is decoded for one iteration: as many tokens as ours. */
static size_t steps_of(const struct bench_op_state *op)
{
    return op->problem.op == BENCH_DECODE && !op->cold ? op->chunk : 1;
}

/* One token of every head and sequence, from a row of the ring. */
static void step_contender(const struct bench_racer *r, size_t row)
{
    const struct bench_problem *p = &r->inputs->problem;
    const struct bench_inputs *in = &r->inputs->in;
    for (size_t b = 0; b < p->batch; b++)
        for (size_t h = 0; h < p->heads; h++)
            r->contender->step(r->contender, b * p->heads + h, row_of(&in->q, b, h, row),
                               row_of(&in->k, b, h, row), row_of(&in->v, b, h, row),
                               row_of(&in->o, b, h, 0));
}

/* Every head of a problem once, on inputs that lie heads-major. */
static void run_contender(const struct bench_racer *r)
{
    const struct bench_problem *p = &r->inputs->problem;
    const struct bench_inputs *in = &r->inputs->in;
    const size_t first = bench_is_decode(p->op) ? p->n - 1 : 0;
    for (size_t b = 0; b < p->batch; b++)
        for (size_t h = 0; h < p->heads; h++)
            r->contender->run(r->contender, p->n, row_of(&in->q, b, h, first),
                              row_of(&in->k, b, h, 0), row_of(&in->v, b, h, 0),
                              row_of(&in->o, b, h, 0));
}

/* So that outputs of one before do not pass for those of another. */
static void spoil(const struct bench_problem *p, const struct bench_inputs *in, size_t rows)
{
    for (size_t b = 0; b < p->batch; b++) {
        for (size_t h = 0; h < p->heads; h++) {
            float *o = row_of(&in->o, b, h, 0);
            for (size_t i = 0; i < rows * p->dv; i++)
                o[i] = NAN;
        }
    }
}

/* The largest error on sampled rows of the last head, the last row among them. */
static double contender_error(const struct bench_racer *r)
{
    const struct bench_problem *p = &r->inputs->problem;
    const struct bench_inputs *in = &r->inputs->in;
    const size_t rows = bench_is_decode(p->op) ? 1 : p->n, step = rows / 11 + 1;
    const size_t b = p->batch - 1, h = p->heads - 1;
    double worst = 0;
    spoil(p, in, rows);
    run_contender(r);
    for (size_t t = 0; t < rows; t = t + step < rows || t == rows - 1 ? t + step : rows - 1) {
        const size_t row = p->n - rows + t;
        worst =
            bench_worse(worst, bench_row_error(in, p, b, h, row, row + 1, row_of(&in->o, b, h, t)));
    }
    return worst;
}

/* The same of decoding by states, after the tokens before and in some steps. */
static double contender_step_error(const struct bench_racer *r)
{
    const struct bench_problem *p = &r->inputs->problem;
    const struct bench_inputs *in = &r->inputs->in;
    const size_t b = p->batch - 1, h = p->heads - 1;
    double worst = 0;
    for (size_t i = 0; i < p->batch * p->heads; i++)
        for (size_t t = 0; t < p->n; t++)
            r->contender->absorb(r->contender, i,
                                 row_of(&in->k, i / p->heads, i % p->heads, t % in->ring),
                                 row_of(&in->v, i / p->heads, i % p->heads, t % in->ring));
    for (size_t s = 0; s < 3; s++) {
        const size_t row = (p->n + s) % in->ring;
        spoil(p, in, 1);
        step_contender(r, row);
        worst = bench_worse(
            worst, bench_row_error(in, p, b, h, row, p->n + s + 1, row_of(&in->o, b, h, 0)));
    }
    return worst;
}

/* -- verification and time -------------------------------------------------------------------- */

bool bench_race_verify(struct bench_race *race)
{
    for (size_t i = 0; i < race->count; i++) {
        struct bench_racer *r = &race->racers[i];
        if (r->op && !bench_op_verify(r->op))
            return false;
        if (r->op)
            r->error = r->op->max_error;
        else
            r->error = r->contender->step ? contender_step_error(r) : contender_error(r);
    }
    return true;
}

static bool run_racer(void *context, size_t iterations)
{
    struct bench_racer *r = context;
    if (r->op && r->passes == 1)
        return bench_op_work(r->op, iterations);
    for (; iterations; iterations--) {
        if (r->contender && r->contender->step)
            for (size_t s = 0; s < steps_of(r->inputs); s++)
                step_contender(r, r->steps++ % BENCH_FRESH);
        else if (r->contender)
            run_contender(r);
        else if (!bench_op_reset(r->op) || !bench_op_work(r->op, r->passes))
            return false;
    }
    return true;
}

bool bench_race_time(struct bench_race *race, const struct bench_timing *timing)
{
    struct bench_timing own = *timing;
    struct bench_work works[BENCH_RACERS];
    struct bench_stats stats[BENCH_RACERS];
    own.cpu = true;
    for (size_t i = 0; i < race->count; i++) {
        struct bench_racer *r = &race->racers[i];
        works[i] = (struct bench_work){.run = run_racer, .context = r};
        if (r->op) {
            own.cpu &= tsa_plan_threads(r->op->plan) == 1;
            r->op->append = r->passes > 1;
        }
    }
    if (!bench_measure(&own, works, race->count, stats))
        return false;
    for (size_t i = 0; i < race->count; i++) {
        struct bench_racer *r = &race->racers[i];
        const double parts = (double)(steps_of(r->op ? r->op : r->inputs) * r->passes);
        r->stats = stats[i];
        r->seconds = stats[i].min / parts;
        r->median = stats[i].median / parts;
    }
    return true;
}
