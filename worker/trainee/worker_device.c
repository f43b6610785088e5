/* worker_device.c: see worker_device.h. */
#include "worker/trainee/worker_device.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "worker/trainee/worker_backends.h"
#include "worker/trainee/worker_kept.h"
#include "worker/trainee/worker_mps.h"
#include "worker/trainee/worker_signals.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Adds a part of the opening's time after those that the backend reports. */
static void add_opening_part(struct backend_device_info *info, const char *part, double seconds)
{
    for (int i = 0; i < BACKEND_OPENING_PARTS; i++) {
        if (info->opening[i].part)
            continue;
        info->opening[i] = (struct device_opening){part, seconds};
        return;
    }
}

int worker_device_open(const struct worker_options *options, const char *name, int threads,
                       struct worker_simulation *simulation, struct worker_device *opened,
                       struct error *error)
{
    struct backend_device_config config = {.threads = threads,
                                           .emulate_precision = options->emulate_precision};
    const struct worker_backend *backend;
    double begin = clock_monotonic(), plugin = 0;
    char kept[PATH_MAX];
    int r = 0;

    if (options->warm) {
        *opened = *options->warm;
        memset(opened->info.opening, 0, sizeof opened->info.opening);
        return opened->backend->device_enter
                   ? opened->backend->device_enter(opened->device,
                                                   worker_kept_folder(kept) ? kept : NULL, error)
                   : 0;
    }
    backend = worker_backend_find(options, name);
    if (!backend)
        return error_set(error, -ENODEV, "this machine has no device \"%s\"; it has: %s", name,
                         worker_backends[0].kind);
    config.index = worker_backend_index(backend, name);
    if (!backend->builtin) {
        config.name = strchr(name, ':') ? name : NULL;
        config.cache_folder = worker_kept_folder(kept) ? kept : NULL;
    }
    r = worker_backend_load(backend, options->plugin, &opened->backend, error);
    if (!backend->builtin)
        plugin = clock_monotonic() - begin;
    if (r == 0 && backend->configure)
        r = backend->configure(options, name, threads, simulation, &config, error);
    if (r == 0)
        r = opened->backend->device_open(&config, &opened->device, error);
    if (r == 0)
        opened->backend->device_describe(opened->device, &opened->info);
    if (r == 0 && plugin > 0)
        add_opening_part(&opened->info, "plugin", plugin);
    return r;
}

/* ---- opening in a thread ---- */

/* The thread's data, which may outlive the waiting function. */
struct opening_thread {
    pthread_t thread;
    const struct worker_options *options;
    char *name;
    int threads;
    struct worker_device opened;
    int result;
    struct error error;
};

static bool hangs;

bool worker_device_hangs(void)
{
    return hangs;
}

static void thread_free(struct opening_thread *thread)
{
    free(thread->name);
    free(thread);
}

static void *run_opening(void *data)
{
    struct opening_thread *thread = data;
    struct worker_simulation none = {0}; /* a plugin's device is not simulated */
    AUTO_CLOSE int turn = -1;

    if (thread->options->mps) {
        thread->result = worker_mps_join(thread->options->mps, &thread->error);
        if (thread->result < 0)
            return NULL;
        turn = worker_mps_take_turn(thread->options->mps);
    }
    thread->result = worker_device_open(thread->options, thread->name, thread->threads, &none,
                                        &thread->opened, &thread->error);
    return NULL;
}

/* Starts the thread; NULL: not enough memory, or no thread can be made. */
static struct opening_thread *thread_begin(const struct worker_device_opening *opening)
{
    struct opening_thread *thread = calloc(1, sizeof *thread);

    if (!thread)
        return NULL;
    thread->options = opening->options;
    thread->name = strdup(opening->name);
    thread->threads = opening->threads;
    if (thread->name && pthread_create(&thread->thread, NULL, run_opening, thread) == 0)
        return thread;
    thread_free(thread);
    return NULL;
}

void worker_device_begin(const struct worker_options *options, const char *name, int threads,
                         const atomic_int *stop, struct worker_device_opening *opening)
{
    const struct worker_backend *backend = worker_backend_find(options, name);

    *opening = (struct worker_device_opening){
        .options = options, .name = name, .threads = threads, .stop = stop, .begun = true};
    if (!options->warm && backend && !backend->builtin)
        opening->thread = thread_begin(opening);
}

static bool is_to_stop(const struct worker_device_opening *opening)
{
    return opening->stop && atomic_load(opening->stop);
}

static int stopped(struct error *error)
{
    return error_set(error, -EINTR, "stopped while it waited for NVIDIA's MPS");
}

/* Waits for the thread. A client of MPS stops waiting if the service fails, the time is over, or a
 * stop is requested; it then abandons the thread. */
static int wait_for_opening(const struct worker_device_opening *opening, struct error *error)
{
    enum { LOOK_NANOSECONDS = 100000000, NANOSECONDS = 1000000000 };
    const char *mps = opening->options->mps;
    double deadline = clock_monotonic() + MPS_READY_SECONDS + MPS_OPEN_SECONDS;
    bool was_ready = false;

    while (mps) {
        struct timespec look;
        bool ready = worker_mps_is_ready(mps);

        clock_gettime(CLOCK_REALTIME, &look);
        look.tv_nsec += LOOK_NANOSECONDS;
        look.tv_sec += look.tv_nsec / NANOSECONDS;
        look.tv_nsec %= NANOSECONDS;
        if (pthread_timedjoin_np(opening->thread->thread, NULL, &look) == 0)
            return 0;
        hangs = is_to_stop(opening);
        if (hangs)
            return stopped(error);
        hangs = (was_ready && !ready) || clock_monotonic() > deadline;
        if (hangs)
            return error_set(error, -ETIMEDOUT, "NVIDIA's MPS does not answer");
        was_ready |= ready;
    }
    pthread_join(opening->thread->thread, NULL);
    return 0;
}

/* If a client of MPS cannot open its device, starts the program again without MPS; but not if a
 * stop is requested, of which the new program would not know. */
static int leave_mps(const struct worker_device_opening *opening, int r, struct error *error)
{
    struct error failure;

    if (!opening->options->mps || r == -EINTR)
        return r;
    worker_signals_end();
    if (is_to_stop(opening))
        return stopped(error);
    if (worker_mps_leave(error->text, &failure) < 0)
        *error = failure;
    return r;
}

/* Takes over the device that the thread has opened. */
static int take_opened(struct worker_device_opening *opening, struct worker_device *opened,
                       struct error *error)
{
    struct opening_thread *thread = TAKE_POINTER(opening->thread);
    int r = thread->result;

    *opened = thread->opened;
    if (r < 0)
        *error = thread->error;
    thread_free(thread);
    return r;
}

int worker_device_end(struct worker_device_opening *opening, struct worker_simulation *simulation,
                      struct worker_device *opened, struct error *error)
{
    int r = 0;

    opening->begun = false;
    if (!opening->thread && opening->options->mps)
        return leave_mps(opening, error_set(error, -EAGAIN, "there was no thread for it"), error);
    if (!opening->thread)
        return worker_device_open(opening->options, opening->name, opening->threads, simulation,
                                  opened, error);
    r = wait_for_opening(opening, error);
    if (r == 0)
        r = take_opened(opening, opened, error);
    if (r < 0)
        return leave_mps(opening, r, error);
    if (opened->backend->device_enter)
        r = opened->backend->device_enter(opened->device, NULL, error);
    if (r < 0)
        opened->backend->device_close(opened->device);
    return r;
}

void worker_device_abandon(struct worker_device_opening *opening)
{
    struct worker_device opened;
    struct error ignored;

    if (!opening->begun || !opening->thread)
        return;
    opening->begun = false;
    if (wait_for_opening(opening, &ignored) == 0 && take_opened(opening, &opened, &ignored) == 0)
        opened.backend->device_close(opened.device);
}

int worker_device_calibration(const struct worker_options *options,
                              const struct worker_simulation *simulation,
                              const struct backend_device_info *info,
                              struct worker_calibration *calibration, struct error *error)
{
    int r;

    if (!simulation->simulated)
        return worker_calibration_load(options->calibration, info, calibration, error);
    r = calibration_scale(&simulation->speeds, 1, 1, simulation->speeds.launch_seconds,
                          &calibration->speeds, error);
    calibration->known = r == 0;
    snprintf(calibration->path, sizeof calibration->path, "the configuration of %s", info->name);
    return r;
}
