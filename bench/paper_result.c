/* SPDX-License-Identifier: MIT */
/* What an experiment comes to: tables, plots, and figures judged against the paper's. */
#include "config.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "paper.h"

static int compare(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

struct paper_spread paper_spread_of(const double *values, size_t count)
{
    double sorted[PAPER_SEEDS];
    struct paper_spread s = {.first = values[0]};
    count = count < PAPER_SEEDS ? count : PAPER_SEEDS;
    memcpy(sorted, values, count * sizeof *values);
    qsort(sorted, count, sizeof *sorted, compare);
    s.low = sorted[0];
    s.high = sorted[count - 1];
    s.median = (sorted[(count - 1) / 2] + sorted[count / 2]) / 2;
    for (size_t i = 0; i < count; i++)
        s.mean += sorted[i] / (double)count;
    for (size_t i = 0; i < count; i++)
        s.deviation += (sorted[i] - s.mean) * (sorted[i] - s.mean) / (double)count;
    s.deviation = sqrt(s.deviation);
    return s;
}

/* -- tables and plots ------------------------------------------------------------------------- */

struct paper_table *paper_table(struct paper_experiment *e, const char *name, const char *title,
                                const char *const *heads, size_t columns)
{
    struct paper_table *t = &e->tables[e->table_count++];
    if (e->table_count > sizeof e->tables / sizeof *e->tables || columns > PAPER_COLUMNS)
        abort();
    snprintf(t->name, sizeof t->name, "%s", name);
    snprintf(t->title, sizeof t->title, "%s", title);
    for (size_t c = 0; c < columns; c++)
        snprintf(t->heads[c], sizeof t->heads[c], "%s", heads[c]);
    t->columns = columns;
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
                              size_t table, size_t x, const size_t *y, size_t count)
{
    struct paper_plot *p = &e->plots[e->plot_count++];
    if (e->plot_count > sizeof e->plots / sizeof *e->plots || count > PAPER_SERIES)
        abort();
    snprintf(p->name, sizeof p->name, "%s", name);
    snprintf(p->title, sizeof p->title, "%s", title);
    p->table = table;
    p->x = x;
    p->count = count;
    memcpy(p->y, y, count * sizeof *y);
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
    e->table_count = e->plot_count = e->figure_count = 0;
}

/* -- figures ---------------------------------------------------------------------------------- */

static struct paper_figure *figure(struct paper_experiment *e, const char *name, double paper,
                                   double ours, bool reproduced)
{
    struct paper_figure *f = &e->figures[e->figure_count++];
    if (e->figure_count > sizeof e->figures / sizeof *e->figures)
        abort();
    *f = (struct paper_figure){.paper = paper, .ours = ours, .low = NAN, .high = NAN};
    f->verdict = reproduced ? PAPER_REPRODUCED : PAPER_DIFFERS;
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
    explain(f, "the median over %d draws is %.2g times the paper's", PAPER_SEEDS,
            ours->median / paper);
}

void paper_drawn(struct paper_experiment *e, const char *name, double paper,
                 const struct paper_spread *ours, const char *why)
{
    const bool inside = paper >= ours->low && paper <= ours->high;
    struct paper_figure *f = figure(e, name, paper, ours->first, inside);
    spread_into(f, ours);
    if (inside)
        explain(f, "the paper's lies within %d draws", PAPER_SEEDS);
    else if (ours->deviation > 0)
        explain(f, "the paper's lies %.1f standard deviations %s the mean of %d draws",
                fabs(paper - ours->mean) / ours->deviation, paper > ours->mean ? "above" : "below",
                PAPER_SEEDS);
    else
        explain(f, "it is the same in %d draws", PAPER_SEEDS);
    if (!inside && why)
        explain(f, "; %s", why);
}

void paper_within(struct paper_experiment *e, const char *name, double low, double high,
                  const struct paper_spread *ours)
{
    const bool meets = ours->high >= low && ours->low <= high;
    struct paper_figure *f = figure(e, name, NAN, ours->first, meets);
    spread_into(f, ours);
    explain(f, "%d draws %s %g to %g", PAPER_SEEDS, meets ? "meet" : "all lie outside", low, high);
}

void paper_claim(struct paper_experiment *e, const char *name, size_t holds)
{
    struct paper_figure *f = figure(e, name, NAN, (double)holds, 2 * holds > PAPER_SEEDS);
    explain(f, "true in %zu of %d draws%s", holds, PAPER_SEEDS,
            f->verdict == PAPER_REPRODUCED || holds == 0 ? "" : ": possible, not typical");
}

void paper_exponent(struct paper_experiment *e, const char *name, double paper, double theory,
                    double ours)
{
    struct paper_figure *f = figure(e, name, paper, ours, fabs(ours - paper) <= 0.25);
    explain(f, "%+.2f from the paper, %+.2f from the theoretical %g", ours - paper, ours - theory,
            theory);
    if (f->verdict == PAPER_DIFFERS && fabs(ours - theory) < fabs(paper - theory))
        explain(f, ", to which ours is the nearer");
}

void paper_speed(struct paper_experiment *e, const char *name, double paper, double ours,
                 const char *why)
{
    const double ratio = ours / paper;
    struct paper_figure *f = figure(e, name, paper, ours, ratio >= 0.8 && ratio <= 1.25);
    explain(f, "%.3g times the paper's", ratio);
    if (f->verdict == PAPER_DIFFERS && why)
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
