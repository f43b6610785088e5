/* top.c: `trainctl top` shows devices and jobs live. When the call Changes reports a change, it
 * fetches everything again, at most REDRAWS_A_SECOND times a second. It draws on the terminal's
 * alternate screen; with --json it prints a line for each picture. */
#include "base/clock.h"
#include "base/text.h"
#include "client/connection/connection.h"
#include "client/connection/stream.h"
#include "client/view/devices.h"
#include "client/view/job.h"

#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

enum {
    REDRAWS_A_SECOND = 4,
    REFRESH_SECONDS = 2, /* for values without events: run times, temperature, outside use */
    ENDED_SHOWN = 5,
    ROWS_DEFAULT = 24
};

/* The data shown: the daemon's latest replies. */
struct picture {
    struct json_object *devices, *running, *queued, *ended; /* replies of Devices and List */
};

struct top {
    struct invocation *invocation;
    struct display display;
    size_t rows; /* of the screen */
    struct stream changes;
    bool changed;
    double drawn; /* when the picture was drawn last */
    struct picture picture;
    bool screen; /* the alternate screen is on */
    bool keys;   /* keys arrive at once and without echo; `before` must be restored */
    struct termios before;
};

/* ---- the terminal -------------------------------------------------------------------------- */

static void size_look(struct top *top)
{
    struct winsize size = {0};

    display_look(STDOUT_FILENO, &top->display);
    ioctl(STDOUT_FILENO, TIOCGWINSZ, &size);
    top->rows = size.ws_row > 0 ? size.ws_row : ROWS_DEFAULT;
}

static void screen_open(struct top *top)
{
    struct termios keys;

    fputs("\033[?1049h\033[?25l", stdout);
    fflush(stdout);
    top->screen = true;
    if (tcgetattr(STDIN_FILENO, &top->before) < 0)
        return;
    keys = top->before;
    keys.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
    /* a stopped process would leave the terminal in this mode */
    keys.c_cc[VSUSP] = _POSIX_VDISABLE;
    keys.c_cc[VMIN] = 1;
    keys.c_cc[VTIME] = 0;
    top->keys = tcsetattr(STDIN_FILENO, TCSANOW, &keys) == 0;
}

static void screen_close(struct top *top)
{
    if (top->keys)
        tcsetattr(STDIN_FILENO, TCSANOW, &top->before);
    if (top->screen) {
        fputs("\033[?25h\033[?1049l", stdout);
        fflush(stdout);
    }
    top->keys = top->screen = false;
}

/* ---- fetching ------------------------------------------------------------------------------ */

static void picture_release(struct picture *picture)
{
    json_object_put(picture->devices);
    json_object_put(picture->running);
    json_object_put(picture->queued);
    json_object_put(picture->ended);
    *picture = (struct picture){0};
}

static enum exit_status ask(struct invocation *invocation, const char *method,
                            struct json_object *parameters, struct json_object **answer)
{
    struct varlink_reply reply;
    enum exit_status status = connection_call(invocation, method, parameters, &reply);

    if (status)
        return status;
    *answer = json_object_get(reply.parameters);
    varlink_reply_release(&reply);
    return EXIT_STATUS_DONE;
}

static enum exit_status ask_jobs(struct invocation *invocation, const char *const *states,
                                 size_t limit, struct json_object **answer)
{
    struct json_object *parameters = json_object_new_object(), *list = json_object_new_array();

    for (; *states; states++)
        json_object_array_add(list, json_object_new_string(*states));
    json_set(parameters, "states", list);
    json_set_int(parameters, "limit", (int64_t)limit);
    return ask(invocation, "List", parameters, answer);
}

static enum exit_status picture_ask(struct top *top)
{
    static const char *const running[] = {"starting", "running", "preempting", "paused", NULL};
    static const char *const queued[] = {"queued", NULL};
    static const char *const ended[] = {"done", "failed", "cancelled", NULL};
    struct picture picture = {0};
    enum exit_status status = ask(top->invocation, "Devices", NULL, &picture.devices);

    if (!status)
        status = ask_jobs(top->invocation, running, top->rows, &picture.running);
    if (!status)
        status = ask_jobs(top->invocation, queued, top->rows, &picture.queued);
    if (!status)
        status = ask_jobs(top->invocation, ended, ENDED_SHOWN, &picture.ended);
    if (status) {
        picture_release(&picture);
        return status;
    }
    picture_release(&top->picture);
    top->picture = picture;
    return EXIT_STATUS_DONE;
}

/* ---- drawing ------------------------------------------------------------------------------- */

/* Writes "12", or "40+" if there are more than were fetched. */
static char *count_format(struct json_object *list, char *output, size_t size)
{
    struct json_object *jobs = json_get(list, "jobs");

    snprintf(output, size, "%zu%s", jobs ? json_object_array_length(jobs) : 0,
             json_get(list, "next") ? "+" : "");
    return output;
}

static void picture_write(const struct top *top, FILE *output)
{
    const struct picture *picture = &top->picture;
    const struct display *display = &top->display;
    struct json_object *const lists[] = {picture->running, picture->queued, picture->ended};
    JSON_AUTO struct json_object *jobs = json_object_new_array();
    char running[32], queued[32], now[64];

    fprintf(output, "%straind%s  %s running, %s queued  %s%s  q ends%s\n\n",
            display_style(display, STYLE_BOLD), display_style_end(display, STYLE_BOLD),
            count_format(picture->running, running, sizeof running),
            count_format(picture->queued, queued, sizeof queued), display_style(display, STYLE_DIM),
            top->changes.lost_since ? "the daemon is away"
                                    : display_format_time(clock_now(), now, sizeof now),
            display_style_end(display, STYLE_DIM));
    devices_print(json_get(picture->devices, "devices"), display, output);
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        struct json_object *list = json_get(lists[i], "jobs");

        for (size_t j = 0; list && j < json_object_array_length(list); j++)
            json_object_array_add(jobs, json_object_get(json_object_array_get_idx(list, j)));
    }
    fputc('\n', output);
    job_print_table(jobs, display, output);
}

/* Draws as many lines of the picture as the screen has, each over the old one. */
static void picture_draw(const struct top *top)
{
    AUTO_FREE char *text = NULL;
    size_t size = 0, rows = 0;
    FILE *memory = open_memstream(&text, &size);

    if (!memory)
        return;
    picture_write(top, memory);
    if (fclose(memory) != 0)
        return;
    fputs("\033[H", stdout);
    for (char *line = text, *end; *line && rows < top->rows; line = end + 1, rows++) {
        end = strchrnul(line, '\n');
        /* no line break after the last row, or the screen would scroll */
        printf("%s%.*s\033[K", rows ? "\r\n" : "", (int)(end - line), line);
        if (!*end)
            break;
    }
    fputs("\033[J", stdout);
    fflush(stdout);
}

static void picture_print_json(const struct top *top)
{
    const struct picture *picture = &top->picture;
    JSON_AUTO struct json_object *output = json_object_new_object();

    json_set(output, "devices", json_object_get(json_get(picture->devices, "devices")));
    json_set(output, "running", json_object_get(json_get(picture->running, "jobs")));
    json_set(output, "queued", json_object_get(json_get(picture->queued, "jobs")));
    json_set(output, "ended", json_object_get(json_get(picture->ended, "jobs")));
    json_print(output, stdout);
    fflush(stdout);
}

/* ---- updates ------------------------------------------------------------------------------- */

/* Handles replies of Changes; false: the stream has ended. */
static bool changes_take(struct top *top, enum exit_status *status)
{
    for (;;) {
        struct varlink_reply reply = {0};

        switch (stream_next(&top->changes, top->invocation, &reply, status)) {
        case STREAM_REPLY:
            varlink_reply_release(&reply);
            top->changed = true;
            break;
        case STREAM_NOTHING:
            return true;
        default:
            return false;
        }
    }
}

/* Draws if something changed and the last drawing is long enough ago. Returns the milliseconds
 * until it must be called again. */
static int picture_update(struct top *top)
{
    double now = clock_now(), due = top->drawn + 1.0 / REDRAWS_A_SECOND;

    if (now - top->drawn >= REFRESH_SECONDS)
        top->changed = true;
    if (!top->changed)
        return (int)(1000 * (top->drawn + REFRESH_SECONDS - now)) + 1;
    if (now < due)
        return (int)(1000 * (due - now)) + 1;
    if (!top->changes.lost_since)
        picture_ask(top); /* if the daemon has just ended, it comes back, or Changes reports it */
    if (top->screen)
        picture_draw(top);
    else
        picture_print_json(top);
    top->changed = false;
    top->drawn = now;
    return 1000 * REFRESH_SECONDS;
}

/* Whether a key ends the program; the end of the input does, too. */
static bool key_ends(void)
{
    char key;

    return read(STDIN_FILENO, &key, 1) <= 0 || key == 'q' || key == 'Q';
}

static enum exit_status top_run(struct top *top, int signals)
{
    struct stream *const streams[] = {&top->changes};
    enum exit_status status = EXIT_STATUS_DONE;

    while (changes_take(top, &status)) {
        int timeout = picture_update(top);

        switch (stream_poll_input(streams, 1, signals, top->keys ? STDIN_FILENO : -1, timeout)) {
        case POLL_DETACH:
            return EXIT_STATUS_DONE;
        case POLL_INPUT:
            if (key_ends())
                return EXIT_STATUS_DONE;
            break;
        case POLL_RESIZED:
            size_look(top);
            top->changed = true;
            break;
        default:
            break;
        }
    }
    return status;
}

static struct json_object *no_parameters(void *context)
{
    (void)context;
    return NULL;
}

static enum exit_status command_execute(struct invocation *invocation)
{
    struct top top = {.invocation = invocation,
                      .changes = {.method = "Changes", .parameters = no_parameters, .quiet = true}};
    enum exit_status status;
    int signals;

    if (!invocation->json && !invocation->output.terminal) {
        complain("top draws on a terminal; `trainctl list` and `trainctl devices` print once, "
                 "--json prints a line for every change");
        return EXIT_STATUS_USAGE;
    }
    status = connection_open(invocation);
    if (status)
        return status;
    signals = stream_signals_open();
    size_look(&top);
    if (!changes_take(&top, &status)) /* an older daemon's error goes to the normal screen */
        goto finish;
    if (!invocation->json)
        screen_open(&top);
    status = top_run(&top, signals);
finish:
    screen_close(&top);
    if (status == EXIT_STATUS_UNREACHABLE)
        complain("the daemon did not come back");
    stream_close(&top.changes);
    picture_release(&top.picture);
    if (signals >= 0)
        close(signals);
    return status;
}

const struct command command_top = {
    .name = "top",
    .place = 300,
    .summary = "Watch devices and jobs live; q or Ctrl-C ends",
    .execute = command_execute,
};
