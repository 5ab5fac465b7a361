/* SPDX-License-Identifier: MIT */
/* The tree that reduces many states: the bits of merges one by one, by any team; and its errors. */
#include <stdlib.h>
#include <string.h>

#include "scene.h"

#define L2 TSA_NORMALIZE_L2
#define RAW TSA_NORMALIZE_NONE

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
    options.execute = host ? host_execute : NULL;
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
    host_begin(&host, HOST_THREADS, 3);
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

int main(void)
{
    Suite *suite = suite_create("reduce");
    TCase *reduction = add_case(suite, "reduction");
    tcase_add_loop_test(reduction, reduce, 0, 2 * REDUCE_SHAPES);
    tcase_add_loop_test(reduction, reduce_repeated, 0, 2 * REDUCE_SHAPES);
    tcase_add_loop_test(reduction, reduce_others, 0, 2);
    tcase_add_loop_test(reduction, reduce_errors, 0, 2);
    tcase_add_loop_test(reduction, reduce_without_memory, 0, 2);
    return run_suite(suite);
}
