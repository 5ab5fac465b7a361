/* SPDX-License-Identifier: MIT */
/* `tsa info`: what this build and this machine come to. */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include <stdio.h>
#include <stdlib.h>

#include "cmd.h"
#include "internal.h"

static const char help[] =
    "usage: tsa info [--json]\n"
    "\n"
    "Version, arithmetic, instruction sets (built, usable on this machine, and active), threads,\n"
    "how products of bf16 are computed in mixed plans, and the exponential that softmax uses.\n"
    "$TSA_ISA chooses the active instruction set.\n"
    "\n"
    "  --json               results as JSON\n"
    "  --help, --version\n";

enum { OPT_JSON = 256, OPT_HELP, OPT_VERSION };

static const struct option long_options[] = {
    {"json", no_argument, NULL, OPT_JSON},
    {"help", no_argument, NULL, OPT_HELP},
    {"version", no_argument, NULL, OPT_VERSION},
    {NULL, 0, NULL, 0},
};

/* The products of bf16 operands that a plan would take now. */
struct bf16_products {
    const char *name;
    bool fast; /* two in the time of one of f32 */
};

static struct bf16_products bf16_products(void)
{
    const struct tsa_isa *isa;
    if (tsa_isa_find(NULL, &isa, NULL) != TSA_OK)
        return (struct bf16_products){"", false};
    const struct tsa_pair_kernels_f32 *pairs = tsa_pair_kernels_for(isa);
    return (struct bf16_products){pairs->name, pairs->fast};
}

static int print_json(const char *active)
{
    const char *reason, *name;
    int threads = tsa_default_threads(&reason), usable;
    json_t *built = json_array(), *able = json_array();
    for (size_t i = 0; (name = tsa_isa_list(i, &usable)) != NULL; i++) {
        json_array_append_new(built, json_string(name));
        if (usable)
            json_array_append_new(able, json_string(name));
    }
    const struct bf16_products products = bf16_products();
    return cmd_json_print(
        json_pack("{s:s, s:i, s:{s:o, s:o, s:s}, s:{s:i, s:s}, s:{s:s, s:b}, s:s}", "version",
                  tsa_version(), "arithmetic", tsa_arithmetic(), "isa", "built", built, "usable",
                  able, "active", active, "threads", "default", threads, "reason", reason, "bf16",
                  "products", products.name, "fast", products.fast, "exp", tsa_exp_name()));
}

static void print_isas(const char *label, bool only_usable)
{
    const char *name;
    int usable;
    printf("  %-14s", label);
    for (size_t i = 0; (name = tsa_isa_list(i, &usable)) != NULL; i++)
        if (usable || !only_usable)
            printf(" %s", name);
    putchar('\n');
}

static int print_text(const char *active)
{
    const char *reason;
    int threads = tsa_default_threads(&reason);
    printf("tsa %s, arithmetic version %d\n\n", tsa_version(), tsa_arithmetic());
    printf("instruction sets\n");
    print_isas("built", false);
    print_isas("usable here", true);
    printf("  %-14s %s%s\n\n", "active", active, getenv("TSA_ISA") ? " (by $TSA_ISA)" : "");
    printf("threads          %d (%s)%s\n", threads, reason,
           threads > 1 ? "; at rest while a busy machine keeps teams from paying" : "");
    const struct bf16_products products = bf16_products();
    printf("bf16 products    %s (%s)\n", products.name,
           products.fast ? "two in the time of one of f32" : "no faster than those of f32");
    printf("exponential      %s\n", tsa_exp_name());
    return CMD_OK;
}

int cmd_info(int argc, char **argv)
{
    bool json = false;
    opterr = 0;
    for (int c; (c = getopt_long(argc, argv, ":", long_options, NULL)) != -1;) {
        switch (c) {
        case OPT_JSON:
            json = true;
            break;
        case OPT_HELP:
            fputs(help, stdout);
            return CMD_OK;
        case OPT_VERSION:
            cmd_print_version();
            return CMD_OK;
        default:
            return cmd_bad_option(c, argv);
        }
    }
    int code = cmd_no_operands(argc, argv);
    if (code != CMD_OK)
        return code;
    const char *active = tsa_isa_active();
    if (active == NULL)
        return cmd_fail("TSA_ISA: '%s' is no instruction set that can be used here",
                        getenv("TSA_ISA") ? getenv("TSA_ISA") : "");
    return json ? print_json(active) : print_text(active);
}
