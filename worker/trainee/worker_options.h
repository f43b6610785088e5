/* worker_options.h: the command line of traind-worker. */
#pragma once

#include "base/error.h"

#include <stdbool.h>
#include <stdint.h>

struct worker_device;

struct worker_options {
    const char *input; /* SPEC, or the checkpoint to export */
    const char *data;  /* DATA, the second argument */
    const char *spool, *checkpoints, *resume, *best, *checkpoint, *output, *logits, *weights,
        *calibration, *specification, *format, *lengths, *labels, *initial_weights, *onnx, *target,
        *task, *c_file;
    const char *device, *device_config, *plugin, *memory_limit, *choices, *profile;
    const char *also;                        /* more devices to plan for, as JSON */
    const char *mps, *mps_refused, *control; /* worker_mps.h */
    int profile_steps;                       /* 0: not given */
    bool layers;
    bool unless_kept;
    bool emulate_precision;
    int threads; /* 0: not given */
    bool measure;
    int seconds; /* that it may take; 0: not given */
    bool max_batch;
    bool json, no_module, probabilities, is_static;
    bool timings;
    const char *prompt;
    int length, top_k;
    double temperature;
    uint64_t seed;
    bool seed_given;
    /* Not from the command line: set by a warm worker (worker_warm.c); otherwise NULL and 0. */
    const struct worker_device *warm; /* opened before it had a job */
    double taken_at;                  /* CLOCK_MONOTONIC when it got the job */
};

struct worker_command {
    const char *name, *arguments, *help;
    const char *options; /* its long options, separated by blanks */
    bool wants_input;
    enum worker_data_argument {
        WORKER_NO_DATA,
        WORKER_DATA_OR_CHECKPOINT, /* one of the two */
        WORKER_WANTS_DATA
    } data;
    const char *required;                             /* a mandatory option, or NULL */
    int (*run)(const struct worker_options *options); /* the exit status */
};

extern const struct worker_command worker_commands[];
extern const int worker_command_count;

/* Reads argv[2…] of `command`. -EINVAL with a sentence for a usage error. */
int worker_options_parse(const struct worker_command *command, int argc, char **argv,
                         struct worker_options *options, struct error *error);
void worker_options_help(void);

enum {
    EXIT_USAGE = 2,
    EXIT_DISK_FULL = 74, /* EX_IOERR */
    EXIT_REQUEUE = 75    /* EX_TEMPFAIL */
};

/* The commands. Each prints its errors and returns the exit status. */
int worker_plan(const struct worker_options *options);
int worker_train(const struct worker_options *options);
int worker_evaluate(const struct worker_options *options);
int worker_predict(const struct worker_options *options);
int worker_inspect(const struct worker_options *options);
int worker_try(const struct worker_options *options);
int worker_advise(const struct worker_options *options);
int worker_quantize(const struct worker_options *options);
int worker_sample(const struct worker_options *options);
int worker_export(const struct worker_options *options);
int worker_calibrate(const struct worker_options *options);
int worker_warm(const struct worker_options *options);
int worker_mps(const struct worker_options *options);
int worker_verify(const struct worker_options *options);
int worker_devices(const struct worker_options *options);
int worker_probe(const struct worker_options *options);
