/* probe.h: what NVIDIA's driver reports of each GPU, or, if it is divided (MIG), of each of its
 * instances. Calls block for milliseconds, so only monitor.c's thread makes them. */
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
    NVIDIA_FAILED, /* the device reported an error, but it may still answer */
    NVIDIA_LOST    /* it has vanished or no longer answers */
};

struct nvidia_device {
    char uuid[96];                /* "GPU-…" or "MIG-…": what CUDA_VISIBLE_DEVICES takes */
    char name[32];                /* "cuda:0"; an instance: "cuda:0.1" */
    char model[96];               /* "NVIDIA H200" */
    bool is_instance;             /* it is an instance of a divided GPU */
    int capability[2];            /* 9, 0; 0, 0: not known */
    uint64_t memory_total;        /* bytes that programs can use */
    uint64_t memory_used;         /* bytes that programs use */
    int utilisation, temperature; /* percent, degrees Celsius; -1: not known */
    double power;                 /* watts; NAN: not known */
    double energy;                /* joules since the driver was loaded; NAN: not known */
    int64_t ecc_errors;           /* uncorrected ones since then; -1: not known */
    enum nvidia_health health;
    char health_reason[NVIDIA_TEXT_MAX]; /* a sentence, which a healthy device may have, too; "":
                                          * none */
    uint64_t failures;                   /* errors of the device so far; increases with each */
    bool processes_known;
    struct process_use *processes; /* owned by the reading */
    size_t process_count;
};

struct nvidia_reading {
    char driver[80];                /* "580.159.04", "" without one */
    int cuda_version;               /* of the driver: 13000 is 13.0; 0: not known */
    uint64_t begun;                 /* uv_hrtime() when it began; set by the caller */
    char obstacle[NVIDIA_TEXT_MAX]; /* why nothing can be read; "": no reason */
    bool rests;                     /* the driver was not asked; what it said last stands here */
    struct nvidia_device *devices;  /* including those that were seen earlier and are gone */
    size_t count;
};

struct nvidia_probe;

/* `library` as for nvml_load(), `root` as for nvidia_power_read(). Nothing is loaded yet. */
struct nvidia_probe *nvidia_probe_new(const char *library, const char *root);
void nvidia_probe_free(struct nvidia_probe *probe);

/* From the least to the most. */
enum nvidia_request {
    NVIDIA_READ_UNLESS_IDLE,   /* keeps no GPU awake that may sleep and has nothing to do */
    NVIDIA_READ_UNLESS_ASLEEP, /* wakes none */
    NVIDIA_READ,
    NVIDIA_RESCAN /* and finds devices that appeared since the library was initialised */
};

/* Loads the library if a driver is present, and reads everything. */
struct nvidia_reading *nvidia_probe_read(struct nvidia_probe *probe, enum nvidia_request request);
void nvidia_reading_free(struct nvidia_reading *reading);

/* Divides the used memory between jobs and others. `jobs` are pids: see process_is_of(). If the
 * driver lists no process that we can see (in a container), everything booked counts as the jobs',
 * and `by_booking` is set. */
struct nvidia_use {
    uint64_t ours, outside; /* bytes */
    bool by_booking;
};
struct nvidia_use nvidia_device_use(const struct nvidia_device *device, const pid_t *jobs,
                                    size_t job_count, uint64_t booked);
