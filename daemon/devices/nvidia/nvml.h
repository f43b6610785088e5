/* nvml.h: the part of NVIDIA's management library that traind calls, loaded at run time: neither
 * its header nor the library is needed to build traind, and a machine without them has no NVIDIA
 * device. Names, values and layouts are those of NVIDIA's NVML API reference
 * (https://docs.nvidia.com/deploy/nvml-api/); every call may block for milliseconds, so only the
 * probe's thread makes them. */
#pragma once

#include "base/error.h"

/* Handles are opaque. */
typedef struct nvml_device_handle *nvml_device;
typedef struct nvml_event_set_handle *nvml_event_set;

/* nvmlReturn_t */
enum nvml_result {
    NVML_SUCCESS = 0,
    NVML_ERROR_UNINITIALIZED = 1,
    NVML_ERROR_INVALID_ARGUMENT = 2,
    NVML_ERROR_NOT_SUPPORTED = 3,
    NVML_ERROR_NO_PERMISSION = 4,
    NVML_ERROR_NOT_FOUND = 6,
    NVML_ERROR_INSUFFICIENT_SIZE = 7,
    NVML_ERROR_DRIVER_NOT_LOADED = 9,
    NVML_ERROR_TIMEOUT = 10,
    NVML_ERROR_FUNCTION_NOT_FOUND = 13,
    NVML_ERROR_GPU_IS_LOST = 15,
    NVML_ERROR_RESET_REQUIRED = 16,
    NVML_ERROR_UNKNOWN = 999
};

enum {
    NVML_UUID_SIZE = 96, /* NVML_DEVICE_UUID_V2_BUFFER_SIZE */
    NVML_NAME_SIZE = 96, /* NVML_DEVICE_NAME_V2_BUFFER_SIZE */
    NVML_VERSION_SIZE = 80,
    NVML_TEMPERATURE_GPU = 0,
    NVML_MEMORY_ERROR_UNCORRECTED = 1,
    NVML_VOLATILE_ECC = 0, /* since the driver was loaded */
    NVML_MIG_ENABLED = 1
};
#define NVML_INSTANCE_NONE 0xFFFFFFFFu /* of gpu_instance, where MIG is off */
#define NVML_MEMORY_UNKNOWN (~0ull)    /* NVML_VALUE_NOT_AVAILABLE */
#define NVML_MEMORY_V2 (sizeof(struct nvml_memory_v2) | 2u << 24) /* nvmlMemory_v2 */
#define NVML_EVENT_DOUBLE_BIT_ECC 0x2ull
#define NVML_EVENT_XID 0x8ull /* nvmlEventTypeXidCriticalError */

struct nvml_memory { /* nvmlMemory_t; bytes */
    unsigned long long total, free, used;
};

struct nvml_memory_v2 { /* nvmlMemory_v2_t: `used` leaves out what the driver keeps for itself */
    unsigned int version;
    unsigned long long total, reserved, free, used;
};

struct nvml_process { /* nvmlProcessInfo_v2_t, also of the _v3 calls */
    unsigned int pid;
    unsigned long long bytes;
    unsigned int gpu_instance, compute_instance;
};

struct nvml_utilization { /* nvmlUtilization_t: percent of the last sampling period */
    unsigned int gpu, memory;
};

struct nvml_event { /* nvmlEventData_t */
    nvml_device device;
    unsigned long long type, data; /* of NVML_EVENT_XID: the Xid */
    unsigned int gpu_instance, compute_instance;
};

/* The functions that are called: a member, its arguments, and the names to look for, the newest
 * first. An older version is used only where arguments and structures are the same. */
#define NVML_FUNCTIONS(ROW)                                                                       \
    ROW(init, (void), "nvmlInit_v2", "nvmlInit")                                                  \
    ROW(shutdown, (void), "nvmlShutdown", NULL)                                                   \
    ROW(driver_version, (char *text, unsigned int size), "nvmlSystemGetDriverVersion", NULL)      \
    ROW(cuda_version, (int *version), "nvmlSystemGetCudaDriverVersion_v2",                        \
        "nvmlSystemGetCudaDriverVersion")                                                         \
    ROW(device_count, (unsigned int *count), "nvmlDeviceGetCount_v2", "nvmlDeviceGetCount")       \
    ROW(device_by_index, (unsigned int index, nvml_device *device),                               \
        "nvmlDeviceGetHandleByIndex_v2", "nvmlDeviceGetHandleByIndex")                            \
    ROW(uuid, (nvml_device device, char *text, unsigned int size), "nvmlDeviceGetUUID", NULL)     \
    ROW(name, (nvml_device device, char *text, unsigned int size), "nvmlDeviceGetName", NULL)     \
    ROW(capability, (nvml_device device, int *major, int *minor),                                 \
        "nvmlDeviceGetCudaComputeCapability", NULL)                                               \
    ROW(memory, (nvml_device device, struct nvml_memory * memory), "nvmlDeviceGetMemoryInfo",     \
        NULL)                                                                                     \
    ROW(memory_v2, (nvml_device device, struct nvml_memory_v2 * memory),                          \
        "nvmlDeviceGetMemoryInfo_v2", NULL)                                                       \
    ROW(compute_processes,                                                                        \
        (nvml_device device, unsigned int *count, struct nvml_process *processes),                \
        "nvmlDeviceGetComputeRunningProcesses_v3", "nvmlDeviceGetComputeRunningProcesses_v2")     \
    ROW(graphics_processes,                                                                       \
        (nvml_device device, unsigned int *count, struct nvml_process *processes),                \
        "nvmlDeviceGetGraphicsRunningProcesses_v3", "nvmlDeviceGetGraphicsRunningProcesses_v2")   \
    ROW(utilization, (nvml_device device, struct nvml_utilization * utilization),                 \
        "nvmlDeviceGetUtilizationRates", NULL)                                                    \
    ROW(temperature, (nvml_device device, unsigned int sensor, unsigned int *celsius),            \
        "nvmlDeviceGetTemperature", NULL)                                                         \
    ROW(power, (nvml_device device, unsigned int *milliwatts), "nvmlDeviceGetPowerUsage", NULL)   \
    ROW(energy, (nvml_device device, unsigned long long *millijoules),                            \
        "nvmlDeviceGetTotalEnergyConsumption", NULL)                                              \
    ROW(ecc_errors,                                                                               \
        (nvml_device device, unsigned int type, unsigned int counter, unsigned long long *count), \
        "nvmlDeviceGetTotalEccErrors", NULL)                                                      \
    ROW(remapped_rows,                                                                            \
        (nvml_device device, unsigned int *corrected, unsigned int *uncorrected,                  \
         unsigned int *pending, unsigned int *failed),                                            \
        "nvmlDeviceGetRemappedRows", NULL)                                                        \
    ROW(retired_pages_pending, (nvml_device device, unsigned int *pending),                       \
        "nvmlDeviceGetRetiredPagesPendingStatus", NULL)                                           \
    ROW(mig_mode, (nvml_device device, unsigned int *current, unsigned int *pending),             \
        "nvmlDeviceGetMigMode", NULL)                                                             \
    ROW(mig_count_max, (nvml_device device, unsigned int *count),                                 \
        "nvmlDeviceGetMaxMigDeviceCount", NULL)                                                   \
    ROW(mig_by_index, (nvml_device device, unsigned int index, nvml_device *instance),            \
        "nvmlDeviceGetMigDeviceHandleByIndex", NULL)                                              \
    ROW(gpu_instance, (nvml_device instance, unsigned int *id), "nvmlDeviceGetGpuInstanceId",     \
        NULL)                                                                                     \
    ROW(event_set_create, (nvml_event_set * set), "nvmlEventSetCreate", NULL)                     \
    ROW(event_set_free, (nvml_event_set set), "nvmlEventSetFree", NULL)                           \
    ROW(supported_events, (nvml_device device, unsigned long long *types),                        \
        "nvmlDeviceGetSupportedEventTypes", NULL)                                                 \
    ROW(register_events, (nvml_device device, unsigned long long types, nvml_event_set set),      \
        "nvmlDeviceRegisterEvents", NULL)                                                         \
    ROW(event_wait, (nvml_event_set set, struct nvml_event * event, unsigned int milliseconds),   \
        "nvmlEventSetWait_v2", NULL)

struct nvml {
    void *library;
#define NVML_MEMBER(member, arguments, newest, older) int(*member) arguments;
    NVML_FUNCTIONS(NVML_MEMBER)
#undef NVML_MEMBER
};

/* Loads the library (a name for the dynamic linker, or a path). A function that it lacks answers
 * NVML_ERROR_FUNCTION_NOT_FOUND when called. -ENOENT: it is not there; -ENOSYS: it lacks what
 * nothing works without. */
int nvml_load(struct nvml *nvml, const char *library, struct error *error);
void nvml_unload(struct nvml *nvml);

/* What an enum nvml_result means, for the middle of a sentence. */
const char *nvml_result_text(int result);
