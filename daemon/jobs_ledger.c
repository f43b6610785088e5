/* jobs_ledger.c: the memory of the devices: what our jobs have booked, and what others hold as
 * measured. */
#include "base/cleanup.h"
#include "base/file.h"
#include "base/log.h"
#include "daemon/devices_nvidia.h"
#include "daemon/jobs_internal.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

enum { MEMORY_SAMPLE_MILLISECONDS = 100 };

void jobs_book(struct jobs *jobs, struct attempt *attempt, uint64_t memory)
{
    attempt->memory_booked = memory;
    attempt->need_is_known = memory > 0;
    for (int i = 0; i < attempt->device_count; i++) {
        device_energy_mark(attempt->devices[i], daemon_time());
        if (device_book(attempt->devices[i], attempt, memory) < 0) {
            log_error("not enough memory to keep the ledger; ending");
            abort();
        }
    }
    jobs_headroom_watch(jobs);
}

void jobs_unbook(struct jobs *jobs, struct attempt *attempt)
{
    attempt_energy_settle(attempt, daemon_time());
    for (int i = 0; i < attempt->device_count; i++) {
        device_unbook(attempt->devices[i], attempt, attempt->memory_booked);
        device_nvidia_left(jobs->daemon, attempt->devices[i], attempt);
    }
}

/* ---- what others hold ------------------------------------------------------------------------ */

/* The start of a small file; bytes read, 0 when it is not there. */
static size_t read_start(const char *path, char *text, size_t size)
{
    AUTO_CLOSE int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    ssize_t length = file < 0 ? 0 : read(file, text, size - 1);

    text[length > 0 ? length : 0] = '\0';
    return length > 0 ? (size_t)length : 0;
}

/* Resident bytes of one process, 0 when it is gone. */
static uint64_t resident_bytes(pid_t pid)
{
    char path[32], text[128];
    unsigned long long total, resident;

    snprintf(path, sizeof path, "/proc/%d/statm", (int)pid);
    if (!read_start(path, text, sizeof text) || sscanf(text, "%llu %llu", &total, &resident) != 2)
        return 0;
    return resident * (uint64_t)sysconf(_SC_PAGESIZE);
}

/* Everything in use less what our own jobs hold. */
static uint64_t measure_cpu(const struct jobs *jobs, const struct device *device)
{
    uint64_t used = cpu_probe_memory_used("", &jobs->daemon->cpu), ours = 0;

    for (size_t i = 0; i < device->attempt_count; i++)
        if (device->attempts[i]->pid > 0)
            ours += resident_bytes(device->attempts[i]->pid);
    return used > ours ? used - ours : 0;
}

/* A simulated device's other users are a number in a file. */
static uint64_t measure_simulated(const struct device *device)
{
    char text[64];

    if (!device->config->outside_file[0] ||
        !read_start(device->config->outside_file, text, sizeof text))
        return 0;
    return strtoull(text, NULL, 10);
}

void jobs_measure_own(struct jobs *jobs)
{
    for (size_t d = 0; d < jobs->daemon->devices.count; d++) {
        struct device *device = jobs->daemon->devices.list[d];

        for (size_t i = 0; device->kind == DEVICE_CPU && i < device->attempt_count; i++) {
            struct attempt *attempt = device->attempts[i];
            uint64_t held = attempt->pid > 0 ? resident_bytes(attempt->pid) : 0;

            if (held <= attempt->memory_booked)
                continue;
            device->memory_booked += held - attempt->memory_booked;
            attempt->memory_booked = held;
        }
    }
}

void jobs_measure_outside(struct jobs *jobs)
{
    uint64_t now = uv_now(jobs->daemon->loop);

    for (size_t i = 0; i < jobs->daemon->devices.count; i++) {
        struct device *device = jobs->daemon->devices.list[i];

        if (device->kind == DEVICE_SIMULATED) {
            device->memory_outside = measure_simulated(device);
        } else if (device->kind == DEVICE_CPU &&
                   (!device->measured_at ||
                    now - device->measured_at >= MEMORY_SAMPLE_MILLISECONDS)) {
            device->memory_outside = measure_cpu(jobs, device);
            device->measured_at = now ? now : 1;
        }
    }
    devices_nvidia_watch(jobs->daemon, jobs->classes.job_count > 0);
}

void jobs_measure_devices(struct daemon *daemon)
{
    jobs_measure_outside(daemon->jobs);
}
