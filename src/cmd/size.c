/* SPDX-License-Identifier: MIT */
/* `tsa size`: what a shape costs in memory. */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include <stdint.h>
#include <stdio.h>

#include "cmd.h"
#include "measure.h"

static const char help[] =
    "usage: tsa size --head-dim D --value-dim DV [options]\n"
    "\n"
    "Features and sums of one head, as the paper counts them, the bytes of a state of this\n"
    "library, and the length from which on a key/value cache is the larger.\n"
    "\n"
    "  --head-dim D         width of a query or key\n"
    "  --value-dim DV       width of a value\n"
    "  --terms N            terms of the series, 1 to 8 (3)\n"
    "  --heads H            query heads (1)\n"
    "  --kv-heads G         key/value heads, which divide H (H)\n"
    "  --chunk C            tokens per fold of the window, 1 to 1048576 (by the shape)\n"
    "  --max-tokens N       longest sequence: where no fold is cheaper, a chunk beyond it\n"
    "  --dtype TYPE         arithmetic of the state, f32 or f64 (f32)\n"
    "  --compute HOW        f32, mixed: products of high degrees from bf16 operands, of which\n"
    "                       the state keeps a copy; fastest: mixed where that is faster (f32)\n"
    "  --exact-degrees E    with mixed and fastest: degrees below E stay in f32, 0 to 8 (2)\n"
    "  --gate               of plans with gates, which the state keeps for the window\n"
    "  --json               results as JSON\n"
    "  --help, --version\n";

enum {
    OPT_HEAD_DIM = 256,
    OPT_VALUE_DIM,
    OPT_TERMS,
    OPT_HEADS,
    OPT_KV_HEADS,
    OPT_CHUNK,
    OPT_MAX_TOKENS,
    OPT_DTYPE,
    OPT_COMPUTE,
    OPT_EXACT_DEGREES,
    OPT_GATE,
    OPT_JSON,
    OPT_HELP,
    OPT_VERSION
};

static const struct option long_options[] = {
    {"head-dim", required_argument, NULL, OPT_HEAD_DIM},
    {"value-dim", required_argument, NULL, OPT_VALUE_DIM},
    {"terms", required_argument, NULL, OPT_TERMS},
    {"heads", required_argument, NULL, OPT_HEADS},
    {"kv-heads", required_argument, NULL, OPT_KV_HEADS},
    {"chunk", required_argument, NULL, OPT_CHUNK},
    {"max-tokens", required_argument, NULL, OPT_MAX_TOKENS},
    {"dtype", required_argument, NULL, OPT_DTYPE},
    {"compute", required_argument, NULL, OPT_COMPUTE},
    {"exact-degrees", required_argument, NULL, OPT_EXACT_DEGREES},
    {"gate", no_argument, NULL, OPT_GATE},
    {"json", no_argument, NULL, OPT_JSON},
    {"help", no_argument, NULL, OPT_HELP},
    {"version", no_argument, NULL, OPT_VERSION},
    {NULL, 0, NULL, 0},
};

struct sizes {
    size_t features, elements, break_even;
    size_t state_bytes;                     /* 0: no such state can be, and text says why */
    size_t break_even_f32, break_even_bf16; /* of the state's bytes and a cache's */
    size_t chunk, direct_tokens;
    const char *compute;  /* what a plan would compute products in */
    size_t exact_degrees; /* tsa_plan_exact_degrees() */
    char text[240];
};

static bool parse_option(int c, const char *text, struct tsa_options *o, bool *exact_degrees_given,
                         bool *json)
{
    switch (c) {
    case OPT_HEAD_DIM:
        return cmd_parse_size("--head-dim", text, 1, SIZE_MAX, &o->head_dim);
    case OPT_VALUE_DIM:
        return cmd_parse_size("--value-dim", text, 1, SIZE_MAX, &o->value_dim);
    case OPT_TERMS:
        return cmd_parse_size("--terms", text, 1, TSA_MAX_TERMS, &o->terms);
    case OPT_HEADS:
        return cmd_parse_size("--heads", text, 1, SIZE_MAX, &o->heads);
    case OPT_KV_HEADS:
        return cmd_parse_size("--kv-heads", text, 1, SIZE_MAX, &o->kv_heads);
    case OPT_CHUNK:
        return cmd_parse_size("--chunk", text, 1, TSA_MAX_CHUNK, &o->chunk);
    case OPT_MAX_TOKENS:
        return cmd_parse_size("--max-tokens", text, 1, SIZE_MAX, &o->max_tokens);
    case OPT_DTYPE:
        return cmd_parse_dtype("--dtype", text, &o->dtype);
    case OPT_COMPUTE:
        return cmd_parse_compute("--compute", text, &o->compute);
    case OPT_EXACT_DEGREES:
        *exact_degrees_given = true;
        return cmd_parse_exact_degrees("--exact-degrees", text, &o->exact_degrees);
    case OPT_GATE:
        o->gate = TSA_GATE_SCALAR;
        return true;
    case OPT_JSON:
        *json = true;
        return true;
    }
    return false;
}

/* Tokens whose keys and values have as many bytes as the state. */
static size_t break_even(const struct tsa_options *o, size_t state_bytes, size_t element)
{
    size_t token = (o->head_dim + o->value_dim) * o->kv_heads * element;
    return state_bytes / token + (state_bytes % token != 0);
}

static int compute(const struct tsa_options *o, struct sizes *s)
{
    struct tsa_measure measure;
    struct tsa_error err = {.status = TSA_OK};
    s->features = tsa_features(o->head_dim, o->terms);
    s->elements = tsa_state_elements(o->head_dim, o->value_dim, o->terms);
    if (s->features == 0 || s->elements == 0 || s->elements > PTRDIFF_MAX / sizeof(double))
        return cmd_fail("head_dim %zu, value_dim %zu, %zu terms: the state of one head does not "
                        "fit in memory's addresses",
                        o->head_dim, o->value_dim, o->terms);
    if (o->head_dim > SIZE_MAX - o->value_dim)
        return cmd_fail("--head-dim and --value-dim: their sum does not fit");
    size_t row = o->head_dim + o->value_dim;
    s->break_even = s->elements / row + (s->elements % row != 0);
    /* A state beyond the library's limit still has features and elements worth knowing. */
    enum tsa_status status = tsa_plan_measure(o, &measure, &err);
    s->state_bytes = 0;
    s->compute = cmd_dtype_name(o->dtype);
    s->exact_degrees = o->terms;
    if (status == TSA_OK) {
        s->compute = cmd_compute_name(measure.compute, o->dtype);
        if (measure.compute == TSA_COMPUTE_MIXED)
            s->exact_degrees = o->exact_degrees;
        s->state_bytes = measure.state_bytes;
        s->break_even_f32 = break_even(o, s->state_bytes, 4);
        s->break_even_bf16 = break_even(o, s->state_bytes, 2);
        s->chunk = measure.chunk;
        s->direct_tokens = measure.direct_tokens;
    } else if (status != TSA_EOVERFLOW) {
        return cmd_fail_plan(status, &err);
    } else {
        snprintf(s->text, sizeof s->text, "%s", err.text);
    }
    return CMD_OK;
}

/* null where no such state can be. */
static json_t *state_json(const struct sizes *s, size_t value)
{
    return s->state_bytes > 0 ? json_integer((json_int_t)value) : json_null();
}

static int print_json(const struct tsa_options *o, const struct sizes *s)
{
    return cmd_json_print(json_pack(
        "{s:I, s:I, s:I, s:I, s:I, s:s, s:s, s:I, s:I, s:I, s:{s:I, s:I, s:I}, s:o, s:o, "
        "s:o, s:I, s:o, s:o}",
        "head_dim", (json_int_t)o->head_dim, "value_dim", (json_int_t)o->value_dim, "terms",
        (json_int_t)o->terms, "heads", (json_int_t)o->heads, "kv_heads", (json_int_t)o->kv_heads,
        "dtype", cmd_dtype_name(o->dtype), "compute", s->compute, "exact_degrees",
        (json_int_t)s->exact_degrees, "features", (json_int_t)s->features, "elements",
        (json_int_t)s->elements, "bytes", "f32", (json_int_t)(4 * s->elements), "f64",
        (json_int_t)(8 * s->elements), "bf16", (json_int_t)(2 * s->elements), "chunk",
        state_json(s, s->chunk), "state_bytes", state_json(s, s->state_bytes),
        "direct_below_tokens", state_json(s, s->direct_tokens), "kv_break_even_tokens",
        (json_int_t)s->break_even, "kv_break_even_tokens_f32", state_json(s, s->break_even_f32),
        "kv_break_even_tokens_bf16", state_json(s, s->break_even_bf16)));
}

static void print_bytes(const char *label, size_t bytes)
{
    char count[CMD_NUMBER_TEXT], size[CMD_NUMBER_TEXT];
    printf("  %-10s %22s   %s\n", label, cmd_count_text(bytes, count),
           cmd_bytes_text((double)bytes, size));
}

static int print_text(const struct tsa_options *o, const struct sizes *s)
{
    char a[CMD_NUMBER_TEXT], b[CMD_NUMBER_TEXT];
    printf("head_dim %zu, value_dim %zu, %zu term%s\n\n", o->head_dim, o->value_dim, o->terms,
           o->terms == 1 ? "" : "s");
    printf("one key/value head, as the paper counts\n");
    printf("  features   %22s\n", cmd_count_text(s->features, a));
    printf("  sums       %22s   features x (value_dim + 1)\n", cmd_count_text(s->elements, a));
    print_bytes("in f32", 4 * s->elements);
    print_bytes("in f64", 8 * s->elements);
    print_bytes("in bf16", 2 * s->elements);
    printf("\na state of this library: %zu key/value head%s, %s; each sum is kept in two parts,\n"
           "and the last tokens in a window\n",
           o->kv_heads, o->kv_heads == 1 ? "" : "s", s->compute);
    if (s->state_bytes > 0) {
        printf("  chunk      %22s   tokens per fold\n", cmd_count_text(s->chunk, a));
        print_bytes("bytes", s->state_bytes);
        printf("\nsequences below %s tokens are cheaper in one window, without folds\n",
               cmd_count_text(s->direct_tokens, a));
    } else {
        printf("  none can be made: %s\n", s->text);
    }
    printf("\na key/value cache has more numbers than there are sums from %s tokens on\n",
           cmd_count_text(s->break_even, a));
    if (s->state_bytes > 0)
        printf("and more bytes than the state from %s tokens on in f32, %s in bf16\n",
               cmd_count_text(s->break_even_f32, a), cmd_count_text(s->break_even_bf16, b));
    return CMD_OK;
}

int cmd_size(int argc, char **argv)
{
    struct tsa_options options;
    struct sizes sizes = {.features = 0};
    bool json = false, exact_degrees_given = false;
    tsa_options_init(&options, sizeof options);
    opterr = 0;
    for (int c; (c = getopt_long(argc, argv, ":", long_options, NULL)) != -1;) {
        if (c == '?' || c == ':')
            return cmd_bad_option(c, argv);
        if (c == OPT_HELP) {
            fputs(help, stdout);
            return CMD_OK;
        }
        if (c == OPT_VERSION) {
            cmd_print_version();
            return CMD_OK;
        }
        if (!parse_option(c, optarg, &options, &exact_degrees_given, &json))
            return CMD_USAGE;
    }
    int code = cmd_no_operands(argc, argv);
    if (code != CMD_OK)
        return code;
    if (options.head_dim == 0 || options.value_dim == 0)
        return cmd_usage("--%s: missing; wanted an integer of at least 1",
                         options.head_dim == 0 ? "head-dim" : "value-dim");
    if (exact_degrees_given && options.compute == TSA_COMPUTE_EXACT)
        return cmd_usage("--exact-degrees: goes with --compute mixed or fastest only");
    if (options.kv_heads == 0)
        options.kv_heads = options.heads;
    if (options.heads % options.kv_heads != 0) {
        /* --kv-heads alone is enough to size a state. */
        if (options.heads != 1)
            return cmd_usage("--kv-heads: %zu found; wanted a divisor of --heads %zu",
                             options.kv_heads, options.heads);
        options.heads = options.kv_heads;
    }
    code = compute(&options, &sizes);
    if (code != CMD_OK)
        return code;
    return json ? print_json(&options, &sizes) : print_text(&options, &sizes);
}
