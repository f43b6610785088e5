/* search_rows.h: the rows of tables search_result and search_trial, which hold what is known of the
 * trials of a search, and the mark in its sweep's row that nothing of that is missing. */
#pragma once

#include "daemon/store/store.h"
#include "daemon/types/job_types.h"
#include "daemon/work/sweep_points.h"
#include "proto/json.h"

/* A trial's metric when it came to a rung. */
struct search_row {
    int64_t job;
    uint32_t rung;
    double resource, value; /* value: NAN if it was no number */
    bool passed;
};

/* On the writer: makes rows of what the job has measured at further rungs, and passes them to
 * `take`. Metrics are durable before, and a search that may lack results is looked at again by the
 * next daemon, so each rung gets its result, whenever traind is killed. `*room` falls by one for
 * each row; at 0 more may be left, which another call makes. */
int search_results_add(struct store_connection *connection, const struct search *search,
                       int64_t sweep, int64_t job, unsigned *room,
                       void (*take)(void *data, const struct search_row *row), void *data,
                       struct error *error);
/* Sets `*there` if the job has reported the search's metric, and leaves it otherwise. */
int search_metric_is_there(struct store_connection *connection, const struct search *search,
                           int64_t job, bool *there, struct error *error);
/* Stores that all trials have ended and no result is missing. */
int search_settled_store(struct store_connection *connection, int64_t sweep, struct error *error);
/* Whether that is stored. */
int search_settled_read(struct store_connection *connection, int64_t sweep, bool *settled,
                        struct error *error);
/* Passes all results of the sweep to `take`, in the order in which they came. */
int search_results_read(struct store_connection *connection, int64_t sweep,
                        void (*take)(void *data, const struct search_row *row), void *data,
                        struct error *error);
/* Stores that the trial goes on from its rung. */
int search_passed_store(struct store_connection *connection, int64_t job, uint32_t rung,
                        struct error *error);

/* Passes the jobs of the sweep that exist to `take`, ascending. `stopped`: the search ends it.
 * `values` are those that the search has chosen, or NULL; `take` owns them. */
int search_trials_read(struct store_connection *connection, int64_t sweep,
                       void (*take)(void *data, int64_t job, enum job_state state, bool stopped,
                                    struct json_object *values),
                       void *data, struct error *error);
/* Stores the values that the search has chosen for a trial. */
int search_values_store(struct store_connection *connection, int64_t sweep, int64_t job,
                        const char *values, struct error *error);
/* Stores that the search ends the trial: it counts as no failure of its sweep. */
int search_stopped_store(struct store_connection *connection, int64_t sweep, int64_t job,
                         struct error *error);
/* Deletes all rows of the sweep. */
int search_rows_delete(struct store_connection *connection, int64_t sweep, struct error *error);

/* Passes a Trial of io.traind to `take` for each job of the sweep from `first` on, until that
 * returns false. `take` owns it. `points` are the sweep's. */
int search_trials_list(struct store_connection *connection, int64_t sweep, int64_t first,
                       const struct sweep_points *points,
                       bool (*take)(void *data, struct json_object *trial), void *data,
                       struct error *error);
/* Finds the trial with the best value at the highest rung that any has come to; one that failed
 * only if all have. 0: none has come to a rung. */
int search_best_find(struct store_connection *connection, int64_t sweep,
                     const struct search *search, int64_t *job, struct error *error);
