/* SPDX-License-Identifier: MIT */
/* What is checked before a call may change anything. */
#include "config.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "call.h"

/* -- tensors ----------------------------------------------------------------------------- */

/* Rows of an output may not overlap: taken by growing stride, each dimension must step over all
 * that the smaller ones cover. */
static enum tsa_status check_rows_apart(const char *name, const ptrdiff_t *stride,
                                        const size_t *count, size_t width, struct tsa_error *err)
{
    static const char *const dimension[3] = {"batch", "head", "token"};
    int order[3] = {2, 1, 0};
    size_t step[3];
    for (int i = 0; i < 3; i++)
        step[i] = stride[i] < 0 ? (size_t)0 - (size_t)stride[i] : (size_t)stride[i];
    for (int i = 0; i < 2; i++)
        for (int j = 0; j < 2 - i; j++)
            if (step[order[j]] > step[order[j + 1]]) {
                const int swap = order[j];
                order[j] = order[j + 1];
                order[j + 1] = swap;
            }
    size_t covered = width;
    for (int i = 0; i < 3; i++) {
        const int k = order[i];
        if (count[k] < 2)
            continue;
        if (step[k] < covered) {
            tsa_fail(err, TSA_EINVAL, name,
                     "%s: %s stride %td lets rows overlap; wanted at least %zu", name, dimension[k],
                     stride[k], covered);
            tsa_error_numbers(err, (int64_t)covered, stride[k]);
            return TSA_EINVAL;
        }
        covered += step[k] * (count[k] - 1);
    }
    return TSA_OK;
}

enum tsa_status tsa_check_tensor(const struct tsa_tensor *x, const char *name, size_t batch,
                                 size_t heads, size_t tokens, size_t width, bool output,
                                 struct tsa_error *err)
{
    if (!x)
        return tsa_fail(err, TSA_EINVAL, name, "%s is NULL", name);
    if (x->dtype != TSA_F32 && x->dtype != TSA_F64) {
        if (x->dtype == TSA_BF16 || x->dtype == TSA_F16)
            return tsa_fail(err, TSA_EUNSUPPORTED, name,
                            "%s: bf16 and f16 are not in this version; wanted f32 or f64", name);
        return tsa_fail(err, TSA_EINVAL, name, "%s: unknown dtype %d", name, (int)x->dtype);
    }
    for (size_t i = 0; i < sizeof x->reserved / sizeof x->reserved[0]; i++)
        if (x->reserved[i] != 0)
            return tsa_fail(err, TSA_EINVAL, name, "%s: reserved fields must be 0", name);
    if (batch == 0 || heads == 0 || tokens == 0)
        return TSA_OK;
    if (!x->data)
        return tsa_fail(err, TSA_EINVAL, name, "%s: data is NULL", name);
    const size_t elem = x->dtype == TSA_F64 ? 8 : 4;
    const ptrdiff_t stride[3] = {x->batch, x->head, tokens > 1 ? x->token : 0};
    const size_t count[3] = {batch, heads, tokens};
    /* the farthest element on either side must stay within half the address space */
    const size_t limit = (size_t)PTRDIFF_MAX / elem;
    size_t reach = width;
    for (int i = 0; i < 3; i++) {
        if (count[i] < 2)
            continue;
        const size_t step = stride[i] < 0 ? (size_t)0 - (size_t)stride[i] : (size_t)stride[i];
        if (step > 0 && count[i] - 1 > (limit - reach) / step)
            return tsa_fail(err, TSA_EINVAL, name, "%s: strides reach past the address space",
                            name);
        reach += step * (count[i] - 1);
    }
    return output ? check_rows_apart(name, stride, count, width, err) : TSA_OK;
}

/* -- states ------------------------------------------------------------------------------ */

enum tsa_status tsa_check_states(const struct tsa_call *call, struct tsa_error *err)
{
    const struct tsa_plan *plan = call->plan;
    if (call->batch > 0 && !call->states)
        return tsa_fail(err, TSA_EINVAL, "states", "states is NULL");
    if (call->layer >= plan->layers)
        return tsa_fail(err, TSA_EINVAL, "layer", "layer is %zu; the plan has %zu", call->layer,
                        plan->layers);
    for (size_t b = 0; b < call->batch; b++) {
        const enum tsa_status status =
            tsa_state_check(plan, call->states[b], call->writable != NULL, "states", b, err);
        if (status != TSA_OK)
            return status;
    }
    if (!call->writable || call->batch < 2)
        return TSA_OK;
    /* a state that is there twice keeps the mark of its last place */
    for (size_t b = 0; b < call->batch; b++)
        call->writable[b]->head.mark = b;
    enum tsa_status status = TSA_OK;
    for (size_t b = 0; b < call->batch && status == TSA_OK; b++)
        if (call->states[b]->head.mark != b) {
            status = tsa_fail(err, TSA_EINVAL, "states", "states[%zu] and states[%zu] are the same",
                              b, (size_t)call->states[b]->head.mark);
            if (err)
                err->sequence = (ptrdiff_t)b;
        }
    for (size_t b = 0; b < call->batch; b++)
        call->writable[b]->head.mark = 0;
    return status;
}

/* -- values ------------------------------------------------------------------------------ */

/* Largest magnitude of rows from (b, h, t) on, `stride` apart, in double; NaN and infinity pass
 * through. */
static double absmax_rows(const struct tsa_plan *plan, const struct tsa_tensor *x, size_t b,
                          size_t h, size_t t, size_t rows, size_t width, ptrdiff_t stride)
{
    const void *row = tsa_row(x, b, h, t);
    return x->dtype == TSA_F64 ? plan->isa->f64->absmax(rows, width, row, stride)
                               : plan->isa->f32->absmax(rows, width, row, stride);
}
static double absmax(const struct tsa_plan *plan, const struct tsa_tensor *x, size_t b, size_t h,
                     size_t t, size_t tokens, size_t width)
{
    return absmax_rows(plan, x, b, h, t, tokens, width, x->token);
}

static double element(const struct tsa_tensor *x, size_t b, size_t h, size_t t, size_t c)
{
    const void *row = tsa_row(x, b, h, t);
    double d;
    float f;
    if (x->dtype == TSA_F64) {
        memcpy(&d, (const char *)row + c * sizeof d, sizeof d);
        return d;
    }
    memcpy(&f, (const char *)row + c * sizeof f, sizeof f);
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

static void place(struct tsa_error *err, size_t b, size_t h, size_t t, ptrdiff_t c)
{
    if (!err)
        return;
    err->sequence = (ptrdiff_t)b;
    err->head = (ptrdiff_t)h;
    err->token = (ptrdiff_t)t;
    err->column = c;
}

/* Name the first element of a tensor that is not finite in the arithmetic type. */
static bool find_nonfinite(const struct tsa_plan *plan, const struct tsa_tensor *x,
                           const char *name, size_t batch, size_t heads, size_t tokens,
                           size_t width, double largest, struct tsa_error *err)
{
    for (size_t b = 0; b < batch; b++)
        for (size_t h = 0; h < heads; h++)
            for (size_t t = 0; t < tokens; t++) {
                if (absmax(plan, x, b, h, t, 1, width) <= largest)
                    continue;
                for (size_t c = 0; c < width; c++) {
                    const double value = element(x, b, h, t, c);
                    if (fabs(value) <= largest)
                        continue;
                    char number[TSA_NUMBER_TEXT];
                    tsa_fail(err, TSA_ENONFINITE, name,
                             "%s is %s (%s) at sequence %zu, head %zu, token %zu, column %zu", name,
                             isfinite(value) ? "outside the range of f32" : "not finite",
                             tsa_number_text(number, value, 6), b, h, t, c);
                    place(err, b, h, t, (ptrdiff_t)c);
                    return true;
                }
            }
    return false;
}

static bool find_key_overflow(const struct tsa_call *call, const struct limits *l,
                              struct tsa_error *err)
{
    const struct tsa_plan *plan = call->plan;
    for (size_t b = 0; b < call->batch; b++)
        for (size_t h = 0; h < plan->kv_heads; h++)
            for (size_t t = 0; t < call->tokens; t++) {
                const double k = absmax(plan, call->k, b, h, t, 1, plan->d);
                const double v = absmax(plan, call->v, b, h, t, 1, plan->dv);
                if (!key_overflows(plan, l, k, v))
                    continue;
                const bool key = key_overflows(plan, l, k, 1); /* else the value is to blame */
                tsa_fail(err, TSA_EOVERFLOW, key ? "k" : "v",
                         "monomials of the key times the value could overflow at sequence %zu, "
                         "head %zu, token %zu: max|k| %g, max|v| %g, %zu terms, chunk %zu",
                         b, h, t, k, v, plan->terms, plan->chunk);
                place(err, b, h, t, -1);
                return true;
            }
    return false;
}

static bool find_query_overflow(const struct tsa_call *call, const struct limits *l,
                                struct tsa_error *err)
{
    const struct tsa_plan *plan = call->plan;
    for (size_t b = 0; b < call->batch; b++)
        for (size_t h = 0; h < plan->heads; h++)
            for (size_t t = 0; t < call->tokens; t++) {
                const double q = absmax(plan, call->q, b, h, t, 1, plan->d);
                if (!query_overflows(plan, l, q, 1 / plan->temperature[h]))
                    continue;
                tsa_fail(err, TSA_EOVERFLOW, "q",
                         "monomials of the query could overflow at sequence %zu, head %zu, "
                         "token %zu: max|q| %g, %zu terms",
                         b, h, t, q, plan->terms);
                place(err, b, h, t, -1);
                return true;
            }
    return false;
}

/* Largest magnitude over a whole tensor, stopping at the first that is not finite. */
static double tensor_absmax(const struct tsa_plan *plan, const struct tsa_tensor *x, size_t batch,
                            size_t heads, size_t tokens, size_t width, double largest)
{
    /* a single token: all its heads at once */
    const bool together = tokens == 1;
    double most = 0;
    for (size_t b = 0; b < batch; b++)
        for (size_t h = 0; h < (together ? 1 : heads); h++) {
            const double m = together ? absmax_rows(plan, x, b, 0, 0, heads, width, x->head)
                                      : absmax(plan, x, b, h, 0, tokens, width);
            if (!(m <= largest))
                return m;
            most = larger(most, m);
        }
    return most;
}

enum tsa_status tsa_check_values(const struct tsa_call *call, struct tsa_error *err)
{
    const struct tsa_plan *plan = call->plan;
    if (plan->flags & TSA_SKIP_INPUT_CHECK || call->tokens == 0)
        return TSA_OK;
    const size_t keys = call->keys ? call->keys : call->tokens;
    struct limits l = {.largest = plan->dtype == TSA_F64 ? DBL_MAX : FLT_MAX,
                       .degree = (double)(plan->terms - 1)};
    l.quarter = l.largest / 4;
    const bool taylor = call->keys == 0;
    double k = 0, v = 0, q = 0;
    if (call->k) {
        k = tensor_absmax(plan, call->k, call->batch, plan->kv_heads, keys, plan->d, l.largest);
        if (!(k <= l.largest) && find_nonfinite(plan, call->k, "k", call->batch, plan->kv_heads,
                                                keys, plan->d, l.largest, err))
            return TSA_ENONFINITE;
        v = tensor_absmax(plan, call->v, call->batch, plan->kv_heads, keys, plan->dv, l.largest);
        if (!(v <= l.largest) && find_nonfinite(plan, call->v, "v", call->batch, plan->kv_heads,
                                                keys, plan->dv, l.largest, err))
            return TSA_ENONFINITE;
        if (taylor && key_overflows(plan, &l, k, v) && find_key_overflow(call, &l, err))
            return TSA_EOVERFLOW;
    }
    if (call->q) {
        q = tensor_absmax(plan, call->q, call->batch, plan->heads, call->tokens, plan->d,
                          l.largest);
        if (!(q <= l.largest) && find_nonfinite(plan, call->q, "q", call->batch, plan->heads,
                                                call->tokens, plan->d, l.largest, err))
            return TSA_ENONFINITE;
        if (taylor && query_overflows(plan, &l, q, plan->scale_max) &&
            find_query_overflow(call, &l, err))
            return TSA_EOVERFLOW;
    }
    return TSA_OK;
}
