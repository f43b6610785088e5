/* begin_checkpoints.c: see begin_checkpoints.h. */
#include "daemon/jobs/begin_checkpoints.h"

#include "base/memory.h"
#include "daemon/attempts/attempt.h"
#include "daemon/attempts/spool_ingest.h"
#include "daemon/jobs/job.h"
#include "daemon/jobs/job_warning.h"
#include "daemon/jobs/parts.h"
#include "daemon/store/checkpoint_clone.h"
#include "daemon/store/spool_store.h"
#include "daemon/store/store.h"
#include "daemon/work/job_table.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* Of store_write_bulk(), in rows: two checkpoints of at most DatabaseLimit each are copied. */
enum { INHERITANCE_COST = 1000 };

/* What is fetched. */
enum begin_stage { BEGIN_OWN, BEGIN_SOURCE, BEGIN_BEST };

struct begin_read {
    struct jobs *jobs;
    int64_t id, attempt;
    uid_t uid;
    struct launch_checkpoints files; /* owned; NULL: not fetched */
    struct checkpoint_source source; /* job 0: none */
    bool continues;                  /* the source's run goes on */
    enum begin_stage stage;
    struct checkpoint_restore restore;
    bool more;
    struct checkpoint_inheritance heir; /* `newest` 0: nothing to take over */
    struct json_object *spec;           /* owned */
    begin_checkpoints_launch launch;
    struct begin_read *next;
};

/* The attempts whose checkpoints are being fetched. */
struct begin_reads {
    struct begin_read *first;
    bool busy; /* a slice of the first one is being fetched */
};

static void file_drop(char **path)
{
    if (*path)
        unlink(*path);
    free(*path);
    *path = NULL;
}

static void begin_stage_source(struct begin_read *read)
{
    read->stage = BEGIN_SOURCE;
    read->more = true;
    checkpoint_restore_init_source(&read->restore, read->jobs->daemon->state_directory,
                                   &read->source,
                                   read->continues ? read->files.resume : read->files.weights);
}

/* The best checkpoint before the one that the run goes on from. */
static void begin_stage_best(struct begin_read *read)
{
    struct checkpoint_position last = read->restore.position;
    int64_t job = read->restore.job;
    uid_t uid = read->restore.uid;

    if (read->stage == BEGIN_SOURCE)
        read->heir.newest = last.id;
    checkpoint_restore_close(&read->restore);
    read->stage = BEGIN_BEST;
    read->more = true;
    checkpoint_restore_init(&read->restore, read->jobs->daemon->state_directory, job, uid,
                            read->files.best, &last);
}

static int begin_read_work(struct store_connection *connection, void *data, struct error *error)
{
    struct begin_read *read = data;
    int result = checkpoint_restore_next(connection, &read->restore, error);

    read->more = result > 0;
    if (result > 0)
        return 0;
    if (read->stage == BEGIN_BEST) {
        if (result < 0)
            file_drop(&read->files.best); /* the run goes on without the test of its best weights */
        else if (read->heir.newest)
            read->heir.best = read->restore.position.id;
        return 0;
    }
    if (read->stage == BEGIN_OWN && result == -ENOENT) {
        checkpoint_restore_close(&read->restore);
        if (read->source.job) {
            begin_stage_source(read);
            return 0;
        }
        result = 0;
        file_drop(&read->files.resume);
        file_drop(&read->files.best);
        file_drop(&read->files.weights);
    }
    if (result < 0 || !read->files.resume)
        return result;
    if (read->stage == BEGIN_OWN || read->continues) {
        file_drop(&read->files.weights);
        begin_stage_best(read);
    } else {
        file_drop(&read->files.resume);
        file_drop(&read->files.best);
    }
    return 0;
}

static void begin_read_free(struct begin_read *read)
{
    checkpoint_restore_close(&read->restore);
    file_drop(&read->files.resume);
    file_drop(&read->files.best);
    file_drop(&read->files.weights);
    json_object_put(read->spec);
    free(read);
}

static void on_begin_read(void *data, int result, const struct error *error);

/* Fetches one slice at a time, and the attempts take turns. So a large checkpoint delays neither
 * queries nor other starts. */
static void begin_reads_go_on(struct jobs *jobs)
{
    if (!jobs->begin_reads->first || jobs->begin_reads->busy)
        return;
    jobs->begin_reads->busy = true;
    store_read(jobs->daemon->store, begin_read_work, on_begin_read, jobs->begin_reads->first);
}

static void begin_read_queue(struct jobs *jobs, struct begin_read *read)
{
    struct begin_read **end = &jobs->begin_reads->first;

    while (*end)
        end = &(*end)->next;
    *end = read;
    read->next = NULL;
}

/* The job whose start waits for this read; NULL: none does any more. */
static struct job *begin_read_job(const struct begin_read *read)
{
    struct job *job = read->jobs->stopping ? NULL : job_table_find(read->jobs->table, read->id);

    return job && job->attempt && job->attempt->number == read->attempt ? job : NULL;
}

static void begin_read_end(struct begin_read *read, int result, const struct error *error)
{
    struct job *job = begin_read_job(read);

    checkpoint_restore_close(&read->restore);
    if (job && result == 0)
        read->launch(read->jobs, job, read->spec, &read->files);
    else if (job) /* for example a full disk: the job's progress is worth another try */
        attempt_refuse_launch(job->attempt, error);
    begin_read_free(read);
}

static int inherit_work(struct store_connection *connection, void *data, struct error *error)
{
    struct begin_read *read = data;

    return checkpoints_inherit(connection, &read->heir, error);
}

static void on_inherited(void *data, int result, const struct error *error)
{
    struct begin_read *read = data;
    struct jobs *jobs = read->jobs;

    if (!jobs->stopping && read->heir.refused) {
        char sentence[JOB_REASON_MAX];

        snprintf(sentence, sizeof sentence,
                 "the checkpoints of job %lld are not kept with this one, so another attempt may "
                 "lose the best of them: %.400s",
                 (long long)read->source.job, read->heir.refused);
        job_warn(jobs->daemon, read->id, read->attempt, sentence);
    }
    if (!jobs->stopping)
        checkpoints_purge(&jobs->daemon->checkpoint_purge);
    begin_read_end(read, result, error);
}

/* Makes what the run goes on from the job's own before anything of it runs. */
static void begin_read_inherit(struct begin_read *read)
{
    read->heir.job = read->id;
    read->heir.attempt = read->attempt;
    read->heir.uid = read->uid;
    read->heir.limits = checkpoint_limits_configured(&read->jobs->daemon->config);
    store_write_bulk(read->jobs->daemon->store, INHERITANCE_COST, inherit_work, on_inherited, read);
}

static void on_begin_read(void *data, int result, const struct error *error)
{
    struct begin_read *read = data;
    struct jobs *jobs = read->jobs;
    struct job *job = begin_read_job(read);

    jobs->begin_reads->first = read->next; /* the read was the first one */
    jobs->begin_reads->busy = false;
    if (result == 0 && read->more && job)
        begin_read_queue(jobs, read);
    else if (result == 0 && read->heir.newest && job)
        begin_read_inherit(read);
    else
        begin_read_end(read, result, error);
    begin_reads_go_on(jobs); /* when the program ends, each read finds that no job waits */
}

/* The path of a file that will be moved into the attempt's folder. */
static char *begin_file_name(const struct jobs *jobs, const struct job *job, const char *what)
{
    return memory_format("%s/jobs/%lld.%s-%d", jobs->daemon->state_directory, (long long)job->id,
                         what, (int)job->attempt->number);
}

void begin_checkpoints_fetch(struct jobs *jobs, struct job *job, struct json_object *spec,
                             begin_checkpoints_launch launch)
{
    struct json_object *weights = job->kind == JOB_NATIVE ? json_get(spec, "weights") : NULL;
    int64_t source = json_get_int(weights, "job", 0), number = job->attempt->number;
    bool continues = json_get_bool(weights, "continue", false);
    bool retries = job->kind == JOB_NATIVE && number > 1;
    struct begin_read *read;

    /* a plan looks at the weights, but not at a run that goes on */
    if (!retries && (!source || (number == 0 && continues))) {
        launch(jobs, job, spec, &(struct launch_checkpoints){0});
        return;
    }
    read = memory_zero(sizeof *read);
    read->jobs = jobs;
    read->id = job->id;
    read->attempt = number;
    read->uid = job->uid;
    read->launch = launch;
    read->spec = json_object_get(spec);
    read->continues = continues;
    read->source = (struct checkpoint_source){.job = source,
                                              .step = json_get_int(weights, "step", -1),
                                              .newest = continues,
                                              .asker = job->uid};
    read->files.resume = begin_file_name(jobs, job, "resume");
    read->files.best = begin_file_name(jobs, job, "best");
    read->files.weights = begin_file_name(jobs, job, "weights");
    if (retries)
        checkpoint_restore_init(&read->restore, jobs->daemon->state_directory, job->id, job->uid,
                                read->files.resume, NULL);
    else
        begin_stage_source(read);
    begin_read_queue(jobs, read);
    begin_reads_go_on(jobs);
}

void begin_checkpoints_open(struct jobs *jobs)
{
    jobs->begin_reads = memory_zero(sizeof *jobs->begin_reads);
}
