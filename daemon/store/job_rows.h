/* job_rows.h: rows of the store as the types of io.traind. The readers run on a storage thread;
 * what they make belongs to the caller, who may pass it on to the loop. */
#pragma once

#include "daemon/store/store.h"
#include "daemon/types/job_types.h"
#include "proto/json.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* The Job `id`, with the last value of each metric. Members that only the loop knows are null:
 * job_view_add_progress() of methods/ has them. -ERROR_NO_SUCH_JOB when there is none. */
int job_row_find(struct store_connection *connection, int64_t id, struct json_object **job,
                 struct error *error);

/* Whose the job is, or the sweep of which it is a point to come. 0: there is no such job. */
int job_owner_read(struct store_connection *connection, int64_t id, uid_t *owner,
                   struct error *error);

/* 1: there is a job of that id; 0: there is none. */
int job_row_exists(struct store_connection *connection, int64_t id, struct error *error);

/* 0: there is no such row. */
int job_state_read(struct store_connection *connection, int64_t id, enum job_state *state,
                   struct error *error);
/* The specification of a job, or of a point of a sweep that is no row yet, and its plan: NULL where
 * there is none, or the row is damaged. -ERROR_NO_SUCH_JOB: there is no such job. */
int job_spec_read(struct store_connection *connection, int64_t id, struct json_object **spec,
                  struct json_object **plan, struct error *error);
/* The latest decision about the job, NULL: none. */
int job_decision_read(struct store_connection *connection, int64_t id,
                      struct json_object **decision, struct error *error);
/* Whose it is, its state and the number of its last attempt. 0: there is no such row. */
int job_attempt_read(struct store_connection *connection, int64_t id, uid_t *uid,
                     enum job_state *state, int64_t *attempt, struct error *error);
/* Of a command whose it is and the digest of what it runs. 0: it is none. */
int job_command_read(struct store_connection *connection, int64_t id, uid_t *uid,
                     char digest[JOB_DIGEST_SIZE], struct error *error);

struct job_list_query {
    const char *name;   /* NULL: any */
    int64_t sweep;      /* 0: any, and of none */
    int64_t uid;        /* whose they must be; below 0: anybody's */
    const char *states; /* ",queued,running,"; "": any */
    bool live_only;     /* no state of `states` is final: the index of live jobs will do */
    int64_t before;     /* only lower numbers */
};
/* Hands each such job, the newest first, to `take`, as long as `wants` says true before it. */
int jobs_list_read(struct store_connection *connection, const struct job_list_query *query,
                   bool (*wants)(void *data),
                   void (*take)(void *data, int64_t id, uid_t uid, struct json_object *job),
                   void *data, struct error *error);
int job_held_store(struct store_connection *connection, int64_t id, bool held, struct error *error);

/* The best value of the metric that the job is judged by, so far. */
struct job_best {
    const char *metric;
    double value, epoch; /* NAN: not known */
    int64_t step;
};
int job_best_store(struct store_connection *connection, int64_t id, const struct job_best *best,
                   struct error *error);

/* What starting the job needs: the specification, the digest of its plan (which stays as
 * it is where there is none), and the plan, where it is wanted, there and whole.
 * -ENOENT: it has no row. */
int job_start_read(struct store_connection *connection, int64_t id, bool wants_plan,
                   struct json_object **spec, char digest[JOB_DIGEST_SIZE],
                   struct json_object **plan, struct error *error);

/* What is told of a job that has ended. */
enum job_end_text {
    JOB_END_NAME,
    JOB_END_STATE,
    JOB_END_REASON,
    JOB_END_DEVICE,
    JOB_END_EXIT_STATUS,
    JOB_END_TEXTS
};
struct job_end {
    char *texts[JOB_END_TEXTS]; /* owned; "": none; NULL: no memory */
    enum job_state state;
    uid_t uid;
    int64_t attempts;
    struct json_object *spec; /* owned */
};
/* -ENOENT: it has no row. To be released in any case. */
int job_end_read(struct store_connection *connection, int64_t id, struct job_end *end,
                 struct error *error);
void job_end_release(struct job_end *end);
