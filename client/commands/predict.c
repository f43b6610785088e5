/* predict.c: `trainctl predict` writes what the model of a job says of new data. */
#include "client/connection/checkpoint_worker.h"

static enum exit_status command_execute(struct invocation *invocation)
{
    static const char *const passed[] = {"output",  "format",  "top-k", "probabilities",
                                         "lengths", "threads", NULL};
    int64_t ignored;
    enum exit_status status = invocation_option_integer(invocation, "top-k", 1, &ignored);

    if (!status)
        status = invocation_option_integer(invocation, "threads", 1, &ignored);
    return status ? status : checkpoint_worker_execute_on_data(invocation, "predict", passed);
}

static const struct command_option predict_options[] = {
    {"output", 'o', "FILE", "The file to write (default: standard output)", COMPLETE_FILES},
    {"format", 0, "NAME",
     "csv, jsonl or npy (default: what FILE ends in, else csv; jsonl with --json)",
     COMPLETE_NOTHING},
    {"top-k", 'k', "K", "Write the K likeliest classes (default: 1)", COMPLETE_NOTHING},
    {"probabilities", 'p', NULL, "Write the probability of each class", COMPLETE_NOTHING},
    {"lengths", 0, "FILE", "How many steps of each sample count, for npy data with lengths",
     COMPLETE_FILES},
    {"threads", 't', "N", "CPU threads (default: all)", COMPLETE_NOTHING},
    {"step", 0, "N", "The checkpoint of this step (default: the best, else the last)",
     COMPLETE_NOTHING},
    {0},
};

const struct command command_predict = {
    .name = "predict",
    .place = 322,
    .arguments = "JOB DATA",
    .summary = "Write what a model says of new data",
    .details = "The data have the format of the training data, without what is to be predicted; of "
               "images also a folder,\na table of paths or one file. DATA - reads rows of a table "
               "from standard input as they come. They are\nprepared as the training data were, "
               "and predicted on the CPU of this machine, as the user who asks.",
    .minimum = 2,
    .maximum = 2,
    .options = predict_options,
    .completion = COMPLETE_JOBS,
    .execute = command_execute,
};
