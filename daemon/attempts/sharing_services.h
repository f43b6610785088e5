/* sharing_services.h: native jobs of one user that share a device do it through the service of its
 * kind, where the kind has one (struct device_sharing) and its control program is installed: their
 * kernels run side by side, those of other processes take turns. A service is of one user, and an
 * error of one of its clients may end all of them; so there is one for each user and device,
 * started when a second job of the user comes there, as that user, by a shim of its own, which
 * runs a command of traind-worker. It ends by itself once nobody has used it for a while, or its
 * device's jobs are gone when the daemon ends; while jobs use it, it outlives the daemon as they
 * do, and the next daemon starts another one. Commands are no clients: nobody knows how they bear
 * each other's errors.
 *
 * Its folder is an attempt's of job 0, and holds its log. Where a service does not come to life or
 * breaks down, jobs take turns for SHARING_PAUSE_SECONDS. Everything here runs on the loop, but for
 * the start of a process, which the thread pool does. */
#pragma once

#include "daemon/context/context.h"

#include <limits.h>

enum {
    SHARING_PAUSE_SECONDS = 600,
    /* A service that nobody has used for so long is given no client any more: it ends after 30 s
     * (traind-worker), and a client takes a while until it is there. */
    SHARING_TAKES_SECONDS = 20
};

struct sharing_order {
    struct daemon *daemon;
    const struct device *device;
    uid_t uid;
    const char *shim_path, *worker_path; /* live as long as the daemon */
    int64_t tasks_max, oom_score_adjust;
};

/* Whether jobs of the user may share the device so: the program is there, the device takes more
 * than one job, and no service has failed of late. */
bool sharing_service_is_offered(struct daemon *daemon, const struct device *device, uid_t uid);

/* Whether there is one that takes clients. */
bool sharing_service_is_running(const struct daemon *daemon, const struct device *device,
                                uid_t uid);

/* The folder of the service, which is started unless there is one, which its clients
 * are told. Its number, attempt->claim.sharing_service of theirs; 0: it cannot be started. */
int64_t sharing_service_join(const struct sharing_order *order, char folder[PATH_MAX]);

/* A client of the service of that number, which may be 0, has ended. */
void sharing_service_part(struct daemon *daemon, int64_t number);

/* Folders of services that an earlier daemon left and that have ended. */
struct sharing_leftovers;

/* At the start, on a storage thread: the caller owns what is found, NULL where there are none. */
void sharing_leftovers_find(const char *state_directory, struct sharing_leftovers **found);
void sharing_leftovers_free(struct sharing_leftovers *leftovers);
/* Takes them over and removes one after the other on the thread pool, when the jobs are there: they
 * are their users', who may make that long. */
void sharing_leftovers_remove(struct daemon *daemon, struct sharing_leftovers *leftovers);

/* At the end, while the jobs' attempts are still known: services that no job uses are ended. */
void sharing_services_stop(struct daemon *daemon);
void sharing_services_free(struct daemon *daemon);
