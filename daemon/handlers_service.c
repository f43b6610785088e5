/* handlers_service.c: Ping and Devices. */
#include "daemon/handlers.h"
#include "daemon/jobs.h"
#include "daemon/store.h"

#include <errno.h>
#include <stdlib.h>

/* ---- Ping: from memory alone -------------------------------------------------------------------
 */

void handle_ping(struct call *call)
{
    struct daemon *daemon = call->daemon;
    struct json_object *reply = json_object_new_object(), *notes = json_object_new_array();

    json_set_string(reply, "version", TRAIND_VERSION);
    json_set_int(reply, "pid", getpid());
    json_set_double(reply, "started", daemon->started);
    json_set_string(reply, "mode", daemon->mode == DAEMON_SYSTEM ? "system" : "user");
    for (int i = 0; i < daemon->note_count; i++)
        json_object_array_add(notes, json_object_new_string(daemon->notes[i]));
    json_set(reply, "notes", notes);
    call_reply(call, reply);
}

/* ---- Devices: each with what others and our jobs hold of it ------------------------------------
 */

enum { JOBS_SHOWN_MAX = 256 };

struct devices_query {
    struct call *call;
    uint64_t memory_used;
};

static int read_memory_used(struct store_connection *connection, void *data, struct error *error)
{
    struct devices_query *query = data;

    (void)connection;
    (void)error;
    query->memory_used = cpu_probe_memory_used("", &query->call->daemon->cpu);
    return 0;
}

static struct json_object *describe_cpu(struct daemon *daemon, uint64_t memory_used)
{
    const struct cpu_probe *cpu = &daemon->cpu;
    struct json_object *device = json_object_new_object();
    struct json_object *features = json_object_new_array(), *jobs = json_object_new_array();
    int64_t ids[JOBS_SHOWN_MAX];
    uint64_t booked = 0;
    size_t count = jobs_on_device(daemon, "cpu", ids, JOBS_SHOWN_MAX, &booked);

    for (int i = 0; i < cpu->feature_count; i++)
        json_object_array_add(features, json_object_new_string(cpu->features[i]));
    for (size_t i = 0; i < count && i < JOBS_SHOWN_MAX; i++)
        json_object_array_add(jobs, json_object_new_int64(ids[i]));
    json_set_string(device, "name", "cpu");
    json_set_string(device, "id", cpu->id);
    json_set_string(device, "kind", "cpu");
    json_set_string(device, "model", cpu->model);
    json_set_int(device, "cores", cpu->threads);
    json_set(device, "features", features);
    json_set_int(device, "memory_total", (int64_t)cpu->memory_total);
    json_set_int(device, "memory_used", (int64_t)memory_used);
    json_set_int(device, "memory_booked", (int64_t)booked);
    json_set_double(device, "high_watermark_ratio", daemon->config.high_watermark_ratio);
    json_set_int(device, "slots", daemon->config.cpu_slots);
    json_set(device, "jobs", jobs);
    json_set_string(device, "health", "healthy");
    return device;
}

static void on_memory_used(void *data, int result, const struct error *error)
{
    struct devices_query query = *(struct devices_query *)data;
    struct json_object *reply, *devices;

    free(data);
    if (result < 0) {
        call_fail_storage(query.call, error);
        return;
    }
    reply = json_object_new_object();
    devices = json_object_new_array();
    json_object_array_add(devices, describe_cpu(query.call->daemon, query.memory_used));
    json_set(reply, "devices", devices);
    call_reply(query.call, reply);
}

void handle_devices(struct call *call)
{
    struct devices_query *query = calloc(1, sizeof *query);

    if (!query) {
        call_fail(call, "InternalError", NULL, "no memory left");
        return;
    }
    query->call = call;
    store_read(call->daemon->store, read_memory_used, on_memory_used, query);
}
