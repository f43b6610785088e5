/* probe.h: what NVIDIA's driver says of each GPU, or of each of its instances where it is
 * divided (MIG). Calls block for milliseconds: they belong to monitor.c's thread. */
#pragma once

#include "base/error.h"
#include "daemon/devices/probe_processes.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum { NVIDIA_TEXT_MAX = 160 };

enum nvidia_health {
    NVIDIA_HEALTHY,
    NVIDIA_FAILED, /* an error of the device; it may answer all the same */
    NVIDIA_LOST    /* it has vanished, or answers no more */
};

struct nvidia_device {
    char uuid[96];                /* "GPU-…" or "MIG-…": what CUDA_VISIBLE_DEVICES takes */
    char name[32];                /* "cuda:0", of an instance "cuda:0.1" */
    char model[96];               /* "NVIDIA H200" */
    bool is_instance;             /* of a GPU that is divided */
    int capability[2];            /* 9, 0; 0, 0: not known */
    uint64_t memory_total;        /* bytes that programs can have */
    uint64_t memory_used;         /* bytes that programs have */
    int utilisation, temperature; /* percent, degrees Celsius; -1: not known */
    double power;                 /* watts; NAN: not known */
    double energy;                /* joules since the driver was loaded; NAN: not known */
    int64_t ecc_errors;           /* uncorrected ones since then; -1: not known */
    enum nvidia_health health;
    char health_reason[NVIDIA_TEXT_MAX]; /* a sentence, also where it is healthy; "": none */
    uint64_t failures;                   /* errors of the device so far: rises with each */
    bool processes_known;
    struct process_use *processes; /* owned by the reading */
    size_t process_count;
};

struct nvidia_reading {
    char driver[80];                /* "580.159.04", "" without one */
    int cuda_version;               /* of the driver: 13000 is 13.0; 0: not known */
    uint64_t begun;                 /* uv_hrtime(), by who asked for it */
    char obstacle[NVIDIA_TEXT_MAX]; /* why there is nothing to read; "": none */
    struct nvidia_device *devices;  /* those once seen that are gone included */
    size_t count;
};

struct nvidia_probe;

/* `library` as for nvml_load(). Nothing is loaded yet. */
struct nvidia_probe *nvidia_probe_new(const char *library);
void nvidia_probe_free(struct nvidia_probe *probe);

/* Loads the library when there is a driver to talk to, and reads everything. With `rescan` devices
 * that appeared since the library was initialised are found too. */
struct nvidia_reading *nvidia_probe_read(struct nvidia_probe *probe, bool rescan);
void nvidia_reading_free(struct nvidia_reading *reading);

/* Whose memory it is. `jobs` are pids: see process_is_of().
 * Where the driver lists no process that we can see (in a container), all that is booked counts as
 * ours, and `by_booking` says so. */
struct nvidia_use {
    uint64_t ours, outside; /* bytes */
    bool by_booking;
};
struct nvidia_use nvidia_device_use(const struct nvidia_device *device, const pid_t *jobs,
                                    size_t job_count, uint64_t booked);
