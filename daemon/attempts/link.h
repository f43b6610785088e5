/* link.h: the daemon's connection to the shim of an attempt. The daemon finds the shim and talks
 * io.traind.Worker with it over one connection, which lasts as long as the shim. */
#pragma once

#include "base/error.h"
#include "daemon/attempts/processes.h"
#include "daemon/attempts/timer.h"
#include "proto/varlink.h"

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

struct attempt;

struct attempt_link {
    uv_work_t work; /* of the launch or of a search */
    struct error error;
    int socket;
    enum attempt_trace trace;
    struct attempt_timer seek; /* runs until the next search for the shim */
    uint64_t seek_pause;       /* ms */
    double sought_since;       /* seconds since the epoch, 0: no search is under way */
    bool sought;               /* an earlier daemon started it, so its shim must be found */

    uv_pipe_t pipe;
    bool is_open;
    bool status_received;
    bool can_suspend; /* the shim knows Suspend; one that an earlier version left may not */
    struct varlink_frames frames;
    int shim; /* descriptor of its process (pidfd_open(2)), -1 until known */
};

void attempt_link_init(struct attempt_link *link);
void attempt_link_release(struct attempt_link *link);
/* Looks for a shim that has hung up without telling the end, or that an earlier daemon started. It
 * may have left an exit record, and processes of the job may remain. */
void attempt_link_seek(struct attempt *attempt);
/* Talks with the shim over the connected `descriptor`, which this function takes over. */
void attempt_link_connect(struct attempt *attempt, int descriptor);
/* Makes the shim send `signal_number` to the trainee (0: SIGTERM to all processes of the job), and
 * SIGKILL to all of them after the grace period. Does nothing while there is no connection. */
void attempt_link_stop(struct attempt *attempt, int signal_number, double grace_seconds);
/* Calls a method of io.traind.Worker, without an answer. Takes over `parameters`. Does nothing
 * while there is no connection. */
void attempt_link_call(struct attempt *attempt, const char *method, struct json_object *parameters);
/* Tells the shim that its exit record is stored, so that it can end, and closes the connection. */
void attempt_link_acknowledge(struct attempt *attempt);
/* Closes the connection, if there is one. */
void attempt_link_close(struct attempt *attempt);
