/* SPDX-License-Identifier: MIT */
/* Workspaces, and the memory that a call takes from one or allocates: what the team shares, the
 * scratch of each thread, then what they need to work on an item together. */
#include "config.h"

#include <string.h>

#include "call.h"
#include "schedule.h"
#include "tuning.h"

struct tsa_workspace {
    char magic[8];
    uint64_t threads;
    uint64_t scratch, together; /* elements: a workspace serves plans that need no more */
    uint64_t elem;
    uint64_t capacity; /* bytes after this header */
    uint64_t bytes;    /* allocated by the library, else 0 */
    struct tsa_allocator allocator;
};

static const char workspace_magic[8] = "tsawork";

/* Elements for items on which the team works together, in a workspace for so many threads: calls
 * with the plan may use fewer, and need more then. */
static size_t most_together(const struct tsa_plan *plan, size_t threads)
{
    const size_t all = tsa_together_elements(plan, threads), used = (size_t)plan->threads;
    const size_t some = used < threads ? tsa_together_elements(plan, used) : 0;
    return all > some ? all : some;
}

/* Bytes of the shares of the team, then of the order of long items and the loads of threads. */
static size_t team_bytes(size_t threads)
{
    return (1 + threads) * sizeof(struct tsa_share) +
           tsa_round_up((TSA_LONG_ITEMS + 1) * threads * sizeof(size_t), TSA_ALIGN);
}

static size_t workspace_bytes(const struct tsa_plan *plan, size_t threads)
{
    size_t elements, bytes;
    const size_t merge = tsa_merge_scratch_bytes(plan);
    if (!tsa_size_mul(plan->scratch.total, threads, &elements) ||
        !tsa_size_add(elements, most_together(plan, threads), &elements) ||
        !tsa_size_mul(elements, plan->elem, &bytes) ||
        !tsa_size_add(bytes, team_bytes(threads), &bytes) ||
        !tsa_size_add(bytes > merge ? bytes : merge,
                      tsa_round_up(sizeof(struct tsa_workspace), TSA_ALIGN), &bytes) ||
        bytes > (size_t)PTRDIFF_MAX)
        return 0;
    return bytes;
}

static size_t thread_count(const struct tsa_plan *plan, int threads)
{
    return (size_t)(threads > 0 ? threads : plan->threads);
}

size_t tsa_workspace_bytes(const struct tsa_plan *plan, int threads)
{
    return plan && threads >= 0 ? workspace_bytes(plan, thread_count(plan, threads)) : 0;
}

enum tsa_status tsa_workspace_init(const struct tsa_plan *plan, int threads, void *memory,
                                   size_t bytes, struct tsa_workspace **ws, struct tsa_error *err)
{
    if (!ws)
        return tsa_fail(err, TSA_EINVAL, "ws", "ws is NULL: nowhere to put the workspace");
    *ws = NULL;
    if (!plan)
        return tsa_fail(err, TSA_EINVAL, "plan", "plan is NULL");
    if (threads < 0 || threads > TSA_MAX_THREADS)
        return tsa_fail(err, TSA_EINVAL, "threads", "threads is %d; wanted 0 (the plan's) to %d",
                        threads, TSA_MAX_THREADS);
    if (!memory)
        return tsa_fail(err, TSA_EINVAL, "memory", "memory is NULL");
    if ((uintptr_t)memory % TSA_ALIGN)
        return tsa_fail(err, TSA_EINVAL, "memory", "memory is not aligned to %d bytes", TSA_ALIGN);
    const size_t n = thread_count(plan, threads), wanted = workspace_bytes(plan, n);
    if (wanted == 0)
        return tsa_fail(err, TSA_EOVERFLOW, "threads",
                        "the scratch of %zu threads does not fit in memory", n);
    if (bytes < wanted) {
        tsa_fail(err, TSA_ENOMEM, "bytes", "the workspace has %zu bytes; wanted %zu", bytes,
                 wanted);
        tsa_error_numbers(err, (int64_t)wanted, (int64_t)bytes);
        return TSA_ENOMEM;
    }
    struct tsa_workspace *w = memory;
    memset(w, 0, sizeof *w);
    memcpy(w->magic, workspace_magic, sizeof w->magic);
    w->threads = n;
    w->scratch = plan->scratch.total;
    w->together = most_together(plan, n);
    w->elem = plan->elem;
    w->capacity = wanted - tsa_round_up(sizeof *w, TSA_ALIGN);
    *ws = w;
    return tsa_succeed(err);
}

enum tsa_status tsa_workspace_create(const struct tsa_plan *plan, int threads,
                                     struct tsa_workspace **ws, struct tsa_error *err)
{
    if (!ws)
        return tsa_fail(err, TSA_EINVAL, "ws", "ws is NULL: nowhere to put the workspace");
    *ws = NULL;
    if (!plan)
        return tsa_fail(err, TSA_EINVAL, "plan", "plan is NULL");
    if (threads < 0 || threads > TSA_MAX_THREADS)
        return tsa_fail(err, TSA_EINVAL, "threads", "threads is %d; wanted 0 (the plan's) to %d",
                        threads, TSA_MAX_THREADS);
    const size_t bytes = tsa_workspace_bytes(plan, threads);
    if (bytes == 0)
        return tsa_fail(err, TSA_EOVERFLOW, "threads", "the scratch does not fit in memory");
    void *memory = tsa_allocate(&plan->allocator, bytes);
    if (!memory)
        return tsa_fail(err, TSA_ENOMEM, "ws", "no memory for a workspace of %zu bytes", bytes);
    struct tsa_workspace *w;
    const enum tsa_status status = tsa_workspace_init(plan, threads, memory, bytes, &w, err);
    if (status != TSA_OK) {
        tsa_release(&plan->allocator, memory, bytes);
        return status;
    }
    w->bytes = bytes;
    w->allocator = plan->allocator;
    *ws = w;
    return TSA_OK;
}

void tsa_workspace_destroy(struct tsa_workspace *ws)
{
    if (!ws || ws->bytes == 0)
        return;
    const struct tsa_allocator allocator = ws->allocator;
    tsa_release(&allocator, ws, ws->bytes);
}

static char *first_scratch(struct tsa_workspace *ws)
{
    return (char *)ws + tsa_round_up(sizeof *ws, TSA_ALIGN);
}

/* SIZE_MAX if they do not fit. */
static size_t call_bytes(const struct tsa_call *call)
{
    const struct tsa_plan *plan = call->plan;
    size_t elements, bytes;
    if (!tsa_size_mul(call->team.threads, plan->scratch.total, &elements) ||
        !tsa_size_add(elements, call->together, &elements) ||
        !tsa_size_mul(elements, plan->elem, &bytes) ||
        !tsa_size_add(bytes, team_bytes(call->team.threads), &bytes))
        return SIZE_MAX;
    return bytes;
}

enum tsa_status tsa_workspace_check(const struct tsa_plan *plan, const struct tsa_workspace *ws,
                                    size_t bytes, struct tsa_error *err)
{
    if (!ws)
        return TSA_OK;
    if (memcmp(ws->magic, workspace_magic, sizeof ws->magic) != 0)
        return tsa_fail(err, TSA_EINVAL, "ws", "ws is not a workspace");
    if (ws->elem != plan->elem || ws->scratch < plan->scratch.total || ws->capacity < bytes)
        return tsa_fail(err, TSA_EINVAL, "ws",
                        "the workspace was made for a plan that needs less scratch");
    return TSA_OK;
}

enum tsa_status tsa_call_begin(struct tsa_call *call, struct tsa_workspace *ws,
                               struct tsa_error *err)
{
    const struct tsa_plan *plan = call->plan;
    const enum tsa_status status = tsa_workspace_check(plan, ws, 0, err);
    if (status != TSA_OK)
        return status;
    struct tsa_team *team = &call->team;
    *team = (struct tsa_team){.plan = plan, .threads = tsa_team_threads(plan)};
    char *memory;
    if (ws) {
        if (team->threads > ws->threads)
            team->threads = ws->threads;
        call->together = tsa_together_elements(plan, team->threads);
        if (call->together > ws->together)
            call->together = 0; /* made for another plan: each item by one thread */
        memory = first_scratch(ws);
    } else {
        if (tsa_call_writes_states(call) && call->tokens > plan->chunk)
            call->together = tsa_together_elements(plan, team->threads);
        const size_t bytes = call_bytes(call);
        memory = tsa_allocate(&plan->allocator, bytes);
        if (!memory)
            return tsa_fail(err, TSA_ENOMEM, "ws", "no memory for %zu bytes of scratch", bytes);
    }
    team->shares = (struct tsa_share *)(void *)memory;
    call->order = (size_t *)(void *)(team->shares + 1 + team->threads);
    call->loads = call->order + TSA_LONG_ITEMS * team->threads;
    call->scratch = memory + team_bytes(team->threads);
    return TSA_OK;
}

void tsa_call_end(struct tsa_call *call, struct tsa_workspace *ws)
{
    if (ws)
        return;
    tsa_release(&call->plan->allocator, call->team.shares, call_bytes(call));
}

void *tsa_scratch_begin(const struct tsa_plan *plan, struct tsa_workspace *ws, size_t bytes)
{
    return ws ? first_scratch(ws) : tsa_allocate(&plan->allocator, bytes);
}

void tsa_scratch_end(const struct tsa_plan *plan, struct tsa_workspace *ws, void *scratch,
                     size_t bytes)
{
    if (!ws)
        tsa_release(&plan->allocator, scratch, bytes);
}
