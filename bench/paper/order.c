/* SPDX-License-Identifier: MIT */
/* `tsa paper`, what a term and a chunk cost: the sweep over the order (section 5.7 of the paper),
 * and short sequences. */
#include "config.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cmd.h"
#include "paper.h"

enum { D = 16, DV = 64, MOST_TERMS = 6, FROBENIUS = 0, MAXIMUM = 1, ABSOLUTE = 2, MEASURES = 3 };

static const char *const measure_name[MEASURES] = {"Frobenius", "maximum", "absolute"};

/* Against softmax in f64, by number of terms and draw. */
struct order_errors {
    double of[MEASURES][MOST_TERMS][PAPER_SEEDS];
};

/* The states of 1 to `most` terms on a draw. */
static bool order_errors(struct paper_model model, size_t n, size_t seed, size_t most,
                         struct order_errors *errors)
{
    const struct paper_model softmax = {1, 0, model.a, TSA_F64, model.isa};
    struct paper_draw draw = {.n = n};
    double *exact = malloc(n * DV * sizeof *exact), *o = malloc(n * DV * sizeof *o);
    bool done = (exact && o) || paper_no_memory();
    done = done && paper_draw_create(&draw, n, D, DV, seed + 1, true) &&
           paper_softmax(&softmax, &draw, exact);
    for (model.terms = 1; done && model.terms <= most; model.terms++) {
        done = paper_states(&model, &draw, o);
        errors->of[FROBENIUS][model.terms - 1][seed] = paper_relative_l2(o, exact, n * DV);
        errors->of[MAXIMUM][model.terms - 1][seed] = paper_relative_max(o, exact, n * DV);
        errors->of[ABSOLUTE][model.terms - 1][seed] = paper_max_difference(o, exact, n * DV);
    }
    paper_draw_destroy(&draw);
    free(exact);
    free(o);
    return done;
}

struct order_times {
    double seconds[MOST_TERMS], rounding[MOST_TERMS], flops[MOST_TERMS], softmax;
};

static bool order_times(const struct paper_run *run, size_t n, struct order_times *times)
{
    struct paper_race race = {.run = run};
    const size_t most = run->quick ? 4 : MOST_TERMS;
    char name[16];
    paper_progress(run, "time of 1 to %zu terms", most);
    paper_enter(&race, "softmax", TSA_F32, 1, "softmax:n%zu:d16:dv64", n);
    for (size_t i = 0; i < most; i++) {
        snprintf(name, sizeof name, "n = %zu", i + 1);
        paper_enter(&race, name, TSA_F32, 1, "prefill:n%zu:d16:dv64:t%zu", n, i + 1);
    }
    const bool done = paper_race_run(&race);
    for (size_t i = 0; i < MOST_TERMS; i++) {
        snprintf(name, sizeof name, "n = %zu", i + 1);
        const struct bench_racer *r = done ? paper_find(&race, name) : NULL;
        times->seconds[i] = r ? r->seconds : NAN;
        times->rounding[i] = r ? r->error : NAN;
        times->flops[i] = r ? bench_problem_flops(&r->op->problem, r->op->chunk) : NAN;
    }
    times->softmax = done ? race.all.racers[0].seconds : NAN;
    paper_race_clear(&race);
    return done;
}

/* The paper does not say how it measures: one verdict over the measures. */
static void error_figures(struct paper_experiment *e, const struct order_errors *errors)
{
    struct paper_measures by = {.count = MEASURES};
    char name[120];
    for (size_t m = 0; m < MEASURES; m++) {
        by.names[m] = measure_name[m];
        memcpy(by.values[m], errors->of[m][2], sizeof by.values[m]);
    }
    paper_drawn_by(e, "error, n = 3", 6.5e-4, &by);
    for (size_t i = 0; i + 1 < MOST_TERMS; i++) {
        for (size_t m = 0; m < MEASURES; m++)
            for (size_t s = 0; s < PAPER_SEEDS; s++)
                by.values[m][s] = errors->of[m][i][s] / errors->of[m][i + 1][s];
        snprintf(name, sizeof name, "error ratio, n = %zu to %zu (paper: 10 to 18)", i + 1, i + 2);
        paper_within_by(e, name, 10, 18, &by);
    }
}

static void order_figures(const struct paper_run *run, struct paper_experiment *e,
                          const struct order_errors *errors, const struct order_times *times)
{
    char why[240];
    const double three = (double)tsa_state_elements(D, DV, 3);
    const double four = (double)tsa_state_elements(D, DV, 4);
    paper_equal(e, "elements per head, n = 3", 9945, 9945, three);
    paper_equal(e, "state of n = 4 over that of n = 3, one digit", 6.3, 6.3,
                round(10 * four / three) / 10);
    if (run->quick) {
        paper_not_run(e, "errors at N = 2,048, and times", NAN, "not measured by --quick");
        return;
    }
    error_figures(e, errors);
    snprintf(why, sizeof why, "the operations of a token grow by %.1f, window included",
             times->flops[3] / times->flops[2]);
    paper_speed(e, "time of n = 4 over that of n = 3", 14, times->seconds[3] / times->seconds[2],
                PAPER_LESS_IS_BETTER, why);
    paper_speed(e, "tsa_softmax, ms", 32.7, times->softmax * 1e3, PAPER_LESS_IS_BETTER,
                "another machine and another program");
}

/* The line of i + 1 terms. */
static void order_row(struct paper_table *t, size_t i, const struct order_errors *errors,
                      double f32, const struct order_times *times)
{
    struct paper_spread s[2];
    for (size_t m = 0; m < ABSOLUTE; m++)
        s[m] = paper_spread_of(errors->of[m][i], PAPER_SEEDS);
    PAPER_ROW(t, (double)i + 1, (double)tsa_state_elements(D, DV, i + 1), s[0].first, s[0].low,
              s[0].high, s[1].first, s[1].low, s[1].high, errors->of[ABSOLUTE][i][0], f32,
              times->seconds[i] * 1e3, times->rounding[i], times->softmax / times->seconds[i],
              i ? errors->of[FROBENIUS][i - 1][0] / errors->of[FROBENIUS][i][0] : NAN,
              i ? times->seconds[i] / times->seconds[i - 1] : NAN);
}

bool paper_order(const struct paper_run *run, struct paper_experiment *e)
{
    static const char heads[] =
        "n|elements|relative error (Frobenius), f64|Frobenius least|Frobenius largest|"
        "relative error (maximum), f64|maximum least|maximum largest|"
        "largest absolute error, f64|relative error (Frobenius), f32 states|states, ms|"
        "rounding error|tsa_softmax / states|error ratio|time ratio";
    static struct order_errors errors, errors_f32;
    const size_t n = run->quick ? 256 : 2048, most_f32 = run->quick ? 4 : MOST_TERMS;
    /* the direct form: the same polynomial, without a fold; and as the paper computed */
    const struct paper_model direct = {1, n, 2, TSA_F64, run->isa};
    const struct paper_model folding = {1, 0, 2, TSA_F32, run->isa};
    struct order_times times;
    char tokens[CMD_NUMBER_TEXT];
    struct paper_table *t = paper_table(e, "", "Truncation order", heads);

    snprintf(e->setting, sizeof e->setting,
             "N = %s, d = %d, dv = %d, a = 2, unit rows, normal values, one thread. Errors "
             "against causal softmax in f64, least and largest of 20 draws, by two measures as in "
             "experiment 10, and the largest absolute difference; beside them the states in f32. "
             "Times: tsa_prefill in f32 with the "
             "default chunk and tsa_softmax, in turn.",
             cmd_count_text(n, tokens), D, DV);
    paper_progress(run, "errors of 1 to %d terms over %d draws", MOST_TERMS, PAPER_SEEDS);
    for (size_t s = 0; s < PAPER_SEEDS; s++)
        if (!order_errors(direct, n, s, MOST_TERMS, &errors))
            return false;
    if (!order_errors(folding, n, 0, most_f32, &errors_f32) || !order_times(run, n, &times))
        return false;
    for (size_t i = 0; i < MOST_TERMS; i++)
        order_row(t, i, &errors, i < most_f32 ? errors_f32.of[FROBENIUS][i][0] : NAN, &times);
    paper_plot(e, "error", "Error against softmax", "relative error", PAPER_LOG_Y,
               (size_t[]){2, 5, 8, 9, 0});
    paper_plot(e, "time", "Prefill, one head, one thread", "ms", PAPER_LOG_Y, (size_t[]){10, 0});
    order_figures(run, e, &errors, &times);
    return true;
}

/* -- short sequences -------------------------------------------------------------------------- */

static bool short_at(const struct paper_run *run, struct paper_table *t, size_t n, double *ratio)
{
    struct paper_race race = {.run = run};
    paper_progress(run, "direct form and folding, N = %zu", n);
    paper_enter(&race, "direct", TSA_F32, 1, "prefill:n%zu:d16:dv64:t3:c%zu", n, n + 1);
    paper_enter(&race, "folding", TSA_F32, 1, "prefill:n%zu:d16:dv64:t3", n);
    paper_enter(&race, "softmax", TSA_F32, 1, "softmax:n%zu:d16:dv64", n);
    const bool done = paper_race_run(&race);
    if (done) {
        const struct bench_racer *r = race.all.racers;
        PAPER_ROW(t, (double)n, r[0].seconds * 1e6, r[0].median * 1e6, r[0].error,
                  (double)r[1].op->chunk, r[1].seconds * 1e6, r[1].median * 1e6, r[1].error,
                  r[2].seconds * 1e6, r[2].error, r[0].seconds / r[1].seconds);
        *ratio = r[0].seconds / r[1].seconds;
    }
    paper_race_clear(&race);
    return done;
}

bool paper_short(const struct paper_run *run, struct paper_experiment *e)
{
    static const char heads[] =
        "N|direct, us|direct median, us|direct error|default chunk|folding, us|"
        "folding median, us|folding error|tsa_softmax, us|tsa_softmax error|"
        "direct / folding";
    static const size_t sizes[] = {64, 128, 256, 384, 512, 768, 1024, 2048};
    struct paper_table *t = paper_table(e, "", "Prefill of one short sequence", heads);
    double before = NAN, size_before = NAN, even = NAN;

    snprintf(e->setting, sizeof e->setting,
             "f32, d = 16, dv = 64, n = 3, a = 2, one head, one thread: a chunk longer than the "
             "sequence (the direct form: no state is folded) against the default chunk, in turn.");
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes && !(run->quick && sizes[i] > 256); i++) {
        double ratio;
        if (paper_late(run, e, "prefill", sizes[i]))
            break;
        if (!short_at(run, t, sizes[i], &ratio))
            return false;
        if (before < 1 && ratio >= 1 && isnan(even)) /* between two lengths, in log N */
            even = size_before *
                   pow((double)sizes[i] / size_before, log(1 / before) / log(ratio / before));
        before = ratio;
        size_before = (double)sizes[i];
    }
    paper_plot(e, "time", "Prefill of one short sequence", "us", PAPER_LOG_XY,
               (size_t[]){1, 5, 8, 0})
        ->ours = 5;
    if (isfinite(even))
        paper_ours(e, "break-even N of the direct form", even,
                   "below it the direct form is faster");
    else
        paper_ours(e, "break-even N of the direct form", NAN, "not met between the lengths timed");
    return true;
}
