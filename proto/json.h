/* json.h: the door to json-c for every room that speaks JSON, and the few helpers they share.
 *
 * Ownership follows json-c: an object given to json_set*() belongs to its parent from then on; a
 * getter lends. JSON_AUTO releases a local object at the end of its scope. */
#pragma once

#include "base/cleanup.h"
#include "base/error.h"

#include <json-c/json.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

enum {
    JSON_DEPTH_MAX = 32,           /* nesting that a message or file may have */
    JSON_MESSAGE_MAX = 1024 * 1024 /* bytes of one message, its NUL included */
};

static inline void json_cleanup(struct json_object **object)
{
    json_object_put(*object);
}
#define JSON_AUTO CLEANUP(json_cleanup)

/* Strict parse of exactly `length` bytes: RFC 8259, valid UTF-8, depth <= JSON_DEPTH_MAX, no NUL in
 * a string, no duplicate key, numbers finite and integers within int64. The sentence names line and
 * column. 0 and an object that the caller owns, or -EINVAL (-EMSGSIZE for depth). */
int json_parse(const char *text, size_t length, struct json_object **object, struct error *error);

/* json_parse() of a file; the sentence begins with its path. `limit` bounds its bytes. */
int json_parse_file(const char *path, size_t limit, struct json_object **object,
                    struct error *error);

/* Compact text; belongs to the object and lives until it changes. Doubles are printed so that they
 * read back to the same bits (17 significant digits at most, the shortest that does it). */
const char *json_text(struct json_object *object, size_t *length);

/* Prints the compact text, or the indented one, and a line break. Inside of strings,
 * characters that must not reach a terminal as they are (text.h,
 * text_printable_length()) become \u escapes. */
void json_print(struct json_object *object, FILE *output);
void json_print_indented(struct json_object *object, FILE *output);

/* Setters. A double that is not finite becomes null. json_set_string(…, NULL) sets null. */
void json_set(struct json_object *parent, const char *key, struct json_object *value);
void json_set_string(struct json_object *parent, const char *key, const char *value);
void json_set_int(struct json_object *parent, const char *key, int64_t value);
void json_set_double(struct json_object *parent, const char *key, double value);
void json_set_bool(struct json_object *parent, const char *key, bool value);
struct json_object *json_new_double(double value);

/* Getters with a default for an absent or null member, or one of another type. */
struct json_object *json_get(struct json_object *parent, const char *key); /* NULL when absent */
const char *json_get_string(struct json_object *parent, const char *key, const char *absent);
int64_t json_get_int(struct json_object *parent, const char *key, int64_t absent);
double json_get_double(struct json_object *parent, const char *key, double absent);
bool json_get_bool(struct json_object *parent, const char *key, bool absent);
