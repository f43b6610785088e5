/* schedules.h: schedules, each of which makes a job of its specification at every time of a
 * calendar expression. A time at which the job before has not ended makes none. Times that pass
 * while the daemon is down make one job together, at its next start. */
#pragma once

#include "base/error.h"
#include "daemon/store/schedule_rows.h"
#include "daemon/work/calendar.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct daemon;
struct jobs;

enum { SCHEDULES_PER_USER = 1000 };

struct schedule {
    struct schedule_row row; /* owned */
    struct calendar calendar;
    struct schedule *next_schedule;
    bool busy;    /* a time of it is being stored */
    bool making;  /* with a job */
    bool removed; /* it is freed once it is not busy */
};

/* Takes in the stored schedules and begins to make jobs. Call it once the jobs are loaded, before
 * calls are answered. Takes over what the rows own. */
void schedules_restore(struct jobs *jobs, struct schedule_row *rows, size_t count);
void schedules_stop(struct jobs *jobs); /* before the loop ends */
void schedules_free(struct jobs *jobs); /* after it */

/* Takes in a schedule whose row is stored; takes over what the row owns. */
void schedules_add(struct daemon *daemon, const struct schedule_row *row,
                   const struct calendar *calendar);
/* Forgets a schedule whose row was deleted. */
void schedules_remove(struct daemon *daemon, int64_t id);

/* The schedule with that id; NULL: there is none. */
const struct schedule *schedules_find(const struct daemon *daemon, int64_t id);
/* The first of all schedules, the newest; `next_schedule` leads on. */
const struct schedule *schedules_first(const struct daemon *daemon);
size_t schedules_count_of_user(const struct daemon *daemon, uid_t uid);
