/* tensorboard.h: writes the metrics of a job as a run of TensorBoard: a folder NUMBER-NAME with one
 * event file, to which later exports append. */
#pragma once

#include "base/error.h"
#include "client/exports/event_file.h"
#include "proto/json.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct tensorboard_run {
    struct event_file file;
    char *folder; /* owned */
    int64_t job;
    struct event_mark next; /* what the file holds after the next commit */
    double time;            /* of the last row, or of the submission */
};

/* Opens the job's run below `directory`, which is created if it is missing, or goes on with the one
 * that an earlier export began. `shown`: the reply of Show. `hyperparameters`: {name: number, text
 * or boolean}, borrowed. Errors as of event_file_open(). */
int tensorboard_open(struct tensorboard_run *run, const char *directory, struct json_object *shown,
                     struct json_object *hyperparameters, struct error *error);
void tensorboard_close(struct tensorboard_run *run);

/* Writes an array of rows of Metrics that lie behind run->next.cursor; `cursor` is that behind
 * them. `shown`: a reply of Show, not older than the rows. */
int tensorboard_write(struct tensorboard_run *run, struct json_object *rows, int64_t cursor,
                      struct json_object *shown, struct error *error);

/* Writes how the job ended, if it has ended and the file does not say so. All rows must have been
 * written. */
int tensorboard_end(struct tensorboard_run *run, struct json_object *shown, struct error *error);

/* TensorBoard groups tags by what stands before a slash: train_loss becomes train/loss, and so with
 * validation_, val_, test_, last_test_ and eval_. A name with a slash stays as it is. Returns
 * `tag`. */
char *tensorboard_tag(const char *name, char *tag, size_t size);
