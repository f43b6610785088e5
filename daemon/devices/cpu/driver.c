/* driver.c: the machine's processor. The memory in use and the attempts' part of it are read at the
 * same moment. That happens on the thread pool, because an attempt may have many processes. */
#include "daemon/devices/driver.h"

#include "base/clock.h"
#include "base/memory.h"
#include "daemon/devices/cpu/rapl.h"
#include "daemon/devices/device_claim.h"
#include "daemon/devices/host_probe.h"
#include "daemon/devices/process_memory.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum {
    SAMPLE_MILLISECONDS = 100,
    ENERGY_MILLISECONDS = 30 * 1000, /* well before a counter begins again, see rapl.h */
    RAPL_SECONDS_MAX = 120,          /* after that it may have begun again */
    SAMPLE_SECONDS_MAX = 120         /* twice the longest Period of [History] */
};

extern const struct device_driver device_driver_cpu;

/* The driver's state. */
struct cpu_meters {
    struct rapl rapl;
    uv_timer_t timer; /* runs while attempts are on the processor */
    struct device *device;
    /* of the last sample; `sampled_at` (clock_monotonic()) 0: there was none */
    double sampled_at, busy_seconds, joules;
    struct device_sample sample; /* what it was */
};

/* ---- energy ---------------------------------------------------------------------------------- */

static void start_meters(struct daemon *daemon, struct device *device)
{
    struct cpu_meters *meters = memory_zero(sizeof *meters);

    rapl_open(&meters->rapl, "");
    meters->device = device;
    uv_timer_init(daemon->loop, &meters->timer);
    meters->timer.data = meters;
    *device_driver_state(daemon, &device_driver_cpu) = meters;
}

static void on_energy_timer(uv_timer_t *timer)
{
    struct cpu_meters *meters = timer->data;
    double ignored;

    rapl_read(&meters->rapl, &ignored);
    if (meters->device->claim_count == 0)
        uv_timer_stop(timer);
}

static bool read_energy(struct daemon *daemon, struct device *device, double *joules,
                        double *busy_seconds)
{
    struct cpu_meters *meters = *device_driver_state(daemon, &device_driver_cpu);

    (void)device;
    if (!meters || !rapl_read(&meters->rapl, joules))
        return false;
    *busy_seconds = host_probe_busy_seconds("");
    if (!uv_is_active((uv_handle_t *)&meters->timer))
        uv_timer_start(&meters->timer, on_energy_timer, ENERGY_MILLISECONDS, ENERGY_MILLISECONDS);
    return true;
}

static void on_meters_closed(uv_handle_t *handle)
{
    free(handle->data);
}

static void stop(struct daemon *daemon)
{
    struct cpu_meters *meters = *device_driver_state(daemon, &device_driver_cpu);

    if (!meters)
        return;
    *device_driver_state(daemon, &device_driver_cpu) = NULL;
    uv_close((uv_handle_t *)&meters->timer, on_meters_closed);
}

/* ---- samples --------------------------------------------------------------------------------- */

/* How busy all cores of the machine were, and the power of its packages, since the last sample. The
 * monotonic clock stands still while the machine sleeps, as these counters do. */
static void take_sample(const struct daemon *daemon, const struct device *device,
                        struct device_sample *sample)
{
    struct cpu_meters *meters = *device_driver_state(daemon, &device_driver_cpu);
    double now = clock_monotonic(), seconds, joules, busy = host_probe_busy_seconds("");

    (void)device;
    if (!meters)
        return;
    if (!rapl_read(&meters->rapl, &joules))
        joules = NAN;
    seconds = meters->sampled_at > 0 ? now - meters->sampled_at : 0;
    if (seconds > 0) {
        double part =
            (busy - meters->busy_seconds) / (seconds * (double)sysconf(_SC_NPROCESSORS_ONLN));

        sample->utilisation = isnan(part) ? NAN : fmin(fmax(part, 0), 1);
    }
    if (seconds > 0 && seconds < RAPL_SECONDS_MAX)
        sample->power = (joules - meters->joules) / seconds;
    meters->sampled_at = now;
    meters->busy_seconds = busy;
    meters->joules = joules;
    meters->sample = *sample;
}

/* The last sample, while it tells something of now. */
static void describe_sample(const struct daemon *daemon, struct json_object *json)
{
    const struct cpu_meters *meters = *device_driver_state(daemon, &device_driver_cpu);

    if (!meters || !(meters->sampled_at > 0) ||
        clock_monotonic() - meters->sampled_at > SAMPLE_SECONDS_MAX)
        return;
    if (isfinite(meters->sample.utilisation))
        json_set_double(json, "cores_busy", meters->sample.utilisation);
    if (isfinite(meters->sample.power))
        json_set_double(json, "power_watts", meters->sample.power);
}

/* ---- the device ------------------------------------------------------------------------------ */

static int open_cpu(struct daemon *daemon, struct error *error)
{
    const struct device_config *section = config_device(&daemon->config, DEVICE_HOST);
    struct device *device;

    if (section && !section->enabled)
        return 0;
    device = devices_add(daemon->devices, &daemon->config, DEVICE_HOST, &device_driver_cpu,
                         daemon->host->model, error);
    if (!device)
        return error->code;
    snprintf(device->id, sizeof device->id, "%s", daemon->host->id);
    device->memory_total = daemon->host->memory_total;
    device->trains = true;
    start_meters(daemon, device);
    return 0;
}

static void configure(struct device *device, const struct config *config)
{
    device->slots = config->cpu_slots > 0 ? (int)config->cpu_slots : -1;
}

static void describe_type(const struct device *device, char *text, size_t size)
{
    (void)device;
    snprintf(text, size, DEVICE_HOST);
}

/* ---- memory of other programs ---------------------------------------------------------------- */

struct memory_reading {
    uv_work_t work;
    struct daemon *daemon;
    struct device *device;
    uint64_t used;
    size_t count;
    struct claim_reading {
        struct device *device; /* the CPU, or a device that shares its memory */
        int64_t job, number;   /* of the attempt */
        pid_t pid;
        bool alone;
        struct process_memory memory;
    } claims[];
};

static void read_memory(uv_work_t *work)
{
    struct memory_reading *reading = work->data;

    reading->used = host_probe_memory_used("", reading->daemon->host);
    for (size_t i = 0; i < reading->count; i++)
        process_memory_read(reading->claims[i].pid, reading->claims[i].alone,
                            &reading->claims[i].memory);
}

static struct device_claim *find_claim(const struct device *device, int64_t job, int64_t number)
{
    for (size_t i = 0; i < device->claim_count; i++)
        if (device->claims[i]->job == job && device->claims[i]->number == number)
            return device->claims[i];
    return NULL;
}

/* Stores what an attempt holds. If that is more than it booked, the booking grows, on each of its
 * devices alike. */
static void take_own(struct device *host, const struct claim_reading *reading)
{
    struct device_claim *claim = find_claim(reading->device, reading->job, reading->number);
    uint64_t part, sharing = 0;

    if (!claim || device_ledger(reading->device) != host) /* the attempt has ended */
        return;
    claim->memory_held = reading->memory;
    for (int i = 0; i < claim->device_count; i++)
        sharing += device_ledger(claim->devices[i]) == host;
    part = sharing ? (reading->memory.bytes + sharing - 1) / sharing : 0;
    if (part <= claim->memory_booked)
        return;
    for (int i = 0; i < claim->device_count; i++)
        claim->devices[i]->memory_booked += part - claim->memory_booked;
    claim->memory_booked = part;
}

static void on_memory_read(uv_work_t *work, int status)
{
    struct memory_reading *reading = work->data;
    struct device *device = reading->device;
    uint64_t ours = 0;

    (void)status; /* never cancelled */
    device->being_read = false;
    if (!reading->daemon->devices->stopping) {
        for (size_t i = 0; i < reading->count; i++) {
            ours += reading->claims[i].memory.bytes;
            take_own(device, &reading->claims[i]);
        }
        device->memory_outside = reading->used > ours ? reading->used - ours : 0;
        reading->daemon->devices->listener->measured(reading->daemon);
    }
    free(reading);
}

/* The first of the attempt's devices that have their memory with `host`. */
static const struct device *first_in(const struct device_claim *claim, const struct device *host)
{
    int i = 0;

    while (i < claim->device_count && device_ledger(claim->devices[i]) != host)
        i++;
    return i < claim->device_count ? claim->devices[i] : NULL;
}

static void add_claims(struct memory_reading *reading, struct device *device)
{
    for (size_t i = 0; i < device->claim_count; i++) {
        const struct device_claim *claim = device->claims[i];

        /* an attempt on several devices counts once */
        if (claim->pid > 0 && device == first_in(claim, device_ledger(device)))
            reading->claims[reading->count++] =
                (struct claim_reading){.device = device,
                                       .job = claim->job,
                                       .number = claim->number,
                                       .pid = claim->pid,
                                       .alone = claim->is_one_process,
                                       .memory = claim->memory_held};
    }
}

/* Attempts in the machine's memory. */
static size_t count_claims(const struct device *host)
{
    size_t count = host->claim_count;

    for (const struct device *sharer = host->sharers; sharer; sharer = sharer->next_sharer)
        count += sharer->claim_count;
    return count;
}

static void start_reading(struct daemon *daemon, struct device *device)
{
    struct memory_reading *reading =
        calloc(1, sizeof *reading + count_claims(device) * sizeof *reading->claims);

    if (!reading) /* no memory: the last reading stays valid */
        return;
    reading->daemon = daemon;
    reading->device = device;
    reading->work.data = reading;
    add_claims(reading, device);
    for (struct device *sharer = device->sharers; sharer; sharer = sharer->next_sharer)
        add_claims(reading, sharer);
    device->being_read = true;
    daemon_queue_work(daemon, &reading->work, read_memory, on_memory_read);
}

/* Measures what others hold: all memory in use minus what the jobs hold. Without jobs this is done
 * at once. Otherwise the last reading applies while the next one is under way. */
static bool measure(struct daemon *daemon, struct device *device)
{
    uint64_t now = uv_now(daemon->loop);

    if (device->being_read ||
        (device->measured_at && now - device->measured_at < SAMPLE_MILLISECONDS))
        return device->being_read;
    device->measured_at = now ? now : 1;
    if (count_claims(device) == 0)
        device->memory_outside = host_probe_memory_used("", daemon->host);
    else
        start_reading(daemon, device);
    return device->being_read;
}

/* ---- reporting ------------------------------------------------------------------------------- */

static uint64_t memory_used(const struct daemon *daemon, const struct device *device)
{
    (void)device;
    return host_probe_memory_used("", daemon->host);
}

static void describe(const struct daemon *daemon, const struct device *device,
                     struct json_object *json)
{
    static const struct {
        const char *resource, *key;
    } pressures[] = {{"cpu", "cpu_pressure"}, {"memory", "memory_pressure"}};
    const struct host_probe *cpu = daemon->host;

    (void)device;
    for (int i = 0; i < cpu->feature_count; i++)
        json_object_array_add(json_get(json, "features"), json_object_new_string(cpu->features[i]));
    json_set_int(json, "cores", cpu->threads);
    for (size_t i = 0; i < sizeof pressures / sizeof *pressures; i++) {
        double pressure = host_probe_pressure("", pressures[i].resource);

        if (isfinite(pressure))
            json_set_double(json, pressures[i].key, pressure);
    }
    describe_sample(daemon, json);
}

static const struct device_suspension suspension = {0}; /* programs are only frozen */

const struct device_driver device_driver_cpu = {
    .kind = {.name = DEVICE_HOST, .naming = DEVICE_NAMED_AS_KIND, .is_host = true},
    .open = open_cpu,
    .stop = stop,
    .configure = configure,
    .describe_type = describe_type,
    .measure = measure,
    .read_energy = read_energy,
    .sample = take_sample,
    .memory_used = memory_used,
    .describe = describe,
    .suspension = &suspension,
};
