/* device.c: the CPU as a device: its threads, kernels and memory, and the backend's table. */
#include "base/text.h"
#include "engine/backends/cpu/convolution_method.h"
#include "engine/backends/cpu/convolution_planes.h"
#include "engine/backends/cpu/instructions.h"
#include "engine/backends/cpu/limits.h"
#include "engine/backends/cpu/program.h"

#include <errno.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { THREADS_MAX = 1024 };

static const char cgroup_root[] = "/sys/fs/cgroup", cgroup_membership[] = "/proc/self/cgroup";

static void device_close(struct backend_device *device)
{
    if (!device)
        return;
    thread_team_free(device->team);
    onednn_close(device->onednn);
    free(device);
}

/* Makes subnormal numbers 0, as operands and as results, in every thread that computes, including
 * the caller of device_open(). Operations on them are slow, and the moments of Adam for inactive
 * units become subnormal within a thousand steps. That doubled the step of an MLP
 * 558-64-328-208-72-10, from 0.2 ms to 0.4 ms. */
static void flush_denormal_numbers(void)
{
#if defined(__x86_64__)
    enum { FLUSH_TO_ZERO = 1 << 15, DENORMALS_ARE_ZERO = 1 << 6 };

    __builtin_ia32_ldmxcsr(__builtin_ia32_stmxcsr() | FLUSH_TO_ZERO | DENORMALS_ARE_ZERO);
#elif defined(__aarch64__)
    enum { FLUSH_TO_ZERO = 1 << 24 };

    __builtin_aarch64_set_fpcr(__builtin_aarch64_get_fpcr() | FLUSH_TO_ZERO);
#endif
}

static void thread_begin(void)
{
    onednn_thread_begin();
    flush_denormal_numbers();
}

static int device_open(const struct backend_device_config *config, struct backend_device **device,
                       struct error *error)
{
    struct backend_device *opened;
    int result;

    if (config->index != 0)
        return error_set(error, -ENODEV, "there is one CPU device, cpu; not number %d",
                         config->index);
    if (config->threads < 0 || config->threads > THREADS_MAX)
        return error_set(error, -EINVAL, "%d threads; 1 to %d are possible, 0 for all cores",
                         config->threads, THREADS_MAX);
    opened = calloc(1, sizeof(*opened));
    if (!opened)
        return error_no_memory(error, "the device");
    opened->threads =
        config->threads ? config->threads : limits_cores(cgroup_root, cgroup_membership);
    opened->operators = &cpu_operators;
    opened->kernels = *kernels_available();
    opened->native_types = 1u << TENSOR_FLOAT32;
    if (onednn_bfloat16() == ONEDNN_BFLOAT16_FAST)
        opened->native_types |= 1u << TENSOR_BFLOAT16;
    opened->compute_types = opened->native_types;
    if (config->emulate_precision)
        opened->compute_types |= 1u << TENSOR_BFLOAT16 | 1u << TENSOR_FLOAT16;
    opened->amx = strstr(onednn_bfloat16_features(), "amx") != NULL && cpu_request_amx();
    opened->tiles = opened->amx;
    opened->cache_bytes = limits_cache();
    opened->int8 = cpu_int8_instructions(opened->kernels);
    opened->image_block = strcmp(opened->kernels->level, "v4") == 0 ? 16 : 8;
    result = thread_team_create(opened->threads, thread_begin, &opened->team, error);
    if (!result)
        result = onednn_open(opened->threads, &opened->onednn, error);
    if (result) {
        device_close(opened);
        return result;
    }
    *device = opened;
    return 0;
}

/* The value of the first line "key : value" of /proc/cpuinfo. */
static void read_cpu_model(char *model, size_t size)
{
    char line[512];
    FILE *file = fopen("/proc/cpuinfo", "re");

    snprintf(model, size, "unknown");
    while (file && fgets(line, sizeof(line), file)) {
        char *value = strchr(line, ':');

        if (strncmp(line, "model name", 10) || !value)
            continue;
        value[strcspn(value, "\n")] = '\0';
        snprintf(model, size, "%s", value + 2);
        break;
    }
    if (file)
        fclose(file);
}

static void describe_features(char *features, size_t size)
{
    const char *bfloat16 = onednn_bfloat16_features();

    snprintf(features, size, "%s%s%s",
#if defined(__x86_64__)
             __builtin_cpu_supports("x86-64-v4")   ? "x86-64-v4 avx512"
             : __builtin_cpu_supports("x86-64-v3") ? "x86-64-v3 avx2 fma"
                                                   : "x86-64"
#else
             "baseline"
#endif
             ,
             *bfloat16 ? " " : "", bfloat16);
}

static void device_describe(struct backend_device *device, struct backend_device_info *info)
{
    memset(info, 0, sizeof(*info));
    snprintf(info->name, sizeof(info->name), "cpu");
    read_cpu_model(info->model, sizeof(info->model));
    describe_features(info->features, sizeof(info->features));
    onednn_version(info->versions, sizeof(info->versions));
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    /* sanitizers make code many times slower, so measurements of this build must not be used by
     * others */
    strncat(info->versions, ", sanitizer 1", sizeof info->versions - strlen(info->versions) - 1);
#endif
    info->threads = device->threads;
    info->compute_types = device->compute_types;
    info->rounds_parameters = true;
    /* Measured with AMX, as a part of the time in float32: an MLP of 2,048 units 0.4, ResNet-18 in
     * tiles 0.42. Convolutions outside of tiles took twice as long, because oneDNN uses AMX only
     * for channels-last images. */
    info->fast_linear_types = device->native_types & ~(1u << TENSOR_FLOAT32);
    info->fast_convolution_types = device->tiles ? info->fast_linear_types : 0;
    info->convolutions_are_fast = graph_suits_tiles;
    info->memory_bytes = limits_memory(cgroup_root, cgroup_membership);
}

/* Returns freed memory to the system, so that the process becomes as small as before. */
static void device_trim(struct backend_device *device)
{
    (void)device;
    onednn_trim();
    malloc_trim(0);
}

static int device_choose_convolutions(struct backend_device *device, const char *direct,
                                      struct error *error)
{
    int result = convolution_methods_check(direct, error);

    if (result)
        return result;
    snprintf(device->direct_convolutions, sizeof(device->direct_convolutions), "%s", direct);
    return 0;
}

static void convolution_methods(struct backend_device *device, const struct graph *graph,
                                const struct graph_node *node,
                                char methods[CONVOLUTION_METHODS_MAX])
{
    const struct conv_attributes *a = &node->attributes.conv;
    const int64_t *x = graph->tensors[node->input[0]].shape.extent;
    const int64_t *y = graph->tensors[node->output[0]].shape.extent;
    int64_t channels = x[1], out_channels = y[1];
    bool last = graph_orders_channels_last(device, graph);
    int block = device->image_block;
    bool whole = channels % block == 0 && out_channels % block == 0;

    *methods++ = last ? CONVOLUTION_CHANNELS_LAST : CONVOLUTION_IN_BLOCKS;
    if (operator_functions_of(device->operators, graph, node)->prepare != convolution_prepare) {
        *methods = '\0'; /* the node is a linear layer */
        return;
    }
    /* without a choice, all but these convolutions are computed directly */
    if (last || (graph_node_is_dense_3x3(node) && whole))
        *methods++ = 'd';
    /* oneDNN pads the last block of all channels, but not the last block of a group */
    if ((last || !whole) && (a->groups == 1 || (channels / a->groups % block == 0 &&
                                                out_channels / a->groups % block == 0)))
        *methods++ = 'b';
    if (last || channels % 8 == 0 || out_channels % 8 == 0)
        *methods++ = 'n';
    if (!last)
        *methods++ = 'l';
    if (convolution_can_unfold(graph, node))
        *methods++ = 'u';
    *methods++ = 'p';
    if (planes_may_turn((channels * x[2] * x[3] + out_channels * y[2] * y[3]) / a->groups))
        *methods++ = 'q';
    if (a->groups == 1 && graph_slices_differ(device, graph)) {
        *methods++ = 'c';
        *methods++ = 'f';
    }
    *methods = '\0';
}

/* What device_share() hands over to the threads. */
struct share {
    void (*function)(void *context, int part, int parts);
    void *context;
    int parts;
};

static void run_share(void *context, int thread)
{
    const struct share *share = context;

    share->function(share->context, thread, share->parts);
}

static void device_share(struct backend_device *device,
                         void (*function)(void *context, int part, int parts), void *context)
{
    struct share share = {function, context, thread_team_size(device->team)};

    thread_team_run(device->team, share.parts, run_share, &share);
}

/* In tiles the product is 2 to 7 times as fast, depending on what runs on the core's other thread.
 * In vectors it would hardly be, because a weight is three integers. */
static bool multiplies_bytes(const struct backend_device *device, int64_t features)
{
    return device->int8 == INT8_AMX && features <= DIGITS_DEPTH_MOST;
}

static void device_divide(struct backend_device *device, int parts)
{
    device->tasks = parts;
}

enum { HUGE_PAGE = 2 << 20 };

/* Reserves address space for `bytes`, aligned to HUGE_PAGE so that huge pages fit. */
static int buffer_map(size_t bytes, int flags, struct backend_buffer **buffer, struct error *error)
{
    struct backend_buffer *created = calloc(1, sizeof(*created));
    char size[32];

    if (!created)
        return error_no_memory(error, "a buffer");
    created->bytes = bytes;
    created->mapped = bytes + HUGE_PAGE;
    created->mapping = mmap(NULL, created->mapped, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0);
    if (created->mapping == MAP_FAILED) {
        free(created);
        return error_no_memory(error, "the %s that the run needs; take a smaller model or batch",
                               text_format_bytes(bytes, size, sizeof size));
    }
    created->start =
        created->mapping + (HUGE_PAGE - (uintptr_t)created->mapping % HUGE_PAGE) % HUGE_PAGE;
    *buffer = created;
    return 0;
}

/* Uses huge pages if the system has them. On one core of a Sapphire Rapids, memory beyond the
 * second-level cache is then read at 27 instead of 17 GB/s, because addresses are translated
 * faster. The end that does not fill a huge page uses small pages, so no more memory is used than
 * asked for. */
static int buffer_create(struct backend_device *device, size_t bytes,
                         struct backend_buffer **buffer, struct error *error)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    int result = buffer_map(bytes, 0, buffer, error);

    (void)device;
    if (result)
        return result;
    if (bytes >= HUGE_PAGE)
        madvise((*buffer)->start, bytes / HUGE_PAGE * HUGE_PAGE, MADV_HUGEPAGE);
    /* touch each page now rather than within the first step */
    for (size_t i = 0; i < bytes; i += page)
        (*buffer)->start[i] = 0;
    return 0;
}

static int buffer_reserve(struct backend_device *device, size_t bytes,
                          struct backend_buffer **buffer, struct error *error)
{
    (void)device;
    return buffer_map(bytes, MAP_NORESERVE, buffer, error);
}

static void buffer_free(struct backend_buffer *buffer)
{
    if (!buffer)
        return;
    munmap(buffer->mapping, buffer->mapped);
    free(buffer);
}

static void *buffer_host(struct backend_buffer *buffer)
{
    return buffer->start;
}

static void program_reset_metrics(struct backend_program *program)
{
    memset(&program->metrics, 0, sizeof(program->metrics));
}

static void program_read_metrics(struct backend_program *program, struct step_metrics *metrics)
{
    *metrics = program->metrics;
}

static void program_restore_metrics(struct backend_program *program,
                                    const struct step_metrics *metrics)
{
    program->metrics = *metrics;
}

const struct backend *backend_cpu(void)
{
    static const struct backend backend = {
        .interface_version = BACKEND_INTERFACE_VERSION,
        .name = "cpu",
        .device_open = device_open,
        .device_close = device_close,
        .device_describe = device_describe,
        .device_trim = device_trim,
        .device_choose_convolutions = device_choose_convolutions,
        .convolution_methods = convolution_methods,
        .graph_parts = graph_parts,
        .graph_slices_differ = graph_slices_differ,
        .device_divide = device_divide,
        .device_share = device_share,
        .multiplies_bytes = multiplies_bytes,
        .program_prepare = cpu_program_prepare,
        .program_free = cpu_program_free,
        .program_memory = cpu_program_memory,
        .program_describe = cpu_program_describe,
        .buffer_create = buffer_create,
        .buffer_reserve = buffer_reserve,
        .buffer_free = buffer_free,
        .buffer_host = buffer_host,
        .program_bind = cpu_program_bind,
        .tensor_write = cpu_tensor_write,
        .tensor_read = cpu_tensor_read,
        .program_set_input = cpu_program_set_input,
        .program_run = cpu_program_run,
        .program_update_skipped = cpu_program_update_skipped,
        .device_profile = cpu_device_profile,
        .program_profile_events = cpu_program_profile_events,
        .program_reset_metrics = program_reset_metrics,
        .program_read_metrics = program_read_metrics,
        .program_restore_metrics = program_restore_metrics,
    };

    return &backend;
}
