/* suspension.c: see suspension.h. */
#include "daemon/attempts/suspension.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/memory.h"
#include "daemon/attempts/attempt.h"
#include "daemon/attempts/stop.h"
#include "daemon/devices/driver.h"

#include <stdlib.h>
#include <string.h>

/* How long a process may take until the driver can lock it: what it has begun on its GPU has to end
 * first. And how long all of it may take: a minute, and a second for each 100 MB, a tenth of the
 * speed that was measured. */
static const double lock_seconds = 10, limit_seconds = 60, limit_bytes_per_second = 100e6;

static const char *const state_names[] = {[SUSPENSION_RUNNING] = "running",
                                          [SUSPENSION_SUSPENDING] = "suspending",
                                          [SUSPENSION_SUSPENDED] = "suspended",
                                          [SUSPENSION_RESUMING] = "resuming",
                                          [SUSPENSION_BROKEN] = "broken"};
DEFINE_STRING_TABLE(suspension_state, enum suspension_state, state_names)

/* The library by which programs on the device are suspended; "": they need only be frozen. */
static const char *library_of(const struct attempt *attempt)
{
    const struct device *device = attempt->suspension.devices[0];
    const struct device_suspension *suspension = device->driver->suspension;

    return suspension && suspension->library ? suspension->library(&attempt->daemon->config) : "";
}

static struct json_object *describe_request(const struct attempt *attempt)
{
    const struct attempt_suspension *suspension = &attempt->suspension;
    struct json_object *request = json_object_new_object();

    json_set_string(request, "helper", attempt->daemon->suspend_path);
    json_set_string(request, "library", library_of(attempt));
    if (getenv("LD_LIBRARY_PATH")) /* a shim of an earlier version knows no such parameter */
        json_set_string(request, "library_path", getenv("LD_LIBRARY_PATH"));
    json_set_double(request, "limit_seconds",
                    limit_seconds + (double)suspension->memory * suspension->device_count /
                                        limit_bytes_per_second);
    return request;
}

void attempt_suspend(struct attempt *attempt)
{
    struct attempt_suspension *suspension = &attempt->suspension;
    struct json_object *request;

    suspension->state = SUSPENSION_BEGINS;
    suspension->measures = true;
    suspension->device_count = attempt->claim.device_count;
    memcpy(suspension->devices, attempt->claim.devices, sizeof suspension->devices);
    suspension->memory = device_claim_need(&attempt->claim);
    request = describe_request(attempt);
    json_set_double(request, "lock_seconds", lock_seconds);
    json_set_int(request, "memory", (int64_t)suspension->memory * suspension->device_count);
    attempt_timer_stop(&attempt->deadline);
    attempt_link_call(attempt, "io.traind.Worker.Suspend", request);
}

/* "OLD=NEW,..." with the ids of all devices, where one has been replaced; "": none has. */
static char *describe_pairs(const struct attempt *attempt)
{
    const struct attempt_suspension *suspension = &attempt->suspension;
    char *pairs = memory_copy_text("");
    bool replaced = false;

    for (int i = 0; i < suspension->device_count; i++) {
        char *longer = memory_format("%s%s%s=%s", pairs, i ? "," : "", suspension->devices[i]->id,
                                     attempt->claim.devices[i]->id);

        free(pairs);
        pairs = longer;
        replaced = replaced || suspension->devices[i] != attempt->claim.devices[i];
    }
    if (!replaced)
        *pairs = '\0';
    return pairs;
}

void attempt_resume(struct attempt *attempt)
{
    struct json_object *request = describe_request(attempt);
    AUTO_FREE char *pairs = describe_pairs(attempt);

    attempt->suspension.state = SUSPENSION_ENDS;
    attempt->suspension.measures = true;
    json_set_string(request, "pairs", pairs);
    attempt_link_call(attempt, "io.traind.Worker.Resume", request);
}

int attempt_suspension_parts(const struct attempt *attempt)
{
    return attempt->suspension.device_count > 0 ? attempt->suspension.device_count : 1;
}

void attempt_suspension_found(struct attempt *attempt, struct json_object *suspension)
{
    int state = suspension_state_from_string(json_get_string(suspension, "state", ""));

    if (attempt->suspension.state == SUSPENSION_NONE && state == SUSPENSION_SUSPENDING)
        attempt->suspension.state = SUSPENSION_BEGINS;
    else if (attempt->suspension.state == SUSPENSION_NONE && state > SUSPENSION_SUSPENDING)
        attempt->suspension.state = SUSPENSION_ENDS;
    attempt->suspension.suspended = json_get_double(suspension, "suspended_seconds", 0);
    attempt->suspension.told = clock_now();
}

void attempt_suspension_take(struct attempt *attempt, struct json_object *json)
{
    struct attempt_suspension *suspension = &attempt->suspension;
    int state = suspension_state_from_string(json_get_string(json, "state", ""));
    int64_t memory = json_get_int(json, "memory", 0);
    struct suspension_news news = {.state = (enum suspension_state)state,
                                   .seconds = json_get_double(json, "seconds", 0),
                                   .message = json_get_string(json, "message", NULL)};

    if (state < 0 || attempt->claim.gone)
        return;
    suspension->suspended = json_get_double(json, "suspended_seconds", 0);
    suspension->told = clock_now();
    if (suspension->memory == 0 && memory > 0)
        suspension->memory = (uint64_t)memory / (uint64_t)attempt_suspension_parts(attempt);
    if (suspension->state == SUSPENSION_NONE && state == SUSPENSION_RUNNING)
        return;
    if (attempt->intent == ENDING_NONE && attempt->events->suspension)
        attempt->events->suspension(attempt, &news);
    if (attempt->suspension.state == SUSPENSION_NONE && attempt->intent == ENDING_NONE)
        attempt_deadline_start(attempt, attempt->started); /* it runs, so its time does */
}
