/* queue.c: `trainctl queue` lists the jobs that wait for a device, the next one first. */
#include "client/connection/connection.h"
#include "client/connection/history.h"
#include "client/view/history.h"
#include "client/view/job.h"
#include "client/view/table.h"

static void queue_print(struct json_object *jobs, const struct display *display)
{
    static const struct table_column columns[] = {{"PLACE", true, 0},  {"JOB", true, 0},
                                                  {"NAME", false, 8},  {"USER", false, 4},
                                                  {"STARTS", true, 0}, {"WHY", false, 12}};
    struct table *table = table_new(columns, sizeof columns / sizeof *columns);

    for (size_t i = 0; i < json_object_array_length(jobs); i++) {
        struct json_object *job = json_object_array_get_idx(jobs, i);
        char text[64];

        table_add_integer(table, json_get_int(job, "queue_position", 0));
        table_add_integer(table, json_get_int(job, "id", 0));
        table_add(table, json_get_string(job, "name", ""), STYLE_PLAIN);
        table_add(table, json_get_string(job, "user", ""), STYLE_PLAIN);
        table_add(table, *job_start_format(job, text, sizeof text) ? text : "?", STYLE_PLAIN);
        table_add(table, job_reason(job), STYLE_PLAIN);
    }
    table_print(table, display, stdout);
    table_free(table);
}

static enum exit_status history_show(struct invocation *invocation, double seconds)
{
    CLEANUP(varlink_reply_release) struct varlink_reply reply = {0};
    enum exit_status status = history_ask(invocation, NULL, seconds, &reply);

    if (status)
        return status;
    if (invocation->json) {
        json_print(reply.parameters, stdout);
        return EXIT_STATUS_DONE;
    }
    if (history_print_queue(reply.parameters, &invocation->output) == 0)
        return EXIT_STATUS_DONE;
    complain("not enough memory to draw");
    return EXIT_STATUS_FAILED;
}

static enum exit_status command_execute(struct invocation *invocation)
{
    CLEANUP(varlink_reply_release) struct varlink_reply reply = {0};
    struct json_object *parameters, *jobs;
    int64_t limit = 0;
    double history_seconds;
    enum exit_status status = invocation_option_integer(invocation, "limit", 1, &limit);

    if (!status)
        status = history_option_read(invocation, &history_seconds);
    if (status)
        return status;
    if (history_seconds > 0)
        return history_show(invocation, history_seconds);
    parameters = json_object_new_object();
    if (limit)
        json_set_int(parameters, "limit", limit);
    status = connection_call(invocation, "Queue", parameters, &reply);
    if (status)
        return status;
    if (invocation->json) {
        json_print(reply.parameters, stdout);
        return EXIT_STATUS_DONE;
    }
    jobs = json_get(reply.parameters, "jobs");
    queue_print(jobs, &invocation->output);
    if (json_object_array_length(jobs) == 0 && invocation->output.terminal)
        puts("no job waits for a device; `trainctl list --state queued` shows what waits for "
             "something else");
    return EXIT_STATUS_DONE;
}

static const struct command_option queue_options[] = {
    {"limit", 'l', "N", "The first N jobs, at most 500 (default: 50)", COMPLETE_NOTHING},
    HISTORY_OPTION("Draw how many jobs waited and ran: in the last hour, or in a span such as "
                   "--history=7d"),
    {0},
};

const struct command command_queue = {
    .name = "queue",
    .place = 80,
    .summary = "List the jobs that wait for a device, the next one first, and when they start",
    .options = queue_options,
    .execute = command_execute,
};
