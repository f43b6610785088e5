/* worker_calibration.c: see worker_calibration.h. */
#include "worker/trainee/worker_calibration.h"

#include "worker/trainee/worker_kept.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

enum { CALIBRATION_VERSION = 3 };

static const char kept_as[] = "calibration";

/* ---- as JSON ---- */

/* {kind: [[samples, pixels, depth, columns, work, seconds], …], …}. */
static struct json_object *rates_json(const struct operator_rates *rates)
{
    struct json_object *kinds = json_object_new_object();

    for (int i = 0; i < rates->count; i++) {
        const struct operator_call *call = &rates->entries[i].call;
        struct json_object *list = json_get(kinds, call->kind), *row = json_object_new_array();

        if (!list) {
            list = json_object_new_array();
            json_set(kinds, call->kind, list);
        }
        for (int k = 0; k < OPERATOR_EXTENTS; k++)
            json_object_array_add(row, json_new_double(call->extents[k]));
        json_object_array_add(row, json_new_double(call->work));
        json_object_array_add(row, json_new_double(rates->entries[i].seconds));
        json_object_array_add(list, row);
    }
    return kinds;
}

struct json_object *worker_calibration_json(const struct backend_device_info *info,
                                            const struct calibration *speeds)
{
    struct json_object *json = worker_kept_begin(CALIBRATION_VERSION, info);
    struct json_object *flops = json_object_new_object();
    struct json_object *convolutions = json_object_new_object();
    struct json_object *bandwidths = json_object_new_array();

    for (int i = 0; i < CALIBRATION_TYPES; i++)
        if (speeds->flops_per_second[i] > 0)
            json_set_double(flops, tensor_type_to_string((enum tensor_type)i),
                            speeds->flops_per_second[i]);
    for (int i = 0; i < CALIBRATION_TYPES; i++)
        if (speeds->convolution_flops_per_second[i] > 0)
            json_set_double(convolutions, tensor_type_to_string((enum tensor_type)i),
                            speeds->convolution_flops_per_second[i]);
    for (int i = 0; i < CALIBRATION_BANDWIDTHS; i++) {
        struct json_object *pair = json_object_new_array();

        json_object_array_add(pair, json_new_double(speeds->bandwidths[i].bytes));
        json_object_array_add(pair, json_new_double(speeds->bandwidths[i].bytes_per_second));
        json_object_array_add(bandwidths, pair);
    }
    json_set_double(json, "flops_per_second", calibration_flops(speeds, TENSOR_FLOAT32));
    json_set_double(json, "bytes_per_second", calibration_bandwidth(speeds, 1e18));
    json_set_double(json, "kernel_seconds", speeds->kernel_seconds);
    json_set_double(json, "launch_seconds", speeds->launch_seconds);
    json_set(json, "flops_by_type", flops);
    json_set(json, "convolution_flops_by_type", convolutions);
    json_set(json, "bandwidths", bandwidths);
    json_set(json, "operators", rates_json(&speeds->rates));
    return json;
}

/* An element of an array of numbers; 0: it is not a number, or not an array. */
static double number_at(struct json_object *array, size_t index)
{
    return json_object_is_type(array, json_type_array)
               ? json_object_get_double(json_object_array_get_idx(array, index))
               : 0;
}

static int read_kind(struct operator_rates *rates, const char *kind, struct json_object *list,
                     struct error *error)
{
    int r = 0;

    for (size_t i = 0;
         json_object_is_type(list, json_type_array) && i < json_object_array_length(list) && r == 0;
         i++) {
        struct json_object *row = json_object_array_get_idx(list, i);
        struct operator_rate entry = {.call.work = number_at(row, OPERATOR_EXTENTS),
                                      .seconds = number_at(row, OPERATOR_EXTENTS + 1)};
        bool positive = true;

        snprintf(entry.call.kind, sizeof entry.call.kind, "%s", kind);
        for (int k = 0; k < OPERATOR_EXTENTS; k++) {
            entry.call.extents[k] = number_at(row, (size_t)k);
            positive &= entry.call.extents[k] > 0;
        }
        if (positive)
            r = operator_rates_add(rates, &entry, error);
    }
    return r;
}

static int read_rates(struct json_object *kinds, struct operator_rates *rates, struct error *error)
{
    int r = 0;

    if (!json_object_is_type(kinds, json_type_object))
        return 0;
    json_object_object_foreach (kinds, kind, list) {
        if (r == 0)
            r = read_kind(rates, kind, list, error);
    }
    return r;
}

int worker_calibration_read(struct json_object *json, struct calibration *speeds,
                            struct error *error)
{
    struct json_object *bandwidths = json_get(json, "bandwidths");

    *speeds = (struct calibration){.kernel_seconds = json_get_double(json, "kernel_seconds", 0),
                                   .launch_seconds = json_get_double(json, "launch_seconds", 0)};
    for (int i = 0; i < CALIBRATION_TYPES; i++)
        speeds->flops_per_second[i] = json_get_double(
            json_get(json, "flops_by_type"), tensor_type_to_string((enum tensor_type)i), 0);
    for (int i = 0; i < CALIBRATION_TYPES; i++)
        speeds->convolution_flops_per_second[i] =
            json_get_double(json_get(json, "convolution_flops_by_type"),
                            tensor_type_to_string((enum tensor_type)i), 0);
    if (!(speeds->flops_per_second[TENSOR_FLOAT32] > 0))
        speeds->flops_per_second[TENSOR_FLOAT32] = json_get_double(json, "flops_per_second", 0);
    for (size_t i = 0; i < CALIBRATION_BANDWIDTHS && bandwidths; i++) {
        struct json_object *pair = json_object_is_type(bandwidths, json_type_array)
                                       ? json_object_array_get_idx(bandwidths, i)
                                       : NULL;

        speeds->bandwidths[i] = (struct bandwidth){number_at(pair, 0), number_at(pair, 1)};
    }
    if (!(speeds->bandwidths[0].bytes > 0))
        speeds->bandwidths[0] = (struct bandwidth){1, json_get_double(json, "bytes_per_second", 0)};
    if (!(speeds->flops_per_second[TENSOR_FLOAT32] > 0) ||
        !(speeds->bandwidths[0].bytes_per_second > 0))
        return error_set(error, -EINVAL, "flops_per_second and bytes_per_second are missing");
    if (speeds->kernel_seconds < 0 || speeds->launch_seconds < 0)
        return error_set(error, -EINVAL, "kernel_seconds or launch_seconds is negative");
    return read_rates(json_get(json, "operators"), &speeds->rates, error);
}

/* ---- files ---- */

int worker_calibration_load(const char *path, const struct backend_device_info *info,
                            struct worker_calibration *calibration, struct error *error)
{
    JSON_AUTO struct json_object *json = NULL;
    struct error ignored;
    int r;

    calibration->known = false;
    if (path)
        snprintf(calibration->path, sizeof calibration->path, "%s", path);
    else if (!worker_kept_path(kept_as, info, calibration->path))
        return 0;
    r = json_parse_file(calibration->path, WORKER_KEPT_BYTES_MAX, &json, path ? error : &ignored);
    if (r < 0 || (!path && !worker_kept_describes(json, CALIBRATION_VERSION, info)))
        return path ? r : 0;
    r = worker_calibration_read(json, &calibration->speeds, path ? error : &ignored);
    calibration->known = r == 0;
    if (r < 0)
        calibration_release(&calibration->speeds);
    return r < 0 && path ? error_prefix(error, "%s", path) : 0;
}

int worker_calibration_measure(const struct backend *backend, struct backend_device *device,
                               bool keep, struct worker_calibration *calibration,
                               struct error *error)
{
    JSON_AUTO struct json_object *json = NULL;
    struct backend_device_info info;
    int r = calibration_measure(backend, device, &calibration->speeds, error);

    if (r < 0)
        return r;
    calibration->known = true;
    backend->device_describe(device, &info);
    if (backend->device_trim) /* frees the memory of the measured models */
        backend->device_trim(device);
    json = worker_calibration_json(&info, &calibration->speeds);
    if (keep)
        worker_kept_write(kept_as, &info, json, calibration->path);
    return 0;
}

bool worker_calibration_is_due(const struct backend_device_info *info, uint64_t memory_limit)
{
    struct worker_calibration kept = {0};
    struct error ignored;
    bool known;

    if (info->owns_memory || (memory_limit && memory_limit < WORKER_CALIBRATION_BYTES))
        return false;
    worker_calibration_load(NULL, info, &kept, &ignored);
    known = kept.known;
    worker_calibration_release(&kept);
    return !known;
}

void worker_calibration_release(struct worker_calibration *calibration)
{
    if (calibration->known)
        calibration_release(&calibration->speeds);
    calibration->known = false;
}
