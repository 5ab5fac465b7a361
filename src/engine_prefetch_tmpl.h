/* SPDX-License-Identifier: MIT */
/* Lists of memory that a long kernel prefetches. Part of engine_tmpl.h. */

/* Rows of a tensor. */
static void prefetch_rows(struct tsa_prefetch *prefetch, const struct tsa_tensor *tensor,
                          const struct rows *r, size_t width, bool write)
{
    const size_t elem = tsa_dtype_bytes(tensor->dtype), bytes = width * elem;
    if (prefetch->count == TSA_PREFETCH_ROWS || r->n == 0)
        return;
    struct tsa_prefetch_rows rows = {tsa_row(tensor, r->b, r->h, r->t),
                                     r->n > 1 ? tensor->token * (ptrdiff_t)elem : 0,
                                     r->n,
                                     (bytes + TSA_ALIGN - 1) / TSA_ALIGN,
                                     0,
                                     write};
    if (rows.stride == (ptrdiff_t)bytes) { /* one long row */
        rows.lines = (r->n * bytes + TSA_ALIGN - 1) / TSA_ALIGN;
        rows.rows = 1;
    }
    prefetch->rows[prefetch->count++] = rows;
}

/* n elements of T that follow one another. */
static void prefetch_elements(struct tsa_prefetch *prefetch, const T *from, size_t n, bool write)
{
    if (prefetch->count < TSA_PREFETCH_ROWS)
        prefetch->rows[prefetch->count++] = (struct tsa_prefetch_rows){
            (const char *)from, 0, 1, (n * sizeof(T) + TSA_ALIGN - 1) / TSA_ALIGN, 0, write};
}

static size_t prefetch_line_count(const struct tsa_prefetch *prefetch)
{
    size_t lines = 0;
    for (size_t i = 0; i < prefetch->count; i++)
        lines += prefetch->rows[i].rows * prefetch->rows[i].lines;
    return lines;
}

/* Keys, values and, of `heads` query heads, queries of tokens that a call will come to. */
static void prefetch_inputs(struct tsa_prefetch *prefetch, const struct tsa_call *call,
                            const struct tsa_item *it, size_t heads, size_t t, size_t n)
{
    const struct tsa_plan *plan = call->plan;
    const size_t first = it->g * plan->group;
    for (size_t i = 0; tsa_call_has_queries(call) && i < heads; i++)
        prefetch_rows(prefetch, call->q, &(const struct rows){it->b, first + i, t, n}, plan->d,
                      false);
    prefetch_rows(prefetch, call->k, &(const struct rows){it->b, it->g, t, n}, plan->d, false);
    prefetch_rows(prefetch, call->v, &(const struct rows){it->b, it->g, t, n}, plan->dv, false);
}
