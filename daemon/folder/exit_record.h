/* exit_record.h: checks the numbers of an exit record. A job of the daemon's own user can write
 * that record, and a clock can be wrong. Impossible numbers would end up in the database, in
 * predictions and in what other users see. */
#pragma once

#include "proto/json.h"

/* Corrects the numbers of `record` (ExitRecord of io.traind.Worker). `started` and `ended` are
 * moved into the time from `earliest` (seconds since the epoch, by the daemon's clock; 0: unknown)
 * to `now`, in that order. Any other number that is out of its range is dropped. */
void exit_record_bound(struct json_object *record, double earliest, double now);
