/* fake_nvml.c: a stand-in for NVIDIA's management library (build/tests/libfake_nvml.so), for tests
 * on machines without a GPU. What it answers stands in the file that FAKE_NVML_STATE names, read
 * anew for every call; a write by rename changes it at once. One fact to a line:
 *
 *   driver 580.159.04
 *   gpu GPU-1 total=BYTES [reserved=] [used=] [model=NAME_WITHOUT_BLANKS] [capability=9.0]
 *       [temperature=] [power=MILLIWATTS] [energy=MILLIJOULES] [utilization=PERCENT] [ecc=COUNT]
 *       [remap_failed=1] [remap_pending=1] [lost=1] [mig=1] [list=0: it names no processes]
 *   mig MIG-1 parent=GPU-1 instance=3 total=BYTES [used=]     (a word of an instance)
 *   process GPU-1 pid=1 memory=BYTES [graphics=1]
 *   xid GPU-1 number=79                  reported once, in the order of the lines
 *
 * (each on one line). `used` defaults to the sum of the processes. As with the real library, a GPU
 * that appears is found after the next nvmlInit, and one that is removed is lost. Without a line
 * `driver`, nvmlInit fails: the driver is not loaded. While there is a file of that name with
 * ".wait" behind it, the driver does not say which processes there are. */
#include "daemon/devices/nvidia/nvml.h"

#include <dirent.h>
#include <inttypes.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* what dlsym() finds */
#pragma GCC visibility push(default)
#pragma GCC diagnostic ignored "-Wmissing-prototypes"

enum { LINES_MAX = 256, LINE_MAX_BYTES = 512, GPUS_MAX = 32 };

/* A handle is the address of its name. */
static char names[LINES_MAX][NVML_UUID_SIZE];
static char gpus[GPUS_MAX][NVML_UUID_SIZE]; /* those that nvmlInit found */
static unsigned int gpu_count;
static int events_taken;

struct state {
    char line[LINES_MAX][LINE_MAX_BYTES];
    int count;
};

/* The processes of fake_libcuda.c hold what they hold while they are not suspended. */
static void add_cuda_processes(struct state *state)
{
    const char *folder = getenv("FAKE_CUDA_STATE");
    DIR *processes = folder ? opendir(folder) : NULL;
    struct dirent *entry;

    while (processes && state->count < LINES_MAX && (entry = readdir(processes))) {
        char path[512], word[32], gpu[NVML_UUID_SIZE];
        unsigned long long bytes;
        FILE *file;

        snprintf(path, sizeof path, "%.200s/%.200s", folder, entry->d_name);
        file =
            strspn(entry->d_name, "0123456789") == strlen(entry->d_name) ? fopen(path, "re") : NULL;
        if (!file)
            continue;
        if (kill((pid_t)atol(entry->d_name), 0) == 0 &&
            fscanf(file, "%31s %95s %llu", word, gpu, &bytes) == 3 &&
            (strcmp(word, "running") == 0 || strcmp(word, "locked") == 0))
            snprintf(state->line[state->count++], LINE_MAX_BYTES, "process %s pid=%s memory=%llu\n",
                     gpu, entry->d_name, bytes);
        fclose(file);
    }
    if (processes)
        closedir(processes);
}

static void state_read(struct state *state)
{
    const char *path = getenv("FAKE_NVML_STATE");
    FILE *file = path ? fopen(path, "re") : NULL;

    state->count = 0;
    while (file && state->count < LINES_MAX &&
           fgets(state->line[state->count], LINE_MAX_BYTES, file))
        state->count++;
    if (file)
        fclose(file);
    add_cuda_processes(state);
}

static bool line_is(const char *line, const char *kind, const char *name)
{
    char first[32], second[NVML_UUID_SIZE];

    return sscanf(line, "%31s %95s", first, second) == 2 && strcmp(first, kind) == 0 &&
           (!name || strcmp(second, name) == 0);
}

static const char *state_find(const struct state *state, const char *kind, const char *name)
{
    for (int i = 0; i < state->count; i++)
        if (line_is(state->line[i], kind, name))
            return state->line[i];
    return NULL;
}

/* The text behind "key=", cut at the next blank. */
static bool find_value(const char *line, const char *key, char *value, size_t size)
{
    char pattern[40];
    const char *place;

    snprintf(pattern, sizeof pattern, " %s=", key);
    place = line ? strstr(line, pattern) : NULL;
    if (!place)
        return false;
    place += strlen(pattern);
    snprintf(value, size, "%.*s", (int)strcspn(place, " \n"), place);
    return true;
}

static bool find_number(const char *line, const char *key, unsigned long long *number)
{
    char value[64];

    if (!find_value(line, key, value, sizeof value))
        return false;
    *number = strtoull(value, NULL, 10);
    return true;
}

/* ---- devices --------------------------------------------------------------------------------- */

static nvml_device handle_of(const char *name)
{
    for (int i = 0; i < LINES_MAX; i++) {
        if (!*names[i])
            snprintf(names[i], sizeof names[i], "%s", name);
        if (strcmp(names[i], name) == 0)
            return (nvml_device)(void *)names[i];
    }
    return NULL;
}

/* The device's line; NULL with the error that the real library would give. */
static const char *device_line(struct state *state, nvml_device device, int *result)
{
    const char *name = (const char *)(void *)device, *line, *parent;
    unsigned long long lost = 0;
    char uuid[NVML_UUID_SIZE];

    state_read(state);
    line = state_find(state, "gpu", name);
    if (!line)
        line = state_find(state, "mig", name);
    parent = find_value(line, "parent", uuid, sizeof uuid) ? state_find(state, "gpu", uuid) : line;
    find_number(parent, "lost", &lost);
    *result = line && parent && !lost ? NVML_SUCCESS : NVML_ERROR_GPU_IS_LOST;
    return *result == NVML_SUCCESS ? line : NULL;
}

static int device_number(nvml_device device, const char *key, unsigned long long *number)
{
    struct state state;
    int result;
    const char *line = device_line(&state, device, &result);

    if (!line)
        return result;
    return find_number(line, key, number) ? NVML_SUCCESS : NVML_ERROR_NOT_SUPPORTED;
}

static int device_unsigned(nvml_device device, const char *key, unsigned int *number)
{
    unsigned long long value;
    int result = device_number(device, key, &value);

    if (result == NVML_SUCCESS)
        *number = (unsigned int)value;
    return result;
}

int nvmlInit_v2(void)
{
    struct state state;
    char uuid[NVML_UUID_SIZE];

    state_read(&state);
    gpu_count = 0;
    if (!state_find(&state, "driver", NULL))
        return NVML_ERROR_DRIVER_NOT_LOADED;
    for (int i = 0; i < state.count && gpu_count < GPUS_MAX; i++)
        if (line_is(state.line[i], "gpu", NULL) && sscanf(state.line[i], "gpu %95s", uuid) == 1)
            snprintf(gpus[gpu_count++], sizeof gpus[0], "%s", uuid);
    return NVML_SUCCESS;
}

int nvmlShutdown(void)
{
    gpu_count = 0;
    return NVML_SUCCESS;
}

int nvmlSystemGetDriverVersion(char *text, unsigned int size)
{
    struct state state;
    char version[NVML_VERSION_SIZE] = "";

    state_read(&state);
    sscanf(state_find(&state, "driver", NULL) ?: "driver ?", "driver %79s", version);
    snprintf(text, size, "%s", version);
    return NVML_SUCCESS;
}

int nvmlSystemGetCudaDriverVersion_v2(int *version)
{
    *version = 13000;
    return NVML_SUCCESS;
}

int nvmlDeviceGetCount_v2(unsigned int *count)
{
    *count = gpu_count;
    return NVML_SUCCESS;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned int index, nvml_device *device)
{
    struct state state;
    int result;

    if (index >= gpu_count)
        return NVML_ERROR_INVALID_ARGUMENT;
    *device = handle_of(gpus[index]);
    return device_line(&state, *device, &result) ? NVML_SUCCESS : result;
}

int nvmlDeviceGetUUID(nvml_device device, char *text, unsigned int size)
{
    snprintf(text, size, "%s", (const char *)(void *)device);
    return NVML_SUCCESS;
}

int nvmlDeviceGetName(nvml_device device, char *text, unsigned int size)
{
    struct state state;
    int result;
    const char *line = device_line(&state, device, &result);

    if (!line)
        return result;
    if (!find_value(line, "model", text, size))
        snprintf(text, size, "Fake GPU");
    return NVML_SUCCESS;
}

int nvmlDeviceGetCudaComputeCapability(nvml_device device, int *major, int *minor)
{
    struct state state;
    char value[16] = "9.0";
    int result;
    const char *line = device_line(&state, device, &result);

    if (!line)
        return result;
    find_value(line, "capability", value, sizeof value);
    return sscanf(value, "%d.%d", major, minor) == 2 ? NVML_SUCCESS : NVML_ERROR_UNKNOWN;
}

/* ---- memory and processes -------------------------------------------------------------------- */

int nvmlDeviceGetMemoryInfo_v2(nvml_device device, struct nvml_memory_v2 *memory)
{
    struct state state;
    int result;
    const char *line = device_line(&state, device, &result);
    unsigned long long bytes;

    if (!line)
        return result;
    if (memory->version != NVML_MEMORY_V2)
        return NVML_ERROR_INVALID_ARGUMENT;
    memory->reserved = memory->used = 0;
    find_number(line, "total", &memory->total);
    find_number(line, "reserved", &memory->reserved);
    if (!find_number(line, "used", &memory->used))
        for (int i = 0; i < state.count; i++)
            if (line_is(state.line[i], "process", (const char *)(void *)device) &&
                find_number(state.line[i], "memory", &bytes))
                memory->used += bytes;
    memory->free = memory->total - memory->reserved - memory->used;
    return NVML_SUCCESS;
}

static int list_processes(nvml_device device, bool graphics, unsigned int *count,
                          struct nvml_process *processes)
{
    struct state state;
    int result;
    const char *line = device_line(&state, device, &result);
    unsigned long long pid, bytes, draws, listed = 1;
    unsigned int found = 0, room = processes ? *count : 0;

    if (!line)
        return result;
    find_number(line, "list", &listed);
    for (int i = 0; listed && i < state.count; i++) {
        draws = 0;
        find_number(state.line[i], "graphics", &draws);
        if (!line_is(state.line[i], "process", (const char *)(void *)device) || draws != graphics ||
            !find_number(state.line[i], "pid", &pid) ||
            !find_number(state.line[i], "memory", &bytes))
            continue;
        if (found < room)
            processes[found] = (struct nvml_process){.pid = (unsigned int)pid,
                                                     .bytes = bytes,
                                                     .gpu_instance = NVML_INSTANCE_NONE,
                                                     .compute_instance = NVML_INSTANCE_NONE};
        found++;
    }
    *count = found;
    return found > room ? NVML_ERROR_INSUFFICIENT_SIZE : NVML_SUCCESS;
}

/* A driver that hangs. */
static void wait_while_told(void)
{
    const char *state = getenv("FAKE_NVML_STATE");
    char path[4096];

    snprintf(path, sizeof path, "%s.wait", state ? state : "");
    while (state && access(path, F_OK) == 0)
        usleep(1000);
}

int nvmlDeviceGetComputeRunningProcesses_v3(nvml_device device, unsigned int *count,
                                            struct nvml_process *processes)
{
    wait_while_told();
    return list_processes(device, false, count, processes);
}

int nvmlDeviceGetGraphicsRunningProcesses_v3(nvml_device device, unsigned int *count,
                                             struct nvml_process *processes)
{
    return list_processes(device, true, count, processes);
}

/* ---- sensors and errors ---------------------------------------------------------------------- */

int nvmlDeviceGetUtilizationRates(nvml_device device, struct nvml_utilization *utilization)
{
    return device_unsigned(device, "utilization", &utilization->gpu);
}

int nvmlDeviceGetTemperature(nvml_device device, unsigned int sensor, unsigned int *celsius)
{
    return sensor == NVML_TEMPERATURE_GPU ? device_unsigned(device, "temperature", celsius)
                                          : NVML_ERROR_INVALID_ARGUMENT;
}

int nvmlDeviceGetPowerUsage(nvml_device device, unsigned int *milliwatts)
{
    return device_unsigned(device, "power", milliwatts);
}

int nvmlDeviceGetTotalEnergyConsumption(nvml_device device, unsigned long long *millijoules)
{
    return device_number(device, "energy", millijoules);
}

int nvmlDeviceGetTotalEccErrors(nvml_device device, unsigned int type, unsigned int counter,
                                unsigned long long *count)
{
    return type == NVML_MEMORY_ERROR_UNCORRECTED && counter == NVML_VOLATILE_ECC
               ? device_number(device, "ecc", count)
               : NVML_ERROR_INVALID_ARGUMENT;
}

int nvmlDeviceGetRemappedRows(nvml_device device, unsigned int *corrected,
                              unsigned int *uncorrected, unsigned int *pending,
                              unsigned int *failed)
{
    *corrected = *uncorrected = *pending = *failed = 0;
    device_unsigned(device, "remap_pending", pending);
    device_unsigned(device, "remap_failed", failed);
    return NVML_SUCCESS;
}

/* ---- instances (MIG) ------------------------------------------------------------------------- */

int nvmlDeviceGetMigMode(nvml_device device, unsigned int *current, unsigned int *pending)
{
    int result = device_unsigned(device, "mig", current);

    *pending = *current;
    return result;
}

int nvmlDeviceGetMaxMigDeviceCount(nvml_device device, unsigned int *count)
{
    (void)device;
    *count = 7;
    return NVML_SUCCESS;
}

int nvmlDeviceGetMigDeviceHandleByIndex(nvml_device device, unsigned int index,
                                        nvml_device *instance)
{
    struct state state;
    char parent[NVML_UUID_SIZE], name[NVML_UUID_SIZE];

    state_read(&state);
    for (int i = 0; i < state.count; i++) {
        if (sscanf(state.line[i], "mig %95s", name) != 1 ||
            !find_value(state.line[i], "parent", parent, sizeof parent) ||
            strcmp(parent, (const char *)(void *)device) != 0 || index-- > 0)
            continue;
        *instance = handle_of(name);
        return NVML_SUCCESS;
    }
    return NVML_ERROR_NOT_FOUND;
}

int nvmlDeviceGetGpuInstanceId(nvml_device instance, unsigned int *id)
{
    return device_unsigned(instance, "instance", id);
}

/* ---- events ---------------------------------------------------------------------------------- */

int nvmlEventSetCreate(nvml_event_set *set)
{
    *set = (nvml_event_set)(void *)gpus;
    return NVML_SUCCESS;
}

int nvmlEventSetFree(nvml_event_set set)
{
    (void)set;
    return NVML_SUCCESS;
}

int nvmlDeviceGetSupportedEventTypes(nvml_device device, unsigned long long *types)
{
    (void)device;
    *types = NVML_EVENT_XID;
    return NVML_SUCCESS;
}

int nvmlDeviceRegisterEvents(nvml_device device, unsigned long long types, nvml_event_set set)
{
    (void)device;
    (void)set;
    return types == NVML_EVENT_XID ? NVML_SUCCESS : NVML_ERROR_NOT_SUPPORTED;
}

int nvmlEventSetWait_v2(nvml_event_set set, struct nvml_event *event, unsigned int milliseconds)
{
    struct state state;
    char uuid[NVML_UUID_SIZE];
    int skip = events_taken;

    (void)set;
    (void)milliseconds;
    state_read(&state);
    for (int i = 0; i < state.count; i++) {
        unsigned long long instance = NVML_INSTANCE_NONE;

        if (sscanf(state.line[i], "xid %95s", uuid) != 1 || skip-- > 0)
            continue;
        events_taken++;
        find_number(state.line[i], "instance", &instance);
        event->device = handle_of(uuid);
        event->type = NVML_EVENT_XID;
        event->gpu_instance = (unsigned int)instance;
        return find_number(state.line[i], "number", &event->data) ? NVML_SUCCESS
                                                                  : NVML_ERROR_UNKNOWN;
    }
    return NVML_ERROR_TIMEOUT;
}
