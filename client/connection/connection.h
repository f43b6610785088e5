/* connection.h: calls to the daemon. Whatever goes wrong is
 * said on standard error here; callers only pass the exit status on. */
#pragma once

#include "client/command_line/invocation.h"
#include "proto/varlink.h"

/* Connects unless it is done already. */
enum exit_status connection_open(struct invocation *invocation);

/* Calls `method` of io.traind (its bare name) and waits for the reply, which the caller releases
 * after EXIT_STATUS_DONE. Takes over `parameters`. */
enum exit_status connection_call(struct invocation *invocation, const char *method,
                                 struct json_object *parameters, struct varlink_reply *reply);

/* The same, for callers who care about what was refused: `reply->error` names it. They release the
 * reply in any case. */
enum exit_status connection_ask(struct invocation *invocation, const char *method,
                                struct json_object *parameters, struct varlink_reply *reply);

/* The same for what one can do without: false, and nothing is said, when there is no reply. */
bool connection_try(struct invocation *invocation, const char *method,
                    struct json_object *parameters, struct varlink_reply *reply);

/* Says on standard error that the daemon's disk is full, where it is. */
void connection_tell_full_disk(struct invocation *invocation);

/* What the job of a name is wanted for. */
enum job_use {
    JOB_IS_READ,
    JOB_IS_ACTED_ON /* changed, or what it is or made is used as the caller's own */
};

/* The id of the job that `text` names: a number, or the name of the newest of the caller's own jobs
 * that has it. Where none has and a job of somebody else's does, that one is read, which is said on
 * standard error; to act on it takes its number: any user may choose any name. */
enum exit_status connection_find_job(struct invocation *invocation, const char *text,
                                     enum job_use use, int64_t *id);

/* {"id": the job that `text` names}, owned by the caller, for the calls that want no more. */
enum exit_status connection_job_parameters(struct invocation *invocation, const char *text,
                                           enum job_use use, struct json_object **parameters);

/* Says what the daemon's error reply means; returns EXIT_STATUS_FAILED. */
enum exit_status connection_refused(const struct varlink_reply *reply);
