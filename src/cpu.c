/* SPDX-License-Identifier: MIT */
/* Which instruction sets are built, which this CPU and system can run, and which one to take. */
#include "config.h"

#include "internal.h"

#ifdef TSA_HAVE_AVX2
#include <cpuid.h>
#endif
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#ifdef HAVE_GETAUXVAL
#include <sys/auxv.h>
#endif

/* Best first. */
static const struct tsa_isa *const built[] = {
#ifdef TSA_HAVE_AVX512
    &tsa_isa_avx512,
#endif
#ifdef TSA_HAVE_AVX2
    &tsa_isa_avx2,
#endif
#ifdef TSA_HAVE_NEON
    &tsa_isa_neon,
#endif
    &tsa_isa_scalar,
};

const struct tsa_isa *tsa_isa_at(size_t i)
{
    return i < sizeof built / sizeof *built ? built[i] : NULL;
}

/* Before __builtin_cpu_supports: calls may come before the constructor that asks the CPU has run.
 * Each plan passes here, so that kernels need not. */
static void ask_cpu(void)
{
#if (defined(__x86_64__) || defined(__i386__)) && defined(__GNUC__)
    __builtin_cpu_init();
#endif
}

bool tsa_cpu_has_fma(void)
{
#if (defined(__x86_64__) || defined(__i386__)) && defined(__GNUC__)
    ask_cpu();
    return __builtin_cpu_supports("fma");
#else
    return true;
#endif
}

#ifdef TSA_HAVE_AVX2
/* For older compilers: the builtin does not know this one there. */
static bool has_f16c(void)
{
    unsigned a, b, c, d;
    return __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C);
}
#endif

/* Exactly the features that the unit's compiler flags allow; keep with the flags in m4/. The
 * builtin also asks whether the system saves the registers. AArch64 always has NEON. */
bool tsa_isa_usable(const struct tsa_isa *isa)
{
    ask_cpu();
#ifdef TSA_HAVE_AVX512
    if (isa == &tsa_isa_avx512)
        return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
               __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl");
#endif
#ifdef TSA_HAVE_AVX2
    if (isa == &tsa_isa_avx2)
        return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && has_f16c();
#endif
    return isa != NULL;
}

/* In hardware, which an instruction set has or has not. */
static const struct tsa_pair_kernels_f32 *hardware_pairs(const struct tsa_isa *isa)
{
#ifdef TSA_HAVE_AVX512BF16
    if (isa == &tsa_isa_avx512 && __builtin_cpu_supports("avx512bf16"))
        return &tsa_pair_kernels_avx512bf16;
#endif
#if defined(TSA_HAVE_NEONBF16) && defined(HAVE_GETAUXVAL) && defined(HWCAP2_BF16)
    if (isa == &tsa_isa_neon && (getauxval(AT_HWCAP2) & HWCAP2_BF16))
        return &tsa_pair_kernels_neonbf16;
#endif
    (void)isa;
    return NULL;
}

const struct tsa_pair_kernels_f32 *tsa_pair_kernels_for(const struct tsa_isa *isa, bool *hardware)
{
    const struct tsa_pair_kernels_f32 *found = hardware_pairs(isa);
    *hardware = found != NULL;
    for (size_t i = 0; !found && tsa_isa_at(i); i++) { /* of the set, or of the next lesser one */
        if (tsa_isa_at(i)->lanes <= isa->lanes && tsa_isa_usable(tsa_isa_at(i)))
            found = tsa_isa_at(i)->pair_kernels;
    }
    return found;
}

static const struct tsa_isa *best(void)
{
    for (size_t i = 0; tsa_isa_at(i); i++) {
        if (tsa_isa_usable(tsa_isa_at(i)))
            return tsa_isa_at(i);
    }
    return &tsa_isa_scalar;
}

/* The names of the built, or only of the usable, separated by spaces. */
static const char *names(char *text, size_t size, bool only_usable)
{
    size_t length = 0;
    text[0] = '\0';
    for (size_t i = 0; tsa_isa_at(i) && length < size; i++) {
        if (!only_usable || tsa_isa_usable(tsa_isa_at(i)))
            length += (size_t)snprintf(text + length, size - length, "%s%s", length ? " " : "",
                                       tsa_isa_at(i)->name);
    }
    return text;
}

enum tsa_status tsa_isa_find(const char *name, const struct tsa_isa **isa, struct tsa_error *err)
{
    const char *source = "isa";
    if (!name) {
        name = getenv("TSA_ISA");
        source = "TSA_ISA";
        if (!name || !*name) {
            *isa = best();
            return TSA_OK;
        }
    }
    const struct tsa_isa *found = NULL;
    for (size_t i = 0; tsa_isa_at(i) && !found; i++) {
        if (strcmp(tsa_isa_at(i)->name, name) == 0)
            found = tsa_isa_at(i);
    }
    if (!found || !tsa_isa_usable(found)) {
        char all[64], usable[64];
        return tsa_fail(err, TSA_EUNSUPPORTED, "isa",
                        "%s: instruction set \"%.40s\" %s; built: %s; usable here: %s", source,
                        name, found ? "cannot run on this CPU" : "is not in this build",
                        names(all, sizeof all, false), names(usable, sizeof usable, true));
    }
    *isa = found;
    return TSA_OK;
}

const char *tsa_isa_list(size_t i, int *usable)
{
    const struct tsa_isa *isa = tsa_isa_at(i);
    if (usable)
        *usable = tsa_isa_usable(isa);
    return isa ? isa->name : NULL;
}

const char *tsa_isa_active(void)
{
    const struct tsa_isa *isa;
    return tsa_isa_find(NULL, &isa, NULL) == TSA_OK ? isa->name : NULL;
}
