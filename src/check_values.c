/* SPDX-License-Identifier: MIT */
/* The values of a call's inputs: all finite, and no token whose monomials could overflow. */
#include "config.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "call.h"
#include "tuning.h"

/* -- values ------------------------------------------------------------------------------ */

/* Largest magnitude of rows from (b, h, t) of the tensor on, `stride` apart, in double; NaN and
 * infinity pass through. */
static double absmax_rows(const struct tsa_plan *plan, const struct tsa_tensor *x, size_t b,
                          size_t h, size_t t, size_t rows, size_t width, ptrdiff_t stride)
{
    const void *row = tsa_row(x, b, h, t);
    if (tsa_is_half(x->dtype))
        return plan->isa->f32->absmax_half(rows, width, row, stride, x->dtype == TSA_F16);
    return x->dtype == TSA_F64 ? plan->isa->f64->absmax(rows, width, row, stride)
                               : plan->isa->f32->absmax(rows, width, row, stride);
}

/* A tensor of a call: `tokens` of each sequence, or 0 for those of the call. */
struct input {
    const struct tsa_tensor *x;
    const char *name;
    size_t heads, width, tokens;
};

static size_t input_tokens(const struct tsa_call *call, const struct input *in, size_t b)
{
    return in->tokens ? in->tokens : tsa_call_tokens(call, b);
}

/* Of token t of sequence b. */
static double token_absmax(const struct tsa_call *call, const struct input *in, size_t b, size_t h,
                           size_t t)
{
    return absmax_rows(call->plan, in->x, tsa_call_batch(call, b), h, tsa_call_first(call, b) + t,
                       1, in->width, 0);
}

static double element(const struct tsa_call *call, const struct input *in, size_t b, size_t h,
                      size_t t, size_t c)
{
    const char *row = tsa_row(in->x, tsa_call_batch(call, b), h, tsa_call_first(call, b) + t);
    const char *at = row + c * tsa_dtype_bytes(in->x->dtype);
    double d;
    float f;
    if (in->x->dtype == TSA_F64) {
        memcpy(&d, at, sizeof d);
        return d;
    }
    if (tsa_is_half(in->x->dtype))
        call->plan->isa->f32->load_half(1, 1, at, 1, in->x->dtype == TSA_F16, &f, 1);
    else
        memcpy(&f, at, sizeof f);
    return f;
}

struct limits {
    double largest; /* of the arithmetic type */
    double quarter; /* of it: products must stay below */
    double degree;  /* terms - 1 */
};

static double larger(double x, double y)
{
    return x > y ? x : y;
}

static double power(double x, double degree)
{
    double y = 1;
    for (; degree > 0; degree--)
        y *= x;
    return y;
}

/* Bound on the monomials of keys up to k. Degree 0, which is 1, is among them. */
static double largest_monomial(const struct tsa_plan *plan, const struct limits *l, double k)
{
    return plan->normalize == TSA_NORMALIZE_L2 ? 1 : power(larger(1, k), l->degree);
}
/* Can monomials of keys up to k, times values up to v, summed over a chunk, overflow? */
static bool key_overflows(const struct tsa_plan *plan, const struct limits *l, double k, double v)
{
    return !(largest_monomial(plan, l, k) * larger(1, v) * (double)plan->chunk < l->quarter);
}
static bool query_overflows(const struct tsa_plan *plan, const struct limits *l, double q,
                            double scale)
{
    const double x = plan->normalize == TSA_NORMALIZE_L2 ? 1 : q;
    return !(power(larger(1, x * scale), l->degree) * larger(1, plan->weight_max) < l->quarter);
}

static void place(const struct tsa_call *call, struct tsa_error *err, size_t b, size_t h, size_t t,
                  ptrdiff_t c)
{
    if (!err)
        return;
    err->sequence = (ptrdiff_t)tsa_call_slot(call, b);
    err->head = (ptrdiff_t)h;
    err->token = (ptrdiff_t)t;
    err->column = c;
}

/* Name the first element of a tensor that is not finite in the arithmetic type. */
static bool find_nonfinite(const struct tsa_call *call, const struct input *in, double largest,
                           struct tsa_error *err)
{
    for (size_t b = 0; b < call->batch; b++)
        for (size_t h = 0; h < in->heads; h++)
            for (size_t t = 0; t < input_tokens(call, in, b); t++) {
                if (token_absmax(call, in, b, h, t) <= largest)
                    continue;
                for (size_t c = 0; c < in->width; c++) {
                    const double value = element(call, in, b, h, t, c);
                    if (fabs(value) <= largest)
                        continue;
                    char number[TSA_NUMBER_TEXT];
                    const size_t token = t + (in->tokens ? call->first_key : 0);
                    tsa_fail(err, TSA_ENONFINITE, in->name,
                             "%s is %s (%s) at sequence %zu, head %zu, token %zu, column %zu",
                             in->name, isfinite(value) ? "outside the range of f32" : "not finite",
                             tsa_number_text(number, value, 6), tsa_call_slot(call, b), h, token,
                             c);
                    place(call, err, b, h, token, (ptrdiff_t)c);
                    return true;
                }
            }
    return false;
}

/* What gates multiply the value of a token with, at most. */
static double value_gate(const struct tsa_call *call, size_t b, size_t h, size_t t)
{
    const struct input in = {call->value_gate, "value_gate", call->plan->kv_heads, 1, 0};
    return in.x && in.x->data ? larger(1, element(call, &in, b, h, t, 0)) : 1;
}

static bool find_key_overflow(const struct tsa_call *call, const struct limits *l,
                              const struct input *keys, const struct input *values,
                              struct tsa_error *err)
{
    const struct tsa_plan *plan = call->plan;
    for (size_t b = 0; b < call->batch; b++)
        for (size_t h = 0; h < plan->kv_heads; h++)
            for (size_t t = 0; t < tsa_call_tokens(call, b); t++) {
                const double k = token_absmax(call, keys, b, h, t);
                const double v =
                    larger(1, token_absmax(call, values, b, h, t)) * value_gate(call, b, h, t);
                if (!key_overflows(plan, l, k, v))
                    continue;
                const bool key = key_overflows(plan, l, k, 1); /* else the value is to blame */
                char text_k[TSA_NUMBER_TEXT], text_v[TSA_NUMBER_TEXT];
                tsa_fail(err, TSA_EOVERFLOW, key ? "k" : "v",
                         "monomials of the key times the value could overflow at sequence %zu, "
                         "head %zu, token %zu: max|k| %s, max|v| %s, %zu terms, chunk %zu",
                         tsa_call_slot(call, b), h, t, tsa_number_text(text_k, k, 6),
                         tsa_number_text(text_v, v, 6), plan->terms, plan->chunk);
                place(call, err, b, h, t, -1);
                return true;
            }
    return false;
}

static bool find_query_overflow(const struct tsa_call *call, const struct limits *l,
                                const struct input *queries, struct tsa_error *err)
{
    const struct tsa_plan *plan = call->plan;
    for (size_t b = 0; b < call->batch; b++)
        for (size_t h = 0; h < plan->heads; h++)
            for (size_t t = 0; t < tsa_call_tokens(call, b); t++) {
                const double q = token_absmax(call, queries, b, h, t);
                if (!query_overflows(plan, l, q, 1 / plan->temperature[h]))
                    continue;
                char number[TSA_NUMBER_TEXT];
                tsa_fail(err, TSA_EOVERFLOW, "q",
                         "monomials of the query could overflow at sequence %zu, head %zu, "
                         "token %zu: max|q| %s, %zu terms",
                         tsa_call_slot(call, b), h, t, tsa_number_text(number, q, 6), plan->terms);
                place(call, err, b, h, t, -1);
                return true;
            }
    return false;
}

/* -- the scan of a whole tensor ---------------------------------------------------------- */

/* Tasks are `rows` tokens of one head of one sequence; of packed sequences, which lie together, all
 * rows count as one sequence; and where each sequence has one token, all heads of `rows` sequences.
 */
struct scan {
    const struct tsa_call *call;
    const struct input *in;
    bool single;
    size_t rows, parts; /* parts: of the tokens of a head, or of the sequences */
    double largest;
};

/* Tokens from .. of head h of sequence b. */
static double scan_rows(const struct scan *scan, size_t b, size_t h, size_t from)
{
    const struct tsa_call *call = scan->call;
    const struct input *in = scan->in;
    size_t first = 0, count = 0;
    if (!call->offsets)
        count = input_tokens(call, in, b);
    else {
        first = (size_t)call->offsets[0];
        count = (size_t)call->offsets[call->batch] - first;
    }
    if (from >= count)
        return 0;
    return absmax_rows(call->plan, in->x, tsa_call_batch(call, b), h, first + from,
                       count - from < scan->rows ? count - from : scan->rows, in->width,
                       in->x->token);
}

/* The only token of sequences from .. */
static double scan_sequences(const struct scan *scan, size_t from)
{
    const struct tsa_call *call = scan->call;
    const struct input *in = scan->in;
    double most = 0;
    for (size_t b = from; b < call->batch && b - from < scan->rows; b++) {
        const double m = absmax_rows(call->plan, in->x, tsa_call_batch(call, b), 0, 0, in->heads,
                                     in->width, in->x->head);
        if (!(m <= scan->largest))
            return m;
        most = larger(most, m);
    }
    return most;
}

static void scan_task(const void *argument, size_t thread, size_t index)
{
    const struct scan *scan = argument;
    const size_t from = index % scan->parts * scan->rows, row = index / scan->parts;
    const double m = scan->single
                         ? scan_sequences(scan, from)
                         : scan_rows(scan, row / scan->in->heads, row % scan->in->heads, from);
    double *most = &scan->call->team.shares[1 + thread].most;
    if (*most <= scan->largest && !(m <= *most)) /* what is not finite stays */
        *most = m;
}

/* Largest magnitude over a whole tensor, or one that is not finite. */
static double tensor_absmax(const struct tsa_call *call, const struct input *in, double largest)
{
    struct scan scan = {.call = call, .in = in, .largest = largest, .rows = SIZE_MAX};
    const size_t tokens = in->tokens ? in->tokens : call->tokens;
    const size_t sequences = call->offsets ? 1 : call->batch;
    scan.single = !call->offsets && !call->lengths && tokens == 1;
    const size_t rows =
        call->offsets ? (size_t)(call->offsets[call->batch] - call->offsets[0]) : tokens;
    double most = 0;
    if ((double)sequences * (double)(in->heads * in->width) * (double)rows < TSA_SCAN_TEAM) {
        if (scan.single)
            return scan_sequences(&scan, 0);
        for (size_t i = 0; i < sequences * in->heads; i++) {
            const double m = scan_rows(&scan, i / in->heads, i % in->heads, 0);
            if (!(m <= largest))
                return m;
            most = larger(most, m);
        }
        return most;
    }
    const size_t row = scan.single ? in->heads * in->width : in->width;
    scan.rows = TSA_SCAN_ELEMENTS / row + 1;
    scan.parts = ((scan.single ? sequences : rows) + scan.rows - 1) / scan.rows;
    for (size_t i = 0; i < call->team.threads; i++)
        call->team.shares[1 + i].most = 0;
    tsa_team_run(&call->team, 0, scan.single ? scan.parts : sequences * in->heads * scan.parts,
                 scan_task, &scan);
    for (size_t i = 0; i < call->team.threads; i++) {
        const double m = call->team.shares[1 + i].most;
        if (!(m <= largest))
            return m;
        most = larger(most, m);
    }
    return most;
}

/* How many of n numbers, `step` bytes apart, are 0 .. most, before one that is not. */
static size_t count_within_f32(const char *at, ptrdiff_t step, size_t n, float most)
{
    size_t i = 0;
    for (float x; i < n; i++, at += step) {
        memcpy(&x, at, sizeof x);
        if (!(x >= 0 && x <= most))
            break;
    }
    return i;
}
static size_t count_within_f64(const char *at, ptrdiff_t step, size_t n, double most)
{
    size_t i = 0;
    for (double x; i < n; i++, at += step) {
        memcpy(&x, at, sizeof x);
        if (!(x >= 0 && x <= most))
            break;
    }
    return i;
}

/* Of the gates of tokens t .. t+n-1. */
static size_t count_within(const struct tsa_call *call, const struct input *in, size_t b, size_t h,
                           size_t t, size_t n, double most)
{
    const struct tsa_tensor *x = in->x;
    const char *at = tsa_row(x, tsa_call_batch(call, b), h, tsa_call_first(call, b) + t);
    const ptrdiff_t step = x->token * (ptrdiff_t)tsa_dtype_bytes(x->dtype);
    return x->dtype == TSA_F64
               ? count_within_f64(at, step, n, most)
               : count_within_f32(at, step, n, (float)(most < FLT_MAX ? most : FLT_MAX));
}

/* Gates within [0, most]. */
static enum tsa_status check_gates(const struct tsa_call *call, const struct input *in, double most,
                                   struct tsa_error *err)
{
    for (size_t b = 0; in->x && in->x->data && b < call->batch; b++)
        for (size_t h = 0; h < in->heads; h++) {
            const size_t n = tsa_call_tokens(call, b);
            const size_t t = n > 0 ? count_within(call, in, b, h, 0, n, most) : 0;
            if (t == n)
                continue;
            const double g = element(call, in, b, h, t, 0);
            char number[TSA_NUMBER_TEXT];
            const bool range = isfinite(g) && (g < 0 || most == 1);
            const enum tsa_status status = range ? TSA_EINVAL : TSA_ENONFINITE;
            tsa_fail(err, status, in->name,
                     "%s is %s at sequence %zu, head %zu, token %zu; wanted 0 to %s", in->name,
                     tsa_number_text(number, g, 6), tsa_call_slot(call, b), h, t,
                     most == 1 ? "1" : "the largest finite number of the dtype");
            place(call, err, b, h, t, -1);
            return status;
        }
    return TSA_OK;
}

/* The largest value gate, or 1. */
static double largest_gate(const struct tsa_call *call)
{
    double most = 1;
    if (!call->value_gate || !call->value_gate->data)
        return most;
    for (size_t b = 0; b < call->batch; b++)
        for (size_t h = 0; h < call->plan->kv_heads; h++)
            for (size_t t = 0; t < tsa_call_tokens(call, b); t++)
                most = larger(most, value_gate(call, b, h, t));
    return most;
}

/* All rows of the only token of a call. */
static double step_absmax(const struct tsa_call *call, const struct tsa_tensor *x, size_t heads,
                          size_t width)
{
    return absmax_rows(call->plan, x, tsa_call_batch(call, 0), 0, tsa_call_first(call, 0), heads,
                       width, x->head);
}

/* A step of one token of one sequence, without gates: nothing to complain of? */
static bool is_sound_step(const struct tsa_call *call, const struct limits *l)
{
    const struct tsa_plan *plan = call->plan;
    if (call->operation > TSA_DECODE || call->batch != 1 || call->tokens != 1 ||
        plan->gate != TSA_GATE_NONE ||
        (double)plan->heads * (double)(plan->d + plan->dv) > TSA_SCAN_TEAM)
        return false;
    const double k = step_absmax(call, call->k, plan->kv_heads, plan->d);
    const double v = step_absmax(call, call->v, plan->kv_heads, plan->dv);
    const double q = step_absmax(call, call->q, plan->heads, plan->d);
    return k <= l->largest && v <= l->largest && q <= l->largest && !key_overflows(plan, l, k, v) &&
           !query_overflows(plan, l, q, plan->scale_max);
}

enum tsa_status tsa_check_values(const struct tsa_call *call, struct tsa_error *err)
{
    const struct tsa_plan *plan = call->plan;
    if (plan->flags & TSA_SKIP_INPUT_CHECK || call->tokens == 0 || call->batch == 0)
        return TSA_OK;
    struct limits l = {.largest = plan->dtype == TSA_F64 ? DBL_MAX : FLT_MAX,
                       .degree = (double)(plan->terms - 1)};
    l.quarter = l.largest / 4;
    if (is_sound_step(call, &l))
        return TSA_OK;
    const bool taylor = call->operation != TSA_SOFTMAX;
    if (tsa_call_has_keys(call)) {
        const struct input keys = {call->k, "k", plan->kv_heads, plan->d, call->keys};
        const struct input values = {call->v, "v", plan->kv_heads, plan->dv, call->keys};
        const double k = tensor_absmax(call, &keys, l.largest);
        if (!(k <= l.largest) && find_nonfinite(call, &keys, l.largest, err))
            return TSA_ENONFINITE;
        const double v = tensor_absmax(call, &values, l.largest);
        if (!(v <= l.largest) && find_nonfinite(call, &values, l.largest, err))
            return TSA_ENONFINITE;
        const struct input gates = {call->gate, "gate", plan->kv_heads, 1, 0};
        const struct input value_gates = {call->value_gate, "value_gate", plan->kv_heads, 1, 0};
        enum tsa_status status = check_gates(call, &gates, 1, err);
        if (status == TSA_OK)
            status = check_gates(call, &value_gates, l.largest, err);
        if (status != TSA_OK)
            return status;
        if (taylor && key_overflows(plan, &l, k, larger(1, v) * largest_gate(call)) &&
            find_key_overflow(call, &l, &keys, &values, err))
            return TSA_EOVERFLOW;
    }
    if (tsa_call_has_queries(call)) {
        const struct input queries = {call->q, "q", plan->heads, plan->d, 0};
        const double q = tensor_absmax(call, &queries, l.largest);
        if (!(q <= l.largest) && find_nonfinite(call, &queries, l.largest, err))
            return TSA_ENONFINITE;
        if (taylor && query_overflows(plan, &l, q, plan->scale_max) &&
            find_query_overflow(call, &l, &queries, err))
            return TSA_EOVERFLOW;
    }
    return TSA_OK;
}
