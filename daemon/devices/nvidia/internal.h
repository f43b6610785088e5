/* internal.h: declarations that the files of the probe share: probe.c (devices and their facts),
 * health.c (errors) and processes.c (the processes that hold memory). */
#pragma once

#include "daemon/devices/nvidia/nvml.h"
#include "daemon/devices/nvidia/probe.h"

/* A device that was seen at least once, and what must be remembered between readings. */
struct known_device {
    nvml_device handle, parent; /* parent: an instance's GPU; of a whole GPU its own handle */
    unsigned int gpu_instance;  /* NVML_INSTANCE_NONE: it is a whole GPU */
    bool seen;                  /* seen in this reading */
    bool ecc_counted, remapping_failed;
    int64_t ecc_errors; /* at the last reading */
    uint64_t failures;
    char failure[NVIDIA_TEXT_MAX]; /* the last failure */
    struct nvidia_device last;     /* facts, without processes */
};

struct nvidia_probe {
    char *library;
    struct nvml nvml;
    bool initialised;
    nvml_event_set events; /* NULL: this driver or device has none */
    struct known_device *known;
    size_t known_count;
    /* of the last time that the driver was asked */
    char driver[80];
    int cuda_version;
    bool complete;    /* all devices that are known have answered */
    uint64_t idle_at; /* uv_hrtime(), if none of them was busy then; else 0 */
    char *root;       /* of /sys: see power.h */
};

/* ---- health.c ------------------------------------------------------------------- */

/* What Xid `number` means for the device; NULL if it is not the device's fault. */
const char *nvidia_xid_failure(uint64_t number);
/* Handles the errors that the driver has reported since the last call. */
void nvidia_take_events(struct nvidia_probe *probe);
/* Counts memory errors. Fills `device`'s ecc_errors, and health_reason if there is something that
 * is not a failure. */
void nvidia_read_errors(struct nvidia_probe *probe, struct known_device *known,
                        struct nvidia_device *device);

/* ---- processes.c ---------------------------------------------------------------- */

/* Fills the device's processes. */
void nvidia_read_processes(const struct nvml *nvml, nvml_device handle,
                           struct nvidia_device *device);
