/* SPDX-License-Identifier: MIT */
/* The shared library in a host that loads it at run time and links neither it nor OpenMP: closed
 * while its threads live, and loaded after a fork that has taken threads away. */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tsa.h"

#define SKIP 77

#ifdef TSA_BENCH_DLOPEN
#include <dlfcn.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

struct functions {
    enum tsa_status (*options_init)(struct tsa_options *, size_t);
    enum tsa_status (*plan_create)(const struct tsa_options *, struct tsa_plan **,
                                   struct tsa_error *);
    void (*plan_destroy)(struct tsa_plan *);
    enum tsa_status (*create)(const struct tsa_plan *, struct tsa_state **, struct tsa_error *);
    void (*destroy)(struct tsa_state *);
    enum tsa_status (*reduce)(const struct tsa_plan *, struct tsa_state *,
                              const struct tsa_state *const *, size_t, struct tsa_error *);
};

static int find(void *library, const char *name, void *function)
{
    void *address = dlsym(library, name);
    memcpy(function, &address, sizeof address);
    return address != NULL;
}

static void *load(const char *path, struct functions *f)
{
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (library == NULL || !find(library, "tsa_options_init", &f->options_init) ||
        !find(library, "tsa_plan_create", &f->plan_create) ||
        !find(library, "tsa_plan_destroy", &f->plan_destroy) ||
        !find(library, "tsa_state_create", &f->create) ||
        !find(library, "tsa_state_destroy", &f->destroy) ||
        !find(library, "tsa_state_reduce", &f->reduce)) {
        fprintf(stderr, "%s: %s\n", path, dlerror());
        return NULL;
    }
    return library;
}

/* A call that is worth a team. */
static int work(const struct functions *f)
{
    struct tsa_options options;
    struct tsa_plan *plan;
    struct tsa_state *states[3];
    if (f->options_init(&options, sizeof options) != TSA_OK)
        return 0;
    options.head_dim = 16;
    options.value_dim = 64;
    options.heads = 8;
    options.threads = 2;
    if (f->plan_create(&options, &plan, NULL) != TSA_OK)
        return 0;
    for (int i = 0; i < 3; i++)
        if (f->create(plan, &states[i], NULL) != TSA_OK)
            return 0;
    const enum tsa_status status =
        f->reduce(plan, states[0], (const struct tsa_state *const *)states, 3, NULL);
    for (int i = 0; i < 3; i++)
        f->destroy(states[i]);
    f->plan_destroy(plan);
    return status == TSA_OK;
}

/* In a process of its own: threads of the library wait, or sleep, when it is closed. */
static int close_early(const char *path, const char *copy)
{
    (void)copy;
    struct functions f;
    void *library = load(path, &f);
    if (library == NULL || !work(&f) || dlclose(library) != 0)
        return 1;
    const struct timespec t = {0, 300000000};
    nanosleep(&t, NULL);
    library = load(path, &f);
    return library == NULL || !work(&f);
}

/* A copy of the library, which is another one for the loader, is first loaded in the child. */
static int load_late(const char *path, const char *copy)
{
    struct functions f;
    if (load(path, &f) == NULL || !work(&f))
        return 1;
    const pid_t pid = fork();
    if (pid == 0) {
        alarm(60);
        _exit(load(copy, &f) == NULL || !work(&f));
    }
    int status = -1;
    return pid < 0 || waitpid(pid, &status, 0) != pid || status != 0;
}

static int failed(const char *what, int (*test)(const char *, const char *), const char *path,
                  const char *copy)
{
    int status = -1;
    const pid_t pid = fork();
    if (pid == 0)
        _exit(test(path, copy));
    if (pid > 0 && waitpid(pid, &status, 0) == pid && status == 0)
        return 0;
    fprintf(stderr, "%s: status %#x\n", what, (unsigned)status);
    return 1;
}

int main(void)
{
    const char *build = getenv("TSA_TEST_BUILD");
    char path[4096], copy[] = "/tmp/tsa-loading-XXXXXX", command[8300];
    snprintf(path, sizeof path, "%s/.libs/libtsa.so", build ? build : ".");
    if (access(path, R_OK) != 0)
        return SKIP; /* no shared library was built */
    const int file = mkstemp(copy);
    if (file < 0)
        return SKIP;
    close(file);
    snprintf(command, sizeof command, "cat '%s' >'%s'", path, copy);
    int failures = system(command) != 0;
    failures += failed("closed while its threads live", close_early, path, copy);
    failures += failed("loaded after a fork", load_late, path, copy);
    unlink(copy);
    return failures != 0;
}
#else
int main(void)
{
    return SKIP;
}
#endif
