/* job.h: a Job of io.traind as people and programs see it. */
#pragma once

#include "client/view/display.h"
#include "proto/json.h"

#include <stdio.h>

/* The states of a job as io.traind names them, the final ones first. */
enum { JOB_STATES = 8, JOB_STATES_FINAL = 3 };
extern const char *const job_states[JOB_STATES];

/* done, failed or cancelled: nothing will change any more. */
bool job_state_is_final(const char *state);
enum style job_state_style(const char *state);

/* How long it, or an attempt, has run, or ran: seconds; NAN before it starts. */
double job_run_seconds(struct json_object *job, double now);

/* "in about 12 min": when a queued one is expected to start; "" where that is not known. */
char *job_start_format(struct json_object *job, char *output, size_t size);
/* Why it is where it is: its reason, else what its wait_reason means; "" when there is none. */
const char *job_reason(struct json_object *job);

/* The last column of a list: how far it is, why it waits, how it ended. Returns `output`. */
char *job_detail(struct json_object *job, char *output, size_t size);

/* A table, a line for each Job of the JSON array; nothing for none. */
void job_print_table(struct json_object *jobs, const struct display *display, FILE *output);

/* "job 7 (fashion-cnn): done after 31.2 s on cpu, validation_loss 0.3120" */
void job_print_sentence(struct json_object *job, const struct display *display, FILE *output);

/* Of a reply to Show: {"id", "name", "state", "device", "reason", "exit_status", "submitted",
 * "started", "ended", "metrics", "best", "attempts"}; the caller owns it. */
struct json_object *job_result_new(struct json_object *show);

/* Writes a job's output, `length` bytes and a NUL: to a terminal without control characters other
 * than line breaks, tabs, carriage returns and, on one with colours, their sequences; elsewhere as
 * it is. */
void job_print_log(const char *text, size_t length, const struct display *display, FILE *output);
