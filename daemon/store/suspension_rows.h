/* suspension_rows.h: what leaving a device without ending costs, for each model of device: rows of
 * table setting. */
#pragma once

#include "daemon/store/store.h"

/* Stores the seconds for each byte out of the device and back. */
int suspension_cost_store(struct store_connection *connection, const char *model, double out,
                          double back, struct error *error);

/* Passes each model to `take`. The text is valid during the call only. */
int suspension_costs_read(struct store_connection *connection,
                          void (*take)(void *data, const char *model, double out, double back),
                          void *data, struct error *error);
