/* SPDX-License-Identifier: MIT */
/* Tasks of a team, and one of them: the pairs that states keep follow sums that the team has
 * folded. Part of engine_tmpl.h. */

typedef void (*task_fn)(const struct context *x, size_t index);

struct tasks {
    const struct tsa_call *call;
    task_fn run;
};

static void run_task(const void *argument, size_t thread, size_t index)
{
    const struct tasks *tasks = argument;
    const struct context x = context_of(tasks->call, thread);
    tasks->run(&x, index);
}

/* Run tasks 0 .. count-1, each with the scratch of its thread; the first `queue` in order. */
static void run_tasks(const struct tsa_call *call, size_t queue, size_t count, task_fn run)
{
    const struct tasks tasks = {call, run};
    tsa_team_run(&call->team, queue, count, run_task, &tasks);
}

/* Items that the team has folded: these, or all items of the call; `rounded` if their folds have
 * kept what states have in pairs for this plan. */
struct folded {
    const size_t *items;
    bool rounded;
};

/* Are pairs of an item older than its sums, which this call has folded? */
static bool pairs_are_old(const struct tsa_call *call, const struct folded *f,
                          const struct kv_head *kv)
{
    return tsa_item_folds(call, &kv->item) && !(f->rounded && kv->sums.hi_pairs);
}

static void round_task(const struct context *x, size_t index)
{
    const struct tsa_call *call = x->call;
    const struct folded *f = call->work;
    const size_t parts = call->team.threads, i = index / parts;
    const struct kv_head kv = kv_head_at(call, f->items ? f->items[i] : i);
    if (pairs_are_old(call, f, &kv))
        tsa_state_round(call->plan, kv.item.state, call->layer, kv.item.g, index % parts, parts);
}

static void round_items(const struct tsa_call *call, const struct folded *f, size_t count)
{
    struct tsa_call phase = *call;
    bool any = false;
    for (size_t i = 0; i < count && !any; i++) {
        const struct kv_head kv = kv_head_at(call, f->items ? f->items[i] : i);
        any = kv.item.state->header.pair_degree > 0 && pairs_are_old(call, f, &kv);
    }
    phase.work = f;
    if (any)
        run_tasks(&phase, 0, count * call->team.threads, round_task);
}
