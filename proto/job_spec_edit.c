/* job_spec_edit.c: sets a key by its path, merges changes, formats values, removes defaults, and
 * computes digests; see job_spec.h. */
#include "base/cleanup.h"
#include "base/sha256.h"
#include "base/text.h"
#include "proto/job_spec.h"
#include "proto/job_spec_schema.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* ---- set ----------------------------------------------------------------------------------- */

/* One step of a path: a key, with an index or without. */
struct path_step {
    const char *key;
    long index; /* -1: none */
};

static int set_fail(const char *path, const char *what, struct error *error)
{
    char shown[128];

    return error_set(error, -EINVAL, "%s: %s", text_escape_controls(path, shown, sizeof shown),
                     what);
}

/* Splits "layers[2]" in place. */
static int step_parse(char *word, struct path_step *step)
{
    char *bracket = strchr(word, '['), *end;

    *step = (struct path_step){.key = word, .index = -1};
    if (bracket) {
        if (!isdigit((unsigned char)bracket[1]))
            return -EINVAL;
        step->index = strtol(bracket + 1, &end, 10);
        if (strcmp(end, "]") != 0 || step->index > INT_MAX)
            return -EINVAL;
        *bracket = '\0';
    }
    return *word ? 0 : -EINVAL;
}

/* The object that the step leads to, created if it is absent. NULL: another value is there. */
static struct json_object *step_enter(struct json_object *parent, const struct path_step *step)
{
    struct json_object *child = json_get(parent, step->key);

    if (step->index >= 0) {
        if (!json_object_is_type(child, json_type_array) ||
            (size_t)step->index >= json_object_array_length(child))
            return NULL;
        child = json_object_array_get_idx(child, (size_t)step->index);
    } else if (!child) {
        child = json_object_new_object();
        json_set(parent, step->key, child);
    }
    return json_object_is_type(child, json_type_object) ? child : NULL;
}

/* Takes over `value`, also on failure. */
static int step_assign(struct json_object *parent, const struct path_step *step,
                       struct json_object *value)
{
    struct json_object *child;

    if (step->index < 0) {
        json_set(parent, step->key, value);
        return 0;
    }
    child = json_get(parent, step->key);
    if (!json_object_is_type(child, json_type_array) ||
        (size_t)step->index >= json_object_array_length(child)) {
        json_object_put(value);
        return -EINVAL;
    }
    json_object_array_put_idx(child, (size_t)step->index, value);
    return 0;
}

/* Whether the key is a variable of the environment, which is a text. */
static bool is_variable(const char *path)
{
    return strncmp(path, "environment.", 12) == 0 || strncmp(path, "shell_environment.", 18) == 0;
}

/* The value of an assignment; the caller owns it. */
static struct json_object *value_parse(const char *path, const char *text)
{
    struct json_object *value = NULL;

    if (json_parse(text, strlen(text), &value, NULL) < 0)
        return json_object_new_string(text);
    if (is_variable(path) && (json_object_is_type(value, json_type_int) ||
                              json_object_is_type(value, json_type_double))) {
        json_object_put(value);
        value = json_object_new_string(text);
    }
    return value;
}

/* What was seen of one command says nothing of another one. `path`: what has changed. */
static void guess_forget(struct json_object *spec, const char *path)
{
    static const char *const keys[] = {"command", "directory"};
    struct json_object *device = json_get(spec, "device");
    size_t length = strcspn(path, ".[");

    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (json_object_is_type(device, json_type_object) && strlen(keys[i]) == length &&
            strncmp(path, keys[i], length) == 0) {
            json_object_object_del(device, "guess");
            json_object_object_del(device, "guess_reason");
        }
}

int job_spec_set(struct json_object *spec, const char *assignment, struct error *error)
{
    const char *sign = strchr(assignment, '=');
    AUTO_FREE char *path = NULL, *words = NULL;
    struct json_object *at = spec;
    struct path_step step;
    char *dot, *word;

    if (!json_object_is_type(spec, json_type_object))
        return error_set(error, -EINVAL, "a job specification has to be a JSON object");
    if (!sign || sign == assignment)
        return set_fail(assignment, "an assignment looks like train.epochs=20", error);
    path = strndup(assignment, (size_t)(sign - assignment));
    words = path ? strdup(path) : NULL;
    if (!words)
        return error_set(error, -ENOMEM, "out of memory");
    if (!text_is_utf8(assignment, strlen(assignment)))
        return set_fail(path, "this is not valid UTF-8", error);
    for (word = words; (dot = strchr(word, '.')); word = dot + 1) {
        *dot = '\0';
        if (step_parse(word, &step) < 0)
            return set_fail(path, "a path looks like train.epochs or model.layers[0].features",
                            error);
        at = step_enter(at, &step);
        if (!at)
            return set_fail(path, "the specification has no object there to set a key of", error);
    }
    if (step_parse(word, &step) < 0)
        return set_fail(path, "a path looks like train.epochs or model.layers[0].features", error);
    if (step_assign(at, &step, value_parse(path, sign + 1)) < 0)
        return set_fail(path, "the specification has no such element", error);
    guess_forget(spec, path);
    return 0;
}

/* ---- merge --------------------------------------------------------------------------------- */

/* `variables`: null removes a member; elsewhere the schema gives null its meaning. */
static void merge(struct json_object *target, struct json_object *changes, bool variables)
{
    json_object_object_foreach (changes, key, value) {
        struct json_object *present = json_get(target, key);

        if (!value && variables)
            json_object_object_del(target, key);
        else if (json_object_is_type(value, json_type_object) &&
                 json_object_is_type(present, json_type_object))
            merge(present, value,
                  strcmp(key, "environment") == 0 || strcmp(key, "shell_environment") == 0);
        else
            json_set(target, key, json_object_get(value));
    }
}

void job_spec_merge(struct json_object *spec, struct json_object *changes)
{
    json_object_object_foreach (changes, key, value)
        if (!json_object_equal(value, json_get(spec, key)))
            guess_forget(spec, key);
    merge(spec, changes, false);
}

/* ---- values -------------------------------------------------------------------------------- */

/* The key with that path; NULL: there is none. */
static const struct job_spec_key *key_at(const char *path)
{
    const struct job_spec_section *section = &job_spec_schema;
    const struct job_spec_key *key = NULL;
    char name[64];

    while (section && *path) {
        size_t length = strcspn(path, ".");

        snprintf(name, sizeof name, "%.*s", (int)length, path);
        key = job_spec_key_find(section, name);
        section = key ? key->section : NULL;
        path += length + (path[length] == '.');
    }
    return *path ? NULL : key;
}

/* Seconds since the epoch as local time. */
static char *format_moment(double seconds, char *output, size_t size)
{
    time_t whole = (time_t)seconds;
    struct tm parts;

    if (!localtime_r(&whole, &parts) || !strftime(output, size, "%F %T %Z", &parts))
        snprintf(output, size, "%.0f", seconds);
    return output;
}

char *job_spec_format_value(const char *path, struct json_object *value, char *output, size_t size)
{
    static const char ellipsis[] = "…";
    const struct job_spec_key *key = key_at(path);
    char number[64];
    const char *text;
    size_t kept;

    if (!value)
        text = "none";
    else if (strcmp(path, "at") == 0 || strcmp(path, "put_first") == 0)
        text = format_moment(json_object_get_double(value), number, sizeof number);
    else if (key && key->type == JOB_SPEC_DURATION)
        text = text_format_duration(json_object_get_double(value), number, sizeof number);
    else if (key && key->type == JOB_SPEC_BYTES)
        text = text_format_bytes((uint64_t)json_object_get_int64(value), number, sizeof number);
    else if (json_object_is_type(value, json_type_string))
        text = json_object_get_string(value);
    else
        text = json_text(value, NULL);
    snprintf(output, size, "%s", text);
    if (strlen(text) >= size && size > sizeof ellipsis) {
        kept = text_utf8_prefix(output, size - sizeof ellipsis);
        strcpy(output + kept, ellipsis);
    }
    return output;
}

/* ---- defaults ------------------------------------------------------------------------------ */

/* Whether normalising `spec` gives `normalised`. */
static bool says_the_same(struct json_object *spec, struct json_object *normalised)
{
    JSON_AUTO struct json_object *own = NULL;
    struct error error;

    return job_spec_normalise(spec, &own, NULL, &error) == 0 && json_object_equal(own, normalised);
}

/* Removes each key of `object` (a part of `spec`) that normalising adds again; then does the same
 * in the objects that remain. */
static void defaults_drop(struct json_object *spec, struct json_object *object,
                          struct json_object *normalised)
{
    JSON_AUTO struct json_object *names = json_object_new_array();

    json_object_object_foreach (object, name, unused) {
        (void)unused;
        json_object_array_add(names, json_object_new_string(name));
    }
    for (size_t i = 0; i < json_object_array_length(names); i++) {
        const char *key = json_object_get_string(json_object_array_get_idx(names, i));
        struct json_object *value = json_object_get(json_get(object, key));

        json_object_object_del(object, key);
        if (says_the_same(spec, normalised)) {
            json_object_put(value);
            continue;
        }
        json_set(object, key, value);
        if (json_object_is_type(value, json_type_object))
            defaults_drop(spec, value, normalised);
    }
}

void job_spec_drop_defaults(struct json_object *spec)
{
    JSON_AUTO struct json_object *normalised = NULL;

    if (json_object_deep_copy(spec, &normalised, NULL) == 0 && says_the_same(spec, normalised))
        defaults_drop(spec, spec, normalised);
}

/* ---- digest -------------------------------------------------------------------------------- */

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Hashes compact JSON with the keys of every object in strcmp() order. */
static void canonical_add(struct sha256 *hash, struct json_object *value)
{
    size_t length, count = 0;
    const char *text;

    if (json_object_is_type(value, json_type_object)) {
        AUTO_FREE const char **names =
            calloc((size_t)json_object_object_length(value) + 1, sizeof *names);

        if (!names)
            abort();
        json_object_object_foreach (value, key, unused) {
            (void)unused;
            names[count++] = key;
        }
        qsort(names, count, sizeof *names, compare_names);
        sha256_add(hash, "{", 1);
        for (size_t i = 0; i < count; i++) {
            sha256_add(hash, names[i], strlen(names[i]) + 1);
            canonical_add(hash, json_get(value, names[i]));
        }
        sha256_add(hash, "}", 1);
    } else if (json_object_is_type(value, json_type_array)) {
        sha256_add(hash, "[", 1);
        for (size_t i = 0; i < json_object_array_length(value); i++) {
            canonical_add(hash, json_object_array_get_idx(value, i));
            sha256_add(hash, ",", 1);
        }
        sha256_add(hash, "]", 1);
    } else {
        text = json_text(value, &length);
        sha256_add(hash, text, length + 1);
    }
}

void job_spec_plan_digest(struct json_object *normalised, char digest[65])
{
    static const char *const keys[] = {"data", "directory", "model", "train"};
    struct sha256 hash;

    sha256_begin(&hash);
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        sha256_add(&hash, keys[i], strlen(keys[i]) + 1);
        canonical_add(&hash, json_get(normalised, keys[i]));
    }
    if (json_get(normalised, "weights")) { /* else the digest is that of earlier versions */
        sha256_add(&hash, "weights", sizeof "weights");
        canonical_add(&hash, json_get(normalised, "weights"));
    }
    sha256_end(&hash, digest);
}

void job_spec_command_digest(struct json_object *normalised, char digest[65])
{
    static const char *const keys[] = {"command", "directory"};
    struct json_object *environment = json_get(normalised, "environment");
    JSON_AUTO struct json_object *variables = json_object_new_object();
    struct sha256 hash;

    sha256_begin(&hash);
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        canonical_add(&hash, json_get(normalised, keys[i]));
    canonical_add(&hash, json_get(json_get(normalised, "resources"), "devices"));
    if (environment) {
        json_object_object_foreach (environment, name, value) {
            if (strcmp(name, "PATH") != 0 && strcmp(name, "LANG") != 0)
                json_set(variables, name, json_object_get(value));
        }
    }
    canonical_add(&hash, variables);
    sha256_end(&hash, digest);
}
