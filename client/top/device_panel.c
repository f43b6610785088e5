/* device_panel.c: see device_panel.h. */
#include "client/top/device_panel.h"

#include "base/text.h"
#include "client/top/area.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    NAME_MAX = 12,
    GAP = 2,
    PART_COLUMNS = 5,    /* "~100%" */
    AMOUNT_COLUMNS = 20, /* "1023 MiB of 1023 GiB" */
    AMOUNT_SCREEN = 110, /* a screen that is so wide shows amounts instead of parts */
    CURVE_MIN = 6,       /* a narrower curve is left out */
    CURVE_MAX = 120,
    CELL_BYTES = 3 /* of a character of braille */
};

/* The columns behind the curves. */
enum extra { EXTRA_JOBS, EXTRA_TEMPERATURE, EXTRA_POWER, EXTRA_HEALTH, EXTRAS };

static const char *const extra_titles[EXTRAS] = {"JOBS", "TEMP", "POWER", "HEALTH"};

/* The widths of the panel's columns; 0: left out. */
struct columns {
    size_t name, busy, memory, curve, extras[EXTRAS];
};

double device_utilisation(struct json_object *device, bool *measured)
{
    struct json_object *bookings = json_get(device, "bookings");
    double part = json_get_double(device, "utilisation", NAN), sum = 0;

    if (isnan(part))
        part = json_get_double(device, "cores_busy", NAN);
    *measured = !isnan(part);
    if (*measured)
        return part;
    if (!bookings)
        return NAN;
    for (size_t i = 0; i < json_object_array_length(bookings); i++)
        sum += fmax(json_get_double(json_object_array_get_idx(bookings, i), "utilisation", 0), 0);
    return fmin(sum, 1);
}

static double device_memory_taken(struct json_object *device)
{
    return fmax(json_get_double(device, "memory_used", 0),
                json_get_double(device, "memory_booked", 0));
}

double device_memory_part(struct json_object *device)
{
    double total = json_get_double(device, "memory_total", 0);

    return total > 0 ? device_memory_taken(device) / total : NAN;
}

/* ---- texts --------------------------------------------------------------------------------- */

static char *busy_format(struct json_object *device, char *output, size_t size)
{
    bool measured;
    double part = device_utilisation(device, &measured);

    if (isnan(part))
        snprintf(output, size, "-");
    else
        snprintf(output, size, "%s%.0f%%", measured ? "" : "~", 100 * part);
    return output;
}

static char *memory_format(struct json_object *device, bool amounts, char *output, size_t size)
{
    double part = device_memory_part(device);
    char taken[32], total[32];

    if (isnan(part))
        snprintf(output, size, "-");
    else if (amounts)
        snprintf(output, size, "%s of %s",
                 text_format_bytes((uint64_t)device_memory_taken(device), taken, sizeof taken),
                 text_format_bytes((uint64_t)json_get_int(device, "memory_total", 0), total,
                                   sizeof total));
    else
        snprintf(output, size, "%.0f%%", 100 * part);
    return output;
}

static char *jobs_format(struct json_object *device, char *output, size_t size)
{
    struct json_object *jobs = json_get(device, "jobs");
    size_t count = jobs ? json_object_array_length(jobs) : 0;
    int64_t slots = json_get_int(device, "slots", 0);

    if (slots > 0)
        snprintf(output, size, "%zu/%" PRId64, count, slots);
    else
        snprintf(output, size, "%zu", count);
    return output;
}

/* Writes what stands in the column; "": nothing is known. */
static char *extra_format(struct json_object *device, enum extra extra, char *output, size_t size)
{
    double number;

    *output = '\0';
    switch (extra) {
    case EXTRA_JOBS:
        return jobs_format(device, output, size);
    case EXTRA_TEMPERATURE:
        number = json_get_double(device, "temperature", NAN);
        if (!isnan(number))
            snprintf(output, size, "%.0f °C", number);
        break;
    case EXTRA_POWER:
        number = json_get_double(device, "power_watts", NAN);
        if (!isnan(number))
            snprintf(output, size, "%.0f W", number);
        break;
    default:
        if (strcmp(json_get_string(device, "health", "healthy"), "healthy") != 0)
            snprintf(output, size, "%s", json_get_string(device, "health", ""));
        break;
    }
    return output;
}

static enum style health_style(struct json_object *device)
{
    const char *health = json_get_string(device, "health", "healthy");

    return strcmp(health, "healthy") == 0 ? STYLE_BOLD
           : strcmp(health, "lost") == 0  ? STYLE_RED
                                          : STYLE_YELLOW;
}

/* ---- columns ------------------------------------------------------------------------------- */

/* The columns besides the curves. */
static size_t columns_taken(const struct columns *columns)
{
    size_t taken = columns->name + GAP + columns->busy + 1 + GAP + columns->memory + 1;

    for (size_t i = 0; i < EXTRAS; i++)
        taken += columns->extras[i] ? GAP + columns->extras[i] : 0;
    return taken;
}

static void width_widen(size_t *width, const char *text)
{
    size_t needed = display_width(text);

    *width = needed > *width ? needed : *width;
}

/* Finds the widths: curves get what is left, and the least important columns make room for them. */
static struct columns columns_find(struct json_object *devices, size_t screen)
{
    struct columns columns = {.name = strlen("DEVICE"),
                              .busy = PART_COLUMNS,
                              .memory =
                                  screen >= AMOUNT_SCREEN ? AMOUNT_COLUMNS : PART_COLUMNS + 1};
    char text[256];

    for (size_t i = 0; i < json_object_array_length(devices); i++) {
        struct json_object *device = json_object_array_get_idx(devices, i);

        width_widen(&columns.name, json_get_string(device, "name", ""));
        for (size_t e = 0; e < EXTRAS; e++)
            width_widen(&columns.extras[e], extra_format(device, (enum extra)e, text, sizeof text));
    }
    if (columns.name > NAME_MAX)
        columns.name = NAME_MAX;
    for (size_t e = 0; e < EXTRAS; e++)
        if (columns.extras[e] > 0)
            width_widen(&columns.extras[e], extra_titles[e]);
    /* on a narrow screen power, temperature and the number of jobs go, in that order */
    for (size_t e = EXTRA_HEALTH; e-- > 0;)
        if (columns_taken(&columns) + 2 * CURVE_MIN > screen)
            columns.extras[e] = 0;
    if (columns_taken(&columns) + 2 * CURVE_MIN <= screen)
        columns.curve = (screen - columns_taken(&columns)) / 2;
    if (columns.curve > CURVE_MAX)
        columns.curve = CURVE_MAX;
    return columns;
}

/* ---- rows ---------------------------------------------------------------------------------- */

static void curve_write(const struct top *top, struct screen_line *line, const char *device,
                        enum measured_value value, size_t columns, size_t row)
{
    static const enum style styles[MEASURED_VALUES] = {STYLE_CYAN, STYLE_GREEN};
    double parts[AREA_VALUES_PER_COLUMN * CURVE_MAX];
    char text[CELL_BYTES * CURVE_MAX + 4];
    size_t count = AREA_VALUES_PER_COLUMN * columns;

    for (size_t i = 0; i < count; i++)
        parts[i] = measurements_get(top->measurements, device, value, top->fetched, count - 1 - i);
    area_row(parts, columns, top->layout.device_height, row, top->screen.display.unicode, text,
             sizeof text);
    screen_line_add(line, styles[value], "%s", text);
}

/* Writes a number in the first row, and the curve behind it. */
static void value_write(const struct top *top, struct screen_line *line, const char *device,
                        enum measured_value value, const char *text, size_t width,
                        const struct columns *columns, size_t row)
{
    size_t end = line->used + GAP + width + 1 + columns->curve;

    screen_line_pad(line, line->used + GAP);
    if (row == 0) {
        size_t taken = display_width(text);

        screen_line_pad(line, line->used + (width > taken ? width - taken : 0));
        screen_line_add(line, STYLE_PLAIN, "%s", text);
        screen_line_pad(line, line->used + 1);
    } else {
        screen_line_pad(line, line->used + width + 1);
    }
    if (columns->curve)
        curve_write(top, line, device, value, columns->curve, row);
    screen_line_pad(line, end);
}

static void device_row_write(const struct top *top, struct json_object *device,
                             const struct columns *columns, size_t row, FILE *output)
{
    struct screen_line line = {output, &top->screen.display, 0};
    const char *name = json_get_string(device, "name", "?");
    char text[256];

    if (row == 0) {
        char cut[4 * NAME_MAX + 256];

        snprintf(cut, sizeof cut - 4, "%s", name);
        display_cut(text_make_utf8(cut), columns->name, top->screen.display.unicode);
        screen_line_add(&line, health_style(device), "%s", cut);
    }
    screen_line_pad(&line, columns->name);
    value_write(top, &line, name, MEASURED_UTILISATION, busy_format(device, text, sizeof text),
                columns->busy, columns, row);
    value_write(top, &line, name, MEASURED_MEMORY,
                memory_format(device, columns->memory == AMOUNT_COLUMNS, text, sizeof text),
                columns->memory, columns, row);
    for (size_t e = 0; e < EXTRAS && row == 0; e++) {
        if (columns->extras[e] == 0)
            continue;
        screen_line_pad(&line, line.used + GAP);
        extra_format(device, (enum extra)e, text, sizeof text);
        screen_line_add(&line, e == EXTRA_HEALTH ? health_style(device) : STYLE_PLAIN, "%s", text);
        screen_line_pad(&line, line.used + columns->extras[e] - display_width(text));
    }
    screen_line_end(&line);
}

static void titles_write(const struct top *top, const struct columns *columns, size_t count,
                         FILE *output)
{
    struct screen_line line = {output, &top->screen.display, 0};
    size_t shown = top->layout.device_rows / top->layout.device_height;

    screen_line_add(&line, STYLE_BOLD, "DEVICE");
    screen_line_pad(&line, columns->name + GAP + columns->busy - strlen("BUSY"));
    screen_line_add(&line, STYLE_BOLD, "BUSY");
    screen_line_pad(&line, columns->name + GAP + columns->busy + 1 + columns->curve + GAP +
                               columns->memory - strlen("MEMORY"));
    screen_line_add(&line, STYLE_BOLD, "MEMORY");
    screen_line_pad(&line, line.used + 1 + columns->curve);
    for (size_t e = 0; e < EXTRAS; e++) {
        if (columns->extras[e] == 0)
            continue;
        screen_line_pad(&line, line.used + GAP);
        screen_line_add(&line, STYLE_BOLD, "%s", extra_titles[e]);
        screen_line_pad(&line, line.used + columns->extras[e] - strlen(extra_titles[e]));
    }
    if (shown < count) {
        char text[96];

        snprintf(text, sizeof text, "%zu to %zu of %zu [ ]", top->device_offset + 1,
                 top->device_offset + shown, count);
        screen_line_add_right(&line, STYLE_DIM, text);
    }
    screen_line_end(&line);
}

void device_panel_write(const struct top *top, FILE *output)
{
    struct json_object *devices = json_get(top->picture.devices, "devices");
    size_t count = devices ? json_object_array_length(devices) : 0;
    size_t shown = top->layout.device_rows / top->layout.device_height;
    struct columns columns;

    if (count == 0)
        return;
    columns = columns_find(devices, top->screen.display.columns);
    if (top->layout.gaps)
        fputc('\n', output);
    if (top->layout.titles)
        titles_write(top, &columns, count, output);
    for (size_t i = 0; i < shown; i++)
        for (size_t row = 0; row < top->layout.device_height; row++)
            device_row_write(top, json_object_array_get_idx(devices, top->device_offset + i),
                             &columns, row, output);
}
