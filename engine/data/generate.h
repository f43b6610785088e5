/* generate.h: runs a user's command that generates a set part by part. Internal to the files of the
 * format "generate". */
#pragma once

#include "engine/data/dataset.h"

#include <stdbool.h>

/* One run of the command for all parts of a set. */
struct generate_run {
    const struct dataset_config *config;
    const char *folder; /* where parts and logs lie */
    /* Whether parts stay in the folder until all are there: a run that is interrupted or dies then
     * leaves them to the next one in the same folder. */
    bool keeps_parts;
    int processes; /* at once; at least 1 */
    /* Takes the samples first..first+count from the file at `path`. */
    int (*take)(void *context, const char *path, int64_t first, int64_t count, struct error *error);
    void *context;
};

/* Runs the command for all parts that the folder does not hold yet, never through a shell. Each
 * process leads a group of its own, which is killed when it ends, when another one fails, when
 * config->events->stop is set (-EINTR) and when this process dies. -ECHILD with the command's exit
 * status and last lines when it fails. Afterwards the folder holds at most finished parts. */
int generate_run_all(const struct generate_run *run, struct error *error);

/* The program and the first arguments that are the same for all parts, for a sentence; returns
 * `output`. */
char *generate_name(const struct dataset_config *config, char *output, size_t size);
