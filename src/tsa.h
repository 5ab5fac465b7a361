/* SPDX-License-Identifier: MIT */
/** \file tsa.h
 *  Taylor-state attention on CPUs: the whole public interface of libtsa.
 *
 *  Symbols, used by every comment below (doc/math.md has the derivation):
 *
 *      d   head_dim    width of a query or key          n   terms (degrees 0..n-1)
 *      dv  value_dim   width of a value                 a   temperature
 *      C   chunk       tokens per fold of the window    B   batch, number of sequences
 *      H   heads       query heads                      G   kv_heads, key/value heads; G divides H
 *      F   features    sum over m < n of binom(d+m-1, m)
 *
 *      o_t = sum_{i<=t} p(q_t.k_i/a) v_i / sum_{i<=t} p(q_t.k_i/a),   p(x) = sum_{m<n} c_m x^m
 *
 *  with c_m = 1/m! unless coefficients are given: softmax attention whose exponential is cut
 *  after n terms (arXiv 2610.20637, equations 2 to 7). The history of a sequence is a state of
 *  F x (dv+1) sums per kv head, whatever its length. Query head h reads kv head h / (H/G).
 *
 *  Every output has one defined sequence of IEEE operations (doc/math.md, "The arithmetic"):
 *  threads, batch composition, the cutting of a sequence into calls, head grouping and the
 *  instruction set never change a bit of it, nor of a state. The exceptions, all
 *  between CPUs: mixed plans, where sums of rounded products pass below 2^-126 (doc/accuracy.md);
 *  TSA_COMPUTE_FASTEST, which may choose differently; tsa_softmax() with scores that are not
 *  bounded, on x86 without FMA, whose exponential is another; and, with TSA_SKIP_INPUT_CHECK, sign
 *  and payload of NaNs inside a state.
 *
 *  Conventions. Functions that can fail return enum tsa_status, and describe the failure in
 *  *err when err is not NULL; after a failure neither states nor outputs have changed. The
 *  library never prints, exits or aborts, and leaves errno, locale, signals and the caller's
 *  floating-point mode as they were. Sizes are counts of elements unless named bytes.
 *
 *  Threads. "Thread-safe" below: any number of threads at once, as long as nobody changes what the
 *  arguments point to, and the plan's allocator callbacks, if it has any, are thread-safe too.
 *  Plans are immutable and may be shared. A state may be read by several calls at once while none
 *  writes it; a workspace serves one call at a time. Beside these objects the library keeps only
 *  what doc/threads.md lists: which states lie in its memory, whether the process was forked, how
 *  many threads each calling thread was granted. None of it changes a result.
 */
#ifndef TSA_H
#define TSA_H

#include <stddef.h>
#include <stdint.h>

#if defined(_WIN32) || defined(__CYGWIN__)
#define TSA_API
#elif defined(__GNUC__)
#define TSA_API __attribute__((visibility("default")))
#else
#define TSA_API
#endif
#if defined(__GNUC__)
#define TSA_MUST_CHECK __attribute__((warn_unused_result))
#else
#define TSA_MUST_CHECK
#endif

#ifdef __cplusplus
extern "C" {
#endif

/** The version of this header; tsa_version() is that of the library. */
#define TSA_VERSION_MAJOR 0
#define TSA_VERSION_MINOR 1
#define TSA_VERSION_PATCH 0

/** The largest number of Taylor terms. */
#define TSA_MAX_TERMS 8
/** The largest chunk. */
#define TSA_MAX_CHUNK ((size_t)1 << 20)

/** What a call came to. 0 is success, errors are negative. */
enum tsa_status {
    TSA_OK = 0,
    TSA_EINVAL = -1,       /**< an argument is NULL, zero, out of range or contradicts another */
    TSA_ENOMEM = -2,       /**< memory was refused, or the memory given is too small */
    TSA_EOVERFLOW = -3,    /**< a size does not fit, or monomials of a token could overflow */
    TSA_EUNSUPPORTED = -4, /**< known, but not by this build, version or CPU */
    TSA_ENONFINITE = -5,   /**< an input holds an infinity, a NaN, or what f32 cannot hold */
    TSA_EFORMAT = -6,      /**< the memory given as a state is not one */
    TSA_EMISMATCH = -7,    /**< a state does not fit the plan */
    TSA_EIO = -8           /**< reserved for state files: no call of this version returns it */
};

/** Element types. Plans compute in TSA_F32 or TSA_F64; each tensor of a call may hold any type. An
 *  input is converted to the type of the plan, which holds every f32, bf16 and f16 exactly. An
 *  output is rounded once from the type of the plan, to nearest, ties to even: what is too small to
 *  be normal becomes subnormal, what is too large infinite, and a NaN the canonical quiet one. */
enum tsa_dtype {
    TSA_F32 = 1,
    TSA_F64 = 2,
    TSA_BF16 = 3, /**< tensors only: the upper half of an f32; NaN is 0x7fc0 */
    TSA_F16 = 4   /**< tensors only: IEEE binary16; NaN is 0x7e00 */
};

/** What is done to each row of q and k before use. */
enum tsa_normalize {
    TSA_NORMALIZE_L2 = 1,  /**< divide by the Euclidean norm; a zero row stays zero */
    TSA_NORMALIZE_NONE = 2 /**< take it as it is; the series then needs small |q.k|/a */
};

/** Bases in which a state can be exported. */
enum tsa_basis {
    TSA_BASIS_PLAIN = 1,    /**< sums of plain monomials k^alpha, as stored */
    TSA_BASIS_SYMMETRIC = 2 /**< times sqrt(multiplicity), the paper's section 3.4: inner
                                 products of two such vectors are (q.k)^m */
};

/** How the products of features and sums are computed. */
enum tsa_compute {
    TSA_COMPUTE_EXACT = 0,  /**< in the plan's dtype, all of them */
    TSA_COMPUTE_MIXED = 1,  /**< degrees from exact_degrees on from bf16 operands, added in f32;
                                lower degrees, the window and the sums themselves in f32. Degree m
                                weighs c_m x^m: this costs little where |q.k|/a is below 1, and
                                must not be used where it is large (doc/accuracy.md) */
    TSA_COMPUTE_FASTEST = 2 /**< mixed where that is faster on this machine for this shape, else
                                 f32: tsa_plan_compute() tells. Two machines may then differ, in
                                 bits and in tsa_state_bytes() */
};

/** Where the coefficients of p(x) come from, unless they are given. */
enum tsa_series {
    TSA_COEFFICIENTS_TAYLOR = 0, /**< 1/m!, those of the exponential's series */
    TSA_COEFFICIENTS_SPHERE = 1  /**< for each temperature those with the least mean square error
                                      of p(q.k/a) where q and k are unit vectors in random
                                      directions: two to five times nearer to softmax there, from
                                      the same state (doc/math.md). They want normalize l2 and
                                      temperatures of 0.01 or more */
};

/** Factors by which a state forgets (doc/math.md, "Gates"). */
enum tsa_gate {
    TSA_GATE_NONE = 0, /**< nothing is forgotten */
    TSA_GATE_SCALAR =
        1 /**< S_t = g_t S_(t-1) + i_t phi(k_t) (x) [v_t ; 1]: one factor g_t in [0, 1]
                             for each token and kv head, batch.gate; and, if batch.value_gate is
                             given, a second one i_t >= 0, else i_t = 1 */
};

/** What a row of outputs is. */
enum tsa_output {
    TSA_OUTPUT_RATIO = 0, /**< weighted values over the sum of the weights: attention */
    TSA_OUTPUT_SUM = 1    /**< the weighted values, not divided: linear recurrences */
};

/** Flags of struct tsa_options. */
enum tsa_flags {
    TSA_SKIP_INPUT_CHECK = 1, /**< do not look for non-finite or overflowing inputs; infinities
                                   and NaNs then propagate as IEEE arithmetic says */
    TSA_UNIT_KEYS = 2 /**< tsa_softmax takes the rows of k as they are, which are of length 1: those
                           of a cache that were normalised as they came. Queries are normalised
                           still. Longer rows have no meaning */
};

/** Where and why a call failed. Fields that do not apply are -1 (positions) or 0. */
struct tsa_error {
    enum tsa_status status;
    const char *argument; /**< name of the argument or option; a string constant, "" if none */
    ptrdiff_t sequence, head, token, column;
    int64_t wanted, found; /**< numbers behind the text, where there are any */
    char text[240];        /**< one line for a person, no newline */
};

struct tsa_plan;
struct tsa_state;
struct tsa_workspace;

/** Strided view of a batch of rows: element (b, h, t, c) lies at
 *  data + b*batch + h*head + t*token + c, strides counted in elements; the last dimension is
 *  contiguous. Any alignment. Input strides may be 0 or negative. Outputs whose rows can
 *  overlap are refused. Zero the struct before filling it. */
struct tsa_tensor {
    union {
        void *data;
        const void *input; /**< the same pointer, for inputs that are const */
    };
    enum tsa_dtype dtype;
    ptrdiff_t batch, head, token;
    size_t width;          /**< elements of a row, or 0: not stated; not the plan's: refused */
    ptrdiff_t reserved[3]; /**< must be 0 */
};

/** What a call works on: states, and the tensors with their tokens. Fill it with tsa_batch_init(),
 *  or set `size` and leave what is not needed zero. A call ignores tensors that it does not use. */
struct tsa_batch {
    size_t size;                     /**< sizeof(struct tsa_batch) of the caller */
    struct tsa_state *const *states; /**< `count` states, or those that `slots` picks from */
    size_t count;                    /**< sequences of this call */
    size_t layer;                    /**< of each state; default 0 */
    size_t tokens;          /**< of each sequence; with `lengths` the most, with `offsets` unused */
    const int64_t *offsets; /**< NULL, or packed sequences: count+1 row numbers */
    const int64_t *lengths; /**< NULL, or padded sequences: count numbers of tokens */
    const int64_t *slots;   /**< NULL, or which states and batch indices: count numbers */
    struct tsa_tensor q, k, v, o;
    /** Of a plan with gates, [count][kv_heads][tokens], one number each, TSA_F32 or TSA_F64; `gate`
     *  is then needed wherever k is. Other plans want data NULL. */
    struct tsa_tensor gate, value_gate;
    void *reserved[4]; /**< must be NULL */
};

/** Set every field to 0 or NULL, but `size`, which is sizeof(struct tsa_batch). Fields of a newer
 *  version than the library's are accepted as long as they are 0. TSA_EINVAL for NULL and for what
 *  can be no such size. Thread-safe. */
TSA_API enum tsa_status tsa_batch_init(struct tsa_batch *batch, size_t size);

/** What a plan is made from. Fill it with tsa_options_init(), then change fields. */
struct tsa_options {
    size_t size;      /**< sizeof(struct tsa_options) of the caller, set by tsa_options_init */
    size_t head_dim;  /**< d >= 1; must be set */
    size_t value_dim; /**< dv >= 1; must be set */
    size_t terms;     /**< n, 1..8; default 3 */
    size_t heads;     /**< H >= 1; default 1 */
    size_t kv_heads;  /**< G >= 1, divides H; 0 (default) means H */
    size_t layers;    /**< independent blocks in one state, >= 1; default 1 */
    size_t chunk;     /**< C, 1..2^20; 0 (default) lets the shape decide. Part of the arithmetic */
    enum tsa_dtype dtype;         /**< TSA_F32 (default) or TSA_F64: arithmetic and state */
    enum tsa_normalize normalize; /**< default TSA_NORMALIZE_L2 */
    double temperature;           /**< a > 0; default 2 */
    const double *temperatures;   /**< H temperatures, one per query head, or NULL */
    const double *coefficients;   /**< c_0..c_{n-1} of x^m, x = q.k/a, or NULL for 1/m! */
    int coefficients_per_head;    /**< nonzero: coefficients holds H rows of n */
    int threads;                  /**< 1..65536, or 0 (default): tsa_default_threads() */
    unsigned flags;               /**< enum tsa_flags */
    const char *isa;              /**< instruction set by name, or NULL: $TSA_ISA, else the best */
    void *(*allocate)(void *user, size_t bytes, size_t alignment); /**< both or neither */
    void (*release)(void *user, void *memory, size_t bytes);
    void *allocator_user;
    /** Run function(argument, i) once for every i below count, on any threads, any of them at the
     *  same time, and return when all have ended. Calls then run on the caller's own threads; NULL
     *  (default) means OpenMP. count is the number of threads that a call uses, at most `threads`.
     *  It has to be usable wherever calls are made, also in several calls at once. The bits are the
     *  same. */
    void (*execute)(void *user, size_t count, void (*function)(void *argument, size_t index),
                    void *argument);
    void *execute_user;
    /** Tokens of the longest sequence, or 0 (default): unknown. Where chunk is 0 and so short a
     *  sequence is cheaper without folding (`tsa size` prints up to where, at most 8,192), the
     *  chunk becomes longer than it: the direct form. A longer sequence is right too. The window
     *  of a state grows. */
    size_t max_tokens;
    /** Default TSA_COMPUTE_EXACT. TSA_COMPUTE_MIXED wants dtype TSA_F32 and an even chunk, for any
     *  exact_degrees. */
    enum tsa_compute compute;
    /** Degrees 0 .. exact_degrees-1 stay in f32 whatever `compute` says: 0..8, default 2. */
    unsigned exact_degrees;
    void *reserved[4]; /**< must be NULL */
    /* Since version 0.2: */
    enum tsa_gate gate;     /**< default TSA_GATE_NONE */
    enum tsa_output output; /**< default TSA_OUTPUT_RATIO */
    double output_scale;    /**< what outputs are multiplied with, finite; default 1 */
    /** The denominator den of an output becomes den + denominator_add unless that is 0 (default),
     *  then max(|den|, denominator_floor) unless that is 0 (default). Finite, the floor not
     *  negative; both are refused with TSA_OUTPUT_SUM, which does not divide. */
    double denominator_add, denominator_floor;
    /** Keys that a query of tsa_softmax sees: its own position's and those before it, so many in
     *  all; 0 (default): all of them. Wants causal calls. */
    size_t softmax_window;
    enum tsa_series series; /**< default TSA_COEFFICIENTS_TAYLOR; not beside `coefficients` */
};

/** Set every option to its default. `size` is sizeof(struct tsa_options) of the caller.
 *  TSA_EINVAL for NULL and for what is the size of no version. An older version's struct ends
 *  earlier, and what it lacks has its default; a later one may append whole fields, which have to
 *  stay 0 for this library. Thread-safe. */
TSA_API enum tsa_status tsa_options_init(struct tsa_options *options, size_t size);

/** Check the options and make a plan. Arrays in `options` are copied. After a failure *plan is
 *  NULL. TSA_EINVAL, TSA_EOVERFLOW (a state beyond PTRDIFF_MAX/4 bytes, or a plan whose bytes do
 *  not fit in size_t; the message has the count), TSA_EUNSUPPORTED (dtype, isa), TSA_ENOMEM.
 *  Thread-safe; reads $TSA_ISA when `isa` is NULL, so not beside a setenv() then. */
TSA_API enum tsa_status tsa_plan_create(const struct tsa_options *options, struct tsa_plan **plan,
                                        struct tsa_error *err) TSA_MUST_CHECK;

/** Free a plan; NULL is allowed. States and workspaces may outlive it. No call may be using it. */
TSA_API void tsa_plan_destroy(struct tsa_plan *plan);

/** Write a description (shape, chunk, instruction set, threads, state and scratch bytes; for a
 *  mixed plan, how products of bf16 are computed, and whether that is no faster than f32) of at
 *  most `size` bytes with its terminating zero, one `name: value` per line.
 *  Returns the length of the whole text, like snprintf; 0 for a NULL plan. Thread-safe. */
TSA_API size_t tsa_plan_describe(const struct tsa_plan *plan, char *text, size_t size);

/** The chunk C that the plan uses; 0 for NULL. Thread-safe. */
TSA_API size_t tsa_plan_chunk(const struct tsa_plan *plan);
/** The instruction set that the plan uses: a string constant such as "avx512", "" for NULL.
 *  Thread-safe. */
TSA_API const char *tsa_plan_isa(const struct tsa_plan *plan);
/** TSA_COMPUTE_MIXED if some products of the plan have bf16 operands, else TSA_COMPUTE_EXACT; that
 *  for NULL. Thread-safe. */
TSA_API enum tsa_compute tsa_plan_compute(const struct tsa_plan *plan);
/** The degrees 0 .. m-1 that the plan computes in its dtype: m = terms without bf16 operands; 0 for
 *  NULL. Thread-safe. */
TSA_API unsigned tsa_plan_exact_degrees(const struct tsa_plan *plan);
/** Write the coefficients c_0 .. c_(terms-1) of a query head, whose temperature belongs to them.
 *  TSA_EINVAL (NULL, head out of range). Thread-safe. */
TSA_API enum tsa_status tsa_plan_coefficients(const struct tsa_plan *plan, size_t head,
                                              double *coefficients, struct tsa_error *err);
/** The number of threads that calls will ask for; 0 for NULL. Thread-safe. */
TSA_API int tsa_plan_threads(const struct tsa_plan *plan);

/* -- states ------------------------------------------------------------------------------- */

/* Which states fit a plan. NULL and what is not 64-byte aligned is TSA_EINVAL, memory that is not a
 * state TSA_EFORMAT, and a state that does not fit TSA_EMISMATCH. Memory is a state if its header
 * and the counts of its layers could have been written by the library: calls with any other neither
 * read nor write outside of it. A layer counts up to 2^64 - 1 tokens; more are TSA_EOVERFLOW.
 * head_dim, value_dim, kv_heads, layers, dtype, normalize and the version of the arithmetic must be
 * those of the plan; and
 *
 *    to be read      the state has at least the plan's terms, and no window that is open in any
 *                    layer was begun under another chunk
 *    to be written   it has exactly the plan's terms, was made with at least the plan's chunk (a
 *                    smaller one has no room for the window), and no window is open under another
 *    to be replaced  (tsa_state_reset, dst of tsa_state_copy) as to be written, but windows may be
 *                    open under any chunk
 *
 * Between chunks, when all windows are empty, plans of different chunks may take turns. */

/** Bytes of a state that this plan makes: (Hi, Lo) sums of all layers and kv heads, and windows; of
 *  a mixed plan also the rounded sums. 0 for NULL. Thread-safe. */
TSA_API size_t tsa_state_bytes(const struct tsa_plan *plan);

/** Bytes of a state that exists: tsa_state_bytes() of the plan that made it, which need not be that
 *  of another plan that it fits. 0 for NULL. Not checked: what is not a state has no meaning.
 *  Thread-safe. */
TSA_API size_t tsa_state_size(const struct tsa_state *state);

/** Make an empty state in library memory. After a failure *state is NULL.
 *  TSA_EINVAL (NULL), TSA_ENOMEM. Thread-safe. */
TSA_API enum tsa_status tsa_state_create(const struct tsa_plan *plan, struct tsa_state **state,
                                         struct tsa_error *err) TSA_MUST_CHECK;

/** Make an empty state in caller memory: 64-byte aligned, at least tsa_state_bytes(plan).
 *  The state is position-independent: it may be moved by memcpy of tsa_state_size(state) bytes
 *  (here tsa_state_bytes(plan)) to any 64-byte aligned place, and used there through a pointer to
 *  its first byte. After a failure *state is NULL. TSA_EINVAL (NULL, alignment), TSA_ENOMEM (too
 *  few bytes). Thread-safe for distinct memory. */
TSA_API enum tsa_status tsa_state_init(const struct tsa_plan *plan, void *memory, size_t bytes,
                                       struct tsa_state **state,
                                       struct tsa_error *err) TSA_MUST_CHECK;

/** Free a state in library memory; does nothing for caller memory or NULL, whatever bytes lie
 *  there: states of either kind may be copied over one another by memcpy. No call may be using the
 *  state. */
TSA_API void tsa_state_destroy(struct tsa_state *state);

/** Forget all tokens, in all layers. Replaces the state.
 *  TSA_EINVAL, TSA_EFORMAT, TSA_EMISMATCH. Thread-safe for distinct states. */
TSA_API enum tsa_status tsa_state_reset(const struct tsa_plan *plan, struct tsa_state *state,
                                        struct tsa_error *err);

/** dst becomes an independent copy (a fork) of src. Replaces dst, reads src; dst == src changes
 *  nothing. TSA_EINVAL, TSA_EFORMAT, TSA_EMISMATCH. Thread-safe for distinct dst. */
TSA_API enum tsa_status tsa_state_copy(const struct tsa_plan *plan, struct tsa_state *dst,
                                       const struct tsa_state *src, struct tsa_error *err);

/** Tokens absorbed by a layer; 0 for NULL or a layer out of range. Only tsa_state_size() bytes are
 *  read; of what is not a state the number has no meaning. Thread-safe. */
TSA_API uint64_t tsa_state_tokens(const struct tsa_state *state, size_t layer);

/** Tokens of a layer that wait in the open window, less than C; else as tsa_state_tokens(). */
TSA_API size_t tsa_state_window(const struct tsa_state *state, size_t layer);

/** *equal = 1 if both states hold the same bits (sums of the plan's terms, windows, counts), else
 *  0. Reads both; *equal stays after a failure. TSA_EINVAL, TSA_EFORMAT, TSA_EMISMATCH.
 *  Thread-safe. */
TSA_API enum tsa_status tsa_state_equal(const struct tsa_plan *plan, const struct tsa_state *a,
                                        const struct tsa_state *b, int *equal,
                                        struct tsa_error *err);

/** dst absorbs the history of src, as if src's tokens had come to it as well: src's window is
 *  folded as one short chunk into a copy of src's sums, which are added to dst's in
 *  double-float arithmetic; dst's own window stays open; counts add up. An empty src changes
 *  nothing; an empty dst becomes an exact copy. src is not modified; dst == src doubles it. With
 *  gates, dst has the earlier tokens: its sums and its window are first multiplied by the product
 *  of all gates of src.
 *  Writes dst, reads src. ws may be NULL, or is one that tsa_absorb() would take and that has room
 *  for a merge of this plan, as every workspace made for it has.
 *  TSA_EINVAL (also ws), TSA_EFORMAT, TSA_EMISMATCH, TSA_EOVERFLOW (2^64 tokens or more),
 *  TSA_ENOMEM (argument ws: scratch for this call). Thread-safe for distinct dst and ws. */
TSA_API enum tsa_status tsa_state_merge(const struct tsa_plan *plan, struct tsa_state *dst,
                                        const struct tsa_state *src, struct tsa_workspace *ws,
                                        struct tsa_error *err);

/** dst becomes what `count` states have absorbed together: a balanced binary tree of
 *  tsa_state_merge() over their number, in this order (0 with 1, 2 with 3, ..., an odd last one
 *  passes; then the results likewise), so that each sum passes through log2(count) additions, where
 *  merging one after the other takes count (states are additive: paper section 3.5). Empty states
 *  change nothing. The windows of all but the first that is not empty are folded; that one's stays
 *  open. Replaces dst, which may be one of the states; reads the others, which may repeat. Parallel
 *  over layers, kv heads and features, except with gates; allocates scratch. count = 0 is
 *  TSA_EINVAL. After a failure dst is as it was. TSA_EINVAL, TSA_EFORMAT, TSA_EMISMATCH,
 *  TSA_EOVERFLOW (2^64 tokens or more), TSA_ENOMEM (argument ws). Thread-safe for distinct dst. */
TSA_API enum tsa_status tsa_state_reduce(const struct tsa_plan *plan, struct tsa_state *dst,
                                         const struct tsa_state *const *states, size_t count,
                                         struct tsa_error *err) TSA_MUST_CHECK;

/** Read-only look at the sums of one kv head. Valid until the state changes or moves. */
struct tsa_view {
    enum tsa_dtype dtype;
    size_t features, value_dim;    /**< F rows of dv columns */
    ptrdiff_t stride;              /**< elements from one row to the next */
    const void *hi, *lo;           /**< sum = hi + lo; row f is feature f, ascending degree */
    const void *ones_hi, *ones_lo; /**< the column of ones: F numbers, stride 1 */
    uint64_t tokens;               /**< tokens in the sums; the window is not */
    double decay; /**< of a plan with gates: what these sums are still to be multiplied with, for
                       the tokens in the window; else 1 */
};

/** The folded sums of (layer, kv head); the open window is not in them. Reads the state.
 *  TSA_EINVAL, TSA_EFORMAT, TSA_EMISMATCH. Thread-safe. */
TSA_API enum tsa_status tsa_state_view(const struct tsa_plan *plan, const struct tsa_state *state,
                                       size_t layer, size_t kv_head, struct tsa_view *view,
                                       struct tsa_error *err);

/** Write A_degree = sum over all absorbed tokens of phi(k) (x) [v ; 1] (paper eq. 6), Lo and
 *  the open window included, as binom(d+m-1, m) rows of dv+1 doubles, row stride `stride`
 *  (>= dv+1) elements. Rows are index tuples i1 <= ... <= im in lexicographic order. Reads the
 *  state; of a plan with gates as it is after the last token. TSA_EINVAL, TSA_EFORMAT,
 *  TSA_EMISMATCH, TSA_ENOMEM (argument ws: an open window needs scratch, which is allocated for
 *  this call). Thread-safe for distinct `out`. (As many parameters as there are things to say:
 *  which sums, in which basis, where to.) */
TSA_API enum tsa_status tsa_state_export(const struct tsa_plan *plan, const struct tsa_state *state,
                                         size_t layer, size_t kv_head, size_t degree,
                                         enum tsa_basis basis, double *out, ptrdiff_t stride,
                                         struct tsa_error *err);

/* -- workspaces --------------------------------------------------------------------------- */

/* A workspace serves calls with the plan it was made for, and with every plan of the same dtype
 * that needs no more scratch per thread; others refuse it (TSA_EINVAL, argument ws). They use as
 * many threads as it was made for, at most. `threads` is 1 to 65,536, or 0 for the plan's. */

/** Bytes of scratch for one call at a time with up to `threads` threads. Does not depend on the
 *  number of tokens. 0 if it does not fit in size_t, `threads` is negative or the plan NULL.
 *  Thread-safe. */
TSA_API size_t tsa_workspace_bytes(const struct tsa_plan *plan, int threads);

/** Make a workspace in library memory. With one, the calls below allocate nothing. After a failure
 *  *ws is NULL. TSA_EINVAL (NULL, threads), TSA_EOVERFLOW (bytes do not fit in size_t),
 *  TSA_ENOMEM. Thread-safe. */
TSA_API enum tsa_status tsa_workspace_create(const struct tsa_plan *plan, int threads,
                                             struct tsa_workspace **ws,
                                             struct tsa_error *err) TSA_MUST_CHECK;

/** Make a workspace in caller memory, 64-byte aligned, at least tsa_workspace_bytes(). Not to be
 *  moved. After a failure *ws is NULL. TSA_EINVAL (NULL, threads, alignment), TSA_EOVERFLOW,
 *  TSA_ENOMEM (too few bytes). Thread-safe for distinct memory. */
TSA_API enum tsa_status tsa_workspace_init(const struct tsa_plan *plan, int threads, void *memory,
                                           size_t bytes, struct tsa_workspace **ws,
                                           struct tsa_error *err) TSA_MUST_CHECK;

/** Free a workspace in library memory; does nothing for caller memory or NULL. No call may be
 *  using it. */
TSA_API void tsa_workspace_destroy(struct tsa_workspace *ws);

/* -- attention ---------------------------------------------------------------------------- */

/* What is refused for its values. A call reads its inputs before it changes anything. With
 * |x| the largest magnitude in a row and MAX the largest number of the plan's dtype, it refuses
 *
 *    TSA_ENONFINITE       an element that is infinite or NaN, or beyond MAX
 *    TSA_EINVAL, gate     a gate below 0 or above 1
 *    TSA_EINVAL, value_gate   one below 0
 *    TSA_EOVERFLOW, k, v  a token with max(1,|k|)^(n-1) max(1,|v|) C >= MAX/4, times its value gate
 *                         if that is above 1; |k| counts as 1 after normalisation. The
 *                         argument is "k" if the key alone is too large
 *    TSA_EOVERFLOW, q     a query with max(1,|q|/a)^(n-1) max(1,W) >= MAX/4, W being the largest
 *                         |c_m| times multiplicity; |q| counts as 1 after normalisation
 *
 * (tsa_softmax: only the first). So the features of every token and the sums of every chunk are
 * finite. What depends on more than one token is not looked at, as no bound on single rows is
 * both safe and useful there: scores q.k/a and their powers, products of a query's features with
 * the sums, and the sums of all chunks together. Where these overflow the call returns TSA_OK and
 * the outputs are infinite or the canonical quiet NaN. A product with a query leaves the state
 * as it should be; sums that have overflowed stay so until the state is reset. Rows of length 1
 * and values of usual size are far from all this. With TSA_SKIP_INPUT_CHECK nothing is looked
 * at. */

/* What may not overlap. No element of o may share a byte with an element of q, k or v, with a state
 * or with the workspace; bytes between elements may be anybody's. Equal data pointers, which always
 * overlap, are noticed (TSA_EINVAL, argument o). Any other overlap with an input is not, and the
 * outputs and states are then unspecified. q, k and v may overlap one another, but not lie in a
 * state that the call writes, or in the workspace. */

/* The four calls on tokens take a plan, a batch, a workspace or NULL (scratch is then allocated for
 * this call), and err or NULL. Shapes, each tensor of any dtype:
 *
 *      q [count][heads][tokens][head_dim]       k [count][kv_heads][tokens][head_dim]
 *      v [count][kv_heads][tokens][value_dim]   o [count][heads][tokens][value_dim]
 *
 * and of plans with gates, gate and value_gate [count][kv_heads][tokens], in f32 or f64.
 *
 * Sequences of different lengths come in one of two ways; not both. The bits are those of one call
 * for each sequence; an empty sequence leaves its state as it was. In errors `token` counts from
 * the start of the sequence.
 *
 *   offsets   packed: sequence b is the rows offsets[b] .. offsets[b+1]-1 along the token axis of
 *             q [heads][rows][head_dim] and so on, whose batch strides are not used. None may be
 *             negative or smaller than the one before it; offsets[0] need not be 0. Rows of no
 *             sequence are neither read nor written
 *   lengths   padded: sequence b has only its first lengths[b] tokens, 0 <= lengths[b] <= tokens.
 *             The rows behind them, the pads, are neither read nor written: they may hold NaN
 *
 * With `slots`, sequence b is states[slots[b]], and batch index slots[b] in tensors that are not
 * packed; offsets and lengths go by place in the list. States in no slot of the list may be NULL;
 * slots must be distinct and not negative. In errors `sequence` is the slot. (For rows that lie in
 * the order of the list, leave slots NULL and give a list of their states.)
 *
 * Calls that write states want them distinct; tsa_query() reads them, and they may repeat. Where
 * there are no rows (count 0, or no token in any sequence) the call is a no-op, after the checks
 * that need no rows; tensors with data NULL are then not looked at, else they are TSA_EINVAL. All
 * return TSA_EINVAL, TSA_EFORMAT, TSA_EMISMATCH, TSA_ENONFINITE, TSA_EOVERFLOW, TSA_ENOMEM
 * (argument ws: scratch for this call), and are thread-safe for distinct outputs and workspaces,
 * and for distinct states where these are written.
 *
 * What is checked, in this order; the first that is wrong is reported:
 *
 *   1. plan and batch: NULL; size, and fields of a newer version; reserved; gates
 *   2. offsets, lengths and tokens that the call does not take, or that contradict one another
 *   3. numbers in slots, offsets and lengths
 *   4. q, k, v, gates and o, as far as the call uses them: data, dtype, reserved, width, strides;
 *      data of o equal to that of another
 *   5. the workspace, or memory for scratch
 *   6. states NULL, layer, every state; repeated states or slots; tokens to average (tsa_query)
 *   7. the values of k, v, gates and q */

/** Absorb the tokens and write causal outputs: o_t sees every token the state held before, and
 *  tokens 0..t of this call. Needs q, k, v and o; writes the states. */
TSA_API enum tsa_status tsa_prefill(const struct tsa_plan *plan, const struct tsa_batch *batch,
                                    struct tsa_workspace *ws, struct tsa_error *err) TSA_MUST_CHECK;

/** tsa_prefill() of one token for each state: the step of a decoder. Time and memory do not
 *  depend on the tokens absorbed before. `tokens` is 1 or 0, which means 1 here; offsets and
 *  lengths are refused; token strides are not used. */
TSA_API enum tsa_status tsa_decode(const struct tsa_plan *plan, const struct tsa_batch *batch,
                                   struct tsa_workspace *ws, struct tsa_error *err) TSA_MUST_CHECK;

/** tsa_prefill() without queries and outputs: the states end with the same bits. Needs k and v. */
TSA_API enum tsa_status tsa_absorb(const struct tsa_plan *plan, const struct tsa_batch *batch,
                                   struct tsa_workspace *ws, struct tsa_error *err) TSA_MUST_CHECK;

/** Outputs only: each of `tokens` rows per head sees all tokens absorbed so far. Needs q and o;
 *  reads the states, which may repeat. Offsets and lengths are refused. A state without tokens has
 *  nothing to average: TSA_EINVAL. Thread-safe on the same states too. */
TSA_API enum tsa_status tsa_query(const struct tsa_plan *plan, const struct tsa_batch *batch,
                                  struct tsa_workspace *ws, struct tsa_error *err) TSA_MUST_CHECK;

/** Exact softmax attention (paper eq. 1) over the same views, with the plan's temperatures and
 *  normalisation:
 *
 *      o_t = sum_i exp(q_t.k_i/a) v_i / sum_i exp(q_t.k_i/a)
 *
 *  Time is proportional to queries x keys, memory to neither. With causal != 0 the mask is
 *  bottom-right aligned: query i sees keys 0 .. keys-queries+i, or the last of them where the plan
 *  has a softmax_window; a query that sees no key is refused (TSA_EINVAL). The bits of a row with
 *  a window are those of a call with that query and the keys that it sees. With one query it is
 *  the step of a decoder on a cache of keys and values; one that has checked them as they came may
 *  set TSA_SKIP_INPUT_CHECK, as the check reads all of them. The bits of a row depend on its
 *  query, keys and values alone: not on threads, batch or the other queries of the call
 *  (doc/math.md). Where rows are normalised and the temperature is 2 or more, scores are bounded
 *  and need no maximum, by a property of the plan; else exp is SLEEF's, with a running maximum,
 *  right for any scores. The plan's terms, coefficients and chunk play no part. 0 queries or batch
 *  0: no-op, as in tsa_prefill(). TSA_EINVAL, TSA_ENONFINITE, TSA_ENOMEM. Thread-safe for distinct
 *  outputs and workspaces.
 *  (No struct tsa_batch: it has states, and one length where there are two here.) */
TSA_API enum tsa_status tsa_softmax(const struct tsa_plan *plan, size_t batch, size_t queries,
                                    size_t keys, int causal, const struct tsa_tensor *q,
                                    const struct tsa_tensor *k, const struct tsa_tensor *v,
                                    const struct tsa_tensor *o, struct tsa_workspace *ws,
                                    struct tsa_error *err) TSA_MUST_CHECK;

/* -- facts -------------------------------------------------------------------------------- */

/* All thread-safe; those that read $TSA_ISA not beside a setenv(). */

/** Version of the library, "major.minor.patch". */
TSA_API const char *tsa_version(void);
/** Version of the arithmetic: outputs of equal versions are equal bit by bit. */
TSA_API int tsa_arithmetic(void);
/** One short phrase for a status; never NULL. */
TSA_API const char *tsa_status_string(enum tsa_status status);
/** Name of the i-th built instruction set, best first, or NULL past the end; *usable (may be
 *  NULL) becomes 1 if this CPU and operating system can run it. */
TSA_API const char *tsa_isa_list(size_t i, int *usable);
/** Name of the instruction set that a plan without an explicit one gets now ($TSA_ISA, else the
 *  best usable), or NULL if $TSA_ISA names none that can be used. */
TSA_API const char *tsa_isa_active(void);
/** Name of the exponential that tsa_softmax uses with the active instruction set. */
TSA_API const char *tsa_exp_name(void);
/** The default number of threads now: the least of the affinity mask, the places of OpenMP, the
 *  cgroup quota, OMP_NUM_THREADS and OMP_THREAD_LIMIT. *reason (may be NULL) becomes a string
 *  constant that says which of them it is. */
TSA_API int tsa_default_threads(const char **reason);
/** F = sum over m < terms of binom(head_dim+m-1, m); 0 if it does not fit or terms is 0 or > 8. */
TSA_API size_t tsa_features(size_t head_dim, size_t terms);
/** F x (value_dim+1): numbers in the state of one head (paper section 4); 0 if too large. */
TSA_API size_t tsa_state_elements(size_t head_dim, size_t value_dim, size_t terms);

#ifdef __cplusplus
}
#endif
#endif
