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

/* Where a command runs that names no device: [Commands] DefaultDevice. */
enum default_device {
    DEFAULT_DEVICE_AUTO, /* a GPU if there is one, unless earlier runs held no memory of it */
    DEFAULT_DEVICE_CPU,
    DEFAULT_DEVICE_GPU,
    DEFAULT_DEVICE_ANY /* the CPU, or a GPU */
};
DECLARE_STRING_TABLE(default_device, enum default_device);

/* What happens to a command that takes more of a GPU than it has booked (OverMemory). */
enum over_memory { OVER_MEMORY_SUSPEND, OVER_MEMORY_END, OVER_MEMORY_TELL };
DECLARE_STRING_TABLE(over_memory, enum over_memory);

/* Patterns that stand for several kinds of devices. */
#define DEVICES_ANY "any"
#define DEVICES_GPU "gpu" /* all but the CPU */

enum device_health {
    DEVICE_HEALTHY,
    DEVICE_DRAINING,    /* takes no further job: a user asked for it */
    DEVICE_QUARANTINED, /* takes no further job after an error of the device */
    DEVICE_LOST         /* it has vanished or no longer answers */
};
DECLARE_STRING_TABLE(device_health, enum device_health);

/* Errors of a device, as `kind` of a trainee's `error` record names them. */
enum device_fault {
    DEVICE_FAULT_NONE,
    DEVICE_FAULT_OPEN,           /* the device could not be opened */
    DEVICE_FAULT_ILLEGAL_ACCESS, /* a kernel accessed memory that it may not */
    DEVICE_FAULT_LAUNCH,         /* a kernel or a library's call failed for another reason */
    DEVICE_FAULT_MEMORY,         /* an uncorrectable memory error */
    DEVICE_FAULT_LOST            /* the device no longer answers */
};
DECLARE_STRING_TABLE(device_fault, enum device_fault);

/* Whether such an error is always the device's fault. */
static inline int device_fault_is_its_own(enum device_fault fault)
{
    return fault == DEVICE_FAULT_MEMORY || fault == DEVICE_FAULT_LOST;
}
