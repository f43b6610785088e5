/* driver.h: what a kind of device does for traind. One driver for each kind, in a folder of its own
 * beside this file; daemon/devices/registry/ lists them. Nobody else asks of which kind a device
 * is: rooms above ask the questions of struct device_kind, or call what stands here. A function
 * that is NULL means that there is nothing to do. All run on the loop unless they say otherwise. */
#pragma once

#include "daemon/config/config.h"
#include "daemon/context/context.h"
#include "daemon/devices/device.h"
#include "daemon/devices/probe_processes.h"
#include "daemon/types/device_kind.h"
#include "proto/json.h"

/* What the environment of an attempt says about its devices of one kind. */
struct device_environment {
    const char *ids;      /* "GPU-a,GPU-b"; "": it has no device of this kind */
    double memory_part;   /* the booked part of the memory of a device; 0: unknown */
    bool memory_declared; /* the program must not exceed it */
    bool native;          /* true: traind-worker, which only needs to see its device; false: a
                           * command */
};

/* A service by which processes of one user use a device at the same time instead of in turn
 * (attempts/sharing_services.h). */
struct device_sharing {
    /* This name has four uses: the command of traind-worker that runs the service; the option that
     * tells clients its folder; the member of records that marks clients; the kind of the error
     * that ends them. */
    const char *name;
    const char *title;    /* its name in sentences */
    const char *variable; /* environment variable by which a device's libraries find the folder */
    /* The path of its control program, or a name in PATH; "": none. */
    const char *(*program)(const struct config *config);
};

/* How programs give such devices back without ending (attempts/suspension.h). */
struct device_suspension {
    /* The library by which the driver does it; "": the configuration disables it. NULL: a program
     * is only frozen, and keeps what it holds of the device. */
    const char *(*library)(const struct config *config);
    /* Says in a sentence why programs there cannot be suspended; "": they can. */
    void (*obstacle)(const struct daemon *daemon, char *text, size_t size);
    /* Whether they can go on on another device of the type. */
    bool (*moves)(const struct daemon *daemon);
};

/* The use of a device at a moment. NAN: not known. */
struct device_sample {
    double utilisation; /* part of the time that it was busy, lately or since the last sample */
    double memory_used; /* bytes */
    double temperature; /* degrees Celsius */
    double power;       /* watts */
};

struct simulation;

/* How recent a reading of devices has to be. */
enum device_reading {
    DEVICE_READING_RECENT, /* of the last second; it keeps no device awake */
    DEVICE_READING_AWAKE,  /* begun now or later, but a device that sleeps is left alone */
    DEVICE_READING_NEW     /* begun now or later */
};

struct device_driver {
    struct device_kind kind;
    const struct simulation *simulation; /* of a simulated kind: simulation.h; else NULL */

    /* ---- finding devices ---- */

    /* Adds the devices that exist from the start to daemon->devices. */
    int (*open)(struct daemon *daemon, struct error *error);
    /* Starts to search for further devices. `ready` runs on the loop, at once or when the existing
     * devices are in the table. */
    int (*start)(struct daemon *daemon, void (*ready)(struct daemon *daemon), struct error *error);
    void (*stop)(struct daemon *daemon);
    /* Applies the general rules: slots and memory. The device's section, which may override them,
     * is device->config. */
    void (*configure)(struct device *device, const struct config *config);
    /* Describes the device's type: devices with the same text are equally fast. NULL: devices of
     * the same model are. */
    void (*describe_type)(const struct device *device, char *text, size_t size);

    /* ---- measuring ---- */

    /* Measures before a decision how much others hold of the device. Returns true while that is
     * being read; the listener is called when it has been. */
    bool (*measure)(struct daemon *daemon, struct device *device);
    /* Tells the driver that jobs have changed, so that it can start or stop regular readings.
     * `jobs_wait`: jobs wait for a device. */
    void (*watch)(struct daemon *daemon, bool jobs_wait);
    /* Calls `done` once there is such a reading. */
    void (*refresh)(struct daemon *daemon, enum device_reading reading, void (*done)(void *data),
                    void *data);
    /* Reads a meter that is divided by processor time (device_energy.h): joules and seconds since
     * some moment. False: there is none. Other meters are read by device_energy_read(). */
    bool (*read_energy)(struct daemon *daemon, struct device *device, double *joules,
                        double *busy_seconds);
    /* Fills in what the driver knows of the device's use, of what was read in the last seconds.
     * `memory_used` is set already. NULL: nothing else is known. */
    void (*sample)(const struct daemon *daemon, const struct device *device,
                   struct device_sample *sample);
    /* The claim's attempt has left the device: none of its processes remain. */
    void (*left)(struct daemon *daemon, struct device *device, const struct device_claim *claim);

    /* ---- reporting ---- */

    /* Says in a sentence why there is no such device; "": no reason is known. */
    const char *(*obstacle)(const struct daemon *daemon);
    /* The version of the system's software for such devices. When it changes, native support is
     * probed again. */
    const char *(*version)(const struct daemon *daemon);
    /* Bytes in use by all programs. NULL: the sum of what is booked and what others hold. */
    uint64_t (*memory_used)(const struct daemon *daemon, const struct device *device);
    /* Lists the processes that hold memory of the device, including the jobs'. Returns false if
     * that is unknown. */
    bool (*users)(const struct daemon *daemon, const struct device *device,
                  const struct process_use **users, size_t *count);
    /* Adds members that only this kind of device has to its JSON in io.traind. */
    void (*describe)(const struct daemon *daemon, const struct device *device,
                     struct json_object *json);

    /* ---- starting programs ---- */

    /* Adds the arguments with which traind-worker opens the device, in addition to --device
     * NAME. */
    void (*arguments)(const struct device *device, uint64_t memory_booked,
                      struct json_object *arguments);
    /* Adds environment variables. device_environment_add() keeps the user's own values. Pure. */
    void (*environment)(const struct device_environment *environment,
                        struct json_object *variables);
    /* Prefixes of variables that are read only when a process starts; the last one is NULL. */
    const char *const *start_variables;
    /* The backend that traind-worker must load; "": the installed one; NULL: the configuration
     * disables it. Only if kind.has_backend. */
    const char *(*plugin)(const struct config *config);
    /* How many warm workers wait on each device for native jobs. */
    int64_t (*warm_workers)(const struct config *config);
    /* NULL: processes there share a device by themselves, or take turns. */
    const struct device_sharing *sharing;
    /* NULL: programs cannot leave such a device without ending. */
    const struct device_suspension *suspension;
    /* Predicts a step's seconds without a measurement, from its seconds on the host and its number
     * of kernels. NULL: as many seconds as on the host. */
    double (*step_seconds)(const struct device *device, double seconds, double kernels);
};

/* Finds the driver of that kind; NULL: none. */
const struct device_driver *devices_driver(const struct devices *devices, const char *kind);
/* Call the functions of struct device_driver. device_plugin() returns NULL if the kind has no
 * separate backend or the configuration disables it. */
const char *device_plugin(const struct device *device, const struct config *config);
/* The service that the record's attempt uses; NULL: none. */
const struct device_sharing *devices_record_sharing(const struct devices *devices,
                                                    struct json_object *record);
/* Removes the service from the claim if the record of the attempt's start says that it uses
 * none. */
void device_claim_take_start(struct device_claim *claim, struct json_object *record);
/* The names of all services as a JSON array. */
struct json_object *devices_sharing_names(const struct devices *devices);
void device_left(struct daemon *daemon, struct device *device, const struct device_claim *claim);
/* Reads the meters of the claim's devices that are divided by processor time: when the attempt
 * begins, and when none of its processes remains. */
void device_claim_begin_energy(struct daemon *daemon, struct device_claim *claim);
void device_claim_end_energy(struct daemon *daemon, struct device_claim *claim);

/* ---- driver.c: all drivers ------------------------------------------------------------------ */

/* The driver's own state, in daemon->devices; NULL at first. */
void **device_driver_state(const struct daemon *daemon, const struct device_driver *driver);

/* Fills the table: the devices that drivers open, and those that sections create. */
int devices_open(struct daemon *daemon, struct error *error);
/* Lets the drivers search for further devices, one after the other. Then `ready` runs on the
 * loop. */
int devices_start(struct daemon *daemon, void (*ready)(struct daemon *daemon), struct error *error);
void devices_stop(struct daemon *daemon);

/* Measures what others hold of every device. Returns true while a part of that is still being read;
 * the listener is called when it has been. */
bool devices_measure(struct daemon *daemon);
void devices_watch(struct daemon *daemon, bool jobs_wait);
void devices_refresh(struct daemon *daemon, enum device_reading reading, void (*done)(void *data),
                     void *data);

/* Bytes of the device that jobs and other programs use, as last measured. */
uint64_t device_memory_used(const struct daemon *daemon, const struct device *device);
/* The use of the device. Call it in regular intervals of a minute at most, because some meters are
 * only counters. */
struct device_sample device_sample_take(const struct daemon *daemon, const struct device *device);

/* Why there are no devices of the kind; "": no reason is known, or there is no such kind. */
const char *devices_obstacle(const struct daemon *daemon, const char *kind);

/* The versions of all drivers that have one. */
void devices_versions(const struct daemon *daemon, char *text, size_t size);

/* Whether the process belongs to an attempt on the device. */
bool device_holds_process(const struct daemon *daemon, const struct device *device,
                          const struct process_use *process);
/* Lists the processes whose descendants belong to jobs on the device, including planning runs,
 * which open devices, too. At most `limit`; returns how many. */
size_t device_list_pids(const struct daemon *daemon, const struct device *device, pid_t *pids,
                        size_t limit);

void device_argument_add(struct json_object *arguments, const char *text);
/* The member `arguments` of a driver whose devices are told how much memory was booked. */
void device_argument_add_memory(const struct device *device, uint64_t memory_booked,
                                struct json_object *arguments);
/* Sets a variable unless it is set: the user's own value wins. */
void device_environment_add(struct json_object *variables, const char *name, const char *value);
/* Sets the variables that let traind-worker see only this device; NULL: only the host. */
void device_environment_see(const struct device_driver *const *drivers, const struct device *device,
                            struct json_object *variables);
/* Makes a list of "NAME=value" that ends with NULL, in one allocation that the caller frees. NULL:
 * no memory. */
char **device_environment_list(struct json_object *variables);
