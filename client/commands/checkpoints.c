/* checkpoints.c: `trainctl checkpoints` lists the checkpoints of a job. */
#include "base/clock.h"
#include "base/text.h"
#include "client/connection/connection.h"
#include "client/view/job.h"
#include "client/view/table.h"

#include <math.h>
#include <string.h>

/* Writes, for example, "train_loss 1.2340  validation_loss 1.3000". */
static void metrics_format(struct json_object *metrics, char *output, size_t size)
{
    size_t used = 0;

    output[0] = '\0';
    json_object_object_foreach (metrics, name, value) {
        char text[32];

        if (used >= size)
            return;
        used += (size_t)snprintf(
            output + used, size - used, "%s%s %s", used ? "  " : "", name,
            display_format_value(json_object_get_double(value), text, sizeof text));
    }
}

static void checkpoint_add(struct table *table, struct json_object *checkpoint, double now)
{
    JSON_AUTO struct json_object *metrics = job_metrics_new(checkpoint);
    double epoch = json_get_double(checkpoint, "epoch", NAN);
    char text[1024];

    table_add_integer(table, json_get_int(checkpoint, "step", 0));
    snprintf(text, sizeof text, "%.2f", epoch);
    table_add(table, isnan(epoch) ? "" : text, STYLE_PLAIN);
    table_add(table,
              text_format_bytes((uint64_t)json_get_int(checkpoint, "bytes", 0), text, sizeof text),
              STYLE_PLAIN);
    table_add(table,
              display_format_ago(json_get_double(checkpoint, "time", now), now, text, sizeof text),
              STYLE_PLAIN);
    table_add(table, json_get_bool(checkpoint, "best", false) ? "best" : "", STYLE_GREEN);
    table_add(table, json_get_string(checkpoint, "location", ""), STYLE_PLAIN);
    snprintf(text, sizeof text, "%.12s", json_get_string(checkpoint, "digest", ""));
    table_add(table, text, STYLE_DIM);
    metrics_format(metrics, text, sizeof text);
    table_add(table, text, STYLE_PLAIN);
}

static enum exit_status command_execute(struct invocation *invocation)
{
    static const struct table_column columns[] = {
        {"STEP", true, 0},  {"EPOCH", true, 0},      {"SIZE", true, 0},    {"SAVED", false, 0},
        {"BEST", false, 0}, {"STORED IN", false, 0}, {"DIGEST", false, 6}, {"METRICS", false, 10},
    };
    CLEANUP(varlink_reply_release) struct varlink_reply reply = {0};
    struct json_object *parameters, *checkpoints;
    enum exit_status status =
        connection_job_parameters(invocation, invocation->arguments[0], JOB_IS_READ, &parameters);
    struct table *table;

    if (!status)
        status = connection_call(invocation, "Checkpoints", parameters, &reply);
    if (status)
        return status;
    if (invocation->json) {
        json_print(reply.parameters, stdout);
        return EXIT_STATUS_DONE;
    }
    checkpoints = json_get(reply.parameters, "checkpoints");
    table = table_new(columns, sizeof columns / sizeof *columns);
    for (size_t i = 0; i < json_object_array_length(checkpoints); i++)
        checkpoint_add(table, json_object_array_get_idx(checkpoints, i), clock_now());
    table_print(table, &invocation->output, stdout);
    table_free(table);
    if (json_object_array_length(checkpoints) == 0 && invocation->output.terminal)
        puts("no checkpoint yet");
    return EXIT_STATUS_DONE;
}

const struct command command_checkpoints = {
    .name = "checkpoints",
    .place = 310,
    .arguments = "JOB",
    .summary = "List the checkpoints of a job",
    .minimum = 1,
    .maximum = 1,
    .completion = COMPLETE_JOBS,
    .execute = command_execute,
};
