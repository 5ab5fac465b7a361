/* SPDX-License-Identifier: MIT */
/* A progress bar on stderr, only on a terminal and only for work that takes a while. */
#ifndef TSA_PROGRESS_H
#define TSA_PROGRESS_H

#include <stdbool.h>

struct progress {
    const char *label; /* a string that lives on */
    bool terminal;     /* stderr is one: feed work in pieces so that the bar can move */
    bool drawn;
    double start, last; /* seconds */
};

void progress_start(struct progress *progress, const char *label);
/* `done` goes from 0 to 1. */
void progress_update(struct progress *progress, double done);
/* Remove the bar. */
void progress_end(struct progress *progress);

#endif
