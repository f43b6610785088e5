/* probe_processes.h: processes that use memory: their owners, and whether they belong to a job.
 * Everything here reads /proc, so it runs on the thread pool or a probe's thread. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum { PROCESS_ANCESTORS_MAX = 16 };

struct process_use {
    pid_t pid;
    uint64_t memory; /* bytes */
    bool visible;    /* it is in our /proc, so the following members are known */
    uid_t uid;
    char user[40], command[32];
    pid_t ancestors[PROCESS_ANCESTORS_MAX]; /* itself, its parent, and so on; 0 after the last */
};

/* Returns the parent of `pid` and, unless `command` is NULL, the name of its program; 0: there is
 * no such process. */
pid_t process_parent(pid_t pid, char *command, size_t size);

/* Fills in the facts about `process->pid` from /proc. */
void process_describe(struct process_use *process);

/* Whether the process is one of the jobs' processes or descends from one. */
bool process_is_of(const struct process_use *process, const pid_t *jobs, size_t job_count);

/* Lists the processes with the most resident memory, at least `least` bytes each: at most `limit`,
 * the largest first. Returns how many. */
size_t processes_find_largest(struct process_use *list, size_t limit, uint64_t least);
