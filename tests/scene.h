/* SPDX-License-Identifier: MIT */
/* Scenes: one problem, every call that computes, and what one thread computes by them; and hosts
 * whose executor runs the work of a plan. */
#ifndef TSA_TEST_SCENE_H
#define TSA_TEST_SCENE_H

#include <pthread.h>
#include <stdatomic.h>

#include "support.h"

/* -- scenes: every call that computes, with work for a team ------------------------------------ */

enum scene_call {
    CALL_PREFILL,
    CALL_ABSORB,
    CALL_DECODE,
    CALL_PACKED,
    CALL_PADDED,
    CALL_SLOTS,
    CALL_QUERY,
    CALL_ONE_QUERY,
    CALL_SOFTMAX,
    CALL_REDUCE,
    CALLS
};
extern const char *const scene_call_names[CALLS];

#define SCENE_STATES 6

#define SCENE_SHAPES 2

extern const struct shape scene_shapes[SCENE_SHAPES];

/* States after all calls, the last of them reduced from the others; and outputs of each call. */
struct scene_result {
    struct tsa_state *states[SCENE_STATES + 1];
    void *out;
};

struct scene {
    struct problem p;
    int64_t offsets[SCENE_STATES + 1], lengths[SCENE_STATES], slots[SCENE_STATES];
    size_t slot_count;
    struct tsa_plan *one;     /* thread, */
    struct scene_result want; /* and what it computes */
};

void scene_result_make(const struct scene *s, struct scene_result *r);
void scene_result_free(const struct scene *s, struct scene_result *r);
/* Calls from..to-1, from empty states if that is all or the first of them. Returns how many failed;
 * asserts nothing, so that any thread and any process may play. */
int scene_play(const struct scene *x, const struct tsa_plan *plan, struct scene_result *r,
               struct tsa_workspace *ws, enum scene_call from, enum scene_call to);
/* Whether r is what one thread computes. */
bool scene_same(const struct scene *x, const struct scene_result *r);
/* The same, and says what differs. */
void scene_assert_same(const struct scene *x, const struct scene_result *r, const char *what);
/* Scenes 0 to 2 SCENE_SHAPES - 1: each shape in f32, then in f64. */
void scene_begin(struct scene *x, int index);
void scene_end(struct scene *x);
/* Threads of this process now; 0 if the system does not tell. */
size_t os_threads(void);

/* -- hosts with an executor -------------------------------------------------------------------- */

enum host_how { HOST_SERIAL, HOST_REVERSED, HOST_THREADS, HOST_POOL, HOSTS };
#define HOST_POOL_THREADS 3

struct job;

struct host {
    enum host_how how;
    size_t most; /* that it may be asked for */
    atomic_size_t calls, widest, bad;
    pthread_mutex_t lock; /* the pool's: */
    pthread_cond_t work, ended;
    struct job *jobs;
    bool stop;
    pthread_t thread[HOST_POOL_THREADS];
};

/* The executor; its user data are the host. */
void host_execute(void *user, size_t count, void (*function)(void *argument, size_t index),
                  void *argument);
void host_begin(struct host *host, enum host_how how, size_t most);
/* Fails the test if the host was asked for anything that it may not be asked for. */
void host_end(struct host *host);
struct tsa_plan *host_plan(const struct problem *p, struct host *host, int threads);

#endif
