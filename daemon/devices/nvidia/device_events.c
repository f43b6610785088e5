/* device_events.c: runs libsystemd's device monitor inside the libuv loop. The monitor's event loop
 * is a descriptor that becomes readable. */
#include "daemon/devices/nvidia/device_events.h"

#include "base/memory.h"

#include <stdlib.h>
#include <systemd/sd-device.h>
#include <systemd/sd-event.h>

struct device_events {
    sd_event *event;
    sd_device_monitor *monitor;
    uv_poll_t poll;
    device_event_callback callback;
    void *data;
};

static int on_device(sd_device_monitor *monitor, sd_device *device, void *data)
{
    struct device_events *events = data;

    (void)monitor;
    (void)device;
    events->callback(events->data);
    return 0;
}

static void on_readable(uv_poll_t *poll, int status, int what)
{
    struct device_events *events = poll->data;

    (void)what;
    if (status < 0)
        uv_poll_stop(poll);
    else
        while (sd_event_run(events->event, 0) > 0) {
        }
}

static void release(struct device_events *events)
{
    sd_device_monitor_unref(events->monitor);
    sd_event_unref(events->event);
    free(events);
}

static void on_closed(uv_handle_t *handle)
{
    release(handle->data);
}

struct device_events *device_events_start(uv_loop_t *loop, const char *subsystem,
                                          device_event_callback callback, void *data)
{
    struct device_events *events = memory_zero(sizeof *events);

    events->callback = callback;
    events->data = data;
    events->poll.data = events;
    if (sd_event_new(&events->event) < 0 || sd_device_monitor_new(&events->monitor) < 0 ||
        sd_device_monitor_filter_add_match_subsystem_devtype(events->monitor, subsystem, NULL) <
            0 ||
        sd_device_monitor_attach_event(events->monitor, events->event) < 0 ||
        sd_device_monitor_start(events->monitor, on_device, events) < 0 ||
        uv_poll_init(loop, &events->poll, sd_event_get_fd(events->event)) < 0) {
        release(events);
        return NULL;
    }
    uv_poll_start(&events->poll, UV_READABLE, on_readable);
    return events;
}

void device_events_stop(struct device_events *events)
{
    if (!events)
        return;
    uv_poll_stop(&events->poll);
    uv_close((uv_handle_t *)&events->poll, on_closed);
}
