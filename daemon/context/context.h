/* context.h: what the rooms of traind share: one loop, one configuration, one store, and a pointer
 * to the state of each room. Only the room itself uses what its pointer points to. */
#pragma once

#include "base/error.h"
#include "daemon/config/config.h"
#include "daemon/events/watches.h"
#include "daemon/store/checkpoint_purge.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <sysexits.h>
#include <uv.h>

enum daemon_mode { DAEMON_SYSTEM, DAEMON_USER };

/* The program's exit status. The last two mean that every further start would fail in the same way
 * until somebody changes something. RestartPreventExitStatus of the units and traind(8) name
 * them. */
enum daemon_exit {
    DAEMON_EXIT_STOPPED = 0,
    DAEMON_EXIT_FAILURE = 1,
    DAEMON_EXIT_USAGE = 2,
    DAEMON_EXIT_DATABASE = EX_DATAERR,
    DAEMON_EXIT_CONFIGURATION = EX_CONFIG
};

struct daemon {
    uv_loop_t *loop;
    struct config config;
    char *config_path; /* path of the main configuration file; NULL: none */
    struct old_config *old_configs;
    enum daemon_mode mode;
    char *state_directory; /* absolute; mode 0711 like its jobs/; its databases have 0600 */
    char *shim_path, *suspend_path, *worker_path; /* the programs next to traind's own; owned */
    double started;                               /* seconds since the epoch */
    struct store *store;
    struct checkpoint_purge checkpoint_purge;
    struct checkpoint_sweeps *checkpoint_sweeps;
    struct removed_folders *removed_folders;
    struct server *server;
    struct jobs *jobs;      /* owned by jobs/open.c */
    struct watches watches; /* which calls follow which jobs */
    struct host_probe *host;
    struct cores *cores; /* the CPU cores of commands */
    struct devices *devices;
    struct device_states *device_states; /* devices/device_states.c: drained and quarantined
                                          * devices */
    struct sharing_services
        *sharing_services;            /* attempts/sharing_services.c; NULL: not needed yet */
    struct warm_pool *warm_pool;      /* attempts/warm_pool.c; NULL: not configured */
    struct device_backends *backends; /* jobs/device_backends.c; NULL: not needed yet */
    int64_t job_descriptors; /* how many descriptors a process of a job may have open at first, as
                              * traind's own did when it started; 0: as traind's may now */
    const char *notes[8];    /* sentences for Ping: what traind cannot do on this machine */
    int note_count;
    struct error failure;          /* why the start failed; code 0: it did not */
    enum daemon_exit failure_exit; /* the exit status for that; 0: DAEMON_EXIT_FAILURE */
};

/* The one uv_queue_work(): `work` runs on a thread, then `after` on the loop. libuv refuses only a
 * request without `work`, which is a mistake of traind: the process is aborted with a sentence. */
void daemon_queue_work(struct daemon *daemon, uv_work_t *request, uv_work_cb work,
                       uv_after_work_cb after);

/* Ends the daemon because its start failed after the loop had begun. The first failure counts. */
void daemon_give_up(struct daemon *daemon, const struct error *error);
