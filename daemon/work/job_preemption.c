/* job_preemption.c: see job_preemption.h. */
#include "daemon/work/job_preemption.h"

#include <signal.h>
#include <string.h>

/* "SIGUSR1" → its number; the schema has checked the name. */
static int signal_from_name(const char *name)
{
    for (int number = 1; number < SIGRTMIN; number++) {
        const char *abbreviation = sigabbrev_np(number);

        if (abbreviation && strcmp(name + strlen("SIG"), abbreviation) == 0)
            return number;
    }
    return SIGTERM;
}

struct job_preemption job_preemption_read(struct json_object *spec, enum job_kind kind)
{
    if (kind == JOB_NATIVE)
        return (struct job_preemption){.possible = true, .grace_seconds = -1};
    return (struct job_preemption){
        .possible = json_get_bool(spec, "preemptible", false),
        .signal = signal_from_name(json_get_string(spec, "checkpoint_signal", "SIGTERM")),
        .grace_seconds = json_get_double(spec, "checkpoint_grace", -1),
    };
}
