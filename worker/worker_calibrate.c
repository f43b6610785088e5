/* worker_calibrate.c: `traind-worker calibrate`: measures the device; what it prints is what
 * `--calibration` reads; it is kept in the user's cache unless it goes into a file. */
#include "base/file.h"
#include "worker/worker_calibration.h"
#include "worker/worker_options.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

static int calibrate(const struct worker_options *options, struct json_object **json,
                     struct error *error)
{
    const struct backend *backend = backend_cpu();
    struct backend_device_config config = {.threads = options->threads};
    struct worker_calibration calibration = {0};
    struct backend_device_info info;
    struct backend_device *device;
    int r;

    if (options->device && strcmp(options->device, "cpu") != 0)
        return error_set(error, -ENODEV, "this machine has no device \"%s\"; it has: cpu",
                         options->device);
    r = backend->device_open(&config, &device, error);
    if (r < 0)
        return r;
    r = worker_calibration_measure(backend, device, !options->output, &calibration, error);
    if (r == 0) {
        backend->device_describe(device, &info);
        *json = worker_calibration_json(&info, &calibration.speeds);
    }
    worker_calibration_release(&calibration);
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
