/* SPDX-License-Identifier: MIT */
/* States whose header was damaged: no call reads or writes outside of them. Each state lies between
 * pages that cannot be touched. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "support.h"

#define LAYERS 2
#define ROWS 5 /* tokens, or queries, of each call */

/* Calls that take a state, and places of it in their arguments. */
enum call {
    RESET,
    COPY_TO,
    COPY_FROM,
    EQUAL_A,
    EQUAL_B,
    MERGE_TO,
    MERGE_FROM,
    REDUCE_TO,
    REDUCE_FROM,
    VIEW,
    EXPORT,
    PREFILL,
    ABSORB,
    QUERY,
    DECODE,
    DECODE_TWO,
    CALLS
};

/* -- memory between two forbidden pages -------------------------------------------------------- */

struct fence {
    char *pages, *memory;
    size_t bytes, all;
};

/* `bytes` that begin or end at a forbidden page. */
static void fence_make(struct fence *f, size_t bytes, bool at_end)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE), inner = (bytes + page - 1) / page * page;
    f->bytes = bytes;
    f->all = inner + 2 * page;
    f->pages = mmap(NULL, f->all, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ck_assert(f->pages != MAP_FAILED);
    ck_assert_int_eq(mprotect(f->pages + page, inner, PROT_READ | PROT_WRITE), 0);
    f->memory = f->pages + page + (at_end ? inner - bytes : 0);
}

static void fence_free(struct fence *f)
{
    munmap(f->pages, f->all);
}

/* -- calls ------------------------------------------------------------------------------------- */

/* A damaged state, a sound one, and what calls need beside them. */
struct stage {
    struct problem p;
    struct tsa_plan *plan;
    struct fence hurt, sound;
    void *hurt_before, *sound_before, *out;
    double *exported;
};

static struct tsa_state *state_in(const struct fence *f)
{
    return (struct tsa_state *)(void *)f->memory;
}

static enum tsa_status attend(struct stage *s, enum call call, struct tsa_state *const *states,
                              size_t batch, size_t from, size_t count, struct tsa_error *err)
{
    const struct shape *shape = &s->p.shape;
    const struct tsa_tensor q = from_token(s->p.q, from), k = from_token(s->p.k, from);
    const struct tsa_tensor v = from_token(s->p.v, from);
    const struct tsa_tensor o = dense(s->out, shape->dtype, shape->heads, shape->tokens, shape->dv);
    const struct tsa_plan *p = s->plan;
    if (call == ABSORB)
        return tsa_absorb(
            p, BATCH(.states = states, .count = batch, .layer = 1, .tokens = count, .k = k, .v = v),
            NULL, err);
    if (call == QUERY)
        return tsa_query(
            p, BATCH(.states = states, .count = batch, .layer = 1, .tokens = count, .q = q, .o = o),
            NULL, err);
    if (call == PREFILL)
        return tsa_prefill(p,
                           BATCH(.states = states, .count = batch, .layer = 1, .tokens = count,
                                 .q = q, .k = k, .v = v, .o = o),
                           NULL, err);
    return tsa_decode(
        p, BATCH(.states = states, .count = batch, .layer = 1, .q = q, .k = k, .v = v, .o = o),
        NULL, err);
}

static enum tsa_status enter(struct stage *s, enum call call, struct tsa_error *err)
{
    const struct tsa_plan *p = s->plan;
    struct tsa_state *hurt = state_in(&s->hurt), *sound = state_in(&s->sound);
    struct tsa_state *const both[2] = {sound, hurt};
    struct tsa_view view;
    int equal;
    switch (call) {
    case RESET:
        return tsa_state_reset(p, hurt, err);
    case COPY_TO:
        return tsa_state_copy(p, hurt, sound, err);
    case COPY_FROM:
        return tsa_state_copy(p, sound, hurt, err);
    case EQUAL_A:
        return tsa_state_equal(p, hurt, sound, &equal, err);
    case EQUAL_B:
        return tsa_state_equal(p, sound, hurt, &equal, err);
    case MERGE_TO:
        return tsa_state_merge(p, hurt, sound, NULL, err);
    case MERGE_FROM:
        return tsa_state_merge(p, sound, hurt, NULL, err);
    case REDUCE_TO:
        return tsa_state_reduce(p, hurt, (const struct tsa_state *const *)both, 1, err);
    case REDUCE_FROM:
        return tsa_state_reduce(p, sound, (const struct tsa_state *const *)both, 2, err);
    case VIEW:
        return tsa_state_view(p, hurt, LAYERS - 1, 1, &view, err);
    case EXPORT:
        return tsa_state_export(p, hurt, LAYERS - 1, 1, p->terms - 1, TSA_BASIS_PLAIN, s->exported,
                                (ptrdiff_t)p->dv + 1, err);
    case DECODE_TWO:
        return attend(s, call, both, 2, 0, 1, err);
    default:
        return attend(s, call, &both[1], 1, 0, call == DECODE ? 1 : ROWS, err);
    }
}

/* f32, f64 and mixed; the state at the start or the end of its pages. */
static void stage_begin(struct stage *s, int i)
{
    const struct shape shape = {
        5,           19,      3, 16, 4, 2, 2, 60, i / 2 == 1 ? TSA_F64 : TSA_F32, TSA_NORMALIZE_L2,
        COEF_TAYLOR, TEMP_TWO};
    struct tsa_options options;
    struct tsa_error err;
    struct tsa_state *state;
    memset(s, 0, sizeof *s);
    problem_make(&s->p, &shape, 4100);
    if (i / 2 == 2)
        problem_mix(&s->p, 1);
    problem_options(&s->p, &options);
    options.layers = LAYERS;
    options.threads = 1;
    s->plan = make_plan(&options);
    const size_t bytes = tsa_state_bytes(s->plan);
    fence_make(&s->hurt, bytes, i % 2);
    fence_make(&s->sound, bytes, i % 2);
    s->out = make_zeros(s->p.o_count, shape.dtype);
    s->exported = calloc(tsa_features(shape.d, shape.terms) * (shape.dv + 1), sizeof(double));
    for (int j = 0; j < 2; j++) {
        const struct fence *f = j == 0 ? &s->hurt : &s->sound;
        ok(tsa_state_init(s->plan, f->memory, bytes, &state, &err), &err);
        ok(attend(s, ABSORB, &state, 1, 7, 16 * 2 + 3, &err), &err); /* a window stays open */
        void **before = j == 0 ? &s->hurt_before : &s->sound_before;
        *before = malloc(bytes);
        memcpy(*before, f->memory, bytes);
    }
}

static void stage_end(struct stage *s)
{
    tsa_plan_destroy(s->plan);
    fence_free(&s->hurt);
    fence_free(&s->sound);
    free(s->hurt_before);
    free(s->sound_before);
    free(s->out);
    free(s->exported);
    problem_free(&s->p);
}

static void restore(struct stage *s)
{
    memcpy(s->hurt.memory, s->hurt_before, s->hurt.bytes);
    memcpy(s->sound.memory, s->sound_before, s->sound.bytes);
}

/* Every call with the state that now lies in `hurt`, given as `damage`; `want` if it is a failure
 * that each of them has to return. A failure changes no byte. */
static void enter_all(struct stage *s, const void *damage, enum tsa_status want, const char *what)
{
    struct tsa_error err;
    for (enum call call = 0; call < CALLS; call++) {
        restore(s);
        memcpy(s->hurt.memory, damage, s->hurt.bytes);
        const enum tsa_status status = enter(s, call, &err);
        CHECK(want == TSA_OK || status == want, "%s: call %d returned %d (%s), wanted %d", what,
              (int)call, (int)status, err.text, (int)want);
        if (status == TSA_OK)
            continue;
        CHECK(status == TSA_EFORMAT || status == TSA_EMISMATCH || status == TSA_EOVERFLOW ||
                  status == TSA_EINVAL,
              "%s: call %d returned %d", what, (int)call, (int)status);
        CHECK(memcmp(s->sound.memory, s->sound_before, s->sound.bytes) == 0,
              "%s: call %d failed and changed the other state", what, (int)call);
        /* the mark of a batch is put back to 0, whatever it was */
        ((struct tsa_state *)(void *)s->hurt.memory)->header.mark =
            ((const struct tsa_state *)damage)->header.mark;
        CHECK(memcmp(s->hurt.memory, damage, s->hurt.bytes) == 0,
              "%s: call %d failed and changed the state", what, (int)call);
    }
}

/* -- tests ------------------------------------------------------------------------------------- */

/* Each bit of the header and of the counts of the layers, in every call. */
START_TEST(every_bit)
{
    struct stage s;
    char what[64];
    stage_begin(&s, _i);
    unsigned char *damage = malloc(s.hurt.bytes);
    const size_t bytes = sizeof(struct tsa_state_header) + TSA_ALIGN;
    ck_assert_uint_ge(bytes,
                      sizeof(struct tsa_state_header) + LAYERS * sizeof(struct tsa_layer_header));
    for (size_t bit = 0; bit < 8 * bytes; bit += quick() ? 3 : 1) {
        memcpy(damage, s.hurt_before, s.hurt.bytes);
        damage[bit / 8] ^= (unsigned char)(1u << bit % 8);
        snprintf(what, sizeof what, "bit %zu of byte %zu", bit % 8, bit / 8);
        enter_all(&s, damage, TSA_OK, what);
        /* calls that do not check, also for a layer that there is not */
        memcpy(s.hurt.memory, damage, s.hurt.bytes);
        struct tsa_state *state = state_in(&s.hurt);
        static const size_t layers[] = {0, 1, 2, 7, 1000, (size_t)1 << 40, SIZE_MAX};
        uint64_t sum = tsa_state_size(state);
        for (size_t i = 0; i < sizeof layers / sizeof *layers; i++)
            sum += tsa_state_tokens(state, layers[i]) + tsa_state_window(state, layers[i]);
        ck_assert(sum + 1 > 0 || sum == UINT64_MAX); /* they were read */
        tsa_state_destroy(state);                    /* nothing: it is ours */
        ck_assert_mem_eq(s.hurt.memory, damage, s.hurt.bytes);
    }
    free(damage);
    stage_end(&s);
}
END_TEST

/* Damage number j of a header, and its name; NULL after the last. */
static const char *damage_header(struct tsa_state *state, int j)
{
    struct tsa_state_header *h = &state->header;
    struct tsa_layer_header *layer = tsa_state_layer(state, 1); /* the one that calls use */
    int at = 0;
#define DAMAGE(what, statement)                                                                    \
    if (j == at++) {                                                                               \
        statement;                                                                                 \
        return what;                                                                               \
    }
    DAMAGE("magic", h->magic[7]++)
    DAMAGE("fewer bytes", h->bytes -= 64)
    DAMAGE("more bytes", h->bytes += 64)
    DAMAGE("dtype", h->dtype = 3)
    DAMAGE("the other dtype", h->dtype ^= 3)
    DAMAGE("normalize", h->normalize = 3)
    DAMAGE("no terms", h->terms = 0)
    DAMAGE("fewer terms", h->terms--)
    DAMAGE("terms", h->terms = 9)
    DAMAGE("head_dim", h->d++)
    DAMAGE("huge head_dim", h->d |= (uint64_t)1 << 62)
    DAMAGE("value_dim", h->dv += 16)
    DAMAGE("kv_heads", h->kv_heads++)
    DAMAGE("no layers", h->layers = 0)
    DAMAGE("layers", h->layers++)
    DAMAGE("chunk", h->chunk += 2)
    DAMAGE("no chunk", h->chunk = 0)
    DAMAGE("mark of a longer chunk", h->fold = h->chunk + 1)
    DAMAGE("mark of no chunk", h->fold = 0)
    DAMAGE("pairs", h->pair_degree = h->terms + 1)
    DAMAGE("unused", h->unused = 64)
    DAMAGE("a gate that is not there", h->gate = TSA_GATE_SCALAR)
    DAMAGE("gate", h->gate = 2)
    DAMAGE("reserved", h->reserved[1] = 1)
    DAMAGE("window of a chunk", layer->window = h->fold)
    DAMAGE("huge window", layer->window |= (uint64_t)1 << 63)
    DAMAGE("window without tokens", layer->tokens = layer->window - 1)
#undef DAMAGE
    return NULL;
}

/* What no state of the library has is not a state, for every call. */
START_TEST(impossible)
{
    struct stage s;
    stage_begin(&s, _i);
    struct tsa_state *damage = aligned_alloc(64, s.hurt.bytes);
    const char *what;
    memcpy(damage, s.hurt_before, s.hurt.bytes);
    for (int j = 0; (what = damage_header(damage, j)) != NULL; j++) {
        enter_all(&s, damage, TSA_EFORMAT, what);
        memcpy(damage, s.hurt_before, s.hurt.bytes);
    }
    free(damage);
    stage_end(&s);
}
END_TEST

/* A count that would wrap is refused, and one that just fits is not. */
START_TEST(full_counts)
{
    struct stage s;
    struct tsa_error err;
    stage_begin(&s, _i);
    struct tsa_state *state = state_in(&s.hurt);
    static const enum call calls[] = {PREFILL, ABSORB, DECODE, DECODE_TWO, MERGE_TO, MERGE_FROM};
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        const uint64_t more = calls[i] == DECODE || calls[i] == DECODE_TWO ? 1
                              : calls[i] >= PREFILL                        ? ROWS
                                                    : tsa_state_tokens(state_in(&s.sound), 1);
        for (uint64_t over = 0; over < 2; over++) {
            restore(&s);
            tsa_state_layer(state, 1)->tokens = UINT64_MAX - more + over;
            void *before = malloc(s.hurt.bytes);
            memcpy(before, s.hurt.memory, s.hurt.bytes);
            const enum tsa_status status = enter(&s, calls[i], &err);
            CHECK(status == (over ? TSA_EOVERFLOW : TSA_OK), "call %d, %d too many: %d (%s)",
                  (int)calls[i], (int)over, (int)status, err.text);
            if (over)
                ck_assert_mem_eq(before, s.hurt.memory, s.hurt.bytes);
            else
                ck_assert_uint_eq(
                    tsa_state_tokens(calls[i] == MERGE_FROM ? state_in(&s.sound) : state, 1),
                    UINT64_MAX);
            free(before);
        }
    }
    stage_end(&s);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("hostile_state");
    TCase *header = add_case(suite, "header");
    tcase_add_loop_test(header, every_bit, 0, 6);
    tcase_add_loop_test(header, impossible, 0, 6);
    tcase_add_loop_test(add_case(suite, "counts"), full_counts, 0, 6);
    return run_suite(suite);
}
