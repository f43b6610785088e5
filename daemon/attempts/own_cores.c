/* own_cores.c: see own_cores.h. */
#include "daemon/attempts/own_cores.h"

#include "daemon/attempts/attempt.h"
#include "daemon/devices/cores.h"
#include "daemon/work/job_table.h"

/* Whether the cores of all running attempts are known. After a restart they are known once the
 * attempts' shims have answered. */
static bool cores_are_known(const struct daemon *daemon)
{
    for (size_t d = 0; d < daemon->devices->count; d++) {
        const struct device *device = daemon->devices->list[d];

        for (size_t i = 0; i < device->claim_count; i++) {
            const struct attempt *attempt = device->claims[i]->attempt;

            if (attempt->link.sought && !attempt->link.status_received && !attempt->claim.gone)
                return false;
        }
    }
    return true;
}

/* Takes no cores until those of all other attempts are known. The attempt may then use all cores,
 * and none is reserved for it twice. */
void attempt_take_cores(struct attempt *attempt, struct json_object *spec, int threads)
{
    int64_t count = json_get_int(json_get(spec, "resources"), "cores", threads);

    if (attempt->job->kind == JOB_COMMAND && count < CPU_SETSIZE &&
        cores_are_known(attempt->daemon))
        attempt->keeps_to_cores =
            cores_take(attempt->daemon->cores, (int)count, &attempt->own_cores);
}

void attempt_find_cores(struct attempt *attempt)
{
    if (attempt->job && attempt->job->kind == JOB_COMMAND && !attempt->started_here &&
        !attempt->keeps_to_cores)
        attempt->keeps_to_cores =
            cores_take_of(attempt->daemon->cores, attempt->claim.pid, &attempt->own_cores);
}

void attempt_leave_cores(struct attempt *attempt)
{
    if (attempt->keeps_to_cores)
        cores_give_back(attempt->daemon->cores, &attempt->own_cores);
    attempt->keeps_to_cores = false;
}
