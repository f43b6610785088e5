/* logs.c: `trainctl logs` prints a job's standard output and error. */
#include "client/connection/connection.h"
#include "client/connection/follow.h"
#include "client/connection/log_tail.h"
#include "client/connection/stream.h"
#include "client/view/job.h"

#include <string.h>

/* The log that is read, and the position in it. */
struct logs {
    struct invocation *invocation;
    int64_t id, attempt; /* attempt 0: the latest, until a reply names it */
    int64_t offset;
};

static struct json_object *logs_parameters(void *context)
{
    struct logs *logs = context;
    struct json_object *parameters = json_object_new_object();

    json_set_int(parameters, "id", logs->id);
    if (logs->attempt)
        json_set_int(parameters, "attempt", logs->attempt);
    json_set_int(parameters, "offset", logs->offset);
    return parameters;
}

static void logs_receive(void *context, struct json_object *parameters)
{
    struct logs *logs = context;
    const char *text = json_get_string(parameters, "text", "");

    if (!logs->invocation->json)
        job_print_log(text, strlen(text), &logs->invocation->output, stdout);
    else if (*text)
        json_print(parameters, stdout);
    logs->attempt = json_get_int(parameters, "attempt", logs->attempt);
    logs->offset = json_get_int(parameters, "next", logs->offset);
}

static enum exit_status command_execute(struct invocation *invocation)
{
    struct logs logs = {.invocation = invocation};
    enum exit_status status = invocation_option_integer(invocation, "attempt", 1, &logs.attempt);
    int64_t before = -1, lines = 0;

    if (!status)
        status = invocation_option_integer(invocation, "lines", 1, &lines);
    if (!status)
        status = connection_find_job(invocation, invocation->arguments[0], JOB_IS_READ, &logs.id);
    if (status)
        return status;
    if (lines && (invocation->json || invocation_flag(invocation, "follow"))) {
        complain("--lines goes with neither --json nor --follow");
        return EXIT_STATUS_USAGE;
    }
    if (lines) {
        log_tail_print(invocation, logs.id, logs.attempt, lines, NULL, stdout);
        return EXIT_STATUS_DONE;
    }
    if (invocation_flag(invocation, "follow") && !logs.attempt)
        return follow_jobs(invocation, &logs.id, 1, FOLLOW_LOGS);
    if (invocation_flag(invocation, "follow")) {
        struct stream stream = {.method = "Logs", .parameters = logs_parameters, .context = &logs};

        return stream_run(&stream, invocation, logs_receive);
    }
    while (!status && logs.offset > before) {
        CLEANUP(varlink_reply_release) struct varlink_reply reply = {0};

        before = logs.offset;
        status = connection_call(invocation, "Logs", logs_parameters(&logs), &reply);
        if (!status)
            logs_receive(&logs, reply.parameters);
    }
    if (!status && logs.offset == 0 && invocation->output.terminal && !invocation->json)
        puts("no output yet");
    return status;
}

static const struct command_option logs_options[] = {
    {"follow", 'f', NULL, "Go on until the job has ended; Ctrl-C detaches", COMPLETE_NOTHING},
    {"attempt", 0, "N", "Output of this attempt (default: the latest)", COMPLETE_NOTHING},
    {"lines", 'n', "N", "Only the last N lines", COMPLETE_NOTHING},
    {0},
};

const struct command command_logs = {
    .name = "logs",
    .place = 110,
    .arguments = "JOB",
    .summary = "Print what a job wrote to its output",
    .details = "On a terminal control characters other than colours are escaped; a pipe or a "
               "file gets the text as it is.",
    .minimum = 1,
    .maximum = 1,
    .options = logs_options,
    .completion = COMPLETE_JOBS,
    .execute = command_execute,
};
