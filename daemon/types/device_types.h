/* device_types.h: the enumerations of a device as io.traind names them,
 * with their string tables. */
#pragma once

#include "base/string_table.h"

enum {
    DEVICE_TYPES_MAX = 16, /* POLICY_TYPES_MAX */
    DEVICE_NAME_MAX = 32,
    DEVICE_ID_MAX = 96,
    DEVICE_MODEL_MAX = 128,
    DEVICE_TYPE_NAME_MAX = DEVICE_NAME_MAX + DEVICE_MODEL_MAX,
    DEVICE_REASON_MAX = 160,
    ATTEMPT_DEVICES_TEXT_MAX = 512 /* names of all devices of one attempt */
};

/* Where a command goes that does not say: [Commands] DefaultDevice. */
enum default_device {
    DEFAULT_DEVICE_AUTO, /* a GPU, where there is one, unless earlier runs held no memory of it */
    DEFAULT_DEVICE_CPU,
    DEFAULT_DEVICE_GPU,
    DEFAULT_DEVICE_ANY /* the CPU, or a GPU */
};
DECLARE_STRING_TABLE(default_device, enum default_device);

/* Patterns that stand for several kinds of devices. */
#define DEVICES_ANY "any"
#define DEVICES_GPU "gpu" /* all but the CPU */

enum device_health {
    DEVICE_HEALTHY,
    DEVICE_DRAINING,    /* takes no further job: somebody asked for it */
    DEVICE_QUARANTINED, /* likewise, after an error of the device */
    DEVICE_LOST         /* it has vanished, or answers no more */
};
DECLARE_STRING_TABLE(device_health, enum device_health);

/* Errors of a device as a trainee's `error` record tells them (its `kind`). */
enum device_fault {
    DEVICE_FAULT_NONE,
    DEVICE_FAULT_OPEN,           /* the device could not be opened */
    DEVICE_FAULT_ILLEGAL_ACCESS, /* a kernel read or wrote where it must not */
    DEVICE_FAULT_LAUNCH,         /* a kernel, or a library's call, failed otherwise */
    DEVICE_FAULT_MEMORY,         /* an error of memory that could not be corrected */
    DEVICE_FAULT_LOST            /* the device does not answer any more */
};
DECLARE_STRING_TABLE(device_fault, enum device_fault);

/* The device is to blame, whatever ran there. */
static inline int device_fault_is_its_own(enum device_fault fault)
{
    return fault == DEVICE_FAULT_MEMORY || fault == DEVICE_FAULT_LOST;
}
