/* monitor.c: the thread that reads the NVIDIA devices.
 *
 * New devices are found only if the library is initialised again. That happens after the kernel
 * reports a device that came or went. It also happens with a requested reading while a device is
 * missing: at most every 5 seconds, and ever more rarely while nothing new is found.
 *
 * GPUs that may sleep are left alone where an older reading suffices: see probe.h. */
#include "daemon/devices/nvidia/monitor.h"

#include "base/cleanup.h"
#include "base/memory.h"
#include "daemon/devices/nvidia/device_events.h"

#include <stdlib.h>

enum { READING_VALID_MILLISECONDS = 1000, RESCAN_MILLISECONDS = 5000, RESCAN_SLOWEST = 60000 };

struct waiter {
    struct waiter *next;
    nvidia_monitor_done done;
    void *data;
    uint64_t since; /* uv_hrtime(): the reading must begin after this */
};

struct nvidia_monitor {
    uv_loop_t *loop;
    nvidia_monitor_callback callback;
    void *data;
    uv_thread_t thread;
    uv_async_t arrival;
    struct device_events *events;
    struct waiter *waiters;
    struct nvidia_reading *latest;
    uint64_t latest_at; /* uv_now() of its arrival */

    /* used by the thread only */
    struct nvidia_probe *probe;
    uint64_t rescan_at, rescan_pause; /* nanoseconds of uv_hrtime() */

    /* shared, under the lock */
    uv_mutex_t lock;
    uv_cond_t change;
    bool stopping, watching, asked, devices_changed;
    /* the most that somebody needs of the next reading */
    enum nvidia_request needed;
    struct nvidia_reading *arrived; /* NULL: the loop has taken it */
};

/* ---- the thread ------------------------------------------------------------------------------ */

/* Counts the devices that answer. */
static size_t count_present(const struct nvidia_reading *reading)
{
    size_t count = 0;

    for (size_t i = 0; i < reading->count; i++)
        count += reading->devices[i].health != NVIDIA_LOST;
    return count;
}

/* Decides from this reading when to initialise the library again. */
static void plan_rescan(struct nvidia_monitor *monitor, const struct nvidia_reading *reading,
                        bool rescanned)
{
    size_t present = count_present(reading);

    if (present == reading->count && present > 0) {
        monitor->rescan_at = UINT64_MAX;
        monitor->rescan_pause = RESCAN_MILLISECONDS;
    } else if (rescanned || monitor->rescan_at == UINT64_MAX) {
        monitor->rescan_at = uv_hrtime() + monitor->rescan_pause * 1000000;
        if (rescanned && monitor->rescan_pause < RESCAN_SLOWEST)
            monitor->rescan_pause *= 2;
    }
}

/* Waits until there is a reason to read. Returns false at the end. Holds the lock before and
 * after. */
static bool wait_for_reason(struct nvidia_monitor *monitor, uint64_t next)
{
    while (!monitor->stopping && !monitor->asked && !monitor->devices_changed) {
        uint64_t now = uv_hrtime();

        if (!monitor->watching)
            uv_cond_wait(&monitor->change, &monitor->lock);
        else if (now >= next)
            break;
        else
            uv_cond_timedwait(&monitor->change, &monitor->lock, next - now);
    }
    return !monitor->stopping;
}

static void run_monitor(void *data)
{
    struct nvidia_monitor *monitor = data;
    uint64_t next = 0;

    monitor->rescan_pause = RESCAN_MILLISECONDS;
    monitor->rescan_at = UINT64_MAX;
    uv_mutex_lock(&monitor->lock);
    while (wait_for_reason(monitor, next)) {
        bool rescan = monitor->devices_changed || uv_hrtime() >= monitor->rescan_at;
        enum nvidia_request request = rescan              ? NVIDIA_RESCAN
                                      : monitor->watching ? NVIDIA_READ
                                                          : monitor->needed;
        struct nvidia_reading *reading;
        uint64_t begun = uv_hrtime(); /* whoever asks from now on needs another reading */

        monitor->asked = monitor->devices_changed = false;
        monitor->needed = NVIDIA_READ_UNLESS_IDLE;
        uv_mutex_unlock(&monitor->lock);
        reading = nvidia_probe_read(monitor->probe, request);
        reading->begun = begun;
        plan_rescan(monitor, reading, rescan);
        next = uv_hrtime() + READING_VALID_MILLISECONDS * 1000000ull;
        uv_mutex_lock(&monitor->lock);
        nvidia_reading_free(monitor->arrived);
        monitor->arrived = reading;
        uv_async_send(&monitor->arrival);
    }
    uv_mutex_unlock(&monitor->lock);
    nvidia_probe_free(monitor->probe);
}

/* ---- the loop -------------------------------------------------------------------------------- */

static void wake(struct nvidia_monitor *monitor, bool *reason, enum nvidia_request needed)
{
    uv_mutex_lock(&monitor->lock);
    *reason = true;
    monitor->needed = needed > monitor->needed ? needed : monitor->needed;
    uv_cond_signal(&monitor->change);
    uv_mutex_unlock(&monitor->lock);
}

/* Calls the waiters for whom a reading that began at `begun` suffices. Returns whether any are
 * left. */
static bool answer_waiters(struct nvidia_monitor *monitor, uint64_t begun)
{
    struct waiter *waiter = TAKE_POINTER(monitor->waiters);

    while (waiter) {
        struct waiter *next = waiter->next;

        if (waiter->since > begun) {
            waiter->next = monitor->waiters;
            monitor->waiters = waiter;
        } else {
            waiter->done(waiter->data);
            free(waiter);
        }
        waiter = next;
    }
    return monitor->waiters != NULL;
}

static void on_arrival(uv_async_t *handle)
{
    struct nvidia_monitor *monitor = handle->data;
    struct nvidia_reading *reading;
    uint64_t begun = UINT64_MAX; /* if there was no memory for a reading, all waiters are called */

    uv_mutex_lock(&monitor->lock);
    reading = TAKE_POINTER(monitor->arrived);
    uv_mutex_unlock(&monitor->lock);
    if (reading) {
        struct nvidia_reading *previous = monitor->latest;

        begun = reading->begun;
        monitor->latest = reading;
        monitor->latest_at = uv_now(monitor->loop);
        monitor->callback(monitor->data, reading);
        nvidia_reading_free(previous);
    }
    if (answer_waiters(monitor, begun)) /* what they need was noted as they came */
        wake(monitor, &monitor->asked, NVIDIA_READ_UNLESS_IDLE);
}

static void on_device_event(void *data)
{
    struct nvidia_monitor *monitor = data;

    wake(monitor, &monitor->devices_changed, NVIDIA_READ_UNLESS_IDLE);
}

void nvidia_monitor_watch(struct nvidia_monitor *monitor, bool watch)
{
    uv_mutex_lock(&monitor->lock);
    if (monitor->watching != watch)
        uv_cond_signal(&monitor->change);
    monitor->asked = monitor->asked || (monitor->watching && !watch); /* it lets GPUs sleep */
    monitor->watching = watch;
    uv_mutex_unlock(&monitor->lock);
}

/* `needed`: as that of the monitor. */
static void wait_for_reading(struct nvidia_monitor *monitor, uint64_t since,
                             enum nvidia_request needed, nvidia_monitor_done done, void *data)
{
    struct waiter *waiter = malloc(sizeof *waiter);

    if (!waiter) { /* no memory: answer with the old reading */
        done(data);
        return;
    }
    *waiter = (struct waiter){.next = monitor->waiters, .done = done, .data = data, .since = since};
    monitor->waiters = waiter;
    wake(monitor, &monitor->asked, needed);
}

void nvidia_monitor_refresh(struct nvidia_monitor *monitor, nvidia_monitor_done done, void *data)
{
    if (monitor->latest && uv_now(monitor->loop) - monitor->latest_at < READING_VALID_MILLISECONDS)
        done(data);
    else
        wait_for_reading(monitor, 0, NVIDIA_READ_UNLESS_IDLE, done, data);
}

void nvidia_monitor_look(struct nvidia_monitor *monitor, bool wakes, nvidia_monitor_done done,
                         void *data)
{
    wait_for_reading(monitor, uv_hrtime(), wakes ? NVIDIA_READ : NVIDIA_READ_UNLESS_ASLEEP, done,
                     data);
}

void nvidia_monitor_read(struct nvidia_monitor *monitor)
{
    wake(monitor, &monitor->asked, NVIDIA_READ);
}

const struct nvidia_reading *nvidia_monitor_reading(const struct nvidia_monitor *monitor)
{
    return monitor->latest;
}

/* ---- beginning and end ----------------------------------------------------------------------- */

static void on_closed(uv_handle_t *handle)
{
    struct nvidia_monitor *monitor = handle->data;

    nvidia_reading_free(monitor->arrived);
    nvidia_reading_free(monitor->latest);
    uv_cond_destroy(&monitor->change);
    uv_mutex_destroy(&monitor->lock);
    free(monitor);
}

int nvidia_monitor_start(uv_loop_t *loop, const char *library, const char *root,
                         nvidia_monitor_callback callback, void *data,
                         struct nvidia_monitor **result, struct error *error)
{
    struct nvidia_monitor *monitor = memory_zero(sizeof *monitor);
    int status;

    monitor->probe = nvidia_probe_new(library, root);
    monitor->loop = loop;
    monitor->callback = callback;
    monitor->data = data;
    monitor->asked = true;
    uv_mutex_init(&monitor->lock);
    uv_cond_init(&monitor->change);
    uv_async_init(loop, &monitor->arrival, on_arrival);
    monitor->arrival.data = monitor;
    status = uv_thread_create(&monitor->thread, run_monitor, monitor);
    if (status < 0) { /* the process has no thread left at its very beginning */
        nvidia_probe_free(monitor->probe);
        uv_close((uv_handle_t *)&monitor->arrival, on_closed);
        return error_set(error, status, "cannot start the thread that reads NVIDIA devices: %s",
                         uv_strerror(status));
    }
    monitor->events = device_events_start(loop, "pci", on_device_event, monitor);
    *result = monitor;
    return 0;
}

void nvidia_monitor_stop(struct nvidia_monitor *monitor)
{
    if (!monitor)
        return;
    device_events_stop(monitor->events);
    wake(monitor, &monitor->stopping, NVIDIA_READ_UNLESS_IDLE);
    uv_thread_join(&monitor->thread);
    answer_waiters(monitor, UINT64_MAX);
    uv_close((uv_handle_t *)&monitor->arrival, on_closed);
}
