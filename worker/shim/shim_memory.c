/* shim_memory.c: samples the peak memory of the whole job: the trainee and all its descendants.
 *
 * For a single process the kernel keeps the peak (ru_maxrss). Several processes are sampled once a
 * second, and less often while they do not grow. The sample sums their resident pages. At a new
 * peak it also sums their proportional shares, in which a shared page counts once. The control
 * group's memory.peak does not serve: it includes the page cache, which does not belong to the job
 * alone. */
#include "base/clock.h"
#include "worker/shim/shim.h"

#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { INTERVAL_MILLISECONDS = 1000, INTERVAL_MAX_MILLISECONDS = 8000, DEPTH_MAX = 32 };

/* Reads a small file in /proc; false: the process has ended. */
static bool proc_read(const char *path, char *text, size_t size)
{
    AUTO_CLOSE int file = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t length = file < 0 ? -1 : read(file, text, size - 1);

    if (length <= 0)
        return false;
    text[length] = '\0';
    return true;
}

static int64_t resident_bytes(pid_t pid)
{
    char path[64], text[128];
    long long total, resident;

    snprintf(path, sizeof path, "/proc/%d/statm", (int)pid);
    if (!proc_read(path, text, sizeof text) || sscanf(text, "%lld %lld", &total, &resident) != 2)
        return 0;
    return resident * sysconf(_SC_PAGESIZE);
}

/* The proportional share of the process's resident pages; all its resident pages if the kernel does
 * not report the share. */
static int64_t proportional_bytes(pid_t pid)
{
    char path[64], text[1024];
    const char *line;

    snprintf(path, sizeof path, "/proc/%d/smaps_rollup", (int)pid);
    line = proc_read(path, text, sizeof text) ? strstr(text, "\nPss:") : NULL;
    return line ? atoll(line + 5) * 1024 : resident_bytes(pid);
}

struct sum {
    int64_t (*bytes_of)(pid_t pid);
    int64_t bytes;
    int processes;
};

static void descendants_sum(pid_t pid, int depth, struct sum *sum);

/* Adds the children of one thread; the file at `path` lists them as "12 34 ". */
static void children_sum(const char *path, int depth, struct sum *sum)
{
    char text[4096], *rest = text, *end;

    if (!proc_read(path, text, sizeof text))
        return;
    for (;;) {
        long child = strtol(rest, &end, 10);

        if (end == rest)
            return;
        rest = end;
        sum->processes++;
        sum->bytes += sum->bytes_of((pid_t)child);
        descendants_sum((pid_t)child, depth + 1, sum);
    }
}

static void descendants_sum(pid_t pid, int depth, struct sum *sum)
{
    char path[300];
    DIR *tasks;
    struct dirent *task;

    snprintf(path, sizeof path, "/proc/%d/task", (int)pid);
    tasks = depth < DEPTH_MAX ? opendir(path) : NULL;
    while (tasks && (task = readdir(tasks))) {
        if (!isdigit((unsigned char)task->d_name[0]))
            continue;
        snprintf(path, sizeof path, "/proc/%d/task/%s/children", (int)pid, task->d_name);
        children_sum(path, depth, sum);
    }
    if (tasks)
        closedir(tasks);
}

/* All processes of the job descend from the shim, because orphans become its children. */
void shim_memory_sample(struct shim_memory *memory)
{
    struct sum resident = {.bytes_of = resident_bytes};
    int64_t now = clock_monotonic_milliseconds();
    bool grown = false;

    descendants_sum(getpid(), 0, &resident);
    if (resident.processes > 1 && resident.bytes > memory->resident_peak) {
        struct sum shares = {.bytes_of = proportional_bytes};

        memory->resident_peak = resident.bytes;
        descendants_sum(getpid(), 0, &shares);
        grown = shares.bytes > memory->peak;
        if (grown)
            memory->peak = shares.bytes;
    }
    memory->interval = grown || memory->interval == 0                 ? INTERVAL_MILLISECONDS
                       : memory->interval < INTERVAL_MAX_MILLISECONDS ? 2 * memory->interval
                                                                      : memory->interval;
    memory->deadline = now + memory->interval;
}
