/* safetensors.h: weights on disk in the safetensors format
 * (https://github.com/huggingface/safetensors, "Format"): 8 bytes little-endian length of the
 * header, a JSON header {"__metadata__": {…}, name: {"dtype", "shape", "data_offsets"}}, padded
 * with blanks to a multiple of 8, then the tensors' bytes without gaps, little-endian, row-major.
 *
 * Writing goes to "<path>.tmp", is synced and renamed, so that a crash leaves the old file or the
 * new one. Reading trusts nothing in the file. */
#pragma once

#include "base/error.h"

#include <stddef.h>
#include <stdint.h>

enum { SAFETENSORS_RANK_MAX = 8, SAFETENSORS_DIGEST_SIZE = 65 /* SHA-256, hexadecimal, NUL */ };

enum safetensors_type {
    SAFETENSORS_FLOAT32, /* "F32" */
    SAFETENSORS_INT32,   /* "I32" */
    SAFETENSORS_INT64,   /* "I64" */
    SAFETENSORS_UINT8    /* "U8" */
};
size_t safetensors_type_bytes(enum safetensors_type type);

struct safetensors_tensor {
    const char *name;
    enum safetensors_type type;
    int rank;
    int64_t shape[SAFETENSORS_RANK_MAX];
    size_t bytes;     /* filled by both sides: elements times size */
    const void *data; /* reading: in the mapping, aligned to the type; writing: not used */
};

struct safetensors_pair {
    const char *key, *value;
};

/* ---- writing ---- */

struct safetensors_writer;

/* Creates the temporary file and writes the header for `count` tensors and their metadata; nothing
 * is kept of the arguments but the path. `bytes` of each tensor is filled in. So that every tensor
 * lies aligned, the 8-byte types come first and the 1-byte ones last: -EINVAL otherwise, and for
 * equal or empty names and names that are not UTF-8. */
int safetensors_writer_open(const char *path, const struct safetensors_pair *metadata,
                            int metadata_count, struct safetensors_tensor *tensors, int count,
                            struct safetensors_writer **writer, struct error *error);
/* Appends the next tensor's data, whole or in pieces. */
int safetensors_writer_add(struct safetensors_writer *writer, const void *data, size_t bytes,
                           struct error *error);
/* Checks that all data came, syncs, renames and syncs the folder. Frees the writer, whatever comes
 * of it; a failure leaves no temporary file. `digest` (SHA-256 of the file) and `file_bytes` may be
 * NULL. */
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

/* Copies the tensor's data; of the mapped file little is in memory at any moment. */
void safetensors_read(const struct safetensors *file, const struct safetensors_tensor *tensor,
                      void *to);

/* NULL when there is none. */
const struct safetensors_tensor *safetensors_find(const struct safetensors *file, const char *name);
const char *safetensors_metadata(const struct safetensors *file, const char *key);
