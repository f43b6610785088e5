/* protobuf.h: writes messages of Protocol Buffers field by field, and finds a field in one. Event
 * files need six small messages, so this takes the place of a library and of generated code.
 * https://protobuf.dev/programming-guides/encoding/ */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A message under construction; all zero: empty. protobuf_release() frees it. A function without
 * memory sets `failed`, and all later ones do nothing. */
struct protobuf {
    unsigned char *bytes;
    size_t size, capacity;
    bool failed;
};

void protobuf_release(struct protobuf *message);
/* Removes the content, keeps the memory. */
void protobuf_clear(struct protobuf *message);

/* Appends bytes that are no field. */
void protobuf_append(struct protobuf *message, const void *bytes, size_t size);

/* int32, int64, bool, enum */
void protobuf_integer(struct protobuf *message, unsigned field, int64_t value);
void protobuf_double(struct protobuf *message, unsigned field, double value);
void protobuf_float(struct protobuf *message, unsigned field, float value);
/* string, bytes, and messages within a message */
void protobuf_bytes(struct protobuf *message, unsigned field, const void *bytes, size_t size);
void protobuf_text(struct protobuf *message, unsigned field, const char *text);
void protobuf_message(struct protobuf *message, unsigned field, const struct protobuf *inner);

/* Finds the first field of that number that has bytes: a string or a message. False: there is none,
 * or the message is damaged. `*found` points into `bytes`. */
bool protobuf_find(const unsigned char *bytes, size_t size, unsigned field,
                   const unsigned char **found, size_t *length);
