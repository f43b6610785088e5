/* spool_ingest.h: follows an attempt's spool and has its records stored. These functions run on the
 * loop. */
#pragma once

#include "base/error.h"
#include "daemon/folder/spool.h"
#include "daemon/store/spool_store.h"

#include <stdbool.h>
#include <stddef.h>
#include <uv.h>

struct attempt;
struct config;

struct spool_ingest {
    struct spool_position position; /* up to where it is stored */
    struct spool_batch batch;       /* being stored */
    struct error error;             /* of the latest reading */
    uv_fs_event_t watch;
    uv_timer_t retry; /* after a failure to store, or to read */
    uv_work_t work;
    int folder, file;     /* -1 until the first reading */
    uv_timer_t beginning; /* runs until the spool exists and can be watched */
    bool watching, retry_open, beginning_open;
    bool busy;       /* a batch is being read or stored */
    bool again;      /* something was written while a batch was busy */
    bool finishing;  /* the trainee is gone: the spool is read to its end */
    bool to_the_end; /* the current reading began after the trainee had gone */
    int complaints;
    size_t stored;                        /* how many records of the batch are stored */
    struct checkpoint_copy copy;          /* of the next record with a checkpoint */
    struct checkpoint_removals *removals; /* that the batch announces; owned */
    int checkpoint_complaints;
    bool measured, job_changed;     /* by the stored records of the batch */
    struct obsolete_file *obsolete; /* files that the next reading removes */
    size_t obsolete_count;
};

struct checkpoint_limits checkpoint_limits_configured(const struct config *config);
void spool_ingest_init(struct spool_ingest *spool);
/* Frees what is left of a batch. */
void spool_ingest_release(struct spool_ingest *spool);
/* Watches the spool from now on and reads what it holds. If the attempt has just been started,
 * watching begins a moment later: the shim has not made the spool yet, and a short attempt then
 * needs no watch. */
void spool_ingest_begin(struct attempt *attempt, bool just_started);
/* Reads and stores the spool to its end, then calls events->ended. Errors of the store are
 * retried. */
void spool_ingest_finish(struct attempt *attempt);
/* Stops watching and reading, and closes the handles. */
void spool_ingest_close(struct attempt *attempt);
