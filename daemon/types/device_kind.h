/* device_kind.h: what distinguishes one kind of device from another, as data. Each driver in
 * daemon/devices/ has one (daemon/devices/driver.h); who decides where a job runs asks these
 * questions and never which kind it is. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

/* How the devices of a kind are named, and so what a section [Device NAME] means. */
enum device_naming {
    DEVICE_NAMED_AS_KIND,   /* there is one, which has the kind's name: "cpu" */
    DEVICE_NAMED_BY_NUMBER, /* as they are found: "cuda:0" */
    DEVICE_NAMED_BY_SECTION /* they exist because a section of that name says so, with Kind */
};

struct device_kind {
    const char *name; /* in specifications, in the configuration and on the wire */
    enum device_naming naming;
    bool is_host;      /* the machine's own processor, whose memory is the machine's */
    bool only_by_name; /* commands come there only if they name it */
    bool has_backend;  /* traind-worker has a backend apart for it: it is asked whether native jobs
                          train there, calibrates each type, and plans for it beside the host */
    bool takes_turns;  /* jobs on one share its time, so that each is slowed down */
    bool reports_faults; /* errors that a trainee tells of it say something of the device */
};

/* The kind of that index in the registry, NULL after the last one. */
typedef const struct device_kind *device_kind_at(size_t index);

/* NULL: there is none of that name. */
static inline const struct device_kind *device_kind_find(device_kind_at *kind_at, const char *name)
{
    const struct device_kind *kind;

    for (size_t i = 0; (kind = kind_at(i)); i++)
        if (strcmp(kind->name, name) == 0)
            return kind;
    return NULL;
}
