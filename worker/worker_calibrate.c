/* worker_calibrate.c: `traind-worker calibrate`: measures the device; what it prints is what
 * `plan --calibration` reads. */
#include "base/file.h"
#include "engine/train/calibration.h"
#include "proto/json.h"
#include "worker/worker_options.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

static struct json_object *calibration_json(const struct backend_device_info *info,
                                            const struct calibration *calibration)
{
    struct json_object *json = json_object_new_object();

    json_set_string(json, "device", info->name);
    json_set_string(json, "model", info->model);
    json_set_string(json, "features", info->features);
    json_set_int(json, "threads", info->threads);
    json_set_double(json, "flops_per_second", calibration->flops_per_second);
    json_set_double(json, "bytes_per_second", calibration->bytes_per_second);
    json_set_double(json, "kernel_seconds", calibration->kernel_seconds);
    return json;
}

static int calibrate(const struct worker_options *options, struct json_object **json,
                     struct error *error)
{
    const struct backend *backend = backend_cpu();
    struct backend_device_config config = {.threads = options->threads};
    struct backend_device_info info;
    struct backend_device *device;
    struct calibration calibration;
    int r;

    if (options->device && strcmp(options->device, "cpu") != 0)
        return error_set(error, -ENODEV, "this machine has no device \"%s\"; it has: cpu",
                         options->device);
    r = backend->device_open(&config, &device, error);
    if (r < 0)
        return r;
    backend->device_describe(device, &info);
    r = calibration_measure(backend, device, &calibration, error);
    if (r == 0)
        *json = calibration_json(&info, &calibration);
    backend->device_close(device);
    return r;
}

int worker_calibrate(const struct worker_options *options)
{
    JSON_AUTO struct json_object *json = NULL;
    struct error error = {0};
    int r = calibrate(options, &json, &error);

    if (r == 0 && options->output) {
        size_t length;
        const char *text = json_text(json, &length);

        r = file_replace(AT_FDCWD, options->output, text, length, 0644, 0, &error);
    } else if (r == 0) {
        printf("%s\n", json_text(json, NULL));
    }
    if (r < 0)
        fprintf(stderr, "traind-worker: %s\n", error.text);
    return r < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}
