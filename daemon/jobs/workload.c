/* workload.c: see workload.h. */
#include "daemon/jobs/workload.h"

#include "base/hash.h"
#include "base/memory.h"
#include "daemon/devices/driver.h"
#include "daemon/jobs/predictions.h"
#include "proto/json.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Assumptions about a step's time before anything is known: operations per second and the
 * deviation. In the measurements of docs/profile.md one core of 2020 with vector units reached 20
 * to 60 GFLOP/s in float32; small models reached a tenth of that. */
static const double assumed_flops_per_second = 1e10, assumed_deviation = 1.5;

/* The same for a GPU: operations per second of small models in float32, and the least time of a
 * kernel. An MLP 784-256-10 with batches of 128 took 68 microseconds in 14 kernels on an H200. */
static const double assumed_gpu_flops_per_second = 1e13, assumed_kernel_seconds = 5e-6;

static const char *const basis_names[] = {[BASIS_UNKNOWN] = "unknown",
                                          [BASIS_DECLARED] = "declared",
                                          [BASIS_CALIBRATION] = "calibration",
                                          [BASIS_LEARNT] = "learnt",
                                          [BASIS_MEASURED] = "measured"};
DEFINE_STRING_TABLE(workload_basis, enum workload_basis, basis_names)

/* ---- sharing --------------------------------------------------------------------------------- */

static size_t bucket_of(size_t count, uid_t uid, const char *digest)
{
    return (hash_text(digest) ^ uid) % count;
}

static void table_grow(struct workload_table *table)
{
    size_t count = table->bucket_count ? table->bucket_count * 2 : 64;
    struct workload **buckets = calloc(count, sizeof(struct workload *));

    if (!buckets)
        return; /* the chains become longer */
    for (size_t i = 0; i < table->bucket_count; i++) {
        struct workload *workload = table->buckets[i];

        while (workload) {
            struct workload *next = workload->next_in_bucket;
            size_t bucket = bucket_of(count, workload->uid, workload->digest);

            workload->next_in_bucket = buckets[bucket];
            buckets[bucket] = workload;
            workload = next;
        }
    }
    free(table->buckets);
    table->buckets = buckets;
    table->bucket_count = count;
}

struct workload *workload_find(const struct workload_table *table, uid_t uid, const char *digest)
{
    struct workload *workload =
        table->bucket_count ? table->buckets[bucket_of(table->bucket_count, uid, digest)] : NULL;

    while (workload && (workload->uid != uid || strcmp(workload->digest, digest) != 0))
        workload = workload->next_in_bucket;
    return workload;
}

static void workload_free(struct workload *workload)
{
    free(workload->plans);
    free(workload->refusal);
    free(workload->choices);
    free(workload);
}

static struct workload *workload_new(uid_t uid, enum job_kind kind, const char *digest)
{
    struct workload *workload = memory_zero(sizeof *workload);

    workload->uid = uid;
    workload->kind = kind;
    snprintf(workload->digest, sizeof workload->digest, "%s", digest);
    workload->step_seconds = workload->seconds = NAN;
    for (int type = 0; type < DEVICE_TYPES_MAX; type++)
        workload->seconds_on[type] = NAN;
    return workload;
}

struct workload *workload_take(struct workload_table *table, uid_t uid, enum job_kind kind,
                               const char *digest)
{
    struct workload *workload = workload_find(table, uid, digest), **bucket;

    if (!workload) {
        if (table->count >= table->bucket_count)
            table_grow(table);
        workload = table->bucket_count ? workload_new(uid, kind, digest) : NULL;
        if (!workload)
            return NULL;
        if (table->predictions) /* else nothing is asked for */
            workload->predictions = predictions_of_user(table->predictions, uid);
        bucket = &table->buckets[bucket_of(table->bucket_count, uid, digest)];
        workload->next_in_bucket = *bucket;
        *bucket = workload;
        table->count++;
    }
    workload->references++;
    return workload;
}

void workload_drop(struct workload_table *table, struct workload *workload)
{
    struct workload **link;

    if (!workload || --workload->references > 0)
        return;
    link = &table->buckets[bucket_of(table->bucket_count, workload->uid, workload->digest)];
    while (*link != workload)
        link = &(*link)->next_in_bucket;
    *link = workload->next_in_bucket;
    table->count--;
    workload_free(workload);
}

void workload_table_release(struct workload_table *table)
{
    for (size_t i = 0; i < table->bucket_count; i++) {
        while (table->buckets[i]) {
            struct workload *workload = table->buckets[i];

            table->buckets[i] = workload->next_in_bucket;
            workload_free(workload);
        }
    }
    free(table->buckets);
    *table = (struct workload_table){0};
}

/* ---- what is known --------------------------------------------------------------------------- */

static int type_of(const struct devices *devices, struct json_object *entry)
{
    const char *name = json_get_string(entry, "type", "");

    for (int type = 0; type < devices->type_count; type++)
        if (strcmp(devices->type_names[type], name) == 0)
            return type;
    return -1;
}

/* Whether planning again may remove the reason why the plan does not run. A driver's limit or a
 * missing plugin may change; a missing operator stays missing until traind is updated. */
static bool may_change(struct json_object *entry)
{
    const char *cause = json_get_string(entry, "cause", "");

    return strcmp(cause, "device") == 0 || strcmp(cause, "plugin") == 0;
}

static struct workload_plan read_plan(struct json_object *entry, int type, double steps,
                                      double accumulate)
{
    struct workload_plan plan = {
        .type = type,
        .runs = json_get_bool(entry, "runs", false),
        .may_change = may_change(entry),
        .memory = (uint64_t)json_get_int(entry, "memory_bytes", 0),
        .kernels = accumulate * json_get_double(entry, "kernels_per_batch", 0),
        .step_seconds = json_get_double(entry, "predicted_step_seconds", NAN),
    };

    plan.other_seconds =
        json_get_double(entry, "predicted_seconds", NAN) - steps * plan.step_seconds;
    if (!(plan.other_seconds > 0))
        plan.other_seconds = 0;
    snprintf(plan.precision, sizeof plan.precision, "%s", json_get_string(entry, "precision", ""));
    snprintf(plan.reason, sizeof plan.reason, "%s", json_get_string(entry, "reason", ""));
    return plan;
}

/* Fills in the plans for further types of device that this machine has. */
static void set_plans(struct workload *workload, struct json_object *list, double accumulate)
{
    size_t count = json_object_is_type(list, json_type_array) ? json_object_array_length(list) : 0;

    free(workload->plans);
    workload->plan_count = 0;
    workload->plans = count ? calloc(count, sizeof *workload->plans) : NULL;
    for (size_t i = 0; workload->plans && i < count; i++) {
        struct json_object *entry = json_object_array_get_idx(list, i);
        int type = type_of(workload->predictions->owner->devices, entry);

        if (type >= 0)
            workload->plans[workload->plan_count++] =
                read_plan(entry, type, workload->steps, accumulate);
    }
}

const struct workload_plan *workload_plan_on(const struct workload *workload,
                                             const struct device *device)
{
    for (int i = 0; i < workload->plan_count; i++)
        if (workload->plans[i].type == device->type)
            return &workload->plans[i];
    return NULL;
}

bool workload_plan_covers(struct json_object *plan, const struct devices *devices,
                          const struct device *device)
{
    struct json_object *list = json_get(plan, "devices");

    for (size_t i = 0; list && i < json_object_array_length(list); i++) {
        struct json_object *entry = json_object_array_get_idx(list, i);

        if (type_of(devices, entry) == device->type)
            return json_get_bool(entry, "runs", false) || !may_change(entry);
    }
    return false;
}

void workload_set_plan(struct workload *workload, struct json_object *plan)
{
    struct json_object *choices = json_get(plan, "choices");
    double accumulate = (double)json_get_int(choices, "accumulate", 1);

    workload->planned = true;
    free(workload->refusal);
    workload->refusal =
        json_get_bool(plan, "runs", true)
            ? NULL
            : memory_copy_text(json_get_string(plan, "reason", "it is not planned there"));
    workload->batches_divide = json_get_bool(plan, "batches_divide", false);
    workload->process_bytes = (uint64_t)json_get_int(plan, "memory_bytes", 0);
    workload->arena_bytes = (uint64_t)json_get_int(json_get(plan, "memory"), "arena", 0);
    workload->steps = json_get_double(plan, "steps", 0);
    workload->step = prediction_step(json_get_string(plan, "step_digest", workload->digest));
    workload->kernels = accumulate * json_get_double(plan, "kernels_per_batch", 0);
    workload->flops = accumulate * json_get_double(plan, "flops_per_batch", 0);
    workload->step_seconds = json_get_double(plan, "predicted_step_seconds", NAN);
    workload->other_seconds =
        json_get_double(plan, "predicted_seconds", NAN) - workload->steps * workload->step_seconds;
    if (!(workload->other_seconds > 0))
        workload->other_seconds = 0;
    set_plans(workload, json_get(plan, "devices"), accumulate);
    free(workload->choices);
    workload->choices = choices && strlen(json_text(choices, NULL)) < PLAN_CHOICES_MAX
                            ? memory_copy_text(json_text(choices, NULL))
                            : NULL;
}

void workload_set_history(struct workload *workload, const struct command_history_row *rows,
                          const int *types, int count)
{
    struct command_history all = {0};

    workload->runs = 0;
    workload->seconds = NAN;
    workload->seconds_deviation = workload->cores = 0;
    workload->held = workload->held_none = false;
    for (int i = 0; i < count; i++) {
        const struct command_history *row = &rows[i].history;

        all.memory = row->memory > all.memory ? row->memory : all.memory;
        all.device_memory =
            row->device_memory > all.device_memory ? row->device_memory : all.device_memory;
        workload->runs += row->runs;
        workload->held |= row->device_memory > 0;
        workload->held_none |= row->held_none;
        if (row->runs == 0)
            continue;
        if (types[i] >= 0)
            workload->seconds_on[types[i]] = row->seconds;
        if (types[i] >= 0 && row->utilisation > 0)
            workload->utilisation_on[types[i]] = row->utilisation;
        workload->cores = fmax(workload->cores, row->cores);
        if (row->runs > all.runs) { /* the type with the most runs stands for the others */
            workload->seconds = row->seconds;
            workload->seconds_deviation = command_history_deviation(row);
            all.runs = row->runs;
        }
    }
    workload->memory = command_history_booking(all.memory);
    workload->device_memory = command_history_booking(all.device_memory);
}

bool workload_halve_batches(const struct workload *workload, char choices[PLAN_CHOICES_MAX])
{
    JSON_AUTO struct json_object *json = NULL;
    int64_t batch;

    if (!workload->batches_divide || !workload->choices ||
        json_parse(workload->choices, strlen(workload->choices), &json, NULL) < 0)
        return false;
    batch = json_get_int(json, "batch_size", 0);
    if (batch < 2 || batch % 2)
        return false;
    json_set_int(json, "batch_size", batch / 2);
    json_set_int(json, "accumulate", 2 * json_get_int(json, "accumulate", 1));
    return snprintf(choices, PLAN_CHOICES_MAX, "%s", json_text(json, NULL)) < PLAN_CHOICES_MAX;
}

void workload_choices(const struct workload *workload, const struct device *device, bool halved,
                      char choices[PLAN_CHOICES_MAX])
{
    const struct workload_plan *plan = workload_plan_on(workload, device);
    JSON_AUTO struct json_object *json = NULL;

    if (!halved || !workload_halve_batches(workload, choices))
        snprintf(choices, PLAN_CHOICES_MAX, "%s", workload->choices ? workload->choices : "");
    if (!plan || json_parse(choices, strlen(choices), &json, NULL) < 0)
        return;
    json_object_object_del(json, "precision"); /* the CPU's */
    if (plan->precision[0])
        json_set_string(json, "precision", plan->precision);
    if (strlen(json_text(json, NULL)) < PLAN_CHOICES_MAX)
        snprintf(choices, PLAN_CHOICES_MAX, "%s", json_text(json, NULL));
}

uint64_t workload_memory(const struct workload *workload, const struct device *device)
{
    const struct workload_plan *plan = workload_plan_on(workload, device);

    if (plan)
        return plan->memory;
    if (workload->kind == JOB_NATIVE)
        return device->driver->kind.is_host || device_uses_host_memory(device)
                   ? workload->process_bytes
                   : workload->arena_bytes;
    return device->driver->kind.is_host ? workload->memory : workload->device_memory;
}

struct workload_speed workload_measured(const struct workload *workload, int type)
{
    struct step_time time;

    if (!workload->planned || !predictions_find(workload->predictions, workload->step, type, &time))
        return (struct workload_speed){.step_seconds = NAN};
    return (struct workload_speed){time.seconds, time.deviation, time.steps};
}

/* The step's seconds by the plan alone; NAN: the plan does not say. */
static double planned_seconds(const struct workload *workload, const struct device *device,
                              double seconds)
{
    const struct workload_plan *plan = workload_plan_on(workload, device);

    if (plan)
        return plan->step_seconds;
    return device->driver->step_seconds
               ? device->driver->step_seconds(device, seconds, workload->kernels)
               : seconds;
}

/* The step's seconds by assumption, when nothing is known. */
static double assumed_seconds(const struct workload *workload, const struct device *device)
{
    const struct workload_plan *plan = workload_plan_on(workload, device);

    if (plan)
        return workload->flops / assumed_gpu_flops_per_second +
               plan->kernels * assumed_kernel_seconds;
    return planned_seconds(workload, device, workload->flops / assumed_flops_per_second);
}

struct workload_speed workload_speed(const struct workload *workload, const struct device *device,
                                     enum workload_basis *basis)
{
    struct workload_speed speed = workload_measured(workload, device->type);
    double planned = planned_seconds(workload, device, workload->step_seconds);

    *basis = BASIS_MEASURED;
    if (!isnan(speed.step_seconds))
        return speed;
    /* A stopped job must not be predicted to be faster than while it ran, or two jobs would
     * displace each other forever. */
    if (workload->shared_step_seconds[device->type] > 0)
        return (struct workload_speed){.step_seconds = workload->shared_step_seconds[device->type]};
    if (isnan(planned)) {
        *basis = BASIS_UNKNOWN;
        return (struct workload_speed){.step_seconds = assumed_seconds(workload, device),
                                       .deviation = assumed_deviation};
    }
    *basis = BASIS_CALIBRATION;
    speed.step_seconds =
        planned * predictions_scale(workload->predictions, device->type, &speed.deviation);
    return speed;
}

/* A device of the type; NULL: there is none. */
static const struct device *device_of_type(const struct devices *devices, int type)
{
    for (size_t i = 0; i < devices->count; i++)
        if (devices->list[i]->type == type)
            return devices->list[i];
    return NULL;
}

void workload_observe(struct workload *workload, int type, double seconds, double steps)
{
    const struct device *device = device_of_type(workload->predictions->owner->devices, type);

    if (workload->planned && device)
        predictions_observe(workload->predictions, workload->step, type,
                            planned_seconds(workload, device, workload->step_seconds), seconds,
                            steps);
}

void workload_observe_shared(struct workload *workload, int type, double seconds)
{
    workload->shared_step_seconds[type] = seconds;
}

bool workload_was_timed(const struct workload *workload, int type)
{
    return workload->shared_step_seconds[type] > 0 ||
           !isnan(workload_measured(workload, type).step_seconds);
}
