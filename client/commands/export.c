/* export.c: `trainctl export` writes a job's weights, or the metrics of jobs, for other tools. */
#include "client/exports/export_jobs.h"

#include <string.h>

/* What can be written. `options`: those that go with it, besides its own; the last one is NULL. */
static const struct kind {
    const char *option;
    const char *options[6];
} kinds[] = {
    {"output", {"step", "weights", "full", "no-module"}},
    {"onnx", {"step"}},
    {"c", {"step"}},
    {"tensorboard", {"follow"}},
    {"csv", {"wide"}},
};
enum { KIND_COUNT = sizeof kinds / sizeof *kinds };

static bool kind_takes(const struct kind *kind, const char *option)
{
    for (const char *const *each = kind->options; option && *each; each++)
        if (strcmp(*each, option) == 0)
            return true;
    return option && strcmp(kind->option, option) == 0;
}

/* Finds what is asked for. Refuses none, two, and options that go with something else. */
static enum exit_status kind_choose(const struct invocation *invocation, const struct kind **chosen)
{
    *chosen = NULL;
    for (size_t i = 0; i < KIND_COUNT; i++) {
        const char *value = invocation_option(invocation, kinds[i].option);

        if (!value)
            continue;
        if (*chosen || !*value) {
            if (*chosen)
                complain("--%s and --%s do not go together: export twice", (*chosen)->option,
                         kinds[i].option);
            else
                complain("--%s needs a path", kinds[i].option);
            return EXIT_STATUS_USAGE;
        }
        *chosen = &kinds[i];
    }
    if (!*chosen) {
        complain(
            "export needs --output=FILE for weights, --onnx=FILE or --c=FILE for the network, or "
            "--tensorboard=DIR or --csv=FILE for metrics: where to write them");
        return EXIT_STATUS_USAGE;
    }
    for (size_t i = 0; i < KIND_COUNT; i++)
        for (const char *const *other = kinds[i].options; *other; other++)
            if (invocation_flag(invocation, *other) && !kind_takes(*chosen, *other)) {
                complain("--%s goes with --%s, not with --%s", *other, kinds[i].option,
                         (*chosen)->option);
                return EXIT_STATUS_USAGE;
            }
    return EXIT_STATUS_DONE;
}

static enum exit_status command_execute(struct invocation *invocation)
{
    const struct kind *kind;
    enum exit_status status = kind_choose(invocation, &kind);
    const char *path = status ? NULL : invocation_option(invocation, kind->option);

    if (status)
        return status;
    if (strcmp(kind->option, "tensorboard") == 0)
        return export_tensorboard(invocation, path, invocation_flag(invocation, "follow"));
    if (strcmp(kind->option, "csv") == 0)
        return export_csv(invocation, path, invocation_flag(invocation, "wide"));
    if (invocation->argument_count > 1) {
        complain("--%s takes the model of one job: export each by itself", kind->option);
        return EXIT_STATUS_USAGE;
    }
    return export_model(invocation, kind->option, path);
}

static const struct command_option export_options[] = {
    {"output", 'o', "FILE", "Where to write the weights", COMPLETE_FILES},
    {"onnx", 0, "FILE", "Write the network in the ONNX format (opset 17)", COMPLETE_FILES},
    {"c", 0, "FILE", "Write the network as one C file that needs libm alone", COMPLETE_FILES},
    {"step", 0, "N", "The checkpoint of this step (default: the best, else the last)",
     COMPLETE_NOTHING},
    {"weights", 0, "WHICH",
     "evaluated (the moving averages of train.ema, where kept; default) or trained",
     COMPLETE_NOTHING},
    {"full", 0, NULL, "Keep the training state too: a checkpoint to resume from", COMPLETE_NOTHING},
    {"no-module", 0, NULL, "Write no Python module beside the weights", COMPLETE_NOTHING},
    {"tensorboard", 0, "DIR", "Write metrics as runs of TensorBoard: a folder for each job",
     COMPLETE_FILES},
    {"follow", 'f', NULL, "With --tensorboard: go on until the jobs have ended", COMPLETE_NOTHING},
    {"csv", 0, "FILE", "Write metrics as a table, a line for each value; -: to standard output",
     COMPLETE_FILES},
    {"wide", 0, NULL, "With --csv: a line for each step, a column for each metric",
     COMPLETE_NOTHING},
    {0},
};

const struct command command_export = {
    .name = "export",
    .place = 320,
    .arguments = "JOB… -o FILE | --onnx FILE | --c FILE | --tensorboard DIR | --csv FILE",
    .summary = "Write a job's model for PyTorch or ONNX, or metrics for TensorBoard or as CSV",
    .details =
        "-o writes the weights of one job (safetensors). Tensors have PyTorch's names and layouts, "
        "so `load_state_dict` takes them. The module beside them, FILE with .py, has the network, "
        "the preprocessing of its training data and the names of its classes: `load()` of it gives "
        "the model, which takes raw samples.\n\n"
        "--onnx writes the network with its weights and its preprocessing for the runtimes of "
        "ONNX: it takes raw samples, too, any number at a time. --c "
        "writes the same as a C file, for one sample at a time and layers of small networks.\n\n"
        "--tensorboard and --csv write the metrics of any number of jobs; `sweep:12` stands for "
        "all jobs of a sweep. A later export to the same folder of TensorBoard adds what is new.",
    .minimum = 1,
    .maximum = -1,
    .options = export_options,
    .completion = COMPLETE_JOBS,
    .execute = command_execute,
};
