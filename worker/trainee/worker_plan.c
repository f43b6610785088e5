/* worker_plan.c: `traind-worker plan` opens the data and plans the session. It does not train, and
 * allocates no memory on the device. */
#include "worker/trainee/worker_plan.h"

#include "base/text.h"
#include "worker/trainee/worker_convolutions.h"
#include "worker/trainee/worker_estimate.h"
#include "worker/trainee/worker_report.h"
#include "worker/trainee/worker_weights.h"

#include <stdio.h>
#include <string.h>

/* Prints "  name   value  12.3%", the share of `total`; a total of 0 gives no share. */
static void print_share(const char *name, const char *value, double part, double total)
{
    printf("  %-14s %10s", name, value);
    if (total > 0)
        printf("  %5.1f%%", 100 * part / total);
    printf("\n");
}

static void show_memory(struct json_object *plan)
{
    static const char *const sums[] = {"arena", "process", "device"};
    struct json_object *memory = json_get(plan, "memory");
    double all = json_get_double(memory, json_get(memory, "device") ? "device" : "process", 0);
    char text[64];

    printf("memory\n");
    json_object_object_foreach (memory, name, value) {
        int64_t bytes = json_object_get_int64(value);
        bool sum = false;

        for (size_t i = 0; i < sizeof sums / sizeof *sums; i++)
            sum |= strcmp(name, sums[i]) == 0;
        text_format_bytes((uint64_t)bytes, text, sizeof text);
        print_share(name, text, (double)bytes, sum ? 0 : all);
    }
}

static void show_work(struct json_object *plan)
{
    struct json_object *classes = json_get(plan, "flops_by_class");
    double total = json_get_double(plan, "flops_per_batch", 0);
    double recomputed = json_get_double(plan, "flops_recomputed", 0);
    char text[64];

    printf("work of a batch, in GFLOP\n");
    json_object_object_foreach (classes, name, value) {
        double flops = json_object_get_double(value);

        snprintf(text, sizeof text, "%.4g", flops * 1e-9);
        print_share(name, text, flops, total);
    }
    snprintf(text, sizeof text, "%.4g", total * 1e-9);
    printf("  %-14s %10s  in %lld kernels", "all", text,
           (long long)json_get_int(plan, "kernels_per_batch", 0));
    if (recomputed > 0)
        printf(", %.4g of it for recomputation", recomputed * 1e-9);
    printf("\n");
}

static void show_prediction(struct json_object *plan)
{
    char step[64], run[64];

    if (!json_get(plan, "predicted_seconds")) {
        printf("time: not known; `traind-worker calibrate` measures this device once\n");
        return;
    }
    text_format_duration(json_get_double(plan, "predicted_step_seconds", 0), step, sizeof step);
    text_format_duration(json_get_double(plan, "predicted_seconds", 0), run, sizeof run);
    printf("time: %s a step, the whole run %s, by the calibration in %s\n", step, run,
           json_get_string(plan, "predicted_by", ""));
}

/* Prints the plan for a person. */
static void show_plan(struct json_object *plan)
{
    struct json_object *warnings = json_get(plan, "warnings"), *reasons = json_get(plan, "reasons");
    struct json_object *choices = json_get(plan, "choices");

    printf("device %s, %d threads, %lld steps in %lld epochs, %lld parameters\n",
           json_get_string(plan, "device", ""), (int)json_get_int(plan, "threads", 0),
           (long long)json_get_int(plan, "steps", 0), (long long)json_get_int(plan, "epochs", 0),
           (long long)json_get_int(plan, "parameters", 0));
    printf("precision %s: %s\n", json_get_string(plan, "precision", ""),
           json_get_string(plan, "precision_reason", ""));
    printf("batch_size %lld, accumulate %lld, recompute %s\n",
           (long long)json_get_int(choices, "batch_size", 0),
           (long long)json_get_int(choices, "accumulate", 0),
           json_object_get_string(json_get(choices, "recompute")));
    for (size_t i = 0; i < json_object_array_length(reasons); i++)
        printf("  %s\n", json_object_get_string(json_object_array_get_idx(reasons, i)));
    show_memory(plan);
    show_work(plan);
    show_prediction(plan);
    for (size_t i = 0; i < json_object_array_length(warnings); i++)
        printf("warning: %s\n", json_object_get_string(json_object_array_get_idx(warnings, i)));
}

/* Guesses the speeds of an unmeasured device from its own description. */
static void guess_calibration(const struct worker_setup *setup,
                              struct worker_calibration *calibration)
{
    calibration->known = calibration_guess(&setup->device_info, &calibration->speeds);
    snprintf(calibration->path, sizeof calibration->path, "what %.31s says of itself",
             setup->device_info.name);
}

/* Finds the device's calibration, or guesses one. */
static int find_calibration(const struct worker_options *options, struct worker_setup *setup,
                            struct worker_calibration *calibration, struct error *error)
{
    int r = worker_device_calibration(options, &setup->simulation, &setup->device_info, calibration,
                                      error);

    if (r == 0 && !calibration->known)
        guess_calibration(setup, calibration);
    return r;
}

int worker_plan_make(const struct worker_options *options, struct worker_setup *setup,
                     struct json_object **plan, struct error *error)
{
    struct worker_calibration calibration = {0};
    struct training *training = NULL;
    struct worker_choice choice;
    int r = worker_convolutions_choose(setup, true, error);

    if (r == 0)
        r = worker_choice_prepare(setup, options, NULL, &choice, &training, error);
    if (r == 0 && (setup->device_info.owns_memory || options->choices)) { /* else it is known */
        r = training_rehearse(training, error);
        choice.process_bytes = worker_estimate_process_bytes(setup, training);
        choice.memory_bytes = setup->device_info.owns_memory
                                  ? worker_estimate_device_bytes(setup, training)
                                  : choice.process_bytes;
    }
    if (r == 0)
        r = find_calibration(options, setup, &calibration, error);
    if (r == 0)
        r = worker_estimate_json(setup, &choice, training, &calibration, plan, error);
    training_free(training);
    worker_calibration_release(&calibration);
    return r;
}

/* Plans for a precision that other devices may have but the CPU does not. The parts that all
 * devices share are planned with a CPU that emulates the precision, and the plan says why the CPU
 * itself cannot run it. */
static int plan_for_others(const struct worker_options *options, struct worker_setup *setup,
                           struct json_object **plan, struct error *error)
{
    struct worker_options own = *options;
    struct error refusal = *error;
    int r;

    own.emulate_precision = true;
    worker_setup_release(setup);
    r = worker_setup_open(&own, &(struct worker_opening){.plans = true}, setup, error);
    if (r == 0)
        r = worker_plan_make(&own, setup, plan, error);
    if (r == 0) {
        json_set_bool(*plan, "runs", false);
        json_set_string(*plan, "reason", refusal.text);
    }
    return r;
}

static int plan_all(const struct worker_options *options, struct worker_setup *setup,
                    struct json_object **plan, struct error *error)
{
    int r = worker_setup_open(options, &(struct worker_opening){.plans = true}, setup, error);

    if (r == 0 && (r = worker_weights_check(setup, error)) < 0)
        return r;
    if (r < 0 && options->also && setup->stage == WORKER_STAGE_DEVICE && setup->device)
        r = plan_for_others(options, setup, plan, error);
    else if (r == 0)
        r = worker_plan_make(options, setup, plan, error);
    return r == 0 && options->also ? worker_plan_devices(options, setup, plan, error) : r;
}

/* Writes the record {"type": name, name: object, …}. */
static int record(struct worker_report *report, const char *name, struct json_object *object,
                  struct error *error)
{
    struct json_object *fields = json_object_new_object();

    json_set(fields, name, json_object_get(object));
    return worker_report_record(report, name, fields, error);
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
    r = plan_all(options, &setup, &plan, &error);
    if (r == 0 && options->spool)
        r = record(&report, "plan", plan, &error);
    else if (r == 0 && options->json)
        json_print(plan, stdout);
    else if (r == 0)
        show_plan(plan);
    if (r < 0)
        worker_report_failure(&report, worker_stage_to_string(setup.stage), -1, NULL, &error);
    worker_setup_release(&setup);
    worker_report_close(&report);
    return r < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}
