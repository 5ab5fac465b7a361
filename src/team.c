/* SPDX-License-Identifier: MIT */
/* Teams: shares of tasks, OpenMP or the caller's executor to work on them, and forks. */
#include "config.h"

#ifndef _POSIX_C_SOURCE
#define _POSIX_C_SOURCE 200809L /* stat, pthread_atfork */
#endif

#include <errno.h>

#include "fpenv.h"
#include "team.h"

#ifdef _OPENMP
#include <omp.h>
#if defined(HAVE_PTHREAD_ATFORK)
#include <pthread.h>
#include <sys/stat.h>
#endif
#endif

/* -- forks ----------------------------------------------------------------------------------- */

/* A child has none of the threads that OpenMP believes it has, and would wait for them. It is
 * marked if the library has run a team before the fork, or if the process had threads of whatever
 * kind then, for the host may use OpenMP too. Calls in it are serial; the runtime, which is the
 * host's as well, is left alone. Where forks cannot be watched, all calls are. */
#if defined(_OPENMP) && defined(HAVE_PTHREAD_ATFORK)
static atomic_bool has_run, had_threads, forked;

static void before_fork(void)
{
    bool threads = atomic_load(&has_run);
#ifdef __linux__
    struct stat folder;
    const int saved_errno = errno;
    if (stat("/proc/self/task", &folder) == 0) /* a link per thread, and two */
        threads |= folder.st_nlink > 3;
    errno = saved_errno;
#endif
    atomic_store(&had_threads, threads);
}
static void in_child(void)
{
    if (atomic_load(&had_threads))
        atomic_store(&forked, true);
}
static void watch_forks(void)
{
    const int saved_errno = errno;
    if (pthread_atfork(before_fork, NULL, in_child) != 0)
        atomic_store(&forked, true);
    errno = saved_errno;
}
void tsa_team_prepare(const struct tsa_plan *plan)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    if (plan->threads > 1 && !plan->execute)
        pthread_once(&once, watch_forks);
}
static void team_begins(void)
{
    if (!atomic_load_explicit(&has_run, memory_order_relaxed))
        atomic_store(&has_run, true);
}
static bool in_forked_child(void)
{
    return atomic_load_explicit(&forked, memory_order_relaxed);
}
#else
void tsa_team_prepare(const struct tsa_plan *plan)
{
    (void)plan;
}
#ifdef _OPENMP
static void team_begins(void)
{
}
static bool in_forked_child(void)
{
    return false;
}
#endif
#endif

bool tsa_team_crowded(const struct tsa_plan *plan)
{
#ifdef _OPENMP
    return !plan->execute && plan->threads > omp_get_num_procs();
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
    return omp_in_parallel() || in_forked_child() ? 1 : (size_t)plan->threads;
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

static void draw(const struct job *job, struct tsa_share *share, size_t thread)
{
    const size_t end = share->end;
    /* the load keeps threads that come late from writing to the line */
    while (atomic_load_explicit(&share->next, memory_order_relaxed) < end) {
        const size_t index = atomic_fetch_add_explicit(&share->next, 1, memory_order_relaxed);
        if (index >= end)
            return;
        job->task(job->argument, thread, index);
    }
}

/* The part of one thread, in whatever mode that is. */
static void work(void *argument, size_t thread)
{
    const struct job *job = argument;
    const struct tsa_fpenv saved = tsa_fpenv_enter();
    draw(job, &job->shares[0], thread);
    for (size_t i = 0, own = thread; i < job->threads; i++) {
        draw(job, &job->shares[1 + own], thread);
        own = own + 1 < job->threads ? own + 1 : 0;
    }
    tsa_fpenv_leave(saved);
}

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
    else {
        team_begins();
        /* The same size always, even for few tasks: gcc's runtime ends and starts threads
         * otherwise. */
#pragma omp parallel num_threads((int)threads)
        work(&job, (size_t)omp_get_thread_num());
    }
#endif
    errno = saved_errno;
}
