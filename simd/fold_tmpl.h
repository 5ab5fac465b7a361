/* SPDX-License-Identifier: MIT */
/* Double-float sums, elementwise: hi is the rounded sum, lo what rounding lost. */

/* Vectors of elements; or the first n < VL of them. */
TSA_INLINE void fold_vectors(const int gated, const int whole, size_t n, V e, T *hi, T *lo,
                             const T *local, T *prefix)
{
    for (size_t i = 0; i < n; i += VL) {
        V h = whole ? v_load(hi + i) : v_load_first(hi, n);
        V l = whole ? v_load(lo + i) : v_load_first(lo, n);
        const V x = whole ? v_load(local + i) : v_load_first(local, n);
        if (prefix && whole)
            v_store(prefix + i, h);
        else if (prefix)
            v_store_first(prefix, n, h);
        if (gated)
            decay_double(&h, &l, e);
        add_double(&h, &l, x, l);
        if (whole) {
            v_store(hi + i, h);
            v_store(lo + i, l);
        } else {
            v_store_first(hi, n, h);
            v_store_first(lo, n, l);
        }
    }
}

TSA_INLINE void fold_all(const int gated, size_t count, V e, T *hi, T *lo, const T *local,
                         T *prefix)
{
    const size_t whole = count / VL * VL;
    fold_vectors(gated, 1, whole, e, hi, lo, local, prefix);
    fold_vectors(gated, 0, count - whole, e, hi + whole, lo + whole, local + whole,
                 prefix ? prefix + whole : NULL);
}

static void fold(size_t count, T *hi, T *lo, T e, const T *local, T *prefix)
{
    if (e != 1)
        fold_all(1, count, v_set1(e), hi, lo, local, prefix);
    else
        fold_all(0, count, v_zero(), hi, lo, local, prefix);
}

static void merge(size_t count, T *hi, T *lo, const T *hi2, const T *lo2)
{
    for (size_t i = 0; i < count; i += VL) {
        const size_t n = count - i < VL ? count - i : VL;
        V h = v_load_first(hi + i, n), l = v_load_first(lo + i, n);
        add_double(&h, &l, v_load_first(hi2 + i, n), v_add(l, v_load_first(lo2 + i, n)));
        v_store_first(hi + i, n, h);
        v_store_first(lo + i, n, l);
    }
}
