/* SPDX-License-Identifier: MIT */
/* `tsa paper`, time against length: prefill, beyond the paper's lengths, and decoding (sections 5.5
 * and 5.6 of the paper). */
#include "config.h"

#include <math.h>
#include <string.h>

#include "cmd.h"
#include "paper.h"

#define MS 1e3
#define US 1e6
enum { MOST_SIZES = 16 };

static double seconds_of(const struct bench_racer *r)
{
    return r ? r->seconds : NAN;
}

/* Times against N of one experiment. */
struct course {
    double n[MOST_SIZES], softmax[MOST_SIZES], states[MOST_SIZES], paper_chunk[MOST_SIZES];
    double best_softmax[MOST_SIZES]; /* of ours and of contenders */
    char best_name[48];              /* whose the last of these is */
    char peer_name[48];              /* the contender that was the fastest at first, if any */
    size_t count;
};

/* The next length; NaN for what was not timed. */
static void course_add(struct course *c, size_t n, const struct paper_race *race, double passes)
{
    const struct bench_racer *softmax = paper_find(race, "softmax");
    const struct bench_racer *peer = paper_fastest(race, "softmax: ");
    const size_t i = c->count++;
    c->n[i] = (double)n;
    c->softmax[i] = c->best_softmax[i] = seconds_of(softmax);
    c->states[i] = seconds_of(paper_find(race, "states")) * passes;
    c->paper_chunk[i] = seconds_of(paper_find(race, "chunk 256"));
    if (!softmax)
        return;
    if (peer && !c->peer_name[0])
        snprintf(c->peer_name, sizeof c->peer_name, "%s", strchr(peer->name, ' ') + 1);
    snprintf(c->best_name, sizeof c->best_name, "tsa_softmax");
    if (peer && peer->seconds < softmax->seconds) {
        c->best_softmax[i] = peer->seconds;
        snprintf(c->best_name, sizeof c->best_name, "%s", strchr(peer->name, ' ') + 1);
    }
}

/* The name of a figure about the fastest softmax, which may be ours. */
static const char *over_fastest(const struct course *c, const char *what, char name[120])
{
    snprintf(name, 120, "%.40s over the fastest softmax (%.40s)", what, c->best_name);
    return name;
}

/* The time and the name of the fastest contender in two columns. */
static void name_peer(struct paper_table *t, size_t column, const struct paper_race *race,
                      const char *prefix)
{
    const struct bench_racer *peer = paper_fastest(race, prefix);
    if (!peer)
        return;
    t->cells[t->rows - 1][column].value = peer->seconds * MS;
    paper_row_text(t, column + 1, peer->name + strlen(prefix));
}

/* -- 5.5 -------------------------------------------------------------------------------------- */

/* All of one length in turn; softmax and chunk 256 only where asked for. */
static bool prefill_at(const struct paper_run *run, struct paper_table *t, struct course *course,
                       size_t n, bool everything)
{
    struct paper_race race = {.run = run};
    paper_progress(run, "prefill, N = %zu", n);
    if (everything) {
        paper_enter_contenders(
            &race, paper_enter(&race, "softmax", TSA_F32, 1, "softmax:n%zu:d16:dv64", n), NULL);
    }
    paper_enter_contenders(
        &race, paper_enter(&race, "states", TSA_F32, 1, "prefill:n%zu:d16:dv64:t3", n), NULL);
    if (everything) {
        paper_enter(&race, "chunk 256", TSA_F32, 1, "prefill:n%zu:d16:dv64:t3:c256", n);
    }
    const bool done = paper_race_run(&race);
    if (done) {
        const struct bench_racer *a = paper_find(&race, "softmax"),
                                 *b = paper_find(&race, "states");
        const double wide = seconds_of(paper_find(&race, "chunk 256"));
        course_add(course, n, &race, 1);
        PAPER_ROW(t, (double)n, seconds_of(a) * MS, a ? a->median * MS : NAN, a ? a->error : NAN,
                  NAN, NAN, b->seconds * MS, b->median * MS, b->error, wide * MS, NAN, NAN,
                  seconds_of(a) / b->seconds, course->best_softmax[course->count - 1] / b->seconds);
        name_peer(t, 4, &race, "softmax: ");
        name_peer(t, 10, &race, "states: ");
    }
    paper_race_clear(&race);
    return done;
}

static struct paper_table *prefill_table(struct paper_experiment *e)
{
    static const char heads[] =
        "N|softmax, ms|softmax median, ms|softmax error|other softmax, ms|"
        "other softmax|states, ms|states median, ms|states error|"
        "states at chunk 256, ms|other states, ms|other states|softmax / states|"
        "fastest softmax / states";
    return paper_table(e, "", "Prefill of one head, one thread", heads);
}

static void prefill_plot(struct paper_experiment *e)
{
    paper_plot(e, "time", "Prefill of one head, one thread", "ms", PAPER_LOG_XY,
               (size_t[]){1, 4, 6, 9, 10, 0})
        ->ours = 6;
}

/* Where two fitted lines meet. */
static double crossover(const double *n, const double *a, const double *b, size_t count)
{
    double at_a, at_b;
    const double slope_a = paper_fit(n, a, count, &at_a), slope_b = paper_fit(n, b, count, &at_b);
    return exp((at_b - at_a) / (slope_a - slope_b));
}

#define PAPER_SOFTMAX 2.28
#define PAPER_STATES 0.91

/* The paper's times at N = 8,192 from its softmax at 2,048 (32.7 ms), exponent and speedup. */
static void explain_speed(char *why, size_t size, double softmax, double states)
{
    const double paper_softmax = 32.7e-3 * pow(4, PAPER_SOFTMAX);
    const double paper_states = paper_softmax / 20.8;
    snprintf(
        why, size,
        "at N = 8,192 softmax is %.1f times as fast here as in the paper (estimated: its 32.7 ms "
        "at 2,048 continued by its exponent), the states %.1f times",
        paper_softmax / softmax, paper_states / states);
}

/* The crossing of the lines over the first `count` lengths. What moves it are exponents as well as
 * times: so the reason is where it would be with the paper's exponents. */
static void crossover_figure(struct paper_experiment *e, const char *name, const struct course *c,
                             const double *softmax, const double *states, size_t count)
{
    const size_t last = count - 1;
    const double ours = crossover(c->n, softmax, states, count);
    const double theirs =
        c->n[last] * pow(states[last] / softmax[last], 1 / (PAPER_SOFTMAX - PAPER_STATES));
    char why[300], tokens[CMD_NUMBER_TEXT], with[CMD_NUMBER_TEXT];
    snprintf(
        why, sizeof why,
        "our exponents differ by %.2f, the paper's by %.2f: with the paper's exponents through "
        "our %s tokens it would be %s%s",
        paper_fit(c->n, softmax, count, NULL) - paper_fit(c->n, states, count, NULL),
        PAPER_SOFTMAX - PAPER_STATES, cmd_count_text((uint64_t)c->n[last], tokens),
        paper_number(round(theirs), with),
        ours <= c->n[0] ? "; it lies at or below the first length measured" : "");
    paper_speed(e, name, 728, ours, PAPER_LESS_IS_BETTER, why);
}

static void prefill_figures(struct paper_experiment *e, const struct course *c, size_t fitted)
{
    const double softmax = c->softmax[fitted - 1], best = c->best_softmax[fitted - 1];
    const double states = c->states[fitted - 1], wide = c->paper_chunk[fitted - 1];
    char why[320], name[120];
    paper_exponent(e, "exponent of softmax (tsa_softmax)", PAPER_SOFTMAX, 2,
                   paper_fit(c->n, c->softmax, fitted, NULL));
    paper_exponent(e, "exponent of the states", PAPER_STATES, 1,
                   paper_fit(c->n, c->states, fitted, NULL));
    paper_exponent(e, "exponent of the states, chunk 256", PAPER_STATES, 1,
                   paper_fit(c->n, c->paper_chunk, fitted, NULL));
    crossover_figure(e, over_fastest(c, "crossover N of the fitted lines", name), c,
                     c->best_softmax, c->states, fitted);
    crossover_figure(e, "crossover N over tsa_softmax", c, c->softmax, c->states, fitted);
    crossover_figure(e, "crossover N over tsa_softmax, chunk 256", c, c->softmax, c->paper_chunk,
                     fitted);
    explain_speed(why, sizeof why, best, states);
    paper_speed(e, over_fastest(c, "speedup at N = 8,192", name), 20.8, best / states,
                PAPER_MORE_IS_BETTER, why);
    explain_speed(why, sizeof why, softmax, states);
    paper_speed(e, "speedup at N = 8,192 over tsa_softmax", 20.8, softmax / states,
                PAPER_MORE_IS_BETTER, why);
    explain_speed(why, sizeof why, softmax, wide);
    paper_speed(e, "speedup at N = 8,192 over tsa_softmax, chunk 256", 20.8, softmax / wide,
                PAPER_MORE_IS_BETTER, why);
}

bool paper_prefill(const struct paper_run *run, struct paper_experiment *e)
{
    const size_t full = run->quick ? 512 : 8192, most = run->quick ? 1024 : 65536;
    const size_t least = run->quick ? 128 : 512;
    struct course c = {.count = 0};
    char from[CMD_NUMBER_TEXT], to[CMD_NUMBER_TEXT], beyond[CMD_NUMBER_TEXT];
    size_t fitted = 0;
    struct paper_table *t = prefill_table(e);

    snprintf(e->setting, sizeof e->setting,
             "f32, d = 16, dv = 64, n = 3, a = 2, one head, one thread, N = %s to %s (on to %s "
             "for the states): tsa_softmax, tsa_prefill with the default chunk and with chunk 256 "
             "as in the paper, and what contenders are built in, timed in turn. The error is the "
             "largest against plain loops in f64 over a sample of rows.",
             cmd_count_text(least, from), cmd_count_text(full, to), cmd_count_text(most, beyond));
    for (size_t n = least; n <= most; n *= 2) {
        if (paper_late(run, e, "prefill", n))
            break;
        if (!prefill_at(run, t, &c, n, n <= full))
            return false;
        fitted += n <= full;
    }
    prefill_plot(e);
    if (run->quick) {
        paper_not_run(e, "exponents, crossover, speedup", NAN, "not measured by --quick");
        return true;
    }
    if (c.n[fitted ? fitted - 1 : 0] < (double)full)
        paper_not_run(e, "exponents, crossover, speedup", NAN, "the time was up before");
    else
        prefill_figures(e, &c, fitted);
    return true;
}

/* -- Table 6 ---------------------------------------------------------------------------------- */

/* A softmax whose repetition would take longer than this is left out. */
#define LONGEST_SECONDS 20.0

static bool longer_at(const struct paper_run *run, struct paper_table *t, struct course *c,
                      size_t n, size_t piece, bool softmax, int repeats)
{
    struct paper_race race = {.run = run, .repeats = repeats};
    paper_progress(run, "prefill, N = %zu%s", n, softmax ? ", softmax too" : "");
    if (softmax) {
        paper_enter_contenders(
            &race, paper_enter(&race, "softmax", TSA_F32, 1, "softmax:n%zu:d16:dv64", n),
            c->peer_name[0] ? c->peer_name : NULL);
    }
    struct bench_racer *states =
        paper_enter(&race, "states", TSA_F32, 1, "prefill:n%zu:d16:dv64:t3", n < piece ? n : piece);
    if (states && n > piece)
        states->passes = n / piece;
    const bool done = paper_race_run(&race);
    if (done) {
        const struct bench_racer *a = paper_find(&race, "softmax"),
                                 *b = paper_find(&race, "states");
        const double whole = b->seconds * (double)b->passes;
        course_add(c, n, &race, (double)b->passes);
        const size_t i = c->count - 1;
        const double square = pow(c->n[i] / c->n[0], 2), line = c->n[i] / c->n[0];
        PAPER_ROW(t, (double)n, seconds_of(a) * MS, a ? a->error : NAN,
                  c->softmax[i] / (c->softmax[0] * square), NAN, NAN, whole * MS,
                  b->passes == 1 ? b->error : NAN, c->states[i] / (c->states[0] * line),
                  c->softmax[i] / c->states[i], c->best_softmax[i] / c->states[i]);
        name_peer(t, 4, &race, "softmax: ");
    }
    paper_race_clear(&race);
    return done;
}

/* The paper's lines meet at N = 728: beyond it they part by the difference of its exponents. */
static void longer_figures(struct paper_experiment *e, const struct course *c, size_t at)
{
    const double longest = c->n[at];
    const double derived = pow(longest / 728, PAPER_SOFTMAX - PAPER_STATES);
    char name[120], what[48], tokens[CMD_NUMBER_TEXT], why[300];
    cmd_count_text((uint64_t)longest, tokens);
    paper_exponent(e, "exponent of softmax from 8,192 on (tsa_softmax)", PAPER_SOFTMAX, 2,
                   paper_fit(c->n, c->softmax, c->count, NULL));
    paper_exponent(e, "exponent of the states from 8,192 on", PAPER_STATES, 1,
                   paper_fit(c->n, c->states, c->count, NULL));
    snprintf(what, sizeof what, "speedup at N = %s", tokens);
    for (int ours = 0; ours < 2; ours++) {
        const double *softmax = ours ? c->softmax : c->best_softmax;
        snprintf(why, sizeof why,
                 "the paper's is derived from its fits (lines that meet at 728 and part by its "
                 "exponents, not measured); from our own 8,192 with 2 and 1 it would be %.0f",
                 softmax[0] / c->states[0] * longest / 8192);
        snprintf(name, sizeof name, "%s over tsa_softmax", what);
        paper_speed(e, ours ? name : over_fastest(c, what, name), derived,
                    softmax[at] / c->states[at], PAPER_MORE_IS_BETTER, why);
    }
}

bool paper_longer(const struct paper_run *run, struct paper_experiment *e)
{
    static const char heads[] =
        "N|softmax, ms|softmax error|over N^2 from the first|other softmax, ms|"
        "other softmax|states, ms|states error|over N from the first|softmax / states|"
        "fastest softmax / states";
    const size_t first = run->quick ? 256 : 8192, last_softmax = run->quick ? 512 : 65536;
    const size_t last = run->quick ? 1024 : 1048576;
    struct course c = {.count = 0};
    char piece[CMD_NUMBER_TEXT], all[CMD_NUMBER_TEXT];
    double next = 0;
    size_t at = 0;
    struct paper_table *t = paper_table(e, "", "Beyond the paper's lengths, measured", heads);

    snprintf(
        e->setting, sizeof e->setting,
        "As experiment 5, measured where the paper extrapolates its lines: softmax to N = "
        "%s, states to N = %s. Beyond %s tokens a sequence is fed in pieces of that many, "
        "the same rows again; its error is not measured. "
        "Of the contenders the one that is the fastest at first goes on. The columns \"from the "
        "first\" divide by the first line's time continued with the exponent 2 or 1.",
        cmd_count_text(last_softmax, piece), cmd_count_text(last, all), piece);
    for (size_t n = first; n <= last; n *= 2) {
        if (paper_late(run, e, "prefill", n))
            break;
        const bool softmax = n <= last_softmax && next <= LONGEST_SECONDS;
        if (n <= last_softmax && !softmax)
            paper_add_note(e,
                           "softmax at N = %zu was left out: one repetition would take about "
                           "%.0f s. ",
                           n, next);
        const int repeats = !softmax || next < 0.2 ? 0 : next < 2 ? 5 : 3;
        if (!longer_at(run, t, &c, n, last_softmax, softmax, repeats))
            return false;
        if (softmax)
            at = c.count - 1;
        next = 4 * (softmax ? c.softmax[c.count - 1] : next);
    }
    paper_plot(e, "time", "Prefill, measured where the paper extrapolates", "ms", PAPER_LOG_XY,
               (size_t[]){1, 6, 0})
        ->ours = 6;
    if (run->quick) {
        paper_not_run(e, "exponents and speedup of long sequences", NAN, "not measured by --quick");
        return true;
    }
    if (c.count < 2)
        paper_not_run(e, "exponents and speedup of long sequences", NAN, "the time was up before");
    else
        longer_figures(e, &c, at);
    return true;
}

/* -- 5.6 -------------------------------------------------------------------------------------- */

static bool decode_at(const struct paper_run *run, struct paper_table *t, struct course *c,
                      size_t n, bool softmax)
{
    struct paper_race race = {.run = run};
    paper_progress(run, "decoding after %zu tokens", n);
    if (softmax) {
        paper_enter_contenders(
            &race, paper_enter(&race, "softmax", TSA_F32, 1, "softmax-decode:n%zu:d16:dv64", n),
            NULL);
    }
    paper_enter(&race, "states", TSA_F32, 1, "decode:n%zu:d16:dv64:t3", n);
    const bool done = paper_race_run(&race);
    if (done) {
        const struct bench_racer *a = paper_find(&race, "softmax"),
                                 *b = paper_find(&race, "states");
        course_add(c, n, &race, 1);
        PAPER_ROW(t, (double)n, seconds_of(a) * US, a ? a->median * US : NAN, a ? a->error : NAN,
                  NAN, NAN, b->seconds * US, b->median * US, b->error, b->op->step * US,
                  seconds_of(a) / b->seconds, c->best_softmax[c->count - 1] / b->seconds);
        name_peer(t, 4, &race, "softmax: ");
        t->cells[t->rows - 1][4].value *= US / MS;
    }
    paper_race_clear(&race);
    return done;
}

static void explain_decode(char *why, size_t size, double softmax, double states)
{
    snprintf(why, size,
             "at 65,536 softmax is %.1f times as fast here as in the paper (estimated: 76.0 x 7.3 "
             "us), the states %.1f times",
             76.0 * 7.3e-6 / softmax, 7.3e-6 / states);
}

static void decode_figures(struct paper_experiment *e, const struct course *c, size_t fitted)
{
    const double softmax = c->softmax[fitted - 1], states = c->states[fitted - 1];
    const double best = c->best_softmax[fitted - 1];
    double least = HUGE_VAL, largest = 0, sum = 0;
    char why[300], name[120];
    for (size_t i = 0; i < fitted; i++) {
        least = fmin(least, c->states[i]);
        largest = fmax(largest, c->states[i]);
        sum += c->states[i] / (double)fitted;
    }
    explain_decode(why, sizeof why, best, states);
    paper_speed(e, over_fastest(c, "speedup at 65,536", name), 76.0, best / states,
                PAPER_MORE_IS_BETTER, why);
    explain_decode(why, sizeof why, softmax, states);
    paper_speed(e, "speedup at 65,536 over tsa_softmax", 76.0, softmax / states,
                PAPER_MORE_IS_BETTER, why);
    paper_exponent(e, "exponent of softmax (tsa_softmax)", 1.04, 1,
                   paper_fit(c->n, c->softmax, fitted, NULL));
    paper_exponent(e, "exponent of the states", 0, 0, paper_fit(c->n, c->states, fitted, NULL));
    snprintf(why, sizeof why, "%.1f times as fast here; from %.3g to %.3g us over the contexts",
             7.3e-6 / sum, least * US, largest * US);
    paper_speed(e, "one token by the states, us, mean over the contexts", 7.3, sum * US,
                PAPER_LESS_IS_BETTER, why);
    if (c->count > fitted)
        paper_ours(e, "one token by the states after 1,048,576, us", c->states[c->count - 1] * US,
                   NULL);
}

bool paper_decode(const struct paper_run *run, struct paper_experiment *e)
{
    static const char heads[] =
        "context|softmax, us|softmax median, us|softmax error|other softmax, us|"
        "other softmax|states, us|states median, us|states error|step without fold, us|"
        "softmax / states|fastest softmax / states";
    const size_t first = run->quick ? 256 : 1024, most = run->quick ? 1024 : 65536;
    char from[CMD_NUMBER_TEXT], to[CMD_NUMBER_TEXT];
    struct course c = {.count = 0};
    struct paper_table *t = paper_table(e, "", "Decoding one token of one head, one thread", heads);

    snprintf(e->setting, sizeof e->setting,
             "f32, d = 16, dv = 64, n = 3, a = 2, one head, one thread, contexts of %s to %s "
             "tokens%s. States: tsa_decode (absorb one token and answer one query), mean over one "
             "chunk, the fold included; softmax: tsa_softmax of one query over all keys. It "
             "normalises the cached keys at every token, and does not check them; contenders take "
             "the keys as they are, as a cache of normalised keys would: the fastest is the fairer "
             "comparison. Timed in turn.",
             cmd_count_text(first, from), cmd_count_text(most, to),
             run->quick ? "" : " and 1,048,576 for the states");
    for (size_t n = first; n <= most && !paper_late(run, e, "decoding", n); n *= 2)
        if (!decode_at(run, t, &c, n, true))
            return false;
    const size_t fitted = c.count;
    const bool whole = fitted && c.n[fitted - 1] >= (double)most;
    if (!run->quick && whole && !decode_at(run, t, &c, 1048576, false))
        return false;
    paper_plot(e, "time", "Decoding one token of one head", "us", PAPER_LOG_XY,
               (size_t[]){1, 4, 6, 0})
        ->ours = 6;
    if (run->quick)
        paper_not_run(e, "exponents, latency, speedup", NAN, "not measured by --quick");
    else if (!whole)
        paper_not_run(e, "exponents, latency, speedup", NAN, "the time was up before");
    else
        decode_figures(e, &c, fitted);
    return true;
}
