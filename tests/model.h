/* SPDX-License-Identifier: MIT */
/* Plain token-by-token model of the arithmetic (version 1): what the library is held to. */
#ifndef TSA_TEST_MODEL_H
#define TSA_TEST_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tsa.h"

/* A plan as the model sees it. Fill the first group, then call model_init(). */
struct model {
    size_t d, dv, terms, chunk, heads, kv_heads;
    enum tsa_dtype dtype; /* T: TSA_F32 or TSA_F64 */
    enum tsa_normalize normalize;
    const double *temperature;  /* [heads] */
    const double *coefficients; /* [heads][terms] */
    bool gated;
    enum tsa_output output;
    double output_scale, denominator_add, denominator_floor;

    size_t features;
    size_t start[TSA_MAX_TERMS + 1]; /* start[m]: first feature of degree m; start[terms] = F */
    unsigned *degree;                /* [F] */
    size_t (*tuple)[TSA_MAX_TERMS];  /* [F]: indices i1 <= ... <= im of the monomial */
    double *multiplicity;            /* [F]: m!/prod(alpha_i!) */
    size_t high;                     /* first feature with bf16 operands; F: none */
};

/* The state of one kv head. Arrays hold elements of T. */
struct model_head {
    uint64_t tokens;
    size_t window;
    void *k, *v;             /* [chunk][d] normalised keys, [chunk][dv] values */
    void *hi, *lo;           /* [F][dv] */
    void *ones_hi, *ones_lo; /* [F] */
    void *decay;             /* [chunk]: D of the tokens in the window */
    void *past;              /* E, the decay of the sums since the last fold; P, all gates */
};

void model_init(struct model *m);
/* Degrees from exact_degrees on have bf16 operands. f32 only. */
void model_mix(struct model *m, size_t exact_degrees);
void model_clear(struct model *m);

struct model_head *model_head_new(const struct model *m);
void model_head_free(struct model_head *s);
void model_head_copy(const struct model *m, struct model_head *dst, const struct model_head *src);

/* A row of d elements as it is used: y = x / |x|, or x where the plan does not normalise. */
void model_normalise(const struct model *m, const void *x, void *y);

/* One token of one kv head: put (k, v) into the window, without folding. */
void model_append(const struct model *m, struct model_head *s, const void *k, const void *v);
/* The gates of the token that was appended last, of T each: what came before it decays. */
void model_gate(const struct model *m, struct model_head *s, const void *gate,
                const void *value_gate);
/* Fold the window if it holds `chunk` tokens. */
void model_fold(const struct model *m, struct model_head *s);
/* One output row of query head h from the state, then all window tokens. */
void model_query(const struct model *m, const struct model_head *s, size_t h, const void *q,
                 void *o);
void model_merge(const struct model *m, struct model_head *dst, const struct model_head *src);

/* A whole sequence: q [heads][tokens][d], k [kv_heads][tokens][d], v and o likewise with dv;
 * s[kv_heads]; q and o NULL: absorb only. */
struct model_rows {
    const void *q, *k, *v;
    const void *gate, *value_gate; /* [kv_heads][tokens], if the model is gated */
    void *o;
};
void model_run(const struct model *m, struct model_head *const *s, size_t tokens,
               const struct model_rows *rows);

/* All degrees, plain basis, the window folded in as a short chunk: sums[F][dv+1]. */
void model_export(const struct model *m, const struct model_head *s, double *sums);

#endif
