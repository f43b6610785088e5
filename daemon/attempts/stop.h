/* stop.h: how an attempt is ended; attempt_stop() is for everybody. */
#pragma once

struct attempt;

/* Whether it answers or not: an attempt that is to end is killed after a while, another one is
 * stopped at its time limit, counted from `started`. */
void attempt_deadline_start(struct attempt *attempt, double started);
/* Asks the shim to end it, which it is to do by attempt->intent. */
void attempt_ask_to_stop(struct attempt *attempt);
/* Kills its processes now and, if that does not bring its end, its shim; again and again. */
void attempt_force(struct attempt *attempt);
