/* calibrations.c: see calibrations.h. */
#include "daemon/jobs/calibrations.h"

#include "base/log.h"
#include "base/memory.h"
#include "daemon/devices/device.h"
#include "daemon/store/calibration_rows.h"
#include "daemon/store/store.h"
#include "proto/json.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS_MAX = 64, DEVICE_TEXT_MAX = sizeof((struct devices *)0)->type_names[0] };

struct calibration_row {
    struct calibration_row *next;
    char device[DEVICE_TEXT_MAX];
    int threads;
    char *json; /* owned */
};

static struct calibration_row *row_find(const struct calibrations *calibrations, const char *device,
                                        int threads)
{
    struct calibration_row *row = calibrations->first;

    while (row && ((threads && row->threads != threads) || strcmp(row->device, device) != 0))
        row = row->next;
    return row;
}

/* Keeps a copy of the text in memory. -ENOSPC: ROWS_MAX others are kept. */
static int row_keep(struct calibrations *calibrations, const char *device, int threads,
                    const char *json)
{
    struct calibration_row *row = row_find(calibrations, device, threads);
    int count = 0;

    for (const struct calibration_row *other = calibrations->first; other; other = other->next)
        count++;
    if (!row && count == ROWS_MAX)
        return -ENOSPC;
    if (!row) {
        row = memory_zero(sizeof *row);
        snprintf(row->device, sizeof row->device, "%s", device);
        row->threads = threads;
        row->next = calibrations->first;
        calibrations->first = row;
    }
    free(row->json);
    row->json = memory_copy_text(json);
    return 0;
}

const char *calibrations_find(const struct calibrations *calibrations, const char *device,
                              int threads)
{
    const struct calibration_row *row = row_find(calibrations, device, threads);

    return row ? row->json : NULL;
}

void calibrations_release(struct calibrations *calibrations)
{
    while (calibrations->first) {
        struct calibration_row *row = calibrations->first;

        calibrations->first = row->next;
        free(row->json);
        free(row);
    }
}

/* ---- the store ------------------------------------------------------------------------------- */

struct written_row {
    char device[DEVICE_TEXT_MAX];
    struct json_object *json; /* owned */
};

static int write_work(struct store_connection *connection, void *data, struct error *error)
{
    const struct written_row *row = data;

    return calibration_store(connection, row->device, row->json, error);
}

static void on_written(void *data, int result, const struct error *error)
{
    struct written_row *row = data;

    if (result < 0)
        log_warning("the calibration could not be stored: %s", error->text);
    json_object_put(row->json);
    free(row);
}

int calibrations_take(struct calibrations *calibrations, const char *device,
                      struct json_object *json, struct error *error)
{
    int threads = (int)json_get_int(json, "threads", 0);
    struct written_row *row;

    if (threads < 1)
        return error_set(error, -EINVAL, "traind-worker printed a calibration without \"threads\"");
    if (!(json_get_double(json, "flops_per_second", 0) > 0))
        return error_set(error, -EINVAL,
                         "traind-worker printed a calibration without \"flops_per_second\"");
    if (row_keep(calibrations, device, threads, json_text(json, NULL)) < 0)
        return error_set(error, -ENOSPC, "%d other calibrations are kept already", ROWS_MAX);
    row = memory_zero(sizeof *row);
    snprintf(row->device, sizeof row->device, "%s", device);
    row->json = json_object_get(json);
    store_write_soon(calibrations->store, write_work, on_written, row);
    return 0;
}

struct load {
    struct calibrations *calibrations;
    struct calibrations read; /* its rows alone */
};

static void load_row(void *data, const char *device, int threads, const char *json)
{
    struct load *load = data;

    row_keep(&load->read, device, threads, json);
}

static int load_work(struct store_connection *connection, void *data, struct error *error)
{
    return calibrations_read(connection, load_row, data, error);
}

static void on_loaded(void *data, int result, const struct error *error)
{
    struct load *load = data;

    if (result < 0)
        log_warning("the stored calibrations cannot be read: %s", error->text);
    for (const struct calibration_row *row = load->read.first; row; row = row->next)
        if (!row_find(load->calibrations, row->device, row->threads))
            row_keep(load->calibrations, row->device, row->threads, row->json);
    calibrations_release(&load->read);
    free(load);
}

void calibrations_load(struct calibrations *calibrations, struct store *store)
{
    struct load *load = memory_zero(sizeof *load);

    *calibrations = (struct calibrations){.store = store};
    load->calibrations = calibrations;
    store_read(store, load_work, on_loaded, load);
}
