/* SPDX-License-Identifier: MIT */
/* Items, teams on one item, lists of items of prefill; see schedule.h. */
#include "config.h"

#include <math.h>
#include <string.h>

#include "schedule.h"
#include "tuning.h"

/* -- items and their chunks -------------------------------------------------------------------- */

struct tsa_span tsa_span_at(const struct tsa_call *call, const struct tsa_item *it, size_t j)
{
    const size_t chunk = call->plan->chunk;
    struct tsa_span s = {.t = it->t + (j == 0 ? 0 : j * chunk - it->open),
                         .at = j == 0 ? it->open : 0};
    const size_t left = it->end - s.t, space = chunk - s.at;
    s.n = left < space ? left : space;
    return s;
}

size_t tsa_chunk_count(const struct tsa_call *call, const struct tsa_item *it)
{
    return (it->open + it->end - it->t + call->plan->chunk - 1) / call->plan->chunk;
}

bool tsa_item_folds(const struct tsa_call *call, const struct tsa_item *it)
{
    return it->open + (it->end - it->t) >= call->plan->chunk;
}

/* -- a team on one item ------------------------------------------------------------------------ */

size_t tsa_wave_chunks(const struct tsa_plan *plan, size_t threads)
{
    if (threads < 2)
        return 0;
    const size_t fit = TSA_MOST_TOGETHER_BYTES / (plan->wave_chunk.total * plan->elem);
    const size_t wanted = plan->wave_length > 0 ? plan->wave_length : TSA_WAVE_CHUNKS * threads;
    return fit < 2 ? 0 : fit < wanted ? fit : wanted;
}

/* Stages that are worth it; tests want as many as there can be. */
static size_t most_stages(const struct tsa_plan *plan)
{
    const size_t features = plan->mono.total;
    const size_t most = plan->team_use == TSA_TEAM_AUTO
                            ? features / TSA_STAGE_FEATURES
                            : (features + TSA_ROW_PAD - 1) / TSA_ROW_PAD;
    return most > 1 ? most : 1;
}

size_t tsa_relay_stages(const struct tsa_plan *plan, size_t threads)
{
    const size_t most = most_stages(plan);
    return threads < most ? threads : most;
}

size_t tsa_relay_chunks(const struct tsa_plan *plan, size_t threads)
{
    if (threads < 2 || plan->relay_chunk == 0)
        return 0;
    const size_t stages = tsa_relay_stages(plan, threads), own = tsa_stage_elements(plan);
    const size_t each = TSA_MOST_TOGETHER_BYTES / plan->elem / stages; /* elements of a stage */
    const size_t fit = own < each ? (each - own) / plan->relay_chunk : 0;
    const size_t wanted = TSA_STEP_TOKENS / plan->chunk + 1;
    return stages * (fit < wanted ? fit : wanted);
}

size_t tsa_stage_elements(const struct tsa_plan *plan)
{
    const struct tsa_layout *l = &plan->layout;
    const size_t elements = l->hi_pairs - (plan->large ? l->kt : 0);  /* window, sums */
    return tsa_round_up(elements, TSA_MAX_LANES) + 2 * TSA_MAX_LANES; /* lines apart */
}

bool tsa_use_relay(const struct tsa_plan *plan, size_t threads)
{
    if (tsa_relay_chunks(plan, threads) == 0)
        return false;
    if (plan->team_use != TSA_TEAM_AUTO)
        return plan->team_use == TSA_TEAM_RELAY;
    return 10 * threads < TSA_RELAY_SURPLUS * most_stages(plan) ||
           tsa_wave_chunks(plan, threads) == 0;
}

size_t tsa_together_elements(const struct tsa_plan *plan, size_t threads)
{
    if (!tsa_use_relay(plan, threads))
        return tsa_wave_chunks(plan, threads) * plan->wave_chunk.total;
    return tsa_relay_chunks(plan, threads) * plan->relay_chunk +
           tsa_relay_stages(plan, threads) * tsa_stage_elements(plan);
}

/* Chunks of a step: more of them leave stages without work at both ends, fewer take more steps. */
static size_t step_chunks(const struct tsa_call *call, const struct tsa_relay *relay)
{
    const struct tsa_plan *plan = call->plan;
    const double sums = (double)(plan->mono.total * (plan->dv + 1));
    const double chunk = sums * (double)plan->chunk * (1 + (double)plan->group);
    const double work = chunk / (double)relay->stages / TSA_PRODUCTS_PER_US;
    const double best = sqrt((double)relay->chunks * TSA_STEP_COST / work / (double)relay->stages);
    const size_t most = tsa_relay_chunks(plan, call->team.threads) / relay->stages;
    return best < 1 ? 1 : best < (double)most ? (size_t)best : most;
}

struct tsa_relay tsa_relay_of(const struct tsa_call *call, const struct tsa_item *it)
{
    struct tsa_relay relay = {.stages = tsa_relay_stages(call->plan, call->team.threads),
                              .chunks = tsa_chunk_count(call, it)};
    relay.step_chunks = tsa_call_has_queries(call) ? step_chunks(call, &relay) : relay.chunks;
    relay.ring = relay.stages * relay.step_chunks;
    relay.steps = (relay.chunks + relay.step_chunks - 1) / relay.step_chunks;
    if (tsa_call_has_queries(call)) /* stages follow one another */
        relay.steps += relay.stages - 1;
    return relay;
}

/* A border between features that parts no pair. */
static size_t whole_pairs(const struct tsa_plan *plan, size_t f)
{
    return f > plan->high && f < plan->mono.total ? f - (f - plan->high) % 2 : f;
}

/* The window takes the last stage as much time as some features would (measured), so that it has
 * fewer, or none. */
struct tsa_range tsa_stage_features(const struct tsa_call *call, size_t stages, size_t stage)
{
    const struct tsa_plan *plan = call->plan;
    const size_t units = (plan->mono.total + TSA_STAGE_UNIT - 1) / TSA_STAGE_UNIT;
    const size_t others = stages - 1;
    size_t last = units / stages;
    if (tsa_call_has_queries(call)) {
        const double window = (double)plan->chunk * (double)(plan->d + plan->dv + 3) /
                              (2.5 * (double)plan->dv + 30) / TSA_STAGE_UNIT;
        const double share = ((double)units + window) / (double)stages - window;
        last = share > 0 ? (size_t)(share + 0.5) : 0;
    }
    if (others == 0)
        last = units;
    else if (last > units - others)
        last = units - others;
    struct tsa_range f = {0, last * TSA_STAGE_UNIT};
    if (stage < others) {
        f.f0 = (last + (units - last) * (others - 1 - stage) / others) * TSA_STAGE_UNIT;
        f.f1 = (last + (units - last) * (others - stage) / others) * TSA_STAGE_UNIT;
    }
    f.f0 = whole_pairs(plan, f.f0);
    f.f1 = whole_pairs(plan, f.f1 < plan->mono.total ? f.f1 : plan->mono.total);
    return f;
}

/* -- prefill and absorb ------------------------------------------------------------------------ */

static size_t item_tokens(const struct tsa_call *call, size_t index)
{
    return tsa_call_tokens(call, index / call->plan->kv_heads);
}

/* Longest first. */
static void sort_items(const struct tsa_call *call, size_t count)
{
    size_t *order = call->order, gap = 1;
    while (gap < count / 3)
        gap = 3 * gap + 1;
    for (; gap > 0; gap /= 3)
        for (size_t i = gap; i < count; i++) {
            const size_t item = order[i], tokens = item_tokens(call, item);
            size_t j = i;
            for (; j >= gap && item_tokens(call, order[j - gap]) < tokens; j -= gap)
                order[j] = order[j - gap];
            order[j] = item;
        }
}

/* Add `more` to the smallest of the loads, which is loads[0] of a heap. */
static void add_load(size_t *loads, size_t count, size_t more)
{
    const size_t load = loads[0] + more;
    size_t i = 0;
    for (size_t child; (child = 2 * i + 1) < count; i = child) {
        if (child + 1 < count && loads[child + 1] < loads[child])
            child++;
        if (loads[child] >= load)
            break;
        loads[i] = loads[child];
    }
    loads[i] = load;
}

/* Estimated length of the schedule, in tokens of one thread, when the team does the first
 * `together` items of the list: one after the other in a relay, whose stages wait for their first
 * chunk, or all in waves. */
static double schedule_length(const struct tsa_call *call, const struct tsa_schedule *s,
                              size_t together)
{
    const size_t threads = call->team.threads, chunk = call->plan->chunk;
    const size_t stages = s->relay ? tsa_relay_stages(call->plan, threads) : threads;
    const size_t waits = s->relay && tsa_call_has_queries(call) ? stages - 1 : 0;
    size_t *loads = call->loads, chunks = 0, alone = s->tokens, most = 0;
    memset(loads, 0, threads * sizeof *loads);
    for (size_t i = 0; i < s->listed; i++) {
        const size_t tokens = item_tokens(call, call->order[i]);
        if (i < together) {
            chunks += (tokens + chunk - 1) / chunk + waits;
            alone -= tokens;
        } else {
            const size_t load = loads[0] + tokens;
            most = load > most ? load : most;
            add_load(loads, threads, tokens);
        }
    }
    const double even = (double)alone / (double)threads;
    const double team = TSA_TOGETHER_COST * (double)((chunks + stages - 1) / stages * chunk);
    return team + ((double)most > even ? (double)most : even);
}

bool tsa_is_decode(const struct tsa_call *call)
{
    if (!tsa_call_has_queries(call) || call->tokens != 1)
        return false;
    const bool ragged = call->offsets || call->lengths;
    for (size_t b = 0; ragged && b < call->batch; b++)
        if (tsa_call_tokens(call, b) != 1)
            return false;
    return true;
}

/* What there is to do, nothing listed yet. */
static struct tsa_schedule count_work(const struct tsa_call *call)
{
    const size_t heads = call->plan->kv_heads;
    struct tsa_schedule s = {.rest = call->batch * heads};
    s.tokens = s.rest * call->tokens;
    if (!call->offsets && !call->lengths)
        return s;
    s.tokens = 0;
    bool single = false;
    for (size_t b = 0; b < call->batch; b++) {
        const size_t tokens = tsa_call_tokens(call, b);
        s.tokens += tokens * heads;
        single |= tokens == 1;
    }
    s.singles =
        single && tsa_call_has_queries(call) ? (call->batch + TSA_SINGLES - 1) / TSA_SINGLES : 0;
    if (s.singles && call->tokens == 1)
        s.rest = 0;
    return s;
}

/* List the long items, if there is more than one thread. */
static void list_items(const struct tsa_call *call, struct tsa_schedule *s)
{
    const struct tsa_plan *plan = call->plan;
    const size_t threads = call->team.threads, most = TSA_LONG_ITEMS * threads;
    s->longest = s->tokens / most; /* so that all of them fit into the list */
    if (s->longest < 2 * plan->chunk - 1 || plan->team_use != TSA_TEAM_AUTO)
        s->longest = 2 * plan->chunk - 1;
    s->last = SIZE_MAX;
    if (threads < 2 || call->together == 0)
        s->longest = SIZE_MAX;
    for (size_t b = 0; b < call->batch && call->tokens > s->longest; b++)
        for (size_t g = 0; g < plan->kv_heads && tsa_call_tokens(call, b) > s->longest; g++)
            if (s->listed < most)
                s->last = call->order[s->listed++] = b * plan->kv_heads + g;
    sort_items(call, s->listed);
}

/* How many of the list are best done by the team. */
static size_t choose_together(const struct tsa_call *call, const struct tsa_schedule *s)
{
    const struct tsa_plan *plan = call->plan;
    if (plan->team_use != TSA_TEAM_AUTO)
        return s->listed;
    if (s->listed == 0 || plan->crowded)
        return 0;
    const size_t candidates[] = {0, s->listed % call->team.threads, s->listed};
    size_t together = 0;
    double best = INFINITY;
    for (size_t i = 0; i < sizeof candidates / sizeof *candidates; i++) {
        const double length = schedule_length(call, s, candidates[i]);
        if (length < best) {
            best = length;
            together = candidates[i];
        }
    }
    return together;
}

struct tsa_schedule tsa_schedule_prefill(struct tsa_call *call)
{
    const struct tsa_plan *plan = call->plan;
    struct tsa_schedule s = count_work(call);
    const double reads = tsa_call_has_queries(call) ? 1 + (double)plan->group : 1;
    const double work = reads * (double)s.tokens * (double)(plan->mono.total * plan->dv);
    if (work < TSA_TEAM_PRODUCTS && plan->team_use == TSA_TEAM_AUTO)
        call->team.threads = 1;
    s.relay = tsa_use_relay(plan, call->team.threads);
    list_items(call, &s);
    s.together = choose_together(call, &s);
    s.alone = s.listed - s.together;
    return s;
}

bool tsa_schedule_item(const struct tsa_call *call, const struct tsa_schedule *s, size_t index,
                       size_t *item)
{
    if (index < s->alone) {
        *item = call->order[s->together + index];
        return true;
    }
    *item = index - s->alone;
    const size_t tokens = item_tokens(call, *item);
    const bool listed = tokens > s->longest && *item <= s->last;
    return tokens > 0 && !listed && !(s->singles && tokens == 1);
}
