/* SPDX-License-Identifier: MIT */
/* Tasks shared out to a team of threads: OpenMP's, or those of the caller's executor. */
#ifndef TSA_TEAM_H
#define TSA_TEAM_H

#include <stdatomic.h>

#include "internal.h"

/* Tasks next .. end-1, drawn one by one. One cache line each. */
struct tsa_share {
    _Alignas(TSA_ALIGN) atomic_size_t next;
    size_t end;
    double most;  /* what the thread of this share has found, where tasks look for something */
    int64_t busy; /* ns of processor time that its thread has worked in OpenMP's team */
    size_t done;  /* tasks */
};

/* Task `index`, on a thread that alone uses the number `thread` while it runs. */
typedef void (*tsa_task)(const void *argument, size_t thread, size_t index);

/* What one call runs its tasks with. */
struct tsa_team {
    const struct tsa_plan *plan; /* its executor */
    size_t threads; /* at most; 1 for what is not worth more, else the plan's or the workspace's */
    struct tsa_share *shares; /* 1 + threads */
};

/* -- process.c, where there is OpenMP -- */

/* Notice forks from now on. */
void tsa_process_watch(void);
/* Would a team of the calling thread wait for threads that a fork has taken away? */
bool tsa_process_forked(void);
/* The threads, of `wanted` >= 2 with the calling one, that a team of it may have now: fewer if the
 * system refuses some, for OpenMP's runtimes would end the process. *more: some are to be started
 * for it. */
size_t tsa_process_threads(size_t wanted, bool *more);

/* -- rest.c, where there is OpenMP: teams that a busy machine keeps from paying -- */

/* May teams rest? Tests of what teams compute say no. */
extern bool tsa_team_may_rest;

/* Now, in ns of a clock that never goes back. */
int64_t tsa_team_clock(void);
/* ns of processor time, about, that the calling thread has had from `began` to `ended`, now. */
int64_t tsa_team_busy(int64_t began, int64_t ended);
/* Are teams at rest now? */
bool tsa_team_rests(int64_t now);
/* A team of so many threads has run from `began` to `ended`, shares[0] being the caller's: note
 * what was lost or gained against one thread. */
void tsa_team_account(const struct tsa_share *shares, size_t threads, int64_t began, int64_t ended);

/* -- threads.c, where there is OpenMP -- */

/* The processors on which OpenMP can place threads. */
int tsa_processors(void);

/* -- team.c -- */

/* A plan has been made, which may use OpenMP. */
void tsa_team_prepare(const struct tsa_plan *plan);

/* Are there more threads than OpenMP has processors for? */
bool tsa_team_crowded(const struct tsa_plan *plan);

/* Threads that a call may use now: 1 where OpenMP would nest, or cannot run after a fork. */
size_t tsa_team_threads(const struct tsa_plan *plan);

/* Run tasks 0 .. count-1; all have ended, and what they wrote can be read, when it returns. The
 * first `queue` of them are drawn in order by all threads; of the others each thread has its own
 * part, the same one for the same count, and takes from those of the others when that is done. So
 * threads meet the memory again that they touched first, and none is idle while there are tasks.
 * Right for any number of threads that are granted. The caller is in the floating-point mode of the
 * arithmetic; the others enter it. */
void tsa_team_run(const struct tsa_team *team, size_t queue, size_t count, tsa_task task,
                  const void *argument);

#endif
