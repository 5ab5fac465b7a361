/* SPDX-License-Identifier: MIT */
/* What the subcommands of tsa share: diagnostics, strict option values, printing. */
#ifndef TSA_CMD_H
#define TSA_CMD_H

#include <getopt.h>
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tsa.h"

/* Exit codes. */
#define CMD_OK 0
#define CMD_FAILURE 1
#define CMD_USAGE 2

#if defined(__GNUC__)
#define CMD_PRINTF(which, first) __attribute__((format(printf, which, first)))
#else
#define CMD_PRINTF(which, first)
#endif

/* Each takes its own name as argv[0], and returns the exit code. */
int cmd_attend(int argc, char **argv);
int cmd_size(int argc, char **argv);
int cmd_info(int argc, char **argv);
int cmd_demo(int argc, char **argv);

/* -- diagnostics: one line on stderr, "tsa NAME: ..." ----------------------------------------- */

/* The name that lines start with; a string that lives on. */
void cmd_set_name(const char *name);
/* Print the line, and return CMD_FAILURE or CMD_USAGE. */
int cmd_fail(const char *format, ...) CMD_PRINTF(1, 2);
int cmd_usage(const char *format, ...) CMD_PRINTF(1, 2);
/* The same for what a library call said; `culprit` (a file name, may be NULL) goes before it. */
int cmd_fail_library(const char *culprit, enum tsa_status status, const struct tsa_error *err);
/* Print the line, and go on. */
void cmd_warn(const char *format, ...) CMD_PRINTF(1, 2);
/* The text of the last such line, "" before the first. */
const char *cmd_last_line(void);
/* What getopt_long could not take: c is its result, '?' or ':'. */
int cmd_bad_option(int c, char **argv);
/* Arguments left over after the options. */
int cmd_no_operands(int argc, char **argv);

/* -- option values: the whole text or nothing; false after a line on stderr -------------------- */

bool cmd_parse_size(const char *option, const char *text, size_t low, size_t high, size_t *value);
/* Finite numbers; `positive` refuses 0 and less. */
bool cmd_parse_double(const char *option, const char *text, bool positive, double *value);
/* The arithmetic: f32 or f64. */
bool cmd_parse_dtype(const char *option, const char *text, enum tsa_dtype *value);
/* What a tensor holds: also bf16 or f16. */
bool cmd_parse_element(const char *option, const char *text, enum tsa_dtype *value);
/* A number of threads, 0 for the machine's. */
bool cmd_parse_threads(const char *option, const char *text, int *value);
/* An instruction set that is built and usable here. */
bool cmd_parse_isa(const char *option, const char *text, const char **value);
/* f32, mixed or fastest; and the degrees of a mixed plan that stay in f32. */
bool cmd_parse_compute(const char *option, const char *text, enum tsa_compute *value);
bool cmd_parse_exact_degrees(const char *option, const char *text, unsigned *value);

/* -- plans ------------------------------------------------------------------------------------ */

/* Make a plan, or say why not. Returns an exit code. */
int cmd_plan(const struct tsa_options *options, struct tsa_plan **plan);
/* Say why there is none, naming the option at fault. Returns an exit code. */
int cmd_fail_plan(enum tsa_status status, const struct tsa_error *err);

/* -- printing --------------------------------------------------------------------------------- */

#define CMD_NUMBER_TEXT 32
/* Enough for a path. */
#define CMD_PLAIN_TEXT 4096
/* 32768 as "32,768"; bytes as "1.5 MiB". Both return text, of CMD_NUMBER_TEXT bytes. */
const char *cmd_count_text(uint64_t n, char *text);
const char *cmd_bytes_text(double bytes, char *text);
const char *cmd_dtype_name(enum tsa_dtype dtype);
/* What products are computed in: "mixed", or the name of the plan's dtype. */
const char *cmd_compute_name(enum tsa_compute compute, enum tsa_dtype dtype);
size_t cmd_dtype_size(enum tsa_dtype dtype);
/* Text from outside, such as a file name, for a terminal: control characters, and bytes that are
 * no UTF-8, become '?'. Cut to `size` bytes. Returns `plain`. */
const char *cmd_plain_text(const char *text, char *plain, size_t size);
/* A JSON number, or null for what JSON cannot say. */
json_t *cmd_json_number(double x);
/* Print and release. Returns the exit code. */
int cmd_json_print(json_t *root);
void cmd_print_version(void);

/* Seconds of a clock that only goes forward. */
double cmd_seconds(void);
/* SplitMix64 by Vigna: 64 good bits of a counter, the same on every machine. */
uint64_t cmd_random_bits(uint64_t *seed);

#endif
