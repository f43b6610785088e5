/* devices_nvidia.h: the NVIDIA devices in the daemon's table: cuda:N, known by UUID. */
#pragma once

#include "daemon/context/context.h"
#include "daemon/devices/device.h"
#include "daemon/devices/nvidia/probe.h"

/* Begins to read them, unless the configuration names no library; `ready` runs on the loop once the
 * devices that there are stand in the table. */
int devices_nvidia_start(struct daemon *daemon, void (*ready)(struct daemon *daemon),
                         struct error *error);
void devices_nvidia_stop(struct daemon *daemon);

/* Reads every second from now on, when jobs run on one of them or `jobs_wait`; that ends by itself
 * with them. */
void devices_nvidia_watch(struct daemon *daemon, bool jobs_wait);

/* Calls `done` on the loop, at once or once there is a reading of the last second. */
void devices_nvidia_refresh(struct daemon *daemon, void (*done)(void *data), void *data);

/* Calls `done` on the loop once there is a reading that was begun from now on; at once where no
 * NVIDIA device is looked for. */
void devices_nvidia_look(struct daemon *daemon, void (*done)(void *data), void *data);

/* What was read of it last; NULL: it is no NVIDIA device. */
const struct nvidia_device *device_nvidia(const struct daemon *daemon, const struct device *device);
/* "580.159.04"; "": none. */
const char *devices_nvidia_driver(const struct daemon *daemon);

/* No process of the claim's attempt is left on the device: what it held counts as in use until the
 * driver, asked from now on, says what is. Nothing for other kinds of device. */
void device_nvidia_left(struct daemon *daemon, struct device *device,
                        const struct device_claim *claim);

/* Why there is no NVIDIA device, as a sentence; "": nothing is known about it. */
const char *devices_nvidia_obstacle(const struct daemon *daemon);

/* Whose memory of it is in use; the pids of our jobs come from the attempts on the device. */
struct nvidia_use device_nvidia_use(const struct daemon *daemon, const struct device *device,
                                    const struct nvidia_device *nvidia);
/* Whether the process belongs to an attempt on the device. */
bool device_holds_process(const struct daemon *daemon, const struct device *device,
                          const struct process_use *process);
