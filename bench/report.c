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

void bench_report_begin(const struct bench_options *options, const struct bench_machine *machine)
{
    if (options->json) {
        printf("[");
        first_object = true;
        return;
    }
    bench_machine_print(machine, stdout, "# ");
    if (options->contenders)
        contender_describe(stdout, "# ");
    if (options->csv)
        printf("problem,contender,isa,compute,threads,chunk,cache,tokens,seconds_min,"
               "seconds_median,spread,us_per_token,gflops,peak_gflops,percent_of_peak,"
               "gbytes_per_s,percent_of_bandwidth,level,us_step,us_read,us_fold,max_error,ratio\n");
    else
        printf("%-42s %-8s %-3s %2s %6s %10s %7s %6s %5s %7s %5s %-4s %8s %8s %8s %8s %6s\n",
               "problem", "isa", "", "th", "chunk", "us/token", "GFLOP/s", "%peak", "sprd", "GB/s",
               "%bw", "in", "us_step", "us_read", "us_fold", "error", "ratio");
    fflush(stdout);
}

static void print_json(const struct bench_result *r)
{
    printf("%s\n  {\"problem\": \"%s\", \"isa\": \"%s\", \"compute\": \"%s\", ",
           first_object ? "" : ",", r->problem, r->isa, r->compute);
    first_object = false;
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
    printf("%-42s %-8s %-3s %2d %6zu", name, r->isa, r->compute, r->threads, r->chunk);
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
