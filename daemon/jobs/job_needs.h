/* job_needs.h: the part of a specification that says where its job may run and what it needs there.
 * Jobs whose specifications agree in this share one struct, because most of 100,000 waiting jobs
 * are alike. */
#pragma once

#include "daemon/devices/device.h"
#include "daemon/types/job_types.h"
#include "proto/json.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct job_needs {
    char *text; /* the JSON text that it was read from */
    struct job_needs *next_in_bucket;
    size_t references;
    struct json_object *parsed; /* owns the strings below */
    const char **allow, **deny; /* names, ids or kinds of devices */
    size_t allow_count, deny_count;
    const char *prefer, *force; /* NULL: none */
    bool fallback;              /* false: it runs only on what it prefers */
    const char *pinned;         /* the device that a user moved it to; NULL: none */
    const char *guess;          /* where it probably belongs: DEVICES_GPU or the host; NULL: none */
    const char *guess_reason;   /* what the guess rests on; NULL: not said */
    const char **avoid;         /* names of devices that failed while it ran there */
    size_t avoid_count;
    int devices;                    /* how many it uses at once, all of one type */
    int threads;                    /* 0: as many as cores are booked */
    int cores;                      /* that a command declares; 0: none */
    uint64_t memory, device_memory; /* bytes that a command declares; 0: none */
    double seconds;                 /* that a command declares; 0: none */
};

struct job_needs_table {
    struct job_needs **buckets;
    size_t bucket_count, count;
};

/* The shared needs for this text, with one more reference. NULL: no memory, or `text` is no
 * JSON. */
struct job_needs *job_needs_take(struct job_needs_table *table, const char *text);
/* The shared needs that equal `needs` but for the pin: a device's name, or NULL for none. The
 * caller drops the reference. */
struct job_needs *job_needs_pinned(struct job_needs_table *table, const struct job_needs *needs,
                                   const char *device);
/* The shared needs that equal `needs` but avoid one more device, by name. NULL: they avoid none any
 * more. The caller drops the reference. */
struct job_needs *job_needs_avoiding(struct job_needs_table *table, const struct job_needs *needs,
                                     const char *device);
void job_needs_drop(struct job_needs_table *table, struct job_needs *needs);
void job_needs_table_release(struct job_needs_table *table);

/* Whether the specification says on which device the job is to run, or how much memory it needs of
 * a device. */
bool job_needs_name_device(const struct job_needs *needs);

/* Whether the specification, the pin and the list of avoided devices let the job use the device. */
bool job_needs_allow(const struct job_needs *needs, enum job_kind kind,
                     const struct device *device);

/* The same without regard to the pin and to avoided devices. */
bool job_needs_would_allow(const struct job_needs *needs, enum job_kind kind,
                           const struct device *device);

/* Finds a name in the specification that matches no device of this machine. A kind of device counts
 * as known even if the machine has none of it, unless the job can run on nothing else. Gives the
 * key and the name. False: all names are known. */
bool job_needs_find_unknown(const struct job_needs *needs, const struct devices *devices,
                            const char **key, const char **name);

/* Whether another key excludes the only device or kind that the job can run on. Gives both keys. */
bool job_needs_find_contradiction(const struct job_needs *needs, const struct devices *devices,
                                  const char **key, const char **other);

/* The number of CPU threads that a job may use. `needs` NULL: a job that asks for no number. */
int job_needs_threads(const struct daemon *daemon, const struct job_needs *needs);
