/* probe_nvidia_internal.h: what the files of the probe share: probe_nvidia.c (devices and their
 * facts), probe_nvidia_health.c (errors), probe_nvidia_processes.c (who holds memory). */
#pragma once

#include "daemon/nvml.h"
#include "daemon/probe_nvidia.h"

/* A device that was seen once, and what must be remembered of it between readings. */
struct known_device {
    nvml_device handle, parent; /* parent: of an instance, else its own handle */
    unsigned int gpu_instance;  /* NVML_INSTANCE_NONE: it is a whole GPU */
    bool seen;                  /* in this reading */
    bool ecc_counted, remapping_failed;
    int64_t ecc_errors; /* at the last reading */
    uint64_t failures;
    char failure[NVIDIA_TEXT_MAX]; /* the last one */
    struct nvidia_device last;     /* facts, without processes */
};

struct nvidia_probe {
    char *library;
    struct nvml nvml;
    bool initialised;
    nvml_event_set events; /* NULL: this driver or device has none */
    struct known_device *known;
    size_t known_count;
};

/* ---- probe_nvidia_health.c ------------------------------------------------------------------- */

/* What Xid `number` says of the device; NULL where the program is to blame, or nobody. */
const char *nvidia_xid_failure(uint64_t number);
/* Takes the errors that the driver has reported since the last call. */
void nvidia_take_events(struct nvidia_probe *probe);
/* Counts memory errors; fills `device`'s ecc_errors and, for what is no failure, health_reason. */
void nvidia_read_errors(struct nvidia_probe *probe, struct known_device *known,
                        struct nvidia_device *device);

/* ---- probe_nvidia_processes.c ---------------------------------------------------------------- */

/* Fills the device's processes. */
void nvidia_read_processes(const struct nvml *nvml, nvml_device handle,
                           struct nvidia_device *device);
