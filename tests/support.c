/* SPDX-License-Identifier: MIT */
/* What the tests share: strided tensors, comparisons, files. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#ifdef _OPENMP
#include <omp.h>
#endif

#include "half_model.h"
#include "support.h"
#include "team.h"

#define PATTERN 0xa5

bool quick(void)
{
    const char *value = getenv("TSA_TEST_QUICK");
    return value != NULL && value[0] == '1';
}

int run_suite(Suite *suite)
{
#ifdef _OPENMP
    tsa_team_may_rest = false; /* busy machines want their teams tested, too */
#endif
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

TCase *add_case(Suite *suite, const char *name)
{
    TCase *tcase = tcase_create(name);
    tcase_set_timeout(tcase, 600); /* emulators are slow; the aim is seconds */
    suite_add_tcase(suite, tcase);
    return tcase;
}

const char *usable_isa(size_t i)
{
    int usable = 0;
    const char *name;
    for (size_t at = 0; (name = tsa_isa_list(at, &usable)) != NULL; at++)
        if (usable && i-- == 0)
            return name;
    return NULL;
}

void assert_team(int threads)
{
#ifdef _OPENMP
    int granted = 0;
    omp_set_dynamic(0);
#pragma omp parallel num_threads(threads)
#pragma omp single
    granted = omp_get_num_threads();
    ck_assert_int_eq(granted, threads);
#else
    (void)threads;
#endif
}

void set_way(struct tsa_plan *plan, enum way way)
{
    static const enum tsa_team_use use[WAYS] = {TSA_TEAM_AUTO, TSA_TEAM_RELAY, TSA_TEAM_WAVES,
                                                TSA_TEAM_WAVES};
    static const size_t length[WAYS] = {0, 0, 2, 3};
    plan->team_use = use[way];
    plan->wave_length = length[way];
}

void ok(enum tsa_status status, const struct tsa_error *err)
{
    ck_assert_msg(status == TSA_OK, "%s: %s: %s", tsa_status_string(status), err->argument,
                  err->text);
}

/* -- numbers ----------------------------------------------------------------------------------- */

/* SplitMix64, apart from the command's on purpose: what tests draw does not depend on the
 * product. */
uint64_t rng_next(struct rng *r)
{
    r->state += 0x9e3779b97f4a7c15u;
    uint64_t z = r->state;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

double rng_uniform(struct rng *r)
{
    return ((double)(rng_next(r) >> 11) + 0.5) * 0x1p-53;
}

double rng_normal(struct rng *r)
{
    const double radius = sqrt(-2 * log(rng_uniform(r)));
    return radius * cos(6.283185307179586 * rng_uniform(r));
}

size_t dtype_size(enum tsa_dtype dtype)
{
    return dtype == TSA_F64 ? sizeof(double) : dtype == TSA_F32 ? sizeof(float) : 2;
}

double get(const void *data, enum tsa_dtype dtype, size_t i)
{
    uint16_t half;
    float narrow;
    double wide;
    if (dtype == TSA_BF16 || dtype == TSA_F16) {
        memcpy(&half, (const char *)data + i * sizeof half, sizeof half);
        return half_value(half, dtype == TSA_F16);
    }
    if (dtype == TSA_F64) {
        memcpy(&wide, (const char *)data + i * sizeof wide, sizeof wide);
        return wide;
    }
    memcpy(&narrow, (const char *)data + i * sizeof narrow, sizeof narrow);
    return narrow;
}

void put(void *data, enum tsa_dtype dtype, size_t i, double x)
{
    const float narrow = (float)x;
    if (dtype == TSA_BF16 || dtype == TSA_F16) {
        const uint16_t half = half_nearest(x, dtype == TSA_F16);
        memcpy((char *)data + i * sizeof half, &half, sizeof half);
    } else if (dtype == TSA_F64)
        memcpy((char *)data + i * sizeof x, &x, sizeof x);
    else
        memcpy((char *)data + i * sizeof narrow, &narrow, sizeof narrow);
}

void fill_normal(struct rng *r, void *data, enum tsa_dtype dtype, size_t count, double scale)
{
    for (size_t i = 0; i < count; i++)
        put(data, dtype, i, scale * rng_normal(r));
}

void *make_zeros(size_t count, enum tsa_dtype dtype)
{
    void *data = calloc(count > 0 ? count : 1, dtype_size(dtype));
    ck_assert_ptr_nonnull(data);
    return data;
}

double roundoff(enum tsa_dtype dtype)
{
    return dtype == TSA_F32 ? 0x1p-24 : 0x1p-53;
}

double ulps(double a, double b, enum tsa_dtype dtype)
{
    int e;
    if (a == b)
        return 0;
    frexp(b, &e);
    return fabs(a - b) / ldexp(2 * roundoff(dtype), e - 1);
}

/* -- tensors ----------------------------------------------------------------------------------- */

void strided_make(struct strided *s, enum layout layout, enum tsa_dtype dtype, size_t batch,
                  size_t heads, size_t tokens, size_t width, const void *from)
{
    const ptrdiff_t n = (ptrdiff_t)tokens, h = (ptrdiff_t)heads, b = (ptrdiff_t)batch;
    const ptrdiff_t w = (ptrdiff_t)width;
    const size_t e = dtype_size(dtype), skew = e == 2 ? 1 : e;
    struct tsa_tensor t = {0};
    ptrdiff_t origin = 0;
    t.dtype = dtype;
    t.token = w, t.head = n * w, t.batch = h * n * w;
    if (layout == LAYOUT_BNHD) {
        t.head = w, t.token = h * w;
    } else if (layout == LAYOUT_GAPS) {
        t.token = w + 3, t.head = n * t.token + 5, t.batch = h * t.head + 7;
    } else if (layout == LAYOUT_NEGATIVE) {
        origin = (b * h * n - 1) * w;
        t.token = -t.token, t.head = -t.head, t.batch = -t.batch;
    } else if (layout == LAYOUT_SKEW) {
        t.batch = w, t.token = b * w, t.head = n * b * w;
    }
    s->batch = batch, s->heads = heads, s->tokens = tokens, s->width = width;
    s->bytes = (size_t)(b * (h * (n * (w + 3) + 5) + 7) + 8) * e;
    s->memory = malloc(s->bytes);
    ck_assert_ptr_nonnull(s->memory);
    memset(s->memory, PATTERN, s->bytes);
    t.data = s->memory + (size_t)origin * e + (layout == LAYOUT_SKEW ? skew : 0);
    s->tensor = t;
    for (size_t i = 0; i < batch * heads * tokens; i++)
        for (size_t c = 0; c < width; c++) {
            const ptrdiff_t at = (ptrdiff_t)(i / tokens / heads) * t.batch +
                                 (ptrdiff_t)(i / tokens % heads) * t.head +
                                 (ptrdiff_t)(i % tokens) * t.token + (ptrdiff_t)c;
            char *to = (char *)t.data + at * (ptrdiff_t)e;
            if (from != NULL)
                memcpy(to, (const char *)from + (i * width + c) * e, e);
            else
                put(to, dtype, 0, NAN);
        }
}

void strided_free(struct strided *s)
{
    free(s->memory);
}

void strided_read(const struct strided *s, void *to)
{
    const struct tsa_tensor *t = &s->tensor;
    const size_t e = dtype_size(t->dtype);
    unsigned char *copy = malloc(s->bytes);
    ck_assert_ptr_nonnull(copy);
    memcpy(copy, s->memory, s->bytes);
    for (size_t i = 0; i < s->batch * s->heads * s->tokens; i++) {
        const ptrdiff_t at = (ptrdiff_t)(i / s->tokens / s->heads) * t->batch +
                             (ptrdiff_t)(i / s->tokens % s->heads) * t->head +
                             (ptrdiff_t)(i % s->tokens) * t->token;
        const char *row = (const char *)t->data + at * (ptrdiff_t)e;
        memcpy((char *)to + i * s->width * e, row, s->width * e);
        memset(copy + ((const unsigned char *)row - s->memory), PATTERN, s->width * e);
    }
    for (size_t i = 0; i < s->bytes; i++)
        CHECK(copy[i] == PATTERN, "byte %zu between rows was written", i);
    free(copy);
}

struct tsa_tensor dense(void *data, enum tsa_dtype dtype, size_t heads, size_t tokens, size_t width)
{
    struct tsa_tensor t = {0};
    t.data = data;
    t.dtype = dtype;
    t.token = (ptrdiff_t)width;
    t.head = (ptrdiff_t)(tokens * width);
    t.batch = (ptrdiff_t)(heads * tokens * width);
    return t;
}

struct tsa_tensor from_token(struct tsa_tensor x, size_t token)
{
    if (x.data == NULL)
        return x;
    x.data = (char *)x.data + (ptrdiff_t)token * x.token * (ptrdiff_t)dtype_size(x.dtype);
    return x;
}

struct tsa_tensor from_batch(struct tsa_tensor x, size_t batch)
{
    if (x.data == NULL)
        return x;
    x.data = (char *)x.data + (ptrdiff_t)batch * x.batch * (ptrdiff_t)dtype_size(x.dtype);
    return x;
}

/* -- comparisons ------------------------------------------------------------------------------- */

void assert_bits(const void *got, const void *want, enum tsa_dtype dtype, size_t count,
                 const char *what)
{
    const size_t e = dtype_size(dtype);
    if (memcmp(got, want, count * e) == 0)
        return;
    for (size_t i = 0; i < count; i++)
        CHECK(memcmp((const char *)got + i * e, (const char *)want + i * e, e) == 0,
              "%s: element %zu of %zu is %a, wanted %a", what, i, count, get(got, dtype, i),
              get(want, dtype, i));
}

void assert_state(const struct tsa_plan *plan, const struct tsa_state *state, size_t layer,
                  const struct model *m, struct model_head *const *head, const char *what)
{
    const size_t e = dtype_size(m->dtype);
    struct tsa_error err;
    for (size_t g = 0; g < m->kv_heads; g++) {
        struct tsa_view view;
        ok(tsa_state_view(plan, state, layer, g, &view, &err), &err);
        ck_assert_uint_eq(tsa_state_tokens(state, layer), head[g]->tokens);
        ck_assert_uint_eq(tsa_state_window(state, layer), head[g]->window);
        ck_assert_uint_eq(view.tokens, head[g]->tokens - head[g]->window);
        ck_assert_int_eq(view.dtype, m->dtype);
        CHECK(head[g]->tokens == 0 || view.decay == get(head[g]->past, m->dtype, 0),
              "%s: the decay is %g", what, view.decay);
        ck_assert_uint_eq(view.features, m->features);
        ck_assert_uint_eq(view.value_dim, m->dv);
        ck_assert_int_ge(view.stride, (ptrdiff_t)m->dv);
        for (size_t f = 0; f < m->features; f++) {
            const size_t row = f * (size_t)view.stride * e, want = f * m->dv * e;
            assert_bits((const char *)view.hi + row, (const char *)head[g]->hi + want, m->dtype,
                        m->dv, what);
            assert_bits((const char *)view.lo + row, (const char *)head[g]->lo + want, m->dtype,
                        m->dv, what);
        }
        assert_bits(view.ones_hi, head[g]->ones_hi, m->dtype, m->features, what);
        assert_bits(view.ones_lo, head[g]->ones_lo, m->dtype, m->features, what);
    }
}

double *export_all(const struct tsa_plan *plan, const struct tsa_state *state, size_t layer,
                   size_t *count)
{
    const size_t columns = plan->dv + 1;
    struct tsa_error err;
    *count = plan->kv_heads * tsa_features(plan->d, plan->terms) * columns;
    double *all = malloc(*count * sizeof *all), *out = all;
    ck_assert_ptr_nonnull(all);
    for (size_t i = 0; i < *count; i++)
        all[i] = NAN;
    for (size_t g = 0; g < plan->kv_heads; g++)
        for (size_t m = 0; m < plan->terms; m++) {
            ok(tsa_state_export(plan, state, layer, g, m, TSA_BASIS_PLAIN, out, (ptrdiff_t)columns,
                                &err),
               &err);
            out += (tsa_features(plan->d, m + 1) - tsa_features(plan->d, m)) * columns;
        }
    ck_assert(out == all + *count);
    return all;
}

void assert_export(const struct tsa_plan *plan, const struct tsa_state *state, size_t layer,
                   const struct model *m, struct model_head *const *head, const char *what)
{
    const size_t each = m->features * (m->dv + 1);
    size_t count;
    double *got = export_all(plan, state, layer, &count), *want = malloc(count * sizeof *want);
    ck_assert_uint_eq(m->kv_heads * each, count);
    for (size_t g = 0; g < m->kv_heads; g++)
        model_export(m, head[g], want + g * each);
    assert_bits(got, want, TSA_F64, count, what);
    free(want);
    free(got);
}

void assert_equal(const struct tsa_plan *plan, const struct tsa_state *a, const struct tsa_state *b,
                  bool wanted)
{
    struct tsa_error err;
    int equal = -1;
    ok(tsa_state_equal(plan, a, b, &equal, &err), &err);
    ck_assert_int_eq(equal, wanted);
}

void assert_error(const struct tsa_error *err, enum tsa_status got, enum tsa_status want,
                  const char *argument)
{
    ck_assert_msg(got == want, "%s, wanted %s for %s: %s", tsa_status_string(got),
                  tsa_status_string(want), argument, err->text);
    ck_assert_int_eq(err->status, want);
    ck_assert_str_eq(err->argument, argument);
    ck_assert_uint_gt(strlen(err->text), 8);
    ck_assert_uint_lt(strlen(err->text), sizeof err->text);
    ck_assert_ptr_null(strchr(err->text, '\n'));
    char name[32];
    snprintf(name, sizeof name, "%s", argument);
    if (strcmp(name, "temperatures") == 0 || strcmp(name, "coefficients") == 0)
        name[strlen(name) - 1] = '\0';
    ck_assert_msg(strstr(err->text, name) != NULL, "\"%s\" does not say %s", err->text, name);
}

/* -- files ------------------------------------------------------------------------------------- */

const char *data_path(const char *name)
{
    static char path[4096];
    const char *folder = getenv("TSA_DATA_DIR"), *top = getenv("TSA_TEST_SOURCE");
    if (folder != NULL)
        snprintf(path, sizeof path, "%s/%s", folder, name);
    else
        snprintf(path, sizeof path, "%s/../shared/data/%s", top != NULL ? top : ".", name);
    FILE *file = fopen(path, "rb");
    if (file == NULL)
        return NULL;
    fclose(file);
    return path;
}

double *npy_read(const char *path, size_t *count)
{
    unsigned char head[10];
    char text[1024] = "";
    FILE *file = fopen(path, "rb");
    ck_assert_ptr_nonnull(file);
    ck_assert_uint_eq(fread(head, 1, sizeof head, file), sizeof head);
    ck_assert_mem_eq(head, "\x93NUMPY\x01\x00", 8);
    const size_t length = head[8] + 256u * head[9];
    ck_assert_uint_lt(length, sizeof text);
    ck_assert_uint_eq(fread(text, 1, length, file), length);
    ck_assert_ptr_nonnull(strstr(text, "'fortran_order': False"));
    const enum tsa_dtype dtype = strstr(text, "'<f8'") != NULL ? TSA_F64 : TSA_F32;
    ck_assert(dtype == TSA_F64 || strstr(text, "'<f4'") != NULL);
    const long start = ftell(file);
    ck_assert_int_eq(fseek(file, 0, SEEK_END), 0);
    *count = (size_t)(ftell(file) - start) / dtype_size(dtype);
    ck_assert_int_eq(fseek(file, start, SEEK_SET), 0);
    void *raw = make_zeros(*count, dtype);
    double *data = malloc(*count * sizeof *data);
    ck_assert_ptr_nonnull(data);
    ck_assert_uint_eq(fread(raw, dtype_size(dtype), *count, file), *count);
    for (size_t i = 0; i < *count; i++)
        data[i] = get(raw, dtype, i);
    free(raw);
    fclose(file);
    return data;
}
