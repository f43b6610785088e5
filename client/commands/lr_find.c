/* lr_find.c: `trainctl lr-find` looks for a learning rate by a range test, as a short job. */
#include "client/connection/connection.h"
#include "client/connection/follow.h"
#include "client/connection/metric_pages.h"
#include "client/submission/bench_spec.h"
#include "client/submission/spec_input.h"
#include "client/submission/spec_options.h"
#include "client/view/lr_curve.h"
#include "proto/job_spec.h"

#include <stdlib.h>

static const double low_usual = 1e-7, high_usual = 10; /* fastai's */
enum { STEPS_USUAL = 100, STEPS_LEAST = 20 };

struct range {
    double low, high;
    int64_t steps;
};

static enum exit_status option_rate(struct invocation *invocation, const char *name, double *rate)
{
    const char *text = invocation_option(invocation, name);
    char *end;

    if (!text)
        return EXIT_STATUS_DONE;
    *rate = strtod(text, &end);
    if (end != text && *end == '\0' && *rate > 0 && *rate <= 1e6)
        return EXIT_STATUS_DONE;
    complain("--%s=%s: a learning rate above 0 is expected, such as 1e-5", name, text);
    return EXIT_STATUS_USAGE;
}

static enum exit_status range_read(struct invocation *invocation, struct range *range)
{
    enum exit_status status =
        invocation_option_integer(invocation, "steps", STEPS_LEAST, &range->steps);

    if (!status)
        status = option_rate(invocation, "from", &range->low);
    if (!status)
        status = option_rate(invocation, "to", &range->high);
    if (!status && range->low >= range->high) {
        complain("--from=%g is not below --to=%g", range->low, range->high);
        status = EXIT_STATUS_USAGE;
    }
    return status;
}

/* Prints what the job has measured. A job that fails because its loss is no number has found out
 * enough. */
static enum exit_status curve_print(struct invocation *invocation, int64_t id)
{
    JSON_AUTO struct json_object *names = json_object_new_array(), *rows = json_object_new_array();
    JSON_AUTO struct json_object *curve = NULL;
    enum exit_status status;

    json_object_array_add(names, json_object_new_string("learning_rate"));
    json_object_array_add(names, json_object_new_string("step_loss"));
    status = metric_pages_walk(invocation, id, names, 0, metric_pages_append, rows);
    if (status)
        return status;
    if (json_object_array_length(rows) == 0) /* the job's end has said why */
        return EXIT_STATUS_FAILED;
    curve = lr_curve_new(rows);
    json_set_int(curve, "job", id);
    if (invocation->json)
        json_print(curve, stdout);
    else
        lr_curve_print(curve, &invocation->output);
    return json_get(curve, "suggestion") ? EXIT_STATUS_DONE : EXIT_STATUS_FAILED;
}

static enum exit_status job_submit(struct invocation *invocation, struct json_object *spec,
                                   int64_t *id)
{
    CLEANUP(varlink_reply_release) struct varlink_reply reply = {0};
    struct json_object *parameters = json_object_new_object();
    enum exit_status status;

    json_set(parameters, "spec", spec);
    status = connection_call(invocation, "Submit", parameters, &reply);
    *id = json_get_int(reply.parameters, "id", 0);
    return status;
}

static enum exit_status command_execute(struct invocation *invocation)
{
    struct range range = {low_usual, high_usual, STEPS_USUAL};
    struct json_object *spec = NULL, *normalised = NULL;
    enum exit_status status = range_read(invocation, &range);
    int64_t id = 0;

    if (!status)
        status = spec_input_read_one(invocation, true, &spec, &normalised);
    if (!status && job_spec_is_command(normalised)) {
        complain("%s is a command, whose learning rate traind does not know",
                 invocation->arguments[0]);
        status = EXIT_STATUS_USAGE;
    }
    if (!status)
        status = connection_open(invocation);
    if (!status)
        status = job_submit(invocation,
                            lr_find_spec_new(spec, json_get_string(normalised, "name", "job"),
                                             range.steps, range.low, range.high),
                            &id);
    json_object_put(spec);
    json_object_put(normalised);
    if (status)
        return status;
    status = follow_jobs(invocation, &id, 1, FOLLOW_QUIETLY);
    return status == EXIT_STATUS_DETACHED ? status : curve_print(invocation, id);
}

static const struct command_option lr_find_options[] = {
    SPEC_OPTIONS,
    SPEC_INPUT_OPTION_SET,
    SPEC_INPUT_OPTION_ENV,
    {"steps", 0, "N", "Steps of the test (default: 100)", COMPLETE_NOTHING},
    {"from", 0, "LR", "Learning rate of the first step (default: 1e-7)", COMPLETE_NOTHING},
    {"to", 0, "LR", "Learning rate of the last step (default: 10)", COMPLETE_NOTHING},
    {0},
};

const struct command command_lr_find = {
    .name = "lr-find",
    .place = 55,
    .arguments = "SPEC",
    .summary = "Look for a learning rate: a short job whose rate grows from step to step",
    .details =
        "The job trains SPEC's model for some steps with the schedule exponential, without its "
        "test\nset. The curve of its smoothed losses is printed up to where it diverges (above "
        "four times\nits minimum), and the rate at which it falls most steeply. The whole curve is "
        "that of\n`trainctl metrics JOB`. With --json a line says how the job ended, and one has "
        "the curve.",
    .minimum = 1,
    .maximum = 1,
    .options = lr_find_options,
    .completion = COMPLETE_SPECS,
    .execute = command_execute,
};
