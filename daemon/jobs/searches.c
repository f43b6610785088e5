/* searches.c: see searches.h. */
#include "daemon/jobs/searches.h"

#include "base/log.h"
#include "base/memory.h"
#include "daemon/jobs/graph.h"
#include "daemon/jobs/job_warning.h"
#include "daemon/jobs/parts.h"
#include "daemon/jobs/search_verdicts.h"
#include "daemon/jobs/sweeps.h"
#include "daemon/store/search_rows.h"
#include "daemon/work/job_table.h"

#include <stdio.h>
#include <stdlib.h>

/* A request stores at most so many results of so many trials, so that others come in between. */
enum { RETRY_MILLISECONDS = 1000, SLICE_ROWS = 500, SLICE_JOBS = 100 };

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

/* ---- news ------------------------------------------------------------------------------------ */

/* Stores the results behind some news, slice by slice, and brings them back. */
struct update {
    struct jobs *jobs;
    struct search_run *run;
    struct search search;
    int64_t first_job, expanded;
    bool loads, loaded;       /* the first slice reads what is stored already */
    struct search_news *news; /* owned */
    size_t news_count;
    size_t next, reached;    /* of the trials loaded and the news: where a slice begins, ends */
    bool measured;           /* a trial that has ended has reported the metric */
    struct search_row *rows; /* owned; of one slice */
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

static int load_work(struct store_connection *connection, struct update *update,
                     struct error *error)
{
    int result = search_results_read(connection, update->first_job, row_take, update, error);

    return result < 0
               ? result
               : search_trials_read(connection, update->first_job, trial_take, update, error);
}

/* On the writer, behind the metrics that the news are about. */
static int update_work(struct store_connection *connection, void *data, struct error *error)
{
    struct update *update = data;
    unsigned room = SLICE_ROWS;
    int result = 0;

    update->row_count = 0; /* of a try that failed, as are the trials */
    update->reached = update->next;
    if (update->loads && !update->loaded) {
        for (size_t i = 0; i < update->trial_count; i++)
            json_object_put(update->trials[i].chosen);
        update->trial_count = 0;
        return load_work(connection, update, error);
    }
    for (size_t end = update->next + SLICE_JOBS; update->reached < end && room > 0;) {
        size_t i = update->reached;
        const struct search_news *news =
            i < update->trial_count ? NULL : &update->news[i - update->trial_count];

        if (i == update->trial_count + update->news_count)
            break;
        result = search_results_add(connection, &update->search, update->first_job,
                                    news ? news->job : update->trials[i].job, &room, row_take,
                                    update, error);
        if (result == 0 && news && news->done)
            result = search_metric_is_there(connection, &update->search, news->job,
                                            &update->measured, error);
        if (result < 0)
            return result;
        update->reached += room > 0;
    }
    return 0;
}

static void on_updated(void *data, int result, const struct error *error);

static void update_begin(struct update *update)
{
    store_write_bulk(update->jobs->daemon->store, SLICE_ROWS, update_work, on_updated, update);
}

static void on_retry_closed(uv_handle_t *handle)
{
    free(handle);
}

static void on_retry(uv_timer_t *timer)
{
    struct update *update = timer->data;

    uv_close((uv_handle_t *)timer, on_retry_closed);
    update_begin(update);
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
            loaded->state == JOB_FAILED || (loaded->state == JOB_CANCELLED && !loaded->stopped);
        run->table.trials[index].done = loaded->state == JOB_DONE;
        run->chosen[index] = TAKE_POINTER(loaded->chosen);
        run->warned |= loaded->state == JOB_DONE; /* by the daemon that saw its end */
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

/* Without results a search lets all trials run to their end, and finds no best one. A warning of
 * the first trial that has trained in vain tells its owner. */
static void warn_of_no_result(struct jobs *jobs, const struct update *update)
{
    struct search_run *run = update->run;
    const struct search *search = &run->table.search;
    const struct search_news *first = NULL;
    char sentence[JOB_REASON_MAX];

    for (size_t i = 0; i < update->news_count && !first; i++)
        first = update->news[i].done ? &update->news[i] : NULL;
    if (!first || run->warned || run->table.count > 0)
        return;
    run->warned = true;
    if (update->measured)
        snprintf(sentence, sizeof sentence,
                 "its search compares trials by %s from %s %.6g on, and no report of that came so "
                 "far: a report says its %s",
                 search->metric, search_unit(search), search_rung_at(search, 0),
                 search_unit(search));
    else
        snprintf(sentence, sizeof sentence,
                 "it has not reported %s, by which its search compares trials: while none does, "
                 "all run to their end, and none is the best",
                 search->metric);
    job_warn(jobs->daemon, first->job, first->attempt, sentence);
}

static void store_news(struct jobs *jobs, struct search_run *run);

/* Whether no trial will get a result any more that is not stored. */
static bool has_settled(const struct search_run *run)
{
    const struct search_table *table = &run->table;

    if (!table->complete || run->news_count > 0 || run->exploits > 0)
        return false;
    for (size_t i = 0; i < table->trial_count; i++)
        if (table->trials[i].exists && !table->trials[i].ended)
            return false;
    return true;
}

struct settling {
    struct jobs *jobs;
    struct search_run *run;
    int64_t sweep;
};

static int settle_work(struct store_connection *connection, void *data, struct error *error)
{
    return search_settled_store(connection, ((struct settling *)data)->sweep, error);
}

/* If it could not be stored, the next daemon looks at the search again and stores it. */
static void on_settled(void *data, int result, const struct error *error)
{
    struct settling settling = *(struct settling *)data;

    (void)error;
    free(data);
    settling.run->settled = result == 0;
    settling.run->busy = false;
    if (settling.jobs->stopping)
        return;
    store_news(settling.jobs, settling.run);
    settling.run->changed(settling.jobs, settling.run->owner);
}

void search_run_settle(struct jobs *jobs, struct search_run *run)
{
    struct settling *settling;

    if (run->busy || run->must_load || run->settled || !has_settled(run))
        return;
    settling = memory_zero(sizeof *settling);
    *settling = (struct settling){jobs, run, run->sweep->first_job};
    run->busy = true;
    store_write(jobs->daemon->store, settle_work, on_settled, settling);
}

/* Everything is stored: the trials are judged by it. */
static void update_end(struct update *update)
{
    struct search_run *run = update->run;
    struct jobs *jobs = update->jobs;

    warn_of_no_result(jobs, update);
    for (size_t i = 0; i < update->news_count; i++) {
        struct search_trial *trial = &run->table.trials[update->news[i].job - update->first_job];

        trial->ended |= update->news[i].ended;
        trial->failed |= update->news[i].failed;
        trial->done |= update->news[i].done;
    }
    update_free(update);
    run->busy = false;
    search_run_judge(jobs, run);
    store_news(jobs, run);
    search_run_settle(jobs, run);
    run->changed(jobs, run->owner);
}

static void on_updated(void *data, int result, const struct error *error)
{
    static struct log_throttle throttle;
    struct update *update = data;
    char note[LOG_NOTE_MAX];

    if (update->jobs->stopping) { /* the next daemon finds what is missing */
        update->run->busy = false;
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
    if (update->loads && !update->loaded)
        take_loaded(update);
    take_rows(update);
    update->loaded = true;
    update->next = update->reached;
    if (update->next < update->trial_count + update->news_count)
        update_begin(update);
    else
        update_end(update);
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
    update_begin(update);
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

void search_job_rests(struct jobs *jobs, const struct job *job)
{
    struct search_run *run = search_of(job);

    if (run && !run->busy && !run->must_load && run->table.search.algorithm == SEARCH_POPULATION)
        search_run_judge(jobs, run);
}

/* ---- points ---------------------------------------------------------------------------------- */

void search_point_made(struct search_run *run, int64_t index, bool ended)
{
    run->table.trials[index].exists = true;
    run->table.trials[index].ended = ended;
}

bool search_point_left(struct jobs *jobs, struct search_run *run, int64_t index, bool done)
{
    const struct job *job = job_table_find(jobs->table, run->sweep->first_job + index);

    if (!jobs->stopping)
        add_news(jobs, run,
                 (struct search_news){.job = run->sweep->first_job + index,
                                      .attempt = job ? job->attempt_number : 0,
                                      .ended = true,
                                      .done = done,
                                      .failed = !done && !run->stopped[index]});
    search_exploits_go_on(jobs);
    return run->stopped[index];
}

void search_points_end(struct jobs *jobs, struct search_run *run)
{
    run->table.complete = true;
    if (run->busy || run->must_load || jobs->stopping)
        return;
    search_run_judge(jobs, run);
    search_run_settle(jobs, run);
}

void search_job_started(struct jobs *jobs, const struct job *job)
{
    struct search_run *run = search_of(job);

    if (run && !run->table.complete)
        run->changed(jobs, run->owner);
}
