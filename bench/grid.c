/* SPDX-License-Identifier: MIT */
/* Prefill over the grid of shapes, against the ideal: the useful FLOPs at the best chunk of
 * 8..256 (they grow with the chunk, so that is 8) at the measured peak of one thread. */
#include "config.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "bench.h"

static const size_t chunk_list[] = {8, 16, 32, 64, 128, 256, 512};
enum { CHUNKS = sizeof chunk_list / sizeof *chunk_list, MOST_SHAPES = 128 };

static size_t list_shapes(const struct bench_grid_options *grid, struct bench_problem *shapes)
{
    static const size_t ds[] = {8, 16, 32, 64, 128}, dvs[] = {16, 32, 64, 128};
    static const size_t odd[][2] = {{5, 7}, {12, 20}, {17, 65}, {80, 96}, {96, 192}};
    size_t pairs[32][2], pair_count = 0, count = 0;

    for (size_t i = 0; i < 5 && !grid->odd_only; i++)
        for (size_t j = 0; j < 4; j++) {
            pairs[pair_count][0] = ds[i];
            pairs[pair_count++][1] = dvs[j];
        }
    for (size_t i = 0; i < 5; i++) {
        pairs[pair_count][0] = odd[i][0];
        pairs[pair_count++][1] = odd[i][1];
    }
    for (size_t i = 0; i < pair_count; i++) {
        for (size_t terms = 2; terms <= 5; terms++) {
            struct bench_problem p = {.op = BENCH_PREFILL,
                                      .batch = 1,
                                      .heads = 1,
                                      .d = pairs[i][0],
                                      .dv = pairs[i][1],
                                      .terms = terms};
            const size_t elements = tsa_state_elements(p.d, p.dv, terms);
            if (!elements || elements > grid->max_bytes / sizeof(float))
                continue;
            if (elements < grid->min_elements)
                continue;
            p.n = elements > 2000000 ? 4096 : 8192;
            shapes[count++] = p;
        }
    }
    return count;
}

/* One line; the best contender beside ours. */
static void print_shape(const struct bench_options *options, const struct bench_result *r,
                        size_t count, double ideal, size_t elements, const double *chunks,
                        bool try_chunks)
{
    const struct bench_result *best = NULL; /* or the same in f32 */
    for (size_t i = 1; i < count; i++)
        if (!best || r[i].us_per_token < best->us_per_token)
            best = &r[i];
    const double percent = 100 * ideal / r->us_per_token;
    if (options->csv) {
        printf("%s,%s,%s,%zu,%zu,%.6g,%.6g,%.2f,%.2f,%.3g,%.3g,", r->problem, r->isa, r->compute,
               elements, r->chunk, r->us_per_token, ideal, percent, r->percent, r->spread,
               r->max_error);
        if (best)
            printf("%s,%.6g,%.4f,%.4f", best->contender, best->us_per_token, best->ratio,
                   best->ratio_median);
        else
            printf(",,,");
        for (size_t i = 0; try_chunks && i < CHUNKS; i++)
            printf(",%.6g", chunks[i]);
    } else {
        printf("%-38s %10zu %5zu %11.4f %11.4f %6.1f %6.1f %4.0f%% %8.1e", r->problem, elements,
               r->chunk, r->us_per_token, ideal, percent, r->percent, 100 * r->spread,
               r->max_error);
        if (best)
            printf("  %-13s %11.4f %6.3f %6.3f", best->contender, best->us_per_token, best->ratio,
                   best->ratio_median);
        if (try_chunks) {
            size_t fastest = 0;
            for (size_t i = 1; i < CHUNKS; i++)
                fastest = chunks[i] < chunks[fastest] ? i : fastest;
            for (size_t i = 0; i < CHUNKS; i++)
                printf(" %9.4f", chunks[i]);
            printf("  best %zu %+.1f%%", chunk_list[fastest],
                   100 * (r->us_per_token / chunks[fastest] - 1));
        }
    }
    printf("\n");
    fflush(stdout);
}

static void print_head(const struct bench_options *options, const struct bench_machine *machine,
                       bool try_chunks)
{
    bench_machine_print(machine, stdout, "# ");
    if (options->contenders)
        contender_describe(stdout, "# ");
    if (options->csv) {
        printf("problem,isa,compute,elements,chunk,us_per_token,ideal_us,percent_of_ideal,"
               "percent_of_peak,spread,max_error,contender,contender_us,ratio,ratio_median");
        for (size_t i = 0; try_chunks && i < CHUNKS; i++)
            printf(",us_c%zu", chunk_list[i]);
    } else {
        printf("%-38s %10s %5s %11s %11s %6s %6s %5s %8s", "problem", "elements", "chunk",
               "us/token", "ideal", "%ideal", "%peak", "sprd", "error");
        if (options->contenders || options->compute != TSA_COMPUTE_EXACT)
            printf("  %-13s %11s %6s %6s", "contender", "us/token", "ratio", "median");
        for (size_t i = 0; try_chunks && i < CHUNKS; i++)
            printf("    us_c%-3zu", chunk_list[i]);
    }
    printf("\n");
    fflush(stdout);
}

int bench_grid(const struct bench_options *options, const struct bench_grid_options *grid,
               struct bench_machine *machine)
{
    struct bench_problem shapes[MOST_SHAPES];
    const size_t count = list_shapes(grid, shapes);
    struct bench_result results[8];
    struct bench_options beside = *options;
    int wrong = 0;

    beside.beside_f32 = true;
    print_head(options, machine, grid->chunks);
    for (size_t i = 0; i < count; i++) {
        double chunks[CHUNKS] = {0};
        bench_problem_name(&shapes[i]);
        bench_machine_peak(machine);
        const size_t got = bench_op_report(&shapes[i], &beside, machine, results, 8, &wrong);
        if (!got)
            return 1;
        for (size_t j = 0; grid->chunks && j < CHUNKS; j++) {
            struct bench_problem p = shapes[i];
            struct bench_result r;
            p.chunk = chunk_list[j];
            bench_problem_name(&p);
            struct bench_options alone = *options;
            alone.contenders = false;
            if (!bench_op_report(&p, &alone, machine, &r, 1, &wrong))
                return 1;
            chunks[j] = r.us_per_token;
        }
        const double peak = options->dtype == TSA_F64 ? machine->peak_f64 : machine->peak_f32;
        const double ideal = bench_problem_flops(&shapes[i], 8) / peak * 1e-3;
        print_shape(options, results, got, ideal,
                    tsa_state_elements(shapes[i].d, shapes[i].dv, shapes[i].terms), chunks,
                    grid->chunks);
    }
    if (wrong)
        fprintf(stderr, "tsa bench: %d outputs are beyond the error bound\n", wrong);
    return wrong ? 1 : 0;
}
