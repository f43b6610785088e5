/* schedules.c: `trainctl schedules` lists the schedules that --every has made. */
#include "client/connection/connection.h"
#include "client/view/table.h"

#include <math.h>

static void schedules_print(const struct display *display, struct json_object *schedules)
{
    static const struct table_column columns[] = {
        {"SCHEDULE", true, 0}, {"NAME", false, 8},   {"EVERY", false, 8}, {"NEXT", false, 0},
        {"LAST JOB", true, 0}, {"SKIPPED", true, 0}, {"USER", false, 4},  {"FAILURE", false, 12},
    };
    struct table *table = table_new(columns, sizeof columns / sizeof *columns);

    for (size_t i = json_object_array_length(schedules); i-- > 0;) { /* the newest comes first */
        struct json_object *schedule = json_object_array_get_idx(schedules, i);
        double next = json_get_double(schedule, "next", NAN);
        int64_t skipped = json_get_int(schedule, "skipped", 0);
        char time[64];

        table_add_integer(table, json_get_int(schedule, "id", 0));
        table_add(table, json_get_string(schedule, "name", ""), STYLE_PLAIN);
        table_add(table, json_get_string(schedule, "every", ""), STYLE_PLAIN);
        table_add(table, isnan(next) ? "never" : display_format_time(next, time, sizeof time),
                  STYLE_PLAIN);
        if (json_get(schedule, "last_job"))
            table_add_integer(table, json_get_int(schedule, "last_job", 0));
        else
            table_add(table, "none", STYLE_PLAIN);
        if (skipped)
            table_add_integer(table, skipped);
        else
            table_add(table, "", STYLE_PLAIN);
        table_add(table, json_get_string(schedule, "user", ""), STYLE_PLAIN);
        table_add(table, json_get_string(schedule, "failure", ""), STYLE_RED);
    }
    table_print(table, display, stdout);
    table_free(table);
}

/* Adds a page to `schedules`. `*before`: that of the page; then that of the next one, 0: none. */
static enum exit_status page_add(struct invocation *invocation, int64_t *before,
                                 struct json_object *schedules)
{
    CLEANUP(varlink_reply_release) struct varlink_reply reply = {0};
    struct json_object *parameters = json_object_new_object(), *page;
    enum exit_status status;

    if (*before)
        json_set_int(parameters, "before", *before);
    status = connection_call(invocation, "Schedules", parameters, &reply);
    if (status)
        return status;
    page = json_get(reply.parameters, "schedules");
    for (size_t i = 0; i < json_object_array_length(page); i++)
        json_object_array_add(schedules, json_object_get(json_object_array_get_idx(page, i)));
    *before = json_get_int(reply.parameters, "next", 0);
    return EXIT_STATUS_DONE;
}

static enum exit_status command_execute(struct invocation *invocation)
{
    JSON_AUTO struct json_object *all = json_object_new_object();
    struct json_object *schedules = json_object_new_array();
    enum exit_status status = EXIT_STATUS_DONE;
    int64_t before = 0;

    json_set(all, "schedules", schedules);
    do
        status = page_add(invocation, &before, schedules);
    while (!status && before);
    if (status)
        return status;
    if (invocation->json)
        json_print(all, stdout);
    else
        schedules_print(&invocation->output, schedules);
    return EXIT_STATUS_DONE;
}

const struct command command_schedules = {
    .name = "schedules",
    .place = 224,
    .summary = "List the schedules that --every has made",
    .details = "SKIPPED counts times at which the job before had not ended: they make no job. "
               "Times that pass\nwhile traind is down make one job together, when it starts.",
    .execute = command_execute,
};
