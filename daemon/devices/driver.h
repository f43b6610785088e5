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

/* What an attempt is told of its devices of a kind in its environment. */
struct device_environment {
    const char *ids;      /* "GPU-a,GPU-b"; "": it is on none of this kind */
    double memory_part;   /* of the memory of one that is booked; 0: not known */
    bool memory_declared; /* the program is to be held to it */
    bool native;          /* traind-worker, which needs only to see its device; else a command */
};

/* A service through which processes of one user use a device side by side, instead of in turn
 * (attempts/sharing_services.h). */
struct device_sharing {
    /* The command of traind-worker that runs the service, the option that names its folder to those
     * who join, the member of records that says who does, and the kind of error that ends them. */
    const char *name;
    const char *title;    /* in sentences */
    const char *variable; /* of the environment, by which a device's libraries find the folder */
    /* Its control program, a path or a name in PATH; "": none. */
    const char *(*program)(const struct config *config);
};

struct device_driver {
    struct device_kind kind;

    /* ---- the devices that there are ---- */

    /* Adds those that are there from the start to daemon->devices. */
    int (*open)(struct daemon *daemon, struct error *error);
    /* Begins to look for others; `ready` runs on the loop, at once or once those that there are
     * stand in the table. */
    int (*start)(struct daemon *daemon, void (*ready)(struct daemon *daemon), struct error *error);
    void (*stop)(struct daemon *daemon);
    /* The general rules for it: slots, memory. Its section, which may set others, is
     * device->config. */
    void (*configure)(struct device *device, const struct config *config);
    /* Which devices are equally fast: those of the same text. NULL: those of the same model. */
    void (*describe_type)(const struct device *device, char *text, size_t size);

    /* ---- what is measured ---- */

    /* Before a decision: what others hold of the device. True: that is being read, and the
     * listener is told once it has been. */
    bool (*measure)(struct daemon *daemon, struct device *device);
    /* Whether readings are to go on by themselves: jobs run on devices of the kind, or wait. */
    void (*watch)(struct daemon *daemon, bool jobs_wait);
    /* Calls `done` once there is a reading of the last second, or with `fresh` one that is begun
     * from now on. */
    void (*refresh)(struct daemon *daemon, bool fresh, void (*done)(void *data), void *data);
    /* No process of the claim's attempt is left on the device. */
    void (*left)(struct daemon *daemon, struct device *device, const struct device_claim *claim);

    /* ---- what is told ---- */

    /* Why there is no such device, as a sentence; "": nothing is known about it. */
    const char *(*obstacle)(const struct daemon *daemon);
    /* Of the system's software for such devices; what it could do is asked anew when it changes. */
    const char *(*version)(const struct daemon *daemon);
    /* Bytes in use by anybody; NULL: what is booked, and what others hold. */
    uint64_t (*memory_used)(const struct daemon *daemon, const struct device *device);
    /* Those who hold memory of it, jobs included; false: that is not known. */
    bool (*users)(const struct daemon *daemon, const struct device *device,
                  const struct process_use **users, size_t *count);
    /* Adds what only such a device has to its JSON in io.traind. */
    void (*describe)(const struct daemon *daemon, const struct device *device,
                     struct json_object *json);

    /* ---- what runs there ---- */

    /* Arguments of traind-worker that open the device, beside --device NAME. */
    void (*arguments)(const struct device *device, uint64_t memory_booked,
                      struct json_object *arguments);
    /* Adds variables; device_environment_add() leaves the user's own. Pure. */
    void (*environment)(const struct device_environment *environment,
                        struct json_object *variables);
    /* Beginnings of names of variables that are read only when a process starts; up to NULL. */
    const char *const *start_variables;
    /* The backend that traind-worker is to load, "": the one that is installed; NULL: the
     * configuration wants none. Only where kind.has_backend. */
    const char *(*plugin)(const struct config *config);
    /* Workers that wait on each device for native jobs. */
    int64_t (*warm_workers)(const struct config *config);
    /* NULL: processes there share a device by themselves, or take turns. */
    const struct device_sharing *sharing;
    /* Seconds of a step there that takes `seconds` on the host, in so many kernels, where nothing
     * was measured. NULL: as many. */
    double (*step_seconds)(const struct device *device, double seconds, double kernels);
};

/* The driver of that kind, or NULL. */
const struct device_driver *devices_driver(const struct devices *devices, const char *kind);
/* See struct device_driver; NULL: there is no backend apart for it, or the configuration wants
 * none. */
const char *device_plugin(const struct device *device, const struct config *config);
/* The service that its attempt uses, as a record says; NULL: none. */
const struct device_sharing *devices_record_sharing(const struct devices *devices,
                                                    struct json_object *record);
/* Uses no service any more, if the record of its start says so. */
void device_claim_take_start(struct device_claim *claim, struct json_object *record);
/* The names of all services, as a JSON array. */
struct json_object *devices_sharing_names(const struct devices *devices);
void device_left(struct daemon *daemon, struct device *device, const struct device_claim *claim);

/* ---- driver.c: all of them --------------------------------------------------------------------
 */

/* What the driver keeps between its calls, in daemon->devices; NULL at first. */
void **device_driver_state(const struct daemon *daemon, const struct device_driver *driver);

/* Makes the table: what the drivers open, and the devices that sections make. */
int devices_open(struct daemon *daemon, struct error *error);
/* Has the drivers look for others, one after the other; then `ready` runs on the loop. */
int devices_start(struct daemon *daemon, void (*ready)(struct daemon *daemon), struct error *error);
void devices_stop(struct daemon *daemon);

/* Measures what others hold of every device; true: a part of that is still being read, and the
 * listener is told of it. */
bool devices_measure(struct daemon *daemon);
void devices_watch(struct daemon *daemon, bool jobs_wait);
void devices_refresh(struct daemon *daemon, bool fresh, void (*done)(void *data), void *data);

/* What keeps devices of the kind from being there, "": nothing known, or no kind is called so. */
const char *devices_obstacle(const struct daemon *daemon, const char *kind);

/* The versions of all drivers, of those that have one. */
void devices_versions(const struct daemon *daemon, char *text, size_t size);

/* Whether the process belongs to an attempt on the device. */
bool device_holds_process(const struct daemon *daemon, const struct device *device,
                          const struct process_use *process);
/* The processes whose descendants are the jobs' on the device; planning runs look at devices, too.
 * At most `limit`; how many. */
size_t device_list_pids(const struct daemon *daemon, const struct device *device, pid_t *pids,
                        size_t limit);

void device_argument_add(struct json_object *arguments, const char *text);
/* Sets a variable that is not there yet: the user's own wins. */
void device_environment_add(struct json_object *variables, const char *name, const char *value);
/* What traind-worker finds so that it sees the device alone; NULL: only the host. */
void device_environment_see(const struct device_driver *const *drivers, const struct device *device,
                            struct json_object *variables);
/* "NAME=value" of each variable, up to NULL, in one piece that the caller frees; NULL: no memory.
 */
char **device_environment_list(struct json_object *variables);
