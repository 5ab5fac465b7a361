/* SPDX-License-Identifier: MIT */
/* Which instruction sets this CPU and system can run, and which one to take. */
#include "config.h"

#include "internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const struct tsa_isa *tsa_isa_at(size_t i)
{
    size_t built = 0;

    while (tsa_isas[built])
        built++;
    return i < built ? tsa_isas[i] : NULL;
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

bool tsa_isa_usable(const struct tsa_isa *isa)
{
    ask_cpu();
    return isa && (!isa->usable || isa->usable());
}

const struct tsa_pair_kernels_f32 *tsa_hardware_pair_kernels(const struct tsa_isa *isa)
{
    return isa->hardware_pairs && isa->has_hardware_pairs() ? isa->hardware_pairs : NULL;
}

const struct tsa_pair_kernels_f32 *tsa_pair_kernels_for(const struct tsa_isa *isa)
{
    const struct tsa_pair_kernels_f32 *found = tsa_hardware_pair_kernels(isa);
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
