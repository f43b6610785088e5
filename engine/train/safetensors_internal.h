/* safetensors_internal.h: what the reader and the writer of safetensors files share. */
#pragma once

#include "engine/train/safetensors.h"

enum {
    SAFETENSORS_LENGTH_BYTES = 8,             /* of the field with the header's length */
    SAFETENSORS_HEADER_BYTES_MAX = 100000000, /* the limit of the reference implementation */
    MAPPED_LITTLE_ENDIAN_ONLY = __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
};
_Static_assert(MAPPED_LITTLE_ENDIAN_ONLY, "tensors are written and mapped as they lie in memory");

#define SAFETENSORS_METADATA_KEY "__metadata__"

/* The bytes of a tensor of this type and shape. False: they overflow, or an extent is negative. */
bool safetensors_tensor_bytes(const struct safetensors_tensor *tensor, size_t *bytes);

/* Says that the tensors of the file at `path` have no room. -ENOMEM. */
int safetensors_out_of_memory(const char *path, struct error *error);
