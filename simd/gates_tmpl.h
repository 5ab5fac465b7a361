/* SPDX-License-Identifier: MIT */
/* What gates do to windows and sums. */

static void multiply(size_t count, const T *x, T *y)
{
    for (size_t i = 0; i < count; i += VL)
        v_store(y + i, v_mul(v_load(y + i), v_load(x + i)));
}

/* The decay of VL keys, the first of which is key i, over the next VL queries, of which n count:
 * x[j] = decay of these keys as of query t + j, which is at window position `at` + j. */
TSA_INLINE V gate_keys(ptrdiff_t i, ptrdiff_t at, size_t n, const T *gate, V decay, V *x)
{
    if (at >= i + VL) { /* all keys are older than these queries */
        for (size_t j = 0; j < n; j++)
            x[j] = decay = v_mul(decay, v_set1(gate[j]));
    } else {
        for (size_t j = 0; j < n; j++)
            x[j] = decay = v_from(v_mul(decay, v_set1(gate[j])), decay, at + (ptrdiff_t)j - i);
    }
    return decay;
}

static void gate_weights(const struct ARGS(gate_weights) *args)
{
    const struct ARGS(gate_weights) a = *args;
    for (size_t i = 0; i < a.keys; i += VL) {
        V decay = v_load(a.decay + i);
        /* queries before these keys do not see them */
        const ptrdiff_t unseen = (ptrdiff_t)i - a.diag;
        size_t t = unseen > 0 ? (size_t)unseen / VL * VL : 0;
        for (; t < a.queries; t += VL) {
            const size_t n = a.queries - t < VL ? a.queries - t : VL;
            V x[VL];
            decay = gate_keys((ptrdiff_t)i, a.diag + (ptrdiff_t)t, n, a.gate + t, decay, x);
            if (!a.w)
                continue;
            for (size_t j = n; j < VL; j++)
                x[j] = v_zero();
            v_transpose(x);
            T *w = a.w + (ptrdiff_t)i * a.ldw + t;
            const size_t rows = a.keys - i < VL ? a.keys - i : VL;
            for (size_t j = 0; j < rows; j++)
                v_store(w + (ptrdiff_t)j * a.ldw, v_mul(v_load(w + (ptrdiff_t)j * a.ldw), x[j]));
        }
        v_store(a.decay + i, decay);
    }
}

/* (hi, lo) times e: the product and its exact rest, renormalised. */
TSA_INLINE void decay_double(V *hi, V *lo, V e)
{
    const V p = v_mul(*hi, e);
    const V r = v_add(v_fma(*hi, e, v_sub(v_zero(), p)), v_mul(*lo, e));
    *hi = v_add(p, r);
    *lo = v_sub(r, v_sub(*hi, p));
}

static void decay(size_t count, T e, T *hi, T *lo)
{
    const V factor = v_set1(e);
    for (size_t i = 0; i < count; i += VL) {
        const size_t n = count - i < VL ? count - i : VL;
        V h = v_load_first(hi + i, n), l = v_load_first(lo + i, n);
        decay_double(&h, &l, factor);
        v_store_first(hi + i, n, h);
        v_store_first(lo + i, n, l);
    }
}
