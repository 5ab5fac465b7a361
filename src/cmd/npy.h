/* SPDX-License-Identifier: MIT */
/* NumPy's .npy files: f2, f4, f8, and for bf16, which NumPy does not have, u2 or V2; little-endian,
 * C order, up to four dimensions. */
#ifndef TSA_NPY_H
#define TSA_NPY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "tsa.h"

#define NPY_MAX_RANK 4
/* Room for any message, and for any shape as text. */
#define NPY_TEXT 320
#define NPY_SHAPE_TEXT 100

struct npy {
    enum tsa_dtype dtype;
    const char *descr; /* the dtype's name in the file */
    size_t rank, shape[NPY_MAX_RANK];
    size_t bytes; /* of data */
    void *data;
};

/* Read a whole file of `least` dimensions or more. On failure nothing is held, and text (NPY_TEXT
 * bytes) says what was found and what is wanted, without the path. */
bool npy_read(const char *path, size_t least, struct npy *array, char *text);
/* The same from a stream at its start. */
bool npy_read_stream(FILE *stream, size_t least, struct npy *array, char *text);
void npy_free(struct npy *array);

/* Write the head of a version 1.0 file; the data follow it at a multiple of 64 bytes. */
bool npy_write_head(FILE *stream, enum tsa_dtype dtype, size_t rank, const size_t *shape);

/* Element i of data of any type. */
double npy_element(const void *data, enum tsa_dtype dtype, size_t i);

/* (5, 8, 384, 8) as text of NPY_SHAPE_TEXT bytes. */
const char *npy_shape_text(size_t rank, const size_t *shape, char *text);

#endif
