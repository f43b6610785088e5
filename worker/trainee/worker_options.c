/* worker_options.c: see worker_options.h. */
#include "worker/trainee/worker_options.h"

#include "base/options.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

const struct worker_command worker_commands[] = {
    {"plan", "SPEC", "memory, work and duration of a job, without training it",
     "json spool checkpoints device device-config plugin threads memory-limit max-batch "
     "calibration also emulate-precision initial-weights",
     true, WORKER_NO_DATA, NULL, worker_plan},
    {"train", "SPEC",
     "train; SIGTERM, SIGHUP: checkpoint and exit 75, SIGUSR1: checkpoint and go on",
     "json spool checkpoints resume best device device-config plugin threads memory-limit "
     "choices emulate-precision profile "
     "profile-steps layers calibration timings mps mps-refused initial-weights",
     true, WORKER_NO_DATA, NULL, worker_train},
    {"try", "SPEC", "one batch and two steps of a job: shapes, loss, time, memory, gradients",
     "json device device-config plugin threads memory-limit emulate-precision initial-weights",
     true, WORKER_NO_DATA, NULL, worker_try},
    {"advise", "SPEC",
     "what would make a job faster: its settings are changed one by one and measured",
     "json device device-config plugin threads memory-limit emulate-precision", true,
     WORKER_NO_DATA, NULL, worker_advise},
    {"eval", "SPEC --checkpoint FILE | MODEL DATA",
     "metrics of a checkpoint on the test set, or of a model on other data with labels",
     "json checkpoint logits labels lengths spec device device-config plugin threads "
     "emulate-precision",
     true, WORKER_DATA_OR_CHECKPOINT, NULL, worker_evaluate},
    {"predict", "MODEL DATA [--output FILE]",
     "what a checkpoint or an exported model predicts for new data; DATA - reads rows from standard "
     "input as they come",
     "json output format top-k probabilities lengths spec device device-config plugin threads "
     "emulate-precision",
     true, WORKER_WANTS_DATA, NULL, worker_predict},
    {"inspect", "FILE|FOLDER",
     "what is understood of data, and a specification that learns from it; --measure: the best of "
     "several, by trying them on the rows of a table",
     "json target task measure seconds seed threads", true, WORKER_NO_DATA, NULL, worker_inspect},
    {"quantize", "SPEC --checkpoint FILE --output FILE",
     "weights of 8 bits, and the model's metrics, size and speed before and after",
     "json checkpoint output static threads", true, WORKER_NO_DATA, "output", worker_quantize},
    {"sample", "SPEC --checkpoint FILE", "write text with a trained text model",
     "json checkpoint prompt length temperature top-k seed device device-config plugin threads emulate-precision",
     true, WORKER_NO_DATA, "checkpoint", worker_sample},
    {"export", "CHECKPOINT --output FILE | --onnx FILE | --c FILE",
     "only the weights, in PyTorch's names and layouts, and the model in Python; or the model for "
     "ONNX's runtimes, or as a C file",
     "json output onnx c weights no-module spec", true, WORKER_NO_DATA, NULL, worker_export},
    {"calibrate", "",
     "measure this machine's speeds, for `plan` and `train --profile`; they are kept",
     "json output unless-kept device device-config plugin threads", false, WORKER_NO_DATA, NULL,
     worker_calibrate},
    {"warm", "--device NAME", "open a device and wait for traind-shim to hand over a job",
     "device plugin threads", false, WORKER_NO_DATA, "device", worker_warm},
    {"mps", "--mps DIR --control PROGRAM",
     "run NVIDIA's MPS for one user's processes on a GPU while there are any", "mps control", false,
     WORKER_NO_DATA, "mps", worker_mps},
    {"verify", "", "train small models on each device and compare them with the CPU in float32",
     "json device device-config plugin threads calibration emulate-precision", false,
     WORKER_NO_DATA, NULL, worker_verify},
    {"devices", "", "list the devices that this machine's backends can train on",
     "json device plugin", false, WORKER_NO_DATA, NULL, worker_devices},
    {"probe", "--device KIND",
     "list the devices of a plugin without opening one: identity, driver, memory",
     "json device plugin", false, WORKER_NO_DATA, "device", worker_probe},
};
const int worker_command_count = sizeof worker_commands / sizeof worker_commands[0];

static const struct option_row option_rows[] = {
    {"json", OPTION_FLAG, offsetof(struct worker_options, json), NULL, "print JSON"},
    {"spool", OPTION_TEXT, offsetof(struct worker_options, spool), "FILE",
     "append records to FILE"},
    {"checkpoints", OPTION_TEXT, offsetof(struct worker_options, checkpoints), "DIR",
     "write checkpoints into DIR"},
    {"resume", OPTION_TEXT, offsetof(struct worker_options, resume), "FILE",
     "go on from a checkpoint"},
    {"initial-weights", OPTION_TEXT, offsetof(struct worker_options, initial_weights), "FILE",
     "the weights to begin with, instead of the file or job of the specification"},
    {"best", OPTION_TEXT, offsetof(struct worker_options, best), "FILE",
     "the resumed run's best checkpoint so far, which is tested at its end"},
    {"checkpoint", OPTION_TEXT, offsetof(struct worker_options, checkpoint), "FILE",
     "the checkpoint to read"},
    {"output", OPTION_TEXT, offsetof(struct worker_options, output), "FILE", "the file to write"},
    {"onnx", OPTION_TEXT, offsetof(struct worker_options, onnx), "FILE",
     "write the network with its weights and its preprocessing in the ONNX format (opset 17)"},
    {"c", OPTION_TEXT, offsetof(struct worker_options, c_file), "FILE",
     "write the network with its weights and its preprocessing as one C file that needs libm alone"},
    {"weights", OPTION_TEXT, offsetof(struct worker_options, weights), "WHICH",
     "evaluated (the moving averages if train.ema kept them; default) or trained"},
    {"static", OPTION_FLAG, offsetof(struct worker_options, is_static), NULL,
     "convolutions become integers, too, whose ranges samples of the training part tell"},
    {"format", OPTION_TEXT, offsetof(struct worker_options, format), "NAME",
     "of the predictions: csv, jsonl or npy; default: what the output's name ends in, else csv, and "
     "jsonl with --json"},
    {"probabilities", OPTION_FLAG, offsetof(struct worker_options, probabilities), NULL,
     "write the probability of each class"},
    {"labels", OPTION_TEXT, offsetof(struct worker_options, labels), "FILE",
     "the labels or values of the data, for formats that have them in a file"},
    {"lengths", OPTION_TEXT, offsetof(struct worker_options, lengths), "FILE",
     "how many steps of each sample count, for npy data with lengths"},
    {"no-module", OPTION_FLAG, offsetof(struct worker_options, no_module), NULL,
     "write no Python module beside the weights"},
    {"target", OPTION_TEXT, offsetof(struct worker_options, target), "COLUMN",
     "the column to predict: its name, or its number from 0; default: the likeliest"},
    {"task", OPTION_TEXT, offsetof(struct worker_options, task), "TASK",
     "of several that the data allow, which is suggested: classes, numbers, forecast"},
    {"measure", OPTION_FLAG, offsetof(struct worker_options, measure), NULL,
     "of a table: train on parts of its rows in several ways, and suggest what was best on the "
     "others"},
    {"seconds", OPTION_COUNT, offsetof(struct worker_options, seconds), "N",
     "--measure ends after N seconds, default 300"},
    {"logits", OPTION_TEXT, offsetof(struct worker_options, logits), "FILE",
     "write the model's outputs and the targets (safetensors)"},
    {"calibration", OPTION_TEXT, offsetof(struct worker_options, calibration), "FILE",
     "the output of `calibrate`; default: the calibration kept for this device"},
    {"unless-kept", OPTION_FLAG, offsetof(struct worker_options, unless_kept), NULL,
     "print the kept calibration, and measure only if there is none; end when the parent process "
     "ends"},
    {"spec", OPTION_TEXT, offsetof(struct worker_options, specification), "FILE",
     "the checkpoint's specification, to make the module of a checkpoint of an earlier version, "
     "which does not describe its model; needs the data"},
    {"profile", OPTION_TEXT, offsetof(struct worker_options, profile), "FILE",
     "print where the time goes, and write a trace for chrome://tracing or ui.perfetto.dev to "
     "FILE"},
    {"profile-steps", OPTION_COUNT, offsetof(struct worker_options, profile_steps), "N",
     "record N steps after a warm-up, default 20, instead of train.profile"},
    {"layers", OPTION_FLAG, offsetof(struct worker_options, layers), NULL,
     "with --profile: a row for every layer, not only for the five slowest"},
    {"timings", OPTION_FLAG, offsetof(struct worker_options, timings), NULL,
     "print on standard error where the time went until the end of the first step"},
    {"device", OPTION_TEXT, offsetof(struct worker_options, device), "NAME",
     "the device (cpu), instead of the specification's"},
    {"device-config", OPTION_TEXT, offsetof(struct worker_options, device_config), "JSON",
     "the --device is a simulated one: {\"kind\": \"simulated\", \"speed\", \"bandwidth\", "
     "\"launch_seconds\", \"memory\", \"calibration\", \"loss_error\"}"},
    {"plugin", OPTION_TEXT, offsetof(struct worker_options, plugin), "FILE",
     "the backend of the --device, instead of the one that is installed for its kind"},
    {"also", OPTION_TEXT, offsetof(struct worker_options, also), "JSON",
     "plan for these devices too: [{\"device\": \"cuda:0\", \"id\": what its libraries "
     "call it, \"type\", \"plugin\": its --plugin}, ...]"},
    {"mps", OPTION_TEXT, offsetof(struct worker_options, mps), "DIR",
     "share the GPU through NVIDIA's MPS, whose pipes are in DIR; without it if that fails"},
    {"mps-refused", OPTION_TEXT, offsetof(struct worker_options, mps_refused), "REASON",
     "why the GPU is not shared through MPS; printed as a warning"},
    {"control", OPTION_TEXT, offsetof(struct worker_options, control), "PROGRAM",
     "nvidia-cuda-mps-control"},
    {"threads", OPTION_COUNT, offsetof(struct worker_options, threads), "N",
     "CPU threads, instead of the specification's; default all usable cores"},
    {"emulate-precision", OPTION_FLAG, offsetof(struct worker_options, emulate_precision), NULL,
     "for checks, slow: offer train.precision bfloat16 and float16 on any device, by rounding"},
    {"memory-limit", OPTION_TEXT, offsetof(struct worker_options, memory_limit), "BYTES",
     "limit for automatic settings, such as \"1 GiB\"; default 85% of the machine's"},
    {"max-batch", OPTION_FLAG, offsetof(struct worker_options, max_batch), NULL,
     "the largest batch that fits, whatever train.batch_size is"},
    {"choices", OPTION_TEXT, offsetof(struct worker_options, choices), "JSON",
     "a plan's \"choices\", instead of a search"},
    {"prompt", OPTION_TEXT, offsetof(struct worker_options, prompt), "TEXT",
     "the text to go on from"},
    {"length", OPTION_COUNT, offsetof(struct worker_options, length), "N",
     "characters to sample, default 300"},
    {"temperature", OPTION_NUMBER, offsetof(struct worker_options, temperature), "T",
     "of the sampling, default 0.8; 0 takes the likeliest"},
    {"top-k", OPTION_COUNT, offsetof(struct worker_options, top_k), "K",
     "sample: draw from the K likeliest characters, default all; predict: write the K likeliest "
     "classes"},
    {"seed", OPTION_SEED, offsetof(struct worker_options, seed), "N",
     "of the sampling, or of --measure"},
};
enum { OPTION_ROWS = sizeof option_rows / sizeof option_rows[0] };

static bool option_given(const struct worker_options *options, const char *name)
{
    for (int i = 0; i < OPTION_ROWS; i++) {
        if (strcmp(option_rows[i].name, name) == 0)
            return *(const char *const *)((const char *)options + option_rows[i].offset) != NULL;
    }
    return false;
}

int worker_options_parse(const struct worker_command *command, int argc, char **argv,
                         struct worker_options *options, struct error *error)
{
    const struct option_table table = {command->name, option_rows, OPTION_ROWS, command->options};

    *options = (struct worker_options){.length = 300, .temperature = 0.8};
    for (int i = 2; i < argc; i++) {
        const struct option_row *row = NULL;
        int r = 0;

        if (strncmp(argv[i], "--", 2) == 0)
            r = option_parse(&table, argc, argv, &i, options, &row, error);
        else if (command->wants_input && !options->input)
            options->input = argv[i];
        else if (command->data != WORKER_NO_DATA && !options->data)
            options->data = argv[i];
        else
            r = error_set(error, -EINVAL, "%s does not know what to do with \"%s\"", command->name,
                          argv[i]);
        if (r < 0)
            return r;
        options->seed_given |= row && row->type == OPTION_SEED;
    }
    if ((command->wants_input && !options->input) ||
        (command->data == WORKER_WANTS_DATA && !options->data) ||
        (command->data == WORKER_DATA_OR_CHECKPOINT && !options->data == !options->checkpoint) ||
        (command->required && !option_given(options, command->required)))
        return error_set(error, -EINVAL, "usage: traind-worker %s %s", command->name,
                         command->arguments);
    return 0;
}

void worker_options_help(void)
{
    printf("traind-worker " TRAIND_VERSION ": trains, evaluates and exports one model; traind runs "
           "it, and it runs by hand.\n\n");
    for (int i = 0; i < worker_command_count; i++)
        printf("  traind-worker %s %s\n      %s\n      options: %s\n", worker_commands[i].name,
               worker_commands[i].arguments, worker_commands[i].help, worker_commands[i].options);
    printf("\nSPEC is a job specification (JSON).\n\n");
    options_print_help(option_rows, OPTION_ROWS, 20);
    printf("\nExit status: 0 done, 1 failed, 2 usage, 75 interrupted after a checkpoint.\n");
}
