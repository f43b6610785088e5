/* device_claim.h: what an attempt keeps of the devices that it is on. Each of these devices has the
 * claim in its ledger (device_book()); the claim is a member of the attempt and lives as long. */
#pragma once

#include "daemon/devices/device_energy.h"
#include "daemon/devices/process_memory.h"
#include "daemon/types/job_types.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct attempt;
struct device;
struct device_sharing;

struct device_claim {
    struct attempt *attempt;                 /* whose it is */
    int64_t job, number;                     /* which attempt that is, for all time */
    struct device *devices[JOB_DEVICES_MAX]; /* planning runs are on none */
    int device_count;
    pid_t pid;                         /* of the trainee; 0 until known */
    bool is_one_process;               /* traind-worker makes no other ones */
    bool gone;                         /* no process of the attempt remains */
    struct process_memory memory_held; /* of the machine's, as read last */
    double utilisation;                /* part of its GPU that it keeps busy; 0: not measured */
    bool utilisation_is_measured;      /* while it was alone there */
    int readings;                      /* in which the driver said who holds memory of the GPU */
    const struct device_sharing *shared_by;    /* the service that it uses; NULL: none */
    int64_t sharing_service;                   /* of which; 0: none of this daemon's */
    double slowdown;                           /* of its steps by others on the GPU; 1: none */
    struct energy_use energy[JOB_DEVICES_MAX]; /* of each of them */
    uint64_t memory_booked;                    /* bytes on each of them */
    uint64_t device_memory_peak; /* bytes that it held of a device, as far as it was seen or told */
};
