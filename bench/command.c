/* SPDX-License-Identifier: MIT */
/* `tsa bench`: the command line. */
#include "config.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench.h"

enum { MOST_PROBLEMS = 64, MOST_BUSY = 256 };

static const char help[] =
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
    "  --busy N       beside N processes that compute (0)\n"
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

struct settings {
    struct bench_options options;
    struct bench_grid_options grid;
    size_t busy; /* processes beside this one */
    bool threads_given, exact_given;
};

/* Options without a value: getopt_long sets these. */
static struct {
    int cold, contenders, kernels, grid, chunks, odd, scaling, csv, json, list, help;
} flags;

enum {
    THREADS = 256,
    ISA,
    DTYPE,
    COMPUTE,
    EXACT_DEGREES,
    SECONDS,
    REPEATS,
    MAX_MB,
    BUSY,
    MIN_ELEMENTS
};

static const struct option long_options[] = {
    {"threads", required_argument, NULL, THREADS},
    {"isa", required_argument, NULL, ISA},
    {"dtype", required_argument, NULL, DTYPE},
    {"compute", required_argument, NULL, COMPUTE},
    {"exact-degrees", required_argument, NULL, EXACT_DEGREES},
    {"seconds", required_argument, NULL, SECONDS},
    {"repeats", required_argument, NULL, REPEATS},
    {"max-mb", required_argument, NULL, MAX_MB},
    {"busy", required_argument, NULL, BUSY},
    {"min-elements", required_argument, NULL, MIN_ELEMENTS},
    {"cold", no_argument, &flags.cold, 1},
    {"contenders", no_argument, &flags.contenders, 1},
    {"kernels", no_argument, &flags.kernels, 1},
    {"grid", no_argument, &flags.grid, 1},
    {"chunks", no_argument, &flags.chunks, 1},
    {"odd", no_argument, &flags.odd, 1},
    {"scaling", no_argument, &flags.scaling, 1},
    {"csv", no_argument, &flags.csv, 1},
    {"json", no_argument, &flags.json, 1},
    {"list", no_argument, &flags.list, 1},
    {"help", no_argument, &flags.help, 1},
    {NULL, 0, NULL, 0},
};

static bool parse_seconds(const char *text, double *seconds)
{
    if (!cmd_parse_double("--seconds", text, true, seconds))
        return false;
    if (*seconds >= 1e-6 && *seconds <= 3600)
        return true;
    cmd_usage("--seconds: '%s' found; wanted a number from 0.000001 to 3600", text);
    return false;
}

/* An option that has a value. */
static bool parse_option(int option, const char *value, struct settings *s)
{
    struct bench_options *o = &s->options;
    size_t number = 0;
    bool good = false;

    switch (option) {
    case THREADS:
        good = cmd_parse_size("--threads", value, 0, 1024, &number);
        o->threads = (int)number;
        s->threads_given = true;
        return good;
    case ISA:
        return cmd_parse_isa("--isa", value, &o->isa);
    case DTYPE:
        return cmd_parse_dtype("--dtype", value, &o->dtype);
    case COMPUTE:
        return cmd_parse_compute("--compute", value, &o->compute);
    case EXACT_DEGREES:
        s->exact_given = true;
        return cmd_parse_exact_degrees("--exact-degrees", value, &o->exact_degrees);
    case SECONDS:
        return parse_seconds(value, &o->timing.seconds);
    case REPEATS:
        good = cmd_parse_size("--repeats", value, 1, 100, &number);
        o->timing.repeats = (int)number;
        return good;
    case BUSY:
        return cmd_parse_size("--busy", value, 0, MOST_BUSY, &s->busy);
    case MAX_MB:
        good = cmd_parse_size("--max-mb", value, 1, 1 << 20, &number);
        s->grid.max_bytes = number << 20;
        return good;
    case MIN_ELEMENTS:
        return cmd_parse_size("--min-elements", value, 0, SIZE_MAX, &s->grid.min_elements);
    }
    return false;
}

/* Options that do not go together. */
static int check(const struct settings *s)
{
    const struct bench_options *o = &s->options;
    if (flags.csv && flags.json)
        return cmd_usage("--csv and --json: wanted one of them");
    if (flags.scaling && (flags.grid || flags.kernels || flags.contenders || flags.cold))
        return cmd_usage("--scaling: not with --grid, --kernels, --contenders or --cold");
    if (o->compute == TSA_COMPUTE_MIXED && o->dtype == TSA_F64)
        return cmd_usage("--compute mixed: not with --dtype f64");
    if (s->exact_given && o->compute == TSA_COMPUTE_EXACT)
        return cmd_usage("--exact-degrees: with --compute mixed or fastest only");
    if (flags.grid && o->compute != TSA_COMPUTE_EXACT && flags.contenders)
        return cmd_usage("--contenders: a --grid that is mixed has f32 beside it");
    return CMD_OK;
}

static int parse(int argc, char **argv, struct settings *s,
                 const struct bench_contenders *contenders)
{
    opterr = 0;
    for (int c; (c = getopt_long(argc, argv, ":h", long_options, NULL)) != -1;) {
        if (c == '?' || c == ':')
            return cmd_bad_option(c, argv);
        if (c == 'h')
            flags.help = 1;
        else if (c != 0 && !parse_option(c, optarg, s))
            return CMD_USAGE;
    }
    s->options.form = flags.json ? BENCH_JSON : flags.csv ? BENCH_CSV : BENCH_TABLE;
    s->options.timing.cold = flags.cold;
    s->options.contenders = flags.contenders ? contenders : NULL;
    s->grid.chunks = flags.chunks;
    s->grid.odd_only = flags.odd;
    if (flags.scaling && !s->threads_given)
        s->options.threads = 0;
    return check(s);
}

/* The problems that are named, or else the standard ones, of which --scaling has its own. */
static int parse_problems(int argc, char **argv, struct bench_problem *problems, size_t *count)
{
    const bool given = optind < argc;
    const size_t wanted = given           ? (size_t)(argc - optind)
                          : flags.scaling ? 0
                                          : sizeof standard / sizeof *standard;
    if (wanted > MOST_PROBLEMS)
        return cmd_usage("at most %d problems at once", MOST_PROBLEMS);
    for (*count = 0; *count < wanted; ++*count)
        if (!bench_problem_parse(given ? argv[optind + (int)*count] : standard[*count],
                                 &problems[*count]))
            return CMD_USAGE;
    return CMD_OK;
}

static int run(const struct bench_options *options, const struct bench_problem *problems,
               size_t count, struct bench_machine *machine)
{
    struct bench_result results[BENCH_RESULTS];
    struct bench_rows rows = {.form = options->form};
    int wrong = 0;

    bench_report_machine(options, machine);
    bench_rows_begin(&rows);
    bench_report(&rows, NULL);
    for (size_t i = 0; i < count; i++) {
        bench_machine_peak(machine);
        const size_t got = bench_op_report(&problems[i], options, machine, results, &wrong);
        if (!got)
            return CMD_FAILURE;
        for (size_t j = 0; j < got; j++)
            bench_report(&rows, &results[j]);
    }
    bench_rows_end(&rows);
    return bench_report_wrong(wrong);
}

/* Percentages were taken of the best peak known by then. */
static void compare_peaks(struct bench_machine *machine)
{
    const double before = machine->peak_f32;
    bench_machine_peak(machine);
    if (machine->peak_f32 > 1.01 * before)
        cmd_warn("the peak rose from %.1f to %.1f GFLOP/s during the run: the percentages are too "
                 "high by that",
                 before, machine->peak_f32);
}

/* Processes that compute until they are killed, or this one has gone; the number that started. */
static size_t start_busy(pid_t *busy, size_t count)
{
    const pid_t self = getpid();
    size_t n = 0;
    fflush(NULL);
    for (; n < count; n++) {
        busy[n] = fork();
        if (busy[n] < 0)
            break;
        for (volatile unsigned i = 1; busy[n] == 0; i++)
            if (i % (1u << 24) == 0 && getppid() != self)
                _exit(0);
    }
    return n;
}

int bench_main(int argc, char **argv, const struct bench_contenders *contenders)
{
    static struct bench_problem problems[MOST_PROBLEMS];
    struct settings s = {.options = {.timing = {.seconds = 0.01, .repeats = 15},
                                     .threads = 1,
                                     .dtype = TSA_F32,
                                     .exact_degrees = 2},
                         .grid = {.max_bytes = (size_t)256 << 20}};
    struct bench_machine machine = {0};
    size_t count = 0;

    int code = parse(argc, argv, &s, contenders);
    if (code != CMD_OK)
        return code;
    if (flags.help)
        fputs(help, stdout);
    for (size_t i = 0; flags.list && i < sizeof standard / sizeof *standard; i++)
        puts(standard[i]);
    if (flags.help || flags.list)
        return CMD_OK;
    code = parse_problems(argc, argv, problems, &count);
    if (code != CMD_OK)
        return code;
    const char *isa = s.options.isa ? s.options.isa : tsa_isa_active();
    if (!isa)
        return cmd_usage("TSA_ISA names no instruction set that is usable here");
    const int threads = s.options.threads ? s.options.threads : tsa_default_threads(NULL);
    if (!bench_machine_measure(&machine, isa, threads))
        return cmd_fail("no benchmark unit for %s", isa);
    pid_t busy[MOST_BUSY];
    const size_t started = start_busy(busy, s.busy);
    if (flags.scaling)
        code = bench_scaling(&s.options, problems, count, &machine);
    else if (flags.kernels)
        code = bench_kernels(&s.options, &problems[0], &machine);
    else if (flags.grid)
        code = bench_grid(&s.options, &s.grid, &machine);
    else
        code = run(&s.options, problems, count, &machine);
    for (size_t i = 0; i < started; i++) {
        kill(busy[i], SIGKILL);
        waitpid(busy[i], NULL, 0);
    }
    if (started < s.busy)
        code = cmd_fail("--busy: only %zu processes could be started", started);
    if (!flags.scaling)
        compare_peaks(&machine);
    return code;
}
