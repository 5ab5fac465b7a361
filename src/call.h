/* SPDX-License-Identifier: MIT */
/* A checked call on its way to an engine, and the scratch it runs in. */
#ifndef TSA_CALL_H
#define TSA_CALL_H

#include "internal.h"
#include "team.h"
#include "tuning.h"

/* A newer caller's struct tsa_batch is longer than ours; none will be longer than this. */
#define TSA_MOST_BATCH_BYTES ((size_t)4096)

enum tsa_operation { TSA_PREFILL, TSA_DECODE, TSA_ABSORB, TSA_QUERY, TSA_SOFTMAX };

struct tsa_call {
    enum tsa_operation operation;
    const struct tsa_plan *plan;
    struct tsa_state *const *states; /* which only operations that write may change */
    size_t batch, layer;
    size_t tokens;          /* of k and v of each sequence, or queries; the most of a ragged call */
    const int64_t *offsets; /* of packed sequences, */
    const int64_t *lengths; /* or lengths of padded ones; not both */
    const int64_t *slots;   /* indices into states and batches, or NULL */
    size_t keys, first_key; /* softmax: keys, behind so many that no query sees */
    int causal;             /* softmax */
    const struct tsa_tensor *q, *k, *v, *o;     /* NULL where the operation has none */
    const struct tsa_tensor *gate, *value_gate; /* NULL where the plan has no gates */
    struct tsa_team team;
    size_t together;       /* elements of scratch for items on which the whole team works */
    size_t *order, *loads; /* [TSA_LONG_ITEMS x threads], [threads]: scratch of the schedule */
    char *scratch;         /* scratch of threads, then `together` elements */
    const void *work;      /* what the tasks of one phase share */
};
static inline bool tsa_call_has_queries(const struct tsa_call *call)
{
    return call->operation != TSA_ABSORB;
}
static inline bool tsa_call_has_keys(const struct tsa_call *call)
{
    return call->operation != TSA_QUERY;
}
static inline bool tsa_call_writes_states(const struct tsa_call *call)
{
    return call->operation < TSA_QUERY;
}
/* Sequence b of the call: its state, its place in the tensors, its tokens. */
static inline size_t tsa_call_slot(const struct tsa_call *call, size_t b)
{
    return call->slots ? (size_t)call->slots[b] : b;
}
static inline size_t tsa_call_batch(const struct tsa_call *call, size_t b)
{
    return call->offsets ? 0 : tsa_call_slot(call, b);
}
static inline size_t tsa_call_first(const struct tsa_call *call, size_t b)
{
    return call->offsets ? (size_t)call->offsets[b] : 0;
}
static inline size_t tsa_call_tokens(const struct tsa_call *call, size_t b)
{
    if (call->offsets)
        return (size_t)(call->offsets[b + 1] - call->offsets[b]);
    return call->lengths ? (size_t)call->lengths[b] : call->tokens;
}

/* One kv head of one layer of a state. */
struct tsa_section {
    void *data;
    struct tsa_layout layout;
    size_t window; /* tokens in its open window */
};
/* Rows of sums: features that follow one another, in rows of layout.ldv elements. */
struct tsa_rows {
    void *hi, *lo, *ones_hi, *ones_lo;
};

/* What an arithmetic type brings. */
struct tsa_engine {
    void (*prefill)(const struct tsa_call *call); /* also decode and absorb */
    void (*query)(const struct tsa_call *call);
    void (*softmax)(const struct tsa_call *call);
    /* Prepare the open window of a section in scratch; then fold it into rows of features f, at
     * most plan->block of them. */
    void (*open_window)(const struct tsa_plan *plan, const struct tsa_section *s, void *scratch);
    void (*fold_open_window)(const struct tsa_plan *plan, const struct tsa_section *s,
                             const struct tsa_rows *rows, struct tsa_range f, void *scratch);
    /* Of plans with gates, before merge_rows: rows of a section, and then its window, forget by the
     * gates of a later one. */
    void (*decay_rows)(const struct tsa_plan *plan, size_t count, const struct tsa_rows *rows,
                       const struct tsa_section *s, const struct tsa_section *later);
    void (*merge_gates)(const struct tsa_plan *plan, const struct tsa_section *s,
                        const struct tsa_section *later);
    /* to += from, which may be the same. */
    void (*merge_rows)(const struct tsa_plan *plan, size_t count, const struct tsa_rows *to,
                       const struct tsa_rows *from);
    /* Rows of sums as doubles: dv values and the ones column, times the square root of the
     * multiplicity if tuple, which moves on, is not NULL. */
    void (*export_rows)(const struct tsa_plan *plan, size_t count, const struct tsa_rows *rows,
                        struct tsa_tuple *tuple, double *out, ptrdiff_t stride);
};
extern const struct tsa_engine tsa_engine_f32, tsa_engine_f64;
static inline const struct tsa_engine *tsa_engine_of(const struct tsa_plan *plan)
{
    return plan->dtype == TSA_F64 ? &tsa_engine_f64 : &tsa_engine_f32;
}

/* Run tasks of TSA_TASK_SEQUENCES sequences each, with the team if there are many. */
static inline void tsa_run_sequences(const struct tsa_call *call, tsa_task task,
                                     const void *argument)
{
    const size_t tasks = (call->batch + TSA_TASK_SEQUENCES - 1) / TSA_TASK_SEQUENCES;
    struct tsa_team team = call->team;
    if (tasks < 4)
        team.threads = 1;
    tsa_team_run(&team, 0, tasks, task, argument);
}

/* -- workspace.c -- */

/* Fill team, together and scratch of the call, from ws (then with its threads at most) or by
 * allocation; tsa_call_end gives allocated scratch back. */
enum tsa_status tsa_call_begin(struct tsa_call *call, struct tsa_workspace *ws,
                               struct tsa_error *err);
void tsa_call_end(struct tsa_call *call, struct tsa_workspace *ws);

/* -- check.c -- */

/* The order of all checks is at the top of check.c. */
enum tsa_status tsa_check_batch(enum tsa_operation operation, const struct tsa_plan *plan,
                                const struct tsa_batch *batch, struct tsa_error *err);
/* Sequences, tensors and their overlap; fills call->tokens of a ragged call. */
enum tsa_status tsa_check_shapes(struct tsa_call *call, struct tsa_error *err);
/* All states fit, are distinct if they are written, and have tokens if they are only read. Uses the
 * call's team. */
enum tsa_status tsa_check_states(const struct tsa_call *call, struct tsa_error *err);

/* -- check_values.c -- */

/* Finite inputs, no overflow of monomials; reads q, k and v once, with the call's team. */
enum tsa_status tsa_check_values(const struct tsa_call *call, struct tsa_error *err);

static inline size_t tsa_dtype_bytes(enum tsa_dtype dtype)
{
    return dtype == TSA_F64 ? 8 : dtype == TSA_F32 ? 4 : 2;
}
static inline bool tsa_is_half(enum tsa_dtype dtype)
{
    return dtype == TSA_BF16 || dtype == TSA_F16;
}
/* Address of row (b, h, t) of a tensor. */
static inline void *tsa_row(const struct tsa_tensor *x, size_t b, size_t h, size_t t)
{
    const ptrdiff_t offset =
        (ptrdiff_t)b * x->batch + (ptrdiff_t)h * x->head + (ptrdiff_t)t * x->token;
    return (char *)x->data + offset * (ptrdiff_t)tsa_dtype_bytes(x->dtype);
}

#endif
