/* schedules.c: see schedules.h. When a time comes, a worker thread checks the specification anew,
 * and one transaction stores the job and the schedule's next time. So a daemon that is killed in
 * between has made the job, or makes it at its next start. */
#include "daemon/jobs/schedules.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "daemon/folder/code_snapshot.h"
#include "daemon/jobs/jobs.h"
#include "daemon/jobs/parts.h"
#include "daemon/jobs/sweeps.h"
#include "daemon/jobs/wall_timer.h"
#include "daemon/store/job_insert.h"
#include "daemon/store/store.h"
#include "daemon/work/job_entry.h"
#include "daemon/work/job_table.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { AGAIN_SECONDS = 10 /* after a job that could not be stored: the disk is full */ };

struct schedules {
    struct wall_timer timer;
    struct schedule *first;
    double not_before; /* no job is made earlier */
};

/* One job that a schedule makes. */
struct making {
    uv_work_t work;
    struct jobs *jobs;
    struct schedule *schedule;
    struct schedule_row row; /* what is stored of it; borrows its texts, but for `failure` */
    struct job_entry entry;
    int result; /* of the check */
    struct error error;
};

static void look(struct jobs *jobs);

/* ---- one job --------------------------------------------------------------------------------- */

static double time_after(const struct schedule *schedule, double now)
{
    int64_t next;

    return calendar_next(&schedule->calendar, (int64_t)floor(now), &next) < 0 ? NAN : (double)next;
}

static void schedule_free(struct schedule *schedule)
{
    schedule_row_release(&schedule->row);
    free(schedule);
}

static void making_end(struct making *making)
{
    struct jobs *jobs = making->jobs;
    struct schedule *schedule = making->schedule;

    schedule->busy = schedule->making = false;
    if (schedule->removed)
        schedule_free(schedule);
    job_entry_release(&making->entry);
    free(making->row.failure);
    free(making);
    if (!jobs->stopping)
        look(jobs);
}

static void making_check(uv_work_t *work)
{
    struct making *making = work->data;
    JSON_AUTO struct json_object *spec = NULL;
    struct job_spec_fault fault = {.path = ""};

    making->result = json_parse(making->row.spec, strlen(making->row.spec), &spec, &making->error);
    if (making->result == 0)
        making->result =
            job_entry_prepare(spec, making->row.uid, &making->entry, &fault, &making->error);
    if (making->result == 0 && *making->entry.snapshot)
        making->result = code_snapshot_check(making->jobs->daemon->state_directory, making->row.uid,
                                             making->entry.snapshot, &making->error);
}

/* Stores the schedule's next time and the job, if there is one. Neither, if the schedule has been
 * removed meanwhile: whoever removed it has been told, or will be, that it makes no more jobs. */
static int making_store(struct store_connection *connection, void *data, struct error *error)
{
    struct making *making = data;
    size_t culprit;
    int64_t missing = 0;
    int result = schedule_is_there(connection, making->row.id, error);

    if (result <= 0)
        return result;
    result = 0;
    if (making->entry.spec && !making->row.failure) {
        result = job_entries_insert(connection, &making->entry, 1, making->row.user, clock_now(),
                                    &culprit, &missing, error);
        making->row.last_job = making->entry.submission.id;
    }
    return result < 0 ? result : schedule_update(connection, &making->row, error);
}

static void on_stored(void *data, int result, const struct error *error)
{
    struct making *making = data;
    struct schedule_row *row = &making->schedule->row;
    struct jobs *jobs = making->jobs;

    if (result < 0) {
        log_error("schedule %lld made no job, and tries again: %s", (long long)row->id,
                  error->text);
        jobs->schedules->not_before = clock_now() + AGAIN_SECONDS;
        making_end(making);
        return;
    }
    row->next = making->row.next;
    row->last_job = making->row.last_job;
    row->skipped = making->row.skipped;
    free(row->failure);
    row->failure = TAKE_POINTER(making->row.failure);
    if (making->entry.submission.id && !jobs->stopping)
        jobs_add(jobs->daemon, &making->entry.submission);
    making_end(making);
}

static void on_checked(uv_work_t *work, int status)
{
    struct making *making = work->data;

    (void)status; /* never cancelled */
    if (making->jobs->stopping || making->schedule->removed) {
        making_end(making);
        return;
    }
    if (making->result < 0) {
        log_warning("schedule %lld cannot make its job: %s", (long long)making->row.id,
                    making->error.text);
        making->row.failure = memory_copy_text(making->error.text);
    }
    store_write(making->jobs->daemon->store, making_store, on_stored, making);
}

/* Whether the owner may have no further job. Here the members of AdminGroup are not told from other
 * users: a schedule keeps its owner's id alone. */
static bool owner_has_too_many(const struct jobs *jobs, uid_t uid)
{
    int64_t count = (int64_t)jobs_count_of_user(jobs->daemon, uid) +
                    sweeps_unexpanded_of_user(jobs->daemon, uid);

    if (uid == 0 || uid == geteuid())
        return false;
    for (const struct schedule *schedule = jobs->schedules->first; schedule;
         schedule = schedule->next_schedule)
        count += schedule->making && schedule->row.uid == uid;
    return count >= jobs->daemon->config.jobs_per_user;
}

/* Makes the job of a schedule whose time has come, or skips it while the one before lives. */
static void schedule_ring(struct jobs *jobs, struct schedule *schedule, double now)
{
    const struct job *last = job_table_find(jobs->table, schedule->row.last_job);
    struct making *making = memory_zero(sizeof *making);

    making->work.data = making;
    making->jobs = jobs;
    making->schedule = schedule;
    making->row = schedule->row;
    making->row.failure = NULL;
    making->row.next = time_after(schedule, now);
    schedule->busy = true;
    if (last && !last->ended) {
        making->row.skipped++;
        store_write(jobs->daemon->store, making_store, on_stored, making);
        return;
    }
    if (owner_has_too_many(jobs, making->row.uid)) {
        snprintf(making->error.text, sizeof making->error.text,
                 "it made no job: a user may have %lld jobs that have not ended (JobsPerUser), and "
                 "its owner has as many",
                 (long long)jobs->daemon->config.jobs_per_user);
        making->row.failure = memory_copy_text(making->error.text);
        store_write(jobs->daemon->store, making_store, on_stored, making);
        return;
    }
    schedule->making = true;
    snprintf(making->error.text, sizeof making->error.text, "made by schedule %lld",
             (long long)schedule->row.id);
    making->entry.final_reason = memory_copy_text(making->error.text);
    daemon_queue_work(jobs->daemon, &making->work, making_check, on_checked);
}

/* ---- all of them ----------------------------------------------------------------------------- */

/* Rings what is due, and wakes the loop at the earliest time of the others. */
static void look(struct jobs *jobs)
{
    struct schedules *schedules = jobs->schedules;
    double now = clock_now(), earliest = INFINITY;

    for (struct schedule *schedule = schedules->first; schedule;
         schedule = schedule->next_schedule) {
        double at = fmax(schedule->row.next, schedules->not_before);

        if (schedule->busy || isnan(schedule->row.next))
            continue;
        if (at <= now)
            schedule_ring(jobs, schedule, now);
        else
            earliest = fmin(earliest, at);
    }
    wall_timer_set(&schedules->timer, isinf(earliest) ? 0 : earliest);
}

/* A clock that was set back would let all schedules wait until it is where it was. */
static void on_time(void *data, bool clock_was_set)
{
    struct jobs *jobs = data;
    double now = clock_now();

    if (jobs->stopping)
        return;
    if (clock_was_set)
        jobs->schedules->not_before = 0;
    for (struct schedule *schedule = jobs->schedules->first; schedule && clock_was_set;
         schedule = schedule->next_schedule)
        if (!schedule->busy && !(schedule->row.next <= now))
            schedule->row.next = time_after(schedule, now);
    look(jobs);
}

static struct schedule *take_in(struct jobs *jobs, const struct schedule_row *row,
                                const struct calendar *calendar)
{
    struct schedule *schedule = memory_zero(sizeof *schedule);

    schedule->row = *row;
    schedule->calendar = *calendar;
    schedule->next_schedule = jobs->schedules->first;
    jobs->schedules->first = schedule;
    return schedule;
}

void schedules_add(struct daemon *daemon, const struct schedule_row *row,
                   const struct calendar *calendar)
{
    take_in(daemon->jobs, row, calendar);
    look(daemon->jobs);
}

void schedules_remove(struct daemon *daemon, int64_t id)
{
    for (struct schedule **link = &daemon->jobs->schedules->first; *link;
         link = &(*link)->next_schedule) {
        struct schedule *schedule = *link;

        if (schedule->row.id != id)
            continue;
        *link = schedule->next_schedule;
        schedule->removed = true;
        if (!schedule->busy)
            schedule_free(schedule);
        return;
    }
}

const struct schedule *schedules_first(const struct daemon *daemon)
{
    return daemon->jobs->schedules->first;
}

const struct schedule *schedules_find(const struct daemon *daemon, int64_t id)
{
    const struct schedule *schedule = schedules_first(daemon);

    while (schedule && schedule->row.id != id)
        schedule = schedule->next_schedule;
    return schedule;
}

size_t schedules_count_of_user(const struct daemon *daemon, uid_t uid)
{
    size_t count = 0;

    for (const struct schedule *schedule = schedules_first(daemon); schedule;
         schedule = schedule->next_schedule)
        count += schedule->row.uid == uid;
    return count;
}

/* ---- start and end --------------------------------------------------------------------------- */

void schedules_restore(struct jobs *jobs, struct schedule_row *rows, size_t count)
{
    jobs->schedules = memory_zero(sizeof *jobs->schedules);
    wall_timer_start(&jobs->schedules->timer, jobs->daemon->loop, "schedules", on_time, jobs);
    for (size_t i = 0; i < count; i++) {
        struct calendar calendar;
        struct error wrong = {0};

        if (calendar_parse(rows[i].every, &calendar, &wrong) == 0) {
            take_in(jobs, &rows[i], &calendar);
        } else {
            log_error("schedule %lld makes no jobs: %s", (long long)rows[i].id, wrong.text);
            schedule_row_release(&rows[i]);
        }
    }
    look(jobs);
}

void schedules_stop(struct jobs *jobs)
{
    if (jobs->schedules)
        wall_timer_stop(&jobs->schedules->timer);
}

void schedules_free(struct jobs *jobs)
{
    struct schedule *next;

    if (!jobs->schedules)
        return;
    wall_timer_close(&jobs->schedules->timer);
    for (struct schedule *schedule = jobs->schedules->first; schedule; schedule = next) {
        next = schedule->next_schedule;
        schedule_free(schedule);
    }
    free(jobs->schedules);
}
