/* devices.c: `trainctl devices` shows the machine's devices, the jobs on them, and the processes
 * that hold their memory. */
#include "client/view/devices.h"

#include "client/connection/connection.h"

#include <string.h>

/* The device of that name; NULL: there is none, and the names of all devices were printed. */
static struct json_object *device_find(struct json_object *devices, const char *name)
{
    size_t count = devices ? json_object_array_length(devices) : 0, used = 0;
    char names[1024] = "none";

    for (size_t i = 0; i < count; i++) {
        struct json_object *device = json_object_array_get_idx(devices, i);
        const char *each = json_get_string(device, "name", "");

        if (strcmp(each, name) == 0 || strcmp(json_get_string(device, "id", ""), name) == 0)
            return device;
        if (used < sizeof names)
            used +=
                (size_t)snprintf(names + used, sizeof names - used, "%s%s", i ? ", " : "", each);
    }
    complain("there is no device \"%s\"; there are: %s", name, names);
    return NULL;
}

static enum exit_status command_execute(struct invocation *invocation)
{
    CLEANUP(varlink_reply_release) struct varlink_reply reply = {0};
    enum exit_status status = connection_call(invocation, "Devices", NULL, &reply);
    struct json_object *devices, *device;

    if (status)
        return status;
    devices = json_get(reply.parameters, "devices");
    if (invocation->argument_count == 0) {
        if (invocation->json)
            json_print(reply.parameters, stdout);
        else
            devices_print(devices, &invocation->output, stdout);
        return EXIT_STATUS_DONE;
    }
    device = device_find(devices, invocation->arguments[0]);
    if (!device)
        return EXIT_STATUS_FAILED;
    if (invocation->json)
        json_print(device, stdout);
    else
        devices_print_one(device, &invocation->output);
    return EXIT_STATUS_DONE;
}

const struct command command_devices = {
    .name = "devices",
    .place = 270,
    .arguments = "[DEVICE]",
    .summary = "List the devices of the machine and what runs on them",
    .details = "With DEVICE, everything about one: ledger, watermarks, other users of its "
               "memory, calibration, health.",
    .maximum = 1,
    .completion = COMPLETE_DEVICES,
    .execute = command_execute,
};
