/* SPDX-License-Identifier: MIT */
/* Makes, changes and compares .npy files for tests/command*.sh, with a reader and a writer of its
 * own. It trusts what it reads. */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "half_model.h"

/* As NumPy calls them; u2 are bf16 here. */
enum type { F4, F8, F2, U2 };
static const char *const names[] = {"f4", "f8", "f2", "u2"};
static const size_t sizes[] = {4, 8, 2, 2};

struct array {
    enum type type;
    size_t rank, shape[8], count;
    double *x;
};

static void die(const char *what, const char *path)
{
    fprintf(stderr, "npy_tool: %s: %s\n", path, what);
    exit(2);
}

static enum type type_of(const char *name)
{
    for (enum type type = F4; type <= U2; type++)
        if (strcmp(name, names[type]) == 0)
            return type;
    die("no type", name);
    return F4;
}

static double get(const unsigned char *bytes, enum type type)
{
    double wide;
    float narrow;
    uint16_t half;
    switch (type) {
    case F8:
        memcpy(&wide, bytes, sizeof wide);
        return wide;
    case F4:
        memcpy(&narrow, bytes, sizeof narrow);
        return narrow;
    default:
        memcpy(&half, bytes, sizeof half);
        return half_value(half, type == F2);
    }
}

static void put(unsigned char *bytes, enum type type, double x)
{
    const float narrow = (float)x;
    const uint16_t half = half_nearest(x, type == F2);
    memcpy(bytes,
           type == F8   ? (const void *)&x
           : type == F4 ? (const void *)&narrow
                        : &half,
           sizes[type]);
}

static struct array load(const char *path)
{
    struct array a = {.count = 1};
    unsigned char start[10];
    char head[4096] = "";
    FILE *file = fopen(path, "rb");
    if (file == NULL || fread(start, 1, 10, file) != 10)
        die("cannot be read", path);
    size_t length = start[8] + 256u * start[9];
    if (length >= sizeof head || (10 + length) % 64 != 0 || fread(head, 1, length, file) != length)
        die("head is not aligned or not whole", path);
    const char *descr = strchr(head, '<');
    const char name[] = {descr ? descr[1] : 0, descr ? descr[2] : 0, 0};
    a.type = type_of(name);
    const char *at = strchr(head, '(');
    while (at != NULL && *++at != ')') {
        char *end;
        size_t n = strtoul(at, &end, 10);
        if (end == at)
            continue;
        a.shape[a.rank++] = n;
        a.count *= n;
        at = end - 1;
    }
    a.x = calloc(a.count + 1, sizeof *a.x);
    for (size_t i = 0; i < a.count; i++) {
        unsigned char bytes[8];
        if (fread(bytes, sizes[a.type], 1, file) != 1)
            die("data are cut short", path);
        a.x[i] = get(bytes, a.type);
    }
    if (getc(file) != EOF)
        die("bytes after the data", path);
    fclose(file);
    return a;
}

static void save(const char *path, const struct array *a)
{
    char dict[256];
    int used = snprintf(dict, sizeof dict, "{'descr': '<%s', 'fortran_order': False, 'shape': (",
                        names[a->type]);
    for (size_t i = 0; i < a->rank; i++)
        used += snprintf(dict + used, sizeof dict - (size_t)used, "%zu,", a->shape[i]);
    snprintf(dict + used, sizeof dict - (size_t)used, ")}");
    FILE *file = fopen(path, "wb");
    if (file == NULL)
        die("cannot be written", path);
    fprintf(file, "\x93NUMPY%c%c%c%c%-117s\n", 1, 0, 118, 0, dict);
    for (size_t i = 0; i < a->count; i++) {
        unsigned char bytes[8];
        put(bytes, a->type, a->x[i]);
        fwrite(bytes, sizes[a->type], 1, file);
    }
    if (fclose(file) != 0)
        die("cannot be written", path);
}

/* make FILE TYPE SEED SHAPE...: uniform in (-1, 1) */
static int make(int argc, char **argv)
{
    struct array a = {.type = type_of(argv[1]), .count = 1};
    uint64_t seed = strtoull(argv[2], NULL, 10) * 1000003u + 1;
    for (int i = 3; i < argc; i++) {
        a.shape[a.rank++] = strtoul(argv[i], NULL, 10);
        a.count *= a.shape[a.rank - 1];
    }
    a.x = calloc(a.count + 1, sizeof *a.x);
    for (size_t i = 0; i < a.count; i++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        a.x[i] = (double)(seed >> 40) * 0x1p-23 - 1;
    }
    save(argv[0], &a);
    free(a.x);
    return 0;
}

/* poke FILE INDEX VALUE */
static int poke(char **argv)
{
    struct array a = load(argv[0]);
    size_t i = strtoul(argv[1], NULL, 10);
    if (i >= a.count)
        die("index beyond the end", argv[0]);
    a.x[i] = strtod(argv[2], NULL);
    save(argv[0], &a);
    free(a.x);
    return 0;
}

/* fill FILE VALUE: in all places; or the magnitudes of what is there */
static int fill(char **argv)
{
    struct array a = load(argv[0]);
    for (size_t i = 0; i < a.count; i++)
        a.x[i] = strcmp(argv[1], "abs") == 0 ? fabs(a.x[i]) : strtod(argv[1], NULL);
    save(argv[0], &a);
    free(a.x);
    return 0;
}

/* convert FILE TYPE TO: rounded once */
static int convert(char **argv)
{
    struct array a = load(argv[0]);
    a.type = type_of(argv[1]);
    save(argv[2], &a);
    free(a.x);
    return 0;
}

/* compare FILE TRUTH TOLERANCE: shapes equal, and every row within the tolerance times its own
 * largest element */
static int compare(char **argv)
{
    struct array a = load(argv[0]), b = load(argv[1]);
    double tolerance = strtod(argv[2], NULL), worst = 0;
    if (a.rank != b.rank || memcmp(a.shape, b.shape, sizeof a.shape) != 0)
        die("another shape than that of the truth", argv[0]);
    size_t width = a.shape[a.rank - 1];
    for (size_t row = 0; row < a.count; row += width) {
        double scale = 0, difference = 0;
        for (size_t i = row; i < row + width; i++) {
            scale = fmax(scale, fabs(b.x[i]));
            double delta = fabs(a.x[i] - b.x[i]);
            difference = delta <= difference ? difference : delta;
        }
        double relative = difference == 0 ? 0 : difference / scale;
        worst = relative <= worst ? worst : relative;
    }
    free(a.x);
    free(b.x);
    printf("largest relative difference %.3g, allowed %g\n", worst, tolerance);
    return worst <= tolerance ? 0 : 1;
}

int main(int argc, char **argv)
{
    const char *word = argc > 1 ? argv[1] : "";
    if (strcmp(word, "make") == 0 && argc >= 6)
        return make(argc - 2, argv + 2);
    if (strcmp(word, "poke") == 0 && argc == 5)
        return poke(argv + 2);
    if (strcmp(word, "fill") == 0 && argc == 4)
        return fill(argv + 2);
    if (strcmp(word, "convert") == 0 && argc == 5)
        return convert(argv + 2);
    if (strcmp(word, "compare") == 0 && argc == 5)
        return compare(argv + 2);
    fprintf(stderr, "usage: npy_tool make FILE TYPE SEED SHAPE... | poke FILE INDEX VALUE | "
                    "fill FILE VALUE|abs | "
                    "convert FILE TYPE TO | compare FILE TRUTH TOLERANCE\n"
                    "types: f4, f8, f2, u2 (bf16)\n");
    return 2;
}
