/* SPDX-License-Identifier: MIT */
/* See scene.h. */
#include <dirent.h>
#include <fenv.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "scene.h"

#define L2 TSA_NORMALIZE_L2

/* -- scenes ------------------------------------------------------------------------------------ */

const char *const scene_call_names[CALLS] = {"prefill", "absorb", "decode",  "packed",  "padded",
                                             "slots",   "query",  "a query", "softmax", "reduce"};

const struct shape scene_shapes[SCENE_SHAPES] = {
    /* many heads; and one, of whose sums even a step shares out the columns */
    {16, 64, 4, 8, 4, 2, SCENE_STATES, 20, 0, L2, COEF_TAYLOR, TEMP_PER_HEAD},
    {16, 80, 5, 16, 3, 1, 1, 37, 0, L2, COEF_TAYLOR, TEMP_PER_HEAD},
};

void scene_result_make(const struct scene *s, struct scene_result *r)
{
    struct tsa_error err;
    for (size_t b = 0; b <= s->p.shape.batch; b++)
        ok(tsa_state_create(s->one, &r->states[b], &err), &err);
    r->out = make_zeros(CALLS * s->p.o_count, s->p.shape.dtype);
}

void scene_result_free(const struct scene *s, struct scene_result *r)
{
    for (size_t b = 0; b <= s->p.shape.batch; b++)
        tsa_state_destroy(r->states[b]);
    free(r->out);
}

static enum tsa_status enter(enum scene_call i, const struct scene *x, const struct tsa_plan *plan,
                             struct scene_result *r, struct tsa_workspace *ws,
                             struct tsa_error *err)
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
    case CALL_PREFILL:
        return tsa_prefill(
            plan, BATCH(.states = st, .count = b, .tokens = n, .q = *q, .k = *k, .v = *v, .o = *o),
            ws, err);
    case CALL_ABSORB:
        return tsa_absorb(plan, BATCH(.states = st, .count = b, .tokens = n, .k = *k, .v = *v), ws,
                          err);
    case CALL_DECODE:
        return tsa_decode(plan, BATCH(.states = st, .count = b, .q = *q, .k = *k, .v = *v, .o = *o),
                          ws, err);
    case CALL_PACKED:
        return tsa_prefill(plan,
                           BATCH(.states = st, .count = b, .offsets = x->offsets, .q = *q, .k = *k,
                                 .v = *v, .o = *o),
                           ws, err);
    case CALL_PADDED:
        return tsa_prefill(plan,
                           BATCH(.states = st, .count = b, .tokens = n, .lengths = x->lengths,
                                 .q = *q, .k = *k, .v = *v, .o = *o),
                           ws, err);
    case CALL_SLOTS:
        return tsa_decode(plan,
                          BATCH(.states = st, .slots = x->slots, .count = x->slot_count, .q = *q,
                                .k = *k, .v = *v, .o = *o),
                          ws, err);
    case CALL_QUERY:
        return tsa_query(plan, BATCH(.states = st, .count = b, .tokens = n, .q = *q, .o = *o), ws,
                         err);
    case CALL_ONE_QUERY:
        return tsa_query(plan, BATCH(.states = st, .count = b, .tokens = 1, .q = *q, .o = *o), ws,
                         err);
    case CALL_SOFTMAX:
        return tsa_softmax(plan, b, n, n, 1, q, k, v, o, ws, err);
    default:
        return tsa_state_reduce(plan, st[b], read, b, err);
    }
}

int scene_play(const struct scene *x, const struct tsa_plan *plan, struct scene_result *r,
               struct tsa_workspace *ws, enum scene_call from, enum scene_call to)
{
    struct tsa_error err;
    int bad = 0;
    if (from == 0) {
        memset(r->out, 0, CALLS * x->p.o_count * dtype_size(x->p.shape.dtype));
        for (size_t b = 0; b <= x->p.shape.batch; b++)
            bad += tsa_state_reset(plan, r->states[b], &err) != TSA_OK;
    }
    for (enum scene_call i = from; i < to; i++)
        bad += enter(i, x, plan, r, ws, &err) != TSA_OK;
    return bad;
}

bool scene_same(const struct scene *x, const struct scene_result *r)
{
    struct tsa_error err;
    const size_t bytes = CALLS * x->p.o_count * dtype_size(x->p.shape.dtype);
    bool all = memcmp(r->out, x->want.out, bytes) == 0;
    for (size_t b = 0; b <= x->p.shape.batch; b++) {
        int equal = 0;
        all = tsa_state_equal(x->one, r->states[b], x->want.states[b], &equal, &err) == TSA_OK &&
              equal == 1 && all;
    }
    return all;
}

void scene_assert_same(const struct scene *x, const struct scene_result *r, const char *what)
{
    const size_t bytes = x->p.o_count * dtype_size(x->p.shape.dtype);
    char name[100];
    for (size_t i = 0; i < CALLS; i++) {
        snprintf(name, sizeof name, "%s, %s", what, scene_call_names[i]);
        assert_bits((char *)r->out + i * bytes, (char *)x->want.out + i * bytes, x->p.shape.dtype,
                    x->p.o_count, name);
    }
    CHECK(scene_same(x, r), "%s: states differ", what);
}

void scene_begin(struct scene *x, int index)
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
    scene_result_make(x, &x->want);
    ck_assert_int_eq(scene_play(x, x->one, &x->want, NULL, CALL_PREFILL, CALLS), 0);
    ck_assert_uint_gt(tsa_state_tokens(x->want.states[s.batch], 0), s.batch * s.tokens);
}

void scene_end(struct scene *x)
{
    scene_result_free(x, &x->want);
    tsa_plan_destroy(x->one);
    problem_free(&x->p);
}

size_t os_threads(void)
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

/* -- hosts ------------------------------------------------------------------------------------- */

struct job {
    void (*function)(void *argument, size_t index);
    void *argument;
    size_t next, ended, count;
    struct job *link;
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

void host_execute(void *user, size_t count, void (*function)(void *argument, size_t index),
                  void *argument)
{
    struct host *host = user;
    struct job job = {function, argument, 0, 0, count, NULL};
    atomic_fetch_add(&host->calls, 1);
    if (count > atomic_load(&host->widest))
        atomic_store(&host->widest, count);
    if (count == 0 || count > host->most)
        atomic_fetch_add(&host->bad, 1);
    if (host->how == HOST_POOL) {
        pool_execute(host, &job);
    } else if (host->how == HOST_THREADS) {
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
            run_index(host, function, argument, host->how == HOST_SERIAL ? i : count - 1 - i);
    }
}

void host_begin(struct host *host, enum host_how how, size_t most)
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
    for (int i = 0; how == HOST_POOL && i < HOST_POOL_THREADS; i++)
        ck_assert_int_eq(pthread_create(&host->thread[i], NULL, pool_thread, host), 0);
}

void host_end(struct host *host)
{
    pthread_mutex_lock(&host->lock);
    host->stop = true;
    pthread_cond_broadcast(&host->work);
    pthread_mutex_unlock(&host->lock);
    for (int i = 0; host->how == HOST_POOL && i < HOST_POOL_THREADS; i++)
        ck_assert_int_eq(pthread_join(host->thread[i], NULL), 0);
    pthread_cond_destroy(&host->work);
    pthread_cond_destroy(&host->ended);
    pthread_mutex_destroy(&host->lock);
    ck_assert_uint_eq(atomic_load(&host->bad), 0);
}

struct tsa_plan *host_plan(const struct problem *p, struct host *host, int threads)
{
    struct tsa_options options;
    problem_options(p, &options);
    options.threads = threads;
    options.execute = host_execute;
    options.execute_user = host;
    return make_plan(&options);
}
