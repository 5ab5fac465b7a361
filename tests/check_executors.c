/* SPDX-License-Identifier: MIT */
/* The caller's executor: every call asks it, OpenMP then starts no thread, and the bits are those
 * of one thread. */
#include <stdlib.h>

#include "scene.h"

/* Each call asks the executor, for no more than it may. */
START_TEST(executors)
{
    static const int teams[] = {3, 2, 8};
    struct scene x;
    struct scene_result r;
    struct host host;
    struct tsa_error err;
    scene_begin(&x, _i / HOSTS);
    scene_result_make(&x, &r);
    host_begin(&host, (enum host_how)(_i % HOSTS), 0);
    for (size_t i = 0; i < (quick() ? 1 : 3); i++) {
        host.most = (size_t)teams[i];
        struct tsa_plan *plan = host_plan(&x.p, &host, teams[i]);
        for (enum scene_call j = CALL_PREFILL; j < CALLS; j++) {
            const size_t calls = atomic_load(&host.calls);
            ck_assert_int_eq(scene_play(&x, plan, &r, NULL, j, j + 1), 0);
            ck_assert_msg(atomic_load(&host.calls) > calls, "%s did not ask the executor",
                          scene_call_names[j]);
        }
        scene_assert_same(&x, &r, "executor");
        ck_assert_uint_eq(atomic_load(&host.widest), host.most);
        atomic_store(&host.widest, 0);
        tsa_plan_destroy(plan);
    }
    /* a workspace for fewer threads; forced waves and steps */
    for (int way = WAY_RELAY; way < WAY_WAVES_OF_3; way++) {
        struct tsa_plan *plan = host_plan(&x.p, &host, 8);
        struct tsa_workspace *ws;
        set_way(plan, (enum way)way);
        ok(tsa_workspace_create(plan, 2, &ws, &err), &err);
        host.most = 2;
        ck_assert_int_eq(scene_play(&x, plan, &r, ws, CALL_PREFILL, CALL_REDUCE), 0);
        host.most = 8; /* reduce takes no workspace */
        ck_assert_int_eq(scene_play(&x, plan, &r, NULL, CALL_REDUCE, CALLS), 0);
        scene_assert_same(&x, &r, "executor, workspace for two");
        tsa_workspace_destroy(ws);
        tsa_plan_destroy(plan);
    }
    host_end(&host);
    scene_result_free(&x, &r);
    scene_end(&x);
}
END_TEST

/* One thread needs no executor. */
START_TEST(executor_of_one)
{
    struct scene x;
    struct scene_result r;
    struct host host;
    scene_begin(&x, _i);
    scene_result_make(&x, &r);
    host_begin(&host, HOST_SERIAL, 1);
    struct tsa_plan *plan = host_plan(&x.p, &host, 1);
    ck_assert_int_eq(scene_play(&x, plan, &r, NULL, CALL_PREFILL, CALLS), 0);
    scene_assert_same(&x, &r, "executor of one");
    ck_assert_uint_eq(atomic_load(&host.calls), 0);
    tsa_plan_destroy(plan);
    host_end(&host);
    scene_result_free(&x, &r);
    scene_end(&x);
}
END_TEST

/* With an executor OpenMP starts no thread; without, it does. */
START_TEST(no_openmp)
{
    enum { TEAM = 13 };
    struct scene x;
    struct scene_result r;
    struct host host;
    scene_begin(&x, 0);
    scene_result_make(&x, &r);
    host_begin(&host, HOST_SERIAL, TEAM);
    struct tsa_plan *plan = host_plan(&x.p, &host, TEAM);
    const size_t before = os_threads();
    ck_assert_int_eq(scene_play(&x, plan, &r, NULL, CALL_PREFILL, CALLS), 0);
    ck_assert_uint_eq(os_threads(), before);
    ck_assert_uint_eq(atomic_load(&host.widest), TEAM);
    scene_assert_same(&x, &r, "executor");
    tsa_plan_destroy(plan);
    plan = problem_plan(&x.p, NULL, TEAM);
    ck_assert_int_eq(scene_play(&x, plan, &r, NULL, CALL_PREFILL, CALLS), 0);
    scene_assert_same(&x, &r, "no executor");
#ifdef _OPENMP
    ck_assert(before == 0 || os_threads() >= TEAM);
#else
    ck_assert_uint_eq(os_threads(), before);
#endif
    tsa_plan_destroy(plan);
    host_end(&host);
    scene_result_free(&x, &r);
    scene_end(&x);
}
END_TEST

/* What became of two of the pointers is not taken from the others. */
START_TEST(reserved_options)
{
    struct problem p;
    struct tsa_options options;
    struct tsa_error err;
    struct tsa_plan *plan;
    struct shape s = scene_shapes[1];
    s.dtype = TSA_F32;
    problem_make(&p, &s, 3100);
    for (size_t i = 0; i < sizeof options.reserved / sizeof *options.reserved; i++) {
        problem_options(&p, &options);
        options.execute = host_execute;
        options.reserved[i] = &options;
        ck_assert_int_eq(tsa_plan_create(&options, &plan, &err), TSA_EINVAL);
        ck_assert_str_eq(err.argument, "reserved");
        ck_assert_ptr_null(plan);
    }
    problem_free(&p);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("executors");
    TCase *hosts = add_case(suite, "hosts");
    tcase_add_test(hosts, no_openmp);
    tcase_add_loop_test(hosts, executors, 0, (quick() ? 1 : 4) * HOSTS);
    tcase_add_loop_test(hosts, executor_of_one, 0, quick() ? 1 : 2);
    tcase_add_test(hosts, reserved_options);
    return run_suite(suite);
}
