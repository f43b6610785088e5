/* plan_run.c: see plan_run.h. */
#include "client/submission/plan_run.h"

#include "client/submission/worker_run.h"
#include "proto/device_host.h"

#include <string.h>

/* Makes the value of --also: one device of each type with its own backend, and the plugin if the
 * daemon names one; the other types share the CPU's plan. NULL: there is no such device. */
static struct json_object *further_devices(struct json_object *devices)
{
    struct json_object *list = json_object_new_array();

    for (size_t i = 0; devices && i < json_object_array_length(devices); i++) {
        struct json_object *device = json_object_array_get_idx(devices, i), *json;
        const char *model = json_get_string(device, "model", "");
        bool known =
            !json_get_bool(device, "has_backend", false) || !json_get_bool(device, "trains", false);

        for (size_t k = 0; k < json_object_array_length(list); k++)
            known = known || strcmp(json_get_string(json_object_array_get_idx(list, k), "type", ""),
                                    model) == 0;
        if (known)
            continue;
        json = json_object_new_object();
        json_set_string(json, "device", json_get_string(device, "name", ""));
        json_set_string(json, "id", json_get_string(device, "id", ""));
        json_set_string(json, "type", model);
        json_set_string(json, "plugin", json_get_string(device, "backend", NULL));
        json_object_array_add(list, json);
    }
    if (json_object_array_length(list))
        return list;
    json_object_put(list);
    return NULL;
}

/* The worker plans for the CPU, as the daemon does. Only the daemon knows the device that the
 * specification prefers, for example a simulated one. */
int plan_run(struct json_object *spec, struct json_object *devices, struct json_object **plan,
             struct error *error)
{
    JSON_AUTO struct json_object *also = further_devices(devices);
    const char *const arguments[] = {"plan",
                                     WORKER_RUN_SPEC,
                                     "--json",
                                     "--device",
                                     DEVICE_HOST,
                                     also ? "--also" : NULL,
                                     also ? json_text(also, NULL) : NULL,
                                     NULL};

    return worker_run(arguments, spec, plan, error);
}
