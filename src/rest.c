/* SPDX-License-Identifier: MIT */
/* Teams that do not pay. On a machine where other processes compute, a thread of the team may wait
 * for a processor while the others wait for it, milliseconds for work of microseconds. What a team
 * has taken is compared with what the calling thread alone would have taken; when teams lose more
 * than they gain, they rest for TSA_REST_FACTOR times as long as was lost, and the calling thread
 * computes alone, so that a small part of the time is lost. Then they try again. The memory is the
 * process's; nothing here decides what is computed. */
#include "config.h"

#include "team.h"
#include "tuning.h"

#ifdef _OPENMP
#include <time.h>

bool tsa_team_may_rest = true;

static _Atomic int64_t rest_end;    /* by tsa_team_clock */
static _Atomic int64_t lost_so_far; /* ns that teams have lost, less what they have gained */

static int64_t clock_ns(clockid_t clock)
{
    struct timespec t = {0};
    clock_gettime(clock, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

int64_t tsa_team_clock(void)
{
    return clock_ns(CLOCK_MONOTONIC);
}

bool tsa_team_rests(int64_t now)
{
    return tsa_team_may_rest && now < atomic_load_explicit(&rest_end, memory_order_relaxed);
}

/* Asking for the processor time may take a microsecond: it is done at most once in so many ns. What
 * the thread has had since then, less the time between, is a bound; none if it has rested. */
int64_t tsa_team_busy(int64_t began, int64_t ended)
{
    static _Thread_local int64_t last_busy, last_ended;
    const int64_t time = ended - began, between = began - last_ended;
    if (ended - last_ended < TSA_REST_SAMPLE)
        return time;
    const int64_t busy = clock_ns(CLOCK_THREAD_CPUTIME_ID), most = busy - last_busy - between;
    last_busy = busy;
    last_ended = ended;
    return between > 2 * TSA_REST_SAMPLE || most > time ? time : most > 0 ? most : 0;
}

/* What is lost is the time beyond what the caller alone would have taken. */
void tsa_team_account(const struct tsa_share *shares, size_t threads, int64_t began, int64_t ended)
{
    int64_t lost = ended - began;
    for (size_t i = 0; i < threads; i++)
        if (shares[i].done > 0)
            lost -= shares[i].busy;
    int64_t sum = atomic_load_explicit(&lost_so_far, memory_order_relaxed) + lost;
    if (sum < -TSA_REST_CREDIT)
        sum = -TSA_REST_CREDIT;
    if (sum > TSA_REST_LOSS) {
        atomic_store_explicit(&rest_end, ended + TSA_REST_FACTOR * sum, memory_order_relaxed);
        sum = 0;
    }
    atomic_store_explicit(&lost_so_far, sum, memory_order_relaxed);
}
#endif
