/* cores.h: which cores of the machine are kept to by which commands. A command that books fewer
 * cores than the machine has gets cores of its own while there are free ones: programs such as JAX
 * start as many threads as they may use cores, whatever OMP_NUM_THREADS says. Runs on the loop. */
#pragma once

#include <sched.h>
#include <stdbool.h>
#include <sys/types.h>

struct cores {
    cpu_set_t usable; /* by the daemon, and so by its jobs */
    cpu_set_t taken;
};

void cores_init(struct cores *cores);

/* Takes `count` free ones; false, and nothing is taken, when they are not fewer than the usable
 * ones, or not so many are free: then the command may use all of them. */
bool cores_take(struct cores *cores, int count, cpu_set_t *given);

/* Takes those that the process of an earlier daemon keeps to; false: it keeps to none. */
bool cores_take_of(struct cores *cores, pid_t pid, cpu_set_t *given);

void cores_give_back(struct cores *cores, const cpu_set_t *given);
