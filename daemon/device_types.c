/* device_types.c: the string tables of device_types.h. */
#include "daemon/device_types.h"

static const char *const device_kind_names[] = {
    [DEVICE_CPU] = "cpu", [DEVICE_CUDA] = "cuda", [DEVICE_SIMULATED] = "simulated"};
DEFINE_STRING_TABLE(device_kind, enum device_kind, device_kind_names)

static const char *const device_health_names[] = {[DEVICE_HEALTHY] = "healthy",
                                                  [DEVICE_DRAINING] = "draining",
                                                  [DEVICE_QUARANTINED] = "quarantined",
                                                  [DEVICE_LOST] = "lost"};
DEFINE_STRING_TABLE(device_health, enum device_health, device_health_names)
