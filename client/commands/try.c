/* try.c: `trainctl try` runs one batch and two steps of a job here, to see in seconds whether it
 * can learn. It needs no daemon, and books no device. */
#include "base/text.h"
#include "client/command_line/invocation.h"
#include "client/submission/spec_input.h"
#include "client/submission/worker_run.h"
#include "client/view/line.h"
#include "client/view/table.h"
#include "proto/device_host.h"
#include "proto/job_spec.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

static void layers_print(const struct display *display, struct json_object *report)
{
    static const struct table_column columns[] = {
        {"LAYER", false, 12}, {"OPERATOR", false, 0}, {"SHAPE", false, 0}};
    struct json_object *layers = json_get(report, "layers");
    struct table *table = table_new(columns, sizeof columns / sizeof *columns);

    table_add(table, "(samples)", STYLE_DIM);
    table_add(table, "", STYLE_PLAIN);
    table_add(table, json_get_string(report, "input", ""), STYLE_PLAIN);
    for (size_t i = 0; layers && i < json_object_array_length(layers); i++) {
        struct json_object *layer = json_object_array_get_idx(layers, i);

        table_add(table, json_get_string(layer, "name", ""), STYLE_PLAIN);
        table_add(table, json_get_string(layer, "operator", ""), STYLE_PLAIN);
        table_add(table, json_get_string(layer, "shape", ""), STYLE_PLAIN);
    }
    table_print(table, display, stdout);
    table_free(table);
    putchar('\n');
}

static void losses_print(const struct display *display, struct json_object *report)
{
    double before = json_get_double(report, "loss_before", NAN);
    double after = json_get_double(report, "loss_after", NAN);
    bool one = json_object_array_length(json_get(report, "steps")) == 1; /* train.max_steps */
    char first[32], last[32], norm[32];

    line_printf(display, "loss", STYLE_PLAIN, "%s of the first batch, %s after %s%s",
                display_format_value(before, first, sizeof first),
                display_format_value(after, last, sizeof last), one ? "one step" : "two steps",
                after < before ? "" : ": it has not fallen yet");
    line_printf(display, "gradients", STYLE_PLAIN, "%s, norm %s",
                json_get_bool(report, "gradients_are_finite", false)
                    ? "finite"
                    : "not finite: the scale of the loss will be lowered",
                display_format_value(json_get_double(report, "gradient_norm_before", NAN), norm,
                                     sizeof norm));
}

/* Steps that are whole epochs, with their evaluation, have no time of their own. */
static void steps_print(const struct display *display, struct json_object *steps)
{
    for (size_t i = 0; steps && i < json_object_array_length(steps); i++) {
        double seconds = json_get_double(json_object_array_get_idx(steps, i), "seconds", NAN);
        char text[48];

        if (!isnan(seconds))
            line_printf(display, i ? "" : "time", STYLE_PLAIN, "%s for step %zu%s",
                        text_format_duration(seconds, text, sizeof text), i + 1,
                        i ? "" : ", which touches the memory first");
    }
}

static void report_print(const struct display *display, struct json_object *spec,
                         struct json_object *report)
{
    struct json_object *memory = json_get(report, "memory");
    char parameters[48], arena[48], process[48];

    layers_print(display, report);
    line_print(display, "job", json_get_string(spec, "name", NULL), STYLE_BOLD);
    line_printf(display, "model", STYLE_PLAIN, "%s parameters, batches of %" PRId64 ", %s on %s",
                display_format_count((double)json_get_int(report, "parameters", 0), parameters,
                                     sizeof parameters),
                json_get_int(json_get(report, "choices"), "batch_size", 0),
                json_get_string(report, "precision", ""), json_get_string(report, "device", ""));
    losses_print(display, report);
    steps_print(display, json_get(report, "steps"));
    line_printf(
        display, "memory", STYLE_PLAIN, "%s for tensors, %s of the process with data",
        text_format_bytes((uint64_t)json_get_int(memory, "arena", 0), arena, sizeof arena),
        text_format_bytes((uint64_t)json_get_int(memory, "process", 0), process, sizeof process));
}

static enum exit_status command_execute(struct invocation *invocation)
{
    static const char *const arguments[] = {"try",      WORKER_RUN_SPEC, "--json",
                                            "--device", DEVICE_HOST,     NULL};
    JSON_AUTO struct json_object *spec = NULL, *normalised = NULL, *report = NULL;
    struct error error = {0};
    enum exit_status status = spec_input_read_one(invocation, false, &spec, &normalised);

    if (status)
        return status;
    if (job_spec_is_command(normalised)) {
        complain("a command has no model to try; `trainctl run --follow` runs it");
        return EXIT_STATUS_USAGE;
    }
    if (worker_run(arguments, spec, &report, &error) < 0) {
        complain("%s", error.text);
        return EXIT_STATUS_FAILED;
    }
    if (invocation->json)
        json_print(report, stdout);
    else
        report_print(&invocation->output, normalised, report);
    return EXIT_STATUS_DONE;
}

static const struct command_option try_options[] = {
    SPEC_INPUT_OPTION_SET,
    SPEC_INPUT_OPTION_ENV,
    {0},
};

const struct command command_try = {
    .name = "try",
    .place = 45,
    .arguments = "SPEC",
    .summary = "Run one batch and two steps of a job here, to see whether it can learn",
    .details = "Prints the shapes of all layers, the loss of the first batch before and after two "
               "steps, the time of\na step, the memory, and whether the gradients are finite. It "
               "runs on the CPU of this machine, without\nthe daemon. Exit status 1, with the "
               "reason: the job would fail, or loss or gradients are not finite.",
    .minimum = 1,
    .maximum = 1,
    .options = try_options,
    .completion = COMPLETE_SPECS,
    .execute = command_execute,
};
