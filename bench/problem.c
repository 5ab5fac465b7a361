/* SPDX-License-Identifier: MIT */
/* Problem strings: `prefill:b1:h8:n8192:d16:dv64:t3`. */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "bench.h"

static const char *const op_names[] = {"prefill", "decode", "absorb", "softmax", "softmax-decode"};

static const struct {
    const char *name, *meaning;
    size_t offset, least, most;
} fields[] = {
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
#define DIGITS "0123456789"

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

/* One field, such as n8192; the problem's text is still the one that was given. */
static bool parse_field(const char *word, struct bench_problem *p, unsigned *seen)
{
    const size_t letters = strcspn(word, DIGITS);
    const char *digits = word + letters;
    size_t i = 0;
    while (i < FIELDS &&
           (strlen(fields[i].name) != letters || strncmp(word, fields[i].name, letters) != 0))
        i++;
    if (i == FIELDS || *digits == '\0') {
        cmd_usage("problem '%s': '%s' is no field: b, h, k, n, d, dv, t, c, e and a number are",
                  p->text, word);
        return false;
    }
    if (digits[strspn(digits, DIGITS)] != '\0') {
        cmd_usage("problem '%s': '%s': digits are wanted after '%s'", p->text, word,
                  fields[i].name);
        return false;
    }
    const unsigned long long value =
        strtoull(digits, NULL, 10); /* too large: the largest there is */
    if (value < fields[i].least || value > fields[i].most) {
        cmd_usage("problem '%s': '%s': %s must be %zu..%zu", p->text, word, fields[i].meaning,
                  fields[i].least, fields[i].most);
        return false;
    }
    if (*seen & 1u << i) {
        cmd_usage("problem '%s': '%s': %s is given twice", p->text, word, fields[i].meaning);
        return false;
    }
    *seen |= 1u << i;
    *field_of(p, i) = (size_t)value;
    return true;
}

static bool parse_op(const char *word, struct bench_problem *p)
{
    for (size_t i = 0; i < sizeof op_names / sizeof *op_names; i++) {
        if (strcmp(op_names[i], word) == 0) {
            p->op = (enum bench_op)i;
            return true;
        }
    }
    cmd_usage("problem '%s': '%s' is no operation: prefill, decode, absorb, softmax or "
              "softmax-decode",
              p->text, word);
    return false;
}

bool bench_problem_parse(const char *text, struct bench_problem *problem)
{
    char words[BENCH_PROBLEM_TEXT], *rest = words;
    unsigned seen = 0;

    *problem =
        (struct bench_problem){.batch = 1, .heads = 1, .n = 8192, .d = 16, .dv = 64, .terms = 3};
    snprintf(problem->text, sizeof problem->text, "%s", text);
    if (strlen(text) >= sizeof words) {
        cmd_usage("problem '%s...': too long", problem->text);
        return false;
    }
    strcpy(words, text);
    if (!parse_op(strsep(&rest, ":"), problem))
        return false;
    while (rest)
        if (!parse_field(strsep(&rest, ":"), problem, &seen))
            return false;
    problem->mixed = seen & 1u << EXACT;
    if (problem->mixed && !bench_has_state(problem->op)) {
        cmd_usage("problem '%s': e%zu: softmax is never mixed", text, problem->exact);
        return false;
    }
    if (problem->kv_heads && problem->heads % problem->kv_heads) {
        cmd_usage("problem '%s': k%zu does not divide h%zu", text, problem->kv_heads,
                  problem->heads);
        return false;
    }
    if (!tsa_state_elements(problem->d, problem->dv, problem->terms)) {
        cmd_usage("problem '%s': the state of d%zu:dv%zu:t%zu does not fit", text, problem->d,
                  problem->dv, problem->terms);
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

const char *bench_problem_short(const char *name, char *text)
{
    static const char *const usual[] = {":b1:", ":h1:"};
    snprintf(text, sizeof((struct bench_problem *)NULL)->text, "%s", name);
    for (int i = 0; i < 2; i++) {
        char *at = strstr(text, usual[i]);
        if (at)
            memmove(at, at + 3, strlen(at + 3) + 1);
    }
    return text;
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
