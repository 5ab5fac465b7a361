/* SPDX-License-Identifier: MIT */
/* Quotas of control groups as limits of the default number of threads, read from files of the test:
 * the source under test is a part of this program, and finds them by an open() of its own. */
#if defined(_OPENMP) && defined(__linux__)
#define _GNU_SOURCE /* of all that the source includes */
#include <fcntl.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *new_root; /* takes the place of the root */

static int open_below(const char *path, int flags)
{
    char text[8192];
    snprintf(text, sizeof text, "%s%s", new_root, path);
    return open(text, flags);
}
#define open open_below
#define omp_get_num_procs() 1000
#define omp_get_max_threads() 1000
#include "threads.c"
#undef open

#include "support.h"

/* A file and the folders above it. */
static void write_file(const char *path, const char *text)
{
    char full[8192];
    snprintf(full, sizeof full, "%s%s", new_root, path);
    for (char *slash = full + strlen(new_root) + 1; (slash = strchr(slash, '/')) != NULL; slash++) {
        *slash = '\0';
        mkdir(full, 0700);
        *slash = '/';
    }
    FILE *file = fopen(full, "w");
    ck_assert_ptr_nonnull(file);
    fputs(text, file);
    fclose(file);
}

static void assert_threads(int wanted, const char *why)
{
    const char *reason;
    ck_assert_int_eq(tsa_default_threads(&reason), wanted);
    ck_assert_str_eq(reason, why);
}

static void begin(char *name)
{
    new_root = mkdtemp(name);
    ck_assert_ptr_nonnull(new_root);
    assert_threads(1000, "affinity"); /* no file: no limit */
}

static void end(void)
{
    char command[256];
    snprintf(command, sizeof command, "rm -r '%s'", new_root);
    ck_assert_int_eq(system(command), 0);
}

/* A part of a processor counts as one; each group up to the root binds. */
START_TEST(version_2)
{
    char name[] = "/tmp/tsa-quota-XXXXXX";
    begin(name);
    write_file("/proc/self/cgroup", "0::/a/b\n");
    assert_threads(1000, "affinity");
    write_file("/sys/fs/cgroup/a/b/cpu.max", "max 100000\n");
    assert_threads(1000, "affinity");
    static const struct {
        const char *text;
        int threads;
    } quotas[] = {{"250000 100000\n", 3}, {"200000 100000\n", 2}, {"200001 100000\n", 3},
                  {"1000 100000\n", 1},   {"99999 100000\n", 1},  {"1 1\n", 1},
                  {"700 100\n", 7}};
    for (size_t i = 0; i < sizeof quotas / sizeof *quotas; i++) {
        write_file("/sys/fs/cgroup/a/b/cpu.max", quotas[i].text);
        assert_threads(quotas[i].threads, "cgroup quota");
    }
    write_file("/sys/fs/cgroup/a/cpu.max", "450000 100000\n");
    assert_threads(5, "cgroup quota");
    write_file("/sys/fs/cgroup/cpu.max", "350000 100000\n");
    assert_threads(4, "cgroup quota");
    end();
}
END_TEST

START_TEST(version_1)
{
    char name[] = "/tmp/tsa-quota-XXXXXX";
    begin(name);
    write_file("/proc/self/cgroup", "7:memory:/m\n4:cpu,cpuacct:/a\n1:name=systemd:/s\n");
    write_file("/sys/fs/cgroup/cpu/m/cpu.cfs_quota_us", "100000\n"); /* of another controller */
    write_file("/sys/fs/cgroup/cpu/m/cpu.cfs_period_us", "100000\n");
    assert_threads(1000, "affinity");
    write_file("/sys/fs/cgroup/cpu/a/cpu.cfs_quota_us", "-1\n");
    write_file("/sys/fs/cgroup/cpu/a/cpu.cfs_period_us", "100000\n");
    assert_threads(1000, "affinity");
    write_file("/sys/fs/cgroup/cpu/a/cpu.cfs_quota_us", "210000\n");
    assert_threads(3, "cgroup quota");
    write_file("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "110000\n");
    write_file("/sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
    assert_threads(2, "cgroup quota");
    end();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("quota");
    TCase *files = add_case(suite, "files");
    tcase_add_test(files, version_2);
    tcase_add_test(files, version_1);
    return run_suite(suite);
}
#else
#include "support.h"
int main(void)
{
    return run_suite(suite_create("quota")); /* there are no such groups, or no threads */
}
#endif
