/* SPDX-License-Identifier: MIT */
/* Teams: the bits of one thread by OpenMP, inside the caller's own teams and threads, after a fork,
 * and where the runtime grants less than was asked for. */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#ifdef _OPENMP
#include <omp.h>
#endif

#include "scene.h"

extern char **environ;

/* -- OpenMP ------------------------------------------------------------------------------------ */

START_TEST(teams)
{
    struct scene x;
    struct scene_result r;
    struct tsa_error err;
    scene_begin(&x, _i);
    scene_result_make(&x, &r);
    for (int team = 1; team <= 16; team += quick() ? 15 : _i / 2 == 1 ? 5 : 1) {
        struct tsa_plan *plan = problem_plan(&x.p, NULL, team);
        struct tsa_workspace *ws = NULL;
        assert_team(team);
        set_way(plan, (enum way)(team % WAY_WAVES_OF_3));
        if (team % 2 == 0)
            ok(tsa_workspace_create(plan, 0, &ws, &err), &err);
        ck_assert_int_eq(scene_play(&x, plan, &r, ws, CALL_PREFILL, CALLS), 0);
        scene_assert_same(&x, &r, "team");
        tsa_workspace_destroy(ws);
        tsa_plan_destroy(plan);
    }
    scene_result_free(&x, &r);
    scene_end(&x);
}
END_TEST

/* The largest allocation: scratch shows for how many threads it is. */
static void *allocate_measured(void *user, size_t bytes, size_t alignment)
{
    atomic_size_t *most = user;
    size_t old = atomic_load(most);
    while (bytes > old && !atomic_compare_exchange_weak(most, &old, bytes))
        ;
    return aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
}

static void release_measured(void *user, void *memory, size_t bytes)
{
    (void)user, (void)bytes;
    free(memory);
}

static struct tsa_plan *measured_plan(const struct problem *p, atomic_size_t *most, int threads)
{
    struct tsa_options options;
    problem_options(p, &options);
    options.threads = threads;
    options.allocate = allocate_measured;
    options.release = release_measured;
    options.allocator_user = most;
    return make_plan(&options);
}

/* Calls from inside a caller's team are serial, though nested teams were allowed; an executor that
 * the caller gave is asked there too. */
START_TEST(inside_a_team)
{
    enum { TEAM = 4 };
    struct scene x;
    struct scene_result r[TEAM];
    struct host host;
    atomic_size_t most;
    int bad = 0;
    scene_begin(&x, _i);
    for (int i = 0; i < TEAM; i++)
        scene_result_make(&x, &r[i]);
    atomic_init(&most, 0);
    struct tsa_plan *plan = measured_plan(&x.p, &most, 1);
    atomic_store(&most, 0);
    ck_assert_int_eq(scene_play(&x, plan, &r[0], NULL, CALL_PREFILL, CALLS), 0);
    const size_t serial = atomic_load(&most);
    tsa_plan_destroy(plan);
    plan = measured_plan(&x.p, &most, 5);
    atomic_store(&most, 0);
    assert_team(TEAM);
#ifdef _OPENMP
    omp_set_max_active_levels(3);
    ck_assert_int_eq(scene_play(&x, plan, &r[0], NULL, CALL_PREFILL, CALLS), 0);
    ck_assert_uint_gt(atomic_load(&most), serial);
    atomic_store(&most, 0);
#pragma omp parallel for num_threads(TEAM) reduction(+ : bad) schedule(static, 1)
#endif
    for (int i = 0; i < TEAM; i++)
        bad += scene_play(&x, plan, &r[i], NULL, CALL_PREFILL, CALLS);
    ck_assert_int_eq(bad, 0);
    ck_assert_uint_eq(atomic_load(&most), serial);
    for (int i = 0; i < TEAM; i++)
        scene_assert_same(&x, &r[i], "inside a team");
    tsa_plan_destroy(plan);

    host_begin(&host, HOST_REVERSED, 5);
    plan = host_plan(&x.p, &host, 5);
#ifdef _OPENMP
#pragma omp parallel for num_threads(TEAM) reduction(+ : bad) schedule(static, 1)
#endif
    for (int i = 0; i < TEAM; i++)
        bad += scene_play(&x, plan, &r[i], NULL, CALL_PREFILL, CALLS);
    ck_assert_int_eq(bad, 0);
    ck_assert_uint_eq(atomic_load(&host.widest), 5);
    for (int i = 0; i < TEAM; i++) {
        scene_assert_same(&x, &r[i], "inside a team, executor");
        scene_result_free(&x, &r[i]);
    }
    host_end(&host);
    tsa_plan_destroy(plan);
    scene_end(&x);
}
END_TEST

/* -- threads of the caller's own --------------------------------------------------------------- */

struct caller {
    const struct scene *x;
    const struct tsa_plan *plan;
    struct scene_result r;
    int bad;
    pthread_t thread;
};

static void *call_from_thread(void *user)
{
    struct caller *c = user;
    for (int round = 0; round < (quick() ? 1 : 4); round++) {
        c->bad += scene_play(c->x, c->plan, &c->r, NULL, CALL_PREFILL, CALLS);
        c->bad += !scene_same(c->x, &c->r);
    }
    return NULL;
}

/* Two at once: with a plan each, with one plan, and with one that has an executor. */
START_TEST(two_callers)
{
    struct scene x;
    struct caller c[2];
    struct host host;
    scene_begin(&x, quick() ? 0 : _i % 2);
    host_begin(&host, HOST_POOL, 3);
    struct tsa_plan *plan[2];
    plan[0] = _i / 2 < 2 ? problem_plan(&x.p, NULL, 3) : host_plan(&x.p, &host, 3);
    plan[1] = _i / 2 < 1 ? problem_plan(&x.p, NULL, 2) : plan[0];
    for (int i = 0; i < 2; i++) {
        c[i] = (struct caller){.x = &x, .plan = plan[i]};
        scene_result_make(&x, &c[i].r);
    }
    for (int i = 0; i < 2; i++)
        ck_assert_int_eq(pthread_create(&c[i].thread, NULL, call_from_thread, &c[i]), 0);
    for (int i = 0; i < 2; i++)
        ck_assert_int_eq(pthread_join(c[i].thread, NULL), 0);
    for (int i = 0; i < 2; i++) {
        scene_assert_same(&x, &c[i].r, "two callers");
        ck_assert_int_eq(c[i].bad, 0);
        scene_result_free(&x, &c[i].r);
    }
    if (plan[1] != plan[0])
        tsa_plan_destroy(plan[1]);
    tsa_plan_destroy(plan[0]);
    host_end(&host);
    scene_end(&x);
}
END_TEST

/* -- processes --------------------------------------------------------------------------------- */

/* What a forked child does, and its own child: 0, or the number of what failed. */
static int in_child(const struct scene *x, const struct tsa_plan *plan, struct scene_result *r,
                    struct tsa_workspace *ws, int children)
{
    struct tsa_options options;
    struct tsa_error err;
    struct tsa_plan *own;
    signal(SIGALRM, SIG_DFL); /* Check's handler would end the test itself */
    alarm(quick() ? 300 : 60);
    if (scene_play(x, plan, r, NULL, CALL_PREFILL, CALLS) != 0)
        return 1;
    if (!scene_same(x, r))
        return 2;
    if (scene_play(x, plan, r, ws, CALL_PREFILL, CALLS) != 0)
        return 3;
    if (!scene_same(x, r))
        return 4;
    problem_options(&x->p, &options);
    options.threads = 3;
    if (tsa_plan_create(&options, &own, &err) != TSA_OK)
        return 5;
    if (scene_play(x, own, r, NULL, CALL_PREFILL, CALLS) != 0 || !scene_same(x, r))
        return 6;
    tsa_plan_destroy(own);
    if (children == 0)
        return 0;
    const pid_t pid = fork();
    if (pid == 0)
        _exit(in_child(x, plan, r, ws, children - 1));
    int status = 0;
    if (pid < 0 || waitpid(pid, &status, 0) != pid)
        return 7;
    return WIFEXITED(status) ? WEXITSTATUS(status) * 10 : 8;
}

/* A child has none of the threads that its parent had; its calls work, and the parent's go on. */
START_TEST(forks)
{
    enum { TEAM = 4 };
    struct scene x;
    struct scene_result r;
    struct tsa_error err;
    struct tsa_workspace *ws;
    scene_begin(&x, _i);
    scene_result_make(&x, &r);
    struct tsa_plan *plan = problem_plan(&x.p, NULL, TEAM);
    ok(tsa_workspace_create(plan, 0, &ws, &err), &err);
    for (int round = 0; round < 2; round++) {
        ck_assert_int_eq(scene_play(&x, plan, &r, ws, CALL_PREFILL, CALLS), 0);
        scene_assert_same(&x, &r, "before a fork");
#ifdef _OPENMP
        const size_t threads = os_threads();
        ck_assert(threads == 0 || threads >= TEAM);
#endif
        const pid_t pid = fork();
        ck_assert_int_ge(pid, 0);
        if (pid == 0)
            _exit(in_child(&x, plan, &r, ws, 1));
        int status = -1;
        ck_assert_int_eq(waitpid(pid, &status, 0), pid);
        ck_assert_msg(WIFEXITED(status), "the child ended by signal %d", WTERMSIG(status));
        ck_assert_int_eq(WEXITSTATUS(status), 0);
    }
    ck_assert_int_eq(scene_play(&x, plan, &r, NULL, CALL_PREFILL, CALLS), 0);
    scene_assert_same(&x, &r, "after a fork");
    tsa_workspace_destroy(ws);
    tsa_plan_destroy(plan);
    scene_result_free(&x, &r);
    scene_end(&x);
}
END_TEST

#ifdef _OPENMP
/* The same where only the host has used OpenMP: the library has a plan, but has run no team. */
START_TEST(fork_of_a_host)
{
    struct scene x;
    struct scene_result r;
    scene_begin(&x, 0);
    scene_result_make(&x, &r);
    struct tsa_plan *plan = problem_plan(&x.p, NULL, 4);
    assert_team(4);
    const pid_t pid = fork();
    ck_assert_int_ge(pid, 0);
    if (pid == 0)
        _exit(in_child(&x, plan, &r, NULL, 0));
    int status = -1;
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert_msg(WIFEXITED(status), "the child ended by signal %d", WTERMSIG(status));
    ck_assert_int_eq(WEXITSTATUS(status), 0);
    tsa_plan_destroy(plan);
    scene_result_free(&x, &r);
    scene_end(&x);
}
END_TEST

/* Runs in a process of its own, whose environment limits OpenMP. */
static int granted_at_most;

START_TEST(limited)
{
    struct scene x;
    struct scene_result r;
    scene_begin(&x, 0);
    scene_result_make(&x, &r);
    for (int way = 0; way < WAY_WAVES_OF_3; way++) {
        struct tsa_plan *plan = problem_plan(&x.p, NULL, 8);
        set_way(plan, (enum way)way);
        ck_assert_int_eq(scene_play(&x, plan, &r, NULL, CALL_PREFILL, CALLS), 0);
        scene_assert_same(&x, &r, "limited");
        tsa_plan_destroy(plan);
    }
    int granted = 0;
#pragma omp parallel num_threads(8)
#pragma omp single
    granted = omp_get_num_threads();
    ck_assert_int_ge(granted, 1);
    ck_assert_int_le(granted, granted_at_most);
    if (granted_at_most == 2)
        ck_assert_int_eq(omp_get_thread_limit(), 2);
    else
        ck_assert_int_ne(omp_get_dynamic(), 0);
    scene_result_free(&x, &r);
    scene_end(&x);
}
END_TEST

/* Eight threads are asked for; the runtime has other views. */
START_TEST(limits)
{
    static char *const setting[] = {"OMP_DYNAMIC=true", "OMP_THREAD_LIMIT=2"};
    static char *const most[] = {"8", "2"};
    char *argv[] = {"check_threads", "--limited", most[_i], NULL};
    size_t count = 0, kept = 0;
    while (environ[count] != NULL)
        count++;
    char **env = calloc(count + 4, sizeof *env);
    for (size_t i = 0; i < count; i++)
        if (strncmp(environ[i], "OMP_", 4) != 0 && strncmp(environ[i], "CK_", 3) != 0)
            env[kept++] = environ[i];
    env[kept++] = setting[_i];
    env[kept++] = "CK_FORK=no"; /* which would be a fork after use */
    env[kept++] = "CK_VERBOSITY=minimal";
    pid_t pid;
    const int failure = posix_spawn(&pid, "/proc/self/exe", NULL, NULL, argv, env);
    free(env);
    if (failure == ENOEXEC || failure == ENOENT) /* an emulator, or there is no /proc */
        return;
    ck_assert_int_eq(failure, 0);
    int status = -1;
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == 0, "with %s: status %#x", setting[_i],
                  (unsigned)status);
}
END_TEST
#endif

/* Emulators and sanitizers have threads of their own. LLVM's runtime spins for 200 ms. */
#if defined(__clang__) || defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
#define CALM 0
#else
#define CALM 1
#endif

static double cpu_seconds(void)
{
    struct timespec t;
    ck_assert_int_eq(clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t), 0);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void sleep_milliseconds(long ms)
{
    const struct timespec t = {0, ms * 1000000};
    nanosleep(&t, NULL);
}

/* Soon after a call the process uses no time of any CPU. */
START_TEST(idle)
{
    struct scene x;
    struct scene_result r;
    if (!CALM || quick() || getenv("OMP_WAIT_POLICY") != NULL || getenv("GOMP_SPINCOUNT") != NULL)
        return;
    scene_begin(&x, 0);
    scene_result_make(&x, &r);
    struct tsa_plan *plan = problem_plan(&x.p, NULL, 4);
    for (int round = 0; round < 3; round++) {
        ck_assert_int_eq(scene_play(&x, plan, &r, NULL, CALL_PREFILL, CALLS), 0);
        sleep_milliseconds(100);
        const double from = cpu_seconds();
        sleep_milliseconds(200);
        const double used = cpu_seconds() - from;
        ck_assert_msg(used < 0.005, "%g s of CPU time while idle", used);
    }
    tsa_plan_destroy(plan);
    scene_result_free(&x, &r);
    scene_end(&x);
}
END_TEST

int main(int argc, char **argv)
{
    Suite *suite = suite_create(argc == 3 ? "limited" : "threads");
#ifdef _OPENMP
    if (argc == 3 && strcmp(argv[1], "--limited") == 0) {
        granted_at_most = atoi(argv[2]);
        tcase_add_test(add_case(suite, "limited"), limited);
        return run_suite(suite);
    }
#endif
    (void)argc, (void)argv;
    TCase *openmp = add_case(suite, "openmp");
    tcase_add_loop_test(openmp, teams, 0, quick() ? 1 : 4);
    tcase_add_loop_test(openmp, inside_a_team, 0, quick() ? 1 : 3);
    tcase_add_loop_test(add_case(suite, "callers"), two_callers, 0, 6);
    TCase *processes = add_case(suite, "processes");
    tcase_add_loop_test(processes, forks, 0, quick() ? 1 : 2);
#ifdef _OPENMP
    tcase_add_test(processes, fork_of_a_host);
    tcase_add_loop_test(processes, limits, 0, 2);
#endif
    tcase_add_test(processes, idle);
    return run_suite(suite);
}
