/* worker_probe.c: `traind-worker probe` prints what a plugin knows of its devices without opening
 * one. The daemon calls it, because it loads no driver of a GPU into its own process. */
#include "base/cleanup.h"
#include "base/memory.h"
#include "proto/json.h"
#include "worker/trainee/worker_backends.h"
#include "worker/trainee/worker_options.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

enum { DEVICES_MAX = 64 };

static struct json_object *heaps_json(const struct backend_found_device *found)
{
    struct json_object *list = json_object_new_array();

    for (int i = 0; i < found->heap_count; i++) {
        const struct backend_heap *heap = &found->heaps[i];
        struct json_object *json = json_object_new_object();

        json_set_bool(json, "on_device", heap->on_device);
        json_set_int(json, "bytes", (int64_t)heap->bytes);
        json_set_int(json, "budget", (int64_t)heap->budget);
        json_set_int(json, "used", (int64_t)heap->used);
        json_object_array_add(list, json);
    }
    return list;
}

static struct json_object *found_json(const char *kind, const struct backend_found_device *found)
{
    struct json_object *json = json_object_new_object();
    char name[48];

    snprintf(name, sizeof name, "%s:%d", kind, found->index);
    json_set_string(json, "device", name);
    json_set_string(json, "id", found->id);
    json_set_string(json, "type", found->type);
    json_set_string(json, "model", found->model);
    json_set_string(json, "driver", found->driver);
    json_set_string(json, "features", found->features);
    json_set_bool(json, "is_software", found->is_software);
    json_set_bool(json, "shares_memory", found->shares_memory);
    json_set(json, "heaps", heaps_json(found));
    return json;
}

static int find(const struct worker_options *options, struct backend_found_device *found,
                const char **kind, struct error *error)
{
    const struct worker_backend *worker = worker_backend_find(options, options->device);
    const struct backend *backend;
    int r;

    if (!worker)
        return error_set(error, -ENODEV, "there are no devices of the kind \"%s\"",
                         options->device);
    *kind = worker->kind;
    r = worker_backend_load(worker, options->plugin, &backend, error);
    if (r < 0)
        return r;
    if (!backend->devices_find)
        return error_set(error, -ERROR_UNSUPPORTED,
                         "the backend for %s lists no devices: `traind-worker devices` opens them",
                         worker->kind);
    return backend->devices_find(found, DEVICES_MAX, error);
}

static void print_found(const char *kind, const struct backend_found_device *found)
{
    printf("%s:%d  %s, %s; %s; %s\n", kind, found->index, found->model, found->type, found->driver,
           found->id);
}

int worker_probe(const struct worker_options *options)
{
    struct backend_found_device *found = memory_zero(DEVICES_MAX * sizeof *found);
    JSON_AUTO struct json_object *reply = json_object_new_object();
    struct json_object *list = json_object_new_array();
    struct error error = {0};
    const char *kind = "";
    int count = find(options, found, &kind, &error);

    json_set(reply, "devices", list);
    if (count < 0)
        json_set_string(reply, "reason", error.text);
    for (int i = 0; i < count; i++) {
        json_object_array_add(list, found_json(kind, &found[i]));
        if (!options->json)
            print_found(kind, &found[i]);
    }
    free(found);
    if (options->json)
        json_print(reply, stdout);
    else if (count < 0)
        fprintf(stderr, "traind-worker: %s\n", error.text);
    return count < 0 && !options->json ? EXIT_FAILURE : EXIT_SUCCESS;
}
