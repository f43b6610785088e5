/* safetensors.h: reads and writes tensors in the safetensors format
 * (https://github.com/huggingface/safetensors, "Format"): 8 bytes little-endian length of the
 * header, a JSON header {"__metadata__": {…}, name: {"dtype", "shape", "data_offsets"}}, padded
 * with blanks to a multiple of 8, then the tensors' bytes without gaps, little-endian, row-major. A
 * writer writes "<path>.tmp", syncs and renames it, so that after a crash `path` is the old file or
 * the new one. A reader checks everything in the file. */
#pragma once

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { SAFETENSORS_RANK_MAX = 8, SAFETENSORS_DIGEST_SIZE = 65 /* SHA-256, hexadecimal, NUL */ };

enum safetensors_type {
    SAFETENSORS_FLOAT32, /* "F32" */
    SAFETENSORS_INT32,   /* "I32" */
    SAFETENSORS_INT64,   /* "I64" */
    SAFETENSORS_UINT8,   /* "U8" */
    SAFETENSORS_INT8,    /* "I8" */
    /* of files from elsewhere: safetensors_read_floats() */
    SAFETENSORS_FLOAT64,  /* "F64" */
    SAFETENSORS_FLOAT16,  /* "F16" */
    SAFETENSORS_BFLOAT16, /* "BF16" */
    /* Types that no weights are made of. Masks that stand beside them have these. */
    SAFETENSORS_BOOL,        /* "BOOL" */
    SAFETENSORS_INT16,       /* "I16" */
    SAFETENSORS_UINT16,      /* "U16" */
    SAFETENSORS_UINT32,      /* "U32" */
    SAFETENSORS_UINT64,      /* "U64" */
    SAFETENSORS_FLOAT8_E4M3, /* "F8_E4M3" */
    SAFETENSORS_FLOAT8_E5M2  /* "F8_E5M2" */
};
/* "F32" */
const char *safetensors_type_name(enum safetensors_type type);
size_t safetensors_type_bytes(enum safetensors_type type);

struct safetensors_tensor {
    const char *name;
    enum safetensors_type type;
    int rank;
    int64_t shape[SAFETENSORS_RANK_MAX];
    size_t bytes;     /* elements times size; reader and writer fill it in */
    const void *data; /* reader: in the mapping, aligned to the type; writer: not used */
    bool owned;       /* name and data are malloc()'s, not in the mapping */
};

struct safetensors_pair {
    const char *key, *value;
};

/* ---- writing ---- */

struct safetensors_writer;

/* Creates the temporary file and writes the header for `count` tensors and their metadata. Copies
 * the path and keeps no other argument. Fills in `bytes` of each tensor. Every tensor must be
 * aligned, so types of 8 bytes come first and those of 1 byte last. -EINVAL for another order, for
 * equal or empty names and for names that are not UTF-8. */
int safetensors_writer_open(const char *path, const struct safetensors_pair *metadata,
                            int metadata_count, struct safetensors_tensor *tensors, int count,
                            struct safetensors_writer **writer, struct error *error);
/* Appends the next tensor's data, whole or in pieces. */
int safetensors_writer_add(struct safetensors_writer *writer, const void *data, size_t bytes,
                           struct error *error);
/* Checks that all data were written, syncs the file, renames it and syncs the folder. Frees the
 * writer in every case; a failure removes the temporary file. `digest` (SHA-256 of the file) and
 * `file_bytes` may be NULL. */
int safetensors_writer_finish(struct safetensors_writer *writer,
                              char digest[SAFETENSORS_DIGEST_SIZE], uint64_t *file_bytes,
                              struct error *error);
/* Frees the writer and removes the temporary file. NULL is allowed. */
void safetensors_writer_abort(struct safetensors_writer *writer);

/* ---- reading ---- */

struct safetensors {
    struct safetensors_tensor *tensors; /* in the order of their data */
    int tensor_count;
    struct safetensors_pair *metadata;
    int metadata_count;
    void *mapping;
    size_t mapping_bytes;
};

/* Maps the file and checks it: header length and JSON, known types, no negative or overflowing
 * shape, bytes that agree with the shape, data that tile the rest of the file without overlap or
 * gap. -EINVAL with a sentence naming the file and the tensor; errno of opening it. The caller
 * releases it with safetensors_close(). */
int safetensors_open(const char *path, struct safetensors *file, struct error *error);
void safetensors_close(struct safetensors *file);

/* Adds a tensor to those of the file. It copies the name and owns the data, which are malloc()'s;
 * on -ENOMEM the data stay the caller's. */
int safetensors_append(struct safetensors *file, const struct safetensors_tensor *tensor,
                       struct error *error);

/* Copies the tensor's data in pieces, so that only a small part of the mapped file is in memory at
 * any moment. */
void safetensors_read(const struct safetensors *file, const struct safetensors_tensor *tensor,
                      void *to);

/* The same as float32, of a tensor of floating-point numbers (safetensors_is_float()). */
bool safetensors_is_float(const struct safetensors_tensor *tensor);
void safetensors_read_floats(const struct safetensors *file,
                             const struct safetensors_tensor *tensor, float *to);

/* NULL if there is none. */
const struct safetensors_tensor *safetensors_find(const struct safetensors *file, const char *name);
const char *safetensors_metadata(const struct safetensors *file, const char *key);
