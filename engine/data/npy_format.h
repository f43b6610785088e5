/* npy_format.h: one array in NumPy's .npy format, versions 1 to 3
 * (https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html): a magic string, the
 * length of a header, the header as a Python dictionary, then the elements: real numbers of either
 * byte order, rows or columns first. */
#pragma once

#include "base/error.h"
#include "base/string_table.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { NPY_RANK_MAX = 8 };

enum npy_type {
    NPY_BOOL,
    NPY_UINT8,
    NPY_INT8,
    NPY_UINT16,
    NPY_INT16,
    NPY_UINT32,
    NPY_INT32,
    NPY_UINT64,
    NPY_INT64,
    NPY_FLOAT16,
    NPY_FLOAT32,
    NPY_FLOAT64
};
DECLARE_STRING_TABLE(npy_type, enum npy_type); /* "uint8" */

struct npy_array {
    enum npy_type type;
    int rank;
    int64_t extent[NPY_RANK_MAX];
    int64_t elements; /* product of all extents, at least 1 */
    const uint8_t *data;
    bool swapped;       /* the numbers are big-endian */
    bool columns_first; /* in Fortran order: the first index runs fastest */
};

/* Whether the bytes begin as an .npy file does. */
bool npy_is(const void *bytes, size_t size);

/* Reads the header and checks that the elements it promises are there, all of them and no more.
 * `array->data` points into `bytes`. `path` is for the sentence: -EINVAL. */
int npy_parse(const char *path, const void *bytes, size_t size, struct npy_array *array,
              struct error *error);

/* Makes the array little-endian and rows first, which the functions below need: where it is not,
 * `array->data` becomes a copy, `*copy`, which the caller frees. -ENOMEM. */
int npy_normalise(const char *path, struct npy_array *array, uint8_t **copy, struct error *error);

size_t npy_type_bytes(enum npy_type type);
bool npy_type_is_integer(enum npy_type type); /* bool counts as one */

/* Elements first..first+count as float32, rounded to nearest; beyond its
 * range they are infinite. */
void npy_to_floats(const struct npy_array *array, int64_t first, int64_t count, float *output);
/* One element of an integer type; what exceeds INT64_MAX is INT64_MAX. */
int64_t npy_integer(const struct npy_array *array, int64_t index);
