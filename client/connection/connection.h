/* connection.h: calls to the daemon. These functions print every error; callers only return the
 * exit status. */
#pragma once

#include "client/command_line/invocation.h"
#include "proto/varlink.h"

/* Connects unless the invocation is connected already. */
enum exit_status connection_open(struct invocation *invocation);

/* Calls `method` of io.traind (its bare name) and waits for the reply, which the caller releases
 * after EXIT_STATUS_DONE. Takes over `parameters`. */
enum exit_status connection_call(struct invocation *invocation, const char *method,
                                 struct json_object *parameters, struct varlink_reply *reply);

/* The same, for callers that handle the daemon's errors: `reply->error` names the error. They
 * release the reply in both cases. */
enum exit_status connection_ask(struct invocation *invocation, const char *method,
                                struct json_object *parameters, struct varlink_reply *reply);

/* The same for information that is not essential: returns false and prints nothing if there is no
 * reply. */
bool connection_try(struct invocation *invocation, const char *method,
                    struct json_object *parameters, struct varlink_reply *reply);
/* The same; a daemon that is stopped, or busy, is waited for so many milliseconds; -1: without
 * end. */
bool connection_try_within(struct invocation *invocation, int milliseconds, const char *method,
                           struct json_object *parameters, struct varlink_reply *reply);

/* The same with the reason, for a program that fills the screen: 0, or -errno and a sentence;
 * -ERROR_SERVICE_REPLY: the daemon refused; -ETIMEDOUT: it has not answered, and what was asked for
 * may be done all the same. */
int connection_call_quietly(struct invocation *invocation, int milliseconds, const char *method,
                            struct json_object *parameters, struct varlink_reply *reply,
                            struct error *error);

/* Prints a warning if the daemon's disk is full. */
void connection_tell_full_disk(struct invocation *invocation);

/* What the caller does with a job found by its name. */
enum job_use {
    JOB_IS_READ,
    JOB_IS_ACTED_ON /* changes it, or uses its specification or results as the caller's own */
};

/* Finds the id of the job that `text` names: a number, or the name of the caller's newest job with
 * it. If only another user's job has that name, JOB_IS_READ finds that job and prints a note.
 * JOB_IS_ACTED_ON then requires the number, because any user may choose any name. */
enum exit_status connection_find_job(struct invocation *invocation, const char *text,
                                     enum job_use use, int64_t *id);

/* Makes {"id": the job that `text` names}, owned by the caller, for calls that need only this. */
enum exit_status connection_job_parameters(struct invocation *invocation, const char *text,
                                           enum job_use use, struct json_object **parameters);

/* Prints the sentence of the daemon's error reply; returns EXIT_STATUS_FAILED. */
enum exit_status connection_refused(const struct varlink_reply *reply);
