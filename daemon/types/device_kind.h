/* device_kind.h: the properties in which kinds of devices differ, as data. Each driver in
 * daemon/devices/ has one kind (daemon/devices/driver.h). Code that decides where a job runs checks
 * these properties, never which kind it is. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

/* How the devices of a kind get their names, and so what a section [Device NAME] means. */
enum device_naming {
    DEVICE_NAMED_AS_KIND,   /* there is one device, named as the kind: "cpu" */
    DEVICE_NAMED_BY_NUMBER, /* numbered in the order in which they are found: "cuda:0" */
    DEVICE_NAMED_BY_SECTION /* a section of that name, with Kind, makes the device */
};

struct device_kind {
    const char *name; /* used in specifications, in the configuration and on the wire */
    enum device_naming naming;
    bool is_host;         /* the machine's own processor, which uses the machine's memory */
    bool only_by_name;    /* a command runs there only if it names the kind or device */
    bool for_native_jobs; /* a command has to name the kind or device itself: no word for several
                           * kinds and no need of memory means it */
    bool has_backend;     /* traind-worker has a separate backend for it. It reports whether native
                        * jobs can train there, calibrates each type, and plans for it in addition
                        * to the host */
    bool takes_turns;     /* jobs on one device share its time, so each of them slows down */
    bool reports_faults; /* an error that a trainee reports of it says something about the device */
};

/* The kind with that index in the registry; NULL behind the last one. */
typedef const struct device_kind *device_kind_at(size_t index);

/* Finds the kind with that name; NULL: there is none. */
static inline const struct device_kind *device_kind_find(device_kind_at *kind_at, const char *name)
{
    const struct device_kind *kind;

    for (size_t i = 0; (kind = kind_at(i)); i++)
        if (strcmp(kind->name, name) == 0)
            return kind;
    return NULL;
}
