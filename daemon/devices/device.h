/* device.h: the devices of this machine. For each there are the facts from its probe and the
 * configuration, the memory that other programs hold, and the ledger of the attempts that run on
 * it. Everything here runs on the loop. */
#pragma once

#include "base/error.h"
#include "daemon/config/config.h"
#include "daemon/devices/device_claim.h"
#include "daemon/types/device_types.h"
#include "daemon/types/job_types.h"
#include "proto/device_host.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum { DEVICES_MAX = 64, DEVICE_KINDS_MAX = 16 };

struct device_driver;

struct device {
    char name[DEVICE_NAME_MAX]; /* "cpu", "cuda:0", "sim0" */
    char id[DEVICE_ID_MAX];     /* stable name: a GPU's UUID */
    const struct device_driver *driver;
    char model[DEVICE_MODEL_MAX];
    size_t index; /* in struct devices, which never drops a device */
    int type;     /* devices of one type are equally fast */
    bool trains;  /* traind-worker has a backend for it */

    uint64_t memory_total;      /* bytes; 0: not known */
    uint64_t memory_outside;    /* bytes that other programs hold, as last measured */
    uint64_t measured_at;       /* uv_now() of that measurement; 0: never */
    bool being_read;            /* a measurement runs on the thread pool */
    bool outside_file_is_wrong; /* the file holds no number, which was logged */
    double high_watermark_ratio, low_watermark_ratio;
    int slots; /* jobs at once; 0: only memory limits them; -1: memory, cores and measured use limit
                * them */
    const struct device_config *config;

    bool missing; /* it has vanished or no longer answers; missing_reason says why */
    char missing_reason[DEVICE_REASON_MAX];
    enum device_health health;             /* device_health_update() */
    char health_reason[DEVICE_REASON_MAX]; /* "": none */
    char trains_reason[DEVICE_REASON_MAX]; /* why `trains` is false; "": not determined */

    /* jobs/device_faults.h */
    int faults;                         /* consecutive faults of different work and users */
    char fault_digest[JOB_DIGEST_SIZE]; /* the work that had the last fault, and its user */
    uid_t fault_uid;

    /* the ledger */
    struct device_claim **claims;
    size_t claim_count, claim_capacity;
    uint64_t memory_booked; /* bytes, the sum over the claims */
    /* device_share_ledger(): the device in whose memory its jobs are (NULL: its own), and those
     * whose jobs are in its memory */
    struct device *ledger, *sharers, *next_sharer;
    bool same_hardware; /* it is another way to the GPU of its ledger */
    /* what ended attempts held. Starts wait for it until a reading that begins after `left_at`
     * (uv_hrtime()) shows what is really free */
    uint64_t memory_leaving, left_at;
    /* the native job that left it last (jobs/sharing.c): when, in seconds since the epoch, and its
     * user */
    double native_left;
    uid_t native_left_uid;
    struct energy_meter energy;
    /* jobs/device_utilisation.h: the part of the time in which a GPU is busy, a mean of the latest
     * readings with the same jobs (below 0: none); and the value of the last decision */
    double busy, busy_decided;
};

/* The callbacks by which the rooms above learn of devices. All are set before the first device is
 * read. */
struct daemon;
struct device;
struct device_listener {
    /* The device is new, or its health or the memory that others hold has changed. */
    void (*changed)(struct daemon *daemon, struct device *device);
    /* The device was busy for this part of the time since the last reading. */
    void (*used)(struct daemon *daemon, struct device *device, double busy);
    /* All devices were read once more. */
    void (*read)(struct daemon *daemon);
    /* The memory that others hold has been measured, see devices_measure(). */
    void (*measured)(struct daemon *daemon);
    /* The claim is on other devices, and its processes hold so many bytes of this one. */
    void (*strayed)(struct daemon *daemon, struct device *device, struct device_claim *claim,
                    uint64_t held);
    /* Lists the daemon's own processes that hold memory of devices for a moment, at most `limit`.
     * Returns how many there are. */
    size_t (*passing_pids)(const struct daemon *daemon, pid_t *pids, size_t limit);
};

struct devices {
    const struct device_listener *listener;
    const struct device_driver *const *drivers; /* the last one is NULL */
    void *states[DEVICE_KINDS_MAX];             /* device_driver_state() */
    size_t started;                             /* how many drivers were started */
    void (*ready)(struct daemon *daemon);
    bool stopping;                    /* the daemon ends: attempts leave that go on */
    struct device *list[DEVICES_MAX]; /* owned */
    size_t count;
    char type_names[DEVICE_TYPES_MAX][DEVICE_TYPE_NAME_MAX];
    int type_count;
};

/* Frees the table; driver.h opens it. */
void devices_close(struct devices *devices);

/* Adds a device. Everything is zero except its name, driver, model and the type that follows from
 * these, and what its section of the configuration sets. NULL with a sentence if there are too
 * many. */
struct device *devices_add(struct devices *devices, const struct config *config, const char *name,
                           const struct device_driver *driver, const char *model,
                           struct error *error);

/* Whether the section creates a device; and adds such a device. */
bool device_section_makes_device(const struct device_config *section);
struct device *devices_add_section(struct devices *devices, const struct config *config,
                                   const struct device_config *section, struct error *error);
/* Applies the configuration to a device, also after a change of the configuration. */
void devices_configure(struct devices *devices, struct device *device, const struct config *config);

/* Finds a device by its name or id; NULL: none. */
struct device *devices_find(const struct devices *devices, const char *name);

/* Writes the names of the devices, like "cuda:0, cuda:1", or "cpu" if there is none, cut to `size`.
 * Returns `text`. */
char *devices_name(const struct device *const *list, int count, char *text, size_t size);
/* Parses such a text, at most `limit` devices. Devices that no longer exist are left out. Returns
 * how many. */
int devices_parse(const struct devices *devices, const char *text, struct device **list, int limit);

/* Whether `pattern` of a specification matches the device: its name, its id, its kind, DEVICES_GPU
 * or DEVICES_ANY. */
bool device_matches(const struct device *device, const char *pattern);
bool device_matches_any(const struct device *device, const char *const *patterns, size_t count);

/* Has the jobs of the device in the memory of `ledger`, for good: an integrated GPU has its memory
 * with the CPU. `same_hardware`: both are ways to one GPU, so its time is shared, too. */
void device_share_ledger(struct device *device, struct device *ledger, bool same_hardware);
/* The device in whose memory its jobs are: mostly itself. */
struct device *device_ledger(const struct device *device);
/* Whether its jobs are in the machine's memory, although it is not the CPU. */
bool device_uses_host_memory(const struct device *device);
/* The health that counts: a way to a GPU is as bad as the GPU itself. */
enum device_health device_health_of_hardware(const struct device *device);
/* Whether jobs are on the device, by any way to it. */
bool device_is_in_use(const struct device *device);
/* Whether jobs are on the same GPU by another way. */
bool device_is_in_use_otherwise(const struct device *device);
/* Bytes that jobs have booked in the memory of the device, on whichever devices. */
uint64_t device_ledger_booked(const struct device *device);
/* Bytes that further jobs may book; UINT64_MAX: no limit. */
uint64_t device_memory_free(const struct device *device);

/* Bytes that all jobs together may hold on the device, after what others hold is subtracted;
 * UINT64_MAX: no limit. */
uint64_t device_memory_limit(const struct device *device);
/* Bytes that all jobs together may ever hold on the device, whatever others hold, by its own limit
 * and that of its ledger; 0: no limit. */
double device_memory_most(const struct device *device);
/* Bytes that a job which is alone on the device may book: the most, without a little that drivers
 * and displays hold; UINT64_MAX: no limit. */
uint64_t device_memory_alone(const struct device *device);
/* Whether the jobs have booked more than that limit, by the last measurement of the others. Those
 * on devices that share its memory count. False while the device is not measured. */
bool device_is_over_limit(const struct device *device);
/* Whether attempts of an earlier daemon run there whose memory no reading has told from that of
 * others yet. */
bool device_is_unmeasured(const struct device *device);
/* A reading has told it, of all claims or of those whose process is known. Returns whether all are
 * measured now, and were not before. */
bool device_claims_measured(struct device *device, bool by_process);

/* Whether the device or the one in whose memory its jobs are is over its limit. */
bool device_or_ledger_is_over_limit(const struct device *device);

/* Adds an attempt to the ledger and removes it. -ENOMEM. */
int device_book(struct device *device, struct device_claim *claim, uint64_t memory);
void device_unbook(struct device *device, struct device_claim *claim, uint64_t memory);
/* The claim's attempt holds so many bytes of its only device. If that is more than it has booked,
 * the booking grows, but no further than what a job may book that is alone there: it disturbs
 * nobody before there is another one. */
void device_raise_booking(struct device *device, struct device_claim *claim, uint64_t held);
