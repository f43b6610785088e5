/* draw.c: the picture of `top`: a headline, the devices with their curves, the jobs, and a line of
 * keys, questions or messages. */
#include "base/clock.h"
#include "client/top/device_panel.h"
#include "client/top/top.h"
#include "client/view/job.h"
#include "client/view/job_table.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum {
    GAP_ROWS = 20,    /* a screen of so many rows has empty ones between the parts */
    TITLE_ROWS = 8,   /* … has a title of the devices */
    DETAIL_ROWS = 10, /* … has a line about the selected job */
    DEVICES_PART = 3, /* devices take at most a third of the screen */
    HEIGHT_MAX = 6,   /* rows of one device's curves */
    FOOTER_ROWS = 1,
    MARKER_COLUMNS = 2
};

static const struct {
    const char *keys, *what;
} help_lines[] = {
    {"j k Up Down", "select a job; Page Up and Down, g, G, wheel and click do, too"},
    {"c", "cancel the selected job; asks first"},
    {"p", "pause it: it gives its device up until it is resumed"},
    {"r", "resume it"},
    {"m", "move it to another device; Tab goes through the devices"},
    {"+ -  =", "raise or lower its priority; type one"},
    {"/", "show jobs by a part of name, state, device, user or group"},
    {"Esc", "show all jobs again"},
    {"s S", "the next order of the jobs; backwards"},
    {"[ ]", "other devices, where not all are shown"},
    {"q", "end, as Ctrl-C does; jobs go on"},
    {NULL, NULL},
    {"BUSY", "part of the device that is busy; ~: as its jobs are expected to"},
    {"MEMORY", "part that is in use or booked, whichever is more"},
    {"curves", "what the daemon has sampled, and since; 4 s a column"},
};

/* ---- layout -------------------------------------------------------------------------------- */

void top_arrange(struct top *top)
{
    struct layout *layout = &top->layout;
    struct json_object *devices = json_get(top->picture.devices, "devices");
    size_t count = devices ? json_object_array_length(devices) : 0, rows = top->screen.rows;
    size_t room = rows / DEVICES_PART, shown, others;

    *layout = (struct layout){.gaps = rows >= GAP_ROWS,
                              .titles = rows >= TITLE_ROWS && count > 0,
                              .detail = rows >= DETAIL_ROWS};
    if (room == 0)
        room = rows > FOOTER_ROWS + 1 ? 1 : 0;
    layout->device_height = count > 0 ? room / count : 1;
    if (layout->device_height < 1)
        layout->device_height = 1;
    if (layout->device_height > HEIGHT_MAX)
        layout->device_height = HEIGHT_MAX;
    shown = count < room ? count : room;
    layout->device_rows = shown * layout->device_height;
    if (top->device_offset + shown > count)
        top->device_offset = count - shown;
    layout->devices_begin = 1 + (layout->gaps && count ? 1 : 0) + (layout->titles ? 1 : 0);
    others = layout->devices_begin + layout->device_rows + (layout->gaps ? 1 : 0) + 1;
    layout->jobs_begin = others;
    others += FOOTER_ROWS + (layout->detail ? 1 : 0);
    top->list.shown = rows > others ? rows - others : 1;
    job_list_scroll(&top->list, 0);
}

/* ---- parts --------------------------------------------------------------------------------- */

static void headline_write(const struct top *top, FILE *output)
{
    const struct picture *picture = &top->picture;
    struct screen_line line = {output, &top->screen.display, 0};
    size_t paused = picture_count_paused(picture);
    char running[32], queued[32], now[64];

    screen_line_add(&line, STYLE_BOLD, "traind");
    screen_line_add(&line, STYLE_PLAIN, "  %s running, %s queued",
                    picture_count(picture->running, paused, running, sizeof running),
                    picture_count(picture->queued, 0, queued, sizeof queued));
    if (paused)
        screen_line_add(&line, STYLE_PLAIN, ", %zu paused", paused);
    if (top->list.order != ORDER_STATE || top->list.reversed)
        screen_line_add(&line, STYLE_CYAN, "  by %s%s", job_order_name(top->list.order),
                        top->list.reversed ? ", backwards" : "");
    if (*top->list.filter)
        screen_line_add(&line, STYLE_CYAN, "  with \"%s\"", top->list.filter);
    if (top->changes.lost_since)
        screen_line_add(&line, STYLE_RED, "  the daemon is away");
    else if (top->silent)
        screen_line_add(&line, STYLE_RED, "  the daemon does not answer");
    screen_line_add_right(&line, STYLE_DIM, display_format_time(clock_now(), now, sizeof now));
    screen_line_end(&line);
}

/* The table of the jobs that are shown; NULL: not enough memory. The caller frees it. */
static char *table_text(const struct top *top, const struct display *display)
{
    static const enum job_column order[] = {
        JOB_COLUMN_NUMBER, JOB_COLUMN_NAME,     JOB_COLUMN_STATE, JOB_COLUMN_DEVICE,
        JOB_COLUMN_USER,   JOB_COLUMN_PRIORITY, JOB_COLUMN_CLOCK, JOB_COLUMN_WHAT,
    };
    const struct job_list *list = &top->list;
    struct job_table table;
    char *text = NULL;
    size_t size;
    FILE *memory = open_memstream(&text, &size);

    job_table_begin(&table, order, sizeof order / sizeof *order);
    for (size_t i = list->offset; i < list->count && i < list->offset + list->shown; i++)
        job_table_add(&table, list->jobs[i]);
    job_table_end(&table, display, memory);
    if (memory && fclose(memory) != 0) {
        free(text);
        text = NULL;
    }
    return text;
}

/* Writes the line of the selected job: reversed where there are colours. Those of its cells are
 * left out, as they would end that. */
static void selected_write(const struct top *top, const char *text, size_t length, FILE *output)
{
    const struct display *display = &top->screen.display;
    AUTO_FREE char *plain = calloc(1, length + 1);
    size_t used = 0, columns;

    if (!plain)
        return;
    for (size_t i = 0; i < length; i++) {
        if (text[i] == '\033')
            while (i < length && text[i] != 'm')
                i++;
        else
            plain[used++] = text[i];
    }
    columns = MARKER_COLUMNS + display_width(plain);
    fprintf(output, "%s%s %s%*s%s\n", display->colour ? "\033[7m" : "",
            display->unicode ? "▶" : ">", plain,
            display->colour && columns < display->columns ? (int)(display->columns - columns) : 0,
            "", display_style_end(display, STYLE_BOLD));
}

static void jobs_write(const struct top *top, FILE *output)
{
    const struct job_list *list = &top->list;
    struct display narrow = top->screen.display;
    AUTO_FREE char *text = NULL;
    size_t row = 0;

    if (narrow.columns > MARKER_COLUMNS)
        narrow.columns -= MARKER_COLUMNS;
    text = table_text(top, &narrow);
    if (!text || !*text) {
        struct screen_line line = {output, &top->screen.display, 0};

        screen_line_add(&line, STYLE_DIM, "%s",
                        *list->filter ? "no job is like that" : "there are no jobs");
        screen_line_end(&line);
        row = 1;
    }
    for (char *line = text, *end; line && *line; line = end + 1, row++) {
        end = strchrnul(line, '\n');
        /* row 0 has the titles */
        if (row > 0 && list->offset + row - 1 == list->index)
            selected_write(top, line, (size_t)(end - line), output);
        else
            fprintf(output, "%*s%.*s\n", MARKER_COLUMNS, "", (int)(end - line), line);
        if (!*end)
            break;
    }
    for (; row < list->shown + 1; row++)
        fputc('\n', output);
}

/* What the selected job's line has no room for. */
static void detail_write(const struct top *top, FILE *output)
{
    struct json_object *job = job_list_selected(&top->list);
    struct screen_line line = {output, &top->screen.display, 0};
    char detail[1024];

    if (job)
        screen_line_add(&line, STYLE_DIM, "job %" PRId64 ", %zu of %zu: %s",
                        json_get_int(job, "id", 0), top->list.index + 1, top->list.count,
                        job_detail(job, detail, sizeof detail));
    screen_line_end(&line);
}

static void keys_write(const struct top *top, FILE *output)
{
    static const char *const keys[][2] = {
        {"q", "quit"}, {"?", "help"},  {"c", "cancel"}, {"p", "pause"}, {"r", "resume"},
        {"m", "move"}, {"+-", "prio"}, {"/", "filter"}, {"s", "sort"},
    };
    struct screen_line line = {output, &top->screen.display, 0};

    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        screen_line_add(&line, STYLE_BOLD, "%s%s", i ? "  " : "", keys[i][0]);
        screen_line_add(&line, STYLE_DIM, " %s", keys[i][1]);
    }
}

/* Writes a sentence that may be longer than the screen is wide: with `two_lines` over the line of
 * the selected job, too. */
static void sentence_write(const struct top *top, bool two_lines, enum style style,
                           const char *text, FILE *output)
{
    struct screen_line line = {output, &top->screen.display, 0};
    size_t columns = top->screen.display.columns, cut = 0;

    /* the last blank within the first line; what is not ASCII counts more columns than it takes */
    for (size_t i = 0; text[i] && i < columns; i++)
        cut = text[i] == ' ' ? i : cut;
    if (two_lines && cut > 0 && display_width(text) > columns) {
        screen_line_add(&line, style, "%.*s", (int)cut, text);
        screen_line_end(&line);
        screen_line_add(&line, style, "%s", text + cut + 1);
        return;
    }
    if (two_lines)
        detail_write(top, output);
    screen_line_add(&line, style, "%s", text);
}

/* The last lines, without a line break behind them. */
static void footer_write(const struct top *top, FILE *output)
{
    char text[sizeof top->prompt.question + PROMPT_BYTES + 8];
    bool detail = top->layout.detail;

    if (top->prompt.kind != PROMPT_NONE) {
        snprintf(text, sizeof text, "%s %s%s", top->prompt.question, top->prompt.text,
                 top->screen.display.unicode ? "█" : "_");
        sentence_write(top, detail, STYLE_BOLD, text, output);
    } else if (*top->message) {
        sentence_write(top, detail, top->message_style, top->message, output);
    } else {
        if (detail)
            detail_write(top, output);
        keys_write(top, output);
    }
}

static void help_write(const struct top *top, FILE *output)
{
    struct screen_line line = {output, &top->screen.display, 0};

    screen_line_add(&line, STYLE_BOLD, "Keys of trainctl top");
    screen_line_end(&line);
    if (top->screen.rows >= GAP_ROWS)
        screen_line_end(&line);
    for (size_t i = 0; i < sizeof help_lines / sizeof *help_lines; i++) {
        if (help_lines[i].keys) {
            screen_line_add(&line, STYLE_CYAN, "%11s", help_lines[i].keys);
            screen_line_add(&line, STYLE_PLAIN, "  %s", help_lines[i].what);
        }
        screen_line_end(&line);
    }
    screen_line_end(&line);
    screen_line_add(&line, STYLE_DIM, "any key goes back");
}

void top_draw(struct top *top)
{
    const struct layout *layout = &top->layout;
    AUTO_FREE char *text = NULL;
    size_t size = 0;
    FILE *output;

    top_arrange(top);
    output = open_memstream(&text, &size);
    if (!output)
        return;
    if (top->help) {
        help_write(top, output);
    } else {
        headline_write(top, output);
        device_panel_write(top, output);
        if (layout->gaps)
            fputc('\n', output);
        jobs_write(top, output);
        footer_write(top, output);
    }
    if (fclose(output) == 0)
        screen_draw(&top->screen, text);
}
