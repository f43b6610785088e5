/* cores.h: assigns cores of the machine to commands. A command that books fewer cores than the
 * machine has gets its own cores while some are free. Programs such as JAX start as many threads as
 * they may use cores, regardless of OMP_NUM_THREADS. Runs on the loop. */
#pragma once

#include <sched.h>
#include <stdbool.h>
#include <sys/types.h>

struct cores {
    cpu_set_t usable; /* by the daemon and therefore by its jobs */
    cpu_set_t taken;
};

void cores_init(struct cores *cores);

/* Assigns `count` free cores. Returns false, and assigns none, if `count` is not below the number
 * of usable cores or fewer are free; the command may then use all cores. */
bool cores_take(struct cores *cores, int count, cpu_set_t *given);

/* Assigns the cores to which the process of an earlier daemon is bound. Returns false if it is
 * bound to none. */
bool cores_take_of(struct cores *cores, pid_t pid, cpu_set_t *given);

void cores_give_back(struct cores *cores, const cpu_set_t *given);
