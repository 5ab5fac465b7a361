/* SPDX-License-Identifier: MIT */
/* Teams: the bits of one thread by OpenMP, by the caller's executor, inside the caller's own teams
 * and threads, after a fork, and where the runtime grants less than was asked for; and the tree
 * that reduces many states. */
#include <dirent.h>
#include <errno.h>
#include <fenv.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#ifdef _OPENMP
#include <omp.h>
#endif

#include "support.h"

#define L2 TSA_NORMALIZE_L2
#define RAW TSA_NORMALIZE_NONE

extern char **environ;

/* -- scenes: every call that computes, with work for a team ------------------------------------ */

enum entry {
    PREFILL,
    ABSORB,
    DECODE,
    PACKED,
    PADDED,
    SLOTS,
    QUERY,
    ONE_QUERY,
    SOFTMAX,
    REDUCE,
    ENTRIES
};
static const char *const entry_names[] = {"prefill", "absorb", "decode",  "packed",  "padded",
                                          "slots",   "query",  "a query", "softmax", "reduce"};

#define MOST_STATES 6

static const struct shape scene_shapes[] = {
    /* many heads; and one, of whose sums even a step shares out the columns */
    {16, 64, 4, 8, 4, 2, MOST_STATES, 20, 0, L2, COEF_TAYLOR, TEMP_PER_HEAD},
    {16, 80, 5, 16, 3, 1, 1, 37, 0, L2, COEF_TAYLOR, TEMP_PER_HEAD},
};

/* States after all calls, the last of them reduced from the others; and outputs of each call. */
struct result {
    struct tsa_state *states[MOST_STATES + 1];
    void *out;
};

struct scene {
    struct problem p;
    int64_t offsets[MOST_STATES + 1], lengths[MOST_STATES], slots[MOST_STATES];
    size_t slot_count;
    struct tsa_plan *one; /* thread, */
    struct result want;   /* and what it computes */
};

static void result_make(const struct scene *s, struct result *r)
{
    struct tsa_error err;
    for (size_t b = 0; b <= s->p.shape.batch; b++)
        ok(tsa_state_create(s->one, &r->states[b], &err), &err);
    r->out = make_zeros(ENTRIES * s->p.o_count, s->p.shape.dtype);
}

static void result_free(const struct scene *s, struct result *r)
{
    for (size_t b = 0; b <= s->p.shape.batch; b++)
        tsa_state_destroy(r->states[b]);
    free(r->out);
}

static enum tsa_status enter(enum entry i, const struct scene *x, const struct tsa_plan *plan,
                             struct result *r, struct tsa_workspace *ws, struct tsa_error *err)
{
    const struct problem *p = &x->p;
    const struct shape *s = &p->shape;
    const struct tsa_tensor *q = &p->q, *k = &p->k, *v = &p->v;
    const struct tsa_tensor all = dense(r->out, s->dtype, s->heads, s->tokens, s->dv);
    const struct tsa_tensor own = from_batch(all, i * s->batch), *o = &own;
    struct tsa_state *const *st = r->states;
    const struct tsa_state *const *read = (const struct tsa_state *const *)st;
    const size_t b = s->batch, n = s->tokens;
    switch (i) {
    case PREFILL:
        return tsa_prefill(
            plan, BATCH(.states = st, .count = b, .tokens = n, .q = *q, .k = *k, .v = *v, .o = *o),
            ws, err);
    case ABSORB:
        return tsa_absorb(plan, BATCH(.states = st, .count = b, .tokens = n, .k = *k, .v = *v), ws,
                          err);
    case DECODE:
        return tsa_decode(plan, BATCH(.states = st, .count = b, .q = *q, .k = *k, .v = *v, .o = *o),
                          ws, err);
    case PACKED:
        return tsa_prefill(plan,
                           BATCH(.states = st, .count = b, .offsets = x->offsets, .q = *q, .k = *k,
                                 .v = *v, .o = *o),
                           ws, err);
    case PADDED:
        return tsa_prefill(plan,
                           BATCH(.states = st, .count = b, .tokens = n, .lengths = x->lengths,
                                 .q = *q, .k = *k, .v = *v, .o = *o),
                           ws, err);
    case SLOTS:
        return tsa_decode(plan,
                          BATCH(.states = st, .slots = x->slots, .count = x->slot_count, .q = *q,
                                .k = *k, .v = *v, .o = *o),
                          ws, err);
    case QUERY:
        return tsa_query(plan, BATCH(.states = st, .count = b, .tokens = n, .q = *q, .o = *o), ws,
                         err);
    case ONE_QUERY:
        return tsa_query(plan, BATCH(.states = st, .count = b, .tokens = 1, .q = *q, .o = *o), ws,
                         err);
    case SOFTMAX:
        return tsa_softmax(plan, b, n, n, 1, q, k, v, o, ws, err);
    default:
        return tsa_state_reduce(plan, st[b], read, b, err);
    }
}

/* Calls from..to-1, from empty states if that is all or the first of them. Returns how many failed;
 * asserts nothing, so that any thread and any process may play. */
static int play(const struct scene *x, const struct tsa_plan *plan, struct result *r,
                struct tsa_workspace *ws, enum entry from, enum entry to)
{
    struct tsa_error err;
    int bad = 0;
    if (from == 0) {
        memset(r->out, 0, ENTRIES * x->p.o_count * dtype_size(x->p.shape.dtype));
        for (size_t b = 0; b <= x->p.shape.batch; b++)
            bad += tsa_state_reset(plan, r->states[b], &err) != TSA_OK;
    }
    for (enum entry i = from; i < to; i++)
        bad += enter(i, x, plan, r, ws, &err) != TSA_OK;
    return bad;
}

static bool same(const struct scene *x, const struct result *r)
{
    struct tsa_error err;
    const size_t bytes = ENTRIES * x->p.o_count * dtype_size(x->p.shape.dtype);
    bool all = memcmp(r->out, x->want.out, bytes) == 0;
    for (size_t b = 0; b <= x->p.shape.batch; b++) {
        int equal = 0;
        all = tsa_state_equal(x->one, r->states[b], x->want.states[b], &equal, &err) == TSA_OK &&
              equal == 1 && all;
    }
    return all;
}

/* The same, and says what differs. */
static void assert_same(const struct scene *x, const struct result *r, const char *what)
{
    const size_t bytes = x->p.o_count * dtype_size(x->p.shape.dtype);
    char name[100];
    for (size_t i = 0; i < ENTRIES; i++) {
        snprintf(name, sizeof name, "%s, %s", what, entry_names[i]);
        assert_bits((char *)r->out + i * bytes, (char *)x->want.out + i * bytes, x->p.shape.dtype,
                    x->p.o_count, name);
    }
    CHECK(same(x, r), "%s: states differ", what);
}

static void scene_begin(struct scene *x, int index)
{
    struct shape s = scene_shapes[index / 2];
    s.dtype = index % 2 == 0 ? TSA_F32 : TSA_F64;
    problem_make(&x->p, &s, 3000 + (uint64_t)index);
    x->one = problem_plan(&x->p, NULL, 1);
    for (size_t b = 0; b <= s.batch; b++) /* in the rows of sequence 0 */
        x->offsets[b] = (int64_t)(s.tokens * b * b / (s.batch * s.batch));
    x->slot_count = 0;
    for (size_t b = s.batch; b-- > 0;) {
        x->lengths[b] = (int64_t)(s.tokens - (7 * b + 1) % s.tokens);
        if (b % 2 == 0)
            x->slots[x->slot_count++] = (int64_t)b;
    }
    result_make(x, &x->want);
    ck_assert_int_eq(play(x, x->one, &x->want, NULL, PREFILL, ENTRIES), 0);
    ck_assert_uint_gt(tsa_state_tokens(x->want.states[s.batch], 0), s.batch * s.tokens);
}

static void scene_end(struct scene *x)
{
    result_free(x, &x->want);
    tsa_plan_destroy(x->one);
    problem_free(&x->p);
}

/* Threads of this process now; 0 if the system does not tell. */
static size_t os_threads(void)
{
    DIR *folder = opendir("/proc/self/task");
    size_t count = 0;
    if (folder == NULL)
        return 0;
    for (const struct dirent *entry; (entry = readdir(folder)) != NULL;)
        count += entry->d_name[0] != '.';
    closedir(folder);
    return count;
}

/* -- hosts with an executor -------------------------------------------------------------------- */

enum how { SERIAL, REVERSED, THREADS, POOL, HOWS };
#define POOL_THREADS 3

struct job {
    void (*function)(void *argument, size_t index);
    void *argument;
    size_t next, ended, count;
    struct job *link;
};

struct host {
    enum how how;
    size_t most; /* that it may be asked for */
    atomic_size_t calls, widest, bad;
    pthread_mutex_t lock; /* the pool's: */
    pthread_cond_t work, ended;
    struct job *jobs;
    bool stop;
    pthread_t thread[POOL_THREADS];
};

/* Index i in a thread whose rounding is not the arithmetic's, and stays what it is. */
static void run_index(struct host *host, void (*function)(void *argument, size_t index),
                      void *argument, size_t i)
{
#ifdef FE_UPWARD
    const int mode = fegetround();
    fesetround(FE_UPWARD);
    function(argument, i);
    if (fegetround() != FE_UPWARD)
        atomic_fetch_add(&host->bad, 1);
    fesetround(mode);
#else
    (void)host;
    function(argument, i);
#endif
}

/* With the lock, which is free in between. */
static void run_next(struct host *host, struct job *job)
{
    const size_t i = job->next++;
    pthread_mutex_unlock(&host->lock);
    run_index(host, job->function, job->argument, i);
    pthread_mutex_lock(&host->lock);
    if (++job->ended == job->count)
        pthread_cond_broadcast(&host->ended);
}

static void *pool_thread(void *user)
{
    struct host *host = user;
    pthread_mutex_lock(&host->lock);
    while (!host->stop) {
        struct job *job = host->jobs;
        while (job != NULL && job->next == job->count)
            job = job->link;
        if (job != NULL)
            run_next(host, job);
        else
            pthread_cond_wait(&host->work, &host->lock);
    }
    pthread_mutex_unlock(&host->lock);
    return NULL;
}

static void pool_execute(struct host *host, struct job *job)
{
    pthread_mutex_lock(&host->lock);
    job->link = host->jobs;
    host->jobs = job;
    pthread_cond_broadcast(&host->work);
    while (job->next < job->count)
        run_next(host, job);
    while (job->ended < job->count)
        pthread_cond_wait(&host->ended, &host->lock);
    struct job **at = &host->jobs;
    while (*at != job)
        at = &(*at)->link;
    *at = job->link;
    pthread_mutex_unlock(&host->lock);
}

struct single {
    struct host *host;
    struct job *job;
    size_t index;
    pthread_t thread;
};

static void *single_thread(void *user)
{
    const struct single *s = user;
    run_index(s->host, s->job->function, s->job->argument, s->index);
    return NULL;
}

static void execute(void *user, size_t count, void (*function)(void *argument, size_t index),
                    void *argument)
{
    struct host *host = user;
    struct job job = {function, argument, 0, 0, count, NULL};
    atomic_fetch_add(&host->calls, 1);
    if (count > atomic_load(&host->widest))
        atomic_store(&host->widest, count);
    if (count == 0 || count > host->most)
        atomic_fetch_add(&host->bad, 1);
    if (host->how == POOL) {
        pool_execute(host, &job);
    } else if (host->how == THREADS) {
        struct single *all = calloc(count, sizeof *all);
        for (size_t i = 0; i < count; i++) {
            all[i] = (struct single){.host = host, .job = &job, .index = i};
            if (pthread_create(&all[i].thread, NULL, single_thread, &all[i]) != 0)
                abort();
        }
        for (size_t i = 0; i < count; i++)
            pthread_join(all[i].thread, NULL);
        free(all);
    } else {
        for (size_t i = 0; i < count; i++)
            run_index(host, function, argument, host->how == SERIAL ? i : count - 1 - i);
    }
}

static void host_begin(struct host *host, enum how how, size_t most)
{
    memset(host, 0, sizeof *host);
    host->how = how;
    host->most = most;
    atomic_init(&host->calls, 0);
    atomic_init(&host->widest, 0);
    atomic_init(&host->bad, 0);
    pthread_mutex_init(&host->lock, NULL);
    pthread_cond_init(&host->work, NULL);
    pthread_cond_init(&host->ended, NULL);
    for (int i = 0; how == POOL && i < POOL_THREADS; i++)
        ck_assert_int_eq(pthread_create(&host->thread[i], NULL, pool_thread, host), 0);
}

static void host_end(struct host *host)
{
    pthread_mutex_lock(&host->lock);
    host->stop = true;
    pthread_cond_broadcast(&host->work);
    pthread_mutex_unlock(&host->lock);
    for (int i = 0; host->how == POOL && i < POOL_THREADS; i++)
        ck_assert_int_eq(pthread_join(host->thread[i], NULL), 0);
    pthread_cond_destroy(&host->work);
    pthread_cond_destroy(&host->ended);
    pthread_mutex_destroy(&host->lock);
    ck_assert_uint_eq(atomic_load(&host->bad), 0);
}

static struct tsa_plan *host_plan(const struct problem *p, struct host *host, int threads)
{
    struct tsa_options options;
    problem_options(p, &options);
    options.threads = threads;
    options.execute = execute;
    options.execute_user = host;
    return make_plan(&options);
}

/* Each call asks the executor, for no more than it may. */
START_TEST(executors)
{
    static const int teams[] = {3, 2, 8};
    struct scene x;
    struct result r;
    struct host host;
    struct tsa_error err;
    scene_begin(&x, _i / HOWS);
    result_make(&x, &r);
    host_begin(&host, (enum how)(_i % HOWS), 0);
    for (size_t i = 0; i < (quick() ? 1 : 3); i++) {
        host.most = (size_t)teams[i];
        struct tsa_plan *plan = host_plan(&x.p, &host, teams[i]);
        for (enum entry j = PREFILL; j < ENTRIES; j++) {
            const size_t calls = atomic_load(&host.calls);
            ck_assert_int_eq(play(&x, plan, &r, NULL, j, j + 1), 0);
            ck_assert_msg(atomic_load(&host.calls) > calls, "%s did not ask the executor",
                          entry_names[j]);
        }
        assert_same(&x, &r, "executor");
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
        ck_assert_int_eq(play(&x, plan, &r, ws, PREFILL, REDUCE), 0);
        host.most = 8; /* reduce takes no workspace */
        ck_assert_int_eq(play(&x, plan, &r, NULL, REDUCE, ENTRIES), 0);
        assert_same(&x, &r, "executor, workspace for two");
        tsa_workspace_destroy(ws);
        tsa_plan_destroy(plan);
    }
    host_end(&host);
    result_free(&x, &r);
    scene_end(&x);
}
END_TEST

/* One thread needs no executor. */
START_TEST(executor_of_one)
{
    struct scene x;
    struct result r;
    struct host host;
    scene_begin(&x, _i);
    result_make(&x, &r);
    host_begin(&host, SERIAL, 1);
    struct tsa_plan *plan = host_plan(&x.p, &host, 1);
    ck_assert_int_eq(play(&x, plan, &r, NULL, PREFILL, ENTRIES), 0);
    assert_same(&x, &r, "executor of one");
    ck_assert_uint_eq(atomic_load(&host.calls), 0);
    tsa_plan_destroy(plan);
    host_end(&host);
    result_free(&x, &r);
    scene_end(&x);
}
END_TEST

/* With an executor OpenMP starts no thread; without, it does. */
START_TEST(no_openmp)
{
    enum { TEAM = 13 };
    struct scene x;
    struct result r;
    struct host host;
    scene_begin(&x, 0);
    result_make(&x, &r);
    host_begin(&host, SERIAL, TEAM);
    struct tsa_plan *plan = host_plan(&x.p, &host, TEAM);
    const size_t before = os_threads();
    ck_assert_int_eq(play(&x, plan, &r, NULL, PREFILL, ENTRIES), 0);
    ck_assert_uint_eq(os_threads(), before);
    ck_assert_uint_eq(atomic_load(&host.widest), TEAM);
    assert_same(&x, &r, "executor");
    tsa_plan_destroy(plan);
    plan = problem_plan(&x.p, NULL, TEAM);
    ck_assert_int_eq(play(&x, plan, &r, NULL, PREFILL, ENTRIES), 0);
    assert_same(&x, &r, "no executor");
#ifdef _OPENMP
    ck_assert(before == 0 || os_threads() >= TEAM);
#else
    ck_assert_uint_eq(os_threads(), before);
#endif
    tsa_plan_destroy(plan);
    host_end(&host);
    result_free(&x, &r);
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
        options.execute = execute;
        options.reserved[i] = &options;
        ck_assert_int_eq(tsa_plan_create(&options, &plan, &err), TSA_EINVAL);
        ck_assert_str_eq(err.argument, "reserved");
        ck_assert_ptr_null(plan);
    }
    problem_free(&p);
}
END_TEST

/* -- OpenMP ------------------------------------------------------------------------------------ */

START_TEST(teams)
{
    struct scene x;
    struct result r;
    struct tsa_error err;
    scene_begin(&x, _i);
    result_make(&x, &r);
    for (int team = 1; team <= 16; team += quick() ? 15 : _i / 2 == 1 ? 5 : 1) {
        struct tsa_plan *plan = problem_plan(&x.p, NULL, team);
        struct tsa_workspace *ws = NULL;
        assert_team(team);
        set_way(plan, (enum way)(team % WAY_WAVES_OF_3));
        if (team % 2 == 0)
            ok(tsa_workspace_create(plan, 0, &ws, &err), &err);
        ck_assert_int_eq(play(&x, plan, &r, ws, PREFILL, ENTRIES), 0);
        assert_same(&x, &r, "team");
        tsa_workspace_destroy(ws);
        tsa_plan_destroy(plan);
    }
    result_free(&x, &r);
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
    struct result r[TEAM];
    struct host host;
    atomic_size_t most;
    int bad = 0;
    scene_begin(&x, _i);
    for (int i = 0; i < TEAM; i++)
        result_make(&x, &r[i]);
    atomic_init(&most, 0);
    struct tsa_plan *plan = measured_plan(&x.p, &most, 1);
    atomic_store(&most, 0);
    ck_assert_int_eq(play(&x, plan, &r[0], NULL, PREFILL, ENTRIES), 0);
    const size_t serial = atomic_load(&most);
    tsa_plan_destroy(plan);
    plan = measured_plan(&x.p, &most, 5);
    atomic_store(&most, 0);
    assert_team(TEAM);
#ifdef _OPENMP
    omp_set_max_active_levels(3);
    ck_assert_int_eq(play(&x, plan, &r[0], NULL, PREFILL, ENTRIES), 0);
    ck_assert_uint_gt(atomic_load(&most), serial);
    atomic_store(&most, 0);
#pragma omp parallel for num_threads(TEAM) reduction(+ : bad) schedule(static, 1)
#endif
    for (int i = 0; i < TEAM; i++)
        bad += play(&x, plan, &r[i], NULL, PREFILL, ENTRIES);
    ck_assert_int_eq(bad, 0);
    ck_assert_uint_eq(atomic_load(&most), serial);
    for (int i = 0; i < TEAM; i++)
        assert_same(&x, &r[i], "inside a team");
    tsa_plan_destroy(plan);

    host_begin(&host, REVERSED, 5);
    plan = host_plan(&x.p, &host, 5);
#ifdef _OPENMP
#pragma omp parallel for num_threads(TEAM) reduction(+ : bad) schedule(static, 1)
#endif
    for (int i = 0; i < TEAM; i++)
        bad += play(&x, plan, &r[i], NULL, PREFILL, ENTRIES);
    ck_assert_int_eq(bad, 0);
    ck_assert_uint_eq(atomic_load(&host.widest), 5);
    for (int i = 0; i < TEAM; i++) {
        assert_same(&x, &r[i], "inside a team, executor");
        result_free(&x, &r[i]);
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
    struct result r;
    int bad;
    pthread_t thread;
};

static void *call_from_thread(void *user)
{
    struct caller *c = user;
    for (int round = 0; round < (quick() ? 1 : 4); round++) {
        c->bad += play(c->x, c->plan, &c->r, NULL, PREFILL, ENTRIES);
        c->bad += !same(c->x, &c->r);
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
    host_begin(&host, POOL, 3);
    struct tsa_plan *plan[2];
    plan[0] = _i / 2 < 2 ? problem_plan(&x.p, NULL, 3) : host_plan(&x.p, &host, 3);
    plan[1] = _i / 2 < 1 ? problem_plan(&x.p, NULL, 2) : plan[0];
    for (int i = 0; i < 2; i++) {
        c[i] = (struct caller){.x = &x, .plan = plan[i]};
        result_make(&x, &c[i].r);
    }
    for (int i = 0; i < 2; i++)
        ck_assert_int_eq(pthread_create(&c[i].thread, NULL, call_from_thread, &c[i]), 0);
    for (int i = 0; i < 2; i++)
        ck_assert_int_eq(pthread_join(c[i].thread, NULL), 0);
    for (int i = 0; i < 2; i++) {
        assert_same(&x, &c[i].r, "two callers");
        ck_assert_int_eq(c[i].bad, 0);
        result_free(&x, &c[i].r);
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
static int in_child(const struct scene *x, const struct tsa_plan *plan, struct result *r,
                    struct tsa_workspace *ws, int children)
{
    struct tsa_options options;
    struct tsa_error err;
    struct tsa_plan *own;
    signal(SIGALRM, SIG_DFL); /* Check's handler would end the test itself */
    alarm(quick() ? 300 : 60);
    if (play(x, plan, r, NULL, PREFILL, ENTRIES) != 0)
        return 1;
    if (!same(x, r))
        return 2;
    if (play(x, plan, r, ws, PREFILL, ENTRIES) != 0)
        return 3;
    if (!same(x, r))
        return 4;
    problem_options(&x->p, &options);
    options.threads = 3;
    if (tsa_plan_create(&options, &own, &err) != TSA_OK)
        return 5;
    if (play(x, own, r, NULL, PREFILL, ENTRIES) != 0 || !same(x, r))
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
    struct result r;
    struct tsa_error err;
    struct tsa_workspace *ws;
    scene_begin(&x, _i);
    result_make(&x, &r);
    struct tsa_plan *plan = problem_plan(&x.p, NULL, TEAM);
    ok(tsa_workspace_create(plan, 0, &ws, &err), &err);
    for (int round = 0; round < 2; round++) {
        ck_assert_int_eq(play(&x, plan, &r, ws, PREFILL, ENTRIES), 0);
        assert_same(&x, &r, "before a fork");
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
    ck_assert_int_eq(play(&x, plan, &r, NULL, PREFILL, ENTRIES), 0);
    assert_same(&x, &r, "after a fork");
    tsa_workspace_destroy(ws);
    tsa_plan_destroy(plan);
    result_free(&x, &r);
    scene_end(&x);
}
END_TEST

#ifdef _OPENMP
/* The same where only the host has used OpenMP: the library has a plan, but has run no team. */
START_TEST(fork_of_a_host)
{
    struct scene x;
    struct result r;
    scene_begin(&x, 0);
    result_make(&x, &r);
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
    result_free(&x, &r);
    scene_end(&x);
}
END_TEST

/* Runs in a process of its own, whose environment limits OpenMP. */
static int granted_at_most;

START_TEST(limited)
{
    struct scene x;
    struct result r;
    scene_begin(&x, 0);
    result_make(&x, &r);
    for (int way = 0; way < WAY_WAVES_OF_3; way++) {
        struct tsa_plan *plan = problem_plan(&x.p, NULL, 8);
        set_way(plan, (enum way)way);
        ck_assert_int_eq(play(&x, plan, &r, NULL, PREFILL, ENTRIES), 0);
        assert_same(&x, &r, "limited");
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
    result_free(&x, &r);
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
    struct result r;
    if (!CALM || quick() || getenv("OMP_WAIT_POLICY") != NULL || getenv("GOMP_SPINCOUNT") != NULL)
        return;
    scene_begin(&x, 0);
    result_make(&x, &r);
    struct tsa_plan *plan = problem_plan(&x.p, NULL, 4);
    for (int round = 0; round < 3; round++) {
        ck_assert_int_eq(play(&x, plan, &r, NULL, PREFILL, ENTRIES), 0);
        sleep_milliseconds(100);
        const double from = cpu_seconds();
        sleep_milliseconds(200);
        const double used = cpu_seconds() - from;
        ck_assert_msg(used < 0.005, "%g s of CPU time while idle", used);
    }
    tsa_plan_destroy(plan);
    result_free(&x, &r);
    scene_end(&x);
}
END_TEST

/* -- reduction --------------------------------------------------------------------------------- */

#define REDUCED 17 /* states, at most */
#define LAYERS 2

static const struct shape reduce_shapes[] = {
    {16, 19, 3, 16, 4, 2, 1, 90, 0, L2, COEF_TAYLOR, TEMP_PER_HEAD},
    {5, 7, 4, 1, 4, 2, 1, 90, 0, RAW, COEF_TAYLOR, TEMP_TWO},
    {3, 64, 5, 8, 2, 1, 1, 90, 0, L2, COEF_TAYLOR, TEMP_TWO},
};
#define REDUCE_SHAPES ((int)(sizeof reduce_shapes / sizeof reduce_shapes[0]))
#define SHIFTS 4

static struct tsa_plan *reduce_plan(const struct problem *p, struct host *host, int threads)
{
    struct tsa_options options;
    problem_options(p, &options);
    poison_allocations(&options);
    options.layers = LAYERS;
    options.threads = threads;
    options.execute = host ? execute : NULL;
    options.execute_user = host;
    return make_plan(&options);
}

/* Tokens of state i: none here and there, some between chunks; the last shift: none at all. */
static size_t reduce_tokens(const struct shape *s, size_t i, size_t layer, size_t shift)
{
    const size_t c = s->chunk;
    const size_t n[] = {0, 5, c, 2 * c + 3, 0, 1, c - 1, 3 * c, 7, 0, 0, c + 1};
    return shift + 1 == SHIFTS ? 0 : n[(i * (1 + 2 * layer) + 5 * shift + layer) % 12];
}

static struct tsa_state **reduce_states(const struct tsa_plan *plan, const struct problem *p,
                                        size_t shift)
{
    struct tsa_state **st = states_make(plan, REDUCED);
    struct tsa_error err;
    for (size_t i = 0; i < REDUCED; i++)
        for (size_t layer = 0; layer < LAYERS; layer++) {
            const struct tsa_tensor k = from_token(p->k, i), v = from_token(p->v, i);
            ok(tsa_absorb(plan,
                          BATCH(.states = &st[i], .count = 1, .layer = layer,
                                .tokens = reduce_tokens(&p->shape, i, layer, shift), .k = k,
                                .v = v),
                          NULL, &err),
               &err);
        }
    return st;
}

/* The same tree, of copies and tsa_state_merge(). */
static void reduce_by_hand(const struct tsa_plan *plan, struct tsa_state *dst,
                           struct tsa_state *const *states, size_t count)
{
    struct tsa_state **part = states_make(plan, count);
    struct tsa_error err;
    for (size_t i = 0; i < count; i++)
        ok(tsa_state_copy(plan, part[i], states[i], &err), &err);
    for (size_t n = count; n > 1; n = (n + 1) / 2)
        for (size_t i = 0; 2 * i < n; i++) {
            if (2 * i + 1 < n)
                ok(tsa_state_merge(plan, part[2 * i], part[2 * i + 1], NULL, &err), &err);
            ok(tsa_state_copy(plan, part[i], part[2 * i], &err), &err);
        }
    ok(tsa_state_copy(plan, dst, part[0], &err), &err);
    states_free(part, count);
}

static void assert_counts(const struct tsa_state *dst, struct tsa_state *const *states,
                          size_t count)
{
    for (size_t layer = 0; layer < LAYERS; layer++) {
        uint64_t tokens = 0;
        size_t window = 0;
        for (size_t i = 0; i < count; i++) {
            if (tokens == 0)
                window = tsa_state_window(states[i], layer);
            tokens += tsa_state_tokens(states[i], layer);
        }
        ck_assert_uint_eq(tsa_state_tokens(dst, layer), tokens);
        ck_assert_uint_eq(tsa_state_window(dst, layer), window);
    }
}

/* dst is st[dst_at]: another state, which is not empty, or one of them. What was in st comes back,
 * as it should for all but dst. */
static void reduce_and_check(const struct tsa_plan *plan, struct tsa_state **st,
                             struct tsa_state *const *states, const struct tsa_state *want,
                             size_t count, size_t dst_at)
{
    struct tsa_error err;
    struct tsa_state *list[REDUCED];
    for (size_t i = 0; i < count; i++)
        list[i] = st[i];
    struct tsa_state *dst = dst_at < count ? st[dst_at] : st[REDUCED];
    ok(tsa_state_reduce(plan, dst, (const struct tsa_state *const *)list, count, &err), &err);
    assert_equal(plan, dst, want, true);
    assert_counts(dst, states, count);
    if (dst_at < count)
        ok(tsa_state_copy(plan, dst, states[dst_at], &err), &err);
    for (size_t i = 0; i < count; i++)
        assert_equal(plan, st[i], states[i], true);
}

START_TEST(reduce)
{
    struct shape s = reduce_shapes[_i / 2];
    struct problem p;
    struct host host;
    s.dtype = _i % 2 == 0 ? TSA_F32 : TSA_F64;
    problem_make(&p, &s, 3200);
    host_begin(&host, THREADS, 3);
    struct tsa_plan *plans[] = {reduce_plan(&p, NULL, 1), reduce_plan(&p, NULL, 3),
                                reduce_plan(&p, NULL, 8), reduce_plan(&p, &host, 3)};
    assert_team(8);
    struct tsa_state **want = states_make(plans[0], 1), **st = states_make(plans[0], REDUCED + 1);
    struct tsa_error err;
    for (size_t shift = 0; shift < SHIFTS; shift += quick() ? 3 : 1) {
        struct tsa_state **states = reduce_states(plans[0], &p, shift);
        for (size_t i = 0; i < REDUCED; i++)
            ok(tsa_state_copy(plans[0], st[i], states[i], &err), &err);
        for (size_t count = 1; count <= REDUCED; count += count < 9 ? 1 : 8) {
            reduce_by_hand(plans[0], want[0], states, count);
            for (size_t j = 0; j < 4; j++) {
                ok(tsa_absorb(
                       plans[0],
                       BATCH(.states = &st[REDUCED], .count = 1, .tokens = 21, .k = p.k, .v = p.v),
                       NULL, &err),
                   &err);
                reduce_and_check(plans[j], st, states, want[0], count, count);
                if (j == (shift + count) % 4) /* all places with one of them */
                    for (size_t i = 0; i < count; i += quick() ? 3 : 1)
                        reduce_and_check(plans[j], st, states, want[0], count, i);
            }
        }
        states_free(states, REDUCED);
    }
    states_free(want, 1);
    states_free(st, REDUCED + 1);
    ck_assert(_i / 2 > 0 || atomic_load(&host.calls) > 0);
    for (size_t j = 0; j < 4; j++)
        tsa_plan_destroy(plans[j]);
    host_end(&host);
    problem_free(&p);
}
END_TEST

/* States may be there several times, also the one that is replaced. */
START_TEST(reduce_repeated)
{
    struct shape s = reduce_shapes[_i / 2];
    struct problem p;
    struct tsa_error err;
    s.dtype = _i % 2 == 0 ? TSA_F32 : TSA_F64;
    problem_make(&p, &s, 3300);
    struct tsa_plan *plan = reduce_plan(&p, NULL, 3);
    static const size_t pattern[][7] = {{3, 3, 3, 3, 3, 3, 3}, {1, 3, 1, 0, 8, 3, 1}};
    for (size_t j = 0; j < 2; j++)
        for (size_t count = 2; count <= 7; count++) {
            struct tsa_state **st = reduce_states(plan, &p, 0), *list[7];
            struct tsa_state **want = states_make(plan, 1);
            for (size_t i = 0; i < count; i++)
                list[i] = st[pattern[j][i]];
            reduce_by_hand(plan, want[0], list, count);
            ok(tsa_state_reduce(plan, list[0], (const struct tsa_state *const *)list, count, &err),
               &err);
            assert_equal(plan, list[0], want[0], true);
            states_free(want, 1);
            states_free(st, REDUCED);
        }
    tsa_plan_destroy(plan);
    problem_free(&p);
}
END_TEST

/* States that are only read may have more terms, and room for longer chunks; and what is replaced
 * may have a window open under another chunk. */
START_TEST(reduce_others)
{
    struct shape s = {5,  19,          3,       8, 4, 2, 1, 90, _i == 0 ? TSA_F32 : TSA_F64,
                      L2, COEF_TAYLOR, TEMP_TWO};
    struct problem p, more;
    struct tsa_error err;
    problem_make(&p, &s, 3400);
    s.terms = 5;
    problem_make(&more, &s, 3400);
    struct tsa_plan *plan = reduce_plan(&p, NULL, 2), *wide = reduce_plan(&more, NULL, 2);
    p.shape.chunk = 64;
    struct tsa_plan *longer = reduce_plan(&p, NULL, 2);
    struct tsa_state **st = reduce_states(wide, &more, 1), **dst = states_make(longer, 1);
    struct tsa_state **want = states_make(plan, 1), **own = states_make(plan, 9);
    for (size_t i = 0; i < 9; i++)
        ok(tsa_state_copy(plan, own[i], st[i], &err), &err);
    ok(tsa_absorb(longer, BATCH(.states = dst, .count = 1, .tokens = 33, .k = p.k, .v = p.v), NULL,
                  &err),
       &err);
    ok(tsa_absorb(longer,
                  BATCH(.states = dst, .count = 1, .layer = 1, .tokens = 70, .k = p.k, .v = p.v),
                  NULL, &err),
       &err);
    reduce_by_hand(plan, want[0], own, 9);
    ok(tsa_state_reduce(plan, dst[0], (const struct tsa_state *const *)st, 9, &err), &err);
    assert_equal(plan, dst[0], want[0], true);
    for (size_t layer = 0; layer < LAYERS; layer++) {
        ok(tsa_absorb(
               plan,
               BATCH(.states = dst, .count = 1, .layer = layer, .tokens = 5, .k = p.k, .v = p.v),
               NULL, &err),
           &err);
        ok(tsa_absorb(
               plan,
               BATCH(.states = want, .count = 1, .layer = layer, .tokens = 5, .k = p.k, .v = p.v),
               NULL, &err),
           &err);
    }
    assert_equal(plan, dst[0], want[0], true);
    states_free(st, REDUCED);
    states_free(dst, 1);
    states_free(want, 1);
    states_free(own, 9);
    tsa_plan_destroy(plan);
    tsa_plan_destroy(wide);
    tsa_plan_destroy(longer);
    problem_free(&p);
    problem_free(&more);
}
END_TEST

/* After each refusal dst is as it was. */
#define REFUSED(call, want, name)                                                                  \
    do {                                                                                           \
        const enum tsa_status got_ = (call);                                                       \
        CHECK(got_ == (want) && err.status == (want), "%s, wanted %s: %s",                         \
              tsa_status_string(got_), tsa_status_string(want), err.text);                         \
        CHECK(strcmp(err.argument, name) == 0, "argument \"%s\", wanted \"%s\"", err.argument,     \
              name);                                                                               \
        ck_assert_mem_eq(before, st[0], bytes);                                                    \
    } while (0)

START_TEST(reduce_errors)
{
    const struct shape s = {5,  7,           3,       8, 4, 2, 1, 90, _i == 0 ? TSA_F32 : TSA_F64,
                            L2, COEF_TAYLOR, TEMP_TWO};
    struct shape fewer = s;
    struct problem p, other;
    struct tsa_error err;
    problem_make(&p, &s, 3500);
    fewer.terms = 2;
    problem_make(&other, &fewer, 3500);
    struct tsa_plan *plan = reduce_plan(&p, NULL, 2), *less = reduce_plan(&other, NULL, 2);
    struct tsa_state **st = reduce_states(plan, &p, 1), **small = states_make(less, 1);
    const struct tsa_state *list[REDUCED];
    const size_t bytes = tsa_state_bytes(plan);
    void *before = malloc(bytes), *fake = aligned_alloc(64, (bytes + 63) / 64 * 64);
    memcpy(before, st[0], bytes);
    memset(fake, 0x33, bytes);
    memcpy(list, st, sizeof list);
    REFUSED(tsa_state_reduce(NULL, st[0], list, 5, &err), TSA_EINVAL, "plan");
    REFUSED(tsa_state_reduce(plan, NULL, list, 5, &err), TSA_EINVAL, "dst");
    REFUSED(tsa_state_reduce(plan, small[0], list, 5, &err), TSA_EMISMATCH, "dst");
    ck_assert_uint_eq(tsa_state_tokens(small[0], 0), 0);
    REFUSED(tsa_state_reduce(plan, fake, list, 5, &err), TSA_EFORMAT, "dst");
    REFUSED(tsa_state_reduce(plan, st[0], NULL, 5, &err), TSA_EINVAL, "states");
    REFUSED(tsa_state_reduce(plan, st[0], list, 0, &err), TSA_EINVAL, "count");
    const struct {
        const struct tsa_state *state;
        enum tsa_status status;
    } bad[] = {
        {NULL, TSA_EINVAL},
        {small[0], TSA_EMISMATCH},
        {fake, TSA_EFORMAT},
        {(const struct tsa_state *)(const void *)((const char *)fake + 8), TSA_EINVAL},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        list[4] = bad[i].state;
        REFUSED(tsa_state_reduce(plan, st[0], list, 5, &err), bad[i].status, "states");
        ck_assert_int_eq(err.sequence, 4);
        ok(tsa_state_reduce(plan, st[9], list, 4, &err), &err); /* which do not reach it */
        list[4] = st[4];
    }
    /* 2^64 tokens; one less will do */
    struct tsa_layer_header *head[3];
    for (size_t i = 0; i < 3; i++) {
        head[i] = tsa_state_layer(st[1 + i], 1);
        head[i]->tokens = (uint64_t)1 << (i == 0 ? 63 : 62);
        head[i]->window = 0;
    }
    REFUSED(tsa_state_reduce(plan, st[0], list + 1, 3, &err), TSA_EOVERFLOW, "states");
    head[2]->tokens--;
    ok(tsa_state_reduce(plan, st[0], list + 1, 3, &err), &err);
    ck_assert_uint_eq(tsa_state_tokens(st[0], 1), UINT64_MAX);
    free(before);
    free(fake);
    states_free(st, REDUCED);
    states_free(small, 1);
    tsa_plan_destroy(plan);
    tsa_plan_destroy(less);
    problem_free(&p);
    problem_free(&other);
}
END_TEST

/* Refuses the allocation number `refuse`, and counts what is not given back. */
struct meter {
    size_t calls, refuse, live;
};

static void *allocate_metered(void *user, size_t bytes, size_t alignment)
{
    struct meter *m = user;
    if (m->calls++ == m->refuse)
        return NULL;
    m->live++;
    return aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
}

static void release_metered(void *user, void *memory, size_t bytes)
{
    struct meter *m = user;
    (void)bytes;
    m->live--;
    free(memory);
}

START_TEST(reduce_without_memory)
{
    const struct shape s = {5,  7,           3,       8, 4, 2, 1, 90, _i == 0 ? TSA_F32 : TSA_F64,
                            L2, COEF_TAYLOR, TEMP_TWO};
    struct problem p;
    struct tsa_options options;
    struct tsa_error err;
    struct meter m = {.refuse = SIZE_MAX};
    problem_make(&p, &s, 3600);
    problem_options(&p, &options);
    options.layers = LAYERS;
    options.threads = 2;
    options.allocate = allocate_metered, options.release = release_metered;
    options.allocator_user = &m;
    struct tsa_plan *plan = make_plan(&options);
    struct tsa_state **st = reduce_states(plan, &p, 0);
    const struct tsa_state *const *list = (const struct tsa_state *const *)st;
    const size_t bytes = tsa_state_bytes(plan), live = m.live;
    void *before = malloc(bytes);
    memcpy(before, st[0], bytes);
    size_t refusals = 0;
    for (;; refusals++) {
        m.calls = 0;
        m.refuse = refusals;
        const enum tsa_status status = tsa_state_reduce(plan, st[0], list, 9, &err);
        if (status == TSA_OK)
            break;
        REFUSED(status, TSA_ENOMEM, "ws");
        ck_assert_uint_eq(m.live, live);
    }
    ck_assert_uint_ge(refusals, 1);
    ck_assert_uint_eq(m.live, live);
    free(before);
    states_free(st, REDUCED);
    tsa_plan_destroy(plan);
    ck_assert_uint_eq(m.live, 0);
    problem_free(&p);
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
    TCase *hosts = add_case(suite, "hosts");
    tcase_add_test(hosts, no_openmp);
    tcase_add_loop_test(hosts, executors, 0, (quick() ? 1 : 4) * HOWS);
    tcase_add_loop_test(hosts, executor_of_one, 0, quick() ? 1 : 2);
    tcase_add_test(hosts, reserved_options);
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
    TCase *reduction = add_case(suite, "reduction");
    tcase_add_loop_test(reduction, reduce, 0, 2 * REDUCE_SHAPES);
    tcase_add_loop_test(reduction, reduce_repeated, 0, 2 * REDUCE_SHAPES);
    tcase_add_loop_test(reduction, reduce_others, 0, 2);
    tcase_add_loop_test(reduction, reduce_errors, 0, 2);
    tcase_add_loop_test(reduction, reduce_without_memory, 0, 2);
    return run_suite(suite);
}
