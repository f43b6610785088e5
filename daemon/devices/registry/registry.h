/* registry.h: the kinds of devices that traind knows: one line for each sibling folder with a
 * driver. CONTRIBUTING.md, "Add a kind of device". */
#pragma once

#include "daemon/devices/driver.h"

/* Drivers are asked and started in this order. */
// clang-format off
#define DEVICE_DRIVERS(DRIVER) \
    DRIVER(cpu) \
    DRIVER(nvidia) \
    DRIVER(vulkan) \
    DRIVER(accelerator) \
    DRIVER(simulated)
// clang-format on

#define DECLARE_DEVICE_DRIVER(name) extern const struct device_driver device_driver_##name;
DEVICE_DRIVERS(DECLARE_DEVICE_DRIVER)

/* All drivers; the last one is NULL. */
extern const struct device_driver *const device_registry[];

/* The kind of a driver by its index, for the configuration. */
const struct device_kind *device_registry_kind(size_t index);
