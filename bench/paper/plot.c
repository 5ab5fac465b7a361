/* SPDX-License-Identifier: MIT */
/* Plots of `tsa paper`: gnuplot scripts with their data, drawn by gnuplot if it is there. */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cmd.h"
#include "output.h"
#include "paper.h"

extern char **environ;

/* A string of gnuplot. */
static void quote(FILE *file, const char *text)
{
    putc('\'', file);
    for (; *text; text++) {
        if (*text == '\'')
            putc('\'', file);
        putc(*text, file);
    }
    putc('\'', file);
}

static void set(FILE *file, const char *what, const char *text)
{
    fprintf(file, "set %s ", what);
    quote(file, text);
    fprintf(file, " noenhanced\n");
}

static bool has_values(const struct paper_table *t, size_t column)
{
    for (size_t r = 0; r < t->rows; r++)
        if (isfinite(t->cells[r][column].value))
            return true;
    return false;
}

static void write_script(FILE *file, const struct paper_table *t, const struct paper_plot *p)
{
    const char *before = "plot ";
    fprintf(file, "# gnuplot NAME.gp > NAME.svg\n"
                  "set terminal svg size 760,440 dynamic background rgb 'white'\n"
                  "set grid\nset key below noenhanced\n");
    set(file, "title", p->title);
    set(file, "xlabel", t->heads[0]);
    set(file, "ylabel", p->y_label);
    if (p->axes == PAPER_LOG_XY)
        fprintf(file, "set logscale x 2\nset xtics rotate by -35\nset rmargin 5\n");
    if (p->axes != PAPER_LINEAR)
        fprintf(file, "set logscale y\nset format y '%%g'\n");
    fprintf(file, "$data << END\n");
    for (size_t r = 0; r < t->rows; r++) {
        fprintf(file, "%.9g", t->cells[r][0].value);
        for (size_t i = 0; i < PAPER_SERIES && p->y[i]; i++)
            if (isfinite(t->cells[r][p->y[i]].value))
                fprintf(file, " %.9g", t->cells[r][p->y[i]].value);
            else
                fprintf(file, " NaN");
        fprintf(file, "\n");
    }
    fprintf(file, "END\n");
    for (size_t i = 0; i < PAPER_SERIES && p->y[i]; i++) {
        if (!has_values(t, p->y[i]))
            continue;
        fprintf(file, "%s$data using 1:%zu with linespoints%s title ", before, i + 2,
                p->y[i] == p->ours ? " linewidth 3 linecolor rgb '#c1272d'" : "");
        quote(file, t->heads[p->y[i]]);
        before = ", ";
    }
    fprintf(file, "\n");
}

/* 0, ENOENT if there is no gnuplot, or another error. */
static int run_gnuplot(const char *script, int to)
{
    char *arguments[] = {"gnuplot", "-d", (char *)(uintptr_t)script, NULL};
    posix_spawn_file_actions_t actions;
    pid_t child;
    int status, error = posix_spawn_file_actions_init(&actions);
    if (error)
        return error;
    error = posix_spawn_file_actions_adddup2(&actions, to, STDOUT_FILENO);
    if (!error)
        error = posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
    if (!error)
        error = posix_spawnp(&child, arguments[0], &actions, NULL, arguments, environ);
    posix_spawn_file_actions_destroy(&actions);
    if (error)
        return error;
    while (waitpid(child, &status, 0) < 0)
        if (errno != EINTR)
            return errno;
    if (WIFEXITED(status) && WEXITSTATUS(status) == 127)
        return ENOENT;
    return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : EIO;
}

static char *read_text(const char *path)
{
    char *text = NULL;
    FILE *file = fopen(path, "rb");
    if (file && fseek(file, 0, SEEK_END) == 0) {
        const long size = ftell(file);
        rewind(file);
        text = size > 0 ? malloc((size_t)size + 1) : NULL;
        if (text)
            text[fread(text, 1, (size_t)size, file)] = '\0';
    }
    if (file)
        fclose(file);
    return text;
}

bool paper_draw_plot(const char *out, const struct paper_experiment *e, struct paper_plot *plot,
                     bool *drawn)
{
    char script[4096], picture[4096];
    struct output output;
    snprintf(script, sizeof script, "%s/%02d-%s-%s.gp", out, e->number, e->id, plot->name);
    snprintf(picture, sizeof picture, "%s/%02d-%s-%s.svg", out, e->number, e->id, plot->name);
    *drawn = false;
    if (!output_open(&output, script))
        return false;
    write_script(output.stream, &e->tables[plot->table], plot);
    if (!output_commit(&output, script) || !output_open(&output, picture))
        return false;
    const int error = run_gnuplot(script, fileno(output.stream));
    if (error) {
        output_discard(&output);
        static bool told; /* once, not for every plot */
        if (error != ENOENT && !told)
            cmd_fail("gnuplot failed on %s", script);
        told |= error != ENOENT;
        return true;
    }
    if (!output_commit(&output, picture))
        return false;
    plot->svg = read_text(picture);
    *drawn = plot->svg != NULL;
    return true;
}
