/* data_spec.h: a specification that learns from given data, chosen among those that `traind-worker
 * inspect` suggests. */
#pragma once

#include "base/error.h"
#include "proto/json.h"

/* What `traind-worker inspect PATH` prints; `target`: a column, NULL: the likeliest. The caller
 * owns it. -EINVAL with a sentence that says what to do. */
int data_spec_inspect(const char *path, const char *target, struct json_object **inspection,
                      struct error *error);
/* The same with `--measure` of the task, for at most `seconds`, as text; NULL: the usual time. */
int data_spec_measure(const char *path, const char *target, const char *task, const char *seconds,
                      struct json_object **inspection, struct error *error);

/* The names of the different values of `key` ("task", "model") among the choices whose task is
 * `task` (NULL: any), in their order; at most `most`. Returns their number. */
int data_spec_words(struct json_object *choices, const char *task, const char *key,
                    const char *words[], int most);

/* The first choice of the task and the model; NULL: there is none. */
struct json_object *data_spec_find(struct json_object *choices, const char *task,
                                   const char *model);

enum data_spec_length { DATA_SPEC_QUICK, DATA_SPEC_USUAL, DATA_SPEC_LONG, DATA_SPEC_LENGTHS };
extern const char *const data_spec_lengths[DATA_SPEC_LENGTHS]; /* "quick", "usual", "long" */

/* The epochs or steps of a choice, as text: "50 epochs". */
void data_spec_length_format(struct json_object *choice, enum data_spec_length length, char *text,
                             size_t size);

/* The specification of a choice, with a name, and the present folder as the one that its paths
 * begin in. The caller owns it. */
int data_spec_make(struct json_object *choice, const char *path, enum data_spec_length length,
                   struct json_object **spec, struct error *error);

/* A name for a job, and a file, that learns from the data at `path`: "iris" of "data/iris.csv". It
 * is UTF-8 without control characters; "job" where `path` gives none. */
void data_spec_name(const char *path, char *name, size_t size);
