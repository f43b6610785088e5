/* removed_folders.h: removes the folders of removed jobs. The transaction that removes a job adds
 * it to table removed_job, where it stays until its folders are gone. So folders that a stop or a
 * kill of the daemon left, or that a process still used, are removed later. */
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
    bool in_use;      /* a folder was in use in this pass */
    bool kept;        /* jobs whose folders are gone could not be deleted from the table */
    uv_timer_t retry; /* begins another pass in these two cases */
    uint64_t pause_milliseconds;
    struct log_throttle throttle; /* used by the thread that removes */
    /* the batch in hand */
    uv_work_t work;
    size_t count;
    int64_t jobs[REMOVED_FOLDERS_BATCH]; /* ascending, all higher than the last batch's */
    int results[REMOVED_FOLDERS_BATCH];  /* 0: gone; -EBUSY: in use */
};

/* When the daemon starts: removes the folders of the jobs in the table. */
void removed_folders_start(struct daemon *daemon);
/* Call this after more jobs were added to the table. */
void removed_folders_tidy(struct daemon *daemon);
void removed_folders_stop(struct daemon *daemon);
