/* SPDX-License-Identifier: MIT */
/* Every entry of every usable table of kernels, on the sizes of one chunk of a problem. */
#include "config.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "kernel_bench.h"

static void put_row(const struct kernel_table *t, const char *name, const struct bench_stats *s,
                    struct kernel_cost cost)
{
    struct bench_rows *rows = t->rows;
    const double gflops = cost.flops > 0 ? cost.flops / s->min * 1e-9 : NAN;
    bench_put_text(rows, BENCH_COLUMN("kernel", "kernel", 15, 0), name);
    bench_put_text(rows, BENCH_COLUMN("isa", "isa", 11, 0), t->isa);
    bench_put_text(rows, BENCH_COLUMN("compute", "", 4, 0), t->operands);
    bench_put_number(rows, BENCH_COLUMN("ns_min", "ns/call", 10, 1), s->min * 1e9);
    bench_put_number(rows, BENCH_DATA("ns_median"), s->median * 1e9);
    bench_put_number(rows, BENCH_DATA("spread"), s->spread);
    bench_put_number(rows, BENCH_COLUMN(NULL, "%spr", 4, 0), 100 * s->spread);
    bench_put_number(rows, BENCH_COLUMN("gflops", "GFLOP/s", 9, 2), gflops);
    bench_put_number(rows, BENCH_COLUMN("percent_of_peak", "%peak", 6, 1), 100 * gflops / t->peak);
    bench_put_number(rows, BENCH_COLUMN("gbytes_per_s", "GB/s", 8, 1), cost.bytes / s->min * 1e-9);
    bench_rows_next(rows);
}

struct work {
    struct kernel_cost (*call)(void *operands);
    void *operands;
    struct kernel_cost cost;
};

static bool run(void *context, size_t iterations)
{
    struct work *w = context;
    while (iterations--)
        w->cost = w->call(w->operands);
    return true;
}

bool kernel_time(const struct kernel_table *table, const char *name,
                 struct kernel_cost (*call)(void *operands), void *operands)
{
    struct work w = {.call = call, .operands = operands};
    const struct bench_work timed = {.run = run, .context = &w};
    struct bench_stats stats;
    if (!bench_measure(&table->timing, &timed, 1, &stats))
        return false;
    put_row(table, name, &stats, w.cost);
    return true;
}

#define T float
#define ARGS TSA_ARGS_F32
#define S(name) name##_f32
#define KERNELS tsa_kernels_f32
#include "kernels_tmpl.h"
#undef T
#undef ARGS
#undef S
#undef KERNELS

#define T double
#define ARGS TSA_ARGS_F64
#define S(name) name##_f64
#define KERNELS tsa_kernels_f64
#include "kernels_tmpl.h"
#undef T
#undef ARGS
#undef S
#undef KERNELS

/* Every table of an instruction set. */
static bool run_tables(struct kernel_table table, const struct tsa_isa *isa)
{
    struct bench_machine own = {0};
    if (!bench_machine_measure(&own, isa->name, 1))
        return true;
    table.isa = isa->name;
    table.operands = "f32";
    table.peak = own.peak_f32;
    if (!kernel_table_f32(&table, isa->f32))
        return false;
    table.operands = "f64";
    table.peak = own.peak_f64;
    if (!kernel_table_f64(&table, isa->f64))
        return false;
    const struct tsa_pair_kernels_f32 *pairs = tsa_pair_kernels_for(isa);
    /* a set without its own takes those of a lesser one, which are listed there */
    if (!tsa_hardware_pair_kernels(isa) && pairs != isa->pair_kernels)
        return true;
    table.isa = pairs->name;
    table.operands = "bf16";
    table.peak = own.pairs ? own.peak_bf16 : own.peak_f32;
    return kernel_table_pairs(&table, pairs);
}

int bench_kernels(const struct bench_options *options, const struct bench_problem *problem,
                  struct bench_machine *machine)
{
    struct bench_rows rows = {.form = options->form};
    struct kernel_table table = {.rows = &rows,
                                 .timing = options->timing,
                                 .problem = problem,
                                 .chunk = problem->chunk ? problem->chunk : 64};
    const struct tsa_isa *isa;

    table.timing.cpu = true;
    bench_report_machine(options, machine);
    if (options->form != BENCH_JSON)
        printf("# kernels at d%zu:dv%zu:t%zu, %zu tokens, at most 512 features, one thread\n",
               problem->d, problem->dv, problem->terms, table.chunk);
    bench_rows_begin(&rows);
    put_row(&table, "", &(struct bench_stats){0}, (struct kernel_cost){0, 0});
    for (size_t i = 0; (isa = tsa_isa_at(i)); i++) {
        if (!tsa_isa_usable(isa) || (options->isa && strcmp(options->isa, isa->name) != 0))
            continue;
        if (!run_tables(table, isa))
            return CMD_FAILURE;
    }
    bench_rows_end(&rows);
    return CMD_OK;
}
