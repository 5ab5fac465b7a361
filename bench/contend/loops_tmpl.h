/* SPDX-License-Identifier: MIT */
/* The plain loops of the contenders around their matrix products, on compiler vectors: what a
 * careful user of a BLAS would write. Works on VF, LANES, SET_F, FMA_F of peak_tmpl.h's includer
 * and VU, the same vector without alignment; MASK_F(w, m) keeps the lanes of w whose m[] is -1,
 * and SUM_F(w) adds all lanes. */

static const int loop_mask[2 * 16] = {-1, -1, -1, -1, -1, -1, -1, -1,
                                      -1, -1, -1, -1, -1, -1, -1, -1};

static void loop_copy(size_t c, size_t width, const float *src, size_t lds, float scale, float *dst,
                      size_t ldd)
{
    for (size_t t = 0; t < c; t++) {
        const float *from = src + t * lds;
        float *to = dst + t * ldd;
        for (size_t i = 0; i + LANES <= width; i += LANES)
            *(VU *)(to + i) = *(const VU *)(from + i) * SET_F(scale);
        for (size_t i = width - width % LANES; i < width; i++)
            to[i] = from[i] * scale;
    }
}

static void loop_transpose(size_t c, size_t d, const float *x, float *xt)
{
    for (size_t i = 0; i < d; i++)
        for (size_t t = 0; t < c; t++)
            xt[i * c + t] = x[t * d + i];
}

static void loop_features_t(const struct contend_slice *s, const float *xt, const float *base,
                            float *out)
{
    const size_t c = s->tokens;
    for (size_t r = 0; r < s->count; r++) {
        const struct contend_run_of *run = s->runs + r;
        const size_t first = run->to > s->f0 ? run->to : s->f0;
        const size_t end = run->to + run->count < s->f1 ? run->to + run->count : s->f1;
        const float *x = xt + run->var * c;
        for (size_t f = first; f < end; f++) {
            const float *b = base + (run->from + f - run->to) * c;
            float *o = out + (f - s->f0) * c;
            size_t t = 0;
            for (; t + LANES <= c; t += LANES)
                *(VU *)(o + t) = *(const VU *)(x + t) * *(const VU *)(b + t);
            for (; t < c; t++)
                o[t] = x[t] * b[t];
        }
    }
}

/* Token t0 and up to 7 more: their rows stay in L1, and a weight is loaded once for them. */
static void loop_features_8(const struct contend_slice *s, size_t t0, const float *x,
                            const float *base, size_t ldb, const float *weight, float *out,
                            size_t ldo)
{
    const size_t t1 = t0 + 8 < s->tokens ? t0 + 8 : s->tokens, d = s->d;
    for (size_t r = 0; r < s->count; r++) {
        const struct contend_run_of *run = s->runs + r;
        const size_t first = run->to > s->f0 ? run->to : s->f0;
        const size_t end = run->to + run->count < s->f1 ? run->to + run->count : s->f1;
        const float *from = base + run->from + first - run->to, *xr = x + run->var;
        for (size_t f = first; f < end; f += LANES) {
            const float *b = from + (f - first);
            float *o = out + (f - s->f0);
            VF w = SET_F(1.0f);
            if (weight)
                w = *(const VU *)(weight + f);
            if (t1 - t0 == 8) { /* a count that the compiler knows */
                for (size_t t = t0; t < t0 + 8; t++)
                    *(VU *)(o + t * ldo) = (SET_F(xr[t * d]) * w) * *(const VU *)(b + t * ldb);
            } else {
                for (size_t t = t0; t < t1; t++)
                    *(VU *)(o + t * ldo) = (SET_F(xr[t * d]) * w) * *(const VU *)(b + t * ldb);
            }
        }
    }
}

static void loop_features_k(const struct contend_slice *s, const float *x, const float *base,
                            size_t ldb, const float *weight, float *out, size_t ldo)
{
    for (size_t t = 0; t < s->tokens; t += 8)
        loop_features_8(s, t, x, base, ldb, weight, out, ldo);
}

static void loop_kernel(size_t rows, size_t keys, size_t r0, size_t terms, const float *coef,
                        float *p, size_t ldp, float *den)
{
    for (size_t t = 0; t < rows; t++) {
        float *row = p + t * ldp, tail = 0;
        const size_t seen = r0 + t + 1 < keys ? r0 + t + 1 : keys;
        VF sum = SET_F(0.0f);
        size_t j = 0;
        for (; j + LANES <= seen; j += LANES) {
            const VF s = *(const VU *)(row + j);
            VF w = SET_F(coef[terms - 1]);
            for (size_t m = terms - 1; m-- > 0;)
                w = FMA_F(w, s, SET_F(coef[m]));
            *(VU *)(row + j) = w;
            sum += w;
        }
        /* one vector for the edge */
        if (j + LANES <= keys && j < seen) {
            const VF s = *(const VU *)(row + j);
            VF w = SET_F(coef[terms - 1]);
            for (size_t m = terms - 1; m-- > 0;)
                w = FMA_F(w, s, SET_F(coef[m]));
            w = MASK_F(w, loop_mask + 16 - (seen - j));
            *(VU *)(row + j) = w;
            sum += w;
            j += LANES;
        }
        for (; j < seen; j++) {
            float w = coef[terms - 1];
            for (size_t m = terms - 1; m-- > 0;)
                w = w * row[j] + coef[m];
            row[j] = w;
            tail += w;
        }
        for (; j < keys; j++)
            row[j] = 0;
        den[t] += SUM_F(sum) + tail;
    }
}

static void loop_query_ones(size_t c, size_t features, const float *psi, size_t ldp,
                            const float *ones, float *den)
{
    for (size_t t = 0; t < c; t++) {
        const float *p = psi + t * ldp;
        VF s0 = SET_F(0.0f), s1 = s0;
        size_t f = 0;
        for (; f + 2 * LANES <= features; f += 2 * LANES) {
            s0 = FMA_F(*(const VU *)(p + f), *(const VU *)(ones + f), s0);
            s1 = FMA_F(*(const VU *)(p + f + LANES), *(const VU *)(ones + f + LANES), s1);
        }
        for (; f < features; f += LANES) { /* rows have slack, the state's have not */
            VF x = *(const VU *)(p + f);
            if (features - f < LANES)
                x = MASK_F(x, loop_mask + 16 - (features - f));
            s0 = FMA_F(x, *(const VU *)(ones + f), s0);
        }
        den[t] += SUM_F(s0 + s1);
    }
}

static void loop_update_ones(size_t features, size_t c, const float *phi, float *ones)
{
    for (size_t f = 0; f < features; f++) {
        const float *p = phi + f * c;
        VF s = SET_F(0.0f);
        float tail = 0;
        size_t t = 0;
        for (; t + LANES <= c; t += LANES)
            s += *(const VU *)(p + t);
        for (; t < c; t++)
            tail += p[t];
        ones[f] += SUM_F(s) + tail;
    }
}

static void loop_divide(size_t c, size_t dv, const float *den, float *o)
{
    for (size_t t = 0; t < c; t++) {
        const float r = 1.0f / den[t];
        float *row = o + t * dv;
        size_t j = 0;
        for (; j + LANES <= dv; j += LANES)
            *(VU *)(row + j) *= SET_F(r);
        for (; j < dv; j++)
            row[j] *= r;
    }
}
