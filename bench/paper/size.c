/* SPDX-License-Identifier: MIT */
/* `tsa paper`, sizes by arithmetic: states and key/value caches (section 5.8 of the paper). */
#include "config.h"

#include <math.h>

#include "measure.h"
#include "paper.h"

enum { DV = 64, BF16 = 2, MOST_TERMS = 6 };

#define MIB 1048576.0

static double state_mib(size_t d, size_t terms)
{
    return (double)tsa_state_elements(d, DV, terms) * BF16 / MIB;
}

static double cache_mib(size_t d, size_t tokens)
{
    return (double)(tokens * (d + DV) * BF16) / MIB;
}

/* The paper rounds to one digit after the point. */
static void rounded(struct paper_experiment *e, const char *name, double paper, double ours)
{
    paper_equal(e, name, paper, paper, round(10 * ours) / 10);
}

static void state_table(struct paper_experiment *e)
{
    static const char heads[] = "d|n = 1|n = 2|n = 3|n = 4|n = 5|n = 6";
    static const size_t dims[] = {4, 8, 16, 32, 64, 128};
    struct paper_table *t = paper_table(e, "", "State of one head, MiB at bf16", heads);
    for (size_t i = 0; i < sizeof dims / sizeof *dims; i++) {
        double row[1 + MOST_TERMS] = {(double)dims[i]};
        for (size_t n = 1; n <= MOST_TERMS; n++)
            row[n] = state_mib(dims[i], n);
        paper_row(t, row, 1 + MOST_TERMS);
    }
    paper_plot(e, "size", "State of one head against its width, bf16", "MiB", PAPER_LOG_XY,
               (size_t[]){1, 2, 3, 4, 5, 6, 0});
}

static void cache_table(struct paper_experiment *e)
{
    static const char heads[] = "N|key/value cache, MiB|state n = 3, MiB|cache / state";
    static const size_t tokens[] = {125, 1024, 4096, 32768, 131072, 1048576};
    struct paper_table *t =
        paper_table(e, "cache", "Key/value cache and state at d = 16, bf16", heads);
    for (size_t i = 0; i < sizeof tokens / sizeof *tokens; i++) {
        const double cache = cache_mib(16, tokens[i]), state = state_mib(16, 3);
        PAPER_ROW(t, (double)tokens[i], cache, state, cache / state);
    }
}

/* What this library keeps: sums in two parts, and a window. */
static bool library_table(struct paper_experiment *e)
{
    static const char heads[] = "n|chunk|state of this library, MiB|elements at f32, MiB|ratio";
    struct paper_table *t =
        paper_table(e, "library", "States of this library at d = 16, f32", heads);
    for (size_t n = 1; n <= MOST_TERMS; n++) {
        struct tsa_options o;
        struct tsa_measure m;
        struct tsa_error err = {.status = TSA_OK};
        tsa_options_init(&o, sizeof o);
        o.head_dim = 16;
        o.value_dim = DV;
        o.terms = n;
        const enum tsa_status status = tsa_plan_measure(&o, &m, &err);
        if (status != TSA_OK)
            return paper_fail(status, &err);
        const double elements = (double)tsa_state_elements(16, DV, n) * 4 / MIB;
        const double bytes = (double)m.state_bytes / MIB;
        PAPER_ROW(t, (double)n, (double)m.chunk, bytes, elements, bytes / elements);
    }
    return true;
}

bool paper_sizes(const struct paper_run *run, struct paper_experiment *e)
{
    (void)run;
    snprintf(e->setting, sizeof e->setting,
             "dv = %d, two bytes an element (bf16), one head; MB are 2^20 bytes, as the paper's "
             "figures show. By arithmetic.",
             DV);
    state_table(e);
    cache_table(e);
    if (!library_table(e))
        return false;
    rounded(e, "state at d = 16, n = 6, MiB", 2.5, state_mib(16, 6));
    rounded(e, "state at d = 64, n = 6, GiB", 1.4, state_mib(64, 6) / 1024);
    rounded(e, "cache at 4,096 tokens, MiB", 0.6, cache_mib(16, 4096));
    rounded(e, "cache at 32,768 tokens, MiB", 5.0, cache_mib(16, 32768));
    rounded(e, "cache at 131,072 tokens, MiB", 20.0, cache_mib(16, 131072));
    return true;
}
