/* calibration_rows.h: the rows of table calibration, which hold the speeds that the service
 * measured for each device. */
#pragma once

#include "daemon/store/store.h"
#include "proto/json.h"

/* Stores what `traind-worker calibrate` printed for the device. It replaces the row of the same
 * device and number of threads. */
int calibration_store(struct store_connection *connection, const char *device,
                      struct json_object *calibration, struct error *error);

/* Passes each calibration to `take`, the oldest first. The texts are valid during the call only. */
int calibrations_read(struct store_connection *connection,
                      void (*take)(void *data, const char *device, int threads, const char *json),
                      void *data, struct error *error);
