/* data.c: data in the device's memory: how its parts are laid out in the arena, and how a batch is
 * made from them (shaders/batch.comp). */
#include "base/alignment.h"
#include "base/philox.h"
#include "engine/backends/vulkan/vulkan.h"

#include <stdlib.h>

/* shaders/shared.h has these numbers */
_Static_assert(BACKEND_UINT8 == BATCH_UINT8 && BACKEND_FLOAT32 == BATCH_FLOAT32 &&
                   BACKEND_INT32 == BATCH_INT32 && PHILOX_AUGMENTATION == BATCH_STREAM,
               "as in batch.comp");

enum { PART_ALIGNMENT = 256 };
/* Data and model share one allocation, and drivers limit its size (often to 4 GB): a set may take
 * this part of it. */
enum { ALLOCATION_SHARE = 4 };

/* The parts are stored in this order. */
enum data_part { PART_RAW, PART_TARGETS, PART_ORDERS, PART_MEAN, PART_FACTOR, PART_COUNT };

struct backend_data {
    struct backend_device *device;
    struct backend_data_config config;
    struct vulkan_memory *memory; /* of the buffer */
    size_t part[PART_COUNT];      /* places in it */
};

static size_t element_bytes(const struct backend_data_config *config)
{
    return config->element == BACKEND_UINT8 ? 1 : 4;
}

/* How many numbers of 4 bytes a sample's target has. */
static int64_t target_numbers(const struct backend_data_config *config)
{
    return config->target_width > 0 ? config->target_width : 1;
}

static void measure_parts(const struct backend_data_config *config, size_t bytes[PART_COUNT])
{
    bytes[PART_RAW] = (size_t)config->elements * element_bytes(config);
    bytes[PART_TARGETS] = (size_t)(config->count * target_numbers(config)) * 4;
    bytes[PART_ORDERS] = (size_t)config->orders * sizeof(uint32_t);
    bytes[PART_MEAN] = bytes[PART_FACTOR] = (size_t)config->groups * sizeof(float);
}

/* The shader counts elements of a sample, samples and places in orders in 31 bits. */
static bool is_countable(const struct backend_data_config *config)
{
    const int64_t most = INT32_MAX / 4, pixels = config->height * config->width;

    return config->channels <= most && pixels <= most && config->channels * pixels <= most &&
           config->sample_stride <= most && config->target_width <= most &&
           config->count <= INT32_MAX && config->orders <= INT32_MAX;
}

static bool is_possible(const struct backend_data_config *config)
{
    bool groups_fit = config->groups == 1 || config->groups == config->channels ||
                      (config->channels == 1 && config->groups == config->height * config->width);

    return is_countable(config) &&
           (config->symbols ? config->element != BACKEND_FLOAT32
                            : groups_fit && config->element != BACKEND_INT32);
}

size_t vulkan_data_bytes(struct backend_device *device, const struct backend_data_config *config)
{
    size_t bytes[PART_COUNT], sum = PART_ALIGNMENT;

    if (!is_possible(config))
        return 0;
    measure_parts(config, bytes);
    for (int i = 0; i < PART_COUNT; i++)
        sum += align_up(bytes[i], PART_ALIGNMENT);
    return sum <= device->allocation_max / ALLOCATION_SHARE ? sum : 0;
}

static int write_part(struct backend_data *data, enum data_part part, int64_t first, int64_t count,
                      size_t size, const void *from, struct error *error)
{
    return vulkan_memory_copy(data->device, data->memory, data->part[part] + (size_t)first * size,
                              (void *)from, (size_t)count * size, true, error);
}

int vulkan_data_create(struct backend_device *device, const struct backend_data_config *config,
                       struct backend_buffer *buffer, size_t offset, struct backend_data **data,
                       struct error *error)
{
    struct backend_data *made = calloc(1, sizeof *made);
    size_t bytes[PART_COUNT];
    int r = 0;

    if (!made)
        return error_no_memory(error, "the data");
    made->device = device;
    made->config = *config;
    made->memory = &buffer->memory;
    measure_parts(config, bytes);
    offset = align_up(offset, PART_ALIGNMENT);
    for (int i = 0; i < PART_COUNT; i++) {
        made->part[i] = offset;
        offset += align_up(bytes[i], PART_ALIGNMENT);
    }
    if (!config->symbols)
        r = write_part(made, PART_MEAN, 0, config->groups, sizeof(float), config->mean, error);
    if (r == 0 && !config->symbols)
        r = write_part(made, PART_FACTOR, 0, config->groups, sizeof(float), config->factor, error);
    if (r < 0)
        free(made);
    else
        *data = made;
    return r;
}

void vulkan_data_free(struct backend_data *data)
{
    free(data);
}

int vulkan_data_write(struct backend_data *data, int64_t first, int64_t count, const void *elements,
                      struct error *error)
{
    return write_part(data, PART_RAW, first, count, element_bytes(&data->config), elements, error);
}

int vulkan_data_write_targets(struct backend_data *data, int64_t first, int64_t count,
                              const void *targets, struct error *error)
{
    return write_part(data, PART_TARGETS, first, count, (size_t)target_numbers(&data->config) * 4,
                      targets, error);
}

int vulkan_data_write_order(struct backend_data *data, int64_t first, int64_t count,
                            const uint32_t *indices, struct error *error)
{
    return write_part(data, PART_ORDERS, first, count, sizeof *indices, indices, error);
}

/* ---- batches --------------------------------------------------------------------------------- */

/* Computes the probabilities as write_probabilities() of engine/data/augmentation.c does. */
void data_scalars(const struct backend_data *data, const struct backend_batch *batch,
                  struct shader_scalars *scalars)
{
    double smoothing = data->config.label_smoothing, kept = 1 - smoothing;

    scalars->first = (uint32_t)batch->first;
    scalars->epoch = batch->epoch;
    scalars->share = batch->share;
    scalars->soft_low = (float)(smoothing / (double)data->config.classes);
    scalars->soft_own = (float)(kept * (double)batch->share);
    scalars->soft_other = (float)(kept * (1 - (double)batch->share));
}

static uint32_t flags_of(const struct backend_data_config *config, bool augmented, bool has_target)
{
    const bool by_channel = config->groups > 1 && config->groups == config->channels;
    uint32_t flags = 0;

    flags |= config->symbols ? BATCH_SYMBOLS : 0;
    flags |= config->groups <= 1 ? 0 : by_channel ? BATCH_BY_CHANNEL : BATCH_BY_PIXEL;
    flags |= has_target ? BATCH_HAS_TARGET : 0;
    if (!augmented)
        return flags;
    flags |= config->soft ? BATCH_SOFT : 0;
    if (config->symbols)
        return flags;
    flags |=
        config->crop_padding || config->horizontal_flip || config->cutout_side ? BATCH_MOVES : 0;
    flags |= config->horizontal_flip ? BATCH_FLIPS : 0;
    flags |= config->mixes ? BATCH_MIXES : 0;
    return flags;
}

int data_record_batch(struct recorder *recorder, const struct backend_data *data, bool augmented,
                      struct error *error)
{
    enum { WORKGROUP = 256, EACH = 4, PARTS_MAX = 1024 };
    const struct backend_program *program = recorder->program;
    const struct backend_data_config *config = &data->config;
    const struct graph *graph = program->graph;
    const int64_t elements = config->channels * config->height * config->width;
    const int64_t parts = (elements + WORKGROUP * EACH - 1) / (WORKGROUP * EACH);
    const VkDeviceAddress start = data->memory->address;
    const VkDeviceAddress target = graph->target >= 0 ? program_address(program, graph->target) : 0;
    const struct {
        VkDeviceAddress samples, target, order, mean, factor, raw, targets, scalars;
        uint32_t rows, stride, channels, height, width, target_width, classes, seed[2];
        int32_t padding, side;
        uint32_t unused;
    } push = {.samples = program_address(program, graph->input),
              .target = target,
              .order = start + data->part[PART_ORDERS],
              .mean = start + data->part[PART_MEAN],
              .factor = start + data->part[PART_FACTOR],
              .raw = start + data->part[PART_RAW],
              .targets = start + data->part[PART_TARGETS],
              .scalars = recorder->scalars,
              .rows = (uint32_t)graph->batch,
              .stride = (uint32_t)((size_t)config->sample_stride * element_bytes(config)),
              .channels = (uint32_t)config->channels,
              .height = (uint32_t)config->height,
              .width = (uint32_t)config->width,
              .target_width = (uint32_t)config->target_width,
              .classes = (uint32_t)config->classes,
              .seed = {(uint32_t)config->seed, (uint32_t)(config->seed >> 32)},
              .padding = (int32_t)config->crop_padding,
              .side = (int32_t)config->cutout_side};
    const struct launch launch = {
        .shader = SHADER_batch,
        .constants = {WORKGROUP, config->element, flags_of(config, augmented, target != 0)},
        .constant_count = 3,
        .push = &push,
        .push_bytes = sizeof push,
        .addresses = 1,
        .groups = {parts < PARTS_MAX ? parts : PARTS_MAX, record_groups(graph->batch, 1)}};

    return record_launch(recorder, &launch, error);
}
