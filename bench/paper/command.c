/* SPDX-License-Identifier: MIT */
/* `tsa paper`: the command line, and the list of experiments. */
#include "config.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cmd.h"
#include "paper.h"

static const char help[] =
    "usage: tsa paper [options]\n"
    "\n"
    "Run every experiment of the paper (arXiv 2610.20637) on this machine, and set the paper's\n"
    "figures beside ours. Writes paper.html (with plots where gnuplot is installed), paper.md,\n"
    "paper.json, figures.csv and a CSV file of each table into a folder; doc/paper.md has the\n"
    "rest. Takes some minutes, and memory bandwidth: leave the machine alone.\n"
    "\n"
    "  --out DIR            folder for the files (paper-results)\n"
    "  --quick              only what is exact, small sizes: some seconds\n"
    "  --only LIST          experiments by number, such as 1,5,8 (--list: which there are)\n"
    "  --isa NAME           instruction set (the best one; see tsa info)\n"
    "  --list               print the experiments\n"
    "  --json               the results as JSON on standard output too\n"
    "  --help, --version\n"
    "\n"
    "Exit status 1 if an exact fact does not hold or an experiment could not be run; times and\n"
    "random draws do not count.\n";

static int quick, list, json;

enum { OPT_OUT = 256, OPT_ONLY, OPT_ISA, OPT_HELP, OPT_VERSION };

static const struct option long_options[] = {
    {"out", required_argument, NULL, OPT_OUT},
    {"quick", no_argument, &quick, 1},
    {"only", required_argument, NULL, OPT_ONLY},
    {"isa", required_argument, NULL, OPT_ISA},
    {"list", no_argument, &list, 1},
    {"json", no_argument, &json, 1},
    {"help", no_argument, NULL, OPT_HELP},
    {"version", no_argument, NULL, OPT_VERSION},
    {NULL, 0, NULL, 0},
};

static const struct {
    const char *id, *title;
    paper_function *run;
} experiments[] = {
    {"lossless", "States against the materialised truncated kernel", paper_lossless},
    {"additive", "States add up", paper_additive},
    {"rescan", "Recurrence against rescanning", paper_rescan},
    {"rank", "Width of a state: rank, and truncation", paper_rank},
    {"prefill", "Time of prefill against length", paper_prefill},
    {"longer", "Longer than the paper, measured instead of extrapolated", paper_longer},
    {"decode", "Decoding latency against context", paper_decode},
    {"order", "Truncation order", paper_order},
    {"sizes", "Size of states and caches", paper_sizes},
    {"converge", "Convergence and normalisation", paper_converge},
    {"signed", "Signed weights", paper_signed},
    {"beyond", "Beyond the paper: threads, f64, energy", paper_beyond},
    {"short", "Short sequences: the direct form against folding", paper_short},
};
enum { EXPERIMENTS = sizeof experiments / sizeof *experiments };

struct settings {
    struct paper_run run;
    bool chosen[EXPERIMENTS];
    char out[3900];
};

void paper_progress(const struct paper_run *run, const char *format, ...)
{
    va_list arguments;
    if (run->quick)
        return;
    fputs("tsa paper: ", stderr);
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fputc('\n', stderr);
}

/* Longer lengths than those timed by then are left out. */
#define MOST_SECONDS (12 * 60.0)

bool paper_late(const struct paper_run *run, struct paper_experiment *e, const char *what, size_t n)
{
    char text[CMD_NUMBER_TEXT];
    if (cmd_seconds() - run->start < MOST_SECONDS)
        return false;
    paper_add_note(e, "The time was up (%.0f minutes): %s from N = %s on was left out. ",
                   MOST_SECONDS / 60, what, cmd_count_text(n, text));
    return true;
}

/* 1,5,8: numbers from 1 on. */
static bool parse_only(const char *text, bool *chosen)
{
    const char *at = text;
    for (size_t i = 0; i < EXPERIMENTS; i++)
        chosen[i] = false;
    for (;;) {
        char *end;
        const unsigned long number = *at >= '0' && *at <= '9' ? strtoul(at, &end, 10) : 0;
        if (number < 1 || number > EXPERIMENTS || (*end != ',' && *end != '\0')) {
            cmd_usage("--only: '%s' found; wanted numbers from 1 to %d with commas", text,
                      EXPERIMENTS);
            return false;
        }
        chosen[number - 1] = true;
        if (*end == '\0')
            return true;
        at = end + 1;
    }
}

static bool parse_option(int option, const char *value, struct settings *s)
{
    switch (option) {
    case OPT_OUT:
        if (value[0] == '\0') {
            cmd_usage("--out: '' found; wanted a folder");
            return false;
        }
        /* a name that gnuplot does not take for an option */
        snprintf(s->out, sizeof s->out, "%s%s", value[0] == '-' ? "./" : "", value);
        s->run.out = s->out;
        return true;
    case OPT_ONLY:
        return parse_only(value, s->chosen);
    case OPT_ISA:
        return cmd_parse_isa("--isa", value, &s->run.isa);
    }
    return false;
}

static int prepare(struct settings *s)
{
    struct paper_run *run = &s->run;
    struct stat status;
    if (!run->isa)
        run->isa = tsa_isa_active();
    if (!run->isa)
        return cmd_usage("TSA_ISA names no instruction set that is usable here");
    if (mkdir(run->out, 0777) != 0 && errno != EEXIST)
        return cmd_fail("%s: cannot be made: %s", run->out, strerror(errno));
    if (stat(run->out, &status) != 0 || !S_ISDIR(status.st_mode))
        return cmd_fail("%s: not a folder", run->out);
    if (access(run->out, W_OK | X_OK) != 0)
        return cmd_fail("%s: cannot be written: %s", run->out, strerror(errno));
    run->start = cmd_seconds();
    run->timing = run->quick ? (struct bench_timing){.seconds = 1e-4, .repeats = 3}
                             : (struct bench_timing){.seconds = 0.01, .repeats = 15};
    const int threads = tsa_default_threads(NULL);
    if (!(run->quick ? bench_machine_identify(&run->machine, run->isa, threads)
                     : bench_machine_measure(&run->machine, run->isa, threads)))
        return cmd_fail("no benchmark unit for %s", run->isa);
    return CMD_OK;
}

/* Nothing of an experiment that failed is shown but its setting and why. */
static void mark_failed(struct paper_experiment *e)
{
    paper_experiment_clear(e);
    e->failed = true;
    snprintf(e->note, sizeof e->note, "Not run: %s.", cmd_last_line());
    paper_not_run(e, "the experiment", NAN, cmd_last_line());
}

static int run_all(const struct settings *s)
{
    static struct paper_experiment results[EXPERIMENTS];
    size_t count = 0, failed = 0;
    for (size_t i = 0; i < EXPERIMENTS; i++) {
        if (!s->chosen[i])
            continue;
        struct paper_experiment *e = &results[count++];
        e->number = (int)i + 1;
        e->id = experiments[i].id;
        e->title = experiments[i].title;
        paper_progress(&s->run, "%d. %s", e->number, e->title);
        if (!experiments[i].run(&s->run, e)) {
            mark_failed(e);
            failed++;
        }
    }
    int code = paper_write_report(&s->run, results, count, json);
    if (failed)
        code = cmd_fail("%zu of %zu experiments could not be run", failed, count);
    for (size_t i = 0; i < count; i++)
        paper_experiment_clear(&results[i]);
    return code;
}

int paper_main(int argc, char **argv)
{
    static struct settings s = {.run = {.out = "paper-results"}};
    for (size_t i = 0; i < EXPERIMENTS; i++)
        s.chosen[i] = true;
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
        if (c != 0 && !parse_option(c, optarg, &s))
            return CMD_USAGE;
    }
    int code = cmd_no_operands(argc, argv);
    if (code != CMD_OK)
        return code;
    if (list) {
        for (size_t i = 0; i < EXPERIMENTS; i++)
            printf("%2zu  %-9s %s\n", i + 1, experiments[i].id, experiments[i].title);
        return CMD_OK;
    }
    s.run.quick = quick;
    code = prepare(&s);
    return code == CMD_OK ? run_all(&s) : code;
}
