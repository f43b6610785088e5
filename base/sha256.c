/* sha256.c: see sha256.h. */
#include "base/sha256.h"

void sha256_begin(struct sha256 *hash)
{
    sha256_init(&hash->context);
}

void sha256_add(struct sha256 *hash, const void *bytes, size_t size)
{
    sha256_update(&hash->context, size, bytes);
}

void sha256_end(struct sha256 *hash, char digest[SHA256_HEX_SIZE])
{
    static const char hex[] = "0123456789abcdef";
    uint8_t bytes[SHA256_DIGEST_SIZE];

    sha256_digest(&hash->context, sizeof bytes, bytes);
    for (size_t i = 0; i < sizeof bytes; i++) {
        digest[2 * i] = hex[bytes[i] >> 4];
        digest[2 * i + 1] = hex[bytes[i] & 15];
    }
    digest[SHA256_HEX_SIZE - 1] = '\0';
}
