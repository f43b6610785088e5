/* worker_verify.c: `traind-worker verify` trains small models for a few steps on each device, and
 * says whether they agree with the CPU in float32 and how fast they are beside the device's
 * calibration. */
#include "engine/train/verification.h"
#include "worker/trainee/worker_device.h"
#include "worker/trainee/worker_devices.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MODELS_MAX = 64 };

struct verifier {
    const struct worker_options *options;
    struct verification_run expected[MODELS_MAX]; /* the CPU's in float32 */
    struct json_object *problems;                 /* sentences */
};

__attribute__((format(printf, 2, 3))) static void add_problem(struct verifier *verifier,
                                                              const char *format, ...)
{
    char text[1024];
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    json_object_array_add(verifier->problems, json_object_new_string(text));
}

/* The CPU, whatever --device says. */
static int run_reference(struct verifier *verifier, struct error *error)
{
    const struct backend_device_config config = {.threads = verifier->options->threads};
    const struct backend *backend = backend_cpu();
    struct backend_device *device;
    int r = backend->device_open(&config, &device, error);

    if (r < 0)
        return r;
    for (size_t i = 0; r == 0 && i < verification_count(); i++) {
        r = verification_run(i, backend, device, TENSOR_FLOAT32, &verifier->expected[i], error);
        if (r < 0)
            error_prefix(error, "%s", verification_name(i));
    }
    backend->device_close(device);
    return r;
}

/* Whether the losses of the same batch fall. */
static bool learns(const struct verification_run *run)
{
    return run->losses[VERIFICATION_STEPS - 1] < run->losses[0];
}

/* Compares a model's run with the reference, and adds what was found to the row. */
static void judge(struct verifier *verifier, size_t index, const char *device,
                  enum tensor_type type, const struct verification_run *run,
                  struct json_object *row)
{
    const struct verification_run *expected = &verifier->expected[index];
    double deviation = verification_deviation(run, expected), limit = verification_limit(type);
    bool agrees = deviation <= limit;

    json_set_bool(row, "agrees", agrees);
    json_set_double(row, "deviation", deviation);
    json_set_double(row, "limit", limit);
    json_set_double(row, "step_seconds", run->step_seconds);
    json_set_double(row, "flops_per_second", run->flops / run->step_seconds);
    if (isnan(deviation))
        add_problem(verifier, "%s, %s in %s: a loss is no number", device, verification_name(index),
                    tensor_type_to_string(type));
    else if (!agrees)
        add_problem(verifier,
                    "%s, %s in %s: its losses (%.6g to %.6g) are %.2g%% away from those of the "
                    "CPU (%.6g to %.6g), and rounding explains %.2g%%",
                    device, verification_name(index), tensor_type_to_string(type), run->losses[0],
                    run->losses[VERIFICATION_STEPS - 1], 100 * deviation, expected->losses[0],
                    expected->losses[VERIFICATION_STEPS - 1], 100 * limit);
    else if (!learns(run))
        add_problem(verifier, "%s, %s in %s: its loss does not fall (%.6g to %.6g)", device,
                    verification_name(index), tensor_type_to_string(type), run->losses[0],
                    run->losses[VERIFICATION_STEPS - 1]);
}

static struct json_object *models_new(struct verifier *verifier, const struct worker_device *opened,
                                      const char *device, enum tensor_type type)
{
    struct json_object *rows = json_object_new_array();

    for (size_t i = 0; i < verification_count(); i++) {
        struct json_object *row = json_object_new_object();
        struct verification_run run;
        struct error error = {0};
        int r = verification_run(i, opened->backend, opened->device, type, &run, &error);

        json_set_string(row, "model", verification_name(i));
        if (r == 0) {
            judge(verifier, i, device, type, &run, row);
        } else {
            json_set_string(row, "reason", error.text);
            if (r != -ERROR_UNSUPPORTED)
                add_problem(verifier, "%s, %s in %s: %s", device, verification_name(i),
                            tensor_type_to_string(type), error.text);
        }
        json_object_array_add(rows, row);
    }
    return rows;
}

/* The device's measured speeds: those that are kept, or measured and kept now. */
static void calibrate(struct verifier *verifier, const struct worker_simulation *simulation,
                      const struct worker_device *opened, const char *device,
                      struct worker_calibration *calibration)
{
    struct error error = {0};
    int r = worker_device_calibration(verifier->options, simulation, &opened->info, calibration,
                                      &error);

    if (r == 0 && !calibration->known)
        r = worker_calibration_measure(opened->backend, opened->device, true, calibration, &error);
    if (r < 0)
        add_problem(verifier, "%s: its speed cannot be measured: %s", device, error.text);
}

static void verify_device(struct verifier *verifier, struct json_object *entry)
{
    const char *name = json_get_string(entry, "device", "");
    struct json_object *precisions = json_object_new_array();
    struct worker_simulation simulation = {0};
    struct worker_calibration calibration = {0};
    struct worker_device opened = {0};
    struct error error = {0};

    if (worker_device_open(verifier->options, name, verifier->options->threads, &simulation,
                           &opened, &error) < 0) {
        add_problem(verifier, "%s: %s", name, error.text);
    } else {
        calibrate(verifier, &simulation, &opened, name, &calibration);
        for (int i = 0; i < CALIBRATION_TYPES; i++) {
            enum tensor_type type = (enum tensor_type)i;
            struct json_object *precision;

            if (!(opened.info.compute_types & 1u << type))
                continue;
            precision = json_object_new_object();
            json_set_string(precision, "type", tensor_type_to_string(type));
            if (calibration.known && calibration.speeds.flops_per_second[type] > 0)
                json_set_double(precision, "ceiling_flops_per_second",
                                calibration.speeds.flops_per_second[type]);
            json_set(precision, "models", models_new(verifier, &opened, name, type));
            json_object_array_add(precisions, precision);
        }
        opened.backend->device_close(opened.device);
    }
    json_set(entry, "precisions", precisions);
    worker_calibration_release(&calibration);
    worker_simulation_release(&simulation);
}

/* ---- what is printed ---- */

static void print_models(struct json_object *precision)
{
    struct json_object *models = json_get(precision, "models");
    double ceiling = json_get_double(precision, "ceiling_flops_per_second", NAN);

    printf("  %s", json_get_string(precision, "type", ""));
    if (!isnan(ceiling))
        printf(", products of matrices at %.1f GFLOP/s", ceiling * 1e-9);
    printf("\n");
    for (size_t i = 0; i < json_object_array_length(models); i++) {
        struct json_object *row = json_object_array_get_idx(models, i);
        double speed = json_get_double(row, "flops_per_second", NAN);

        printf("    %-20s", json_get_string(row, "model", ""));
        if (json_get(row, "reason"))
            printf("  not there: %s\n", json_get_string(row, "reason", ""));
        else
            printf("  %-8s %9.3f ms  %8.1f GFLOP/s  deviation %.1e of %.1e\n",
                   json_get_bool(row, "agrees", false) ? "agrees" : "DIFFERS",
                   1e3 * json_get_double(row, "step_seconds", NAN), 1e-9 * speed,
                   json_get_double(row, "deviation", NAN), json_get_double(row, "limit", NAN));
    }
}

static void print_report(struct json_object *report, struct json_object *problems)
{
    struct json_object *devices = json_get(report, "devices");

    for (size_t i = 0; i < json_object_array_length(devices); i++) {
        struct json_object *device = json_object_array_get_idx(devices, i);
        struct json_object *precisions = json_get(device, "precisions");

        if (!json_get_bool(device, "trains", false)) {
            printf("%s cannot be trained on: %s\n", json_get_string(device, "device", ""),
                   json_get_string(device, "reason", ""));
            continue;
        }
        printf("%s %s: %s\n", json_get_string(device, "device", ""),
               json_get_string(device, "model", ""), json_get_string(device, "features", ""));
        for (size_t k = 0; precisions && k < json_object_array_length(precisions); k++)
            print_models(json_object_array_get_idx(precisions, k));
    }
    for (size_t i = 0; i < json_object_array_length(problems); i++)
        printf("problem: %s\n", json_object_get_string(json_object_array_get_idx(problems, i)));
}

/* The list of devices has the names of their precisions where the report has what was calculated in
 * them, which is nothing yet. */
static void clear_precisions(struct json_object *devices)
{
    for (size_t i = 0; i < json_object_array_length(devices); i++)
        json_set(json_object_array_get_idx(devices, i), "precisions", json_object_new_array());
}

int worker_verify(const struct worker_options *options)
{
    JSON_AUTO struct json_object *report = worker_devices_new(options);
    struct json_object *devices = json_get(report, "devices");
    struct verifier verifier = {.options = options, .problems = json_object_new_array()};
    struct error error = {0};

    json_set(report, "problems", verifier.problems);
    clear_precisions(devices);
    if (run_reference(&verifier, &error) < 0)
        add_problem(&verifier, "cpu: %s", error.text);
    for (size_t i = 0; !error.text[0] && i < json_object_array_length(devices); i++) {
        struct json_object *device = json_object_array_get_idx(devices, i);

        if (json_get_bool(device, "trains", false))
            verify_device(&verifier, device);
        else if (options->device)
            add_problem(&verifier, "%s: %s", options->device,
                        json_get_string(device, "reason", ""));
    }
    if (options->json)
        json_print(report, stdout);
    else
        print_report(report, verifier.problems);
    return json_object_array_length(verifier.problems) ? EXIT_FAILURE : EXIT_SUCCESS;
}
