/* SPDX-License-Identifier: MIT */
/* Aligned memory, from the plan's callbacks or the C library; the only caller of malloc's kin. */
#include "config.h"

#include "internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

void *tsa_allocate(const struct tsa_allocator *a, size_t bytes)
{
    if (bytes > (size_t)PTRDIFF_MAX - TSA_ALIGN)
        return NULL;
    int saved_errno = errno;
    void *memory;
    if (a && a->allocate) {
        memory = a->allocate(a->user, bytes, TSA_ALIGN);
        /* Kernels rely on the alignment that was asked for: less counts as a refusal. */
        if (memory && (uintptr_t)memory % TSA_ALIGN != 0) {
            a->release(a->user, memory, bytes);
            memory = NULL;
        }
    } else {
        memory = aligned_alloc(TSA_ALIGN, tsa_round_up(bytes ? bytes : 1, TSA_ALIGN));
    }
    errno = saved_errno;
    return memory;
}

void *tsa_allocate_zeroed(const struct tsa_allocator *a, size_t bytes, void **memory)
{
    if (a && a->allocate) {
        *memory = tsa_allocate(a, bytes);
        return *memory ? memset(*memory, 0, bytes) : NULL;
    }
    *memory = NULL;
    if (bytes > (size_t)PTRDIFF_MAX - TSA_ALIGN)
        return NULL;
    int saved_errno = errno;
    *memory = calloc(1, bytes + TSA_ALIGN);
    errno = saved_errno;
    if (!*memory)
        return NULL;
    return (char *)*memory + (TSA_ALIGN - (uintptr_t)*memory % TSA_ALIGN) % TSA_ALIGN;
}

void tsa_release(const struct tsa_allocator *a, void *memory, size_t bytes)
{
    if (!memory)
        return;
    int saved_errno = errno;
    if (a && a->allocate)
        a->release(a->user, memory, bytes);
    else
        free(memory);
    errno = saved_errno;
}
