/* SPDX-License-Identifier: MIT */
/* The files of `tsa paper` for programs, CSV and JSON, and what it prints. */
#include "config.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cmd.h"
#include "output.h"
#include "paper.h"

const char *const paper_verdict_name[PAPER_VERDICTS] = {
    [PAPER_REPRODUCED] = "reproduced",
    [PAPER_BETTER] = "better than the paper",
    [PAPER_WORSE] = "differs: worse",
    [PAPER_DIFFERS] = "differs",
    [PAPER_HOLDS] = "holds",
    [PAPER_FAILS] = "does not hold",
    [PAPER_NO_FIGURE] = "no figure in the paper",
    [PAPER_NOT_RUN] = "not run",
};

void paper_table_file(const struct paper_experiment *e, const struct paper_table *t, char name[100])
{
    snprintf(name, 100, "%02d-%s%s%s.csv", e->number, e->id, t->name[0] ? "-" : "", t->name);
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
    paper_table_file(e, t, name);
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
            fprintf(output.stream, ",%s,%s,", f->exact ? "yes" : "no",
                    paper_verdict_name[f->verdict]);
            csv_text(output.stream, f->why);
            fprintf(output.stream, "\n");
        }
    }
    return output_commit(&output, path);
}

/* -- words ------------------------------------------------------------------------------------ */

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
    bench_machine_print(&run->machine, file, "");
    fprintf(file, "exp          %s\n", tsa_exp_name());
    contend_describe(file, "");
    if (fclose(file) != 0) {
        free(text);
        return NULL;
    }
    return text;
}

static void tally_text(const struct tally *t, char *text, size_t size)
{
    const size_t *of = t->of;
    snprintf(text, size,
             "Of %zu figures of the paper %zu are reproduced, %zu are better than the paper's, %zu "
             "worse, and %zu differ otherwise; exact facts: %zu of %zu hold; other figures: %zu; "
             "not run: %zu.",
             of[PAPER_REPRODUCED] + of[PAPER_BETTER] + of[PAPER_WORSE] + of[PAPER_DIFFERS],
             of[PAPER_REPRODUCED], of[PAPER_BETTER], of[PAPER_WORSE], of[PAPER_DIFFERS],
             t->exact - t->broken, t->exact, of[PAPER_NO_FIGURE], of[PAPER_NOT_RUN]);
}

/* -- JSON ------------------------------------------------------------------------------------- */

static json_t *figure_json(const struct paper_figure *f)
{
    return json_pack("{s:s, s:o, s:o, s:o, s:o, s:b, s:s, s:s}", "name", f->name, "paper",
                     cmd_json_number(f->paper), "ours", cmd_json_number(f->ours), "least",
                     cmd_json_number(f->low), "largest", cmd_json_number(f->high), "exact",
                     f->exact, "verdict", paper_verdict_name[f->verdict], "why", f->why);
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
    paper_table_file(e, t, name);
    return json_pack("{s:s, s:s, s:o, s:o}", "title", t->title, "file", name, "columns", columns,
                     "rows", rows);
}

static json_t *experiment_json(const struct paper_experiment *e)
{
    json_t *figures = json_array(), *tables = json_array();
    for (size_t i = 0; i < e->figure_count; i++)
        json_array_append_new(figures, figure_json(&e->figures[i]));
    for (size_t i = 0; i < e->table_count; i++)
        json_array_append_new(tables, table_json(e, &e->tables[i]));
    return json_pack("{s:i, s:s, s:s, s:s, s:s, s:o, s:o}", "number", e->number, "id", e->id,
                     "title", e->title, "setting", e->setting, "note", e->note, "figures", figures,
                     "tables", tables);
}

static json_t *report_json(const struct paper_report *r, const struct tally *t)
{
    const json_int_t differ = (json_int_t)(t->of[PAPER_WORSE] + t->of[PAPER_DIFFERS]);
    json_t *list = json_array();
    for (size_t i = 0; i < r->count; i++)
        json_array_append_new(list, experiment_json(&r->experiments[i]));
    return json_pack(
        "{s:s, s:i, s:s, s:b, s:s, s:i, s:I, s:I, s:I, s:I, s:I, s:I, s:{s:I, s:I}, "
        "s:o}",
        "version", tsa_version(), "arithmetic", tsa_arithmetic(), "isa", r->run->machine.unit->name,
        "quick", r->run->quick, "machine", r->machine, "draws", PAPER_SEEDS, "reproduced",
        (json_int_t)t->of[PAPER_REPRODUCED], "better", (json_int_t)t->of[PAPER_BETTER], "differ",
        differ, "worse", (json_int_t)t->of[PAPER_WORSE], "no_figure",
        (json_int_t)t->of[PAPER_NO_FIGURE], "not_run", (json_int_t)t->of[PAPER_NOT_RUN],
        "exact_facts", "hold", (json_int_t)(t->exact - t->broken), "fail", (json_int_t)t->broken,
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

static void print_summary(const struct paper_report *r)
{
    char a[CMD_NUMBER_TEXT], b[CMD_NUMBER_TEXT];
    for (size_t i = 0; i < r->count; i++) {
        const struct paper_experiment *e = &r->experiments[i];
        printf("%d. %s\n", e->number, e->title);
        for (size_t j = 0; j < e->figure_count; j++) {
            const struct paper_figure *f = &e->figures[j];
            printf("   %-22s %s", paper_verdict_name[f->verdict], f->name);
            if (!isnan(f->ours))
                printf(": %s", paper_number(f->ours, a));
            if (!isnan(f->paper))
                printf(" (paper %s)", paper_number(f->paper, b));
            printf("%s%s\n", f->why[0] ? "; " : "", f->why);
        }
    }
    char folder[CMD_PLAIN_TEXT];
    printf("\n%s\n%s/paper.html\n", r->tally, cmd_plain_text(r->run->out, folder, sizeof folder));
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

/* Every file but the pictures; *root is what is in paper.json, or NULL. */
static bool write_files(const struct paper_report *r, const struct tally *tally, json_t **root)
{
    for (size_t i = 0; i < r->count; i++)
        for (size_t j = 0; j < r->experiments[i].table_count; j++)
            if (!write_csv(r->run->out, &r->experiments[i], &r->experiments[i].tables[j]))
                return false;
    if (!write_figures_csv(r->run->out, r->experiments, r->count) || !paper_write_documents(r))
        return false;
    *root = report_json(r, tally);
    return write_json(r->run->out, *root);
}

int paper_write_report(const struct paper_run *run, struct paper_experiment *experiments,
                       size_t count, bool json)
{
    const struct tally tally = tally_of(experiments, count);
    char text[320], *machine = machine_text(run);
    struct paper_report r = {
        .run = run, .experiments = experiments, .count = count, .machine = machine, .tally = text};
    json_t *root = NULL;
    bool drawn = false;

    tally_text(&tally, text, sizeof text);
    if (!machine)
        paper_no_memory();
    bool good = machine && draw_plots(run->out, experiments, count, &drawn);
    r.plots = drawn ? ""
                    : "Plots are missing: gnuplot was not found or failed; it draws the .gp files "
                      "in this folder.";
    good = good && write_files(&r, &tally, &root);
    int code = CMD_FAILURE;
    if (good && json) {
        code = cmd_json_print(json_incref(root));
    } else if (good) {
        print_summary(&r);
        code = CMD_OK;
    }
    json_decref(root);
    free(machine);
    if (good && tally.broken)
        code = cmd_fail("%zu exact facts do not hold, the first: %s", tally.broken,
                        tally.first_broken);
    return code;
}
