/* SPDX-License-Identifier: MIT */
/* An engine: all that a call computes, for one arithmetic type. Included by engine_f32.c and
 * engine_f64.c, which define T, OTHER (the other type that tensors may hold), TSA_DTYPE,
 * KERNELS(plan), PAIR_KERNELS(plan) and ENGINE. What is computed when, by which thread, is decided
 * in schedule.c. Each file uses only those before it. */

#include <math.h>
#include <string.h>

#include "schedule.h"
#include "tuning.h"

#include "engine_views_tmpl.h"
#include "engine_gates_tmpl.h"
#include "engine_rows_tmpl.h"
#include "engine_tiles_tmpl.h"
#include "engine_prefetch_tmpl.h"
#include "engine_fold_tmpl.h"
#include "engine_pass_tmpl.h"
#include "engine_output_tmpl.h"
#include "engine_item_tmpl.h"
#include "engine_team_tmpl.h"
#include "engine_token_tmpl.h"
#include "engine_relay_tmpl.h"
#include "engine_wave_tmpl.h"
#include "engine_prefill_tmpl.h"
#include "engine_softmax_tmpl.h"
#include "engine_merge_tmpl.h"

const struct tsa_engine ENGINE = {.prefill = prefill,
                                  .query = query,
                                  .softmax = softmax,
                                  .open_window = open_window,
                                  .fold_open_window = fold_open_window,
                                  .decay_rows = decay_rows,
                                  .merge_gates = merge_gates,
                                  .merge_rows = merge_rows,
                                  .export_rows = export_rows};
