/* exit_record.h: what an exit record may say. A job of the daemon's own user may write it, and a
 * clock may be wrong: numbers that cannot be would end up in the database, in predictions and in
 * what others are told. */
#pragma once

#include "proto/json.h"

/* Brings the numbers of `record` (ExitRecord of io.traind.Worker) into what can be: `started` and
 * `ended` into the time from `earliest` (seconds since the epoch, by the daemon's own clock; 0: not
 * known) to `now`, in that order; a number that is out of its range, or none, is dropped. */
void exit_record_bound(struct json_object *record, double earliest, double now);
