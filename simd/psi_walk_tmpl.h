/* SPDX-License-Identifier: MIT */
/* Features f0 .. f1-1 of a tile, run by run. What becomes of a run says the includer by
 *   struct psi_out                              where features go
 *   psi_emit(what, kind, tokens, run, out)      the features of a run go there */

TSA_INLINE void psi_walk(const int what, const int weighted, const struct ARGS(psi) *args,
                         struct psi_out *out)
{
    const struct ARGS(psi) a = *args;
    const struct tsa_monomials *mono = a.mono;
    const T *weight = weighted ? a.weight + a.f0 : NULL;
    size_t m = 0;
    for (size_t f = a.f0, end; f < a.f1; f = end) {
        while (mono->start[m + 1] <= f)
            m++;
        end = mono->start[m + 1] < a.f1 ? mono->start[m + 1] : a.f1;
        if (m == 0) {
            T one[TSA_TILE_TOKENS];
            for (size_t t = 0; t < TSA_TILE_TOKENS; t += VL)
                v_store(one + t, v_set1(1));
            const struct psi_run run = {1, one, one, 0, weight};
            psi_emit(what, weighted, a.tokens, &run, out);
        } else if (m <= mono->stored) {
            /* rows of all stored degrees follow one another */
            const T *low = a.base + (ptrdiff_t)(f - 1) * a.ldb;
            const struct psi_run run = {end - f, a.base, low, a.ldb, weight};
            psi_emit(what, weighted, a.tokens, &run, out);
        } else {
            const size_t *s = mono->suffix + m * (mono->d + 1), *t = s - (mono->d + 1);
            const size_t most = m - 1 > mono->stored ? TSA_PIECE : SIZE_MAX;
            const size_t last = end - mono->start[m];
            size_t p = f - mono->start[m];
            const T *w = weight;
            for (size_t i = first_index(s, mono->d, p); p < last;) {
                const size_t stop = s[i + 1] < last ? s[i + 1] : last;
                const size_t n = stop - p < most ? stop - p : most;
                const T *low = degree_t(mono, m - 1, t[i] + p - s[i], n, a.tokens, a.base, a.ldb);
                const struct psi_run run = {n, a.base + (ptrdiff_t)i * a.ldb, low, a.ldb, w};
                psi_emit(what, ROW_PRODUCT | weighted, a.tokens, &run, out);
                if (weighted)
                    w += n;
                p += n;
                i += p == s[i + 1];
            }
        }
        if (weighted)
            weight += end - f;
    }
}
