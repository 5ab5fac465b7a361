/* SPDX-License-Identifier: MIT */
/* Plans: options checked once, and what every call needs to know. */
#include "config.h"

#include "fpenv.h"
#include "team.h"
#include "measure.h"

#include <float.h>
#include <math.h>
#include <string.h>

/* Sizes of the options that a version can have: those of 0.1 ended before `gate`; a later one may
 * append whole fields, up to what means a struct that nobody initialised. */
static bool is_options_size(size_t size)
{
    const size_t first = offsetof(struct tsa_options, gate);
    return size == first || (size >= sizeof(struct tsa_options) && size <= 4096 &&
                             size % _Alignof(struct tsa_options) == 0);
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
    options->output_scale = 1;
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
    memcpy(options, &defaults, size < sizeof defaults ? size : sizeof defaults);
    return TSA_OK;
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
    set_defaults(options);
    memcpy(options, given, size < sizeof *options ? size : sizeof *options);
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

static enum tsa_status bad_real(struct tsa_error *err, const char *argument, double found,
                                const char *wanted)
{
    char number[TSA_NUMBER_TEXT];
    return tsa_fail(err, TSA_EINVAL, argument, "%s is %s, wanted %s", argument,
                    tsa_number_text(number, found, 6), wanted);
}

/* How a state forgets, and what becomes of numerators and denominators. */
static enum tsa_status check_outputs(const struct tsa_options *o, struct tsa_error *err)
{
    const double largest = o->dtype == TSA_F64 ? DBL_MAX : (double)FLT_MAX;
    if (o->gate != TSA_GATE_NONE && o->gate != TSA_GATE_SCALAR)
        return tsa_fail(err, TSA_EINVAL, "gate",
                        "gate is %d, wanted TSA_GATE_NONE (0) or TSA_GATE_SCALAR (1)",
                        (int)o->gate);
    if (o->output != TSA_OUTPUT_RATIO && o->output != TSA_OUTPUT_SUM)
        return tsa_fail(err, TSA_EINVAL, "output",
                        "output is %d, wanted TSA_OUTPUT_RATIO (0) or TSA_OUTPUT_SUM (1)",
                        (int)o->output);
    if (!(fabs(o->output_scale) <= largest))
        return bad_real(err, "output_scale", o->output_scale, "a finite number of the dtype");
    if (!(fabs(o->denominator_add) <= largest))
        return bad_real(err, "denominator_add", o->denominator_add, "a finite number of the dtype");
    if (!(o->denominator_floor >= 0 && o->denominator_floor <= largest))
        return bad_real(err, "denominator_floor", o->denominator_floor,
                        "a finite number of the dtype, 0 or more");
    if (o->dtype == TSA_F32 && o->denominator_floor > 0 && (float)o->denominator_floor == 0)
        return bad_real(err, "denominator_floor", o->denominator_floor, "0 or one that f32 holds");
    const bool add = o->denominator_add != 0, floor = o->denominator_floor != 0;
    if (o->output == TSA_OUTPUT_SUM && (add || floor))
        return tsa_fail(err, TSA_EINVAL, add ? "denominator_add" : "denominator_floor",
                        "%s is set, but outputs that are sums have no denominator",
                        add ? "denominator_add" : "denominator_floor");
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
    if (o->flags & ~(unsigned)(TSA_SKIP_INPUT_CHECK | TSA_UNIT_KEYS))
        return tsa_fail(err, TSA_EINVAL, "flags",
                        "flags is %#x, wanted a sum of TSA_SKIP_INPUT_CHECK (1) and "
                        "TSA_UNIT_KEYS (2)",
                        o->flags);
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
    case TSA_COMPUTE_EXACT:
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
                        "compute is %d, wanted TSA_COMPUTE_EXACT (0), _MIXED (1) or _FASTEST (2)",
                        (int)o->compute);
    }
    return check_outputs(o, err);
}

static enum tsa_status check_callbacks(const struct tsa_options *o, struct tsa_error *err)
{
    if (!o->allocate != !o->release)
        return tsa_fail(err, TSA_EINVAL, o->allocate ? "release" : "allocate",
                        "allocate and release go together: %s is NULL",
                        o->allocate ? "release" : "allocate");
    if (o->series != TSA_COEFFICIENTS_TAYLOR && o->series != TSA_COEFFICIENTS_SPHERE)
        return tsa_fail(err, TSA_EINVAL, "series",
                        "series is %d, wanted TSA_COEFFICIENTS_TAYLOR (0) or _SPHERE (1)",
                        (int)o->series);
    if (o->series == TSA_COEFFICIENTS_SPHERE && o->coefficients)
        return tsa_fail(err, TSA_EINVAL, "series",
                        "series is sphere, but coefficients are given, too");
    if (o->series == TSA_COEFFICIENTS_SPHERE && o->normalize != TSA_NORMALIZE_L2)
        return tsa_fail(err, TSA_EINVAL, "series",
                        "series is sphere, which is for rows of length 1: normalize must be l2");
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

static void set_outputs(struct tsa_plan *p, const struct tsa_options *o)
{
    const int sum = o->output == TSA_OUTPUT_SUM;
    p->finishes = sum || o->denominator_add != 0 || o->denominator_floor != 0;
    p->finish_f32 =
        (struct TSA_ARGS_F32(finish)){sum, (float)o->denominator_add, (float)o->denominator_floor};
    p->finish_f64 = (struct TSA_ARGS_F64(finish)){sum, o->denominator_add, o->denominator_floor};
    p->output_scale = o->output_scale;
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
    p->chunk = tsa_choose_chunk(o);
    p->dtype = o->dtype;
    p->elem = p->dtype == TSA_F32 ? sizeof(float) : sizeof(double);
    p->normalize = o->normalize;
    p->flags = o->flags;
    p->gate = o->gate;
    p->softmax_window = o->softmax_window;
    const bool sphere = o->series == TSA_COEFFICIENTS_SPHERE;
    p->coef_sets = o->coefficients_per_head || (sphere && o->temperatures) ? p->heads : 1;
    p->allocator.allocate = o->allocate;
    p->allocator.release = o->release;
    p->allocator.user = o->allocator_user;
    p->execute = o->execute;
    set_outputs(p, o);
    p->execute_user = o->execute_user;

    const unsigned parts = (o->compute != TSA_COMPUTE_EXACT ? TSA_STATE_PAIRS : 0) |
                           (o->gate != TSA_GATE_NONE ? TSA_STATE_GATES : 0);
    double bytes = tsa_state_bytes_double(p->d, p->dv, p->terms, p->chunk, p->elem, p->kv_heads,
                                          p->layers, parts);
    /* The estimate errs by a few roundings; what passes here fits size_t without doubt. */
    if (bytes > (double)TSA_MAX_STATE_BYTES || !tsa_monomials_init(&p->mono, p->d, p->terms))
        return too_large(err, p, bytes);
    enum tsa_status status = tsa_isa_find(o->isa, &p->isa, err);
    if (status != TSA_OK)
        return status;
    tsa_choose_lanes(p);
    tsa_choose_compute(p, o);
    tsa_layout_init(&p->layout, p->d, p->dv, p->terms, p->chunk, p->elem, (size_t)p->pair_degree,
                    p->gate != TSA_GATE_NONE);
    p->state_bytes = tsa_state_bytes_exact(&p->layout, p->elem, p->kv_heads, p->layers);
    tsa_choose_blocks(p);
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
        /* kernels read whole vectors past the end of the weights */
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
    status = tsa_fill_constants(p, o, err);
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
        status = check_callbacks(options, err);
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
    measure->direct_tokens = tsa_direct_tokens(&o);
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

enum tsa_status tsa_plan_coefficients(const struct tsa_plan *plan, size_t head,
                                      double *coefficients, struct tsa_error *err)
{
    if (!plan)
        return tsa_fail(err, TSA_EINVAL, "plan", "plan is NULL");
    if (!coefficients)
        return tsa_fail(err, TSA_EINVAL, "coefficients", "coefficients is NULL");
    if (head >= plan->heads)
        return tsa_fail(err, TSA_EINVAL, "head", "head is %zu, the plan has 0 to %zu", head,
                        plan->heads - 1);
    const size_t set = plan->coef_sets > 1 ? head : 0;
    memcpy(coefficients, plan->coef_double + set * plan->terms, plan->terms * sizeof *coefficients);
    return tsa_succeed(err);
}

int tsa_plan_threads(const struct tsa_plan *plan)
{
    return plan ? plan->threads : 0;
}

enum tsa_compute tsa_plan_compute(const struct tsa_plan *plan)
{
    return plan ? plan->compute : TSA_COMPUTE_EXACT;
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
