/* bench.c: `trainctl bench` runs one short job after the other, on each device that may run the
 * specification, and says which device is the fastest. Ctrl-C cancels the running job. */
#include "client/view/bench.h"

#include "base/clock.h"
#include "base/text.h"
#include "client/connection/connection.h"
#include "client/connection/stream.h"
#include "client/submission/bench_spec.h"
#include "client/submission/plan_run.h"
#include "client/submission/spec_input.h"
#include "client/view/job.h"
#include "client/view/progress.h"
#include "proto/job_spec.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>
#include <unistd.h>

enum {
    STEPS_LEAST = 30,
    STEPS_MOST = 2000,
    STEPS_OF_UNKNOWN = 100, /* if the time of a step is not predicted */
    MEASURE_SECONDS = 5,    /* the steps are chosen to take this long */
    COMMAND_SECONDS = 60,
    POWER_MILLISECONDS = 500 /* between two readings of the device's power */
};

struct bench {
    struct invocation *invocation;
    struct json_object *spec, *normalised, *plan; /* plan: NULL for a command */
    struct json_object *results;
    int64_t steps;  /* 0: enough for MEASURE_SECONDS */
    double seconds; /* of a command */
    int signals;
    FILE *output; /* for progress */
    struct progress_bar bar;

    /* the running job */
    struct stream watch;
    int64_t job;
    struct json_object *latest; /* the latest Job */
    const char *device;
    double watts; /* the sum of watts_count readings */
    int watts_count;
    double power_read_at;
};

/* ---- one job ------------------------------------------------------------------------------- */

static struct json_object *watch_parameters(void *context)
{
    struct bench *bench = context;
    struct json_object *parameters = json_object_new_object(), *ids = json_object_new_array();

    json_object_array_add(ids, json_object_new_int64(bench->job));
    json_set(parameters, "ids", ids);
    return parameters;
}

static enum exit_status job_submit(struct bench *bench, struct json_object *candidate)
{
    double step = json_get_double(candidate, "step_seconds", NAN);
    struct bench_limits limits = {.steps = bench->steps, .seconds = bench->seconds};
    struct json_object *parameters = json_object_new_object();
    struct varlink_reply reply;
    enum exit_status status;

    if (limits.steps == 0)
        limits.steps = isnan(step) || step <= 0 ? STEPS_OF_UNKNOWN
                       : MEASURE_SECONDS / step < STEPS_LEAST
                           ? STEPS_LEAST
                           : (int64_t)fmin(MEASURE_SECONDS / step, STEPS_MOST);
    json_set(parameters, "spec",
             bench_spec_new(bench->spec, bench->plan,
                            json_get_string(bench->normalised, "name", "job"), bench->device,
                            &limits));
    status = connection_call(bench->invocation, "Submit", parameters, &reply);
    if (status)
        return status;
    bench->job = json_get_int(reply.parameters, "id", 0);
    varlink_reply_release(&reply);
    return EXIT_STATUS_DONE;
}

static enum exit_status job_cancel(struct bench *bench)
{
    struct json_object *parameters = json_object_new_object();
    struct varlink_reply reply;

    progress_bar_clear(&bench->bar);
    json_set_int(parameters, "id", bench->job);
    if (connection_call(bench->invocation, "Cancel", parameters, &reply) == EXIT_STATUS_DONE) {
        varlink_reply_release(&reply);
        complain("stopped; job %" PRId64 " is cancelled", bench->job);
    }
    return EXIT_STATUS_DETACHED;
}

/* Handles a reply of Watch; false: the stream has ended. */
static bool watch_take(struct bench *bench, enum exit_status *status)
{
    for (;;) {
        struct varlink_reply reply = {0};

        switch (stream_next(&bench->watch, bench->invocation, &reply, status)) {
        case STREAM_REPLY:
            json_object_put(bench->latest);
            bench->latest = json_object_get(json_get(reply.parameters, "job"));
            varlink_reply_release(&reply);
            if (bench->bar.output)
                progress_bar_draw(&bench->bar, bench->latest);
            break;
        case STREAM_NOTHING:
            return true;
        default:
            return false;
        }
    }
}

/* Adds a reading of the device's power, if it is readable, while the job runs. */
static void power_read(struct bench *bench)
{
    struct varlink_reply reply;
    struct json_object *devices;

    if (clock_now() - bench->power_read_at < POWER_MILLISECONDS * 1e-3 ||
        strcmp(json_get_string(bench->latest, "state", ""), "running") != 0)
        return;
    bench->power_read_at = clock_now();
    if (connection_call(bench->invocation, "Devices", NULL, &reply))
        return;
    devices = json_get(reply.parameters, "devices");
    for (size_t i = 0; devices && i < json_object_array_length(devices); i++) {
        struct json_object *device = json_object_array_get_idx(devices, i);
        double watts = json_get_double(device, "power_watts", NAN);

        if (strcmp(json_get_string(device, "name", ""), bench->device) == 0 && !isnan(watts)) {
            bench->watts += watts;
            bench->watts_count++;
        }
    }
    varlink_reply_release(&reply);
}

static enum exit_status job_follow(struct bench *bench)
{
    struct stream *const streams[] = {&bench->watch};
    enum exit_status status = EXIT_STATUS_DONE;

    while (watch_take(bench, &status)) {
        power_read(bench);
        switch (stream_poll(streams, 1, bench->signals, POWER_MILLISECONDS)) {
        case POLL_DETACH:
            return job_cancel(bench);
        case POLL_RESIZED:
            if (bench->bar.output)
                progress_bar_resize(&bench->bar);
            break;
        default:
            break;
        }
    }
    progress_bar_clear(&bench->bar);
    return status;
}

/* Measures one candidate and appends its result. */
static enum exit_status candidate_measure(struct bench *bench, struct json_object *candidate)
{
    struct json_object *parameters;
    struct varlink_reply reply;
    enum exit_status status;

    bench->device = json_get_string(candidate, "device", "");
    bench->watts = 0;
    bench->watts_count = 0;
    bench->power_read_at = clock_now();
    status = job_submit(bench, candidate);
    if (status)
        return status;
    if (bench->bar.output)
        fprintf(bench->output, "job %" PRId64 " measures %s\n", bench->job, bench->device);
    bench->watch =
        (struct stream){.method = "Watch", .parameters = watch_parameters, .context = bench};
    status = job_follow(bench);
    stream_close(&bench->watch);
    if (status)
        return status;
    parameters = json_object_new_object();
    json_set_int(parameters, "id", bench->job);
    status = connection_call(bench->invocation, "Show", parameters, &reply);
    if (status)
        return status;
    json_object_array_add(
        bench->results,
        bench_result_new(candidate, reply.parameters, bench->plan,
                         bench->watts_count ? bench->watts / bench->watts_count : NAN));
    varlink_reply_release(&reply);
    return EXIT_STATUS_DONE;
}

/* ---- all devices --------------------------------------------------------------------------- */

/* Whether a comma-separated list has the word. */
static bool list_has(const char *list, const char *word)
{
    size_t length = strlen(word);

    for (const char *at = list; *at; at += strcspn(at, ","), at += *at == ',')
        if (strcspn(at, ",") == length && strncmp(at, word, length) == 0)
            return true;
    return false;
}

static struct json_object *candidate_find(struct json_object *candidates, const char *device,
                                          size_t length)
{
    for (size_t i = 0; candidates && i < json_object_array_length(candidates); i++) {
        struct json_object *candidate = json_object_array_get_idx(candidates, i);
        const char *name = json_get_string(candidate, "device", "");

        if (strlen(name) == length && strncmp(name, device, length) == 0)
            return candidate;
    }
    return NULL;
}

/* Checks that the devices of --devices exist. */
static enum exit_status devices_check(const char *list, struct json_object *candidates)
{
    for (const char *at = list; *at; at += strcspn(at, ","), at += *at == ',') {
        int length = (int)strcspn(at, ",");

        if (!candidate_find(candidates, at, (size_t)length)) {
            complain("there is no device \"%.*s\"; `trainctl devices` lists them", length, at);
            return EXIT_STATUS_USAGE;
        }
    }
    return EXIT_STATUS_DONE;
}

/* Why the candidate is not measured; NULL: it is. */
static const char *candidate_refusal(struct json_object *candidate)
{
    static const char *const hopeless[] = {"not_allowed", "cannot_run", "draining", "lost",
                                           "too_large"};
    const char *verdict = json_get_string(candidate, "verdict", "");

    for (size_t i = 0; i < sizeof hopeless / sizeof *hopeless; i++)
        if (strcmp(verdict, hopeless[i]) == 0)
            return json_get_string(candidate, "reason", verdict);
    return NULL;
}

static enum exit_status candidates_measure(struct bench *bench, struct json_object *candidates)
{
    const char *wanted = invocation_option(bench->invocation, "devices");
    enum exit_status status = wanted ? devices_check(wanted, candidates) : EXIT_STATUS_DONE;

    for (size_t i = 0; !status && candidates && i < json_object_array_length(candidates); i++) {
        struct json_object *candidate = json_object_array_get_idx(candidates, i);
        const char *refusal = candidate_refusal(candidate);

        if (wanted && !list_has(wanted, json_get_string(candidate, "device", "")))
            continue;
        if (refusal)
            json_object_array_add(bench->results, bench_result_skipped(candidate, refusal));
        else
            status = candidate_measure(bench, candidate);
    }
    return status;
}

/* ---- the command --------------------------------------------------------------------------- */

/* Plans a native job for all devices that can train it. */
static enum exit_status bench_plan(struct bench *bench)
{
    CLEANUP(varlink_reply_release) struct varlink_reply reply = {0};
    struct error error = {0};

    if (job_spec_is_command(bench->normalised))
        return EXIT_STATUS_DONE;
    connection_try(bench->invocation, "Devices", NULL, &reply);
    if (plan_run(bench->spec, json_get(reply.parameters, "devices"), &bench->plan, &error) == 0)
        return EXIT_STATUS_DONE;
    complain("%s", error.text);
    return EXIT_STATUS_FAILED;
}

static enum exit_status bench_prepare(struct bench *bench)
{
    struct invocation *invocation = bench->invocation;
    const char *seconds = invocation_option(invocation, "seconds");
    enum exit_status status = invocation_option_integer(invocation, "steps", 1, &bench->steps);

    if (status)
        return status;
    if (seconds && (text_parse_duration(seconds, &bench->seconds) < 0 || bench->seconds <= 0)) {
        complain("--seconds=%s: a duration such as 30 or \"2 min\" is expected", seconds);
        return EXIT_STATUS_USAGE;
    }
    status = spec_input_read_one(invocation, false, &bench->spec, &bench->normalised);
    if (!status)
        status = connection_open(invocation);
    if (status)
        return status;
    status = bench_plan(bench);
    if (status)
        return status;
    bench->signals = stream_signals_open();
    bench->output = invocation->json ? stderr : stdout;
    display_look(fileno(bench->output), &bench->bar.display);
    if (bench->bar.display.terminal)
        bench->bar.output = bench->output;
    return EXIT_STATUS_DONE;
}

static enum exit_status bench_run(struct bench *bench)
{
    CLEANUP(varlink_reply_release) struct varlink_reply reply = {0};
    JSON_AUTO struct json_object *report = NULL;
    struct json_object *parameters = json_object_new_object();
    enum exit_status status;

    json_set(parameters, "spec", json_object_get(bench->spec));
    json_set(parameters, "plan", json_object_get(bench->plan));
    status = connection_call(bench->invocation, "Predict", parameters, &reply);
    if (!status)
        status = candidates_measure(bench, json_get(reply.parameters, "candidates"));
    if (status)
        return status;
    report = bench_report_new(bench->results);
    if (bench->invocation->json)
        json_print(report, stdout);
    else
        bench_report_print(report, &bench->invocation->output);
    return json_get(report, "recommended") ? EXIT_STATUS_DONE : EXIT_STATUS_FAILED;
}

static enum exit_status command_execute(struct invocation *invocation)
{
    struct bench bench = {.invocation = invocation,
                          .results = json_object_new_array(),
                          .seconds = COMMAND_SECONDS,
                          .signals = -1};
    enum exit_status status = bench_prepare(&bench);

    if (!status)
        status = bench_run(&bench);
    json_object_put(bench.spec);
    json_object_put(bench.normalised);
    json_object_put(bench.plan);
    json_object_put(bench.results);
    json_object_put(bench.latest);
    if (bench.signals >= 0)
        close(bench.signals);
    return status;
}

static const struct command_option bench_options[] = {
    SPEC_INPUT_OPTION_SET,
    SPEC_INPUT_OPTION_ENV,
    {"devices", 'd', "NAME[,NAME…]", "Only these devices (default: all that may run the job)",
     COMPLETE_DEVICES},
    {"steps", 0, "N", "Steps of each job (default: as many as take 5 s, 30 to 2000)",
     COMPLETE_NOTHING},
    {"seconds", 0, "DURATION", "Longest run of a command on each device (default: 60)",
     COMPLETE_NOTHING},
    {0},
};

const struct command command_bench = {
    .name = "bench",
    .place = 50,
    .arguments = "SPEC",
    .summary = "Measure a job on every device that may run it, and recommend one",
    .details = "A short job on each device, one after the other: the time of a step (median, after "
               "the first\nones), of an epoch and of the whole, memory planned and used, energy "
               "where it can be read.\nA command is compared by the samples_per_second that it "
               "reports, or by its whole run.\nCtrl-C cancels the job that runs.",
    .minimum = 1,
    .maximum = 1,
    .options = bench_options,
    .completion = COMPLETE_SPECS,
    .execute = command_execute,
};
