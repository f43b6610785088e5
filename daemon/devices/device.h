/* device.h: the devices of this machine: what the probes and the configuration say of
 * each, what others hold of it, and the ledger of attempts that are on it. Everything
 * here runs on the loop. */
#pragma once

#include "base/error.h"
#include "daemon/config/config.h"
#include "daemon/devices/device_claim.h"
#include "daemon/types/device_types.h"
#include "daemon/types/job_types.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum { DEVICES_MAX = 64, DEVICE_KINDS_MAX = 16 };

/* The machine's processor: it is always there, and what is on no device runs on it. */
#define DEVICE_HOST "cpu"

struct device_driver;

struct device {
    char name[DEVICE_NAME_MAX]; /* "cpu", "cuda:0", "sim0" */
    char id[DEVICE_ID_MAX];     /* what does not change: a GPU's UUID */
    const struct device_driver *driver;
    char model[DEVICE_MODEL_MAX];
    size_t index; /* in struct devices, which never forgets one */
    int type;     /* devices of one type are equally fast */
    bool trains;  /* traind-worker has a backend for it */

    uint64_t memory_total;      /* bytes; 0: not known */
    uint64_t memory_outside;    /* bytes that others hold, as measured last */
    uint64_t measured_at;       /* uv_now() of that, 0: never */
    bool being_read;            /* on the thread pool */
    bool outside_file_is_wrong; /* what it says is no number, and that has been told */
    double high_watermark_ratio, low_watermark_ratio;
    int slots; /* jobs at once; 0: memory alone limits them; -1: so do cores, and measured use */
    const struct device_config *config;

    bool missing; /* it has vanished, or answers no more, for missing_reason */
    char missing_reason[DEVICE_REASON_MAX];
    enum device_health health;             /* device_health_update() */
    char health_reason[DEVICE_REASON_MAX]; /* "" where there is nothing to say */
    char trains_reason[DEVICE_REASON_MAX]; /* why not, "" where nobody was asked */

    /* jobs/device_faults.h */
    int faults;                         /* of different work and users, one after the other */
    char fault_digest[JOB_DIGEST_SIZE]; /* the work that the last one was of, and whose */
    uid_t fault_uid;

    /* the ledger */
    struct device_claim **claims;
    size_t claim_count, claim_capacity;
    uint64_t memory_booked; /* bytes, the sum over the claims */
    /* what attempts held that have ended since, until a reading begun after `left_at` (uv_hrtime())
     * shows what is really free */
    uint64_t memory_leaving, left_at;
    /* the native job that left it last (jobs/sharing.c): when, seconds since
     * the epoch, and whose */
    double native_left;
    uid_t native_left_uid;
    struct energy_meter energy;
    /* jobs/device_utilisation.h: of a GPU the part of the time in which it is busy, a mean of the
     * latest readings with the same jobs, below 0: none; and their sum at the last decision */
    double busy, busy_decided;
};

/* What those above are told of devices. All are set before the first device is read. */
struct daemon;
struct device;
struct device_listener {
    /* Its health, what others hold of it, or it is new. */
    void (*changed)(struct daemon *daemon, struct device *device);
    /* It was busy for such a part of the time since the last reading. */
    void (*used)(struct daemon *daemon, struct device *device, double busy);
    /* All of them were read once more. */
    void (*read)(struct daemon *daemon);
    /* What others hold has been measured, see devices_measure(). */
    void (*measured)(struct daemon *daemon);
    /* Processes of ours that hold memory of devices for a moment, at most `limit`; how many there
     * are. */
    size_t (*passing_pids)(const struct daemon *daemon, pid_t *pids, size_t limit);
};

struct devices {
    const struct device_listener *listener;
    const struct device_driver *const *drivers; /* up to NULL */
    void *states[DEVICE_KINDS_MAX];             /* device_driver_state() */
    size_t started;                             /* drivers that have been asked to */
    void (*ready)(struct daemon *daemon);
    bool stopping;                    /* the claims go with the jobs */
    struct device *list[DEVICES_MAX]; /* owned */
    size_t count;
    char type_names[DEVICE_TYPES_MAX][DEVICE_TYPE_NAME_MAX];
    int type_count;
};

/* Frees the table; driver.h opens it. */
void devices_close(struct devices *devices);

/* One more, all zero but for its name, kind and model, from which its type follows; its section of
 * the configuration is applied. NULL with a sentence when there are too many. */
struct device *devices_add(struct devices *devices, const struct config *config, const char *name,
                           const struct device_driver *driver, const char *model,
                           struct error *error);

/* Whether the section makes a device by itself; the same for such a one. */
bool device_section_makes_device(const struct device_config *section);
struct device *devices_add_section(struct devices *devices, const struct config *config,
                                   const struct device_config *section, struct error *error);
/* Applies the configuration to a device, again once that has changed. */
void devices_configure(struct devices *devices, struct device *device, const struct config *config);

/* By name or id; NULL: none. */
struct device *devices_find(const struct devices *devices, const char *name);

/* "cuda:0, cuda:1" of several devices, "cpu" where there is none, cut to `size`. Returns `text`. */
char *devices_name(const struct device *const *list, int count, char *text, size_t size);
/* The devices of such a text, at most `limit`; those that are not there any more are left out. */
int devices_parse(const struct devices *devices, const char *text, struct device **list, int limit);

/* Whether `pattern` of a specification means the device: its name, its id, its kind, DEVICES_GPU or
 * DEVICES_ANY. */
bool device_matches(const struct device *device, const char *pattern);

/* Bytes that all jobs together may hold on it, what others hold set aside; UINT64_MAX: no limit. */
uint64_t device_memory_limit(const struct device *device);
/* Whether our jobs have booked more than that, as others were measured last. */
bool device_is_over_limit(const struct device *device);

/* Counts an attempt in and out. -ENOMEM. */
int device_book(struct device *device, struct device_claim *claim, uint64_t memory);
void device_unbook(struct device *device, struct device_claim *claim, uint64_t memory);
