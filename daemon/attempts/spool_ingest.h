/* spool_ingest.h: follows an attempt's spool, on the loop's side. */
#pragma once

#include "base/error.h"
#include "daemon/folder/spool.h"
#include "daemon/store/spool_store.h"

#include <stdbool.h>
#include <stddef.h>
#include <uv.h>

struct attempt;

struct spool_ingest {
    struct spool_position position; /* stored */
    struct spool_batch batch;       /* being stored */
    struct error error;             /* of reading */
    uv_fs_event_t watch;
    uv_timer_t retry; /* after a failure to store */
    uv_work_t work;
    int folder, file;     /* -1 until the first reading */
    uv_timer_t beginning; /* until the spool is there to be watched */
    bool watching, retry_open, beginning_open;
    bool busy;       /* a batch is being read or stored */
    bool again;      /* something was written meanwhile */
    bool finishing;  /* the trainee is gone: read to the end */
    bool to_the_end; /* the present reading was begun after that */
    int complaints;
    size_t stored;                        /* records of the batch that are */
    struct checkpoint_copy copy;          /* of the next one */
    struct checkpoint_removals *removals; /* that the batch tells of; owned */
    int checkpoint_complaints;
    bool measured, job_changed;     /* by what is stored of the batch */
    struct obsolete_file *obsolete; /* to be removed in the next reading */
    size_t obsolete_count;
};

void spool_ingest_init(struct spool_ingest *spool);
/* Frees what is left of a batch. */
void spool_ingest_release(struct spool_ingest *spool);
/* Watches the spool from now on, and reads what is there. That of an attempt that has only just
 * been started is not there yet: the shim makes it after a moment, and short attempts cost no
 * watch. */
void spool_ingest_begin(struct attempt *attempt, bool just_started);
/* Reads to the end, whatever it takes, then calls events->ended. */
void spool_ingest_finish(struct attempt *attempt);
/* Stops watching; handles are closed, nothing is read any more. */
void spool_ingest_close(struct attempt *attempt);
