/* device_faults.c: see device_faults.h. An illegal memory access is most often a bug in the job's
 * program, which would fail on any device. If different work of different users fails on one device
 * in succession, the device is probably at fault. */
#include "daemon/jobs/device_faults.h"

#include "base/log.h"
#include "daemon/attempts/attempt.h"
#include "daemon/devices/device_states.h"
#include "daemon/devices/driver.h"
#include "daemon/jobs/workload.h"
#include "daemon/work/job_rules.h"
#include "daemon/work/job_table.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { FAULTS_TO_QUARANTINE = 2, LOOK_MILLISECONDS = 10000 };

/* ---- the probe ------------------------------------------------------------------------------- */

struct fault_look {
    struct attempt *attempt; /* NULL: it does not wait for the probe any more */
    void (*done)(struct attempt *attempt);
    uv_timer_t timer;
    int references; /* held by the timer and by the probe */
};

static void look_drop(struct fault_look *look)
{
    if (--look->references == 0)
        free(look);
}

static void on_timer_closed(uv_handle_t *handle)
{
    look_drop(handle->data);
}

static void look_end(struct fault_look *look)
{
    struct attempt *attempt = TAKE_POINTER(look->attempt);

    if (!attempt)
        return;
    uv_close((uv_handle_t *)&look->timer, on_timer_closed);
    attempt->working = false;
    if (attempt->detached)
        attempt_release(attempt);
    else
        look->done(attempt);
}

static void on_looked(void *data)
{
    look_end(data);
    look_drop(data);
}

/* If the driver hangs, the job must not wait for it before it goes on elsewhere. */
static void on_look_late(uv_timer_t *timer)
{
    struct fault_look *look = timer->data;

    log_warning("job %" PRId64 ": the state of %s is unknown: its driver does not answer",
                look->attempt->job_id, look->attempt->claim.devices[0]->name);
    look_end(look);
}

bool device_fault_look(struct attempt *attempt, void (*done)(struct attempt *attempt))
{
    struct fault_look *look;

    if (attempt->report.fault == DEVICE_FAULT_NONE || attempt->report.fault_looked ||
        !(look = calloc(1, sizeof *look)))
        return false;
    attempt->report.fault_looked = attempt->working = true;
    *look = (struct fault_look){.attempt = attempt, .done = done, .references = 2};
    uv_timer_init(attempt->daemon->loop, &look->timer);
    look->timer.data = look;
    uv_timer_start(&look->timer, on_look_late, LOOK_MILLISECONDS, 0);
    devices_refresh(attempt->daemon, DEVICE_READING_NEW, on_looked, look);
    return true;
}

bool device_fault_is_confirmed(const struct attempt *attempt)
{
    const struct device *device = attempt->claim.device_count ? attempt->claim.devices[0] : NULL;

    return device && attempt->report.fault != DEVICE_FAULT_NONE &&
           device_health_of_hardware(device) >= DEVICE_QUARANTINED;
}

/* ---- evidence -------------------------------------------------------------------------------- */

static bool is_independent(const struct device *device, uid_t uid, const char *digest)
{
    bool trusted = uid == 0 || uid == geteuid();

    return device->faults == 0 ||
           (strcmp(device->fault_digest, digest) != 0 && (device->fault_uid != uid || trusted));
}

void device_fault_take(struct daemon *daemon, struct device *device, const struct attempt *attempt,
                       const struct attempt_end *end)
{
    const char *digest = attempt->job->workload->digest;
    char reason[DEVICE_REASON_MAX];

    if (end->fault == DEVICE_FAULT_NONE) {
        if (end->exit_status == 0 || attempt->report.steps_timed > 0)
            device->faults = 0;
        return;
    }
    log_warning("job %" PRId64 " on %s: %s: %s%s", attempt->job_id, device->name,
                device_fault_to_string(end->fault), end->message ? end->message : "",
                end->fault_confirmed ? "" : " (the driver knows of no error of the device)");
    if (!is_independent(device, attempt->uid, digest))
        return;
    device->faults++;
    device->fault_uid = attempt->uid;
    snprintf(device->fault_digest, sizeof device->fault_digest, "%s", digest);
    if (device->health == DEVICE_QUARANTINED || device->faults < FAULTS_TO_QUARANTINE)
        return;
    snprintf(reason, sizeof reason, "job %" PRId64 ", after others: %s: %.100s", attempt->job_id,
             device_fault_to_string(end->fault), end->message ? end->message : "");
    device_state_set(daemon, device, DEVICE_QUARANTINED, reason, 0, NULL, NULL);
    device->faults = 0;
}
