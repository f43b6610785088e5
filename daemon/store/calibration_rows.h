/* calibration_rows.h: the rows of table calibration: how fast a device is, as the service measured
 * it. */
#pragma once

#include "daemon/store/store.h"
#include "proto/json.h"

/* Stores what `traind-worker calibrate` printed of the device, in place of what is known of it with
 * so many threads. */
int calibration_store(struct store_connection *connection, const char *device,
                      struct json_object *calibration, struct error *error);

/* Hands each to `take`, the oldest first; the texts are lent. */
int calibrations_read(struct store_connection *connection,
                      void (*take)(void *data, const char *device, int threads, const char *json),
                      void *data, struct error *error);
