/* SPDX-License-Identifier: MIT */
/* Teams: shares of tasks, and OpenMP or the caller's executor to work on them. */
#include "config.h"

#include <errno.h>

#include "fpenv.h"
#include "team.h"

#ifdef _OPENMP
#include <omp.h>
#endif

void tsa_team_prepare(const struct tsa_plan *plan)
{
#ifdef _OPENMP
    if (plan->threads > 1 && !plan->execute)
        tsa_process_watch();
#else
    (void)plan;
#endif
}

bool tsa_team_crowded(const struct tsa_plan *plan)
{
#ifdef _OPENMP
    return !plan->execute && plan->threads > tsa_processors();
#else
    (void)plan;
    return false;
#endif
}

size_t tsa_team_threads(const struct tsa_plan *plan)
{
    if (plan->execute)
        return (size_t)plan->threads;
#ifdef _OPENMP
    if (tsa_process_forked())
        return 1;
    const int saved_errno = errno;
    const bool nested = omp_in_parallel();
    errno = saved_errno;
    return nested ? 1 : (size_t)plan->threads;
#else
    return 1;
#endif
}

/* -- shares ---------------------------------------------------------------------------------- */

struct job {
    struct tsa_share *shares; /* the queue, then one per thread */
    size_t threads;
    tsa_task task;
    const void *argument;
};

static size_t draw(const struct job *job, struct tsa_share *share, size_t thread)
{
    const size_t end = share->end;
    size_t done = 0;
    /* the load keeps threads that come late from writing to the line */
    while (atomic_load_explicit(&share->next, memory_order_relaxed) < end) {
        const size_t index = atomic_fetch_add_explicit(&share->next, 1, memory_order_relaxed);
        if (index >= end)
            break;
        job->task(job->argument, thread, index);
        done++;
    }
    return done;
}

/* The part of one thread, in whatever mode that is. */
static void work(void *argument, size_t thread)
{
    const struct job *job = argument;
    const struct tsa_fpenv saved = tsa_fpenv_enter();
    size_t done = draw(job, &job->shares[0], thread);
    for (size_t i = 0, own = thread; i < job->threads; i++) {
        done += draw(job, &job->shares[1 + own], thread);
        own = own + 1 < job->threads ? own + 1 : 0;
    }
    tsa_fpenv_leave(saved);
    job->shares[1 + thread].done = done;
}

#ifdef _OPENMP
/* The part of one thread of OpenMP's team, timed. */
static void work_timed(struct job *job, size_t thread)
{
    const int64_t began = tsa_team_clock();
    work(job, thread);
    job->shares[1 + thread].busy = tsa_team_busy(began, tsa_team_clock());
}

/* A function of its own, as clang's runtime starts, and may set errno, where one with a region is
 * entered. The same size always, even for few tasks: gcc's runtime ends and starts threads
 * otherwise. */
static void run_region(struct job *job)
{
    const int64_t began = tsa_team_clock();
    bool more = false; /* threads that have to be started first? */
    const size_t granted = tsa_team_rests(began) ? 1 : tsa_process_threads(job->threads, &more);
    if (granted < 2) {
        work(job, 0);
        return;
    }
    for (size_t i = 0; i < granted; i++) /* the system may grant fewer */
        job->shares[1 + i].done = 0;
#pragma omp parallel num_threads((int)granted)
    work_timed(job, (size_t)omp_get_thread_num());
    if (!more)
        tsa_team_account(job->shares + 1, granted, began, tsa_team_clock());
}
#endif

void tsa_team_run(const struct tsa_team *team, size_t queue, size_t count, tsa_task task,
                  const void *argument)
{
    const size_t threads = team->threads;
    if (threads < 2 || count < 2) {
        for (size_t i = 0; i < count; i++)
            task(argument, 0, i);
        return;
    }
    struct job job = {team->shares, threads, task, argument};
    atomic_init(&job.shares[0].next, 0);
    job.shares[0].end = queue;
    const size_t parts = count - queue, least = parts / threads, more = parts % threads;
    for (size_t i = 0, next = queue; i < threads; i++) {
        atomic_init(&job.shares[1 + i].next, next);
        next += least + (i < more);
        job.shares[1 + i].end = next;
    }
    const int saved_errno = errno; /* runtimes and executors may set it */
    if (team->plan->execute) {
        const size_t some = threads < count ? threads : count;
        team->plan->execute(team->plan->execute_user, some, work, &job);
    }
#ifdef _OPENMP
    else
        run_region(&job);
#endif
    errno = saved_errno;
}
