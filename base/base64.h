/* base64.h: the base64 of RFC 4648 for file content inside JSON (libnettle). */
#pragma once

#include "base/error.h"

#include <stddef.h>

/* Bytes that the encoded text of `size` bytes needs, including the closing NUL. */
size_t base64_encoded_size(size_t size);

/* Writes base64_encoded_size(size) characters, including padding and the closing NUL. */
void base64_encode(const void *bytes, size_t size, char *text);

/* Decodes `length` characters into a fresh buffer that the caller frees; `*size` gets the number of
 * bytes. -EINVAL: the text is not valid base64, or is cut off. */
int base64_decode(const char *text, size_t length, void **bytes, size_t *size, struct error *error);
