/* SPDX-License-Identifier: MIT */
/* States: where their parts lie, whether they are sound and fit a plan, and what reads them. */
#include "config.h"

#include "internal.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* -- layout ------------------------------------------------------------------------------- */

void tsa_layout_init(struct tsa_layout *l, size_t d, size_t dv, size_t terms, size_t chunk,
                     size_t elem, size_t pair_degree, bool gated)
{
    size_t ones, rows;
    l->features = tsa_features(d, terms);
    l->ldv = tsa_round_up(dv, TSA_ALIGN / elem);
    l->ldk = tsa_round_up(chunk, TSA_ROW_PAD);
    ones = tsa_round_up(l->features, TSA_ROW_PAD) + TSA_ROW_PAD;
    l->hi = 0;
    l->lo = l->hi + l->features * l->ldv;
    l->ones_hi = l->lo + l->features * l->ldv;
    l->ones_lo = l->ones_hi + ones;
    l->kt = l->ones_lo + ones;
    l->v = l->kt + d * l->ldk;
    l->high = pair_degree == 0   ? l->features
              : pair_degree == 1 ? 0
                                 : tsa_features(d, pair_degree - 1);
    rows = (l->features - l->high + 1) / 2;
    l->decay = l->past = 0;
    l->hi_pairs = l->v + chunk * l->ldv;
    if (gated) {
        l->decay = l->hi_pairs;
        l->past = l->decay + 3 * l->ldk;
        l->hi_pairs = l->past + TSA_ROW_PAD;
    }
    l->ones_pairs = l->hi_pairs + rows * l->ldv;
    l->section_elements = l->ones_pairs + tsa_round_up(rows, TSA_ROW_PAD);
}

static size_t element_bytes(uint32_t dtype)
{
    return dtype == TSA_F32 ? sizeof(float) : sizeof(double);
}

void tsa_state_layout(const struct tsa_state *s, struct tsa_layout *l)
{
    const struct tsa_state_header *header = &s->header;
    tsa_layout_init(l, (size_t)header->d, (size_t)header->dv, header->terms, (size_t)header->chunk,
                    element_bytes(header->dtype), (size_t)header->pair_degree,
                    header->gate != TSA_GATE_NONE);
}

double tsa_state_bytes_double(size_t d, size_t dv, size_t terms, size_t chunk, size_t elem,
                              size_t kv_heads, size_t layers, unsigned parts)
{
    double features = 1, count = 1;
    for (size_t m = 1; m < terms; m++) {
        count *= ((double)d + (double)m - 1) / (double)m;
        features += count;
    }
    double row = (double)dv + TSA_ALIGN / (double)elem;
    double pairs = parts & TSA_STATE_PAIRS ? (features + 1) / 2 * (row + 1) + TSA_ROW_PAD : 0;
    double gates = parts & TSA_STATE_GATES ? 3 * ((double)chunk + TSA_ROW_PAD) + TSA_ROW_PAD : 0;
    double head = 2 * features * (row + 1) + pairs + gates + 4 * TSA_ROW_PAD +
                  (double)d * ((double)chunk + TSA_ROW_PAD) + (double)chunk * row;
    return (double)layers * ((double)kv_heads * head * (double)elem + 16) + 256;
}

static size_t sections_offset(size_t layers)
{
    return tsa_round_up(sizeof(struct tsa_state_header), TSA_ALIGN) +
           tsa_round_up(layers * sizeof(struct tsa_layer_header), TSA_ALIGN);
}

size_t tsa_state_bytes_exact(const struct tsa_layout *l, size_t elem, size_t kv_heads,
                             size_t layers)
{
    return sections_offset(layers) + layers * kv_heads * l->section_elements * elem;
}

/* The address inside a state, without its const: callers that only read keep their promise. */
static char *inside(const struct tsa_state *s, size_t offset)
{
    return (char *)(uintptr_t)s + offset;
}

void *tsa_state_section(const struct tsa_state *s, const struct tsa_layout *l, size_t elem,
                        size_t layer, size_t kv_head)
{
    size_t index = layer * (size_t)s->header.kv_heads + kv_head;
    return inside(s,
                  sections_offset((size_t)s->header.layers) + index * l->section_elements * elem);
}

struct tsa_layer_header *tsa_state_layer(const struct tsa_state *s, size_t layer)
{
    size_t offset = tsa_round_up(sizeof(struct tsa_state_header), TSA_ALIGN);
    return (struct tsa_layer_header *)(void *)inside(
        s, offset + layer * sizeof(struct tsa_layer_header));
}

/* -- does it fit? ------------------------------------------------------------------------- */

/* The state as the caller knows it: `argument`, or one element of that array. */
struct name {
    const char *argument;
    size_t sequence;
};

static enum tsa_status misfit(struct tsa_error *err, struct name name, enum tsa_status status,
                              const char *what)
{
    if (name.sequence == TSA_NO_SEQUENCE)
        return tsa_fail(err, status, name.argument, "%s %s", name.argument, what);
    tsa_fail(err, status, name.argument, "%s[%zu] %s", name.argument, name.sequence, what);
    if (err)
        err->sequence = (ptrdiff_t)name.sequence;
    return status;
}

static enum tsa_status mismatch(struct tsa_error *err, struct name name, const char *what,
                                uint64_t wanted, uint64_t found)
{
    char text[160];
    int saved_errno = errno;
    snprintf(text, sizeof text, "has %s %llu, the plan wants %llu", what, (unsigned long long)found,
             (unsigned long long)wanted);
    errno = saved_errno;
    enum tsa_status status = misfit(err, name, TSA_EMISMATCH, text);
    tsa_error_numbers(err, (int64_t)wanted, (int64_t)found);
    return status;
}

/* Bytes of a state with this header, or 0 if there can be none. */
static uint64_t layout_bytes(const struct tsa_state_header *h)
{
    const size_t elem = element_bytes(h->dtype);
    const bool gated = h->gate != TSA_GATE_NONE;
    const unsigned parts =
        (h->pair_degree > 0 ? TSA_STATE_PAIRS : 0) | (gated ? TSA_STATE_GATES : 0);
    const double about =
        tsa_state_bytes_double((size_t)h->d, (size_t)h->dv, h->terms, (size_t)h->chunk, elem,
                               (size_t)h->kv_heads, (size_t)h->layers, parts);
    struct tsa_layout l;
    if (about > (double)TSA_MAX_STATE_BYTES)
        return 0;
    tsa_layout_init(&l, (size_t)h->d, (size_t)h->dv, h->terms, (size_t)h->chunk, elem,
                    (size_t)h->pair_degree, gated);
    return tsa_state_bytes_exact(&l, elem, (size_t)h->kv_heads, (size_t)h->layers);
}

/* Could the library have written this header? */
static bool is_state(const struct tsa_state_header *h)
{
    return memcmp(h->magic, tsa_state_magic, sizeof tsa_state_magic) == 0 &&
           (h->dtype == TSA_F32 || h->dtype == TSA_F64) &&
           (h->normalize == TSA_NORMALIZE_L2 || h->normalize == TSA_NORMALIZE_NONE) &&
           h->terms >= 1 && h->terms <= TSA_MAX_TERMS && h->d >= 1 && h->dv >= 1 &&
           h->kv_heads >= 1 && h->layers >= 1 && h->chunk >= 1 && h->chunk <= TSA_MAX_CHUNK &&
           h->fold >= 1 && h->fold <= h->chunk &&
           h->pair_degree <= (h->dtype == TSA_F32 ? h->terms : 0) && h->gate <= TSA_GATE_SCALAR &&
           (h->unused | h->reserved[0] | h->reserved[1]) == 0 && h->bytes == layout_bytes(h);
}

/* Is it as this plan makes it, and writes it? Such a state fits whatever the call; most are such,
 * and short calls feel how long this takes. */
static bool is_own_state(const struct tsa_plan *p, const struct tsa_state_header *h)
{
    return memcmp(h->magic, tsa_state_magic, sizeof tsa_state_magic) == 0 &&
           h->arithmetic == TSA_ARITHMETIC_VERSION && h->dtype == (uint32_t)p->dtype &&
           h->normalize == (uint32_t)p->normalize && h->terms == p->terms && h->d == p->d &&
           h->dv == p->dv && h->kv_heads == p->kv_heads && h->layers == p->layers &&
           h->chunk == p->chunk && h->fold == p->chunk && h->pair_degree == p->pair_degree &&
           h->bytes == p->state_bytes && h->gate == (uint64_t)p->gate &&
           (h->unused | h->reserved[0] | h->reserved[1]) == 0;
}

/* Could the library have counted so? Asked once the header is right. */
static bool counts_are_right(const struct tsa_state *s, size_t layer)
{
    const struct tsa_layer_header *header = tsa_state_layer(s, layer);
    return header->window < s->header.fold && header->window <= header->tokens;
}

static bool has_open_window(const struct tsa_state *s)
{
    for (size_t layer = 0; layer < (size_t)s->header.layers; layer++) {
        if (tsa_state_layer(s, layer)->window > 0)
            return true;
    }
    return false;
}

/* What is about to happen to a state decides what has to fit. */
enum use { USE_READ, USE_WRITE, USE_OVERWRITE };

static enum tsa_status check_named(const struct tsa_plan *p, const struct tsa_state *s,
                                   enum use use, struct name name, struct tsa_error *err)
{
    if (!p)
        return tsa_fail(err, TSA_EINVAL, "plan", "plan is NULL");
    if (!s)
        return misfit(err, name, TSA_EINVAL, "is NULL");
    if ((uintptr_t)s % TSA_ALIGN != 0)
        return misfit(err, name, TSA_EINVAL, "is not 64-byte aligned");
    const struct tsa_state_header *h = &s->header;
    if (is_own_state(p, h))
        return TSA_OK;
    if (!is_state(h))
        return misfit(err, name, TSA_EFORMAT, "is not a state of this version");
    const struct {
        const char *what;
        uint64_t wanted, found;
    } same[] = {
        {"arithmetic", TSA_ARITHMETIC_VERSION, h->arithmetic},
        {"dtype", (uint64_t)p->dtype, h->dtype},
        {"normalize", (uint64_t)p->normalize, h->normalize},
        {"head_dim", p->d, h->d},
        {"value_dim", p->dv, h->dv},
        {"kv_heads", p->kv_heads, h->kv_heads},
        {"layers", p->layers, h->layers},
        {"gate", (uint64_t)p->gate, h->gate},
    };
    for (size_t i = 0; i < sizeof same / sizeof *same; i++) {
        if (same[i].wanted != same[i].found)
            return mismatch(err, name, same[i].what, same[i].wanted, same[i].found);
    }
    /* The lower degrees of a larger state can be read, but not written without the others. */
    if (use == USE_READ ? p->terms > h->terms : p->terms != h->terms)
        return mismatch(err, name, "terms", p->terms, h->terms);
    if (use != USE_READ && p->chunk > h->chunk)
        return mismatch(err, name, "chunk", p->chunk, h->chunk);
    if (use != USE_OVERWRITE && p->chunk != h->fold && has_open_window(s))
        return mismatch(err, name, "an open window of chunk", p->chunk, h->fold);
    return TSA_OK;
}

/* check_named, and the counts of every layer. */
static enum tsa_status check_all(const struct tsa_plan *p, const struct tsa_state *s, enum use use,
                                 struct name name, struct tsa_error *err)
{
    enum tsa_status status = check_named(p, s, use, name, err);
    for (size_t layer = 0; status == TSA_OK && layer < p->layers; layer++) {
        if (!counts_are_right(s, layer))
            status = misfit(err, name, TSA_EFORMAT, "has counts of tokens that cannot be");
    }
    return status;
}

static enum tsa_status check(const struct tsa_plan *p, const struct tsa_state *s, enum use use,
                             const char *argument, struct tsa_error *err)
{
    return check_all(p, s, use, (struct name){argument, TSA_NO_SEQUENCE}, err);
}

enum tsa_status tsa_state_check(const struct tsa_plan *plan, const struct tsa_state *s,
                                bool writing, const char *argument, size_t sequence,
                                struct tsa_error *err)
{
    return check_all(plan, s, writing ? USE_WRITE : USE_READ, (struct name){argument, sequence},
                     err);
}

enum tsa_status tsa_state_check_layer(const struct tsa_plan *plan, const struct tsa_state *s,
                                      size_t layer, const size_t *more, size_t sequence,
                                      struct tsa_error *err)
{
    const struct name name = {"states", sequence};
    const enum tsa_status status = check_named(plan, s, more ? USE_WRITE : USE_READ, name, err);
    if (status != TSA_OK)
        return status;
    if (!counts_are_right(s, layer))
        return misfit(err, name, TSA_EFORMAT, "has a count of tokens that cannot be");
    if (more && *more > UINT64_MAX - tsa_state_layer(s, layer)->tokens)
        return misfit(err, name, TSA_EOVERFLOW, "would have 2^64 tokens or more");
    return TSA_OK;
}

enum tsa_status tsa_state_check_replaced(const struct tsa_plan *plan, const struct tsa_state *s,
                                         const char *argument, struct tsa_error *err)
{
    return check(plan, s, USE_OVERWRITE, argument, err);
}

/* -- resetting and looking ---------------------------------------------------------------- */

enum tsa_status tsa_state_reset(const struct tsa_plan *plan, struct tsa_state *state,
                                struct tsa_error *err)
{
    enum tsa_status status = check(plan, state, USE_OVERWRITE, "state", err);
    if (status != TSA_OK)
        return status;
    struct tsa_layout l;
    tsa_state_layout(state, &l);
    size_t head = sizeof(struct tsa_state_header);
    memset(inside(state, head), 0,
           tsa_state_bytes_exact(&l, plan->elem, plan->kv_heads, plan->layers) - head);
    state->header.fold = plan->chunk;
    return tsa_succeed(err);
}

/* Of any header, as nothing was checked: does the count of this layer lie inside the state? */
static bool has_layer(const struct tsa_state *s, size_t layer)
{
    const uint64_t rest = s->header.bytes - sections_offset(0);
    return s->header.bytes >= sections_offset(0) && layer < s->header.layers &&
           layer < rest / sizeof(struct tsa_layer_header);
}

uint64_t tsa_state_tokens(const struct tsa_state *state, size_t layer)
{
    return state && has_layer(state, layer) ? tsa_state_layer(state, layer)->tokens : 0;
}

size_t tsa_state_window(const struct tsa_state *state, size_t layer)
{
    return state && has_layer(state, layer) ? (size_t)tsa_state_layer(state, layer)->window : 0;
}

size_t tsa_state_bytes(const struct tsa_plan *plan)
{
    return plan ? plan->state_bytes : 0;
}

size_t tsa_state_size(const struct tsa_state *state)
{
    return state ? (size_t)state->header.bytes : 0;
}

enum tsa_status tsa_state_view(const struct tsa_plan *plan, const struct tsa_state *state,
                               size_t layer, size_t kv_head, struct tsa_view *view,
                               struct tsa_error *err)
{
    if (!view)
        return tsa_fail(err, TSA_EINVAL, "view", "view is NULL");
    enum tsa_status status = check(plan, state, USE_READ, "state", err);
    if (status == TSA_OK)
        status = tsa_check_section(plan, layer, kv_head, err);
    if (status != TSA_OK)
        return status;
    struct tsa_layout l;
    tsa_state_layout(state, &l);
    const char *section = tsa_state_section(state, &l, plan->elem, layer, kv_head);
    view->dtype = plan->dtype;
    view->features = plan->mono.total;
    view->value_dim = plan->dv;
    view->stride = (ptrdiff_t)l.ldv;
    view->hi = section + l.hi * plan->elem;
    view->lo = section + l.lo * plan->elem;
    view->ones_hi = section + l.ones_hi * plan->elem;
    view->ones_lo = section + l.ones_lo * plan->elem;
    view->decay = 1;
    if (l.past > 0 && tsa_state_tokens(state, layer) > 0)
        view->decay = plan->dtype == TSA_F64 ? *(const double *)(const void *)(section + l.past * 8)
                                             : *(const float *)(const void *)(section + l.past * 4);
    view->tokens = tsa_state_tokens(state, layer) - tsa_state_window(state, layer);
    return tsa_succeed(err);
}

enum tsa_status tsa_check_section(const struct tsa_plan *plan, size_t layer, size_t kv_head,
                                  struct tsa_error *err)
{
    bool bad_layer = layer >= plan->layers;
    if (!bad_layer && kv_head < plan->kv_heads)
        return TSA_OK;
    const char *argument = bad_layer ? "layer" : "kv_head";
    size_t found = bad_layer ? layer : kv_head;
    size_t last = (bad_layer ? plan->layers : plan->kv_heads) - 1;
    enum tsa_status status = tsa_fail(err, TSA_EINVAL, argument, "%s is %zu, the plan has 0 to %zu",
                                      argument, found, last);
    tsa_error_numbers(err, (int64_t)last, (int64_t)found);
    return status;
}
