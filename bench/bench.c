/* SPDX-License-Identifier: MIT */
/* `tsa bench`: the command line. */
#include "config.h"

#include <errno.h>
#include <getopt.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"

enum { USAGE = 2, MOST_PROBLEMS = 64, MOST_RESULTS = 1 + MOST_CONTENDERS };

static const char usage_text[] =
    "usage: tsa bench [options] [PROBLEM...]\n"
    "\n"
    "  PROBLEM  OP[:FIELD...], OP one of prefill decode absorb softmax softmax-decode; fields in\n"
    "           any order: b batch (1), h heads (1), k kv heads (h), n tokens (8192), d head_dim\n"
    "           (16), dv value_dim (64), t terms (3), c chunk (by the shape),\n"
    "           e exact degrees: that problem mixed, whatever --compute says.\n"
    "           Example: prefill:b1:h8:n8192:d16:dv64:t3. Without one: the list of --list.\n"
    "\n"
    "  --threads T    threads (1, with --scaling 0; 0: as many as the library would take)\n"
    "  --isa NAME     instruction set (the best usable)\n"
    "  --dtype T      f32 (default) or f64\n"
    "  --compute HOW  f32 (default: all products in --dtype), mixed (those of high degrees from\n"
    "                 bf16 operands), fastest (mixed where that is faster)\n"
    "  --exact-degrees E  with mixed and fastest: degrees below E stay in f32 (2)\n"
    "  --seconds S    shortest time of one repeat (0.01)\n"
    "  --repeats R    repeats (15)\n"
    "  --cold         wipe the caches before each repeat\n"
    "  --contenders   prefill and softmax on OpenBLAS, on libxsmm and by hand in turn with ours\n"
    "  --kernels      every kernel of every usable table; a PROBLEM gives the shape\n"
    "  --grid         prefill over the grid of shapes against the ideal; mixed: beside f32\n"
    "  --chunks       with --grid: also every chunk of 8..512\n"
    "  --max-mb M     with --grid: largest state, MiB (256)\n"
    "  --min-elements E  with --grid: smallest state (0)\n"
    "  --odd          with --grid: only the odd shapes\n"
    "  --scaling      speedup with 1 to --threads threads, of a list of cases or of the PROBLEMs\n"
    "  --csv, --json  other output;  --list  print the standard problems;  --help\n"
    "\n"
    "Columns and method: doc/bench.md.\n";

static const char *const standard[] = {
    "prefill:n8192:d16:dv64:t3",       "prefill:n8192:d16:dv64:t3:c32",
    "prefill:n8192:d16:dv64:t3:c64",   "prefill:n8192:d16:dv64:t3:c128",
    "prefill:h8:k2:n4096:d16:dv64:t3", "prefill:n4096:d64:dv64:t3",
    "absorb:n8192:d16:dv64:t3",        "decode:n1024:d16:dv64:t3",
    "decode:n65536:d16:dv64:t3",       "decode:n1048576:d16:dv64:t3",
    "decode:h32:n1024:d16:dv64:t3",    "decode:h32:k8:n1024:d16:dv64:t3",
    "softmax:n2048:d16:dv64",          "softmax-decode:n1024:d16:dv64",
};

static int usage(const char *what, const char *value, const char *wanted)
{
    fprintf(stderr, "tsa bench: %s '%s': %s\n", what, value, wanted);
    return USAGE;
}

/* The whole text as a number within bounds. */
static bool parse_number(const char *text, double low, double high, double *value)
{
    char *end;
    errno = 0;
    *value = strtod(text, &end);
    return end != text && !*end && !errno && *value >= low && *value <= high;
}

static bool parse_count(const char *text, double low, double high, double *value)
{
    return parse_number(text, low, high, value) && *value == (double)(uint64_t)*value;
}

struct settings {
    struct bench_options options;
    struct bench_grid_options grid;
    bool run_kernels, run_grid, run_scaling, threads_given, exact_given, list, help;
};

enum {
    THREADS = 256,
    ISA,
    DTYPE,
    COMPUTE,
    EXACT_DEGREES,
    SECONDS,
    REPEATS,
    COLD,
    CONTENDERS,
    KERNELS,
    GRID,
    CHUNKS,
    MAX_MB,
    MIN_ELEMENTS,
    ODD,
    SCALING,
    CSV,
    JSON,
    LIST,
    HELP
};

/* 0, or the exit code of a usage error. */
static int set(struct settings *s, int option, const char *value)
{
    double x;
    int usable = 0;

    switch (option) {
    case THREADS:
        if (!parse_count(value, 0, 1024, &x))
            return usage("--threads", value, "a whole number 0..1024 is wanted");
        s->options.threads = (int)x;
        s->threads_given = true;
        break;
    case ISA:
        s->options.isa = NULL;
        for (size_t i = 0; tsa_isa_list(i, &usable); i++)
            if (strcmp(tsa_isa_list(i, &usable), value) == 0 && usable)
                s->options.isa = tsa_isa_list(i, NULL);
        if (!s->options.isa)
            return usage("--isa", value, "not built, or not usable here; see tsa info");
        break;
    case DTYPE:
        if (strcmp(value, "f32") != 0 && strcmp(value, "f64") != 0)
            return usage("--dtype", value, "f32 or f64 is wanted");
        s->options.dtype = value[1] == '3' ? TSA_F32 : TSA_F64;
        break;
    case COMPUTE:
        if (strcmp(value, "f32") == 0)
            s->options.compute = TSA_COMPUTE_EXACT;
        else if (strcmp(value, "mixed") == 0)
            s->options.compute = TSA_COMPUTE_MIXED;
        else if (strcmp(value, "fastest") == 0)
            s->options.compute = TSA_COMPUTE_FASTEST;
        else
            return usage("--compute", value, "f32, mixed or fastest is wanted");
        break;
    case EXACT_DEGREES:
        if (!parse_count(value, 0, TSA_MAX_TERMS, &x))
            return usage("--exact-degrees", value, "a whole number 0..8 is wanted");
        s->options.exact_degrees = (unsigned)x;
        s->exact_given = true;
        break;
    case SECONDS:
        if (!parse_number(value, 1e-6, 3600, &s->options.timing.seconds))
            return usage("--seconds", value, "a number 0.000001..3600 is wanted");
        break;
    case REPEATS:
        if (!parse_count(value, 1, 100, &x))
            return usage("--repeats", value, "a whole number 1..100 is wanted");
        s->options.timing.repeats = (int)x;
        break;
    case MAX_MB:
        if (!parse_count(value, 1, 1 << 20, &x))
            return usage("--max-mb", value, "a whole number 1..1048576 is wanted");
        s->grid.max_bytes = (size_t)x << 20;
        break;
    case MIN_ELEMENTS:
        if (!parse_count(value, 0, 1e15, &x))
            return usage("--min-elements", value, "a whole number is wanted");
        s->grid.min_elements = (size_t)x;
        break;
    case COLD:
        s->options.timing.cold = true;
        break;
    case CONTENDERS:
        s->options.contenders = true;
        break;
    case KERNELS:
        s->run_kernels = true;
        break;
    case GRID:
        s->run_grid = true;
        break;
    case CHUNKS:
        s->grid.chunks = true;
        break;
    case ODD:
        s->grid.odd_only = true;
        break;
    case SCALING:
        s->run_scaling = true;
        break;
    case CSV:
        s->options.csv = true;
        break;
    case JSON:
        s->options.json = true;
        break;
    case LIST:
        s->list = true;
        break;
    case HELP:
        s->help = true;
        break;
    default:
        return USAGE;
    }
    return 0;
}

static int parse(int argc, char **argv, struct settings *s)
{
    static const struct option names[] = {
        {"threads", required_argument, NULL, THREADS},
        {"isa", required_argument, NULL, ISA},
        {"dtype", required_argument, NULL, DTYPE},
        {"compute", required_argument, NULL, COMPUTE},
        {"exact-degrees", required_argument, NULL, EXACT_DEGREES},
        {"seconds", required_argument, NULL, SECONDS},
        {"repeats", required_argument, NULL, REPEATS},
        {"cold", no_argument, NULL, COLD},
        {"contenders", no_argument, NULL, CONTENDERS},
        {"kernels", no_argument, NULL, KERNELS},
        {"grid", no_argument, NULL, GRID},
        {"chunks", no_argument, NULL, CHUNKS},
        {"max-mb", required_argument, NULL, MAX_MB},
        {"min-elements", required_argument, NULL, MIN_ELEMENTS},
        {"odd", no_argument, NULL, ODD},
        {"scaling", no_argument, NULL, SCALING},
        {"csv", no_argument, NULL, CSV},
        {"json", no_argument, NULL, JSON},
        {"list", no_argument, NULL, LIST},
        {"help", no_argument, NULL, HELP},
        {NULL, 0, NULL, 0},
    };
    int option;
    optind = 1;
    opterr = 0;
    while ((option = getopt_long(argc, argv, ":h", names, NULL)) != -1) {
        if (option == ':')
            return usage("option", argv[optind - 1], "a value is wanted after it");
        if (option == '?')
            return usage("option", argv[optind - 1], "unknown; try tsa bench --help");
        const int code = set(s, option == 'h' ? HELP : option, optarg);
        if (code)
            return code;
    }
    if (s->options.csv && s->options.json)
        return usage("--csv", "--json", "one of them is wanted");
    if ((s->run_grid || s->run_kernels) && s->options.json)
        return usage("--json", s->run_grid ? "--grid" : "--kernels", "takes --csv only");
    if (s->run_scaling &&
        (s->run_grid || s->run_kernels || s->options.contenders || s->options.timing.cold))
        return usage("--scaling", "", "not with --grid, --kernels, --contenders or --cold");
    if (s->options.compute == TSA_COMPUTE_MIXED && s->options.dtype == TSA_F64)
        return usage("--compute", "mixed", "not with --dtype f64");
    if (s->exact_given && s->options.compute == TSA_COMPUTE_EXACT)
        return usage("--exact-degrees", "", "with --compute mixed or fastest only");
    if (s->run_grid && s->options.compute != TSA_COMPUTE_EXACT && s->options.contenders)
        return usage("--contenders", "", "a --grid that is mixed has f32 beside it");
    if (s->run_scaling && !s->threads_given)
        s->options.threads = 0;
    return 0;
}

static int run(const struct settings *s, const struct bench_problem *problems, size_t count,
               struct bench_machine *machine)
{
    struct bench_result results[MOST_RESULTS];
    int wrong = 0;

    bench_report_begin(&s->options, machine);
    for (size_t i = 0; i < count; i++) {
        bench_machine_peak(machine);
        const size_t got =
            bench_op_report(&problems[i], &s->options, machine, results, MOST_RESULTS, &wrong);
        if (!got)
            return 1;
        for (size_t j = 0; j < got; j++)
            bench_report(&s->options, &results[j]);
    }
    bench_report_end(&s->options);
    if (wrong)
        fprintf(stderr, "tsa bench: %d results are beyond the error bound\n", wrong);
    return wrong ? 1 : 0;
}

/* Percentages were taken of the best peak known by then. */
static void compare_peaks(struct bench_machine *machine)
{
    const double before = machine->peak_f32;
    bench_machine_peak(machine);
    if (machine->peak_f32 > 1.01 * before)
        fprintf(stderr,
                "tsa bench: the peak rose from %.1f to %.1f GFLOP/s during the run: the "
                "percentages are too high by that\n",
                before, machine->peak_f32);
}

int tsa_bench_main(int argc, char **argv)
{
    static struct bench_problem problems[MOST_PROBLEMS];
    const size_t standard_count = sizeof standard / sizeof *standard;
    struct settings s = {.options = {.timing = {.seconds = 0.01, .repeats = 15},
                                     .threads = 1,
                                     .dtype = TSA_F32,
                                     .exact_degrees = 2},
                         .grid = {.max_bytes = (size_t)256 << 20}};
    struct bench_machine machine = {0};
    size_t count = 0;
    char why[200];

    const int code = parse(argc, argv, &s);
    if (code)
        return code;
    if (s.help || s.list) {
        if (s.help)
            fputs(usage_text, stdout);
        for (size_t i = 0; s.list && i < standard_count; i++)
            puts(standard[i]);
        return 0;
    }
    const bool given = optind < argc;
    const size_t wanted = given ? (size_t)(argc - optind) : s.run_scaling ? 0 : standard_count;
    if (wanted > MOST_PROBLEMS) {
        fprintf(stderr, "tsa bench: at most %d problems at once\n", MOST_PROBLEMS);
        return USAGE;
    }
    for (; count < wanted; count++) {
        const char *text = given ? argv[optind + (int)count] : standard[count];
        if (!bench_problem_parse(text, &problems[count], why, sizeof why)) {
            fprintf(stderr, "tsa bench: problem '%s': %s\n", text, why);
            return USAGE;
        }
    }
    const char *isa = s.options.isa ? s.options.isa : tsa_isa_active();
    if (!isa) {
        fprintf(stderr, "tsa bench: TSA_ISA names no instruction set that is usable here\n");
        return USAGE;
    }
    const int threads = s.options.threads ? s.options.threads : tsa_default_threads(NULL);
    if (!bench_machine_measure(&machine, isa, threads)) {
        fprintf(stderr, "tsa bench: no benchmark unit for %s\n", isa);
        return 1;
    }
    int result;
    if (s.run_kernels)
        result = bench_kernels(&s.options, &problems[0], &machine);
    else if (s.run_grid)
        result = bench_grid(&s.options, &s.grid, &machine);
    else if (s.run_scaling)
        result = bench_scaling(&s.options, problems, count, &machine);
    else
        result = run(&s, problems, count, &machine);
    if (!s.run_scaling)
        compare_peaks(&machine);
    if (fflush(stdout) || ferror(stdout)) {
        fprintf(stderr, "tsa bench: cannot write to standard output\n");
        return 1;
    }
    return result;
}
