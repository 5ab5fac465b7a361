/* SPDX-License-Identifier: MIT */
/* Prefill and absorb of sequences of any lengths: which items the whole team works on, which a
 * thread does alone, and in which order. Part of engine_tmpl.h.
 *
 * Items whose tokens are more than a small share of a thread's work are listed, the longest first.
 * The first of the list are done by the team, chunk by chunk, if threads would be idle otherwise;
 * then threads draw the rest of the list, and go on with the items that are not in it. */

struct schedule {
    size_t tokens;           /* of all items */
    size_t listed, together; /* items in call->order; the first of them by the whole team */
    size_t longest, last;    /* items of more tokens than this, up to this one, are in the list */
    size_t rest, singles;    /* tasks for the other items, and for sequences of one token */
};

/* Products that are worth a team: about 20 us on one thread. */
#define TEAM_PRODUCTS 1e6
/* Sequences of one token that a task looks for together. */
#define SINGLES 64

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

/* Tokens of time if the first `together` of the list are done by the team: one after the other in a
 * relay, whose stages wait for their first chunk, or all in waves. That takes about a third longer
 * than threads that do not share (doc/threads.md). */
static double makespan(const struct tsa_call *call, const struct schedule *s, size_t together)
{
    const size_t threads = call->team.threads, chunk = call->plan->chunk;
    const bool relay = tsa_use_relay(call->plan, threads);
    const size_t stages = relay ? tsa_relay_stages(call->plan, threads) : threads;
    size_t *loads = call->loads, chunks = 0, alone = s->tokens, most = 0;
    memset(loads, 0, threads * sizeof *loads);
    for (size_t i = 0; i < s->listed; i++) {
        const size_t tokens = item_tokens(call, call->order[i]);
        if (i < together) {
            chunks += (tokens + chunk - 1) / chunk + (relay && call->q ? stages - 1 : 0);
            alone -= tokens;
        } else {
            const size_t load = loads[0] + tokens;
            most = load > most ? load : most;
            add_load(loads, threads, tokens);
        }
    }
    const double even = (double)alone / (double)threads;
    const size_t rounds = (chunks + stages - 1) / stages;
    return 1.35 * (double)(rounds * chunk) + ((double)most > even ? (double)most : even);
}

static struct schedule schedule_of(const struct tsa_call *call)
{
    const struct tsa_plan *plan = call->plan;
    struct schedule s = {.rest = call->batch * plan->kv_heads};
    s.tokens = s.rest * call->tokens;
    if (!call->offsets && !call->lengths)
        return s;
    s.tokens = 0;
    bool single = false;
    for (size_t b = 0; b < call->batch; b++) {
        const size_t tokens = tsa_call_tokens(call, b);
        s.tokens += tokens * plan->kv_heads;
        single |= tokens == 1;
    }
    s.singles = single && call->q ? (call->batch + SINGLES - 1) / SINGLES : 0;
    if (s.singles && call->tokens == 1)
        s.rest = 0;
    return s;
}

/* List the long items, if there is more than one thread, and decide what the team does. */
static void list_items(const struct tsa_call *call, struct schedule *s)
{
    const struct tsa_plan *plan = call->plan;
    const size_t threads = call->team.threads, most = TSA_LONG_ITEMS * threads;
    const bool forced = plan->wave > 0; /* a test wants waves or a relay */
    s->longest = s->tokens / most;      /* so the list has scratch */
    if (s->longest < 2 * plan->chunk - 1 || forced)
        s->longest = 2 * plan->chunk - 1;
    s->last = SIZE_MAX;
    if (threads < 2 || call->together == 0)
        s->longest = SIZE_MAX;
    for (size_t b = 0; b < call->batch && call->tokens > s->longest; b++)
        for (size_t g = 0; g < plan->kv_heads && tsa_call_tokens(call, b) > s->longest; g++)
            if (s->listed < most)
                s->last = call->order[s->listed++] = b * plan->kv_heads + g;
    sort_items(call, s->listed);
    if (forced) {
        s->together = s->listed;
        return;
    }
    const size_t candidates[] = {s->listed % threads, s->listed};
    double best = makespan(call, s, 0);
    for (size_t i = 0; i < 2 && s->listed > 0 && !plan->crowded; i++) {
        const double time = makespan(call, s, candidates[i]);
        if (time < best) {
            best = time;
            s->together = candidates[i];
        }
    }
}

/* The kv heads of the sequences of one token among b .. b+SINGLES-1, some at a time. */
static void singles_task(const struct tsa_call *call, T *scratch, size_t index)
{
    struct item items[TSA_TOKEN_ROWS];
    const size_t end = (index + 1) * SINGLES, together = items_together(call);
    size_t count = 0;
    for (size_t b = index * SINGLES; b < end && b < call->batch; b++) {
        if (tsa_call_tokens(call, b) != 1)
            continue;
        for (size_t g = 0; g < call->plan->kv_heads; g++) {
            items[count++] = item_of(call, b, g);
            if (count == together) {
                token_items(call, scratch, items, count);
                count = 0;
            }
        }
    }
    if (count > 0)
        token_items(call, scratch, items, count);
}

/* The list behind `together`, all other items, then the sequences of one token. */
static void prefill_task(const struct tsa_call *call, T *scratch, size_t index)
{
    const struct schedule *s = call->work;
    const size_t alone = s->listed - s->together;
    if (index < alone) {
        prefill_item(call, scratch, call->order[s->together + index]);
        return;
    }
    index -= alone;
    if (index >= s->rest) {
        singles_task(call, scratch, index - s->rest);
        return;
    }
    const size_t tokens = item_tokens(call, index);
    if (tokens > 0 && (tokens <= s->longest || index > s->last) && !(s->singles && tokens == 1))
        prefill_item(call, scratch, index);
}

static void prefill(const struct tsa_call *call)
{
    const struct tsa_plan *plan = call->plan;
    if (call->q && call->tokens == 1 && !call->offsets && !call->lengths) {
        decode(call);
        return;
    }
    struct schedule s = schedule_of(call);
    if (call->q && call->tokens == 1 && s.tokens == call->batch * plan->kv_heads) {
        decode(call);
        return;
    }
    struct tsa_call team = *call;
    const double reads = call->q ? 1 + (double)plan->group : 1;
    const double work = reads * (double)s.tokens * (double)(plan->mono.total * plan->dv);
    if (work < TEAM_PRODUCTS && plan->wave == 0)
        team.team.threads = 1;
    team.work = &s;
    list_items(&team, &s);
    if (!tsa_use_relay(plan, team.team.threads) && s.together > 0)
        prefill_waves(&team, call->order, s.together);
    else
        for (size_t i = 0; i < s.together; i++)
            prefill_relay(&team, call->order[i]);
    const size_t alone = s.listed - s.together;
    run_tasks(&team, alone, alone + s.rest + s.singles, prefill_task);
}
