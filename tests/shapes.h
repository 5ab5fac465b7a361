/* SPDX-License-Identifier: MIT */
/* The problems on which the contract is tested: in f32, in f64, and mixed. */
#ifndef TSA_TEST_SHAPES_H
#define TSA_TEST_SHAPES_H

#include "support.h"

/* Problems 0 .. count-1; those from the first mixed one on are of mixed plans. */
int contract_problems(void);
/* The first problem with gates: those before it have none. */
int contract_first_gated(void);
int contract_first_mixed(void);
/* Problem `index`, solved. Its windows fold: chunks are explicit and shorter than the sequences. */
void contract_problem(struct problem *p, int index);

#endif
