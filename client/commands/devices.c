/* devices.c: `trainctl devices` shows the machine's devices, the jobs on them, and the processes
 * that hold their memory. */
#include "client/view/devices.h"

#include "base/cleanup.h"
#include "base/text.h"
#include "client/connection/connection.h"
#include "client/connection/history.h"
#include "client/view/history.h"

#include <stdlib.h>
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

/* ---- history --------------------------------------------------------------------------------- */

static enum exit_status print_failed(int result)
{
    if (result == 0)
        return EXIT_STATUS_DONE;
    complain("not enough memory to draw");
    return EXIT_STATUS_FAILED;
}

/* {"devices": [{"name": …, "history": …}, …]} */
static void histories_print_json(const struct device_history *histories, size_t count)
{
    JSON_AUTO struct json_object *printed = json_object_new_object();
    struct json_object *list = json_object_new_array();

    for (size_t i = 0; i < count; i++) {
        struct json_object *entry = json_object_new_object();

        json_set_string(entry, "name", histories[i].name);
        json_set(entry, "history", json_object_get(histories[i].reply));
        json_object_array_add(list, entry);
    }
    json_set(printed, "devices", list);
    json_print(printed, stdout);
}

static enum exit_status histories_show(struct invocation *invocation, struct json_object *devices,
                                       double seconds)
{
    size_t count = devices ? json_object_array_length(devices) : 0, asked = 0;
    AUTO_FREE struct varlink_reply *replies = calloc(count + 1, sizeof *replies);
    AUTO_FREE struct device_history *histories = calloc(count + 1, sizeof *histories);
    enum exit_status status = EXIT_STATUS_DONE;

    if (!replies || !histories)
        return print_failed(-1);
    for (; asked < count && !status; asked++) {
        struct json_object *device = json_object_array_get_idx(devices, asked);

        status =
            history_ask(invocation, json_get_string(device, "id", ""), seconds, &replies[asked]);
        histories[asked] = (struct device_history){.name = json_get_string(device, "name", "?"),
                                                   .reply = replies[asked].parameters};
    }
    if (!status && invocation->json)
        histories_print_json(histories, count);
    else if (!status)
        status = print_failed(histories_print(histories, count, &invocation->output));
    for (size_t i = 0; i < asked; i++)
        varlink_reply_release(&replies[i]);
    return status;
}

static enum exit_status history_show(struct invocation *invocation, struct json_object *device,
                                     double seconds)
{
    CLEANUP(varlink_reply_release) struct varlink_reply reply = {0};
    struct device_history history = {.name = json_get_string(device, "name", "?"),
                                     .memory_total = json_get_double(device, "memory_total", 0)};
    enum exit_status status =
        history_ask(invocation, json_get_string(device, "id", ""), seconds, &reply);

    if (status)
        return status;
    history.reply = reply.parameters;
    if (!invocation->json)
        return print_failed(history_print_device(&history, &invocation->output));
    json_print(reply.parameters, stdout);
    return EXIT_STATUS_DONE;
}

/* "--history 1d": the value of an option that may have none stands behind "=". */
static void span_explain(const struct invocation *invocation)
{
    double seconds;

    if (invocation_flag(invocation, "history") &&
        text_parse_duration(invocation->arguments[0], &seconds) == 0)
        complain("a span stands behind \"=\": --history=%s", invocation->arguments[0]);
}

/* ---- the command ----------------------------------------------------------------------------- */

static enum exit_status command_execute(struct invocation *invocation)
{
    CLEANUP(varlink_reply_release) struct varlink_reply reply = {0};
    double history_seconds;
    enum exit_status status = history_option_read(invocation, &history_seconds);
    struct json_object *devices, *device;

    if (!status)
        status = connection_call(invocation, "Devices", NULL, &reply);
    if (status)
        return status;
    devices = json_get(reply.parameters, "devices");
    if (invocation->argument_count == 0 && history_seconds > 0)
        return histories_show(invocation, devices, history_seconds);
    if (invocation->argument_count == 0) {
        if (invocation->json)
            json_print(reply.parameters, stdout);
        else
            devices_print(devices, &invocation->output, stdout);
        return EXIT_STATUS_DONE;
    }
    device = device_find(devices, invocation->arguments[0]);
    if (!device) {
        span_explain(invocation);
        return EXIT_STATUS_FAILED;
    }
    if (history_seconds > 0)
        return history_show(invocation, device, history_seconds);
    if (invocation->json)
        json_print(device, stdout);
    else
        devices_print_one(device, &invocation->output);
    return EXIT_STATUS_DONE;
}

static const struct command_option devices_options[] = {
    HISTORY_OPTION("Draw how busy the devices were, and how full the memory of DEVICE: in the last "
                   "hour, or in a span such as --history=7d"),
    {0},
};

const struct command command_devices = {
    .name = "devices",
    .place = 270,
    .arguments = "[DEVICE]",
    .summary = "List the devices of the machine and what runs on them",
    .details = "With DEVICE, everything about one: ledger, watermarks, other users of its "
               "memory, calibration, health.",
    .options = devices_options,
    .maximum = 1,
    .completion = COMPLETE_DEVICES,
    .execute = command_execute,
};
