/* SPDX-License-Identifier: MIT */
/* What merging, reducing and exporting states needs of an arithmetic type. Part of
 * engine_tmpl.h. */

static struct window window_of_section(const struct tsa_section *s)
{
    return section_window(s->data, &s->layout, s->window);
}

static void open_window(const struct tsa_plan *plan, const struct tsa_section *s, void *scratch)
{
    const struct context x = {plan, NULL, scratch};
    const struct window w = window_of_section(s);
    key_base(&x, &w);
}

static void fold_open_window(const struct tsa_plan *plan, const struct tsa_section *s,
                             const struct tsa_rows *rows, struct tsa_range f, void *scratch)
{
    const struct context x = {plan, NULL, scratch};
    const struct window w = window_of_section(s);
    const struct sums sums = {.hi = rows->hi,
                              .lo = rows->lo,
                              .ones_hi = rows->ones_hi,
                              .ones_lo = rows->ones_lo,
                              .ld = (ptrdiff_t)plan->layout.ldv};
    fold_block(&x, &w, &sums, f, NULL);
}

static void merge_rows(const struct tsa_plan *plan, size_t count, const struct tsa_rows *to,
                       const struct tsa_rows *from)
{
    KERNELS(plan)->merge(count * plan->layout.ldv, to->hi, to->lo, from->hi, from->lo);
    KERNELS(plan)->merge(count, to->ones_hi, to->ones_lo, from->ones_hi, from->ones_lo);
}

static void export_rows(const struct tsa_plan *plan, size_t count, const struct tsa_rows *rows,
                        struct tsa_tuple *tuple, double *out, ptrdiff_t stride)
{
    const size_t dv = plan->dv;
    const T *hi = rows->hi, *lo = rows->lo, *ones_hi = rows->ones_hi, *ones_lo = rows->ones_lo;
    for (size_t f = 0; f < count; f++, hi += plan->layout.ldv, lo += plan->layout.ldv) {
        double *row = out + (ptrdiff_t)f * stride;
        for (size_t c = 0; c < dv; c++)
            row[c] = (double)hi[c] + (double)lo[c];
        row[dv] = (double)ones_hi[f] + (double)ones_lo[f];
        if (tuple) {
            const double factor = sqrt(tsa_tuple_multiplicity(tuple));
            for (size_t c = 0; c <= dv; c++)
                row[c] *= factor;
            tsa_tuple_next(tuple);
        }
    }
}
