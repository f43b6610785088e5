/* suspension_costs.c: see suspension_costs.h. The time is a fixed part, and a part for each
 * gigabyte, which a mean of the latest measurements replaces. */
#include "daemon/jobs/suspension_costs.h"

#include "base/log.h"
#include "base/memory.h"
#include "daemon/store/suspension_rows.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MODELS_MAX = 64 };

/* An NVIDIA H200 with driver 580 and PyTorch 2.11: 0.9 GB went out in 0.7 s and came back in 0.4 s,
 * 21 GB in 11 to 15 s and in 5 s. */
static const double first_seconds_per_byte[] = {
    [SUSPENSION_OUT] = 0.61e-9, [SUSPENSION_BACK] = 0.23e-9};
static const double fixed_seconds = 0.2;

/* Less memory tells nothing about the speed. */
static const double least_bytes = 0.25e9;
/* What the latest measurement counts. */
static const double weight = 0.3;

struct model_cost {
    char model[DEVICE_MODEL_MAX];
    double seconds_per_byte[2];
};

struct suspension_costs {
    struct store *store; /* must outlive it */
    struct model_cost models[MODELS_MAX];
    size_t count;
};

static struct model_cost *find(const struct suspension_costs *costs, const char *model)
{
    for (size_t i = 0; i < costs->count; i++)
        if (strcmp(costs->models[i].model, model) == 0)
            return (struct model_cost *)&costs->models[i];
    return NULL;
}

/* NULL: there are too many models. */
static struct model_cost *add(struct suspension_costs *costs, const char *model)
{
    struct model_cost *cost;

    if (costs->count == MODELS_MAX)
        return NULL;
    cost = &costs->models[costs->count++];
    snprintf(cost->model, sizeof cost->model, "%s", model);
    memcpy(cost->seconds_per_byte, first_seconds_per_byte, sizeof cost->seconds_per_byte);
    return cost;
}

double suspension_cost(const struct suspension_costs *costs, const struct device *device,
                       uint64_t bytes, enum suspension_way way)
{
    const struct model_cost *cost = find(costs, device->model);

    return fixed_seconds +
           (double)bytes * (cost ? cost->seconds_per_byte : first_seconds_per_byte)[way];
}

/* ---- the store ------------------------------------------------------------------------------- */

static void take_row(void *data, const char *model, double out, double back)
{
    struct model_cost *cost = find(data, model);

    if (!cost)
        cost = add(data, model);
    if (!cost || !(out > 0) || !(back > 0) || !isfinite(out + back))
        return;
    cost->seconds_per_byte[SUSPENSION_OUT] = out;
    cost->seconds_per_byte[SUSPENSION_BACK] = back;
}

static int read_work(struct store_connection *connection, void *data, struct error *error)
{
    return suspension_costs_read(connection, take_row, data, error);
}

static void on_read(void *data, int result, const struct error *error)
{
    (void)data;
    if (result < 0)
        log_warning("the costs of suspensions could not be read: %s", error->text);
}

struct suspension_costs *suspension_costs_load(struct store *store)
{
    struct suspension_costs *costs = memory_zero(sizeof *costs);

    costs->store = store;
    store_read(store, read_work, on_read, costs);
    return costs;
}

void suspension_costs_free(struct suspension_costs *costs)
{
    free(costs);
}

static int write_work(struct store_connection *connection, void *data, struct error *error)
{
    const struct model_cost *cost = data;

    return suspension_cost_store(connection, cost->model, cost->seconds_per_byte[SUSPENSION_OUT],
                                 cost->seconds_per_byte[SUSPENSION_BACK], error);
}

static void on_written(void *data, int result, const struct error *error)
{
    if (result < 0)
        log_warning("the cost of a suspension could not be stored: %s", error->text);
    free(data);
}

void suspension_costs_measure(struct suspension_costs *costs, const struct device *device,
                              uint64_t bytes, enum suspension_way way, double seconds)
{
    struct model_cost *cost = find(costs, device->model), *written;
    double speed = fmax(seconds - fixed_seconds, 0) / (double)bytes;

    if ((double)bytes < least_bytes || !isfinite(speed) || speed <= 0)
        return;
    if (!cost)
        cost = add(costs, device->model);
    if (!cost)
        return;
    cost->seconds_per_byte[way] += weight * (speed - cost->seconds_per_byte[way]);
    written = memory_zero(sizeof *written);
    *written = *cost;
    store_write_soon(costs->store, write_work, on_written, written);
}
