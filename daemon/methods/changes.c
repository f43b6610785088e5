/* changes.c: Changes: tells clients that show all jobs or devices that something has changed.
 *
 * Output: a reply at once. With `more` a reply follows changes, at most one in PAUSE_MILLISECONDS.
 * The client asks for what has changed. */
#include "base/memory.h"
#include "daemon/events/watches.h"
#include "daemon/methods/methods.h"

#include <stdlib.h>

enum { PAUSE_MILLISECONDS = 250 };

struct changes {
    struct call *call;
    struct watch watch;
    uv_timer_t timer; /* runs after a reply; until it fires no reply is sent */
    int64_t count;    /* changes since the call began */
    bool untold;
};

static void tell(struct changes *changes);

static void on_pause_over(uv_timer_t *timer)
{
    tell(timer->data);
}

static struct json_object *changes_reply(const struct changes *changes)
{
    struct json_object *reply = json_object_new_object();

    json_set_int(reply, "changes", changes->count);
    return reply;
}

static void tell(struct changes *changes)
{
    if (!changes->untold || uv_is_active((uv_handle_t *)&changes->timer) ||
        !call_has_room(changes->call))
        return;
    changes->untold = false;
    uv_timer_start(&changes->timer, on_pause_over, PAUSE_MILLISECONDS, 0);
    call_continue(changes->call, changes_reply(changes));
}

static void on_change(struct watch *watch, size_t index, enum watch_event event)
{
    struct changes *changes = (struct changes *)((char *)watch - offsetof(struct changes, watch));

    (void)index;
    if (event == WATCH_MEASURED)
        return;
    changes->count++;
    changes->untold = true;
    tell(changes);
}

static void on_room(struct call *call)
{
    tell(call->state);
}

static void on_timer_closed(uv_handle_t *handle)
{
    free(handle->data);
}

static void on_gone(struct call *call)
{
    struct changes *changes = call->state;

    watch_unregister(&call->daemon->watches, &changes->watch);
    uv_close((uv_handle_t *)&changes->timer, on_timer_closed);
    call_reply(call, NULL);
}

static void handle_changes(struct call *call)
{
    struct changes *changes;

    if (!call->more) {
        call_reply(call, changes_reply(&(struct changes){0}));
        return;
    }
    changes = memory_zero(sizeof *changes);
    *changes = (struct changes){
        .call = call, .watch = {.every = true, .notify = on_change}, .untold = true};
    uv_timer_init(call->daemon->loop, &changes->timer);
    changes->timer.data = changes;
    watch_register(&call->daemon->watches, &changes->watch);
    call->state = changes;
    call->on_room = on_room;
    call->on_gone = on_gone;
    tell(changes);
}

/* Strangers see that something has changed, but not what. */
METHOD(Changes, handle_changes, ACCESS_ANYBODY, METHOD_STREAM);
