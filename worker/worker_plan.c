/* worker_plan.c: `traind-worker plan`: opens the data and plans the session, but trains nothing and
 * allocates nothing on the device. */
#include "base/text.h"
#include "worker/worker_estimate.h"
#include "worker/worker_report.h"
#include "worker/worker_setup.h"

#include <stdio.h>

enum { CALIBRATION_BYTES_MAX = 65536 };

static void print_row(const char *name, const char *value)
{
    printf("  %-14s %s\n", name, value);
}

/* The plan as a table. */
static void show_plan(struct json_object *plan)
{
    struct json_object *memory = json_get(plan, "memory"), *warnings = json_get(plan, "warnings");
    char text[64];

    printf("device %s, %d threads, %lld steps in %lld epochs, %lld parameters\n",
           json_get_string(plan, "device", ""), (int)json_get_int(plan, "threads", 0),
           (long long)json_get_int(plan, "steps", 0), (long long)json_get_int(plan, "epochs", 0),
           (long long)json_get_int(plan, "parameters", 0));
    printf("precision %s: %s\n", json_get_string(plan, "precision", ""),
           json_get_string(plan, "precision_reason", ""));
    json_object_object_foreach (memory, name, bytes) {
        print_row(name,
                  text_format_bytes((uint64_t)json_object_get_int64(bytes), text, sizeof text));
    }
    snprintf(text, sizeof text, "%.4g GFLOP in %lld kernels",
             json_get_double(plan, "flops_per_batch", 0) * 1e-9,
             (long long)json_get_int(plan, "kernels_per_batch", 0));
    print_row("a batch takes", text);
    if (json_get(plan, "predicted_seconds"))
        print_row("all of it", text_format_duration(json_get_double(plan, "predicted_seconds", 0),
                                                    text, sizeof text));
    for (size_t i = 0; i < json_object_array_length(warnings); i++)
        printf("warning: %s\n", json_object_get_string(json_object_array_get_idx(warnings, i)));
}

static int make_plan(const struct worker_options *options, struct worker_setup *setup,
                     struct json_object **plan, struct error *error)
{
    JSON_AUTO struct json_object *calibration = NULL;
    struct training *training = NULL;
    struct training_data data;
    int r = 0;

    if (options->calibration)
        r = json_parse_file(options->calibration, CALIBRATION_BYTES_MAX, &calibration, error);
    if (r == 0)
        r = worker_setup_open(options, &(struct worker_opening){.plans = true}, setup, error);
    if (r < 0)
        return r;
    data = worker_setup_data(setup);
    r = training_prepare(&setup->spec.training, &data, setup->backend, setup->device,
                         worker_setup_build, setup, &training, error);
    if (r == 0)
        *plan = worker_estimate_json(setup, training, calibration);
    training_free(training);
    return r;
}

int worker_plan(const struct worker_options *options)
{
    JSON_AUTO struct json_object *plan = NULL;
    struct worker_setup setup = {.stage = WORKER_STAGE_SPECIFICATION};
    struct worker_report report;
    struct error error = {0};
    int r = worker_report_open(&report, options->spool, false, &error);

    if (r < 0) {
        fprintf(stderr, "traind-worker: %s\n", error.text);
        return EXIT_FAILURE;
    }
    r = make_plan(options, &setup, &plan, &error);
    if (r == 0 && options->spool) {
        struct json_object *fields = json_object_new_object();

        json_set(fields, "plan", json_object_get(plan));
        r = worker_report_record(&report, "plan", fields, &error);
    } else if (r == 0 && options->json) {
        printf("%s\n", json_text(plan, NULL));
    } else if (r == 0) {
        show_plan(plan);
    }
    if (r < 0)
        worker_report_failure(&report, worker_stage_to_string(setup.stage), -1, &error);
    worker_setup_release(&setup);
    worker_report_close(&report);
    return r < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}
