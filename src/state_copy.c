/* SPDX-License-Identifier: MIT */
/* States as a whole: copying and comparing them, and the pairs that follow their sums. */
#include "config.h"

#include "fpenv.h"
#include "internal.h"

#include <string.h>

/* memcpy of count elements at the same place of two sections whose parts start elsewhere. */
static void copy_part(size_t elem, void *dst, size_t at, const void *src, size_t from, size_t count)
{
    memcpy((char *)dst + at * elem, (const char *)src + from * elem, count * elem);
}

void tsa_section_copy(size_t elem, size_t d, size_t features, size_t w, void *dst,
                      const struct tsa_layout *dl, const void *src, const struct tsa_layout *sl)
{
    copy_part(elem, dst, dl->hi, src, sl->hi, features * sl->ldv);
    copy_part(elem, dst, dl->lo, src, sl->lo, features * sl->ldv);
    copy_part(elem, dst, dl->ones_hi, src, sl->ones_hi, features);
    copy_part(elem, dst, dl->ones_lo, src, sl->ones_lo, features);
    if (w > 0) {
        for (size_t i = 0; i < d; i++)
            copy_part(elem, dst, dl->kt + i * dl->ldk, src, sl->kt + i * sl->ldk, w);
        copy_part(elem, dst, dl->v, src, sl->v, w * sl->ldv);
    }
    if (dl->past > 0) {
        for (size_t i = 0; i < 3; i++)
            copy_part(elem, dst, dl->decay + i * dl->ldk, src, sl->decay + i * sl->ldk, w);
        copy_part(elem, dst, dl->past, src, sl->past, 2);
    }
}

enum tsa_status tsa_state_copy(const struct tsa_plan *plan, struct tsa_state *dst,
                               const struct tsa_state *src, struct tsa_error *err)
{
    enum tsa_status status = tsa_state_check_replaced(plan, dst, "dst", err);
    if (status == TSA_OK)
        status = tsa_state_check(plan, src, false, "src", TSA_NO_SEQUENCE, err);
    if (status != TSA_OK)
        return status;
    if (dst == src)
        return tsa_succeed(err);
    struct tsa_layout dl, sl;
    tsa_state_layout(dst, &dl);
    tsa_state_layout(src, &sl);
    const struct tsa_fpenv saved = tsa_fpenv_enter();
    for (size_t layer = 0; layer < plan->layers; layer++) {
        *tsa_state_layer(dst, layer) = *tsa_state_layer(src, layer);
        size_t w = tsa_state_window(src, layer);
        for (size_t g = 0; g < plan->kv_heads; g++)
            tsa_section_copy(plan->elem, plan->d, plan->mono.total, w,
                             tsa_state_section(dst, &dl, plan->elem, layer, g), &dl,
                             tsa_state_section(src, &sl, plan->elem, layer, g), &sl);
        for (size_t g = 0; g < plan->kv_heads; g++)
            tsa_state_round(plan, dst, layer, g, 0, 1);
    }
    tsa_fpenv_leave(saved);
    dst->header.fold = plan->chunk;
    return tsa_succeed(err);
}

void tsa_state_round(const struct tsa_plan *plan, const struct tsa_state *s, size_t layer,
                     size_t kv_head, size_t part, size_t parts)
{
    struct tsa_layout l;
    if (s->header.pair_degree == 0)
        return;
    tsa_state_layout(s, &l);
    float *section = tsa_state_section(s, &l, sizeof *section, layer, kv_head);
    const size_t pairs = (l.features - l.high + 1) / 2, last = l.features - l.high;
    const size_t p0 = pairs * part / parts, p1 = pairs * (part + 1) / parts;
    const size_t end = 2 * p1 < last ? 2 * p1 : last, rows = end - 2 * p0;
    const ptrdiff_t ldv = (ptrdiff_t)l.ldv;
    plan->pair_kernels->pair_rows(rows, l.ldv, section + l.hi + (l.high + 2 * p0) * l.ldv, ldv,
                                  section + l.hi_pairs + p0 * l.ldv, ldv);
    if (part == 0)
        plan->pair_kernels->pair_cols(1, last, section + l.ones_hi + l.high, 0,
                                      section + l.ones_pairs, 0);
}

/* A part of a section: rows from `at` on, ld elements apart. */
struct part {
    const char *section;
    size_t at, ld;
};

/* Are `rows` rows of `width` elements the same bits? */
static bool same_rows(size_t elem, struct part a, struct part b, size_t rows, size_t width)
{
    for (size_t r = 0; r < rows; r++) {
        if (memcmp(a.section + (a.at + r * a.ld) * elem, b.section + (b.at + r * b.ld) * elem,
                   width * elem) != 0)
            return false;
    }
    return true;
}

/* Sums of the plan's features, and w tokens of the window. */
static bool same_section(const struct tsa_plan *p, size_t w, const void *a,
                         const struct tsa_layout *la, const void *b, const struct tsa_layout *lb)
{
    const size_t f = p->mono.total, dv = p->dv, e = p->elem;
    if (la->past > 0 &&
        !(same_rows(e, (struct part){a, la->decay, la->ldk}, (struct part){b, lb->decay, lb->ldk},
                    3, w) &&
          same_rows(e, (struct part){a, la->past, 2}, (struct part){b, lb->past, 2}, 1, 2)))
        return false;
    return same_rows(e, (struct part){a, la->hi, la->ldv}, (struct part){b, lb->hi, lb->ldv}, f,
                     dv) &&
           same_rows(e, (struct part){a, la->lo, la->ldv}, (struct part){b, lb->lo, lb->ldv}, f,
                     dv) &&
           same_rows(e, (struct part){a, la->ones_hi, f}, (struct part){b, lb->ones_hi, f}, 1, f) &&
           same_rows(e, (struct part){a, la->ones_lo, f}, (struct part){b, lb->ones_lo, f}, 1, f) &&
           same_rows(e, (struct part){a, la->kt, la->ldk}, (struct part){b, lb->kt, lb->ldk}, p->d,
                     w) &&
           same_rows(e, (struct part){a, la->v, la->ldv}, (struct part){b, lb->v, lb->ldv}, w, dv);
}

enum tsa_status tsa_state_equal(const struct tsa_plan *plan, const struct tsa_state *a,
                                const struct tsa_state *b, int *equal, struct tsa_error *err)
{
    if (!equal)
        return tsa_fail(err, TSA_EINVAL, "equal", "equal is NULL");
    enum tsa_status status = tsa_state_check(plan, a, false, "a", TSA_NO_SEQUENCE, err);
    if (status == TSA_OK)
        status = tsa_state_check(plan, b, false, "b", TSA_NO_SEQUENCE, err);
    if (status != TSA_OK)
        return status;
    struct tsa_layout la, lb;
    bool same = true;
    tsa_state_layout(a, &la);
    tsa_state_layout(b, &lb);
    for (size_t layer = 0; layer < plan->layers && same; layer++) {
        size_t w = tsa_state_window(a, layer);
        same = tsa_state_tokens(a, layer) == tsa_state_tokens(b, layer) &&
               w == tsa_state_window(b, layer);
        for (size_t g = 0; tsa_state_tokens(a, layer) > 0 && g < plan->kv_heads && same; g++)
            same = same_section(plan, w, tsa_state_section(a, &la, plan->elem, layer, g), &la,
                                tsa_state_section(b, &lb, plan->elem, layer, g), &lb);
    }
    *equal = same;
    return tsa_succeed(err);
}
