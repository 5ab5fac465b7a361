/* SPDX-License-Identifier: MIT */
/* Everything that an instruction set unit holds: the kernel templates once for float, for pairs of
 * bf16 and for double, their tables, and struct tsa_isa, the unit's only global symbol. The unit
 * defines, beside what unit.h asks for,
 *   TSA_ISA_NAME, TSA_ISA_EXP   name, and name of the exponential
 *   TSA_ISA_PAIR_KERNELS               1 if it has a table for pairs, from operations on 32-bit lanes */
#include "unit.h"

#define T float
#define TSA_F64 0
#define TSA_NAME(name) name##_f32
#include "table_tmpl.h"
#undef TSA_NAME
#undef TSA_F64
#undef T

#define TSA_PASTE_(a, b) a##b
#define TSA_PASTE(a, b) TSA_PASTE_(a, b)
#define TSA_STRING_(a) #a
#define TSA_STRING(a) TSA_STRING_(a)

#if TSA_ISA_PAIR_KERNELS
#define TSA_PAIR_TABLE static const struct tsa_pair_kernels_f32 pair_table
#define TSA_PAIR_NAME TSA_STRING(TSA_ISA_NAME)
#define TSA_PAIR_FAST false
#include "pairs_tmpl.h"
#endif

#define T double
#define TSA_F64 1
#define TSA_NAME(name) name##_f64
#include "table_tmpl.h"
#undef TSA_NAME
#undef TSA_F64
#undef T

const struct tsa_isa TSA_PASTE(tsa_isa_, TSA_ISA_NAME) = {
    .name = TSA_STRING(TSA_ISA_NAME),
    .exp = TSA_ISA_EXP,
    .lanes = sizeof(vector_f32) / sizeof(float),
    .f32 = &table_f32,
    .f64 = &table_f64,
#if TSA_ISA_PAIR_KERNELS
    .pair_kernels = &pair_table,
#endif
};
