/* supervisor_cores.c: the cores that an attempt of a command keeps to. */
#include "daemon/jobs_internal.h"

void attempt_take_cores(struct attempt *attempt, struct json_object *spec, int threads)
{
    int64_t count = json_get_int(json_get(spec, "resources"), "cores", threads);

    if (attempt->job->kind == JOB_COMMAND && count < CPU_SETSIZE)
        attempt->keeps_to_cores =
            cores_take(&attempt->daemon->cores, (int)count, &attempt->own_cores);
}

void attempt_find_cores(struct attempt *attempt)
{
    if (attempt->job && attempt->job->kind == JOB_COMMAND && !attempt->started_here &&
        !attempt->keeps_to_cores)
        attempt->keeps_to_cores =
            cores_take_of(&attempt->daemon->cores, attempt->pid, &attempt->own_cores);
}

void attempt_leave_cores(struct attempt *attempt)
{
    if (attempt->keeps_to_cores)
        cores_give_back(&attempt->daemon->cores, &attempt->own_cores);
    attempt->keeps_to_cores = false;
}
