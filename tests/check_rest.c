/* SPDX-License-Identifier: MIT */
/* Teams that do not pay rest, and try again: the account by itself, then calls while teams rest.
 * The memory belongs to the process; Check runs each test in a process of its own. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* nanosleep */
#endif
#include <time.h>

#include "support.h"
#include "team.h"
#include "tuning.h"

#ifdef _OPENMP
#define US INT64_C(1000)

static void may_rest(void)
{
    tsa_team_may_rest = true;
}

/* A team of two has run so long, of which each has computed so much. */
static void account(int64_t ended, int64_t wall, int64_t own, int64_t other)
{
    struct tsa_share shares[2];
    memset(shares, 0, sizeof shares);
    shares[0].done = shares[1].done = 1;
    shares[0].busy = own;
    shares[1].busy = other;
    tsa_team_account(shares, 2, ended - wall, ended);
}

/* A loss of 4 ms makes teams rest for TSA_REST_FACTOR times as long, not longer. */
START_TEST(rest)
{
    const int64_t now = tsa_team_clock(), lost = 4000 * US;
    ck_assert(!tsa_team_rests(now));
    account(now, lost + 200 * US, 100 * US, 100 * US);
    ck_assert(tsa_team_rests(now));
    ck_assert(tsa_team_rests(now + TSA_REST_FACTOR * lost - 1));
    ck_assert(!tsa_team_rests(now + TSA_REST_FACTOR * lost));
}
END_TEST

/* Work that was shared out well is a gain, and what others gain or lose in between adds up. */
START_TEST(sum)
{
    const int64_t now = tsa_team_clock();
    for (int i = 0; i < 100; i++)
        account(now, 100 * US, 99 * US, 98 * US);
    account(now, 200 * US, 20 * US, 20 * US); /* less than the credit */
    ck_assert(!tsa_team_rests(now));
    for (int i = 0; i < 100; i++)
        account(now, 21 * US, 10 * US, 10 * US); /* a little each time */
    ck_assert(tsa_team_rests(now));
}
END_TEST

/* However much was gained before, one long wait is noticed. */
START_TEST(credit)
{
    const int64_t now = tsa_team_clock();
    for (int i = 0; i < 1000; i++)
        account(now, 10000 * US, 10000 * US, 10000 * US);
    account(now, TSA_REST_CREDIT + TSA_REST_LOSS + 2 * US, US, 0);
    ck_assert(tsa_team_rests(now));
}
END_TEST

/* Who has done nothing has not computed, whatever a share of an earlier run says. */
START_TEST(idle)
{
    const int64_t now = tsa_team_clock();
    struct tsa_share shares[2];
    memset(shares, 0, sizeof shares);
    shares[0].done = 2;
    shares[0].busy = 100 * US;
    shares[1].busy = 9000 * US;
    tsa_team_account(shares, 2, now - 5000 * US, now);
    ck_assert(tsa_team_rests(now));
}
END_TEST

struct seen {
    size_t other; /* tasks that another thread has run */
};
static void note(const void *argument, size_t thread, size_t index)
{
    (void)index;
    if (thread > 0)
        __atomic_add_fetch(&((struct seen *)(uintptr_t)argument)->other, 1, __ATOMIC_RELAXED);
}

/* While teams rest the caller does every task, unless a test asks for the team. */
START_TEST(caller)
{
    struct tsa_options options;
    struct tsa_share shares[5];
    struct seen seen = {0};
    ck_assert_int_eq(tsa_options_init(&options, sizeof options), TSA_OK);
    options.head_dim = options.value_dim = 8;
    options.threads = 4;
    struct tsa_plan *plan = make_plan(&options);
    const struct tsa_team team = {.plan = plan, .threads = 4, .shares = shares};
    const int64_t now = tsa_team_clock();
    account(now, 600 * 1000000 * US / 1000, 0, 0); /* half a second, so a rest of eight */
    for (int i = 0; i < 50; i++)
        tsa_team_run(&team, 0, 64, note, &seen);
    ck_assert_uint_eq(seen.other, 0);
    tsa_team_may_rest = false;
    for (int i = 0; i < 5000 && __atomic_load_n(&seen.other, __ATOMIC_RELAXED) == 0; i++)
        tsa_team_run(&team, 0, 64, note, &seen);
    ck_assert_uint_gt(seen.other, 0);
    tsa_plan_destroy(plan);
}
END_TEST

/* The processor time of a thread that has slept is not the time that went by. It is known if the
 * thread was asked shortly before, which a busy machine may prevent: so one time of many. */
START_TEST(asleep)
{
    const struct timespec sleep = {.tv_nsec = 5000000};
    bool known = false;
    for (int i = 0; i < 200 && !known; i++) {
        int64_t before = tsa_team_clock();
        const int64_t began = before;
        while (before - began < 2 * TSA_REST_SAMPLE)
            before = tsa_team_clock();
        ck_assert_int_ge(tsa_team_busy(began, before), 0);
        nanosleep(&sleep, NULL);
        const int64_t after = tsa_team_clock(), busy = tsa_team_busy(before, after);
        ck_assert_int_le(busy, after - before);
        known = busy < (after - before) / 2;
    }
    ck_assert(known);
}
END_TEST
#endif

int main(void)
{
    Suite *suite = suite_create("rest");
#ifdef _OPENMP
    TCase *account = add_case(suite, "account");
    tcase_add_checked_fixture(account, may_rest, NULL);
    tcase_add_test(account, rest);
    tcase_add_test(account, sum);
    tcase_add_test(account, credit);
    tcase_add_test(account, idle);
    tcase_add_test(account, asleep);
    TCase *calls = add_case(suite, "calls");
    tcase_add_checked_fixture(calls, may_rest, NULL);
    tcase_add_test(calls, caller);
#else
    add_case(suite, "nothing without OpenMP");
#endif
    return run_suite(suite);
}
