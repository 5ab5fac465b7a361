/* SPDX-License-Identifier: MIT */
/* The progress bar. */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "progress.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cmd.h"

#define WIDTH 40
/* Seconds before a bar appears at all, and between two drawings. */
#define PATIENCE 0.5
#define INTERVAL 0.1

void progress_start(struct progress *progress, const char *label)
{
    const char *kind = getenv("TERM");
    progress->label = label;
    progress->terminal = isatty(STDERR_FILENO) && (kind == NULL || strcmp(kind, "dumb") != 0);
    progress->drawn = false;
    progress->start = progress->last = cmd_seconds();
}

void progress_update(struct progress *progress, double done)
{
    double now = cmd_seconds(), past = now - progress->start;
    if (!progress->terminal || past < PATIENCE || now - progress->last < INTERVAL)
        return;
    /* Nearly done already: a bar would only flash. */
    if (!progress->drawn && done > 0 && past / done < 1)
        return;
    char bar[WIDTH + 1];
    int filled = (int)(done * WIDTH);
    for (int i = 0; i < WIDTH; i++)
        bar[i] = i < filled ? '#' : '.';
    bar[WIDTH] = '\0';
    fprintf(stderr, "\r  %-12s [%s] %3.0f %%", progress->label, bar, 100 * done);
    if (done > 0)
        fprintf(stderr, "  %.0f s left ", past / done - past);
    fflush(stderr);
    progress->last = now;
    progress->drawn = true;
}

void progress_end(struct progress *progress)
{
    if (progress->drawn)
        fprintf(stderr, "\r%*s\r", WIDTH + 40, "");
    progress->drawn = false;
}
