/* checkpoint_source.h: the checkpoint of an ended job that another job begins with. */
#pragma once

#include "daemon/store/store.h"

#include <sys/types.h>

struct checkpoint_source {
    int64_t job;
    int64_t step; /* below 0: the best checkpoint, else the last one */
    bool newest;  /* the last one, whatever is best */
    uid_t asker;  /* whose job begins with it */
};

/* A row of the table checkpoint. */
struct stored_checkpoint {
    int64_t id, attempt, step, bytes;
    bool in_database;
    uid_t uid; /* the owner of its job */
    char digest[65], path[4096];
};

/* Finds the checkpoint. -ERROR_STALE_FILE with a sentence: there is no such job or checkpoint, the
 * job has not ended, or it belongs to another user and the asker is not root. */
int checkpoint_source_find(struct store_connection *connection,
                           const struct checkpoint_source *source, struct stored_checkpoint *found,
                           struct error *error);
