/* usage.c: `trainctl usage` shows how long jobs have run, by user and device. */
#include "base/clock.h"
#include "base/text.h"
#include "client/connection/job_pages.h"
#include "client/view/table.h"

#include <string.h>

/* The row of `rows` for the user and the device, created if there is none. */
static struct json_object *row_find(struct json_object *rows, const char *user, const char *device)
{
    struct json_object *row;

    for (size_t i = 0; i < json_object_array_length(rows); i++) {
        row = json_object_array_get_idx(rows, i);
        if (strcmp(json_get_string(row, "user", ""), user) == 0 &&
            strcmp(json_get_string(row, "device", ""), device) == 0)
            return row;
    }
    row = json_object_new_object();
    json_set_string(row, "user", user);
    json_set_string(row, "device", device);
    json_object_array_add(rows, row);
    return row;
}

static void row_count(struct json_object *row, const char *key)
{
    json_set_int(row, key, json_get_int(row, key, 0) + 1);
}

/* Adds a job that has run; a job that never started has no device. */
static void job_count(struct json_object *rows, struct json_object *job)
{
    const char *device = json_get_string(job, "device", NULL);
    const char *state = json_get_string(job, "state", "");
    double ran = json_get_double(job, "ran", 0);
    struct json_object *row;

    if (!device || !(ran > 0))
        return;
    row = row_find(rows, json_get_string(job, "user", "?"), device);
    row_count(row, "jobs");
    if (strcmp(state, "done") == 0 || strcmp(state, "failed") == 0)
        row_count(row, state);
    json_set_double(row, "seconds", json_get_double(row, "seconds", 0) + ran);
}

struct selection {
    double since; /* jobs that were submitted from this time on */
    struct json_object *rows;
};

/* The pages begin with the newest job, so an earlier one ends the walk. */
static bool job_take(void *context, struct json_object *job)
{
    const struct selection *selection = context;

    if (json_get_double(job, "submitted", 0) < selection->since)
        return false;
    job_count(selection->rows, job);
    return true;
}

/* The longest time first. */
static int compare_seconds(const void *first, const void *second)
{
    double one = json_get_double(*(struct json_object *const *)first, "seconds", 0);
    double other = json_get_double(*(struct json_object *const *)second, "seconds", 0);

    return (one < other) - (one > other);
}

static void rows_print(struct json_object *rows, const struct display *display)
{
    static const struct table_column columns[] = {{"USER", false, 4}, {"DEVICE", false, 0},
                                                  {"RAN", true, 0},   {"JOBS", true, 0},
                                                  {"DONE", true, 0},  {"FAILED", true, 0}};
    struct table *table = table_new(columns, sizeof columns / sizeof *columns);

    for (size_t i = 0; i < json_object_array_length(rows); i++) {
        struct json_object *row = json_object_array_get_idx(rows, i);
        char text[64];

        table_add(table, json_get_string(row, "user", ""), STYLE_PLAIN);
        table_add(table, json_get_string(row, "device", ""), STYLE_PLAIN);
        table_add(table,
                  text_format_duration(json_get_double(row, "seconds", 0), text, sizeof text),
                  STYLE_PLAIN);
        table_add_integer(table, json_get_int(row, "jobs", 0));
        table_add_integer(table, json_get_int(row, "done", 0));
        table_add_integer(table, json_get_int(row, "failed", 0));
    }
    table_print(table, display, stdout);
    table_free(table);
}

static enum exit_status command_execute(struct invocation *invocation)
{
    JSON_AUTO struct json_object *output = json_object_new_object();
    struct selection selection = {.rows = json_object_new_array()};
    const char *text = invocation_option(invocation, "since");
    double seconds = 0;
    enum exit_status status;

    json_set(output, "usage", selection.rows);
    if (text && text_parse_duration(text, &seconds) < 0) {
        complain("--since=%s: a duration is expected, such as \"7 days\" or \"12 h\"", text);
        return EXIT_STATUS_USAGE;
    }
    if (text)
        selection.since = clock_now() - seconds;
    status = job_pages_walk(invocation, NULL, job_take, &selection);
    if (status)
        return status;
    json_object_array_sort(selection.rows, compare_seconds);
    if (invocation->json)
        json_print(output, stdout);
    else
        rows_print(selection.rows, &invocation->output);
    return EXIT_STATUS_DONE;
}

static const struct command_option usage_options[] = {
    {"since", 's', "DURATION", "Only jobs that were submitted since, such as \"7 days\"",
     COMPLETE_NOTHING},
    {0},
};

const struct command command_usage = {
    .name = "usage",
    .place = 245,
    .summary = "Show how long jobs have run, by user and device",
    .details = "A job that moved counts for its last device. Removed jobs do not count.",
    .options = usage_options,
    .execute = command_execute,
};
