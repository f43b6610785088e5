/* processes.c: which processes hold memory of a GPU, who owns them, and how much of the used memory
 * belongs to the jobs. */
#include "base/cleanup.h"
#include "daemon/devices/nvidia/internal.h"

#include <stdlib.h>
#include <string.h>

enum { PROCESSES_MAX = 4096 };

/* ---- the driver's lists ---------------------------------------------------------------------- */

typedef int (*list_function)(nvml_device, unsigned int *, struct nvml_process *);

/* Fetches the whole list, malloc'd. Returns false if the driver does not provide it. */
static bool list_processes(list_function list, nvml_device handle, struct nvml_process **processes,
                           unsigned int *count)
{
    int result;

    *processes = NULL;
    *count = 0;
    result = list(handle, count, NULL);
    while (result == NVML_ERROR_INSUFFICIENT_SIZE && *count < PROCESSES_MAX) {
        unsigned int room = *count + 16; /* for processes that begin meanwhile */
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

/* Adds a process. One that both computes and draws is in both lists, each time with all of its
 * memory. */
static void take_process(struct nvidia_device *device, const struct nvml_process *listed)
{
    /* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): as many are listed as were counted */
    uint64_t memory = listed->bytes;
    struct process_use *process;

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
    *process = (struct process_use){.pid = (pid_t)listed->pid, .memory = memory};
    process_describe(process);
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

/* ---- whose memory it is ---------------------------------------------------------------------- */

struct nvidia_use nvidia_device_use(const struct nvidia_device *device, const pid_t *jobs,
                                    size_t job_count, uint64_t booked)
{
    struct nvidia_use use = {0};
    uint64_t visible = 0, hidden, share;
    bool all_visible = device->processes_known && device->process_count > 0;

    for (size_t i = 0; i < device->process_count; i++) {
        const struct process_use *process = &device->processes[i];

        all_visible = all_visible && process->visible;
        visible += process->visible ? process->memory : 0;
        use.ours += process_is_of(process, jobs, job_count) ? process->memory : 0;
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
