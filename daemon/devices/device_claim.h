/* device_claim.h: what an attempt holds of the devices on which it runs. Each of these devices has
 * the claim in its ledger (device_book()). The claim is a member of the attempt and lives as
 * long. */
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
    struct attempt *attempt;                 /* the attempt that owns it */
    int64_t job, number;                     /* the permanent name of that attempt */
    struct device *devices[JOB_DEVICES_MAX]; /* planning runs have none */
    int device_count;
    pid_t pid;           /* of the trainee; 0 until known */
    bool is_one_process; /* traind-worker makes no other processes */
    bool gone;           /* no process of the attempt remains */
    double adopted;      /* when an earlier daemon's attempt was found, in seconds since
                                        * the epoch; 0: its memory is known since */
    bool suspended;      /* its processes are frozen: it only holds memory */
    struct process_memory memory_held; /* of the machine's memory, as last read */
    double utilisation;                /* part of its GPU that it keeps busy; 0: not measured */
    bool utilisation_is_measured;      /* it was measured while the attempt was alone there */
    int readings;                      /* readings in which the driver listed the processes that
                                        * hold the GPU's memory */
    double holds_since;                /* when a reading first found memory of the GPU that it
                                        * holds, in seconds since the epoch; 0: none did */
    const struct device_sharing *shared_by;    /* the service that it is a client of; NULL: none */
    int64_t sharing_service;                   /* the id of that service; 0: none of this daemon */
    double slowdown;                           /* factor by which others on the GPU slow its steps
                                                * down; 1: none */
    struct energy_use energy[JOB_DEVICES_MAX]; /* of each of them */
    const struct device *strays_on;            /* a device that it was not given, of which it held
                                                * memory in a reading; NULL: none */
    bool strayed;                              /* its owner was told that */
    double next_look;                          /* when it is looked for such memory, in seconds
                                                * since the epoch */
    uint64_t memory_granted;                   /* what was booked before it held more */
    uint64_t memory_booked;                    /* bytes on each of them */
    uint64_t device_memory_held; /* what it holds of its only device by the last reading */
    uint64_t device_memory_peak; /* the most bytes that it held of a device, as far as measured or
                                  * reported */
};

/* Bytes of each of its devices that it needs to go on there: what it holds, or what is booked. */
uint64_t device_claim_need(const struct device_claim *claim);
