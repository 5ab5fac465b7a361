/* SPDX-License-Identifier: MIT */
/* Operands of the kernels that have many, by name; kernels.def, products.def and pairs.def have
 * their contracts. */

/* Features f0 .. f1-1 of `tokens` tokens. */
struct psi_args {
    const struct tsa_monomials *mono;
    size_t f0, f1, tokens;
    T *base;
    ptrdiff_t ldb;
    const T *weight; /* [F], or NULL */
    T *psi;
    ptrdiff_t ldp;
};

struct query_args {
    size_t features;
    const T *psi;
    ptrdiff_t ldp;
    const T *hi;
    ptrdiff_t ldh;
    T *acc;
    ptrdiff_t lda;
    int first;
    size_t tokens, columns;
    struct tsa_prefetch *prefetch;
};

struct update_args {
    size_t features, columns, tokens;
    const T *phi, *v;
    ptrdiff_t ldv;
    T *local;
    ptrdiff_t ldl;
    int first;
    struct tsa_prefetch *prefetch;
};

struct update_fold_args {
    size_t features, columns, tokens;
    const T *phi, *v;
    ptrdiff_t ldv;
    const T *local;
    ptrdiff_t ldl;
    T *hi, *lo;
    ptrdiff_t ldh;
    T *hi_pairs;
    struct tsa_prefetch *prefetch;
};

struct decode_state_args {
    size_t features;
    const T *psi;
    ptrdiff_t ldp;
    const T *const *hi;
    ptrdiff_t ldh;
    const T *const *ones;
    T *acc;
    ptrdiff_t lda;
    T *den;
    int first;
    size_t heads, columns;
};

/* What becomes of a score x: p(x), x itself, or exp(x) where x is bounded. */
enum score_kind { SCORE_SERIES, SCORE_ONLY, SCORE_EXP };

struct score_args {
    size_t d;
    const T *kt;
    ptrdiff_t ldk;
    const T *qt;
    ptrdiff_t ldq;
    size_t terms; /* of p, as coef: for SCORE_SERIES */
    const T *coef;
    T *w;
    ptrdiff_t ldw;
    enum score_kind kind;
    size_t keys, queries;
    ptrdiff_t diag;
};

struct window_args {
    size_t columns, keys;
    ptrdiff_t diag;
    const T *w;
    ptrdiff_t ldw;
    const T *v;
    ptrdiff_t ldv;
    const T *acc;
    ptrdiff_t lda;
    int first;
    const T *shrink; /* NULL, or [queries]: what multiplies acc before */
    const T *den;    /* NULL: dst is not divided, and has whole vectors */
    T *dst;
    ptrdiff_t stride;
    size_t queries;
};

struct decode_window_args {
    size_t columns, keys;
    const T *w, *v;
    ptrdiff_t ldv;
    const T *acc;
    T den;
    int first;
    T *dst;
};

struct softmax_weights_args {
    size_t keys, queries;
    T *w;
    ptrdiff_t ldw, diag;
    int first;
    T *max, *den, *shrink;
};

struct softmax_row_args {
    size_t keys, d, columns;
    const T *kt;
    ptrdiff_t ldk;
    const T *q;
    int bounded;
    const T *v;
    ptrdiff_t ldv;
    int first;
    T *max, *den, *acc, *w;
};

struct softmax_decode_args {
    size_t keys, d, columns;
    const T *k;
    ptrdiff_t stride;
    int l2;
    const T *q;
    int bounded;
    const T *v;
    ptrdiff_t ldv;
    int first;
    T *max, *den, *acc, *kt, *scratch;
};
