/* SPDX-License-Identifier: MIT */
/* The calls: prefill and absorb of sequences of any lengths, queries. Part of engine_tmpl.h. */

/* The kv heads of the sequences of one token among TSA_SINGLES, some at a time. */
static void singles_task(const struct context *x, size_t index)
{
    const struct tsa_call *call = x->call;
    struct kv_head heads[TSA_TOKEN_ROWS];
    const size_t end = (index + 1) * TSA_SINGLES, together = tsa_heads_together(x->plan);
    size_t count = 0;
    for (size_t b = index * TSA_SINGLES; b < end && b < call->batch; b++) {
        if (tsa_call_tokens(call, b) != 1)
            continue;
        for (size_t g = 0; g < x->plan->kv_heads; g++) {
            set_kv_head(&heads[count++], call, b, g);
            if (count == together) {
                token_heads(x, heads, count);
                count = 0;
            }
        }
    }
    if (count > 0)
        token_heads(x, heads, count);
}

static void prefill_task(const struct context *x, size_t index)
{
    const struct tsa_schedule *s = x->call->work;
    size_t item;
    if (index >= s->alone + s->rest)
        singles_task(x, index - s->alone - s->rest);
    else if (tsa_schedule_item(x->call, s, index, &item))
        prefill_item(x, item);
}

static void prefill(const struct tsa_call *call)
{
    const bool gates = call->plan->gate != TSA_GATE_NONE;
    if (gates)
        open_gates(call);
    if (tsa_is_decode(call)) {
        decode(call);
        return;
    }
    struct tsa_call team = *call;
    const struct tsa_schedule s = tsa_schedule_prefill(&team);
    team.work = &s;
    if (!s.relay && s.together > 0)
        prefill_waves(&team, call->order, s.together);
    else
        for (size_t i = 0; i < s.together; i++)
            prefill_relay(&team, call->order[i]);
    run_tasks(&team, s.alone, s.alone + s.rest + s.singles, prefill_task);
    if (gates)
        run_tasks(&team, 0, call->batch * call->plan->kv_heads, close_task);
}

static void query(const struct tsa_call *call)
{
    if (call->tokens == 1)
        decode(call);
    else
        run_tasks(call, 0, call->batch * call->plan->heads * tsa_query_parts(call), query_task);
}
