/* ledger.c: the memory of the devices: what our jobs have booked, and what others hold as
 * measured. */
#include "daemon/jobs/ledger.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "daemon/attempts/devices_nvidia.h"
#include "daemon/attempts/supervisor.h"
#include "daemon/jobs/headroom.h"
#include "daemon/jobs/job_class.h"
#include "daemon/jobs/jobs.h"
#include "daemon/jobs/parts.h"
#include "daemon/work/job_table.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MEMORY_SAMPLE_MILLISECONDS = 100 };

struct ledger {
    bool reads_memory; /* what attempts on the CPU hold is being read */
};

void jobs_book(struct jobs *jobs, struct attempt *attempt, uint64_t memory)
{
    attempt->claim.memory_booked = memory;
    attempt->need_is_known = memory > 0;
    for (int i = 0; i < attempt->claim.device_count; i++) {
        device_energy_mark(attempt->claim.devices[i], clock_now());
        if (device_book(attempt->claim.devices[i], &attempt->claim, memory) < 0) {
            log_error("not enough memory to keep the ledger; ending");
            abort();
        }
    }
    jobs_headroom_watch(jobs);
}

void jobs_unbook(struct jobs *jobs, struct attempt *attempt)
{
    device_claim_settle_energy(&attempt->claim, clock_now());
    for (int i = 0; i < attempt->claim.device_count; i++) {
        device_unbook(attempt->claim.devices[i], &attempt->claim, attempt->claim.memory_booked);
        if (!attempt->never_started)
            device_nvidia_left(jobs->daemon, attempt->claim.devices[i], &attempt->claim);
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

/* What is in use of this machine's memory and what of it the attempts on the CPU hold, at one
 * moment. Read on the thread pool: an attempt may have many processes. */
struct memory_reading {
    uv_work_t work;
    struct jobs *jobs;
    uint64_t used;
    size_t count;
    struct attempt_reading {
        int64_t job, number;
        pid_t pid;
        bool alone; /* traind-worker makes no other processes */
        struct process_memory memory;
    } attempts[];
};

static struct device *find_cpu(const struct jobs *jobs)
{
    for (size_t d = 0; d < jobs->daemon->devices->count; d++)
        if (jobs->daemon->devices->list[d]->kind == DEVICE_CPU)
            return jobs->daemon->devices->list[d];
    return NULL;
}

static void read_memory(uv_work_t *work)
{
    struct memory_reading *reading = work->data;

    reading->used = cpu_probe_memory_used("", reading->jobs->daemon->cpu);
    for (size_t i = 0; i < reading->count; i++)
        process_memory_read(reading->attempts[i].pid, reading->attempts[i].alone,
                            &reading->attempts[i].memory);
}

static struct attempt *find_attempt(const struct device *device, int64_t job, int64_t number)
{
    for (size_t i = 0; i < device->claim_count; i++)
        if (device->claims[i]->attempt->job_id == job &&
            device->claims[i]->attempt->number == number)
            return device->claims[i]->attempt;
    return NULL;
}

/* What an attempt holds; more than it has booked is booked. */
static void take_own(struct device *device, const struct attempt_reading *reading)
{
    struct attempt *attempt = find_attempt(device, reading->job, reading->number);

    if (!attempt) /* it has ended */
        return;
    attempt->memory_held = reading->memory;
    if (reading->memory.bytes <= attempt->claim.memory_booked)
        return;
    device->memory_booked += reading->memory.bytes - attempt->claim.memory_booked;
    attempt->claim.memory_booked = reading->memory.bytes;
}

static void on_memory_read(uv_work_t *work, int status)
{
    struct memory_reading *reading = work->data;
    struct jobs *jobs = reading->jobs;
    struct device *device = find_cpu(jobs);
    uint64_t ours = 0;

    (void)status; /* never cancelled */
    jobs->ledger->reads_memory = false;
    if (!jobs->stopping && device) {
        for (size_t i = 0; i < reading->count; i++) {
            ours += reading->attempts[i].memory.bytes;
            take_own(device, &reading->attempts[i]);
        }
        device->memory_outside = reading->used > ours ? reading->used - ours : 0;
        jobs_headroom_check(jobs);
    }
    free(reading);
}

static void start_reading(struct jobs *jobs, const struct device *device)
{
    struct memory_reading *reading =
        calloc(1, sizeof *reading + device->claim_count * sizeof *reading->attempts);

    if (!reading) /* what was read last stays */
        return;
    reading->jobs = jobs;
    reading->work.data = reading;
    for (size_t i = 0; i < device->claim_count; i++) {
        const struct attempt *attempt = device->claims[i]->attempt;

        if (attempt->claim.pid > 0)
            reading->attempts[reading->count++] = (struct attempt_reading){
                .job = attempt->job_id,
                .number = attempt->number,
                .pid = attempt->claim.pid,
                .alone = attempt->job && attempt->job->kind == JOB_NATIVE,
                .memory = attempt->memory_held,
            };
    }
    jobs->ledger->reads_memory = true;
    uv_queue_work(jobs->daemon->loop, &reading->work, read_memory, on_memory_read);
}

/* Everything in use less what our own jobs hold: at once where there are none, else as it was read
 * last, while the next reading is under way. */
static void measure_cpu(struct jobs *jobs, struct device *device)
{
    uint64_t now = uv_now(jobs->daemon->loop);

    if (jobs->ledger->reads_memory ||
        (device->measured_at && now - device->measured_at < MEMORY_SAMPLE_MILLISECONDS))
        return;
    device->measured_at = now ? now : 1;
    if (device->claim_count == 0)
        device->memory_outside = cpu_probe_memory_used("", jobs->daemon->cpu);
    else
        start_reading(jobs, device);
}

/* A simulated device's other users are a number in a file. They hold no more than there is, and
 * what is no number is told once. */
static uint64_t measure_simulated(struct device *device)
{
    const char *path = device->config->outside_file;
    uint64_t held = 0;
    char text[64];
    bool wrong = false;

    if (path[0] && read_start(path, text, sizeof text)) {
        size_t blanks = strspn(text, " \t\n"), digits = strspn(text + blanks, "0123456789");

        wrong = digits == 0 || text[blanks + digits + strspn(text + blanks + digits, " \t\n")];
        held = wrong ? 0 : strtoull(text, NULL, 10);
    }
    if (wrong && !device->outside_file_is_wrong)
        log_warning("%s does not hold a number of bytes: nobody else is thought to use %s", path,
                    device->name);
    device->outside_file_is_wrong = wrong;
    return held < device->memory_total ? held : device->memory_total;
}

void jobs_measure_outside(struct jobs *jobs)
{
    for (size_t i = 0; i < jobs->daemon->devices->count; i++) {
        struct device *device = jobs->daemon->devices->list[i];

        if (device->kind == DEVICE_SIMULATED)
            device->memory_outside = measure_simulated(device);
        else if (device->kind == DEVICE_CPU)
            measure_cpu(jobs, device);
    }
    devices_nvidia_watch(jobs->daemon, jobs->classes->job_count > 0);
}

void jobs_measure_devices(struct daemon *daemon)
{
    jobs_measure_outside(daemon->jobs);
}

bool ledger_is_reading(const struct jobs *jobs)
{
    return jobs->ledger->reads_memory;
}

int ledger_start(struct jobs *jobs)
{
    jobs->ledger = calloc(1, sizeof *jobs->ledger);
    return jobs->ledger ? 0 : -ENOMEM;
}
