/* sha256.h: SHA-256 (FIPS 180-4), for digests of checkpoints and plans. */
#pragma once

#include <stddef.h>
#include <stdint.h>

enum { SHA256_BYTES = 32, SHA256_HEX_SIZE = 65 };

struct sha256 {
    uint32_t state[8];
    uint64_t length; /* bytes so far */
    uint8_t block[64];
};

void sha256_begin(struct sha256 *hash);
void sha256_add(struct sha256 *hash, const void *bytes, size_t size);
void sha256_end(struct sha256 *hash, uint8_t digest[SHA256_BYTES]);
/* sha256_end() as lower-case hexadecimal with a NUL. */
void sha256_end_hex(struct sha256 *hash, char digest[SHA256_HEX_SIZE]);
