/* event_file.h: a file of TensorBoard's events. Each event is a record: its length, a checksum of
 * the length, the message Event, a checksum of the message (TFRecord:
 * https://www.tensorflow.org/tutorials/load_data/tfrecord). Messages are TensorFlow's event.proto
 * and summary.proto.
 *
 * Events are written in batches. A batch ends with a mark, an event that viewers skip: it says
 * which rows of the job's metrics the file holds. Whoever opens the file again finds the last mark,
 * cuts off what an interrupted write left behind it, and goes on from there. */
#pragma once

#include "base/error.h"
#include "client/exports/protobuf.h"

#include <stdbool.h>
#include <stdint.h>

/* What the file holds. */
struct event_mark {
    int64_t job;
    int64_t cursor;  /* of the method Metrics: all rows up to this one */
    int64_t attempt; /* that measured the last of these rows; 0: there is no row */
    int64_t values;  /* how many rows that are */
    bool ended;      /* the job has ended, and the file says how */
};

struct event_file {
    int descriptor; /* locked; -1: closed */
    char *path;     /* owned */
    int64_t size;   /* up to the last mark */
    struct event_mark mark;
    struct protobuf pending;        /* records that are not written yet */
    struct protobuf event, summary; /* kept for their memory */
    struct protobuf value;
};

/* Opens the job's file, or creates it; `time`, seconds since the epoch, dates its first event. A
 * file of size 0 is new: the caller writes its head. -EBUSY: another process writes it. -EINVAL: no
 * event file of that job. On failure the file is closed. */
int event_file_open(struct event_file *file, char *path, int64_t job, double time,
                    struct error *error);
void event_file_close(struct event_file *file);

/* Each of these appends an event to the batch. */
void event_file_add_scalar(struct event_file *file, const char *tag, int64_t step, double time,
                           double value);
/* Text in Markdown. */
void event_file_add_text(struct event_file *file, const char *tag, double time, const char *text);
/* Data of a plugin without a value of its own, in the form of the plugin. */
void event_file_add_plugin_data(struct event_file *file, const char *tag, const char *plugin,
                                double time, const struct protobuf *data);
/* A restart: viewers drop what the file holds of `step` and later ones. */
void event_file_add_restart(struct event_file *file, int64_t step, double time);

/* Writes the batch and `mark`. On failure the file keeps its content, and the batch is lost. */
int event_file_commit(struct event_file *file, const struct event_mark *mark, double time,
                      struct error *error);
