/* SPDX-License-Identifier: MIT */
/* Plans: options checked once, and the constants that every call needs. */
#include "config.h"

#include "fpenv.h"
#include "team.h"
#include "measure.h"

#include <float.h>
#include <math.h>
#include <string.h>

/* Sizes of the options that a version can have: no earlier one had fewer bytes; a later one may
 * append whole fields, up to what means a struct that nobody initialised. */
static bool is_options_size(size_t size)
{
    return size >= sizeof(struct tsa_options) && size <= 4096 &&
           size % _Alignof(struct tsa_options) == 0;
}

static void set_defaults(struct tsa_options *options)
{
    memset(options, 0, sizeof *options);
    options->terms = 3;
    options->heads = 1;
    options->layers = 1;
    options->dtype = TSA_F32;
    options->normalize = TSA_NORMALIZE_L2;
    options->temperature = 2;
    options->exact_degrees = 2;
}

enum tsa_status tsa_options_init(struct tsa_options *options, size_t size)
{
    struct tsa_options defaults;
    if (!options || !is_options_size(size))
        return TSA_EINVAL;
    set_defaults(&defaults);
    defaults.size = size;
    /* What a newer caller has beyond our struct stays zero: tsa_plan_create refuses the rest. */
    memset(options, 0, size);
    memcpy(options, &defaults, sizeof defaults);
    return TSA_OK;
}

/* The chunk when the caller leaves it open: a rule on the shape alone, because the chunk is part of
 * the arithmetic. A longer one reads and folds the sums less often, but takes more of its tokens
 * through the window. Measured over the grid of doc/performance.md it is within a few percent of
 * the fastest power of two. */
static size_t tsa_default_chunk(size_t d, size_t dv, size_t terms)
{
    struct tsa_monomials mono;
    if (!tsa_monomials_init(&mono, d, terms))
        return 64; /* the plan will be refused */
    const double sums = (double)mono.total * ((double)dv + 1);
    if (terms <= 2) /* fewer features than columns of a row: the window costs more than the sums */
        return 32;
    /* values that leave much of their last 16 columns empty: sums are then dearer */
    const bool ragged = 100 * dv < 85 * tsa_round_up(dv, 16);
    if (ragged && sums >= 2e5 && sums < 1.5e6)
        return 256;
    return sums < (ragged ? 3e4 : 1e5) ? 64 : sums < 1.5e6 ? 128 : 512;
}

/* Longest sequence in one window: it is memory of each state, and of each thread. */
#define MOST_DIRECT 8192

/* Sequences below so many tokens are cheaper in one window: for a token a window costs half its
 * length times d + dv products, the sums 2 F (dv + 1) and half a chunk. */
static size_t direct_tokens(size_t d, size_t dv, size_t terms)
{
    struct tsa_monomials mono;
    if (!tsa_monomials_init(&mono, d, terms))
        return 0;
    const double tokens = (double)tsa_default_chunk(d, dv, terms) +
                          4 * (double)mono.total * ((double)dv + 1) / ((double)d + (double)dv);
    return tokens < MOST_DIRECT ? (size_t)tokens : MOST_DIRECT;
}

static size_t chosen_chunk(const struct tsa_options *o)
{
    if (o->chunk > 0)
        return o->chunk;
    if (o->max_tokens > 0 && o->max_tokens < direct_tokens(o->head_dim, o->value_dim, o->terms))
        return tsa_round_up(o->max_tokens + 1, 64);
    return tsa_default_chunk(o->head_dim, o->value_dim, o->terms);
}

/* Features per block of the chunk loop; no part of the arithmetic. In pairs twice as many features
 * and sums of a query take the same place, and accumulators are moved half as often (measured). */
#define BLOCK ((size_t)96)
static void choose_block(struct tsa_plan *p)
{
    const size_t most = p->high < p->mono.total ? 2 * BLOCK : BLOCK;
    const size_t features = tsa_round_up(p->mono.total, TSA_ROW_PAD);
    p->block = features < most ? features : most;
    p->low_block = p->block < BLOCK ? p->block : BLOCK;
}

static size_t low_blocks(const struct tsa_plan *plan)
{
    return (plan->high + plan->low_block - 1) / plan->low_block;
}

size_t tsa_block_count(const struct tsa_plan *plan)
{
    return low_blocks(plan) + (plan->mono.total - plan->high + plan->block - 1) / plan->block;
}

void tsa_block_at(const struct tsa_plan *plan, size_t index, size_t *f0, size_t *f1)
{
    const size_t low = low_blocks(plan), block = index < low ? plan->low_block : plan->block;
    const size_t end = index < low ? plan->high : plan->mono.total;
    *f0 = index < low ? index * block : plan->high + (index - low) * block;
    *f1 = end - *f0 < block ? end : *f0 + block;
}

/* -- checks ------------------------------------------------------------------------------- */

static enum tsa_status invalid(struct tsa_error *err, const char *argument, size_t wanted,
                               size_t found, const char *what)
{
    enum tsa_status status =
        tsa_fail(err, TSA_EINVAL, argument, "%s is %zu, wanted %s", argument, found, what);
    tsa_error_numbers(err, (int64_t)wanted, (int64_t)found);
    return status;
}

/* The caller's struct, of whatever version, as one of ours. */
static enum tsa_status read_options(const struct tsa_options *given, struct tsa_options *options,
                                    struct tsa_error *err)
{
    if (!given)
        return tsa_fail(err, TSA_EINVAL, "options", "options is NULL");
    size_t size = given->size;
    if (!is_options_size(size)) {
        enum tsa_status status =
            tsa_fail(err, TSA_EINVAL, "size",
                     "options.size is %zu, wanted sizeof(struct tsa_options) = %zu: was "
                     "tsa_options_init called?",
                     size, sizeof *given);
        tsa_error_numbers(err, (int64_t)sizeof *given, (int64_t)size);
        return status;
    }
    memcpy(options, given, sizeof *options);
    for (size_t i = sizeof *options; i < size; i++) {
        if (((const unsigned char *)given)[i] != 0)
            return tsa_fail(err, TSA_EINVAL, "size",
                            "options set at byte %zu are of a newer version than this library, "
                            "%s",
                            i, tsa_version());
    }
    for (size_t i = 0; i < sizeof options->reserved / sizeof *options->reserved; i++) {
        if (options->reserved[i])
            return tsa_fail(err, TSA_EINVAL, "reserved", "reserved[%zu] is not NULL", i);
    }
    return TSA_OK;
}

/* Values that stand for one of a few meanings. */
static enum tsa_status check_choices(const struct tsa_options *o, struct tsa_error *err)
{
    switch (o->dtype) {
    case TSA_F32:
    case TSA_F64:
        break;
    case TSA_BF16:
    case TSA_F16:
        return tsa_fail(err, TSA_EUNSUPPORTED, "dtype",
                        "dtype %s is not in this version, wanted f32 or f64",
                        o->dtype == TSA_BF16 ? "bf16" : "f16");
    default:
        return tsa_fail(err, TSA_EINVAL, "dtype", "dtype is %d, wanted TSA_F32 (1) or TSA_F64 (2)",
                        (int)o->dtype);
    }
    if (o->normalize != TSA_NORMALIZE_L2 && o->normalize != TSA_NORMALIZE_NONE)
        return tsa_fail(err, TSA_EINVAL, "normalize",
                        "normalize is %d, wanted TSA_NORMALIZE_L2 (1) or TSA_NORMALIZE_NONE (2)",
                        (int)o->normalize);
    if (o->flags & ~(unsigned)TSA_SKIP_INPUT_CHECK)
        return tsa_fail(err, TSA_EINVAL, "flags",
                        "flags is %#x, wanted 0 or TSA_SKIP_INPUT_CHECK (1)", o->flags);
    if (o->threads < 0 || o->threads > TSA_MAX_THREADS) {
        enum tsa_status status =
            tsa_fail(err, TSA_EINVAL, "threads", "threads is %d, wanted 0 (automatic) to %d",
                     o->threads, TSA_MAX_THREADS);
        tsa_error_numbers(err, TSA_MAX_THREADS, o->threads);
        return status;
    }
    if (o->exact_degrees > TSA_MAX_TERMS)
        return invalid(err, "exact_degrees", TSA_MAX_TERMS, o->exact_degrees, "0 to 8");
    switch (o->compute) {
    case TSA_COMPUTE_F32:
    case TSA_COMPUTE_FASTEST:
        break;
    case TSA_COMPUTE_MIXED:
        if (o->dtype != TSA_F32)
            return tsa_fail(err, TSA_EINVAL, "compute",
                            "compute is mixed, which wants dtype f32, not f64");
        if (o->chunk % 2 != 0)
            return invalid(err, "chunk", o->chunk + 1, o->chunk, "an even one for compute mixed");
        break;
    default:
        return tsa_fail(err, TSA_EINVAL, "compute",
                        "compute is %d, wanted TSA_COMPUTE_F32 (0), _MIXED (1) or _FASTEST (2)",
                        (int)o->compute);
    }
    if (!o->allocate != !o->release)
        return tsa_fail(err, TSA_EINVAL, o->allocate ? "release" : "allocate",
                        "allocate and release go together: %s is NULL",
                        o->allocate ? "release" : "allocate");
    if (o->coefficients_per_head && !o->coefficients)
        return tsa_fail(err, TSA_EINVAL, "coefficients",
                        "coefficients_per_head is set and coefficients is NULL");
    return TSA_OK;
}

static enum tsa_status check_shape(const struct tsa_options *o, struct tsa_error *err)
{
    if (o->head_dim == 0)
        return invalid(err, "head_dim", 1, 0, "1 or more");
    if (o->value_dim == 0)
        return invalid(err, "value_dim", 1, 0, "1 or more");
    if (o->terms == 0 || o->terms > TSA_MAX_TERMS)
        return invalid(err, "terms", TSA_MAX_TERMS, o->terms, "1 to 8");
    if (o->heads == 0)
        return invalid(err, "heads", 1, 0, "1 or more");
    if (o->layers == 0)
        return invalid(err, "layers", 1, 0, "1 or more");
    if (o->chunk > TSA_MAX_CHUNK)
        return invalid(err, "chunk", TSA_MAX_CHUNK, o->chunk, "0 (automatic) to 1048576");
    if (o->kv_heads && o->heads % o->kv_heads != 0) {
        enum tsa_status status =
            tsa_fail(err, TSA_EINVAL, "kv_heads",
                     "kv_heads is %zu, wanted a divisor of heads = %zu", o->kv_heads, o->heads);
        tsa_error_numbers(err, (int64_t)o->heads, (int64_t)o->kv_heads);
        return status;
    }
    return TSA_OK;
}

/* -- creation ----------------------------------------------------------------------------- */

static enum tsa_status too_large(struct tsa_error *err, const struct tsa_plan *p, double bytes)
{
    char need[TSA_NUMBER_TEXT], limit[TSA_NUMBER_TEXT];
    const struct {
        const char *name;
        size_t value;
    } sizes[] = {
        {"head_dim", p->d}, {"value_dim", p->dv}, {"heads", p->kv_heads}, {"layers", p->layers}};
    size_t largest = 0; /* the likely culprit */
    for (size_t i = 1; i < sizeof sizes / sizeof *sizes; i++) {
        if (sizes[i].value > sizes[largest].value)
            largest = i;
    }
    return tsa_fail(err, TSA_EOVERFLOW, sizes[largest].name,
                    "state would need %s bytes, the limit is %s (head_dim %zu, value_dim %zu, "
                    "terms %zu, kv_heads %zu, layers %zu)",
                    tsa_number_text(need, bytes, 3),
                    tsa_number_text(limit, (double)TSA_MAX_STATE_BYTES, 3), p->d, p->dv, p->terms,
                    p->kv_heads, p->layers);
}

/* Which way round tiles lie; no part of the arithmetic, since products commute. Lanes of value
 * columns need no transpose of features, but the last vector may be partly empty; and a single
 * vector per row makes a tile that is bound by its loads. */
static void choose_lanes(struct tsa_plan *p)
{
    p->lanes = p->isa->lanes > 1 ? p->isa->lanes * sizeof(float) / p->elem : 1;
    const double padded = (double)tsa_round_up(p->dv, p->lanes);
    p->transpose_update = (double)p->dv < 0.85 * padded;
    p->transpose_query = p->lanes > 1 && (p->transpose_update || p->dv <= p->lanes);
}

/* Does rounding the features from `high` on pay? With few of them a long call gains little, and a
 * decoding step loses more to the kernels that it calls (measured; doc/accuracy.md). */
static bool mixed_is_faster(const struct tsa_plan *p, size_t high)
{
    return p->dtype == TSA_F32 && p->chunk % 2 == 0 && p->pair_kernels->fast &&
           p->mono.total - high >= 96;
}

/* Which degrees have bf16 operands. */
static void choose_compute(struct tsa_plan *p, const struct tsa_options *o)
{
    p->compute = TSA_COMPUTE_F32;
    p->high = p->mono.total;
    bool hardware;
    p->pair_kernels = tsa_pair_kernels_for(p->isa, &hardware);
    if (o->exact_degrees >= p->terms)
        return;
    const size_t high = p->mono.start[o->exact_degrees];
    if (o->compute == TSA_COMPUTE_MIXED ||
        (o->compute == TSA_COMPUTE_FASTEST && mixed_is_faster(p, high))) {
        p->compute = TSA_COMPUTE_MIXED;
        p->high = high;
        p->pair_degree = 1 + o->exact_degrees;
    }
}

/* Everything but the arrays. */
static enum tsa_status set_scalars(struct tsa_plan *p, const struct tsa_options *o,
                                   struct tsa_error *err)
{
    memset(p, 0, sizeof *p);
    p->d = o->head_dim;
    p->dv = o->value_dim;
    p->terms = o->terms;
    p->heads = o->heads;
    p->kv_heads = o->kv_heads ? o->kv_heads : o->heads;
    p->group = p->heads / p->kv_heads;
    p->layers = o->layers;
    p->chunk = chosen_chunk(o);
    p->dtype = o->dtype;
    p->elem = p->dtype == TSA_F32 ? sizeof(float) : sizeof(double);
    p->normalize = o->normalize;
    p->flags = o->flags;
    p->coef_sets = o->coefficients_per_head ? p->heads : 1;
    p->allocator.allocate = o->allocate;
    p->allocator.release = o->release;
    p->allocator.user = o->allocator_user;
    p->execute = o->execute;
    p->execute_user = o->execute_user;

    double bytes = tsa_state_bytes_double(p->d, p->dv, p->terms, p->chunk, p->elem, p->kv_heads,
                                          p->layers, o->compute != TSA_COMPUTE_F32);
    /* The estimate errs by a few roundings; what passes here fits size_t without doubt. */
    if (bytes > (double)TSA_MAX_STATE_BYTES || !tsa_monomials_init(&p->mono, p->d, p->terms))
        return too_large(err, p, bytes);
    enum tsa_status status = tsa_isa_find(o->isa, &p->isa, err);
    if (status != TSA_OK)
        return status;
    choose_lanes(p);
    choose_compute(p, o);
    tsa_layout_init(&p->layout, p->d, p->dv, p->terms, p->chunk, p->elem, (size_t)p->pair_degree);
    p->state_bytes = tsa_state_bytes_exact(&p->layout, p->elem, p->kv_heads, p->layers);
    choose_block(p);
    if (!tsa_scratch_init(p))
        return tsa_fail(err, TSA_EOVERFLOW, "chunk",
                        "the scratch of one thread does not fit in "
                        "memory");
    p->threads = o->threads;
    p->threads_reason = "as asked";
    if (p->threads == 0)
        p->threads = tsa_default_threads(&p->threads_reason);
    p->crowded = tsa_team_crowded(p);
    return TSA_OK;
}

/* Offsets of the arrays in the plan's allocation. */
struct places {
    size_t suffix, temperature, coef_double, scale, coef, weight;
};

static bool place(size_t *bytes, size_t *offset, size_t count, size_t count2, size_t elem)
{
    size_t size;
    *offset = *bytes;
    return tsa_size_mul(count, count2, &size) && tsa_size_mul(size, elem, &size) &&
           size <= SIZE_MAX - TSA_ALIGN &&
           tsa_size_add(*bytes, tsa_round_up(size, TSA_ALIGN), bytes);
}

static bool place_arrays(struct tsa_plan *p, struct places *at)
{
    size_t bytes = tsa_round_up(sizeof *p, TSA_ALIGN), end;
    if (!place(&bytes, &at->suffix, tsa_monomials_suffix_count(p->d, p->terms), 1,
               sizeof(size_t)) ||
        !place(&bytes, &at->temperature, p->heads, 1, sizeof(double)) ||
        !place(&bytes, &at->coef_double, p->coef_sets, p->terms, sizeof(double)) ||
        !place(&bytes, &at->scale, p->heads, 1, p->elem) ||
        !place(&bytes, &at->coef, p->coef_sets, p->terms, p->elem) ||
        !place(&bytes, &at->weight, p->coef_sets, p->mono.total, p->elem) ||
        /* room for whole vectors at the end of the weights */
        !place(&bytes, &end, 2, TSA_MAX_LANES, p->elem))
        return false;
    p->bytes = bytes;
    return true;
}

/* What place_arrays could not count. A state of this shape fits, so that the query heads are to
 * blame: their number, or a set of weights for each. */
static enum tsa_status too_many_heads(struct tsa_error *err, const struct tsa_plan *p)
{
    const double sets = (double)p->coef_sets, heads = (double)p->heads, n = (double)p->terms;
    const double bytes = ((double)p->d + 1) * n * sizeof(size_t) +
                         heads * (sizeof(double) + (double)p->elem) +
                         sets * n * (sizeof(double) + (double)p->elem) +
                         sets * (double)p->mono.total * (double)p->elem;
    char need[TSA_NUMBER_TEXT];
    return tsa_fail(err, TSA_EOVERFLOW, "heads",
                    "a plan would need %s bytes (heads %zu, head_dim %zu, terms %zu, sets of "
                    "coefficients %zu)",
                    tsa_number_text(need, bytes, 3), p->heads, p->d, p->terms, p->coef_sets);
}

/* (T)x, or false if it is not finite in T. */
static bool store(const struct tsa_plan *p, void *array, size_t i, double x)
{
    if (p->dtype == TSA_F64) {
        ((double *)array)[i] = x;
        return isfinite(x);
    }
    /* Compared first, because C leaves the conversion of a value past float's range undefined. */
    if (!(fabs(x) <= (double)FLT_MAX))
        return false;
    ((float *)array)[i] = (float)x;
    return true;
}

static enum tsa_status set_temperatures(struct tsa_plan *p, const struct tsa_options *o,
                                        struct tsa_error *err)
{
    const char *name = o->temperatures ? "temperatures" : "temperature";
    for (size_t h = 0; h < p->heads; h++) {
        double a = o->temperatures ? o->temperatures[h] : o->temperature;
        bool positive = isfinite(a) && a > 0;
        if (!positive || !store(p, p->scale, h, 1 / a)) {
            char number[TSA_NUMBER_TEXT];
            enum tsa_status status =
                tsa_fail(err, TSA_EINVAL, name, "temperature of head %zu is %s, wanted %s", h,
                         tsa_number_text(number, a, 6),
                         positive ? "one whose reciprocal is finite" : "a finite number > 0");
            if (err && o->temperatures)
                err->head = (ptrdiff_t)h;
            return status;
        }
        p->temperature[h] = a;
        p->scale_max = fmax(p->scale_max, 1 / a);
    }
    return TSA_OK;
}

static enum tsa_status bad_coefficient(struct tsa_error *err, const struct tsa_plan *p, size_t set,
                                       size_t m, double c, const char *wanted)
{
    char number[TSA_NUMBER_TEXT];
    enum tsa_status status =
        tsa_fail(err, TSA_EINVAL, "coefficients", "coefficients[%zu] (degree %zu) is %s, wanted %s",
                 set * p->terms + m, m, tsa_number_text(number, c, 6), wanted);
    if (err) {
        err->head = p->coef_sets > 1 ? (ptrdiff_t)set : -1;
        err->column = (ptrdiff_t)m;
    }
    return status;
}

static enum tsa_status set_coefficients(struct tsa_plan *p, const struct tsa_options *o,
                                        struct tsa_error *err)
{
    for (size_t set = 0; set < p->coef_sets; set++) {
        double factorial = 1;
        for (size_t m = 0; m < p->terms; m++) {
            factorial *= m > 1 ? (double)m : 1;
            size_t i = set * p->terms + m;
            double c = o->coefficients ? o->coefficients[i] : 1 / factorial;
            if (!isfinite(c))
                return bad_coefficient(err, p, set, m, c, "a finite number");
            if (!store(p, p->coef, i, c))
                return bad_coefficient(err, p, set, m, c, "one within the range of f32");
            p->coef_double[i] = c;
        }
    }
    return TSA_OK;
}

/* The weights of the query's features, and the check of the list against two identities: a
 * degree has binom(d+m-1, m) monomials, whose multiplicities sum to d^m (here modulo 2^64). */
static enum tsa_status set_weights(struct tsa_plan *p, struct tsa_error *err)
{
    uint64_t power = 1;
    p->unit_weights = p->terms == 2;
    for (size_t m = 0; m < p->terms; m++, power *= p->d) {
        struct tsa_tuple tuple;
        uint64_t sum = 0;
        size_t f = p->mono.start[m];
        tsa_tuple_first(&tuple, p->d, m);
        do {
            double multiplicity = tsa_tuple_multiplicity(&tuple);
            sum += (uint64_t)multiplicity;
            for (size_t set = 0; set < p->coef_sets; set++) {
                double c = p->coef_double[set * p->terms + m];
                double weight = c * multiplicity;
                if (!store(p, p->weight, set * p->mono.total + f, weight))
                    return bad_coefficient(err, p, set, m, c,
                                           "one that stays finite times its multiplicity");
                p->weight_max = fmax(p->weight_max, fabs(weight));
                p->unit_weights = p->unit_weights && (m == 0 || weight == 1);
            }
            f++;
        } while (tsa_tuple_next(&tuple) && f < p->mono.total);
        if (f != p->mono.start[m + 1] || sum != power ||
            p->mono.suffix[m * (p->d + 1) + p->d] != f - p->mono.start[m])
            return tsa_fail(err, TSA_EOVERFLOW, "head_dim",
                            "the list of monomials of degree %zu contradicts itself", m);
    }
    return TSA_OK;
}

static enum tsa_status create(const struct tsa_options *o, struct tsa_plan **plan,
                              struct tsa_error *err)
{
    struct tsa_plan scalars, *p;
    struct places at;
    enum tsa_status status = set_scalars(&scalars, o, err);
    if (status != TSA_OK)
        return status;
    if (!place_arrays(&scalars, &at))
        return too_many_heads(err, &scalars);
    char *memory = tsa_allocate(&scalars.allocator, scalars.bytes);
    if (!memory)
        return tsa_fail(err, TSA_ENOMEM, "plan", "no memory for a plan of %zu bytes",
                        scalars.bytes);
    p = (struct tsa_plan *)memory;
    *p = scalars;
    p->temperature = (double *)(memory + at.temperature);
    p->coef_double = (double *)(memory + at.coef_double);
    p->scale = memory + at.scale;
    p->coef = memory + at.coef;
    p->weight = memory + at.weight;
    memset(p->weight, 0, p->bytes - at.weight);
    tsa_monomials_fill_suffix(&p->mono, (size_t *)(memory + at.suffix));
    status = set_temperatures(p, o, err);
    if (status == TSA_OK)
        status = set_coefficients(p, o, err);
    if (status == TSA_OK)
        status = set_weights(p, err);
    if (status != TSA_OK) {
        tsa_plan_destroy(p);
        return status;
    }
    tsa_team_prepare(p);
    *plan = p;
    return tsa_succeed(err);
}

/* The caller's options as ours, or why they make no plan. */
static enum tsa_status checked_options(const struct tsa_options *given, struct tsa_options *options,
                                       struct tsa_error *err)
{
    enum tsa_status status = read_options(given, options, err);
    if (status == TSA_OK)
        status = check_choices(options, err);
    if (status == TSA_OK)
        status = check_shape(options, err);
    return status;
}

enum tsa_status tsa_plan_create(const struct tsa_options *options, struct tsa_plan **plan,
                                struct tsa_error *err)
{
    struct tsa_options o;
    if (!plan)
        return tsa_fail(err, TSA_EINVAL, "plan", "plan is NULL");
    *plan = NULL;
    enum tsa_status status = checked_options(options, &o, err);
    if (status != TSA_OK)
        return status;
    struct tsa_fpenv saved = tsa_fpenv_enter();
    status = create(&o, plan, err);
    tsa_fpenv_leave(saved);
    return status;
}

enum tsa_status tsa_plan_measure(const struct tsa_options *options, struct tsa_measure *measure,
                                 struct tsa_error *err)
{
    struct tsa_options o;
    struct tsa_plan scalars;
    enum tsa_status status = checked_options(options, &o, err);
    if (status != TSA_OK)
        return status;
    struct tsa_fpenv saved = tsa_fpenv_enter();
    status = set_scalars(&scalars, &o, err);
    tsa_fpenv_leave(saved);
    if (status != TSA_OK)
        return status;
    measure->chunk = scalars.chunk;
    measure->state_bytes = scalars.state_bytes;
    measure->direct_tokens = direct_tokens(o.head_dim, o.value_dim, o.terms);
    measure->compute = tsa_plan_compute(&scalars);
    return tsa_succeed(err);
}

void tsa_plan_destroy(struct tsa_plan *plan)
{
    if (!plan)
        return;
    struct tsa_allocator allocator = plan->allocator;
    tsa_release(&allocator, plan, plan->bytes);
}

size_t tsa_plan_chunk(const struct tsa_plan *plan)
{
    return plan ? plan->chunk : 0;
}

const char *tsa_plan_isa(const struct tsa_plan *plan)
{
    return plan ? plan->isa->name : "";
}

int tsa_plan_threads(const struct tsa_plan *plan)
{
    return plan ? plan->threads : 0;
}

enum tsa_compute tsa_plan_compute(const struct tsa_plan *plan)
{
    return plan ? plan->compute : TSA_COMPUTE_F32;
}

unsigned tsa_plan_exact_degrees(const struct tsa_plan *plan)
{
    if (!plan)
        return 0;
    unsigned m = 0;
    while (m < plan->terms && plan->mono.start[m] < plan->high)
        m++;
    return m;
}
