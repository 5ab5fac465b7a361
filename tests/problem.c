/* SPDX-License-Identifier: MIT */
/* Problems with their expected results, and the plans and states for them. */
#include <stdlib.h>
#include <string.h>

#include "support.h"

static const double odd_coefficients[TSA_MAX_TERMS] = {1.25,   0.8,    0.61,    0.13,
                                                       0.0525, 0.0071, 0.00213, 0.00031};

static struct tsa_tensor random_rows(struct rng *r, const struct shape *s, size_t heads,
                                     size_t width, double scale)
{
    const size_t count = s->batch * heads * s->tokens * width;
    void *data = make_zeros(count, s->dtype);
    fill_normal(r, data, s->dtype, count, scale);
    return dense(data, s->dtype, heads, s->tokens, width);
}

static void scale_row(const struct shape *s, void *data, size_t token, double scale)
{
    for (size_t c = 0; token < s->tokens && c < s->d; c++)
        put(data, s->dtype, token * s->d + c, scale * get(data, s->dtype, token * s->d + c));
}

void problem_make(struct problem *p, const struct shape *shape, uint64_t seed)
{
    struct rng r = {seed};
    const struct shape *s = &p->shape;
    memset(p, 0, sizeof *p);
    p->shape = *shape;
    ck_assert_uint_le(s->heads, MAX_HEADS);
    double factorial = 1;
    for (size_t h = 0; h < s->heads; h++) {
        p->temperature[h] = s->temperatures == TEMP_TWO      ? 2.0
                            : s->temperatures == TEMP_SHARED ? 1.7
                                                             : 1.5 + 0.37 * (double)h;
        for (size_t m = 0; m < s->terms; m++) {
            double *c = &p->coefficient[h * s->terms + m];
            factorial = m == 0 ? 1 : factorial * (double)m;
            const bool taylor =
                s->coefficients == COEF_TAYLOR || (s->coefficients == COEF_FIRST && m > 0);
            *c = taylor ? 1 / factorial : odd_coefficients[m];
            if (s->coefficients == COEF_PER_HEAD)
                *c *= 1 + 0.031 * (double)(h * m);
        }
    }
    const double scale = s->normalize == TSA_NORMALIZE_NONE ? 0.5 : 1.0;
    p->q = random_rows(&r, s, s->heads, s->d, scale);
    p->k = random_rows(&r, s, s->kv_heads, s->d, scale);
    p->v = random_rows(&r, s, s->kv_heads, s->dv, 1.0);
    scale_row(s, p->k.data, 2, 0.0);
    scale_row(s, p->q.data, 3, -0.0);
    if (s->normalize == TSA_NORMALIZE_L2) { /* far from 1, and subnormal numbers */
        scale_row(s, p->k.data, 4, s->dtype == TSA_F32 ? 1e30 : 1e290);
        scale_row(s, p->k.data, 5, s->dtype == TSA_F32 ? 1e-42 : 1e-312);
        scale_row(s, p->q.data, 6, s->dtype == TSA_F32 ? 1e-40 : 1e-300);
    }
    p->o_count = s->batch * s->heads * s->tokens * s->dv;

    struct model *m = &p->model;
    m->d = s->d, m->dv = s->dv, m->terms = s->terms, m->chunk = s->chunk;
    m->heads = s->heads, m->kv_heads = s->kv_heads;
    m->dtype = s->dtype, m->normalize = s->normalize;
    m->temperature = p->temperature;
    m->coefficients = p->coefficient;
    m->output_scale = 1;
    model_init(m);
}

void problem_solve(struct problem *p)
{
    const struct shape *s = &p->shape;
    const size_t e = dtype_size(s->dtype);
    p->o = make_zeros(p->o_count, s->dtype);
    p->queries = s->tokens < 9 ? s->tokens : 9;
    p->answers = make_zeros(s->batch * s->heads * p->queries * s->dv, s->dtype);
    p->head = calloc(s->batch * s->kv_heads, sizeof(struct model_head *));
    ck_assert_ptr_nonnull(p->head);
    for (size_t i = 0; i < s->batch * s->kv_heads; i++)
        p->head[i] = model_head_new(&p->model);
    for (size_t b = 0; b < s->batch; b++)
        model_run(&p->model, p->head + b * s->kv_heads, s->tokens,
                  &(const struct model_rows){from_batch(p->q, b).data, from_batch(p->k, b).data,
                                             from_batch(p->v, b).data, from_batch(p->gate, b).data,
                                             from_batch(p->value_gate, b).data,
                                             (char *)p->o + b * s->heads * s->tokens * s->dv * e});
    for (size_t i = 0; i < s->batch * s->heads * p->queries; i++) {
        const size_t h = i / p->queries % s->heads, b = i / p->queries / s->heads;
        const size_t row = i / p->queries * s->tokens + i % p->queries;
        model_query(&p->model, p->head[b * s->kv_heads + h / (s->heads / s->kv_heads)], h,
                    (char *)p->q.data + row * s->d * e, (char *)p->answers + i * s->dv * e);
    }
}

/* A gate that is often 1 or 0, and a float. */
static double some_gate(struct rng *r)
{
    const double u = rng_uniform(r);
    return u < 0.05 ? 0 : u < 0.3 ? 1 : (float)(0.7 + 0.3 * rng_uniform(r));
}

void problem_gate(struct problem *p, int how)
{
    const struct shape *s = &p->shape;
    const size_t count = s->batch * s->kv_heads * s->tokens;
    struct rng r = {7000 + (uint64_t)how};
    struct model *m = &p->model;
    struct tsa_tensor *tensors[] = {&p->gate, &p->value_gate};
    for (int i = 0; i < 2; i++) {
        *tensors[i] = dense(make_zeros(count, s->dtype), s->dtype, s->kv_heads, s->tokens, 1);
        for (size_t j = 0; j < count; j++)
            put(tensors[i]->data, s->dtype, j,
                i == 0         ? some_gate(&r)
                : how % 2 == 0 ? 1
                               : (float)(2 * rng_uniform(&r)));
    }
    m->gated = true;
    m->output = how % 4 == 1 ? TSA_OUTPUT_SUM : TSA_OUTPUT_RATIO;
    m->output_scale = how % 4 == 1 ? 0.7 : 1;
    m->denominator_add = how % 4 >= 2 ? 0.01 : 0;
    m->denominator_floor = how % 4 == 3 ? 0.5 : 0;
}

void problem_free(struct problem *p)
{
    for (size_t i = 0; p->head != NULL && i < p->shape.batch * p->shape.kv_heads; i++)
        model_head_free(p->head[i]);
    free(p->head);
    free(p->o);
    free(p->answers);
    free(p->q.data);
    free(p->k.data);
    free(p->v.data);
    free(p->gate.data);
    free(p->value_gate.data);
    model_clear(&p->model);
}

void problem_mix(struct problem *p, unsigned exact_degrees)
{
    p->mixed = true;
    p->exact_degrees = exact_degrees;
    model_mix(&p->model, exact_degrees);
}

void problem_options(const struct problem *p, struct tsa_options *options)
{
    const struct shape *s = &p->shape;
    ck_assert_int_eq(tsa_options_init(options, sizeof *options), TSA_OK);
    options->head_dim = s->d;
    options->value_dim = s->dv;
    options->terms = s->terms;
    options->heads = s->heads;
    options->kv_heads = s->kv_heads;
    options->chunk = s->chunk;
    options->dtype = s->dtype;
    options->normalize = s->normalize;
    options->temperature = p->temperature[0];
    options->temperatures = s->temperatures == TEMP_PER_HEAD ? p->temperature : NULL;
    options->coefficients = s->coefficients == COEF_TAYLOR ? NULL : p->coefficient;
    options->coefficients_per_head = s->coefficients == COEF_PER_HEAD;
    options->gate = p->model.gated ? TSA_GATE_SCALAR : TSA_GATE_NONE;
    options->output = p->model.output;
    options->output_scale = p->model.output_scale;
    options->denominator_add = p->model.denominator_add;
    options->denominator_floor = p->model.denominator_floor;
    if (p->mixed) {
        options->compute = TSA_COMPUTE_MIXED;
        options->exact_degrees = p->exact_degrees;
    }
}

struct tsa_plan *make_plan(const struct tsa_options *options)
{
    struct tsa_error err;
    struct tsa_plan *plan = NULL;
    ok(tsa_plan_create(options, &plan, &err), &err);
    plan->crowded = false; /* as on a machine with more processors */
    ck_assert_ptr_nonnull(plan);
    return plan;
}

static void *allocate_poison(void *user, size_t bytes, size_t alignment)
{
    (void)user;
    const size_t rounded = (bytes + alignment - 1) / alignment * alignment;
    void *memory = aligned_alloc(alignment, rounded);
    if (memory != NULL)
        memset(memory, 0xff, rounded);
    return memory;
}

static void release_poison(void *user, void *memory, size_t bytes)
{
    (void)user;
    memset(memory, 0xff, bytes);
    free(memory);
}

void poison_allocations(struct tsa_options *options)
{
    options->allocate = allocate_poison;
    options->release = release_poison;
}

struct tsa_plan *problem_plan(const struct problem *p, const char *isa, int threads)
{
    struct tsa_options options;
    problem_options(p, &options);
    options.isa = isa;
    options.threads = threads;
    struct tsa_plan *plan = make_plan(&options);
    if (isa != NULL)
        ck_assert_str_eq(tsa_plan_isa(plan), isa);
    if (threads > 0)
        ck_assert_int_eq(tsa_plan_threads(plan), threads);
    ck_assert_uint_eq(tsa_plan_chunk(plan), p->shape.chunk);
    return plan;
}

struct tsa_state **states_make(const struct tsa_plan *plan, size_t count)
{
    struct tsa_error err;
    struct tsa_state **states = calloc(count + 1, sizeof *states);
    ck_assert_ptr_nonnull(states);
    for (size_t i = 0; i < count; i++)
        ok(tsa_state_create(plan, &states[i], &err), &err);
    return states;
}

void states_free(struct tsa_state **states, size_t count)
{
    for (size_t i = 0; i < count; i++)
        tsa_state_destroy(states[i]);
    free(states);
}
