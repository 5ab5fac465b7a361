/* SPDX-License-Identifier: MIT */
/* The report of `tsa paper` for people: the same document as Markdown and as HTML. */
#include "config.h"

#include <ctype.h>
#include <math.h>
#include <string.h>

#include "output.h"
#include "paper.h"

struct page {
    FILE *file;
    bool html;
};

/* -- text ------------------------------------------------------------------------------------- */

static void put_escaped(const struct page *p, char c)
{
    if (!p->html)
        fprintf(p->file, strchr("|\\*_<>", c) ? "\\%c" : "%c", c);
    else if (strchr("<>&", c))
        fputs(c == '<' ? "&lt;" : c == '>' ? "&gt;" : "&amp;", p->file);
    else
        putc(c, p->file);
}

/* Prose: what stands between backticks is code. A browser would break the line of 1e-17 after its
 * hyphen: a word joiner keeps it whole. */
static void put_text(const struct page *p, const char *text)
{
    bool code = false;
    for (const char *c = text; *c; c++) {
        const bool exponent =
            c > text && c[-1] == 'e' && c[0] == '-' && isdigit((unsigned char)c[1]);
        if (*c == '`') {
            code = !code;
            fputs(!p->html ? "`" : code ? "<code>" : "</code>", p->file);
        } else if (code && !p->html) {
            putc(*c, p->file);
        } else {
            put_escaped(p, *c);
            if (exponent && p->html)
                fputs("&#8288;", p->file);
        }
    }
}

static void put_heading(const struct page *p, int level, const char *text)
{
    if (p->html)
        fprintf(p->file, "<h%d>", level);
    else
        fprintf(p->file, "%.*s ", level, "##");
    put_text(p, text);
    if (p->html)
        fprintf(p->file, "</h%d>\n", level);
    else
        fputs("\n\n", p->file);
}

/* Two sentences of which the first is strong; each may be "". */
static void put_paragraph(const struct page *p, const char *strong, const char *text)
{
    if (!strong[0] && !text[0])
        return;
    fputs(p->html ? "<p>" : "", p->file);
    if (strong[0]) {
        fputs(p->html ? "<b>" : "**", p->file);
        put_text(p, strong);
        fputs(p->html ? "</b> " : "** ", p->file);
    }
    put_text(p, text);
    fputs(p->html ? "</p>\n" : "\n\n", p->file);
}

static void put_lines(const struct page *p, const char *lines)
{
    fputs(p->html ? "<pre>" : "```\n", p->file);
    for (; *lines; lines++)
        if (p->html)
            put_escaped(p, *lines);
        else
            putc(*lines, p->file);
    fputs(p->html ? "</pre>\n" : "```\n\n", p->file);
}

/* -- tables ----------------------------------------------------------------------------------- */

/* Columns are to the left where `align` has l, or to the right. */
static void begin_table(const struct page *p, const char *caption, const char *align,
                        const char *const *heads)
{
    const size_t columns = strlen(align);
    if (p->html) {
        fputs("<div class=\"wide\"><table>", p->file);
        if (caption) {
            fputs("<caption>", p->file);
            put_text(p, caption);
            fputs("</caption>", p->file);
        }
        fputs("<tr>", p->file);
    } else if (caption) {
        put_text(p, caption);
        fputs(":\n\n", p->file);
    }
    for (size_t c = 0; c < columns; c++) {
        fputs(p->html ? "<th>" : "| ", p->file);
        put_text(p, heads[c]);
        fputs(p->html ? "</th>" : " ", p->file);
    }
    fputs(p->html ? "</tr>\n" : "|\n", p->file);
    for (size_t c = 0; c < columns && !p->html; c++)
        fputs(align[c] == 'l' ? "| --- " : "| ---: ", p->file);
    fputs(p->html ? "" : "|\n", p->file);
}

static void begin_row(const struct page *p)
{
    fputs(p->html ? "<tr>" : "", p->file);
}

static void put_cell(const struct page *p, const char *text)
{
    fputs(p->html ? "<td>" : "| ", p->file);
    for (; *text; text++)
        put_escaped(p, *text);
    fputs(p->html ? "</td>" : " ", p->file);
}

/* Prose in a cell, after a strong word with a colour unless that is "". */
static void put_text_cell(const struct page *p, const char *colour, const char *strong,
                          const char *text)
{
    if (p->html)
        fprintf(p->file, "<td class=\"text%s%s\">", colour[0] ? " " : "", colour);
    else
        fputs("| ", p->file);
    if (strong[0])
        fprintf(p->file, p->html ? "<b>%s</b>%s" : "**%s**%s", strong, text[0] ? ": " : "");
    put_text(p, text);
    fputs(p->html ? "</td>" : " ", p->file);
}

static void end_row(const struct page *p)
{
    fputs(p->html ? "</tr>\n" : "|\n", p->file);
}

static void end_table(const struct page *p)
{
    fputs(p->html ? "</table></div>\n" : "\n", p->file);
}

/* -- experiments ------------------------------------------------------------------------------ */

/* Between the least and the largest of the draws. */
static const char *range_text(const struct paper_figure *f, char text[80])
{
    char low[CMD_NUMBER_TEXT], high[CMD_NUMBER_TEXT];
    if (isnan(f->low))
        return strcpy(text, "");
    snprintf(text, 80, "%s to %s", paper_number(f->low, low), paper_number(f->high, high));
    return text;
}

static void put_figures(const struct page *p, const struct paper_experiment *e)
{
    static const char *const heads[] = {"figure", "paper", "ours", "draws", "verdict"};
    static const char *const colours[PAPER_VERDICTS] = {
        [PAPER_REPRODUCED] = "good", [PAPER_BETTER] = "good",  [PAPER_WORSE] = "differs",
        [PAPER_DIFFERS] = "differs", [PAPER_HOLDS] = "good",   [PAPER_FAILS] = "differs",
        [PAPER_NO_FIGURE] = "none",  [PAPER_NOT_RUN] = "none",
    };
    char text[CMD_NUMBER_TEXT], range[80];
    if (e->figure_count == 0)
        return;
    begin_table(p, NULL, "lrrll", heads);
    for (size_t i = 0; i < e->figure_count; i++) {
        const struct paper_figure *f = &e->figures[i];
        begin_row(p);
        put_text_cell(p, "", "", f->name);
        put_cell(p, paper_number(f->paper, text));
        put_cell(p, paper_number(f->ours, text));
        put_cell(p, range_text(f, range));
        put_text_cell(p, colours[f->verdict], paper_verdict_name[f->verdict], f->why);
        end_row(p);
    }
    end_table(p);
}

static void put_table(const struct page *p, const struct paper_experiment *e,
                      const struct paper_table *t)
{
    char text[CMD_NUMBER_TEXT], name[100], align[PAPER_COLUMNS + 1] = "";
    const char *heads[PAPER_COLUMNS];
    for (size_t c = 0; c < t->columns; c++) {
        align[c] = 'r';
        heads[c] = t->heads[c];
    }
    begin_table(p, t->title, align, heads);
    for (size_t r = 0; r < t->rows; r++) {
        begin_row(p);
        for (size_t c = 0; c < t->columns; c++) {
            const struct paper_cell *cell = &t->cells[r][c];
            put_cell(p, cell->text[0] ? cell->text : paper_number(cell->value, text));
        }
        end_row(p);
    }
    end_table(p);
    paper_table_file(e, t, name);
    fprintf(p->file,
            p->html ? "<p class=\"file\">The same in <a href=\"%s\">%s</a>.</p>\n"
                    : "The same in [%s](%s).\n\n",
            name, name);
}

/* The picture without its XML head, and with a prefix before its ids, which are the same in every
 * picture. */
static void put_svg(FILE *file, const char *svg, int number, size_t index)
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

static void put_experiment(const struct page *p, const struct paper_experiment *e)
{
    char title[160];
    snprintf(title, sizeof title, "%d. %s", e->number, e->title);
    put_heading(p, 2, title);
    put_paragraph(p, "", e->setting);
    put_paragraph(p, "", e->note);
    put_figures(p, e);
    for (size_t i = 0; i < e->plot_count; i++) {
        const struct paper_plot *plot = &e->plots[i];
        if (plot->svg && p->html)
            put_svg(p->file, plot->svg, e->number, i);
        else if (plot->svg)
            fprintf(p->file, "![%s](%02d-%s-%s.svg)\n\n", plot->title, e->number, e->id,
                    plot->name);
    }
    for (size_t i = 0; i < e->table_count; i++)
        put_table(p, e, &e->tables[i]);
}

/* -- the documents ---------------------------------------------------------------------------- */

static const char title[] = "The paper's experiments on this machine";

static const char introduction[] =
    "The experiments of \"A Taylor-Series Route to Linear-Time Transformers with a Fixed Number of "
    "Recurrent States\" (arXiv 2610.20637), run again by `tsa paper` on "
    "this machine. The paper timed single-threaded NumPy on another one. Where a figure depends on "
    "the random inputs, ours is that of the first of 20 draws, with the least and the largest of "
    "all. How inputs are drawn and verdicts are reached is in doc/paper.md.";

/* Wide tables scroll, not the page; numbers stay on one line. */
static const char html_head[] =
    "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
    "<meta name=\"viewport\" content=\"width=device-width\">\n"
    "<title>The paper's experiments on this machine</title>\n<style>\n"
    "body { font-family: sans-serif; max-width: 76em; margin: 2em auto; padding: 0 1em; }\n"
    ".wide { overflow-x: auto; margin: 1em 0; }\n"
    "table { border-collapse: collapse; font-size: 85%; }\n"
    "caption { text-align: left; font-weight: bold; padding: .3em 0; }\n"
    "th, td { border: 1px solid #ccc; padding: .2em .5em; text-align: right; }\n"
    "td { white-space: nowrap; }\n"
    "td.text { text-align: left; white-space: normal; overflow-wrap: anywhere; }\n"
    ".file { font-size: 85%; margin: -.5em 0 1em; }\n"
    ".good b { color: #06603a; } .differs b { color: #a03000; } .none b { color: #555; }\n"
    "figure { margin: 1em 0; max-width: 48em; }\n"
    "svg { max-width: 100%; height: auto; }\n"
    "pre { background: #f4f4f4; padding: 1em; white-space: pre-wrap; }\n"
    "</style></head><body>\n";

static bool write_document(const struct paper_report *r, bool html)
{
    char path[4096];
    struct output output;
    snprintf(path, sizeof path, "%s/paper.%s", r->run->out, html ? "html" : "md");
    if (!output_open(&output, path))
        return false;
    const struct page p = {.file = output.stream, .html = html};
    fputs(html ? html_head : "", p.file);
    put_heading(&p, 1, title);
    put_paragraph(&p, "", introduction);
    put_paragraph(&p, r->tally, r->plots);
    put_lines(&p, r->machine);
    for (size_t i = 0; i < r->count; i++)
        put_experiment(&p, &r->experiments[i]);
    fputs(html ? "</body></html>\n" : "", p.file);
    return output_commit(&output, path);
}

bool paper_write_documents(const struct paper_report *report)
{
    return write_document(report, false) && write_document(report, true);
}
