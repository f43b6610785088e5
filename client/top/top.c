/* top.c: runs `top`: it fetches the picture when the daemon tells of a change, at most
 * REDRAWS_A_SECOND times a second, keeps what the devices were measured at, and takes keys. */
#include "client/top/top.h"

#include "base/clock.h"
#include "client/connection/connection.h"
#include "client/top/device_panel.h"
#include "client/top/past.h"

#include <errno.h>
#include <math.h>
#include <string.h>
#include <unistd.h>

enum {
    REDRAWS_A_SECOND = 4,
    REFRESH_SECONDS = 2, /* for values without events: run times, temperature, outside use */
    FETCHING_PART = 5,   /* at most a fifth of the time goes into fetching, however many jobs */
    ENDED_SHOWN = 50,
    ENDED_PRINTED = 5, /* with --json */
    WHEEL_LINES = 3,
    ESCAPE_MILLISECONDS = 50 /* what follows an escape of a key comes at once */
};

/* ---- the picture --------------------------------------------------------------------------- */

/* Puts what the devices are measured at now into the measurements. */
static void measurements_extend(struct top *top)
{
    struct json_object *devices = json_get(top->picture.devices, "devices");

    for (size_t i = 0; devices && i < json_object_array_length(devices); i++) {
        struct json_object *device = json_object_array_get_idx(devices, i);
        double values[MEASURED_VALUES];
        bool measured;

        values[MEASURED_UTILISATION] = device_utilisation(device, &measured);
        values[MEASURED_MEMORY] = device_memory_part(device);
        measurements_put(top->measurements, json_get_string(device, "name", "?"), top->fetched,
                         top->fetched, values);
    }
}

/* Fetches the picture, unless the daemon is away: if it has just ended, Changes reports it. */
static void picture_update(struct top *top)
{
    double begin = clock_now();
    struct error error = {0};
    int result = top->changes.lost_since
                     ? -ENOTCONN
                     : picture_fetch(&top->picture, top->invocation,
                                     top->invocation->json ? ENDED_PRINTED : ENDED_SHOWN, &error);

    top->changed = false;
    top->stale = true;
    top->fetched = clock_now();
    top->fetch_seconds = top->fetched - begin;
    top->silent = result == -ETIMEDOUT;
    if (result < 0)
        return;
    if (!top->past_loaded && !top->invocation->json)
        past_load(top->invocation, json_get(top->picture.devices, "devices"), begin,
                  top->measurements);
    top->past_loaded = true;
    measurements_extend(top);
    job_list_set(&top->list, picture_jobs(&top->picture));
}

/* Handles replies of Changes; false: the stream has ended. */
static bool changes_take(struct top *top, enum exit_status *status)
{
    for (;;) {
        struct varlink_reply reply = {0};
        bool away = top->changes.lost_since != 0;
        enum stream_event event = stream_next(&top->changes, top->invocation, &reply, status);

        top->stale = top->stale || away != (top->changes.lost_since != 0);
        if (event != STREAM_REPLY)
            return event == STREAM_NOTHING;
        varlink_reply_release(&reply);
        top->changed = true;
    }
}

/* Fetches and draws what is due. Returns the milliseconds until it must be called again. */
static int view_update(struct top *top)
{
    double now = clock_now(),
           pause = fmax(1.0 / REDRAWS_A_SECOND, FETCHING_PART * top->fetch_seconds);
    double next;

    if (now - top->fetched >= REFRESH_SECONDS || now < top->fetched)
        top->changed = true;
    if (top->changed && (now - top->fetched >= pause || now < top->fetched)) {
        picture_update(top);
        if (!top->screen.open)
            picture_print_json(&top->picture);
    }
    if (top->stale && top->screen.open)
        top_draw(top);
    top->stale = false;
    next = top->fetched + (top->changed ? pause : REFRESH_SECONDS) - clock_now();
    return next > 0 ? (int)(1000 * next) + 1 : 0;
}

/* ---- keys ---------------------------------------------------------------------------------- */

static void devices_scroll(struct top *top, long devices)
{
    long offset = (long)top->device_offset + devices;

    top->device_offset = offset < 0 ? 0 : (size_t)offset; /* top_arrange() limits it */
}

static void mouse_take(struct top *top, const struct key_event *event)
{
    const struct layout *layout = &top->layout;
    long step = event->key == KEY_WHEEL_UP ? -1 : 1;

    if (event->key == KEY_CLICK && event->row >= layout->jobs_begin)
        job_list_select_line(&top->list, event->row - layout->jobs_begin);
    else if (event->key != KEY_CLICK && event->row < layout->devices_begin + layout->device_rows)
        devices_scroll(top, step);
    else if (event->key != KEY_CLICK)
        job_list_scroll(&top->list, WHEEL_LINES * step);
}

static void order_next(struct top *top)
{
    top->list.order = (enum job_order)((top->list.order + 1) % ORDER_COUNT);
    job_list_arrange(&top->list);
}

static void order_reverse(struct top *top)
{
    top->list.reversed = !top->list.reversed;
    job_list_arrange(&top->list);
}

static void filter_clear(struct top *top)
{
    top->list.filter[0] = '\0';
    job_list_arrange(&top->list);
}

/* Keys that move the selection; false: it is another key. */
static bool selection_take(struct top *top, int key)
{
    long page = top->list.shown > 1 ? (long)top->list.shown - 1 : 1;
    long count = (long)top->list.count;

    switch (key) {
    case KEY_UP:
    case 'k':
        job_list_step(&top->list, -1);
        return true;
    case KEY_DOWN:
    case 'j':
        job_list_step(&top->list, 1);
        return true;
    case KEY_PAGE_UP:
        job_list_step(&top->list, -page);
        return true;
    case KEY_PAGE_DOWN:
    case ' ':
        job_list_step(&top->list, page);
        return true;
    case KEY_HOME:
    case 'g':
        job_list_step(&top->list, -count);
        return true;
    case KEY_END:
    case 'G':
        job_list_step(&top->list, count);
        return true;
    default:
        return false;
    }
}

/* Keys that do something to the selected job. */
static bool action_take(struct top *top, int key)
{
    switch (key) {
    case 'c':
        top_action_begin(top, ACTION_CANCEL);
        return true;
    case 'p':
        top_action_begin(top, ACTION_PAUSE);
        return true;
    case 'r':
        top_action_begin(top, ACTION_RESUME);
        return true;
    case 'm':
        top_action_begin(top, ACTION_MOVE);
        return true;
    case '=':
        top_action_begin(top, ACTION_PRIORITY);
        return true;
    case '+':
        top_priority_step(top, 1);
        return true;
    case '-':
        top_priority_step(top, -1);
        return true;
    default:
        return false;
    }
}

/* Keys of the view itself; false: the key ends the program. */
static bool view_take(struct top *top, int key)
{
    enum { CONTROL_BACKSLASH = 0x1c };

    switch (key) {
    case 'q':
    case 'Q':
    case CONTROL_BACKSLASH:
        return false;
    case '?':
    case 'h':
        top->help = true;
        break;
    case '/':
        top_action_begin(top, ACTION_FILTER);
        break;
    case KEY_ESCAPE:
        filter_clear(top);
        break;
    case 's':
        order_next(top);
        break;
    case 'S':
        order_reverse(top);
        break;
    case '[':
        devices_scroll(top, -1);
        break;
    case ']':
        devices_scroll(top, 1);
        break;
    default:
        break;
    }
    return true;
}

static void prompt_answer(struct top *top, const struct key_event *event)
{
    switch (prompt_take(&top->prompt, event)) {
    case PROMPT_DONE:
        top_action_finish(top);
        break;
    case PROMPT_GIVEN_UP:
        prompt_close(&top->prompt);
        top->action = ACTION_NONE;
        break;
    default:
        break;
    }
}

/* Takes one key; false: it ends the program. */
static bool key_take(struct top *top, const struct key_event *event)
{
    top->stale = true;
    if (top->prompt.kind != PROMPT_NONE) {
        prompt_answer(top, event);
        return true;
    }
    if (event->key == KEY_OTHER || event->pasted) /* a text is no row of commands */
        return true;
    top->message[0] = '\0';
    if (top->help) { /* q ends the help first */
        top->help = false;
        return true;
    }
    if (event->key == KEY_CLICK || event->key == KEY_WHEEL_UP || event->key == KEY_WHEEL_DOWN) {
        mouse_take(top, event);
        return true;
    }
    if (selection_take(top, event->key) || action_take(top, event->key))
        return true;
    return view_take(top, event->key);
}

/* Takes all keys that are there; false: one of them ends the program. With `complete` nothing
 * follows what an escape has begun. */
static bool keys_take(struct top *top, bool complete)
{
    struct key_event event;

    top_arrange(top);
    while (key_input_next(&top->input, complete, &event))
        if (!key_take(top, &event))
            return false;
    return true;
}

/* ---- running ------------------------------------------------------------------------------- */

/* Waits for the next event, and handles it; false: the program is to end. */
static bool event_take(struct top *top, int signals, int timeout)
{
    struct stream *const streams[] = {&top->changes};
    bool unfinished = top->input.count > 0; /* an escape, or the beginning of a sequence */

    if (unfinished && timeout > ESCAPE_MILLISECONDS)
        timeout = ESCAPE_MILLISECONDS;
    switch (stream_poll_input(streams, 1, signals, top->screen.keys ? STDIN_FILENO : -1, timeout)) {
    case POLL_DETACH:
        return false;
    case POLL_INPUT:
        return key_input_read(&top->input, STDIN_FILENO) == 0 && keys_take(top, false);
    case POLL_RESIZED:
        screen_look(&top->screen);
        top->stale = true;
        return true;
    default:
        return !unfinished || keys_take(top, true);
    }
}

static enum exit_status view_run(struct top *top, int signals)
{
    enum exit_status status = EXIT_STATUS_DONE;

    while (changes_take(top, &status)) {
        int timeout = view_update(top);

        if (!event_take(top, signals, timeout))
            return EXIT_STATUS_DONE;
    }
    return status;
}

static struct json_object *no_parameters(void *context)
{
    (void)context;
    return NULL;
}

enum exit_status top_run(struct invocation *invocation)
{
    struct top top = {.invocation = invocation,
                      .changes = {.method = "Changes", .parameters = no_parameters, .quiet = true}};
    enum exit_status status = connection_open(invocation);
    int signals;

    if (status)
        return status;
    /* Without memory for it there are no curves. */
    top.measurements = measurements_new();
    signals = stream_signals_open();
    screen_look(&top.screen);
    if (changes_take(&top, &status)) { /* an older daemon's error goes to the normal screen */
        if (!invocation->json)
            screen_open(&top.screen);
        status = view_run(&top, signals);
    }
    screen_close(&top.screen);
    if (status == EXIT_STATUS_UNREACHABLE)
        complain("the daemon did not come back within %d s", STREAM_PATIENCE_SECONDS);
    stream_close(&top.changes);
    prompt_close(&top.prompt);
    job_list_release(&top.list);
    picture_release(&top.picture);
    measurements_free(top.measurements);
    if (signals >= 0)
        close(signals);
    return status;
}
