/* device_types.c: the string tables of device_types.h. */
#include "daemon/types/device_types.h"

static const char *const default_device_names[] = {[DEFAULT_DEVICE_AUTO] = "auto",
                                                   [DEFAULT_DEVICE_CPU] = "cpu",
                                                   [DEFAULT_DEVICE_GPU] = DEVICES_GPU,
                                                   [DEFAULT_DEVICE_ANY] = DEVICES_ANY};
DEFINE_STRING_TABLE(default_device, enum default_device, default_device_names)

static const char *const over_memory_names[] = {
    [OVER_MEMORY_SUSPEND] = "suspend", [OVER_MEMORY_END] = "end", [OVER_MEMORY_TELL] = "tell"};
DEFINE_STRING_TABLE(over_memory, enum over_memory, over_memory_names)

static const char *const device_health_names[] = {[DEVICE_HEALTHY] = "healthy",
                                                  [DEVICE_DRAINING] = "draining",
                                                  [DEVICE_QUARANTINED] = "quarantined",
                                                  [DEVICE_LOST] = "lost"};
DEFINE_STRING_TABLE(device_health, enum device_health, device_health_names)

static const char *const device_fault_names[] = {[DEVICE_FAULT_NONE] = NULL,
                                                 [DEVICE_FAULT_OPEN] = "device",
                                                 [DEVICE_FAULT_ILLEGAL_ACCESS] = "illegal_access",
                                                 [DEVICE_FAULT_LAUNCH] = "launch_failure",
                                                 [DEVICE_FAULT_MEMORY] = "device_memory",
                                                 [DEVICE_FAULT_LOST] = "device_lost"};
DEFINE_STRING_TABLE(device_fault, enum device_fault, device_fault_names)
