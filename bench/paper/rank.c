/* SPDX-License-Identifier: MIT */
/* `tsa paper`, how wide a state has to be: singular values of key tensors and of a state (section
 * 5.4 of the paper). Needs LAPACKE; without it the experiment is not run. */
#include "config.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cmd.h"
#include "paper.h"

enum { D = 6, DEGREES = 6, DV = 24, ROW = DV + 1, N = 64, WIDTH = 21 };

static bool not_run(struct paper_experiment *e, const char *reason, const char *why)
{
    snprintf(e->setting, sizeof e->setting,
             "2000 random keys, d = %d; the order-2 state with dv = %d. Not run: %s.", D, DV, why);
    for (size_t m = 0; m < DEGREES; m++) {
        char name[80];
        snprintf(name, sizeof name, "rank of degree %zu", m);
        paper_not_run(e, name, (double)(tsa_features(D, m + 1) - tsa_features(D, m)), reason);
    }
    snprintf(e->note, sizeof e->note,
             "The truncation of the order-2 state (%d x %d, N = %d) is not run either.", WIDTH, ROW,
             N);
    return true;
}

#ifdef TSA_PAPER_LAPACKE

#include <float.h>
#include <lapacke.h>

typedef lapack_int (*dgesdd_fn)(int order, char job, lapack_int m, lapack_int n, double *a,
                                lapack_int lda, double *s, double *u, lapack_int ldu, double *vt,
                                lapack_int ldvt);

static dgesdd_fn dgesdd;

static bool lapacke_start(void)
{
    static const char *const names[] = {"liblapacke.so.3", "liblapacke.so", "liblapacke.dylib",
                                        NULL};
    void *library = dgesdd ? NULL : contend_library(names);
    return dgesdd || (library && contend_library_find(library, "LAPACKE_dgesdd", &dgesdd));
}

/* Singular values of a row-major matrix, which is destroyed; with vectors unless u and vt are
 * NULL, u being rows x least and vt least x columns. False if LAPACK fails. */
static bool svd(size_t rows, size_t columns, double *a, double *s, double *u, double *vt)
{
    /* column-major, it is the transpose: swap what is left and right */
    const lapack_int m = (lapack_int)columns, n = (lapack_int)rows, least = m < n ? m : n;
    return dgesdd(LAPACK_COL_MAJOR, u ? 'S' : 'N', m, n, a, m, s, vt, m, u, least) == 0;
}

/* k tensor k tensor ... m times: d^m entries. */
static void tensor_power(const double *k, size_t m, double *out)
{
    size_t length = 1;
    out[0] = 1;
    for (size_t i = 0; i < m; i++, length *= D)
        for (size_t j = length; j-- > 0;) /* backwards: in place */
            for (size_t c = D; c-- > 0;)
                out[j * D + c] = out[j] * k[c];
}

/* Rank as numpy.linalg.matrix_rank has it, and the gap to the next singular value. */
static bool rank_of_degree(const struct paper_draw *draw, size_t m, size_t *rank, double *last,
                           double *next)
{
    const size_t keys = draw->n, columns = (size_t)round(pow(D, (double)m));
    const size_t least = keys < columns ? keys : columns, longest = keys + columns - least;
    double *a = malloc(keys * columns * sizeof *a), *s = malloc((least + 1) * sizeof *s);
    bool done = a && s;
    for (size_t t = 0; done && t < keys; t++)
        tensor_power(draw->k + t * D, m, a + t * columns);
    done = done && svd(keys, columns, a, s, NULL, NULL);
    *rank = 0;
    for (size_t i = 0; done && i < least; i++)
        *rank += s[i] > s[0] * (double)longest * DBL_EPSILON;
    *last = done && *rank ? s[*rank - 1] / s[0] : NAN;
    *next = done && *rank < least ? s[*rank] / s[0] : NAN;
    free(a);
    free(s);
    return done;
}

static double binomial_of_degree(size_t m)
{
    return (double)(tsa_features(D, m + 1) - tsa_features(D, m));
}

static bool ranks(const struct paper_run *run, struct paper_experiment *e)
{
    static const char heads[] = "m|d^m|binom(d+m-1,m)|rank|last s/s1|next s/s1";
    const size_t keys = run->quick ? 400 : 2000;
    struct paper_table *t = paper_table(e, "", "Rank of the span of the key tensors", heads);
    struct paper_draw draw;
    if (!paper_draw_create(&draw, keys, D, 1, 1, true))
        return false;
    bool done = true;
    for (size_t m = 0; done && m < DEGREES; m++) {
        size_t rank;
        double last, next;
        char name[80];
        paper_progress(run, "rank of degree %zu, %zu keys", m, keys);
        done = rank_of_degree(&draw, m, &rank, &last, &next);
        const double wanted = binomial_of_degree(m);
        PAPER_ROW(t, (double)m, pow(D, (double)m), wanted, (double)rank, last, next);
        snprintf(name, sizeof name, "rank of degree %zu", m);
        if (done)
            paper_equal(e, name, wanted, wanted, (double)rank);
    }
    paper_draw_destroy(&draw);
    return done;
}

/* The state of three terms in the symmetric basis, by the library. */
static bool export_state(const struct paper_run *run, const struct paper_draw *draw, double *sums)
{
    const struct paper_model model = {3, 16, 2, TSA_F64, run->isa};
    const struct tsa_tensor k = paper_rows(draw->k, D), v = paper_rows(draw->v, DV);
    struct tsa_error err = {.status = TSA_OK};
    struct tsa_plan *plan = NULL;
    struct tsa_state *state = NULL;
    if (!paper_plan(&model, draw, &plan))
        return false;
    enum tsa_status status = tsa_state_create(plan, &state, &err);
    if (status == TSA_OK)
        status = tsa_absorb(plan,
                            &(struct tsa_batch){.size = sizeof(struct tsa_batch),
                                                .states = &state,
                                                .count = 1,
                                                .tokens = N,
                                                .k = k,
                                                .v = v},
                            NULL, &err);
    for (size_t m = 0; status == TSA_OK && m < 3; m++)
        status = tsa_state_export(plan, state, 0, 0, m, TSA_BASIS_SYMMETRIC,
                                  sums + tsa_features(D, m) * ROW, ROW, &err);
    tsa_state_destroy(state);
    tsa_plan_destroy(plan);
    return status == TSA_OK || paper_fail(status, &err);
}

static void query(const struct paper_draw *draw, const double *sums, double *o)
{
    static const double weights[] = {1, 1.0 / 2, 1.0 / 8}; /* 1/(m! a^m), a = 2 */
    double psi[1 + D + WIDTH];
    for (size_t t = 0; t < N; t++) {
        double numerator[ROW] = {0};
        bench_features(draw->q + t * D, D, 3, psi);
        for (size_t f = 0; f < 1 + D + WIDTH; f++)
            for (size_t c = 0; c < ROW; c++)
                numerator[c] += weights[(f > 0) + (f > D)] * psi[f] * sums[f * ROW + c];
        for (size_t c = 0; c < DV; c++)
            o[t * DV + c] = numerator[c] / numerator[DV];
    }
}

/* Rows of the order-2 state in the basis of all d^2 entries, and of its distinct ones. */
enum { FULL = D * D };

/* The whole matrix of a symmetric one: the row of i <= j is sqrt(2) times that of (i, j) and of
 * (j, i), and that of i = j is itself. */
static void expand(const double *symmetric, double *full)
{
    for (size_t i = 0; i < D; i++) {
        for (size_t j = i; j < D; j++, symmetric += ROW) {
            const double scale = i == j ? 1 : sqrt(0.5);
            for (size_t c = 0; c < ROW; c++)
                full[(i * D + j) * ROW + c] = full[(j * D + i) * ROW + c] = scale * symmetric[c];
        }
    }
}

/* The whole matrix by plain sums over the tokens, with nothing known of its symmetry. */
static void whole_state(const struct paper_draw *draw, double *full)
{
    double power[FULL];
    memset(full, 0, FULL * ROW * sizeof *full);
    for (size_t t = 0; t < N; t++) {
        tensor_power(draw->k + t * D, 2, power);
        for (size_t i = 0; i < FULL; i++)
            for (size_t c = 0; c < ROW; c++)
                full[i * ROW + c] += power[i] * (c < DV ? draw->v[t * DV + c] : 1);
    }
}

/* What queries see of a whole matrix: the symmetric part of it. */
static void compress(const double *full, double *symmetric)
{
    for (size_t i = 0; i < D; i++) {
        for (size_t j = i; j < D; j++, symmetric += ROW) {
            const double scale = i == j ? 0.5 : sqrt(0.5);
            for (size_t c = 0; c < ROW; c++)
                symmetric[c] = scale * (full[(i * D + j) * ROW + c] + full[(j * D + i) * ROW + c]);
        }
    }
}

/* The sum of the first r singular triples. */
static void truncated(const double *u, const double *s, const double *vt, size_t r, double *out)
{
    memset(out, 0, FULL * ROW * sizeof *out);
    for (size_t i = 0; i < FULL; i++)
        for (size_t j = 0; j < r; j++)
            for (size_t c = 0; c < ROW; c++)
                out[i * ROW + c] += u[i * ROW + j] * s[j] * vt[j * ROW + c];
}

/* The library's rows agree with the plain sums up to rounding: N terms each, and the same margin as
 * below. Nothing is left beyond rank 21 but what LAPACK and the product lose: a small multiple of
 * the unit for each row. What rank 20 leaves out has to be a million times that. */
static void truncation_figures(struct paper_experiment *e, const struct paper_table *t,
                               const double *s)
{
    const double rounding = FULL * DBL_EPSILON;
    size_t rank = 0;
    for (size_t i = 0; i < ROW; i++)
        rank += s[i] > s[0] * rounding; /* as numpy.linalg.matrix_rank */
    paper_equal(e, "rank of the order-2 state, 36 x 25", WIDTH, WIDTH, (double)rank);
    paper_at_most(e, "its 22nd singular value over the first", rounding, s[WIDTH] / s[0]);
    paper_at_least(e, "its 21st singular value over the first", 1e6 * rounding,
                   s[WIDTH - 1] / s[0]);
    paper_at_most(e, "rank 21 is lossless: relative error of the state", 64 * rounding,
                  paper_cell_value(t, WIDTH - 1, 2));
    paper_at_least(e, "rank 20 is not: relative error of the state", 1e6 * rounding,
                   paper_cell_value(t, WIDTH - 2, 2));
}

static bool truncate_state(const struct paper_run *run, struct paper_experiment *e)
{
    static const char heads[] = "rank r|s of r / s of 1|state, relative error|outputs, max error";
    enum { FEATURES = 1 + D + WIDTH };
    double sums[FEATURES * ROW], cut[FEATURES * ROW], a[FULL * ROW], full[FULL * ROW];
    double s[ROW], u[FULL * ROW], vt[ROW * ROW], o[N * DV], o_cut[N * DV], full_cut[FULL * ROW];
    double expanded[FULL * ROW];
    struct paper_draw draw;

    if (!paper_draw_create(&draw, N, D, DV, 1, true))
        return false;
    bool done = export_state(run, &draw, sums);
    if (done) {
        expand(sums + (1 + D) * ROW, expanded);
        whole_state(&draw, full);
        memcpy(a, full, sizeof a);
        done = svd(FULL, ROW, a, s, u, vt);
    }
    if (!done) {
        paper_draw_destroy(&draw);
        return false;
    }
    struct paper_table *t =
        paper_table(e, "truncation", "The order-2 state truncated to rank r", heads);
    query(&draw, sums, o);
    memcpy(cut, sums, sizeof cut);
    for (size_t r = 1; r <= ROW; r++) {
        truncated(u, s, vt, r, full_cut);
        compress(full_cut, cut + (1 + D) * ROW);
        query(&draw, cut, o_cut);
        PAPER_ROW(t, (double)r, s[r - 1] / s[0], paper_relative_l2(full_cut, full, FULL * ROW),
                  paper_max_difference(o_cut, o, N * DV));
    }
    paper_draw_destroy(&draw);
    paper_plot(e, "truncation", "The order-2 state truncated to rank r", "error", PAPER_LOG_Y,
               (size_t[]){1, 2, 3, 0})
        ->table = 1;
    paper_at_most(e, "the library's 21 rows put into 36: relative error of the state",
                  64 * FULL * DBL_EPSILON, paper_relative_l2(expanded, full, FULL * ROW));
    truncation_figures(e, t, s);
    return true;
}

bool paper_rank(const struct paper_run *run, struct paper_experiment *e)
{
    char keys[CMD_NUMBER_TEXT];
    if (!lapacke_start())
        return not_run(e, "not found: no LAPACKE",
                       "LAPACKE could not be loaded (Debian, Ubuntu: liblapacke)");
    snprintf(e->setting, sizeof e->setting,
             "%s random unit keys, d = %d: singular values of the matrix of all d^m entries of "
             "each key's tensor, m = 0 to 5, counted as numpy.linalg.matrix_rank counts them. Then "
             "the order-2 state of N = %d tokens, dv = %d, in all %d x %d entries by plain sums, "
             "against "
             "the library's %d rows expanded; cut to rank r, with outputs of three terms, a = 2.",
             cmd_count_text(run->quick ? 400 : 2000, keys), D, N, DV, FULL, ROW, WIDTH);
    return ranks(run, e) && truncate_state(run, e);
}

#else

bool paper_rank(const struct paper_run *run, struct paper_experiment *e)
{
    (void)run;
    return not_run(e, "not built: no LAPACKE",
                   "configure found no LAPACKE (Debian, Ubuntu: liblapacke-dev)");
}

#endif
