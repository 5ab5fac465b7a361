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

/* Squares of VL keys and VL queries; those of one run of queries do not wait for one another. */
static void gate_squares(const struct ARGS(gate_weights) *a)
{
    for (size_t t = 0; t < a->queries; t += VL) {
        const size_t n = a->queries - t < VL ? a->queries - t : VL;
        const ptrdiff_t at = a->diag + (ptrdiff_t)t;
        /* keys behind the last of these queries are not seen */
        for (size_t i = 0; i < a->keys && (ptrdiff_t)i < at + (ptrdiff_t)n; i += VL) {
            V x[VL];
            TSA_UNROLL
            for (int j = 0; j < VL; j++)
                x[j] = v_zero();
            v_store(a->decay + i,
                    gate_keys((ptrdiff_t)i, at, n, a->gate + t, v_load(a->decay + i), x));
            v_transpose(x);
            T *w = a->w + (ptrdiff_t)i * a->ldw + t;
            const size_t rows = a->keys - i < VL ? a->keys - i : VL;
            for (size_t j = 0; j < rows; j++, w += a->ldw)
                v_store(w, v_mul(v_load(w), x[j]));
        }
    }
}

/* The decay of nv vectors of keys from key i on, after all queries. */
TSA_INLINE void gate_vectors(const int nv, const struct ARGS(gate_weights) *a, ptrdiff_t i)
{
    V decay[4];
    TSA_UNROLL
    for (int c = 0; c < nv; c++)
        decay[c] = v_load(a->decay + i + c * VL);
    const ptrdiff_t end = (ptrdiff_t)a->queries;
    /* queries before the first of these keys, among them, and behind them all */
    ptrdiff_t t = i + 1 > a->diag ? i + 1 - a->diag : 0;
    for (; t < end && a->diag + t < i + nv * VL; t++) {
        const V g = v_set1(a->gate[t]);
        TSA_UNROLL
        for (int c = 0; c < nv; c++)
            decay[c] = v_from(v_mul(decay[c], g), decay[c], a->diag + t - i - c * VL);
    }
    for (; t < end; t++) {
        const V g = v_set1(a->gate[t]);
        TSA_UNROLL
        for (int c = 0; c < nv; c++)
            decay[c] = v_mul(decay[c], g);
    }
    TSA_UNROLL
    for (int c = 0; c < nv; c++)
        v_store(a->decay + i + c * VL, decay[c]);
}

static void gate_weights(const struct ARGS(gate_weights) *args)
{
    if (args->w) {
        gate_squares(args);
        return;
    }
    const ptrdiff_t keys = (ptrdiff_t)args->keys;
    ptrdiff_t i = 0;
    for (; i + 4 * VL <= keys; i += 4 * VL)
        gate_vectors(4, args, i);
    for (; i < keys; i += VL)
        gate_vectors(1, args, i);
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
