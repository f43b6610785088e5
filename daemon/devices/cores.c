/* cores.c: see cores.h. */
#include "daemon/devices/cores.h"

void cores_init(struct cores *cores)
{
    *cores = (struct cores){0};
    /* this fails on a machine with more than CPU_SETSIZE cores: then no command gets its own
     * cores */
    if (sched_getaffinity(0, sizeof cores->usable, &cores->usable) < 0)
        CPU_ZERO(&cores->usable);
}

bool cores_take(struct cores *cores, int count, cpu_set_t *given)
{
    cpu_set_t chosen;

    if (count < 1 || count >= CPU_COUNT(&cores->usable))
        return false;
    CPU_ZERO(&chosen);
    for (size_t core = 0; core < CPU_SETSIZE && CPU_COUNT(&chosen) < count; core++)
        if (CPU_ISSET(core, &cores->usable) && !CPU_ISSET(core, &cores->taken))
            CPU_SET(core, &chosen);
    if (CPU_COUNT(&chosen) < count)
        return false;
    CPU_OR(&cores->taken, &cores->taken, &chosen);
    *given = chosen;
    return true;
}

bool cores_take_of(struct cores *cores, pid_t pid, cpu_set_t *given)
{
    if (sched_getaffinity(pid, sizeof *given, given) < 0)
        return false;
    CPU_AND(given, given, &cores->usable);
    if (CPU_COUNT(given) == 0 || CPU_EQUAL(given, &cores->usable))
        return false;
    CPU_OR(&cores->taken, &cores->taken, given);
    return true;
}

void cores_give_back(struct cores *cores, const cpu_set_t *given)
{
    cpu_set_t rest;

    CPU_XOR(&rest, &cores->taken, given);
    CPU_AND(&cores->taken, &cores->taken, &rest);
}
