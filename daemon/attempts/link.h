/* link.h: the daemon's link to the shim of an attempt: looks for it, talks io.traind.Worker with it
 * over a connection that lasts as long as it does. */
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
    uv_work_t work; /* of the launch, and of a search */
    struct error error;
    int socket;
    enum attempt_trace trace;
    struct attempt_timer seek; /* until the shim is looked for again */
    uint64_t seek_pause;       /* ms */
    double sought_since;       /* seconds since the epoch, 0: it is not looked for */
    bool sought;               /* started by a daemon before this one: its shim is asked */

    uv_pipe_t pipe;
    bool is_open;
    bool status_received;
    struct varlink_frames frames;
    int shim; /* its process (pidfd_open(2)), -1 until known */
};

void attempt_link_init(struct attempt_link *link);
void attempt_link_release(struct attempt_link *link);
/* Looks for the shim, which has hung up and told nothing or was started by an earlier daemon. A
 * record may be there all the same, and processes of the job may. */
void attempt_link_seek(struct attempt *attempt);
/* Talks with the shim over a connected descriptor, which it takes over. */
void attempt_link_connect(struct attempt *attempt, int descriptor);
/* Has the shim send `signal_number` to the trainee alone (0: SIGTERM to the whole job), and SIGKILL
 * to the whole job after the grace period. Nothing, while there is no connection. */
void attempt_link_stop(struct attempt *attempt, int signal_number, double grace_seconds);
/* Lets the shim go, whose exit record is stored, and closes the connection. */
void attempt_link_acknowledge(struct attempt *attempt);
/* Closes the connection, if there is one. */
void attempt_link_close(struct attempt *attempt);
