/* spool_store.h: what the records of a spool become in the databases. */
#pragma once

#include "base/sha256.h"
#include "daemon/folder/spool.h"
#include "daemon/store/store.h"

#include <sys/stat.h>
#include <sys/types.h>

struct checkpoint_purge;
struct checkpoint_removals;

/* How many checkpoints, and bytes of them, may be kept; 0: no limit. */
struct checkpoint_limits {
    uint64_t database; /* bytes; larger ones stay files */
    int64_t per_attempt, per_user;
    uint64_t bytes_per_attempt, bytes_per_user;
};

/* A checkpoint that is being copied, a slice in each request, and the file that was copied last. */
struct checkpoint_copy {
    int file; /* owned; -1: none is open */
    bool under_way;
    int64_t id; /* of its row */
    int64_t copied;
    struct sha256 hash; /* of that */
    dev_t device;       /* what tells the file from others, and from itself after a change */
    ino_t inode;
    struct timespec changed;
};

/* A file below an attempt's folder whose content is not needed any more. */
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
    struct checkpoint_removals **removals; /* of the batch; NULL until it is asked for */
    bool complains; /* a line that is skipped makes a warning that the user sees */
    /* what the request changes, and the next one goes on with */
    struct checkpoint_copy copy; /* of that record */
    int complaints;              /* about checkpoints of the attempt so far */
    /* results */
    bool finished;                  /* all of the batch is stored */
    bool measured;                  /* metric rows were written */
    bool job_changed;               /* columns of the job's row were */
    bool dropped;                   /* checkpoints were: checkpoints_purge() */
    struct obsolete_file *obsolete; /* to be removed once this is committed; owned */
    size_t obsolete_count;
};

/* Whether anything of the batch is stored at all: progress alone is not. */
bool spool_store_needed(const struct spool_batch *batch);

/* What the next slice costs, for store_write_bulk(): so many rows. */
unsigned spool_store_cost(const struct spool_store *request);

/* store_work: writes the rows of the next slice of the batch and the offset behind it. `next`,
 * `copy` and `complaints` count only if that is committed. */
int spool_store_work(struct store_connection *connection, void *data, struct error *error);

/* Frees the results. */
void spool_store_release(struct spool_store *request);

/* checkpoint_store.c: one `checkpoint` record: the file's content in chunks, or a row for a file
 * that stays; and what the trainee dropped. A file that cannot be taken (missing, not the user's,
 * another digest, beyond the limits) makes an event of kind `warning`, not a failure. 1: a slice of
 * the file was copied, and there is more of it; the record comes again. */
int checkpoint_store(struct store_connection *connection, struct spool_store *request,
                     const struct spool_record *record, struct error *error);

/* checkpoint_store.c: at a start: drops what a crash left half copied, and notes whose the
 * checkpoints of earlier versions are. */
void checkpoints_tidy(struct checkpoint_purge *purge);

/* checkpoint_rows.c: drops what earlier attempts saved beyond the step where this one begins: that
 * part of the run happens again. */
int checkpoints_supersede(struct store_connection *connection, struct spool_store *request,
                          int64_t step, struct error *error);

/* Which of a job's checkpoints: a step may have two. */
struct checkpoint_position {
    int64_t step, id;
};

/* checkpoint_restore.c: a job's last checkpoint that is whole, or its best one where that is older,
 * is copied into a file. Zeros are no such thing: checkpoint_restore_init(). */
struct checkpoint_restore {
    const char *state_directory, *path; /* borrowed */
    int64_t job;
    uid_t uid;
    bool best;
    struct checkpoint_position position; /* result: which one it is */
    /* its own */
    bool copying, in_database;
    int64_t attempt, bytes, copied;
    struct sha256 hash;
    int output, input;
    char digest[SHA256_HEX_SIZE], name[4096];
};

/* Of the last one; of the best one when that is older than `before`, which is NULL otherwise. */
void checkpoint_restore_init(struct checkpoint_restore *restore, const char *state_directory,
                             int64_t job, uid_t uid, const char *path,
                             const struct checkpoint_position *before);
/* Goes on with a few MiB. 1: there is more; 0: the file `path` (made anew, mode 0600) is complete;
 * -ENOENT when the job has no such checkpoint, -ERROR_DAMAGED when the best one is damaged, another
 * negative errno when it cannot be written. */
int checkpoint_restore_next(struct store_connection *connection, struct checkpoint_restore *restore,
                            struct error *error);
void checkpoint_restore_close(struct checkpoint_restore *restore);
