/* eval.c: `trainctl eval` measures the model of a job on other data. */
#include "client/connection/checkpoint_worker.h"

static enum exit_status command_execute(struct invocation *invocation)
{
    static const char *const passed[] = {"labels", "lengths", "threads", NULL};
    int64_t ignored;
    enum exit_status status = invocation_option_integer(invocation, "threads", 1, &ignored);

    return status ? status : checkpoint_worker_execute_on_data(invocation, "eval", passed);
}

static const struct command_option eval_options[] = {
    {"labels", 0, "FILE", "The labels or values of the data, for formats that have them in a file",
     COMPLETE_FILES},
    {"lengths", 0, "FILE", "How many steps of each sample count, for npy data with lengths",
     COMPLETE_FILES},
    {"threads", 't', "N", "CPU threads (default: all)", COMPLETE_NOTHING},
    {"step", 0, "N", "The checkpoint of this step (default: the best, else the last)",
     COMPLETE_NOTHING},
    {0},
};

const struct command command_eval = {
    .name = "eval",
    .place = 323,
    .arguments = "JOB DATA",
    .summary = "Measure a model on other data",
    .details = "The data have labels and the format of the training data. The metrics are those "
               "of the test set, and each\nclass has a row. It runs on the CPU of this machine, "
               "as the user who asks.",
    .minimum = 2,
    .maximum = 2,
    .options = eval_options,
    .completion = COMPLETE_JOBS,
    .execute = command_execute,
};
