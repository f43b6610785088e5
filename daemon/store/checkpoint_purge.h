/* checkpoint_purge.h: checkpoints that are dropped. Their rows leave the job at once; their
 * content, which may be many gigabytes, goes a few MiB per transaction, so that nobody waits for
 * it. */
#pragma once

#include <stdbool.h>

struct store;

/* SQL that drops checkpoints, to be followed by WHERE …: no query looks for job 0. Once that is
 * committed, checkpoints_purge() removes them. */
#define CHECKPOINTS_DROP "UPDATE checkpoint SET job = 0, uid = NULL "

/* A member of struct daemon. */
struct checkpoint_purge {
    struct store *store; /* outlives what is under way */
    bool under_way, again, stopped;
};

/* Removes what is dropped, as the writer has time. What a stop leaves, the next start removes. */
void checkpoints_purge(struct checkpoint_purge *state);
void checkpoints_purge_stop(struct checkpoint_purge *state);
