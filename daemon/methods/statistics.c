/* statistics.c: Statistics: what programs that watch a service want to know, in one call. The
 * counts are from memory; the files are looked at on the reader thread. */
#include "base/clock.h"
#include "base/memory.h"
#include "daemon/jobs/jobs.h"
#include "daemon/jobs/parts.h"
#include "daemon/methods/methods.h"
#include "daemon/store/store.h"
#include "daemon/work/job_table.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

struct statistics_query {
    struct call *call;
    int64_t database_bytes;
};

/* {"running": 2, …}: the jobs that have not ended. */
static struct json_object *live_jobs(const struct job_table *table)
{
    struct json_object *counts = json_object_new_object();

    for (int state = 0; !job_state_is_final((enum job_state)state); state++)
        json_set_int(counts, job_state_to_string((enum job_state)state),
                     (int64_t)table->in_state[state]);
    return counts;
}

/* Those that have ended since the start. */
static struct json_object *ended_jobs(const struct job_table *table)
{
    struct json_object *counts = json_object_new_object();

    for (int state = JOB_DONE; state < JOB_STATES; state++)
        json_set_int(counts, job_state_to_string((enum job_state)state),
                     (int64_t)table->ended[state]);
    return counts;
}

/* How many jobs wait for a device, and since when the first of them does. */
static void waiting_add(const struct job_table *table, struct json_object *reply)
{
    const struct job *longest = job_wait_longest(table);

    json_set_int(reply, "waiting", (int64_t)table->waits.count);
    json_set_double(reply, "longest_wait_seconds",
                    longest ? fmax(0, clock_now() - longest->waits_since) : 0);
}

static struct json_object *statistics_reply(const struct statistics_query *query)
{
    const struct daemon *daemon = query->call->daemon;
    struct jobs_decisions decisions = jobs_decisions(daemon);
    struct json_object *reply = json_object_new_object();

    json_set_double(reply, "started", daemon->started);
    json_set(reply, "jobs", live_jobs(daemon->jobs->table));
    json_set(reply, "ended", ended_jobs(daemon->jobs->table));
    waiting_add(daemon->jobs->table, reply);
    json_set_int(reply, "decisions", (int64_t)decisions.count);
    json_set_double(reply, "decision_seconds", decisions.seconds);
    json_set_int(reply, "connections", (int64_t)server_connections(daemon));
    json_set_int(reply, "calls", (int64_t)server_calls_in_flight(daemon));
    json_set_int(reply, "pending_requests", (int64_t)store_pending(daemon->store));
    json_set_int(reply, "database_bytes", query->database_bytes);
    json_set_bool(reply, "disk_full", store_disk_is_full(daemon->store));
    return reply;
}

static int measure_files(struct store_connection *connection, void *data, struct error *error)
{
    static const char *const names[] = {"traind.db", "traind.db-wal", "checkpoints.db",
                                        "checkpoints.db-wal"};
    struct statistics_query *query = data;

    (void)connection;
    (void)error;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char path[PATH_MAX];
        struct stat status;

        snprintf(path, sizeof path, "%s/%s", query->call->daemon->state_directory, names[i]);
        if (stat(path, &status) == 0)
            query->database_bytes += (int64_t)status.st_blocks * 512;
    }
    return 0;
}

static void on_measured(void *data, int result, const struct error *error)
{
    struct statistics_query *query = data;

    if (result < 0)
        call_fail_storage(query->call, error);
    else
        call_reply(query->call, statistics_reply(query));
    free(query);
}

static void handle_statistics(struct call *call)
{
    struct statistics_query *query = memory_zero(sizeof *query);

    query->call = call;
    store_read(call->daemon->store, measure_files, on_measured, query);
}

/* Strangers see how many jobs there are in each state, and how much the daemon has to do. */
METHOD(Statistics, handle_statistics, ACCESS_ANYBODY, METHOD_LONG);
