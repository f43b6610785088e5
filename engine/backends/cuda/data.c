/* data.c: data in the device's memory: how its parts are laid out, and how a batch is made from
 * them. */
#include "base/alignment.h"
#include "engine/backends/cuda/cuda.h"
#include "engine/backends/cuda/kernels/batch.h"

#include <limits.h>
#include <stdlib.h>

enum { PART_ALIGNMENT = 256 };

/* The parts are stored in this order. */
enum data_part {
    PART_RAW,
    PART_TARGETS,
    PART_ORDERS,
    PART_MEAN,
    PART_FACTOR,
    PART_BATCH_SAMPLES,
    PART_BATCH_TARGETS,
    PART_COUNT
};

/* Batches are made for several steps at once, as many as take this many bytes. So they stay in the
 * cache of a large device (60 MB on an H200) until they are read. */
static const size_t batches_bytes = 32 << 20;

struct backend_data {
    struct backend_device *device;
    struct backend_data_config config;
    char *part[PART_COUNT]; /* on the device */
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

/* The most bytes that the samples of a batch take, and those of its targets. */
static size_t samples_bytes(const struct backend_data_config *config)
{
    return align_up((size_t)(config->batch * config->channels * config->height * config->width) * 4,
                    PART_ALIGNMENT);
}

static size_t targets_bytes(const struct backend_data_config *config)
{
    int64_t numbers = config->soft ? config->classes : target_numbers(config);

    return align_up((size_t)(config->batch * numbers) * 4, PART_ALIGNMENT);
}

static int count_batches(const struct backend_data_config *config)
{
    size_t count = batches_bytes / (samples_bytes(config) + 1);

    return count < 1 ? 1 : count > BACKEND_STEPS_MAX ? BACKEND_STEPS_MAX : (int)count;
}

static void measure_parts(const struct backend_data_config *config, size_t bytes[PART_COUNT])
{
    size_t batches = (size_t)count_batches(config);

    bytes[PART_RAW] = (size_t)config->elements * element_bytes(config);
    bytes[PART_TARGETS] = (size_t)(config->count * target_numbers(config)) * 4;
    bytes[PART_ORDERS] = (size_t)config->orders * sizeof(uint32_t);
    bytes[PART_MEAN] = bytes[PART_FACTOR] = (size_t)config->groups * sizeof(float);
    bytes[PART_BATCH_SAMPLES] = batches * samples_bytes(config);
    bytes[PART_BATCH_TARGETS] = batches * targets_bytes(config);
}

static bool is_possible(const struct backend_data_config *config)
{
    int64_t pixels = config->height * config->width;
    bool groups_fit = config->groups == 1 || config->groups == config->channels ||
                      (config->channels == 1 && config->groups == pixels);

    if (config->channels > INT_MAX || pixels > INT_MAX || config->channels * pixels > INT_MAX)
        return false;
    return config->symbols ? config->element != BACKEND_FLOAT32
                           : groups_fit && config->element != BACKEND_INT32;
}

size_t cuda_data_bytes(struct backend_device *device, const struct backend_data_config *config)
{
    size_t bytes[PART_COUNT], sum = PART_ALIGNMENT;

    (void)device;
    if (!is_possible(config))
        return 0;
    measure_parts(config, bytes);
    for (int i = 0; i < PART_COUNT; i++)
        sum += align_up(bytes[i], PART_ALIGNMENT);
    return sum;
}

static int copy_part(struct backend_data *data, enum data_part part, size_t offset,
                     const void *from, size_t bytes, struct error *error)
{
    cudaStream_t stream = data->device->queue.copies;
    cudaError_t status =
        cudaMemcpyAsync(data->part[part] + offset, from, bytes, cudaMemcpyHostToDevice, stream);

    if (status == cudaSuccess)
        status = cudaStreamSynchronize(stream);
    return status == cudaSuccess ? 0 : cuda_fail(error, status, "data on their way to the GPU");
}

int cuda_data_create(struct backend_device *device, const struct backend_data_config *config,
                     struct backend_buffer *buffer, size_t offset, struct backend_data **data,
                     struct error *error)
{
    struct backend_data *made = calloc(1, sizeof *made);
    size_t bytes[PART_COUNT], groups = (size_t)config->groups * sizeof(float);
    int r = 0;

    if (!made)
        return error_no_memory(error, "the data");
    made->device = device;
    made->config = *config;
    measure_parts(config, bytes);
    offset = align_up(offset, PART_ALIGNMENT); /* the buffer itself has at least this alignment */
    for (int i = 0; i < PART_COUNT; i++) {
        made->part[i] = buffer->start + offset;
        offset += align_up(bytes[i], PART_ALIGNMENT);
    }
    if (!config->symbols)
        r = copy_part(made, PART_MEAN, 0, config->mean, groups, error);
    if (r == 0 && !config->symbols)
        r = copy_part(made, PART_FACTOR, 0, config->factor, groups, error);
    if (r < 0)
        free(made);
    else
        *data = made;
    return r;
}

void cuda_data_free(struct backend_data *data)
{
    free(data);
}

int cuda_data_write(struct backend_data *data, int64_t first, int64_t count, const void *elements,
                    struct error *error)
{
    size_t bytes = element_bytes(&data->config);

    return copy_part(data, PART_RAW, (size_t)first * bytes, elements, (size_t)count * bytes, error);
}

int cuda_data_write_targets(struct backend_data *data, int64_t first, int64_t count,
                            const void *targets, struct error *error)
{
    size_t bytes = (size_t)target_numbers(&data->config) * 4;

    return copy_part(data, PART_TARGETS, (size_t)first * bytes, targets, (size_t)count * bytes,
                     error);
}

int cuda_data_write_order(struct backend_data *data, int64_t first, int64_t count,
                          const uint32_t *indices, struct error *error)
{
    return copy_part(data, PART_ORDERS, (size_t)first * sizeof *indices, indices,
                     (size_t)count * sizeof *indices, error);
}

/* ---- batches --------------------------------------------------------------------------------- */

int data_batches(const struct backend_data *data)
{
    return count_batches(&data->config);
}

char *data_samples(const struct backend_data *data, int step)
{
    return data->part[PART_BATCH_SAMPLES] +
           (size_t)(step % data_batches(data)) * samples_bytes(&data->config);
}

char *data_targets(const struct backend_data *data, int step)
{
    return data->part[PART_BATCH_TARGETS] +
           (size_t)(step % data_batches(data)) * targets_bytes(&data->config);
}

static struct sample_set describe_set(const struct backend_data *data)
{
    const struct backend_data_config *config = &data->config;
    bool by_channel = config->groups > 1 && config->groups == config->channels;

    return (struct sample_set){.raw = data->part[PART_RAW],
                               .stride = config->sample_stride,
                               .channels = (int32_t)config->channels,
                               .height = (int32_t)config->height,
                               .width = (int32_t)config->width,
                               .mean = (const float *)data->part[PART_MEAN],
                               .factor = (const float *)data->part[PART_FACTOR],
                               .group_of_channel = by_channel,
                               .group_of_pixel = config->groups > 1 && !by_channel,
                               .seed = config->seed,
                               .crop_padding = (int32_t)config->crop_padding,
                               .cutout_side = (int32_t)config->cutout_side,
                               .horizontal_flip = config->horizontal_flip};
}

int data_make_batches(const struct backend_data *data, const struct backend_program *program,
                      int steps, bool augmented, const struct cuda_scalars *scalars,
                      size_t scalars_stride, struct error *error)
{
    const struct backend_data_config *config = &data->config;
    const struct graph *graph = program->graph;
    const struct cuda_batch batch = {.set = describe_set(data),
                                     .bytes = config->element == BACKEND_UINT8,
                                     .symbols = config->symbols,
                                     .augmented = augmented,
                                     .mixes = config->mixes,
                                     .soft = config->soft,
                                     .order = (const uint32_t *)data->part[PART_ORDERS],
                                     .labels = (const int32_t *)data->part[PART_TARGETS],
                                     .values = (const float *)data->part[PART_TARGETS],
                                     .target_width = (int32_t)config->target_width,
                                     .classes = (int32_t)config->classes,
                                     .rows = graph->batch,
                                     .steps = steps,
                                     .scalars_stride = (int64_t)scalars_stride,
                                     .samples_stride = (int64_t)samples_bytes(config),
                                     .targets_stride = (int64_t)targets_bytes(config),
                                     .samples = data_samples(data, 0),
                                     .targets = graph->target >= 0 ? data_targets(data, 0) : NULL,
                                     .type = program_stored_type(program, graph->input),
                                     .channels_last =
                                         program_is_channels_last(program, graph->input)};
    cudaError_t status = cuda_make_batch(&batch, scalars, program->device->stream);

    return status == cudaSuccess ? 0 : cuda_fail(error, status, "batches on the GPU");
}

/* Computes the probabilities as write_probabilities() of engine/data/augmentation.c does. */
void data_scalars(const struct backend_data *data, const struct backend_batch *batch,
                  struct cuda_scalars *scalars)
{
    double smoothing = data->config.label_smoothing, kept = 1 - smoothing;

    scalars->first = batch->first;
    scalars->epoch = batch->epoch;
    scalars->share = batch->share;
    scalars->soft_low = (float)(smoothing / (double)data->config.classes);
    scalars->soft_own = (float)(kept * (double)batch->share);
    scalars->soft_other = (float)(kept * (1 - (double)batch->share));
}
