/* stop.h: ends attempts. Other rooms call only attempt_stop(). */
#pragma once

struct attempt;

/* Starts the attempt's deadline timer. An attempt that was asked to stop is killed when the grace
 * period is over; any other is stopped at its time limit, counted from `started`. */
void attempt_deadline_start(struct attempt *attempt, double started);
/* Asks the shim to end the attempt in the way that attempt->intent says. */
void attempt_ask_to_stop(struct attempt *attempt);
/* Kills the attempt's processes now and, if it does not end then, its shim. Repeats this until the
 * attempt has ended. */
void attempt_force(struct attempt *attempt);
