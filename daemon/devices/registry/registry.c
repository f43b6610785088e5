/* registry.c: see registry.h. */
#include "daemon/devices/registry/registry.h"

#define LIST_DRIVER(name) &device_driver_##name,
const struct device_driver *const device_registry[] = {DEVICE_DRIVERS(LIST_DRIVER) NULL};

const struct device_kind *device_registry_kind(size_t index)
{
    return device_registry[index] ? &device_registry[index]->kind : NULL;
}
