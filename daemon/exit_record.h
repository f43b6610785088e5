/* exit_record.h: what an exit record may say. It comes from the job's user, in whose folder it lies
 * and who may take the place of the shim: numbers that cannot be would end up in the database, in
 * predictions and in what others are told. */
#pragma once

#include "proto/json.h"

/* Brings the numbers of `record` (ExitRecord of io.traind.Worker) into what can be: `started` and
 * `ended` into the time from `earliest` (seconds since the epoch, by the daemon's own clock; 0: not
 * known) to `now`, in that order; a number that is out of its range, or none, is dropped. */
void exit_record_bound(struct json_object *record, double earliest, double now);
