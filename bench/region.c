/* SPDX-License-Identifier: MIT */
/* What threads cost before they do anything: parallel regions and barriers of OpenMP. */
#include "config.h"

#ifdef _OPENMP
#include <omp.h>
#endif

#include "bench.h"

#ifdef _OPENMP
void bench_region_enter(int threads)
{
#pragma omp parallel num_threads(threads)
    { /* a compiler may take out a region that does nothing */
        volatile int here = 1;
        (void)here;
    }
}

static bool enter_work(void *context, size_t iterations)
{
    const struct bench_region *r = context;
    while (iterations--)
        bench_region_enter(r->threads);
    return true;
}

static bool barrier_work(void *context, size_t iterations)
{
    const struct bench_region *r = context;
#pragma omp parallel num_threads(r->threads)
    for (size_t i = 0; i < iterations; i++) {
#pragma omp barrier
    }
    return true;
}

bool bench_region_measure(struct bench_region *r, int threads)
{
    const struct bench_timing timing = {.seconds = 2e-3, .repeats = 15};
    const struct bench_work works[2] = {{.run = enter_work, .context = r},
                                        {.run = barrier_work, .context = r}};
    struct bench_stats stats[2];

    *r = (struct bench_region){.threads = threads, .granted = 1};
    if (threads < 2)
        return true;
#pragma omp parallel num_threads(threads)
#pragma omp single
    r->granted = omp_get_num_threads();
    if (!bench_measure(&timing, works, 2, stats))
        return false;
    r->region = stats[0].min;
    r->barrier = stats[1].min;
    return true;
}
#else
void bench_region_enter(int threads)
{
    (void)threads;
}

bool bench_region_measure(struct bench_region *r, int threads)
{
    *r = (struct bench_region){.threads = threads, .granted = 1};
    return true;
}
#endif
