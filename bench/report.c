/* SPDX-License-Identifier: MIT */
/* The head of every report, and a line of figures. */
#include "config.h"

#include <math.h>
#include <string.h>

#include "bench.h"

void bench_report_machine(const struct bench_options *options, const struct bench_machine *machine)
{
    if (options->form == BENCH_JSON)
        return;
    bench_machine_print(machine, stdout, "# ");
    if (options->contenders)
        options->contenders->describe(stdout, "# ");
}

/* The first column of the table. */
static const char *name_of(const struct bench_result *r, char name[192])
{
    char problem[BENCH_PROBLEM_TEXT];
    if (r->contender[0])
        snprintf(name, 192, "  %s%s", r->contender, r->cold ? " (cold)" : "");
    else
        snprintf(name, 192, "%s%s%s", bench_problem_short(r->problem, problem),
                 strcmp(r->compute, "f64") == 0 ? " f64" : "", r->cold ? " (cold)" : "");
    return name;
}

/* The table has no column for what only decoding has: a line below. */
static void print_decoding(const struct bench_result *r)
{
    if (!isfinite(r->percent_bandwidth))
        return;
    printf("    read from %s", bench_level_name[r->level]);
    if (isfinite(r->us_step))
        printf("; us_step %.4f, us_read %.4f", r->us_step, r->us_read);
    if (isfinite(r->us_fold))
        printf(", us_fold %.4f", r->us_fold);
    printf("\n");
}

void bench_report(struct bench_rows *rows, const struct bench_result *result)
{
    static const struct bench_result blank = {.isa = "", .compute = ""};
    const struct bench_result *r = result ? result : &blank;
    char name[192];
    bench_put_text(rows, BENCH_COLUMN(NULL, "problem", 35, 0), name_of(r, name));
    bench_put_text(rows, BENCH_DATA("problem"), r->problem);
    rows->left_out = !r->contender[0];
    bench_put_text(rows, BENCH_DATA("contender"), r->contender);
    rows->left_out = false;
    bench_put_text(rows, BENCH_DATA("isa"), r->isa);
    bench_put_text(rows, BENCH_DATA("compute"), r->compute);
    bench_put_count(rows, BENCH_COLUMN("threads", "th", 2, 0), (size_t)r->threads);
    bench_put_count(rows, BENCH_COLUMN("chunk", "chunk", 5, 0), r->chunk);
    bench_put_text(rows, BENCH_DATA("cache"), r->cold ? "cold" : "warm");
    bench_put_number(rows, BENCH_DATA("tokens"), r->tokens);
    bench_put_number(rows, BENCH_DATA("seconds_min"), r->seconds_min);
    bench_put_number(rows, BENCH_DATA("seconds_median"), r->seconds_median);
    bench_put_number(rows, BENCH_DATA("spread"), r->spread);
    bench_put_number(rows, BENCH_COLUMN("us_per_token", "us/token", 9, 4), r->us_per_token);
    bench_put_number(rows, BENCH_COLUMN("gflops", "GFLOP/s", 7, 1), r->gflops);
    bench_put_number(rows, BENCH_DATA("peak_gflops"), r->peak);
    bench_put_number(rows, BENCH_DATA("peak_bf16_gflops"), r->peak_bf16);
    bench_put_number(rows, BENCH_COLUMN("percent_of_peak", "%peak", 5, 1), r->percent);
    bench_put_number(rows, BENCH_COLUMN(NULL, "%spr", 4, 0), 100 * r->spread);
    bench_put_number(rows, BENCH_COLUMN("gbytes_per_s", "GB/s", 6, 1), r->gbytes);
    bench_put_number(rows, BENCH_COLUMN("percent_of_bandwidth", "%bw", 5, 1), r->percent_bandwidth);
    rows->left_out = !isfinite(r->percent_bandwidth);
    bench_put_text(rows, BENCH_DATA("level"), bench_level_name[r->level]);
    rows->left_out = !isfinite(r->us_step);
    bench_put_number(rows, BENCH_DATA("us_step"), r->us_step);
    bench_put_number(rows, BENCH_DATA("us_read"), r->us_read);
    bench_put_number(rows, BENCH_DATA("us_fold"), r->us_fold);
    rows->left_out = false;
    bench_put_number(rows, BENCH_COLUMN("max_error", "error", 7, BENCH_EXPONENT), r->max_error);
    rows->left_out = !r->contender[0];
    bench_put_number(rows, BENCH_COLUMN("ratio", "ratio", 5, 3), r->ratio);
    rows->left_out = false;
    bench_put_number(rows, BENCH_DATA("tokens_per_s"), r->tokens / r->seconds_min);
    bench_rows_next(rows);
    if (result && rows->form == BENCH_TABLE)
        print_decoding(r);
}

int bench_report_wrong(int wrong)
{
    if (wrong)
        return cmd_fail("%d results are beyond the error bound", wrong);
    return CMD_OK;
}
