/* management.c: asks NVIDIA's management library (NVML) how much of the GPU's memory this process
 * holds, CUDA and the libraries included, and how much energy the GPU has used. A thread loads the
 * library once the device is open, which takes 16 ms on an H200's machine. The first one who asks
 * waits for it.
 *
 * Names, values and layouts: https://docs.nvidia.com/deploy/nvml-api/; its header is not needed. */
#include "engine/backends/cuda/cuda.h"

#include <dlfcn.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { MANAGEMENT_SUCCESS = 0, PROCESSES_MAX = 256, UUID_TEXT = 48 };

struct process_info { /* nvmlProcessInfo_v2_t, which the _v3 call uses, too */
    unsigned int pid;
    unsigned long long bytes;
    unsigned int gpu_instance, compute_instance;
};

struct management {
    int index; /* of the device, in CUDA's order */
    pthread_t loader;
    bool loading;
    void *library, *device;
    int (*shutdown)(void);
    int (*processes)(void *device, unsigned int *count, struct process_info *processes);
    int (*energy)(void *device, unsigned long long *millijoules);
};

/* Writes "GPU-5bbf…", or for an instance "MIG-…". */
static void format_uuid(const char *kind, const cudaUUID_t *uuid, char text[UUID_TEXT])
{
    const unsigned char *b = (const unsigned char *)uuid->bytes;

    snprintf(text, UUID_TEXT,
             "%s-%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", kind, b[0],
             b[1], b[2], b[3], b[4], b[5], b[6], b[7], b[8], b[9], b[10], b[11], b[12], b[13],
             b[14], b[15]);
}

static bool find_device(struct management *management)
{
    static const char *const kinds[] = {"GPU", "MIG"};
    int (*by_uuid)(const char *uuid, void **device);
    struct cudaDeviceProp properties;
    char uuid[UUID_TEXT];

    *(void **)&by_uuid = dlsym(management->library, "nvmlDeviceGetHandleByUUID");
    if (!by_uuid || cudaGetDeviceProperties(&properties, management->index) != cudaSuccess)
        return false;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        format_uuid(kinds[i], &properties.uuid, uuid);
        if (by_uuid(uuid, &management->device) == MANAGEMENT_SUCCESS)
            return true;
    }
    return false;
}

/* Loads and initialises it. Functions that it lacks stay NULL. */
static void *load(void *data)
{
    struct management *management = data;
    int (*init)(void);

    management->library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!management->library)
        return NULL;
    *(void **)&init = dlsym(management->library, "nvmlInit_v2");
    if (!init || init() != MANAGEMENT_SUCCESS)
        return NULL;
    *(void **)&management->shutdown = dlsym(management->library, "nvmlShutdown");
    if (!find_device(management))
        return NULL;
    *(void **)&management->processes =
        dlsym(management->library, "nvmlDeviceGetComputeRunningProcesses_v3");
    *(void **)&management->energy =
        dlsym(management->library, "nvmlDeviceGetTotalEnergyConsumption");
    return NULL;
}

struct management *management_begin(int index)
{
    struct management *management = calloc(1, sizeof *management);

    if (!management)
        return NULL;
    management->index = index;
    management->loading = pthread_create(&management->loader, NULL, load, management) == 0;
    return management;
}

/* Waits until it is loaded; NULL: there was no memory. */
static const struct management *management_of(struct backend_device *device)
{
    struct management *management = device->management;

    if (management && management->loading)
        pthread_join(management->loader, NULL);
    if (management)
        management->loading = false;
    return management;
}

void management_free(struct management *management)
{
    if (!management)
        return;
    if (management->loading)
        pthread_join(management->loader, NULL);
    if (management->shutdown)
        management->shutdown();
    if (management->library)
        dlclose(management->library);
    free(management);
}

uint64_t cuda_device_memory_used(struct backend_device *device)
{
    const struct management *management = management_of(device);
    struct process_info processes[PROCESSES_MAX];
    unsigned int count = PROCESSES_MAX;

    if (!management || !management->processes ||
        management->processes(management->device, &count, processes) != MANAGEMENT_SUCCESS)
        return 0;
    for (unsigned int i = 0; i < count; i++)
        if (processes[i].pid == (unsigned int)getpid() && ~processes[i].bytes != 0)
            return processes[i].bytes;
    return 0; /* this happens in a container with process numbers of its own */
}

double cuda_device_energy(struct backend_device *device)
{
    const struct management *management = management_of(device);
    unsigned long long millijoules;

    if (!management || !management->energy ||
        management->energy(management->device, &millijoules) != MANAGEMENT_SUCCESS)
        return NAN;
    return 1e-3 * (double)millijoules;
}
