/* SPDX-License-Identifier: MIT */
/* Every entry of every usable table of kernels, on the sizes of one chunk of a problem. */
#include "config.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "kernel_bench.h"

static const char *const kernel_names[] = {
#define TSA_KERNEL(result, name, args) #name,
#include "kernels.def"
#undef TSA_KERNEL
};

void kernel_print(const struct bench_options *options, const char *isa, const char *operands,
                  const char *name, const struct bench_stats *s, struct kernel_cost cost,
                  double peak)
{
    const double gflops = cost.flops / s->min * 1e-9, gbytes = cost.bytes / s->min * 1e-9;
    if (options->csv) {
        printf("%s,%s,%s,%.4g,%.4g,%.3g,%.2f,%.1f,%.2f\n", name, isa, operands, s->min * 1e9,
               s->median * 1e9, s->spread, gflops, 100 * gflops / peak, gbytes);
    } else {
        printf("%-14s %-11s %-4s %10.1f %4.0f%%", name, isa, operands, s->min * 1e9,
               100 * s->spread);
        if (cost.flops > 0)
            printf(" %9.2f %6.1f", gflops, 100 * gflops / peak);
        else
            printf(" %9s %6s", "-", "-");
        printf(" %8.1f\n", gbytes);
    }
    fflush(stdout);
}

#define T float
#define S(name) name##_f32
#define KERNELS tsa_kernels_f32
#include "kernels_tmpl.h"
#undef T
#undef S
#undef KERNELS

#define T double
#define S(name) name##_f64
#define KERNELS tsa_kernels_f64
#include "kernels_tmpl.h"
#undef T
#undef S
#undef KERNELS

int bench_kernels(const struct bench_options *options, const struct bench_problem *problem,
                  struct bench_machine *machine)
{
    const size_t chunk = problem->chunk ? problem->chunk : 64;
    const struct tsa_isa *isa;
    struct bench_options alone = *options;

    alone.timing.cpu = true;
    bench_machine_print(machine, stdout, "# ");
    printf("# kernels at d%zu:dv%zu:t%zu, %zu tokens, at most 512 features, one thread\n",
           problem->d, problem->dv, problem->terms, chunk);
    if (options->csv)
        printf("kernel,isa,compute,ns_min,ns_median,spread,gflops,percent_of_peak,gbytes_per_s\n");
    else
        printf("%-14s %-11s %-4s %10s %5s %9s %6s %8s\n", "kernel", "isa", "", "ns/call", "sprd",
               "GFLOP/s", "%peak", "GB/s");
    for (size_t i = 0; (isa = tsa_isa_at(i)); i++) {
        struct bench_machine own = {0};
        if (!tsa_isa_usable(isa) || (options->isa && strcmp(options->isa, isa->name) != 0))
            continue;
        if (!bench_machine_measure(&own, isa->name, 1))
            continue;
        if (!kernel_table_f32(&alone, isa->name, isa->f32, problem, chunk, own.peak_f32) ||
            !kernel_table_f64(&alone, isa->name, isa->f64, problem, chunk, own.peak_f64))
            return 1;
        const struct tsa_pair_kernels_f32 *pairs = tsa_pair_kernels_for(isa);
        /* a set without its own takes those of a lesser one, which are listed there */
        if ((tsa_hardware_pair_kernels(isa) || pairs == isa->pair_kernels) &&
            !kernel_table_pairs(&alone, pairs, problem, chunk,
                                own.pairs ? own.peak_bf16 : own.peak_f32))
            return 1;
    }
    return 0;
}
