/* SPDX-License-Identifier: MIT */
/* `tsa demo`: the main job at a glance, on inputs made here. */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "cmd.h"
#include "progress.h"

#define HEAD_DIM 16
#define VALUE_DIM 64
#define TERMS 3
#define DECODED 256 /* tokens */
#define SAMPLES 32  /* rows compared with softmax */
#define PIECE 2048  /* tokens a call, so that the bar moves */

static const char help[] =
    "usage: tsa demo [options]\n"
    "\n"
    "The main job at a glance: absorb a long sequence, decode some tokens, and set speed, memory\n"
    "and error beside exact attention with a key/value cache. The inputs are random, unit length\n"
    "and always the same.\n"
    "\n"
    "  --tokens N           tokens before decoding, 1 to 1048576 (32768)\n"
    "  --heads H            heads, 1 to 64 (8)\n"
    "  --threads T          threads (0: what the machine grants; see tsa info)\n"
    "  --isa NAME           instruction set (the best one; see tsa info)\n"
    "  --json               results as JSON\n"
    "  --help, --version\n";

enum { OPT_TOKENS = 256, OPT_HEADS, OPT_THREADS, OPT_ISA, OPT_JSON, OPT_HELP, OPT_VERSION };

static const struct option long_options[] = {
    {"tokens", required_argument, NULL, OPT_TOKENS},
    {"heads", required_argument, NULL, OPT_HEADS},
    {"threads", required_argument, NULL, OPT_THREADS},
    {"isa", required_argument, NULL, OPT_ISA},
    {"json", no_argument, NULL, OPT_JSON},
    {"help", no_argument, NULL, OPT_HELP},
    {"version", no_argument, NULL, OPT_VERSION},
    {NULL, 0, NULL, 0},
};

struct demo {
    size_t tokens, heads, length; /* length: tokens and the decoded ones */
    struct tsa_plan *plan;
    struct tsa_state *state;
    struct tsa_workspace *ws;
    float *q, *k, *v, *o;
    struct tsa_tensor tq, tk, tv, to;
    /* What came of it. */
    double prefill_seconds, decode_seconds, worst_step;
    double relative_l2, max_abs;
};

/* -- inputs ----------------------------------------------------------------------------------- */

/* Uniform in (-1, 1), 0 excluded. */
static float random_uniform(uint64_t *seed)
{
    return (float)(((double)(cmd_random_bits(seed) >> 40) + 0.5) * 0x1p-23 - 1);
}

/* Two normal numbers by the polar method. */
static void random_normal(uint64_t *seed, float *x)
{
    float a, b, s;
    do {
        a = random_uniform(seed);
        b = random_uniform(seed);
        s = a * a + b * b;
    } while (s >= 1);
    float r = sqrtf(-2 * logf(s) / s);
    x[0] = a * r;
    x[1] = b * r;
}

/* A row in a direction that is uniform on the sphere. */
static void random_direction(uint64_t *seed, float *row)
{
    float square = 0;
    for (size_t c = 0; c < HEAD_DIM; c += 2) {
        random_normal(seed, row + c);
        square += row[c] * row[c] + row[c + 1] * row[c + 1];
    }
    for (size_t c = 0; c < HEAD_DIM; c++)
        row[c] /= sqrtf(square);
}

static void make_inputs(struct demo *d)
{
    struct progress progress;
    uint64_t seed = 2610;
    size_t rows = d->heads * d->length;
    progress_start(&progress, "inputs");
    for (size_t r = 0; r < rows; r++) {
        random_direction(&seed, d->q + r * HEAD_DIM);
        random_direction(&seed, d->k + r * HEAD_DIM);
        for (size_t c = 0; c < VALUE_DIM; c++) {
            d->v[r * VALUE_DIM + c] = random_uniform(&seed);
            d->o[r * VALUE_DIM + c] = 0; /* the pages are there before the clock runs */
        }
        if (r % 4096 == 0)
            progress_update(&progress, (double)r / (double)rows);
    }
    progress_end(&progress);
}

static struct tsa_tensor view(float *data, size_t length, size_t width)
{
    return (struct tsa_tensor){
        .data = data,
        .dtype = TSA_F32,
        .batch = 0,
        .head = (ptrdiff_t)(length * width),
        .token = (ptrdiff_t)width,
    };
}

static struct tsa_tensor row(struct tsa_tensor t, size_t token)
{
    t.data = (float *)t.data + (ptrdiff_t)token * t.token;
    return t;
}

static int set_up(struct demo *d, const struct tsa_options *options)
{
    struct tsa_error err = {.status = TSA_OK};
    int code = cmd_plan(options, &d->plan);
    if (code != CMD_OK)
        return code;
    enum tsa_status status = tsa_state_create(d->plan, &d->state, &err);
    if (status == TSA_OK)
        status = tsa_workspace_create(d->plan, 0, &d->ws, &err);
    if (status != TSA_OK)
        return cmd_fail_library(NULL, status, &err);
    size_t rows = d->heads * d->length;
    d->q = malloc(rows * HEAD_DIM * sizeof *d->q);
    d->k = malloc(rows * HEAD_DIM * sizeof *d->k);
    d->v = malloc(rows * VALUE_DIM * sizeof *d->v);
    d->o = malloc(rows * VALUE_DIM * sizeof *d->o);
    if (d->q == NULL || d->k == NULL || d->v == NULL || d->o == NULL)
        return cmd_fail("no memory for %zu tokens of %zu heads", d->length, d->heads);
    d->tq = view(d->q, d->length, HEAD_DIM);
    d->tk = view(d->k, d->length, HEAD_DIM);
    d->tv = view(d->v, d->length, VALUE_DIM);
    d->to = view(d->o, d->length, VALUE_DIM);
    make_inputs(d);
    return CMD_OK;
}

/* -- the job ---------------------------------------------------------------------------------- */

/* One call, on some tokens from `at` on. */
static enum tsa_status prefill(struct demo *d, size_t at, size_t size, struct tsa_error *err)
{
    const struct tsa_tensor q = row(d->tq, at), k = row(d->tk, at);
    const struct tsa_tensor v = row(d->tv, at), o = row(d->to, at);
    return tsa_prefill(d->plan,
                       &(struct tsa_batch){.size = sizeof(struct tsa_batch),
                                           .states = &d->state,
                                           .count = 1,
                                           .tokens = size,
                                           .q = q,
                                           .k = k,
                                           .v = v,
                                           .o = o},
                       d->ws, err);
}

static enum tsa_status decode(struct demo *d, size_t at, struct tsa_error *err)
{
    const struct tsa_tensor q = row(d->tq, at), k = row(d->tk, at);
    const struct tsa_tensor v = row(d->tv, at), o = row(d->to, at);
    return tsa_decode(d->plan,
                      &(struct tsa_batch){.size = sizeof(struct tsa_batch),
                                          .states = &d->state,
                                          .count = 1,
                                          .q = q,
                                          .k = k,
                                          .v = v,
                                          .o = o},
                      d->ws, err);
}

static int work(struct demo *d)
{
    struct tsa_error err = {.status = TSA_OK};
    struct progress progress;
    /* A first call starts the threads; then the state begins anew. */
    enum tsa_status status = prefill(d, 0, d->tokens < 64 ? d->tokens : 64, &err);
    if (status == TSA_OK)
        status = tsa_state_reset(d->plan, d->state, &err);
    progress_start(&progress, "prefill");
    double start = cmd_seconds();
    for (size_t at = 0, size; status == TSA_OK && at < d->tokens; at += size) {
        size = d->tokens - at < PIECE ? d->tokens - at : PIECE;
        status = prefill(d, at, size, &err);
        progress_update(&progress, (double)(at + size) / (double)d->tokens);
    }
    d->prefill_seconds = cmd_seconds() - start;
    progress_end(&progress);
    double before = cmd_seconds();
    start = before;
    for (size_t at = d->tokens; status == TSA_OK && at < d->length; at++) {
        status = decode(d, at, &err);
        double now = cmd_seconds();
        d->worst_step = fmax(d->worst_step, now - before);
        before = now;
    }
    d->decode_seconds = before - start;
    return status == TSA_OK ? CMD_OK : cmd_fail_library(NULL, status, &err);
}

/* Softmax on rows spread over the sequence; the last one is among them. */
static int compare(struct demo *d)
{
    struct tsa_error err = {.status = TSA_OK};
    struct progress progress;
    enum tsa_status status = TSA_OK;
    float *exact = malloc(d->heads * VALUE_DIM * sizeof *exact);
    double square = 0, difference = 0;
    if (exact == NULL)
        return cmd_fail("no memory for a row");
    const struct tsa_tensor to = view(exact, 1, VALUE_DIM);
    progress_start(&progress, "softmax");
    for (size_t i = 1; status == TSA_OK && i <= SAMPLES; i++) {
        size_t t = d->length * i / SAMPLES;
        t -= t > 0;
        const struct tsa_tensor tq = row(d->tq, t);
        status = tsa_softmax(d->plan, 1, 1, t + 1, 1, &tq, &d->tk, &d->tv, &to, d->ws, &err);
        for (size_t e = 0; status == TSA_OK && e < d->heads * VALUE_DIM; e++) {
            size_t h = e / VALUE_DIM, c = e % VALUE_DIM;
            double want = exact[e];
            double delta = d->o[(h * d->length + t) * VALUE_DIM + c] - want;
            square += want * want;
            difference += delta * delta;
            d->max_abs = fmax(d->max_abs, fabs(delta));
        }
        progress_update(&progress, (double)i * (double)i / (SAMPLES * SAMPLES));
    }
    progress_end(&progress);
    free(exact);
    d->relative_l2 = sqrt(difference / square);
    return status == TSA_OK ? CMD_OK : cmd_fail_library(NULL, status, &err);
}

/* -- printing --------------------------------------------------------------------------------- */

static double cache_bytes(const struct demo *d, size_t element)
{
    return (double)(d->length * d->heads * (HEAD_DIM + VALUE_DIM) * element);
}

static json_t *speed_json(size_t tokens, double seconds)
{
    return json_pack("{s:I, s:o, s:o, s:o}", "tokens", (json_int_t)tokens, "seconds",
                     cmd_json_number(seconds), "tokens_per_s",
                     cmd_json_number((double)tokens / seconds), "us_per_token",
                     cmd_json_number(1e6 * seconds / (double)tokens));
}

static int print_json(const struct demo *d)
{
    return cmd_json_print(json_pack(
        "{s:I, s:i, s:i, s:i, s:s, s:i, s:I, s:o, s:o, s:o, s:I, s:I, s:{s:I, s:I}, "
        "s:{s:i, s:o, s:o}}",
        "heads", (json_int_t)d->heads, "head_dim", HEAD_DIM, "value_dim", VALUE_DIM, "terms", TERMS,
        "isa", tsa_plan_isa(d->plan), "threads", tsa_plan_threads(d->plan), "chunk",
        (json_int_t)tsa_plan_chunk(d->plan), "prefill", speed_json(d->tokens, d->prefill_seconds),
        "decode", speed_json(DECODED, d->decode_seconds), "decode_worst_us",
        cmd_json_number(1e6 * d->worst_step), "state_bytes", (json_int_t)tsa_state_bytes(d->plan),
        "sums_per_head", (json_int_t)tsa_state_elements(HEAD_DIM, VALUE_DIM, TERMS),
        "kv_cache_bytes", "f32", (json_int_t)cache_bytes(d, 4), "bf16",
        (json_int_t)cache_bytes(d, 2), "taylor_vs_softmax", "rows", SAMPLES, "relative_l2",
        cmd_json_number(d->relative_l2), "max_abs", cmd_json_number(d->max_abs)));
}

static void print_speed(const struct demo *d, const char *label, size_t tokens, double seconds)
{
    char count[CMD_NUMBER_TEXT], rate[CMD_NUMBER_TEXT];
    double us = 1e6 * seconds / (double)tokens;
    printf("  %-9s %10s   %9.4f   %12s   %9.2f   %9.3f\n", label, cmd_count_text(tokens, count),
           seconds, cmd_count_text((uint64_t)((double)tokens / seconds), rate), us,
           us / (double)d->heads);
}

static void print_cache(const struct demo *d, const char *label, size_t element)
{
    char bytes[CMD_NUMBER_TEXT];
    printf("  %-24s %10s   grows with every token; %.1f x the state\n", label,
           cmd_bytes_text(cache_bytes(d, element), bytes),
           cache_bytes(d, element) / (double)tsa_state_bytes(d->plan));
}

static int print_text(const struct demo *d)
{
    char text[CMD_NUMBER_TEXT];
    printf("\nTaylor-state attention: %d terms of the exponential, as recurrent states\n", TERMS);
    printf("%zu head%s, head_dim %d, value_dim %d, f32, unit-length queries and keys\n", d->heads,
           d->heads == 1 ? "" : "s", HEAD_DIM, VALUE_DIM);
    printf("%s, %d thread%s, chunk %zu\n", tsa_plan_isa(d->plan), tsa_plan_threads(d->plan),
           tsa_plan_threads(d->plan) == 1 ? "" : "s", tsa_plan_chunk(d->plan));
    printf("\nSpeed         tokens     seconds       tokens/s    us/token    per head\n");
    print_speed(d, "prefill", d->tokens, d->prefill_seconds);
    print_speed(d, "decode", DECODED, d->decode_seconds);
    printf("  slowest decoding step    %.1f us\n", 1e6 * d->worst_step);
    printf("\nMemory after %s tokens\n", cmd_count_text(d->length, text));
    printf("  %-24s %10s   the same at any length\n", "state",
           cmd_bytes_text((double)tsa_state_bytes(d->plan), text));
    printf("  %-24s %10s   in each head; the state keeps each in two parts, and a window\n",
           "  sums", cmd_count_text(tsa_state_elements(HEAD_DIM, VALUE_DIM, TERMS), text));
    print_cache(d, "key/value cache, f32", 4);
    print_cache(d, "key/value cache, bf16", 2);
    printf("\nError against exact softmax, %d rows of every head\n", SAMPLES);
    printf("  %-24s %10.2e\n", "relative l2", d->relative_l2);
    printf("  %-24s %10.2e   outputs are averages of values in (-1, 1)\n\n", "largest difference",
           d->max_abs);
    return CMD_OK;
}

int cmd_demo(int argc, char **argv)
{
    struct demo d = {.tokens = 32768, .heads = 8};
    struct tsa_options options;
    bool json = false, good = true;
    tsa_options_init(&options, sizeof options);
    opterr = 0;
    for (int c; good && (c = getopt_long(argc, argv, ":", long_options, NULL)) != -1;) {
        switch (c) {
        case OPT_TOKENS:
            good = cmd_parse_size("--tokens", optarg, 1, (size_t)1 << 20, &d.tokens);
            break;
        case OPT_HEADS:
            good = cmd_parse_size("--heads", optarg, 1, 64, &d.heads);
            break;
        case OPT_THREADS:
            good = cmd_parse_threads("--threads", optarg, &options.threads);
            break;
        case OPT_ISA:
            good = cmd_parse_isa("--isa", optarg, &options.isa);
            break;
        case OPT_JSON:
            json = true;
            break;
        case OPT_HELP:
            fputs(help, stdout);
            return CMD_OK;
        case OPT_VERSION:
            cmd_print_version();
            return CMD_OK;
        default:
            return cmd_bad_option(c, argv);
        }
    }
    int code = good ? cmd_no_operands(argc, argv) : CMD_USAGE;
    if (code != CMD_OK)
        return code;
    options.head_dim = HEAD_DIM;
    options.value_dim = VALUE_DIM;
    options.terms = TERMS;
    options.heads = d.heads;
    d.length = d.tokens + DECODED;
    code = set_up(&d, &options);
    if (code == CMD_OK)
        code = work(&d);
    if (code == CMD_OK)
        code = compare(&d);
    if (code == CMD_OK)
        code = json ? print_json(&d) : print_text(&d);
    tsa_workspace_destroy(d.ws);
    tsa_state_destroy(d.state);
    tsa_plan_destroy(d.plan);
    free(d.q);
    free(d.k);
    free(d.v);
    free(d.o);
    return code;
}
