/* history.c: see history.h. The earlier runs of a command are read when the first job comes that
 * runs it again, and after each further run has ended. */
#include "daemon/jobs/history.h"

#include "base/log.h"
#include "base/memory.h"
#include "daemon/jobs/dispatch.h"
#include "daemon/jobs/parts.h"
#include "daemon/jobs/workload.h"
#include "daemon/store/command_history_rows.h"
#include "daemon/store/store.h"
#include "daemon/work/command_history.h"
#include "daemon/work/job_table.h"

#include <stdlib.h>
#include <string.h>

/* After this many runs of a command, its history is read again only after as many further runs,
 * because thousands of short jobs may run it. */
enum { RUNS_WELL_KNOWN = 16 };

struct history {
    history_known known;
};

struct history_read {
    struct jobs *jobs;
    int64_t job; /* that asked, 0: none */
    uid_t uid;
    char digest[JOB_DIGEST_SIZE];
    struct command_history_row *rows; /* owned; NULL: none, as for most of 100,000 reads */
    int count;
};

static int history_read_work(struct store_connection *connection, void *data, struct error *error)
{
    struct command_history_row rows[COMMAND_HISTORY_TYPES_MAX];
    struct history_read *read = data;
    int count = command_history_read(connection, read->uid, read->digest, rows, error);

    if (count <= 0)
        return count;
    read->rows = calloc((size_t)count, sizeof *rows);
    if (!read->rows)
        return error_no_memory(error, "the runs of a command");
    memcpy(read->rows, rows, (size_t)count * sizeof *rows);
    read->count = count;
    return 0;
}

static int device_type_find(const struct devices *devices, const char *name)
{
    for (int type = 0; type < devices->type_count; type++)
        if (strcmp(devices->type_names[type], name) == 0)
            return type;
    return -1; /* no device has this type any more */
}

void history_take(const struct jobs *jobs, struct workload *workload,
                  const struct command_history_row *rows, int count)
{
    int types[COMMAND_HISTORY_TYPES_MAX];

    for (int i = 0; i < count; i++)
        types[i] = device_type_find(jobs->daemon->devices, rows[i].device_type);
    workload_set_history(workload, rows, types, count);
}

static void on_history_read(void *data, int result, const struct error *error)
{
    struct history_read *read = data;
    struct jobs *jobs = read->jobs;
    struct workload *workload =
        jobs->stopping ? NULL : workload_find(jobs->workloads, read->uid, read->digest);

    if (result < 0 && !jobs->stopping)
        log_warning("the earlier runs of a command cannot be read: %s", error->text);
    if (result == 0 && workload && read->count > 0) {
        history_take(jobs, workload, read->rows, read->count);
        jobs->history->known(jobs, read->job);
        jobs_dispatch(jobs);
    }
    free(read->rows);
    free(read);
}

void history_load(struct jobs *jobs, const struct workload *workload, int64_t job)
{
    struct history_read *read;

    if (workload->kind != JOB_COMMAND || !workload->digest[0])
        return;
    read = memory_zero(sizeof *read);
    read->jobs = jobs;
    read->job = job;
    read->uid = workload->uid;
    memcpy(read->digest, workload->digest, sizeof read->digest);
    store_read(jobs->daemon->store, history_read_work, on_history_read, read);
}

void history_grown(struct jobs *jobs, uid_t uid, const char *digest)
{
    struct workload *workload = workload_find(jobs->workloads, uid, digest);

    if (!workload) /* no live job runs it */
        return;
    if (workload->runs >= RUNS_WELL_KNOWN && ++workload->runs_unread < RUNS_WELL_KNOWN)
        return;
    workload->runs_unread = 0;
    history_load(jobs, workload, 0);
}

void history_start(struct jobs *jobs, history_known known)
{
    jobs->history = memory_zero(sizeof *jobs->history);
    jobs->history->known = known;
}
