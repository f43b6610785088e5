/* worker_calibrate.c: `traind-worker calibrate` measures the device and prints the JSON that
 * `--calibration` reads. It also stores it in the user's cache, unless it writes it to a file. */
#include "base/file.h"
#include "proto/device_host.h"
#include "worker/trainee/worker_device.h"
#include "worker/trainee/worker_options.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

static int calibrate(const struct worker_options *options, struct json_object **json,
                     struct error *error)
{
    struct worker_calibration calibration = {0};
    struct worker_simulation simulation = {0};
    struct worker_device opened = {0};
    int r = worker_device_open(options, options->device ? options->device : DEVICE_HOST,
                               options->threads, &simulation, &opened, error);

    if (r == 0 && simulation.simulated)
        r = worker_device_calibration(options, &simulation, &opened.info, &calibration, error);
    else if (r == 0 && options->unless_kept)
        r = worker_calibration_load(NULL, &opened.info, &calibration, error);
    if (r == 0 && !calibration.known)
        r = worker_calibration_measure(opened.backend, opened.device, !options->output,
                                       &calibration, error);
    if (r == 0)
        *json = worker_calibration_json(&opened.info, &calibration.speeds);
    worker_calibration_release(&calibration);
    if (opened.device)
        opened.backend->device_close(opened.device);
    worker_simulation_release(&simulation);
    return r;
}

/* Whether the process that asked has ended already, before PR_SET_PDEATHSIG took effect. */
static bool nobody_reads(void)
{
    struct pollfd output = {.fd = STDOUT_FILENO};

    return poll(&output, 1, 0) > 0 && (output.revents & POLLERR);
}

int worker_calibrate(const struct worker_options *options)
{
    JSON_AUTO struct json_object *json = NULL;
    struct error error = {0};
    int r;

    if (options->unless_kept) { /* that process's successor would measure at the same time */
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (nobody_reads())
            return EXIT_FAILURE;
    }
    r = calibrate(options, &json, &error);

    if (r == 0 && options->output) {
        size_t length;
        const char *text = json_text(json, &length);

        r = file_write_result(options->output, text, length, &error);
    } else if (r == 0) {
        json_print(json, stdout);
    }
    if (r < 0)
        fprintf(stderr, "traind-worker: %s\n", error.text);
    return r < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}
