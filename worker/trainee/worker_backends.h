/* worker_backends.h: the kinds of devices that traind-worker opens: a line for each in
 * worker_backends.c. CONTRIBUTING.md, "Add a kind of device". */
#pragma once

#include "base/error.h"
#include "engine/backends/backend.h"
#include "worker/trainee/worker_options.h"

#include <stdbool.h>
#include <stddef.h>

struct worker_simulation;

/* How the devices of a kind are named. */
enum worker_naming {
    WORKER_NAMED_AS_KIND,   /* there is one, which has the kind's name */
    WORKER_NAMED_BY_NUMBER, /* KIND:0, KIND:1; KIND alone is the first */
    WORKER_NAMED_BY_CONFIG  /* as --device says; --device-config says what it is */
};

struct worker_backend {
    const char *kind;
    enum worker_naming naming;
    /* Its backend, which is part of this program; NULL: the plugin lib/traind-KIND.so. */
    const struct backend *(*builtin)(void);
    /* The variable of the environment by which the daemon, or whoever starts this process, names
     * the devices that it sees: KIND:N is then the first of these. NULL: it sees all. */
    const char *visible;
    /* Whether its devices are opened only where their names are given: lists of all devices, which
     * `verify` and the daemon go through, leave them out. */
    bool only_by_name;
    /* Of WORKER_NAMED_BY_CONFIG: reads --device-config. `simulation` outlives the device. */
    int (*configure)(const struct worker_options *options, const char *name, int threads,
                     struct worker_simulation *simulation, struct backend_device_config *config,
                     struct error *error);
};

/* The first is the machine's own processor, which "auto" means. */
extern const struct worker_backend worker_backends[];
extern const size_t worker_backend_count;

/* That of the device of this name, or of --device-config; NULL: there is none. */
const struct worker_backend *worker_backend_find(const struct worker_options *options,
                                                 const char *name);
/* What the backend calls the device of this name: 0 where this process sees the one that is meant
 * alone. */
int worker_backend_index(const struct worker_backend *backend, const char *name);
/* Has this process see nothing but the device of that name, whose stable name is `id`. It is read
 * once in a process. */
void worker_backend_see(const char *name, const char *id);
/* The backend itself. Of a plugin, unless `plugin` is NULL, that file. -ENOENT,
 * -ERROR_OTHER_VERSION. */
int worker_backend_load(const struct worker_backend *backend, const char *plugin,
                        const struct backend **loaded, struct error *error);
