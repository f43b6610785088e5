/* sample.c: `trainctl sample` writes text with a language model. It downloads a checkpoint into an
 * unnamed file and becomes traind-worker, which samples on the CPU as the caller. So text appears
 * as it is drawn, and no job waits for a device. */
#include "base/cleanup.h"
#include "client/connection/checkpoint_worker.h"
#include "client/connection/connection.h"
#include "proto/device_host.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* The job must have read a text: a checkpoint of another one is not worth its download. */
static enum exit_status check_job(struct invocation *invocation, int64_t id)
{
    CLEANUP(varlink_reply_release) struct varlink_reply reply = {0};
    struct json_object *parameters = json_object_new_object(), *spec;
    enum exit_status status;
    const char *format;

    json_set_int(parameters, "id", id);
    status = connection_call(invocation, "Show", parameters, &reply);
    if (status)
        return status;
    spec = json_get(reply.parameters, "spec");
    format = json_get_string(json_get(json_get(spec, "data"), "train"), "format", NULL);
    if (format && strcmp(format, "text") == 0)
        return EXIT_STATUS_DONE;
    if (format)
        complain("only a language model writes text: job %" PRId64 " has data of the format %s, "
                 "not text",
                 id, format);
    else
        complain("only a language model writes text: job %" PRId64 " is a command", id);
    return EXIT_STATUS_USAGE;
}

/* The worker checks these as well, but after the download. */
static enum exit_status check_numbers(struct invocation *invocation)
{
    const char *temperature = invocation_option(invocation, "temperature");
    int64_t ignored;
    enum exit_status status = invocation_option_integer(invocation, "length", 1, &ignored);
    char *end;

    if (!status)
        status = invocation_option_integer(invocation, "top-k", 1, &ignored);
    if (!status)
        status = invocation_option_integer(invocation, "seed", 0, &ignored);
    if (!status && temperature && !(strtod(temperature, &end) >= 0 && end > temperature && !*end)) {
        complain("--temperature must be a number from 0, not \"%s\"", temperature);
        status = EXIT_STATUS_USAGE;
    }
    return status;
}

static enum exit_status command_execute(struct invocation *invocation)
{
    static const char *const passed[] = {"prompt", "length", "temperature", "top-k", "seed", NULL};
    enum exit_status status = check_numbers(invocation);
    int64_t id;

    if (!status)
        status = connection_find_job(invocation, invocation->arguments[0], JOB_IS_ACTED_ON, &id);
    if (!status)
        status = check_job(invocation, id);
    return status ? status
                  : checkpoint_worker_execute(invocation, id, "sample", DEVICE_HOST, passed);
}

static const struct command_option sample_options[] = {
    {"prompt", 'p', "TEXT", "The text to go on from", COMPLETE_NOTHING},
    {"length", 'n', "N", "Characters to write (default: 300)", COMPLETE_NOTHING},
    {"temperature", 't', "T",
     "How freely to draw (default: 0.8); 0: always the likeliest character, 1: as the model says",
     COMPLETE_NOTHING},
    {"top-k", 'k', "K", "Draw from the K likeliest characters alone (default: from all)",
     COMPLETE_NOTHING},
    {"seed", 's', "N", "Another seed draws another text (default: train.seed)", COMPLETE_NOTHING},
    {"step", 0, "N", "The checkpoint of this step (default: the best, else the last)",
     COMPLETE_NOTHING},
    {0},
};

const struct command command_sample = {
    .name = "sample",
    .place = 325,
    .arguments = "JOB",
    .summary = "Write text with a language model",
    .details = "The model goes on from the prompt, a character at a time, with the weights of a "
               "checkpoint. A job that still runs has some, too. The text is drawn on the CPU of "
               "this machine, as the user who asks; the same seed gives the same text.",
    .minimum = 1,
    .maximum = 1,
    .options = sample_options,
    .completion = COMPLETE_JOBS,
    .execute = command_execute,
};
