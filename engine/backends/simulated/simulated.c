/* simulated.c: a device that does not exist. It computes on the CPU, with the same bits, and has
 * the memory and the speed that its configuration says.
 *
 * Its clock advances by the time that each run takes according to the configuration. If the CPU is
 * faster, the run waits for the rest, so that the wall clock agrees. If the CPU is slower, the
 * clock falls behind the wall clock. Between runs, both advance at the same pace. */
#include "base/clock.h"
#include "engine/backends/backend.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Shorter waits are added up: to fall asleep and wake up takes some 60 microseconds by itself. */
static const double shortest_wait = 1e-3;

struct backend_device {
    struct simulated_device_config config;
    const struct backend *real;
    struct backend_device *device; /* of `real`, as everything called so in this struct */
    uint64_t used;                 /* bytes of buffers */
    double behind;                 /* by how much the CPU was slower, in total */
    double owed;                   /* how long it still has to wait */
    struct profile_recorder *recorder;
};

struct backend_program {
    struct backend_device *owner;
    struct backend_program *program;
    const struct graph *graph;
    double *node_seconds; /* owned */
    double phase_seconds[GRAPH_UPDATE + 1];
};

struct backend_buffer {
    struct backend_device *owner;
    struct backend_buffer *buffer;
    uint64_t bytes;
};

/* ---- the clock ---- */

static double device_seconds(struct backend_device *device)
{
    return clock_monotonic() - device->behind + device->owed;
}

static void wait_seconds(double seconds)
{
    struct timespec left = {.tv_sec = (time_t)seconds};

    left.tv_nsec = (long)((seconds - (double)left.tv_sec) * 1e9);
    while (nanosleep(&left, &left) < 0 && errno == EINTR)
        ;
}

/* The run took `took` on the CPU and takes `takes` on the device. */
static void advance(struct backend_device *device, double took, double takes)
{
    double before;

    if (takes < took) {
        device->behind += took - takes;
        return;
    }
    device->owed += takes - took;
    if (device->owed < shortest_wait)
        return;
    before = clock_monotonic();
    wait_seconds(device->owed);
    device->owed -= clock_monotonic() - before;
}

/* ---- the device ---- */

static void device_close(struct backend_device *device)
{
    if (!device)
        return;
    device->real->device_close(device->device);
    free(device);
}

static int device_open(const struct backend_device_config *config, struct backend_device **device,
                       struct error *error)
{
    struct backend_device_config real = *config;
    struct backend_device *opened;
    int r;

    if (!config->simulated)
        return error_set(error, -EINVAL, "a simulated device needs its configuration");
    opened = calloc(1, sizeof *opened);
    if (!opened)
        return error_no_memory(error, "the device");
    opened->config = *config->simulated;
    opened->real = backend_cpu();
    real.simulated = NULL;
    r = opened->real->device_open(&real, &opened->device, error);
    if (r < 0) {
        free(opened);
        return r;
    }
    *device = opened;
    return 0;
}

static void device_describe(struct backend_device *device, struct backend_device_info *info)
{
    char model[sizeof info->model];

    device->real->device_describe(device->device, info);
    memcpy(model, info->model, sizeof model);
    snprintf(info->name, sizeof info->name, "%s", device->config.name);
    snprintf(info->model, sizeof info->model, "simulated on %.100s", model);
    info->memory_bytes = device->config.memory_bytes;
    info->owns_memory = true;
}

static void device_trim(struct backend_device *device)
{
    device->real->device_trim(device->device);
}

static int device_choose_convolutions(struct backend_device *device, const char *direct,
                                      struct error *error)
{
    return device->real->device_choose_convolutions(device->device, direct, error);
}

/* ---- memory ---- */

static int make_buffer(struct backend_device *device, size_t bytes,
                       int (*make)(struct backend_device *, size_t, struct backend_buffer **,
                                   struct error *),
                       struct backend_buffer **buffer, struct error *error)
{
    struct backend_buffer *made;
    int r;

    if (bytes > device->config.memory_bytes - device->used)
        return error_set(error, -ERROR_DEVICE_MEMORY,
                         "the run needs %.1f MiB of the memory of %s, which has %.1f MiB; reduce "
                         "the batch size",
                         (double)bytes / 0x1p20, device->config.name,
                         (double)(device->config.memory_bytes - device->used) / 0x1p20);
    made = calloc(1, sizeof *made);
    if (!made)
        return error_no_memory(error, "a buffer");
    r = make(device->device, bytes, &made->buffer, error);
    if (r < 0) {
        free(made);
        return r;
    }
    made->owner = device;
    made->bytes = bytes;
    device->used += bytes;
    *buffer = made;
    return 0;
}

static int buffer_create(struct backend_device *device, size_t bytes,
                         struct backend_buffer **buffer, struct error *error)
{
    return make_buffer(device, bytes, device->real->buffer_create, buffer, error);
}

static int buffer_reserve(struct backend_device *device, size_t bytes,
                          struct backend_buffer **buffer, struct error *error)
{
    return make_buffer(device, bytes, device->real->buffer_reserve, buffer, error);
}

static void buffer_free(struct backend_buffer *buffer)
{
    if (!buffer)
        return;
    buffer->owner->used -= buffer->bytes;
    buffer->owner->real->buffer_free(buffer->buffer);
    free(buffer);
}

static void *buffer_host(struct backend_buffer *buffer)
{
    return buffer->owner->real->buffer_host(buffer->buffer);
}

/* ---- programs ---- */

static void program_free(struct backend_program *program)
{
    if (!program)
        return;
    program->owner->real->program_free(program->program);
    free(program->node_seconds);
    free(program);
}

static void program_describe(const struct backend_program *program, int32_t node,
                             struct node_description *description)
{
    program->owner->real->program_describe(program->program, node, description);
}

static void time_nodes(struct backend_program *program)
{
    const struct simulated_device_config *config = &program->owner->config;

    for (int32_t i = 0; i < program->graph->node_count; i++) {
        struct node_description description;

        program_describe(program, i, &description);
        program->node_seconds[i] =
            config->node_seconds(config->context, program->graph, i, &description);
        program->phase_seconds[program->graph->nodes[i].phase] += program->node_seconds[i];
    }
}

static int program_prepare(struct backend_device *device, const struct graph *graph,
                           const struct backend_program *shared, struct backend_program **program,
                           struct error *error)
{
    struct backend_program *made = calloc(1, sizeof *made);
    int r;

    if (!made)
        return error_no_memory(error, "a program");
    r = device->real->program_prepare(device->device, graph, shared ? shared->program : NULL,
                                      &made->program, error);
    if (r < 0) {
        free(made);
        return r;
    }
    made->owner = device;
    made->graph = graph;
    made->node_seconds = calloc((size_t)graph->node_count + 1, sizeof *made->node_seconds);
    if (!made->node_seconds) {
        program_free(made);
        return error_no_memory(error, "a program");
    }
    time_nodes(made);
    *program = made;
    return 0;
}

static void program_memory(const struct backend_program *program, struct memory_request *request)
{
    program->owner->real->program_memory(program->program, request);
}

static int program_bind(struct backend_program *program, const struct memory_placement *placement,
                        struct backend_buffer *buffer, struct error *error)
{
    return program->owner->real->program_bind(program->program, placement, buffer->buffer, error);
}

static int tensor_write(struct backend_program *program, int32_t tensor, const void *canonical,
                        struct error *error)
{
    return program->owner->real->tensor_write(program->program, tensor, canonical, error);
}

static int tensor_read(struct backend_program *program, int32_t tensor, void *canonical,
                       struct error *error)
{
    return program->owner->real->tensor_read(program->program, tensor, canonical, error);
}

static int program_set_input(struct backend_program *program, int32_t tensor, const void *canonical,
                             struct error *error)
{
    return program->owner->real->program_set_input(program->program, tensor, canonical, error);
}

static bool program_update_skipped(struct backend_program *program)
{
    return program->owner->real->program_update_skipped(program->program);
}

/* Records one node after the other, from `begin` on the device's clock. */
static void record(const struct backend_program *program, unsigned phases, double begin)
{
    struct profile_recorder *recorder = program->owner->recorder;
    struct profile_lane *lane = &recorder->lanes[0];
    double at = begin;

    for (int phase = 0; phase <= GRAPH_UPDATE; phase++)
        if (phases >> phase & 1)
            recorder->phase_nanoseconds[phase] += (int64_t)(program->phase_seconds[phase] * 1e9);
    for (int32_t i = 0; recorder->keeps_events && i < program->graph->node_count; i++) {
        const struct graph_node *node = &program->graph->nodes[i];
        double end = at + program->node_seconds[i];

        if (!(phases >> node->phase & 1) || lane->count == lane->capacity)
            continue;
        lane->events[lane->count++] =
            (struct profile_event){(int64_t)(at * 1e9), (int64_t)(end * 1e9), i, 0};
        at = end;
    }
}

static int program_run(struct backend_program *program, unsigned phases,
                       const struct step_scalars *scalars, struct error *error)
{
    struct backend_device *device = program->owner;
    double begin = clock_monotonic(), begin_here = begin - device->behind + device->owed;
    double takes = 0;
    int r = device->real->program_run(program->program, phases, scalars, error);

    for (int phase = 0; phase <= GRAPH_UPDATE; phase++)
        takes += phases >> phase & 1 ? program->phase_seconds[phase] : 0;
    if (device->recorder)
        record(program, phases, begin_here);
    advance(device, clock_monotonic() - begin, takes);
    return r;
}

static void device_profile(struct backend_device *device, struct profile_recorder *recorder)
{
    device->recorder = recorder;
}

static int64_t program_profile_events(const struct backend_program *program)
{
    return program->graph->node_count;
}

static void program_reset_metrics(struct backend_program *program)
{
    program->owner->real->program_reset_metrics(program->program);
}

static void program_read_metrics(struct backend_program *program, struct step_metrics *metrics)
{
    const double told = 1 + program->owner->config.loss_error;

    program->owner->real->program_read_metrics(program->program, metrics);
    metrics->loss_sum *= told;
    metrics->last_loss *= told;
}

static void program_restore_metrics(struct backend_program *program,
                                    const struct step_metrics *metrics)
{
    const double told = 1 + program->owner->config.loss_error;
    struct step_metrics own = *metrics;

    own.loss_sum /= told;
    own.last_loss /= told;
    program->owner->real->program_restore_metrics(program->program, &own);
}

const struct backend *backend_simulated(void)
{
    static const struct backend backend = {
        .interface_version = BACKEND_INTERFACE_VERSION,
        .name = "simulated",
        .device_open = device_open,
        .device_close = device_close,
        .device_describe = device_describe,
        .device_seconds = device_seconds,
        .device_trim = device_trim,
        .device_choose_convolutions = device_choose_convolutions,
        .program_prepare = program_prepare,
        .program_free = program_free,
        .program_memory = program_memory,
        .program_describe = program_describe,
        .buffer_create = buffer_create,
        .buffer_reserve = buffer_reserve,
        .buffer_free = buffer_free,
        .buffer_host = buffer_host,
        .program_bind = program_bind,
        .tensor_write = tensor_write,
        .tensor_read = tensor_read,
        .program_set_input = program_set_input,
        .program_run = program_run,
        .program_update_skipped = program_update_skipped,
        .device_profile = device_profile,
        .program_profile_events = program_profile_events,
        .program_reset_metrics = program_reset_metrics,
        .program_read_metrics = program_read_metrics,
        .program_restore_metrics = program_restore_metrics,
    };

    return &backend;
}
