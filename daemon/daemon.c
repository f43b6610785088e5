/* daemon.c: runs traind from its start to its end. Opens the parts in order, runs the loop until a
 * signal, and closes the parts in the opposite order. Running jobs go on without it. */
#include "daemon/daemon.h"

#include "base/clock.h"
#include "base/log.h"
#include "daemon/attempts/checkpoint_sweep.h"
#include "daemon/attempts/removed_folders.h"
#include "daemon/attempts/sharing_services.h"
#include "daemon/attempts/warm_pool.h"
#include "daemon/devices/cores.h"
#include "daemon/devices/device_states.h"
#include "daemon/devices/host_probe.h"
#include "daemon/devices/registry/registry.h"
#include "daemon/folder/job_cgroup.h"
#include "daemon/jobs/device_backends.h"
#include "daemon/jobs/jobs.h"
#include "daemon/methods/table.h"
#include "daemon/server/server.h"
#include "daemon/service_manager.h"
#include "daemon/store/store.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

static void note(struct daemon *daemon, const char *sentence)
{
    if (daemon->note_count < (int)(sizeof daemon->notes / sizeof *daemon->notes))
        daemon->notes[daemon->note_count++] = sentence;
    log_info("%s", sentence);
}

/* ---- descriptors ----------------------------------------------------------------------------- */

/* A running job costs four descriptors here and one in the fork server, and a suspended one keeps
 * them. The usual limit, 1024, would leave room for 200 jobs, and then for no call any more. */
static void raise_descriptor_limit(struct daemon *daemon)
{
    enum { WANTED = 65536 };
    struct rlimit limit;
    rlim_t before;

    if (getrlimit(RLIMIT_NOFILE, &limit) < 0 || limit.rlim_cur >= WANTED)
        return;
    before = limit.rlim_cur;
    limit.rlim_cur = limit.rlim_max < WANTED ? limit.rlim_max : WANTED;
    if (setrlimit(RLIMIT_NOFILE, &limit) < 0)
        log_warning("the limit of open files stays %llu: %s", (unsigned long long)before,
                    strerror(errno));
    else
        daemon->job_descriptors = (int64_t)before;
}

/* ---- signals --------------------------------------------------------------------------------- */

static const int stop_signals[] = {SIGTERM, SIGINT};
enum { STOP_SIGNALS = sizeof stop_signals / sizeof *stop_signals };

static void on_stop_signal(uv_signal_t *handle, int number)
{
    struct daemon *daemon = handle->data;

    log_info("stopping on signal %d; running jobs go on", number);
    uv_signal_stop(handle); /* a second such signal ends the process at once */
    uv_stop(daemon->loop);
}

/* SIGHUP from a closed terminal ends the daemon; otherwise it reloads the devices. */
static void on_hangup(uv_signal_t *handle, int number)
{
    if (isatty(STDIN_FILENO))
        on_stop_signal(handle, number);
    else
        devices_reload(handle->data);
}

/* `opened` counts the handles that are to be closed, after a failure too. */
static int start_signals(struct daemon *daemon, uv_signal_t handles[STOP_SIGNALS + 1], int *opened,
                         struct error *error)
{
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN); /* exceeding a file size limit is an ordinary error of write(2) */
    /* The kernel reaps each process that the daemon starts: shims tell their end over their
     * sockets, workers by that of their output. */
    signal(SIGCHLD, SIG_IGN);
    for (int i = 0; i <= STOP_SIGNALS; i++) {
        int number = i < STOP_SIGNALS ? stop_signals[i] : SIGHUP;
        int result = uv_signal_init(daemon->loop, &handles[i]);

        if (result == 0) {
            *opened = i + 1;
            handles[i].data = daemon;
            result =
                uv_signal_start(&handles[i], i < STOP_SIGNALS ? on_stop_signal : on_hangup, number);
        }
        if (result < 0)
            return error_set(error, result, "cannot wait for signals: %s", uv_strerror(result));
    }
    return 0;
}

/* ---- beginning and end ----------------------------------------------------------------------- */

static void on_jobs_ready(struct daemon *daemon)
{
    struct error error = {0};
    char status[192];
    int result = server_listen(daemon, &error);

    if (result < 0) {
        daemon_give_up(daemon, &error);
        return;
    }
    snprintf(status, sizeof status, "Serving on %d core%s of %s", daemon->host->threads,
             daemon->host->threads == 1 ? "" : "s", daemon->host->model);
    service_manager_ready(daemon->loop, status);
    log_info("traind " TRAIND_VERSION " is ready: %s", status);
}

static void on_devices_ready(struct daemon *daemon)
{
    struct error error = {0};

    if (jobs_start(daemon, on_jobs_ready, &error) < 0)
        daemon_give_up(daemon, &error);
}

/* Starts the devices before the jobs, because recovered attempts refer to them. */
static void on_states_loaded(void *data, int result, const struct error *reason)
{
    struct daemon *daemon = data;
    struct error error = {0};

    if (result < 0)
        daemon_give_up(daemon, reason);
    else if (devices_start(daemon, on_devices_ready, &error) < 0)
        daemon_give_up(daemon, &error);
}

static int open_parts(struct daemon *daemon, const struct server_options *options,
                      struct error *error)
{
    int result = host_probe_read("", daemon->host, error);
    const char *shortcoming;

    cores_init(daemon->cores);
    if (result < 0)
        return result;
    shortcoming = job_cgroup_shortcoming();
    if (shortcoming)
        note(daemon, shortcoming);
    /* the socket first: opening it shows whether another daemon serves there before anything is
     * changed */
    result = server_open(daemon, &method_table, options, error);
    if (result == 0)
        result = devices_open(daemon, error);
    if (result == 0)
        result = store_open(daemon->loop, daemon->state_directory, service_manager_still_starting,
                            &daemon->store, error);
    daemon->checkpoint_purge.store = daemon->store;
    if (result == -ERROR_DAMAGED || result == -ERROR_OTHER_VERSION)
        daemon->failure_exit = DAEMON_EXIT_DATABASE;
    if (result == 0)
        device_states_load(daemon, on_states_loaded, daemon);
    return result;
}

/* Finishes what callers were promised: calls under way are answered once their changes are
 * durable. */
static void finish_calls(struct daemon *daemon)
{
    while (server_calls_in_flight(daemon) > 0 || store_pending(daemon->store) > 0)
        uv_run(daemon->loop, UV_RUN_ONCE);
}

/* The parts that the context points at and that no room allocates itself. */
struct parts {
    struct host_probe host;
    struct cores cores;
    struct devices devices;
    struct checkpoint_sweeps checkpoint_sweeps;
    struct removed_folders removed_folders;
};

static void take_parts(struct daemon *daemon, struct parts *parts)
{
    daemon->host = &parts->host;
    daemon->cores = &parts->cores;
    daemon->devices = &parts->devices;
    daemon->devices->drivers = device_registry;
    daemon->devices->listener = &jobs_device_listener;
    daemon->checkpoint_sweeps = &parts->checkpoint_sweeps;
    daemon->removed_folders = &parts->removed_folders;
}

int daemon_run(struct daemon *daemon, const struct server_options *options, struct error *error)
{
    struct parts parts = {0};
    uv_loop_t loop;
    uv_signal_t signals[STOP_SIGNALS + 1];
    int result = uv_loop_init(&loop), signals_opened = 0;

    if (result < 0)
        return error_set(error, result, "cannot start the event loop: %s", uv_strerror(result));
    daemon->loop = &loop;
    take_parts(daemon, &parts);
    daemon->started = clock_now();
    raise_descriptor_limit(daemon);
    result = start_signals(daemon, signals, &signals_opened, error);
    if (result == 0)
        result = open_parts(daemon, options, error);
    if (result == 0)
        uv_run(&loop, UV_RUN_DEFAULT);

    service_manager_stopping();
    server_stop(daemon);
    device_backends_stop(daemon);
    warm_pool_stop(daemon);
    sharing_services_stop(daemon);
    jobs_stop(daemon);
    if (daemon->store)
        finish_calls(daemon);
    server_close_connections(daemon);
    devices_stop(daemon);
    store_close(daemon->store);
    for (int i = 0; i < signals_opened; i++)
        uv_close((uv_handle_t *)&signals[i], NULL);
    uv_run(&loop, UV_RUN_DEFAULT); /* the close callbacks */
    jobs_free(daemon);
    device_states_free(daemon);
    free(daemon->backends);
    free(daemon->warm_pool);
    sharing_services_free(daemon);
    devices_close(daemon->devices);
    devices_reload_release(daemon);
    server_free(daemon);
    uv_loop_close(&loop);
    if (result == 0 && daemon->failure.code < 0) {
        *error = daemon->failure;
        result = error->code;
    }
    return result;
}
