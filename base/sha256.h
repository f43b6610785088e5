/* sha256.h: SHA-256 as lower-case hexadecimal, for digests of checkpoints and plans (libnettle). */
#pragma once

#include <nettle/sha2.h>
#include <stddef.h>

enum { SHA256_HEX_SIZE = 2 * SHA256_DIGEST_SIZE + 1 };

struct sha256 {
    struct sha256_ctx context;
};

void sha256_begin(struct sha256 *hash);
void sha256_add(struct sha256 *hash, const void *bytes, size_t size);
/* Writes the digest with a closing NUL. */
void sha256_end(struct sha256 *hash, char digest[SHA256_HEX_SIZE]);
