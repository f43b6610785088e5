/* processes.h: finds the processes of an attempt: whether its shim lives, how to connect to it, and
 * how to kill processes whose shim is gone. Nothing here trusts what the job's user can change. The
 * functions wait for the disk and /proc, so they run on the thread pool. */
#pragma once

#include "base/error.h"
#include "proto/json.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct attempt_place {
    const char *state_directory;
    int64_t job, attempt;
    uid_t uid; /* the job's user */
};

/* What has become of an attempt whose connection is lost, or that an earlier daemon started. */
enum attempt_trace {
    ATTEMPT_ALIVE,         /* its shim lives, or processes that the shim left are being killed */
    ATTEMPT_RECORDED,      /* the shim has gone and left an exit record */
    ATTEMPT_VANISHED,      /* the shim has gone without one */
    ATTEMPT_NEVER_STARTED, /* no trainee was ever started: no log */
    ATTEMPT_UNKNOWN        /* for want of descriptors or memory: a later try may tell */
};

/* Whether the attempt's shim lives, or processes that it left are being killed. Also true where
 * only a later try may tell (file_opens_later()). */
bool attempt_is_alive(const struct attempt_place *place);

/* Finds out what has become of the attempt. With ATTEMPT_RECORDED, `record` receives the exit
 * record, which the caller owns. attempt.json is locked from before the shim starts until it has
 * ended, so the answer is right at any moment. */
enum attempt_trace attempt_examine(const struct attempt_place *place, struct json_object **record);

/* Connects to worker.sock and checks that this daemon's user serves it. Returns a descriptor or
 * negative errno: -ENOENT before the shim has made the socket, -EAGAIN if the caller has to try
 * again. */
int attempt_connect(const struct attempt_place *place, struct error *error);

/* Sends SIGKILL to every process of the attempt except its shim, and returns whether there was one,
 * or may be one that only a later try finds (file_opens_later()).
 * The attempt's control group holds all its processes. Without a control group, these are the
 * user's processes with the attempt's folder in their environment. */
bool attempt_kill_processes(const struct attempt_place *place);

/* A descriptor for the process `shim` (pidfd_open(2)), while the connection `socket` to it is open.
 * -1: the number may belong to another process by now. */
int attempt_shim_open(pid_t shim, int socket);

/* When the daemon starts: kills all processes in control groups whose shim is gone, and removes
 * empty control groups. */
void attempts_clear_groups(const char *state_directory);

/* Kills the shim. `shim` is its descriptor; -1: the function searches for it. */
void attempt_kill_shim(const struct attempt_place *place, int shim);
