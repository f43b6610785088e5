/* protobuf.c: see protobuf.h. */
#include "client/exports/protobuf.h"

#include <stdlib.h>
#include <string.h>

/* The wire type is the lowest three bits of a field's tag. */
enum wire_type { WIRE_VARINT = 0, WIRE_64_BITS = 1, WIRE_BYTES = 2, WIRE_32_BITS = 5 };
enum { FIELD_SHIFT = 3, WIRE_MASK = 7, VARINT_BITS = 7, VARINT_MORE = 0x80 };

void protobuf_release(struct protobuf *message)
{
    free(message->bytes);
    *message = (struct protobuf){0};
}

void protobuf_clear(struct protobuf *message)
{
    message->size = 0;
    message->failed = false;
}

void protobuf_append(struct protobuf *message, const void *bytes, size_t size)
{
    if (message->failed || size == 0)
        return;
    if (size > message->capacity - message->size) {
        size_t capacity = 2 * message->capacity + size;
        unsigned char *grown = realloc(message->bytes, capacity);

        if (!grown) {
            message->failed = true;
            return;
        }
        message->bytes = grown;
        message->capacity = capacity;
    }
    memcpy(message->bytes + message->size, bytes, size);
    message->size += size;
}

static void varint_append(struct protobuf *message, uint64_t value)
{
    unsigned char bytes[10];
    size_t size = 0;

    for (; value >= VARINT_MORE; value >>= VARINT_BITS)
        bytes[size++] = (unsigned char)(value | VARINT_MORE);
    bytes[size++] = (unsigned char)value;
    protobuf_append(message, bytes, size);
}

static void tag_append(struct protobuf *message, unsigned field, enum wire_type type)
{
    varint_append(message, (uint64_t)field << FIELD_SHIFT | type);
}

static void little_endian_append(struct protobuf *message, uint64_t value, size_t size)
{
    unsigned char bytes[8];

    for (size_t i = 0; i < size; i++)
        bytes[i] = (unsigned char)(value >> 8 * i);
    protobuf_append(message, bytes, size);
}

void protobuf_integer(struct protobuf *message, unsigned field, int64_t value)
{
    tag_append(message, field, WIRE_VARINT);
    varint_append(message, (uint64_t)value);
}

void protobuf_double(struct protobuf *message, unsigned field, double value)
{
    uint64_t bits;

    memcpy(&bits, &value, sizeof bits);
    tag_append(message, field, WIRE_64_BITS);
    little_endian_append(message, bits, sizeof bits);
}

void protobuf_float(struct protobuf *message, unsigned field, float value)
{
    uint32_t bits;

    memcpy(&bits, &value, sizeof bits);
    tag_append(message, field, WIRE_32_BITS);
    little_endian_append(message, bits, sizeof bits);
}

void protobuf_bytes(struct protobuf *message, unsigned field, const void *bytes, size_t size)
{
    tag_append(message, field, WIRE_BYTES);
    varint_append(message, size);
    protobuf_append(message, bytes, size);
}

void protobuf_text(struct protobuf *message, unsigned field, const char *text)
{
    protobuf_bytes(message, field, text, strlen(text));
}

void protobuf_message(struct protobuf *message, unsigned field, const struct protobuf *inner)
{
    protobuf_bytes(message, field, inner->bytes, inner->size);
    message->failed = message->failed || inner->failed;
}

/* ---- reading --------------------------------------------------------------------------------- */

/* Reads a varint and moves `*at` behind it. False: the message ends within it. */
static bool varint_read(const unsigned char *bytes, size_t size, size_t *at, uint64_t *value)
{
    *value = 0;
    for (unsigned shift = 0; shift < 64 && *at < size; shift += VARINT_BITS) {
        unsigned char byte = bytes[(*at)++];

        *value |= (uint64_t)(byte & ~VARINT_MORE) << shift;
        if (!(byte & VARINT_MORE))
            return true;
    }
    return false;
}

bool protobuf_find(const unsigned char *bytes, size_t size, unsigned field,
                   const unsigned char **found, size_t *length)
{
    uint64_t tag, value;

    for (size_t at = 0; varint_read(bytes, size, &at, &tag);) {
        enum wire_type type = tag & WIRE_MASK;

        if (type == WIRE_VARINT) {
            if (!varint_read(bytes, size, &at, &value))
                return false;
            continue;
        }
        if (type == WIRE_64_BITS)
            value = 8;
        else if (type == WIRE_32_BITS)
            value = 4;
        else if (type != WIRE_BYTES || !varint_read(bytes, size, &at, &value))
            return false;
        if (value > size - at)
            return false;
        if (type == WIRE_BYTES && tag >> FIELD_SHIFT == field) {
            *found = bytes + at;
            *length = value;
            return true;
        }
        at += value;
    }
    return false;
}
