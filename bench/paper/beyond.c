/* SPDX-License-Identifier: MIT */
/* `tsa paper`, beyond the paper: two threads, f64, and energy where the machine tells it. */
#include "config.h"

#include <glob.h>
#include <math.h>
#include <string.h>

#include "paper.h"

/* -- threads and arithmetic ------------------------------------------------------------------- */

/* The same problem four ways, in turn, by the wall clock. */
static bool four_ways(const struct paper_run *run, struct paper_table *t, const char *problem,
                      int threads, double ratios[3])
{
    struct paper_race race = {.run = run};
    paper_progress(run, "threads and arithmetic, %s", problem);
    paper_enter(&race, "f32, one thread", TSA_F32, 1, "%s", problem);
    paper_enter(&race, "f64, one thread", TSA_F64, 1, "%s", problem);
    if (threads > 1) {
        paper_enter(&race, "f32, two threads", TSA_F32, 2, "%s", problem);
        paper_enter(&race, "f64, two threads", TSA_F64, 2, "%s", problem);
    }
    const bool done = paper_race_run(&race);
    for (size_t i = 0; done && i < race.all.count; i++) {
        const struct bench_racer *r = &race.all.racers[i];
        const struct bench_problem *p = &r->op->problem;
        const double tokens =
            (double)(p->batch * p->heads) * (bench_is_decode(p->op) ? 1 : (double)p->n);
        PAPER_ROW(t, NAN, r->op->in.dtype == TSA_F64 ? 64 : 32, tsa_plan_threads(r->op->plan),
                  r->seconds * 1e3, r->median * 1e3, r->seconds * 1e6 / tokens, r->error,
                  race.all.racers[0].seconds / r->seconds);
        paper_row_text(t, 0, problem);
        if (i)
            ratios[i - 1] = race.all.racers[0].seconds / r->seconds;
    }
    paper_race_clear(&race);
    return done;
}

/* -- energy ----------------------------------------------------------------------------------- */

#define ZONES "/sys/class/powercap/intel-rapl:*/"
enum { MOST_ZONES = 16 };

/* Counters of whole processor packages, in microjoules; they wrap at `range`. */
struct energy {
    size_t count, packages; /* that may be read, and that there are */
    char path[MOST_ZONES][128], name[MOST_ZONES][32];
    double range[MOST_ZONES], start[MOST_ZONES];
};

static bool read_number(const char *path, double *value)
{
    FILE *file = fopen(path, "r");
    const bool good = file && fscanf(file, "%lf", value) == 1;
    if (file)
        fclose(file);
    return good;
}

/* Whether the file names a processor package that was not found before; its name. */
static bool is_new_package(const struct energy *energy, const char *path, char name[32])
{
    FILE *file = fopen(path, "r");
    name[0] = '\0';
    if (file && !fgets(name, 32, file))
        name[0] = '\0';
    if (file)
        fclose(file);
    for (size_t i = 0; i < energy->count; i++)
        if (strcmp(name, energy->name[i]) == 0)
            return false;
    return strncmp(name, "package", 7) == 0;
}

static void energy_find(struct energy *energy)
{
    glob_t names;
    energy->count = energy->packages = 0;
    if (glob(ZONES "name", 0, NULL, &names) != 0)
        return;
    for (size_t i = 0; i < names.gl_pathc && energy->count < MOST_ZONES; i++) {
        const char *name = names.gl_pathv[i];
        const int folder = (int)(strlen(name) - strlen("name"));
        char *path = energy->path[energy->count], range[128];
        double now;
        if (!is_new_package(energy, name, energy->name[energy->count]))
            continue;
        energy->packages++;
        snprintf(path, sizeof energy->path[0], "%.*senergy_uj", folder, name);
        snprintf(range, sizeof range, "%.*smax_energy_range_uj", folder, name);
        if (read_number(path, &now) && read_number(range, &energy->range[energy->count]))
            energy->count++;
    }
    globfree(&names);
}

static void energy_start(struct energy *energy)
{
    for (size_t i = 0; i < energy->count; i++)
        if (!read_number(energy->path[i], &energy->start[i]))
            energy->start[i] = NAN;
}

static double energy_joules(const struct energy *energy)
{
    double sum = 0, now;
    for (size_t i = 0; i < energy->count; i++) {
        if (!read_number(energy->path[i], &now))
            return NAN;
        const double used = now - energy->start[i];
        sum += used < 0 ? used + energy->range[i] : used;
    }
    return 1e-6 * sum;
}

/* Joules per pass, over as many passes as fill two seconds. */
static bool joules_of(const struct energy *zones, struct bench_racer *r, double *joules)
{
    struct energy energy = *zones;
    const double start = cmd_seconds();
    size_t passes = 0;
    energy_start(&energy);
    while (cmd_seconds() - start < 2) {
        if (!bench_op_work(r->op, 1))
            return false;
        passes++;
    }
    *joules = energy_joules(&energy) / (double)passes;
    return true;
}

static bool measure_energy(const struct paper_run *run, struct paper_experiment *e,
                           const struct energy *energy)
{
    static const char heads[] = "problem|joules a pass|uJ a token";
    static const char *const problems[] = {"prefill:n8192:d16:dv64:t3", "softmax:n8192:d16:dv64"};
    struct paper_table *t = paper_table(e, "energy", "Energy of all packages, one thread", heads);
    double joules[2];
    for (size_t i = 0; i < 2; i++) {
        struct paper_race race = {.run = run};
        paper_progress(run, "energy, %s", problems[i]);
        struct bench_racer *r = paper_enter(&race, "energy", TSA_F32, 1, "%s", problems[i]);
        const bool done = r && joules_of(energy, r, &joules[i]);
        paper_race_clear(&race);
        if (!done)
            return false;
        PAPER_ROW(t, NAN, joules[i], joules[i] * 1e6 / 8192);
        paper_row_text(t, 0, problems[i]);
    }
    paper_ours(e, "energy of tsa_softmax over that of the states, N = 8,192", joules[1] / joules[0],
               "whole packages, idle cores and other programs included");
    return true;
}

bool paper_beyond(const struct paper_run *run, struct paper_experiment *e)
{
    static const char heads[] = "problem|bits|threads|ms|median, ms|us per token|error|"
                                "speedup over f32, one thread";
    static const char *const full[] = {
        "prefill:n8192:d16:dv64:t3",     "prefill:h8:n2048:d16:dv64:t3",
        "softmax:n8192:d16:dv64",        "decode:n65536:d16:dv64:t3",
        "decode:h32:n65536:d16:dv64:t3", "softmax-decode:n65536:d16:dv64"};
    static const char *const quick[] = {"prefill:n256:d16:dv64:t3", "decode:n256:d16:dv64:t3"};
    const char *const *problems = run->quick ? quick : full;
    const size_t count = run->quick ? sizeof quick / sizeof *quick : sizeof full / sizeof *full;
    const int threads = tsa_default_threads(NULL);
    struct energy energy;
    struct paper_table *t = paper_table(e, "", "Threads and arithmetic", heads);

    snprintf(
        e->setting, sizeof e->setting,
        "d = 16, dv = 64, n = 3, a = 2, default chunk; problems as `tsa bench` writes them (h: "
        "heads, n: tokens). f32 and f64, one thread and two, in turn by the wall clock; error "
        "against plain loops in f64.");
    for (size_t i = 0; i < count; i++) {
        double ratios[3] = {NAN, NAN, NAN};
        char name[120];
        if (!four_ways(run, t, problems[i], threads, ratios))
            return false;
        snprintf(name, sizeof name, "%s: two threads over one, f32", problems[i]);
        if (!run->quick && threads > 1)
            paper_ours(e, name, ratios[1], NULL);
        snprintf(name, sizeof name, "%s: f64 over f32, one thread, speed", problems[i]);
        if (!run->quick)
            paper_ours(e, name, ratios[0], NULL);
    }
    if (threads < 2)
        paper_add_note(e, "One thread is granted here: two were not measured. ");
    energy_find(&energy);
    if (energy.count == 0) {
        paper_add_note(e, "This machine exposes %s energy counter of its packages%s (%s).",
                       energy.packages ? "an" : "no",
                       energy.packages ? ", but none that may be read" : "", ZONES);
        return true;
    }
    return run->quick || measure_energy(run, e, &energy);
}
