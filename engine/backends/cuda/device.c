/* device.c: a GPU: its context, its stream, its memory. */
#include "base/alignment.h"
#include "base/clock.h"
#include "engine/backends/cuda/cuda.h"
#include "engine/backends/cuda/cudnn.h"
#include "engine/backends/cuda/linear_search.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* cudaMemset() would return before it is done, and our streams would not wait for its stream. */
static cudaError_t clear(const struct backend_device *device, void *start, size_t bytes)
{
    cudaError_t status = cudaMemsetAsync(start, 0, bytes, device->stream);

    return status == cudaSuccess ? cudaStreamSynchronize(device->stream) : status;
}

static int open_context(struct backend_device *device, struct error *error)
{
    struct cudaDeviceProp properties;
    cudaError_t status = cudaSetDevice(device->index);

    if (status == cudaSuccess)
        status = cudaGetDeviceProperties(&properties, device->index);
    if (status == cudaSuccess)
        status = cudaStreamCreateWithFlags(&device->stream, cudaStreamNonBlocking);
    if (status == cudaSuccess)
        status =
            cudaMalloc((void **)&device->controls, CUDA_PROGRAMS_MAX * sizeof(struct cuda_control));
    if (status == cudaSuccess)
        status = clear(device, device->controls, CUDA_PROGRAMS_MAX * sizeof(struct cuda_control));
    if (status == cudaSuccess)
        status = queue_create(&device->queue);
    if (status == cudaSuccess)
        status = cuda_code_major(&device->code_major);
    if (status != cudaSuccess)
        return cuda_fail(error, status, "the GPU cannot be used");
    snprintf(device->model, sizeof device->model, "%.127s", properties.name);
    device->capability[0] = properties.major;
    device->capability[1] = properties.minor;
    device->memory_bytes = properties.totalGlobalMem;
    device->multiprocessors = properties.multiProcessorCount;
    return 0;
}

static void *load_library(void *unused)
{
    (void)unused;
    return cublaslt_load();
}

/* Opens the context while a thread loads the library of matrix products. cuInit(), which the first
 * call of CUDA runs, has to come before. It loads libraries itself, which only one thread at a time
 * can do, and would wait for all of cuBLASLt. */
static int open_context_and_library(struct backend_device *device, struct error *error)
{
    double begin = clock_monotonic(), middle;
    void *loaded = NULL;
    pthread_t loader;
    bool loading;
    int count, r;

    cudaGetDeviceCount(&count);
    loading = pthread_create(&loader, NULL, load_library, NULL) == 0;
    r = open_context(device, error);
    middle = clock_monotonic();
    if (loading)
        pthread_join(loader, &loaded);
    if (r == 0)
        r = cublaslt_open(&device->cublaslt, error);
    if (loaded)
        dlclose(loaded);
    device->context_seconds = middle - begin;
    device->library_seconds = clock_monotonic() - middle;
    return r;
}

int cuda_device_open(const struct backend_device_config *config, struct backend_device **device,
                     struct error *error)
{
    struct backend_device *opened = calloc(1, sizeof *opened);
    int r;

    if (!opened)
        return error_no_memory(error, "the device");
    opened->index = config->index;
    if (config->cache_folder && !(opened->cache_folder = strdup(config->cache_folder))) {
        free(opened);
        return error_no_memory(error, "the device");
    }
    if (config->name)
        snprintf(opened->name, sizeof opened->name, "%s", config->name);
    else
        snprintf(opened->name, sizeof opened->name, "cuda:%d", config->index);
    r = open_context_and_library(opened, error);
    if (r < 0) {
        cuda_device_close(opened);
        return r;
    }
    opened->management = management_begin(opened->index);
    *device = opened;
    return 0;
}

void cuda_device_close(struct backend_device *device)
{
    if (!device)
        return;
    convolution_close_library(device);
    linear_search_close(device);
    management_free(device->management);
    cublaslt_close(device->cublaslt);
    free(device->cache_folder);
    queue_free(&device->queue);
    if (device->controls)
        cudaFree(device->controls);
    if (device->stream)
        cudaStreamDestroy(device->stream);
    free(device);
}

/* CUDA keeps for each thread the device that it uses. */
int cuda_device_enter(struct backend_device *device, const char *cache_folder, struct error *error)
{
    cudaError_t status = cudaSetDevice(device->index);

    if (cache_folder) {
        free(device->cache_folder);
        device->cache_folder = strdup(cache_folder);
        if (!device->cache_folder)
            return error_no_memory(error, "the path of the cache");
    }
    return status == cudaSuccess ? 0 : cuda_fail(error, status, "the GPU cannot be used");
}

/* CUDA C++ Programming Guide 13.0, section "Warp Matrix Functions": element types by capability. */
static unsigned tensor_core_types(const struct backend_device *device)
{
    int major = device->capability[0];

    return (major >= 7 ? 1u << TENSOR_FLOAT16 : 0) |
           (major >= 8 ? 1u << TENSOR_BFLOAT16 | 1u << TENSOR_TF32 : 0);
}

/* How many floating-point operations one multiprocessor does in one clock, by type. From NVIDIA's
 * architecture papers (Turing, Ampere GA100 and GA10x, Ada, Hopper): dense, with sums in float32.
 * Later architectures count as Hopper, which they exceed. */
static void peak_operations(const int capability[2], double operations[TENSOR_INT32])
{
    bool hopper = capability[0] >= 9, small = capability[1] > 0 && !hopper;
    double tensor = hopper ? 4096 : capability[0] == 8 && !small ? 2048 : 1024;

    operations[TENSOR_FLOAT32] = hopper || (capability[0] == 8 && small) ? 256 : 128;
    operations[TENSOR_FLOAT16] = tensor;
    operations[TENSOR_BFLOAT16] = capability[0] >= 8 ? tensor : operations[TENSOR_FLOAT32];
    operations[TENSOR_TF32] = capability[0] >= 8 ? tensor / 2 : operations[TENSOR_FLOAT32];
}

static void describe_peak(const struct backend_device *device, struct backend_device_info *info)
{
    int processors = 0, kilohertz = 0, memory_kilohertz = 0, bus_bits = 0;
    double operations[TENSOR_INT32];

    cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device->index);
    cudaDeviceGetAttribute(&kilohertz, cudaDevAttrClockRate, device->index);
    cudaDeviceGetAttribute(&memory_kilohertz, cudaDevAttrMemoryClockRate, device->index);
    cudaDeviceGetAttribute(&bus_bits, cudaDevAttrGlobalMemoryBusWidth, device->index);
    /* two transfers in each clock */
    info->peak_bytes_per_second = 2.0 * 1e3 * memory_kilohertz * bus_bits / 8;
    peak_operations(device->capability, operations);
    for (int i = 0; i < TENSOR_INT32; i++)
        info->peak_flops[i] = operations[i] * processors * 1e3 * kilohertz;
}

void cuda_device_describe(struct backend_device *device, struct backend_device_info *info)
{
    unsigned fast = tensor_core_types(device);
    int runtime = 0, driver = 0;
    char products[64], convolutions[64];

    *info = (struct backend_device_info){
        .threads = 1,
        .memory_bytes = device->memory_bytes,
        .owns_memory = true,
        .rounds_parameters = true,
        .compute_types = 1u << TENSOR_FLOAT32 | fast,
        .fast_linear_types = fast,
        .fast_convolution_types = fast,
        .opening = {{"context", device->context_seconds}, {"libraries", device->library_seconds}}};
    describe_peak(device, info);
    cudaRuntimeGetVersion(&runtime);
    cudaDriverGetVersion(&driver);
    cublaslt_describe(device->cublaslt, products, sizeof products);
    cudnn_describe(convolutions, sizeof convolutions);
    snprintf(info->name, sizeof info->name, "%s", device->name);
    snprintf(info->model, sizeof info->model, "%s", device->model);
    snprintf(info->features, sizeof info->features, "sm_%d%d", device->capability[0],
             device->capability[1]);
    snprintf(info->versions, sizeof info->versions, "CUDA %d.%d, driver for %d.%d, %s, %s",
             runtime / 1000, runtime % 1000 / 10, driver / 1000, driver % 1000 / 10, products,
             convolutions);
}

/* ---- memory ---------------------------------------------------------------------------------- */

/* The host's address space costs nothing until it is written. Only the place of batches is. */
static struct backend_buffer *allocate_buffer(size_t bytes)
{
    struct backend_buffer *buffer = calloc(1, sizeof *buffer);

    if (!buffer)
        return NULL;
    buffer->bytes = bytes;
    buffer->host = mmap(NULL, bytes ? bytes : 1, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (buffer->host != MAP_FAILED)
        return buffer;
    free(buffer);
    return NULL;
}

int cuda_buffer_reserve(struct backend_device *device, size_t bytes, struct backend_buffer **buffer,
                        struct error *error)
{
    (void)device;
    *buffer = allocate_buffer(bytes);
    return *buffer ? 0 : error_no_memory(error, "a buffer");
}

int cuda_buffer_create(struct backend_device *device, size_t bytes, struct backend_buffer **buffer,
                       struct error *error)
{
    int r = cuda_buffer_reserve(device, bytes, buffer, error);
    cudaError_t status;

    if (r < 0)
        return r;
    status = cudaMalloc((void **)&(*buffer)->start, bytes ? bytes : 1);
    if (status == cudaSuccess)
        status = clear(device, (*buffer)->start, bytes);
    if (status == cudaSuccess)
        return 0;
    cuda_buffer_free(*buffer);
    *buffer = NULL;
    return cuda_fail(error, status, "the run's memory on the GPU");
}

void cuda_buffer_free(struct backend_buffer *buffer)
{
    if (!buffer)
        return;
    if (buffer->staged_bytes)
        cudaHostUnregister(buffer->host + buffer->staged_offset);
    if (buffer->start)
        cudaFree(buffer->start);
    munmap(buffer->host, buffer->bytes ? buffer->bytes : 1);
    free(buffer);
}

void *cuda_buffer_host(struct backend_buffer *buffer)
{
    return buffer->host;
}

int cuda_buffer_stage(struct backend_buffer *buffer, size_t offset, size_t bytes,
                      struct error *error)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t first = offset / page * page, end = align_up(offset + bytes, page);
    size_t mapped = align_up(buffer->bytes, page);
    cudaError_t status;

    if (!buffer->start || buffer->staged_bytes)
        return 0;
    if (end > mapped)
        return error_set(error, -EINVAL, "batches cannot be staged beyond the buffer");
    status = cudaHostRegister(buffer->host + first, end - first, cudaHostRegisterDefault);
    /* too little memory may be page-locked, so batches take the slower way */
    if (status != cudaSuccess) {
        cudaGetLastError();
        return 0;
    }
    buffer->staged_offset = first;
    buffer->staged_bytes = end - first;
    return 0;
}

char *buffer_arrival(const struct backend_buffer *buffer, const void *host, size_t bytes)
{
    const char *first = buffer->host + buffer->staged_offset, *from = host;

    if (from < first || from + bytes > first + buffer->staged_bytes)
        return NULL;
    return buffer->start + (from - buffer->host);
}
