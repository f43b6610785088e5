/* worker_devices.c: `traind-worker devices` lists and describes the devices that this machine's
 * backends can open. The daemon asks it for each type of device whether jobs can train there. */
#include "worker/trainee/worker_devices.h"

#include "worker/trainee/worker_backends.h"
#include "worker/trainee/worker_device.h"
#include "worker/trainee/worker_estimate.h"

#include <stdio.h>
#include <stdlib.h>

enum { DEVICES_MAX = 64 };

static struct json_object *types_json(unsigned types)
{
    struct json_object *list = json_object_new_array();

    for (unsigned type = 0; types >> type; type++)
        if (types >> type & 1)
            json_object_array_add(
                list, json_object_new_string(tensor_type_to_string((enum tensor_type)type)));
    return list;
}

static void describe(const struct backend_device_info *info, struct json_object *json)
{
    json_set_string(json, "model", info->model);
    json_set_string(json, "features", info->features);
    json_set_int(json, "threads", info->threads);
    json_set_int(json, "memory_bytes", (int64_t)info->memory_bytes);
    json_set(json, "precisions", types_json(info->compute_types));
    json_set(json, "versions", worker_versions_json(info));
}

/* Makes {"device", "trains", and either "reason" or the device's description}. */
static struct json_object *look_at(const struct worker_options *options, const char *name)
{
    struct worker_simulation simulation = {0};
    struct worker_device opened = {0};
    struct error error = {0};
    struct json_object *json = json_object_new_object();
    bool trains = worker_device_open(options, name, 0, &simulation, &opened, &error) == 0;

    json_set_string(json, "device", name);
    json_set_bool(json, "trains", trains);
    json_set_string(json, "reason", trains ? NULL : error.text);
    if (trains) {
        describe(&opened.info, json);
        opened.backend->device_close(opened.device);
    }
    worker_simulation_release(&simulation);
    return json;
}

static void print_device(struct json_object *json)
{
    if (json_get_bool(json, "trains", false))
        printf("%-8s %s: %s; %s\n", json_get_string(json, "device", ""),
               json_get_string(json, "model", ""), json_get_string(json, "features", ""),
               json_object_to_json_string_ext(json_get(json, "versions"), JSON_C_TO_STRING_PLAIN));
    else
        printf("%-8s cannot be trained on: %s\n", json_get_string(json, "device", ""),
               json_get_string(json, "reason", ""));
}

/* Looks for KIND:0, KIND:1 and so on until one cannot be opened. If there is no device, the list
 * says why the first one could not be opened. */
static void look_for_numbered(const struct worker_options *options, const char *kind,
                              struct json_object *list)
{
    bool more = true;

    for (int i = 0; more && i < DEVICES_MAX; i++) {
        char name[32];
        struct json_object *json;

        snprintf(name, sizeof name, "%s:%d", kind, i);
        json = look_at(options, name);
        more = json_get_bool(json, "trains", false);
        if (more || i == 0)
            json_object_array_add(list, json);
        else
            json_object_put(json);
    }
}

struct json_object *worker_devices_new(const struct worker_options *options)
{
    struct json_object *reply = json_object_new_object(), *list = json_object_new_array();

    json_set(reply, "devices", list);
    if (options->device)
        json_object_array_add(list, look_at(options, options->device));
    for (size_t i = 0; !options->device && i < worker_backend_count; i++) {
        const struct worker_backend *backend = &worker_backends[i];

        if (backend->naming == WORKER_NAMED_AS_KIND)
            json_object_array_add(list, look_at(options, backend->kind));
        else if (backend->naming == WORKER_NAMED_BY_NUMBER && !backend->only_by_name)
            look_for_numbered(options, backend->kind, list);
    }
    return reply;
}

int worker_devices(const struct worker_options *options)
{
    JSON_AUTO struct json_object *reply = worker_devices_new(options);
    struct json_object *list = json_get(reply, "devices");

    if (options->json)
        json_print(reply, stdout);
    for (size_t i = 0; !options->json && i < json_object_array_length(list); i++)
        print_device(json_object_array_get_idx(list, i));
    return EXIT_SUCCESS;
}
