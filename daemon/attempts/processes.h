/* processes.h: the processes of an attempt as the daemon finds them: whether its shim
 * lives and where it is reached, and the end of what no shim ends any more. Nothing here trusts
 * what the job's user can change, and nothing waits but for the disk and /proc: it runs on the
 * thread pool. */
#pragma once

#include "base/error.h"
#include "proto/json.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct attempt_place {
    const char *state_directory;
    int64_t job, attempt;
    uid_t uid; /* of the job's user */
};

/* What has become of an attempt whose connection is lost, or that an earlier daemon started. */
enum attempt_trace {
    ATTEMPT_ALIVE,        /* its shim lives, or what it left is being killed */
    ATTEMPT_RECORDED,     /* the shim has gone and left an exit record */
    ATTEMPT_VANISHED,     /* the shim has gone without one */
    ATTEMPT_NEVER_STARTED /* no trainee was ever started: no log */
};

/* Whether its shim lives, or what it left is being killed. */
bool attempt_is_alive(const struct attempt_place *place);

/* Looks; `record` receives the exit record for ATTEMPT_RECORDED (the caller owns it). attempt.json
 * is locked from before the shim is started until it has ended, so that no moment is unclear. */
enum attempt_trace attempt_examine(const struct attempt_place *place, struct json_object **record);

/* Connects to worker.sock and checks that this daemon's user serves it. A descriptor or negative
 * errno: -ENOENT before the shim has made it, -EAGAIN when it has to be tried again. */
int attempt_connect(const struct attempt_place *place, struct error *error);

/* Sends SIGKILL to every process of the attempt that can be found but for its shim; whether there
 * was one. Those of its control group are all; without one, those of the user that have the
 * attempt's folder in their environment. */
bool attempt_kill_processes(const struct attempt_place *place);

/* A descriptor for the process `shim` (pidfd_open(2)) at whose connection `socket` nobody has hung
 * up yet; -1 if it may be another process by now. */
int attempt_shim_open(pid_t shim, int socket);

/* At a start: whatever is left in control groups whose shim has gone is killed, and empty ones are
 * removed. */
void attempts_clear_groups(const char *state_directory);

/* Kills the shim: `shim` is its descriptor; -1: it is looked for. */
void attempt_kill_shim(const struct attempt_place *place, int shim);
