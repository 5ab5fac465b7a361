/* SPDX-License-Identifier: MIT */
/* Problem strings: `prefill:b1:h8:n8192:d16:dv64:t3`. */
#include "config.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"

static const char *const op_names[] = {"prefill", "decode", "absorb", "softmax", "softmax-decode"};

static const struct {
    const char *name, *meaning;
    size_t offset, least, most;
} fields[] = {
    /* longer names first: dv before d */
    {"dv", "value_dim", offsetof(struct bench_problem, dv), 1, 1 << 16},
    {"d", "head_dim", offsetof(struct bench_problem, d), 1, 1 << 16},
    {"b", "batch", offsetof(struct bench_problem, batch), 1, 1 << 20},
    {"h", "heads", offsetof(struct bench_problem, heads), 1, 1 << 20},
    {"k", "kv heads", offsetof(struct bench_problem, kv_heads), 1, 1 << 20},
    {"n", "tokens", offsetof(struct bench_problem, n), 1, (size_t)1 << 30},
    {"t", "terms", offsetof(struct bench_problem, terms), 1, TSA_MAX_TERMS},
    {"c", "chunk", offsetof(struct bench_problem, chunk), 1, TSA_MAX_CHUNK},
    {"e", "exact degrees", offsetof(struct bench_problem, exact), 0, TSA_MAX_TERMS},
};
enum { FIELDS = sizeof fields / sizeof *fields, EXACT = FIELDS - 1 };

bool bench_is_decode(enum bench_op op)
{
    return op == BENCH_DECODE || op == BENCH_SOFTMAX_DECODE;
}

bool bench_has_state(enum bench_op op)
{
    return op != BENCH_SOFTMAX && op != BENCH_SOFTMAX_DECODE;
}

static size_t *field_of(struct bench_problem *problem, size_t i)
{
    return (size_t *)((char *)problem + fields[i].offset);
}

static bool parse_field(const char *text, size_t length, struct bench_problem *problem,
                        unsigned *seen, char *why, size_t size)
{
    for (size_t i = 0; i < FIELDS; i++) {
        const size_t name = strlen(fields[i].name);
        if (length < name || memcmp(text, fields[i].name, name) != 0)
            continue;
        if (length == name || text[name] < '0' || text[name] > '9')
            continue;
        size_t value = 0;
        for (size_t j = name; j < length; j++) {
            if (text[j] < '0' || text[j] > '9') {
                snprintf(why, size, "'%.*s': digits are wanted after '%s'", (int)length, text,
                         fields[i].name);
                return false;
            }
            value = value * 10 + (size_t)(text[j] - '0');
            if (value > fields[i].most)
                break;
        }
        if (value < fields[i].least || value > fields[i].most) {
            snprintf(why, size, "'%.*s': %s must be %zu..%zu", (int)length, text, fields[i].meaning,
                     fields[i].least, fields[i].most);
            return false;
        }
        if (*seen & 1u << i) {
            snprintf(why, size, "'%.*s': %s is given twice", (int)length, text, fields[i].meaning);
            return false;
        }
        *seen |= 1u << i;
        *field_of(problem, i) = value;
        return true;
    }
    snprintf(why, size, "'%.*s' is no field: b, h, k, n, d, dv, t, c, e and a number are",
             (int)length, text);
    return false;
}

bool bench_problem_parse(const char *text, struct bench_problem *problem, char *why, size_t size)
{
    const char *colon = strchr(text, ':');
    size_t length = colon ? (size_t)(colon - text) : strlen(text), op = 0;
    unsigned seen = 0;

    *problem =
        (struct bench_problem){.batch = 1, .heads = 1, .n = 8192, .d = 16, .dv = 64, .terms = 3};
    while (op < sizeof op_names / sizeof *op_names &&
           (strlen(op_names[op]) != length || memcmp(text, op_names[op], length) != 0))
        op++;
    if (op == sizeof op_names / sizeof *op_names) {
        snprintf(why, size,
                 "'%.*s' is no operation: prefill, decode, absorb, softmax or softmax-decode",
                 (int)length, text);
        return false;
    }
    problem->op = (enum bench_op)op;
    while (colon) {
        text = colon + 1;
        colon = strchr(text, ':');
        length = colon ? (size_t)(colon - text) : strlen(text);
        if (!parse_field(text, length, problem, &seen, why, size))
            return false;
    }
    problem->mixed = seen & 1u << EXACT;
    if (problem->mixed && !bench_has_state(problem->op)) {
        snprintf(why, size, "e%zu: softmax is never mixed", problem->exact);
        return false;
    }
    if (problem->kv_heads && problem->heads % problem->kv_heads) {
        snprintf(why, size, "k%zu does not divide h%zu", problem->kv_heads, problem->heads);
        return false;
    }
    if (!tsa_state_elements(problem->d, problem->dv, problem->terms)) {
        snprintf(why, size, "the state of d%zu:dv%zu:t%zu does not fit", problem->d, problem->dv,
                 problem->terms);
        return false;
    }
    bench_problem_name(problem);
    return true;
}

void bench_problem_name(struct bench_problem *p)
{
    int at = snprintf(p->text, sizeof p->text, "%s:b%zu:h%zu:n%zu:d%zu:dv%zu:t%zu", op_names[p->op],
                      p->batch, p->heads, p->n, p->d, p->dv, p->terms);
    if (p->kv_heads && p->kv_heads != p->heads)
        at += snprintf(p->text + at, sizeof p->text - (size_t)at, ":k%zu", p->kv_heads);
    if (p->chunk)
        at += snprintf(p->text + at, sizeof p->text - (size_t)at, ":c%zu", p->chunk);
    if (p->mixed)
        snprintf(p->text + at, sizeof p->text - (size_t)at, ":e%zu", p->exact);
}

double bench_problem_elements(const struct bench_problem *p)
{
    return (double)tsa_state_elements(p->d, p->dv, p->terms);
}

double bench_problem_flops(const struct bench_problem *p, size_t chunk)
{
    const double elements = bench_problem_elements(p), n = (double)p->n;
    const double group = p->kv_heads ? (double)p->heads / (double)p->kv_heads : 1;
    const double d = (double)p->d, dv = (double)p->dv, c = (double)chunk;

    switch (p->op) {
    case BENCH_PREFILL:
    case BENCH_DECODE:
        return 2 * elements + 2 * elements / group + (c + 1) * (d + dv + 3);
    case BENCH_ABSORB:
        return 2 * elements / group;
    case BENCH_SOFTMAX:
        return (n + 1) * (d + dv + 1);
    case BENCH_SOFTMAX_DECODE:
        return 2 * n * (d + dv + 1);
    }
    return 0;
}
