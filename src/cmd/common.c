/* SPDX-License-Identifier: MIT */
/* Diagnostics, strict option values and printing, shared by the subcommands. */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "cmd.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static const char *cmd_name = "tsa";
static char last_line[512];

void cmd_set_name(const char *name)
{
    cmd_name = name;
}

/* One line whatever file names and option values hold. */
static void print_line(const char *format, va_list arguments, const char *hint)
{
    char text[2048], line[sizeof text];
    vsnprintf(text, sizeof text, format, arguments);
    cmd_plain_text(text, line, sizeof line);
    cmd_plain_text(line, last_line, sizeof last_line);
    fflush(stdout);
    fprintf(stderr, "%s: %s%s\n", cmd_name, line, hint);
}

const char *cmd_last_line(void)
{
    return last_line;
}

int cmd_fail(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    print_line(format, arguments, "");
    va_end(arguments);
    return CMD_FAILURE;
}

int cmd_usage(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    print_line(format, arguments, " (--help lists the options)");
    va_end(arguments);
    return CMD_USAGE;
}

void cmd_warn(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    print_line(format, arguments, "");
    va_end(arguments);
}

int cmd_fail_library(const char *culprit, enum tsa_status status, const struct tsa_error *err)
{
    const char *text = err->text[0] != '\0' ? err->text : tsa_status_string(status);
    if (culprit != NULL)
        return cmd_fail("%s: %s", culprit, text);
    return cmd_fail("%s", text);
}

int cmd_bad_option(int c, char **argv)
{
    const char *word = argv[optind - 1];
    /* A long option has no letter of its own; a letter may stand anywhere in its word. */
    bool letter = optopt != 0 && isprint(optopt) && strncmp(word, "--", 2) != 0;
    if (c == ':')
        return letter ? cmd_usage("-%c: needs a value", optopt)
                      : cmd_usage("%s: needs a value", word);
    if (letter)
        return cmd_usage("-%c: unknown option", optopt);
    if (optopt != 0 && strchr(word, '=') != NULL)
        return cmd_usage("%s: takes no value", word);
    return cmd_usage("%s: unknown or ambiguous option", word);
}

int cmd_no_operands(int argc, char **argv)
{
    if (optind < argc)
        return cmd_usage("'%s': unexpected argument", argv[optind]);
    return CMD_OK;
}

bool cmd_parse_size(const char *option, const char *text, size_t low, size_t high, size_t *value)
{
    bool digits = text[0] != '\0' && text[strspn(text, "0123456789")] == '\0';
    errno = 0;
    unsigned long long number = digits ? strtoull(text, NULL, 10) : 0;
    if (!digits || errno == ERANGE || number < low || number > high) {
        if (high == SIZE_MAX)
            cmd_usage("%s: '%s' found; wanted an integer of at least %zu%s", option, text, low,
                      digits && number >= low ? " that fits in memory's addresses" : "");
        else
            cmd_usage("%s: '%s' found; wanted an integer from %zu to %zu", option, text, low, high);
        return false;
    }
    *value = (size_t)number;
    return true;
}

bool cmd_parse_double(const char *option, const char *text, bool positive, double *value)
{
    char *end = NULL;
    double number = strtod(text, &end);
    bool whole = text[0] != '\0' && !isspace((unsigned char)text[0]) && *end == '\0';
    if (!whole || !isfinite(number) || (positive && !(number > 0))) {
        cmd_usage("%s: '%s' found; wanted a finite number%s", option, text,
                  positive ? " greater than 0" : "");
        return false;
    }
    *value = number;
    return true;
}

bool cmd_parse_dtype(const char *option, const char *text, enum tsa_dtype *value)
{
    if (strcmp(text, "f32") == 0) {
        *value = TSA_F32;
    } else if (strcmp(text, "f64") == 0) {
        *value = TSA_F64;
    } else {
        cmd_usage("%s: '%s' found; wanted f32 or f64", option, text);
        return false;
    }
    return true;
}

bool cmd_parse_element(const char *option, const char *text, enum tsa_dtype *value)
{
    static const enum tsa_dtype all[] = {TSA_F32, TSA_F64, TSA_BF16, TSA_F16};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        if (strcmp(text, cmd_dtype_name(all[i])) == 0) {
            *value = all[i];
            return true;
        }
    cmd_usage("%s: '%s' found; wanted f32, f64, bf16 or f16", option, text);
    return false;
}

bool cmd_parse_threads(const char *option, const char *text, int *value)
{
    size_t number;
    if (!cmd_parse_size(option, text, 0, INT_MAX, &number))
        return false;
    *value = (int)number;
    return true;
}

bool cmd_parse_isa(const char *option, const char *text, const char **value)
{
    char list[256] = "";
    size_t used = 0;
    int usable;
    const char *name;
    for (size_t i = 0; (name = tsa_isa_list(i, &usable)) != NULL; i++) {
        if (!usable)
            continue;
        if (strcmp(name, text) == 0) {
            *value = name;
            return true;
        }
        if (used < sizeof list)
            used += (size_t)snprintf(list + used, sizeof list - used, "%s%s", used == 0 ? "" : ", ",
                                     name);
    }
    cmd_usage("%s: '%s' found; usable here: %s", option, text, list);
    return false;
}

bool cmd_parse_compute(const char *option, const char *text, enum tsa_compute *value)
{
    static const struct {
        const char *name;
        enum tsa_compute compute;
    } names[] = {
        {"f32", TSA_COMPUTE_EXACT}, {"mixed", TSA_COMPUTE_MIXED}, {"fastest", TSA_COMPUTE_FASTEST}};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (strcmp(text, names[i].name) == 0) {
            *value = names[i].compute;
            return true;
        }
    }
    cmd_usage("%s: '%s' found; wanted f32, mixed or fastest", option, text);
    return false;
}

bool cmd_parse_exact_degrees(const char *option, const char *text, unsigned *value)
{
    size_t number;
    if (!cmd_parse_size(option, text, 0, TSA_MAX_TERMS, &number))
        return false;
    *value = (unsigned)number;
    return true;
}

int cmd_plan(const struct tsa_options *options, struct tsa_plan **plan)
{
    struct tsa_error err = {.status = TSA_OK};
    enum tsa_status status = tsa_plan_create(options, plan, &err);
    if (status == TSA_OK)
        return CMD_OK;
    *plan = NULL;
    return cmd_fail_plan(status, &err);
}

int cmd_fail_plan(enum tsa_status status, const struct tsa_error *err)
{
    /* Values whose limits only the library knows. */
    static const struct {
        const char *argument, *option;
    } names[] = {{"temperature", "temperature"},
                 {"coefficients", "coefficients"},
                 {"series", "coefficients"},
                 {"threads", "threads"},
                 {"compute", "compute"},
                 {"chunk", "chunk"},
                 {"output_scale", "output-scale"},
                 {"denominator_add", "denominator-add"},
                 {"denominator_floor", "denominator-floor"}};
    for (size_t i = 0; status == TSA_EINVAL && i < sizeof names / sizeof names[0]; i++)
        if (err->argument != NULL && strcmp(err->argument, names[i].argument) == 0)
            return cmd_usage("--%s: %s", names[i].option, err->text);
    return cmd_fail_library(NULL, status, err);
}

const char *cmd_count_text(uint64_t n, char *text)
{
    char digits[24];
    int length = snprintf(digits, sizeof digits, "%llu", (unsigned long long)n);
    char *out = text;
    for (int i = 0; i < length; i++) {
        if (i > 0 && (length - i) % 3 == 0)
            *out++ = ',';
        *out++ = digits[i];
    }
    *out = '\0';
    return text;
}

const char *cmd_bytes_text(double bytes, char *text)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    size_t unit = 0;
    while (bytes >= 1024 && unit + 1 < sizeof units / sizeof units[0]) {
        bytes /= 1024;
        unit++;
    }
    snprintf(text, CMD_NUMBER_TEXT, unit == 0 ? "%.0f %s" : "%.1f %s", bytes, units[unit]);
    return text;
}

/* Bytes of the character of UTF-8 at `text`; 0 if there is none, or a control character. */
static size_t plain_length(const char *text)
{
    static const unsigned long least[] = {0, 0x20, 0xa0, 0x800, 0x10000};
    const unsigned char first = (unsigned char)text[0];
    size_t length = first < 0x80 ? 1 : first < 0xc0 ? 0 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
    unsigned long code = length > 1 ? first & (0x7fu >> length) : first;
    if (length == 0 || first >= 0xf8 || first == 0x7f)
        return 0;
    for (size_t i = 1; i < length; i++) {
        if ((text[i] & 0xc0) != 0x80)
            return 0;
        code = code << 6 | (text[i] & 0x3fu);
    }
    bool surrogate = code >= 0xd800 && code < 0xe000;
    return code < least[length] || code > 0x10ffff || surrogate ? 0 : length;
}

const char *cmd_plain_text(const char *text, char *plain, size_t size)
{
    char *out = plain;
    while (*text != '\0') {
        size_t length = plain_length(text), bytes = length > 0 ? length : 1;
        if (bytes >= size - (size_t)(out - plain))
            break;
        memcpy(out, length > 0 ? text : "?", bytes);
        out += bytes;
        text += bytes;
    }
    *out = '\0';
    return plain;
}

const char *cmd_dtype_name(enum tsa_dtype dtype)
{
    return dtype == TSA_F64 ? "f64" : dtype == TSA_BF16 ? "bf16" : dtype == TSA_F16 ? "f16" : "f32";
}

const char *cmd_compute_name(enum tsa_compute compute, enum tsa_dtype dtype)
{
    return compute == TSA_COMPUTE_MIXED ? "mixed" : cmd_dtype_name(dtype);
}

size_t cmd_dtype_size(enum tsa_dtype dtype)
{
    return dtype == TSA_F64 ? sizeof(double) : dtype == TSA_F32 ? sizeof(float) : 2;
}

json_t *cmd_json_number(double x)
{
    return isfinite(x) ? json_real(x) : json_null();
}

int cmd_json_print(json_t *root)
{
    int code = CMD_OK;
    if (root == NULL || json_dumpf(root, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(12)) != 0)
        code = cmd_fail("the JSON could not be written");
    else
        putchar('\n');
    json_decref(root);
    return code;
}

void cmd_print_version(void)
{
    printf("tsa %s (arithmetic %d)\n", tsa_version(), tsa_arithmetic());
}

double cmd_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

uint64_t cmd_random_bits(uint64_t *seed)
{
    uint64_t z = *seed += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}
