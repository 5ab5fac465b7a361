/* SPDX-License-Identifier: MIT */
/* What a few lines of plain C are worth: the recurrence token by token, its loops as one writes
 * them down. Nothing is put off or compensated. The compiler may do what it can with the vectors of
 * the includer's instruction set; it may also reorder sums. */

#if defined(__clang__)
#pragma clang fp reassociate(on) contract(fast)
#else
#pragma GCC push_options
#pragma GCC optimize("O3", "fast-math")
#endif

/* Sizes that are constants where these are called make the compiler unroll for them. */
#define PLAIN_INLINE static inline __attribute__((always_inline))
enum { PLAIN_MOST = 128 /* values whose sums may stay in registers */ };

struct plain_shape {
    size_t d, dv, terms;
};

/* All monomials of the row x of length 1, degree after degree. */
PLAIN_INLINE void plain_features(const struct contend_plain *p, const struct plain_shape s,
                                 const float *restrict x, float *restrict f)
{
    size_t at = 1 + s.d;
    float square = 0;
    for (size_t i = 0; i < s.d; i++)
        square += x[i] * x[i];
    const float scale = 1 / sqrtf(square);
    f[0] = 1;
    for (size_t i = 0; i < s.d; i++)
        f[1 + i] = scale * x[i];
    for (size_t i = 0; s.terms > 2 && i < s.d; i++)
        for (size_t j = i; j < s.d; j++)
            f[at++] = f[1 + i] * f[1 + j];
    for (size_t r = s.d; s.terms > 3 && r < p->run_count; r++) { /* those of degree 2 are done */
        const struct contend_run_of run = p->runs[r];
        for (size_t j = 0; j < run.count; j++)
            f[run.to + j] = f[1 + run.var] * f[run.from + j];
    }
}

/* Row f of the state: the sums of the values times feature f, then the sum of feature f itself. */
static void plain_absorb(const struct contend_plain *p, float *state, const float *k,
                         const float *v)
{
    plain_features(p, (struct plain_shape){p->d, p->dv, p->terms}, k, p->phi);
    for (size_t f = 0; f < p->features; f++, state += p->width) {
        for (size_t c = 0; c < p->dv; c++)
            state[c] += p->phi[f] * v[c];
        state[p->dv] += p->phi[f];
    }
}

PLAIN_INLINE void plain_step(const struct contend_plain *p, const struct plain_shape s,
                             float *restrict state, const struct contend_token *token,
                             float *restrict o)
{
    const size_t dv = s.dv, width = (dv + 1 + 15) / 16 * 16;
    const size_t features = s.terms == 3 ? 1 + s.d + s.d * (s.d + 1) / 2 : p->features;
    float *restrict psi = p->psi, *restrict phi = p->phi;
    const float *restrict v = token->v, *restrict weight = p->weight;
    float own[PLAIN_MOST], *sum = dv <= PLAIN_MOST ? own : p->sum, den = 0;
    plain_features(p, s, token->q, psi);
    plain_features(p, s, token->k, phi);
    for (size_t f = 0; f < features; f++)
        psi[f] *= weight[f];
    for (size_t c = 0; c < dv; c++)
        sum[c] = 0;
    for (size_t f = 0; f < features; f++, state += width) {
        for (size_t c = 0; c < dv; c++) {
            state[c] += phi[f] * v[c];
            sum[c] += psi[f] * state[c];
        }
        state[dv] += phi[f];
        den += psi[f] * state[dv];
    }
    for (size_t c = 0; c < dv; c++)
        o[c] = sum[c] / den;
}

#define PLAIN_STEP(name, ...)                                                                      \
    static void name(const struct contend_plain *p, float *state,                                  \
                     const struct contend_token *token, float *o)                                  \
    {                                                                                              \
        plain_step(p, (struct plain_shape){__VA_ARGS__}, state, token, o);                         \
    }
PLAIN_STEP(plain_step_16_16_3, 16, 16, 3)
PLAIN_STEP(plain_step_16_64_3, 16, 64, 3)
PLAIN_STEP(plain_step_16_128_3, 16, 128, 3)
PLAIN_STEP(plain_step_64_64_3, 64, 64, 3)
PLAIN_STEP(plain_step_any, p->d, p->dv, p->terms)

static contend_plain_fn *plain_find(size_t d, size_t dv, size_t terms)
{
    static const struct {
        struct plain_shape shape;
        contend_plain_fn *step;
    } steps[] = {{{16, 16, 3}, plain_step_16_16_3},
                 {{16, 64, 3}, plain_step_16_64_3},
                 {{16, 128, 3}, plain_step_16_128_3},
                 {{64, 64, 3}, plain_step_64_64_3}};
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++)
        if (steps[i].shape.d == d && steps[i].shape.dv == dv && steps[i].shape.terms == terms)
            return steps[i].step;
    return plain_step_any;
}

#ifndef __clang__
#pragma GCC pop_options
#endif
