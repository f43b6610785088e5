/* drain.c: Drain and Undrain. Input: a device's name or id; for Drain also a reason, and whether
 * jobs that save their state are to leave. Output: the device as Devices shows it, once the change
 * is stored. */
#include "base/text.h"
#include "daemon/devices/device.h"
#include "daemon/devices/device_states.h"
#include "daemon/jobs/jobs.h"
#include "daemon/methods/device_view.h"
#include "daemon/methods/methods.h"

#include <stdio.h>

static struct device *find_device(struct call *call)
{
    const char *name = json_get_string(call->parameters, "device", "");
    struct device *device = devices_find(call->daemon->devices, name);

    if (!device) {
        struct json_object *parameters = json_object_new_object();

        json_set_string(parameters, "device", name);
        call_fail(call, "NoSuchDevice", parameters, "there is no device \"%s\"", name);
    }
    return device;
}

static void reply(struct call *call)
{
    struct json_object *parameters = json_object_new_object();

    json_set(parameters, "device",
             device_describe(call,
                             devices_find(call->daemon->devices,
                                          json_get_string(call->parameters, "device", "")),
                             NULL));
    call_reply(call, parameters);
}

static void leave(struct daemon *daemon, struct device *device)
{
    char reason[DEVICE_NAME_MAX + 64];

    snprintf(reason, sizeof reason, "%s is drained: the job saves its state and leaves",
             device->name);
    jobs_leave_device(daemon, device, PREEMPTION_DRAINED, reason);
}

static void on_stored(void *data, int result, const struct error *error)
{
    struct call *call = data;
    struct device *device =
        devices_find(call->daemon->devices, json_get_string(call->parameters, "device", ""));

    if (result < 0) {
        call_fail_storage(call, error);
        return;
    }
    if (device && json_get_bool(call->parameters, "move", false))
        leave(call->daemon, device);
    reply(call);
}

static void handle_drain(struct call *call)
{
    struct device *device = find_device(call);
    const char *reason = json_get_string(call->parameters, "reason", NULL);
    char text[DEVICE_REASON_MAX];

    if (!device)
        return;
    if (reason)
        snprintf(text, sizeof text, "%s", reason);
    else
        snprintf(text, sizeof text, "drained by %s", call_user(call) ?: "an administrator");
    device_state_set(call->daemon, device, DEVICE_DRAINING, text_make_utf8(text), call->peer.uid,
                     on_stored, call);
}

METHOD(Drain, handle_drain, ACCESS_ADMIN, METHOD_SHORT);

static void handle_undrain(struct call *call)
{
    struct device *device = find_device(call);

    if (device)
        device_state_clear(call->daemon, device, on_stored, call);
}

METHOD(Undrain, handle_undrain, ACCESS_ADMIN, METHOD_SHORT);
