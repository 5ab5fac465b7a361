/* SPDX-License-Identifier: MIT */
/* States: merge, move, copy, comparison, export, layers, and which plan may use which state. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "support.h"

#define L2 TSA_NORMALIZE_L2
#define RAW TSA_NORMALIZE_NONE

static enum tsa_dtype dtype_of(int index)
{
    return index % 2 == 0 ? TSA_F32 : TSA_F64;
}

/* Sequence b of the problem, tokens from..to, into a layer of a state; by the library and by the
 * model. */
static void absorb(const struct tsa_plan *plan, struct tsa_state *state, size_t layer,
                   const struct problem *p, size_t b, size_t from, size_t to)
{
    const struct tsa_tensor k = from_token(from_batch(p->k, b), from);
    const struct tsa_tensor v = from_token(from_batch(p->v, b), from);
    struct tsa_error err;
    ok(tsa_absorb(
           plan,
           BATCH(.states = &state, .count = 1, .layer = layer, .tokens = to - from, .k = k, .v = v),
           NULL, &err),
       &err);
}

static void model_absorb(const struct model *m, struct model_head **head, const struct problem *p,
                         size_t b, size_t from, size_t to)
{
    const size_t e = dtype_size(p->shape.dtype);
    for (size_t g = 0; g < m->kv_heads; g++)
        for (size_t t = from; t < to; t++) {
            const size_t row = (b * m->kv_heads + g) * p->shape.tokens + t;
            model_append(m, head[g], (char *)p->k.data + row * m->d * e,
                         (char *)p->v.data + row * m->dv * e);
            model_fold(m, head[g]);
        }
}

static struct model_head **heads_new(const struct model *m)
{
    struct model_head **head = calloc(m->kv_heads, sizeof(struct model_head *));
    for (size_t g = 0; g < m->kv_heads; g++)
        head[g] = model_head_new(m);
    return head;
}

static void heads_free(const struct model *m, struct model_head **head)
{
    for (size_t g = 0; g < m->kv_heads; g++)
        model_head_free(head[g]);
    free(head);
}

static struct tsa_plan *layered_plan(const struct problem *p, size_t layers)
{
    struct tsa_options options;
    problem_options(p, &options);
    options.layers = layers;
    return make_plan(&options);
}

/* -- merge ------------------------------------------------------------------------------------- */

/* Lengths on both sides: empty, open windows, exactly folded. */
static const size_t lengths[][2] = {{0, 0},   {0, 5},  {5, 0},  {0, 32}, {32, 0}, {37, 21},
                                    {16, 16}, {32, 5}, {5, 32}, {3, 4},  {47, 1}, {1, 47}};
#define LENGTHS (sizeof lengths / sizeof lengths[0])

static const struct shape merge_shapes[] = {
    {5, 19, 4, 16, 4, 2, 2, 60, 0, L2, COEF_TAYLOR, TEMP_PER_HEAD},
    {16, 64, 3, 16, 1, 1, 2, 60, 0, RAW, COEF_TAYLOR, TEMP_TWO},
    {1, 1, 1, 1, 3, 3, 2, 60, 0, L2, COEF_TAYLOR, TEMP_TWO},
};

START_TEST(merge)
{
    struct shape s = merge_shapes[_i / 2];
    struct problem p;
    struct tsa_error err;
    s.dtype = dtype_of(_i);
    problem_make(&p, &s, 70);
    struct tsa_plan *plan = layered_plan(&p, 2);
    const struct model *m = &p.model;
    for (size_t j = 0; j < LENGTHS; j++) {
        struct tsa_state **st = states_make(plan, 3);
        struct model_head **head[2][2]; /* [operand][layer] */
        for (size_t side = 0; side < 2; side++)
            for (size_t layer = 0; layer < 2; layer++) { /* layer 1 has the lengths swapped */
                const size_t n = lengths[j][side ^ layer];
                head[side][layer] = heads_new(m);
                absorb(plan, st[side], layer, &p, side, 0, n);
                model_absorb(m, head[side][layer], &p, side, 0, n);
            }
        ok(tsa_state_copy(plan, st[2], st[1], &err), &err);
        ok(tsa_state_merge(plan, st[0], st[1], NULL, &err), &err);
        assert_equal(plan, st[1], st[2], true);
        for (size_t layer = 0; layer < 2; layer++) {
            for (size_t g = 0; g < s.kv_heads; g++)
                model_merge(m, head[0][layer][g], head[1][layer][g]);
            assert_state(plan, st[0], layer, m, head[0][layer], "merged");
            assert_export(plan, st[0], layer, m, head[0][layer], "merged");
            /* and its window goes on as before */
            absorb(plan, st[0], layer, &p, 0, 40, 60);
            model_absorb(m, head[0][layer], &p, 0, 40, 60);
            assert_state(plan, st[0], layer, m, head[0][layer], "merged, continued");
            assert_export(plan, st[0], layer, m, head[0][layer], "merged, continued");
        }
        if (lengths[j][0] == 0 && lengths[j][1] == 0)
            ck_assert_uint_eq(tsa_state_tokens(st[0], 0), 20);
        for (size_t side = 0; side < 2; side++)
            for (size_t layer = 0; layer < 2; layer++)
                heads_free(m, head[side][layer]);
        states_free(st, 3);
    }
    tsa_plan_destroy(plan);
    problem_free(&p);
}
END_TEST

START_TEST(merge_with_itself)
{
    struct shape s = merge_shapes[_i / 2];
    struct problem p;
    struct tsa_error err;
    s.dtype = dtype_of(_i);
    problem_make(&p, &s, 71);
    struct tsa_plan *plan = layered_plan(&p, 1);
    const size_t counts[] = {0, 5, 16, 37};
    for (size_t j = 0; j < 4; j++) {
        struct tsa_state **st = states_make(plan, 2);
        struct model_head **head = heads_new(&p.model), **copy = heads_new(&p.model);
        absorb(plan, st[0], 0, &p, 0, 0, counts[j]);
        model_absorb(&p.model, head, &p, 0, 0, counts[j]);
        ok(tsa_state_copy(plan, st[1], st[0], &err), &err);
        ok(tsa_state_merge(plan, st[0], st[0], NULL, &err), &err);
        ok(tsa_state_merge(plan, st[1], st[1], NULL, &err), &err);
        for (size_t g = 0; g < s.kv_heads; g++) {
            model_head_copy(&p.model, copy[g], head[g]);
            model_merge(&p.model, head[g], copy[g]);
        }
        ck_assert_uint_eq(tsa_state_tokens(st[0], 0), 2 * counts[j]);
        assert_state(plan, st[0], 0, &p.model, head, "doubled");
        assert_export(plan, st[0], 0, &p.model, head, "doubled");
        assert_equal(plan, st[0], st[1], true);
        heads_free(&p.model, head);
        heads_free(&p.model, copy);
        states_free(st, 2);
    }
    tsa_plan_destroy(plan);
    problem_free(&p);
}
END_TEST

/* An empty dst becomes the same bits, the window's contents too. */
START_TEST(merge_into_empty)
{
    struct shape s = merge_shapes[0];
    struct problem p;
    struct tsa_error err;
    s.dtype = dtype_of(_i);
    problem_make(&p, &s, 72);
    struct tsa_plan *plan = layered_plan(&p, 1);
    struct tsa_state **st = states_make(plan, 2);
    absorb(plan, st[1], 0, &p, 0, 0, 37);
    ok(tsa_state_merge(plan, st[0], st[1], NULL, &err), &err);
    assert_equal(plan, st[0], st[1], true);
    states_free(st, 2);
    tsa_plan_destroy(plan);
    problem_free(&p);
}
END_TEST

/* Parts cut at chunk boundaries: hi + lo is nearly exact either way, so hi is within 1 ulp. */
START_TEST(merge_parts)
{
    struct shape s = {8, 24, 3, 16, 2, 2, 1, 512, dtype_of(_i), L2, COEF_TAYLOR, TEMP_TWO};
    struct problem p;
    struct tsa_error err;
    problem_make(&p, &s, 73);
    struct tsa_plan *plan = layered_plan(&p, 1);
    struct tsa_state **st = states_make(plan, 5);
    absorb(plan, st[4], 0, &p, 0, 0, 512);
    for (size_t j = 0; j < 4; j++) {
        absorb(plan, st[j], 0, &p, 0, 128 * j, 128 * (j + 1));
        if (j > 0)
            ok(tsa_state_merge(plan, st[0], st[j], NULL, &err), &err);
    }
    for (size_t g = 0; g < s.kv_heads; g++) {
        struct tsa_view a, b;
        ok(tsa_state_view(plan, st[0], 0, g, &a, &err), &err);
        ok(tsa_state_view(plan, st[4], 0, g, &b, &err), &err);
        ck_assert_uint_eq(a.tokens, 512);
        for (size_t f = 0; f < a.features; f++) {
            for (size_t c = 0; c < s.dv; c++) {
                const size_t at = f * (size_t)a.stride + c;
                CHECK(ulps(get(a.hi, s.dtype, at), get(b.hi, s.dtype, at), s.dtype) <= 1,
                      "feature %zu, column %zu", f, c);
            }
            CHECK(ulps(get(a.ones_hi, s.dtype, f), get(b.ones_hi, s.dtype, f), s.dtype) <= 1,
                  "feature %zu, ones", f);
        }
    }
    states_free(st, 5);
    tsa_plan_destroy(plan);
    problem_free(&p);
}
END_TEST

/* Counts past what T counts alone: exact in hi + lo, also for the token that comes after. */
START_TEST(large_counts)
{
    struct shape s = {
        3, 2, 2, 1 + 15 * (size_t)(_i / 2), 1, 1, 1, 48, dtype_of(_i), L2, COEF_TAYLOR, TEMP_TWO};
    const int doublings = s.dtype == TSA_F32 ? 30 : 50;
    struct problem p;
    struct tsa_error err;
    problem_make(&p, &s, 74);
    struct tsa_plan *plan = layered_plan(&p, 1);
    struct tsa_state **st = states_make(plan, 1);
    absorb(plan, st[0], 0, &p, 0, 0, 48); /* 48 = 3 * 16 */
    uint64_t count = 48;
    for (int j = 0; j < doublings; j++, count *= 2)
        if (j != 24)
            ok(tsa_state_merge(plan, st[0], st[0], NULL, &err), &err);
        else { /* an odd number of chunks joins in between */
            absorb(plan, st[0], 0, &p, 0, 0, 48);
            count = (count + 48) / 2;
        }
    absorb(plan, st[0], 0, &p, 0, 0, s.chunk);
    count += s.chunk;
    double out[3];
    struct tsa_view view;
    ok(tsa_state_export(plan, st[0], 0, 0, 0, TSA_BASIS_PLAIN, out, 3, &err), &err);
    ok(tsa_state_view(plan, st[0], 0, 0, &view, &err), &err);
    ck_assert_uint_eq(tsa_state_tokens(st[0], 0), count);
    ck_assert_uint_eq(view.tokens, count);
    const double hi = get(view.ones_hi, s.dtype, 0), lo = get(view.ones_lo, s.dtype, 0);
    ck_assert_uint_eq((uint64_t)((int64_t)hi + (int64_t)lo), count);
    ck_assert_double_eq(out[2], (double)count);
    if (s.dtype == TSA_F32)
        ck_assert_double_ne(lo, 0);
    states_free(st, 1);
    tsa_plan_destroy(plan);
    problem_free(&p);
}
END_TEST

/* -- memory ------------------------------------------------------------------------------------ */

START_TEST(moved)
{
    struct shape s = {5, 19, 3, 16, 2, 2, 1, 60, dtype_of(_i), L2, COEF_TAYLOR, TEMP_TWO};
    struct problem p;
    struct tsa_error err;
    problem_make(&p, &s, 75);
    struct tsa_plan *plan = layered_plan(&p, 2);
    const size_t bytes = tsa_state_bytes(plan), room = (bytes + 63) / 64 * 64;
    unsigned char *a = aligned_alloc(64, room + 64), *b = aligned_alloc(64, room + 64);
    memset(a, 0xa5, room + 64);
    struct tsa_state *state = NULL;
    ok(tsa_state_init(plan, a, bytes, &state, &err), &err);
    ck_assert_ptr_eq(state, a);
    absorb(plan, state, 0, &p, 0, 0, 37);
    absorb(plan, state, 1, &p, 0, 20, 31);
    for (size_t i = bytes; i < room + 64; i++) /* not a byte more than it asked for */
        CHECK(a[i] == 0xa5, "byte %zu past the state", i);
    memcpy(b + 64, a, bytes);
    memset(a, 0xff, room + 64);
    state = (struct tsa_state *)(void *)(b + 64);
    absorb(plan, state, 0, &p, 0, 37, 60);
    struct tsa_state **own = states_make(plan, 2);
    absorb(plan, own[0], 0, &p, 0, 0, 60);
    absorb(plan, own[0], 1, &p, 0, 20, 31);
    assert_equal(plan, state, own[0], true);
    tsa_state_destroy(state); /* nothing to free: it is ours */
    assert_equal(plan, state, own[0], true);

    /* a state in library memory may be copied out as well; only the original is freed */
    memcpy(b, own[0], bytes);
    state = (struct tsa_state *)(void *)b;
    assert_equal(plan, state, own[0], true);
    tsa_state_destroy(state);
    assert_equal(plan, state, own[0], true);
    tsa_state_destroy(NULL);
    states_free(own, 2);
    tsa_plan_destroy(plan);
    free(a);
    free(b);
    problem_free(&p);
}
END_TEST

START_TEST(equality)
{
    struct shape s = {5, 19, 3, 16, 2, 2, 2, 60, dtype_of(_i), L2, COEF_TAYLOR, TEMP_TWO};
    struct problem p;
    problem_make(&p, &s, 76);
    struct tsa_plan *plan = layered_plan(&p, 2);
    struct tsa_state **st = states_make(plan, 4);
    struct tsa_error err;
    for (size_t i = 0; i < 4; i++)
        absorb(plan, st[i], 0, &p, i < 2 ? 0 : 1, 0, 20);
    assert_equal(plan, st[0], st[1], true);
    assert_equal(plan, st[0], st[0], true);
    assert_equal(plan, st[0], st[2], false);
    absorb(plan, st[1], 1, &p, 0, 0, 1); /* the other layer */
    assert_equal(plan, st[0], st[1], false);
    ok(tsa_state_copy(plan, st[1], st[0], &err), &err);
    put(p.v.data, s.dtype, (s.tokens + 20) * s.dv + 7, 42); /* one value, head 1, in the window */
    absorb(plan, st[0], 0, &p, 0, 20, 21);
    put(p.v.data, s.dtype, (s.tokens + 20) * s.dv + 7, 43);
    absorb(plan, st[1], 0, &p, 0, 20, 21);
    assert_equal(plan, st[0], st[1], false);
    states_free(st, 4);
    tsa_plan_destroy(plan);
    problem_free(&p);
}
END_TEST

/* Layers of one state are as separate states. */
START_TEST(layers)
{
    struct shape s = {5, 19, 3, 16, 4, 2, 2, 40, dtype_of(_i), L2, COEF_TAYLOR, TEMP_PER_HEAD};
    struct problem p;
    struct tsa_error err;
    problem_make(&p, &s, 77);
    problem_solve(&p);
    struct tsa_plan *plan = layered_plan(&p, 3);
    struct tsa_state **st = states_make(plan, 1);
    const size_t per = s.heads * s.tokens * s.dv, e = dtype_size(s.dtype);
    void *got = make_zeros(2 * per, s.dtype);
    for (size_t t = 0; t < s.tokens; t += 10)
        for (size_t layer = 0; layer < 2; layer++) {
            const struct tsa_tensor q = from_token(from_batch(p.q, layer), t);
            const struct tsa_tensor k = from_token(from_batch(p.k, layer), t);
            const struct tsa_tensor v = from_token(from_batch(p.v, layer), t);
            struct tsa_tensor o = dense(got, s.dtype, s.heads, s.tokens, s.dv);
            o = from_token(from_batch(o, layer), t);
            ok(tsa_prefill(plan,
                           BATCH(.states = st, .count = 1, .layer = 2 * layer, .tokens = 10, .q = q,
                                 .k = k, .v = v, .o = o),
                           NULL, &err),
               &err);
        }
    assert_bits(got, p.o, s.dtype, 2 * per, "layers");
    for (size_t layer = 0; layer < 2; layer++)
        assert_state(plan, st[0], 2 * layer, &p.model, p.head + layer * s.kv_heads, "layers");
    ck_assert_uint_eq(tsa_state_tokens(st[0], 1), 0);
    ck_assert_uint_eq(tsa_state_tokens(st[0], 3), 0);
    ck_assert_uint_eq(tsa_state_tokens(NULL, 0), 0);
    const struct tsa_tensor q = from_batch(p.q, 1), o = dense(got, s.dtype, s.heads, 3, s.dv);
    ok(tsa_query(plan, BATCH(.states = st, .count = 1, .layer = 2, .tokens = 3, .q = q, .o = o),
                 NULL, &err),
       &err);
    void *want = make_zeros(s.dv, s.dtype);
    for (size_t i = 0; i < s.heads * 3; i++) {
        const size_t h = i / 3;
        model_query(&p.model, p.head[s.kv_heads + h / 2], h,
                    (char *)q.data + (h * s.tokens + i % 3) * s.d * e, want);
        assert_bits((char *)got + i * s.dv * e, want, s.dtype, s.dv, "query of a layer");
    }
    free(want);
    free(got);
    states_free(st, 1);
    tsa_plan_destroy(plan);
    problem_free(&p);
}
END_TEST

/* -- export ------------------------------------------------------------------------------------ */

/* In the symmetric basis <phi_m(q), phi_m(k)> = (q.k)^m; states of one token show phi. */
START_TEST(symmetric_export)
{
    struct shape s = {4,   3,           6,       1 + (size_t)(_i / 2), 1, 1, 2, 20, dtype_of(_i),
                      RAW, COEF_TAYLOR, TEMP_TWO};
    struct problem p;
    struct tsa_error err;
    problem_make(&p, &s, 78);
    struct tsa_plan *plan = layered_plan(&p, 1);
    struct tsa_state **st = states_make(plan, 2);
    const ptrdiff_t ld = 7; /* wider than dv + 1 */
    double *out[2], *plain = malloc(sizeof(double) * 7 * 1000);
    for (size_t t = 8; t < 20; t++) {
        double dot = 0, size = 0, power = 1, bound = 1;
        for (size_t c = 0; c < s.d; c++) {
            const double x = get(from_token(p.k, t).data, s.dtype, c);
            const double y = get(from_token(from_batch(p.k, 1), t).data, s.dtype, c);
            dot += x * y, size += fabs(x * y);
        }
        for (size_t b = 0; b < 2; b++) {
            ok(tsa_state_reset(plan, st[b], &err), &err);
            absorb(plan, st[b], 0, &p, b, t, t + 1);
        }
        for (size_t m = 0; m < s.terms; m++, power *= dot, bound *= size) {
            const size_t rows = tsa_features(s.d, m + 1) - tsa_features(s.d, m);
            double sum = 0;
            for (size_t b = 0; b < 2; b++) {
                out[b] = malloc(sizeof(double) * 7 * rows);
                for (size_t i = 0; i < 7 * rows; i++)
                    out[b][i] = 42;
                ok(tsa_state_export(plan, st[b], 0, 0, m, TSA_BASIS_SYMMETRIC, out[b], ld, &err),
                   &err);
            }
            ok(tsa_state_export(plan, st[0], 0, 0, m, TSA_BASIS_PLAIN, plain, ld, &err), &err);
            for (size_t r = 0; r < rows; r++) {
                const size_t f = p.model.start[m] + r, at = r * 7;
                sum += out[0][at + s.dv] * out[1][at + s.dv];
                for (size_t c = 0; c <= s.dv; c++)
                    CHECK(fabs(out[0][at + c] - sqrt(p.model.multiplicity[f]) * plain[at + c]) <=
                              4e-16 * fabs(out[0][at + c]),
                          "degree %zu, row %zu, column %zu", m, r, c);
                CHECK(out[0][at + 4] == 42 && out[0][at + 6] == 42, "written past row %zu", r);
            }
            ck_assert_double_le(fabs(sum - power), 40 * roundoff(s.dtype) * bound);
            free(out[0]);
            free(out[1]);
        }
    }
    free(plain);
    states_free(st, 2);
    tsa_plan_destroy(plan);
    problem_free(&p);
}
END_TEST

/* -- which plan may use which state ------------------------------------------------------------ */

START_TEST(fewer_terms)
{
    struct shape s = {5, 19, 5, 16, 4, 2, 1, 45, dtype_of(_i), L2, COEF_SHARED, TEMP_PER_HEAD};
    struct problem large, small;
    struct tsa_error err;
    problem_make(&large, &s, 79);
    struct tsa_plan *wide = layered_plan(&large, 1);
    struct tsa_state **st = states_make(wide, 1);
    absorb(wide, st[0], 0, &large, 0, 0, s.tokens);
    for (s.terms = 1; s.terms < 5; s.terms++) {
        problem_make(&small, &s, 79);
        problem_solve(&small);
        struct tsa_plan *plan = layered_plan(&small, 1);
        const size_t e = dtype_size(s.dtype);
        void *got = make_zeros(small.o_count, s.dtype), *want = make_zeros(s.dv, s.dtype);
        const struct tsa_tensor o = dense(got, s.dtype, s.heads, s.tokens, s.dv);
        ok(tsa_query(plan,
                     BATCH(.states = st, .count = 1, .tokens = s.tokens, .q = small.q, .o = o),
                     NULL, &err),
           &err);
        for (size_t i = 0; i < s.heads * s.tokens; i++) {
            const size_t h = i / s.tokens;
            model_query(&small.model, small.head[h / 2], h, (char *)small.q.data + i * s.d * e,
                        want);
            assert_bits((char *)got + i * s.dv * e, want, s.dtype, s.dv, "fewer terms");
        }
        /* the other way round the state lacks degrees */
        struct tsa_state **less = states_make(plan, 1);
        absorb(plan, less[0], 0, &small, 0, 0, 3);
        ck_assert_int_eq(
            tsa_query(wide, BATCH(.states = less, .count = 1, .tokens = 1, .q = large.q, .o = o),
                      NULL, &err),
            TSA_EMISMATCH);
        states_free(less, 1);
        tsa_plan_destroy(plan);
        free(got);
        free(want);
        problem_free(&small);
    }
    states_free(st, 1);
    tsa_plan_destroy(wide);
    problem_free(&large);
}
END_TEST

START_TEST(other_chunk)
{
    struct shape s = {5, 19, 3, 32, 4, 2, 1, 80, dtype_of(_i), L2, COEF_TAYLOR, TEMP_TWO};
    struct problem p;
    struct tsa_error err;
    problem_make(&p, &s, 80);
    struct model m = p.model;
    struct tsa_plan *plan = layered_plan(&p, 1), *shorter, *longer;
    p.shape.chunk = 8;
    shorter = layered_plan(&p, 1);
    p.shape.chunk = 64;
    longer = layered_plan(&p, 1);
    struct tsa_state **st = states_make(plan, 2);
    struct model_head **head = heads_new(&m);
    absorb(plan, st[0], 0, &p, 0, 0, 64);
    model_absorb(&m, head, &p, 0, 0, 64);
    m.chunk = 8;
    absorb(shorter, st[0], 0, &p, 0, 64, 77);
    model_absorb(&m, head, &p, 0, 64, 77);
    assert_state(shorter, st[0], 0, &m, head, "shorter chunk");
    assert_export(shorter, st[0], 0, &m, head, "shorter chunk");

    /* now 5 tokens wait in a window of 8, which is no window of 32 */
    const struct tsa_tensor k = from_token(p.k, 77), v = from_token(p.v, 77);
    const size_t bytes = tsa_state_bytes(plan);
    void *before = malloc(bytes);
    memcpy(before, st[0], bytes);
    ck_assert_int_eq(
        tsa_absorb(plan, BATCH(.states = st, .count = 1, .tokens = 1, .k = k, .v = v), NULL, &err),
        TSA_EMISMATCH);
    ck_assert_int_eq(tsa_absorb(longer,
                                BATCH(.states = st, .count = 1, .tokens = 1, .k = k, .v = v), NULL,
                                &err),
                     TSA_EMISMATCH);
    ck_assert_mem_eq(before, st[0], bytes);
    free(before);
    /* three more, and it is between chunks again */
    absorb(shorter, st[0], 0, &p, 0, 77, 80);
    model_absorb(&m, head, &p, 0, 77, 80);
    m.chunk = 32;
    absorb(plan, st[0], 0, &p, 0, 0, 40);
    model_absorb(&m, head, &p, 0, 0, 40);
    assert_state(plan, st[0], 0, &m, head, "own chunk again");
    assert_export(plan, st[0], 0, &m, head, "own chunk again");
    heads_free(&m, head);
    states_free(st, 2);
    tsa_plan_destroy(plan);
    tsa_plan_destroy(shorter);
    tsa_plan_destroy(longer);
    problem_free(&p);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("state");
    TCase *merging = add_case(suite, "merge");
    tcase_add_loop_test(merging, merge, 0, 6);
    tcase_add_loop_test(merging, merge_with_itself, 0, 6);
    tcase_add_loop_test(merging, merge_into_empty, 0, 2);
    tcase_add_loop_test(merging, merge_parts, 0, 2);
    tcase_add_loop_test(merging, large_counts, 0, 4);
    TCase *memory = add_case(suite, "memory");
    tcase_add_loop_test(memory, moved, 0, 2);
    tcase_add_loop_test(memory, equality, 0, 2);
    tcase_add_loop_test(memory, layers, 0, 2);
    tcase_add_loop_test(add_case(suite, "export"), symmetric_export, 0, 4);
    TCase *fit = add_case(suite, "fit");
    tcase_add_loop_test(fit, fewer_terms, 0, 2);
    tcase_add_loop_test(fit, other_chunk, 0, 2);
    return run_suite(suite);
}
