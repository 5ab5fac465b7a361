/* SPDX-License-Identifier: MIT */
/* The limits of the machine, measured in the same run as what is compared with them. */
#include "config.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#ifdef _OPENMP
#include <omp.h>
#endif

#include "bench.h"
#include "internal.h"

const char *const bench_level_name[BENCH_LEVELS] = {"L1", "L2", "L3", "DRAM"};

static const struct bench_unit *find_unit(const char *isa)
{
    static const struct bench_unit *const units[] = {
#ifdef TSA_HAVE_AVX512
        &bench_unit_avx512,
#endif
#ifdef TSA_HAVE_AVX2
        &bench_unit_avx2,
#endif
#ifdef TSA_HAVE_NEON
        &bench_unit_neon,
#endif
        &bench_unit_scalar,
    };
    for (size_t i = 0; i < sizeof units / sizeof *units; i++)
        if (isa && strcmp(units[i]->name, isa) == 0)
            return units[i];
    return NULL;
}

/* The loop for the pairs of bf16 that plans of this instruction set multiply in hardware. */
static const struct bench_pairs_unit *find_pairs(const char *name)
{
    static const struct bench_pairs_unit *const units[] = {
#ifdef TSA_HAVE_AVX512BF16
        &bench_pairs_avx512bf16,
#endif
#ifdef TSA_HAVE_NEONBF16
        &bench_pairs_neonbf16,
#endif
        NULL,
    };
    const struct tsa_isa *isa;
    if (tsa_isa_find(name, &isa, NULL) != TSA_OK)
        return NULL;
    const struct tsa_pair_kernels_f32 *pairs = tsa_hardware_pair_kernels(isa);
    for (size_t i = 0; pairs && units[i]; i++)
        if (strcmp(units[i]->name, pairs->name) == 0)
            return units[i];
    return NULL;
}

/* First value of a key of /proc/cpuinfo. */
static bool cpuinfo(const char *key, char *value, size_t size)
{
    FILE *file = fopen("/proc/cpuinfo", "r");
    char line[512];
    bool found = false;
    while (file && !found && fgets(line, sizeof line, file)) {
        char *colon = strchr(line, ':');
        if (strncmp(line, key, strlen(key)) != 0 || !colon)
            continue;
        colon += 1 + strspn(colon + 1, " \t");
        colon[strcspn(colon, "\n")] = 0;
        snprintf(value, size, "%s", colon);
        found = true;
    }
    if (file)
        fclose(file);
    return found;
}

static void describe_cpu(struct bench_machine *m)
{
    char name[64] = "", family[16] = "", model[16] = "";
    if (cpuinfo("model name", name, sizeof name) && cpuinfo("cpu family", family, sizeof family) &&
        cpuinfo("model\t", model, sizeof model))
        snprintf(m->cpu, sizeof m->cpu, "%s, family %s model %s", name, family, model);
    else if (cpuinfo("CPU implementer", family, sizeof family) &&
             cpuinfo("CPU part", model, sizeof model))
        snprintf(m->cpu, sizeof m->cpu, "Arm implementer %s part %s", family, model);
    else
        snprintf(m->cpu, sizeof m->cpu, "%s", name[0] ? name : "unknown");
}

static size_t cache_bytes(int level)
{
    long bytes = 0;
#ifdef _SC_LEVEL1_DCACHE_SIZE
    const int names[] = {_SC_LEVEL1_DCACHE_SIZE, _SC_LEVEL2_CACHE_SIZE, _SC_LEVEL3_CACHE_SIZE};
    bytes = sysconf(names[level]);
#endif
    static const size_t usual[] = {32 << 10, 512 << 10, 8 << 20};
    return bytes > 0 ? (size_t)bytes : usual[level];
}

/* Best GFLOP/s of one loop on this thread. */
static double peak_of(void (*loop)(size_t), double flops_per_round, int tries)
{
    size_t rounds = 1000;
    double best = 0, took;
    for (;;) {
        const double start = cmd_seconds();
        loop(rounds);
        took = cmd_seconds() - start;
        if (took > 2e-3)
            break;
        rounds *= 2;
    }
    for (int i = 0; i < tries; i++) {
        const double start = cmd_seconds();
        loop(rounds);
        took = cmd_seconds() - start;
        const double rate = (double)rounds * flops_per_round / took * 1e-9;
        best = rate > best ? rate : best;
    }
    return best;
}

static double bandwidth_of(const struct bench_unit *unit, size_t bytes)
{
    char *memory = bench_memory(bytes);
    double best = 0;
    if (!memory)
        return 0;
    memset(memory, 1, bytes); /* pages of its own */
    const size_t rounds = bytes > (16 << 20) ? 1 : ((size_t)256 << 20) / bytes;
    for (int i = 0; i < (bytes > (16 << 20) ? 5 : 12); i++) {
        const double start = cmd_seconds();
        unit->read(memory, bytes, rounds);
        const double rate = (double)bytes * (double)rounds / (cmd_seconds() - start) * 1e-9;
        best = rate > best ? rate : best;
    }
    free(memory);
    return best;
}

static double larger(double a, double b)
{
    return a > b ? a : b;
}

void bench_machine_peak(struct bench_machine *m)
{
    const double f32 = 2.0 * m->unit->chains * m->unit->lanes_f32;
    const double f64 = 2.0 * m->unit->chains * m->unit->lanes_f64;
    double all_f32 = 0, all_f64 = 0;
    const int threads = m->threads;

    m->peak_f32 = larger(m->peak_f32, peak_of(m->unit->fma_f32, f32, 15));
    m->peak_f64 = larger(m->peak_f64, peak_of(m->unit->fma_f64, f64, 15));
    if (m->pairs)
        m->peak_bf16 = larger(m->peak_bf16, peak_of(m->pairs->dot, m->pairs->flops, 15));
    if (threads > 1) {
#ifdef _OPENMP
#pragma omp parallel num_threads(threads) reduction(+ : all_f32)
        all_f32 += peak_of(m->unit->fma_f32, f32, 15);
#pragma omp parallel num_threads(threads) reduction(+ : all_f64)
        all_f64 += peak_of(m->unit->fma_f64, f64, 15);
#endif
    } else {
        all_f32 = m->peak_f32;
        all_f64 = m->peak_f64;
    }
    m->peak_all_f32 = larger(m->peak_all_f32, all_f32);
    m->peak_all_f64 = larger(m->peak_all_f64, all_f64);
}

bool bench_machine_identify(struct bench_machine *m, const char *isa, int threads)
{
    m->unit = find_unit(isa);
    if (!m->unit)
        return false;
    m->threads = threads;
    m->pairs = find_pairs(isa);
    m->peak_bf16 = m->pairs ? 0 : NAN;
    describe_cpu(m);
    for (int i = 0; i < 3; i++)
        m->cache[i] = cache_bytes(i);
    return true;
}

bool bench_machine_measure(struct bench_machine *m, const char *isa, int threads)
{
    if (!bench_machine_identify(m, isa, threads))
        return false;
    m->footprint[BENCH_L1] = m->cache[0] / 2 / 1024 * 1024;
    if (m->footprint[BENCH_L1] > 24 << 10)
        m->footprint[BENCH_L1] = 24 << 10;
    m->footprint[BENCH_L2] = m->cache[1] / 2 / 1024 * 1024;
    m->footprint[BENCH_L3] = m->cache[2] / 4 < m->cache[1] * 4 ? m->cache[1] * 2 : m->cache[1] * 4;
    m->footprint[BENCH_DRAM] = (size_t)256 << 20;

    bench_machine_peak(m);
    for (int i = 0; i < BENCH_LEVELS; i++)
        m->bandwidth[i] = bandwidth_of(m->unit, m->footprint[i]);
    return true;
}

enum bench_level bench_machine_level(const struct bench_machine *m, double bytes)
{
    for (int i = 0; i < 3; i++)
        if (bytes <= (double)m->cache[i])
            return (enum bench_level)i;
    return BENCH_DRAM;
}

void bench_machine_print(const struct bench_machine *m, FILE *file, const char *prefix)
{
    fprintf(file, "%scpu          %s\n", prefix, m->cpu);
    fprintf(file, "%scaches       L1d %zu KiB, L2 %zu KiB, L3 %zu KiB\n", prefix, m->cache[0] >> 10,
            m->cache[1] >> 10, m->cache[2] >> 10);
#if defined(__clang__)
    fprintf(file, "%scompiler     clang %s\n", prefix, __clang_version__);
#elif defined(__GNUC__)
    fprintf(file, "%scompiler     gcc %s\n", prefix, __VERSION__);
#endif
    fprintf(file, "%sflags        %s\n", prefix, m->unit->flags);
    fprintf(file, "%sversion      %s, arithmetic %d\n", prefix, tsa_version(), tsa_arithmetic());
    fprintf(file, "%sisa          %s\n", prefix, m->unit->name);
    if (m->peak_f32 == 0)
        return;
    fprintf(file, "%sfma peak     f32 %.1f, f64 %.1f GFLOP/s on one thread", prefix, m->peak_f32,
            m->peak_f64);
    if (m->threads > 1)
        fprintf(file, "; f32 %.1f, f64 %.1f on %d threads", m->peak_all_f32, m->peak_all_f64,
                m->threads);
    if (m->pairs)
        fprintf(file, "\n%sbf16 peak    %.1f GFLOP/s on one thread, %s", prefix, m->peak_bf16,
                m->pairs->name);
    fprintf(file, "\n%sread GB/s   ", prefix);
    for (int i = 0; i < BENCH_LEVELS; i++)
        fprintf(file, "%s %s %.1f (%zu KiB)", i ? "," : "", bench_level_name[i], m->bandwidth[i],
                m->footprint[i] >> 10);
    fprintf(file, ", one thread\n");
}
