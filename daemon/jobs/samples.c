/* samples.c: see samples.h. Each sample is one value; a transaction takes all that wait. */
#include "daemon/jobs/samples.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/memory.h"
#include "daemon/devices/driver.h"
#include "daemon/jobs/parts.h"
#include "daemon/store/sample_rows.h"
#include "daemon/store/store.h"
#include "daemon/work/job_table.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    PERIOD_MILLISECONDS_MIN = 100,
    STORE_MILLISECONDS = 60 * 1000,
    RETRY_MILLISECONDS = 5000, /* a full disk: thousands of rows are tried in vain each time */
    WAITING_MAX = 1 << 16      /* of a full disk: 2 MiB, or an hour of 36 values every 2 seconds */
};

/* Values in the order in which they were taken. */
struct sample_list {
    struct sample *samples; /* owned */
    size_t count, capacity;
};

struct samples {
    struct jobs *jobs;
    uv_timer_t timer;
    struct sample_list waiting; /* not handed to the store yet */
    struct sample_batch *last;  /* of the transactions under way; NULL: there is none */
    uint64_t stored_at;         /* uv_now() when the last one was handed in */
    bool failing;               /* it was rolled back */
    bool refreshing;            /* the devices are being read for a sample */
};

/* Somebody who waits for a transaction. */
struct sample_flush {
    struct sample_flush *next;
    void (*done)(void *data);
    void *data;
};

/* One transaction. */
struct sample_batch {
    struct samples *owner;
    struct sample_list list;      /* never empty */
    struct sample_flush *flushes; /* owned */
};

/* ---- lists ----------------------------------------------------------------------------------- */

/* Without memory the samples are not kept. */
static void list_append(struct sample_list *list, const struct sample *samples, size_t count)
{
    if (count == 0)
        return;
    if (list->count + count > list->capacity) {
        size_t capacity = 2 * (list->count + count);
        struct sample *more = realloc(list->samples, capacity * sizeof *more);

        if (!more)
            return;
        list->samples = more;
        list->capacity = capacity;
    }
    memcpy(list->samples + list->count, samples, count * sizeof *samples);
    list->count += count;
}

/* Drops the oldest ones beyond WAITING_MAX. */
static void list_bound(struct sample_list *list)
{
    size_t excess = list->count > WAITING_MAX ? list->count - WAITING_MAX : 0;

    if (!excess)
        return;
    memmove(list->samples, list->samples + excess, WAITING_MAX * sizeof *list->samples);
    list->count = WAITING_MAX;
}

/* ---- storing --------------------------------------------------------------------------------- */

/* The store sorts what it is given, so it gets a copy: a batch that fails is tried again, in the
 * order in which it was sampled. */
static int batch_store(struct store_connection *connection, void *data, struct error *error)
{
    const struct sample_batch *batch = data;
    size_t count = batch->list.count;
    AUTO_FREE struct sample *copy = malloc(count * sizeof *copy);

    if (!copy)
        return error_no_memory(error, "%zu samples", count);
    memcpy(copy, batch->list.samples, count * sizeof *copy);
    return samples_store(connection, copy, count, error);
}

static void on_batch(void *data, int result, const struct error *error)
{
    struct sample_batch *batch = data;
    struct samples *samples = batch->owner;

    (void)error; /* the store has logged it */
    if (samples->last == batch)
        samples->last = NULL;
    samples->failing = result < 0;
    if (result < 0) { /* they go with the next transaction, before those that came meanwhile */
        list_append(&batch->list, samples->waiting.samples, samples->waiting.count);
        free(samples->waiting.samples);
        samples->waiting = batch->list;
        batch->list = (struct sample_list){0};
        list_bound(&samples->waiting);
    }
    for (struct sample_flush *flush = batch->flushes, *next; flush; flush = next) {
        next = flush->next;
        flush->done(flush->data);
        free(flush);
    }
    free(batch->list.samples);
    free(batch);
}

static void batch_hand_in(struct samples *samples, bool at_once)
{
    struct sample_batch *batch = memory_zero(sizeof *batch);
    struct store *store = samples->jobs->daemon->store;

    *batch = (struct sample_batch){.owner = samples, .list = samples->waiting};
    samples->waiting = (struct sample_list){0};
    samples->last = batch;
    samples->stored_at = uv_now(samples->jobs->daemon->loop);
    if (at_once)
        store_write(store, batch_store, on_batch, batch);
    else
        store_write_soon(store, batch_store, on_batch, batch);
}

void samples_flush(struct daemon *daemon, void (*done)(void *data), void *data)
{
    struct samples *samples = daemon->jobs->samples;
    bool in_vain =
        samples->failing && uv_now(daemon->loop) - samples->stored_at < RETRY_MILLISECONDS;
    struct sample_flush *flush;

    if (samples->waiting.count > 0 && !in_vain)
        batch_hand_in(samples, true);
    if (!samples->last) {
        done(data);
        return;
    }
    flush = memory_zero(sizeof *flush);
    *flush = (struct sample_flush){.next = samples->last->flushes, .done = done, .data = data};
    samples->last->flushes = flush;
}

/* ---- sampling -------------------------------------------------------------------------------- */

static void value_add(struct samples *samples, const char *device, enum sample_quantity quantity,
                      double time, double value)
{
    const struct sample sample = {device, quantity, time, value};

    if (isfinite(value))
        list_append(&samples->waiting, &sample, 1);
}

static void device_add(struct samples *samples, const struct device *device, double now)
{
    const struct device_sample sample = device_sample_take(samples->jobs->daemon, device);

    if (device->missing)
        return;
    value_add(samples, device->id, SAMPLE_UTILISATION, now, sample.utilisation);
    value_add(samples, device->id, SAMPLE_MEMORY_USED, now, sample.memory_used);
    value_add(samples, device->id, SAMPLE_TEMPERATURE, now, sample.temperature);
    value_add(samples, device->id, SAMPLE_POWER, now, sample.power);
    value_add(samples, device->id, SAMPLE_JOBS, now, (double)device->claim_count);
}

static void sample_take(struct samples *samples)
{
    const struct jobs *jobs = samples->jobs;
    const struct devices *devices = jobs->daemon->devices;
    const size_t *in_state = jobs->table->in_state;
    double now = clock_now();

    for (size_t i = 0; i < devices->count; i++)
        device_add(samples, devices->list[i], now);
    value_add(samples, SAMPLE_QUEUE, SAMPLE_QUEUED, now, (double)in_state[JOB_QUEUED]);
    value_add(samples, SAMPLE_QUEUE, SAMPLE_RUNNING, now,
              (double)(in_state[JOB_STARTING] + in_state[JOB_RUNNING] + in_state[JOB_PREEMPTING]));
    list_bound(&samples->waiting);
    if (samples->waiting.count > 0 &&
        uv_now(jobs->daemon->loop) - samples->stored_at >= STORE_MILLISECONDS)
        batch_hand_in(samples, false);
}

static void on_devices_read(void *data)
{
    struct samples *samples = data;

    samples->refreshing = false;
    if (!samples->jobs->stopping)
        sample_take(samples);
}

/* Whether a device that is here has to be read. Without one, a machine without GPUs would look for
 * NVIDIA's library in each period. */
static bool is_read_by_driver(const struct devices *devices)
{
    for (size_t i = 0; i < devices->count; i++)
        if (devices->list[i]->driver->refresh && !devices->list[i]->missing)
            return true;
    return false;
}

/* A driver that hangs costs the samples of its own devices alone. */
static void on_timer(uv_timer_t *timer)
{
    struct samples *samples = timer->data;

    if (!samples->jobs->loaded)
        return;
    if (samples->refreshing || !is_read_by_driver(samples->jobs->daemon->devices)) {
        sample_take(samples);
        return;
    }
    samples->refreshing = true;
    devices_refresh(samples->jobs->daemon, DEVICE_READING_RECENT, on_devices_read, samples);
}

/* ---- beginning and end ----------------------------------------------------------------------- */

double samples_period(const struct daemon *daemon)
{
    double seconds = daemon->config.history_period_seconds;

    return seconds > 0 ? fmax(seconds, 1e-3 * PERIOD_MILLISECONDS_MIN) : 0;
}

void samples_start(struct jobs *jobs)
{
    struct samples *samples = memory_zero(sizeof *samples);
    uint64_t period = (uint64_t)(samples_period(jobs->daemon) * 1000);

    jobs->samples = samples;
    samples->jobs = jobs;
    uv_timer_init(jobs->daemon->loop, &samples->timer);
    samples->timer.data = samples;
    samples->stored_at = uv_now(jobs->daemon->loop);
    if (period > 0)
        uv_timer_start(&samples->timer, on_timer, period, period);
}

void samples_stop(struct jobs *jobs)
{
    struct samples *samples = jobs->samples;

    uv_close((uv_handle_t *)&samples->timer, NULL);
    if (samples->waiting.count > 0)
        batch_hand_in(samples, true);
}

void samples_free(struct jobs *jobs)
{
    if (jobs->samples)
        free(jobs->samples->waiting.samples);
    free(jobs->samples);
}
