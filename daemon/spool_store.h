/* spool_store.h: what the records of a spool become in the databases. */
#pragma once

#include "daemon/spool.h"
#include "daemon/store.h"

#include <sys/types.h>

/* A file below an attempt's folder whose content is not needed any more. */
struct obsolete_file {
    int64_t attempt;
    char *path; /* owned; relative to the folder */
};

struct spool_store {
    int64_t job, attempt;
    uid_t uid;
    int folder;              /* of the attempt */
    uint64_t database_limit; /* bytes; larger checkpoints stay files */
    const struct spool_batch *batch;
    bool complains; /* a line that is skipped makes a warning that the user sees */
    /* results */
    bool measured;                  /* metric rows were written */
    bool job_changed;               /* columns of the job's row were */
    struct obsolete_file *obsolete; /* to be removed once this is committed; owned */
    size_t obsolete_count;
};

/* Whether anything of the batch is stored at all: progress alone is not. */
bool spool_store_needed(const struct spool_batch *batch);

/* store_work: writes the rows and the new offset. */
int spool_store_work(struct store_connection *connection, void *data, struct error *error);

/* Frees the results. */
void spool_store_release(struct spool_store *request);

/* checkpoint_store.c: one `checkpoint` record: the file's content in chunks, or a row for a file
 * that stays; and what the trainee dropped. A file that cannot be trusted (missing, not the user's,
 * another digest) makes an event of kind `warning`, not a failure. */
int checkpoint_store(struct store_connection *connection, struct spool_store *request,
                     const struct spool_record *record, struct error *error);

/* checkpoint_store.c: drops what earlier attempts saved beyond the step where this one begins: that
 * part of the run happens again. */
int checkpoints_supersede(struct store_connection *connection, struct spool_store *request,
                          int64_t step, struct error *error);

/* checkpoint_sweep.c: removes the files of an attempt of a native job that has ended, whose spool
 * is stored to the end, apart from its log, its records and the checkpoints that are kept as files.
 */
void checkpoint_sweep(struct store *store, const char *state_directory, int64_t job,
                      int64_t attempt);

/* A row in `event`. `detail` is JSON. */
int event_store(struct store_connection *connection, int64_t job, int64_t attempt, double time,
                const char *kind, struct json_object *detail, struct error *error);
/* One whose detail is {"message": …}. */
int warning_store(struct store_connection *connection, int64_t job, int64_t attempt, double time,
                  const char *message, struct error *error);

/* Which of a job's checkpoints: a step may have two. */
struct checkpoint_position {
    int64_t step, id;
};

/* checkpoint_store.c: writes the job's last checkpoint that is whole into the file `path` (made
 * anew, mode 0600) and says which that was. -ENOENT when the job has none, another negative errno
 * when it cannot be written. */
int checkpoint_restore(struct store_connection *connection, const char *state_directory,
                       int64_t job, uid_t uid, const char *path,
                       struct checkpoint_position *restored, struct error *error);
/* The same for the best checkpoint, where it is older than that one. -ENOENT when it is not,
 * -EUCLEAN when it is damaged. */
int checkpoint_restore_best(struct store_connection *connection, const char *state_directory,
                            int64_t job, uid_t uid, const char *path,
                            const struct checkpoint_position *restored, struct error *error);
