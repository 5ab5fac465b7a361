/* SPDX-License-Identifier: MIT */
/* Libraries that are loaded when they are asked for: OpenBLAS, and LAPACKE, which may stand on it.
 * So the command depends on neither, starts no threads of theirs, and removes the settings that
 * slow OpenBLAS down before it reads them. */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "contend.h"

#ifdef TSA_BENCH_DLOPEN

#include <dlfcn.h>

void *contend_library(const char *const *names)
{
    void *library = NULL;
    unsetenv("OPENBLAS_CORETYPE");
    unsetenv("OPENBLAS_L2_SIZE");
    setenv("OPENBLAS_NUM_THREADS", "1", 1);
    for (; *names && !library; names++)
        library = dlopen(*names, RTLD_NOW | RTLD_LOCAL);
    return library;
}

bool contend_library_find(void *library, const char *name, void *function)
{
    void *symbol = dlsym(library, name);
    memcpy(function, &symbol, sizeof symbol); /* ISO C has no cast to a function pointer */
    return symbol;
}

#else

void *contend_library(const char *const *names)
{
    (void)names;
    return NULL;
}

bool contend_library_find(void *library, const char *name, void *function)
{
    (void)library;
    (void)name;
    (void)function;
    return false;
}

#endif
