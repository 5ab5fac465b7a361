/* SPDX-License-Identifier: MIT */
/* Private types of the library; never installed. */
#ifndef TSA_INTERNAL_H
#define TSA_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels.h"
#include "tsa.h"

#define TSA_ARITHMETIC_VERSION 1

/* -- errors (status.c) -------------------------------------------------------------------- */

/* Fill *err (may be NULL) and return status. Positions start as -1; set them afterwards. */
enum tsa_status tsa_fail(struct tsa_error *err, enum tsa_status status, const char *argument,
                         const char *format, ...)
#if defined(__GNUC__)
    __attribute__((format(printf, 4, 5)))
#endif
    ;
enum tsa_status tsa_succeed(struct tsa_error *err);

/* -- sizes (sizes.c): products and sums that notice overflow -------------------------------- */

bool tsa_size_mul(size_t a, size_t b, size_t *product);
bool tsa_size_add(size_t a, size_t b, size_t *sum);
static inline size_t tsa_round_up(size_t n, size_t multiple)
{
    return (n + multiple - 1) / multiple * multiple;
}
/* binom(n, k) for small k, false if it does not fit. */
bool tsa_binomial(size_t n, size_t k, size_t *value);

/* -- monomials (monomials.c) ---------------------------------------------------------------- */

/* Fill everything but suffix; false if F does not fit. */
bool tsa_monomials_init(struct tsa_monomials *mono, size_t d, size_t terms);
/* Elements of the suffix table, and its filling. */
size_t tsa_monomials_suffix_count(size_t d, size_t terms);
void tsa_monomials_fill_suffix(struct tsa_monomials *mono, size_t *suffix);
/* Multiplicity m!/prod(alpha_i!) of every monomial of a degree, in order. */
void tsa_multiplicities(size_t d, size_t degree, double *out);

/* -- memory (memory.c): the only caller of malloc and free ----------------------------------- */

struct tsa_allocator {
    void *(*allocate)(void *user, size_t bytes, size_t alignment);
    void (*release)(void *user, void *memory, size_t bytes);
    void *user;
};
/* Through the callbacks, or aligned memory of the C library; errno stays. */
void *tsa_allocate(const struct tsa_allocator *a, size_t bytes);
void tsa_release(const struct tsa_allocator *a, void *memory, size_t bytes);

/* -- state layout (state.c) ------------------------------------------------------------------ */

/* Where the parts of one kv head of one layer lie, in elements from the start of its block. */
struct tsa_layout {
    size_t features, ldv, window, ldk; /* window: slots; ldk: padded slots */
    size_t hi, lo, ones_hi, ones_lo, kt, v;
    size_t head_elements; /* size of the block of one kv head */
};

struct tsa_state_head { /* 64-byte head of every state, then one tsa_layer_head per layer */
    char magic[8];
    uint32_t arithmetic, dtype, normalize, terms;
    uint64_t d, dv, kv_heads, layers;
    uint64_t chunk;    /* slots of the window */
    uint64_t bytes;    /* of the whole state */
    uint64_t owner;    /* address of a state in library memory, else 0 */
    uint64_t mark;     /* used while a call looks for duplicates */
    uint64_t reserved[4];
};
struct tsa_layer_head {
    uint64_t tokens; /* absorbed */
    uint64_t window; /* of them, in the open window */
};

/* -- plan (plan.c) --------------------------------------------------------------------------- */

struct tsa_plan {
    size_t d, dv, terms, heads, kv_heads, group, layers, chunk;
    enum tsa_dtype dtype;
    enum tsa_normalize normalize;
    unsigned flags;
    int threads;
    const char *threads_reason;
    const struct tsa_isa *isa;
    struct tsa_monomials mono;
    size_t elem;              /* bytes of T */
    struct tsa_layout layout; /* of a state of this plan */
    size_t state_bytes;
    size_t block;      /* features per block of the chunk loop (multiple of TSA_ROW_PAD) */
    size_t wave;       /* chunks per wave when heads do not fill the team; tests may lower it */
    size_t coef_sets;  /* 1 or heads */
    double *temperature;  /* [heads] */
    double *coef_double;  /* [coef_sets][terms] */
    void *scale;          /* T [heads]: (T)(1/a) */
    void *coef;           /* T [coef_sets][terms] */
    void *weight;         /* T [coef_sets][F]: (T)(c_m * multiplicity) */
    double weight_max;    /* largest |weight| */
    double scale_max;
    struct tsa_allocator allocator;
    size_t bytes; /* of this allocation */
};

/* -- what runs where (cpu.c, threads.c) ------------------------------------------------------- */

/* Built instruction sets, best first; NULL past the end. */
const struct tsa_isa *tsa_isa_at(size_t i);
bool tsa_isa_usable(const struct tsa_isa *isa);
/* NULL name: $TSA_ISA, else the best usable. */
enum tsa_status tsa_isa_find(const char *name, const struct tsa_isa **isa, struct tsa_error *err);

#endif
