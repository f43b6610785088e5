/* times.h: how long each launch of a step takes on the device, for whoever makes the backend
 * faster. TRAIND_VULKAN_TIMES=yes has the steps that are recorded first write timestamps, and
 * closing the device prints what they took, by shader and node, the longest first. */
#pragma once

#include "engine/backends/vulkan/vulkan.h"

/* Makes device->times if they are asked for and the device has timestamps; else there are none. */
void times_open(struct backend_device *device);
/* A step begins in the recorder's commands. */
void times_begin(struct recorder *recorder);
/* A launch of the shader has been recorded, with so many workgroups. */
void times_add(struct recorder *recorder, enum vulkan_shader shader, const uint32_t groups[3]);
/* Prints to stderr, and frees. The device has ended its work. */
void times_close(struct backend_device *device);
