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
#define TSA_MAX_THREADS 65536

/* -- errors (status.c) -------------------------------------------------------------------- */

/* Fill *err (may be NULL) and return status. Positions start as -1; set them afterwards. */
enum tsa_status tsa_fail(struct tsa_error *err, enum tsa_status status, const char *argument,
                         const char *format, ...)
#if defined(__GNUC__)
    __attribute__((format(printf, 4, 5)))
#endif
    ;
enum tsa_status tsa_succeed(struct tsa_error *err);
/* The numbers behind the text of a failure; err may be NULL. */
void tsa_error_numbers(struct tsa_error *err, int64_t wanted, int64_t found);
/* x with `digits` significant digits and a point, whatever the locale; returns text. */
#define TSA_NUMBER_TEXT 32
const char *tsa_number_text(char text[TSA_NUMBER_TEXT], double x, int digits);

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
/* Keep degrees 1..stored in base[], 1 <= stored <= max(1, terms-2); init has chosen. */
void tsa_monomials_store(struct tsa_monomials *mono, size_t stored);
/* Elements of the suffix table, and its filling. */
size_t tsa_monomials_suffix_count(size_t d, size_t terms);
void tsa_monomials_fill_suffix(struct tsa_monomials *mono, size_t *suffix);
/* An index tuple i1 <= ... <= im, walked in lexicographic order; and the multiplicity
 * m!/prod(alpha_i!) of its monomial. */
struct tsa_tuple {
    size_t d, degree, index[TSA_MAX_TERMS];
};
void tsa_tuple_first(struct tsa_tuple *tuple, size_t d, size_t degree);
bool tsa_tuple_next(struct tsa_tuple *tuple); /* false after the last */
double tsa_tuple_multiplicity(const struct tsa_tuple *tuple);

/* -- memory (memory.c): the only caller of malloc and free ----------------------------------- */

struct tsa_allocator {
    void *(*allocate)(void *user, size_t bytes, size_t alignment);
    void (*release)(void *user, void *memory, size_t bytes);
    void *user;
};
/* Through the callbacks, or aligned memory of the C library; errno stays. */
void *tsa_allocate(const struct tsa_allocator *a, size_t bytes);
/* Zeros, which the C library leaves to the system where it can: then each page lies near the thread
 * that first writes it. Give *memory back, with the same bytes. */
void *tsa_allocate_zeroed(const struct tsa_allocator *a, size_t bytes, void **memory);
void tsa_release(const struct tsa_allocator *a, void *memory, size_t bytes);

/* -- states (state.c, state_copy.c) ------------------------------------------------------------ */

/* Where the parts of one kv head of one layer lie, in elements from the start of its section. */
struct tsa_layout {
    size_t features;
    size_t ldv, ldk; /* rows: value columns, and positions of the window, both padded */
    size_t high;     /* first feature that is also kept as pairs */
    size_t hi, lo, ones_hi, ones_lo, kt, v;
    /* [3][ldk] and [2], if the plan has gates, else 0: struct window says what of */
    size_t decay, past;
    /* hi and ones_hi of features high .. features-1, rounded to bf16 */
    size_t hi_pairs, ones_pairs;
    size_t section_elements; /* of all of this */
};

struct tsa_state_header { /* header of every state, then one tsa_layer_header per layer */
    char magic[8];
    uint32_t arithmetic, dtype, normalize, terms;
    uint64_t d, dv, kv_heads, layers;
    uint64_t chunk;  /* positions of the window */
    uint64_t bytes;  /* of the whole state */
    uint64_t unused; /* 0 */
    uint64_t mark;   /* used while a call looks for duplicates */
    uint64_t fold;   /* chunk of the plan that last wrote: open windows fold at this length */
    /* 0, or 1 + the lowest degree whose sums are also kept as pairs of bf16 */
    uint64_t pair_degree;
    uint64_t gate; /* enum tsa_gate */
    uint64_t reserved[2];
};
struct tsa_layer_header {
    uint64_t tokens; /* absorbed */
    uint64_t window; /* of these tokens, those in the open window */
};
extern const char tsa_state_magic[8];
/* In memory: header, layer headers padded to TSA_ALIGN, then a section per (layer, kv head). */
struct tsa_state {
    struct tsa_state_header header;
};

/* Valid sizes only: tsa_plan_create has refused the others by tsa_state_bytes_double. */
void tsa_layout_init(struct tsa_layout *l, size_t d, size_t dv, size_t terms, size_t chunk,
                     size_t elem, size_t pair_degree, bool gated);
/* The layout of a state that exists: its own chunk and terms, not those of a plan. */
void tsa_state_layout(const struct tsa_state *s, struct tsa_layout *l);
/* Bytes of a state in double, where no shape overflows; to judge a shape, not to allocate. */
enum tsa_state_parts { TSA_STATE_PAIRS = 1, TSA_STATE_GATES = 2 };
double tsa_state_bytes_double(size_t d, size_t dv, size_t terms, size_t chunk, size_t elem,
                              size_t kv_heads, size_t layers, unsigned parts);
/* The exact bytes, once the estimate is known to be within the limit. */
size_t tsa_state_bytes_exact(const struct tsa_layout *l, size_t elem, size_t kv_heads,
                             size_t layers);
/* Call it when the sums of a kv head have changed: rounds them anew to the pairs that the state
 * keeps beside them. Nothing to do for states without pairs. Share `part` of `parts` of them. */
void tsa_state_round(const struct tsa_plan *plan, const struct tsa_state *s, size_t layer,
                     size_t kv_head, size_t part, size_t parts);
#define TSA_MAX_STATE_BYTES ((size_t)PTRDIFF_MAX / 4)

/* First element of the section of one kv head of one layer; the parts lie as *l says. */
void *tsa_state_section(const struct tsa_state *s, const struct tsa_layout *l, size_t elem,
                        size_t layer, size_t kv_head);
struct tsa_layer_header *tsa_state_layer(const struct tsa_state *s, size_t layer);
/* Does the state fit the plan? TSA_EINVAL, TSA_EFORMAT or TSA_EMISMATCH if not. `argument` names
 * it, `sequence` is its index or TSA_NO_SEQUENCE. Whoever writes sets header.fold = plan->chunk. */
#define TSA_NO_SEQUENCE SIZE_MAX
enum tsa_status tsa_state_check(const struct tsa_plan *plan, const struct tsa_state *s,
                                bool writing, const char *argument, size_t sequence,
                                struct tsa_error *err);
/* The same for states[sequence] of a call that reads one layer, or writes *more tokens into it; the
 * counts of the others are not looked at. TSA_EOVERFLOW if the count does not hold more. */
enum tsa_status tsa_state_check_layer(const struct tsa_plan *plan, const struct tsa_state *s,
                                      size_t layer, const size_t *more, size_t sequence,
                                      struct tsa_error *err);
/* Can the state be overwritten whole? */
enum tsa_status tsa_state_check_replaced(const struct tsa_plan *plan, const struct tsa_state *s,
                                         const char *argument, struct tsa_error *err);
/* TSA_EINVAL if the plan has no such layer or kv head. */
enum tsa_status tsa_check_section(const struct tsa_plan *plan, size_t layer, size_t kv_head,
                                  struct tsa_error *err);
/* The parts of one section that count: sums of `features` features and w window tokens. */
void tsa_section_copy(size_t elem, size_t d, size_t features, size_t w, void *dst,
                      const struct tsa_layout *dl, const void *src, const struct tsa_layout *sl);

/* -- scratch of calls (workspace.c) ----------------------------------------------------------- */

/* Can calls with this plan, one of which needs `bytes`, use ws? TSA_EINVAL if not. NULL can be
 * used: calls allocate then. */
enum tsa_status tsa_workspace_check(const struct tsa_plan *plan, const struct tsa_workspace *ws,
                                    size_t bytes, struct tsa_error *err);
/* `bytes` of TSA_ALIGN-aligned scratch: those of ws, which was checked, or memory allocated for the
 * call if ws is NULL; NULL if there is none. Give it back with the same `bytes`. */
void *tsa_scratch_begin(const struct tsa_plan *plan, struct tsa_workspace *ws, size_t bytes);
void tsa_scratch_end(const struct tsa_plan *plan, struct tsa_workspace *ws, void *scratch,
                     size_t bytes);
/* What tsa_state_merge and tsa_state_export need; SIZE_MAX if it does not fit. */
size_t tsa_merge_scratch_bytes(const struct tsa_plan *plan);

/* -- scratch of one thread (scratch.c) --------------------------------------------------------- */

/* Keys of a segment of softmax: sums start afresh at positions that are multiples of this. Part of
 * the arithmetic. */
#define TSA_SEGMENT_KEYS 4096

/* How softmax lays out the same scratch. Offsets in elements of T. */
struct tsa_softmax_scratch {
    size_t queries,
        keys;       /* most queries of a range, and keys that are packed for it; whole tiles */
    size_t qt;      /* [queries / tile][d][tile], or [token rows][d] */
    size_t kt, v;   /* [keys / tile][d][tile], [keys][ldv] */
    size_t weights; /* [tile][tile], or the scratch of softmax_decode */
    size_t acc, max, den;                /* [queries][ldv], [queries] twice: sums so far */
    size_t part_acc, part_max, part_den; /* the same, of the segment under way */
    size_t shrink;                       /* [tile] */
    size_t rows;                         /* [tile][max(d, dv)]: rows of another dtype */
    size_t parts, part; /* [TSA_SOFTMAX_PARTS][part]: max, den, acc of token rows */
    size_t total;
};

/* The scratch of one thread: offsets of its parts, in elements of T. They depend on the plan
 * alone. */
struct tsa_scratch {
    size_t queries;         /* tokens that pass over the sums together, whole tiles */
    size_t heads;           /* query heads of one kv head that pass over them together */
    size_t keys;            /* a chunk in whole tiles */
    size_t ld_base, ld_psi; /* rows with lanes = monomials: base, decode's psi */
    /* Folding a window: */
    size_t psi;   /* [block][tile], pairs of it, or [token rows][ld_psi]: of keys or queries */
    size_t kbase; /* [keys / tile][1 + mono.rows][tile] */
    size_t local; /* [max(block, tile)][ldv]: sums of a chunk so far, or outputs of a tile */
    size_t transposed, vt, local_t; /* [tile][block] of phi, [keys / tile][dv][tile] of v,
                                   [ldv][block] of local: only if the plan transposes its updates */
    size_t ones;                    /* [block]: their ones column */
    size_t v_pairs; /* [keys / 2][ldv], or [keys / tile][dv][tile / 2] if transposed */
    /* Windows with gates, when they are folded: decay, in pairs too, and values times it */
    size_t decay_end, decay_pairs, gated_v;
    size_t fold; /* end of these; when states are merged, rows of blocks follow there */
    /* Queries: */
    size_t qbase;   /* [heads][queries / tile][1 + mono.rows][tile] or [token rows][ld_base]: packed
                       queries and their lower monomials */
    size_t acc;     /* [heads][queries][ldv], or [heads][queries / tile][dv][tile] if transposed */
    size_t den;     /* [heads][queries] */
    size_t weights; /* [chunk][TSA_TILE_TOKENS], or [token rows][chunk] for single tokens */
    size_t decay_pass, decay_run; /* [chunk]: of a window as outputs advance, before a pass, and
                                     for one head in it */
    size_t decay_sums;            /* [queries]: of the sums */
    size_t token_keys;            /* [token rows][d, padded] */
    size_t psi_pairs;             /* [token rows][ld_psi] */
    size_t hi_pairs, ones_pairs;  /* [block / 2][ldv], [block / 2] */
    size_t rows;                  /* [queries][max(d, dv)]: rows of another dtype */
    size_t block_rows;            /* elements of the sums of a block: hi, lo, ones_hi, ones_lo */
    struct tsa_softmax_scratch softmax;
    size_t total; /* elements */
};

/* The memory of one chunk of a wave: its local sums, which become the prefix before it, and its
 * window. Offsets in elements of T. */
struct tsa_wave_chunk {
    size_t sums, ones, kt, v, decay, past, total;
};

/* Fill scratch, wave_chunk, relay_chunk and large; false if the bytes do not fit in memory. */
bool tsa_scratch_init(struct tsa_plan *plan);

/* -- what a plan chooses (choices.c) and fills (constants.c) ----------------------------------- */

/* The chunk of a plan with these valid options; sequences of fewer tokens than tsa_direct_tokens()
 * are cheaper in one window, 0 if the shape is too large. */
size_t tsa_choose_chunk(const struct tsa_options *options);
size_t tsa_direct_tokens(const struct tsa_options *options);
/* lanes, transpose_query and transpose_update: which way round tiles lie. No part of the
 * arithmetic, since products commute. */
void tsa_choose_lanes(struct tsa_plan *plan);
/* compute, high, pair_kernels, pair_degree: which degrees have bf16 operands. */
void tsa_choose_compute(struct tsa_plan *plan, const struct tsa_options *options);
/* block and low_block. */
void tsa_choose_blocks(struct tsa_plan *plan);

/* Features f0 .. f1-1. */
struct tsa_range {
    size_t f0, f1;
};
/* Blocks of features. None has features on both sides of plan->high. */
size_t tsa_block_count(const struct tsa_plan *plan);
struct tsa_range tsa_block_at(const struct tsa_plan *plan, size_t index);

/* (sphere.c) Coefficients of x^m, m < terms, that fit exp(x), x = t/a, with the least mean square
 * error over dot products t of random unit vectors. a >= TSA_LEAST_SPHERE_TEMPERATURE. */
#define TSA_LEAST_SPHERE_TEMPERATURE 0.01
void tsa_sphere_coefficients(size_t d, size_t terms, double a, double *coefficients);

/* temperature, coef_double, scale, coef, weight, and what follows from them. */
enum tsa_status tsa_fill_constants(struct tsa_plan *plan, const struct tsa_options *options,
                                   struct tsa_error *err);

/* -- plan (plan.c) --------------------------------------------------------------------------- */

/* How the team works on items: as is best, or on each long one together, in one way. */
enum tsa_team_use { TSA_TEAM_AUTO, TSA_TEAM_RELAY, TSA_TEAM_WAVES };

struct tsa_plan {
    size_t d, dv, terms, heads, kv_heads, group, layers, chunk;
    enum tsa_dtype dtype;
    enum tsa_normalize normalize;
    enum tsa_gate gate;
    size_t softmax_window; /* keys that a query of tsa_softmax sees, or 0: all */
    unsigned flags;
    int threads;
    const char *threads_reason;
    bool crowded; /* more threads than OpenMP has processors: waiting for one another is dear */
    const struct tsa_isa *isa;
    struct tsa_monomials mono;
    size_t elem;              /* bytes of T */
    struct tsa_layout layout; /* of a state of this plan */
    size_t state_bytes;
    struct tsa_scratch scratch;
    struct tsa_wave_chunk wave_chunk;
    size_t relay_chunk;       /* elements for the accumulators of a chunk's queries; 0: too many */
    size_t lanes;             /* of T in a vector */
    bool transpose_query;     /* tiles over the sums have lanes = tokens, not value columns */
    bool transpose_update;    /* tiles of their update have lanes = features */
    bool large;               /* sums that do not stay in L2 */
    size_t block;             /* most features of a block from `high` on, and of any block */
    size_t low_block;         /* most features of a block below `high` */
    enum tsa_compute compute; /* what runs: not TSA_COMPUTE_FASTEST */
    size_t high; /* first feature whose products have bf16 operands; mono.total: none has */
    const struct tsa_pair_kernels_f32 *pair_kernels; /* for these products */
    uint64_t pair_degree;       /* what states of this plan have in header.pair_degree */
    enum tsa_team_use team_use; /* TSA_TEAM_AUTO, except in tests */
    size_t wave_length;         /* chunks of a wave, or 0: as many as are good */
    size_t coef_sets;           /* 1 or heads */
    double *temperature;        /* [heads] */
    double *coef_double;        /* [coef_sets][terms] */
    void *scale;                /* T [heads]: (T)(1/a) */
    void *coef;                 /* T [coef_sets][terms] */
    void *weight;               /* T [coef_sets][F]: (T)(c_m * multiplicity) */
    double weight_max;          /* largest |weight| */
    bool unit_weights; /* two terms, weights of degree 1 are 1: packed queries are their psi */
    double scale_max;  /* largest 1/a */
    bool finishes;     /* outputs are not just numerators over denominators */
    struct TSA_ARGS_F32(finish) finish_f32;
    struct TSA_ARGS_F64(finish) finish_f64;
    double output_scale;
    struct tsa_allocator allocator;
    void (*execute)(void *user, size_t count, void (*function)(void *argument, size_t index),
                    void *argument); /* or NULL: OpenMP */
    void *execute_user;
    size_t bytes; /* of this allocation */
};

/* -- what runs where (cpu.c, threads.c; team.h) ------------------------------------------------ */

/* Built instruction sets, best first; NULL past the end. */
const struct tsa_isa *tsa_isa_at(size_t i);
bool tsa_isa_usable(const struct tsa_isa *isa);
/* Has the CPU fused multiply-add? Of x86; true elsewhere. */
bool tsa_cpu_has_fma(void);
/* The pair kernels for plans of a usable instruction set; and those for which the CPU has
 * instructions, or NULL. */
const struct tsa_pair_kernels_f32 *tsa_pair_kernels_for(const struct tsa_isa *isa);
const struct tsa_pair_kernels_f32 *tsa_hardware_pair_kernels(const struct tsa_isa *isa);
/* NULL name: $TSA_ISA, else the best usable. */
enum tsa_status tsa_isa_find(const char *name, const struct tsa_isa **isa, struct tsa_error *err);

#endif
