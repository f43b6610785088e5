/* schedule_rows.h: the table `schedule`: specifications of which a job is made again and again. */
#pragma once

#include "base/error.h"
#include "proto/json.h"

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct store_connection;

struct schedule_row {
    int64_t id;
    uid_t uid;
    char *user, *name, *every, *spec; /* owned; the specification is normalised JSON */
    double submitted;
    double next;      /* when it makes the next job; NAN: never again */
    int64_t last_job; /* 0: none yet */
    int64_t skipped;  /* times at which the job before had not ended */
    char *failure;    /* owned; why the last job could not be made; NULL: it could */
};
void schedule_row_release(struct schedule_row *row);

/* How many schedules the user has. */
int schedules_count(struct store_connection *connection, uid_t uid, int64_t *count,
                    struct error *error);
/* 1: there is such a schedule, 0: there is none. */
int schedule_is_there(struct store_connection *connection, int64_t id, struct error *error);
/* Inserts the row and sets its id. */
int schedule_insert(struct store_connection *connection, struct schedule_row *row,
                    struct error *error);
/* Stores `next`, `last_job`, `skipped` and `failure`. */
int schedule_update(struct store_connection *connection, const struct schedule_row *row,
                    struct error *error);
int schedule_delete(struct store_connection *connection, int64_t id, struct error *error);

/* Reads all schedules in the order of their ids; the caller releases each row and frees the
 * array. */
int schedules_read(struct store_connection *connection, struct schedule_row **rows, size_t *count,
                   struct error *error);
