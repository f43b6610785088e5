/* data_backend.c: see data_backend.h. */
#include "tests/support/data_backend.h"

#include "engine/backends/cuda/kernels/sample.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct data_backend_calls data_backend_calls;
const void *data_backend_batch[2];
bool data_backend_scales;

static struct loss_scale own_scale;

static int (*run_step)(struct backend_program *program, unsigned phases,
                       const struct step_scalars *scalars, struct error *error);

struct backend_data {
    struct backend_data_config config;
    struct sample_set set;
    uint8_t *raw; /* in the session's buffer; the members below are not */
    int32_t *targets;
    uint32_t *orders;
    float *samples[2]; /* two batches in turns, because the CPU backend reads one in place */
    int32_t *batch_targets[2];
    int turn;
};

static size_t raw_bytes(const struct backend_data_config *config)
{
    return (size_t)config->elements * (config->element == BACKEND_UINT8 ? 1 : 4);
}

static int64_t width_of(const struct backend_data_config *config)
{
    return config->channels * config->height * config->width;
}

static int64_t target_width(const struct backend_data_config *config)
{
    return config->target_width ? config->target_width : 1;
}

static size_t data_bytes(struct backend_device *device, const struct backend_data_config *config)
{
    (void)device;
    return raw_bytes(config);
}

static void *allocate(int64_t numbers)
{
    size_t bytes = (size_t)numbers * 4 / MEMORY_ALIGNMENT * MEMORY_ALIGNMENT + MEMORY_ALIGNMENT;
    void *memory = aligned_alloc(MEMORY_ALIGNMENT, bytes);

    if (!memory)
        abort();
    return memory;
}

static int data_create(struct backend_device *device, const struct backend_data_config *config,
                       struct backend_buffer *buffer, size_t offset, struct backend_data **data,
                       struct error *error)
{
    struct backend_data *made = allocate(sizeof *made);
    bool by_channel = config->groups > 1 && config->groups == config->channels;

    (void)device;
    (void)error;
    *made = (struct backend_data){.config = *config,
                                  .raw = (uint8_t *)backend_cpu()->buffer_host(buffer) + offset,
                                  .targets = allocate(config->count * target_width(config)),
                                  .orders = allocate(config->orders)};
    made->set = (struct sample_set){.raw = made->raw,
                                    .stride = config->sample_stride,
                                    .channels = (int32_t)config->channels,
                                    .height = (int32_t)config->height,
                                    .width = (int32_t)config->width,
                                    .mean = config->mean,
                                    .factor = config->factor,
                                    .group_of_channel = by_channel,
                                    .group_of_pixel = config->groups > 1 && !by_channel,
                                    .seed = config->seed,
                                    .crop_padding = (int32_t)config->crop_padding,
                                    .cutout_side = (int32_t)config->cutout_side,
                                    .horizontal_flip = config->horizontal_flip};
    for (int turn = 0; turn < 2; turn++) {
        made->samples[turn] = allocate(config->batch * width_of(config));
        made->batch_targets[turn] =
            allocate(config->batch * (config->soft ? config->classes : target_width(config)));
    }
    *data = made;
    return 0;
}

static void data_free(struct backend_data *data)
{
    for (int turn = 0; turn < 2; turn++) {
        free(data->samples[turn]);
        free(data->batch_targets[turn]);
    }
    free(data->orders);
    free(data->targets);
    free(data);
}

static int data_write(struct backend_data *data, int64_t first, int64_t count, const void *elements,
                      struct error *error)
{
    size_t bytes = data->config.element == BACKEND_UINT8 ? 1 : 4;

    (void)error;
    memcpy(data->raw + (size_t)first * bytes, elements, (size_t)count * bytes);
    return 0;
}

static int data_write_targets(struct backend_data *data, int64_t first, int64_t count,
                              const void *targets, struct error *error)
{
    int64_t width = target_width(&data->config);

    (void)error;
    memcpy(data->targets + first * width, targets, (size_t)(count * width) * 4);
    return 0;
}

static int data_write_order(struct backend_data *data, int64_t first, int64_t count,
                            const uint32_t *indices, struct error *error)
{
    if (first < 0 || first + count > data->config.orders)
        return error_set(error, -ERANGE, "an order beyond the orders");
    data_backend_calls.orders++;
    memcpy(data->orders + first, indices, (size_t)count * sizeof *indices);
    return 0;
}

/* ---- batches ---- */

/* One of the samples that make a row. */
struct drawn {
    uint32_t index;
    struct sample_geometry geometry;
    bool moves;
};

static struct drawn draw(const struct backend_data *data, const struct backend_batch *batch,
                         int64_t row)
{
    struct drawn drawn = {.index = data->orders[batch->first + row],
                          .moves = batch->augmented && sample_has_geometry(&data->set)};

    if (drawn.moves)
        drawn.geometry = sample_draw(&data->set, batch->epoch, drawn.index);
    return drawn;
}

static float raw_at(const struct backend_data *data, int64_t at)
{
    return data->config.element == BACKEND_UINT8 ? data->raw[at] : ((const float *)data->raw)[at];
}

static float value_of(const struct backend_data *data, const struct drawn *drawn, int32_t channel,
                      int32_t pixel)
{
    const struct sample_set *set = &data->set;
    int32_t source = drawn->moves ? sample_source(set, &drawn->geometry, pixel) : pixel;
    int64_t plane = drawn->index * set->stride + (int64_t)channel * set->height * set->width;

    return sample_normalise(set, channel, pixel, source,
                            source < 0 ? 0 : raw_at(data, plane + source));
}

static void make_row(const struct backend_data *data, const struct backend_batch *batch,
                     int64_t row, int64_t rows, float *values)
{
    const struct sample_set *set = &data->set;
    struct drawn own = draw(data, batch, row), other = draw(data, batch, row ? row - 1 : rows - 1);
    bool mixes = batch->augmented && data->config.mixes;

    for (int32_t c = 0; c < set->channels; c++)
        for (int32_t p = 0; p < set->height * set->width; p++) {
            float value = value_of(data, &own, c, p);

            *values++ =
                mixes ? sample_mix(value, value_of(data, &other, c, p), batch->share) : value;
        }
}

static void copy_symbols(const struct backend_data *data, uint32_t index, int32_t *symbols)
{
    int64_t first = (int64_t)index * data->config.sample_stride;

    for (int64_t i = 0; i < data->config.width; i++)
        symbols[i] = data->config.element == BACKEND_UINT8
                         ? data->raw[first + i]
                         : ((const int32_t *)data->raw)[first + i];
}

static void make_target(const struct backend_data *data, const struct backend_batch *batch,
                        int64_t row, int64_t rows, int32_t *targets)
{
    const struct backend_data_config *config = &data->config;
    double kept = 1 - config->label_smoothing;
    uint32_t own = data->orders[batch->first + row];
    uint32_t other = data->orders[batch->first + (row ? row - 1 : rows - 1)];
    int64_t width = target_width(config);

    if (!batch->augmented || !config->soft) {
        memcpy(targets + row * width, data->targets + own * width, (size_t)width * 4);
        return;
    }
    for (int32_t c = 0; c < config->classes; c++)
        ((float *)targets)[row * config->classes + c] = sample_probability(
            c, data->targets[own], data->targets[other],
            (float)(config->label_smoothing / (double)config->classes),
            (float)(kept * (double)batch->share), (float)(kept * (1 - (double)batch->share)));
}

static void make_batch(struct backend_data *data, const struct backend_batch *batch, int64_t rows)
{
    int64_t width = width_of(&data->config);

    data->turn = !data->turn;
    for (int64_t row = 0; row < rows; row++) {
        float *values = data->samples[data->turn] + row * width;

        if (data->config.symbols)
            copy_symbols(data, data->orders[batch->first + row], (int32_t *)values);
        else
            make_row(data, batch, row, rows, values);
        make_target(data, batch, row, rows, data->batch_targets[data->turn]);
    }
    data_backend_batch[0] = data->samples[data->turn];
    data_backend_batch[1] = data->batch_targets[data->turn];
}

/* ---- runs ---- */

/* The CPU backend does not tell a program's graph. */
struct prepared {
    struct backend_program *program;
    const struct graph *graph;
};
static struct prepared prepared[64];

static int program_prepare(struct backend_device *device, const struct graph *graph,
                           const struct backend_program *shared, struct backend_program **program,
                           struct error *error)
{
    int r = backend_cpu()->program_prepare(device, graph, shared, program, error);

    for (size_t i = 0; r == 0 && i < sizeof prepared / sizeof *prepared; i++)
        if (!prepared[i].program) {
            prepared[i] = (struct prepared){*program, graph};
            return 0;
        }
    return r ? r : error_set(error, -ENOSPC, "too many programs");
}

static void program_free(struct backend_program *program)
{
    for (size_t i = 0; i < sizeof prepared / sizeof *prepared; i++)
        if (prepared[i].program == program)
            prepared[i].program = NULL;
    backend_cpu()->program_free(program);
}

static void count_run(bool training, int count)
{
    struct data_backend_calls *calls = &data_backend_calls;
    int *longest = training ? &calls->longest : &calls->longest_evaluation;

    *(training ? &calls->launches : &calls->evaluations) += 1;
    calls->steps += training ? count : 0;
    if (count > *longest)
        *longest = count;
}

/* A step; its loss is scaled as torch.amp.GradScaler would. */
static int run_scaled(struct backend_program *program, const struct backend_step *step,
                      struct error *error)
{
    struct step_scalars scalars = step->scalars;
    int r;

    if (!scalars.scales_itself)
        return run_step(program, step->phases, &scalars, error);
    scalars.loss_scale = (float)own_scale.scale;
    scalars.skipped = own_scale.skipped;
    r = run_step(program, step->phases, &scalars, error);
    if (r < 0 || !(step->phases & PROGRAM_UPDATE))
        return r;
    if (backend_cpu()->program_update_skipped(program)) {
        own_scale.skipped++;
        own_scale.good_steps = 0;
        own_scale.scale /= 2;
    } else if (++own_scale.good_steps == LOSS_SCALE_GROWTH_INTERVAL) {
        own_scale.good_steps = 0;
        own_scale.scale *= 2;
    }
    return 0;
}

static void write_loss_scale(struct backend_program *program, const struct loss_scale *loss_scale)
{
    (void)program;
    own_scale = *loss_scale;
}

static void read_loss_scale(struct backend_program *program, struct loss_scale *loss_scale)
{
    (void)program;
    *loss_scale = own_scale;
}

static int program_run_steps(struct backend_program *program, struct backend_data *data,
                             const struct backend_step *steps, int count, struct error *error)
{
    const struct graph *graph = NULL;
    int r = 0;

    for (size_t i = 0; i < sizeof prepared / sizeof *prepared; i++)
        if (prepared[i].program == program)
            graph = prepared[i].graph;
    if (!graph || count < 1 || count > BACKEND_STEPS_MAX)
        return error_set(error, -EINVAL, "no such run");
    count_run(steps[0].phases & PROGRAM_BACKWARD, count);
    for (int k = 0; r == 0 && k < count; k++) {
        make_batch(data, &steps[k].batch, graph->batch);
        r = backend_cpu()->program_set_input(program, graph->input, data->samples[data->turn],
                                             error);
        if (r == 0 && graph->target >= 0)
            r = backend_cpu()->program_set_input(program, graph->target,
                                                 data->batch_targets[data->turn], error);
        if (r == 0)
            r = run_scaled(program, &steps[k], error);
    }
    return r;
}

struct backend data_backend(int (*run)(struct backend_program *program, unsigned phases,
                                       const struct step_scalars *scalars, struct error *error))
{
    struct backend backend = *backend_cpu();

    run_step = run ? run : backend.program_run;
    backend.program_run = run_step;
    backend.program_prepare = program_prepare;
    backend.program_free = program_free;
    backend.data_bytes = data_bytes;
    backend.data_create = data_create;
    backend.data_free = data_free;
    backend.data_write = data_write;
    backend.data_write_targets = data_write_targets;
    backend.data_write_order = data_write_order;
    backend.program_run_steps = program_run_steps;
    if (data_backend_scales) {
        backend.program_write_loss_scale = write_loss_scale;
        backend.program_read_loss_scale = read_loss_scale;
    }
    return backend;
}
