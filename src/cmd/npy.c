/* SPDX-License-Identifier: MIT */
/* Reading and writing .npy files. The head is taken to be hostile. */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "npy.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* A dict of three keys is about 80 bytes; writers pad it to at most a few hundred. */
#define HEAD_LIMIT ((size_t)1 << 20)

static const char magic[6] = {'\x93', 'N', 'U', 'M', 'P', 'Y'};

static bool refuse(char *text, const char *format, ...)
#if defined(__GNUC__)
    __attribute__((format(printf, 2, 3)))
#endif
    ;
static bool refuse(char *text, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, NPY_TEXT, format, arguments);
    va_end(arguments);
    return false;
}

static const char *descr_of(enum tsa_dtype dtype)
{
    return dtype == TSA_F64 ? "<f8" : dtype == TSA_F32 ? "<f4" : dtype == TSA_F16 ? "<f2" : "<u2";
}
static size_t element_bytes(enum tsa_dtype dtype)
{
    return dtype == TSA_F64 ? 8 : dtype == TSA_F32 ? 4 : 2;
}

double npy_element(const void *data, enum tsa_dtype dtype, size_t i)
{
    if (dtype == TSA_F64)
        return ((const double *)data)[i];
    if (dtype == TSA_F32)
        return ((const float *)data)[i];
    const uint16_t bits = ((const uint16_t *)data)[i];
    const int fraction = dtype == TSA_F16 ? 10 : 7, most = dtype == TSA_F16 ? 31 : 255;
    const int exponent = (bits & 0x7fff) >> fraction, rest = bits & ((1 << fraction) - 1);
    double x = exponent == most ? rest == 0 ? INFINITY : NAN
               : exponent == 0  ? ldexp(rest, 1 - most / 2 - fraction)
                                : ldexp(rest + (1 << fraction), exponent - most / 2 - fraction);
    return bits & 0x8000 ? -x : x;
}

const char *npy_shape_text(size_t rank, const size_t *shape, char *text)
{
    size_t used = (size_t)snprintf(text, NPY_SHAPE_TEXT, "(");
    for (size_t i = 0; i < rank; i++)
        used += (size_t)snprintf(text + used, NPY_SHAPE_TEXT - used, "%s%zu", i == 0 ? "" : ", ",
                                 shape[i]);
    snprintf(text + used, NPY_SHAPE_TEXT - used, rank == 1 ? ",)" : ")");
    return text;
}

/* -- the head: a Python dict of descr, fortran_order and shape ------------------------------*/

struct cursor {
    const char *at, *end;
    int version; /* of the format */
    char *text;  /* where messages go */
};

#define WANTED_DTYPE "'<f4', '<f8', '<f2', or '<u2' or '<V2' for bf16"
#define WANTED_DICT "wanted {'descr': ..., 'fortran_order': ..., 'shape': (...)}"

/* What Python takes for space. */
static void skip_space(struct cursor *c)
{
    while (c->at < c->end && *c->at != '\0' && strchr(" \t\n\r\f", *c->at) != NULL)
        c->at++;
}

/* Skip space, and take `byte` if it comes next. */
static bool take(struct cursor *c, char byte)
{
    skip_space(c);
    if (c->at == c->end || *c->at != byte)
        return false;
    c->at++;
    return true;
}

static bool take_word(struct cursor *c, const char *word)
{
    size_t length = strlen(word);
    skip_space(c);
    if ((size_t)(c->end - c->at) < length || memcmp(c->at, word, length) != 0)
        return false;
    c->at += length;
    return true;
}

/* A quoted string without escapes; one longer than `size` - 1 is cut. */
static bool take_string(struct cursor *c, char *string, size_t size)
{
    skip_space(c);
    if (c->at == c->end || (*c->at != '\'' && *c->at != '"'))
        return false;
    char quote = *c->at++;
    size_t length = 0;
    for (; c->at < c->end && *c->at != quote; c->at++) {
        if (*c->at == '\\' || *c->at == '\0')
            return false;
        if (length + 1 < size)
            string[length++] = *c->at;
    }
    if (c->at == c->end)
        return false;
    c->at++;
    string[length] = '\0';
    return true;
}

/* A length of one dimension, as Python 3 reads integers: 0200 is none, while 00 is. */
static bool take_length(struct cursor *c, size_t *length)
{
    skip_space(c);
    if (c->at < c->end && *c->at == '-')
        return refuse(c->text, "shape with a negative length found; wanted lengths of 0 or more");
    const char *start = c->at;
    size_t value = 0;
    for (; c->at < c->end && *c->at >= '0' && *c->at <= '9'; c->at++) {
        size_t digit = (size_t)(*c->at - '0');
        if (value > (SIZE_MAX - digit) / 10)
            return refuse(c->text, "shape with a length beyond %zu found; it does not fit",
                          (size_t)SIZE_MAX);
        value = value * 10 + digit;
    }
    if (c->at == start)
        return refuse(c->text, "head with a malformed shape found; " WANTED_DICT);
    if (*start == '0' && value != 0)
        return refuse(c->text, "shape with a length that begins with 0 found; wanted lengths as "
                               "Python 3 writes them");
    /* As Python 2 wrote long integers. NumPy reads them, though not in version 3.0. */
    if (c->at < c->end && *c->at == 'L' && c->version < 3)
        c->at++;
    *length = value;
    return true;
}

static bool take_shape(struct cursor *c, struct npy *array)
{
    if (!take(c, '('))
        return refuse(c->text, "head without a tuple for shape found; " WANTED_DICT);
    size_t rank = 0;
    bool comma = true;
    while (!take(c, ')')) {
        size_t length = 0;
        if (!comma)
            return refuse(c->text, "head with a malformed shape found; " WANTED_DICT);
        if (!take_length(c, &length))
            return false;
        if (rank < NPY_MAX_RANK)
            array->shape[rank] = length;
        rank++;
        comma = take(c, ',');
    }
    array->rank = rank;
    return true;
}

static bool check_rank(const struct npy *array, size_t least, char *text)
{
    if (array->rank >= least && array->rank <= NPY_MAX_RANK && array->rank > 0)
        return true;
    return refuse(text, "%zu dimension%s found; wanted %s", array->rank,
                  array->rank == 1 ? "" : "s",
                  least > 1 ? "2, 3 or 4: [N,D], [H,N,D] or [B,H,N,D]" : "1, 2 or 3");
}

static bool take_descr(struct cursor *c, struct npy *array)
{
    /* Arrays of bf16 in Python (ml_dtypes) are written as V2: two bytes that mean nothing to NumPy.
     * '|' says that they have no order; they are little-endian all the same. */
    static const struct {
        const char *descr;
        enum tsa_dtype dtype;
    } all[] = {{"<f4", TSA_F32},  {"<f8", TSA_F64},  {"<f2", TSA_F16},
               {"<u2", TSA_BF16}, {"<V2", TSA_BF16}, {"|V2", TSA_BF16}};
    char descr[32];
    if (!take_string(c, descr, sizeof descr))
        return refuse(c->text, "structured or malformed dtype found; wanted " WANTED_DTYPE);
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        if (strcmp(descr, all[i].descr) == 0) {
            array->dtype = all[i].dtype;
            array->descr = all[i].descr;
            return true;
        }
    return refuse(c->text, "dtype '%s' found; wanted " WANTED_DTYPE, descr);
}

static bool take_order(struct cursor *c)
{
    if (take_word(c, "True"))
        return refuse(c->text, "Fortran order found; wanted C order (numpy.ascontiguousarray)");
    if (!take_word(c, "False"))
        return refuse(c->text, "head with a malformed fortran_order found; " WANTED_DICT);
    return true;
}

static bool parse_head(int version, const char *head, size_t length, struct npy *array, char *text)
{
    struct cursor c = {.at = head, .end = head + length, .version = version, .text = text};
    bool descr = false, order = false, shape = false, comma = true;
    if (!take(&c, '{'))
        return refuse(text, "head that is no dict found; " WANTED_DICT);
    while (!take(&c, '}')) {
        char key[32];
        if (!comma || !take_string(&c, key, sizeof key) || !take(&c, ':'))
            return refuse(text, "malformed head found; " WANTED_DICT);
        bool *seen = strcmp(key, "descr") == 0           ? &descr
                     : strcmp(key, "fortran_order") == 0 ? &order
                     : strcmp(key, "shape") == 0         ? &shape
                                                         : NULL;
        if (seen == NULL)
            return refuse(text, "head with key '%s' found; " WANTED_DICT, key);
        if (*seen)
            return refuse(text, "head with key '%s' twice found; " WANTED_DICT, key);
        *seen = true;
        if (!(seen == &descr   ? take_descr(&c, array)
              : seen == &order ? take_order(&c)
                               : take_shape(&c, array)))
            return false;
        comma = take(&c, ',');
    }
    skip_space(&c);
    if (c.at != c.end)
        return refuse(text, "text after the dict of the head found; wanted padding by spaces");
    if (!descr || !order || !shape)
        return refuse(text, "head without '%s' found; " WANTED_DICT,
                      !descr   ? "descr"
                      : !order ? "fortran_order"
                               : "shape");
    return true;
}

/* -- files ------------------------------------------------------------------------------------ */

static bool read_error(char *text)
{
    return refuse(text, "reading failed: %s", strerror(errno));
}

/* Read up to `bytes`; *found is less only at the end of the file. */
static bool read_bytes(FILE *stream, void *memory, size_t bytes, size_t *found, char *text)
{
    errno = 0;
    *found = fread(memory, 1, bytes, stream);
    return ferror(stream) ? read_error(text) : true;
}

static bool read_head(FILE *stream, struct npy *array, char *text)
{
    unsigned char start[12];
    size_t found;
    if (!read_bytes(stream, start, 8, &found, text))
        return false;
    if (found == 0)
        return refuse(text, "empty file found; wanted a .npy file");
    if (found < 8 || memcmp(start, magic, sizeof magic) != 0)
        return refuse(text, "no .npy file: it does not start with \\x93NUMPY and a version");
    if (start[6] < 1 || start[6] > 3 || start[7] != 0)
        return refuse(text, ".npy version %d.%d found; wanted 1.0, 2.0 or 3.0", start[6], start[7]);
    size_t width = start[6] == 1 ? 2 : 4, length = 0;
    if (!read_bytes(stream, start + 8, width, &found, text))
        return false;
    if (found < width)
        return refuse(text, "head cut short: %zu of %zu bytes of its length found", found, width);
    for (size_t i = width; i-- > 0;)
        length = length << 8 | start[8 + i];
    if (length > HEAD_LIMIT)
        return refuse(text, "head of %zu bytes found; wanted at most %zu", length, HEAD_LIMIT);
    char *head = malloc(length + 1);
    if (head == NULL)
        return refuse(text, "no memory for a head of %zu bytes", length);
    bool good = read_bytes(stream, head, length, &found, text);
    if (good && found < length)
        good = refuse(text, "head cut short: %zu of %zu bytes found", found, length);
    good = good && parse_head(start[6], head, length, array, text);
    free(head);
    return good;
}

/* Bytes of the data; false if they do not fit. */
static bool count_bytes(const struct npy *array, size_t *bytes)
{
    size_t product = element_bytes(array->dtype);
    /* A length of 0 must not hide that the others overflow: strides are made of them. */
    for (size_t i = 0; i < array->rank; i++) {
        size_t length = array->shape[i] == 0 ? 1 : array->shape[i];
        if (product > PTRDIFF_MAX / length)
            return false;
        product *= length;
    }
    *bytes = product;
    for (size_t i = 0; i < array->rank; i++)
        if (array->shape[i] == 0)
            *bytes = 0;
    return true;
}

static bool little_endian(void)
{
    const uint16_t one = 1;
    unsigned char first;
    memcpy(&first, &one, 1);
    return first == 1;
}

static bool read_data(FILE *stream, struct npy *array, char *text)
{
    char shape[NPY_SHAPE_TEXT];
    const char *descr = array->descr;
    size_t found;
    struct stat status;
    npy_shape_text(array->rank, array->shape, shape);
    if (!count_bytes(array, &array->bytes))
        return refuse(text, "shape %s found; its bytes do not fit in memory's addresses", shape);
    /* A regular file's size is known: find a cut file before taking memory for it. */
    long at = ftell(stream);
    if (at >= 0 && fileno(stream) >= 0 && fstat(fileno(stream), &status) == 0 &&
        S_ISREG(status.st_mode)) {
        uintmax_t left = status.st_size > at ? (uintmax_t)(status.st_size - at) : 0;
        if (left < array->bytes)
            return refuse(text, "data cut short: %ju bytes found; wanted %zu for shape %s of '%s'",
                          left, array->bytes, shape, descr);
        if (left > array->bytes)
            return refuse(text,
                          "%ju bytes after the data found; wanted none after shape %s of "
                          "'%s'",
                          left - array->bytes, shape, descr);
    }
    array->data = malloc(array->bytes > 0 ? array->bytes : 1);
    if (array->data == NULL)
        return refuse(text, "no memory for %zu bytes of shape %s", array->bytes, shape);
    if (!read_bytes(stream, array->data, array->bytes, &found, text))
        return false;
    if (found < array->bytes)
        return refuse(text, "data cut short: %zu bytes found; wanted %zu for shape %s of '%s'",
                      found, array->bytes, shape, descr);
    if (getc(stream) != EOF)
        return refuse(text, "bytes after the data found; wanted none after shape %s of '%s'", shape,
                      descr);
    return ferror(stream) ? read_error(text) : true;
}

bool npy_read_stream(FILE *stream, size_t least, struct npy *array, char *text)
{
    memset(array, 0, sizeof *array);
    if (!little_endian())
        return refuse(text, "big-endian machines cannot read .npy files in this version");
    if (read_head(stream, array, text) && check_rank(array, least, text) &&
        read_data(stream, array, text))
        return true;
    npy_free(array);
    return false;
}

bool npy_read(const char *path, size_t least, struct npy *array, char *text)
{
    memset(array, 0, sizeof *array);
    FILE *stream = fopen(path, "rb");
    if (stream == NULL)
        return refuse(text, "%s", strerror(errno));
    bool good = npy_read_stream(stream, least, array, text);
    fclose(stream);
    return good;
}

void npy_free(struct npy *array)
{
    free(array->data);
    array->data = NULL;
}

bool npy_write_head(FILE *stream, enum tsa_dtype dtype, size_t rank, const size_t *shape)
{
    char dict[192], text[NPY_SHAPE_TEXT];
    int length =
        snprintf(dict, sizeof dict, "{'descr': '%s', 'fortran_order': False, 'shape': %s, }",
                 descr_of(dtype), npy_shape_text(rank, shape, text));
    size_t whole = (sizeof magic + 4 + (size_t)length + 1 + 63) / 64 * 64;
    size_t rest = whole - sizeof magic - 4;
    const unsigned char tail[4] = {1, 0, (unsigned char)(rest & 0xff), (unsigned char)(rest >> 8)};
    fwrite(magic, 1, sizeof magic, stream);
    fwrite(tail, 1, sizeof tail, stream);
    fprintf(stream, "%-*s\n", (int)rest - 1, dict);
    return !ferror(stream);
}
