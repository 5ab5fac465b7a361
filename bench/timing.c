/* SPDX-License-Identifier: MIT */
/* How time is taken: iterations doubled until a repeat is long enough, many repeats, the works of
 * a comparison in turn. */
#include "config.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "bench.h"

/* A comparison ends early, after at least 3 repeats, when it has taken this many seconds a work. */
#define LONGEST 6.0
#define MAX_WORKS 24
#define MAX_REPEATS 100

static double processor_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

void *bench_memory(size_t bytes)
{
    void *memory = NULL;
    if (posix_memalign(&memory, 64, bytes ? bytes : 1))
        return NULL;
    return memset(memory, 0, bytes);
}

/* Read and write more memory than the caches hold. */
static void wipe_caches(void)
{
    enum { WIPE = 96 << 20 };
    static unsigned char *memory;
    if (!memory && !(memory = malloc(WIPE)))
        return;
    for (size_t i = 0; i < WIPE; i += 64)
        memory[i]++;
}

int bench_compare(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Seconds of `iterations` runs, negative on failure. On one thread the processor time leaves out
 * what other programs took; the wall time leaves out nothing else. */
static double run(const struct bench_timing *timing, const struct bench_work *work,
                  size_t iterations)
{
    if (work->before && !work->before(work->context))
        return -1;
    const double cpu = processor_seconds(), wall = cmd_seconds();
    if (!work->run(work->context, iterations))
        return -1;
    const double wall_took = cmd_seconds() - wall;
    const double cpu_took = processor_seconds() - cpu;
    return timing->cpu && cpu_took < wall_took ? cpu_took : wall_took;
}

bool bench_measure(const struct bench_timing *timing, const struct bench_work *works, size_t count,
                   struct bench_stats *stats)
{
    static double times[MAX_WORKS][MAX_REPEATS];
    const int wanted = timing->repeats < MAX_REPEATS ? timing->repeats : MAX_REPEATS;
    int repeats = 0;

    if (count > MAX_WORKS)
        return false;
    for (size_t i = 0; i < count; i++) {
        stats[i].iterations = 1;
        for (;;) { /* also warms caches and wide registers */
            const double took = run(timing, &works[i], stats[i].iterations);
            if (took < 0)
                return false;
            if (timing->cold || took >= timing->seconds)
                break;
            stats[i].iterations *= 2;
        }
    }
    const double start = cmd_seconds();
    while (repeats < wanted) {
        for (size_t i = 0; i < count; i++) {
            if (timing->cold)
                wipe_caches();
            const double took = run(timing, &works[i], stats[i].iterations);
            if (took < 0)
                return false;
            times[i][repeats] = took / (double)stats[i].iterations;
        }
        repeats++;
        if (repeats >= 3 && cmd_seconds() - start > LONGEST * (double)count)
            break;
    }
    for (size_t i = 0; i < count; i++) {
        qsort(times[i], (size_t)repeats, sizeof times[i][0], bench_compare);
        stats[i].min = times[i][0];
        stats[i].median = (times[i][(repeats - 1) / 2] + times[i][repeats / 2]) / 2;
        stats[i].spread = stats[i].median / stats[i].min - 1;
    }
    return true;
}
