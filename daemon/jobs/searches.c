/* searches.c: see searches.h. */
#include "daemon/jobs/searches.h"

#include "base/log.h"
#include "base/memory.h"
#include "daemon/attempts/attempt.h"
#include "daemon/folder/checkpoint_folder.h"
#include "daemon/jobs/edit.h"
#include "daemon/jobs/graph.h"
#include "daemon/jobs/job.h"
#include "daemon/jobs/job_warning.h"
#include "daemon/jobs/parts.h"
#include "daemon/jobs/sweeps.h"
#include "daemon/store/checkpoint_clone.h"
#include "daemon/store/checkpoint_purge.h"
#include "daemon/store/search_rows.h"
#include "daemon/work/job_table.h"
#include "daemon/work/parzen.h"

#include <stdlib.h>

enum {
    RETRY_MILLISECONDS = 1000,
    RANDOM_TRIALS = 10 /* before a sampler learns, as in Optuna's TPESampler */
};

struct search_run *search_run_new(struct sweep *sweep, bool restored, search_changed changed,
                                  void *owner)
{
    struct search_run *run = memory_zero(sizeof *run);
    size_t points = (size_t)sweep->points;

    search_table_init(&run->table, sweep_points_search(sweep->values), points);
    run->table.search.stops_only = !search_trials_pause(sweep->spec);
    run->chosen = memory_zero(points * sizeof(struct json_object *));
    run->stopped = memory_zero(points * sizeof *run->stopped);
    run->sweep = sweep;
    run->changed = changed;
    run->owner = owner;
    run->must_load = restored;
    return run;
}

void search_run_free(struct search_run *run)
{
    if (!run)
        return;
    for (size_t i = 0; i < run->table.trial_count; i++)
        json_object_put(run->chosen[i]);
    search_table_release(&run->table);
    free(run->chosen);
    free(run->stopped);
    free(run->news);
    free(run);
}

bool search_run_is_busy(const struct search_run *run)
{
    return run->busy || run->must_load || run->news_count > 0 || run->exploits > 0;
}

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

/* Pauses the trials that came last to a rung of a population. Returns whether all rest now: then
 * their newest checkpoints are those of the rung. */
static bool population_rests(struct jobs *jobs, struct search_run *run,
                             const struct search_verdict *verdicts)
{
    bool rests = run->exploits == 0;

    for (uint32_t i = 0; i < run->table.trial_count; i++) {
        struct job *job = verdicts[i].action == SEARCH_NOTHING ? NULL : live_job(jobs, run, i);

        if (!job)
            continue;
        trial_wait(jobs, run, job);
        rests = rests && job->state == JOB_PAUSED;
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

static void judge(struct jobs *jobs, struct search_run *run)
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
 * values. */
struct exploit {
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

static int clone_work(struct store_connection *connection, void *data, struct error *error)
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
static void exploit_end(struct exploit *exploit, int result, const struct error *error)
{
    struct jobs *jobs = exploit->jobs;
    struct search_run *run = exploit->run;
    struct job *job = jobs->stopping ? NULL : live_job(jobs, run, exploit->trial);

    if (result < 0 && !jobs->stopping) {
        char sentence[JOB_REASON_MAX];

        snprintf(sentence, sizeof sentence,
                 "it goes on as it was, and not from job %lld, as its search wants: %.400s",
                 (long long)exploit->donor, error->text);
        job_warn(jobs->daemon, exploit->job, exploit->attempt, sentence);
    }
    if (job)
        trial_pass(jobs, run, exploit->trial, &exploit->verdict, job);
    exploit_free(exploit);
    run->exploits--;
    if (jobs->stopping || run->busy)
        return;
    judge(jobs, run);
    run->changed(jobs, run->owner);
}

static void on_edited(struct job_editing *editing, int result, const struct error *error)
{
    struct exploit *exploit = editing->data;
    struct search_run *run = exploit->run;

    if (result == 0 && !exploit->jobs->stopping) {
        json_object_put(run->chosen[exploit->trial]);
        run->chosen[exploit->trial] = TAKE_POINTER(exploit->values);
    }
    jobs_edit_release(editing);
    exploit_end(exploit, result, error);
}

static void on_cloned(void *data, int result, const struct error *error)
{
    struct exploit *exploit = data;
    struct jobs *jobs = exploit->jobs;
    const struct job *job = jobs->stopping ? NULL : live_job(jobs, exploit->run, exploit->trial);

    if (result < 0 || !job) {
        exploit_end(exploit, result, error);
        return;
    }
    checkpoints_purge(&jobs->daemon->checkpoint_purge);
    exploit->edited.id = job->id;
    exploit->editing = (struct job_editing){.jobs = &exploit->edited,
                                            .count = 1,
                                            .changes = exploit->changes,
                                            .priority_max = INT64_MAX,
                                            .uid = job->uid,
                                            .by_search = true,
                                            .done = on_edited,
                                            .data = exploit};
    jobs_edit(jobs->daemon, &exploit->editing);
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
        exploit_end(exploit, exploit->copied.code, &exploit->copied);
    else
        store_write(exploit->jobs->daemon->store, clone_work, on_cloned, exploit);
}

static struct json_object *values_of(const struct search_run *run, uint32_t trial);

static void exploit_begin(struct jobs *jobs, struct search_run *run, uint32_t trial,
                          const struct search_verdict *verdict, struct job *job)
{
    JSON_AUTO struct json_object *donor = values_of(run, verdict->donor);
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
    };
    if (sweep_values_apply(exploit->values, NULL, &exploit->changes, &error) < 0) {
        log_warning("job %lld goes on as it was: %s", (long long)job->id, error.text);
        trial_pass(jobs, run, trial, verdict, job);
        exploit_free(exploit);
        return;
    }
    run->exploits++;
    if (exploit->command)
        daemon_queue_work(jobs->daemon, &exploit->work, folder_work, on_folder_copied);
    else
        store_write(jobs->daemon->store, clone_work, on_cloned, exploit);
}

/* ---- news ------------------------------------------------------------------------------------ */

/* Stores the results behind some news, and brings them back. */
struct update {
    struct jobs *jobs;
    struct search_run *run;
    struct search search;
    int64_t first_job, expanded;
    bool loads;
    struct search_news *news; /* owned */
    size_t news_count;
    struct search_row *rows; /* owned */
    size_t row_count, row_capacity;
    struct loaded_trial {
        int64_t job;
        enum job_state state;
        bool stopped;
        struct json_object *chosen;
    } * trials; /* owned */
    size_t trial_count, trial_capacity;
};

static void update_free(struct update *update)
{
    for (size_t i = 0; i < update->trial_count; i++)
        json_object_put(update->trials[i].chosen);
    free(update->trials);
    free(update->news);
    free(update->rows);
    free(update);
}

static void row_take(void *data, const struct search_row *row)
{
    struct update *update = data;

    if (update->row_count == update->row_capacity) {
        update->row_capacity = update->row_capacity ? 2 * update->row_capacity : 16;
        update->rows = memory_grow(update->rows, update->row_capacity * sizeof *update->rows);
    }
    update->rows[update->row_count++] = *row;
}

static void trial_take(void *data, int64_t job, enum job_state state, bool stopped,
                       struct json_object *chosen)
{
    struct update *update = data;

    if (update->trial_count == update->trial_capacity) {
        update->trial_capacity = update->trial_capacity ? 2 * update->trial_capacity : 64;
        update->trials =
            memory_grow(update->trials, update->trial_capacity * sizeof *update->trials);
    }
    update->trials[update->trial_count++] = (struct loaded_trial){job, state, stopped, chosen};
}

/* On the writer, behind the metrics that the news are about. */
static int update_work(struct store_connection *connection, void *data, struct error *error)
{
    struct update *update = data;
    int result = 0;

    for (size_t i = 0; i < update->trial_count; i++) /* of a try that failed */
        json_object_put(update->trials[i].chosen);
    update->row_count = update->trial_count = 0;
    if (update->loads) {
        result = search_results_read(connection, update->first_job, row_take, update, error);
        if (result == 0)
            result = search_trials_read(connection, update->first_job, trial_take, update, error);
        for (size_t i = 0; i < update->trial_count && result == 0; i++)
            result = search_results_add(connection, &update->search, update->first_job,
                                        update->trials[i].job, row_take, update, error);
    }
    for (size_t i = 0; i < update->news_count && result == 0; i++)
        result = search_results_add(connection, &update->search, update->first_job,
                                    update->news[i].job, row_take, update, error);
    return result;
}

static void on_updated(void *data, int result, const struct error *error);

static void on_retry_closed(uv_handle_t *handle)
{
    free(handle);
}

static void on_retry(uv_timer_t *timer)
{
    struct update *update = timer->data;

    uv_close((uv_handle_t *)timer, on_retry_closed);
    store_write(update->jobs->daemon->store, update_work, on_updated, update);
}

static void retry_later(struct update *update)
{
    uv_timer_t *timer = memory_allocate(sizeof *timer);

    uv_timer_init(update->jobs->daemon->loop, timer);
    timer->data = update;
    uv_unref((uv_handle_t *)timer);
    uv_timer_start(timer, on_retry, RETRY_MILLISECONDS, 0);
}

/* Takes over which trials exist. One of the first points that has no row was removed. */
static void take_loaded(struct update *update)
{
    struct search_run *run = update->run;

    for (int64_t i = 0; i < update->expanded; i++)
        run->table.trials[i].exists = run->table.trials[i].ended = true;
    for (size_t i = 0; i < update->trial_count; i++) {
        struct loaded_trial *loaded = &update->trials[i];
        int64_t index = loaded->job - update->first_job;

        if (index < 0 || index >= (int64_t)run->table.trial_count)
            continue;
        run->table.trials[index].exists = true;
        run->table.trials[index].ended = job_state_is_final(loaded->state);
        run->table.trials[index].failed =
            job_state_is_final(loaded->state) && loaded->state != JOB_DONE && !loaded->stopped;
        run->table.trials[index].done = loaded->state == JOB_DONE;
        run->chosen[index] = TAKE_POINTER(loaded->chosen);
    }
}

static void take_rows(struct update *update)
{
    struct search_table *table = &update->run->table;

    for (size_t i = 0; i < update->row_count; i++) {
        const struct search_row *row = &update->rows[i];
        int64_t index = row->job - update->first_job;
        struct search_result result = {.trial = (uint32_t)index,
                                       .rung = row->rung,
                                       .resource = row->resource,
                                       .value = row->value,
                                       .passed = row->passed};

        if (index >= 0 && index < (int64_t)table->trial_count)
            search_table_add(table, &result);
    }
}

static void store_news(struct jobs *jobs, struct search_run *run);

static void on_updated(void *data, int result, const struct error *error)
{
    static struct log_throttle throttle;
    struct update *update = data;
    struct search_run *run = update->run;
    struct jobs *jobs = update->jobs;
    char note[LOG_NOTE_MAX];

    if (jobs->stopping) { /* the next daemon finds what is missing */
        update_free(update);
        return;
    }
    if (result < 0) {
        if (log_throttle_pass(&throttle, result, note))
            log_error("results of the search of sweep %lld cannot be stored and are tried again: "
                      "%s%s",
                      (long long)update->first_job, error->text, note);
        retry_later(update);
        return;
    }
    if (update->loads)
        take_loaded(update);
    take_rows(update);
    for (size_t i = 0; i < update->news_count; i++) {
        struct search_trial *trial = &run->table.trials[update->news[i].job - update->first_job];

        trial->ended |= update->news[i].ended;
        trial->failed |= update->news[i].failed;
        trial->done |= update->news[i].done;
    }
    update_free(update);
    run->busy = false;
    judge(jobs, run);
    store_news(jobs, run);
    run->changed(jobs, run->owner);
}

static void store_news(struct jobs *jobs, struct search_run *run)
{
    struct update *update;

    if (run->busy || !jobs->loaded || (run->news_count == 0 && !run->must_load))
        return;
    update = memory_zero(sizeof *update);
    *update = (struct update){.jobs = jobs,
                              .run = run,
                              .search = run->table.search,
                              .first_job = run->sweep->first_job,
                              .expanded = run->sweep->expanded,
                              .loads = run->must_load,
                              .news = TAKE_POINTER(run->news),
                              .news_count = run->news_count};
    run->news_count = run->news_capacity = 0;
    run->must_load = false;
    run->busy = true;
    store_write(jobs->daemon->store, update_work, on_updated, update);
}

static void add_news(struct jobs *jobs, struct search_run *run, struct search_news news)
{
    if (run->news_count == run->news_capacity) {
        run->news_capacity = run->news_capacity ? 2 * run->news_capacity : 16;
        run->news = memory_grow(run->news, run->news_capacity * sizeof *run->news);
    }
    run->news[run->news_count++] = news;
    store_news(jobs, run);
}

void search_run_start(struct jobs *jobs, struct search_run *run)
{
    run->table.complete = run->sweep->cancelled || run->sweep->expanded == run->sweep->points;
    store_news(jobs, run);
}

static struct search_run *search_of(const struct job *job)
{
    struct sweep_run *sweep = job && !job->ended && job->links ? job->links->sweep : NULL;

    return sweep ? sweep->search : NULL;
}

void search_job_measured(struct jobs *jobs, const struct job *job)
{
    struct search_run *run = search_of(job);

    if (run)
        add_news(jobs, run, (struct search_news){.job = job->id});
}

void search_job_paused(struct jobs *jobs, const struct job *job)
{
    struct search_run *run = search_of(job);

    if (run && !run->busy && !run->must_load && run->table.search.algorithm == SEARCH_POPULATION)
        judge(jobs, run);
}

/* ---- points ---------------------------------------------------------------------------------- */

void search_point_made(struct search_run *run, int64_t index, bool ended)
{
    run->table.trials[index].exists = true;
    run->table.trials[index].ended = ended;
}

bool search_point_left(struct jobs *jobs, struct search_run *run, int64_t index, bool done)
{
    if (!jobs->stopping)
        add_news(jobs, run,
                 (struct search_news){.job = run->sweep->first_job + index,
                                      .ended = true,
                                      .done = done,
                                      .failed = !done && !run->stopped[index]});
    return run->stopped[index];
}

void search_points_end(struct jobs *jobs, struct search_run *run)
{
    run->table.complete = true;
    if (!run->busy && !run->must_load && !jobs->stopping)
        judge(jobs, run);
}

void search_job_started(struct jobs *jobs, const struct job *job)
{
    struct search_run *run = search_of(job);

    if (run && !run->table.complete)
        run->changed(jobs, run->owner);
}

/* One trial waits in the queue, so that no device idles while the next one is chosen. */
size_t search_points_wanted(const struct jobs *jobs, const struct search_run *run, size_t most)
{
    size_t made = 0, waiting = 0;

    if (!sweep_points_learn(run->sweep->values))
        return most;
    if (run->busy || run->must_load)
        return 0;
    for (size_t i = 0; i < run->table.trial_count && run->table.trials[i].exists; i++) {
        const struct job *job =
            run->table.trials[i].ended
                ? NULL
                : job_table_find(jobs->table, run->sweep->first_job + (int64_t)i);

        made++;
        waiting += job && !job->ended && job->attempt_number == 0;
    }
    if (made < RANDOM_TRIALS)
        return most < RANDOM_TRIALS - made ? most : RANDOM_TRIALS - made;
    return waiting == 0 && most > 0 ? 1 : 0;
}

/* The values of a trial; the caller owns them. */
static struct json_object *values_of(const struct search_run *run, uint32_t trial)
{
    return run->chosen[trial] ? json_object_get(run->chosen[trial])
                              : sweep_point_values(run->sweep->values, trial);
}

/* Removes the trials that run from `order`: what they have measured so far says less than where
 * they will end or pause. */
static size_t leave_out_running(const struct jobs *jobs, const struct search_run *run,
                                uint32_t *order, size_t count)
{
    size_t kept = 0;

    for (size_t i = 0; i < count; i++) {
        const struct job *job = run->table.trials[order[i]].ended
                                    ? NULL
                                    : job_table_find(jobs->table, run->sweep->first_job + order[i]);

        if (!job || job->ended || job->state == JOB_PAUSED)
            order[kept++] = order[i];
    }
    return kept;
}

static int compare_trials(const void *first, const void *second)
{
    uint32_t a = *(const uint32_t *)first, b = *(const uint32_t *)second;

    return (a > b) - (a < b);
}

struct json_object *search_point_choose(const struct jobs *jobs, struct search_run *run,
                                        int64_t index)
{
    size_t points = run->table.trial_count, count, good;
    uint32_t *order;
    struct json_object **values, *chosen = NULL;

    if (!sweep_points_learn(run->sweep->values) || index < RANDOM_TRIALS)
        return NULL;
    order = memory_zero(points * sizeof *order);
    count = leave_out_running(jobs, run, order, search_rank(&run->table, order));
    if (count >= RANDOM_TRIALS) {
        good = parzen_good_count(count);
        qsort(order, good, sizeof *order, compare_trials); /* in the order of their making */
        qsort(order + good, count - good, sizeof *order, compare_trials);
        values = memory_zero(count * sizeof(struct json_object *));
        for (size_t i = 0; i < count; i++)
            values[i] = values_of(run, order[i]);
        chosen =
            sweep_point_learn(run->sweep->values, index, values, good, values + good, count - good);
        for (size_t i = 0; i < count; i++)
            json_object_put(values[i]);
        free(values);
    }
    free(order);
    if (!chosen)
        return NULL;
    json_object_put(run->chosen[index]);
    json_object_deep_copy(chosen, &run->chosen[index],
                          NULL); /* another thread uses the other one */
    return chosen;
}
