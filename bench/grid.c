/* SPDX-License-Identifier: MIT */
/* Prefill over the grid of shapes, against the ideal: the useful FLOPs at the best chunk of
 * 8..256 (they grow with the chunk, so that is 8) at the measured peak of one thread. */
#include "config.h"

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

/* One shape. */
struct line {
    const struct bench_result *ours;
    const struct bench_result *best; /* of the contenders, or the same in f32; NULL: none */
    size_t elements;
    double ideal;
    double chunks[CHUNKS]; /* us per token; 0: not tried */
};

/* The table has no columns for these: lines below. */
static void print_others(const struct line *line)
{
    const struct bench_result *best = line->best;
    size_t fastest = 0;
    if (best)
        printf("    %s: %.4f us/token, ratio %.3f, of medians %.3f\n", best->contender,
               best->us_per_token, best->ratio, best->ratio_median);
    if (!line->chunks[0])
        return;
    printf("   ");
    for (size_t i = 0; i < CHUNKS; i++) {
        fastest = line->chunks[i] < line->chunks[fastest] ? i : fastest;
        printf(" %zu: %.4f", chunk_list[i], line->chunks[i]);
    }
    printf("; best %zu %+.1f%%\n", chunk_list[fastest],
           100 * (line->ours->us_per_token / line->chunks[fastest] - 1));
}

/* NULL puts the names of the columns. */
static void print_line(struct bench_rows *rows, const struct line *line, bool chunks)
{
    static const char *const names[CHUNKS] = {"us_c8",   "us_c16",  "us_c32", "us_c64",
                                              "us_c128", "us_c256", "us_c512"};
    static const struct bench_result blank = {.isa = "", .compute = ""};
    static const struct line blank_line = {.ours = &blank};
    const struct line *l = line ? line : &blank_line;
    const struct bench_result *r = l->ours, *best = l->best ? l->best : &blank;
    char name[BENCH_PROBLEM_TEXT];
    bench_put_text(rows, BENCH_COLUMN(NULL, "problem", 30, 0),
                   bench_problem_short(r->problem, name));
    bench_put_text(rows, BENCH_DATA("problem"), r->problem);
    bench_put_text(rows, BENCH_DATA("isa"), r->isa);
    bench_put_text(rows, BENCH_DATA("compute"), r->compute);
    bench_put_count(rows, BENCH_COLUMN("elements", "elements", 9, 0), l->elements);
    bench_put_count(rows, BENCH_COLUMN("chunk", "chunk", 5, 0), r->chunk);
    bench_put_number(rows, BENCH_COLUMN("us_per_token", "us/token", 9, 4), r->us_per_token);
    bench_put_number(rows, BENCH_COLUMN("ideal_us", "ideal", 9, 4), l->ideal);
    bench_put_number(rows, BENCH_COLUMN("percent_of_ideal", "%ideal", 6, 1),
                     100 * l->ideal / r->us_per_token);
    bench_put_number(rows, BENCH_COLUMN("percent_of_peak", "%peak", 5, 1), r->percent);
    bench_put_number(rows, BENCH_DATA("spread"), r->spread);
    bench_put_number(rows, BENCH_COLUMN(NULL, "%spr", 4, 0), 100 * r->spread);
    bench_put_number(rows, BENCH_COLUMN("max_error", "error", 7, BENCH_EXPONENT), r->max_error);
    rows->left_out = !l->best;
    bench_put_text(rows, BENCH_DATA("contender"), best->contender);
    bench_put_number(rows, BENCH_DATA("contender_us"), best->us_per_token);
    bench_put_number(rows, BENCH_DATA("ratio"), best->ratio);
    bench_put_number(rows, BENCH_DATA("ratio_median"), best->ratio_median);
    rows->left_out = false;
    for (size_t i = 0; chunks && i < CHUNKS; i++)
        bench_put_number(rows, BENCH_DATA(names[i]), l->chunks[i]);
    bench_rows_next(rows);
    if (line && rows->form == BENCH_TABLE)
        print_others(line);
}

/* The same shape at every chunk. */
static bool try_chunks(const struct bench_options *options, const struct bench_problem *shape,
                       const struct bench_machine *machine, double *us, int *wrong)
{
    struct bench_options alone = *options;
    alone.contenders = NULL;
    for (size_t i = 0; i < CHUNKS; i++) {
        struct bench_problem p = *shape;
        struct bench_result r[BENCH_RESULTS];
        p.chunk = chunk_list[i];
        bench_problem_name(&p);
        if (!bench_op_report(&p, &alone, machine, r, wrong))
            return false;
        us[i] = r->us_per_token;
    }
    return true;
}

int bench_grid(const struct bench_options *options, const struct bench_grid_options *grid,
               struct bench_machine *machine)
{
    struct bench_problem shapes[MOST_SHAPES];
    const size_t count = list_shapes(grid, shapes);
    struct bench_result results[BENCH_RESULTS];
    struct bench_options beside = *options;
    struct bench_rows rows = {.form = options->form};
    int wrong = 0;

    beside.beside_f32 = true;
    bench_report_machine(options, machine);
    bench_rows_begin(&rows);
    print_line(&rows, NULL, grid->chunks);
    for (size_t i = 0; i < count; i++) {
        struct line line = {.ours = results};
        bench_problem_name(&shapes[i]);
        bench_machine_peak(machine);
        const size_t got = bench_op_report(&shapes[i], &beside, machine, results, &wrong);
        if (!got ||
            (grid->chunks && !try_chunks(options, &shapes[i], machine, line.chunks, &wrong)))
            return CMD_FAILURE;
        for (size_t j = 1; j < got; j++)
            if (!line.best || results[j].us_per_token < line.best->us_per_token)
                line.best = &results[j];
        const double peak = options->dtype == TSA_F64 ? machine->peak_f64 : machine->peak_f32;
        line.ideal = bench_problem_flops(&shapes[i], 8) / peak * 1e-3;
        line.elements = tsa_state_elements(shapes[i].d, shapes[i].dv, shapes[i].terms);
        print_line(&rows, &line, grid->chunks);
    }
    bench_rows_end(&rows);
    return bench_report_wrong(wrong);
}
