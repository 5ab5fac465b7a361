/* SPDX-License-Identifier: MIT */
/* Inputs of `tsa paper`, the library asked for outputs, and plain loops to compare with. */
#include "config.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>

#include "cmd.h"
#include "paper.h"

/* -- inputs ----------------------------------------------------------------------------------- */

/* Uniform in (-1, 1), 0 excluded. */
static double uniform(uint64_t *seed)
{
    return ((double)(cmd_random_bits(seed) >> 12) + 0.5) * 0x1p-51 - 1;
}

/* Normal numbers by the polar method, two at a time; the second of an odd last pair is dropped. */
static void fill_normal(double *x, size_t count, uint64_t seed)
{
    for (size_t i = 0; i < count; i += 2) {
        double a, b, s;
        do {
            a = uniform(&seed);
            b = uniform(&seed);
            s = a * a + b * b;
        } while (s >= 1 || s == 0);
        const double r = sqrt(-2 * log(s) / s);
        x[i] = a * r;
        if (i + 1 < count)
            x[i + 1] = b * r;
    }
}

static void normalise(double *rows, size_t n, size_t width)
{
    for (size_t t = 0; t < n; t++, rows += width) {
        const double norm = sqrt(paper_dot(rows, rows, width));
        for (size_t c = 0; c < width; c++)
            rows[c] /= norm;
    }
}

bool paper_draw_create(struct paper_draw *draw, size_t n, size_t d, size_t dv, uint64_t seed,
                       bool unit)
{
    *draw = (struct paper_draw){.n = n, .d = d, .dv = dv};
    draw->q = malloc(n * d * sizeof *draw->q);
    draw->k = malloc(n * d * sizeof *draw->k);
    draw->v = malloc(n * dv * sizeof *draw->v);
    if (!draw->q || !draw->k || !draw->v) {
        paper_draw_destroy(draw);
        return paper_no_memory();
    }
    fill_normal(draw->q, n * d, 3 * seed);
    fill_normal(draw->k, n * d, 3 * seed + 1);
    fill_normal(draw->v, n * dv, 3 * seed + 2);
    if (unit) {
        normalise(draw->q, n, d);
        normalise(draw->k, n, d);
    }
    return true;
}

void paper_draw_destroy(struct paper_draw *draw)
{
    free(draw->q);
    free(draw->k);
    free(draw->v);
    *draw = (struct paper_draw){0};
}

/* -- the library ------------------------------------------------------------------------------ */

bool paper_fail(enum tsa_status status, const struct tsa_error *err)
{
    cmd_fail_library(NULL, status, err);
    return false;
}

bool paper_no_memory(void)
{
    cmd_fail("not enough memory");
    return false;
}

bool paper_plan(const struct paper_model *model, const struct paper_draw *draw,
                struct tsa_plan **plan)
{
    struct tsa_options o;
    struct tsa_error err = {.status = TSA_OK};
    tsa_options_init(&o, sizeof o);
    o.head_dim = draw->d;
    o.value_dim = draw->dv;
    o.terms = model->terms;
    o.chunk = model->chunk;
    o.temperature = model->a;
    o.dtype = model->dtype;
    o.normalize = TSA_NORMALIZE_NONE;
    o.threads = 1;
    o.isa = model->isa;
    const enum tsa_status status = tsa_plan_create(&o, plan, &err);
    return status == TSA_OK || paper_fail(status, &err);
}

struct tsa_tensor paper_rows(double *rows, size_t width)
{
    return (struct tsa_tensor){.data = rows, .dtype = TSA_F64, .token = (ptrdiff_t)width};
}

static bool ask(const struct paper_model *model, const struct paper_draw *draw, bool softmax,
                double *o)
{
    const struct tsa_tensor tq = paper_rows(draw->q, draw->d), tk = paper_rows(draw->k, draw->d);
    const struct tsa_tensor tv = paper_rows(draw->v, draw->dv), to = paper_rows(o, draw->dv);
    struct tsa_error err = {.status = TSA_OK};
    struct tsa_plan *plan = NULL;
    struct tsa_state *state = NULL;
    enum tsa_status status;

    if (!paper_plan(model, draw, &plan))
        return false;
    if (softmax) {
        status = tsa_softmax(plan, 1, draw->n, draw->n, 1, &tq, &tk, &tv, &to, NULL, &err);
    } else {
        status = tsa_state_create(plan, &state, &err);
        if (status == TSA_OK)
            status = tsa_prefill(plan,
                                 &(struct tsa_batch){.size = sizeof(struct tsa_batch),
                                                     .states = &state,
                                                     .count = 1,
                                                     .tokens = draw->n,
                                                     .q = tq,
                                                     .k = tk,
                                                     .v = tv,
                                                     .o = to},
                                 NULL, &err);
        tsa_state_destroy(state);
    }
    tsa_plan_destroy(plan);
    return status == TSA_OK || paper_fail(status, &err);
}

bool paper_states(const struct paper_model *model, const struct paper_draw *draw, double *o)
{
    return ask(model, draw, false, o);
}

bool paper_softmax(const struct paper_model *model, const struct paper_draw *draw, double *o)
{
    return ask(model, draw, true, o);
}

/* -- plain loops ------------------------------------------------------------------------------ */

double paper_dot(const double *a, const double *b, size_t width)
{
    double sum = 0;
    for (size_t c = 0; c < width; c++)
        sum += a[c] * b[c];
    return sum;
}

static double dot_of_magnitudes(const double *a, const double *b, size_t width)
{
    double sum = 0;
    for (size_t c = 0; c < width; c++)
        sum += fabs(a[c] * b[c]);
    return sum;
}

/* Outputs of row t from its weights; `sizes` are bounds of the magnitudes that were added up to
 * each weight. An output num/den with errors K u S_num and K u S_den is off by at most
 * K u (S_num + |o| S_den) / |den|, to first order. */
static void explicit_row(const struct paper_draw *draw, size_t t, const double *weights,
                         const double *sizes, double unit, double *o, double *bound)
{
    double den = 0, den_size = 0;
    for (size_t i = 0; i <= t; i++) {
        den += weights[i];
        den_size += sizes[i];
    }
    for (size_t c = 0; c < draw->dv; c++) {
        double num = 0, num_size = 0;
        for (size_t i = 0; i <= t; i++) {
            num += weights[i] * draw->v[i * draw->dv + c];
            num_size += sizes[i] * fabs(draw->v[i * draw->dv + c]);
        }
        o[c] = num / den;
        if (bound)
            bound[c] = unit * (num_size + fabs(o[c]) * den_size) / fabs(den);
    }
}

bool paper_explicit(const struct paper_model *model, const struct paper_draw *draw, double chain,
                    double *o, double *bound)
{
    const size_t n = draw->n, d = draw->d;
    double *weights = calloc(n * n, sizeof *weights), *sizes = calloc(n, sizeof *sizes);
    if (!weights || !sizes) {
        free(weights);
        free(sizes);
        return paper_no_memory();
    }
    for (size_t t = 0; t < n; t++)
        for (size_t i = 0; i <= t; i++)
            weights[t * n + i] = bench_series(
                model->terms, paper_dot(draw->q + t * d, draw->k + i * d, d) / model->a);
    for (size_t t = 0; t < n; t++) {
        for (size_t i = 0; i <= t; i++)
            sizes[i] = bench_series(
                model->terms, dot_of_magnitudes(draw->q + t * d, draw->k + i * d, d) / model->a);
        explicit_row(draw, t, weights + t * n, sizes, chain * DBL_EPSILON / 2, o + t * draw->dv,
                     bound ? bound + t * draw->dv : NULL);
    }
    free(weights);
    free(sizes);
    return true;
}

double paper_max_difference(const double *a, const double *b, size_t count)
{
    double worst = 0;
    for (size_t i = 0; i < count; i++)
        worst = bench_worse(worst, fabs(a[i] - b[i]));
    return worst;
}

double paper_relative_l2(const double *o, const double *exact, size_t count)
{
    double error = 0, size = 0;
    for (size_t i = 0; i < count; i++) {
        error += (o[i] - exact[i]) * (o[i] - exact[i]);
        size += exact[i] * exact[i];
    }
    return sqrt(error / size);
}

double paper_relative_max(const double *o, const double *exact, size_t count)
{
    double size = 0;
    for (size_t i = 0; i < count; i++)
        size = fmax(size, fabs(exact[i]));
    return paper_max_difference(o, exact, count) / size;
}

double paper_fit(const double *x, const double *y, size_t count, double *intercept)
{
    double n = 0, sx = 0, sy = 0, sxx = 0, sxy = 0;
    for (size_t i = 0; i < count; i++) {
        if (!(x[i] > 0) || !(y[i] > 0))
            continue;
        const double u = log(x[i]), w = log(y[i]);
        n++;
        sx += u;
        sy += w;
        sxx += u * u;
        sxy += u * w;
    }
    const double slope = (n * sxy - sx * sy) / (n * sxx - sx * sx);
    if (intercept)
        *intercept = (sy - slope * sx) / n;
    return slope;
}
