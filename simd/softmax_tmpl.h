/* SPDX-License-Identifier: MIT */
/* Exact softmax, one query at a time: the yardstick, kept plain. */

static void softmax(size_t keys, size_t d, const T *kt, ptrdiff_t ldk, const T *q, size_t width,
                    const T *v, ptrdiff_t ldv, T *max, T *sum, T *acc, T *scratch)
{
    if (keys == 0)
        return;
    /* with the coefficients of p(x) = x the weights of decode_scores are the scores */
    const T identity[2] = {0, 1};
    decode_scores(keys, d, kt, ldk, q, 2, identity, scratch);
    T top = *max;
    for (size_t i = 0; i < keys; i++)
        top = scratch[i] > top ? scratch[i] : top;
    T lane[VL];
    v_store(lane, v_exp(v_set1(*max - top)));
    const T shrink = lane[0];
    T s = *sum * shrink;
    for (size_t i = 0; i < keys; i += VL)
        v_store(scratch + i, v_exp(v_sub(v_load(scratch + i), v_set1(top))));
    for (size_t i = 0; i < keys; i++)
        s += scratch[i];
    for (size_t c = 0; c < width; c += VL) {
        const size_t n = width - c < VL ? width - c : VL;
        V a = v_mul(v_load_first(acc + c, n), v_set1(shrink));
        for (size_t i = 0; i < keys; i++)
            a = v_fma(v_set1(scratch[i]), v_load_first(v + (ptrdiff_t)i * ldv + c, n), a);
        v_store_first(acc + c, n, a);
    }
    *max = top;
    *sum = s;
}

static void divide(size_t width, const T *acc, T sum, T *dst)
{
    for (size_t c = 0; c < width; c += VL) {
        const size_t n = width - c < VL ? width - c : VL;
        v_store_first(dst + c, n, v_canonical(v_div(v_load_first(acc + c, n), v_set1(sum))));
    }
}
