/* SPDX-License-Identifier: MIT */
/* What merging, reducing and exporting states needs of an arithmetic type. Part of
 * engine_tmpl.h. */

static struct window window_of_section(const struct tsa_section *s)
{
    struct window w = section_window(s->data, &s->layout, s->window);
    if (w.past)
        w.e = w.past[0];
    return w;
}

static void open_window(const struct tsa_plan *plan, const struct tsa_section *s, void *scratch)
{
    const struct context x = {plan, NULL, scratch};
    const struct window own = window_of_section(s), w = window_to_fold(&x, &own, own.n);
    key_base(&x, &w);
}

static void fold_open_window(const struct tsa_plan *plan, const struct tsa_section *s,
                             const struct tsa_rows *rows, struct tsa_range f, void *scratch)
{
    const struct context x = {plan, NULL, scratch};
    const struct window own = window_of_section(s), w = folded_window(&x, &own);
    const struct sums sums = {.hi = rows->hi,
                              .lo = rows->lo,
                              .ones_hi = rows->ones_hi,
                              .ones_lo = rows->ones_lo,
                              .ld = (ptrdiff_t)plan->layout.ldv};
    fold_block(&x, &w, &sums, f, NULL);
}

/* Rows of a section with gates, before those of `later` are added to them. */
static void decay_rows(const struct tsa_plan *plan, size_t count, const struct tsa_rows *rows,
                       const struct tsa_section *s, const struct tsa_section *later)
{
    const T *before = window_of_section(s).past, *after = window_of_section(later).past;
    const T factors[] = {before[0], after[1]};
    for (int i = 0; i < 2; i++)
        if (factors[i] != 1) {
            KERNELS(plan)->decay(count * plan->layout.ldv, factors[i], rows->hi, rows->lo);
            KERNELS(plan)->decay(count, factors[i], rows->ones_hi, rows->ones_lo);
        }
}

/* The same for its window, and what it keeps of its gates. */
static void merge_gates(const struct tsa_plan *plan, const struct tsa_section *s,
                        const struct tsa_section *later)
{
    const struct window w = window_of_section(s);
    const T product = window_of_section(later).past[1];
    KERNELS(plan)->scale_rows(1, w.n, &product, 0, w.decay, 0, w.decay, 0);
    w.past[0] = 1;
    w.past[1] = w.past[1] * product;
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
