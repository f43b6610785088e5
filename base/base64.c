/* base64.c: see base64.h. */
#include "base/base64.h"

#include "base/cleanup.h"

#include <errno.h>
#include <nettle/base64.h>
#include <stdint.h>

size_t base64_encoded_size(size_t size)
{
    return BASE64_ENCODE_RAW_LENGTH(size) + 1;
}

void base64_encode(const void *bytes, size_t size, char *text)
{
    base64_encode_raw(text, size, bytes);
    text[BASE64_ENCODE_RAW_LENGTH(size)] = '\0';
}

int base64_decode(const char *text, size_t length, void **bytes, size_t *size, struct error *error)
{
    struct base64_decode_ctx context;
    size_t decoded = BASE64_DECODE_LENGTH(length);
    AUTO_FREE uint8_t *buffer = malloc(decoded + 1);

    if (!buffer)
        return error_no_memory(error, "%zu bytes of base64", length);
    base64_decode_init(&context);
    if (!base64_decode_update(&context, &decoded, buffer, length, text) ||
        !base64_decode_final(&context))
        return error_set(error, -EINVAL, "the data is not valid base64");
    *bytes = TAKE_POINTER(buffer);
    *size = decoded;
    return 0;
}
