/* removed_folders.h: the folders of jobs that were removed. The transaction that removes a job
 * notes it in table removed_job, and it stands there until its folders are gone: what a stop, a
 * kill or a process that still uses one of them leaves goes later. */
#pragma once

#include "base/log.h"
#include "daemon/store/store.h"

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

struct daemon;

enum { REMOVED_FOLDERS_BATCH = 256 };

/* A member of struct daemon. */
struct removed_folders {
    struct daemon *daemon;
    bool under_way, asked_again, stopped;
    bool in_use;      /* some folder was, in this pass */
    bool kept;        /* what went could not be taken off the table */
    uv_timer_t retry; /* then */
    uint64_t pause_milliseconds;
    struct log_throttle throttle; /* of the pool's thread that removes */
    /* the batch in hand */
    uv_work_t work;
    size_t count;
    int64_t jobs[REMOVED_FOLDERS_BATCH]; /* ascending, beyond those of the batch before */
    int results[REMOVED_FOLDERS_BATCH];  /* 0: gone; -EBUSY: in use */
};

/* Removes the folders that are noted, as those of earlier daemons at a start. */
void removed_folders_start(struct daemon *daemon);
/* After more were noted. */
void removed_folders_tidy(struct daemon *daemon);
void removed_folders_stop(struct daemon *daemon);
