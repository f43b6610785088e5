/* df.c: `trainctl df` shows the disk space that jobs use. */
#include "base/clock.h"
#include "base/text.h"
#include "client/connection/connection.h"
#include "client/view/job.h"
#include "client/view/line.h"
#include "client/view/table.h"

#include <inttypes.h>
#include <math.h>

static const char *bytes_format(struct json_object *object, const char *key, char text[32])
{
    return text_format_bytes((uint64_t)json_get_int(object, key, 0), text, 32);
}

static void jobs_table(struct json_object *jobs, const struct display *display)
{
    static const struct table_column columns[] = {
        {"JOB", true, 0},    {"NAME", false, 8},       {"USER", false, 4}, {"STATE", false, 0},
        {"ENDED", false, 0}, {"CHECKPOINTS", true, 0}, {"SIZE", true, 0},  {"LOG", true, 0}};
    struct table *table = table_new(columns, sizeof columns / sizeof *columns);
    double now = clock_now();

    for (size_t i = 0; i < json_object_array_length(jobs); i++) {
        struct json_object *job = json_object_array_get_idx(jobs, i);
        const char *state = json_get_string(job, "state", "?");
        double ended = json_get_double(job, "ended", NAN);
        char text[32];

        table_add_integer(table, json_get_int(job, "id", 0));
        table_add(table, json_get_string(job, "name", ""), STYLE_PLAIN);
        table_add(table, json_get_string(job, "user", ""), STYLE_PLAIN);
        table_add(table, state, job_state_style(state));
        table_add(table, isnan(ended) ? "" : display_format_ago(ended, now, text, sizeof text),
                  STYLE_PLAIN);
        table_add_integer(table, json_get_int(job, "checkpoints", 0));
        table_add(table, bytes_format(job, "bytes", text), STYLE_PLAIN);
        table_add(table, bytes_format(job, "log_bytes", text), STYLE_PLAIN);
    }
    table_print(table, display, stdout);
    table_free(table);
}

static enum exit_status command_execute(struct invocation *invocation)
{
    CLEANUP(varlink_reply_release) struct varlink_reply reply = {0};
    const struct display *display = &invocation->output;
    struct json_object *jobs;
    enum exit_status status = connection_call(invocation, "DiskUsage", NULL, &reply);
    char first[32], second[32];

    if (status)
        return status;
    if (invocation->json) {
        json_print(reply.parameters, stdout);
        return EXIT_STATUS_DONE;
    }
    line_print(display, "state", json_get_string(reply.parameters, "directory", ""), STYLE_PLAIN);
    line_printf(display, "disk", STYLE_PLAIN, "%s free of %s",
                bytes_format(reply.parameters, "free_bytes", first),
                bytes_format(reply.parameters, "disk_bytes", second));
    line_printf(display, "databases", STYLE_PLAIN, "%s",
                bytes_format(reply.parameters, "database_bytes", first));
    line_printf(display, "checkpoints", STYLE_PLAIN, "%" PRId64 " of %s, %s",
                json_get_int(reply.parameters, "checkpoints", 0), "these jobs",
                bytes_format(reply.parameters, "checkpoint_bytes", first));
    jobs = json_get(reply.parameters, "jobs");
    if (json_object_array_length(jobs) == 0) {
        puts("no job holds checkpoints");
        return EXIT_STATUS_DONE;
    }
    putchar('\n');
    jobs_table(jobs, display);
    if (display->terminal)
        puts("`trainctl rm JOB…` and `trainctl clean` make room; with --checkpoints the results "
             "stay.");
    return EXIT_STATUS_DONE;
}

const struct command command_df = {
    .name = "df",
    .place = 250,
    .summary = "Show the disk space that jobs use, and how much is free",
    .execute = command_execute,
};
