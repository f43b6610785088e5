/* worker_events.h: reports a training run's events as records in the spool, or as lines for a
 * person. */
#pragma once

#include "engine/train/training.h"
#include "worker/trainee/worker_report.h"

struct worker_events {
    struct worker_report *report;
    int64_t epochs, steps; /* of the whole run */
    /* Called at the end of the first step; NULL: not called. */
    void (*first_step)(void *context);
    void *first_step_context;
    const char *folder; /* the checkpoint folder's name, with which paths in records begin */
};

/* The callbacks for training_run(); `events` must outlive the run. */
struct training_events worker_events_callbacks(struct worker_events *events);

/* {"metric", "value", "step", "epoch"}; NULL: no value was measured yet. */
struct json_object *worker_best_json(const struct tracker *best);
struct json_object *worker_values_json(const struct training_values *values);

/* A `warning` record, or a line for a person. */
int worker_events_warning(struct worker_events *events, const char *message, struct error *error);

/* The `result` record, or the closing table. `startup` (worker_startup_json()) is taken over. */
int worker_events_result(struct worker_events *events, const struct training_result *result,
                         const struct tracker *best, struct json_object *startup,
                         struct error *error);
