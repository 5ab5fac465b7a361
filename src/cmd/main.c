/* SPDX-License-Identifier: MIT */
/* The command tsa: find the subcommand and run it. */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cmd.h"
#ifdef TSA_WITH_BENCH
#include "contend/contend.h"
#include "paper/paper.h"
#endif

#ifdef TSA_WITH_BENCH
#define NOT_HERE ""
#else
#define NOT_HERE " (not in this build)"
#endif

static const char help[] =
    "usage: tsa COMMAND [options]\n"
    "\n"
    "Attention with a truncated exponential kernel, as a fixed number of recurrent states.\n"
    "\n"
    "  demo      the main job at a glance; needs no files\n"
    "  attend    attention on .npy files\n"
    "  size      features and state bytes of a shape, and when a key/value cache is larger\n"
    "  bench     time problems such as prefill:b1:h8:n8192:d16:dv64:t3" NOT_HERE "\n"
    "  paper     the experiments of the paper on this machine, as a report" NOT_HERE "\n"
    "  info      version, instruction sets, threads\n"
    "\n"
    "tsa help COMMAND, or tsa COMMAND --help, tells the options.\n"
    "Exit status: 0 done, 1 failure, 2 usage.\n"
    "\n"
    "  --help, --version\n";

#ifdef TSA_WITH_BENCH
static int cmd_bench(int argc, char **argv)
{
    return bench_main(argc, argv, &contend_all);
}
#define cmd_paper paper_main
#else
static int cmd_bench(int argc, char **argv)
{
    (void)argc;
    (void)argv;
    cmd_fail("not in this build of tsa, which was configured with --disable-bench");
    return CMD_USAGE;
}
#define cmd_paper cmd_bench
#endif

static const struct {
    const char *word, *name;
    int (*run)(int argc, char **argv);
} commands[] = {
    {"attend", "tsa attend", cmd_attend}, {"bench", "tsa bench", cmd_bench},
    {"demo", "tsa demo", cmd_demo},       {"info", "tsa info", cmd_info},
    {"paper", "tsa paper", cmd_paper},    {"size", "tsa size", cmd_size},
};

static int run_command(int argc, char **argv)
{
    const char *word = argv[0];
    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++) {
        if (strcmp(word, commands[i].word) == 0) {
            cmd_set_name(commands[i].name);
            return commands[i].run(argc, argv);
        }
    }
    if (strcmp(word, "state") == 0)
        return cmd_usage("state: not in this version");
    return cmd_usage("'%s' found; wanted a command: attend, bench, demo, info, paper or size",
                     word);
}

/* `tsa help`, and `tsa help attend`, which is `tsa attend --help`. */
static int print_help(int argc, char **argv)
{
    char option[] = "--help";
    if (argc > 2)
        return cmd_usage("'%s': unexpected argument", argv[2]);
    if (argc == 2 && strcmp(argv[1], "help") != 0)
        return run_command(2, (char *[]){argv[1], option, NULL});
    fputs(help, stdout);
    return CMD_OK;
}

static int dispatch(int argc, char **argv)
{
    if (argc < 2)
        return cmd_usage("wanted a command: attend, bench, demo, info, paper or size");
    const char *word = argv[1];
    if (strcmp(word, "help") == 0)
        return print_help(argc - 1, argv + 1);
    if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0) {
        fputs(help, stdout);
        return CMD_OK;
    }
    if (strcmp(word, "--version") == 0) {
        cmd_print_version();
        return CMD_OK;
    }
    return run_command(argc - 1, argv + 1);
}

/* A file that is opened later must not become standard input, output or error. Each one that is
 * closed is taken by a file for the other direction, so that its use still fails. */
static bool occupy_standard_files(void)
{
    static const int modes[] = {O_WRONLY, O_RDONLY, O_RDONLY};
    for (int file = STDIN_FILENO; file <= STDERR_FILENO; file++)
        if (fcntl(file, F_GETFD) == -1 && errno == EBADF && open("/dev/null", modes[file]) != file)
            return false;
    return true;
}

int main(int argc, char **argv)
{
    if (!occupy_standard_files())
        return CMD_FAILURE;
#ifdef SIGXFSZ
    /* A write past the limit of a file's size then fails, as on a full disk, and is reported. */
    signal(SIGXFSZ, SIG_IGN);
#endif
    int code = dispatch(argc, argv);
    /* Results that did not reach their file are a failure, even if nothing else was. */
    errno = 0;
    bool lost = ferror(stdout) != 0;
    lost |= fclose(stdout) != 0;
    if (lost && code == CMD_OK)
        code = cmd_fail("standard output: %s", errno != 0 ? strerror(errno) : "writing failed");
    return code;
}
