/* convolution_channels.c: see convolution_channels.h. */
#include "engine/backends/cpu/convolution_channels.h"

#include "base/alignment.h"
#include "engine/backends/backend.h"

#include <math.h>
#include <stdlib.h>

/* GRAIN: the floats of an AVX-512 vector, and the channels of a block of images and weights. */
enum { CHANNELS_GRAIN = 16, PARTS_MAX = 8 };

/* The relative cost of each further part, which reads the shared images once more. */
static const double part_cost = 0.02;

/* Copies between a part's own channels and all channels: of the images of one unit, or of the
 * weights. */
struct channels_copy {
    struct onednn_reorder *reorder; /* NULL: the weights are used where they lie, at `offset` */
    size_t offset, bytes; /* of the part's copy in the workspace; `bytes` of one unit's images */
};

struct channels_part {
    int64_t first, count;
    struct onednn_convolution *convolution;
    struct channels_copy images, weights;
    struct onednn_call *weights_call;
};

struct channels_unit {
    struct onednn_call *convolution, *images;
    struct onednn_call
        *direct; /* the convolution into other weights; NULL, or all units have one */
};

struct channels_convolution {
    struct onednn *onednn;
    enum onednn_direction direction;
    struct onednn_convolution_shape shape;
    enum onednn_images order;
    int count;
    struct channels_part part[PARTS_MAX];
    int64_t units, unit_samples; /* the units of one part are adjacent */
    struct channels_unit *unit;
    struct onednn_reorder *sample; /* copies the images that all parts read */
    struct onednn_call **sample_call;
    size_t sample_bytes, own_sample_bytes; /* of the copied sample, and of the original */
    size_t divided_sample_bytes;           /* of the divided images, with all channels */
    size_t workspace_bytes, scratch_bytes;
};

/* ---- create ---------------------------------------------------------------------------------- */

/* Whether the direction divides the channels of x. */
static bool divides_x(const struct channels_convolution *channels)
{
    return channels->direction == ONEDNN_BACKWARD_DATA;
}

static void images_layout(const struct channels_convolution *channels, bool of_x, int64_t samples,
                          int64_t count, enum onednn_images order, struct onednn_layout *layout)
{
    const struct onednn_convolution_shape *shape = &channels->shape;

    onednn_layout_images(samples, count, of_x ? shape->height : shape->out_height,
                         of_x ? shape->width : shape->out_width, order, layout);
}

/* Creates the copy of one sample of the images that all parts read into the order of the
 * primitive. */
static int create_sample(struct channels_convolution *channels, struct error *error)
{
    const struct onednn_convolution_shape *shape = &channels->shape;
    bool of_x = !divides_x(channels);
    int64_t count = of_x ? shape->channels : shape->out_channels;
    struct onednn_layout own, copy;

    images_layout(channels, of_x, 1, count, of_x ? shape->order_x : shape->order_y, &own);
    images_layout(channels, of_x, 1, count, channels->order, &copy);
    channels->own_sample_bytes = onednn_layout_bytes(&own);
    channels->sample_bytes = onednn_layout_bytes(&copy);
    channels->workspace_bytes =
        align_up((size_t)shape->samples * channels->sample_bytes, MEMORY_ALIGNMENT);
    return onednn_reorder_create(channels->onednn, &own, &copy, &channels->sample, error);
}

/* A copy between `count` of `part` in the workspace and its channels of `whole`, to it or from it.
 */
static int create_copy(struct channels_convolution *channels, const struct onednn_layout *whole,
                       int axis, const struct channels_part *part, const struct onednn_layout *own,
                       bool to_whole, int64_t count, struct channels_copy *copy,
                       struct error *error)
{
    struct onednn_layout within;

    copy->offset = channels->workspace_bytes;
    copy->bytes = align_up(onednn_layout_bytes(own), MEMORY_ALIGNMENT);
    channels->workspace_bytes += (size_t)count * copy->bytes;
    if (onednn_layout_part(whole, axis, part->first, part->count, &within))
        return error_set(error, -ERROR_UNSUPPORTED,
                         "channels %lld to %lld are no part of their layout",
                         (long long)part->first, (long long)(part->first + part->count));
    return onednn_reorder_create(channels->onednn, to_whole ? own : &within,
                                 to_whole ? &within : own, &copy->reorder, error);
}

static int create_part(struct channels_convolution *channels, struct channels_part *part,
                       const struct onednn_layout *weights, struct error *error)
{
    struct onednn_convolution_shape shape = channels->shape;
    bool of_x = divides_x(channels), gradient = channels->direction == ONEDNN_BACKWARD_WEIGHTS;
    struct onednn_layout whole, own;
    size_t scratch;
    int result;

    if (of_x)
        shape.channels = part->count;
    else
        shape.out_channels = part->count;
    shape.order_x = shape.order_y = channels->order;
    shape.samples = channels->unit_samples;
    result = onednn_convolution_create(channels->onednn, channels->direction, &shape, NULL,
                                       &part->convolution, error);
    if (result)
        return result;
    if (onednn_convolution_is_reference(part->convolution))
        return error_set(error, -ERROR_UNSUPPORTED, "oneDNN has only its reference");
    scratch = onednn_convolution_scratch_bytes(part->convolution);
    channels->scratch_bytes = scratch > channels->scratch_bytes ? scratch : channels->scratch_bytes;
    images_layout(channels, of_x, shape.samples,
                  of_x ? channels->shape.channels : channels->shape.out_channels,
                  of_x ? channels->shape.order_x : channels->shape.order_y, &whole);
    channels->divided_sample_bytes = onednn_layout_bytes(&whole) / (size_t)shape.samples;
    images_layout(channels, of_x, shape.samples, part->count, channels->order, &own);
    result = create_copy(channels, &whole, 1, part, &own, !gradient,
                         channels->shape.samples / shape.samples, &part->images, error);
    if (result)
        return result;
    onednn_convolution_weights_layout(part->convolution, &own);
    if (onednn_layout_part(weights, of_x ? 1 : 0, part->first, part->count, &whole) == 0 &&
        onednn_layout_lies_within(&own, &whole, &part->weights.offset))
        return 0;
    return create_copy(channels, weights, of_x ? 1 : 0, part, &own, gradient, 1, &part->weights,
                       error);
}

/* Chooses the number of parts with the least cost: few parts whose units divide evenly among the
 * tasks. */
static int choose_count(int64_t grains, int64_t samples, int tasks)
{
    int64_t most = grains < tasks ? grains : tasks, best = most;
    double least = INFINITY;

    for (int64_t count = 1; count <= most; count++) {
        int64_t units = count * samples;
        double uneven = (double)((units + tasks - 1) / tasks * tasks) / (double)units;
        /* the channels of the largest part are rounded up to whole grains, too */
        double cost = uneven * (double)((grains + count - 1) / count * count) / (double)grains *
                      (1 + part_cost * (double)count);

        if (cost < least) {
            least = cost;
            best = count;
        }
    }
    return (int)best;
}

int channels_create(struct onednn *onednn, enum onednn_direction direction,
                    const struct onednn_convolution_shape *shape, enum onednn_images order,
                    const struct onednn_layout *weights, int tasks,
                    struct channels_convolution **channels, struct error *error)
{
    struct channels_convolution *made;
    int64_t all = direction == ONEDNN_BACKWARD_DATA ? shape->channels : shape->out_channels;
    int64_t grains = (all + CHANNELS_GRAIN - 1) / CHANNELS_GRAIN;
    bool gradient = direction == ONEDNN_BACKWARD_WEIGHTS;
    int result;

    if (grains < 2 || shape->groups != 1)
        return error_set(error, -ERROR_UNSUPPORTED, "%lld channels cannot be divided",
                         (long long)all);
    made = calloc(1, sizeof(*made));
    if (!made)
        return error_no_memory(error, "a convolution");
    made->onednn = onednn;
    made->direction = direction;
    made->shape = *shape;
    made->order = order;
    made->unit_samples = gradient ? shape->samples : 1;
    made->count = choose_count(grains, shape->samples / made->unit_samples,
                               tasks < PARTS_MAX ? tasks : PARTS_MAX);
    made->units = made->count * (shape->samples / made->unit_samples);
    made->unit = calloc((size_t)made->units, sizeof(*made->unit));
    made->sample_call = calloc((size_t)shape->samples, sizeof(struct onednn_call *));
    result = made->sample_call && made->unit ? create_sample(made, error)
                                             : error_no_memory(error, "a convolution");
    for (int i = 0; i < made->count && !result; i++) {
        int64_t end = grains * (i + 1) / made->count * CHANNELS_GRAIN;

        made->part[i].first = grains * i / made->count * CHANNELS_GRAIN;
        made->part[i].count = (end < all ? end : all) - made->part[i].first;
        result = create_part(made, &made->part[i], weights, error);
    }
    if (result) {
        channels_free(made);
        return result;
    }
    *channels = made;
    return 0;
}

void channels_free(struct channels_convolution *channels)
{
    if (!channels)
        return;
    for (int64_t i = 0; channels->unit && i < channels->units; i++) {
        onednn_call_free(channels->unit[i].convolution);
        onednn_call_free(channels->unit[i].images);
        onednn_call_free(channels->unit[i].direct);
    }
    for (int i = 0; i < channels->count; i++) {
        struct channels_part *part = &channels->part[i];

        onednn_call_free(part->weights_call);
        onednn_reorder_free(part->images.reorder);
        onednn_reorder_free(part->weights.reorder);
        onednn_convolution_free(part->convolution);
    }
    for (int64_t i = 0; channels->sample_call && i < channels->shape.samples; i++)
        onednn_call_free(channels->sample_call[i]);
    free(channels->sample_call);
    free(channels->unit);
    onednn_reorder_free(channels->sample);
    free(channels);
}

const char *channels_implementation(const struct channels_convolution *channels)
{
    return onednn_convolution_implementation(channels->part[0].convolution);
}

int64_t channels_units(const struct channels_convolution *channels)
{
    return channels->units;
}

size_t channels_workspace_bytes(const struct channels_convolution *channels)
{
    return channels->workspace_bytes;
}

size_t channels_scratch_bytes(const struct channels_convolution *channels)
{
    return channels->scratch_bytes;
}

int channels_count(const struct channels_convolution *channels)
{
    return channels->count;
}

/* ---- bind ------------------------------------------------------------------------------------ */

int channels_bind_sample(struct channels_convolution *channels, int64_t sample,
                         const struct channels_memory *memory, bool moves,
                         struct onednn_call **call, struct error *error)
{
    char *from = divides_x(channels) ? memory->y : memory->x;
    int result =
        onednn_reorder_bind(channels->onednn, channels->sample,
                            moves ? NULL : from + (size_t)sample * channels->own_sample_bytes,
                            memory->workspace + (size_t)sample * channels->sample_bytes,
                            &channels->sample_call[sample], error);

    *call = channels->sample_call[sample];
    return result;
}

/* Binds the copy between `own` in the workspace and the part of `whole`. */
static int bind_copy(struct channels_convolution *channels, const struct channels_copy *copy,
                     char *own, char *whole, bool to_whole, struct onednn_call **call,
                     struct error *error)
{
    return onednn_reorder_bind(channels->onednn, copy->reorder, to_whole ? own : whole,
                               to_whole ? whole : own, call, error);
}

int channels_bind_weights(struct channels_convolution *channels, int index,
                          const struct channels_memory *memory, struct error *error)
{
    struct channels_part *part = &channels->part[index];

    if (!part->weights.reorder)
        return 0;
    return bind_copy(channels, &part->weights, memory->workspace + part->weights.offset,
                     memory->weights, channels->direction == ONEDNN_BACKWARD_WEIGHTS,
                     &part->weights_call, error);
}

static const struct channels_part *part_of(const struct channels_convolution *channels,
                                           int64_t unit)
{
    return &channels->part[unit * channels->count / channels->units];
}

/* Binds the convolution of a unit to its part's weights, wherever they are. */
static int bind_convolution(struct channels_convolution *channels, int64_t unit,
                            const struct channels_memory *memory, void *scratch,
                            struct onednn_call **call, struct error *error)
{
    const struct channels_part *part = part_of(channels, unit);
    int64_t place = unit % (channels->units / channels->count);
    char *shared =
        memory->workspace + (size_t)(place * channels->unit_samples) * channels->sample_bytes;
    char *own = memory->workspace + part->images.offset + (size_t)place * part->images.bytes;
    char *weights =
        (part->weights.reorder ? memory->workspace : memory->weights) + part->weights.offset;
    char *bias = memory->bias ? memory->bias + (size_t)part->first * sizeof(float) : NULL;
    bool of_x = divides_x(channels);

    return onednn_convolution_bind(channels->onednn, part->convolution, of_x ? own : shared,
                                   weights, bias, of_x ? shared : own, scratch, call, error);
}

int channels_bind_unit(struct channels_convolution *channels, int64_t unit,
                       const struct channels_memory *memory, void *scratch, struct error *error)
{
    const struct channels_part *part = part_of(channels, unit);
    int64_t place = unit % (channels->units / channels->count);
    bool of_x = divides_x(channels), gradient = channels->direction == ONEDNN_BACKWARD_WEIGHTS;
    char *own = memory->workspace + part->images.offset + (size_t)place * part->images.bytes;
    char *whole = (of_x ? memory->x : memory->y) +
                  (size_t)(place * channels->unit_samples) * channels->divided_sample_bytes;
    int result = bind_copy(channels, &part->images, own, whole, !gradient,
                           &channels->unit[unit].images, error);

    return result ? result
                  : bind_convolution(channels, unit, memory, scratch,
                                     &channels->unit[unit].convolution, error);
}

bool channels_use_weights_in_place(const struct channels_convolution *channels)
{
    for (int i = 0; i < channels->count; i++)
        if (channels->part[i].weights.reorder)
            return false;
    return true;
}

int channels_bind_direct(struct channels_convolution *channels, int64_t unit,
                         const struct channels_memory *memory, void *scratch, struct error *error)
{
    return bind_convolution(channels, unit, memory, scratch, &channels->unit[unit].direct, error);
}

/* ---- run ------------------------------------------------------------------------------------- */

int channels_copy(const struct channels_convolution *channels, int64_t sample, int thread)
{
    return onednn_call_run(channels->sample_call[sample], thread);
}

int channels_pack(const struct channels_convolution *channels, int part, int thread)
{
    if (channels->direction == ONEDNN_BACKWARD_WEIGHTS || !channels->part[part].weights_call)
        return 0;
    return onednn_call_run(channels->part[part].weights_call, thread);
}

int channels_run(const struct channels_convolution *channels, int64_t index, bool direct,
                 int thread)
{
    const struct channels_unit *unit = &channels->unit[index];
    bool gradient = channels->direction == ONEDNN_BACKWARD_WEIGHTS;
    const struct onednn_call *after =
        gradient ? part_of(channels, index)->weights_call : unit->images;
    int result = gradient ? onednn_call_run(unit->images, thread) : 0;

    if (!result)
        result = onednn_call_run(direct ? unit->direct : unit->convolution, thread);
    if (!result && after)
        result = onednn_call_run(after, thread);
    return result;
}
