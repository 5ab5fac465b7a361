/* SPDX-License-Identifier: MIT */
/* The files of `tsa paper`: CSV, Markdown, HTML and JSON. */
#include "config.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cmd.h"
#include "output.h"
#include "paper.h"

static const char *const verdicts[PAPER_VERDICTS] = {
    "reproduced", "differs", "holds", "does not hold", "no figure in the paper", "not run"};

/* Between the least and the largest of the draws. */
static const char *range_text(const struct paper_figure *f, char text[80])
{
    char low[CMD_NUMBER_TEXT], high[CMD_NUMBER_TEXT];
    if (isnan(f->low))
        return strcpy(text, "");
    snprintf(text, 80, "%s to %s", paper_number(f->low, low), paper_number(f->high, high));
    return text;
}

static const char *cell_text(const struct paper_cell *cell, char *text)
{
    return cell->text[0] ? cell->text : paper_number(cell->value, text);
}

static void table_path(const struct paper_experiment *e, const struct paper_table *t, char *path,
                       size_t size)
{
    snprintf(path, size, "%02d-%s%s%s.csv", e->number, e->id, t->name[0] ? "-" : "", t->name);
}

struct tally {
    size_t of[PAPER_VERDICTS], exact, broken;
    const char *first_broken;
};

static struct tally tally_of(const struct paper_experiment *experiments, size_t count)
{
    struct tally tally = {.exact = 0};
    for (size_t i = 0; i < count; i++) {
        for (size_t j = 0; j < experiments[i].figure_count; j++) {
            const struct paper_figure *f = &experiments[i].figures[j];
            tally.of[f->verdict]++;
            tally.exact += f->exact;
            if (!f->exact || (f->verdict != PAPER_DIFFERS && f->verdict != PAPER_FAILS))
                continue;
            tally.broken++;
            if (!tally.first_broken)
                tally.first_broken = f->name;
        }
    }
    return tally;
}

/* -- CSV -------------------------------------------------------------------------------------- */

static void csv_text(FILE *file, const char *text)
{
    const bool quoted = strpbrk(text, ",\"\n") != NULL;
    if (quoted)
        putc('"', file);
    for (; *text; text++) {
        if (*text == '"')
            putc('"', file);
        putc(*text, file);
    }
    if (quoted)
        putc('"', file);
}

static bool write_csv(const char *out, const struct paper_experiment *e,
                      const struct paper_table *t)
{
    char name[100], path[4096];
    struct output output;
    table_path(e, t, name, sizeof name);
    snprintf(path, sizeof path, "%s/%s", out, name);
    if (!output_open(&output, path))
        return false;
    for (size_t c = 0; c < t->columns; c++) {
        csv_text(output.stream, t->heads[c]);
        putc(c + 1 < t->columns ? ',' : '\n', output.stream);
    }
    for (size_t r = 0; r < t->rows; r++) {
        for (size_t c = 0; c < t->columns; c++) {
            const struct paper_cell *cell = &t->cells[r][c];
            if (cell->text[0])
                csv_text(output.stream, cell->text);
            else if (isfinite(cell->value))
                fprintf(output.stream, "%.9g", cell->value);
            putc(c + 1 < t->columns ? ',' : '\n', output.stream);
        }
    }
    return output_commit(&output, path);
}

static bool write_figures_csv(const char *out, const struct paper_experiment *experiments,
                              size_t count)
{
    char path[4096];
    struct output output;
    snprintf(path, sizeof path, "%s/figures.csv", out);
    if (!output_open(&output, path))
        return false;
    fprintf(output.stream, "experiment,figure,paper,ours,least,largest,exact,verdict,why\n");
    for (size_t i = 0; i < count; i++) {
        for (size_t j = 0; j < experiments[i].figure_count; j++) {
            const struct paper_figure *f = &experiments[i].figures[j];
            const double numbers[] = {f->paper, f->ours, f->low, f->high};
            fprintf(output.stream, "%d,", experiments[i].number);
            csv_text(output.stream, f->name);
            for (int n = 0; n < 4; n++)
                if (isfinite(numbers[n]))
                    fprintf(output.stream, ",%.9g", numbers[n]);
                else
                    fprintf(output.stream, ",");
            fprintf(output.stream, ",%s,%s,", f->exact ? "yes" : "no", verdicts[f->verdict]);
            csv_text(output.stream, f->why);
            fprintf(output.stream, "\n");
        }
    }
    return output_commit(&output, path);
}

/* -- what both texts begin with --------------------------------------------------------------- */

/* Lines about the machine and the build; free() it. */
static char *machine_text(const struct paper_run *run)
{
    char *text = NULL, date[64];
    size_t size;
    const time_t now = time(NULL);
    struct tm parts;
    FILE *file = open_memstream(&text, &size);
    if (!file)
        return NULL;
    strftime(date, sizeof date, "%Y-%m-%d", gmtime_r(&now, &parts));
    fprintf(file, "date         %s (UTC)%s\n", date, run->quick ? ", the quick form" : "");
    if (run->quick)
        fprintf(file, "version      %s, arithmetic %d\nisa          %s\n", tsa_version(),
                tsa_arithmetic(), run->machine.unit->name);
    else
        bench_machine_print(&run->machine, file, "");
    fprintf(file, "exp          %s\n", tsa_exp_name());
    contender_describe(file, "");
    if (fclose(file) != 0) {
        free(text);
        return NULL;
    }
    return text;
}

static const char introduction[] =
    "The experiments of \"A Taylor-Series Route to Linear-Time Transformers with a Fixed Number of "
    "Recurrent States\" (arXiv 2610.20637), run again by `tsa paper` on "
    "this machine. The paper timed single-threaded NumPy on another one. Where a figure depends on "
    "the random inputs, ours is that of the first of 20 draws, with the least and the largest of "
    "all. How inputs are drawn and verdicts are reached is in doc/paper.md.";

static void tally_text(const struct tally *t, char *text, size_t size)
{
    snprintf(text, size,
             "%zu of %zu figures of the paper reproduced; exact facts: %zu of %zu hold; other "
             "figures: %zu; not run: %zu.",
             t->of[PAPER_REPRODUCED], t->of[PAPER_REPRODUCED] + t->of[PAPER_DIFFERS],
             t->exact - t->broken, t->exact, t->of[PAPER_NO_FIGURE], t->of[PAPER_NOT_RUN]);
}

/* -- Markdown --------------------------------------------------------------------------------- */

static void md_text(FILE *file, const char *text)
{
    for (; *text; text++) {
        if (strchr("|\\*_<>", *text))
            putc('\\', file);
        putc(*text, file);
    }
}

static void md_figures(FILE *file, const struct paper_experiment *e)
{
    char a[CMD_NUMBER_TEXT], b[CMD_NUMBER_TEXT], range[80];
    if (e->figure_count == 0)
        return;
    fprintf(file,
            "| figure | paper | ours | draws | verdict |\n| --- | ---: | ---: | --- | --- |\n");
    for (size_t i = 0; i < e->figure_count; i++) {
        const struct paper_figure *f = &e->figures[i];
        fprintf(file, "| ");
        md_text(file, f->name);
        fprintf(file, " | %s | %s | %s | **%s**%s", paper_number(f->paper, a),
                paper_number(f->ours, b), range_text(f, range), verdicts[f->verdict],
                f->why[0] ? ": " : "");
        md_text(file, f->why);
        fprintf(file, " |\n");
    }
    fprintf(file, "\n");
}

static void md_table(FILE *file, const struct paper_table *t)
{
    char text[CMD_NUMBER_TEXT];
    fprintf(file, "%s:\n\n", t->title);
    for (size_t c = 0; c < t->columns; c++) {
        fprintf(file, "| ");
        md_text(file, t->heads[c]);
        putc(' ', file);
    }
    fprintf(file, "|\n");
    for (size_t c = 0; c < t->columns; c++)
        fprintf(file, "| ---: ");
    fprintf(file, "|\n");
    for (size_t r = 0; r < t->rows; r++) {
        for (size_t c = 0; c < t->columns; c++) {
            fprintf(file, "| ");
            md_text(file, cell_text(&t->cells[r][c], text));
            putc(' ', file);
        }
        fprintf(file, "|\n");
    }
    fprintf(file, "\n");
}

static void md_experiment(FILE *file, const struct paper_experiment *e)
{
    char name[100];
    fprintf(file, "## %d. %s\n\n", e->number, e->title);
    md_text(file, e->setting);
    fprintf(file, "\n\n");
    if (e->note[0]) {
        md_text(file, e->note);
        fprintf(file, "\n\n");
    }
    md_figures(file, e);
    for (size_t i = 0; i < e->table_count; i++) {
        md_table(file, &e->tables[i]);
        table_path(e, &e->tables[i], name, sizeof name);
        fprintf(file, "The same in [%s](%s).\n\n", name, name);
    }
    for (size_t i = 0; i < e->plot_count; i++)
        if (e->plots[i].svg)
            fprintf(file, "![%s](%02d-%s-%s.svg)\n\n", e->plots[i].title, e->number, e->id,
                    e->plots[i].name);
}

static bool write_md(const char *out, const char *machine, const char *plots,
                     const struct paper_experiment *experiments, size_t count,
                     const struct tally *tally)
{
    char path[4096], text[256];
    struct output output;
    snprintf(path, sizeof path, "%s/paper.md", out);
    if (!output_open(&output, path))
        return false;
    tally_text(tally, text, sizeof text);
    fprintf(output.stream,
            "# The paper's experiments on this machine\n\n%s\n\n**%s** %s\n\n```\n%s"
            "```\n\n",
            introduction, text, plots, machine);
    for (size_t i = 0; i < count; i++)
        md_experiment(output.stream, &experiments[i]);
    return output_commit(&output, path);
}

/* -- HTML ------------------------------------------------------------------------------------- */

static void html_text(FILE *file, const char *text)
{
    for (; *text; text++) {
        switch (*text) {
        case '<':
            fputs("&lt;", file);
            break;
        case '>':
            fputs("&gt;", file);
            break;
        case '&':
            fputs("&amp;", file);
            break;
        default:
            putc(*text, file);
        }
    }
}

static void html_element(FILE *file, const char *element, const char *text)
{
    fprintf(file, "<%s>", element);
    html_text(file, text);
    fprintf(file, "</%.*s>", (int)strcspn(element, " "), element);
}

static void html_figures(FILE *file, const struct paper_experiment *e)
{
    static const char *const classes[PAPER_VERDICTS] = {"good",    "differs", "good",
                                                        "differs", "none",    "none"};
    static const char *const heads[] = {"figure", "paper", "ours", "draws", "verdict"};
    char text[CMD_NUMBER_TEXT], range[80], cell[64];
    if (e->figure_count == 0)
        return;
    fprintf(file, "<table><tr>");
    for (size_t i = 0; i < sizeof heads / sizeof *heads; i++)
        html_element(file, "th", heads[i]);
    fprintf(file, "</tr>\n");
    for (size_t i = 0; i < e->figure_count; i++) {
        const struct paper_figure *f = &e->figures[i];
        fprintf(file, "<tr>");
        html_element(file, "td class=\"text\"", f->name);
        html_element(file, "td", paper_number(f->paper, text));
        html_element(file, "td", paper_number(f->ours, text));
        html_element(file, "td", range_text(f, range));
        snprintf(cell, sizeof cell, "td class=\"text %s\"", classes[f->verdict]);
        fprintf(file, "<%s><b>%s</b>%s", cell, verdicts[f->verdict], f->why[0] ? ": " : "");
        html_text(file, f->why);
        fprintf(file, "</td></tr>\n");
    }
    fprintf(file, "</table>\n");
}

static void html_table(FILE *file, const struct paper_experiment *e, const struct paper_table *t)
{
    char text[CMD_NUMBER_TEXT], name[100];
    table_path(e, t, name, sizeof name);
    fprintf(file, "<table><caption>");
    html_text(file, t->title);
    fprintf(file, " (%s)</caption><tr>", name);
    for (size_t c = 0; c < t->columns; c++)
        html_element(file, "th", t->heads[c]);
    fprintf(file, "</tr>\n");
    for (size_t r = 0; r < t->rows; r++) {
        fprintf(file, "<tr>");
        for (size_t c = 0; c < t->columns; c++)
            html_element(file, "td", cell_text(&t->cells[r][c], text));
        fprintf(file, "</tr>\n");
    }
    fprintf(file, "</table>\n");
}

/* The picture without its XML head, and with a prefix before its ids, which are the same in every
 * picture. */
static void html_svg(FILE *file, const char *svg, int number, size_t index)
{
    static const char *const references[] = {"id=\"", "id='", "href='#", "href=\"#", "url(#"};
    const char *at = strstr(svg, "<svg");
    fprintf(file, "<figure>");
    while (at && *at) {
        size_t length = 0;
        for (size_t i = 0; !length && i < sizeof references / sizeof *references; i++)
            if (strncmp(at, references[i], strlen(references[i])) == 0)
                length = strlen(references[i]);
        if (length)
            fprintf(file, "%.*sp%d-%zu-", (int)length, at, number, index);
        else
            putc(*at, file);
        at += length ? length : 1;
    }
    fprintf(file, "</figure>\n");
}

static void html_experiment(FILE *file, const struct paper_experiment *e)
{
    char title[160];
    snprintf(title, sizeof title, "%d. %s", e->number, e->title);
    html_element(file, "h2", title);
    html_element(file, "p", e->setting);
    if (e->note[0])
        html_element(file, "p", e->note);
    html_figures(file, e);
    for (size_t i = 0; i < e->plot_count; i++)
        if (e->plots[i].svg)
            html_svg(file, e->plots[i].svg, e->number, i);
    for (size_t i = 0; i < e->table_count; i++)
        html_table(file, e, &e->tables[i]);
}

static const char html_head[] =
    "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
    "<title>The paper's experiments on this machine</title>\n<style>\n"
    "body { font-family: sans-serif; max-width: 76em; margin: 2em auto; padding: 0 1em; }\n"
    "table { border-collapse: collapse; margin: 1em 0; font-size: 85%; }\n"
    "caption { text-align: left; font-weight: bold; padding: .3em 0; }\n"
    "th, td { border: 1px solid #ccc; padding: .2em .5em; text-align: right; }\n"
    ".text { text-align: left; }\n"
    ".good b { color: #06603a; } .differs b { color: #a03000; } .none b { color: #555; }\n"
    "figure { margin: 1em 0; max-width: 48em; }\n"
    "pre { background: #f4f4f4; padding: 1em; overflow-x: auto; }\n"
    "</style></head><body>\n";

static bool write_html(const char *out, const char *machine, const char *plots,
                       const struct paper_experiment *experiments, size_t count,
                       const struct tally *tally)
{
    char path[4096], text[256];
    struct output output;
    snprintf(path, sizeof path, "%s/paper.html", out);
    if (!output_open(&output, path))
        return false;
    tally_text(tally, text, sizeof text);
    fputs(html_head, output.stream);
    html_element(output.stream, "h1", "The paper's experiments on this machine");
    html_element(output.stream, "p", introduction);
    fprintf(output.stream, "<p><b>%s</b> %s</p>\n", text, plots);
    html_element(output.stream, "pre", machine);
    for (size_t i = 0; i < count; i++)
        html_experiment(output.stream, &experiments[i]);
    fprintf(output.stream, "</body></html>\n");
    return output_commit(&output, path);
}

/* -- JSON ------------------------------------------------------------------------------------- */

static json_t *figure_json(const struct paper_figure *f)
{
    return json_pack("{s:s, s:o, s:o, s:o, s:o, s:b, s:s, s:s}", "name", f->name, "paper",
                     cmd_json_number(f->paper), "ours", cmd_json_number(f->ours), "least",
                     cmd_json_number(f->low), "largest", cmd_json_number(f->high), "exact",
                     f->exact, "verdict", verdicts[f->verdict], "why", f->why);
}

static json_t *table_json(const struct paper_experiment *e, const struct paper_table *t)
{
    char name[100];
    json_t *columns = json_array(), *rows = json_array();
    for (size_t c = 0; c < t->columns; c++)
        json_array_append_new(columns, json_string(t->heads[c]));
    for (size_t r = 0; r < t->rows; r++) {
        json_t *row = json_array();
        for (size_t c = 0; c < t->columns; c++) {
            const struct paper_cell *cell = &t->cells[r][c];
            json_array_append_new(row, cell->text[0] ? json_string(cell->text)
                                                     : cmd_json_number(cell->value));
        }
        json_array_append_new(rows, row);
    }
    table_path(e, t, name, sizeof name);
    return json_pack("{s:s, s:s, s:o, s:o}", "title", t->title, "file", name, "columns", columns,
                     "rows", rows);
}

static json_t *report_json(const struct paper_run *run, const char *machine,
                           const struct paper_experiment *experiments, size_t count,
                           const struct tally *tally)
{
    json_t *list = json_array();
    for (size_t i = 0; i < count; i++) {
        const struct paper_experiment *e = &experiments[i];
        json_t *figures = json_array(), *tables = json_array();
        for (size_t j = 0; j < e->figure_count; j++)
            json_array_append_new(figures, figure_json(&e->figures[j]));
        for (size_t j = 0; j < e->table_count; j++)
            json_array_append_new(tables, table_json(e, &e->tables[j]));
        json_array_append_new(list,
                              json_pack("{s:i, s:s, s:s, s:s, s:s, s:o, s:o}", "number", e->number,
                                        "id", e->id, "title", e->title, "setting", e->setting,
                                        "note", e->note, "figures", figures, "tables", tables));
    }
    return json_pack("{s:s, s:i, s:s, s:b, s:s, s:i, s:I, s:I, s:I, s:I, s:{s:I, s:I}, s:o}",
                     "version", tsa_version(), "arithmetic", tsa_arithmetic(), "isa",
                     run->machine.unit->name, "quick", run->quick, "machine", machine, "draws",
                     PAPER_SEEDS, "reproduced", (json_int_t)tally->of[PAPER_REPRODUCED], "differ",
                     (json_int_t)tally->of[PAPER_DIFFERS], "no_figure",
                     (json_int_t)tally->of[PAPER_NO_FIGURE], "not_run",
                     (json_int_t)tally->of[PAPER_NOT_RUN], "exact_facts", "hold",
                     (json_int_t)(tally->exact - tally->broken), "fail", (json_int_t)tally->broken,
                     "experiments", list);
}

static bool write_json(const char *out, json_t *root)
{
    char path[4096];
    struct output output;
    snprintf(path, sizeof path, "%s/paper.json", out);
    if (!output_open(&output, path))
        return false;
    if (!root || json_dumpf(root, output.stream, JSON_INDENT(1) | JSON_REAL_PRECISION(12)) != 0) {
        cmd_fail("%s: the JSON could not be written", path);
        output_discard(&output);
        return false;
    }
    fputc('\n', output.stream);
    return output_commit(&output, path);
}

/* -- all of them ------------------------------------------------------------------------------ */

static void print_summary(const char *out, const struct paper_experiment *experiments, size_t count,
                          const struct tally *tally)
{
    char a[CMD_NUMBER_TEXT], b[CMD_NUMBER_TEXT], text[256], folder[CMD_PLAIN_TEXT];
    for (size_t i = 0; i < count; i++) {
        const struct paper_experiment *e = &experiments[i];
        printf("%d. %s\n", e->number, e->title);
        for (size_t j = 0; j < e->figure_count; j++) {
            const struct paper_figure *f = &e->figures[j];
            printf("   %-22s %s", verdicts[f->verdict], f->name);
            if (!isnan(f->ours))
                printf(": %s", paper_number(f->ours, a));
            if (!isnan(f->paper))
                printf(" (paper %s)", paper_number(f->paper, b));
            printf("%s%s\n", f->why[0] ? "; " : "", f->why);
        }
    }
    tally_text(tally, text, sizeof text);
    printf("\n%s\n%s/paper.html\n", text, cmd_plain_text(out, folder, sizeof folder));
}

/* Draw what can be drawn; false if a file cannot be written. */
static bool draw_plots(const char *out, struct paper_experiment *experiments, size_t count,
                       bool *drawn)
{
    *drawn = true;
    for (size_t i = 0; i < count; i++) {
        for (size_t j = 0; j < experiments[i].plot_count; j++) {
            bool one;
            if (!paper_draw_plot(out, &experiments[i], &experiments[i].plots[j], &one))
                return false;
            *drawn &= one;
        }
    }
    return true;
}

int paper_report(const struct paper_run *run, struct paper_experiment *experiments, size_t count,
                 bool json)
{
    const struct tally tally = tally_of(experiments, count);
    char *machine = machine_text(run);
    bool drawn = false, good = machine != NULL;

    if (!good)
        paper_no_memory();
    good = good && draw_plots(run->out, experiments, count, &drawn);
    const char *plots = drawn ? ""
                              : "Plots are missing: gnuplot was not found or failed; it draws "
                                "the .gp files in this folder.";
    for (size_t i = 0; good && i < count; i++)
        for (size_t j = 0; good && j < experiments[i].table_count; j++)
            good = write_csv(run->out, &experiments[i], &experiments[i].tables[j]);
    good = good && write_figures_csv(run->out, experiments, count) &&
           write_md(run->out, machine, plots, experiments, count, &tally) &&
           write_html(run->out, machine, plots, experiments, count, &tally);
    json_t *root = good ? report_json(run, machine, experiments, count, &tally) : NULL;
    good = good && write_json(run->out, root);
    free(machine);
    if (!good) {
        json_decref(root);
        return CMD_FAILURE;
    }
    int code = CMD_OK;
    if (json)
        code = cmd_json_print(json_incref(root));
    else
        print_summary(run->out, experiments, count, &tally);
    json_decref(root);
    if (tally.broken)
        code = cmd_fail("%zu exact facts do not hold, the first: %s", tally.broken,
                        tally.first_broken);
    return code;
}
