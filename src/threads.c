/* SPDX-License-Identifier: MIT */
/* The default number of threads: what affinity, cgroup quota and OpenMP's settings allow. */
#include "config.h"

#ifndef _POSIX_C_SOURCE
#define _POSIX_C_SOURCE 200809L /* open, read, O_CLOEXEC */
#endif

#include "team.h"

#include <errno.h>

#ifdef _OPENMP
#include <limits.h>
#include <omp.h>

#ifdef __linux__
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The text of a small file, cut at size - 1 bytes; false if there is none. Without stdio,
 * because fopen allocates. */
static bool read_text(const char *path, char *text, size_t size)
{
    size_t length = 0;
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return false;
    while (length < size - 1) {
        ssize_t got = read(file, text + length, size - 1 - length);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            break;
        length += (size_t)got;
    }
    close(file);
    text[length] = '\0';
    return length > 0;
}

/* quota / period rounded up, INT_MAX if they are no limit. */
static int cpus(long long quota, long long period)
{
    if (quota <= 0 || period <= 0)
        return INT_MAX;
    long long count = quota / period + (quota % period != 0);
    return count < INT_MAX ? (int)count : INT_MAX;
}

/* The limit of one group: version 2 keeps "quota period" in one file, 1 in two. */
static int group_quota(const char *folder, bool version2)
{
    char path[4096 + 64], text[64];
    if (version2) {
        char *end;
        snprintf(path, sizeof path, "%s/cpu.max", folder);
        if (!read_text(path, text, sizeof text) || strncmp(text, "max", 3) == 0)
            return INT_MAX;
        long long quota = strtoll(text, &end, 10);
        return cpus(quota, strtoll(end, NULL, 10));
    }
    snprintf(path, sizeof path, "%s/cpu.cfs_quota_us", folder);
    if (!read_text(path, text, sizeof text))
        return INT_MAX;
    long long quota = strtoll(text, NULL, 10);
    snprintf(path, sizeof path, "%s/cpu.cfs_period_us", folder);
    if (!read_text(path, text, sizeof text))
        return INT_MAX;
    return cpus(quota, strtoll(text, NULL, 10));
}

/* The smallest limit from a group up to its root: each of them binds. Inside a container the
 * group's path may not be visible; the root is then the container's own group. */
static int branch_quota(const char *root, const char *group, bool version2)
{
    char folder[4096];
    int least = INT_MAX;
    int length = snprintf(folder, sizeof folder, "%s%s", root, group);
    if (length < 0 || (size_t)length >= sizeof folder)
        return INT_MAX;
    for (;;) {
        int limit = group_quota(folder, version2);
        least = limit < least ? limit : least;
        if (strlen(folder) <= strlen(root))
            return least;
        *strrchr(folder, '/') = '\0'; /* the group begins with a slash */
    }
}

static int cgroup_quota(void)
{
    char text[8192];
    int least = INT_MAX;
    if (!read_text("/proc/self/cgroup", text, sizeof text))
        return INT_MAX;
    /* Lines "id:controllers:/path"; version 2 has id 0 and no controllers. */
    for (char *line = text, *next; line && *line; line = next) {
        next = strchr(line, '\n');
        if (next)
            *next++ = '\0';
        char *controllers = strchr(line, ':');
        char *group = controllers ? strchr(controllers + 1, ':') : NULL;
        if (!group || group[1] != '/')
            continue;
        *group++ = '\0';
        controllers++;
        if (*controllers == '\0') {
            int limit = branch_quota("/sys/fs/cgroup", group, true);
            least = limit < least ? limit : least;
        } else if (strncmp(controllers, "cpu", 3) == 0 &&
                   (controllers[3] == '\0' || controllers[3] == ',')) {
            /* "cpu" and "cpu,cpuacct"; the latter has a link named cpu */
            int limit = branch_quota("/sys/fs/cgroup/cpu", group, false);
            least = limit < least ? limit : least;
        }
    }
    return least;
}
#endif

#if _OPENMP >= 201511
/* Distinct processors of the places to which threads are bound (OMP_PLACES, GOMP_CPU_AFFINITY);
 * INT_MAX if there are none, or more than are worth counting. */
static int placed_processors(void)
{
    enum { MOST = 4096 };
    bool seen[MOST] = {false};
    int ids[MOST], count = 0;
    const int places = omp_get_proc_bind() == omp_proc_bind_false ? 0 : omp_get_num_places();
    for (int i = 0; i < places; i++) {
        const int size = omp_get_place_num_procs(i);
        if (size > MOST)
            return INT_MAX;
        omp_get_place_proc_ids(i, ids);
        for (int j = 0; j < size; j++) {
            if (ids[j] < 0 || ids[j] >= MOST)
                return INT_MAX;
            count += !seen[ids[j]];
            seen[ids[j]] = true;
        }
    }
    return count > 0 ? count : INT_MAX;
}
#else
static int placed_processors(void)
{
    return INT_MAX;
}
#endif

int tsa_processors(void)
{
    const int placed = placed_processors(), all = omp_get_num_procs();
    return placed < all ? placed : all;
}

static int allowed(const char **reason)
{
    /* Never a parallel region: a caller may fork afterwards. */
    int threads = tsa_processors();
    *reason = threads < omp_get_num_procs() ? "OpenMP places" : "affinity";
#ifdef __linux__
    int quota = cgroup_quota();
    if (quota < threads) {
        threads = quota;
        *reason = "cgroup quota";
    }
#endif
    if (omp_get_max_threads() < threads) {
        threads = omp_get_max_threads();
        *reason = "OMP_NUM_THREADS";
    }
    if (omp_get_thread_limit() < threads) {
        threads = omp_get_thread_limit();
        *reason = "OMP_THREAD_LIMIT";
    }
    return threads < 1 ? 1 : threads;
}
#else
static int allowed(const char **reason)
{
    *reason = "built without OpenMP";
    return 1;
}
#endif

int tsa_default_threads(const char **reason)
{
    const char *why;
    int saved_errno = errno;
    int threads = allowed(&why);
    errno = saved_errno;
    if (reason)
        *reason = why;
    return threads;
}
