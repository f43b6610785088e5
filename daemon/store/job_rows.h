/* job_rows.h: reads and changes rows of table job; most readers make types of io.traind. The
 * readers run on a storage thread. The caller owns what they make and may pass it on to the
 * loop. */
#pragma once

#include "daemon/store/store.h"
#include "daemon/types/job_types.h"
#include "proto/json.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* Reads the Job `id`, with the last value of each metric. Members that only the loop knows are
 * null; job_view_add_progress() of methods/ fills them in. -ERROR_NO_SUCH_JOB if there is none. */
int job_row_find(struct store_connection *connection, int64_t id, struct json_object **job,
                 struct error *error);

/* Reads the owner of the job, or of the sweep that will create the job as a point. Returns 1, or 0
 * if there is no such job. */
int job_owner_read(struct store_connection *connection, int64_t id, uid_t *owner,
                   struct error *error);

/* Returns 1 if the job has a row, else 0. */
int job_row_exists(struct store_connection *connection, int64_t id, struct error *error);

/* Returns 1, or 0 if there is no such row. */
int job_state_read(struct store_connection *connection, int64_t id, enum job_state *state,
                   struct error *error);
/* Reads the job's specification and plan; `*plan` is NULL if there is none or its row is damaged. A
 * point of a sweep that has no row yet has a specification, too. -ERROR_NO_SUCH_JOB if there is no
 * such job. */
int job_spec_read(struct store_connection *connection, int64_t id, struct json_object **spec,
                  struct json_object **plan, struct error *error);
/* Reads the latest decision about the job; NULL: there is none. */
int job_decision_read(struct store_connection *connection, int64_t id,
                      struct json_object **decision, struct error *error);
/* Reads the job's owner, its state and the number of its last attempt. Returns 1, or 0 if there is
 * no such row. */
int job_attempt_read(struct store_connection *connection, int64_t id, uid_t *uid,
                     enum job_state *state, int64_t *attempt, struct error *error);
/* Reads the owner and the command digest of a command job. Returns 1, or 0 if the job is not a
 * command. */
int job_command_read(struct store_connection *connection, int64_t id, uid_t *uid,
                     char digest[JOB_DIGEST_SIZE], struct error *error);

struct job_list_query {
    const char *name;   /* NULL: any */
    int64_t sweep;      /* 0: any job, whether of a sweep or not */
    int64_t uid;        /* the owner; below 0: anybody */
    const char *states; /* ",queued,running,"; "": any */
    bool live_only;     /* `states` names no final state: the index of live jobs suffices */
    int64_t before;     /* only ids below this one */
};
/* Passes each job that matches to `take`, the newest first. Ends early if `wants`, called before
 * each, returns false. */
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

/* Reads what starting the job needs: its specification, the digest of its plan (unchanged if there
 * is none) and, if wanted, the plan. `*plan` stays NULL if there is none or it is damaged. -ENOENT:
 * the job has no row. */
int job_start_read(struct store_connection *connection, int64_t id, bool wants_plan,
                   struct json_object **spec, char digest[JOB_DIGEST_SIZE],
                   struct json_object **plan, struct error *error);

/* The texts that notifications of a job's end use. */
enum job_end_text {
    JOB_END_NAME,
    JOB_END_STATE,
    JOB_END_REASON,
    JOB_END_DEVICE,
    JOB_END_EXIT_STATUS,
    JOB_END_TEXTS
};
struct job_end {
    char *texts[JOB_END_TEXTS]; /* owned; "": none */
    enum job_state state;
    uid_t uid;
    int64_t attempts;
    struct json_object *spec; /* owned */
};
/* -ENOENT: the job has no row. Release `end` in any case. */
int job_end_read(struct store_connection *connection, int64_t id, struct job_end *end,
                 struct error *error);
void job_end_release(struct job_end *end);
