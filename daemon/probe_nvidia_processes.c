/* probe_nvidia_processes.c: which processes hold memory of a GPU, whose they are, and how much of
 * what is in use is our jobs'. */
#include "base/cleanup.h"
#include "daemon/probe_nvidia_internal.h"

#include <inttypes.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { PROCESSES_MAX = 4096, PASSWD_BUFFER = 4096 };

/* ---- what /proc says of them ------------------------------------------------------------------
 */

/* The parent of `pid` and, unless NULL, the name of its program; 0: there is no such process. */
static pid_t read_parent(pid_t pid, char *command, size_t size)
{
    char path[32], text[512], *name, *end;
    size_t length;
    int parent;

    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    AUTO_FCLOSE FILE *file = fopen(path, "re");
    length = file ? fread(text, 1, sizeof text - 1, file) : 0;
    text[length] = '\0';
    /* "pid (name) state parent …": the name may hold anything, also parentheses */
    name = strchr(text, '(');
    end = strrchr(text, ')');
    if (!name || !end || end < name || sscanf(end + 1, " %*c %d", &parent) != 1)
        return 0;
    if (command)
        snprintf(command, size, "%.*s", (int)(end - name - 1), name + 1);
    return parent;
}

static void find_user(uid_t uid, char *user, size_t size)
{
    char buffer[PASSWD_BUFFER];
    struct passwd entry, *found = NULL;

    if (getpwuid_r(uid, &entry, buffer, sizeof buffer, &found) == 0 && found)
        snprintf(user, size, "%s", entry.pw_name);
    else
        snprintf(user, size, "%u", (unsigned)uid);
}

static void describe_process(struct nvidia_process *process)
{
    char path[32];
    struct stat status;
    pid_t parent = read_parent(process->pid, process->command, sizeof process->command);

    snprintf(path, sizeof path, "/proc/%d", (int)process->pid);
    process->visible = parent > 0 && stat(path, &status) == 0;
    if (!process->visible)
        return;
    process->uid = status.st_uid;
    find_user(process->uid, process->user, sizeof process->user);
    process->ancestors[0] = process->pid;
    for (int i = 1; i < NVIDIA_ANCESTORS_MAX && parent > 1; i++) {
        process->ancestors[i] = parent;
        parent = read_parent(parent, NULL, 0);
    }
}

/* ---- what the driver says of them -------------------------------------------------------------
 */

typedef int (*list_function)(nvml_device, unsigned int *, struct nvml_process *);

/* All that `list` knows, malloc'd; false when the driver does not say. */
static bool list_processes(list_function list, nvml_device handle, struct nvml_process **processes,
                           unsigned int *count)
{
    int result;

    *processes = NULL;
    *count = 0;
    result = list(handle, count, NULL);
    while (result == NVML_ERROR_INSUFFICIENT_SIZE && *count < PROCESSES_MAX) {
        unsigned int room = *count + 16; /* for those that begin meanwhile */
        struct nvml_process *grown = realloc(*processes, room * sizeof **processes);

        if (!grown)
            break;
        *processes = grown;
        *count = room;
        result = list(handle, count, *processes);
    }
    if (result != NVML_SUCCESS) {
        free(TAKE_POINTER(*processes));
        *count = 0;
    }
    return result == NVML_SUCCESS;
}

/* A process that computes and draws is in both lists, each time with all that it holds. */
static void take_process(struct nvidia_device *device, const struct nvml_process *listed)
{
    uint64_t memory = listed->bytes;
    struct nvidia_process *process;

    if (listed->bytes == NVML_MEMORY_UNKNOWN) {
        device->processes_known = false;
        memory = 0;
    }
    for (size_t i = 0; i < device->process_count; i++) {
        process = &device->processes[i];
        if (process->pid != (pid_t)listed->pid)
            continue;
        process->memory = memory > process->memory ? memory : process->memory;
        return;
    }
    process = &device->processes[device->process_count++];
    *process = (struct nvidia_process){.pid = (pid_t)listed->pid, .memory = memory};
    describe_process(process);
}

void nvidia_read_processes(const struct nvml *nvml, nvml_device handle,
                           struct nvidia_device *device)
{
    AUTO_FREE struct nvml_process *compute = NULL;
    AUTO_FREE struct nvml_process *graphics = NULL;
    unsigned int compute_count, graphics_count;

    device->processes_known =
        list_processes(nvml->compute_processes, handle, &compute, &compute_count);
    list_processes(nvml->graphics_processes, handle, &graphics, &graphics_count);
    device->processes = calloc(compute_count + graphics_count + 1, sizeof *device->processes);
    if (!device->processes) {
        device->processes_known = false;
        return;
    }
    for (unsigned int i = 0; i < compute_count; i++)
        take_process(device, &compute[i]);
    for (unsigned int i = 0; i < graphics_count; i++)
        take_process(device, &graphics[i]);
}

/* ---- whose memory it is ------------------------------------------------------------------------
 */

bool nvidia_process_is_of(const struct nvidia_process *process, const pid_t *jobs, size_t job_count)
{
    for (int i = 0; process->visible && i < NVIDIA_ANCESTORS_MAX && process->ancestors[i]; i++)
        for (size_t j = 0; j < job_count; j++)
            if (process->ancestors[i] == jobs[j])
                return true;
    return false;
}

struct nvidia_use nvidia_device_use(const struct nvidia_device *device, const pid_t *jobs,
                                    size_t job_count, uint64_t booked)
{
    struct nvidia_use use = {0};
    uint64_t visible = 0, hidden, share;
    bool all_visible = device->processes_known && device->process_count > 0;

    for (size_t i = 0; i < device->process_count; i++) {
        const struct nvidia_process *process = &device->processes[i];

        all_visible = all_visible && process->visible;
        visible += process->visible ? process->memory : 0;
        use.ours += nvidia_process_is_of(process, jobs, job_count) ? process->memory : 0;
    }
    hidden = device->memory_used > visible ? device->memory_used - visible : 0;
    if (job_count > 0 && !all_visible && hidden > 0) {
        share = booked > use.ours ? booked - use.ours : 0;
        use.ours += share < hidden ? share : hidden;
        use.by_booking = true;
    }
    use.outside = device->memory_used > use.ours ? device->memory_used - use.ours : 0;
    return use;
}
