/* SPDX-License-Identifier: MIT */
/* Exact softmax: exponentials of scores, in blocks of keys. Their tiles are those of the window. A
 * bounded block needs no maximum; otherwise every block has one rescale. */

static void softmax_scores(size_t keys, size_t queries, size_t width, const T *kt, ptrdiff_t ldk,
                           const T *qt, ptrdiff_t ldq, T *w, ptrdiff_t ldw, ptrdiff_t diag,
                           int bounded)
{
    const struct score_args s = {width, kt, ldk, qt,  ldq,
                                 0,     NULL, w, ldw, bounded ? SCORE_EXP : SCORE_ONLY};
    score_tiles(&s, keys, queries, diag);
}

/* One vector of queries, of which lane l sees keys before past + l: the new maximum; the exponentials
 * are left unsummed. Returns by how much sums shrink, less 1. */
TSA_INLINE V softmax_vector(size_t keys, size_t past, T *w, ptrdiff_t ldw, int first, T *max,
                            T *den, T *shrink)
{
    const size_t full = past < keys ? past : keys, last = past + VL - 1;
    const size_t end = last < keys ? last : keys;
    V top = v_load(w), less = v_zero();
    for (size_t i = 1; i < full; i++)
        top = v_max(top, v_load(w + (ptrdiff_t)i * ldw));
    for (size_t i = full; i < end; i++)
        top = v_from(top, v_max(top, v_load(w + (ptrdiff_t)i * ldw)), (ptrdiff_t)(i - past) + 1);
    if (!first) {
        const V before = v_load(max);
        top = v_max(before, top);
        const V r = v_exp(v_sub(before, top));
        v_store(shrink, r);
        v_store(den, v_mul(v_load(den), r));
        less = v_sub(r, v_set1(1));
    }
    v_store(max, top);
    for (size_t i = 0; i < end; i++) {
        T *p = w + (ptrdiff_t)i * ldw;
        v_store(p, v_exp(v_sub(v_load(p), top)));
    }
    return less;
}

static int softmax_weights(size_t keys, size_t queries, T *w, ptrdiff_t ldw, ptrdiff_t diag,
                           int first, T *max, T *den, T *shrink)
{
    V less = v_zero();
    for (size_t t = 0; t < queries; t += VL)
        less = v_absmax(less, softmax_vector(keys, (size_t)((ptrdiff_t)t + diag + 1), w + t, ldw,
                                             first, max + t, den + t, shrink + t));
    window_ones(keys, queries, w, ldw, diag, den, first);
    return s_absmax(less) != 0;
}

static void softmax_values(size_t rows, size_t cols, size_t keys, ptrdiff_t diag, const T *w,
                           ptrdiff_t ldw, const T *v, ptrdiff_t ldv, T *acc, ptrdiff_t lda,
                           int first, const T *shrink)
{
    const struct window_args p = {cols, keys, diag,  w,      ldw,  v,   ldv,
                                  acc,  lda,  first, shrink, NULL, acc, lda};
    window_tiles(&p, rows);
}

/* One query row on up to TSA_TILE_TOKENS keys. */

TSA_INLINE void softmax_row_vectors(const int nv, size_t keys, const T *w, const T *v,
                                    ptrdiff_t ldv, int first, V shrink, T *acc, T *den)
{
    V s[TSA_DECODE_VECTORS];
    TSA_UNROLL
    for (int c = 0; c < nv; c++)
        s[c] = first ? v_zero() : v_mul(v_load(acc + c * VL), shrink);
    T sum = den ? *den : 0;
    for (size_t i = 0; i < keys; i++) {
        const V a = v_set1(w[i]);
        sum = sum + w[i];
        TSA_UNROLL
        for (int c = 0; c < nv; c++)
            s[c] = v_fma(a, v_load(v + (ptrdiff_t)i * ldv + c * VL), s[c]);
    }
    TSA_UNROLL
    for (int c = 0; c < nv; c++)
        v_store(acc + c * VL, s[c]);
    if (den)
        *den = sum;
}

/* Scores become weights; returns what multiplies the sums so far. */
static V softmax_row_weights(size_t keys, T *w, int first, T *max)
{
    T top = w[0];
    size_t i = VL <= keys ? VL : 0;
    if (i > 0) {
        V m = v_load(w);
        for (; i + VL <= keys; i += VL)
            m = v_max(m, v_load(w + i));
        T lane[VL];
        v_store(lane, m);
        for (int l = 0; l < VL; l++)
            top = lane[l] > top ? lane[l] : top;
    }
    for (; i < keys; i++)
        top = w[i] > top ? w[i] : top;
    V shrink = v_set1(1);
    if (!first && *max != top) {
        top = *max > top ? *max : top;
        shrink = v_exp(v_set1(*max - top));
    }
    *max = top;
    const V m = v_set1(top);
    for (i = 0; i < keys; i += VL)
        v_store(w + i, v_exp(v_sub(v_load(w + i), m)));
    return shrink;
}

static void softmax_row(size_t keys, size_t d, const T *kt, ptrdiff_t ldk, const T *q, int bounded,
                        size_t cols, const T *v, ptrdiff_t ldv, int first, T *max, T *den, T *acc,
                        T *w)
{
    /* with the coefficients of p(x) = x, and adding +0, these weights are the scores */
    static const T identity[2] = {0, 1};
    decode_scores(keys, d, kt, ldk, q, 2, identity, w);
    V shrink = v_set1(1);
    if (bounded)
        for (size_t i = 0; i < keys; i += VL)
            v_store(w + i, exp_near_zero(v_load(w + i)));
    else
        shrink = softmax_row_weights(keys, w, first, max);
    if (first) {
        *den = 0;
    } else {
        T lane[VL];
        v_store(lane, shrink);
        *den *= lane[0];
    }
    for (size_t c = 0; c < cols;) {
        const size_t left = cols - c;
        T *sum = c == 0 ? den : NULL;
#define X(nv)                                                                                      \
    if (left >= nv * VL) {                                                                         \
        softmax_row_vectors(nv, keys, w, v + c, ldv, first, shrink, acc + c, sum);                 \
        c += nv * VL;                                                                              \
        continue;                                                                                  \
    }
        X(8) X(4) X(3) X(2) X(1)
#undef X
    }
}

/* One query row on rows of user memory. Three blocks are under way: the values of one are summed, in
 * chains that leave most units idle, while the keys of the block after the next are turned and
 * multiplied; the maximum and the exponentials of the next lie between. */

struct decode_keys {
    size_t d;
    const T *k;
    ptrdiff_t stride;
    const T *q;
    T *xt; /* [d][VL] */
};

/* xt[c][lane] = k[i + lane][c] for n <= VL keys; returns their magnitudes if asked. */
TSA_INLINE V decode_turn(const int magnitude, const struct decode_keys *p, size_t i, size_t n)
{
    const T *k = p->k + (ptrdiff_t)i * p->stride;
    V m = v_zero();
    for (size_t c = 0; c < p->d; c += VL) {
        const size_t cols = p->d - c < VL ? p->d - c : VL;
        T *out = p->xt + c * VL;
        if (n == VL && cols == VL) {
            const V of_block = transpose_full(k + c, p->stride, out, VL, m);
            if (magnitude)
                m = of_block;
        } else {
            m = transpose_part(n, cols, k + c, p->stride, out, VL, m);
        }
    }
    return m;
}

/* Scores of n <= VL keys from key i on, lanes = keys. */
TSA_INLINE V decode_key_scores(const int l2, const struct decode_keys *p, size_t i, size_t n)
{
    const V m = decode_turn(l2, p, i, n);
    V e = v_set1(1), r = v_set1(1), x = v_zero();
    if (l2) {
        V s = v_zero();
        e = v_inverse_scale(m);
        for (size_t c = 0; c < p->d; c++) {
            const V y = v_mul(v_load(p->xt + c * VL), e);
            s = v_fma(y, y, s);
        }
        r = inverse_norm(s);
    }
    for (size_t c = 0; c < p->d; c++) {
        const V y = v_load(p->xt + c * VL);
        x = v_fma(v_set1(p->q[c]), l2 ? v_mul(v_mul(y, e), r) : y, x);
    }
    return x;
}

/* Values of keys from .. to-1, weighted by w, for nv vectors of columns; meanwhile the scores of
 * `more` keys from `ahead` on. den goes with the first columns. */
TSA_INLINE void decode_values(const int nv, const int l2, size_t n, const T *w, const T *v,
                              ptrdiff_t ldv, int first, V shrink, T *acc, T *den,
                              const struct decode_keys *keys, size_t ahead, size_t more, T *scores)
{
    V s[TSA_DECODE_VECTORS];
    T sum = *den;
    TSA_UNROLL
    for (int c = 0; c < nv; c++)
        s[c] = first ? v_zero() : v_mul(v_load(acc + c * VL), shrink);
    size_t i = 0;
    if (!l2 && keys->d == VL)
        for (; i + VL <= more && i + VL <= n; i += VL) {
            V x = v_zero();
            decode_turn(0, keys, ahead + i, VL);
            TSA_UNROLL
            for (size_t j = 0; j < VL; j++) {
                const V a = v_set1(w[i + j]);
                sum = sum + w[i + j];
                TSA_UNROLL
                for (int c = 0; c < nv; c++)
                    s[c] = v_fma(a, v_load(v + (ptrdiff_t)(i + j) * ldv + c * VL), s[c]);
                x = v_fma(v_set1(keys->q[j]), v_load(keys->xt + j * VL), x);
            }
            v_store(scores + i, x);
        }
    for (; i < n; i += VL) {
        const size_t end = n - i < VL ? n : i + VL;
        if (i < more)
            v_store(scores + i, decode_key_scores(l2, keys, ahead + i,
                                                  more - i < VL ? more - i : VL));
        for (size_t j = i; j < end; j++) {
            const V a = v_set1(w[j]);
            sum = sum + w[j];
            TSA_UNROLL
            for (int c = 0; c < nv; c++)
                s[c] = v_fma(a, v_load(v + (ptrdiff_t)j * ldv + c * VL), s[c]);
        }
    }
    TSA_UNROLL
    for (int c = 0; c < nv; c++)
        v_store(acc + c * VL, s[c]);
    *den = sum;
}

TSA_INLINE void decode_block(const int l2, size_t n, size_t cols, const T *w, const T *v,
                             ptrdiff_t ldv, int first, V shrink, T *acc, T *den,
                             const struct decode_keys *keys, size_t ahead, size_t more, T *scores)
{
    T again = 0, *sum = den;
    for (size_t c = 0; c < cols; more = 0, sum = &again) {
        const size_t left = cols - c;
#define X(nv)                                                                                      \
    if (left >= nv * VL) {                                                                         \
        decode_values(nv, l2, n, w, v + c, ldv, first, shrink, acc + c, sum, keys, ahead, more,    \
                      scores);                                                                     \
        c += nv * VL;                                                                              \
        continue;                                                                                  \
    }
        X(4) X(3) X(2) X(1)
#undef X
    }
}

TSA_INLINE void decode_blocks(const int l2, const struct decode_keys *p, size_t keys, int bounded,
                              size_t cols, const T *v, ptrdiff_t ldv, int first, T *max, T *den,
                              T *acc, T *w)
{
    const size_t block = TSA_TILE_TOKENS;
    V shrink = v_set1(1);
    T *at[3] = {w, w + block, w + 2 * block};
    for (size_t i = 0; i < keys && i < 2 * block; i += VL)
        v_store(w + i, decode_key_scores(l2, p, i, keys - i < VL ? keys - i : VL));
    for (size_t k = 0; k < keys; k += block) {
        const size_t n = keys - k < block ? keys - k : block;
        const size_t ahead = k + 2 * block, rest = ahead < keys ? keys - ahead : 0;
        T lane[VL];
        if (bounded)
            for (size_t i = 0; i < n; i += VL)
                v_store(at[0] + i, exp_near_zero(v_load(at[0] + i)));
        else
            shrink = softmax_row_weights(n, at[0], first, max);
        v_store(lane, shrink);
        *den = first ? 0 : *den * lane[0];
        decode_block(l2, n, cols, at[0], v + (ptrdiff_t)k * ldv, ldv, first, shrink, acc, den, p,
                     ahead, rest < block ? rest : block, at[2]);
        T *const done = at[0];
        at[0] = at[1];
        at[1] = at[2];
        at[2] = done;
        first = 0;
    }
}

static void softmax_decode(size_t keys, size_t d, const T *k, ptrdiff_t stride, int l2, const T *q,
                           int bounded, size_t cols, const T *v, ptrdiff_t ldv, int first, T *max,
                           T *den, T *acc, T *scratch)
{
    const struct decode_keys p = {d, k, stride, q, scratch + 3 * TSA_TILE_TOKENS};
    if (l2)
        decode_blocks(1, &p, keys, bounded, cols, v, ldv, first, max, den, acc, scratch);
    else
        decode_blocks(0, &p, keys, bounded, cols, v, ldv, first, max, den, acc, scratch);
}

static void softmax_combine(size_t cols, int bounded, T max2, T den2, const T *acc2, T *max, T *den,
                            T *acc)
{
    if (bounded) {
        *den += den2;
        for (size_t c = 0; c < cols; c += VL)
            v_store(acc + c, v_add(v_load(acc + c), v_load(acc2 + c)));
        return;
    }
    const T top = *max > max2 ? *max : max2;
    const V r1 = v_exp(v_set1(*max - top)), r2 = v_exp(v_set1(max2 - top));
    T one[VL], two[VL];
    v_store(one, r1);
    v_store(two, r2);
    *max = top;
    *den = s_fma(den2, two[0], *den * one[0]);
    for (size_t c = 0; c < cols; c += VL)
        v_store(acc + c, v_fma(v_load(acc2 + c), r2, v_mul(v_load(acc + c), r1)));
}

static void divide(size_t width, const T *acc, T sum, T *dst)
{
    for (size_t c = 0; c < width; c += VL) {
        const size_t n = width - c < VL ? width - c : VL;
        v_store_first(dst + c, n, v_canonical(v_div(v_load_first(acc + c, n), v_set1(sum))));
    }
}
