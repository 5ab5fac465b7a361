/* SPDX-License-Identifier: MIT */
/* What a plan would come to, by arithmetic alone: the plan itself holds a weight for every feature,
 * which for large shapes are seconds and gigabytes. For the command; not installed. */
#ifndef TSA_MEASURE_H
#define TSA_MEASURE_H

#include "tsa.h"

struct tsa_measure {
    size_t chunk, state_bytes; /* tsa_plan_chunk() and tsa_state_bytes() of the plan */
    size_t direct_tokens;      /* shorter sequences are cheaper in one window */
    enum tsa_compute compute;  /* tsa_plan_compute() */
};

/* Check the options as tsa_plan_create() does, but for temperatures and coefficients, and fill
 * *measure. Allocates nothing. */
enum tsa_status tsa_plan_measure(const struct tsa_options *options, struct tsa_measure *measure,
                                 struct tsa_error *err);

#endif
