/* checkpoint_clone.h: gives a job the checkpoints of another one. */
#pragma once

#include "daemon/store/spool_store.h"
#include "daemon/store/store.h"

/* On the writer: replaces the checkpoints of job `to` by copies of the newest and of the best
 * one of job `from`, as if attempt `attempt` of `to` had written them. Both jobs belong to one
 * user. Call checkpoints_purge() after the commit. -ENOENT with a sentence: `from` has none, or
 * the newest is a file beyond DatabaseLimit; nothing changes then. */
int checkpoints_clone(struct store_connection *connection, int64_t from, int64_t to,
                      int64_t attempt, struct error *error);

/* What a job takes over from the one whose run it goes on with. */
struct checkpoint_inheritance {
    int64_t newest, best; /* ids of the other job's checkpoints; `best` 0: the newest, or none */
    int64_t job, attempt; /* that takes them over */
    uid_t uid;            /* whose job it is */
    struct checkpoint_limits limits;
    const char *refused; /* result: why not all of them were taken over; NULL: they were */
};

/* On the writer: the checkpoints become those of the job, too, so that a retry and a further job
 * find them with it. What is in the database is copied, as of attempt 0. Of a file the copy counts
 * that the attempt begins with, in its folder. Repeating it changes nothing. Call
 * checkpoints_purge() after the commit. */
int checkpoints_inherit(struct store_connection *connection, struct checkpoint_inheritance *heir,
                        struct error *error);
