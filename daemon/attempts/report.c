/* report.c: see report.h. */
#include "daemon/attempts/report.h"

#include "base/memory.h"
#include "daemon/attempts/attempt.h"
#include "daemon/devices/driver.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

void attempt_report_init(struct attempt_report *report)
{
    report->resumed_from_step = -1;
    report->progress = (struct job_progress){.step = -1,
                                             .steps = -1,
                                             .epochs = -1,
                                             .epoch = NAN,
                                             .loss = NAN,
                                             .samples_per_second = NAN,
                                             .seconds_left = NAN,
                                             .fraction = NAN};
}

void attempt_report_release(struct attempt_report *report)
{
    json_object_put(report->plan);
    free(report->message);
}

static void take_start(struct attempt *attempt, struct json_object *object)
{
    attempt->report.progress.steps = json_get_int(object, "steps", -1);
    attempt->report.progress.epochs = json_get_int(object, "epochs", -1);
    attempt->report.resumed_from_step = json_get_int(object, "resumed_from_step", -1);
    attempt->report.progress.step =
        attempt->report.resumed_from_step < 0 ? 0 : attempt->report.resumed_from_step;
    device_claim_take_start(&attempt->claim, object);
}

/* Estimates the remaining time from the progress so far. A first attempt began with nothing
 * done. */
static void take_fraction(struct attempt *attempt, const struct spool_record *record)
{
    struct job_progress *progress = &attempt->report.progress;
    double fraction = json_get_double(record->object, "progress", NAN), done, seconds;

    if (isnan(fraction))
        return;
    if (attempt->report.fraction_begun_at == 0) {
        attempt->report.fraction_begun = attempt->number == 1 ? 0 : fraction;
        attempt->report.fraction_begun_at = attempt->number == 1 ? attempt->started : record->time;
    }
    done = fraction - attempt->report.fraction_begun;
    seconds = record->time - attempt->report.fraction_begun_at;
    progress->fraction = fraction;
    if (done > 0 && seconds > 0)
        progress->seconds_left = (1 - fraction) * seconds / done;
}

static void take_progress(struct attempt *attempt, const struct spool_record *record)
{
    struct json_object *object = record->object;
    struct job_progress *progress = &attempt->report.progress;

    take_fraction(attempt, record);
    if (record->n == 0) { /* the short form has only these members */
        progress->step = json_get_int(object, "step", progress->step);
        progress->epoch = json_get_double(object, "epoch", progress->epoch);
        return;
    }
    progress->step = json_get_int(object, "step", progress->step);
    progress->epoch = json_get_double(object, "epoch", NAN);
    progress->loss = json_get_double(object, "loss", NAN);
    progress->samples_per_second = json_get_double(object, "samples_per_second", NAN);
    progress->seconds_left = json_get_double(object, "seconds_left", NAN);
    if (attempt->events->measured)
        attempt->events->measured(attempt, json_get_double(object, "step_seconds", NAN),
                                  json_get_double(object, "steps_timed", 0));
}

/* Takes in the device memory that a program reports, for devices that no probe can measure. */
static void take_device_memory(struct attempt *attempt, struct json_object *values)
{
    double bytes = json_get_double(values, "device_memory_bytes", 0);

    if (bytes >= 1 && bytes < 1e18 && (uint64_t)bytes > attempt->claim.device_memory_peak)
        attempt->claim.device_memory_peak = (uint64_t)bytes;
}

static void take_error_kind(struct attempt *attempt, const char *kind)
{
    int fault = device_fault_from_string(kind);

    snprintf(attempt->report.error_kind, sizeof attempt->report.error_kind, "%s", kind);
    attempt->report.out_of_memory = strcmp(kind, "out_of_memory") == 0;
    if (fault > DEVICE_FAULT_NONE && attempt->claim.device_count &&
        attempt->claim.devices[0]->driver->kind.reports_faults)
        attempt->report.fault = (enum device_fault)fault;
}

void attempt_report_take(struct attempt *attempt, const struct spool_record *record)
{
    struct json_object *object = record->object;

    switch (record->type) {
    case SPOOL_START:
        take_start(attempt, object);
        attempt->report.has_progress = true;
        break;
    case SPOOL_PROGRESS:
        take_progress(attempt, record);
        attempt->report.has_progress = true;
        break;
    case SPOOL_METRIC:
        attempt->report.progress.step = json_get_int(object, "step", attempt->report.progress.step);
        attempt->report.progress.epoch =
            json_get_double(object, "epoch", attempt->report.progress.epoch);
        take_fraction(attempt, record);
        take_device_memory(attempt, json_get(object, "values"));
        attempt->report.has_progress = true;
        break;
    case SPOOL_PLAN:
        json_object_put(attempt->report.plan);
        attempt->report.plan = json_object_get(json_get(object, "plan"));
        break;
    case SPOOL_ERROR:
        free(attempt->report.message);
        attempt->report.message = memory_copy_text(json_get_string(object, "message", ""));
        attempt->report.error_recorded = true;
        take_error_kind(attempt, json_get_string(object, "kind", ""));
        snprintf(attempt->report.disagrees_with, sizeof attempt->report.disagrees_with, "%s",
                 json_get_string(object, "came_from", ""));
        break;
    case SPOOL_CHECKPOINT:
    case SPOOL_BEST:
    case SPOOL_PROFILE:
    case SPOOL_WARNING:
        break;
    case SPOOL_RESULT: /* a short run has reported no progress */
        if (attempt->events->measured && attempt->report.steps_timed == 0)
            attempt->events->measured(attempt, json_get_double(object, "step_seconds_median", NAN),
                                      json_get_double(object, "steps_timed", 0));
        break;
    }
}
