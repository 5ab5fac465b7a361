/* SPDX-License-Identifier: MIT */
/* Options and files of `tsa attend`: from the command line to a checked problem. */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "attend.h"
#include "cmd.h"
#include "output.h"

static const char help[] =
    "usage: tsa attend -q Q.npy -k K.npy -v V.npy -o O.npy [options]\n"
    "\n"
    "Attention of the queries Q over the keys K and values V, written to O.\n"
    "Arrays are [N,D], [H,N,D] or [B,H,N,D], '<f4', '<f8', '<f2', or '<u2' or '<V2' that hold\n"
    "bf16, in C order. K and V may have fewer heads than Q: query head h reads key/value head\n"
    "h / (H / kv heads).\n"
    "\n"
    "  -q, -k, -v FILE      the inputs\n"
    "  -o FILE              the output; appears only when it is whole. Pipes, /dev/stdout and\n"
    "                       the like are written to directly; with the array on standard\n"
    "                       output, the text goes to standard error\n"
    "  --force              let the output replace an input\n"
    "  --terms N            terms of the series, 1 to 8 (3)\n"
    "  --temperature A      scores are q.k/A (2)\n"
    "  --normalize HOW      l2: rows of Q and K to length 1; none: as they are (l2)\n"
    "  --coefficients C     taylor; sphere: those that are best for rows of length 1 in random\n"
    "                       directions; or c0,c1,...: the coefficients of x^m (taylor)\n"
    "  --chunk C            tokens per fold of the window, 1 to 1048576; part of the\n"
    "                       arithmetic (by the shape)\n"
    "  --gate FILE          factors in [0, 1] by which keys and values forget, of K's shape\n"
    "                       without its last dimension, '<f4' or '<f8'\n"
    "  --value-gate FILE    factors >= 0 of each key with its value, of the same shape\n"
    "  --output WHAT        ratio: weighted values over the sum of weights; sum: not divided\n"
    "                       (ratio)\n"
    "  --output-scale S     outputs times S (1)\n"
    "  --denominator-add E  a denominator becomes itself plus E, (0)\n"
    "  --denominator-floor F  and then the larger of its magnitude and F (0: as it is)\n"
    "  --model NAME         the options of a published model: based, taylorshift, rebased,\n"
    "                       sata, power, retnet, gla, mamba2, mlstm (doc/models.md); other\n"
    "                       options change it\n"
    "  --noncausal          every query sees every key; their numbers may differ\n"
    "  --method NAME        taylor, or softmax: the exact, quadratic way (taylor)\n"
    "  --softmax-window W   with softmax, a query sees its own key and the W-1 before it (0: all)\n"
    "  --dtype TYPE         of the output: f32, f64, bf16 or f16 (as Q). The arithmetic is f64\n"
    "                       for f64, else f32. '<u2' and '<V2' files are read, as bf16, only\n"
    "                       with this option; with bf16, O is '<u2'\n"
    "  --step S             feed S tokens a call; the bits are the same (0: all at once)\n"
    "  --threads T          threads (0: what the machine grants; see tsa info)\n"
    "  --isa NAME           instruction set (the best one; see tsa info)\n"
    "  --compute HOW        f32: all products in the arithmetic's type; mixed: those of high\n"
    "                       degrees from bf16 operands (doc/accuracy.md); fastest: mixed where\n"
    "                       that is faster on this machine (f32)\n"
    "  --exact-degrees E    with mixed and fastest: degrees below E stay in f32, 0 to 8 (2)\n"
    "  --compare            run softmax as well, and print the difference, before outputs are\n"
    "                       rounded to bf16 or f16; with --compute mixed or fastest also error\n"
    "                       and time for 0 to 3 exact degrees, for E, and in f32\n"
    "  --report             print each head's denominators and largest |q||k|/A, and with mixed\n"
    "                       an estimate of its error\n"
    "  --json               results as JSON\n"
    "  --help, --version\n";

enum {
    OPT_TERMS = 256,
    OPT_TEMPERATURE,
    OPT_NORMALIZE,
    OPT_COEFFICIENTS,
    OPT_CHUNK,
    OPT_GATE,
    OPT_VALUE_GATE,
    OPT_OUTPUT,
    OPT_OUTPUT_SCALE,
    OPT_DENOMINATOR_ADD,
    OPT_DENOMINATOR_FLOOR,
    OPT_MODEL,
    OPT_NONCAUSAL,
    OPT_METHOD,
    OPT_SOFTMAX_WINDOW,
    OPT_DTYPE,
    OPT_STEP,
    OPT_THREADS,
    OPT_ISA,
    OPT_COMPUTE,
    OPT_EXACT_DEGREES,
    OPT_COMPARE,
    OPT_REPORT,
    OPT_JSON,
    OPT_FORCE,
    OPT_STATE_IN,
    OPT_STATE_OUT,
    OPT_HELP,
    OPT_VERSION
};

static const struct option long_options[] = {
    {"terms", required_argument, NULL, OPT_TERMS},
    {"temperature", required_argument, NULL, OPT_TEMPERATURE},
    {"normalize", required_argument, NULL, OPT_NORMALIZE},
    {"coefficients", required_argument, NULL, OPT_COEFFICIENTS},
    {"chunk", required_argument, NULL, OPT_CHUNK},
    {"gate", required_argument, NULL, OPT_GATE},
    {"value-gate", required_argument, NULL, OPT_VALUE_GATE},
    {"output", required_argument, NULL, OPT_OUTPUT},
    {"output-scale", required_argument, NULL, OPT_OUTPUT_SCALE},
    {"denominator-add", required_argument, NULL, OPT_DENOMINATOR_ADD},
    {"denominator-floor", required_argument, NULL, OPT_DENOMINATOR_FLOOR},
    {"model", required_argument, NULL, OPT_MODEL},
    {"noncausal", no_argument, NULL, OPT_NONCAUSAL},
    {"method", required_argument, NULL, OPT_METHOD},
    {"softmax-window", required_argument, NULL, OPT_SOFTMAX_WINDOW},
    {"dtype", required_argument, NULL, OPT_DTYPE},
    {"step", required_argument, NULL, OPT_STEP},
    {"threads", required_argument, NULL, OPT_THREADS},
    {"isa", required_argument, NULL, OPT_ISA},
    {"compute", required_argument, NULL, OPT_COMPUTE},
    {"exact-degrees", required_argument, NULL, OPT_EXACT_DEGREES},
    {"compare", no_argument, NULL, OPT_COMPARE},
    {"report", no_argument, NULL, OPT_REPORT},
    {"json", no_argument, NULL, OPT_JSON},
    {"force", no_argument, NULL, OPT_FORCE},
    {"state-in", required_argument, NULL, OPT_STATE_IN},
    {"state-out", required_argument, NULL, OPT_STATE_OUT},
    {"help", no_argument, NULL, OPT_HELP},
    {"version", no_argument, NULL, OPT_VERSION},
    {NULL, 0, NULL, 0},
};

static bool parse_coefficients(const char *text, struct attend_options *options)
{
    char item[64];
    options->coefficient_count = 0;
    options->sphere = false;
    if (strcmp(text, "taylor") == 0)
        return true;
    options->sphere = strcmp(text, "sphere") == 0;
    if (options->sphere)
        return true;
    if (strcmp(text, "minimax") == 0) {
        cmd_usage("--coefficients: minimax is not in this version");
        return false;
    }
    for (const char *at = text;; at++) {
        size_t length = strcspn(at, ",");
        if (options->coefficient_count == TSA_MAX_TERMS || length >= sizeof item) {
            cmd_usage("--coefficients: '%s' found; wanted taylor or at most %d numbers c0,c1,...",
                      text, TSA_MAX_TERMS);
            return false;
        }
        memcpy(item, at, length);
        item[length] = '\0';
        if (!cmd_parse_double("--coefficients", item, false,
                              &options->coefficients[options->coefficient_count++]))
            return false;
        at += length;
        if (*at == '\0')
            return true;
    }
}

/* One of two words. */
static bool parse_word(const char *option, const char *text, const char *no, const char *yes,
                       bool *value)
{
    *value = strcmp(text, yes) == 0;
    if (*value || strcmp(text, no) == 0)
        return true;
    cmd_usage("%s: '%s' found; wanted %s or %s", option, text, no, yes);
    return false;
}

/* Options of recurrences other than the paper's; *known is false for the others. */
static bool parse_recurrence(int c, const char *text, struct attend_options *o, bool *known)
{
    bool flag;
    *known = true;
    switch (c) {
    case OPT_GATE:
        o->gate = text;
        return true;
    case OPT_VALUE_GATE:
        o->value_gate = text;
        return true;
    case OPT_OUTPUT:
        if (!parse_word("--output", text, "ratio", "sum", &flag))
            return false;
        o->output = flag ? TSA_OUTPUT_SUM : TSA_OUTPUT_RATIO;
        return true;
    case OPT_OUTPUT_SCALE:
        return cmd_parse_double("--output-scale", text, false, &o->output_scale);
    case OPT_DENOMINATOR_ADD:
        return cmd_parse_double("--denominator-add", text, false, &o->denominator_add);
    case OPT_DENOMINATOR_FLOOR:
        return cmd_parse_double("--denominator-floor", text, false, &o->denominator_floor);
    case OPT_MODEL: /* taken before the others */
        return true;
    }
    *known = false;
    return true;
}

static bool parse_option(int c, const char *text, struct attend_options *o)
{
    bool flag, known;
    const bool good = parse_recurrence(c, text, o, &known);
    if (known)
        return good;
    switch (c) {
    case 'q':
        o->q = text;
        return true;
    case 'k':
        o->k = text;
        return true;
    case 'v':
        o->v = text;
        return true;
    case 'o':
        o->o = text;
        return true;
    case OPT_TERMS:
        return cmd_parse_size("--terms", text, 1, TSA_MAX_TERMS, &o->terms);
    case OPT_TEMPERATURE:
        return cmd_parse_double("--temperature", text, true, &o->temperature);
    case OPT_NORMALIZE:
        if (!parse_word("--normalize", text, "l2", "none", &flag))
            return false;
        o->normalize = flag ? TSA_NORMALIZE_NONE : TSA_NORMALIZE_L2;
        return true;
    case OPT_COEFFICIENTS:
        return parse_coefficients(text, o);
    case OPT_CHUNK:
        return cmd_parse_size("--chunk", text, 1, TSA_MAX_CHUNK, &o->chunk);
    case OPT_NONCAUSAL:
        o->noncausal = true;
        return true;
    case OPT_METHOD:
        return parse_word("--method", text, "taylor", "softmax", &o->softmax);
    case OPT_SOFTMAX_WINDOW:
        return cmd_parse_size("--softmax-window", text, 0, SIZE_MAX, &o->softmax_window);
    case OPT_DTYPE:
        return cmd_parse_element("--dtype", text, &o->dtype);
    case OPT_STEP:
        return cmd_parse_size("--step", text, 0, SIZE_MAX, &o->step);
    case OPT_THREADS:
        return cmd_parse_threads("--threads", text, &o->threads);
    case OPT_ISA:
        return cmd_parse_isa("--isa", text, &o->isa);
    case OPT_COMPUTE:
        return cmd_parse_compute("--compute", text, &o->compute);
    case OPT_EXACT_DEGREES:
        o->exact_degrees_given = true;
        return cmd_parse_exact_degrees("--exact-degrees", text, &o->exact_degrees);
    case OPT_COMPARE:
        o->compare = true;
        return true;
    case OPT_REPORT:
        o->report = true;
        return true;
    case OPT_JSON:
        o->json = true;
        return true;
    case OPT_FORCE:
        o->force = true;
        return true;
    case OPT_STATE_IN:
    case OPT_STATE_OUT:
        cmd_usage("--state-%s: not in this version", c == OPT_STATE_IN ? "in" : "out");
        return false;
    }
    return false;
}

int attend_parse(int argc, char **argv, struct attend_options *o, bool *done)
{
    *done = false;
    *o =
        (struct attend_options){.temperature = 2, .normalize = TSA_NORMALIZE_L2, .output_scale = 1};
    opterr = 0;
    for (int c; (c = getopt_long(argc, argv, ":q:k:v:o:", long_options, NULL)) != -1;)
        if (c == OPT_MODEL && !attend_parse_model(optarg, o))
            return CMD_USAGE;
    optind = 1;
    for (int c; (c = getopt_long(argc, argv, ":q:k:v:o:", long_options, NULL)) != -1;) {
        if (c == '?' || c == ':')
            return cmd_bad_option(c, argv);
        if (c == OPT_HELP || c == OPT_VERSION) {
            *done = true;
            if (c == OPT_HELP)
                fputs(help, stdout);
            else
                cmd_print_version();
            return CMD_OK;
        }
        if (!parse_option(c, optarg, o))
            return CMD_USAGE;
    }
    int code = cmd_no_operands(argc, argv);
    if (code != CMD_OK)
        return code;
    const struct {
        const char *option, *file;
    } files[] = {{"-q", o->q}, {"-k", o->k}, {"-v", o->v}, {"-o", o->o}};
    for (size_t i = 0; i < 4; i++)
        if (files[i].file == NULL)
            return cmd_usage("%s: missing; wanted a file", files[i].option);
    code = attend_check_recurrence(o);
    if (code != CMD_OK)
        return code;
    if (o->coefficient_count > 0 && o->terms > 0 && o->terms != o->coefficient_count)
        return cmd_usage("--coefficients: %zu numbers found; wanted %zu, as --terms says",
                         o->coefficient_count, o->terms);
    if (o->softmax && (o->compare || o->report))
        return cmd_usage("--%s: goes with --method taylor only", o->compare ? "compare" : "report");
    if (o->softmax_window > 0 && (!o->softmax || o->noncausal))
        return cmd_usage("--softmax-window: goes with --method softmax, not --noncausal");
    if (o->softmax && o->compute != TSA_COMPUTE_EXACT)
        return cmd_usage("--compute: mixed and fastest go with --method taylor only");
    if (o->exact_degrees_given && o->compute == TSA_COMPUTE_EXACT)
        return cmd_usage("--exact-degrees: goes with --compute mixed or fastest only");
    if (o->terms == 0)
        o->terms = o->coefficient_count > 0 ? o->coefficient_count : 3;
    return CMD_OK;
}

/* -- files ------------------------------------------------------------------------------------ */

struct tsa_tensor attend_tensor(void *data, enum tsa_dtype dtype, size_t heads, size_t tokens,
                                size_t width)
{
    return (struct tsa_tensor){
        .data = data,
        .dtype = dtype,
        .batch = (ptrdiff_t)(heads * tokens * width),
        .head = (ptrdiff_t)(tokens * width),
        .token = (ptrdiff_t)width,
    };
}

/* The length of a dimension counted from the last, 1 where the array has none. */
static size_t from_last(const struct npy *array, size_t i)
{
    return i < array->rank ? array->shape[array->rank - 1 - i] : 1;
}

/* Say that two files do not go together. */
static int differ(const struct attend *a, const char *path, const struct npy *array,
                  const char *wanted)
{
    char found[NPY_SHAPE_TEXT], q[NPY_SHAPE_TEXT];
    return cmd_fail("%s: shape %s found; wanted %s, with %s of shape %s", path,
                    npy_shape_text(array->rank, array->shape, found), wanted,
                    array == &a->v ? a->options.k : a->options.q,
                    npy_shape_text(a->rank, array == &a->v ? a->k.shape : a->q.shape, q));
}

static int check_shapes(struct attend *a)
{
    const struct attend_options *o = &a->options;
    a->rank = a->q.rank;
    if (a->k.rank != a->rank)
        return differ(a, o->k, &a->k, "as many dimensions as the queries");
    if (a->v.rank != a->rank)
        return differ(a, o->v, &a->v, "as many dimensions as the keys");
    a->batch = from_last(&a->q, 3);
    a->heads = from_last(&a->q, 2);
    a->kv_heads = from_last(&a->k, 2);
    a->queries = from_last(&a->q, 1);
    a->keys = from_last(&a->k, 1);
    a->head_dim = from_last(&a->q, 0);
    a->value_dim = from_last(&a->v, 0);
    if (a->head_dim == 0 || a->heads == 0)
        return differ(a, o->q, &a->q, "at least one head and one column");
    if (from_last(&a->k, 0) != a->head_dim)
        return differ(a, o->k, &a->k, "rows as wide as the queries");
    if (from_last(&a->k, 3) != a->batch)
        return differ(a, o->k, &a->k, "as many sequences as the queries");
    if (a->kv_heads == 0 || a->heads % a->kv_heads != 0)
        return differ(a, o->k, &a->k, "a number of heads that divides that of the queries");
    if (!o->noncausal && a->keys != a->queries)
        return differ(a, o->k, &a->k, "as many tokens as queries, or --noncausal");
    if (a->value_dim == 0)
        return differ(a, o->v, &a->v, "at least one column");
    for (size_t i = 1; i < a->rank; i++)
        if (from_last(&a->v, i) != from_last(&a->k, i))
            return differ(a, o->v, &a->v, "as many tokens, heads and sequences as the keys");
    if (a->keys == 0 && a->queries > 0)
        return differ(a, o->k, &a->k, "at least one key");
    return CMD_OK;
}

bool attend_is_empty(const struct attend *a)
{
    return a->batch == 0 || a->queries == 0;
}

static int allocate_output(struct attend *a)
{
    char text[NPY_SHAPE_TEXT];
    const size_t shape[NPY_MAX_RANK] = {a->batch, a->heads, a->queries, a->value_dim};
    size_t product = cmd_dtype_size(a->options.dtype);
    for (size_t i = 0; i < NPY_MAX_RANK; i++) {
        size_t length = shape[i] == 0 ? 1 : shape[i];
        if (product > PTRDIFF_MAX / length)
            return cmd_fail("%s: an output of shape %s does not fit in memory's addresses",
                            a->options.o, npy_shape_text(NPY_MAX_RANK, shape, text));
        product *= length;
    }
    a->out_bytes = attend_is_empty(a) ? 0 : product;
    a->out = malloc(a->out_bytes > 0 ? a->out_bytes : 1);
    if (a->out == NULL)
        return cmd_fail("%s: no memory for an output of %zu bytes", a->options.o, a->out_bytes);
    return CMD_OK;
}

int attend_load(struct attend *a)
{
    const struct attend_options *o = &a->options;
    const struct {
        const char *path;
        struct npy *array;
    } files[] = {{o->q, &a->q}, {o->k, &a->k}, {o->v, &a->v}, {o->gate, 0}, {o->value_gate, 0}};
    for (size_t i = 0; i < 5; i++)
        if (!o->force && files[i].path != NULL && output_same_file(o->o, files[i].path))
            return cmd_fail("%s: is the input %s, too; --force lets the output replace it", o->o,
                            files[i].path);
    for (size_t i = 0; i < 3; i++) {
        char text[NPY_TEXT];
        if (!npy_read(files[i].path, 2, files[i].array, text))
            return cmd_fail("%s: %s", files[i].path, text);
        if (files[i].array->dtype == TSA_BF16 && o->dtype == 0)
            return cmd_fail("%s: dtype '%s' found; if it holds bf16, say --dtype bf16, or another "
                            "type for the output",
                            files[i].path, files[i].array->descr);
    }
    if (o->dtype == 0)
        a->options.dtype = a->q.dtype;
    int code = check_shapes(a);
    if (code == CMD_OK)
        code = allocate_output(a);
    if (code != CMD_OK)
        return code;
    a->tq = attend_tensor(a->q.data, a->q.dtype, a->heads, a->queries, a->head_dim);
    a->tk = attend_tensor(a->k.data, a->k.dtype, a->kv_heads, a->keys, a->head_dim);
    a->tv = attend_tensor(a->v.data, a->v.dtype, a->kv_heads, a->keys, a->value_dim);
    a->to = attend_tensor(a->out, o->dtype, a->heads, a->queries, a->value_dim);
    attend_settle_recurrence(a);
    return attend_load_gates(a);
}
