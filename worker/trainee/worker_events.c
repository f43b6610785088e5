/* worker_events.c: see worker_events.h. */
#include "worker/trainee/worker_events.h"

#include "base/cleanup.h"
#include "base/text.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct json_object *worker_values_json(const struct training_values *values)
{
    struct json_object *json = json_object_new_object();

    for (int i = 0; i < values->count; i++)
        json_set_double(json, values->values[i].name, values->values[i].value);
    return json;
}

struct json_object *worker_best_json(const struct tracker *best)
{
    struct json_object *json;

    if (best->metric[0] == '\0' || isnan(best->best))
        return NULL;
    json = json_object_new_object();
    json_set_string(json, "metric", best->metric);
    json_set_double(json, "value", best->best);
    json_set_int(json, "step", best->best_step);
    json_set_double(json, "epoch", best->best_epoch);
    return json;
}

/* ---- for a person ---- */

static void clear_line(const struct worker_events *events)
{
    if (events->report->terminal)
        printf("\r\033[K");
}

static void show_progress(const struct worker_events *events,
                          const struct training_progress *progress)
{
    char left[32];

    if (!events->report->terminal)
        return;
    clear_line(events);
    printf("epoch %.1f/%lld  step %lld/%lld  loss %.4f  %.0f samples/s  %s left", progress->epoch,
           (long long)events->epochs, (long long)progress->step, (long long)progress->steps,
           progress->loss, progress->samples_per_second,
           text_format_duration(progress->seconds_left, left, sizeof left));
    fflush(stdout);
}

/* Prints one line per epoch; the progress line shows steps. */
static void show_metrics(const struct worker_events *events, double epoch,
                         const struct training_values *values)
{
    if (values->count == 0 || strcmp(values->values[0].name, "step_loss") == 0)
        return;
    clear_line(events);
    printf("epoch %.4g/%lld", epoch, (long long)events->epochs);
    for (int i = 0; i < values->count; i++)
        printf("  %s %.5g", values->values[i].name, values->values[i].value);
    printf("\n");
    fflush(stdout);
}

static void show_result(const struct worker_events *events, const struct training_result *result,
                        const struct tracker *best)
{
    char duration[32];

    clear_line(events);
    printf("\n%lld steps in %s%s; %s, of step %lld%s\n", (long long)result->steps,
           text_format_duration(result->seconds, duration, sizeof duration),
           result->stopped_early ? ", stopped early" : "",
           result->best_weights ? "test_… are of the best weights" : "results of the last weights",
           (long long)result->weights_step,
           result->best_weights ? ", the others of the last ones" : "");
    for (int i = 0; i < result->values.count; i++)
        printf("  %-22s %.6g\n", result->values.values[i].name, result->values.values[i].value);
    if (best->metric[0] && !isnan(best->best))
        printf("  best %-17s %.6g at epoch %.4g\n", best->metric, best->best, best->best_epoch);
}

/* ---- callbacks ---- */

/* Notes the first step's end; every report after a step has waited for that step. */
static void end_first_step(struct worker_events *events)
{
    if (events->first_step)
        events->first_step(events->first_step_context);
    events->first_step = NULL;
}

static int on_progress(void *context, const struct training_progress *progress, struct error *error)
{
    struct worker_events *events = context;
    struct json_object *fields;

    end_first_step(events);
    if (events->report->person) {
        show_progress(events, progress);
        return 0;
    }
    fields = json_object_new_object();
    json_set_int(fields, "step", progress->step);
    json_set_double(fields, "epoch", progress->epoch);
    json_set_double(fields, "loss", progress->loss);
    json_set_double(fields, "samples_per_second", progress->samples_per_second);
    json_set_double(fields, "seconds_left", progress->seconds_left);
    json_set_double(fields, "step_seconds", progress->step_seconds);
    json_set_double(fields, "steps_timed", progress->steps_timed);
    return worker_report_record(events->report, "progress", fields, error);
}

static int on_metrics(void *context, int64_t step, double epoch,
                      const struct training_values *values, struct error *error)
{
    struct worker_events *events = context;
    struct json_object *fields;

    if (step > 0) /* 0: a report about the data before the run */
        end_first_step(events);
    if (events->report->person) {
        show_metrics(events, epoch, values);
        return 0;
    }
    fields = json_object_new_object();
    json_set_int(fields, "step", step);
    json_set_double(fields, "epoch", epoch);
    json_set(fields, "values", worker_values_json(values));
    return worker_report_record(events->report, "metric", fields, error);
}

static int on_checkpoint(void *context, const struct training_checkpoint *checkpoint,
                         struct error *error)
{
    struct worker_events *events = context;
    struct json_object *fields, *removed;
    char path[CHECKPOINT_PATH_MAX + NAME_MAX + 2];

    if (events->report->person)
        return 0;
    fields = json_object_new_object();
    removed = json_object_new_array();
    snprintf(path, sizeof path, "%s/%s", events->folder, checkpoint->file);
    json_set_int(fields, "step", checkpoint->step);
    json_set_double(fields, "epoch", checkpoint->epoch);
    json_set_string(fields, "path", path);
    json_set_int(fields, "bytes", (int64_t)checkpoint->bytes);
    json_set_string(fields, "digest", checkpoint->digest);
    json_set_bool(fields, "best", checkpoint->best);
    json_set(fields, "metrics", worker_values_json(checkpoint->values));
    for (int i = 0; i < checkpoint->removed_count; i++) {
        char name[CHECKPOINT_PATH_MAX];

        checkpoint_file_name(&checkpoint->removed[i], name);
        snprintf(path, sizeof path, "%s/%s", events->folder, name);
        json_object_array_add(removed, json_object_new_string(path));
    }
    json_set(fields, "remove", removed);
    return worker_report_record(events->report, "checkpoint", fields, error);
}

static int on_best(void *context, const struct tracker *best, struct error *error)
{
    struct worker_events *events = context;

    if (events->report->person)
        return 0;
    return worker_report_record(events->report, "best", worker_best_json(best), error);
}

struct training_events worker_events_callbacks(struct worker_events *events)
{
    return (struct training_events){.context = events,
                                    .progress = on_progress,
                                    .metrics = on_metrics,
                                    .checkpoint = on_checkpoint,
                                    .best = on_best};
}

int worker_events_warning(struct worker_events *events, const char *message, struct error *error)
{
    struct json_object *fields;

    if (events->report->person) {
        clear_line(events);
        fprintf(stderr, "traind-worker: warning: %s\n", message);
        return 0;
    }
    fields = json_object_new_object();
    json_set_string(fields, "message", message);
    return worker_report_record(events->report, "warning", fields, error);
}

/* The peak of this process's resident bytes; -1: not known. (getrusage() would include the peak
 * before exec.) */
static int64_t peak_resident_bytes(void)
{
    AUTO_FCLOSE FILE *status = fopen("/proc/self/status", "re");
    char line[256];

    while (status && fgets(line, sizeof line, status)) {
        if (strncmp(line, "VmHWM:", 6) == 0)
            return strtoll(line + 6, NULL, 10) * 1024;
    }
    return -1;
}

int worker_events_result(struct worker_events *events, const struct training_result *result,
                         const struct tracker *best, struct json_object *startup,
                         struct error *error)
{
    struct json_object *fields;

    if (events->report->person) {
        json_object_put(startup);
        show_result(events, result, best);
        return 0;
    }
    fields = json_object_new_object();
    json_set(fields, "metrics", worker_values_json(&result->values));
    json_set(fields, "best", worker_best_json(best));
    json_set_int(fields, "steps", result->steps);
    json_set_double(fields, "seconds", result->seconds);
    json_set_double(fields, "step_seconds", result->step_seconds);
    json_set_double(fields, "steps_timed", result->steps_timed);
    json_set_double(fields, "step_seconds_median", result->step_seconds_median);
    json_set_double(fields, "evaluation_seconds", result->evaluation_seconds);
    json_set_double(fields, "evaluation_samples", result->evaluation_samples);
    json_set_string(fields, "weights", result->best_weights ? "best" : "last");
    json_set_int(fields, "weights_step", result->weights_step);
    json_set_bool(fields, "stopped_early", result->stopped_early);
    json_set_int(fields, "peak_resident_bytes", peak_resident_bytes());
    json_set(fields, "startup", startup);
    return worker_report_record(events->report, "result", fields, error);
}
