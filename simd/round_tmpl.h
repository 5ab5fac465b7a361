/* SPDX-License-Identifier: MIT */
/* Elements rounded to bf16, in pairs: those of memory, and monomials. */

static void pair_rows(size_t rows, size_t cols, const T *in, ptrdiff_t ldi, T *out, ptrdiff_t ldo)
{
    for (; rows >= 2; rows -= 2, in += 2 * ldi, out += ldo)
        for (size_t c = 0; c < cols; c += VL)
            v_store(out + c, v_pair(v_load(in + c), v_load(in + ldi + (ptrdiff_t)c)));
    if (rows > 0)
        for (size_t c = 0; c < cols; c += VL)
            v_store(out + c, v_pair(v_load(in + c), v_zero()));
}

static void pair_cols(size_t rows, size_t cols, const T *in, ptrdiff_t ldi, T *out, ptrdiff_t ldo)
{
    for (size_t r = 0; r < rows; r++, in += ldi, out += ldo) {
        size_t c = 0;
        for (; c + 2 * VL <= cols; c += 2 * VL)
            v_store(out + c / 2, v_pair_cols(v_load(in + c), v_load(in + c + VL)));
        if (c < cols) {
            const size_t left = cols - c, n = left < VL ? left : VL;
            const V x = v_load_first(in + c, n), y = v_load_first(in + c + VL, left - n);
            v_store(out + c / 2, v_pair_cols(x, y));
        }
    }
}

static void psi_pairs(const struct tsa_monomials *mono, size_t f0, size_t f1, size_t cols, T *base,
                      ptrdiff_t ldb, const T *weight, T *psi, ptrdiff_t ldp)
{
    struct psi_out out = {.rows = psi, .ld = ldp};
    psi_walk(PSI_ROW_PAIRS, ROW_WEIGHTED, mono, f0, f1, cols, base, ldb, weight + f0, &out);
    for (size_t c = 0; out.odd && c < cols; c += VL)
        v_store(out.rows + c, v_pair(v_load(out.even + c), v_zero()));
}

static void phi_pairs(const struct tsa_monomials *mono, size_t f0, size_t f1, size_t cols, T *base,
                      ptrdiff_t ldb, T *phi, ptrdiff_t ldp)
{
    struct psi_out out = {.rows = phi, .ld = ldp};
    psi_walk(PSI_TOKEN_PAIRS, 0, mono, f0, f1, cols, base, ldb, NULL, &out);
}
