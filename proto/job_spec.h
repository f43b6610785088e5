/* job_spec.h: the job specification. One table (job_spec_schema*.c) holds every key with its type,
 * range, default and one line of help. Validation, `trainctl help spec` and docs/job-spec.md use
 * it. */
#pragma once

#include "base/error.h"
#include "proto/json.h"

/* Specifications in one SubmitMany. They are one transaction, and other requests wait for it. */
enum { SUBMIT_MANY_MAX = 4096 };

/* The most epochs that there may be: nothing but max_steps, or a person, ends the training. */
enum { JOB_SPEC_EPOCHS_MAX = 1000000 };

/* Where a specification is wrong. */
struct job_spec_fault {
    char path[256];   /* "train.optimizer.lr"; "" for the whole */
    char nearest[64]; /* the nearest valid key or value; "": none is near */
};

/* Checks `spec` against the schema: unknown keys, types, ranges, and keys that need or exclude each
 * other. Makes the normalised specification, which has every default filled in and numbers in place
 * of text such as "500 ms". The caller owns it. On failure returns -EINVAL with a sentence that
 * names the path, the value found, what is valid, and the nearest valid key. `fault` (may be NULL)
 * gets path and nearest key. */
int job_spec_normalise(struct json_object *spec, struct json_object **normalised,
                       struct job_spec_fault *fault, struct error *error);

/* Checks a value as job_spec_normalise() checks the top-level key `name`, which must exist. For
 * calls that take such a value as a parameter. 0, or -EINVAL with the same sentence. */
int job_spec_check_value(const char *name, struct json_object *value, struct error *error);

/* Whether the specification is a command job. */
bool job_spec_is_command(struct json_object *spec);

/* Applies one `path=value` (trainctl --set) to `spec` in place: the value is JSON if it parses,
 * else a string. A number below environment or shell_environment becomes a string of the same
 * characters. Creates missing objects on the path. Another command or directory drops
 * device.guess. */
int job_spec_set(struct json_object *spec, const char *assignment, struct error *error);

/* Applies `changes` to `spec` in place, as a JSON Merge Patch (RFC 7386) does: members of objects
 * are changed one by one, every other value is replaced. null asks for the key's default; in an
 * object of variables it removes the variable. Another command or directory drops device.guess,
 * unless the changes have one. */
void job_spec_merge(struct json_object *spec, struct json_object *changes);

/* Writes the value of the key `path` as people do: a duration "2 h", a size "4.0 GiB", a time of
 * day in local time, a text without quotes, null as "none", anything else as JSON. It is cut with
 * "…" if it does not fit into `size` bytes. Returns `output`. */
char *job_spec_format_value(const char *path, struct json_object *value, char *output, size_t size);

/* Removes from a normalised specification, in place, the values that normalising would add again. A
 * caller can then set a key that decides other defaults (train.optimizer.name). A specification
 * that another version normalised with other defaults stays as it is. */
void job_spec_drop_defaults(struct json_object *spec);

/* SHA-256 (hexadecimal, 65 bytes with NUL) of what decides the plan: the normalised specification's
 * model, data and train, in canonical key order, and its directory. */
void job_spec_plan_digest(struct json_object *normalised, char digest[65]);

/* The same for a command job: its words, its directory, how many devices it uses, and its
 * environment without PATH and LANG, which differ between one user's terminals. Runs with the same
 * digest count as runs of the same command. */
void job_spec_command_digest(struct json_object *normalised, char digest[65]);

/* Prints the table of keys: for a terminal, or as the Markdown of docs/job-spec.md. */
enum job_spec_help { JOB_SPEC_HELP_TEXT, JOB_SPEC_HELP_MARKDOWN };
void job_spec_print_help(enum job_spec_help form, FILE *output);
/* Prints the path of every key, one per line, except keys of objects in lists. */
void job_spec_print_keys(FILE *output);
/* Prints the help of the keys that `key` names, for a terminal. These are the key with that path,
 * all keys of that section, or otherwise the keys whose path contains `key`. Returns how many keys
 * it printed. */
int job_spec_print_key_help(const char *key, FILE *output);
