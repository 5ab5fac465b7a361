/* SPDX-License-Identifier: MIT */
/* The harness for kernels: arrays between guard pages, random data, comparison. */
#if !defined(_DEFAULT_SOURCE)
#define _DEFAULT_SOURCE 1
#endif
#include "kcheck.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

/* Room for one array; only what is touched costs memory. */
#define SLOT_BYTES ((size_t)8 << 20)
/* Bytes on the side without a guard page that must keep their pattern. */
#define CANARY_BYTES 256
#define CANARY 0xa5

static struct {
    unsigned char *data; /* SLOT_BYTES between two guard pages */
    unsigned char *want, *before;
} slots[KC_MAX_ARRAYS];

static struct kc *current; /* for the signal handler */

/* -- tables -------------------------------------------------------------------------------- */

const struct tsa_isa *kc_isa(int i)
{
    const struct tsa_isa *isa;

    for (size_t at = 0; (isa = tsa_isa_at(at)) != NULL; at++)
        if (tsa_isa_usable(isa) && i-- == 0)
            return isa;
    return NULL;
}

int kc_isa_count(void)
{
    int n = 0;

    while (kc_isa(n) != NULL)
        n++;
    return n;
}

/* -- random data --------------------------------------------------------------------------- */

uint64_t kc_seed(void)
{
    static uint64_t seed;
    static bool known;

    if (!known) {
        const char *text = getenv("TSA_TEST_SEED");
        struct timespec now;

        if (text != NULL && *text != '\0') {
            seed = strtoull(text, NULL, 0);
        } else {
            clock_gettime(CLOCK_REALTIME, &now);
            seed = (uint64_t)now.tv_sec * UINT64_C(1000003) ^ (uint64_t)now.tv_nsec;
        }
        known = true;
        printf("TSA_TEST_SEED=0x%" PRIx64 "\n", seed);
        fflush(stdout);
    }
    return seed;
}

/* An additive sequence scrambled by two multiply-and-shift rounds. */
uint64_t kc_random(struct kc *kc)
{
    uint64_t x = kc->state += UINT64_C(0x9e3779b97f4a7c15);

    x = (x ^ (x >> 32)) * UINT64_C(0xd6e8feb86659fd93);
    x = (x ^ (x >> 32)) * UINT64_C(0xd6e8feb86659fd93);
    return x ^ (x >> 32);
}

size_t kc_between(struct kc *kc, size_t low, size_t high)
{
    return low + (size_t)(kc_random(kc) >> 11) % (high - low + 1);
}

bool kc_chance(struct kc *kc, unsigned percent)
{
    return kc_between(kc, 0, 99) < percent;
}

double kc_unit(struct kc *kc)
{
    return (double)(int64_t)kc_random(kc) * 0x1p-63;
}

static uint64_t bits_of(const struct kc *kc, double x)
{
    uint64_t wide;
    uint32_t narrow;
    float f = (float)x;

    if (kc->elem == sizeof(double)) {
        memcpy(&wide, &x, sizeof wide);
        return wide;
    }
    memcpy(&narrow, &f, sizeof narrow);
    return narrow;
}

/* Sign and fraction of r, biased exponent e, in the format of an element. */
static uint64_t compose(const struct kc *kc, uint64_t r, uint64_t e)
{
    if (kc->elem == sizeof(double))
        return (r & UINT64_C(0x800fffffffffffff)) | e << 52;
    return (r & UINT64_C(0x807fffff)) | e << 23;
}

uint64_t kc_element(struct kc *kc, enum kc_data kind, size_t index, double base)
{
    bool wide = kc->elem == sizeof(double);
    uint64_t r = kc_random(kc), bias = wide ? 1023 : 127;

    switch (kind) {
    case KC_UNIT:
        return bits_of(kc, kc_unit(kc));
    case KC_CONSTANT:
        return bits_of(kc, base);
    case KC_ALTERNATING:
        return bits_of(kc, index % 2 ? -base : base);
    case KC_WIDE:
        return compose(kc, r, bias - 66 + (kc_random(kc) >> 20) % 133);
    case KC_ZEROS:
        return bits_of(kc, r >> 63 != 0 ? -0.0 : 0.0);
    case KC_DENORMAL:
        return compose(kc, r, 0);
    case KC_MIXED:
        return kc_element(kc, (enum kc_data)(r % KC_MIXED), index, base);
    case KC_FULL:
        return compose(kc, r, (kc_random(kc) >> 20) % (2 * bias + 1));
    case KC_SPECIAL:
        switch (r % 24) {
        case 0: /* a NaN of either sign with some payload */
            return compose(kc, kc_random(kc), 2 * bias + 1) | UINT64_C(1) << (wide ? 51 : 22);
        case 1:
            return bits_of(kc, INFINITY);
        case 2:
            return bits_of(kc, -INFINITY);
        case 3:
            return bits_of(kc, -0.0);
        case 4:
            return compose(kc, UINT64_MAX, 2 * bias); /* the most negative number */
        default:
            break;
        }
        return bits_of(kc, kc_unit(kc) + kc_unit(kc) + kc_unit(kc));
    case KC_NORMAL:
    case KC_ANY:
    default: /* the sum of three uniforms has variance 1 */
        return bits_of(kc, kc_unit(kc) + kc_unit(kc) + kc_unit(kc));
    }
}

/* -- cases --------------------------------------------------------------------------------- */

/* Say which case touched a guard page; the default action then ends the test. */
static void on_fault(int sig)
{
    ssize_t ignored;

    (void)sig;
    if (current != NULL) {
        ignored = write(2, current->what, strlen(current->what));
        ignored = write(2, ": memory fault\n", 15);
        (void)ignored;
    }
}

static void map_slots(void)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);

    if (slots[0].data != NULL)
        return;
    for (size_t i = 0; i < KC_MAX_ARRAYS; i++) {
        unsigned char *at = mmap(NULL, 3 * SLOT_BYTES + 2 * page, PROT_READ | PROT_WRITE,
                                 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

        ck_assert_msg(at != MAP_FAILED, "mmap: %s", strerror(errno));
        ck_assert_int_eq(mprotect(at, page, PROT_NONE), 0);
        ck_assert_int_eq(mprotect(at + page + SLOT_BYTES, page, PROT_NONE), 0);
        slots[i].data = at + page;
        slots[i].want = at + 2 * page + SLOT_BYTES;
        slots[i].before = slots[i].want + SLOT_BYTES;
    }
}

void kc_open(struct kc *kc, const char *kernel, const struct tsa_isa *isa, size_t elem)
{
    struct sigaction action;
    const char *quick = getenv("TSA_TEST_QUICK");

    memset(kc, 0, sizeof *kc);
    kc->kernel = kernel;
    kc->isa = isa;
    kc->elem = elem;
    kc->quick = quick != NULL && *quick != '\0' && *quick != '0';
    kc->seed = kc->state = kc_seed();
    for (const char *c = kernel; *c != '\0'; c++)
        kc->state = kc->state * 31 + (unsigned char)*c;
    map_slots();
    current = kc;
    memset(&action, 0, sizeof action);
    action.sa_handler = on_fault;
    action.sa_flags = (int)SA_RESETHAND;
    sigaction(SIGSEGV, &action, NULL);
    sigaction(SIGBUS, &action, NULL);
}

void kc_case(struct kc *kc, const char *format, ...)
{
    va_list list;
    int n;

    kc->cases++;
    kc->arrays = 0;
    kc->guard_after = kc_chance(kc, 60);
    if (kc_chance(kc, 75))
        kc->poison = kc->elem == 8 ? UINT64_C(0x7ffda5a5a5a5a5a5) : UINT64_C(0x7fe5a5a5);
    else /* what a maximum would not swallow */
        kc->poison = bits_of(kc, INFINITY);
    n = snprintf(kc->what, sizeof kc->what,
                 "%s %s f%d seed 0x%" PRIx64 " guard %s: ", kc->isa->name, kc->kernel,
                 (int)kc->elem * 8, kc->seed, kc->guard_after ? "after" : "before");
    va_start(list, format);
    vsnprintf(kc->what + n, sizeof kc->what - (size_t)n, format, list);
    va_end(list);
}

void kc_fail(struct kc *kc, const char *format, ...)
{
    char text[400];
    va_list list;

    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    ck_abort_msg("%s: %s", kc->what, text);
    abort(); /* not reached; ck_abort_msg is not declared so */
}

size_t kc_rounds(const struct kc *kc, size_t n)
{
    return kc->quick ? (n + 7) / 8 : n;
}

bool kc_keep(struct kc *kc)
{
    return !kc->quick || kc_chance(kc, 10);
}

/* -- arrays -------------------------------------------------------------------------------- */

static void put(size_t elem, unsigned char *array, size_t element, uint64_t bits)
{
    uint32_t narrow = (uint32_t)bits;
    uint16_t half = (uint16_t)bits;

    memcpy(array + element * elem,
           elem == 8   ? (const void *)&bits
           : elem == 4 ? (const void *)&narrow
                       : (const void *)&half,
           elem);
}

static uint64_t get(size_t elem, const unsigned char *array, size_t element)
{
    uint64_t wide;
    uint32_t narrow;
    uint16_t half;

    switch (elem) {
    case 8:
        memcpy(&wide, array + element * elem, elem);
        return wide;
    case 4:
        memcpy(&narrow, array + element * elem, elem);
        return narrow;
    default:
        memcpy(&half, array + element * elem, elem);
        return half;
    }
}

/* The poison of the case; its upper bits are a NaN or an infinity of two bytes. */
static uint64_t poison_of(const struct kc *kc, size_t elem)
{
    return elem == 2 ? kc->poison >> (8 * kc->elem - 16) : kc->poison;
}

static struct kc_array *place(struct kc *kc, const char *name, size_t elements, size_t elem,
                              size_t align)
{
    struct kc_array *a;
    size_t bytes = elements * elem, room = (bytes + align - 1) / align * align;
    unsigned char *low, *high;

    if (kc->arrays == KC_MAX_ARRAYS || room + 16 * kc->elem > SLOT_BYTES)
        kc_fail(kc, "the test needs more or larger arrays than the harness has");
    a = &kc->array[kc->arrays];
    memset(a, 0, sizeof *a);
    a->name = name;
    a->elem = elem;
    a->elements = elements;
    a->want = slots[kc->arrays].want;
    a->before = slots[kc->arrays].before;
    low = slots[kc->arrays].data;
    high = low + SLOT_BYTES;
    a->data = kc->guard_after ? high - room : low;
    if (!kc->guard_after && align < TSA_ALIGN && kc_chance(kc, 60))
        a->data += kc_between(kc, 0, 15) * align;
    a->low = a->data - low > CANARY_BYTES ? a->data - CANARY_BYTES : low;
    a->high = high - (a->data + bytes) > CANARY_BYTES ? a->data + bytes + CANARY_BYTES : high;
    memset(a->low, CANARY, (size_t)(a->data - a->low));
    memset(a->data + bytes, CANARY, (size_t)(a->high - (a->data + bytes)));
    for (size_t i = 0; i < elements; i++)
        put(elem, a->data, i, poison_of(kc, elem));
    kc->arrays++;
    return a;
}

struct kc_array *kc_scratch(struct kc *kc, const char *name, size_t rows, size_t cols, size_t ld)
{
    struct kc_array *a = place(kc, name, rows * ld, kc->elem, TSA_ALIGN);

    a->rows = rows;
    a->cols = cols;
    a->ld = (ptrdiff_t)ld;
    return a;
}

static struct kc_array *user(struct kc *kc, const char *name, size_t rows, size_t cols,
                             ptrdiff_t stride, size_t elem, size_t align)
{
    size_t step = (size_t)(stride < 0 ? -stride : stride);
    struct kc_array *a =
        place(kc, name, rows == 0 || cols == 0 ? 0 : (rows - 1) * step + cols, elem, align);

    a->rows = rows;
    a->cols = cols;
    a->ld = stride;
    a->origin = stride < 0 && a->elements != 0 ? (rows - 1) * step : 0;
    return a;
}

struct kc_array *kc_user(struct kc *kc, const char *name, size_t rows, size_t cols,
                         ptrdiff_t stride)
{
    return user(kc, name, rows, cols, stride, kc->elem, kc->elem);
}

struct kc_array *kc_half(struct kc *kc, const char *name, size_t rows, size_t cols,
                         ptrdiff_t stride)
{
    return user(kc, name, rows, cols, stride, 2, 1);
}

void kc_fill(struct kc *kc, struct kc_array *a, enum kc_data kind)
{
    double base = kc_unit(kc) * 3;

    if (kind == KC_ANY)
        kind = kc_chance(kc, 50) ? KC_NORMAL : (enum kc_data)kc_between(kc, 0, KC_MIXED);
    for (size_t r = 0; r < a->rows; r++)
        for (size_t c = 0; c < a->cols; c++) {
            ptrdiff_t at = (ptrdiff_t)a->origin + (ptrdiff_t)r * a->ld + (ptrdiff_t)c;

            put(a->elem, a->data, (size_t)at, kc_element(kc, kind, r + c, base));
        }
}

void kc_freeze(struct kc *kc)
{
    for (size_t i = 0; i < kc->arrays; i++) {
        struct kc_array *a = &kc->array[i];

        memcpy(a->want, a->data, a->elements * a->elem);
        memcpy(a->before, a->data, a->elements * a->elem);
    }
}

/* Of T; those of two bytes are always canonical. */
static bool is_nan(size_t elem, uint64_t bits)
{
    if (elem == 8)
        return (bits & INT64_MAX) > UINT64_C(0x7ff0000000000000);
    return elem == 4 && (bits & INT32_MAX) > UINT64_C(0x7f800000);
}

static void compare(struct kc *kc, const struct kc_array *a)
{
    const size_t bytes = a->elements * a->elem;
    const uint64_t poison = poison_of(kc, a->elem);

    for (const unsigned char *p = a->low; p < a->data; p++)
        if (*p != CANARY)
            kc_fail(kc, "%s: wrote byte %d before the array", a->name, (int)(a->data - p));
    for (const unsigned char *p = a->data + bytes; p < a->high; p++)
        if (*p != CANARY)
            kc_fail(kc, "%s: wrote byte %d past the array", a->name, (int)(p - a->data - bytes));
    if (memcmp(a->data, a->want, bytes) == 0)
        return;
    for (size_t i = 0; i < a->elements; i++) {
        uint64_t got = get(a->elem, a->data, i), want = get(a->elem, a->want, i);
        size_t step = (size_t)(a->ld < 0 ? -a->ld : a->ld), row = i, col = 0;

        if (got == want)
            continue;
        if (step != 0) {
            row = i / step;
            col = i % step;
        }
        if (col >= a->free_from && col < a->free_to)
            continue;
        if (a->given != 0 && row >= a->given)
            continue;
        if (!a->canonical && got != poison && is_nan(a->elem, got) && is_nan(a->elem, want))
            continue;
        kc_fail(kc,
                "%s[%zu][%zu] (%zu rows of %zu, ld %td): got 0x%0*" PRIx64
                ", the model has 0x%0*" PRIx64 "%s",
                a->name, row, col, a->rows, a->cols, a->ld, (int)a->elem * 2, got, (int)a->elem * 2,
                want, got == poison ? " (poison: unwritten or leaked)" : "");
    }
}

void kc_finish(struct kc *kc)
{
    for (size_t i = 0; i < kc->arrays; i++)
        compare(kc, &kc->array[i]);
}

/* -- monomials ----------------------------------------------------------------------------- */

/* Step to the next tuple i1 <= ... <= im in lexicographic order; false after the last. */
static bool next_tuple(unsigned char *index, size_t m, size_t d)
{
    for (size_t j = m; j-- > 0;)
        if ((size_t)index[j] + 1 < d) {
            unsigned char i = (unsigned char)(index[j] + 1);

            for (; j < m; j++)
                index[j] = i;
            return true;
        }
    return false;
}

void kc_mono_init(struct kc_mono *m, size_t d, size_t terms)
{
    struct tsa_monomials *mono = &m->mono;
    size_t f = 0, room = 1;

    memset(m, 0, sizeof *m);
    mono->d = d;
    mono->terms = terms;
    for (size_t i = 1; i < terms; i++) /* binom(d + terms - 1, terms - 1) */
        room = room * (d + i) / i;
    m->suffix = calloc(terms * (d + 1), sizeof *m->suffix);
    m->degree = calloc(room, 1);
    m->index = calloc(room, sizeof *m->index);
    ck_assert(m->suffix != NULL && m->degree != NULL && m->index != NULL && d <= 255);
    for (size_t degree = 0; degree < terms; degree++) {
        unsigned char tuple[8] = {0};
        size_t *suffix = m->suffix + degree * (d + 1), known = 0;

        mono->start[degree] = f;
        do {
            ck_assert(f < room);
            m->degree[f] = (unsigned char)degree;
            memcpy(m->index[f], tuple, sizeof tuple);
            if (degree > 0)
                while (known <= tuple[0])
                    suffix[known++] = f - mono->start[degree];
            f++;
        } while (next_tuple(tuple, degree, d));
        suffix[d] = f - mono->start[degree];
    }
    ck_assert_uint_eq(f, room);
    mono->total = f;
    for (size_t degree = terms; degree < sizeof mono->start / sizeof *mono->start; degree++)
        mono->start[degree] = f;
    mono->suffix = m->suffix;
    mono->lower = terms <= 2 ? d : mono->start[terms - 1] - 1;
    kc_mono_store(m, terms <= 3 ? 1 : terms - 2);
}

void kc_mono_store(struct kc_mono *m, size_t stored)
{
    struct tsa_monomials *mono = &m->mono;
    size_t lower = mono->terms <= 3 ? 1 : mono->terms - 2;

    mono->stored = stored;
    mono->base = 0; /* degrees 1..stored, or at least the variables */
    for (size_t degree = 1; degree <= stored && degree < mono->terms; degree++)
        mono->base += mono->start[degree + 1] - mono->start[degree];
    mono->base = mono->base < mono->d ? mono->d : mono->base;
    mono->rows = mono->base + (lower - stored) * TSA_PIECE;
}

void kc_mono_free(struct kc_mono *m)
{
    free(m->suffix);
    free(m->degree);
    free(m->index);
}

/* -- main ---------------------------------------------------------------------------------- */

int kc_main(Suite *suite)
{
    SRunner *runner = srunner_create(suite);
    int failed;

    kc_seed();
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
