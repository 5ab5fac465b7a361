/* SPDX-License-Identifier: MIT */
/* The kernels in plain C, for every CPU: reached through tsa_isa_scalar. */
#include <math.h>
#ifndef FP_FAST_FMA
#define FP_FAST_FMA /* makes sleef.h declare the exponential that is guarded in v_exp() */
#endif

#define TSA_ISA_NAME scalar
#define TSA_ISA_EXP "Sleef_finz_exp1_u10purecfma"
#define TSA_ISA_PAIR_KERNELS 1
#define TSA_VECTORS "v_scalar.h"
#define TSA_TILES(X) TSA_ROWS_4(X, 1)
#define TSA_TILE_VECTORS 1
#define TSA_TILE_ROWS                                                                              \
    {                                                                                              \
        0, 4                                                                                       \
    }
#include "isa_tmpl.h"
