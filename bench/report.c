/* SPDX-License-Identifier: MIT */
/* Results as a table, as CSV or as JSON. */
#include "config.h"

#include <math.h>

#include "bench.h"

static bool first_object;

static void number(const char *key, double value, bool last)
{
    if (isfinite(value))
        printf("\"%s\": %.9g%s", key, value, last ? "" : ", ");
    else
        printf("\"%s\": null%s", key, last ? "" : ", ");
}

/* A CSV field; empty if it does not apply. */
static void field(double value, const char *end)
{
    if (isfinite(value))
        printf("%.7g%s", value, end);
    else
        printf("%s", end);
}

/* A column of the table. */
static void column(double value, int width, int digits)
{
    if (isfinite(value))
        printf(" %*.*f", width, digits, value);
    else
        printf(" %*s", width, "-");
}

/* What comes first; false if no head of a table follows. */
static bool begin(const struct bench_options *options, const struct bench_machine *machine)
{
    if (options->json) {
        printf("[");
        first_object = true;
        return false;
    }
    bench_machine_print(machine, stdout, "# ");
    return true;
}

void bench_report_begin(const struct bench_options *options, const struct bench_machine *machine)
{
    if (!begin(options, machine))
        return;
    if (options->contenders)
        contender_describe(stdout, "# ");
    if (options->csv)
        printf("problem,contender,isa,compute,threads,chunk,cache,tokens,seconds_min,"
               "seconds_median,spread,us_per_token,gflops,peak_gflops,"
               "peak_bf16_gflops,percent_of_peak,gbytes_per_s,percent_of_bandwidth,level,us_step,"
               "us_read,us_fold,max_error,ratio\n");
    else
        printf("%-42s %-8s %-5s %2s %6s %10s %7s %6s %5s %7s %5s %-4s %8s %8s %8s %8s %6s\n",
               "problem", "isa", "", "th", "chunk", "us/token", "GFLOP/s", "%peak", "sprd", "GB/s",
               "%bw", "in", "us_step", "us_read", "us_fold", "error", "ratio");
    fflush(stdout);
}

static void next_object(void)
{
    printf("%s\n  {", first_object ? "" : ",");
    first_object = false;
}

static void print_json(const struct bench_result *r)
{
    next_object();
    printf("\"problem\": \"%s\", \"isa\": \"%s\", \"compute\": \"%s\", ", r->problem, r->isa,
           r->compute);
    if (r->contender[0])
        printf("\"contender\": \"%s\", ", r->contender);
    printf("\"threads\": %d, \"chunk\": %zu, \"cache\": \"%s\", ", r->threads, r->chunk,
           r->cold ? "cold" : "warm");
    number("tokens", r->tokens, false);
    number("seconds_min", r->seconds_min, false);
    number("seconds_median", r->seconds_median, false);
    number("spread", r->spread, false);
    number("us_per_token", r->us_per_token, false);
    number("tokens_per_s", r->tokens / r->seconds_min, false);
    number("gflops", r->gflops, false);
    number("peak_gflops", r->peak, false);
    number("peak_bf16_gflops", r->peak_bf16, false);
    number("percent_of_peak", r->percent, false);
    number("gbytes_per_s", r->gbytes, false);
    number("percent_of_bandwidth", r->percent_bandwidth, false);
    if (isfinite(r->percent_bandwidth))
        printf("\"level\": \"%s\", ", bench_level_name[r->level]);
    if (isfinite(r->us_step)) {
        number("us_step", r->us_step, false);
        number("us_read", r->us_read, false);
        number("us_fold", r->us_fold, false);
    }
    if (r->contender[0])
        number("ratio", r->ratio, false);
    number("max_error", r->max_error, true);
    printf("}");
}

static void print_csv(const struct bench_result *r)
{
    printf("%s,%s,%s,%s,%d,%zu,%s,", r->problem, r->contender, r->isa, r->compute, r->threads,
           r->chunk, r->cold ? "cold" : "warm");
    field(r->tokens, ",");
    field(r->seconds_min, ",");
    field(r->seconds_median, ",");
    field(r->spread, ",");
    field(r->us_per_token, ",");
    field(r->gflops, ",");
    field(r->peak, ",");
    field(r->peak_bf16, ",");
    field(r->percent, ",");
    field(r->gbytes, ",");
    field(r->percent_bandwidth, ",");
    printf("%s,", isfinite(r->percent_bandwidth) ? bench_level_name[r->level] : "");
    field(r->us_step, ",");
    field(r->us_read, ",");
    field(r->us_fold, ",");
    field(r->max_error, ",");
    field(r->ratio, "\n");
}

static void print_line(const struct bench_result *r)
{
    char name[192];
    snprintf(name, sizeof name, "%s%s%s", r->contender[0] ? "  " : r->problem, r->contender,
             r->cold ? " (cold)" : "");
    printf("%-42s %-8s %-5s %2d %6zu", name, r->isa, r->compute, r->threads, r->chunk);
    column(r->us_per_token, 10, r->us_per_token < 100 ? 4 : 1);
    column(r->gflops, 7, 1);
    column(r->percent, 6, 1);
    column(100 * r->spread, 4, 0);
    printf("%%");
    column(r->gbytes, 7, 1);
    column(r->percent_bandwidth, 5, 1);
    printf(" %-4s", isfinite(r->percent_bandwidth) ? bench_level_name[r->level] : "");
    column(r->us_step, 8, 4);
    column(r->us_read, 8, 4);
    column(r->us_fold, 8, 4);
    printf(" %8.1e", r->max_error);
    column(r->ratio, 6, 3);
    printf("\n");
}

void bench_report(const struct bench_options *options, const struct bench_result *result)
{
    if (options->json)
        print_json(result);
    else if (options->csv)
        print_csv(result);
    else
        print_line(result);
    fflush(stdout);
}

void bench_report_end(const struct bench_options *options)
{
    if (options->json)
        printf("\n]\n");
}

/* -- scaling --------------------------------------------------------------------------------- */

void bench_scaling_report_begin(const struct bench_options *options,
                                const struct bench_machine *machine,
                                const struct bench_region *regions, size_t count)
{
    if (!begin(options, machine))
        return;
    for (size_t i = 0; i < count; i++)
        if (regions[i].threads > 1)
            printf("# team         %d threads, %d granted: region %.2f us, barrier %.2f us\n",
                   regions[i].threads, regions[i].granted, regions[i].region * 1e6,
                   regions[i].barrier * 1e6);
    if (options->csv)
        printf("case,name,problem,isa,compute,chunk,scaling,threads,threads_granted,"
               "seconds_min,seconds_median,spread,speedup,efficiency,region_us,barrier_us,"
               "max_error,verified\n");
    else
        printf("%-13s %-6s %-44s %6s %4s %10s %10s %5s %7s %6s %8s %s\n", "case", "", "problem",
               "chunk", "th", "ms", "median", "sprd", "speedup", "eff", "error", "verified");
    fflush(stdout);
}

static void scaling_json(const struct bench_scaling_result *r)
{
    next_object();
    printf("\"case\": \"%s\", \"name\": \"%s\", \"problem\": \"%s\", \"isa\": \"%s\", "
           "\"compute\": \"%s\", \"chunk\": %zu, \"scaling\": \"%s\", \"threads\": %d, "
           "\"threads_granted\": %d, ",
           r->id, r->name, r->problem, r->isa, r->compute, r->chunk, r->weak ? "weak" : "strong",
           r->region.threads, r->region.granted);
    number("seconds_min", r->stats.min, false);
    number("seconds_median", r->stats.median, false);
    number("spread", r->stats.spread, false);
    number("speedup", r->speedup, false);
    number("efficiency", r->efficiency, false);
    number("region_us", r->region.region * 1e6, false);
    number("barrier_us", r->region.barrier * 1e6, false);
    number("max_error", r->max_error, false);
    printf("\"verified\": \"%s\"}", r->verified);
}

static void scaling_csv(const struct bench_scaling_result *r)
{
    printf("%s,%s,%s,%s,%s,%zu,%s,%d,%d,", r->id, r->name, r->problem, r->isa, r->compute, r->chunk,
           r->weak ? "weak" : "strong", r->region.threads, r->region.granted);
    field(r->stats.min, ",");
    field(r->stats.median, ",");
    field(r->stats.spread, ",");
    field(r->speedup, ",");
    field(r->efficiency, ",");
    field(r->region.region * 1e6, ",");
    field(r->region.barrier * 1e6, ",");
    field(r->max_error, ",");
    printf("%s\n", r->verified);
}

static void scaling_line(const struct bench_scaling_result *r)
{
    printf("%-13s %-6s %-44s %6zu %4d", r->id, r->weak ? "weak" : "strong", r->problem, r->chunk,
           r->region.threads);
    column(r->stats.min * 1e3, 10, 3);
    column(r->stats.median * 1e3, 10, 3);
    column(100 * r->stats.spread, 4, 0);
    printf("%%");
    column(r->speedup, 7, 2);
    column(100 * r->efficiency, 5, 0);
    printf("%% %8.1e %s\n", r->max_error, r->verified);
}

void bench_scaling_report(const struct bench_options *options,
                          const struct bench_scaling_result *result)
{
    if (options->json)
        scaling_json(result);
    else if (options->csv)
        scaling_csv(result);
    else
        scaling_line(result);
    fflush(stdout);
}
