/* registry.h: the kinds of devices that traind knows: a line for each folder beside this one that
 * holds a driver. CONTRIBUTING.md, "Add a kind of device". */
#pragma once

#include "daemon/devices/driver.h"

/* In the order in which they are asked and started. */
// clang-format off
#define DEVICE_DRIVERS(DRIVER) \
    DRIVER(cpu) \
    DRIVER(nvidia) \
    DRIVER(accelerator) \
    DRIVER(simulated)
// clang-format on

#define DECLARE_DEVICE_DRIVER(name) extern const struct device_driver device_driver_##name;
DEVICE_DRIVERS(DECLARE_DEVICE_DRIVER)

/* Up to NULL. */
extern const struct device_driver *const device_registry[];

/* Their kinds, for the configuration. */
const struct device_kind *device_registry_kind(size_t index);
