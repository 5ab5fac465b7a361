/* SPDX-License-Identifier: MIT */
/* The making and freeing of states, and the list of those in library memory. */
#include "config.h"

#include "internal.h"

#include <stdatomic.h>
#include <string.h>

#if defined(__unix__) || defined(__APPLE__)
#include <sched.h>
#include <unistd.h>
#define PROCESS ((long)getpid())
#define WAIT() sched_yield()
#else
#define PROCESS 1L
#define WAIT() ((void)0)
#endif

const char tsa_state_magic[8] = {'T', 'S', 'A', 's', 't', 'a', 't', '1'};

/* What lies before a state in library memory. */
struct prefix {
    struct prefix *next; /* in the same list */
    size_t bytes;
    void *memory; /* to give back */
    struct tsa_allocator allocator;
};
#define PREFIX_BYTES ((size_t)TSA_ALIGN)
_Static_assert(sizeof(struct prefix) <= TSA_ALIGN, "the prefix keeps the state aligned");
_Static_assert(sizeof(struct tsa_state_header) == 128, "states have the same form everywhere");

/* -- the states in library memory ---------------------------------------------------------- */

/* No byte of a state can tell whether the library owns its memory, as all bytes may be copied to
 * and from other memory. So the addresses that it owns are listed, by a hash of them. */
#define LISTS 1024
static struct list {
    _Atomic(long) holder; /* process of the thread that holds the list, or 0 */
    struct prefix *first;
} lists[LISTS];

/* A list that is held by another process was held at the fork, by a thread that is not here. It is
 * sound: each change is one store. */
static struct list *hold_list(const struct prefix *prefix)
{
    const uint64_t mixed = ((uint64_t)(uintptr_t)prefix / TSA_ALIGN) * 0x9e3779b97f4a7c15u;
    struct list *list = &lists[mixed >> 54];
    const long process = PROCESS;
    long holder = 0;
    while (!atomic_compare_exchange_weak_explicit(&list->holder, &holder, process,
                                                  memory_order_acquire, memory_order_relaxed)) {
        if (holder == process) {
            holder = 0;
            WAIT();
        }
    }
    return list;
}

static void leave_list(struct list *list)
{
    atomic_store_explicit(&list->holder, 0, memory_order_release);
}

static void enlist(struct prefix *prefix)
{
    struct list *list = hold_list(prefix);
    prefix->next = list->first;
    list->first = prefix;
    leave_list(list);
}

/* The prefix of a state, no longer listed; NULL for other memory. */
static struct prefix *unlist(const struct tsa_state *state)
{
    struct prefix *wanted = (struct prefix *)((uintptr_t)state - PREFIX_BYTES);
    struct list *list = hold_list(wanted);
    struct prefix **at = &list->first;
    while (*at && *at != wanted)
        at = &(*at)->next;
    struct prefix *found = *at;
    if (found)
        *at = found->next;
    leave_list(list);
    return found;
}

/* -- making and freeing -------------------------------------------------------------------- */

/* Zeros become a state without tokens. */
static void make_empty(const struct tsa_plan *p, struct tsa_state *s)
{
    struct tsa_state_header *h = &s->header;
    memcpy(h->magic, tsa_state_magic, sizeof tsa_state_magic);
    h->arithmetic = TSA_ARITHMETIC_VERSION;
    h->dtype = (uint32_t)p->dtype;
    h->normalize = (uint32_t)p->normalize;
    h->terms = (uint32_t)p->terms;
    h->d = p->d;
    h->dv = p->dv;
    h->kv_heads = p->kv_heads;
    h->layers = p->layers;
    h->chunk = h->fold = p->chunk;
    h->pair_degree = p->pair_degree;
    h->gate = (uint64_t)p->gate;
    h->bytes = p->state_bytes;
}

enum tsa_status tsa_state_create(const struct tsa_plan *plan, struct tsa_state **state,
                                 struct tsa_error *err)
{
    if (!state)
        return tsa_fail(err, TSA_EINVAL, "state", "state is NULL");
    *state = NULL;
    if (!plan)
        return tsa_fail(err, TSA_EINVAL, "plan", "plan is NULL");
    size_t bytes = PREFIX_BYTES + plan->state_bytes;
    void *memory;
    char *zeros = tsa_allocate_zeroed(&plan->allocator, bytes, &memory);
    if (!zeros)
        return tsa_fail(err, TSA_ENOMEM, "state", "no memory for a state of %zu bytes",
                        plan->state_bytes);
    struct prefix *prefix = (struct prefix *)(void *)zeros;
    struct tsa_state *s = (struct tsa_state *)(void *)(zeros + PREFIX_BYTES);
    make_empty(plan, s);
    prefix->bytes = bytes;
    prefix->memory = memory;
    prefix->allocator = plan->allocator;
    enlist(prefix);
    *state = s;
    return tsa_succeed(err);
}

enum tsa_status tsa_state_init(const struct tsa_plan *plan, void *memory, size_t bytes,
                               struct tsa_state **state, struct tsa_error *err)
{
    if (!state)
        return tsa_fail(err, TSA_EINVAL, "state", "state is NULL");
    *state = NULL;
    if (!plan)
        return tsa_fail(err, TSA_EINVAL, "plan", "plan is NULL");
    if (!memory)
        return tsa_fail(err, TSA_EINVAL, "memory", "memory is NULL");
    if ((uintptr_t)memory % TSA_ALIGN != 0)
        return tsa_fail(err, TSA_EINVAL, "memory", "memory is not %d-byte aligned", TSA_ALIGN);
    if (bytes < plan->state_bytes) {
        enum tsa_status status =
            tsa_fail(err, TSA_ENOMEM, "bytes", "memory has %zu bytes, a state needs %zu", bytes,
                     plan->state_bytes);
        tsa_error_numbers(err, (int64_t)plan->state_bytes, (int64_t)bytes);
        return status;
    }
    *state = memset(memory, 0, plan->state_bytes);
    make_empty(plan, *state);
    return tsa_succeed(err);
}

void tsa_state_destroy(struct tsa_state *state)
{
    struct prefix *prefix = state ? unlist(state) : NULL;
    if (!prefix)
        return;
    const struct tsa_allocator allocator = prefix->allocator;
    tsa_release(&allocator, prefix->memory, prefix->bytes);
}
