/* search_verdicts.c: see search_verdicts.h. */
#include "daemon/jobs/search_verdicts.h"

#include "base/cleanup.h"
#include "base/log.h"
#include "base/memory.h"
#include "daemon/attempts/attempt.h"
#include "daemon/folder/checkpoint_folder.h"
#include "daemon/jobs/edit.h"
#include "daemon/jobs/job.h"
#include "daemon/jobs/job_warning.h"
#include "daemon/jobs/parts.h"
#include "daemon/jobs/search_points.h"
#include "daemon/store/checkpoint_clone.h"
#include "daemon/store/checkpoint_purge.h"
#include "daemon/store/search_rows.h"
#include "daemon/work/job_table.h"

#include <stdlib.h>

/* ---- verdicts -------------------------------------------------------------------------------- */

struct mark {
    int64_t sweep, job;
    uint32_t rung;
    bool stopped;
};

static int mark_work(struct store_connection *connection, void *data, struct error *error)
{
    const struct mark *mark = data;

    return mark->stopped ? search_stopped_store(connection, mark->sweep, mark->job, error)
                         : search_passed_store(connection, mark->job, mark->rung, error);
}

static void on_marked(void *data, int result, const struct error *error)
{
    struct mark *mark = data;

    if (result < 0) /* the trial is judged again after the next restart */
        log_warning("job %lld: the search's verdict cannot be stored: %s", (long long)mark->job,
                    error->text);
    free(mark);
}

static void mark_store(struct jobs *jobs, struct mark mark)
{
    struct mark *stored = memory_allocate(sizeof *stored);

    *stored = mark;
    store_write(jobs->daemon->store, mark_work, on_marked, stored);
}

static void on_changed(void *data, int result, const struct error *error)
{
    (void)data;
    if (result < 0)
        log_warning("a trial of a search cannot be paused or resumed: %s", error->text);
}

static bool is_pausing(const struct job *job)
{
    return job->state == JOB_PAUSED || (job->state == JOB_PREEMPTING && job->attempt &&
                                        job->attempt->preemption == PREEMPTION_PAUSED);
}

/* The job goes on before it is stored that it does: if traind is killed in between, it is judged
 * once more, which changes nothing. */
static void trial_pass(struct jobs *jobs, struct search_run *run, uint32_t trial,
                       const struct search_verdict *verdict, struct job *job)
{
    search_table_find(&run->table, trial, verdict->rung)->passed = true;
    if (is_pausing(job))
        jobs_resume(jobs->daemon, job->id,
                    (struct job_change){.at_once = true, .done = on_changed});
    mark_store(jobs, (struct mark){run->sweep->first_job, job->id, verdict->rung, false});
}

static void trial_wait(struct jobs *jobs, struct search_run *run, struct job *job)
{
    char reason[JOB_REASON_MAX];

    if (is_pausing(job))
        return;
    snprintf(reason, sizeof reason,
             "waits for the search to let it go on (`trainctl sweep %lld`): it gives its device up",
             (long long)run->sweep->first_job);
    jobs_pause(jobs->daemon, job->id,
               (struct job_change){.reason = reason, .at_once = true, .done = on_changed});
}

static void trial_stop(struct jobs *jobs, struct search_run *run, uint32_t trial,
                       const struct search_verdict *verdict, struct job *job)
{
    char reason[JOB_REASON_MAX];

    run->stopped[trial] = true;
    search_describe_stop(&run->table, trial, verdict, reason, sizeof reason);
    mark_store(jobs, (struct mark){run->sweep->first_job, job->id, verdict->rung, true});
    job_cancel(jobs, job, reason, NULL, NULL);
}

/* Puts a verdict in effect, except SEARCH_EXPLOIT. */
static void verdict_apply(struct jobs *jobs, struct search_run *run, uint32_t trial,
                          const struct search_verdict *verdict, struct job *job)
{
    switch (verdict->action) {
    case SEARCH_PASS:
    case SEARCH_FINISH:
        trial_pass(jobs, run, trial, verdict, job);
        break;
    case SEARCH_WAIT:
        trial_wait(jobs, run, job);
        break;
    case SEARCH_STOP:
        trial_stop(jobs, run, trial, verdict, job);
        break;
    case SEARCH_EXPLOIT:
    case SEARCH_NOTHING:
        break;
    }
}

static struct job *live_job(const struct jobs *jobs, const struct search_run *run, uint32_t trial)
{
    struct job *job = job_table_find(jobs->table, run->sweep->first_job + trial);

    return job && !job->ended ? job : NULL;
}

/* Pauses the trials that came last to a rung of a population, and lets those go on that have come
 * to their end. Returns whether all others rest now: then their newest checkpoints are those of
 * the rung, and nobody edits those that are to be changed. */
static bool population_rests(struct jobs *jobs, struct search_run *run,
                             const struct search_verdict *verdicts)
{
    bool rests = run->exploits == 0;

    for (uint32_t i = 0; i < run->table.trial_count; i++) {
        struct job *job = verdicts[i].action == SEARCH_NOTHING ? NULL : live_job(jobs, run, i);

        if (!job)
            continue;
        if (verdicts[i].action == SEARCH_FINISH) {
            trial_pass(jobs, run, i, &verdicts[i], job);
            continue;
        }
        trial_wait(jobs, run, job);
        rests = rests && job->state == JOB_PAUSED &&
                !(verdicts[i].action == SEARCH_EXPLOIT && job->frozen);
    }
    return rests;
}

static void exploit_begin(struct jobs *jobs, struct search_run *run, uint32_t trial,
                          const struct search_verdict *verdict, struct job *job);

/* The worst trials get their checkpoints before the best ones go on and write others. */
static void population_apply(struct jobs *jobs, struct search_run *run,
                             const struct search_verdict *verdicts)
{
    if (!population_rests(jobs, run, verdicts))
        return;
    for (uint32_t i = 0; i < run->table.trial_count; i++) {
        struct job *job = verdicts[i].action == SEARCH_EXPLOIT ? live_job(jobs, run, i) : NULL;

        if (job)
            exploit_begin(jobs, run, i, &verdicts[i], job);
    }
    for (uint32_t i = 0; i < run->table.trial_count && run->exploits == 0; i++) {
        struct job *job = verdicts[i].action == SEARCH_PASS ? live_job(jobs, run, i) : NULL;

        if (job)
            trial_pass(jobs, run, i, &verdicts[i], job);
    }
}

void search_run_judge(struct jobs *jobs, struct search_run *run)
{
    size_t count = run->table.trial_count;
    struct search_verdict *verdicts = memory_zero(count * sizeof *verdicts);

    search_judge(&run->table, verdicts);
    if (run->table.search.algorithm == SEARCH_POPULATION) {
        population_apply(jobs, run, verdicts);
    } else {
        for (uint32_t i = 0; i < count; i++) {
            struct job *job = verdicts[i].action == SEARCH_NOTHING ? NULL : live_job(jobs, run, i);

            if (job)
                verdict_apply(jobs, run, i, &verdicts[i], job);
        }
    }
    free(verdicts);
}

/* ---- population based training --------------------------------------------------------------- */

/* A trial that gets the checkpoint of another one, or what a command has saved, and changed
 * values. One after the other in the whole daemon, by turns of users: copies of many files would
 * else take all threads of the pool, and those of many checkpoints one transaction. */
struct exploit {
    struct exploit *next;
    uint64_t round; /* of turns: each user has one of each round; the queue is sorted by it */
    bool begun;
    struct jobs *jobs;
    struct search_run *run;
    struct search_verdict verdict;
    uint32_t trial;
    int64_t sweep, job, donor, attempt;
    uid_t uid;
    bool command;
    uv_work_t work;
    struct error copied;                  /* of a command */
    struct json_object *values, *changes; /* owned */
    struct job_editing editing;
    struct edited_job edited;
};

/* Stores what the trial goes on from, and its values. */
static int exploit_store(struct store_connection *connection, void *data, struct error *error)
{
    const struct exploit *exploit = data;
    int result = exploit->command ? 0
                                  : checkpoints_clone(connection, exploit->donor, exploit->job,
                                                      exploit->attempt, error);

    return result < 0 ? result
                      : search_values_store(connection, exploit->sweep, exploit->job,
                                            json_text(exploit->values, NULL), error);
}

static void exploit_free(struct exploit *exploit)
{
    json_object_put(exploit->values);
    json_object_put(exploit->changes);
    free(exploit);
}

/* The trial goes on, be it as it was. */
static void exploit_close(struct exploit *exploit, int result, const struct error *error)
{
    struct jobs *jobs = exploit->jobs;
    struct search_run *run = exploit->run;
    struct job *job = jobs->stopping ? NULL : live_job(jobs, run, exploit->trial);

    if (job && result < 0) {
        char sentence[JOB_REASON_MAX];

        snprintf(sentence, sizeof sentence,
                 "it goes on as it was, and not from job %lld, as its search wants: %.400s",
                 (long long)exploit->donor, error->text);
        job_warn(jobs->daemon, exploit->job, exploit->attempt, sentence);
    }
    if (job)
        trial_pass(jobs, run, exploit->trial, &exploit->verdict, job);
    run->exploits--;
    jobs_edit_release(&exploit->editing);
    exploit_free(exploit);
    if (jobs->stopping || run->busy || run->exploits > 0) /* the last one's end lets all go on */
        return;
    search_run_judge(jobs, run);
    search_run_settle(jobs, run);
    run->changed(jobs, run->owner);
}

static int exploit_run(struct exploit *exploit, struct error *error);

/* One that cannot begin leaves the queue, and the next one begins. */
void search_exploits_go_on(struct jobs *jobs)
{
    while (jobs->exploits && !jobs->exploits->begun) {
        struct exploit *exploit = jobs->exploits;
        const struct job *job = live_job(jobs, exploit->run, exploit->trial);
        struct error error = {0};
        int result;

        if (job && job->frozen && !jobs->stopping)
            return; /* the end of that edit comes here again */
        result = jobs->stopping ? -ECANCELED : exploit_run(exploit, &error);
        if (result == 0)
            return;
        jobs->exploits = exploit->next; /* while the daemon ends, the next one judges its trial */
        exploit_close(exploit, result, &error);
    }
}

static void exploit_end(struct exploit *exploit, int result, const struct error *error)
{
    struct jobs *jobs = exploit->jobs;

    jobs->exploits = exploit->next;
    exploit_close(exploit, result, error);
    search_exploits_go_on(jobs);
}

static void on_edited(struct job_editing *editing, int result, const struct error *error)
{
    struct exploit *exploit = editing->data;
    struct search_run *run = exploit->run;

    if (result == 0 && !exploit->jobs->stopping) {
        checkpoints_purge(&exploit->jobs->daemon->checkpoint_purge);
        json_object_put(run->chosen[exploit->trial]);
        run->chosen[exploit->trial] = TAKE_POINTER(exploit->values);
    }
    exploit_end(exploit, result, error);
}

static void folder_work(uv_work_t *work)
{
    struct exploit *exploit = work->data;

    checkpoint_folder_copy(exploit->jobs->daemon->state_directory, exploit->donor, exploit->job,
                           exploit->uid, &exploit->copied);
}

static void on_folder_copied(uv_work_t *work, int status)
{
    struct exploit *exploit = work->data;

    (void)status;
    if (exploit->copied.code < 0 || exploit->jobs->stopping)
        jobs_edit_give_up(&exploit->editing, exploit->copied.code, &exploit->copied);
    else
        jobs_edit(exploit->jobs->daemon, &exploit->editing);
}

/* From here on nobody else edits the trial. An error, with a sentence: it cannot be changed. */
static int exploit_run(struct exploit *exploit, struct error *error)
{
    struct jobs *jobs = exploit->jobs;
    struct job *job = live_job(jobs, exploit->run, exploit->trial);
    int result;

    if (!job)
        return error_set(error, -ERROR_NO_SUCH_JOB, "it has ended");
    if (job->state != JOB_PAUSED)
        return error_set(error, -EBUSY, "somebody has let it go on");
    result = jobs_edit_reserve(jobs->daemon, &exploit->editing, error);
    if (result < 0)
        return result;
    exploit->begun = true;
    if (exploit->command)
        daemon_queue_work(jobs->daemon, &exploit->work, folder_work, on_folder_copied);
    else
        jobs_edit(jobs->daemon, &exploit->editing);
    return 0;
}

static void exploit_queue(struct jobs *jobs, struct exploit *exploit)
{
    struct exploit **place = &jobs->exploits;

    exploit->round = jobs->exploits ? jobs->exploits->round : 0;
    for (const struct exploit *other = jobs->exploits; other; other = other->next)
        if (other->uid == exploit->uid)
            exploit->round = other->round + 1;
    while (*place && (*place)->round <= exploit->round)
        place = &(*place)->next;
    exploit->next = *place;
    *place = exploit;
    search_exploits_go_on(jobs);
}

static void exploit_begin(struct jobs *jobs, struct search_run *run, uint32_t trial,
                          const struct search_verdict *verdict, struct job *job)
{
    JSON_AUTO struct json_object *donor = search_trial_values(run, verdict->donor);
    struct exploit *exploit = memory_zero(sizeof *exploit);
    struct error error;

    *exploit = (struct exploit){
        .jobs = jobs,
        .run = run,
        .verdict = *verdict,
        .trial = trial,
        .sweep = run->sweep->first_job,
        .job = job->id,
        .donor = run->sweep->first_job + verdict->donor,
        .attempt = job->attempt_number,
        .uid = job->uid,
        .command = job_spec_is_command(run->sweep->spec),
        .work.data = exploit,
        .values = sweep_point_explore(run->sweep->values, donor, trial, verdict->rung),
        .edited.id = job->id,
        .editing = {.jobs = &exploit->edited,
                    .count = 1,
                    .priority_max = INT64_MAX,
                    .uid = job->uid,
                    .by_search = true,
                    .also = exploit_store,
                    .done = on_edited,
                    .data = exploit},
    };
    if (sweep_values_apply(exploit->values, NULL, &exploit->changes, &error) < 0) {
        log_warning("job %lld goes on as it was: %s", (long long)job->id, error.text);
        trial_pass(jobs, run, trial, verdict, job);
        exploit_free(exploit);
        return;
    }
    run->exploits++;
    exploit->editing.changes = exploit->changes;
    exploit_queue(jobs, exploit);
}
