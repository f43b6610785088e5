/* job_spec_value.h: checks one value of a job specification against its row of the table, and rules
 * between keys. Only the files that implement job_spec.h include it. */
#pragma once

#include "proto/job_spec.h"
#include "proto/job_spec_schema.h"

/* The state of one job_spec_normalise(). */
struct job_spec_check {
    char path[sizeof((struct job_spec_fault *)0)->path]; /* of the key that is being checked */
    struct job_spec_fault *fault;                        /* may be NULL */
    struct error *error;
};

/* Appends to the path and returns its former length; the caller cuts the path back to that
 * length. */
size_t job_spec_path_push(struct job_spec_check *check, const char *separator, const char *name);
size_t job_spec_path_push_index(struct job_spec_check *check, size_t index);

/* Fills the fault (`nearest` may be NULL) and the sentence; returns -EINVAL. */
int job_spec_fail(struct job_spec_check *check, const char *nearest, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* The same with a sentence as it stands, for the key at `path`. */
int job_spec_fail_at(struct job_spec_check *check, const char *path, const char *sentence);
/* "<path> is <value>; it must be <description>" */
int job_spec_fail_value(struct job_spec_check *check, const struct job_spec_key *key,
                        struct json_object *value);

/* Checks a value that is not null and makes its normalised form, which the caller owns. Handles all
 * types except JOB_SPEC_OBJECT and JOB_SPEC_OBJECTS. */
int job_spec_value_normalise(struct job_spec_check *check, const struct job_spec_key *key,
                             struct json_object *value, struct json_object **normalised);

/* The same for JOB_SPEC_DEPENDENCIES (job_spec_dependencies.c). */
int job_spec_dependencies_normalise(struct job_spec_check *check, const struct job_spec_key *key,
                                    struct json_object *value, struct json_object **normalised);

/* Checks rules that no single row can express: keys of a native job that need or exclude each
 * other. `spec` is the user's specification. `normalised` has passed the table; defaults that
 * depend on other keys are set in it. */
int job_spec_rules_check(struct job_spec_check *check, struct json_object *spec,
                         struct json_object *normalised);
/* The part of it on the samples that train and validate (job_spec_samples.c). `has_classes`: each
 * sample has one class; else `words` says what the samples have, such as "values". */
int job_spec_samples_check(struct job_spec_check *check, struct json_object *normalised,
                           bool has_classes, const char *words);
/* The part of it on the loss (job_spec_loss.c). Refuses a setting of a loss that the model has
 * not. */
int job_spec_loss_check_keys(struct job_spec_check *check, struct json_object *model);
/* Checks that loss and heads go together, and that the heads' names differ. With heads and no loss
 * `given` the loss is that of the heads. */
int job_spec_loss_check_heads(struct job_spec_check *check, struct json_object *given,
                              struct json_object *model);
/* Whether the model's loss compares values. */
bool job_spec_loss_is_of_values(struct json_object *model);
/* The part of it on metrics (job_spec_metrics.c): those of the list train.metrics, and those that
 * early stops, schedules and checkpoints go by. */
int job_spec_metrics_check_list(struct job_spec_check *check, struct json_object *normalised);
int job_spec_metrics_check(struct job_spec_check *check, struct json_object *normalised);
/* Sets checkpoint.best if the specification does not. The metric is the one by which an early stop
 * restores the best weights, so a run's results and its exports have the same weights. */
void job_spec_metrics_default_best(struct json_object *spec, struct json_object *normalised);
/* Says in words what the job has to predict. Whether each sample has one class. */
bool job_spec_task_find(struct json_object *normalised, const char **words);

/* The traits of a data format (data_formats.h); 0: there is none of this name. */
unsigned job_spec_format_traits(const char *name);
/* job_spec_rules_check() for a command job. */
int job_spec_rules_check_command(struct job_spec_check *check, struct json_object *spec,
                                 struct json_object *normalised);
