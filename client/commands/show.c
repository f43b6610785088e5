/* show.c: `trainctl show` prints everything that the daemon knows about one job. */
#include "base/clock.h"
#include "base/text.h"
#include "client/connection/connection.h"
#include "client/connection/log_tail.h"
#include "client/connection/sweep.h"
#include "client/view/job.h"
#include "client/view/line.h"
#include "client/view/spec.h"
#include "client/view/table.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

static void time_print(const struct display *display, const char *label, double time)
{
    char text[64], ago[32], line[128];

    if (isnan(time))
        return;
    snprintf(line, sizeof line, "%s (%s)", display_format_time(time, text, sizeof text),
             display_format_ago(time, clock_now(), ago, sizeof ago));
    line_print(display, label, line, STYLE_PLAIN);
}

/* Which weights a test metric belongs to: the best checkpoint's, which an export writes, or, if
 * both were tested, the last ones. */
static const char *metric_owner(const char *name, struct json_object *metrics,
                                struct json_object *best, char *text, size_t size)
{
    text[0] = '\0';
    if (strncmp(name, "last_test_", 10) == 0)
        snprintf(text, size, "  (the last weights')");
    else if (strncmp(name, "test_", 5) == 0 && best && json_get(metrics, "last_test_loss"))
        snprintf(text, size, "  (the best weights', of step %" PRId64 ")",
                 json_get_int(best, "step", 0));
    return text;
}

/* Prints the metrics; after the job's end without those that change at every step. */
static void metrics_print(const struct display *display, struct json_object *metrics,
                          struct json_object *best, bool ended)
{
    char number[32], owner[64];

    if (!metrics)
        return;
    json_object_object_foreach (metrics, name, value) {
        if (ended && strcmp(name, "step_loss") == 0)
            continue;
        line_printf(display, "metric", STYLE_PLAIN, "%s %s%s", name,
                    display_format_value(json_object_get_double(value), number, sizeof number),
                    metric_owner(name, metrics, best, owner, sizeof owner));
    }
}

/* Prints the expected start and the number of jobs before it. */
static void queue_print(const struct display *display, struct json_object *job)
{
    int64_t position = json_get_int(job, "queue_position", 0);
    char text[64];

    if (!position)
        return;
    job_start_format(job, text, sizeof text);
    line_printf(display, "starts", STYLE_PLAIN, "%s, as number %" PRId64 " of those that wait",
                *text ? text : "at a time that is not known", position);
}

static void job_print(const struct display *display, struct json_object *job)
{
    const char *state = json_get_string(job, "state", "?");
    struct json_object *metrics = json_get(job, "metrics"), *best = json_get(job, "best");
    double ran = job_run_seconds(job, clock_now());
    char line[1024], text[32];

    snprintf(line, sizeof line, "%" PRId64 " (%s)", json_get_int(job, "id", 0),
             json_get_string(job, "name", ""));
    line_print(display, "job", line, STYLE_BOLD);
    line_print(display, "state", state, job_state_style(state));
    line_print(display, "reason", job_reason(job), STYLE_PLAIN);
    queue_print(display, job);
    line_print(display, "device", json_get_string(job, "device", NULL), STYLE_PLAIN);
    line_print(display, "pinned to", json_get_string(job, "pinned", NULL), STYLE_PLAIN);
    line_print(display, "group", json_get_string(job, "group", NULL), STYLE_PLAIN);
    line_print(display, "user", json_get_string(job, "user", NULL), STYLE_PLAIN);
    time_print(display, "submitted", json_get_double(job, "submitted", NAN));
    time_print(display, "started", json_get_double(job, "started", NAN));
    time_print(display, "ended", json_get_double(job, "ended", NAN));
    if (!isnan(ran))
        line_print(display, "ran", text_format_duration(ran, text, sizeof text), STYLE_PLAIN);
    if (strcmp(state, "running") == 0 && json_get(job, "progress"))
        line_print(display, "progress", job_detail(job, line, sizeof line), STYLE_PLAIN);
    metrics_print(display, metrics, best, job_state_is_final(state));
    if (best) {
        snprintf(line, sizeof line, "%s %s at step %" PRId64, json_get_string(best, "metric", ""),
                 display_format_value(json_get_double(best, "value", NAN), text, sizeof text),
                 json_get_int(best, "step", 0));
        line_print(display, "best", line, STYLE_PLAIN);
    }
}

/* Prints, for example, "job 12 (done) is to be done". */
static void dependencies_print(const struct display *display, struct json_object *dependencies)
{
    for (size_t i = 0; dependencies && i < json_object_array_length(dependencies); i++) {
        struct json_object *dependency = json_object_array_get_idx(dependencies, i);
        bool success = strcmp(json_get_string(dependency, "on", ""), "success") == 0;
        bool sweep = json_get(dependency, "sweep") != NULL;

        line_printf(display, "after", STYLE_PLAIN, "%s %" PRId64 " %s (%s)",
                    sweep ? "sweep" : "job", json_get_int(dependency, "job", 0),
                    success ? "is done" : "has ended",
                    json_get_string(dependency, "state", "gone"));
    }
}

/* Writes, for example, "completed", "exited with 3" or "signal 9". */
static char *ending_format(struct json_object *attempt, char *output, size_t size)
{
    const char *ending = json_get_string(attempt, "ending", NULL);
    int64_t status = json_get_int(attempt, "exit_status", -1);
    int64_t signal = json_get_int(attempt, "signal", 0);
    const char *preemption = json_get_string(attempt, "preemption", NULL);

    if (!ending)
        snprintf(output, size, "still running");
    else if (preemption && strcmp(ending, "preempted") == 0) /* "preempted_by_priority" as it is */
        snprintf(output, size, "%s%s",
                 strncmp(preemption, ending, 9) == 0 ? "" : "preempted: ", preemption);
    else if (signal)
        snprintf(output, size, "%s by signal %" PRId64 " (%s)", ending, signal,
                 sigdescr_np((int)signal) ? sigdescr_np((int)signal) : "?");
    else if (status > 0)
        snprintf(output, size, "%s with status %" PRId64, ending, status);
    else
        snprintf(output, size, "%s", ending);
    return output;
}

static void attempts_print(const struct display *display, struct json_object *attempts)
{
    static const struct table_column columns[] = {
        {"ATTEMPT", true, 0}, {"DEVICE", false, 4},   {"STARTED", false, 0}, {"RAN", false, 0},
        {"PID", true, 0},     {"FROM STEP", true, 0}, {"ENDING", false, 8},  {"MESSAGE", false, 12},
    };
    struct table *table = table_new(columns, sizeof columns / sizeof *columns);

    for (size_t i = 0; attempts && i < json_object_array_length(attempts); i++) {
        struct json_object *attempt = json_object_array_get_idx(attempts, i);
        char text[128];

        table_add_integer(table, json_get_int(attempt, "number", 0));
        table_add(table, json_get_string(attempt, "device", ""), STYLE_PLAIN);
        table_add(table,
                  display_format_time(json_get_double(attempt, "started", 0), text, sizeof text),
                  STYLE_PLAIN);
        table_add(table,
                  text_format_duration(job_run_seconds(attempt, clock_now()), text, sizeof text),
                  STYLE_PLAIN);
        if (json_get(attempt, "pid") && !json_get(attempt, "ended"))
            table_add_integer(table, json_get_int(attempt, "pid", 0));
        else
            table_add(table, "", STYLE_PLAIN);
        if (json_get(attempt, "resumed_from_step"))
            table_add_integer(table, json_get_int(attempt, "resumed_from_step", 0));
        else
            table_add(table, "", STYLE_PLAIN);
        table_add(table, ending_format(attempt, text, sizeof text), STYLE_PLAIN);
        table_add(table, json_get_string(attempt, "message", ""), STYLE_PLAIN);
    }
    if (attempts && json_object_array_length(attempts) > 0)
        putchar('\n');
    table_print(table, display, stdout);
    table_free(table);
}

/* Prints the energy of all attempts, and that of their whole devices if other jobs shared these. */
static void energy_print(const struct display *display, struct json_object *attempts)
{
    double part = 0, whole = 0;

    for (size_t i = 0; attempts && i < json_object_array_length(attempts); i++) {
        struct json_object *attempt = json_object_array_get_idx(attempts, i);

        part += json_get_double(attempt, "energy_joules", 0);
        whole += json_get_double(attempt, "device_energy_joules", 0);
    }
    if (part > 0 && whole > 1.005 * part)
        line_printf(display, "energy", STYLE_PLAIN,
                    "%.4g kJ, of %.4g kJ that the device took: others used it, too", part / 1e3,
                    whole / 1e3);
    else if (part > 0)
        line_printf(display, "energy", STYLE_PLAIN, "%.4g kJ, all that the device took meanwhile",
                    part / 1e3);
}

static void transitions_print(const struct display *display, struct json_object *transitions)
{
    static const struct table_column columns[] = {
        {"WHEN", false, 0},
        {"STATE", false, 0},
        {"REASON", false, 20},
    };
    struct table *table = table_new(columns, sizeof columns / sizeof *columns);

    for (size_t i = 0; transitions && i < json_object_array_length(transitions); i++) {
        struct json_object *transition = json_object_array_get_idx(transitions, i);
        const char *state = json_get_string(transition, "to", "?");
        char text[64];

        table_add(table,
                  display_format_time(json_get_double(transition, "time", 0), text, sizeof text),
                  STYLE_PLAIN);
        table_add(table, state, job_state_style(state));
        table_add(table, json_get_string(transition, "reason", ""), STYLE_PLAIN);
    }
    putchar('\n');
    table_print(table, display, stdout);
    table_free(table);
}

/* Prints, for example, "cpu: 3 runs took 2.1 s ± 0.2 s, 120 MiB of memory, 1.9 cores". */
static void learnt_print(const struct display *display, struct json_object *list)
{
    for (size_t i = 0; list && i < json_object_array_length(list); i++) {
        struct json_object *learnt = json_object_array_get_idx(list, i);
        int64_t runs = json_get_int(learnt, "runs", 0);
        double deviation = json_get_double(learnt, "deviation", NAN);
        char line[512], text[64];
        size_t used = (size_t)snprintf(line, sizeof line,
                                       "%.200s:", json_get_string(learnt, "device_type", ""));

        if (runs > 0)
            used += (size_t)snprintf(
                line + used, sizeof line - used, " %" PRId64 " run%s took %s", runs,
                runs == 1 ? "" : "s",
                text_format_duration(json_get_double(learnt, "seconds", 0), text, sizeof text));
        if (!isnan(deviation))
            used += (size_t)snprintf(line + used, sizeof line - used, " ± %s",
                                     text_format_duration(deviation, text, sizeof text));
        if (json_get(learnt, "memory"))
            used += (size_t)snprintf(
                line + used, sizeof line - used, "%s %s of memory", runs > 0 ? "," : "",
                text_format_bytes((uint64_t)json_get_int(learnt, "memory", 0), text, sizeof text));
        if (json_get(learnt, "device_memory"))
            used += (size_t)snprintf(
                line + used, sizeof line - used, ", %s of the device's",
                text_format_bytes((uint64_t)json_get_int(learnt, "device_memory", 0), text,
                                  sizeof text));
        if (runs > 0)
            snprintf(line + used, sizeof line - used, ", %.1f cores",
                     json_get_double(learnt, "cores", 0));
        line_print(display, "learnt", line, STYLE_PLAIN);
    }
}

static bool is_among(struct json_object *sentences, const char *sentence)
{
    for (size_t i = 0; sentences && i < json_object_array_length(sentences); i++)
        if (strcmp(json_object_get_string(json_object_array_get_idx(sentences, i)), sentence) == 0)
            return true;
    return false;
}

/* Prints the warnings of the runs, but for those that the plan had, and that were printed. */
static void warnings_print(const struct display *display, struct json_object *warnings,
                           struct json_object *planned)
{
    for (size_t i = 0; warnings && i < json_object_array_length(warnings); i++) {
        const char *warning = json_object_get_string(json_object_array_get_idx(warnings, i));

        if (!is_among(planned, warning))
            line_print(display, "warning", warning, STYLE_YELLOW);
    }
}

static enum exit_status sweep_show(struct invocation *invocation, int64_t id)
{
    CLEANUP(varlink_reply_release) struct varlink_reply reply = {0};
    enum exit_status status = sweep_fetch(invocation, id, &reply);

    if (status)
        return status;
    if (invocation->json) {
        json_print(reply.parameters, stdout);
        return EXIT_STATUS_DONE;
    }
    sweep_print_sentence(json_get(reply.parameters, "sweep"), stdout);
    spec_print_axes(&invocation->output, json_get(reply.parameters, "axes"));
    spec_print(&invocation->output, json_get(reply.parameters, "spec"));
    return EXIT_STATUS_DONE;
}

/* Prints lines of code; on a terminal without control characters. */
static void source_print(const struct display *display, const char *text)
{
    while (*text) {
        size_t length = *text == '\n' || *text == '\t' ? 1 : text_printable_length(text);
        char escaped[5];

        if (display->terminal && length == 0) {
            text += text_escape_character(text, escaped);
            fputs(escaped, stdout);
        } else {
            length = length ? length : 1;
            fwrite(text, 1, length, stdout);
            text += length;
        }
    }
}

/* Prints how the code that the job runs differs from its commit. */
static enum exit_status diff_print(struct invocation *invocation, int64_t id)
{
    CLEANUP(varlink_reply_release) struct varlink_reply reply = {0};
    struct json_object *parameters = json_object_new_object();
    enum exit_status status;

    json_set_int(parameters, "id", id);
    status = connection_call(invocation, "SnapshotDiff", parameters, &reply);
    if (status)
        return status;
    if (invocation->json)
        json_print(reply.parameters, stdout);
    else
        source_print(&invocation->output, json_get_string(reply.parameters, "diff", ""));
    if (!json_get_bool(reply.parameters, "complete", true))
        complain("the diff is longer; this is its beginning");
    return EXIT_STATUS_DONE;
}

static enum exit_status command_execute(struct invocation *invocation)
{
    CLEANUP(varlink_reply_release) struct varlink_reply reply = {0};
    const struct display *display = &invocation->output;
    struct json_object *parameters, *job;
    enum exit_status status;
    int64_t sweep;

    if (sweep_named(invocation->arguments[0], &sweep))
        return sweep_show(invocation, sweep);
    status =
        connection_job_parameters(invocation, invocation->arguments[0], JOB_IS_READ, &parameters);
    if (!status)
        status = connection_call(invocation, "Show", parameters, &reply);
    if (status)
        return status;
    if (invocation_flag(invocation, "diff"))
        return diff_print(invocation, json_get_int(json_get(reply.parameters, "job"), "id", 0));
    if (invocation_flag(invocation, "spec")) {
        json_print_indented(json_get(reply.parameters, "spec"), stdout);
        return EXIT_STATUS_DONE;
    }
    if (invocation->json) {
        json_print(reply.parameters, stdout);
        return EXIT_STATUS_DONE;
    }
    job = json_get(reply.parameters, "job");
    job_complete_metrics(job);
    job_print(display, job);
    spec_print(display, json_get(reply.parameters, "spec"));
    dependencies_print(display, json_get(reply.parameters, "dependencies"));
    spec_print_plan(display, json_get(reply.parameters, "plan"),
                    !job_state_is_final(json_get_string(job, "state", "")));
    learnt_print(display, json_get(reply.parameters, "learnt"));
    warnings_print(display, json_get(reply.parameters, "warnings"),
                   json_get(json_get(reply.parameters, "plan"), "warnings"));
    energy_print(display, json_get(reply.parameters, "attempts"));
    attempts_print(display, json_get(reply.parameters, "attempts"));
    transitions_print(display, json_get(reply.parameters, "transitions"));
    if (strcmp(json_get_string(job, "state", ""), "failed") == 0)
        log_tail_print(invocation, json_get_int(job, "id", 0), 0, LOG_TAIL_LINES,
                       "\nThe last lines of its output:", stdout);
    return EXIT_STATUS_DONE;
}

static const struct command_option show_options[] = {
    {"spec", 0, NULL, "Print only the specification, in a form that submit accepts",
     COMPLETE_NOTHING},
    {"diff", 0, NULL, "Print only how the code of its snapshot differs from the commit",
     COMPLETE_NOTHING},
    {0},
};

const struct command command_show = {
    .name = "show",
    .place = 90,
    .arguments = "JOB | sweep:JOB",
    .summary = "Show everything about one job, or how far a sweep is",
    .minimum = 1,
    .maximum = 1,
    .options = show_options,
    .completion = COMPLETE_JOBS,
    .execute = command_execute,
};
