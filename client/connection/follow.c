/* follow.c: see follow.h. Up to three streams are open at once: Watch for the states, Metrics for
 * the lines at the end of each epoch, and Logs for the output of a command job. */
#include "client/connection/follow.h"

#include "base/clock.h"
#include "base/text.h"
#include "client/connection/connection.h"
#include "client/connection/log_tail.h"
#include "client/connection/stream.h"
#include "client/view/job.h"
#include "client/view/progress.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

enum {
    POLL_MILLISECONDS = 1000,
    TELL_SECONDS = 10, /* between two checks whether the daemon's disk is full */
    DRAIN_SECONDS = 5  /* how long metrics and logs of an ended job may take to arrive */
};

/* The values of one metric record, collected from its rows. */
struct metric_line {
    int64_t step;
    double epoch;
    bool at_end; /* belongs to the end of an epoch, not to a step within it */
    char text[1024];
};

struct follow {
    struct invocation *invocation;
    const int64_t *ids;
    size_t count;
    enum follow_mode mode;
    FILE *output; /* for progress; the endings go to standard output */
    struct display display;
    struct progress_bar bar;
    int signals;
    enum exit_status worst;

    struct stream watch;
    struct json_object **jobs; /* the latest of each id */
    size_t ended;
    double epochs; /* of the whole job; NAN: not known yet */

    struct stream metrics;
    int64_t metrics_next;
    struct metric_line line;

    struct stream logs;
    int64_t logs_attempt, logs_next;
    bool log_line_open; /* the cursor is after output without a line break */
};

/* ---- calls --------------------------------------------------------------------------------- */

static struct json_object *watch_parameters(void *context)
{
    struct follow *follow = context;
    struct json_object *parameters = json_object_new_object(), *ids = json_object_new_array();

    for (size_t i = 0; i < follow->count; i++)
        json_object_array_add(ids, json_object_new_int64(follow->ids[i]));
    json_set(parameters, "ids", ids);
    return parameters;
}

static struct json_object *metrics_parameters(void *context)
{
    struct follow *follow = context;
    struct json_object *parameters = json_object_new_object();

    json_set_int(parameters, "id", follow->ids[0]);
    json_set_int(parameters, "after", follow->metrics_next);
    return parameters;
}

static struct json_object *logs_parameters(void *context)
{
    struct follow *follow = context;
    struct json_object *parameters = json_object_new_object();

    json_set_int(parameters, "id", follow->ids[0]);
    json_set_int(parameters, "attempt", follow->logs_attempt);
    json_set_int(parameters, "offset", follow->logs_next);
    return parameters;
}

/* ---- progress ------------------------------------------------------------------------------ */

static void metric_line_flush(struct follow *follow)
{
    struct metric_line *line = &follow->line;
    double epochs = follow->epochs;

    if (line->text[0] && line->at_end) {
        progress_bar_clear(&follow->bar);
        if (isnan(line->epoch))
            fprintf(follow->output, "step %" PRId64 "%s\n", line->step, line->text);
        else if (isnan(epochs))
            fprintf(follow->output, "epoch %g%s\n", line->epoch, line->text);
        else
            fprintf(follow->output, "epoch %g/%.0f%s\n", line->epoch, epochs, line->text);
        fflush(follow->output);
    }
    *line = (struct metric_line){.epoch = NAN};
}

static void metric_row_add(struct follow *follow, struct json_object *row)
{
    struct metric_line *line = &follow->line;
    const char *name = json_get_string(row, "name", "");
    int64_t step = json_get_int(row, "step", 0);
    double epoch = json_get_double(row, "epoch", NAN);
    char escaped[256], value[32];
    size_t used;

    if (line->text[0] && step != line->step)
        metric_line_flush(follow);
    line->step = step;
    line->epoch = epoch;
    line->at_end = line->at_end || (epoch > 0 && fabs(epoch - round(epoch)) < 1e-9) ||
                   strncmp(name, "validation_", 11) == 0 || strncmp(name, "test_", 5) == 0;
    if (strcmp(name, "learning_rate") == 0 || strcmp(name, "epoch_seconds") == 0 ||
        strcmp(name, "epoch_joules") == 0)
        return; /* a line has no room for everything; `trainctl metrics` has them */
    used = strlen(line->text);
    if (strcmp(name, "samples_per_second") == 0)
        snprintf(line->text + used, sizeof line->text - used, "  %s samples/s",
                 display_format_count(json_get_double(row, "value", NAN), value, sizeof value));
    else
        snprintf(line->text + used, sizeof line->text - used, "  %s %s",
                 text_escape_controls(name, escaped, sizeof escaped),
                 display_format_value(json_get_double(row, "value", NAN), value, sizeof value));
}

static void metrics_receive(struct follow *follow, struct json_object *parameters)
{
    struct json_object *rows = json_get(parameters, "rows");
    size_t count = rows ? json_object_array_length(rows) : 0;

    for (size_t i = 0; i < count; i++)
        metric_row_add(follow, json_object_array_get_idx(rows, i));
    follow->metrics_next = json_get_int(parameters, "next", follow->metrics_next);
}

static void logs_receive(struct follow *follow, struct json_object *parameters)
{
    const char *text = json_get_string(parameters, "text", "");

    if (follow->mode == FOLLOW_LOGS && follow->invocation->json) {
        if (*text)
            json_print(parameters, stdout);
    } else {
        progress_bar_clear(&follow->bar);
        job_print_log(text, strlen(text), &follow->display, follow->output);
        if (*text)
            follow->log_line_open = text[strlen(text) - 1] != '\n';
    }
    fflush(follow->output);
    follow->logs_next = json_get_int(parameters, "next", follow->logs_next);
}

/* Handles the replies that a stream has ready; false: the stream has ended. */
static bool stream_drain(struct follow *follow, struct stream *stream,
                         void (*receive)(struct follow *follow, struct json_object *parameters),
                         enum exit_status *status)
{
    for (;;) {
        struct varlink_reply reply = {0};

        switch (stream_next(stream, follow->invocation, &reply, status)) {
        case STREAM_REPLY:
            receive(follow, reply.parameters);
            varlink_reply_release(&reply);
            break;
        case STREAM_NOTHING:
            return true;
        default:
            return false;
        }
    }
}

/* ---- states -------------------------------------------------------------------------------- */

/* Prints the last output of a failed job, unless it was shown as it arrived. */
static void failure_print(struct follow *follow, struct json_object *job)
{
    bool shown = follow->logs_attempt > 0;

    if (!shown && strcmp(json_get_string(job, "state", ""), "failed") == 0)
        log_tail_print(follow->invocation, json_get_int(job, "id", 0), 0, LOG_TAIL_LINES,
                       "the last lines of its output:", stdout);
}

/* Prints how a job ended. */
static void job_report(struct follow *follow, size_t index)
{
    struct json_object *parameters = json_object_new_object();
    struct varlink_reply reply;
    struct json_object *job;
    enum exit_status status;

    json_set_int(parameters, "id", follow->ids[index]);
    status = connection_call(follow->invocation, "Show", parameters, &reply);
    if (status) {
        follow->worst = status;
        return;
    }
    job = json_get(reply.parameters, "job");
    if (follow->invocation->json) {
        JSON_AUTO struct json_object *result = job_result_new(reply.parameters);

        json_print(result, stdout);
    } else {
        job_print_sentence(job, &follow->invocation->output, stdout);
        failure_print(follow, job);
    }
    fflush(stdout);
    if (strcmp(json_get_string(job, "state", ""), "done") != 0 &&
        !json_get_bool(job, "stopped", false) && !follow->worst)
        follow->worst = EXIT_STATUS_FAILED;
    varlink_reply_release(&reply);
}

/* Follows the output of the latest attempt; of a native job only with FOLLOW_LOGS. */
static void logs_follow_attempt(struct follow *follow, struct json_object *job)
{
    enum exit_status ignored = EXIT_STATUS_DONE;
    int64_t attempt = json_get_int(job, "attempt", 0);

    if (follow->count != 1 || attempt == 0 || attempt == follow->logs_attempt)
        return;
    if (follow->mode != FOLLOW_LOGS && strcmp(json_get_string(job, "kind", ""), "command") != 0)
        return;
    if (follow->logs.method) /* the end of the previous attempt's output may still arrive */
        stream_drain(follow, &follow->logs, logs_receive, &ignored);
    stream_close(&follow->logs);
    follow->logs = (struct stream){
        .method = "Logs", .parameters = logs_parameters, .context = follow, .quiet = true};
    follow->logs_attempt = attempt;
    follow->logs_next = 0;
}

/* Prints a state that is not final. */
static void state_print(struct follow *follow, struct json_object *job, const char *state)
{
    if (job_state_is_final(state) || follow->mode == FOLLOW_QUIETLY)
        return;
    if (follow->mode == FOLLOW_LOGS) { /* prints only why there is no output yet */
        struct display display;

        display_look(STDERR_FILENO, &display);
        if (display.terminal && strcmp(state, "running") != 0)
            job_print_sentence(job, &display, stderr);
        return;
    }
    progress_bar_clear(&follow->bar);
    job_print_sentence(job, &follow->display, follow->output);
    fflush(follow->output);
}

static void watch_receive(struct follow *follow, struct json_object *parameters)
{
    struct json_object *job = json_get(parameters, "job");
    int64_t id = json_get_int(job, "id", 0);
    const char *state = json_get_string(job, "state", "");

    for (size_t i = 0; i < follow->count; i++) {
        const char *before;

        if (follow->ids[i] != id)
            continue;
        before = json_get_string(follow->jobs[i], "state", "");
        if (job_state_is_final(before))
            continue;
        if (strcmp(before, state) != 0)
            state_print(follow, job, state);
        json_object_put(follow->jobs[i]);
        follow->jobs[i] = json_object_get(job);
        follow->epochs = json_get_double(json_get(job, "progress"), "epochs", follow->epochs);
        if (follow->mode != FOLLOW_QUIETLY)
            logs_follow_attempt(follow, job);
        if (job_state_is_final(state)) {
            follow->ended++;
            if (follow->count > 1) /* a single one is reported after its metrics and output */
                job_report(follow, i);
        }
    }
}

/* Draws the bar; of a command that reports its progress, below its output. */
static void bar_draw(struct follow *follow)
{
    struct json_object *job = follow->jobs[0];

    if (!follow->bar.output || !job || follow->ended ||
        (follow->logs_attempt && (follow->log_line_open || !json_get(job, "progress"))))
        return;
    progress_bar_draw(&follow->bar, job);
}

static void detach_print(const struct follow *follow)
{
    int64_t id = follow->ids[0];

    if (follow->count == 1)
        fprintf(stderr,
                "\nDetached: job %" PRId64 " goes on. `trainctl wait %" PRId64
                " --follow` attaches again, `trainctl cancel %" PRId64 "` ends it.\n",
                id, id, id);
    else
        fprintf(stderr, "\nDetached: the jobs go on. `trainctl list` shows them.\n");
}

/* Runs until all jobs have ended and, for a single one, its metrics and output have arrived. */
static enum exit_status follow_run(struct follow *follow)
{
    struct stream *const streams[] = {&follow->watch, &follow->metrics, &follow->logs};
    bool metrics_open = follow->metrics.method != NULL;
    double drain_until = 0, told = 0;

    for (;;) {
        enum exit_status status = EXIT_STATUS_DONE, ignored = EXIT_STATUS_DONE;
        bool logs_open;

        if (!follow->watch.ended && !stream_drain(follow, &follow->watch, watch_receive, &status) &&
            status)
            return status;
        if (metrics_open) {
            metrics_open = stream_drain(follow, &follow->metrics, metrics_receive, &ignored);
            metric_line_flush(follow);
        }
        logs_open =
            follow->logs.method && stream_drain(follow, &follow->logs, logs_receive, &ignored);
        if (!logs_open)
            follow->logs.ended = true;
        if (follow->ended == follow->count || follow->watch.ended) {
            if (drain_until == 0)
                drain_until = clock_now() + DRAIN_SECONDS;
            if ((!metrics_open && !logs_open) || clock_now() > drain_until)
                return EXIT_STATUS_DONE;
        }
        if (clock_now() > told + TELL_SECONDS && follow->watch.lost_since == 0) {
            told = clock_now();
            progress_bar_clear(&follow->bar);
            connection_tell_full_disk(follow->invocation);
        }
        bar_draw(follow);
        switch (stream_poll(streams, 3, follow->signals, POLL_MILLISECONDS)) {
        case POLL_DETACH:
            progress_bar_clear(&follow->bar);
            detach_print(follow);
            return EXIT_STATUS_DETACHED;
        case POLL_RESIZED:
            if (follow->bar.output)
                progress_bar_resize(&follow->bar);
            break;
        default:
            break;
        }
    }
}

enum exit_status follow_jobs(struct invocation *invocation, const int64_t *ids, size_t count,
                             enum follow_mode mode)
{
    struct follow follow = {
        .invocation = invocation,
        .ids = ids,
        .count = count,
        .mode = mode,
        .output = invocation->json && mode != FOLLOW_LOGS ? stderr : stdout,
        .watch = {.method = "Watch", .parameters = watch_parameters},
        .metrics = {.ended = true},
        .logs = {.ended = true},
        .line = {.epoch = NAN},
        .epochs = NAN,
    };
    enum exit_status status = connection_open(invocation);

    if (status)
        return status;
    follow.jobs = calloc(count, sizeof(struct json_object *));
    follow.signals = stream_signals_open();
    if (!follow.jobs || follow.signals < 0) {
        complain("not enough memory or descriptors to follow the job");
        status = EXIT_STATUS_FAILED;
        goto finish;
    }
    display_look(fileno(follow.output), &follow.display);
    follow.watch.context = &follow;
    if (mode == FOLLOW_PROGRESS && count == 1) {
        follow.metrics = (struct stream){.method = "Metrics",
                                         .parameters = metrics_parameters,
                                         .context = &follow,
                                         .quiet = true};
        if (follow.display.terminal)
            follow.bar = (struct progress_bar){.output = follow.output, .display = follow.display};
    }
    status = follow_run(&follow);
    progress_bar_clear(&follow.bar);
    if (!status && count == 1 && mode != FOLLOW_LOGS)
        job_report(&follow, 0);
    status = status ? status : follow.worst;
finish:
    stream_close(&follow.watch);
    stream_close(&follow.metrics);
    stream_close(&follow.logs);
    if (follow.signals >= 0)
        close(follow.signals);
    for (size_t i = 0; follow.jobs && i < count; i++)
        json_object_put(follow.jobs[i]);
    free(follow.jobs);
    return status;
}
