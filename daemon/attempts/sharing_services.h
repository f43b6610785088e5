/* sharing_services.h: services through which native jobs of one user share a device. A kind of
 * device may have such a service (struct device_sharing), which needs an installed control program.
 * Kernels of its clients run side by side; kernels of other processes take turns.
 *
 * A service serves one user, and an error of one client may end all clients. So each user has a
 * service of their own on each device. It starts with the first job that has company there or
 * expects it. A shim of its own runs it as that user, by a command of traind-worker. It ends when
 * it has been unused for a while. When the daemon ends, it ends services that no job uses. Other
 * services outlive the daemon as their jobs do, and the next daemon starts new ones. Commands are
 * never clients, because it is unknown how they react to each other's errors. A service's folder is
 * that of an attempt of job 0, and holds its log. If a service does not start or breaks down, jobs
 * take turns for SHARING_PAUSE_SECONDS. Everything here runs on the loop, except the start of a
 * process, which the thread pool does. */
#pragma once

#include "daemon/context/context.h"

enum {
    SHARING_PAUSE_SECONDS = 600,
    /* A service that has been unused for this long gets no more clients. traind-worker ends it
     * after 30 s, and a new client takes a while to connect. */
    SHARING_TAKES_SECONDS = 20
};

struct sharing_order {
    struct daemon *daemon;
    const struct device *device;
    uid_t uid;
    const char *shim_path, *worker_path; /* live as long as the daemon */
    int64_t tasks_max, oom_score_adjust;
};

/* Whether jobs of the user may share the device through a service: the control program is
 * installed, the device takes more than one job, and no service has failed recently. */
bool sharing_service_is_offered(struct daemon *daemon, const struct device *device, uid_t uid);

/* Whether the user has a service on the device that takes clients. */
bool sharing_service_is_running(const struct daemon *daemon, const struct device *device,
                                uid_t uid);

/* Adds a client to the user's service on the device, which is started if needed. `*folder` receives
 * the folder that the client is told; the caller frees it. Returns the service's number for
 * attempt->claim.sharing_service of the client; 0: the service cannot be started. */
int64_t sharing_service_join(const struct sharing_order *order, char **folder);

/* A client of the service with that number has ended; does nothing for number 0. */
void sharing_service_part(struct daemon *daemon, int64_t number);

/* When the daemon ends, while the jobs' attempts are still known: ends the services that no job
 * uses. */
void sharing_services_stop(struct daemon *daemon);
/* Whether sharing_services_stop() was called. Makes the services' state if there is none, so that a
 * later stop is known, too. */
bool sharing_services_are_stopped(struct daemon *daemon);
void sharing_services_free(struct daemon *daemon);
