/* plan.c: `trainctl plan` shows what a job needs, and which device it would get now. It plans the
 * needs itself, as the calling user; the daemon predicts the device. */
#include "base/text.h"
#include "client/connection/connection.h"
#include "client/submission/command_spec.h"
#include "client/submission/device_guess.h"
#include "client/submission/plan_run.h"
#include "client/submission/spec_input.h"
#include "client/view/candidates.h"
#include "client/view/line.h"
#include "client/view/table.h"
#include "proto/job_spec.h"

#include <inttypes.h>
#include <string.h>

/* ---- the plan ------------------------------------------------------------------------------ */

static void lines_print(const struct display *display, const char *label, struct json_object *texts,
                        enum style style)
{
    for (size_t i = 0; texts && i < json_object_array_length(texts); i++)
        line_print(display, label, json_object_get_string(json_object_array_get_idx(texts, i)),
                   style);
}

static void batch_print(const struct display *display, struct json_object *choices)
{
    struct json_object *recompute = json_get(choices, "recompute");
    int64_t accumulate = json_get_int(choices, "accumulate", 1);
    const char *recomputed = recompute ? json_object_get_string(recompute) : "none";
    char times[48] = "", again[64] = "";

    if (accumulate > 1)
        snprintf(times, sizeof times, ", %" PRId64 " of them an update", accumulate);
    if (strcmp(recomputed, "none") != 0)
        snprintf(again, sizeof again, ", recompute %s", recomputed);
    line_printf(display, "batch", STYLE_PLAIN, "%" PRId64 " samples%s%s",
                json_get_int(choices, "batch_size", 0), times, again);
}

static void work_print(const struct display *display, struct json_object *plan)
{
    struct json_object *samples = json_get(plan, "samples");
    int64_t epochs = json_get_int(plan, "epochs", 0);
    char steps[32], parameters[32], train[32], validation[32], test[32];

    line_printf(display, "steps", STYLE_PLAIN, "%s in %" PRId64 " epoch%s, %s parameters",
                display_format_count((double)json_get_int(plan, "steps", 0), steps, sizeof steps),
                epochs, epochs == 1 ? "" : "s",
                display_format_count((double)json_get_int(plan, "parameters", 0), parameters,
                                     sizeof parameters));
    line_printf(
        display, "samples", STYLE_PLAIN, "%s to train, %s to validate, %s to test",
        display_format_count((double)json_get_int(samples, "train", 0), train, sizeof train),
        display_format_count((double)json_get_int(samples, "validation", 0), validation,
                             sizeof validation),
        display_format_count((double)json_get_int(samples, "test", 0), test, sizeof test));
    batch_print(display, json_get(plan, "choices"));
    lines_print(display, "", json_get(plan, "reasons"), STYLE_DIM);
    line_printf(display, "precision", STYLE_PLAIN, "%s: %s", json_get_string(plan, "precision", ""),
                json_get_string(plan, "precision_reason", ""));
}

static void time_print(const struct display *display, struct json_object *plan)
{
    char step[48], run[48];

    if (!json_get(plan, "predicted_seconds"))
        line_print(display, "time", "not known before this device was measured", STYLE_PLAIN);
    else
        line_printf(
            display, "time", STYLE_PLAIN, "%s a step, %s in all, alone on %s",
            text_format_duration(json_get_double(plan, "predicted_step_seconds", 0), step,
                                 sizeof step),
            text_format_duration(json_get_double(plan, "predicted_seconds", 0), run, sizeof run),
            json_get_string(plan, "device", "cpu"));
}

static void share_add(struct table *table, double part, double total)
{
    char text[32] = "";

    if (total > 0)
        snprintf(text, sizeof text, "%.1f%%", 100 * part / total);
    table_add(table, text, STYLE_PLAIN);
}

static void memory_print(const struct display *display, struct json_object *plan)
{
    static const struct table_column columns[] = {
        {"MEMORY", false, 0}, {"BYTES", true, 0}, {"SHARE", true, 0}};
    struct table *table = table_new(columns, sizeof columns / sizeof *columns);
    struct json_object *memory = json_get(plan, "memory");
    double process = json_get_double(memory, "process", 0);

    json_object_object_foreach (memory, name, value) {
        int64_t bytes = json_object_get_int64(value);
        bool sum = strcmp(name, "arena") == 0 || strcmp(name, "process") == 0;
        char text[48];

        table_add(table, name, sum ? STYLE_BOLD : STYLE_PLAIN);
        table_add(table, text_format_bytes((uint64_t)bytes, text, sizeof text), STYLE_PLAIN);
        share_add(table, (double)bytes, sum ? 0 : process);
    }
    putchar('\n');
    table_print(table, display, stdout);
    table_free(table);
}

static void flops_print(const struct display *display, struct json_object *plan)
{
    static const struct table_column columns[] = {
        {"OPERATORS", false, 0}, {"GFLOP/BATCH", true, 0}, {"SHARE", true, 0}};
    struct table *table = table_new(columns, sizeof columns / sizeof *columns);
    struct json_object *classes = json_get(plan, "flops_by_class");
    double total = json_get_double(plan, "flops_per_batch", 0);
    char text[32];

    json_object_object_foreach (classes, name, value) {
        double flops = json_object_get_double(value);

        table_add(table, name, STYLE_PLAIN);
        snprintf(text, sizeof text, "%.4g", flops * 1e-9);
        table_add(table, text, STYLE_PLAIN);
        share_add(table, flops, total);
    }
    table_add(table, "all", STYLE_BOLD);
    snprintf(text, sizeof text, "%.4g", total * 1e-9);
    table_add(table, text, STYLE_PLAIN);
    share_add(table, total, 0);
    putchar('\n');
    table_print(table, display, stdout);
    table_free(table);
}

/* Prints how the job would run on devices that have their own plan. */
static void devices_print_plans(const struct display *display, struct json_object *devices)
{
    for (size_t i = 0; devices && i < json_object_array_length(devices); i++) {
        struct json_object *entry = json_object_array_get_idx(devices, i);
        const char *name = json_get_string(entry, "device", "?");
        char bytes[32];

        if (json_get_bool(entry, "runs", false))
            line_printf(display, name, STYLE_PLAIN, "%s of its memory, precision %s: %s",
                        text_format_bytes((uint64_t)json_get_int(entry, "memory_bytes", 0), bytes,
                                          sizeof bytes),
                        json_get_string(entry, "precision", ""),
                        json_get_string(entry, "precision_reason", ""));
        else
            line_printf(display, name, STYLE_YELLOW, "cannot run it: %s",
                        json_get_string(entry, "reason", ""));
    }
}

/* Prints the plan. `timed`: without its time, because the daemon predicts it from later
 * measurements. */
static void plan_print(const struct display *display, struct json_object *spec,
                       struct json_object *plan, bool timed)
{
    line_print(display, "job", json_get_string(spec, "name", NULL), STYLE_BOLD);
    if (!plan) {
        line_print(display, "plan",
                   "a command is not planned; its resources are declared or learnt", STYLE_PLAIN);
        return;
    }
    work_print(display, plan);
    if (json_get_bool(plan, "runs", true) && !timed)
        time_print(display, plan);
    else if (!json_get_bool(plan, "runs", true))
        line_printf(display, "cpu", STYLE_YELLOW, "cannot run it: %s",
                    json_get_string(plan, "reason", ""));
    devices_print_plans(display, json_get(plan, "devices"));
    lines_print(display, "warning", json_get(plan, "warnings"), STYLE_YELLOW);
    memory_print(display, plan);
    flops_print(display, plan);
}

/* ---- the command --------------------------------------------------------------------------- */

/* Asks the daemon for a prediction; NULL: it cannot predict, and only the plan is shown. It is an
 * error if the daemon refuses the specification, because it would refuse the job, too. */
static enum exit_status prediction_ask(struct invocation *invocation, struct json_object *spec,
                                       struct json_object *plan, struct json_object **prediction)
{
    CLEANUP(varlink_reply_release) struct varlink_reply reply = {0};
    struct json_object *parameters = json_object_new_object();
    enum exit_status status;

    json_set(parameters, "spec", json_object_get(spec));
    json_set(parameters, "plan", json_object_get(plan));
    status = connection_ask(invocation, "Predict", parameters, &reply);
    if (status && reply.error && strcmp(reply.error, "io.traind.InvalidSpec") == 0)
        return status;
    if (status)
        complain("where the job would run is not known without the daemon's answer");
    else
        *prediction = json_object_get(reply.parameters);
    return EXIT_STATUS_DONE;
}

/* Plans for the CPU, and for the other devices of the daemon if one answers. */
static int plan_make(struct invocation *invocation, struct json_object *spec,
                     struct json_object **plan, struct error *error)
{
    CLEANUP(varlink_reply_release) struct varlink_reply reply = {0};

    connection_try(invocation, "Devices", NULL, &reply);
    return plan_run(spec, json_get(reply.parameters, "devices"), plan, error);
}

static void prediction_print(const struct display *display, struct json_object *prediction)
{
    struct json_object *candidates = json_get(prediction, "candidates");
    const char *device = candidates_chosen(candidates);

    putchar('\n');
    candidates_print(candidates, display);
    putchar('\n');
    line_print(display, "runs on", device ? device : "no device now", STYLE_BOLD);
    line_print(display, "because", json_get_string(prediction, "reason", NULL), STYLE_PLAIN);
    if (!device)
        line_print(display, "needs", json_get_string(prediction, "needs", NULL), STYLE_PLAIN);
    line_print(display, "assumed", json_get_string(prediction, "note", NULL), STYLE_PLAIN);
}

static void plan_print_json(struct json_object *plan, struct json_object *prediction)
{
    JSON_AUTO struct json_object *output = json_object_new_object();
    struct json_object *candidates = json_get(prediction, "candidates");

    json_set(output, "plan", json_object_get(plan));
    json_set(output, "candidates", json_object_get(candidates));
    json_set_string(output, "device", candidates_chosen(candidates));
    json_set_string(output, "reason", json_get_string(prediction, "reason", NULL));
    json_set_string(output, "note", json_get_string(prediction, "note", NULL));
    json_print(output, stdout);
}

static const struct command_option plan_options[] = {
    SPEC_OPTIONS, COMMAND_SPEC_OPTIONS, SPEC_INPUT_OPTION_SET, SPEC_INPUT_OPTION_ENV, {0},
};

/* Refuses options that say of a command line what a file says of itself. */
static enum exit_status options_check(const struct invocation *invocation)
{
    static const struct command_option of_commands[] = {COMMAND_SPEC_OPTIONS};

    for (size_t i = 0; i < sizeof of_commands / sizeof *of_commands; i++) {
        const struct command_option *o = &of_commands[i];

        if (!invocation_flag(invocation, o->name))
            continue;
        complain("--%s is for a command, as in: trainctl plan --%s%s%s -- python3 train.py; for a "
                 "file, use --set",
                 o->name, o->name, o->argument ? " " : "", o->argument ? o->argument : "");
        return EXIT_STATUS_USAGE;
    }
    return EXIT_STATUS_DONE;
}

/* Reads the file that the argument names, or makes a specification of a command line. */
static enum exit_status spec_read(struct invocation *invocation, struct json_object **spec,
                                  struct json_object **normalised)
{
    struct error error = {0};
    enum exit_status status;

    if (!invocation->arguments_are_marked && invocation->argument_count == 1) {
        status = options_check(invocation);
        return status ? status : spec_input_read_one(invocation, true, spec, normalised);
    }
    *spec = json_object_new_object();
    if (command_spec_make(invocation, *spec, &error) < 0 ||
        job_spec_normalise(*spec, normalised, NULL, &error) < 0) {
        if (error.code)
            complain("%s", error.text);
        return EXIT_STATUS_USAGE;
    }
    return EXIT_STATUS_DONE;
}

static enum exit_status command_execute(struct invocation *invocation)
{
    JSON_AUTO struct json_object *spec = NULL, *normalised = NULL, *plan = NULL, *prediction = NULL;
    struct error error = {0};
    enum exit_status status = spec_read(invocation, &spec, &normalised);

    if (status)
        return status;
    device_guess_add(spec);
    if (!job_spec_is_command(normalised) && plan_make(invocation, spec, &plan, &error) < 0) {
        complain("%s", error.text);
        return EXIT_STATUS_FAILED;
    }
    status = prediction_ask(invocation, spec, plan, &prediction);
    if (status)
        return status;
    if (invocation->json) {
        plan_print_json(plan, prediction);
    } else {
        plan_print(&invocation->output, normalised, plan, prediction != NULL);
        if (prediction)
            prediction_print(&invocation->output, prediction);
    }
    return EXIT_STATUS_DONE;
}

const struct command command_plan = {
    .name = "plan",
    .place = 40,
    .arguments = "SPEC | -- COMMAND [ARGUMENT…]",
    .summary = "Say what a job needs and where it would run, without submitting it",
    .details = "Memory by class, work, steps, precision, batch and time come from `traind-worker "
               "plan`, run here;\nwhich device would take the job now, with every candidate's "
               "time, memory and verdict, from the daemon.\nWithout a daemon the plan stands "
               "alone. Of a command it says where it would run, and what is assumed of it; the "
               "options\nare those of `trainctl run`.",
    .minimum = 1,
    .maximum = -1,
    .options = plan_options,
    .completion = COMPLETE_SPECS,
    .execute = command_execute,
};
