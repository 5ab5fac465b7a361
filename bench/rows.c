/* SPDX-License-Identifier: MIT */
/* Rows of results as a table, as CSV or as JSON. */
#include "config.h"

#include <math.h>

#include "bench.h"

/* Text of the table, numbers to the right. */
static void put_cell(struct bench_rows *r, int width, bool right, const char *text)
{
    printf("%s%*s", r->columns++ ? " " : "", right ? width : -width, text);
}

static void put_field(struct bench_rows *r, const char *text)
{
    printf("%s%s", r->columns++ ? "," : "", text);
}

/* Whether there is nothing more to do: the name was put, or the column is not in this form. */
static bool put_name(struct bench_rows *r, struct bench_column c, bool right)
{
    const char *name = r->form == BENCH_TABLE ? c.head : c.key;
    if (!name || r->form == BENCH_JSON)
        return !name || r->left_out || r->heading;
    if (r->heading && r->form == BENCH_TABLE)
        put_cell(r, c.width, right, name);
    else if (r->heading)
        put_field(r, name);
    return r->heading;
}

void bench_put_text(struct bench_rows *r, struct bench_column c, const char *text)
{
    if (put_name(r, c, false))
        return;
    if (r->form == BENCH_JSON)
        json_object_set_new(r->object, c.key, json_string(text));
    else if (r->form == BENCH_CSV)
        put_field(r, r->left_out ? "" : text);
    else
        put_cell(r, c.width, false, r->left_out ? "" : text);
}

void bench_put_count(struct bench_rows *r, struct bench_column c, size_t count)
{
    char text[CMD_NUMBER_TEXT];
    if (put_name(r, c, true))
        return;
    if (r->form == BENCH_JSON) {
        json_object_set_new(r->object, c.key, json_integer((json_int_t)count));
        return;
    }
    snprintf(text, sizeof text, "%zu", count);
    if (r->form == BENCH_CSV)
        put_field(r, text);
    else
        put_cell(r, c.width, true, text);
}

void bench_put_number(struct bench_rows *r, struct bench_column c, double number)
{
    const bool known = isfinite(number) && !r->left_out;
    char text[64] = "";
    if (put_name(r, c, true))
        return;
    if (r->form == BENCH_JSON) {
        json_object_set_new(r->object, c.key, cmd_json_number(number));
        return;
    }
    if (r->form == BENCH_CSV) {
        if (known)
            snprintf(text, sizeof text, "%.7g", number);
        put_field(r, text);
        return;
    }
    int digits = c.digits;
    if (!known)
        snprintf(text, sizeof text, "-");
    else if (digits == BENCH_EXPONENT)
        snprintf(text, sizeof text, "%.1e", number);
    else
        while (snprintf(text, sizeof text, "%.*f", digits, number) > c.width && digits > 0)
            digits--;
    put_cell(r, c.width, true, text);
}

void bench_rows_begin(struct bench_rows *r)
{
    if (r->form == BENCH_JSON)
        printf("[");
    r->heading = true;
    r->object = r->form == BENCH_JSON ? json_object() : NULL;
}

void bench_rows_next(struct bench_rows *r)
{
    if (r->form == BENCH_JSON && !r->heading) {
        printf("%s\n  ", r->rows++ ? "," : "");
        json_dumpf(r->object, stdout, JSON_REAL_PRECISION(9));
        json_object_clear(r->object);
    } else if (r->form != BENCH_JSON) {
        printf("\n");
    }
    r->columns = 0;
    r->heading = false;
    fflush(stdout);
}

void bench_rows_end(struct bench_rows *r)
{
    if (r->form == BENCH_JSON)
        printf("\n]\n");
    json_decref(r->object);
}
