/* SPDX-License-Identifier: MIT */
/* `tsa paper`, where the truncated series holds: convergence and signs (sections 5.9, 5.10). */
#include "config.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "paper.h"

/* -- 5.9 -------------------------------------------------------------------------------------- */

enum { D = 8, DV = 8, N = 96, CASES = 3, FROBENIUS = 0, MAXIMUM = 1, MEASURES = 2 };

struct convergence {
    bool unit;
    double a;
    double error[MEASURES][TSA_MAX_TERMS][PAPER_SEEDS];
    double largest[PAPER_SEEDS], mean[PAPER_SEEDS]; /* |x| of the causal pairs */
    double bound_ratio;                             /* of unit rows */
};

static void arguments(const struct paper_draw *draw, double a, double *largest, double *mean)
{
    double sum = 0;
    *largest = 0;
    for (size_t t = 0; t < N; t++) {
        for (size_t i = 0; i <= t; i++) {
            const double x = fabs(paper_dot(draw->q + t * D, draw->k + i * D, D) / a);
            *largest = fmax(*largest, x);
            sum += x;
        }
    }
    *mean = sum / (N * (N + 1) / 2);
}

/* With |x| <= r, weights are off by a factor 1 + delta, |delta| <= e = R exp(r), where R is the
 * rest of the series at r; outputs then by at most 2 max|v| e / (1 - e). */
static double error_bound(size_t terms, double r, double largest_value)
{
    double rest = 0, term = 1;
    for (size_t m = 0; m < 40; m++) {
        if (m >= terms)
            rest += term;
        term *= r / (double)(m + 1);
    }
    const double e = rest * exp(r);
    return e < 1 ? 2 * largest_value * e / (1 - e) : INFINITY;
}

static bool converge_draw(const struct paper_run *run, struct convergence *c, size_t seed)
{
    double exact[N * DV], o[N * DV], largest_value = 0;
    struct paper_draw draw;
    if (!paper_draw_create(&draw, N, D, DV, seed + 1, c->unit))
        return false;
    struct paper_model model = {1, 128, c->a, TSA_F64, run->isa};
    arguments(&draw, c->a, &c->largest[seed], &c->mean[seed]);
    for (size_t i = 0; i < N * DV; i++)
        largest_value = fmax(largest_value, fabs(draw.v[i]));
    bool done = paper_softmax(&model, &draw, exact);
    for (; done && model.terms <= TSA_MAX_TERMS; model.terms++) {
        done = paper_states(&model, &draw, o);
        c->error[FROBENIUS][model.terms - 1][seed] = paper_relative_l2(o, exact, N * DV);
        c->error[MAXIMUM][model.terms - 1][seed] = paper_relative_max(o, exact, N * DV);
        if (c->unit) {
            /* and a little for rounding, which dominates at no number of terms */
            const double bound = error_bound(model.terms, 1 / c->a, largest_value) + 1e-13;
            c->bound_ratio =
                bench_worse(c->bound_ratio, paper_max_difference(o, exact, N * DV) / bound);
        }
    }
    paper_draw_destroy(&draw);
    return done;
}

/* Draws in which n = `terms` is worse than n = `than`. */
static size_t draws_where_worse(const struct convergence *c, int measure, size_t terms, size_t than)
{
    size_t count = 0;
    for (size_t s = 0; s < PAPER_SEEDS; s++)
        count += c->error[measure][terms - 1][s] > c->error[measure][than - 1][s];
    return count;
}

/* Draws in which every term lowers the error. */
static size_t draws_that_converge(const struct convergence *c, int measure)
{
    size_t count = 0;
    for (size_t s = 0; s < PAPER_SEEDS; s++) {
        bool falls = true;
        for (size_t n = 1; n < TSA_MAX_TERMS; n++)
            falls &= c->error[measure][n][s] < c->error[measure][n - 1][s];
        count += falls;
    }
    return count;
}

/* Draws in which some term from the second on makes the error larger. */
static size_t draws_that_rise(const struct convergence *c, int measure)
{
    size_t count = 0;
    for (size_t s = 0; s < PAPER_SEEDS; s++) {
        bool rises = false;
        for (size_t n = 1; n < TSA_MAX_TERMS; n++)
            rises |= c->error[measure][n][s] > c->error[measure][n - 1][s];
        count += rises;
    }
    return count;
}

/* Draws in which every even n is worse than the term before it, and no odd n is. */
static size_t draws_where_even_rise(const struct convergence *c, int measure)
{
    size_t count = 0;
    for (size_t s = 0; s < PAPER_SEEDS; s++) {
        bool even = true;
        for (size_t n = 1; n < TSA_MAX_TERMS; n++) /* of n + 1 terms */
            even &= (c->error[measure][n][s] > c->error[measure][n - 1][s]) == (n % 2 == 1);
        count += even;
    }
    return count;
}

static const char *const measure_name[MEASURES] = {"Frobenius", "maximum"};

/* The errors of n terms by both measures. */
static struct paper_measures errors_by(const struct convergence *c, size_t n)
{
    struct paper_measures by = {.count = MEASURES};
    for (size_t m = 0; m < MEASURES; m++) {
        by.names[m] = measure_name[m];
        memcpy(by.values[m], c->error[m][n - 1], sizeof by.values[m]);
    }
    return by;
}

static void first_case_figures(struct paper_experiment *e, const struct convergence *c)
{
    static const double paper[] = {1.09e-1, 1.43e-1};
    const struct paper_spread spread = paper_spread_of(c->largest, PAPER_SEEDS);
    char name[120], why[120];
    paper_drawn(e, "(i) largest |x|", 5.57, &spread, NULL);
    for (size_t n = 5; n <= 6; n++) {
        const struct paper_measures by = errors_by(c, n);
        snprintf(name, sizeof name, "(i) relative error, n = %zu", n);
        paper_drawn_by(e, name, paper[n - 5], &by);
    }
    paper_claim(e, "(i) n = 6 is worse than n = 5 (Frobenius)",
                draws_where_worse(c, FROBENIUS, 6, 5));
    for (size_t n = 6; n <= TSA_MAX_TERMS; n++) {
        const size_t l2 = draws_where_worse(c, FROBENIUS, n, 5);
        const size_t most = draws_where_worse(c, MAXIMUM, n, 5);
        snprintf(name, sizeof name, "(i) draws where n = %zu is worse than n = 5 (maximum)", n);
        snprintf(why, sizeof why, "of %d; by Frobenius in %zu", PAPER_SEEDS, l2);
        paper_ours(e, name, (double)most, why);
    }
}

static void second_case_figures(struct paper_experiment *e, const struct convergence *c)
{
    const struct paper_spread spread = paper_spread_of(c->mean, PAPER_SEEDS);
    const size_t even = draws_where_even_rise(c, FROBENIUS);
    const size_t last = draws_where_worse(c, FROBENIUS, TSA_MAX_TERMS - 1, 1);
    char why[200];
    paper_drawn(e, "(ii) mean |x|", 3.59, &spread, NULL);
    paper_claim(e, "(ii) diverges: some further term makes it worse (Frobenius)",
                draws_that_rise(c, FROBENIUS));
    snprintf(why, sizeof why, "of %d; n = %d is worse than n = 1 in %zu%s", PAPER_SEEDS,
             TSA_MAX_TERMS - 1, last,
             2 * even > PAPER_SEEDS && last == 0 ? ": only even n blow up, odd n go on falling"
                                                 : "");
    paper_ours(e, "(ii) draws where every even n is worse than the n before, and no odd n",
               (double)even, why);
}

static void converge_figures(struct paper_experiment *e, const struct convergence *cases)
{
    first_case_figures(e, &cases[0]);
    second_case_figures(e, &cases[1]);
    paper_claim(e, "(iii) every term lowers the error (Frobenius)",
                draws_that_converge(&cases[2], FROBENIUS));
    paper_at_most(e, "(iii) errors over the bound of the remainder", 1, cases[2].bound_ratio);
}

static void converge_table(struct paper_experiment *e, const struct convergence *cases, int measure)
{
    static const char heads[] =
        "n|(i) as drawn, a = sqrt(d)|(i) least|(i) largest|(ii) as drawn, a = 0.5|"
        "(ii) least|(ii) largest|(iii) unit sphere, a = 2|(iii) least|(iii) largest";
    struct paper_table *t = paper_table(
        e, measure == FROBENIUS ? "" : "maximum",
        measure == FROBENIUS
            ? "Relative error against causal softmax (Frobenius); least and largest of 20 draws"
            : "The same, largest difference over largest output",
        heads);
    for (size_t n = 0; n < TSA_MAX_TERMS; n++) {
        double row[1 + 3 * CASES] = {(double)n + 1};
        for (size_t i = 0; i < CASES; i++) {
            const struct paper_spread s = paper_spread_of(cases[i].error[measure][n], PAPER_SEEDS);
            row[1 + 3 * i] = s.first;
            row[2 + 3 * i] = s.low;
            row[3 + 3 * i] = s.high;
        }
        paper_row(t, row, 1 + 3 * CASES);
    }
}

bool paper_converge(const struct paper_run *run, struct paper_experiment *e)
{
    static struct convergence cases[CASES];

    cases[0] = (struct convergence){.unit = false, .a = sqrt(D)};
    cases[1] = (struct convergence){.unit = false, .a = 0.5};
    cases[2] = (struct convergence){.unit = true, .a = 2};
    snprintf(e->setting, sizeof e->setting,
             "f64, d = %d, dv = %d, N = %d, n = 1 to %d: (i) rows as drawn, a = sqrt(d); (ii) rows "
             "as drawn, a = 0.5; (iii) rows on the unit sphere, a = 2. x = q.k/a over the causal "
             "pairs. The paper does not say how it measures the relative error; two measures are "
             "here: the Frobenius norm of the difference over that of softmax's outputs, and the "
             "largest difference over the largest output.",
             D, DV, N, TSA_MAX_TERMS);
    for (size_t i = 0; i < CASES; i++)
        for (size_t s = 0; s < PAPER_SEEDS; s++)
            if (!converge_draw(run, &cases[i], s))
                return false;
    for (int m = 0; m < MEASURES; m++)
        converge_table(e, cases, m);
    paper_plot(e, "error", "Error against softmax, first draw", "relative error", PAPER_LOG_Y,
               (size_t[]){1, 4, 7, 0});
    converge_figures(e, cases);
    return true;
}

/* -- 5.10 ------------------------------------------------------------------------------------- */

enum { SIGNED_D = 6, SIGNED_N = 64, SIGNED_TERMS = 6 };

static bool negative_shares(uint64_t seed, double *all, double *causal)
{
    struct paper_draw draw;
    if (!paper_draw_create(&draw, SIGNED_N, SIGNED_D, 1, seed, false))
        return false;
    for (size_t n = 0; n < SIGNED_TERMS; n++) {
        size_t negative = 0, negative_causal = 0;
        for (size_t t = 0; t < SIGNED_N; t++) {
            for (size_t i = 0; i < SIGNED_N; i++) {
                const double x = paper_dot(draw.q + t * SIGNED_D, draw.k + i * SIGNED_D, SIGNED_D) /
                                 sqrt(SIGNED_D);
                const bool is_negative = bench_series(n + 1, x) < 0;
                negative += is_negative;
                negative_causal += is_negative && i <= t;
            }
        }
        all[n] = 100.0 * (double)negative / (SIGNED_N * SIGNED_N);
        causal[n] = 100.0 * (double)negative_causal / (SIGNED_N * (SIGNED_N + 1) / 2);
    }
    paper_draw_destroy(&draw);
    return true;
}

static void negative_axis(struct paper_experiment *e)
{
    static const char heads[] = "x|exp|n = 2|n = 3|n = 4|n = 5|n = 6";
    struct paper_table *t =
        paper_table(e, "axis", "The truncated series on the negative axis", heads);
    for (int i = -24; i <= 0; i++) {
        const double x = 0.25 * i;
        double row[7] = {x, exp(x)};
        for (size_t n = 2; n <= 6; n++)
            row[n] = bench_series(n, x);
        paper_row(t, row, 7);
    }
    paper_plot(e, "axis", "exp and its truncated series on the negative axis", "weight",
               PAPER_LINEAR, (size_t[]){1, 2, 3, 4, 5, 6, 0})
        ->table = 1;
}

bool paper_signed(const struct paper_run *run, struct paper_experiment *e)
{
    static const char heads[] =
        "n|negative, %|negative least, %|negative largest, %|causal pairs, %|"
        "causal pairs least, %|causal pairs largest, %";
    static const double paper[] = {NAN, 13.7, 0, 5.2, 0, NAN};
    double all[PAPER_SEEDS][SIGNED_TERMS], causal[PAPER_SEEDS][SIGNED_TERMS];
    struct paper_table *t =
        paper_table(e, "", "Negative kernel entries; least and largest of 20 draws", heads);

    (void)run;
    snprintf(e->setting, sizeof e->setting,
             "d = %d, N = %d, a = sqrt(d), rows as drawn: share of the entries p(q.k/a) below 0, "
             "of all N x N pairs, and of the causal ones.",
             SIGNED_D, SIGNED_N);
    for (size_t s = 0; s < PAPER_SEEDS; s++)
        if (!negative_shares(s + 1, all[s], causal[s]))
            return false;
    for (size_t n = 0; n < SIGNED_TERMS; n++) {
        double of_all[PAPER_SEEDS], of_causal[PAPER_SEEDS];
        char name[80];
        for (size_t s = 0; s < PAPER_SEEDS; s++) {
            of_all[s] = all[s][n];
            of_causal[s] = causal[s][n];
        }
        const struct paper_spread a = paper_spread_of(of_all, PAPER_SEEDS);
        const struct paper_spread b = paper_spread_of(of_causal, PAPER_SEEDS);
        PAPER_ROW(t, (double)n + 1, a.first, a.low, a.high, b.first, b.low, b.high);
        snprintf(name, sizeof name, "negative entries, n = %zu, %%", n + 1);
        if (n % 2 == 0)
            paper_equal(e, name, paper[n], 0, a.high); /* an even top degree has no real root */
        else if (n < SIGNED_TERMS - 1)
            paper_drawn(e, name, paper[n], &a, NULL);
    }
    negative_axis(e);
    return true;
}
