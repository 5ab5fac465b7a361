/* SPDX-License-Identifier: MIT */
/* Output through a temporary name, removed on failure and on signals. */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "output.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cmd.h"

/* Links that lead to links: as many as Linux follows. */
#define MOST_LINKS 40

/* What the handler removes. Set and cleared with the signals blocked. */
static char *volatile pending;

static const int fatal_signals[] = {SIGHUP, SIGINT, SIGTERM};
#define FATAL_SIGNALS (sizeof fatal_signals / sizeof fatal_signals[0])

static void remove_pending(int number)
{
    if (pending != NULL)
        unlink(pending);
    /* The handler was for once: this ends the process as the signal would have. */
    raise(number);
}

static void block_signals(sigset_t *before)
{
    sigset_t set;
    sigemptyset(&set);
    for (size_t i = 0; i < FATAL_SIGNALS; i++)
        sigaddset(&set, fatal_signals[i]);
    sigprocmask(SIG_BLOCK, &set, before);
}

static void catch_signals(void)
{
    for (size_t i = 0; i < FATAL_SIGNALS; i++) {
        struct sigaction old, action;
        memset(&action, 0, sizeof action);
        sigemptyset(&action.sa_mask);
        action.sa_handler = remove_pending;
        action.sa_flags = (int)SA_RESETHAND;
        /* What the parent wants ignored (nohup) stays ignored. */
        if (sigaction(fatal_signals[i], NULL, &old) == 0 && old.sa_handler != SIG_IGN)
            sigaction(fatal_signals[i], &action, NULL);
    }
}

/* folder-of-path/name, or name itself if that is absolute. NULL: no memory. */
static char *beside(const char *path, const char *name)
{
    const char *slash = name[0] == '/' ? NULL : strrchr(path, '/');
    size_t folder = slash == NULL ? 0 : (size_t)(slash - path) + 1, length = strlen(name) + 1;
    char *result = malloc(folder + length);
    if (result != NULL) {
        memcpy(result, path, folder);
        memcpy(result + folder, name, length);
    }
    return result;
}

/* Where writing to the path would make a file: realpath() has no answer while it is not there.
 * NULL with errno on failure. */
static char *follow_links(const char *path)
{
    char link[PATH_MAX];
    char *at = strdup(path);
    for (int links = 0; at != NULL && links < MOST_LINKS; links++) {
        ssize_t length = readlink(at, link, sizeof link - 1);
        if (length < 0)
            return at; /* no link: a file or nothing */
        link[length] = '\0';
        char *next = beside(at, link);
        free(at);
        at = next;
    }
    int error = at != NULL ? ELOOP : ENOMEM;
    free(at);
    errno = error;
    return NULL;
}

static bool give_up(struct output *output, const char *path, const char *what, int error)
{
    cmd_fail("%s: %s: %s", path, what, strerror(error));
    output_discard(output);
    return false;
}

bool output_open(struct output *output, const char *path)
{
    static const char cannot[] = "cannot be written";
    struct stat status;
    memset(output, 0, sizeof *output);
    bool exists = stat(path, &status) == 0;
    if (!exists && errno != ENOENT)
        return give_up(output, path, cannot, errno);
    if (exists && S_ISDIR(status.st_mode))
        return give_up(output, path, cannot, EISDIR);
    if (path[0] == '\0' || path[strlen(path) - 1] == '/')
        return give_up(output, path, cannot, path[0] == '\0' ? ENOENT : ENOTDIR);
    /* A rename would get past the protection of the file itself. */
    if (exists && access(path, W_OK) != 0)
        return give_up(output, path, cannot, errno);
    output->target = exists ? realpath(path, NULL) : follow_links(path);
    if (output->target == NULL)
        return give_up(output, path, cannot, errno);
    if (exists && !S_ISREG(status.st_mode)) {
        output->stream = fopen(path, "wb");
        return output->stream != NULL ? true : give_up(output, path, cannot, errno);
    }

    /* A short name, so that it fits wherever the target's own does. */
    char *temporary = beside(output->target, ".tsa-XXXXXX");
    if (temporary == NULL)
        return give_up(output, path, cannot, ENOMEM);
    mode_t mask = umask(0);
    umask(mask);
    sigset_t before;
    catch_signals();
    block_signals(&before);
    int file = mkstemp(temporary);
    int error = errno;
    if (file >= 0)
        pending = output->temporary = temporary;
    sigprocmask(SIG_SETMASK, &before, NULL);
    if (file < 0) {
        free(temporary);
        return give_up(output, path, cannot, error);
    }
    mode_t mode = exists ? status.st_mode & 0777 : 0666 & ~mask;
    if (fchmod(file, mode) != 0 || (output->stream = fdopen(file, "wb")) == NULL) {
        error = errno;
        close(file);
        return give_up(output, path, cannot, error);
    }
    return true;
}

bool output_commit(struct output *output, const char *path)
{
    FILE *stream = output->stream;
    bool written = fflush(stream) == 0 && !ferror(stream);
    /* Without this a crash of the machine could leave the name on an empty file. */
    if (written && output->temporary != NULL)
        written = fsync(fileno(stream)) == 0;
    int error = errno;
    output->stream = NULL;
    if (fclose(stream) != 0 && written) {
        written = false;
        error = errno;
    }
    if (!written)
        return give_up(output, path, "writing failed", error);
    if (output->temporary != NULL) {
        sigset_t before;
        block_signals(&before);
        bool renamed = rename(output->temporary, output->target) == 0;
        error = errno;
        if (renamed) {
            pending = NULL;
            free(output->temporary);
            output->temporary = NULL;
        }
        sigprocmask(SIG_SETMASK, &before, NULL);
        if (!renamed)
            return give_up(output, path, "cannot be renamed to", error);
    }
    output_discard(output);
    return true;
}

void output_discard(struct output *output)
{
    if (output->stream != NULL)
        fclose(output->stream);
    if (output->temporary != NULL) {
        sigset_t before;
        block_signals(&before);
        unlink(output->temporary);
        pending = NULL;
        free(output->temporary);
        sigprocmask(SIG_SETMASK, &before, NULL);
    }
    free(output->target);
    memset(output, 0, sizeof *output);
}
