/* SPDX-License-Identifier: MIT */
/* Facts that need no plan: versions, feature counts, the exponential in use. */
#include "config.h"

#include "internal.h"

#define TEXT_OF(x) #x
#define TEXT(x) TEXT_OF(x)

const char *tsa_version(void)
{
    return TEXT(TSA_VERSION_MAJOR) "." TEXT(TSA_VERSION_MINOR) "." TEXT(TSA_VERSION_PATCH);
}

int tsa_arithmetic(void)
{
    return TSA_ARITHMETIC_VERSION;
}

size_t tsa_features(size_t head_dim, size_t terms)
{
    struct tsa_monomials mono;
    return tsa_monomials_init(&mono, head_dim, terms) ? mono.total : 0;
}

size_t tsa_state_elements(size_t head_dim, size_t value_dim, size_t terms)
{
    size_t columns, elements;
    if (!tsa_size_add(value_dim, 1, &columns) ||
        !tsa_size_mul(tsa_features(head_dim, terms), columns, &elements))
        return 0;
    return elements;
}

const char *tsa_exp_name(void)
{
    const struct tsa_isa *isa;
    if (tsa_isa_find(NULL, &isa, NULL) != TSA_OK)
        return "";
    if (isa == &tsa_isa_scalar && !tsa_cpu_has_fma())
        return "Sleef_exp1_u10purec"; /* as v_exp() of v_scalar.h has it */
    return isa->exp;
}
