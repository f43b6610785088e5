/* json.h: includes json-c, and adds strict parsing, text without loss, setters and getters.
 *
 * Ownership follows json-c: json_set*() takes the value's reference; getters return borrowed
 * objects. JSON_AUTO releases a local object at the end of its scope. */
#pragma once

#include "base/cleanup.h"
#include "base/error.h"

#include <json-c/json.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

enum {
    JSON_DEPTH_MAX = 32,           /* levels of nesting in a message or file */
    JSON_MESSAGE_MAX = 1024 * 1024 /* bytes of one message, including its NUL */
};

static inline void json_cleanup(struct json_object **object)
{
    json_object_put(*object);
}
#define JSON_AUTO CLEANUP(json_cleanup)

/* Parses exactly `length` bytes, strictly: RFC 8259, valid UTF-8, depth <= JSON_DEPTH_MAX, no NUL
 * in a string, no duplicate key, finite numbers, integers within int64. The sentence names line and
 * column. Returns 0 and an object that the caller owns, or -EINVAL (-EMSGSIZE: too deep), or
 * -ENOMEM. json-c 0.16 itself crashes if it has no memory for a key. */
int json_parse(const char *text, size_t length, struct json_object **object, struct error *error);

/* json_parse() of a file; the sentence begins with its path. `limit` bounds its bytes. */
int json_parse_file(const char *path, size_t limit, struct json_object **object,
                    struct error *error);

/* Compact text, owned by the object and valid until the object changes. A double gets the fewest
 * digits (17 at most) that read back to the same bits. Without memory the process ends, as in
 * base/memory.h. */
const char *json_text(struct json_object *object, size_t *length);

/* JSON is UTF-8, and an argument or a file's name may be of another encoding: -EILSEQ with a
 * sentence that quotes the string of json_text() which is. */
int json_check_text(const char *text, size_t length, struct error *error);

/* Prints the compact text, or the indented one, and a line break. Characters in strings that
 * text_printable_length() (text.h) refuses become \u escapes. */
void json_print(struct json_object *object, FILE *output);
void json_print_indented(struct json_object *object, FILE *output);

/* Writes a finite double with the fewest digits (17 at most) that read back to the same bits, as
 * json_text() does. JSON_DOUBLE_BYTES are enough for any. Returns `text`. */
enum { JSON_DOUBLE_BYTES = 40 };
char *json_format_double(double value, char *text, size_t size);

/* Setters. Without memory the process ends. A double that is not finite becomes null.
 * json_set_string(…, NULL) sets null. */
void json_set(struct json_object *parent, const char *key, struct json_object *value);
void json_set_string(struct json_object *parent, const char *key, const char *value);
void json_set_int(struct json_object *parent, const char *key, int64_t value);
void json_set_double(struct json_object *parent, const char *key, double value);
void json_set_bool(struct json_object *parent, const char *key, bool value);
struct json_object *json_new_double(double value);

/* Getters. They return `absent` if the member is absent, null or of another type. */
struct json_object *json_get(struct json_object *parent, const char *key); /* absent: NULL */
const char *json_get_string(struct json_object *parent, const char *key, const char *absent);
int64_t json_get_int(struct json_object *parent, const char *key, int64_t absent);
double json_get_double(struct json_object *parent, const char *key, double absent);
bool json_get_bool(struct json_object *parent, const char *key, bool absent);

/* Adds {path: value} of every key below `object` to `to`; a path has dots between its keys, and
 * begins with `prefix` unless that is "". Arrays count as values; null is left out. */
void json_flatten(struct json_object *object, const char *prefix, struct json_object *to);
