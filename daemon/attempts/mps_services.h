/* mps_services.h: native jobs of one user that share a GPU do it through NVIDIA's Multi-Process
 * Service, where its control program is installed ([Nvidia] MpsControl): their kernels run side by
 * side, those of other processes take turns. An MPS server is of one user, and an error of one of
 * its clients ends all of them; so there is a service for each user and GPU, started when a second
 * job of the user comes there, as that user, by a shim of its own: `traind-worker mps`
 * (worker/trainee/worker_mps.h). It ends by itself once nobody has used it for a while, or its
 * GPU's jobs are gone when the daemon ends; while jobs use it, it outlives the daemon as they do,
 * and the next daemon starts another one. Commands are no clients: nobody knows how they bear each
 * other's errors.
 *
 * Its folder is an attempt's of job 0, and holds its log. Where a service does not come to life or
 * breaks down, jobs take turns for MPS_PAUSE_SECONDS. Everything here runs on the loop, but for the
 * start of a process, which the thread pool does. */
#pragma once

#include "daemon/context/context.h"

#include <limits.h>

enum {
    MPS_PAUSE_SECONDS = 600,
    /* A service that nobody has used for so long is given no client any more: it ends after 30 s
     * (worker/trainee/worker_mps_service.c), and a client takes a while until it is there. */
    MPS_TAKES_SECONDS = 20
};

struct mps_order {
    struct daemon *daemon;
    const struct device *device;
    uid_t uid;
    const char *shim_path, *worker_path; /* live as long as the daemon */
    int64_t tasks_max, oom_score_adjust;
};

/* Whether jobs of the user may share the device so: the program is there, the device takes more
 * than one job, and no service has failed of late. */
bool mps_is_offered(struct daemon *daemon, const struct device *device, uid_t uid);

/* Whether there is one that takes clients. */
bool mps_is_running(const struct daemon *daemon, const struct device *device, uid_t uid);

/* The folder of the service, which is started unless there is one: CUDA_MPS_PIPE_DIRECTORY of its
 * clients. Its number, attempt->claim.mps_service of theirs; 0: it cannot be started. */
int64_t mps_join(const struct mps_order *order, char folder[PATH_MAX]);

/* A client of the service of that number, which may be 0, has ended. */
void mps_part(struct daemon *daemon, int64_t number);

/* Folders of services that an earlier daemon left and that have ended. */
struct mps_leftovers;

/* At the start, on a storage thread: the caller owns what is found, NULL where there are none. */
void mps_leftovers_find(const char *state_directory, struct mps_leftovers **found);
void mps_leftovers_free(struct mps_leftovers *leftovers);
/* Takes them over and removes one after the other on the thread pool, when the jobs are there: they
 * are their users', who may make that long. */
void mps_leftovers_remove(struct daemon *daemon, struct mps_leftovers *leftovers);

/* At the end, while the jobs' attempts are still known: services that no job uses are ended. */
void mps_services_stop(struct daemon *daemon);
void mps_services_free(struct daemon *daemon);
