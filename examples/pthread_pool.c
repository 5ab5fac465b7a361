/* SPDX-License-Identifier: MIT */
/* Attention on the threads that a program already has: a small pool of POSIX threads as the
 * executor of a plan. Prints whether the outputs have the bits that one thread gives.
 *
 *     cc pthread_pool.c $(pkg-config --cflags --libs tsa) -pthread -o pthread_pool
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tsa.h>

enum { POOL = 4, HEADS = 8, TOKENS = 1024, HEAD_DIM = 16, VALUE_DIM = 64 };

/* -- the pool -------------------------------------------------------------------------------- */

/* One job at a time; its calls are handed out to whoever asks next. */
struct pool {
    pthread_mutex_t mutex, one_job;
    pthread_cond_t work, idle;
    pthread_t threads[POOL];
    size_t next, count, ended;
    void (*function)(void *argument, size_t index);
    void *argument;
    int stop;
};

/* Take calls of the job until none is left. The mutex is held, but not while a call runs. */
static void take_calls(struct pool *pool)
{
    while (pool->next < pool->count) {
        const size_t index = pool->next++;
        pthread_mutex_unlock(&pool->mutex);
        pool->function(pool->argument, index);
        pthread_mutex_lock(&pool->mutex);
        if (++pool->ended == pool->count)
            pthread_cond_signal(&pool->idle);
    }
}

static void *run_thread(void *argument)
{
    struct pool *pool = argument;
    pthread_mutex_lock(&pool->mutex);
    for (;;) {
        take_calls(pool);
        if (pool->stop)
            break;
        pthread_cond_wait(&pool->work, &pool->mutex);
    }
    pthread_mutex_unlock(&pool->mutex);
    return NULL;
}

/* What struct tsa_options calls `execute`. The calling thread works too, so that a pool which has
 * no thread free, or none at all, still gets on. */
static void pool_execute(void *user, size_t count, void (*function)(void *argument, size_t index),
                         void *argument)
{
    struct pool *pool = user;
    pthread_mutex_lock(&pool->one_job); /* calls of several threads wait for one another */
    pthread_mutex_lock(&pool->mutex);
    pool->function = function;
    pool->argument = argument;
    pool->next = pool->ended = 0;
    pool->count = count;
    pthread_cond_broadcast(&pool->work);
    take_calls(pool);
    while (pool->ended < count)
        pthread_cond_wait(&pool->idle, &pool->mutex);
    pthread_mutex_unlock(&pool->mutex);
    pthread_mutex_unlock(&pool->one_job);
}

static int pool_start(struct pool *pool)
{
    memset(pool, 0, sizeof *pool);
    pthread_mutex_init(&pool->mutex, NULL);
    pthread_mutex_init(&pool->one_job, NULL);
    pthread_cond_init(&pool->work, NULL);
    pthread_cond_init(&pool->idle, NULL);
    for (int i = 0; i < POOL; i++)
        if (pthread_create(&pool->threads[i], NULL, run_thread, pool) != 0)
            return 0;
    return 1;
}

static void pool_stop(struct pool *pool)
{
    pthread_mutex_lock(&pool->mutex);
    pool->stop = 1;
    pthread_cond_broadcast(&pool->work);
    pthread_mutex_unlock(&pool->mutex);
    for (int i = 0; i < POOL; i++)
        pthread_join(pool->threads[i], NULL);
}

/* -- the attention --------------------------------------------------------------------------- */

static float *random_rows(size_t count)
{
    static unsigned seed = 1;
    float *x = malloc(count * sizeof *x);
    for (size_t i = 0; x && i < count; i++) {
        seed = seed * 1664525u + 1013904223u;
        x[i] = (float)(seed >> 8) / (1 << 23) - 1;
    }
    return x;
}

/* Prefill of all heads with this pool, or on one thread if it is NULL. */
static int attend(struct pool *pool, float *q, float *k, float *v, float *o)
{
    struct tsa_options options;
    struct tsa_error err = {0};
    struct tsa_plan *plan = NULL;
    struct tsa_state *state = NULL;
    const ptrdiff_t rows = TOKENS;
    const struct tsa_tensor tq = {
        .data = q, .dtype = TSA_F32, .head = rows * HEAD_DIM, .token = HEAD_DIM};
    const struct tsa_tensor tk = {
        .data = k, .dtype = TSA_F32, .head = rows * HEAD_DIM, .token = HEAD_DIM};
    const struct tsa_tensor tv = {
        .data = v, .dtype = TSA_F32, .head = rows * VALUE_DIM, .token = VALUE_DIM};
    const struct tsa_tensor to = {
        .data = o, .dtype = TSA_F32, .head = rows * VALUE_DIM, .token = VALUE_DIM};
    tsa_options_init(&options, sizeof options);
    options.head_dim = HEAD_DIM;
    options.value_dim = VALUE_DIM;
    options.heads = HEADS;
    options.threads = pool ? POOL + 1 : 1; /* the thread that calls works as well */
    if (pool) {
        options.execute = pool_execute;
        options.execute_user = pool;
    }
    int right = tsa_plan_create(&options, &plan, &err) == TSA_OK &&
                tsa_state_create(plan, &state, &err) == TSA_OK &&
                tsa_prefill(plan,
                            &(struct tsa_batch){.size = sizeof(struct tsa_batch),
                                                .states = &state,
                                                .count = 1,
                                                .tokens = TOKENS,
                                                .q = tq,
                                                .k = tk,
                                                .v = tv,
                                                .o = to},
                            NULL, &err) == TSA_OK;
    if (!right)
        fprintf(stderr, "pthread_pool: %s\n", err.text);
    tsa_state_destroy(state);
    tsa_plan_destroy(plan);
    return right;
}

int main(void)
{
    static struct pool pool;
    const size_t keys = (size_t)HEADS * TOKENS * HEAD_DIM;
    const size_t values = (size_t)HEADS * TOKENS * VALUE_DIM;
    float *q = random_rows(keys), *k = random_rows(keys), *v = random_rows(values);
    float *serial = random_rows(values), *pooled = random_rows(values);
    if (!q || !k || !v || !serial || !pooled || !pool_start(&pool)) {
        fprintf(stderr, "pthread_pool: no memory, or no threads\n");
        return 1;
    }
    const int right = attend(NULL, q, k, v, serial) && attend(&pool, q, k, v, pooled);
    const int same = right && memcmp(serial, pooled, values * sizeof *serial) == 0;
    pool_stop(&pool);
    if (right)
        printf("%d heads, %d tokens, %d threads: %s\n", HEADS, TOKENS, POOL + 1,
               same ? "same bits" : "the bits differ");
    free(q);
    free(k);
    free(v);
    free(serial);
    free(pooled);
    return same ? 0 : 1;
}
