/* suspension_costs.h: how long a command takes to leave a GPU without ending, and to come back.
 * Both take longer the more it holds there. What was measured on this machine counts; before the
 * first measurement, what one NVIDIA H200 took (driver 580). The store keeps it for each type of
 * device. */
#pragma once

#include "daemon/devices/device.h"
#include "daemon/store/store.h"

enum suspension_way { SUSPENSION_OUT, SUSPENSION_BACK };

struct suspension_costs;

/* Makes the table and reads what was kept, in the background. */
struct suspension_costs *suspension_costs_load(struct store *store);
void suspension_costs_free(struct suspension_costs *costs);

/* Seconds that the way takes a command that holds so many bytes of the device. */
double suspension_cost(const struct suspension_costs *costs, const struct device *device,
                       uint64_t bytes, enum suspension_way way);
/* Takes in a measurement, and stores the result. */
void suspension_costs_measure(struct suspension_costs *costs, const struct device *device,
                              uint64_t bytes, enum suspension_way way, double seconds);
