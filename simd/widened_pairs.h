/* SPDX-License-Identifier: MIT */
/* Pairs of bf16 where no instruction multiplies them: widened to two vectors of elements. */

struct widened {
    V even, odd;
};
#define O struct widened
static inline O o_from(V bits) { return (O){v_pair_even(bits), v_pair_odd(bits)}; }
static inline O o_load(const T *p) { return o_from(v_load(p)); }
static inline O o_set1(T pair) { return o_from(v_set1(pair)); }
static inline V o_fma(O a, O b, V c) { return v_fma(a.even, b.even, v_fma(a.odd, b.odd, c)); }
static inline T o_fma1(T a, T b, T c)
{
    T lane[VL];
    v_store(lane, o_fma(o_set1(a), o_set1(b), v_set1(c)));
    return lane[0];
}
static inline V o_count(V x, V sum) { return v_add(v_add(sum, v_pair_odd(x)), v_pair_even(x)); }
static inline V v_pair_columns(V a, V b) { return v_pair(v_evens(a, b), v_odds(a, b)); }
