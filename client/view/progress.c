/* progress.c: see progress.h. */
#include "client/view/progress.h"

#include "base/text.h"
#include "client/view/job.h"

#include <math.h>
#include <string.h>

/* Columns kept free at the right: a terminal writes ^C there, and a full line would wrap the
 * cursor. */
enum { SPARE_COLUMNS = 3 };

enum { FIELD_TEXT_MAX = 160, BAR_MINIMUM = 8, BAR_MAXIMUM = 40, FIELD_GAP = 2 };

/* The fields, in the order in which they appear. */
enum field { FIELD_STATE, FIELD_EPOCH, FIELD_BAR, FIELD_STEP, FIELD_LOSS, FIELD_SPEED, FIELD_LEFT };
enum { FIELD_COUNT = FIELD_LEFT + 1 };

/* The order in which fields are left out on a narrow screen; the state stays. */
static const enum field sacrifice[] = {FIELD_STEP, FIELD_SPEED, FIELD_EPOCH,
                                       FIELD_LEFT, FIELD_LOSS,  FIELD_BAR};

static void fields_fill(struct json_object *job, char fields[][FIELD_TEXT_MAX])
{
    struct json_object *progress = json_get(job, "progress");
    const char *state = json_get_string(job, "state", ""), *reason = job_reason(job);
    const char *device = json_get_string(job, "device", NULL);
    double step = json_get_double(progress, "step", NAN);
    double steps = json_get_double(progress, "steps", NAN);
    double epoch = json_get_double(progress, "epoch", NAN);
    double epochs = json_get_double(progress, "epochs", NAN);
    double loss = json_get_double(progress, "loss", NAN);
    double speed = json_get_double(progress, "samples_per_second", NAN);
    double left = json_get_double(progress, "seconds_left", NAN);
    char text[64], total[64];

    if (strcmp(state, "running") == 0)
        snprintf(fields[FIELD_STATE], FIELD_TEXT_MAX, "%s", device ? device : state);
    else
        snprintf(fields[FIELD_STATE], FIELD_TEXT_MAX, "%s%s%.120s", state, *reason ? ": " : "",
                 reason);
    if (strcmp(state, "running") != 0)
        return;
    if (!isnan(epoch) && !isnan(epochs))
        snprintf(fields[FIELD_EPOCH], FIELD_TEXT_MAX, "epoch %.1f/%.0f", epoch, epochs);
    if (!isnan(step) && !isnan(steps))
        snprintf(fields[FIELD_STEP], FIELD_TEXT_MAX, "step %s/%s",
                 display_format_count(step, text, sizeof text),
                 display_format_count(steps, total, sizeof total));
    else if (!isnan(step))
        snprintf(fields[FIELD_STEP], FIELD_TEXT_MAX, "step %s",
                 display_format_count(step, text, sizeof text));
    if (!isnan(loss))
        snprintf(fields[FIELD_LOSS], FIELD_TEXT_MAX, "loss %s",
                 display_format_value(loss, text, sizeof text));
    if (!isnan(speed))
        snprintf(fields[FIELD_SPEED], FIELD_TEXT_MAX, "%s samples/s",
                 display_format_count(speed, text, sizeof text));
    if (!isnan(left))
        snprintf(fields[FIELD_LEFT], FIELD_TEXT_MAX, "%s left",
                 text_format_duration(ceil(left), text, sizeof text));
}

/* Writes "━━━━━╌╌╌╌╌  50%", `columns` wide. */
static void bar_fill(double fraction, size_t columns, bool unicode, char *output, size_t size)
{
    size_t length = columns - 5, full = (size_t)floor(fraction * (double)length), used = 0;

    for (size_t i = 0; i < length && used + 4 < size; i++)
        used += (size_t)snprintf(output + used, size - used, "%s",
                                 i < full ? (unicode ? "━" : "#") : (unicode ? "╌" : "-"));
    snprintf(output + used, size - used, " %3.0f%%", floor(100 * fraction));
}

static size_t fields_width(char fields[][FIELD_TEXT_MAX])
{
    size_t total = 0;

    for (size_t i = 0; i < FIELD_COUNT; i++)
        if (fields[i][0])
            total += display_width(fields[i]) + (total ? FIELD_GAP : 0);
    return total;
}

void progress_render(struct json_object *job, const struct display *display, char *output,
                     size_t size)
{
    struct json_object *progress = json_get(job, "progress");
    double step = json_get_double(progress, "step", NAN);
    double steps = json_get_double(progress, "steps", NAN);
    double fraction = json_get_double(progress, "fraction", step / steps);
    bool known = fraction >= 0 && (steps > 0 || json_get(progress, "fraction")) &&
                 strcmp(json_get_string(job, "state", ""), "running") == 0;
    size_t room = display->columns > SPARE_COLUMNS ? display->columns - SPARE_COLUMNS : 1, used = 0;
    char fields[FIELD_COUNT][FIELD_TEXT_MAX] = {0};
    char bar[4 * BAR_MAXIMUM + 32], raw[4 * FIELD_TEXT_MAX];

    fields_fill(job, fields);
    if (known)
        memset(fields[FIELD_BAR], '-', BAR_MINIMUM + 5); /* a placeholder of the least width */
    for (size_t i = 0; i < sizeof sacrifice / sizeof *sacrifice && fields_width(fields) > room; i++)
        fields[sacrifice[i]][0] = '\0';
    if (fields[FIELD_BAR][0]) {
        size_t columns = room - fields_width(fields) + BAR_MINIMUM + 5;

        bar_fill(fraction > 1 ? 1 : fraction, columns < BAR_MAXIMUM + 5 ? columns : BAR_MAXIMUM + 5,
                 display->unicode, bar, sizeof bar);
    }
    raw[0] = '\0';
    for (size_t i = 0; i < FIELD_COUNT && used < sizeof raw; i++)
        if (fields[i][0])
            used += (size_t)snprintf(raw + used, sizeof raw - used, "%s%s", used ? "  " : "",
                                     i == FIELD_BAR ? bar : fields[i]);
    text_escape_controls(raw, output, size - 4);
    display_cut(output, room, display->unicode);
}

void progress_bar_clear(struct progress_bar *bar)
{
    if (bar->shown == 0)
        return;
    fputs("\r\033[J", bar->output);
    fflush(bar->output);
    bar->shown = 0;
}

void progress_bar_resize(struct progress_bar *bar)
{
    size_t rows;

    display_look(fileno(bar->output), &bar->display);
    if (bar->shown == 0 || bar->display.columns == 0)
        return;
    /* a narrower screen has wrapped the old line: go back to its first row */
    rows = (bar->shown - 1) / bar->display.columns;
    if (rows > 0)
        fprintf(bar->output, "\033[%zuA", rows);
    progress_bar_clear(bar);
}

void progress_bar_draw(struct progress_bar *bar, struct json_object *job)
{
    char line[4096];

    progress_render(job, &bar->display, line, sizeof line);
    fprintf(bar->output, "\r%s\033[K", line);
    fflush(bar->output);
    bar->shown = display_width(line);
}
