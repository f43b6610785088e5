/* quantize.c: `trainctl quantize` makes the weights of a trained model integers of 8 bits, and
 * compares the model before and after. It downloads a checkpoint into an unnamed file and becomes
 * traind-worker, which reads the job's data and writes the result as the caller. */
#include "base/cleanup.h"
#include "client/connection/checkpoint_worker.h"
#include "client/connection/connection.h"

#include <inttypes.h>

/* Only native jobs have a model that traind knows: a checkpoint of a command is not worth its
 * download. */
static enum exit_status check_job(struct invocation *invocation, int64_t id)
{
    CLEANUP(varlink_reply_release) struct varlink_reply reply = {0};
    struct json_object *parameters = json_object_new_object();
    enum exit_status status;

    json_set_int(parameters, "id", id);
    status = connection_call(invocation, "Show", parameters, &reply);
    if (status || json_get(json_get(reply.parameters, "spec"), "model"))
        return status;
    complain("job %" PRId64 " is a command: quantize its model with the program's own library", id);
    return EXIT_STATUS_USAGE;
}

static enum exit_status command_execute(struct invocation *invocation)
{
    static const char *const passed[] = {"output", "static", "threads", NULL};
    const char *output = invocation_option(invocation, "output");
    enum exit_status status;
    int64_t id, ignored;

    if (!output || !*output) {
        complain("quantize needs --output=FILE: where to write the model");
        return EXIT_STATUS_USAGE;
    }
    status = invocation_option_integer(invocation, "threads", 1, &ignored);
    if (!status)
        status = connection_find_job(invocation, invocation->arguments[0], JOB_IS_ACTED_ON, &id);
    if (!status)
        status = check_job(invocation, id);
    return status ? status : checkpoint_worker_execute(invocation, id, "quantize", NULL, passed);
}

static const struct command_option quantize_options[] = {
    {"output", 'o', "FILE", "Where to write the quantized model", COMPLETE_FILES},
    {"static", 0, NULL, "Convolutions become int8, too, calibrated on samples of the training part",
     COMPLETE_NOTHING},
    {"step", 0, "N", "The checkpoint of this step (default: the best, else the last)",
     COMPLETE_NOTHING},
    {"threads", 0, "N", "CPU threads of the comparison (default: the specification's, else all)",
     COMPLETE_NOTHING},
    {0},
};

const struct command command_quantize = {
    .name = "quantize",
    .place = 322,
    .arguments = "JOB -o FILE",
    .summary = "Make a model's weights int8, and compare metrics, size and speed",
    .details = "Linear, LSTM and GRU layers multiply integers of 8 bits afterwards (dynamic "
               "quantization): each row of a weight has a scale of its own, and inputs are "
               "quantized while the model runs. The model is evaluated before and after on the "
               "job's test set, else on its validation part, on the CPU of this machine, as the "
               "user who asks. With --static convolutions multiply such integers, too: up to 1,024 "
               "samples of the training part tell the ranges of what they read. FILE is a "
               "checkpoint: `traind-worker eval`, `sample` and `export` "
               "read it.",
    .minimum = 1,
    .maximum = 1,
    .options = quantize_options,
    .completion = COMPLETE_JOBS,
    .execute = command_execute,
};
