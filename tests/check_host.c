/* SPDX-License-Identifier: MIT */
/* What the library does to the program around it: memory, floating-point mode, errno, threads, and
 * batches and strides of unusual size. */
#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#ifdef _OPENMP
#include <omp.h>
#endif
#if defined(__SSE2__)
#include <xmmintrin.h>
#endif

#include "support.h"

static const struct shape usual = {
    5, 19, 3, 8, 4, 2, 2, 45, TSA_F32, TSA_NORMALIZE_L2, COEF_TAYLOR, TEMP_TWO};

/* -- memory ------------------------------------------------------------------------------------ */

/* Counts, and refuses the allocation number `refuse` (from 0). */
struct meter {
    size_t calls, live, bytes, peak, refuse;
};

static void *meter_allocate(void *user, size_t bytes, size_t alignment)
{
    struct meter *m = user;
    if (m->calls++ == m->refuse)
        return NULL;
    m->live++;
    m->bytes += bytes;
    m->peak = m->bytes > m->peak ? m->bytes : m->peak;
    void *memory = aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
    memset(memory, 0xff, bytes);
    return memory;
}

static void meter_release(void *user, void *memory, size_t bytes)
{
    struct meter *m = user;
    ck_assert_ptr_nonnull(memory);
    m->live--;
    m->bytes -= bytes;
    free(memory);
}

static void meter_options(struct tsa_options *o, const struct problem *p, struct meter *m)
{
    problem_options(p, o);
    o->allocate = meter_allocate;
    o->release = meter_release;
    o->allocator_user = m;
    o->threads = 3;
}

enum { ENTRIES = 6 };

/* The i-th entry point that computes, for the first `tokens` tokens. */
static enum tsa_status enter(int i, const struct tsa_plan *plan, struct tsa_state **st,
                             const struct problem *p, size_t tokens, void *out,
                             struct tsa_workspace *ws, struct tsa_error *err)
{
    const struct shape *s = &p->shape;
    const struct tsa_tensor o = dense(out, s->dtype, s->heads, s->tokens, s->dv);
    switch (i) {
    case 0:
        return tsa_prefill(plan,
                           BATCH(.states = st, .count = s->batch, .tokens = tokens, .q = p->q,
                                 .k = p->k, .v = p->v, .o = o),
                           ws, err);
    case 1:
        return tsa_decode(
            plan, BATCH(.states = st, .count = s->batch, .q = p->q, .k = p->k, .v = p->v, .o = o),
            ws, err);
    case 2:
        return tsa_absorb(
            plan, BATCH(.states = st, .count = s->batch, .tokens = tokens, .k = p->k, .v = p->v),
            ws, err);
    case 3:
        return tsa_query(
            plan, BATCH(.states = st, .count = s->batch, .tokens = tokens, .q = p->q, .o = o), ws,
            err);
    case 4:
        return tsa_state_merge(plan, st[0], st[1], ws, err);
    default:
        return tsa_softmax(plan, s->batch, tokens, tokens, 1, &p->q, &p->k, &p->v, &o, ws, err);
    }
}

/* With a workspace nothing allocates; without one everything is given back; and scratch is the
 * same for any number of tokens. */
START_TEST(allocations)
{
    struct shape s = usual;
    struct meter m = {.refuse = SIZE_MAX};
    struct problem p;
    struct tsa_options o;
    struct tsa_error err;
    s.tokens = 700;
    s.dtype = _i == 0 ? TSA_F32 : TSA_F64;
    problem_make(&p, &s, 300);
    meter_options(&o, &p, &m);
    struct tsa_plan *plan = make_plan(&o);
    ck_assert_uint_eq(m.live, 1);
    struct tsa_state **st = states_make(plan, s.batch);
    struct tsa_workspace *ws = NULL;
    void *out = make_zeros(p.o_count, s.dtype);
    ok(tsa_workspace_create(plan, 0, &ws, &err), &err);
    const size_t calls = m.calls, live = m.live, bytes = m.bytes;
    for (int i = 0; i < 2 * ENTRIES; i++)
        ok(enter(i % ENTRIES, plan, st, &p, i < ENTRIES ? 700 : 11, out, ws, &err), &err);
    ck_assert_uint_eq(m.calls, calls);
    tsa_workspace_destroy(ws);
    tsa_workspace_destroy(NULL);
    ck_assert_uint_eq(m.live, live - 1);
    for (int i = 0; i < ENTRIES; i++) {
        size_t peak[2];
        for (size_t j = 0; j < 2; j++) {
            m.peak = 0;
            ok(enter(i, plan, st, &p, j == 0 ? 20 : 700, out, NULL, &err), &err);
            peak[j] = m.peak;
            ck_assert_uint_eq(m.live, live - 1);
        }
        ck_assert_uint_le(peak[1], bytes);
        ck_assert(i == 4 || peak[0] == peak[1]);
    }
    states_free(st, s.batch);
    tsa_plan_destroy(plan);
    ck_assert_uint_eq(m.live, 0);
    ck_assert_uint_eq(m.bytes, 0);
    free(out);
    problem_free(&p);
}
END_TEST

/* Refuse every allocation in turn: TSA_ENOMEM, nothing lost, nothing changed. */
START_TEST(refusals)
{
    struct problem p;
    struct tsa_options o;
    struct tsa_error err;
    size_t refuse = 0;
    problem_make(&p, &usual, 301);
    void *out = make_zeros(p.o_count, TSA_F32), *before = make_zeros(p.o_count, TSA_F32);
    for (bool done = false; !done; refuse++) {
        struct meter m = {.refuse = refuse};
        struct tsa_plan *plan = NULL;
        struct tsa_state *st[2] = {NULL, NULL};
        struct tsa_workspace *ws = NULL;
        const char *wanted = "plan";
        char *copy = NULL;
        meter_options(&o, &p, &m);
        enum tsa_status status = tsa_plan_create(&o, &plan, &err);
        if (status == TSA_OK) {
            wanted = "state";
            const size_t bytes = tsa_state_bytes(plan);
            copy = malloc(2 * bytes);
            for (int b = 0; b < 2 && status == TSA_OK; b++)
                status = tsa_state_create(plan, &st[b], &err);
            if (status == TSA_OK) {
                wanted = "ws";
                ws = (struct tsa_workspace *)(uintptr_t)64;
                status = tsa_workspace_create(plan, 2, &ws, &err);
                ck_assert((ws != NULL) == (status == TSA_OK));
            }
            for (int i = 0; i < ENTRIES && status == TSA_OK; i++) {
                memcpy(before, out, p.o_count * sizeof(float));
                memcpy(copy, st[0], bytes);
                memcpy(copy + bytes, st[1], bytes);
                status = enter(i, plan, st, &p, 45, out, NULL, &err);
                if (status != TSA_OK) {
                    ck_assert_mem_eq(before, out, p.o_count * sizeof(float));
                    ck_assert_mem_eq(copy, st[0], bytes);
                    ck_assert_mem_eq(copy + bytes, st[1], bytes);
                }
            }
            if (status == TSA_OK) /* with a window to fold */
                status = tsa_state_export(plan, st[0], 0, 0, 0, TSA_BASIS_PLAIN, (double[20]){0},
                                          20, &err);
        } else {
            ck_assert_ptr_null(plan);
        }
        done = status == TSA_OK;
        if (!done) {
            ck_assert_int_eq(status, TSA_ENOMEM);
            ck_assert_int_eq(err.status, TSA_ENOMEM);
            ck_assert_str_eq(err.argument, wanted);
            ck_assert_uint_eq(m.calls, refuse + 1); /* and nothing was tried after it */
        }
        tsa_workspace_destroy(ws);
        tsa_state_destroy(st[0]);
        tsa_state_destroy(st[1]);
        tsa_plan_destroy(plan);
        ck_assert_uint_eq(m.live, 0);
        free(copy);
    }
    ck_assert_uint_ge(refuse, 1 + 1 + 2 + 1 + ENTRIES + 1);
    free(out);
    free(before);
    problem_free(&p);
}
END_TEST

/* A workspace for fewer threads, or for a smaller plan: right, or refused; never overrun. */
START_TEST(smaller_workspace)
{
    struct problem p, large;
    struct shape s = usual;
    struct tsa_error err;
    s.chunk = 4096; /* whose window is more than the scratch of softmax, which both have */
    s.terms = 5;
    problem_make(&p, &usual, 302);
    problem_solve(&p);
    problem_make(&large, &s, 302);
    struct tsa_plan *plan = problem_plan(&p, NULL, 4), *big = problem_plan(&large, NULL, 2);
    struct tsa_state **st = states_make(plan, 2), **bigger = states_make(big, 2);
    const size_t bytes = tsa_workspace_bytes(plan, 1);
    ck_assert_uint_le(bytes, tsa_workspace_bytes(plan, 4));
    unsigned char *memory = aligned_alloc(64, (bytes + 63) / 64 * 64 + 4096);
    struct tsa_workspace *ws = NULL;
    memset(memory, 0xff, bytes + 4096);
    ok(tsa_workspace_init(plan, 1, memory, bytes, &ws, &err), &err);
    void *out = make_zeros(p.o_count, TSA_F32);
    ok(enter(0, plan, st, &p, 45, out, ws, &err), &err);
    assert_bits(out, p.o, TSA_F32, p.o_count, "in a workspace for one thread");
    const enum tsa_status status = enter(0, big, bigger, &large, 45, out, ws, &err);
    ck_assert(status == TSA_EINVAL || status == TSA_ENOMEM);
    ck_assert_str_eq(err.argument, "ws");
    for (size_t i = bytes; i < bytes + 4096; i++)
        CHECK(memory[i] == 0xff, "byte %zu past the workspace", i);
    free(memory);
    free(out);
    states_free(st, 2);
    states_free(bigger, 2);
    tsa_plan_destroy(plan);
    tsa_plan_destroy(big);
    problem_free(&p);
    problem_free(&large);
}
END_TEST

/* -- floating-point mode ----------------------------------------------------------------------- */

#if defined(__SSE2__)
#define HAVE_MODE 1
static uint64_t get_mode(void)
{
    return _mm_getcsr() & ~0x3fu; /* without the flags of past exceptions */
}
static void set_mode(uint64_t mode)
{
    _mm_setcsr((unsigned)mode);
}
/* Flush to zero, denormals are zero, round down; all exceptions masked. */
static const uint64_t strange_mode = 0x8000 | 0x0040 | 0x2000 | 0x1f80;
#elif defined(__aarch64__)
#define HAVE_MODE 1
static uint64_t get_mode(void)
{
    uint64_t mode;
    __asm__ volatile("mrs %0, fpcr" : "=r"(mode));
    return mode;
}
static void set_mode(uint64_t mode)
{
    __asm__ volatile("msr fpcr, %0" : : "r"(mode));
}
/* Flush to zero, round down, default NaN. */
static const uint64_t strange_mode = 1u << 24 | 2u << 22 | 1u << 25;
#endif

#ifdef HAVE_MODE
/* The mode of every thread of a team. */
static void set_team_mode(uint64_t mode, int threads)
{
    (void)threads;
#ifdef _OPENMP
    omp_set_dynamic(0);
#pragma omp parallel num_threads(threads)
#endif
    set_mode(mode);
}

static void assert_team_mode(uint64_t mode, int threads)
{
    int others = 0;
    (void)threads;
#ifdef _OPENMP
#pragma omp parallel num_threads(threads) reduction(+ : others)
#endif
    others += get_mode() != mode;
    ck_assert_int_eq(others, 0);
}

/* Tiny numbers and ordinary ones, in a strange mode in the caller and in every worker: the bits
 * stay, and so does the mode. */
START_TEST(strange_modes)
{
    const enum tsa_dtype dtype = _i % 2 == 0 ? TSA_F32 : TSA_F64;
    const struct shape s = {5,           19,      3, 8, 8, 4, 2, 45, dtype, TSA_NORMALIZE_NONE,
                            COEF_TAYLOR, TEMP_TWO};
    const int threads = _i / 2 % 2 == 0 ? 1 : 4;
    const double tiny = s.dtype == TSA_F32 ? 1e-21 : 1e-156;
    const uint64_t normal = get_mode();
    struct problem p;
    struct tsa_error err;
    problem_make(&p, &s, 303);
    for (size_t i = 0; i < 2 * (size_t)p.k.batch; i += 3)
        put(p.k.data, s.dtype, i, tiny * get(p.k.data, s.dtype, i));
    for (size_t i = 0; i < 2 * (size_t)p.v.batch; i += 2)
        put(p.v.data, s.dtype, i, tiny * get(p.v.data, s.dtype, i));
    problem_solve(&p);
    void *out = make_zeros(p.o_count, s.dtype), *bits[ENTRIES];
    char *names = calloc(1, 4096);
    const char *isa;
    for (size_t n = 0; (isa = usable_isa(n)) != NULL; n++) {
        for (int strange = 0; strange < 2; strange++) {
            struct tsa_plan *plan;
            if (strange)
                set_team_mode(strange_mode, threads);
            const uint64_t mode = get_mode();
            struct tsa_options o;
            problem_options(&p, &o);
            o.isa = isa;
            o.threads = threads;
            enum tsa_status status = tsa_plan_create(&o, &plan, &err);
            ck_assert_uint_eq(get_mode(), mode);
            if (_i / 4 == 1)
                set_way(plan, WAY_WAVES_OF_2);
            struct tsa_state *st[2];
            for (int b = 0; b < 2 && status == TSA_OK; b++)
                status = tsa_state_create(plan, &st[b], &err);
            ck_assert_uint_eq(get_mode(), mode);
            for (int i = 0; i < ENTRIES && status == TSA_OK; i++) {
                memset(out, 0, p.o_count * dtype_size(s.dtype));
                status = enter(i, plan, st, &p, 45, out, NULL, &err);
                assert_team_mode(mode, threads);
                if (i == 0 && status == TSA_OK) {
                    set_team_mode(normal, threads);
                    assert_bits(out, p.o, s.dtype, p.o_count, "prefill in a strange mode");
                    for (size_t b = 0; b < 2; b++)
                        assert_state(plan, st[b], 0, &p.model, p.head + b * s.kv_heads, isa);
                    set_team_mode(mode, threads);
                }
                if (!strange) {
                    bits[i] = make_zeros(p.o_count, s.dtype);
                    memcpy(bits[i], out, p.o_count * dtype_size(s.dtype));
                } else {
                    assert_bits(out, bits[i], s.dtype, p.o_count, "a call in a strange mode");
                    free(bits[i]);
                }
            }
            int equal;
            if (status == TSA_OK)
                status = tsa_state_equal(plan, st[0], st[1], &equal, &err);
            if (status == TSA_OK)
                status = tsa_state_export(plan, st[0], 0, 0, 0, TSA_BASIS_SYMMETRIC,
                                          (double[20]){0}, 20, &err);
            ck_assert_uint_eq(get_mode(), mode);
            tsa_plan_describe(plan, names, 4096);
            tsa_state_destroy(st[0]);
            tsa_state_destroy(st[1]);
            tsa_plan_destroy(plan);
            ck_assert_uint_eq(get_mode(), mode);
            set_team_mode(normal, threads);
            ok(status, &err);
        }
    }
    free(names);
    free(out);
    problem_free(&p);
}
END_TEST
#endif

START_TEST(errno_stays)
{
    struct problem p;
    struct tsa_error err;
    problem_make(&p, &usual, 304);
    struct tsa_plan *plan = problem_plan(&p, NULL, 2);
    struct tsa_state **st = states_make(plan, 2);
    void *out = make_zeros(p.o_count, TSA_F32);
    for (int i = 0; i < ENTRIES; i++) {
        errno = 12345;
        const enum tsa_status status = enter(i, plan, st, &p, 45, out, NULL, &err);
        ck_assert_int_eq(errno, 12345);
        ok(status, &err);
    }
    errno = 12345;
    tsa_isa_active();
    tsa_default_threads(NULL);
    struct tsa_options o;
    problem_options(&p, &o);
    o.isa = "none";
    ck_assert_int_eq(tsa_plan_create(&o, &(struct tsa_plan *){NULL}, &err), TSA_EUNSUPPORTED);
    o.isa = NULL;
    o.head_dim = SIZE_MAX;
    ck_assert_int_eq(tsa_plan_create(&o, &(struct tsa_plan *){NULL}, &err), TSA_EOVERFLOW);
    ck_assert_int_eq(errno, 12345);
    free(out);
    states_free(st, 2);
    tsa_plan_destroy(plan);
    problem_free(&p);
}
END_TEST

/* -- threads ----------------------------------------------------------------------------------- */

/* Calls from inside a caller's team: one plan, states and outputs of each thread's own. */
START_TEST(inside_a_team)
{
    enum { TEAM = 4 };
    struct problem p;
    int bad = 0;
    problem_make(&p, &usual, 305);
    problem_solve(&p);
    struct tsa_plan *plan = problem_plan(&p, NULL, 3);
    const size_t bytes = p.o_count * sizeof(float);
    struct tsa_state **st = states_make(plan, 2 * TEAM);
    char *out = make_zeros(TEAM * p.o_count, TSA_F32);
    assert_team(TEAM);
#ifdef _OPENMP
#pragma omp parallel for num_threads(TEAM) reduction(+ : bad) schedule(static, 1)
#endif
    for (int i = 0; i < TEAM; i++)
        for (int round = 0; round < 5; round++) {
            struct tsa_error err;
            bad += tsa_state_reset(plan, st[2 * i], &err) != TSA_OK;
            bad += tsa_state_reset(plan, st[2 * i + 1], &err) != TSA_OK;
            bad +=
                enter(0, plan, st + 2 * i, &p, 45, out + (size_t)i * bytes, NULL, &err) != TSA_OK;
        }
    ck_assert_int_eq(bad, 0);
    for (size_t i = 0; i < TEAM; i++) {
        assert_bits(out + i * bytes, p.o, TSA_F32, p.o_count, "inside a team");
        for (size_t b = 0; b < 2; b++)
            assert_state(plan, st[2 * i + b], 0, &p.model, p.head + b * 2, "inside a team");
    }
    free(out);
    states_free(st, 2 * TEAM);
    tsa_plan_destroy(plan);
    problem_free(&p);
}
END_TEST

/* Two threads of the program's own, one plan. */
struct worker {
    const struct problem *p;
    struct tsa_plan *plan;
    struct tsa_state **states;
    void *out;
    int bad;
};

static void *work(void *user)
{
    struct worker *w = user;
    struct tsa_error err;
    for (int round = 0; round < 10; round++) {
        for (size_t b = 0; b < 2; b++)
            w->bad += tsa_state_reset(w->plan, w->states[b], &err) != TSA_OK;
        w->bad += enter(0, w->plan, w->states, w->p, 45, w->out, NULL, &err) != TSA_OK;
        w->bad += memcmp(w->out, w->p->o, w->p->o_count * sizeof(float)) != 0;
        memset(w->out, 0, w->p->o_count * sizeof(float));
    }
    return NULL;
}

START_TEST(two_threads)
{
    struct problem p;
    pthread_t thread[2];
    struct worker w[2];
    problem_make(&p, &usual, 308);
    problem_solve(&p);
    struct tsa_plan *plan = problem_plan(&p, NULL, 2);
    for (int i = 0; i < 2; i++) {
        w[i] = (struct worker){&p, plan, states_make(plan, 2), make_zeros(p.o_count, TSA_F32), 0};
        ck_assert_int_eq(pthread_create(&thread[i], NULL, work, &w[i]), 0);
    }
    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(pthread_join(thread[i], NULL), 0);
        ck_assert_int_eq(w[i].bad, 0);
        states_free(w[i].states, 2);
        free(w[i].out);
    }
    tsa_plan_destroy(plan);
    problem_free(&p);
}
END_TEST

/* -- sizes ------------------------------------------------------------------------------------- */

/* More sequences than any 16-bit count holds, each of one token: the outputs are the values. */
START_TEST(many_sequences)
{
    const size_t batch = quick() ? 5000 : 70000;
    struct shape s = {2, 3, 2, 1, 1, 1, batch, 1, TSA_F32, TSA_NORMALIZE_L2, COEF_TAYLOR, TEMP_TWO};
    struct problem p;
    struct tsa_error err;
    problem_make(&p, &s, 306);
    struct tsa_plan *plan = problem_plan(&p, NULL, 2);
    struct tsa_state **st = states_make(plan, batch);
    void *out = make_zeros(p.o_count, TSA_F32);
    for (int i = 0; i < 2; i++) {
        ok(enter(i, plan, st, &p, 1, out, NULL, &err), &err);
        for (size_t j = 0; j < p.o_count; j++)
            CHECK(ulps(get(out, TSA_F32, j), get(p.v.data, TSA_F32, j), TSA_F32) <= 1 + 3 * i,
                  "output %zu", j);
    }
    free(out);
    states_free(st, batch);
    tsa_plan_destroy(plan);
    problem_free(&p);
}
END_TEST

/* Strides past 2^31 elements of tokens or of heads, in memory that is mostly never touched. */
START_TEST(huge_strides)
{
    const ptrdiff_t far = (ptrdiff_t)(((uint64_t)1 << 31) + 77);
    const size_t bytes = 4 * ((size_t)far + 10000);
    struct shape s = {3, 5, 3,       1 + (size_t)_i / 2, 2,           2,
                      1, 2, TSA_F32, TSA_NORMALIZE_L2,   COEF_TAYLOR, TEMP_TWO};
    struct problem p;
    struct tsa_error err;
    float *room = sizeof far < 8 ? MAP_FAILED
                                 : mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (room == MAP_FAILED)
        return; /* no such address space here */
    problem_make(&p, &s, 307);
    problem_solve(&p);
    struct tsa_plan *plan = problem_plan(&p, NULL, 2);
    struct tsa_state **st = states_make(plan, 1);
    const float *from[] = {p.q.data, p.k.data, p.v.data, p.o};
    struct tsa_tensor x[4] = {{.data = NULL}};
    for (int j = 0; j < 4; j++) {
        x[j].data = room + 1000 * j;
        x[j].dtype = TSA_F32;
        x[j].token = _i % 2 == 0 ? far : 100;
        x[j].head = _i % 2 == 0 ? 100 : far;
        for (ptrdiff_t i = 0; j < 3 && i < 4; i++) /* head i / 2, token i % 2 */
            memcpy((float *)x[j].data + i / 2 * x[j].head + i % 2 * x[j].token,
                   from[j] + i * (j < 2 ? 3 : 5), j < 2 ? 12 : 20);
    }
    ok(tsa_prefill(
           plan,
           BATCH(.states = st, .count = 1, .tokens = 2, .q = x[0], .k = x[1], .v = x[2], .o = x[3]),
           NULL, &err),
       &err);
    for (ptrdiff_t i = 0; i < 4; i++)
        assert_bits((float *)x[3].data + i / 2 * x[3].head + i % 2 * x[3].token, from[3] + i * 5,
                    TSA_F32, 5, "far away");
    munmap(room, bytes);
    states_free(st, 1);
    tsa_plan_destroy(plan);
    problem_free(&p);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("host");
    TCase *memory = add_case(suite, "memory");
    tcase_add_loop_test(memory, allocations, 0, 2);
    tcase_add_test(memory, refusals);
    tcase_add_test(memory, smaller_workspace);
    TCase *process = add_case(suite, "process");
#ifdef HAVE_MODE
    tcase_add_loop_test(process, strange_modes, 0, 8);
#endif
    tcase_add_test(process, errno_stays);
    tcase_add_test(process, inside_a_team);
    tcase_add_test(process, two_threads);
    TCase *sizes = add_case(suite, "sizes");
    tcase_add_test(sizes, many_sequences);
    tcase_add_loop_test(sizes, huge_strides, 0, 4);
    return run_suite(suite);
}
