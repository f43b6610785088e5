/* job_environment.c: see job_environment.h. Only variables that exist are set:
 * CUDA_VISIBLE_DEVICES, CUDA_DEVICE_ORDER: CUDA C++ Programming Guide, "CUDA Environment
 * Variables". PYTORCH_CUDA_ALLOC_CONF, since 2.9 PYTORCH_ALLOC_CONF:
 * docs.pytorch.org/docs/stable/notes/cuda.html; garbage_collection_threshold is understood
 * since 1.12, while a key that a release does not know is an error there. PYTORCH_MPS_*:
 * docs.pytorch.org/docs/stable/mps_environment_variables.html. XLA_PYTHON_CLIENT_*:
 * docs.jax.dev/en/latest/gpu_memory_allocation.html. TF_FORCE_GPU_ALLOW_GROWTH:
 * www.tensorflow.org/guide/gpu. */
#include "daemon/attempts/job_environment.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { LIST_MAX = 2048 };

static void add(struct json_object *variables, const char *name, const char *value)
{
    if (strncmp(name, "TRAIND_", 7) == 0 || !json_object_object_get_ex(variables, name, NULL))
        json_set_string(variables, name, value);
}

static void add_bytes(struct json_object *variables, const char *name, uint64_t bytes)
{
    char text[24];

    snprintf(text, sizeof text, "%" PRIu64, bytes);
    if (bytes)
        add(variables, name, text);
}

/* "GPU-a,GPU-b": what the devices of a kind are called, or all of them with `kind` -1. */
static void list_devices(const struct job_environment *environment, int kind, bool ids,
                         char text[LIST_MAX])
{
    size_t used = 0;

    text[0] = '\0';
    for (int i = 0; i < environment->device_count && used < LIST_MAX; i++) {
        const struct job_environment_device *device = &environment->devices[i];

        if (kind < 0 || (int)device->kind == kind)
            used += (size_t)snprintf(text + used, LIST_MAX - used, "%s%s", used ? "," : "",
                                     ids ? device->id : device->name);
    }
}

/* What it is, whatever runs there. */
static void add_facts(const struct job_environment *environment, struct json_object *variables)
{
    char text[LIST_MAX];

    list_devices(environment, -1, false, text);
    add(variables, "TRAIND_DEVICE", text[0] ? text : "cpu");
    snprintf(text, sizeof text, "%" PRId64, environment->attempt - 1);
    add(variables, "TRAIND_RESUME", text);
    add_bytes(variables, "TRAIND_MEMORY", environment->memory);
    add_bytes(variables, "TRAIND_DEVICE_MEMORY", environment->device_memory);
    if (environment->checkpoint_directory)
        add(variables, "TRAIND_CHECKPOINT_DIRECTORY", environment->checkpoint_directory);
}

/* Without them every library of numbers would take all cores of the machine. */
static void add_threads(const struct job_environment *environment, struct json_object *variables)
{
    char text[16];

    snprintf(text, sizeof text, "%d", environment->cores);
    add(variables, "OMP_NUM_THREADS", text);
    add(variables, "MKL_NUM_THREADS", text);
    add(variables, "OPENBLAS_NUM_THREADS", text);
}

/* JAX and TensorFlow take nearly a whole GPU at once unless they are told not to. */
static void add_cuda(struct json_object *variables, const char *ids)
{
    add(variables, "CUDA_VISIBLE_DEVICES", ids); /* empty: none, so that nothing wanders to one */
    if (!ids[0])
        return;
    add(variables, "CUDA_DEVICE_ORDER", "PCI_BUS_ID");
    add(variables, "XLA_PYTHON_CLIENT_PREALLOCATE", "false");
    add(variables, "TF_FORCE_GPU_ALLOW_GROWTH", "true");
}

/* The part of the device's memory that is booked: PyTorch gives back what it caches beyond it
 * before it takes more, and what was declared is the most that JAX takes. */
static void add_memory(const struct job_environment *environment, struct json_object *variables)
{
    const struct job_environment_device *device = environment->devices;
    char part[16], text[64];
    double ratio;

    if (environment->device_count == 0 || device->kind == DEVICE_CPU ||
        environment->device_memory == 0 || device->memory_total == 0)
        return;
    ratio = (double)environment->device_memory / (double)device->memory_total;
    ratio = ratio < 0.01 ? 0.01 : ratio > 0.99 ? 0.99 : ratio;
    snprintf(part, sizeof part, "%.3f", ratio);
    if (device->kind == DEVICE_CUDA) {
        snprintf(text, sizeof text, "garbage_collection_threshold:%s", part);
        add(variables, "PYTORCH_CUDA_ALLOC_CONF", text);
        add(variables, "PYTORCH_ALLOC_CONF", text);
        /* JAX refuses to begin with both its old name and the new one */
        if (environment->device_memory_declared &&
            !json_object_object_get_ex(variables, "XLA_CLIENT_MEM_FRACTION", NULL))
            add(variables, "XLA_PYTHON_CLIENT_MEM_FRACTION", part);
    }
    /* the low one must not be above the high one, and is so by default */
    add(variables, "PYTORCH_MPS_HIGH_WATERMARK_RATIO", part);
    add(variables, "PYTORCH_MPS_LOW_WATERMARK_RATIO", part);
}

void job_environment_add(const struct job_environment *environment, struct json_object *variables)
{
    char ids[LIST_MAX];

    list_devices(environment, DEVICE_CUDA, true, ids);
    add_facts(environment, variables);
    add_threads(environment, variables);
    add_cuda(variables, ids);
    add_memory(environment, variables);
}

void job_environment_add_device(const struct job_environment *environment,
                                struct json_object *variables)
{
    char ids[LIST_MAX];

    list_devices(environment, DEVICE_CUDA, true, ids);
    if (!ids[0])
        return;
    json_set_string(variables, "CUDA_VISIBLE_DEVICES", ids);
    json_set_string(variables, "CUDA_DEVICE_ORDER", "PCI_BUS_ID");
}
