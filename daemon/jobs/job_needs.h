/* job_needs.h: what a specification says of where its job may run and what it takes there. Jobs
 * whose specifications say the same share one: of 100,000 that wait, most are alike. */
#pragma once

#include "daemon/devices/device.h"
#include "daemon/types/job_types.h"
#include "proto/json.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct job_needs {
    char *text; /* what it was read from */
    struct job_needs *next_in_bucket;
    size_t references;
    struct json_object *parsed; /* owns the strings below */
    const char **allow, **deny; /* names, ids or kinds of devices */
    size_t allow_count, deny_count;
    const char *prefer, *force; /* NULL: none */
    bool fallback;              /* false: it runs on what it prefers and nowhere else */
    const char *pinned;         /* the device that it was moved to, NULL: none */
    const char **avoid;         /* names of devices that failed under it */
    size_t avoid_count;
    int devices;                    /* at once, of one kind */
    int threads;                    /* 0: as many as the cores booked */
    int cores;                      /* of a command, as declared; 0: not */
    uint64_t memory, device_memory; /* of a command, as declared; 0: not */
    double seconds;                 /* likewise */
};

struct job_needs_table {
    struct job_needs **buckets;
    size_t bucket_count, count;
};

/* The shared one for such a text; one more reference. NULL: no memory, or no JSON. */
struct job_needs *job_needs_take(struct job_needs_table *table, const char *text);
/* The shared one that differs from `needs` in its pin, a device's name or NULL. */
struct job_needs *job_needs_pinned(struct job_needs_table *table, const struct job_needs *needs,
                                   const char *device);
/* The shared one that avoids a further device by name; NULL: none any more. */
struct job_needs *job_needs_avoiding(struct job_needs_table *table, const struct job_needs *needs,
                                     const char *device);
void job_needs_drop(struct job_needs_table *table, struct job_needs *needs);
void job_needs_table_release(struct job_needs_table *table);

/* Whether the specification says what kind of device it wants, or what it takes of one. */
bool job_needs_name_device(const struct job_needs *needs);

/* Whether the job may use the device, from its specification and its pin alone. */
bool job_needs_allow(const struct job_needs *needs, enum job_kind kind,
                     const struct device *device);

/* The same without regard to its pin and to what it avoids. */
bool job_needs_would_allow(const struct job_needs *needs, enum job_kind kind,
                           const struct device *device);

/* A name in the specification that no device of this machine has and that is no kind of device, or
 * a kind of which it has none where the job can run on nothing else: its key and itself. False:
 * there is none. */
bool job_needs_find_unknown(const struct job_needs *needs, const struct devices *devices,
                            const char **key, const char **name);

/* Whether the one device or kind that the job can run on is excluded by another key: both keys. */
bool job_needs_find_contradiction(const struct job_needs *needs, const struct devices *devices,
                                  const char **key, const char **other);

/* Threads that one job may use on the CPU; NULL: one that asks for none. */
int job_needs_threads(const struct daemon *daemon, const struct job_needs *needs);
