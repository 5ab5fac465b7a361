/* SPDX-License-Identifier: MIT */
/* What the process allows OpenMP to do: teams in a child of fork, and the threads that the system
 * grants. Runtimes wait for ever for threads that a fork has taken away, and end the process when
 * the system refuses a thread; a library must do neither. */
#include "config.h"

#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* syscall */
#endif

#include "team.h"

#if defined(_OPENMP) && defined(HAVE_PTHREAD_ATFORK)
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>
#ifdef __linux__
#include <fcntl.h>
#include <sys/syscall.h>
#endif
#ifdef HAVE_SYS_SINGLE_THREADED_H
#include <sys/single_threaded.h>
#endif

/* -- forks ----------------------------------------------------------------------------------- */

static atomic_bool has_run; /* the library has run a team */
static atomic_bool had_threads, forked;
static atomic_bool late; /* loaded where an earlier fork may have taken threads away */

/* Has the process ever had a second thread? true if that is not known. */
static bool ever_had_threads(void)
{
#ifdef HAVE_SYS_SINGLE_THREADED_H
    return !__libc_single_threaded; /* stays false after the first thread, in children too */
#else
    return true;
#endif
}

static void before_fork(void)
{
    bool threads = ever_had_threads();
#ifdef __linux__
    struct stat folder;
    const int saved_errno = errno;
    if (stat("/proc/self/task", &folder) == 0) /* a link per thread, and two */
        threads = folder.st_nlink > 3;
    errno = saved_errno;
#endif
    atomic_store(&had_threads, threads || atomic_load(&has_run));
}

static void in_child(void)
{
    if (atomic_load(&had_threads))
        atomic_store(&forked, true);
}

/* Has this process been forked and not executed a program since? true if that is not known. */
static bool is_a_fork(void)
{
#ifdef __linux__
    enum { FORKED_NOT_EXECUTED = 0x40 }; /* PF_FORKNOEXEC of the kernel, in the ninth field */
    char text[512];
    const int file = open("/proc/self/stat", O_RDONLY | O_CLOEXEC);
    if (file >= 0) {
        const ssize_t length = read(file, text, sizeof text - 1);
        close(file);
        text[length > 0 ? length : 0] = '\0';
        unsigned flags;
        const char *name_end = strrchr(text, ')');
        if (name_end && sscanf(name_end, ") %*c %*d %*d %*d %*d %*d %u", &flags) == 1)
            return flags & FORKED_NOT_EXECUTED;
    }
#endif
    return true;
}

static size_t stack_bytes; /* of OpenMP's threads; 0: the system's default */

/* OMP_STACKSIZE: a number and B, K, M or G; K without a letter. What cannot be read is ignored, as
 * the runtime does. */
static size_t read_stack_bytes(void)
{
    const char *text = getenv("OMP_STACKSIZE");
    if (!text)
        text = getenv("GOMP_STACKSIZE");
    if (!text)
        return 0;
    char *end;
    const unsigned long long number = strtoull(text, &end, 10);
    end += strspn(end, " \t");
    const char *const letters = "bkmg";
    const char *letter = *end ? strchr(letters, *end | 0x20) : letters + 1;
    const unsigned shift = letter ? 10 * (unsigned)(letter - letters) : 0;
    return letter && number <= SIZE_MAX >> shift ? (size_t)number << shift : 0;
}

static void watch(void)
{
    const int saved_errno = errno;
    if (pthread_atfork(before_fork, NULL, in_child) != 0)
        atomic_store(&forked, true);
    if (ever_had_threads() && is_a_fork())
        atomic_store(&late, true);
    stack_bytes = read_stack_bytes();
    errno = saved_errno;
}

/* When the library is loaded: a host may use OpenMP and fork before it makes a plan. */
#ifdef __GNUC__
__attribute__((constructor))
#endif
void tsa_process_watch(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, watch);
}

bool tsa_process_forked(void)
{
    if (atomic_load_explicit(&forked, memory_order_relaxed))
        return true;
    if (!atomic_load_explicit(&late, memory_order_relaxed))
        return false;
#ifdef __linux__
    /* Only the thread that went through the fork can believe in a team that is gone. */
    return syscall(SYS_gettid) == getpid();
#else
    return true;
#endif
}

/* -- threads that are granted ---------------------------------------------------------------- */

#ifdef __linux__
/* A thread that has been joined may count against the limits for an instant. */
static void wait_until_gone(long id)
{
    const pid_t process = getpid();
    while (syscall(SYS_tgkill, process, id, 0) == 0)
        sched_yield();
}
#endif

struct trial {
    const pthread_attr_t *attributes;
    size_t wanted, got; /* threads beside this one */
    long id;            /* of this one */
};

/* Start a thread that does the same for one less: so all of them are there at the same time. */
static void *try_threads(void *argument)
{
    struct trial *trial = argument;
    struct trial next = {trial->attributes, trial->wanted - 1, 0, 0};
    pthread_t thread;
#ifdef __linux__
    trial->id = syscall(SYS_gettid);
#endif
    if (trial->wanted == 0 || pthread_create(&thread, next.attributes, try_threads, &next) != 0)
        return NULL;
    pthread_join(thread, NULL);
#ifdef __linux__
    wait_until_gone(next.id);
#endif
    trial->got = 1 + next.got;
    return NULL;
}

/* How many of so many more threads does the system grant? They handle no signal of the host. */
static size_t more_threads(size_t wanted)
{
    pthread_attr_t attributes;
    sigset_t all, before;
    if (pthread_attr_init(&attributes) != 0)
        return 0;
    /* What gcc's runtime takes by itself is in the attributes; clang's takes the limit of now. */
    size_t bytes = stack_bytes, usual = 0;
    struct rlimit most;
    pthread_attr_getstacksize(&attributes, &usual);
    if (bytes == 0 && getrlimit(RLIMIT_STACK, &most) == 0 && most.rlim_cur != RLIM_INFINITY &&
        most.rlim_cur > usual)
        bytes = (size_t)most.rlim_cur;
    if (bytes > 0) /* fails where the runtime ignores it, too */
        (void)pthread_attr_setstacksize(&attributes, bytes);
    struct trial trial = {&attributes, wanted, 0, 0};
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    try_threads(&trial);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
    return trial.got;
}

/* Teams of fewer threads, after a refusal, before the system is asked again. */
#define PATIENCE 1000

size_t tsa_process_threads(size_t wanted, bool *more)
{
    /* Each calling thread has a pool of its own, which keeps no more than the last team used. */
    static _Thread_local size_t pool = 1, patience;
    atomic_store_explicit(&has_run, true, memory_order_relaxed);
    *more = false;
    if (wanted > pool && patience > 0) {
        patience--;
        return pool;
    }
    if (wanted > pool) {
        const size_t got = pool + more_threads(wanted - pool);
        patience = got < wanted ? PATIENCE : 0;
        *more = got > pool;
        wanted = got;
    }
    pool = wanted;
    return wanted;
}

#elif defined(_OPENMP)
void tsa_process_watch(void)
{
}
bool tsa_process_forked(void)
{
    return false;
}
size_t tsa_process_threads(size_t wanted, bool *more)
{
    *more = false;
    return wanted;
}
#endif
