/* SPDX-License-Identifier: MIT */
/* What a system may do to a process: refuse threads, fork it, bind it to few processors. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* setgroups, sched_getaffinity, chroot */
#endif
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#ifdef __linux__
#include <grp.h>
#include <sched.h>
#endif

#include "support.h"

/* Work that is worth a team: a reduction of states with tokens in them, compared with that of a
 * serial plan. 0, or the number of what failed; without Check, for processes of their own. */
static int reduce(int threads)
{
    enum { COUNT = 3 };
    struct tsa_options options;
    struct tsa_plan *plan[2];
    struct tsa_state *st[COUNT], *sum[2];
    int equal = 0;
    if (tsa_options_init(&options, sizeof options) != TSA_OK)
        return 10;
    options.head_dim = 16;
    options.value_dim = 64;
    options.heads = 8;
    for (int i = 0; i < 2; i++) {
        options.threads = i == 0 ? 1 : threads;
        if (tsa_plan_create(&options, &plan[i], NULL) != TSA_OK ||
            tsa_state_create(plan[i], &sum[i], NULL) != TSA_OK)
            return 11;
        plan[i]->crowded = false;
    }
    for (int i = 0; i < COUNT; i++) {
        if (tsa_state_create(plan[0], &st[i], NULL) != TSA_OK)
            return 12;
        tsa_state_layer(st[i], 0)->tokens = 64; /* of sums that need no tokens to be different */
        for (size_t g = 0; g < 8; g++) {
            float *sums = tsa_state_section(st[i], &plan[0]->layout, sizeof(float), 0, g);
            for (size_t f = 0; f < 153 * 64; f++)
                sums[f] = (float)((double)f / (double)(3 + i));
        }
    }
    for (int i = 0; i < 2; i++)
        if (tsa_state_reduce(plan[i], sum[i], (const struct tsa_state *const *)st, COUNT, NULL) !=
            TSA_OK)
            return 13;
    if (tsa_state_equal(plan[0], sum[0], sum[1], &equal, NULL) != TSA_OK || !equal)
        return 14;
    for (int i = 0; i < COUNT; i++)
        tsa_state_destroy(st[i]);
    for (int i = 0; i < 2; i++) {
        tsa_state_destroy(sum[i]);
        tsa_plan_destroy(plan[i]);
    }
    return 0;
}

/* Fail unless the process ends by itself and with 0. */
static void assert_ends(pid_t pid, const char *what)
{
    int status = -1;
    ck_assert_int_gt(pid, 0);
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert_msg(WIFEXITED(status), "%s: ended by signal %d", what, WTERMSIG(status));
    ck_assert_msg(WEXITSTATUS(status) == 0, "%s: ended with %d", what, WEXITSTATUS(status));
}

static void hang_no_longer(void)
{
    signal(SIGALRM, SIG_DFL); /* Check's handler would end the test itself */
    alarm(60);
}

/* -- refused threads --------------------------------------------------------------------------- */

#if defined(__linux__)
/* 0 if there is no list of threads. */
static size_t count_threads(void)
{
    struct stat folder;
    return stat("/proc/self/task", &folder) == 0 && folder.st_nlink > 2 ? folder.st_nlink - 2 : 0;
}

/* Leave the rights of root, which limits do not bind, for those of a user without processes. */
static bool become_nobody(void)
{
    const unsigned id = 60000 + (unsigned)getpid() % 5000;
    return geteuid() != 0 || (setgroups(0, NULL) == 0 && setgid(id) == 0 && setuid(id) == 0);
}

static void limit(int resource, rlim_t most)
{
    const struct rlimit r = {most, most};
    if (setrlimit(resource, &r) != 0)
        _exit(20);
}

/* So many threads in all are granted to the user, as root can arrange it; any other user has more
 * of them already. No number of threads ends the process, and each works. */
START_TEST(few_threads)
{
    const rlim_t most = (rlim_t)(1 + _i);
    const bool root = geteuid() == 0;
    const pid_t pid = fork();
    if (pid == 0) {
        hang_no_longer();
        if (!become_nobody())
            _exit(21);
        limit(RLIMIT_NPROC, most);
        int failed = reduce(2);
        for (int threads = 8; threads > 1 && failed == 0; threads -= 3)
            failed = reduce(threads);
        if (failed == 0 && root && count_threads() > most)
            failed = 22;
        _exit(failed);
    }
    assert_ends(pid, "few threads");
}
END_TEST

/* No memory for their stacks. */
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
START_TEST(no_stacks)
{
    const pid_t pid = fork();
    if (pid == 0) {
        unsigned long pages = 0;
        FILE *file = fopen("/proc/self/statm", "r");
        hang_no_longer();
        if (file == NULL || fscanf(file, "%lu", &pages) != 1)
            _exit(0); /* not known */
        limit(RLIMIT_STACK, (rlim_t)64 << 20);
        limit(RLIMIT_AS, (rlim_t)pages * (rlim_t)sysconf(_SC_PAGESIZE) + ((rlim_t)48 << 20));
        _exit(reduce(6));
    }
    assert_ends(pid, "no stacks");
}
END_TEST
#endif

/* When threads are granted, all of them are used. */
START_TEST(enough_threads)
{
    const pid_t pid = fork();
    if (pid == 0) {
        hang_no_longer();
        const int failed = reduce(5);
        const size_t threads = count_threads();
#ifdef _OPENMP
        _exit(failed ? failed : threads > 0 && threads < 5 ? 24 : 0);
#else
        _exit(failed ? failed : threads > 1 ? 25 : 0);
#endif
    }
    assert_ends(pid, "enough threads");
}
END_TEST
#endif

/* -- forks ------------------------------------------------------------------------------------- */

#ifdef _OPENMP
#ifdef __linux__
static void *nothing(void *argument)
{
    return argument;
}

/* A fork alone, and a thread that is long gone, take no threads from the calls of a child. */
START_TEST(threads_in_a_child)
{
    const pid_t pid = fork();
    if (pid == 0) {
        pthread_t thread;
        hang_no_longer();
        if (pthread_create(&thread, NULL, nothing, NULL) != 0 || pthread_join(thread, NULL) != 0)
            _exit(50);
        const int failed = reduce(3);
        const size_t threads = count_threads();
        _exit(failed ? failed : threads > 0 && threads < 3 ? 51 : 0);
    }
    assert_ends(pid, "threads in a child");
}
END_TEST
#endif

/* The host alone has used OpenMP; the first plan is that of the child. With a list of threads, and
 * in a process whose root has none. */
START_TEST(first_plan_in_a_child)
{
    char folder[] = "/tmp/tsa-root-XXXXXX", command[64];
    const bool bare = _i == 1;
    if (bare && (geteuid() != 0 || mkdtemp(folder) == NULL))
        return; /* only root may */
    /* clang's runtime ends the process where it cannot share memory */
    snprintf(command, sizeof command, "mkdir -p %s/dev/shm", folder);
    if (bare)
        ck_assert_int_eq(system(command), 0);
    const pid_t host = fork();
    if (host == 0) {
        hang_no_longer();
        if (bare && (chroot(folder) != 0 || chdir("/") != 0))
            _exit(0);
        assert_team(2);
        const pid_t pid = fork();
        if (pid == 0) {
            hang_no_longer();
            _exit(reduce(2));
        }
        int status = -1;
        if (waitpid(pid, &status, 0) != pid)
            _exit(30);
        _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 31);
    }
    assert_ends(host, "the first plan in a child");
    snprintf(command, sizeof command, "rm -r %s", folder);
    if (bare)
        ck_assert_int_eq(system(command), 0);
}
END_TEST

/* -- places ------------------------------------------------------------------------------------ */

/* Runs in a process of its own: the default number of threads is at most `most`. */
static int default_is_at_most(int most)
{
    const char *reason;
    const int threads = tsa_default_threads(&reason);
    struct tsa_options options;
    struct tsa_plan *plan;
    if (threads > most)
        return 40;
    if (tsa_options_init(&options, sizeof options) != TSA_OK)
        return 41;
    options.head_dim = options.value_dim = 4;
    options.threads = most + 1;
    if (tsa_plan_create(&options, &plan, NULL) != TSA_OK)
        return 42;
    const bool crowded = plan->crowded;
    tsa_plan_destroy(plan);
    return crowded ? 0 : 43;
}

extern char **environ;

static pid_t spawn_with(char *setting, char *most)
{
    char *argv[] = {"check_processes", "--at-most", most, NULL};
    size_t count = 0, kept = 0;
    while (environ[count] != NULL)
        count++;
    char **env = calloc(count + 2, sizeof *env);
    for (size_t i = 0; i < count; i++)
        if (strncmp(environ[i], "OMP_", 4) != 0 && strncmp(environ[i], "GOMP_", 5) != 0)
            env[kept++] = environ[i];
    env[kept++] = setting;
    pid_t pid = -1;
    const int failure = posix_spawn(&pid, "/proc/self/exe", NULL, NULL, argv, env);
    free(env);
    return failure == 0 ? pid : -1; /* an emulator, or there is no /proc */
}

#ifdef __linux__
/* One place with one processor is one thread, however many processors there are. */
START_TEST(places)
{
    static const char *const forms[] = {"OMP_PLACES={%d}", "OMP_PLACES={%d},{%d}",
                                        "GOMP_CPU_AFFINITY=%d", "GOMP_CPU_AFFINITY=%d %d"};
    cpu_set_t cpus;
    int first = 0;
    char setting[64];
    CPU_ZERO(&cpus);
    if (sched_getaffinity(0, sizeof cpus, &cpus) != 0)
        return;
    while (first < CPU_SETSIZE - 1 && !CPU_ISSET(first, &cpus))
        first++;
#ifdef __clang__
    if (_i >= 2)
        return; /* a setting of gcc's runtime */
#endif
    snprintf(setting, sizeof setting, forms[_i], first, first);
    const pid_t pid = spawn_with(setting, "1");
    if (pid > 0)
        assert_ends(pid, setting);
}
END_TEST
#endif

START_TEST(thread_limit)
{
    const char *reason;
    const pid_t pid = spawn_with("OMP_THREAD_LIMIT=1", "1");
    ck_assert_int_ge(tsa_default_threads(&reason), 1);
    if (pid > 0) {
        int status = -1;
        ck_assert_int_eq(waitpid(pid, &status, 0), pid);
        ck_assert(WIFEXITED(status) && (WEXITSTATUS(status) == 0 || WEXITSTATUS(status) == 43));
    }
}
END_TEST
#endif

int main(int argc, char **argv)
{
    if (argc == 3 && strcmp(argv[1], "--at-most") == 0) {
#ifdef _OPENMP
        return default_is_at_most(atoi(argv[2]));
#else
        return 0;
#endif
    }
    Suite *suite = suite_create("processes");
#ifdef __linux__
    TCase *refused = add_case(suite, "refused");
    tcase_add_loop_test(refused, few_threads, 0, 9);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
    tcase_add_test(refused, no_stacks);
#endif
    tcase_add_test(refused, enough_threads);
#endif
#ifdef _OPENMP
    TCase *forks = add_case(suite, "forks");
    tcase_add_loop_test(forks, first_plan_in_a_child, 0, 2);
#ifdef __linux__
    tcase_add_test(forks, threads_in_a_child);
#endif
    TCase *bound = add_case(suite, "bound");
#ifdef __linux__
    tcase_add_loop_test(bound, places, 0, 4);
#endif
    tcase_add_test(bound, thread_limit);
#endif
    return run_suite(suite);
}
