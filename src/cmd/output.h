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
    char *temporary; /* beside it; NULL when the target is written to directly */
    bool in_place;   /* a regular file in a folder where no temporary file can be made */
};

/* Make ready to write to `path`. Neither what is there now nor anything else changes before
 * output_commit(), if that is possible:
 *   - a regular file, or none yet: a temporary file in the same folder, which is renamed later. It
 *     is removed when the process exits or gets a signal, whichever of those that can be caught;
 *   - a file in a folder that cannot be written to: the file itself, whose old content stays until
 *     the new one is written over it;
 *   - pipes, devices, and names of open descriptors such as /dev/stdout and /dev/fd/3: directly.
 * False after a line on stderr. */
bool output_open(struct output *output, const char *path);
/* Write everything to the disk, and rename. A file that cannot be replaced, such as one that is
 * mounted on its own, is written over instead. False after a line on stderr; of a regular file
 * nothing is left then, unless it had to be written over. */
bool output_commit(struct output *output, const char *path);
/* Give up: remove the temporary file. Does nothing after output_commit(). */
void output_discard(struct output *output);

/* Do both paths lead to the same file, pipe or block device? */
bool output_same_file(const char *path, const char *other);
/* Does writing to the path end up where standard output goes? False for terminals and other
 * character devices. Ask before output_open(). */
bool output_is_stdout(const char *path);

#endif
