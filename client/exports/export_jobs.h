/* export_jobs.h: what `trainctl export` writes. These functions print every error, and what they
 * have written. */
#pragma once

#include "client/command_line/invocation.h"

/* The ids of the jobs and sweeps that the arguments name, each once, in their order. The caller
 * frees them. */
enum exit_status export_find_jobs(struct invocation *invocation, int64_t **ids, size_t *count);

/* Writes the model of the job that the first argument names into a file: with `option` "output" its
 * weights, or its checkpoint, as the other options say; else what traind-worker export writes with
 * an option of that name. */
enum exit_status export_model(struct invocation *invocation, const char *option,
                              const char *output);

/* Writes each job's metrics as a run of TensorBoard below `directory`, or appends what is new to
 * it. With `follow` this goes on until all of the jobs have ended. A job that has not begun gets no
 * run. */
enum exit_status export_tensorboard(struct invocation *invocation, const char *directory,
                                    bool follow);

/* Writes the metrics of all the jobs into one table; `path` "-": to standard output. */
enum exit_status export_csv(struct invocation *invocation, const char *path, bool wide);
