/* watch.c: Watch. Input: ids of jobs. Output: the current state of each job, then one reply per
 * change or progress until all jobs have ended; without `more`, only the state of the first.
 * Changes are read from the stored transitions, so a slow client misses none. Progress in between
 * is sent when the client can take it. */
#include "base/memory.h"
#include "daemon/events/watches.h"
#include "daemon/methods/job_view.h"
#include "daemon/methods/methods.h"
#include "daemon/store/job_rows.h"
#include "daemon/store/transition_rows.h"
#include "daemon/types/job_types.h"

#include <stdlib.h>

enum { JOBS_PER_READ = 32, TRANSITIONS_PER_READ = 64 };

struct watched {
    int64_t last_transition; /* the last one that the client was sent */
    bool dirty;              /* something may be new, so it stands in the watcher's `dirty` */
    bool told;               /* its first reply has been sent */
    bool ended;
};

/* What one read has found about one job. */
struct news {
    size_t index;
    int64_t id, last_transition;
    struct json_object *job;         /* owned until it is sent */
    struct json_object *transitions; /* owned; array of {to, reason} without the last */
    bool unfinished;                 /* more transitions wait */
};

struct watcher {
    struct call *call;
    struct watch watch;
    int64_t *ids;            /* owned, ascending, without duplicates */
    struct watched *watched; /* owned, one for each of `ids` */
    size_t *dirty;           /* owned; a ring with room for all: whose news are read next */
    size_t dirty_at, dirty_count;
    size_t count, ended_count;
    bool reading;
    struct news news[JOBS_PER_READ];
    size_t news_count;
    int64_t last_read; /* the job that was read last */
};

static void pump(struct watcher *watcher);

static void watcher_free(struct watcher *watcher)
{
    watch_unregister(&watcher->call->daemon->watches, &watcher->watch);
    free(watcher->ids);
    free(watcher->watched);
    free(watcher->dirty);
    free(watcher);
}

/* Puts the job behind those that something new is known of already. */
static void mark_dirty(struct watcher *watcher, size_t index)
{
    if (watcher->watched[index].dirty)
        return;
    watcher->watched[index].dirty = true;
    watcher->dirty[(watcher->dirty_at + watcher->dirty_count++) % watcher->count] = index;
}

/* ---- reading --------------------------------------------------------------------------------- */

/* Reads the transitions that the client does not know yet. The job's row shows the last one. */
static int read_transitions(struct store_connection *connection, struct news *news,
                            struct error *error)
{
    int result = transitions_read_news(connection, news->id, TRANSITIONS_PER_READ,
                                       &news->last_transition, news->transitions, error);

    news->unfinished = news->unfinished || result > 0;
    return result < 0 ? result : 0;
}

static int read_news(struct store_connection *connection, void *data, struct error *error)
{
    struct watcher *watcher = data;

    for (size_t i = 0; i < watcher->news_count; i++) {
        struct news *news = &watcher->news[i];
        int result = job_row_find(connection, news->id, &news->job, error);

        watcher->last_read = news->id;
        if (result == 0)
            result = news->transitions ? read_transitions(connection, news, error)
                                       : transition_last_read(connection, news->id,
                                                              &news->last_transition, error);
        if (result < 0)
            return result;
    }
    return 0;
}

/* ---- telling --------------------------------------------------------------------------------- */

/* Sends a reply; takes `job` over. True: it was the last reply, and the watcher has been freed. */
static bool tell(struct watcher *watcher, struct json_object *job, bool last)
{
    struct json_object *reply = json_object_new_object();
    struct call *call = watcher->call;

    json_set(reply, "job", job);
    if (last || !call->more) {
        watcher_free(watcher);
        call_reply(call, reply);
        return true;
    }
    call_continue(call, reply);
    return false;
}

/* The job right after an earlier transition: its row with that transition's state and reason. */
static struct json_object *job_at(struct json_object *job, struct json_object *transition)
{
    struct json_object *copy = NULL;

    json_object_deep_copy(job, &copy, NULL);
    json_set_string(copy, "state", json_get_string(transition, "state", ""));
    json_set_string(copy, "reason", json_get_string(transition, "reason", NULL));
    json_set(copy, "ended", NULL); /* an earlier state is never a final one */
    json_set(copy, "exit_status", NULL);
    return copy;
}

/* Sends the news about one job. True: the watcher has been freed. */
static bool tell_news(struct watcher *watcher, struct news *news)
{
    struct watched *watched = &watcher->watched[news->index];
    size_t transitions = news->transitions ? json_object_array_length(news->transitions) : 0;
    size_t earlier = news->unfinished ? transitions : transitions - (transitions > 0);
    int state = job_state_from_string(json_get_string(news->job, "state", ""));

    watched->last_transition = news->last_transition;
    watched->told = true;
    for (size_t i = 0; i < earlier; i++)
        tell(watcher, job_at(news->job, json_object_array_get_idx(news->transitions, i)), false);
    json_object_put(news->transitions);
    news->transitions = NULL;
    if (news->unfinished) {
        mark_dirty(watcher, news->index);
        json_object_put(news->job);
        return false;
    }
    if (job_state_is_final((enum job_state)state) && !watched->ended) {
        watched->ended = true;
        watcher->ended_count++;
    }
    job_view_add_progress(watcher->call->daemon, news->job);
    return tell(watcher, news->job, watcher->ended_count == watcher->count);
}

static void on_news(void *data, int result, const struct error *error)
{
    struct watcher *watcher = data;
    struct call *call = watcher->call;
    bool gone = false;
    struct news news[JOBS_PER_READ];
    size_t count = watcher->news_count, i = 0;
    int64_t last_read = watcher->last_read;

    watcher->reading = false;
    watcher->news_count = 0;
    memcpy(news, watcher->news, sizeof news); /* they outlive the watcher */
    if (result < 0 || !call->connection) {
        watcher_free(watcher);
        gone = true;
        call_fail_job(call, last_read, error ? error : &(struct error){0});
    }
    for (; i < count && !gone; i++)
        gone = tell_news(watcher, &news[i]);
    for (; i < count; i++) {
        json_object_put(news[i].job);
        json_object_put(news[i].transitions);
    }
    if (!gone)
        pump(watcher);
}

static void pump(struct watcher *watcher)
{
    if (watcher->reading || !call_has_room(watcher->call))
        return;
    while (watcher->dirty_count > 0 && watcher->news_count < JOBS_PER_READ) {
        size_t index = watcher->dirty[watcher->dirty_at];
        struct watched *watched = &watcher->watched[index];

        watcher->dirty_at = (watcher->dirty_at + 1) % watcher->count;
        watcher->dirty_count--;
        watched->dirty = false;
        watcher->news[watcher->news_count++] = (struct news){
            .index = index,
            .id = watcher->ids[index],
            .last_transition = watched->last_transition,
            .transitions = watched->told ? json_object_new_array() : NULL,
        };
    }
    if (watcher->news_count == 0)
        return;
    watcher->reading = true;
    store_read(watcher->call->daemon->store, read_news, on_news, watcher);
}

static void on_room(struct call *call)
{
    pump(call->state);
}

static void on_gone(struct call *call)
{
    struct watcher *watcher = call->state;

    if (watcher->reading)
        return; /* on_news ends it */
    watcher_free(watcher);
    call_reply(call, NULL);
}

static void on_event(struct watch *watch, size_t index, enum watch_event event)
{
    struct watcher *watcher = (struct watcher *)((char *)watch - offsetof(struct watcher, watch));

    if (event == WATCH_MEASURED || watcher->watched[index].ended)
        return;
    mark_dirty(watcher, index);
    pump(watcher);
}

/* ---- beginning ------------------------------------------------------------------------------- */

static int compare_ids(const void *first, const void *second)
{
    int64_t a = *(const int64_t *)first, b = *(const int64_t *)second;

    return (a > b) - (a < b);
}

static bool take_ids(struct watcher *watcher, struct json_object *ids, size_t count)
{
    watcher->ids = calloc(count, sizeof *watcher->ids);
    watcher->watched = calloc(count, sizeof *watcher->watched);
    watcher->dirty = calloc(count, sizeof *watcher->dirty);
    if (!watcher->ids || !watcher->watched || !watcher->dirty)
        return false;
    for (size_t i = 0; i < count; i++)
        watcher->ids[i] = json_object_get_int64(json_object_array_get_idx(ids, i));
    qsort(watcher->ids, count, sizeof *watcher->ids, compare_ids);
    for (size_t i = 0; i < count; i++)
        if (i == 0 || watcher->ids[i] != watcher->ids[i - 1])
            watcher->ids[watcher->count++] = watcher->ids[i];
    for (size_t i = 0; i < watcher->count; i++)
        mark_dirty(watcher, i);
    return true;
}

static void handle_watch(struct call *call)
{
    struct json_object *ids = json_get(call->parameters, "ids");
    size_t count = call->more ? json_object_array_length(ids) : 1;
    struct watcher *watcher;

    if (json_object_array_length(ids) == 0) {
        call_fail_no_job(call, 0);
        return;
    }
    watcher = memory_zero(sizeof *watcher);
    if (!take_ids(watcher, ids, count)) {
        free(watcher->ids);
        free(watcher->watched);
        free(watcher->dirty);
        free(watcher);
        call_fail(call, "InternalError", NULL, "no memory left");
        return;
    }
    watcher->call = call;
    watcher->watch =
        (struct watch){.ids = watcher->ids, .count = watcher->count, .notify = on_event};
    watch_register(&call->daemon->watches, &watcher->watch);
    call->state = watcher;
    call->on_room = on_room;
    call->on_gone = on_gone;
    pump(watcher);
}

METHOD(Watch, handle_watch, ACCESS_OWNER, METHOD_STREAM);
