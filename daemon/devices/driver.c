/* driver.c: see driver.h. */
#include "daemon/devices/driver.h"

#include "daemon/devices/device_claim.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PIDS_MAX = 256 };

void **device_driver_state(const struct daemon *daemon, const struct device_driver *driver)
{
    size_t i = 0;

    while (daemon->devices->drivers[i] != driver)
        i++;
    return &daemon->devices->states[i];
}

/* ---- beginning and end ----------------------------------------------------------------------- */

int devices_open(struct daemon *daemon, struct error *error)
{
    const struct config *config = &daemon->config;
    int result = 0;

    for (size_t i = 0; daemon->devices->drivers[i] && result == 0; i++)
        if (daemon->devices->drivers[i]->open)
            result = daemon->devices->drivers[i]->open(daemon, error);
    for (size_t i = 0; i < config->device_count && result == 0; i++)
        if (device_section_makes_device(&config->devices[i]) &&
            !devices_add_section(daemon->devices, config, &config->devices[i], error))
            result = error->code;
    return result;
}

static int start_further(struct daemon *daemon, struct error *error);

static void on_started(struct daemon *daemon)
{
    struct error error = {0};

    if (start_further(daemon, &error) < 0)
        daemon_give_up(daemon, &error);
}

static int start_further(struct daemon *daemon, struct error *error)
{
    const struct device_driver *driver;

    while ((driver = daemon->devices->drivers[daemon->devices->started])) {
        daemon->devices->started++;
        if (driver->start)
            return driver->start(daemon, on_started, error);
    }
    daemon->devices->ready(daemon);
    return 0;
}

int devices_start(struct daemon *daemon, void (*ready)(struct daemon *daemon), struct error *error)
{
    daemon->devices->started = 0;
    daemon->devices->ready = ready;
    return start_further(daemon, error);
}

void devices_stop(struct daemon *daemon)
{
    for (size_t i = 0; daemon->devices->drivers[i]; i++)
        if (daemon->devices->drivers[i]->stop)
            daemon->devices->drivers[i]->stop(daemon);
}

/* ---- measuring ------------------------------------------------------------------------------- */

bool devices_measure(struct daemon *daemon)
{
    bool under_way = false;

    for (size_t i = 0; i < daemon->devices->count; i++) {
        struct device *device = daemon->devices->list[i];

        if (device->driver->measure)
            under_way |= device->driver->measure(daemon, device);
    }
    return under_way;
}

void devices_watch(struct daemon *daemon, bool jobs_wait)
{
    for (size_t i = 0; daemon->devices->drivers[i]; i++)
        if (daemon->devices->drivers[i]->watch)
            daemon->devices->drivers[i]->watch(daemon, jobs_wait);
}

/* A refresh asks one driver after the other. */
struct refresh {
    struct daemon *daemon;
    size_t asked; /* drivers */
    enum device_reading reading;
    void (*done)(void *data);
    void *data;
};

static void refresh_further(void *data)
{
    struct refresh *refresh = data;
    const struct device_driver *driver;

    while ((driver = refresh->daemon->devices->drivers[refresh->asked])) {
        refresh->asked++;
        if (driver->refresh) {
            driver->refresh(refresh->daemon, refresh->reading, refresh_further, refresh);
            return;
        }
    }
    refresh->done(refresh->data);
    free(refresh);
}

void devices_refresh(struct daemon *daemon, enum device_reading reading, void (*done)(void *data),
                     void *data)
{
    struct refresh *refresh = malloc(sizeof *refresh);

    if (!refresh) { /* no memory: the last reading must do */
        done(data);
        return;
    }
    *refresh = (struct refresh){.daemon = daemon, .reading = reading, .done = done, .data = data};
    refresh_further(refresh);
}

uint64_t device_memory_used(const struct daemon *daemon, const struct device *device)
{
    return device->driver->memory_used ? device->driver->memory_used(daemon, device)
                                       : device->memory_outside + device->memory_booked;
}

struct device_sample device_sample_take(const struct daemon *daemon, const struct device *device)
{
    struct device_sample sample = {.utilisation = NAN,
                                   .memory_used = (double)device_memory_used(daemon, device),
                                   .temperature = NAN,
                                   .power = NAN};

    if (device->driver->sample)
        device->driver->sample(daemon, device, &sample);
    return sample;
}

/* ---- questions ------------------------------------------------------------------------------- */

const struct device_driver *devices_driver(const struct devices *devices, const char *kind)
{
    const struct device_driver *const *driver = devices->drivers;

    while (*driver && strcmp((*driver)->kind.name, kind) != 0)
        driver++;
    return *driver;
}

const char *devices_obstacle(const struct daemon *daemon, const char *kind)
{
    const struct device_driver *driver = devices_driver(daemon->devices, kind);

    return driver && driver->obstacle ? driver->obstacle(daemon) : "";
}

void devices_versions(const struct daemon *daemon, char *text, size_t size)
{
    size_t used = 0;

    *text = '\0';
    for (size_t i = 0; daemon->devices->drivers[i] && used < size; i++)
        if (daemon->devices->drivers[i]->version)
            used += (size_t)snprintf(text + used, size - used, "%s\n",
                                     daemon->devices->drivers[i]->version(daemon));
}

const char *device_plugin(const struct device *device, const struct config *config)
{
    return device->driver->plugin ? device->driver->plugin(config) : NULL;
}

const struct device_sharing *devices_record_sharing(const struct devices *devices,
                                                    struct json_object *record)
{
    for (size_t i = 0; devices->drivers[i]; i++) {
        const struct device_sharing *sharing = devices->drivers[i]->sharing;

        if (sharing && json_get_bool(record, sharing->name, false))
            return sharing;
    }
    return NULL;
}

void device_claim_take_start(struct device_claim *claim, struct json_object *record)
{
    if (claim->shared_by && !json_get_bool(record, claim->shared_by->name, true))
        claim->shared_by = NULL;
}

struct json_object *devices_sharing_names(const struct devices *devices)
{
    struct json_object *names = json_object_new_array();

    for (size_t i = 0; devices->drivers[i]; i++)
        if (devices->drivers[i]->sharing)
            json_object_array_add(names,
                                  json_object_new_string(devices->drivers[i]->sharing->name));
    return names;
}

void device_left(struct daemon *daemon, struct device *device, const struct device_claim *claim)
{
    if (device->driver->left)
        device->driver->left(daemon, device, claim);
}

static bool energy_read(struct daemon *daemon, struct device *device, double *joules,
                        double *busy_seconds)
{
    return device->driver->read_energy &&
           device->driver->read_energy(daemon, device, joules, busy_seconds);
}

void device_claim_begin_energy(struct daemon *daemon, struct device_claim *claim)
{
    for (int i = 0; i < claim->device_count; i++) {
        double joules, busy_seconds;

        if (energy_read(daemon, claim->devices[i], &joules, &busy_seconds))
            device_energy_begin(&claim->energy[i], joules, busy_seconds);
    }
}

void device_claim_end_energy(struct daemon *daemon, struct device_claim *claim)
{
    for (int i = 0; i < claim->device_count; i++) {
        double joules, busy_seconds;

        if (claim->energy[i].divided_by_time &&
            energy_read(daemon, claim->devices[i], &joules, &busy_seconds))
            device_energy_end(&claim->energy[i], joules, busy_seconds);
    }
}

static size_t list_claims(const struct device *device, pid_t *pids, size_t count, size_t limit)
{
    for (size_t i = 0; i < device->claim_count && count < limit; i++)
        if (device->claims[i]->pid > 0)
            pids[count++] = device->claims[i]->pid;
    return count;
}

size_t device_list_pids(const struct daemon *daemon, const struct device *device, pid_t *pids,
                        size_t limit)
{
    size_t count = daemon->jobs ? daemon->devices->listener->passing_pids(daemon, pids, limit) : 0;

    count = list_claims(device, pids, count, limit);
    for (const struct device *way = device->sharers; way; way = way->next_sharer)
        if (way->same_hardware)
            count = list_claims(way, pids, count, limit);
    return count;
}

bool device_holds_process(const struct daemon *daemon, const struct device *device,
                          const struct process_use *process)
{
    pid_t pids[PIDS_MAX];
    size_t count = device_list_pids(daemon, device, pids, PIDS_MAX);

    return process_is_of(process, pids, count);
}

/* ---- starting programs ----------------------------------------------------------------------- */

void device_argument_add(struct json_object *arguments, const char *text)
{
    json_object_array_add(arguments, json_object_new_string(text));
}

void device_argument_add_memory(const struct device *device, uint64_t memory_booked,
                                struct json_object *arguments)
{
    char limit[24];

    (void)device;
    if (!memory_booked)
        return;
    snprintf(limit, sizeof limit, "%llu", (unsigned long long)memory_booked);
    device_argument_add(arguments, "--memory-limit");
    device_argument_add(arguments, limit);
}

void device_environment_add(struct json_object *variables, const char *name, const char *value)
{
    if (!json_object_object_get_ex(variables, name, NULL))
        json_set_string(variables, name, value);
}

void device_environment_see(const struct device_driver *const *drivers, const struct device *device,
                            struct json_object *variables)
{
    for (size_t i = 0; drivers[i]; i++) {
        const struct device_environment environment = {
            .ids = device && device->driver == drivers[i] ? device->id : "",
            .native = device != NULL};

        if (drivers[i]->environment)
            drivers[i]->environment(&environment, variables);
    }
}

char **device_environment_list(struct json_object *variables)
{
    size_t count = (size_t)json_object_object_length(variables), bytes = 0, used = 0;
    char **list, *text;

    json_object_object_foreach (variables, name, value)
        bytes += strlen(name) + strlen(json_object_get_string(value)) + 2;
    list = malloc((count + 1) * sizeof *list + bytes);
    if (!list)
        return NULL;
    text = (char *)(list + count + 1);
    json_object_object_foreach (variables, key, set) {
        list[used++] = text;
        text += sprintf(text, "%s=%s", key, json_object_get_string(set)) + 1;
    }
    list[used] = NULL;
    return list;
}
