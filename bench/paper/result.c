/* SPDX-License-Identifier: MIT */
/* What an experiment comes to: tables, plots, and figures judged against the paper's. */
#include "config.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "cmd.h"
#include "paper.h"

struct paper_spread paper_spread_of(const double *values, size_t count)
{
    double sorted[PAPER_SEEDS];
    struct paper_spread s = {.first = values[0]};
    count = count < PAPER_SEEDS ? count : PAPER_SEEDS;
    memcpy(sorted, values, count * sizeof *values);
    qsort(sorted, count, sizeof *sorted, bench_compare);
    s.low = sorted[0];
    s.high = sorted[count - 1];
    s.median = (sorted[(count - 1) / 2] + sorted[count / 2]) / 2;
    for (size_t i = 0; i < count; i++)
        s.mean += sorted[i] / (double)count;
    for (size_t i = 0; i < count; i++)
        s.deviation += (sorted[i] - s.mean) * (sorted[i] - s.mean);
    s.deviation = count > 1 ? sqrt(s.deviation / (double)(count - 1)) : 0;
    return s;
}

/* -- tables and plots ------------------------------------------------------------------------- */

struct paper_table *paper_table(struct paper_experiment *e, const char *name, const char *title,
                                const char *heads)
{
    struct paper_table *t = &e->tables[e->table_count++];
    if (e->table_count > PAPER_COUNT(e->tables))
        abort();
    snprintf(t->name, sizeof t->name, "%s", name);
    snprintf(t->title, sizeof t->title, "%s", title);
    for (const char *head = heads; *head; t->columns++) {
        const size_t length = strcspn(head, "|");
        if (t->columns == PAPER_COLUMNS || length >= sizeof *t->heads)
            abort();
        memcpy(t->heads[t->columns], head, length);
        head += length + (head[length] == '|');
    }
    return t;
}

void paper_row(struct paper_table *t, const double *values, size_t count)
{
    void *more = realloc(t->cells, (t->rows + 1) * sizeof *t->cells);
    if (!more)
        abort();
    t->cells = more;
    for (size_t c = 0; c < PAPER_COLUMNS; c++)
        t->cells[t->rows][c] = (struct paper_cell){.value = c < count ? values[c] : NAN};
    t->rows++;
}

void paper_row_text(struct paper_table *t, size_t column, const char *text)
{
    struct paper_cell *cell = &t->cells[t->rows - 1][column];
    snprintf(cell->text, sizeof cell->text, "%s", text);
}

double paper_cell_value(const struct paper_table *t, size_t row, size_t column)
{
    return t->cells[row][column].value;
}

struct paper_plot *paper_plot(struct paper_experiment *e, const char *name, const char *title,
                              const char *y_label, enum paper_axes axes, const size_t *y)
{
    struct paper_plot *p = &e->plots[e->plot_count++];
    if (e->plot_count > PAPER_COUNT(e->plots))
        abort();
    snprintf(p->name, sizeof p->name, "%s", name);
    snprintf(p->title, sizeof p->title, "%s", title);
    snprintf(p->y_label, sizeof p->y_label, "%s", y_label);
    p->axes = axes;
    for (size_t i = 0; i < PAPER_SERIES && y[i]; i++)
        p->y[i] = y[i];
    return p;
}

void paper_add_note(struct paper_experiment *e, const char *format, ...)
{
    const size_t used = strlen(e->note);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(e->note + used, sizeof e->note - used, format, arguments);
    va_end(arguments);
}

void paper_experiment_clear(struct paper_experiment *e)
{
    for (size_t i = 0; i < e->table_count; i++)
        free(e->tables[i].cells);
    for (size_t i = 0; i < e->plot_count; i++)
        free(e->plots[i].svg);
    memset(e->tables, 0, sizeof e->tables);
    memset(e->plots, 0, sizeof e->plots);
    e->table_count = e->plot_count = e->figure_count = 0;
}

/* -- figures ---------------------------------------------------------------------------------- */

const char *paper_number(double x, char *text)
{
    if (isnan(x))
        return strcpy(text, "");
    if (isinf(x))
        return strcpy(text, x < 0 ? "-inf" : "inf");
    if (x == floor(x) && fabs(x) < 1e15) {
        text[0] = '-';
        cmd_count_text((uint64_t)fabs(x), text + (x < 0));
        return text;
    }
    const double size = fabs(x);
    snprintf(text, CMD_NUMBER_TEXT, size >= 1e-3 && size < 1e6 ? "%.4g" : "%.3e", x);
    if (size >= 999.95 && size < 1e6) {
        text[0] = '-';
        cmd_count_text((uint64_t)round(size), text + (x < 0));
    }
    return text;
}

/* Without a figure of the paper it holds, or does not. */
static struct paper_figure *figure(struct paper_experiment *e, const char *name, double paper,
                                   double ours, bool good)
{
    struct paper_figure *f = &e->figures[e->figure_count++];
    if (e->figure_count > sizeof e->figures / sizeof *e->figures)
        abort();
    *f = (struct paper_figure){.paper = paper, .ours = ours, .low = NAN, .high = NAN};
    if (isnan(paper))
        f->verdict = good ? PAPER_HOLDS : PAPER_FAILS;
    else
        f->verdict = good ? PAPER_REPRODUCED : PAPER_DIFFERS;
    snprintf(f->name, sizeof f->name, "%s", name);
    return f;
}

static void explain(struct paper_figure *f, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
static void explain(struct paper_figure *f, const char *format, ...)
{
    const size_t used = strlen(f->why);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(f->why + used, sizeof f->why - used, format, arguments);
    va_end(arguments);
}

/* Also what theory demands, where the paper says nothing. */
void paper_equal(struct paper_experiment *e, const char *name, double paper, double wanted,
                 double ours)
{
    char a[32], b[32];
    struct paper_figure *f = figure(e, name, paper, ours, ours == wanted);
    f->exact = true;
    if (ours == wanted)
        explain(f, "exactly");
    else
        explain(f, "%s is wanted, %s found", paper_number(wanted, a), paper_number(ours, b));
}

void paper_at_most(struct paper_experiment *e, const char *name, double bound, double ours)
{
    struct paper_figure *f = figure(e, name, NAN, ours, ours <= bound);
    f->exact = true;
    explain(f, "%s the bound %.3g", ours <= bound ? "within" : "beyond", bound);
}

void paper_at_least(struct paper_experiment *e, const char *name, double bound, double ours)
{
    struct paper_figure *f = figure(e, name, NAN, ours, ours >= bound);
    f->exact = true;
    explain(f, "%s the bound %.3g", ours >= bound ? "above" : "below", bound);
}

static void spread_into(struct paper_figure *f, const struct paper_spread *s)
{
    f->low = s->low;
    f->high = s->high;
}

void paper_rounding(struct paper_experiment *e, const char *name, double paper,
                    const struct paper_spread *ours)
{
    struct paper_figure *f = figure(e, name, paper, ours->first, ours->median <= 4 * paper);
    spread_into(f, ours);
    if (isnan(paper)) {
        f->verdict = PAPER_NO_FIGURE;
        return;
    }
    if (f->verdict == PAPER_DIFFERS)
        f->verdict = PAPER_WORSE;
    explain(f, "the median over %d draws is %.2g times the paper's", PAPER_SEEDS,
            ours->median / paper);
}

static bool is_inside(double paper, const struct paper_spread *ours)
{
    return paper >= ours->low && paper <= ours->high;
}

/* Where the paper's lies among the draws. */
static void explain_drawn(struct paper_figure *f, double paper, const struct paper_spread *ours)
{
    if (is_inside(paper, ours))
        explain(f, "the paper's lies within %d draws", PAPER_SEEDS);
    else if (ours->deviation > 0)
        explain(f, "the paper's lies %.1f standard deviations %s the mean of %d draws",
                fabs(paper - ours->mean) / ours->deviation, paper > ours->mean ? "above" : "below",
                PAPER_SEEDS);
    else
        explain(f, "it is the same in %d draws", PAPER_SEEDS);
}

void paper_drawn(struct paper_experiment *e, const char *name, double paper,
                 const struct paper_spread *ours, const char *why)
{
    const bool inside = is_inside(paper, ours);
    struct paper_figure *f = figure(e, name, paper, ours->first, inside);
    spread_into(f, ours);
    explain_drawn(f, paper, ours);
    if (!inside && why)
        explain(f, "; %s", why);
}

/* The numbers of the first measure that reproduces, and "reproduced by NAME, NAME". */
static struct paper_figure *figure_by(struct paper_experiment *e, const char *name, double paper,
                                      const struct paper_measures *by, const bool *good)
{
    size_t shown = 0;
    while (shown < by->count && !good[shown])
        shown++;
    const bool any = shown < by->count;
    const struct paper_spread spread = paper_spread_of(by->values[any ? shown : 0], PAPER_SEEDS);
    struct paper_figure *f = figure(e, name, paper, spread.first, any);
    f->verdict = any ? PAPER_REPRODUCED : PAPER_DIFFERS;
    spread_into(f, &spread);
    explain(f, any ? "by " : "by no measure");
    for (size_t m = shown; m < by->count; m++)
        if (good[m])
            explain(f, "%s%s", m > shown ? ", " : "", by->names[m]);
    return f;
}

void paper_drawn_by(struct paper_experiment *e, const char *name, double paper,
                    const struct paper_measures *by)
{
    struct paper_spread spreads[PAPER_MEASURES];
    bool good[PAPER_MEASURES];
    for (size_t m = 0; m < by->count; m++) {
        spreads[m] = paper_spread_of(by->values[m], PAPER_SEEDS);
        good[m] = is_inside(paper, &spreads[m]);
    }
    struct paper_figure *f = figure_by(e, name, paper, by, good);
    for (size_t m = 0; m < by->count; m++) {
        explain(f, "; %s: ", by->names[m]);
        explain_drawn(f, paper, &spreads[m]);
    }
}

void paper_within_by(struct paper_experiment *e, const char *name, double low, double high,
                     const struct paper_measures *by)
{
    size_t inside[PAPER_MEASURES] = {0};
    bool good[PAPER_MEASURES];
    for (size_t m = 0; m < by->count; m++) {
        for (size_t s = 0; s < PAPER_SEEDS; s++)
            inside[m] += by->values[m][s] >= low && by->values[m][s] <= high;
        good[m] = 2 * inside[m] > PAPER_SEEDS;
    }
    struct paper_figure *f = figure_by(e, name, NAN, by, good);
    for (size_t m = 0; m < by->count; m++)
        explain(f, "%s%s: %zu of %d lie within %g to %g", m ? ", " : "; ", by->names[m], inside[m],
                PAPER_SEEDS, low, high);
}

void paper_claim(struct paper_experiment *e, const char *name, size_t holds)
{
    struct paper_figure *f = figure(e, name, NAN, (double)holds, true);
    f->verdict = 2 * holds > PAPER_SEEDS ? PAPER_REPRODUCED : PAPER_DIFFERS;
    explain(f, "true in %zu of %d draws%s", holds, PAPER_SEEDS,
            f->verdict == PAPER_REPRODUCED || holds == 0 ? "" : ": possible, not typical");
}

/* How far ours is from the paper and from theory, and which is the nearer. */
static void explain_growth(struct paper_figure *f, double theory)
{
    const double from[] = {f->ours - f->paper, f->ours - theory};
    char text[2][CMD_NUMBER_TEXT];
    for (int i = 0; i < 2; i++) /* no "-0.00" */
        snprintf(text[i], sizeof text[i], "%+.2f", fabs(from[i]) < 0.005 ? 0.0 : from[i]);
    explain(f, "%s from the paper, %s from the theoretical %g", text[0], text[1], theory);
    if (f->verdict == PAPER_DIFFERS && fabs(from[1]) < fabs(f->paper - theory))
        explain(f, ", to which ours is the nearer");
}

void paper_exponent(struct paper_experiment *e, const char *name, double paper, double theory,
                    double ours)
{
    const double tolerance = theory == 0 ? 0.05 : 0.25;
    explain_growth(figure(e, name, paper, ours, fabs(ours - paper) <= tolerance), theory);
}

void paper_growth(struct paper_experiment *e, const char *name, double paper, double theory,
                  double ours)
{
    explain_growth(figure(e, name, paper, ours, fabs(ours / paper - 1) <= 0.1), theory);
}

void paper_speed(struct paper_experiment *e, const char *name, double paper, double ours,
                 enum paper_sense sense, const char *why)
{
    const double ratio = ours / paper;
    struct paper_figure *f = figure(e, name, paper, ours, ratio >= 0.8 && ratio <= 1.25);
    if (ratio > 1.25)
        f->verdict = sense == PAPER_MORE_IS_BETTER ? PAPER_BETTER : PAPER_WORSE;
    else if (ratio < 0.8)
        f->verdict = sense == PAPER_LESS_IS_BETTER ? PAPER_BETTER : PAPER_WORSE;
    explain(f, "%.3g times the paper's", ratio);
    if (f->verdict != PAPER_REPRODUCED && why)
        explain(f, "; %s", why);
}

void paper_ours(struct paper_experiment *e, const char *name, double ours, const char *why)
{
    struct paper_figure *f = figure(e, name, NAN, ours, true);
    f->verdict = PAPER_NO_FIGURE;
    if (why)
        explain(f, "%s", why);
}

void paper_not_run(struct paper_experiment *e, const char *name, double paper, const char *why)
{
    struct paper_figure *f = figure(e, name, paper, NAN, true);
    f->verdict = PAPER_NOT_RUN;
    explain(f, "%s", why);
}
