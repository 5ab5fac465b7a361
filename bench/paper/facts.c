/* SPDX-License-Identifier: MIT */
/* `tsa paper`, what holds exactly: the states are the truncated kernel, they add up, and they save
 * the rescanning of the history (sections 5.1 to 5.3 of the paper). */
#include "config.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>

#include "cmd.h"
#include "paper.h"

enum { D = 6, DV = 4, N = 64, MOST_TERMS = 6, MOST_FEATURES = 462, ROW = DV + 1 };

#define UNIT (DBL_EPSILON / 2)

/* -- 5.1 -------------------------------------------------------------------------------------- */

/* Roundings that can follow one another on the way to a numerator or a denominator, here and in
 * the library together: sums over features, tokens and chunks, products of features, scores. */
static double chain_of(size_t terms, size_t n)
{
    return (double)(tsa_features(D, terms) + 3 * n + 6 * terms + 2 * D + 24);
}

/* The largest difference between states and explicit kernel, and the largest ratio to its bound. */
static bool lossless_case(const struct paper_run *run, const struct paper_draw *draw, size_t terms,
                          size_t chunk, double *difference, double *ratio)
{
    const struct paper_model model = {terms, chunk, sqrt(D), TSA_F64, run->isa};
    double o[N * DV], exact[N * DV], bound[N * DV];
    if (!paper_explicit(&model, draw, chain_of(terms, N), exact, bound) ||
        !paper_states(&model, draw, o))
        return false;
    *difference = paper_max_difference(o, exact, N * DV);
    for (size_t i = 0; i < N * DV; i++)
        *ratio = bench_worse(*ratio, fabs(o[i] - exact[i]) / bound[i]);
    return true;
}

/* One draw, every number of terms; differences[0]: chunk 1, [1]: chunk 16, [2]: rows as drawn. */
static bool lossless_draw(const struct paper_run *run, uint64_t seed,
                          double differences[3][MOST_TERMS], double *ratio)
{
    struct paper_draw unit, raw;
    bool done = paper_draw_create(&unit, N, D, DV, seed, true);
    if (!done)
        return false;
    done = paper_draw_create(&raw, N, D, DV, seed, false);
    for (size_t i = 0; done && i < MOST_TERMS; i++)
        done = lossless_case(run, &unit, i + 1, 1, &differences[0][i], ratio) &&
               lossless_case(run, &unit, i + 1, 16, &differences[1][i], ratio) &&
               lossless_case(run, &raw, i + 1, 16, &differences[2][i], ratio);
    paper_draw_destroy(&unit);
    paper_draw_destroy(&raw);
    return done;
}

static double binomial(size_t n, size_t k)
{
    double result = 1;
    for (size_t i = 1; i <= k; i++)
        result = result * (double)(n - k + i) / (double)i;
    return round(result);
}

bool paper_lossless(const struct paper_run *run, struct paper_experiment *e)
{
    static const char heads[] =
        "n|elements, symmetric basis|elements, uncompressed (by arithmetic)|"
        "max difference, chunk 1|least of 20 draws|largest of 20 draws|chunk 16|"
        "chunk 16, rows as drawn";
    static double found[PAPER_SEEDS][3][MOST_TERMS];
    double worst[PAPER_SEEDS], ratio = 0, symmetric = 0, full = 0, of_one[PAPER_SEEDS];
    struct paper_table *t = paper_table(e, "", "States against the explicit kernel", heads);

    snprintf(e->setting, sizeof e->setting,
             "f64, d = %d, dv = %d, N = %d, a = sqrt(d), rows of q and k of unit length, n = 1 to "
             "%d; the library's states at chunk 1 (equation 7) and 16 against the materialised "
             "N x N truncated kernel in plain loops.",
             D, DV, N, MOST_TERMS);
    for (size_t s = 0; s < PAPER_SEEDS; s++) {
        if (!lossless_draw(run, s + 1, found[s], &ratio))
            return false;
        worst[s] = 0;
        for (size_t i = 0; i < MOST_TERMS; i++)
            worst[s] = bench_worse(worst[s], found[s][0][i]);
    }
    for (size_t i = 0; i < MOST_TERMS; i++) {
        symmetric += binomial(D + i - 1, i) * ROW;
        full += pow(D, (double)i) * ROW;
        for (size_t s = 0; s < PAPER_SEEDS; s++)
            of_one[s] = found[s][0][i];
        const struct paper_spread spread = paper_spread_of(of_one, PAPER_SEEDS);
        PAPER_ROW(t, (double)i + 1, symmetric, full, spread.first, spread.low, spread.high,
                  found[0][1][i], found[0][2][i]);
        char name[80];
        snprintf(name, sizeof name, "state elements, n = %zu", i + 1);
        paper_equal(e, name, NAN, symmetric, (double)tsa_state_elements(D, DV, i + 1));
    }
    const struct paper_spread spread = paper_spread_of(worst, PAPER_SEEDS);
    paper_rounding(e, "largest difference over n, chunk 1", 2.2e-16, &spread);
    paper_at_most(e, "differences over their bounds, all draws", 1, ratio);
    return true;
}

/* -- 5.2 -------------------------------------------------------------------------------------- */

/* Sums over tokens [from, to) in plain loops, and sums of the magnitudes if `size` is not NULL. */
static void plain_sums(const struct paper_draw *draw, size_t terms, size_t from, size_t to,
                       double *sums, double *size)
{
    const size_t features = tsa_features(D, terms);
    double phi[MOST_FEATURES];
    for (size_t i = 0; i < features * ROW; i++) {
        sums[i] = 0;
        if (size)
            size[i] = 0;
    }
    for (size_t t = from; t < to; t++) {
        bench_features(draw->k + t * D, D, terms, phi);
        for (size_t f = 0; f < features; f++) {
            for (size_t c = 0; c < ROW; c++) {
                const double term = phi[f] * (c < DV ? draw->v[t * DV + c] : 1);
                sums[f * ROW + c] += term;
                if (size)
                    size[f * ROW + c] += fabs(term);
            }
        }
    }
}

static void plain_query(const struct paper_draw *draw, size_t terms, double a, const double *sums,
                        double *o)
{
    const size_t features = tsa_features(D, terms);
    double psi[MOST_FEATURES];
    for (size_t t = 0; t < draw->n; t++) {
        double numerator[ROW] = {0}, weight = 1;
        bench_features(draw->q + t * D, D, terms, psi);
        for (size_t m = 0, f = 0; m < terms; m++) {
            for (; f < features && f < tsa_features(D, m + 1); f++)
                for (size_t c = 0; c < ROW; c++)
                    numerator[c] += weight * psi[f] * sums[f * ROW + c];
            weight /= (double)(m + 1) * a;
        }
        for (size_t c = 0; c < DV; c++)
            o[t * DV + c] = numerator[c] / numerator[DV];
    }
}

struct halves {
    struct tsa_plan *plan;
    struct tsa_state *whole, *parts[2];
    struct tsa_error err;
};

static enum tsa_status absorb_halves(struct halves *h, const struct paper_draw *draw)
{
    struct tsa_state **const states[] = {&h->whole, &h->parts[0], &h->parts[1]};
    const size_t from[] = {0, 0, N / 2}, count[] = {N, N / 2, N / 2};
    for (size_t i = 0; i < 3; i++) {
        const struct tsa_tensor k = paper_rows(draw->k + from[i] * D, D);
        const struct tsa_tensor v = paper_rows(draw->v + from[i] * DV, DV);
        enum tsa_status status = tsa_state_create(h->plan, states[i], &h->err);
        if (status == TSA_OK)
            status = tsa_absorb(h->plan,
                                &(struct tsa_batch){.size = sizeof(struct tsa_batch),
                                                    .states = states[i],
                                                    .count = 1,
                                                    .tokens = count[i],
                                                    .k = k,
                                                    .v = v},
                                NULL, &h->err);
        if (status != TSA_OK)
            return status;
    }
    return tsa_state_merge(h->plan, h->parts[0], h->parts[1], NULL, &h->err);
}

/* The sums of all degrees, and the outputs of all queries. */
static enum tsa_status read_state(struct halves *h, struct tsa_state *state, size_t terms,
                                  const struct paper_draw *draw, double *sums, double *o)
{
    const struct tsa_tensor q = paper_rows(draw->q, D), to = paper_rows(o, DV);
    for (size_t m = 0; m < terms; m++) {
        const enum tsa_status status =
            tsa_state_export(h->plan, state, 0, 0, m, TSA_BASIS_SYMMETRIC, sums, ROW, &h->err);
        if (status != TSA_OK)
            return status;
        sums += (tsa_features(D, m + 1) - tsa_features(D, m)) * ROW;
    }
    return tsa_query(h->plan,
                     &(struct tsa_batch){.size = sizeof(struct tsa_batch),
                                         .states = &state,
                                         .count = 1,
                                         .tokens = N,
                                         .q = q,
                                         .o = to},
                     NULL, &h->err);
}

static bool library_halves(const struct paper_run *run, const struct paper_draw *draw, size_t terms,
                           double *whole, double *merged, double *o_whole, double *o_merged)
{
    const struct paper_model model = {terms, 1, sqrt(D), TSA_F64, run->isa};
    struct halves h = {.plan = NULL};
    if (!paper_plan(&model, draw, &h.plan))
        return false;
    enum tsa_status status = absorb_halves(&h, draw);
    if (status == TSA_OK)
        status = read_state(&h, h.whole, terms, draw, whole, o_whole);
    if (status == TSA_OK)
        status = read_state(&h, h.parts[0], terms, draw, merged, o_merged);
    tsa_state_destroy(h.whole);
    tsa_state_destroy(h.parts[0]);
    tsa_state_destroy(h.parts[1]);
    tsa_plan_destroy(h.plan);
    return status == TSA_OK || paper_fail(status, &h.err);
}

/* found: plain state, plain outputs, compensated state, compensated outputs; ratios to bounds. */
static bool additive_case(const struct paper_run *run, const struct paper_draw *draw, size_t terms,
                          double found[4], double ratio[3])
{
    enum { SUMS = MOST_FEATURES * ROW };
    static double whole[SUMS], first[SUMS], second[SUMS], size[SUMS];
    static double fine_whole[SUMS], fine_merged[SUMS];
    double o_whole[N * DV], o_parts[N * DV];
    const size_t count = tsa_features(D, terms) * ROW;

    plain_sums(draw, terms, 0, N, whole, size);
    plain_sums(draw, terms, 0, N / 2, first, NULL);
    plain_sums(draw, terms, N / 2, N, second, NULL);
    for (size_t i = 0; i < count; i++)
        first[i] += second[i];
    found[0] = paper_max_difference(whole, first, count);
    plain_query(draw, terms, sqrt(D), whole, o_whole);
    plain_query(draw, terms, sqrt(D), first, o_parts);
    found[1] = paper_max_difference(o_whole, o_parts, N * DV);
    if (!library_halves(run, draw, terms, fine_whole, fine_merged, o_whole, o_parts))
        return false;
    found[2] = paper_max_difference(fine_whole, fine_merged, count);
    found[3] = paper_max_difference(o_whole, o_parts, N * DV);
    for (size_t i = 0; i < count; i++) {
        /* each plain sum: one rounding a token; each compensated one: two of u squared, then one
         * to double, and one for the square root of the multiplicity */
        const double plain = 2 * N * UNIT * size[i];
        const double fine = 4 * UNIT * fabs(fine_whole[i]) + 8 * N * UNIT * UNIT * size[i];
        const double a = fabs(whole[i] - first[i]), b = fabs(fine_whole[i] - fine_merged[i]);
        /* a sum of zeros has a bound of 0, and differs by nothing */
        ratio[0] = bench_worse(ratio[0], a == 0 ? 0 : a / plain);
        ratio[1] = bench_worse(ratio[1], b == 0 ? 0 : b / fine);
        const double c = fabs(whole[i] - fine_whole[i]);
        ratio[2] = bench_worse(ratio[2], c == 0 ? 0 : c / plain);
    }
    return true;
}

bool paper_additive(const struct paper_run *run, struct paper_experiment *e)
{
    static const char heads[] = "n|state|outputs|state, compensated|outputs, compensated";
    enum { TERMS = 4 };
    double of_draws[4][PAPER_SEEDS], ratio[3] = {0, 0, 0}, row[5] = {0};
    struct paper_table *t =
        paper_table(e, "", "[0,32) + [32,64) against [0,64), largest difference", heads);

    snprintf(e->setting, sizeof e->setting,
             "f64, d = %d, dv = %d, N = %d, a = sqrt(d), rows as drawn; sums over tokens in plain "
             "loops as in the paper, and in the library's double-float sums at chunk 1. The paper "
             "does not say n: its figures are set beside n = %d.",
             D, DV, N, TERMS);
    for (size_t s = 0; s < PAPER_SEEDS; s++) {
        struct paper_draw draw;
        bool done = paper_draw_create(&draw, N, D, DV, s + 1, false);
        for (size_t terms = 1; done && terms <= MOST_TERMS; terms++) {
            done = additive_case(run, &draw, terms, row + 1, ratio);
            row[0] = (double)terms;
            if (s == 0)
                paper_row(t, row, 5);
            for (size_t i = 0; terms == TERMS && i < 4; i++)
                of_draws[i][s] = row[i + 1];
        }
        paper_draw_destroy(&draw);
        if (!done)
            return false;
    }
    struct paper_spread spread = paper_spread_of(of_draws[0], PAPER_SEEDS);
    paper_rounding(e, "difference of the states, plain sums", 5.684e-14, &spread);
    spread = paper_spread_of(of_draws[1], PAPER_SEEDS);
    paper_rounding(e, "difference of the outputs, plain sums", 1.665e-16, &spread);
    spread = paper_spread_of(of_draws[2], PAPER_SEEDS);
    paper_rounding(e, "difference of the states, compensated sums", NAN, &spread);
    spread = paper_spread_of(of_draws[3], PAPER_SEEDS);
    paper_rounding(e, "difference of the outputs, compensated sums", NAN, &spread);
    paper_at_most(e, "plain sums: differences over their bounds", 1, ratio[0]);
    paper_at_most(e, "compensated sums: differences over their bounds", 1, ratio[1]);
    paper_at_most(e, "plain sums against the library's, over the bound of the plain", 1, ratio[2]);
    return true;
}

/* -- 5.3 -------------------------------------------------------------------------------------- */

struct rescan {
    const struct paper_draw *draw;
    struct paper_model model;
    struct tsa_plan *plan;
    struct tsa_state *state;
    struct tsa_workspace *ws;
    double *weights, *o_steps, *o_rescan;
};

static bool step_through(void *context, size_t iterations)
{
    struct rescan *r = context;
    struct tsa_error err = {.status = TSA_OK};
    enum tsa_status status = TSA_OK;
    for (; status == TSA_OK && iterations; iterations--) {
        status = tsa_state_reset(r->plan, r->state, &err);
        for (size_t t = 0; status == TSA_OK && t < r->draw->n; t++) {
            const struct tsa_tensor q = paper_rows(r->draw->q + t * D, D);
            const struct tsa_tensor k = paper_rows(r->draw->k + t * D, D);
            const struct tsa_tensor v = paper_rows(r->draw->v + t * DV, DV);
            const struct tsa_tensor o = paper_rows(r->o_steps + t * DV, DV);
            status = tsa_decode(r->plan,
                                &(struct tsa_batch){.size = sizeof(struct tsa_batch),
                                                    .states = &r->state,
                                                    .count = 1,
                                                    .q = q,
                                                    .k = k,
                                                    .v = v,
                                                    .o = o},
                                r->ws, &err);
        }
    }
    return status == TSA_OK || paper_fail(status, &err);
}

/* Every step from the first token on. */
static bool scan_again(void *context, size_t iterations)
{
    struct rescan *r = context;
    const struct paper_draw *draw = r->draw;
    for (; iterations; iterations--) {
        for (size_t t = 0; t < draw->n; t++) {
            double numerator[DV] = {0}, denominator = 0;
            for (size_t i = 0; i <= t; i++) {
                const double x = paper_dot(draw->q + t * D, draw->k + i * D, D) / r->model.a;
                const double w = bench_series(r->model.terms, x);
                denominator += w;
                for (size_t c = 0; c < DV; c++)
                    numerator[c] += w * draw->v[i * DV + c];
            }
            for (size_t c = 0; c < DV; c++)
                r->o_rescan[t * DV + c] = numerator[c] / denominator;
        }
    }
    return true;
}

static bool rescan_create(struct rescan *r, const struct paper_run *run,
                          const struct paper_draw *draw)
{
    struct tsa_error err = {.status = TSA_OK};
    *r = (struct rescan){.draw = draw, .model = {4, 1, 2, TSA_F64, run->isa}};
    r->o_steps = malloc(draw->n * DV * sizeof *r->o_steps);
    r->o_rescan = malloc(draw->n * DV * sizeof *r->o_rescan);
    if (!r->o_steps || !r->o_rescan)
        return paper_no_memory();
    if (!paper_plan(&r->model, draw, &r->plan))
        return false;
    enum tsa_status status = tsa_state_create(r->plan, &r->state, &err);
    if (status == TSA_OK)
        status = tsa_workspace_create(r->plan, 0, &r->ws, &err);
    return status == TSA_OK || paper_fail(status, &err);
}

static void rescan_destroy(struct rescan *r)
{
    tsa_workspace_destroy(r->ws);
    tsa_state_destroy(r->state);
    tsa_plan_destroy(r->plan);
    free(r->o_steps);
    free(r->o_rescan);
}

/* Agreement after one pass of both; `stats` unless NULL gets their times. */
static bool rescan_case(const struct paper_run *run, size_t n, uint64_t seed, double *difference,
                        struct bench_stats *stats)
{
    struct paper_draw draw;
    struct rescan r = {.plan = NULL};
    struct bench_timing timing = run->timing;
    timing.cpu = true;
    bool done = paper_draw_create(&draw, n, D, DV, seed, true);
    done = done && rescan_create(&r, run, &draw) && step_through(&r, 1) && scan_again(&r, 1);
    if (done)
        *difference = paper_max_difference(r.o_steps, r.o_rescan, n * DV);
    if (done && stats) {
        const struct bench_work works[] = {{.run = step_through, .context = &r},
                                           {.run = scan_again, .context = &r}};
        done = bench_measure(&timing, works, 2, stats);
    }
    rescan_destroy(&r);
    paper_draw_destroy(&draw);
    return done;
}

bool paper_rescan(const struct paper_run *run, struct paper_experiment *e)
{
    static const char heads[] =
        "N|recurrence, ms|recurrence median, ms|recurrence growth|rescan, ms|"
        "rescan median, ms|rescan growth|rescan / recurrence|difference";
    const size_t most = run->quick ? 256 : 4096;
    char to[CMD_NUMBER_TEXT];
    double found[PAPER_SEEDS], times[2][16], sizes[16], before[2] = {NAN, NAN};
    size_t count = 0;
    struct paper_table *t = paper_table(e, "", "Time as N doubles, one thread", heads);

    snprintf(e->setting, sizeof e->setting,
             "f64, d = %d, dv = %d, n = 4, a = 2, unit rows, one thread: tsa_decode token by token "
             "at chunk 1 (one rank-one update a token) against a plain loop over the tokens 1 to t "
             "at every step t; each on the same rows, timed in turn, N = 64 to %s. Agreement at "
             "N = 256.",
             D, DV, cmd_count_text(most, to));
    for (size_t s = 0; s < PAPER_SEEDS; s++)
        if (!rescan_case(run, 256, s + 1, &found[s], NULL))
            return false;
    for (size_t n = 64; n <= most; n *= 2, count++) { /* seconds in all: never late */
        struct bench_stats stats[2];
        double difference;
        paper_progress(run, "recurrence and rescanning, N = %zu", n);
        if (!rescan_case(run, n, 1, &difference, stats))
            return false;
        PAPER_ROW(t, (double)n, stats[0].min * 1e3, stats[0].median * 1e3, stats[0].min / before[0],
                  stats[1].min * 1e3, stats[1].median * 1e3, stats[1].min / before[1],
                  stats[1].min / stats[0].min, difference);
        sizes[count] = (double)n;
        for (int i = 0; i < 2; i++)
            times[i][count] = before[i] = stats[i].min;
    }
    paper_plot(e, "time", "Token by token: recurrence and rescanning", "ms", PAPER_LOG_XY,
               (size_t[]){1, 4, 0})
        ->ours = 1;
    const struct paper_spread spread = paper_spread_of(found, PAPER_SEEDS);
    paper_rounding(e, "difference of the outputs, N = 256", 4.441e-16, &spread);
    if (run->quick) {
        paper_not_run(e, "growth per doubling", NAN, "not measured by --quick");
        return true;
    }
    paper_growth(e, "recurrence: growth per doubling of N", 2, 2,
                 exp2(paper_fit(sizes, times[0], count, NULL)));
    paper_growth(e, "rescanning: growth per doubling of N", 3.4, 4,
                 exp2(paper_fit(sizes, times[1], count, NULL)));
    return true;
}
