/* SPDX-License-Identifier: MIT */
/* Double-float sums, elementwise: hi is the rounded sum, lo what rounding lost. */

static void fold(size_t count, T *hi, T *lo, const T *local, T *prefix)
{
    size_t i = 0;
    for (; i + VL <= count; i += VL) {
        V h = v_load(hi + i), l = v_load(lo + i);
        const V x = v_load(local + i);
        if (prefix)
            v_store(prefix + i, h);
        add_double(&h, &l, x, l);
        v_store(hi + i, h);
        v_store(lo + i, l);
    }
    if (i < count) {
        const size_t n = count - i;
        V h = v_load_first(hi + i, n), l = v_load_first(lo + i, n);
        const V x = v_load_first(local + i, n);
        if (prefix)
            v_store_first(prefix + i, n, h);
        add_double(&h, &l, x, l);
        v_store_first(hi + i, n, h);
        v_store_first(lo + i, n, l);
    }
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
