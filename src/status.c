/* SPDX-License-Identifier: MIT */
/* Status phrases, and the filling of struct tsa_error. */
#include "config.h"

#include "internal.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

const char *tsa_status_string(enum tsa_status status)
{
    switch (status) {
    case TSA_OK:
        return "success";
    case TSA_EINVAL:
        return "invalid argument";
    case TSA_ENOMEM:
        return "out of memory";
    case TSA_EOVERFLOW:
        return "size or value too large";
    case TSA_EUNSUPPORTED:
        return "not supported";
    case TSA_ENONFINITE:
        return "input is not finite";
    case TSA_EFORMAT:
        return "not a state";
    case TSA_EMISMATCH:
        return "state does not fit the plan";
    case TSA_EIO:
        return "input or output failed";
    }
    return "unknown status";
}

static void clear(struct tsa_error *err, enum tsa_status status, const char *argument)
{
    err->status = status;
    err->argument = argument ? argument : "";
    err->sequence = err->head = err->token = err->column = -1;
    err->wanted = err->found = 0;
    err->text[0] = '\0';
}

enum tsa_status tsa_fail(struct tsa_error *err, enum tsa_status status, const char *argument,
                         const char *format, ...)
{
    if (err) {
        int saved_errno = errno;
        va_list arguments;
        clear(err, status, argument);
        va_start(arguments, format);
        vsnprintf(err->text, sizeof err->text, format, arguments);
        va_end(arguments);
        errno = saved_errno;
    }
    return status;
}

enum tsa_status tsa_succeed(struct tsa_error *err)
{
    if (err)
        clear(err, TSA_OK, "");
    return TSA_OK;
}

void tsa_error_numbers(struct tsa_error *err, int64_t wanted, int64_t found)
{
    if (err) {
        err->wanted = wanted;
        err->found = found;
    }
}

const char *tsa_number_text(char text[TSA_NUMBER_TEXT], double x, int digits)
{
    int saved_errno = errno;
    snprintf(text, TSA_NUMBER_TEXT, "%.*g", digits, x);
    errno = saved_errno;
    /* The locale's decimal point is the only character that can be none of these. */
    size_t to = 0;
    bool point = false;
    for (size_t from = 0; text[from]; from++) {
        if (strchr("0123456789+-einfa", text[from])) {
            text[to++] = text[from];
        } else if (!point) {
            text[to++] = '.';
            point = true;
        }
    }
    text[to] = '\0';
    return text;
}
