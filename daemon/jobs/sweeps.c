/* sweeps.c: see sweeps.h. */
#include "daemon/jobs/sweeps.h"

#include "base/log.h"
#include "base/memory.h"
#include "daemon/jobs/graph.h"
#include "daemon/jobs/jobs.h"
#include "daemon/jobs/parts.h"
#include "daemon/jobs/search_points.h"
#include "daemon/jobs/searches.h"
#include "daemon/store/job_insert.h"
#include "daemon/store/job_rows.h"
#include "daemon/store/search_rows.h"
#include "daemon/store/store.h"
#include "daemon/store/sweep_store.h"
#include "proto/json.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* WINDOW is the number of points of one sweep in memory, large enough that short jobs never wait
 * for more points. */
enum { WINDOW = 256, RETRY_MILLISECONDS = 1000 };

struct sweeps {
    struct sweep_run *first;
    struct log_throttle throttle;
};

void sweep_run_free(struct sweep_run *run)
{
    if (!run)
        return;
    search_run_free(run->search);
    sweep_release(&run->sweep);
    free(run);
}

struct sweep_run *sweep_find(const struct jobs *jobs, int64_t first_job)
{
    struct sweep_run *run = jobs->sweeps->first;

    while (run && run->sweep.first_job != first_job)
        run = run->next;
    return run;
}

/* Frees the run if no event of it can follow, and returns whether it did. */
static bool run_drop(struct jobs *jobs, struct sweep_run *run)
{
    if (run->busy || run->live || (run->search && search_run_is_busy(run->search)) ||
        (!run->sweep.cancelled && run->sweep.expanded < run->sweep.points))
        return false;
    for (struct sweep_run **link = &jobs->sweeps->first; *link; link = &(*link)->next)
        if (*link == run) {
            *link = run->next;
            break;
        }
    sweep_run_free(run);
    return true;
}

void sweep_tell(struct jobs *jobs, const struct sweep_run *run, bool missed)
{
    bool all_there = run->sweep.cancelled || run->sweep.expanded == run->sweep.points;

    job_graph_ask_sweep(jobs, run->sweep.first_job, missed, all_there && run->live == 0);
}

/* ---- expanding ------------------------------------------------------------------------------- */

struct expansion {
    uv_work_t work;
    struct jobs *jobs;
    struct sweep_run *run;
    struct job_entry *entries;   /* owned */
    struct json_object **values; /* owned; NULL: as the point says */
    size_t count;
    bool was_cancelled;
};

static void expansion_free(struct expansion *expansion)
{
    for (size_t i = 0; i < expansion->count; i++)
        job_entry_release(&expansion->entries[i]);
    for (size_t i = 0; i < expansion->count; i++)
        json_object_put(expansion->values[i]);
    free(expansion->values);
    free(expansion->entries);
    free(expansion);
}

/* A point whose values are not valid together becomes a failed job. */
static void point_fail(struct sweep_run *run, struct job_entry *entry, const struct error *error)
{
    job_entry_release(entry);
    *entry = (struct job_entry){
        .submission = {.uid = run->sweep.uid,
                       .kind = job_spec_is_command(run->sweep.spec) ? JOB_COMMAND : JOB_NATIVE},
        .name = memory_copy_text(json_get_string(run->sweep.spec, "name", "job")),
        .spec = memory_copy_text(json_text(run->sweep.spec, NULL)),
        .final_state = JOB_FAILED,
        .final_reason = memory_copy_text(error->text),
    };
}

void sweep_point_prepare(struct sweep_run *run, int64_t index, struct json_object *values,
                         struct job_entry *entry)
{
    JSON_AUTO struct json_object *spec = NULL;
    struct job_spec_fault fault;
    struct error error;
    int result = values
                     ? sweep_values_apply(values, run->sweep.spec, &spec, &error)
                     : sweep_point_spec(run->sweep.values, index, run->sweep.spec, &spec, &error);

    if (result == 0)
        result = job_entry_prepare(spec, run->sweep.uid, entry, &fault, &error);
    for (size_t i = 0; i < entry->submission.dependencies.count && result == 0; i++)
        if (entry->submission.dependencies.list[i].index >= 0)
            result = error_set(&error, -EINVAL, "a sweep cannot wait for {\"index\": …}");
    if (result < 0)
        point_fail(run, entry, &error);
    entry->sweep = run->sweep.first_job;
    entry->submission.id = run->sweep.first_job + index;
}

static void prepare_work(uv_work_t *work)
{
    struct expansion *expansion = work->data;

    for (size_t i = 0; i < expansion->count; i++)
        sweep_point_prepare(expansion->run, expansion->run->sweep.expanded + (int64_t)i,
                            expansion->values[i], &expansion->entries[i]);
}

static int expanded_store(struct store_connection *connection, struct expansion *expansion,
                          struct error *error)
{
    bool stored;
    int result = sweep_expanded_store(connection, &expansion->run->sweep, (int64_t)expansion->count,
                                      &stored, error);

    expansion->was_cancelled = result == 0 && !stored;
    return result;
}

static int expand_work(struct store_connection *connection, void *data, struct error *error)
{
    struct expansion *expansion = data;
    struct sweep_run *run = expansion->run;
    int result = expanded_store(connection, expansion, error);
    int64_t missing;
    size_t culprit;

    for (size_t i = 0; i < expansion->count && result == 0 && !expansion->was_cancelled; i++) {
        struct job_entry *entry = &expansion->entries[i];
        int exists = job_row_exists(connection, entry->submission.id, error);

        if (exists < 0)
            return exists;
        entry->exists = exists > 0;
        if (!entry->exists)
            result = job_entries_insert(connection, entry, 1, run->sweep.user, run->sweep.submitted,
                                        &culprit, &missing, error);
        if (result == 0 && expansion->values[i])
            result = search_values_store(connection, run->sweep.first_job, entry->submission.id,
                                         json_text(expansion->values[i], NULL), error);
    }
    return result;
}

static void run_expand(struct jobs *jobs, struct sweep_run *run);

static void run_ready(struct sweep_run *run)
{
    jobs_done ready = run->ready;

    run->ready = NULL;
    if (ready)
        ready(run->ready_data, 0, NULL);
}

static void on_retry_closed(uv_handle_t *handle)
{
    free(handle);
}

static void on_retry(uv_timer_t *timer)
{
    struct sweep_run *run = timer->data;
    struct jobs *jobs = ((struct daemon *)timer->loop->data)->jobs;

    uv_close((uv_handle_t *)timer, on_retry_closed);
    run->busy = false;
    if (!jobs->stopping)
        run_expand(jobs, run);
}

/* Tries again after an error, for example a full disk. The run stays busy until the timer fires. */
static void run_retry_later(struct jobs *jobs, struct sweep_run *run)
{
    uv_timer_t *timer = memory_allocate(sizeof *timer);

    uv_timer_init(jobs->daemon->loop, timer);
    timer->data = run;
    uv_unref((uv_handle_t *)timer);
    uv_timer_start(timer, on_retry, RETRY_MILLISECONDS, 0);
}

static void on_point_held(void *data, int result, const struct error *error)
{
    /* the cancellation is stored in the sweep's row and has been answered */
    (void)data;
    (void)result;
    (void)error;
}

static void points_add(struct jobs *jobs, struct sweep_run *run, struct expansion *expansion)
{
    bool missed = false;

    for (size_t i = 0; i < expansion->count; i++) {
        struct job_entry *entry = &expansion->entries[i];
        bool ended = entry->exists || entry->final_state; /* cancelled before, or invalid */

        if (run->search)
            search_point_made(run->search, entry->submission.id - run->sweep.first_job, ended);
        if (ended) {
            missed = true;
            continue;
        }
        run->live++;
        entry->submission.sweep = run;
        jobs_add(jobs->daemon, &entry->submission);
        if (run->sweep.held >= 0 && run->sweep.held != entry->submission.held)
            jobs_hold(jobs->daemon, entry->submission.id, run->sweep.held, on_point_held, NULL);
    }
    job_graph_ask_again(jobs, run->sweep.first_job, run->sweep.first_job + run->sweep.expanded - 1);
    sweep_tell(jobs, run, missed);
    if (run->search && run->sweep.expanded == run->sweep.points)
        search_points_end(jobs, run->search);
}

static void on_expanded(void *data, int result, const struct error *error)
{
    struct expansion *expansion = data;
    struct sweep_run *run = expansion->run;
    struct jobs *jobs = expansion->jobs;
    char note[LOG_NOTE_MAX];

    if (result < 0 && !jobs->stopping) {
        if (log_throttle_pass(&jobs->sweeps->throttle, result, note))
            log_error("points of the sweep %lld cannot be stored and are tried again: %s%s",
                      (long long)run->sweep.first_job, error->text, note);
        run_retry_later(jobs, run);
    } else {
        run->busy = false;
    }
    if (result == 0 && !expansion->was_cancelled) {
        run->sweep.expanded += (int64_t)expansion->count;
        if (!jobs->stopping)
            points_add(jobs, run, expansion);
    }
    if (expansion->was_cancelled) /* the store knows it first */
        run->sweep.cancelled = true;
    run_ready(run);
    expansion_free(expansion);
    if (!jobs->stopping && !run->busy && !run_drop(jobs, run))
        run_expand(jobs, run);
}

static void on_prepared(uv_work_t *work, int status)
{
    struct expansion *expansion = work->data;
    struct sweep_run *run = expansion->run;

    (void)status;                    /* never cancelled */
    if (expansion->jobs->stopping) { /* the next daemon goes on */
        run->busy = false;
        run_ready(run);
        expansion_free(expansion);
        return;
    }
    store_write(expansion->jobs->daemon->store, expand_work, on_expanded, expansion);
}

/* How many points should become rows now. The paused trials of a search count as live, but make
 * nobody wait. */
static size_t points_wanted(const struct jobs *jobs, const struct sweep_run *run)
{
    int64_t left = run->sweep.cancelled ? 0 : run->sweep.points - run->sweep.expanded;
    size_t room = run->search ? WINDOW : run->live > WINDOW / 2 ? 0 : WINDOW - run->live;

    if (left < (int64_t)room)
        room = (size_t)left;
    return run->search && room > 0 ? search_points_wanted(jobs, run->search, room) : room;
}

static void run_expand(struct jobs *jobs, struct sweep_run *run)
{
    size_t wanted = run->busy || !jobs->loaded ? 0 : points_wanted(jobs, run);
    struct expansion *expansion;

    if (wanted == 0)
        return;
    expansion = memory_zero(sizeof *expansion);
    expansion->count = wanted;
    expansion->entries = memory_zero(wanted * sizeof *expansion->entries);
    expansion->values = memory_zero(wanted * sizeof(struct json_object *));
    for (size_t i = 0; i < wanted && run->search; i++)
        expansion->values[i] =
            search_point_choose(jobs, run->search, run->sweep.expanded + (int64_t)i);
    run->busy = true;
    expansion->jobs = jobs;
    expansion->run = run;
    expansion->work.data = expansion;
    daemon_queue_work(jobs->daemon, &expansion->work, prepare_work, on_prepared);
}

void sweep_point_left(struct jobs *jobs, struct sweep_run *run, int64_t id, bool done)
{
    run->live--;
    if (run->search) /* a trial that the search has ended is no failure */
        done |= search_point_left(jobs, run->search, id - run->sweep.first_job, done);
    sweep_tell(jobs, run, !done);
    if (!jobs->stopping && !run_drop(jobs, run))
        run_expand(jobs, run);
}

struct sweep_run *sweep_find_point_to_come(const struct jobs *jobs, int64_t id)
{
    struct sweep_run *run = jobs->sweeps->first;

    while (run && (run->sweep.cancelled || id < run->sweep.first_job + run->sweep.expanded ||
                   id >= run->sweep.first_job + run->sweep.points))
        run = run->next;
    return run;
}

bool sweeps_are_done(const struct jobs *jobs)
{
    for (const struct sweep_run *run = jobs->sweeps->first; run; run = run->next)
        if (!run->sweep.cancelled && run->sweep.expanded < run->sweep.points)
            return false;
    return true;
}

void sweeps_tidy(struct jobs *jobs)
{
    struct sweep_run *next;

    for (struct sweep_run *run = jobs->sweeps->first; run; run = next) {
        next = run->next;
        run_drop(jobs, run);
    }
}

/* The search has stored what it knew, and may want further points. */
static void on_search_changed(struct jobs *jobs, void *owner)
{
    struct sweep_run *run = owner;

    if (!run_drop(jobs, run))
        run_expand(jobs, run);
}

static void search_make(struct sweep_run *run, bool restored)
{
    if (sweep_points_search(run->sweep.values))
        run->search = search_run_new(&run->sweep, restored, on_search_changed, run);
}

/* ---- submission ------------------------------------------------------------------------------ */

void sweeps_add(struct daemon *daemon, struct sweep_run *run, jobs_done ready, void *data)
{
    struct jobs *jobs = daemon->jobs;

    run->next = jobs->sweeps->first;
    jobs->sweeps->first = run;
    run->ready = ready;
    run->ready_data = data;
    search_make(run, false);
    run_expand(jobs, run);
    if (!run->busy)
        run_ready(run);
}

int64_t sweeps_unexpanded_of_user(const struct daemon *daemon, uid_t uid)
{
    int64_t count = 0;

    for (const struct sweep_run *run = daemon->jobs->sweeps->first; run; run = run->next)
        if (run->sweep.uid == uid && !run->sweep.cancelled)
            count += run->sweep.points - run->sweep.expanded;
    return count;
}

/* ---- after a restart ------------------------------------------------------------------------- */

void sweeps_restore(struct jobs *jobs, struct sweep_run *runs)
{
    while (runs) {
        struct sweep_run *run = runs;

        runs = run->next;
        run->next = jobs->sweeps->first;
        jobs->sweeps->first = run;
        search_make(run, true);
    }
}

void sweeps_resume(struct jobs *jobs)
{
    for (struct sweep_run *run = jobs->sweeps->first; run; run = run->next) {
        run_expand(jobs, run);
        if (run->search)
            search_run_start(jobs, run->search);
    }
}

void sweeps_start(struct jobs *jobs)
{
    jobs->sweeps = memory_zero(sizeof *jobs->sweeps);
}

void sweeps_free(struct jobs *jobs)
{
    struct sweep_run *run;

    while (jobs->sweeps && (run = jobs->sweeps->first)) {
        jobs->sweeps->first = run->next;
        sweep_run_free(run);
    }
    free(jobs->sweeps);
}
