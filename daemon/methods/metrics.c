/* metrics.c: Metrics. Input: a job, names (null: all), a cursor, the length of a page. Output: the
 * rows after the cursor, oldest first, and the next cursor. With `more`, pages follow until the job
 * has ended and all rows are sent. */
#include "base/memory.h"
#include "daemon/events/watches.h"
#include "daemon/methods/methods.h"
#include "daemon/server/reply_size.h"
#include "daemon/store/job_rows.h"
#include "daemon/store/metric_rows.h"
#include "daemon/types/job_types.h"

#include <stdlib.h>

enum { PAGE_ROWS = 1000, PAGE_ROWS_MAX = 2500 /* a message may have 1 MiB */ };

struct follower {
    struct call *call;
    struct watch watch;
    int64_t id, after, limit;
    const char *names; /* JSON array, lent by the call; NULL: any */
    bool reading;
    bool dirty; /* rows came while a page was read */
    /* of the current read: */
    struct json_object *rows;
    int64_t next;
    size_t bytes; /* of the rows */
    bool full;    /* the page is full, so there may be more rows */
    bool ended;
};

static void pump(struct follower *follower);

static void follower_end(struct follower *follower)
{
    watch_unregister(&follower->call->daemon->watches, &follower->watch);
    free(follower);
}

static bool take_row(void *data, int64_t cursor, struct json_object *row)
{
    struct follower *follower = data;

    follower->next = cursor;
    json_object_array_add(follower->rows, row);
    follower->full = !reply_fits(row, &follower->bytes, REPLY_LIST_BYTES);
    return !follower->full;
}

static int read_page(struct store_connection *connection, void *data, struct error *error)
{
    struct follower *follower = data;
    enum job_state state;
    int result;

    follower->bytes = 0;
    result = metrics_read(connection, follower->id, follower->after, follower->limit,
                          follower->names, take_row, follower, error);
    if (result < 0)
        return result;
    result = job_state_read(connection, follower->id, &state, error);
    follower->ended = result == 0 || (result > 0 && job_state_is_final(state));
    return result < 0 ? result : 0;
}

static void on_page(void *data, int result, const struct error *error)
{
    struct follower *follower = data;
    struct call *call = follower->call;
    size_t count = json_object_array_length(follower->rows);
    bool full = follower->full || (int64_t)count == follower->limit;
    bool last = !call->more || (follower->ended && !full);
    struct json_object *reply = NULL;

    follower->reading = false;
    follower->after = follower->next;
    if (result == 0 && (count > 0 || last)) {
        reply = json_object_new_object();
        json_set(reply, "rows", follower->rows);
        json_set_int(reply, "next", follower->next);
    } else {
        json_object_put(follower->rows);
    }
    follower->rows = NULL;
    if (result < 0 || !call->connection || last) {
        follower_end(follower);
        if (result < 0) {
            json_object_put(reply);
            call_fail_storage(call, error);
        } else {
            call_reply(call, reply);
        }
        return;
    }
    if (reply)
        call_continue(call, reply);
    if (full)
        follower->dirty = true;
    pump(follower);
}

static void pump(struct follower *follower)
{
    if (follower->reading || !follower->dirty || !call_has_room(follower->call))
        return;
    follower->dirty = false;
    follower->reading = true;
    follower->rows = json_object_new_array();
    follower->next = follower->after;
    store_read_beside(follower->call->daemon->store, read_page, on_page, follower);
}

static void on_room(struct call *call)
{
    pump(call->state);
}

static void on_gone(struct call *call)
{
    struct follower *follower = call->state;

    if (follower->reading)
        return; /* on_page ends it */
    follower_end(follower);
    call_reply(call, NULL);
}

static void on_event(struct watch *watch, size_t index, enum watch_event event)
{
    struct follower *follower =
        (struct follower *)((char *)watch - offsetof(struct follower, watch));

    (void)index;
    if (event == WATCH_PROGRESSED)
        return;
    follower->dirty = true;
    pump(follower);
}

static void handle_metrics(struct call *call)
{
    struct follower *follower = memory_zero(sizeof *follower);
    struct json_object *names = json_get(call->parameters, "names");

    follower->call = call;
    follower->id = json_get_int(call->parameters, "id", 0);
    follower->after = json_get_int(call->parameters, "after", 0);
    follower->limit = json_get_int(call->parameters, "limit", PAGE_ROWS);
    if (follower->limit < 1)
        follower->limit = 1;
    if (follower->limit > PAGE_ROWS_MAX)
        follower->limit = PAGE_ROWS_MAX;
    follower->names = names ? json_text(names, NULL) : NULL;
    follower->dirty = true;
    follower->watch = (struct watch){.ids = &follower->id, .count = 1, .notify = on_event};
    watch_register(&call->daemon->watches, &follower->watch);
    call->state = follower;
    call->on_room = on_room;
    call->on_gone = on_gone;
    pump(follower);
}

METHOD(Metrics, handle_metrics, ACCESS_OWNER, METHOD_STREAM);
