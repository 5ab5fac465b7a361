/* SPDX-License-Identifier: MIT */
/* The library's operators as things to verify and to time. */
#include "config.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"

#define RING_BYTES ((size_t)32 << 20)

static size_t kv_heads(const struct bench_problem *p)
{
    return p->kv_heads ? p->kv_heads : p->heads;
}

bool bench_op_complain(const struct bench_op_state *op, const char *what)
{
    cmd_fail("%s: %s: %s", op->problem.text, what,
             op->err.text[0] ? op->err.text : tsa_status_string(op->err.status));
    return false;
}

const char *bench_op_compute(const struct bench_op_state *op)
{
    if (bench_has_state(op->problem.op) && tsa_plan_compute(op->plan) == TSA_COMPUTE_MIXED)
        return "mixed";
    return cmd_dtype_name(op->dtype);
}

/* Mixed plans: rows are of unit length and the temperature is 2, so that products of degree m come
 * to at most 1/(2^m m!) for each pair; weights are at least 1/2, and values at most 1/2. Rounding
 * psi, Hi, phi and v to bf16, each by less than 2^-8, changes a numerator by 4.03 * 2^-8 of the
 * products of such degrees at most, and a denominator, which has no v, by 3.02 * 2^-8: together
 * less than 2^-5, the change of the divisor included. */
double bench_op_error_bound(const struct bench_op_state *op)
{
    double bound = bench_error_bound(op->dtype), product = 1;
    if (strcmp(bench_op_compute(op), "mixed") != 0)
        return bound;
    for (size_t m = 0; m < op->problem.terms; product /= 2.0 * (double)++m)
        if (m >= tsa_plan_exact_degrees(op->plan))
            bound += 0x1p-5 * product;
    return bound;
}

static bool no_memory(const struct bench_problem *problem, const char *what)
{
    cmd_fail("%s: not enough memory for the %s", problem->text, what);
    return false;
}

/* A problem that is mixed by the options says so. */
static void name_mixed(struct bench_op_state *op)
{
    struct bench_problem *p = &op->problem;
    if (p->mixed || op->offsets || strcmp(bench_op_compute(op), "mixed") != 0)
        return;
    p->mixed = true;
    p->exact = tsa_plan_exact_degrees(op->plan);
    bench_problem_name(p);
}

static bool create_plan(struct bench_op_state *op, const struct bench_options *o)
{
    const struct bench_problem *p = &op->problem;
    struct tsa_options options;

    if (tsa_options_init(&options, sizeof options) != TSA_OK)
        return bench_op_complain(op, "options");
    options.head_dim = p->d;
    options.value_dim = p->dv;
    options.terms = p->terms;
    options.heads = p->heads;
    options.kv_heads = p->kv_heads;
    options.chunk = p->chunk;
    options.dtype = o->dtype;
    options.threads = o->threads;
    options.isa = o->isa;
    options.compute = p->mixed ? TSA_COMPUTE_MIXED : o->compute;
    options.exact_degrees = p->mixed ? (unsigned)p->exact : o->exact_degrees;
    /* a cache of keys and values is looked at when it is filled, not at every token */
    if (p->op == BENCH_SOFTMAX_DECODE)
        options.flags |= TSA_SKIP_INPUT_CHECK;
    if (tsa_plan_create(&options, &op->plan, &op->err) != TSA_OK)
        return bench_op_complain(op, "plan");
    op->chunk = tsa_plan_chunk(op->plan);
    name_mixed(op);
    if (tsa_workspace_create(op->plan, 0, &op->ws, &op->err) != TSA_OK)
        return bench_op_complain(op, "workspace");
    return true;
}

/* Packed sequences may be very many: their states lie in one block. */
static bool create_states(struct bench_op_state *op, const struct bench_op_state *from)
{
    const struct bench_problem *p = &op->problem;
    if (from && from->sequences >= op->sequences && from->problem.heads == p->heads &&
        kv_heads(&from->problem) == kv_heads(p)) {
        op->states = from->states;
        op->borrowed = true;
        return true;
    }
    op->states = calloc(op->sequences, sizeof *op->states);
    if (!op->states)
        return no_memory(p, "states");
    if (!bench_has_state(p->op))
        return true;
    const size_t bytes = (tsa_state_bytes(op->plan) + 63) / 64 * 64;
    if (op->offsets && !(op->block = bench_memory(op->sequences * bytes)))
        return no_memory(p, "states");
    for (size_t i = 0; i < op->sequences; i++) {
        char *memory = op->block ? (char *)op->block + i * bytes : NULL;
        const enum tsa_status status =
            memory ? tsa_state_init(op->plan, memory, bytes, &op->states[i], &op->err)
                   : tsa_state_create(op->plan, &op->states[i], &op->err);
        if (status != TSA_OK)
            return bench_op_complain(op, "state");
    }
    return true;
}

static bool create_inputs(struct bench_op_state *op, const struct bench_op_state *from,
                          enum tsa_dtype dtype)
{
    const struct bench_problem *p = &op->problem;
    size_t ring = p->n, out_tokens = p->n;
    if (from) {
        op->in = from->in;
        memset(op->in.memory, 0, sizeof op->in.memory);
        return true;
    }
    if (p->op == BENCH_DECODE) {
        const size_t row = p->batch * p->heads * (p->d + p->dv) * 16;
        ring = RING_BYTES / row;
        ring = ring < BENCH_FRESH ? BENCH_FRESH : ring > 4096 ? 4096 : ring;
        out_tokens = 1;
    } else if (p->op != BENCH_PREFILL && p->op != BENCH_SOFTMAX) {
        out_tokens = 1;
    }
    return bench_inputs_create(&op->in, p, ring, out_tokens, dtype, p->op == BENCH_DECODE) ||
           no_memory(p, "inputs and outputs");
}

static bool copy_offsets(struct bench_op_state *op, const struct bench_packing *packing)
{
    if (!packing)
        return true;
    op->offsets = malloc((packing->count + 1) * sizeof *op->offsets);
    if (!op->offsets)
        return no_memory(&op->problem, "offsets");
    memcpy(op->offsets, packing->offsets, (packing->count + 1) * sizeof *op->offsets);
    return true;
}

struct bench_op_state *bench_op_create_from(const struct bench_problem *problem,
                                            const struct bench_options *options,
                                            const struct bench_packing *packing,
                                            const struct bench_op_state *inputs,
                                            const struct bench_op_state *states)
{
    struct bench_op_state *op = calloc(1, sizeof *op);
    if (!op) {
        no_memory(problem, "problem");
        return NULL;
    }
    op->problem = *problem;
    op->sequences = packing ? packing->count : problem->batch;
    op->dtype = options->dtype;
    op->cold = options->timing.cold;
    op->step = op->fold = HUGE_VAL;
    if (!copy_offsets(op, packing) || !create_plan(op, options) || !create_states(op, states) ||
        !create_inputs(op, inputs, options->dtype)) {
        bench_op_destroy(op);
        return NULL;
    }
    return op;
}

struct bench_op_state *bench_op_create(const struct bench_problem *problem,
                                       const struct bench_options *options)
{
    return bench_op_create_from(problem, options, NULL, NULL, NULL);
}

void bench_op_destroy(struct bench_op_state *op)
{
    if (!op)
        return;
    if (!op->borrowed) {
        for (size_t i = 0; op->states && i < op->sequences; i++)
            tsa_state_destroy(op->states[i]);
        free(op->states);
    }
    free(op->block);
    free(op->offsets);
    tsa_workspace_destroy(op->ws);
    tsa_plan_destroy(op->plan);
    bench_inputs_destroy(&op->in);
    free(op);
}

bool bench_op_reset(struct bench_op_state *op)
{
    for (size_t i = 0; i < op->sequences; i++)
        if (tsa_state_reset(op->plan, op->states[i], &op->err) != TSA_OK)
            return bench_op_complain(op, "reset");
    return true;
}

/* Absorb `tokens` more tokens of the ring. */
static bool absorb(struct bench_op_state *op, size_t tokens)
{
    const struct bench_problem *p = &op->problem;
    while (tokens) {
        const size_t at = (size_t)(tsa_state_tokens(op->states[0], 0) % op->in.ring);
        const size_t piece = tokens < op->in.ring - at ? tokens : op->in.ring - at;
        const struct tsa_tensor k = bench_at(&op->in.k, 0, 0, at);
        const struct tsa_tensor v = bench_at(&op->in.v, 0, 0, at);
        if (tsa_absorb(op->plan,
                       &(struct tsa_batch){.size = sizeof(struct tsa_batch),
                                           .states = op->states,
                                           .count = p->batch,
                                           .tokens = piece,
                                           .k = k,
                                           .v = v},
                       op->ws, &op->err) != TSA_OK)
            return bench_op_complain(op, "absorb");
        tokens -= piece;
    }
    return true;
}

bool bench_op_fill_window(struct bench_op_state *op, size_t fill)
{
    const size_t w = tsa_state_window(op->states[0], 0);
    return absorb(op, fill >= w ? fill - w : fill + op->chunk - w);
}

static bool decode(struct bench_op_state *op, size_t row)
{
    const struct tsa_tensor q = bench_at(&op->in.q, 0, 0, row);
    const struct tsa_tensor k = bench_at(&op->in.k, 0, 0, row);
    const struct tsa_tensor v = bench_at(&op->in.v, 0, 0, row);
    if (tsa_decode(op->plan,
                   &(struct tsa_batch){.size = sizeof(struct tsa_batch),
                                       .states = op->states,
                                       .count = op->problem.batch,
                                       .q = q,
                                       .k = k,
                                       .v = v,
                                       .o = op->in.o},
                   op->ws, &op->err) != TSA_OK)
        return bench_op_complain(op, "decode");
    return true;
}

/* Everything but decoding, once. */
static bool once(struct bench_op_state *op)
{
    const struct bench_problem *p = &op->problem;
    const struct bench_inputs *in = &op->in;
    const struct tsa_tensor last = bench_at(&in->q, 0, 0, p->n - 1);
    enum tsa_status status = TSA_OK;

    switch (p->op) {
    case BENCH_PREFILL:
        if (!op->append && !bench_op_reset(op))
            return false;
        status = op->offsets ? tsa_prefill(op->plan,
                                           &(struct tsa_batch){.size = sizeof(struct tsa_batch),
                                                               .states = op->states,
                                                               .count = op->sequences,
                                                               .offsets = op->offsets,
                                                               .q = in->q,
                                                               .k = in->k,
                                                               .v = in->v,
                                                               .o = in->o},
                                           op->ws, &op->err)
                             : tsa_prefill(op->plan,
                                           &(struct tsa_batch){.size = sizeof(struct tsa_batch),
                                                               .states = op->states,
                                                               .count = p->batch,
                                                               .tokens = p->n,
                                                               .q = in->q,
                                                               .k = in->k,
                                                               .v = in->v,
                                                               .o = in->o},
                                           op->ws, &op->err);
        break;
    case BENCH_ABSORB:
        if (!op->append && !bench_op_reset(op))
            return false;
        status = op->offsets ? tsa_absorb(op->plan,
                                          &(struct tsa_batch){.size = sizeof(struct tsa_batch),
                                                              .states = op->states,
                                                              .count = op->sequences,
                                                              .offsets = op->offsets,
                                                              .k = in->k,
                                                              .v = in->v},
                                          op->ws, &op->err)
                             : tsa_absorb(op->plan,
                                          &(struct tsa_batch){.size = sizeof(struct tsa_batch),
                                                              .states = op->states,
                                                              .count = p->batch,
                                                              .tokens = p->n,
                                                              .k = in->k,
                                                              .v = in->v},
                                          op->ws, &op->err);
        break;
    case BENCH_SOFTMAX:
        status = tsa_softmax(op->plan, p->batch, p->n, p->n, 1, &in->q, &in->k, &in->v, &in->o,
                             op->ws, &op->err);
        break;
    case BENCH_SOFTMAX_DECODE:
        status = tsa_softmax(op->plan, p->batch, 1, p->n, 1, &last, &in->k, &in->v, &in->o, op->ws,
                             &op->err);
        break;
    case BENCH_DECODE:
        break;
    }
    return status == TSA_OK || bench_op_complain(op, "call");
}

bool bench_op_work(void *context, size_t iterations)
{
    struct bench_op_state *op = context;

    if (op->problem.op != BENCH_DECODE) {
        while (iterations--)
            if (!once(op))
                return false;
        return true;
    }
    if (op->cold) /* one step after each wipe */
        return decode(op, (size_t)(op->steps++ % BENCH_FRESH));
    for (size_t i = 0; i < iterations; i++) {
        const double start = cmd_seconds();
        for (size_t s = 0; s + 1 < op->chunk; s++)
            if (!decode(op, (size_t)(op->steps++ % BENCH_FRESH)))
                return false;
        const double middle = cmd_seconds();
        if (!decode(op, (size_t)(op->steps++ % BENCH_FRESH)))
            return false;
        const double end = cmd_seconds();
        /* the best pass: it is short enough that some were not interrupted */
        if (op->chunk > 1 && (middle - start) / (double)(op->chunk - 1) < op->step)
            op->step = (middle - start) / (double)(op->chunk - 1);
        if (end - middle < op->fold)
            op->fold = end - middle;
    }
    return true;
}

static bool query(struct bench_op_state *op, size_t row)
{
    const struct tsa_tensor q = bench_at(&op->in.q, 0, 0, row);
    if (tsa_query(op->plan,
                  &(struct tsa_batch){.size = sizeof(struct tsa_batch),
                                      .states = op->states,
                                      .count = op->problem.batch,
                                      .tokens = 1,
                                      .q = q,
                                      .o = op->in.o},
                  op->ws, &op->err) != TSA_OK)
        return bench_op_complain(op, "query");
    return true;
}

bool bench_op_read_work(void *context, size_t iterations)
{
    struct bench_op_state *op = context;
    for (size_t i = 0; i < iterations; i++)
        if (!query(op, i % BENCH_FRESH))
            return false;
    return true;
}

/* Compare output row `o_row` of some heads of some sequences. */
static void check(struct bench_op_state *op, size_t q_row, size_t o_row, size_t seen)
{
    const struct bench_problem *p = &op->problem;
    const size_t heads[3] = {0, p->heads / 2, p->heads - 1}, batch[2] = {0, p->batch - 1};
    for (int b = 0; b < 2; b++) {
        for (int h = 0; h < 3; h++) {
            if ((b && batch[1] == 0) || (h && heads[h] == heads[h - 1]))
                continue;
            const void *o = bench_at(&op->in.o, batch[b], heads[h], o_row).data;
            const double e = bench_row_error(&op->in, p, batch[b], heads[h], q_row, seen, o);
            op->max_error = bench_worse(op->max_error, e);
        }
    }
}

/* Compare some rows of the first, the middle and the last of packed sequences. */
static void check_packed(struct bench_op_state *op)
{
    const struct bench_problem *p = &op->problem;
    const size_t sample[3] = {0, op->sequences / 2, op->sequences - 1};
    for (int i = 0; i < 3; i++) {
        const size_t first = (size_t)op->offsets[sample[i]];
        const size_t tokens = (size_t)op->offsets[sample[i] + 1] - first;
        struct bench_inputs in = op->in;
        in.q = bench_at(&in.q, 0, 0, first);
        in.k = bench_at(&in.k, 0, 0, first);
        in.v = bench_at(&in.v, 0, 0, first);
        in.ring = tokens;
        for (size_t t = 0; t < tokens; t += (tokens + 1) / 2) {
            const size_t row = t ? tokens - 1 : 0, h = p->heads - 1;
            const void *o = bench_at(&op->in.o, 0, h, first + row).data;
            const double e = bench_row_error(&in, p, 0, h, row, row + 1, o);
            op->max_error = bench_worse(op->max_error, e);
        }
    }
}

/* n tokens absorbed: the window is as full as that leaves it. */
static bool start_context(struct bench_op_state *op)
{
    return bench_op_reset(op) && absorb(op, op->problem.n);
}

bool bench_op_start_decode(struct bench_op_state *op)
{
    return start_context(op) && bench_op_fill_window(op, 0);
}

static bool verify_decode(struct bench_op_state *op)
{
    const size_t steps = op->chunk + 3 < 80 ? op->chunk + 3 : 80;
    if (!start_context(op))
        return false;
    for (size_t s = 0; s < steps; s++) {
        const size_t row = (op->problem.n + s) % op->in.ring;
        if (!decode(op, row))
            return false;
        if (s % 16 == 0 || s + 1 == steps)
            check(op, row, 0, op->problem.n + s + 1);
    }
    return bench_op_fill_window(op, 0);
}

bool bench_op_verify(struct bench_op_state *op)
{
    const size_t n = op->problem.n;
    op->max_error = 0;
    switch (op->problem.op) {
    case BENCH_DECODE:
        return verify_decode(op);
    case BENCH_PREFILL:
    case BENCH_SOFTMAX:
        if (!once(op))
            return false;
        if (op->offsets) {
            check_packed(op);
            return true;
        }
        for (size_t t = 0; t < n; t += n / 11 + 1)
            check(op, t, t, t + 1);
        check(op, n - 1, n - 1, n);
        return true;
    case BENCH_ABSORB:
        if (!once(op) || !query(op, 0))
            return false;
        check(op, 0, 0, n);
        return true;
    case BENCH_SOFTMAX_DECODE:
        if (!once(op))
            return false;
        check(op, n - 1, 0, n);
        return true;
    }
    return false;
}

/* Rows per head that a replay puts out. */
static size_t record_rows(const struct bench_op_state *op)
{
    switch (op->problem.op) {
    case BENCH_PREFILL:
    case BENCH_SOFTMAX:
        return op->problem.n;
    case BENCH_DECODE: /* across a fold, and a little after it */
        return op->chunk + 3;
    case BENCH_SOFTMAX_DECODE:
        return 1;
    case BENCH_ABSORB:
        return 0;
    }
    return 0;
}

static size_t row_bytes(const struct bench_op_state *op)
{
    return op->problem.dv * cmd_dtype_size(op->in.dtype);
}

size_t bench_op_record_bytes(const struct bench_op_state *op)
{
    return op->problem.batch * op->problem.heads * record_rows(op) * row_bytes(op);
}

/* Record or compare `tokens` rows of every head; returns what follows in the record. */
static char *record_outputs(const struct bench_op_state *op, size_t tokens, char *record,
                            bool compare, size_t *differ)
{
    const size_t bytes = row_bytes(op);
    for (size_t b = 0; b < op->problem.batch; b++) {
        for (size_t h = 0; h < op->problem.heads; h++) {
            for (size_t t = 0; t < tokens; t++, record += bytes) {
                const void *row = bench_at(&op->in.o, b, h, t).data;
                if (!compare)
                    memcpy(record, row, bytes);
                else if (memcmp(record, row, bytes) != 0)
                    ++*differ;
            }
        }
    }
    return record;
}

bool bench_op_replay(struct bench_op_state *op, void *record, bool compare, size_t *differ)
{
    const size_t rows = record_rows(op);
    char *next = record;

    if (op->problem.op != BENCH_DECODE) {
        if (!once(op))
            return false;
        record_outputs(op, rows, next, compare, differ);
        return true;
    }
    if (!start_context(op))
        return false;
    for (size_t s = 0; s < rows; s++) {
        if (!decode(op, (op->problem.n + s) % op->in.ring))
            return false;
        next = record_outputs(op, 1, next, compare, differ);
    }
    return true;
}

bool bench_op_states_equal(struct bench_op_state *a, const struct bench_op_state *b, bool *equal)
{
    *equal = true;
    for (size_t i = 0; bench_has_state(a->problem.op) && i < a->sequences; i++) {
        int same = 0;
        if (tsa_state_equal(a->plan, a->states[i], b->states[i], &same, &a->err) != TSA_OK)
            return bench_op_complain(a, "comparison of states");
        *equal = *equal && same;
    }
    return true;
}

/* What a decoded token reads of the sums of a kv head: high degrees of mixed plans are bf16. */
static double sums_read(const struct bench_op_state *op)
{
    const struct bench_problem *p = &op->problem;
    const double features = (double)tsa_features(p->d, p->terms);
    const double exact = strcmp(bench_op_compute(op), "mixed") == 0
                             ? (double)tsa_features(p->d, tsa_plan_exact_degrees(op->plan))
                             : features;
    const double elem = (double)cmd_dtype_size(op->in.dtype);
    return (elem * exact + elem / 2 * (features - exact)) * ((double)p->dv + 1);
}

double bench_op_bytes(const struct bench_op_state *op)
{
    const struct bench_problem *p = &op->problem;
    const double elem = (double)cmd_dtype_size(op->in.dtype), width = (double)(p->d + p->dv);
    const double elements = bench_problem_elements(p), n = (double)p->n;
    const double g = (double)(p->batch * kv_heads(p)), h = (double)(p->batch * p->heads);

    switch (p->op) {
    case BENCH_PREFILL: /* rows once; per chunk Hi for the queries, Hi and Lo in and out */
        return elem * (n * width * (g + h) + g * 5 * elements * n / (double)op->chunk);
    case BENCH_ABSORB:
        return elem * (n * width * g + g * 4 * elements * n / (double)op->chunk);
    case BENCH_DECODE: /* Hi and half a window */
        return g * (sums_read(op) + elem * width * (double)op->chunk / 2);
    case BENCH_SOFTMAX:
        return elem * n * width * (g + h);
    case BENCH_SOFTMAX_DECODE:
        return elem * g * n * width;
    }
    return 0;
}
