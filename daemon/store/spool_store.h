/* spool_store.h: stores the records of a spool in the databases. */
#pragma once

#include "base/sha256.h"
#include "daemon/folder/spool.h"
#include "daemon/store/checkpoint_source.h"
#include "daemon/store/store.h"

#include <sys/types.h>

struct checkpoint_purge;
struct checkpoint_removals;

/* The limits of the configuration; 0: no limit. */
struct checkpoint_limits {
    uint64_t database; /* bytes; larger ones stay files */
    int64_t per_attempt, per_user;
    uint64_t bytes_per_attempt, bytes_per_user;
};

/* The copy of a checkpoint in progress, one slice per request, and the identity of the file that
 * was copied last. */
struct checkpoint_copy {
    int file; /* owned; -1: none is open */
    bool under_way;
    int64_t id; /* of its row */
    int64_t copied;
    struct sha256 hash; /* of the bytes copied so far */
    dev_t device;       /* with inode and changed: identifies the file and its version */
    ino_t inode;
    struct timespec changed;
};

/* A file below an attempt's folder whose content is no longer needed. */
struct obsolete_file {
    int64_t attempt;
    char *path; /* owned; relative to the folder */
};

struct spool_store {
    int64_t job, attempt;
    uid_t uid;
    int folder; /* of the attempt */
    struct checkpoint_limits limits;
    const struct spool_batch *batch;
    size_t next;                           /* the batch's first record that is not stored yet */
    struct checkpoint_removals **removals; /* of the batch; made when they are first needed, NULL
                                            * before */
    bool complains;                        /* skipped lines cause a warning that the user sees */
    /* state that a request changes and the next one continues with */
    struct checkpoint_copy copy; /* of that record */
    int complaints;              /* about checkpoints of the attempt so far */
    /* results */
    bool finished;                  /* all of the batch is stored */
    bool measured;                  /* metric rows were written */
    bool job_changed;               /* columns of the job's row were */
    bool dropped;                   /* checkpoints were dropped: call checkpoints_purge() */
    struct obsolete_file *obsolete; /* to be removed once the request is committed; owned */
    size_t obsolete_count;
};

/* Whether the batch holds anything to store. Records of progress alone are not stored. */
bool spool_store_needed(const struct spool_batch *batch);

/* The cost of the next slice in rows, for store_write_bulk(). */
unsigned spool_store_cost(const struct spool_store *request);

/* store_work: writes the rows of the batch's next slice and the offset behind it. The changes of
 * `next`, `copy` and `complaints` are valid only if that is committed. */
int spool_store_work(struct store_connection *connection, void *data, struct error *error);

/* Frees the results. */
void spool_store_release(struct spool_store *request);

/* checkpoint_store.c: stores one `checkpoint` record: the file's content in chunks, or a row for a
 * file that stays, and the trainee's removals. A file that must be refused (missing, not the
 * user's, a different digest, beyond the limits) causes an event of kind `warning`, not a failure.
 * Returns 1 if more of the file remains to be copied; call it again with the same record. */
int checkpoint_store(struct store_connection *connection, struct spool_store *request,
                     const struct spool_record *record, struct error *error);

/* checkpoint_store.c: when the daemon starts, drops half-copied checkpoints of a crash, and fills
 * in the owners of checkpoints that earlier versions stored. */
void checkpoints_tidy(struct checkpoint_purge *purge);

/* checkpoint_rows.c: drops the checkpoints that earlier attempts saved behind `step`, where this
 * attempt begins, because the run repeats those steps. */
int checkpoints_supersede(struct store_connection *connection, struct spool_store *request,
                          int64_t step, struct error *error);

/* Identifies a checkpoint of a job: a step may have two. */
struct checkpoint_position {
    int64_t step, id;
};

/* checkpoint_restore.c: copies a job's last intact checkpoint, or its best one if that is older,
 * into a file. Initialise it with checkpoint_restore_init(); zeros are not valid. */
struct checkpoint_restore {
    const char *state_directory, *path; /* borrowed */
    int64_t job;
    uid_t uid;
    bool best;
    struct checkpoint_source source;     /* job 0: the job's own checkpoints */
    struct checkpoint_position position; /* result: the checkpoint that was found */
    /* internal */
    bool copying, in_database;
    int64_t attempt, bytes, copied;
    struct sha256 hash;
    int output, input;
    char digest[SHA256_HEX_SIZE], name[4096];
};

/* If `before` is NULL, restores the last checkpoint; else the best one if it is older than
 * `before`. */
void checkpoint_restore_init(struct checkpoint_restore *restore, const char *state_directory,
                             int64_t job, uid_t uid, const char *path,
                             const struct checkpoint_position *before);
/* Restores the checkpoint that `source` names, of another job. Errors are those of
 * checkpoint_source_find(); a checkpoint that is damaged is -ERROR_STALE_FILE, too. `uid` becomes
 * the owner of that job. */
void checkpoint_restore_init_source(struct checkpoint_restore *restore, const char *state_directory,
                                    const struct checkpoint_source *source, const char *path);
/* Copies a few MiB. 1: more remains; 0: the file `path` (created, mode 0600) is complete. -ENOENT
 * if the job has no such checkpoint, -ERROR_DAMAGED if the best one is damaged, another negative
 * errno if the file cannot be written. */
int checkpoint_restore_next(struct store_connection *connection, struct checkpoint_restore *restore,
                            struct error *error);
void checkpoint_restore_close(struct checkpoint_restore *restore);
