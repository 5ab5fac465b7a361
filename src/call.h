/* SPDX-License-Identifier: MIT */
/* A checked call on its way to an engine, and the scratch it runs in. */
#ifndef TSA_CALL_H
#define TSA_CALL_H

#include "internal.h"

/* Offsets, in elements of T, of the parts of one thread's scratch. Sizes depend on the plan alone. */
struct tsa_room {
    size_t queries; /* tokens that pass over the state together */
    size_t block;   /* features per block */
    size_t ld_base, ld_phi, ld_psi; /* token-major rows: base, features; decode's whole psi rows */
    size_t qbase;   /* [mono.base][queries]: packed queries and their lower monomials */
    size_t psi;     /* [block][queries], or for one token [group][ld_psi] */
    size_t acc;     /* [queries or group][ldv] */
    size_t den;     /* [queries or group] */
    size_t weights; /* [chunk][TSA_WINDOW_QUERIES], or for one token [chunk] */
    size_t kbase;   /* [chunk][ld_base] */
    size_t phi;     /* [chunk][ld_phi] */
    size_t sums;    /* [block]: ones of a block */
    size_t rows;    /* [queries][max(d, dv)]: rows of another dtype */
    size_t kt, v;   /* [d][TSA_WINDOW_QUERIES], [TSA_WINDOW_QUERIES][ldv]: softmax */
    size_t total;   /* elements */
};

/* Queries that share one pass over the window, and keys per block of softmax. */
#define TSA_WINDOW_QUERIES 64

/* One chunk of a wave: its sums, then the prefix before it, and its window. In elements. */
struct tsa_slot {
    size_t sums, ones, kt, v, total;
};

struct tsa_call {
    const struct tsa_plan *plan;
    const struct tsa_state *const *states;
    struct tsa_state *const *writable; /* the same states, or NULL in a call that only reads */
    size_t batch, layer, tokens; /* tokens: of k and v, or queries */
    size_t keys;                 /* softmax */
    int causal;                  /* softmax */
    const struct tsa_tensor *q, *k, *v, *o;
    struct tsa_room room;
    struct tsa_slot slot;
    size_t threads, slots;
    char *scratch; /* threads rooms, then slots */
};

/* What an arithmetic type brings. */
struct tsa_engine {
    void (*prefill)(const struct tsa_call *call); /* also absorb: q is NULL */
    void (*decode)(const struct tsa_call *call);
    void (*query)(const struct tsa_call *call);
    void (*softmax)(const struct tsa_call *call);
};
extern const struct tsa_engine tsa_engine_f32, tsa_engine_f64;

/* -- workspace.c -- */

/* False if the bytes do not fit. */
bool tsa_room_init(const struct tsa_plan *plan, struct tsa_room *room);
void tsa_slot_init(const struct tsa_plan *plan, struct tsa_slot *slot);
/* Chunks per wave for so many threads. */
size_t tsa_wave_slots(const struct tsa_plan *plan, size_t threads);
/* Fill room, slot, threads, slots and scratch of the call, from ws or by allocation;
 * tsa_call_end gives allocated scratch back. */
enum tsa_status tsa_call_begin(struct tsa_call *call, struct tsa_workspace *ws,
                               struct tsa_error *err);
void tsa_call_end(struct tsa_call *call, struct tsa_workspace *ws);

/* -- check.c -- */

enum tsa_status tsa_check_tensor(const struct tsa_tensor *x, const char *name, size_t batch,
                                 size_t heads, size_t tokens, size_t width, bool output,
                                 struct tsa_error *err);
/* All states fit and are distinct. */
enum tsa_status tsa_check_states(const struct tsa_call *call, struct tsa_error *err);
/* Finite inputs, no overflow of monomials; reads q, k and v once. */
enum tsa_status tsa_check_values(const struct tsa_call *call, struct tsa_error *err);

/* Address of row (b, h, t) of a tensor. */
static inline void *tsa_row(const struct tsa_tensor *x, size_t b, size_t h, size_t t)
{
    const ptrdiff_t offset =
        (ptrdiff_t)b * x->batch + (ptrdiff_t)h * x->head + (ptrdiff_t)t * x->token;
    return (char *)x->data + offset * (ptrdiff_t)(x->dtype == TSA_F64 ? 8 : 4);
}

#endif
