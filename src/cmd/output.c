/* SPDX-License-Identifier: MIT */
/* Output through a temporary name, which goes away however the process ends. */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "output.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cmd.h"

/* Links that lead to links: as many as Linux follows. */
#define MOST_LINKS 40

/* -- the end of the process ------------------------------------------------------------------- */

/* The file to remove; only its owner may, not a child that was forked meanwhile. */
static char *_Atomic pending;
static _Atomic pid_t owner;
/* While `busy`, the file and `pending` do not agree: a signal waits in `caught`. OpenMP's threads
 * take signals too, so that blocking them in this thread would not be enough. */
static atomic_int busy, caught;

/* Ends no process by default, or cannot be caught. */
static bool is_harmless(int number)
{
    static const int harmless[] = {
        SIGKILL,  SIGSTOP, SIGCHLD, SIGCONT, SIGTSTP, SIGTTIN, SIGTTOU, SIGURG,
#ifdef SIGWINCH
        SIGWINCH,
#endif
#ifdef SIGINFO
        SIGINFO,
#endif
    };
    for (size_t i = 0; i < sizeof harmless / sizeof harmless[0]; i++)
        if (number == harmless[i])
            return true;
    return false;
}

/* The instruction at fault would run again: such a signal cannot wait. */
static bool is_fault(int number)
{
    return number == SIGSEGV || number == SIGBUS || number == SIGFPE || number == SIGILL ||
           number == SIGTRAP || number == SIGSYS || number == SIGABRT;
}

static void remove_pending(void)
{
    char *path = atomic_load(&pending);
    if (path != NULL && atomic_load(&owner) == getpid())
        unlink(path);
}

/* End as if the signal had not been caught: whoever waits for the process sees the same status. */
static void end_by(int number)
{
    remove_pending();
    signal(number, SIG_DFL);
    raise(number);
}

static void handle(int number)
{
    const int error = errno;
    atomic_store(&caught, number);
    if (is_fault(number) || !atomic_load(&busy))
        end_by(number);
    errno = error;
}

static void begin_change(void)
{
    atomic_store(&busy, 1);
}

static void end_change(void)
{
    atomic_store(&busy, 0);
    int number = atomic_load(&caught);
    if (number != 0)
        end_by(number);
}

static void watch_process(void)
{
#ifdef SIGRTMAX
    const int last = SIGRTMAX;
#else
    const int last = NSIG - 1;
#endif
    static bool registered;
    if (!registered)
        registered = atexit(remove_pending) == 0;
    for (int number = 1; number <= last; number++) {
        struct sigaction old, action;
        memset(&action, 0, sizeof action);
        sigemptyset(&action.sa_mask);
        action.sa_handler = handle;
        action.sa_flags = SA_RESTART;
        /* What the parent wants ignored (nohup) stays ignored, and other handlers stay. */
        if (!is_harmless(number) && sigaction(number, NULL, &old) == 0 &&
            !(old.sa_flags & SA_SIGINFO) && old.sa_handler == SIG_DFL)
            sigaction(number, &action, NULL);
    }
}

/* -- names ------------------------------------------------------------------------------------ */

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

/* N if the path is /dev/fd/N under any name of that folder, such as /proc/self/fd; else -1. */
static int descriptor_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    char *end = NULL;
    if (slash == NULL || slash[1] < '0' || slash[1] > '9')
        return -1;
    errno = 0;
    long number = strtol(slash + 1, &end, 10);
    if (*end != '\0' || errno != 0 || number > INT_MAX)
        return -1;
    char *folder = beside(path, ".");
    /* While it is open, its number cannot change. */
    int own = open("/dev/fd", O_RDONLY | O_CLOEXEC);
    struct stat named, known;
    bool same = folder != NULL && own >= 0 && fstat(own, &known) == 0 &&
                stat(folder, &named) == 0 && named.st_dev == known.st_dev &&
                named.st_ino == known.st_ino;
    if (own >= 0)
        close(own);
    free(folder);
    return same && number != own ? (int)number : -1;
}

/* Where writing to the path would make a file: realpath() has no answer while it is not there.
 * *descriptor is that of /dev/fd/N, where the links may end, or -1. NULL with errno on failure. */
static char *follow_links(const char *path, int *descriptor)
{
    char link[PATH_MAX];
    char *at = strdup(path);
    *descriptor = -1;
    for (int links = 0; at != NULL && links < MOST_LINKS; links++) {
        *descriptor = descriptor_of(at);
        ssize_t length = *descriptor >= 0 ? -1 : readlink(at, link, sizeof link - 1);
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

bool output_same_file(const char *path, const char *other)
{
    struct stat a, b;
    return stat(path, &a) == 0 && stat(other, &b) == 0 && !S_ISCHR(a.st_mode) &&
           a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

bool output_is_stdout(const char *path)
{
    struct stat a, b;
    return stat(path, &a) == 0 && fstat(STDOUT_FILENO, &b) == 0 && !S_ISCHR(a.st_mode) &&
           a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

/* -- opening ---------------------------------------------------------------------------------- */

static bool give_up(struct output *output, const char *path, const char *what, int error)
{
    cmd_fail("%s: %s: %s", path, what, strerror(error));
    output_discard(output);
    return false;
}

static bool cannot_be_written(struct output *output, const char *path, int error)
{
    return give_up(output, path, "cannot be written", error);
}

/* The position and the mode (appending) of the descriptor stay: it is not opened again. */
static bool open_descriptor(struct output *output, const char *path, int descriptor)
{
    int flags = fcntl(descriptor, F_GETFL);
    if (flags == -1 || (flags & O_ACCMODE) == O_RDONLY)
        return cannot_be_written(output, path, EBADF);
    int copy = dup(descriptor);
    if (copy < 0 || (output->stream = fdopen(copy, "wb")) == NULL) {
        int error = errno;
        if (copy >= 0)
            close(copy);
        return cannot_be_written(output, path, error);
    }
    return true;
}

/* What is there is not cut before output_commit(). */
static bool open_in_place(struct output *output, const char *path)
{
    int file = open(path, O_WRONLY);
    if (file < 0)
        return false;
    output->stream = fdopen(file, "wb");
    output->in_place = output->stream != NULL;
    if (!output->in_place)
        close(file);
    return output->in_place;
}

/* Make the temporary file, with its final mode. False with errno on failure. */
static bool open_temporary(struct output *output, const struct stat *old)
{
    /* A short name, so that it fits wherever the target's own does. */
    char *temporary = beside(output->target, ".tsa-XXXXXX");
    if (temporary == NULL)
        return false;
    mode_t mask = umask(0);
    umask(mask);
    watch_process();
    begin_change();
    int file = mkstemp(temporary);
    int error = errno;
    if (file >= 0) {
        output->temporary = temporary;
        atomic_store(&owner, getpid());
        atomic_store(&pending, temporary);
    }
    end_change();
    if (file < 0) {
        free(temporary);
        errno = error;
        return false;
    }
    mode_t mode = old != NULL ? old->st_mode & 0777 : 0666 & ~mask;
    if (fchmod(file, mode) == 0 && (output->stream = fdopen(file, "wb")) != NULL)
        return true;
    error = errno;
    close(file);
    errno = error;
    return false;
}

bool output_open(struct output *output, const char *path)
{
    struct stat status;
    int descriptor;
    memset(output, 0, sizeof *output);
    if (path[0] == '\0')
        return cannot_be_written(output, path, ENOENT);
    output->target = follow_links(path, &descriptor);
    if (output->target == NULL)
        return cannot_be_written(output, path, errno);
    if (descriptor >= 0)
        return open_descriptor(output, path, descriptor);

    bool exists = stat(path, &status) == 0;
    if (!exists && errno != ENOENT)
        return cannot_be_written(output, path, errno);
    if (exists && S_ISDIR(status.st_mode))
        return cannot_be_written(output, path, EISDIR);
    if (path[strlen(path) - 1] == '/')
        return cannot_be_written(output, path, ENOTDIR);
    /* A rename would get past the protection of the file itself. */
    if (exists && access(path, W_OK) != 0)
        return cannot_be_written(output, path, errno);
    if (exists && !S_ISREG(status.st_mode)) {
        output->stream = fopen(path, "wb");
        return output->stream != NULL ? true : cannot_be_written(output, path, errno);
    }
    /* Links of /proc lead to files of other names than they say: a file that was removed. */
    if (exists && !output_same_file(path, output->target))
        return open_in_place(output, path) ? true : cannot_be_written(output, path, errno);
    if (open_temporary(output, exists ? &status : NULL))
        return true;
    int error = errno;
    if (exists && output->temporary == NULL && open_in_place(output, path))
        return true;
    return cannot_be_written(output, path, error);
}

/* -- closing ---------------------------------------------------------------------------------- */

/* Write the file over the target, which stays the file that it is. False with errno. */
static bool copy_over(const char *from, const char *target, bool *begun)
{
    char bytes[1 << 16];
    int in = open(from, O_RDONLY), out = in < 0 ? -1 : open(target, O_WRONLY | O_TRUNC);
    bool good = *begun = out >= 0;
    for (ssize_t found; good && (found = read(in, bytes, sizeof bytes)) != 0;) {
        good = found > 0;
        for (ssize_t done = 0, now; good && done < found; done += now) {
            now = write(out, bytes + done, (size_t)(found - done));
            good = now >= 0;
        }
    }
    good = good && fsync(out) == 0;
    int error = errno;
    if (in >= 0)
        close(in);
    if (out >= 0 && close(out) != 0 && good) {
        good = false;
        error = errno;
    }
    errno = error;
    return good;
}

/* Put the temporary file in the place of the target. */
static bool replace(struct output *output, const char *path)
{
    bool begun = false;
    begin_change();
    bool renamed = rename(output->temporary, output->target) == 0;
    int error = errno;
    if (renamed) {
        atomic_store(&pending, NULL);
        free(output->temporary);
        output->temporary = NULL;
    }
    end_change();
    /* A mounted file, or one of another owner in a folder like /tmp. */
    if (renamed || copy_over(output->temporary, output->target, &begun))
        return true;
    return begun ? give_up(output, path, "writing failed", errno)
                 : give_up(output, path, "cannot be replaced", error);
}

/* Flush, and see that all bytes are on the disk. False with errno on failure. */
static bool finish_writing(const struct output *output)
{
    int file = fileno(output->stream);
    if (fflush(output->stream) != 0 || ferror(output->stream))
        return false;
    if (output->in_place && ftruncate(file, lseek(file, 0, SEEK_CUR)) != 0)
        return false;
    /* Without this a crash of the machine could leave the name on an empty file. */
    return (output->temporary == NULL && !output->in_place) || fsync(file) == 0;
}

bool output_commit(struct output *output, const char *path)
{
    bool written = finish_writing(output);
    int error = errno;
    FILE *stream = output->stream;
    output->stream = NULL;
    if (fclose(stream) != 0 && written) {
        written = false;
        error = errno;
    }
    if (!written)
        return give_up(output, path, "writing failed", error);
    if (output->temporary != NULL && !replace(output, path))
        return false;
    output_discard(output);
    return true;
}

void output_discard(struct output *output)
{
    if (output->stream != NULL)
        fclose(output->stream);
    if (output->temporary != NULL) {
        begin_change();
        unlink(output->temporary);
        atomic_store(&pending, NULL);
        free(output->temporary);
        end_change();
    }
    free(output->target);
    memset(output, 0, sizeof *output);
}
