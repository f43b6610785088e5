/* worker_backends.c: see worker_backends.h. */
#include "worker/trainee/worker_backends.h"

#include "proto/device_host.h"
#include "proto/json.h"
#include "worker/trainee/worker_plugin.h"
#include "worker/trainee/worker_simulation.h"

#include <ctype.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

const struct worker_backend worker_backends[] = {
    {.kind = DEVICE_HOST, .naming = WORKER_NAMED_AS_KIND, .builtin = backend_cpu},
    {.kind = "cuda", .naming = WORKER_NAMED_BY_NUMBER, .visible = "CUDA_VISIBLE_DEVICES"},
    /* drivers in software would be listed, too */
    {.kind = "vulkan",
     .naming = WORKER_NAMED_BY_NUMBER,
     .visible = "TRAIND_VULKAN_DEVICES",
     .only_by_name = true},
    {.kind = "simulated",
     .naming = WORKER_NAMED_BY_CONFIG,
     .builtin = backend_simulated,
     .configure = worker_simulation_configure},
};
const size_t worker_backend_count = sizeof worker_backends / sizeof worker_backends[0];

/* N of "KIND:N", 0 of "KIND"; -1: it is neither. */
static int number_of(const struct worker_backend *backend, const char *name)
{
    size_t length = strlen(backend->kind);
    char *end;
    long number;

    if (strncmp(name, backend->kind, length) != 0)
        return -1;
    if (!name[length])
        return 0;
    if (name[length] != ':' || !isdigit((unsigned char)name[length + 1]))
        return -1;
    number = strtol(name + length + 1, &end, 10);
    return *end || number > INT16_MAX ? -1 : (int)number;
}

static bool is_named(const struct worker_backend *backend, const char *name)
{
    switch (backend->naming) {
    case WORKER_NAMED_AS_KIND:
        return strcmp(name, backend->kind) == 0;
    case WORKER_NAMED_BY_NUMBER:
        return number_of(backend, name) >= 0;
    case WORKER_NAMED_BY_CONFIG:
        break;
    }
    return false;
}

/* Where the configuration is wrong, any that reads one says why. */
static const struct worker_backend *find_configured(const char *config)
{
    JSON_AUTO struct json_object *json = NULL;
    const struct worker_backend *first = NULL;
    const char *kind = json_parse(config, strlen(config), &json, NULL) == 0
                           ? json_get_string(json, "kind", "")
                           : "";

    for (size_t i = 0; i < worker_backend_count; i++) {
        if (!worker_backends[i].configure)
            continue;
        if (strcmp(worker_backends[i].kind, kind) == 0)
            return &worker_backends[i];
        first = first ? first : &worker_backends[i];
    }
    return first;
}

const struct worker_backend *worker_backend_find(const struct worker_options *options,
                                                 const char *name)
{
    if (options->device_config)
        return find_configured(options->device_config);
    if (strcmp(name, "auto") == 0)
        return &worker_backends[0];
    for (size_t i = 0; i < worker_backend_count; i++)
        if (is_named(&worker_backends[i], name))
            return &worker_backends[i];
    return NULL;
}

int worker_backend_index(const struct worker_backend *backend, const char *name)
{
    if (backend->naming != WORKER_NAMED_BY_NUMBER || (backend->visible && getenv(backend->visible)))
        return 0;
    return number_of(backend, name);
}

void worker_backend_see(const char *name, const char *id)
{
    const struct worker_options none = {0};
    const struct worker_backend *backend = worker_backend_find(&none, name);

    if (backend && backend->visible)
        setenv(backend->visible, id, 1);
}

int worker_backend_load(const struct worker_backend *backend, const char *plugin,
                        const struct backend **loaded, struct error *error)
{
    if (!backend->builtin)
        return worker_plugin_load(backend->kind, plugin, loaded, error);
    *loaded = backend->builtin();
    return 0;
}
