/* SPDX-License-Identifier: MIT */
/* What the functions of an engine hand to one another: the thread's context, the sums and the
 * window of a kv head. Part of engine_tmpl.h. */

/* What a thread has at hand. */
struct context {
    const struct tsa_plan *plan;
    const struct tsa_call *call; /* NULL while states are merged */
    T *scratch;
};

static T *scratch_at(const struct tsa_call *call, size_t thread)
{
    return (T *)(void *)call->scratch + thread * call->plan->scratch.total;
}
static struct context context_of(const struct tsa_call *call, size_t thread)
{
    return (struct context){call->plan, call, scratch_at(call, thread)};
}

/* The products for features from f0 on: of elements below plan->high, of pairs from it on; a range
 * of features never straddles it. */
static const PRODUCTS *products_of(const struct tsa_plan *plan, size_t f0)
{
    return f0 < plan->high ? &KERNELS(plan)->products : &PAIR_KERNELS(plan)->products;
}

/* Pairs that hold n elements. */
static size_t half_of(size_t n)
{
    return (n + 1) / 2;
}

/* The sums of a kv head, or of a prefix of its history, which has no low parts. */
struct sums {
    T *hi, *lo, *ones_hi, *ones_lo;
    ptrdiff_t ld;
    bool folded; /* is anything in them? Else the chain over features is left out */
    /* Features from plan->high on, rounded to bf16: folds keep them so. NULL: they are rounded when
     * they are read. */
    T *hi_pairs, *ones_pairs;
};

/* The same sums, as if f0 were the first feature. */
static struct sums sums_from(const struct tsa_plan *plan, const struct sums *s, size_t f0)
{
    struct sums from = *s;
    from.hi += (ptrdiff_t)f0 * s->ld;
    from.ones_hi += f0;
    if (s->lo) {
        from.lo += (ptrdiff_t)f0 * s->ld;
        from.ones_lo += f0;
    }
    if (f0 < plan->high) {
        from.hi_pairs = from.ones_pairs = NULL;
    } else if (s->hi_pairs) {
        const size_t pair = (f0 - plan->high) / 2;
        from.hi_pairs += (ptrdiff_t)pair * s->ld;
        from.ones_pairs += pair;
    }
    return from;
}

/* Tokens whose keys and values wait to be folded. */
struct window {
    size_t n; /* tokens */
    T *kt, *v;
    ptrdiff_t ldk, ldv;
    /* Of plans with gates, else NULL: for each token its decay (D), its gate, and its value gate;
     * and what the state keeps for all sums, the decay since the last fold (E) and the product of
     * all gates (P). */
    T *decay, *gate, *value_gate, *past;
    T e; /* decay of the sums */
};

/* The parts of the section of a state, without what it keeps as pairs. */
static struct sums section_sums(T *section, const struct tsa_layout *l)
{
    return (struct sums){.hi = section + l->hi,
                         .lo = section + l->lo,
                         .ones_hi = section + l->ones_hi,
                         .ones_lo = section + l->ones_lo,
                         .ld = (ptrdiff_t)l->ldv};
}
static struct window section_window(T *section, const struct tsa_layout *l, size_t n)
{
    struct window w = {.n = n,
                       .kt = section + l->kt,
                       .v = section + l->v,
                       .ldk = (ptrdiff_t)l->ldk,
                       .ldv = (ptrdiff_t)l->ldv,
                       .e = 1};
    if (l->past > 0) {
        w.decay = section + l->decay;
        w.gate = w.decay + l->ldk;
        w.value_gate = w.gate + l->ldk;
        w.past = section + l->past;
    }
    return w;
}

/* A kv head of a sequence at work. */
struct kv_head {
    struct tsa_item item;
    struct sums sums;
    struct window window;
};

/* In place: a copy right after the stores would wait for them. */
static void set_kv_head(struct kv_head *kv, const struct tsa_call *call, size_t b, size_t g)
{
    const struct tsa_plan *plan = call->plan;
    kv->item = tsa_item_of(call, b, g);
    const struct tsa_state *s = kv->item.state;
    struct tsa_layout own;
    const struct tsa_layout *l = &plan->layout;
    if (s->header.chunk != plan->chunk || s->header.terms != plan->terms ||
        s->header.pair_degree != plan->pair_degree) {
        tsa_state_layout(s, &own);
        l = &own;
    }
    T *section = tsa_state_section(s, l, sizeof(T), call->layer, g);
    kv->sums = section_sums(section, l);
    kv->sums.folded = tsa_state_layer(s, call->layer)->tokens > kv->item.open;
    kv->window = section_window(section, l, kv->item.open);
    if (kv->window.past)
        kv->window.e = kv->window.past[0];
    /* in a state of more terms the partner of an odd last feature is not the padding */
    const bool padded = s->header.terms == plan->terms || (plan->mono.total - plan->high) % 2 == 0;
    if (s->header.pair_degree > 0 && s->header.pair_degree == plan->pair_degree && padded) {
        kv->sums.hi_pairs = section + l->hi_pairs;
        kv->sums.ones_pairs = section + l->ones_pairs;
    }
}
static struct kv_head kv_head_at(const struct tsa_call *call, size_t index)
{
    struct kv_head kv;
    set_kv_head(&kv, call, index / call->plan->kv_heads, index % call->plan->kv_heads);
    return kv;
}

/* Weights of features, coefficients of scores and the factor of queries of a query head. */
struct coefficients {
    const T *weight, *coef;
    T scale;
};
static struct coefficients coefficients_of(const struct tsa_plan *plan, size_t head)
{
    const size_t set = plan->coef_sets > 1 ? head : 0;
    return (struct coefficients){(const T *)plan->weight + set * plan->mono.total,
                                 (const T *)plan->coef + set * plan->terms,
                                 ((const T *)plan->scale)[head]};
}
