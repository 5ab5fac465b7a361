/* SPDX-License-Identifier: MIT */
/* The arrays of a plan: temperatures, coefficients, and weights of the query's features. */
#include "config.h"

#include <float.h>
#include <math.h>

#include "internal.h"

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
        if (o->series == TSA_COEFFICIENTS_SPHERE && a < TSA_LEAST_SPHERE_TEMPERATURE) {
            char number[TSA_NUMBER_TEXT];
            return tsa_fail(err, TSA_EINVAL, name,
                            "temperature of head %zu is %s, wanted 0.01 or more for sphere "
                            "coefficients",
                            h, tsa_number_text(number, a, 6));
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
        double factorial = 1, sphere[TSA_MAX_TERMS];
        if (o->series == TSA_COEFFICIENTS_SPHERE)
            tsa_sphere_coefficients(p->d, p->terms, p->temperature[set], sphere);
        for (size_t m = 0; m < p->terms; m++) {
            factorial *= m > 1 ? (double)m : 1;
            size_t i = set * p->terms + m;
            double c = o->coefficients                        ? o->coefficients[i]
                       : o->series == TSA_COEFFICIENTS_SPHERE ? sphere[m]
                                                              : 1 / factorial;
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

enum tsa_status tsa_fill_constants(struct tsa_plan *plan, const struct tsa_options *options,
                                   struct tsa_error *err)
{
    enum tsa_status status = set_temperatures(plan, options, err);
    if (status == TSA_OK)
        status = set_coefficients(plan, options, err);
    return status == TSA_OK ? set_weights(plan, err) : status;
}
