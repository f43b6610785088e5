/* job_spec.h: the job specification. One table (job_spec_schema.c) holds every key with its type,
 * range, default and one line of help; validation, `trainctl help spec` and docs/job-spec.md all
 * read it. */
#pragma once

#include "base/error.h"
#include "proto/json.h"

/* Specifications of one SubmitMany: one transaction, for which others wait. */
enum { SUBMIT_MANY_MAX = 4096 };

/* Where a specification is wrong. */
struct job_spec_fault {
    char path[256];   /* "train.optimizer.lr"; "" for the whole */
    char nearest[64]; /* the nearest valid key or value, "" when there is none */
};

/* Checks `spec` against the schema (unknown keys, types, ranges, what excludes or needs what) and
 * makes the normalised specification: every default filled in, numbers where text was allowed
 * ("500 ms"). The caller owns it. On failure -EINVAL with a sentence that names the path, what was
 * found, what is valid, and the nearest valid key; `fault` (may be NULL) has the parts. */
int job_spec_normalise(struct json_object *spec, struct json_object **normalised,
                       struct job_spec_fault *fault, struct error *error);

/* Checks a value as a specification's key of that name (which exists, outside of any section) would
 * be, for calls that take the same on its own. 0, or -EINVAL with the same sentence. */
int job_spec_check_value(const char *name, struct json_object *value, struct error *error);

/* Whether the specification is a command job. */
bool job_spec_is_command(struct json_object *spec);

/* Applies one `path=value` (trainctl --set) to `spec` in place: the value is JSON where it parses,
 * else a string; missing objects on the way are made. */
int job_spec_set(struct json_object *spec, const char *assignment, struct error *error);

/* Leaves out of a normalised specification, in place, what normalising it puts there again: so that
 * a key can be set on which others depend (train.optimizer.name). One that another version has
 * normalised, whose defaults were others, stays as it is. */
void job_spec_drop_defaults(struct json_object *spec);

/* SHA-256 (hexadecimal, 65 bytes with NUL) over what decides the plan: model, data and train of the
 * normalised specification, in canonical key order, and its directory. */
void job_spec_plan_digest(struct json_object *normalised, char digest[65]);

/* The same over what makes two runs of a command alike: its words, its directory, how many devices
 * it uses, and its environment but for PATH and LANG, which differ between the terminals of one
 * user. */
void job_spec_command_digest(struct json_object *normalised, char digest[65]);

/* Prints the table of keys: for a terminal, or as the Markdown of docs/job-spec.md. */
enum job_spec_help { JOB_SPEC_HELP_TEXT, JOB_SPEC_HELP_MARKDOWN };
void job_spec_print_help(enum job_spec_help form, FILE *output);
/* Prints the path of every key, one a line, without those of the objects in lists. */
void job_spec_print_keys(FILE *output);
/* Prints what `key` names, for a terminal: a key by its path, all keys of a section, else those
 * whose path has `key` in it. How many it were. */
int job_spec_print_key_help(const char *key, FILE *output);
