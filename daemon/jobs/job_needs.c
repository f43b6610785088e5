/* job_needs.c: see job_needs.h. */
#include "daemon/jobs/job_needs.h"

#include "base/hash.h"
#include "base/memory.h"
#include "daemon/context/context.h"
#include "daemon/devices/driver.h"
#include "daemon/devices/host_probe.h"
#include "proto/json.h"

#include <stdlib.h>
#include <string.h>

static const char **list_of_texts(struct json_object *array, size_t *count)
{
    const char **list;

    *count = 0;
    if (!array || !json_object_is_type(array, json_type_array))
        return NULL;
    list = memory_zero((json_object_array_length(array) + 1) * sizeof *list);
    for (size_t i = 0; i < json_object_array_length(array); i++)
        list[(*count)++] = json_object_get_string(json_object_array_get_idx(array, i));
    return list;
}

static struct job_needs *needs_read(const char *text)
{
    struct job_needs *needs = memory_zero(sizeof *needs);
    struct json_object *device, *resources;

    if (json_parse(text, strlen(text), &needs->parsed, NULL) < 0) {
        free(needs);
        return NULL;
    }
    needs->text = memory_copy_text(text);
    device = json_get(needs->parsed, "device");
    resources = json_get(needs->parsed, "resources");
    needs->allow = list_of_texts(json_get(device, "allow"), &needs->allow_count);
    needs->deny = list_of_texts(json_get(device, "deny"), &needs->deny_count);
    needs->prefer = json_get_string(device, "prefer", NULL);
    if (needs->prefer && strcmp(needs->prefer, "auto") == 0)
        needs->prefer = NULL;
    needs->force = json_get_string(device, "force", NULL);
    needs->fallback = json_get_bool(device, "fallback", true);
    needs->guess = json_get_string(device, "guess", NULL);
    needs->guess_reason = json_get_string(device, "guess_reason", NULL);
    needs->pinned = json_get_string(needs->parsed, "pinned", NULL);
    needs->avoid = list_of_texts(json_get(needs->parsed, "avoid"), &needs->avoid_count);
    needs->threads = (int)json_get_int(device, "threads", 0);
    needs->cores = (int)json_get_int(resources, "cores", 0);
    needs->devices = (int)json_get_int(resources, "devices", 1);
    needs->memory = (uint64_t)json_get_int(resources, "memory", 0);
    needs->device_memory = (uint64_t)json_get_int(resources, "device_memory", 0);
    needs->seconds = json_get_double(resources, "time", 0);
    if (needs->allow_count + needs->deny_count + needs->avoid_count == 0 && !needs->prefer &&
        !needs->force && !needs->guess && !needs->guess_reason &&
        !needs->pinned) { /* no string of it is in use, as for most of 100,000 jobs */
        json_object_put(needs->parsed);
        needs->parsed = NULL;
    }
    return needs;
}

static void needs_free(struct job_needs *needs)
{
    json_object_put(needs->parsed);
    free(needs->allow);
    free(needs->deny);
    free(needs->avoid);
    free(needs->text);
    free(needs);
}

/* ---- sharing --------------------------------------------------------------------------------- */

static void table_grow(struct job_needs_table *table)
{
    size_t count = table->bucket_count ? table->bucket_count * 2 : 64;
    struct job_needs **buckets = calloc(count, sizeof(struct job_needs *));

    if (!buckets)
        return; /* the chains become longer */
    for (size_t i = 0; i < table->bucket_count; i++) {
        struct job_needs *needs = table->buckets[i];

        while (needs) {
            struct job_needs *next = needs->next_in_bucket;
            size_t bucket = hash_text(needs->text) % count;

            needs->next_in_bucket = buckets[bucket];
            buckets[bucket] = needs;
            needs = next;
        }
    }
    free(table->buckets);
    table->buckets = buckets;
    table->bucket_count = count;
}

struct job_needs *job_needs_take(struct job_needs_table *table, const char *text)
{
    struct job_needs *needs = NULL;

    if (table->count >= table->bucket_count)
        table_grow(table);
    if (!table->bucket_count)
        return NULL;
    struct job_needs **bucket = &table->buckets[hash_text(text) % table->bucket_count];
    for (needs = *bucket; needs && strcmp(needs->text, text) != 0; needs = needs->next_in_bucket) {
    }
    if (!needs) {
        needs = needs_read(text);
        if (!needs)
            return NULL;
        needs->next_in_bucket = *bucket;
        *bucket = needs;
        table->count++;
    }
    needs->references++;
    return needs;
}

struct job_needs *job_needs_pinned(struct job_needs_table *table, const struct job_needs *needs,
                                   const char *device)
{
    JSON_AUTO struct json_object *copy = NULL;

    if (json_parse(needs->text, strlen(needs->text), &copy, NULL) < 0)
        return NULL;
    json_object_object_del(copy, "pinned");
    if (device) { /* the user wants this device even if it failed before */
        json_set_string(copy, "pinned", device);
        json_object_object_del(copy, "avoid");
    }
    return job_needs_take(table, json_text(copy, NULL));
}

struct job_needs *job_needs_avoiding(struct job_needs_table *table, const struct job_needs *needs,
                                     const char *device)
{
    JSON_AUTO struct json_object *copy = NULL;
    struct json_object *list;

    if (json_parse(needs->text, strlen(needs->text), &copy, NULL) < 0)
        return NULL;
    list = json_object_get(json_get(copy, "avoid"));
    if (!list)
        list = json_object_new_array();
    if (device)
        json_object_array_add(list, json_object_new_string(device));
    json_set(copy, "avoid", list);
    if (!device)
        json_object_object_del(copy, "avoid");
    if (device && needs->pinned && strcmp(needs->pinned, device) == 0)
        json_object_object_del(copy, "pinned");
    return job_needs_take(table, json_text(copy, NULL));
}

void job_needs_drop(struct job_needs_table *table, struct job_needs *needs)
{
    struct job_needs **link;

    if (!needs || --needs->references > 0)
        return;
    link = &table->buckets[hash_text(needs->text) % table->bucket_count];
    while (*link != needs)
        link = &(*link)->next_in_bucket;
    *link = needs->next_in_bucket;
    table->count--;
    needs_free(needs);
}

void job_needs_table_release(struct job_needs_table *table)
{
    for (size_t i = 0; i < table->bucket_count; i++) {
        while (table->buckets[i]) {
            struct job_needs *needs = table->buckets[i];

            table->buckets[i] = needs->next_in_bucket;
            needs_free(needs);
        }
    }
    free(table->buckets);
    *table = (struct job_needs_table){0};
}

/* ---- questions ------------------------------------------------------------------------------- */

/* Whether the word of a specification means the device for such a job. */
static bool means(const char *word, const struct device *device, enum job_kind kind)
{
    bool is_general = strcmp(word, DEVICES_GPU) == 0 || strcmp(word, DEVICES_ANY) == 0;

    return device_matches(device, word) &&
           !(is_general && (device->same_hardware ||
                            (kind == JOB_COMMAND && device->driver->kind.for_native_jobs)));
}

static bool any_means(const char *const *words, size_t count, const struct device *device,
                      enum job_kind kind)
{
    for (size_t i = 0; i < count; i++)
        if (means(words[i], device, kind))
            return true;
    return false;
}

static bool specification_allows(const struct job_needs *needs, enum job_kind kind,
                                 const struct device *device)
{
    if (device_matches_any(device, needs->deny, needs->deny_count))
        return false;
    if (needs->force)
        return means(needs->force, device, kind);
    if (needs->prefer && !needs->fallback && !means(needs->prefer, device, kind))
        return false;
    if (needs->allow_count)
        return any_means(needs->allow, needs->allow_count, device, kind);
    if (needs->prefer && means(needs->prefer, device, kind))
        return true;
    if (kind == JOB_NATIVE)
        return !device->same_hardware; /* its GPU is had by the other way */
    if (needs->device_memory > 0)
        return !device->driver->kind.is_host && !device->driver->kind.for_native_jobs;
    return !device->driver->kind.only_by_name; /* job_default.h decides the rest */
}

bool job_needs_name_device(const struct job_needs *needs)
{
    return needs->force || needs->prefer || needs->allow_count || needs->device_memory > 0;
}

bool job_needs_allow(const struct job_needs *needs, enum job_kind kind, const struct device *device)
{
    for (size_t i = 0; i < needs->avoid_count; i++)
        if (strcmp(needs->avoid[i], device->name) == 0)
            return false;
    return (!needs->pinned || strcmp(needs->pinned, device->name) == 0) &&
           specification_allows(needs, kind, device);
}

bool job_needs_would_allow(const struct job_needs *needs, enum job_kind kind,
                           const struct device *device)
{
    return specification_allows(needs, kind, device);
}

static bool is_there(const struct devices *devices, const char *pattern)
{
    for (size_t i = 0; i < devices->count; i++)
        if (device_matches(devices->list[i], pattern))
            return true;
    return false;
}

/* A kind of device is known even if the machine has none of it, unless the job can run nowhere else
 * (`needed`). */
static bool is_known(const struct devices *devices, const char *name, bool needed)
{
    return is_there(devices, name) ||
           (!needed && (devices_driver(devices, name) || strcmp(name, DEVICES_GPU) == 0));
}

/* Whether the machine has any device that the job's specification allows by name. */
static bool any_is_there(const struct devices *devices, const struct job_needs *needs)
{
    for (size_t i = 0; i < needs->allow_count; i++)
        if (is_there(devices, needs->allow[i]))
            return true;
    return false;
}

bool job_needs_find_unknown(const struct job_needs *needs, const struct devices *devices,
                            const char **key, const char **name)
{
    *key = "device.force";
    *name = needs->force;
    if (needs->force && !is_known(devices, needs->force, true))
        return true;
    *key = "device.prefer";
    *name = needs->prefer;
    if (needs->prefer && !is_known(devices, needs->prefer, !needs->fallback))
        return true;
    *key = "device.allow";
    for (size_t i = 0; i < needs->allow_count; i++)
        if (!is_known(devices, *name = needs->allow[i], false))
            return true;
    if (needs->allow_count && !any_is_there(devices, needs)) {
        *name = needs->allow[0];
        *key = "device.allow";
        return true;
    }
    *key = "device.deny";
    for (size_t i = 0; i < needs->deny_count; i++)
        if (!is_known(devices, *name = needs->deny[i], false))
            return true;
    return false;
}

bool job_needs_find_contradiction(const struct job_needs *needs, const struct devices *devices,
                                  const char **key, const char **other)
{
    const char *meant = needs->force ? needs->force : needs->fallback ? NULL : needs->prefer;

    *key = needs->force ? "device.force" : "device.prefer";
    *other = "device.deny";
    for (size_t i = 0; meant && i < devices->count; i++) {
        const struct device *device = devices->list[i];

        if (!device_matches(device, meant) ||
            device_matches_any(device, needs->deny, needs->deny_count))
            continue;
        if (needs->force || !needs->allow_count ||
            device_matches_any(device, needs->allow, needs->allow_count))
            return false;
        *other = "device.allow";
    }
    return meant && is_there(devices, meant);
}

int job_needs_threads(const struct daemon *daemon, const struct job_needs *needs)
{
    int slots = (int)daemon->config.cpu_slots;
    int share = daemon->host->threads / (slots > 0 ? slots : 1);

    if (share < 1)
        share = 1;
    return needs && needs->threads > 0 ? needs->threads : share;
}
