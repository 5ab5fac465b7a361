/* SPDX-License-Identifier: MIT */
/* Exact softmax of a tile of queries on a tile of keys, between scores() and window(): scores
 * become exponentials. Bounded scores need no maximum, and scores() has made their exponentials;
 * otherwise every tile of keys rescales the sums once. */

/* One vector of queries, of which lane l sees keys before past + l: the new maximum; exponentials
 * are left unsummed. Returns by how much sums shrink, less 1. */
TSA_INLINE V softmax_vector(const struct ARGS(softmax_weights) *a, size_t past, size_t t)
{
    const ptrdiff_t ldw = a->ldw;
    T *w = a->w + t;
    const size_t full = past < a->keys ? past : a->keys, last = past + VL - 1;
    const size_t end = last < a->keys ? last : a->keys;
    V top = v_load(w), less = v_zero();
    for (size_t i = 1; i < full; i++)
        top = v_max(top, v_load(w + (ptrdiff_t)i * ldw));
    for (size_t i = full; i < end; i++)
        top = v_from(top, v_max(top, v_load(w + (ptrdiff_t)i * ldw)), (ptrdiff_t)(i - past) + 1);
    if (!a->first) {
        const V before = v_load(a->max + t);
        top = v_max(before, top);
        const V r = v_exp(v_sub(before, top));
        v_store(a->shrink + t, r);
        v_store(a->den + t, v_mul(v_load(a->den + t), r));
        less = v_sub(r, v_set1(1));
    }
    v_store(a->max + t, top);
    for (size_t i = 0; i < end; i++) {
        T *p = w + (ptrdiff_t)i * ldw;
        v_store(p, v_exp(v_sub(v_load(p), top)));
    }
    return less;
}

static int softmax_weights(const struct ARGS(softmax_weights) *args)
{
    const struct ARGS(softmax_weights) a = *args;
    V less = v_zero();
    for (size_t t = 0; t < a.queries; t += VL)
        less = v_absmax(less, softmax_vector(&a, (size_t)((ptrdiff_t)t + a.diag + 1), t));
    window_ones(a.keys, a.queries, a.w, a.ldw, a.diag, a.den, a.first);
    return s_absmax(less) != 0;
}

static void softmax_combine(size_t columns, int bounded, T max2, T den2, const T *acc2, T *max,
                            T *den, T *acc)
{
    if (bounded) {
        *den += den2;
        for (size_t c = 0; c < columns; c += VL)
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
    for (size_t c = 0; c < columns; c += VL)
        v_store(acc + c, v_fma(v_load(acc2 + c), r2, v_mul(v_load(acc + c), r1)));
}

static void divide(size_t columns, const T *acc, T sum, T *dst)
{
    for (size_t c = 0; c < columns; c += VL) {
        const size_t n = columns - c < VL ? columns - c : VL;
        v_store_first(dst + c, n, v_canonical(v_div(v_load_first(acc + c, n), v_set1(sum))));
    }
}
