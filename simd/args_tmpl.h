/* SPDX-License-Identifier: MIT */
/* What kernels with many operands take, by name, for one arithmetic type T: ARGS(name) makes the
 * name of the struct. kernels.def, products.def and pairs.def have the contracts. */

/* What numerators are divided by, where that is not just their denominator den: 1 if sum is set,
 * else den + add unless add is 0, of that max(|.|, floor) unless floor is 0. */
struct ARGS(finish) {
    int sum;
    T add, floor;
};

/* Features f0 .. f1-1 of `tokens` tokens. */
struct ARGS(psi) {
    const struct tsa_monomials *mono;
    size_t f0, f1, tokens;
    T *base;
    ptrdiff_t ldb;
    const T *weight; /* [F], or NULL */
    T *psi;
    ptrdiff_t ldp;
};

struct ARGS(query) {
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

struct ARGS(update) {
    size_t features, columns, tokens;
    const T *phi, *v;
    ptrdiff_t ldv;
    T *local;
    ptrdiff_t ldl;
    int first;
    struct tsa_prefetch *prefetch;
};

struct ARGS(update_fold) {
    size_t features, columns, tokens;
    const T *phi, *v;
    ptrdiff_t ldv;
    const T *local;
    ptrdiff_t ldl;
    T *hi, *lo;
    ptrdiff_t ldh;
    T e; /* 1, or what (hi, lo) are multiplied with before, as `decay` does it */
    T *hi_pairs;
    struct tsa_prefetch *prefetch;
};

struct ARGS(decode_state) {
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

struct ARGS(scores) {
    size_t d;
    const T *kt;
    ptrdiff_t ldk;
    const T *qt;
    ptrdiff_t ldq;
    size_t terms; /* of p, as coef: for SCORE_SERIES */
    const T *coef;
    T *w;
    ptrdiff_t ldw;
    enum tsa_score_kind kind;
    size_t keys, queries;
    ptrdiff_t diag;
};

struct ARGS(window) {
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
    const T *den;    /* NULL: dst is not divided, and whole vectors of it are written */
    T *dst;
    ptrdiff_t stride;
    size_t queries;
};

struct ARGS(gate_weights) {
    size_t keys, queries;
    ptrdiff_t diag; /* window position of the first query */
    const T *gate;  /* [queries] */
    T *decay;       /* [keys] */
    T *w;           /* [keys][ldw] */
    ptrdiff_t ldw;
};

struct ARGS(transpose) {
    size_t features, tokens;
    const T *in;
    ptrdiff_t ldi;
    const T *weight; /* [tokens], or NULL: ones */
    T *sum;          /* or NULL */
    int first;
    T *out; /* or NULL */
    ptrdiff_t ldo;
};

struct ARGS(decode_heads) {
    struct ARGS(decode_state) state; /* columns: those of the outputs */
    const T *w;
    ptrdiff_t ldw;
    const size_t *keys;
    const T *const *v;
    ptrdiff_t ldv;
    T *const *dst;
    const T *decay;                    /* [heads], or NULL */
    const struct ARGS(finish) *finish; /* NULL: divided by den */
};

struct ARGS(softmax_weights) {
    size_t keys, queries;
    T *w;
    ptrdiff_t ldw, diag;
    int first;
    T *max, *den, *shrink;
};

struct ARGS(softmax_row) {
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

struct ARGS(softmax_decode) {
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
