/* devices.c: `trainctl devices`: what the machine has and what runs there. */
#include "base/text.h"
#include "client/connection.h"
#include "client/table.h"

#include <inttypes.h>
#include <string.h>

/* Joins the members of a JSON array. */
static char *list_join(struct json_object *list, const char *separator, char *output, size_t size)
{
    size_t used = 0;

    output[0] = '\0';
    for (size_t i = 0; list && i < json_object_array_length(list) && used < size; i++)
        used += (size_t)snprintf(output + used, size - used, "%s%s", i ? separator : "",
                                 json_object_get_string(json_object_array_get_idx(list, i)));
    return output;
}

static void device_add(struct table *table, struct json_object *device)
{
    struct json_object *jobs = json_get(device, "jobs");
    const char *health = json_get_string(device, "health", "?");
    char text[1024], used[32], total[32];

    table_add(table, json_get_string(device, "name", "?"), STYLE_BOLD);
    table_add(table, json_get_string(device, "model", ""), STYLE_PLAIN);
    table_add_integer(table, json_get_int(device, "cores", 0));
    snprintf(
        text, sizeof text, "%s of %s",
        text_format_bytes((uint64_t)json_get_int(device, "memory_used", 0), used, sizeof used),
        text_format_bytes((uint64_t)json_get_int(device, "memory_total", 0), total, sizeof total));
    table_add(table, text, STYLE_PLAIN);
    table_add(
        table,
        text_format_bytes((uint64_t)json_get_int(device, "memory_booked", 0), used, sizeof used),
        STYLE_PLAIN);
    snprintf(text, sizeof text, "%zu/%" PRId64, jobs ? json_object_array_length(jobs) : 0,
             json_get_int(device, "slots", 0));
    table_add(table, text, STYLE_PLAIN);
    table_add(table, list_join(jobs, " ", text, sizeof text), STYLE_PLAIN);
    table_add(table, health,
              strcmp(health, "healthy") == 0 ? STYLE_GREEN
              : strcmp(health, "lost") == 0  ? STYLE_RED
                                             : STYLE_YELLOW);
    table_add(table, list_join(json_get(device, "features"), " ", text, sizeof text), STYLE_DIM);
}

enum exit_status command_devices(struct invocation *invocation)
{
    static const struct table_column columns[] = {
        {"DEVICE", false, 0},   {"MODEL", false, 10}, {"CORES", true, 0},
        {"MEMORY", false, 0},   {"BOOKED", false, 0}, {"SLOTS", false, 0},
        {"RUNS JOB", false, 6}, {"HEALTH", false, 0}, {"FEATURES", false, 8},
    };
    CLEANUP(varlink_reply_release) struct varlink_reply reply = {0};
    enum exit_status status = connection_call(invocation, "Devices", NULL, &reply);
    struct json_object *devices;
    struct table *table;

    if (status)
        return status;
    if (invocation->json) {
        puts(json_text(reply.parameters, NULL));
        return EXIT_STATUS_DONE;
    }
    devices = json_get(reply.parameters, "devices");
    table = table_new(columns, sizeof columns / sizeof *columns);
    for (size_t i = 0; i < json_object_array_length(devices); i++)
        device_add(table, json_object_array_get_idx(devices, i));
    table_print(table, &invocation->output, stdout);
    table_free(table);
    return EXIT_STATUS_DONE;
}
