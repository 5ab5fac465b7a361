/* SPDX-License-Identifier: MIT */
/* A file that appears under its name only when it is whole. */
#ifndef TSA_OUTPUT_H
#define TSA_OUTPUT_H

#include <stdbool.h>
#include <stdio.h>

/* One at a time: the handlers of signals know it. */
struct output {
    FILE *stream;
    char *target;    /* the path with symbolic links followed */
    char *temporary; /* beside it; NULL when the target is a device or a pipe */
};

/* Open a temporary file in the folder of `path`, to be renamed to it. Neither what is at `path`
 * now nor anything else changes before output_commit(). An interrupted process removes the
 * temporary file. False after a line on stderr. */
bool output_open(struct output *output, const char *path);
/* Write everything to the disk and rename. False after a line on stderr; nothing is left then. */
bool output_commit(struct output *output, const char *path);
/* Give up: remove the temporary file. Does nothing after output_commit(). */
void output_discard(struct output *output);

#endif
