/* internal.h: what the files of the supervisor share: supervisor.c (the life of an
 * attempt), worker.c (the talk with its shim), stop.c (how it is ended). */
#pragma once

#include "daemon/attempts/supervisor.h"

/* ---- supervisor.c ---------------------------------------------------------------------------- */

/* Every handle of an attempt counts in `open_handles` and is closed with this. */
void attempt_handle_closed(uv_handle_t *handle);
/* The exit record is there: no process of the attempt remains. */
void attempt_take_exit(struct attempt *attempt, struct json_object *record);
/* Looks for the shim, which has hung up and told nothing or was started by an earlier daemon. A
 * record may be there all the same, and processes of the job may. */
void attempt_seek(struct attempt *attempt);
/* Where it is found. */
struct attempt_place attempt_place(const struct attempt *attempt);

/* ---- worker.c --------------------------------------------------------------------- */

/* Talks with the shim over a connected descriptor, which it takes over. */
void attempt_worker_connect(struct attempt *attempt, int descriptor);
/* Has the shim send `signal_number` to the trainee alone (0: SIGTERM to the whole job), and SIGKILL
 * to the whole job after the grace period. Nothing, while there is no connection. */
void attempt_worker_stop(struct attempt *attempt, int signal_number, double grace_seconds);
/* Lets the shim go, whose exit record is stored, and closes the connection. */
void attempt_worker_acknowledge(struct attempt *attempt);
/* Closes the connection, if there is one. */
void attempt_worker_close(struct attempt *attempt);

/* ---- stop.c ----------------------------------------------------------------------- */

/* Whether it answers or not: an attempt that is to end is killed after a while, another one is
 * stopped at its time limit, counted from `started`. */
void attempt_deadline_start(struct attempt *attempt, double started);
/* Asks the shim to end it, which it is to do by attempt->intent. */
void attempt_ask_to_stop(struct attempt *attempt);
/* Kills its processes now and, if that does not bring its end, its shim; again and again. */
void attempt_force(struct attempt *attempt);
