/* devices.c: see devices.h. */
#include "client/view/devices.h"

#include "base/text.h"
#include "client/view/line.h"
#include "client/view/table.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

/* Joins the members of a JSON array. */
static char *list_join(struct json_object *list, const char *separator, char *output, size_t size)
{
    size_t used = 0;

    output[0] = '\0';
    for (size_t i = 0; list && i < json_object_array_length(list) && used < size; i++)
        used += (size_t)snprintf(output + used, size - used, "%s%s", i ? separator : "",
                                 json_object_get_string(json_object_array_get_idx(list, i)));
    return output;
}

static enum style health_style(const char *health)
{
    return strcmp(health, "healthy") == 0 ? STYLE_GREEN
           : strcmp(health, "lost") == 0  ? STYLE_RED
                                          : STYLE_YELLOW;
}

/* Writes a member that counts bytes; "": not known. */
static char *bytes_format(struct json_object *object, const char *key, char *output, size_t size)
{
    output[0] = '\0';
    if (json_get(object, key))
        text_format_bytes((uint64_t)json_get_int(object, key, 0), output, size);
    return output;
}

/* Writes a measured number with its unit; "": not known. */
static char *number_format(struct json_object *object, const char *key, double factor,
                           const char *unit, char *output, size_t size)
{
    double number = json_get_double(object, key, NAN);

    output[0] = '\0';
    if (!isnan(number))
        snprintf(output, size, "%.0f%s", factor * number, unit);
    return output;
}

/* Writes "1<separator>2": the number of jobs and its limit; "1<unlimited>" if only memory limits
 * it. */
static char *slots_format(struct json_object *device, const char *separator, const char *unlimited,
                          char *output, size_t size)
{
    struct json_object *jobs = json_get(device, "jobs");
    size_t count = jobs ? json_object_array_length(jobs) : 0;
    int64_t slots = json_get_int(device, "slots", 0);

    if (slots > 0)
        snprintf(output, size, "%zu%s%" PRId64, count, separator, slots);
    else
        snprintf(output, size, "%zu%s", count, unlimited);
    return output;
}

/* ---- all devices, one line each ------------------------------------------------------------ */

static void device_add(struct table *table, struct json_object *device)
{
    struct json_object *jobs = json_get(device, "jobs");
    const char *health = json_get_string(device, "health", "?");
    char text[1024], used[32], total[32];

    table_add(table, json_get_string(device, "name", "?"), STYLE_BOLD);
    table_add(table, json_get_string(device, "model", ""), STYLE_PLAIN);
    snprintf(text, sizeof text, "%" PRId64, json_get_int(device, "cores", 0));
    table_add(table, strcmp(text, "0") == 0 ? "" : text, STYLE_PLAIN);
    snprintf(text, sizeof text, "%s of %s", bytes_format(device, "memory_used", used, sizeof used),
             bytes_format(device, "memory_total", total, sizeof total));
    table_add(table, text, STYLE_PLAIN);
    table_add(table, bytes_format(device, "memory_booked", used, sizeof used), STYLE_PLAIN);
    table_add(table, bytes_format(device, "memory_outside", used, sizeof used), STYLE_PLAIN);
    table_add(table, bytes_format(device, "memory_free", used, sizeof used), STYLE_PLAIN);
    table_add(table, slots_format(device, "/", "", text, sizeof text), STYLE_PLAIN);
    table_add(table, list_join(jobs, " ", text, sizeof text), STYLE_PLAIN);
    table_add(table, number_format(device, "utilisation", 100, "%", text, sizeof text),
              STYLE_PLAIN);
    table_add(table, number_format(device, "temperature", 1, " °C", text, sizeof text),
              STYLE_PLAIN);
    table_add(table, health, health_style(health));
    table_add(table, list_join(json_get(device, "features"), " ", text, sizeof text), STYLE_DIM);
}

void devices_print(struct json_object *devices, const struct display *display, FILE *output)
{
    static const struct table_column columns[] = {
        {"DEVICE", false, 0},   {"MODEL", false, 10},     {"CORES", true, 0},
        {"MEMORY", false, 0},   {"BOOKED", false, 0},     {"OUTSIDE", true, 0},
        {"FREE", true, 0},      {"SLOTS", false, 0},      {"RUNS JOB", false, 6},
        {"BUSY", true, 0},      {"TEMPERATURE", true, 0}, {"HEALTH", false, 0},
        {"FEATURES", false, 8},
    };
    struct table *table = table_new(columns, sizeof columns / sizeof *columns);

    for (size_t i = 0; devices && i < json_object_array_length(devices); i++)
        device_add(table, json_object_array_get_idx(devices, i));
    table_print(table, display, output);
    table_free(table);
}

/* ---- one device ---------------------------------------------------------------------------- */

/* Prints how much memory may be filled, and, if other programs hold memory, how much they leave for
 * jobs. */
static void limit_print(const struct display *display, struct json_object *device, double high)
{
    double total = (double)json_get_int(device, "memory_total", 0);
    char text[48] = "", jobs[48];

    if (total > 0)
        text_format_bytes((uint64_t)(high * total), text, sizeof text);
    line_printf(display, "limit", STYLE_PLAIN, "%s%s%.0f%% of it (high watermark)", text,
                *text ? ", " : "", 100 * high);
    if (json_get_int(device, "memory_outside", 0) > 0 &&
        *bytes_format(device, "memory_limit", jobs, sizeof jobs))
        line_printf(display, "for jobs", STYLE_PLAIN, "%s of that: others hold the rest", jobs);
}

static void ledger_print(const struct display *display, struct json_object *device)
{
    double high = json_get_double(device, "high_watermark_ratio", NAN);
    double low = json_get_double(device, "low_watermark_ratio", NAN);
    char text[48], used[48];

    line_printf(display, "memory", STYLE_PLAIN, "%s, of which %s are in use",
                bytes_format(device, "memory_total", text, sizeof text),
                bytes_format(device, "memory_used", used, sizeof used));
    if (high == 0)
        line_print(display, "limit", "none", STYLE_PLAIN);
    else if (!isnan(high))
        limit_print(display, device, high);
    if (low > 0)
        line_printf(display, "", STYLE_PLAIN, "no further job joins above %.0f%% (low watermark)",
                    100 * low);
    if (json_get_string(device, "memory_of", NULL))
        line_printf(display, "", STYLE_PLAIN, "%s %s: one ledger for both",
                    json_get_bool(device, "same_hardware", false) ? "it is the GPU of"
                                                                  : "it is that of",
                    json_get_string(device, "memory_of", ""));
    line_print(display, "booked", bytes_format(device, "memory_booked", text, sizeof text),
               STYLE_PLAIN);
    line_print(display, "outside", bytes_format(device, "memory_outside", text, sizeof text),
               STYLE_PLAIN);
    line_print(display, "free", bytes_format(device, "memory_free", text, sizeof text), STYLE_BOLD);
}

/* Prints each number of the calibration, such as "flops_per_second.float32 1.2e+11". */
static void calibration_print(const struct display *display, struct json_object *object,
                              const char *prefix)
{
    if (!object)
        return;
    json_object_object_foreach (object, name, value) {
        char key[128], text[32];

        snprintf(key, sizeof key, "%s%s%s", prefix, *prefix ? "." : "", name);
        if (json_object_is_type(value, json_type_object))
            calibration_print(display, value, key);
        else if (json_object_is_type(value, json_type_double) ||
                 json_object_is_type(value, json_type_int))
            line_printf(display, "calibration", STYLE_PLAIN, "%s %s", key,
                        display_format_value(json_object_get_double(value), text, sizeof text));
        else if (value)
            line_printf(display, "calibration", STYLE_PLAIN, "%s %s", key,
                        json_object_get_string(value));
    }
}

static void bookings_print(const struct display *display, struct json_object *bookings)
{
    static const struct table_column columns[] = {
        {"JOB", true, 0}, {"BOOKED", true, 0}, {"KEEPS BUSY", true, 0}, {"SHARES", false, 0}};
    struct table *table = table_new(columns, sizeof columns / sizeof *columns);
    size_t count = bookings ? json_object_array_length(bookings) : 0;

    for (size_t i = 0; i < count; i++) {
        struct json_object *booking = json_object_array_get_idx(bookings, i);
        char text[48];

        table_add_integer(table, json_get_int(booking, "job", 0));
        table_add(table, bytes_format(booking, "bytes", text, sizeof text), STYLE_PLAIN);
        table_add(table, number_format(booking, "utilisation", 100, "%", text, sizeof text),
                  STYLE_PLAIN);
        table_add(table, json_get_bool(booking, "mps", false) ? "by MPS" : "", STYLE_PLAIN);
    }
    if (count)
        putchar('\n');
    table_print(table, display, stdout);
    table_free(table);
}

static void outside_print(const struct display *display, struct json_object *outside)
{
    static const struct table_column columns[] = {
        {"PID", true, 0}, {"USER", false, 4}, {"OUTSIDE", true, 0}, {"COMMAND", false, 12}};
    struct table *table = table_new(columns, sizeof columns / sizeof *columns);
    size_t count = outside ? json_object_array_length(outside) : 0;

    for (size_t i = 0; i < count; i++) {
        struct json_object *process = json_object_array_get_idx(outside, i);
        char text[48];

        table_add_integer(table, json_get_int(process, "pid", 0));
        table_add(table, json_get_string(process, "user", ""), STYLE_PLAIN);
        table_add(table, bytes_format(process, "bytes", text, sizeof text), STYLE_PLAIN);
        table_add(table, json_get_string(process, "command", ""), STYLE_PLAIN);
    }
    if (count)
        putchar('\n');
    table_print(table, display, stdout);
    table_free(table);
}

void devices_print_one(struct json_object *device, const struct display *display)
{
    const char *health = json_get_string(device, "health", "?");
    char text[1024];

    line_print(display, "device", json_get_string(device, "name", "?"), STYLE_BOLD);
    line_print(display, "model", json_get_string(device, "model", NULL), STYLE_PLAIN);
    line_print(display, "kind", json_get_string(device, "kind", NULL), STYLE_PLAIN);
    line_print(display, "id", json_get_string(device, "id", NULL), STYLE_PLAIN);
    line_print(display, "driver", json_get_string(device, "driver", NULL), STYLE_PLAIN);
    line_print(display, "features", list_join(json_get(device, "features"), " ", text, sizeof text),
               STYLE_PLAIN);
    if (json_get_int(device, "cores", 0))
        line_printf(display, "cores", STYLE_PLAIN, "%" PRId64, json_get_int(device, "cores", 0));
    line_print(display, "health", health, health_style(health));
    line_print(display, "because", json_get_string(device, "health_reason", NULL), STYLE_PLAIN);
    line_print(display, "training",
               json_get_bool(device, "trains", false)
                   ? "native jobs can train on it"
                   : json_get_string(device, "trains_reason", NULL),
               STYLE_PLAIN);
    line_print(display, "slots",
               slots_format(device, " taken of ",
                            json_get_int(device, "slots", 0) < 0
                                ? " taken, as many as memory, cores and measured use allow"
                                : " taken, as many as memory allows",
                            text, sizeof text),
               STYLE_PLAIN);
    ledger_print(display, device);
    line_print(display, "busy", number_format(device, "utilisation", 100, "%", text, sizeof text),
               STYLE_PLAIN);
    line_print(display, "cpu wait",
               number_format(device, "cpu_pressure", 100, "% of the time", text, sizeof text),
               STYLE_PLAIN);
    line_print(display, "mem wait",
               number_format(device, "memory_pressure", 100, "% of the time", text, sizeof text),
               STYLE_PLAIN);
    line_print(display, "temperature",
               number_format(device, "temperature", 1, " °C", text, sizeof text), STYLE_PLAIN);
    line_print(display, "power", number_format(device, "power_watts", 1, " W", text, sizeof text),
               STYLE_PLAIN);
    calibration_print(display, json_get(device, "calibration"), "");
    bookings_print(display, json_get(device, "bookings"));
    outside_print(display, json_get(device, "outside"));
}
