/* SPDX-License-Identifier: MIT */
/* A plan in words. */
#include "config.h"

#include "internal.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

/* A text that may be cut at `size`, and the length it would have. */
struct writer {
    char *text;
    size_t size, length;
};

#if defined(__GNUC__)
__attribute__((format(printf, 2, 3)))
#endif
static void
line(struct writer *w, const char *format, ...)
{
    va_list arguments;
    size_t left = w->length < w->size ? w->size - w->length : 0;
    va_start(arguments, format);
    int written = vsnprintf(left ? w->text + w->length : NULL, left, format, arguments);
    va_end(arguments);
    w->length += written > 0 ? (size_t)written : 0;
}

static bool one_temperature(const struct tsa_plan *p)
{
    for (size_t h = 1; h < p->heads; h++) {
        if (p->temperature[h] != p->temperature[0])
            return false;
    }
    return true;
}

static const char *compute_name(const struct tsa_plan *p)
{
    return p->compute == TSA_COMPUTE_MIXED ? "mixed" : p->dtype == TSA_F32 ? "f32" : "f64";
}

/* What is not as the paper has it. */
static void describe_outputs(struct writer *w, const struct tsa_plan *p)
{
    char number[TSA_NUMBER_TEXT];
    if (p->gate != TSA_GATE_NONE)
        line(w, "gate: scalar\n");
    if (p->finish_f64.sum)
        line(w, "output: sum\n");
    if (p->output_scale != 1)
        line(w, "output_scale: %s\n", tsa_number_text(number, p->output_scale, 9));
    if (p->finish_f64.add != 0)
        line(w, "denominator_add: %s\n", tsa_number_text(number, p->finish_f64.add, 9));
    if (p->finish_f64.floor != 0)
        line(w, "denominator_floor: %s\n", tsa_number_text(number, p->finish_f64.floor, 9));
    if (p->softmax_window > 0)
        line(w, "softmax_window: %zu\n", p->softmax_window);
}

size_t tsa_plan_describe(const struct tsa_plan *plan, char *text, size_t size)
{
    struct writer w = {text, text ? size : 0, 0};
    char number[TSA_NUMBER_TEXT];
    int saved_errno = errno;
    if (w.size)
        text[0] = '\0';
    if (!plan)
        return 0;
    line(&w, "version: %s\n", tsa_version());
    line(&w, "arithmetic: %d\n", tsa_arithmetic());
    line(&w, "head_dim: %zu\n", plan->d);
    line(&w, "value_dim: %zu\n", plan->dv);
    line(&w, "heads: %zu\n", plan->heads);
    line(&w, "kv_heads: %zu\n", plan->kv_heads);
    line(&w, "layers: %zu\n", plan->layers);
    line(&w, "terms: %zu\n", plan->terms);
    line(&w, "features: %zu\n", plan->mono.total);
    line(&w, "temperature: %s\n",
         one_temperature(plan) ? tsa_number_text(number, plan->temperature[0], 9) : "per head");
    line(&w, "chunk: %zu\n", plan->chunk);
    line(&w, "dtype: %s\n", plan->dtype == TSA_F32 ? "f32" : "f64");
    line(&w, "compute: %s\n", compute_name(plan));
    line(&w, "exact_degrees: %u\n", tsa_plan_exact_degrees(plan));
    if (plan->compute == TSA_COMPUTE_MIXED)
        line(&w, "bf16_products: %s%s\n", plan->pair_kernels->name,
             plan->pair_kernels->fast ? "" : " (no faster than f32)");
    line(&w, "normalize: %s\n", plan->normalize == TSA_NORMALIZE_L2 ? "l2" : "none");
    describe_outputs(&w, plan);
    line(&w, "isa: %s\n", plan->isa->name);
    line(&w, "threads: %d (%s)\n", plan->threads, plan->threads_reason);
    line(&w, "state_bytes: %zu\n", plan->state_bytes);
    line(&w, "workspace_bytes: %zu\n", tsa_workspace_bytes(plan, 0));
    errno = saved_errno;
    return w.length;
}
