/* process_memory.c: see process_memory.h.
 *
 * The sum of the processes' resident pages costs little, but it counts a page once for each process
 * that shares it. Processes that a data loader forks share all that their parent had read. Their
 * proportional shares (smaps_rollup) are exact, but to compute them the kernel visits every page.
 * So they are read only after the sum has changed, and for at most 1/100 of the time. In between
 * the sum is scaled. */
#include "daemon/devices/process_memory.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "daemon/devices/probe_processes.h"

#include <ctype.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum {
    PROCESSES_MAX = 100000,
    CHANGE_THAT_COUNTS = 32, /* 1/32 of what was held */
    PAUSE_PER_COST = 100
};

struct process_list {
    pid_t *pids; /* malloc'd */
    size_t count, capacity;
};

static bool list_add(struct process_list *list, pid_t pid)
{
    if (list->count == PROCESSES_MAX)
        return false;
    if (list->count == list->capacity) {
        size_t capacity = list->capacity ? 2 * list->capacity : 16;
        pid_t *grown = realloc(list->pids, capacity * sizeof *grown);

        if (!grown)
            return false;
        list->pids = grown;
        list->capacity = capacity;
    }
    list->pids[list->count++] = pid;
    return true;
}

/* Adds the children of all threads of the process: each thread has its own list. */
static bool list_add_children(struct process_list *list, pid_t pid)
{
    char path[300];
    DIR *tasks;
    struct dirent *task;
    bool added = true;

    snprintf(path, sizeof path, "/proc/%d/task", (int)pid);
    tasks = opendir(path);
    while (tasks && added && (task = readdir(tasks))) {
        long child;

        if (!isdigit((unsigned char)task->d_name[0]))
            continue;
        snprintf(path, sizeof path, "/proc/%d/task/%s/children", (int)pid, task->d_name);
        AUTO_FCLOSE FILE *children = fopen(path, "re");
        while (children && added && fscanf(children, "%ld", &child) == 1)
            added = list_add(list, (pid_t)child);
    }
    if (tasks)
        closedir(tasks);
    return added;
}

/* Lists all processes of the attempt. The shim adopts processes of the attempt that lost their
 * parent, so all of them descend from it. If the first process has another parent, the shim was
 * killed, and that parent has adopted the process. */
static bool list_tree(struct process_list *list, pid_t first)
{
    char command[16] = "";
    pid_t parent = process_parent(first, NULL, 0);
    bool complete;

    if (parent > 1)
        process_parent(parent, command, sizeof command);
    complete = strcmp(command, "traind-shim") == 0 ? list_add_children(list, parent)
                                                   : list_add(list, first);
    for (size_t i = 0; complete && i < list->count; i++)
        complete = list_add_children(list, list->pids[i]);
    return complete;
}

/* Resident bytes of one process; 0 if it has ended. */
static uint64_t resident_bytes(pid_t pid)
{
    char path[32];
    unsigned long long total, resident;

    snprintf(path, sizeof path, "/proc/%d/statm", (int)pid);
    AUTO_FCLOSE FILE *file = fopen(path, "re");
    if (!file || fscanf(file, "%llu %llu", &total, &resident) != 2)
        return 0;
    return resident * (uint64_t)sysconf(_SC_PAGESIZE);
}

/* The process's proportional share of its resident pages; all of them if the kernel does not report
 * shares. */
static uint64_t proportional_bytes(pid_t pid)
{
    char path[40], line[128];
    unsigned long long kibibytes;

    snprintf(path, sizeof path, "/proc/%d/smaps_rollup", (int)pid);
    AUTO_FCLOSE FILE *file = fopen(path, "re");
    while (file && fgets(line, sizeof line, file))
        if (sscanf(line, "Pss: %llu kB", &kibibytes) == 1)
            return kibibytes * 1024;
    return resident_bytes(pid);
}

static uint64_t list_sum(const struct process_list *list, uint64_t (*bytes_of)(pid_t pid))
{
    uint64_t sum = 0;

    for (size_t i = 0; i < list->count; i++)
        sum += bytes_of(list->pids[i]);
    return sum;
}

static void read_shares(const struct process_list *list, uint64_t resident,
                        struct process_memory *memory)
{
    double began = clock_seconds(CLOCK_THREAD_CPUTIME_ID), cost;

    memory->bytes = memory->bytes_then = list_sum(list, proportional_bytes);
    memory->resident_then = resident;
    memory->processes_then = list->count;
    cost = clock_seconds(CLOCK_THREAD_CPUTIME_ID) - began;
    memory->not_before = clock_monotonic() + PAUSE_PER_COST * cost;
}

static void take_tree(const struct process_list *list, struct process_memory *memory)
{
    uint64_t resident = list_sum(list, resident_bytes), then = memory->resident_then;
    uint64_t change = resident > then ? resident - then : then - resident;
    bool same = list->count == memory->processes_then;

    memory->processes = list->count;
    if (list->count < 2)
        memory->bytes = resident;
    else if ((!same || change > then / CHANGE_THAT_COUNTS) &&
             clock_monotonic() >= memory->not_before)
        read_shares(list, resident, memory);
    else if (same && then > 0) /* otherwise it is unknown what the new processes share: keep the old
                                * value */
        memory->bytes = (uint64_t)((double)memory->bytes_then * (double)resident / (double)then);
}

void process_memory_read(pid_t first, bool alone, struct process_memory *memory)
{
    struct process_list list = {0};

    if (alone ? list_add(&list, first) : list_tree(&list, first))
        take_tree(&list, memory);
    free(list.pids);
}
