/* device_types.h: the enumerations of a device as io.traind names them, with their string tables.
 */
#pragma once

#include "base/string_table.h"

enum device_kind {
    DEVICE_CPU,
    DEVICE_CUDA,
    DEVICE_SIMULATED /* computes on the CPU, with a memory and a clock of its own */
};
DECLARE_STRING_TABLE(device_kind, enum device_kind);

enum device_health {
    DEVICE_HEALTHY,
    DEVICE_DRAINING,    /* takes no further job: somebody asked for it */
    DEVICE_QUARANTINED, /* likewise, after an error of the device */
    DEVICE_LOST         /* it has vanished, or answers no more */
};
DECLARE_STRING_TABLE(device_health, enum device_health);
