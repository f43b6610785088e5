/* health.c: decides which errors are the device's own: the driver's Xid events, memory errors that
 * could not be corrected, and rows of memory that could not be replaced. */
#include "daemon/devices/nvidia/internal.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

enum { EVENTS_AT_ONCE_MAX = 256 };

/* Xids after which NVIDIA's catalogue asks for a reset of the GPU or a restart of the machine
 * (https://docs.nvidia.com/deploy/xid-errors/analyzing-xid-catalog.html, "Resolution Bucket
 * (Immediate Action)" RESET_GPU and RESTART_BM, and the two workflows that lead there). The others
 * are faults of the program, or need nothing. */
static const struct {
    unsigned int number;
    const char *meaning;
} failures[] = {
    {46, "the GPU stopped processing"},
    {48, "a memory error could not be corrected"},
    {62, "an internal micro-controller halted"},
    {64, "a row of memory could not be replaced"},
    {74, "an NVLink connection failed"},
    {79, "the GPU has fallen off the bus"},
    {95, "a memory error was not contained"},
    {109, "a context switch timed out"},
    {110, "a security fault"},
    {119, "the GPU's system processor did not answer"},
    {120, "the GPU's system processor failed"},
    {136, "the training of a link failed"},
    {140, "a memory error could not be recovered from"},
    {143, "the GPU could not be initialised"},
    {156, "part of the GPU was retired"},
    {158, "the GPU timed out"},
};

const char *nvidia_xid_failure(uint64_t number)
{
    for (size_t i = 0; i < sizeof failures / sizeof *failures; i++)
        if (failures[i].number == number)
            return failures[i].meaning;
    return NULL;
}

static void __attribute__((format(printf, 2, 3)))
fail(struct known_device *known, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(known->failure, sizeof known->failure, format, arguments);
    va_end(arguments);
    known->failures++;
}

/* An error without an instance concerns all of the GPU's instances. */
static bool event_concerns(const struct nvml_event *event, const struct known_device *known)
{
    return event->device == known->handle ||
           (event->device == known->parent && (event->gpu_instance == NVML_INSTANCE_NONE ||
                                               event->gpu_instance == known->gpu_instance));
}

static void take_event(struct nvidia_probe *probe, const struct nvml_event *event)
{
    const char *meaning =
        event->type == NVML_EVENT_XID ? nvidia_xid_failure(event->data) : nvidia_xid_failure(48);

    for (size_t i = 0; meaning && i < probe->known_count; i++) {
        if (!event_concerns(event, &probe->known[i]))
            continue;
        if (event->type == NVML_EVENT_XID)
            fail(&probe->known[i], "The driver reports Xid %llu: %s.", event->data, meaning);
        else
            fail(&probe->known[i], "The driver reports that %s.", meaning);
    }
}

void nvidia_take_events(struct nvidia_probe *probe)
{
    struct nvml_event event;

    /* limited, so that a device that reports without end does not block the others */
    for (int i = 0; probe->events && i < EVENTS_AT_ONCE_MAX; i++) {
        event = (struct nvml_event){.gpu_instance = NVML_INSTANCE_NONE};
        if (probe->nvml.event_wait(probe->events, &event, 0) != NVML_SUCCESS)
            return;
        if (event.type == NVML_EVENT_XID || event.type == NVML_EVENT_DOUBLE_BIT_ECC)
            take_event(probe, &event);
    }
}

void nvidia_read_errors(struct nvidia_probe *probe, struct known_device *known,
                        struct nvidia_device *device)
{
    const struct nvml *nvml = &probe->nvml;
    unsigned int corrected, uncorrected, pending = 0, failed = 0;
    unsigned long long count;

    if (nvml->ecc_errors(known->handle, NVML_MEMORY_ERROR_UNCORRECTED, NVML_VOLATILE_ECC, &count) ==
        NVML_SUCCESS) {
        device->ecc_errors = (int64_t)count;
        if (known->ecc_counted && device->ecc_errors > known->ecc_errors)
            fail(known,
                 "%" PRId64 " memory errors could not be corrected since the driver was "
                 "loaded.",
                 device->ecc_errors);
        known->ecc_counted = true;
        known->ecc_errors = device->ecc_errors;
    }
    if (nvml->remapped_rows(known->handle, &corrected, &uncorrected, &pending, &failed) !=
        NVML_SUCCESS)
        pending = failed = 0;
    if (failed && !known->remapping_failed)
        fail(known, "Rows of its memory failed and could not be replaced.");
    known->remapping_failed = failed;
    if (pending == 0 && nvml->retired_pages_pending(known->handle, &pending) != NVML_SUCCESS)
        pending = 0;
    if (pending)
        snprintf(device->health_reason, sizeof device->health_reason,
                 "Memory that failed is set aside at the next reset of the GPU.");
}
