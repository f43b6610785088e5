/* job.h: shows a Job of io.traind to people and programs. */
#pragma once

#include "client/view/display.h"
#include "proto/json.h"

#include <stdio.h>

/* The states of a job as io.traind names them, the final ones first. */
enum { JOB_STATES = 8, JOB_STATES_FINAL = 3 };
extern const char *const job_states[JOB_STATES];

/* Whether the state is done, failed or cancelled, which are final. */
bool job_state_is_final(const char *state);
enum style job_state_style(const char *state);

/* Seconds that the job or attempt has run, or ran; NAN: it has not started. */
double job_run_seconds(struct json_object *job, double now);

/* Writes when a queued job is expected to start, for example "in about 12 min"; "": not known. */
char *job_start_format(struct json_object *job, char *output, size_t size);
/* The job's reason, or else the meaning of its wait_reason; "": it has neither. */
const char *job_reason(struct json_object *job);

/* Writes the last column of a list: progress, why the job waits, or how it ended. Returns
 * `output`. */
char *job_detail(struct json_object *job, char *output, size_t size);

/* The last value of each metric of a Job or a Checkpoint by name, in the order of names: NaN where
 * it is not finite. The caller owns it. */
struct json_object *job_metrics_new(struct json_object *job);
/* Replaces the metrics of a Job by job_metrics_new(). It can be printed as JSON no more. */
void job_complete_metrics(struct json_object *job);

/* Prints a table with a line for each Job of the JSON array; prints nothing if it is empty. */
void job_print_table(struct json_object *jobs, const struct display *display, FILE *output);

/* Prints, for example, "job 7 (fashion-cnn): done after 31.2 s on cpu, validation_loss 0.3120". */
void job_print_sentence(struct json_object *job, const struct display *display, FILE *output);

/* Makes from a reply to Show: {"id", "name", "state", "device", "reason", "exit_status",
 * "submitted", "started", "ended", "metrics", "nonfinite", "best", "attempts"}; the caller owns
 * it. */
struct json_object *job_result_new(struct json_object *show);

/* Writes a job's output (`length` bytes and a NUL) unchanged, unless `output` is a terminal. For a
 * terminal it removes control characters except line breaks, tabs, carriage returns and, if the
 * terminal has colours, colour sequences. */
void job_print_log(const char *text, size_t length, const struct display *display, FILE *output);
