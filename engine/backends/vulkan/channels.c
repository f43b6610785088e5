/* channels.c: see channels.h. The numbers of large channels are divided into parts, so that few
 * channels keep a GPU busy, too. */
#include "engine/backends/vulkan/channels.h"

#include "engine/backends/vulkan/sums.h"

enum {
    ACROSS_MAX = 16,          /* channels of a workgroup whose pixels are few */
    ACROSS_PIXELS = 8,        /* as many pixels make a read of neighbours worthwhile */
    WORKGROUPS_WANTED = 1024, /* more than the largest GPUs run at once */
    PARTS_MAX = 32,           /* each workgroup of a second pass adds up the parts' sums */
    INVOCATION_NUMBERS = 8    /* a workgroup's invocations have at least so many each */
};

static struct channels divide(struct channels channels, int64_t most)
{
    const int64_t numbers = channels.samples * channels.pixels;
    const int64_t fewest = INVOCATION_NUMBERS * CHANNELS_WORKGROUP / channels.across;
    int64_t parts = WORKGROUPS_WANTED / channels_groups(&channels);

    most = numbers / fewest < most ? numbers / fewest : most;
    parts = parts > most ? most : parts;
    parts = parts < 1 ? 1 : parts;
    channels.part = (numbers + parts - 1) / parts;
    channels.parts = (numbers + channels.part - 1) / channels.part;
    return channels;
}

struct channels channels_of_rows(int64_t rows, int64_t width)
{
    struct channels channels = {.samples = 1, .channels = rows, .pixels = width, .across = 1};

    return divide(channels, PARTS_MAX);
}

struct channels channels_of(const struct graph *graph, int32_t tensor)
{
    const struct graph_shape *shape = &graph->tensors[tensor].shape;
    struct channels channels = {.samples = shape->extent[0], .channels = shape->extent[1]};

    channels.pixels = graph_shape_elements(shape) / (channels.samples * channels.channels);
    channels.across = channels.pixels < ACROSS_PIXELS ? ACROSS_MAX : 1;
    return divide(channels, PARTS_MAX);
}

struct channels channels_divide(struct channels channels)
{
    return divide(channels, WORKGROUPS_WANTED);
}

int64_t channels_groups(const struct channels *channels)
{
    return record_groups(channels->channels, channels->across);
}

uint32_t products_behind(const struct products *products)
{
    return (products->second ? BEHIND_SECOND : 0) | (products->bias ? BEHIND_OPERAND : 0) |
           (products->result ? BEHIND_RESULT : 0);
}

/* Of each part the sums, and the products where there is an x. */
static int record_part_sums(struct recorder *recorder, const struct channels *channels,
                            struct products products, VkDeviceAddress sums, bool accumulate,
                            struct error *error)
{
    const struct {
        VkDeviceAddress dy, x, mean, sums, second, result, stored, inverse_std, weight, bias;
        struct channels_push shape;
        uint32_t parts, of_mean;
    } push = {products.dy,     products.x,      products.mean,           sums,
              products.second, products.result, products.stored,         products.inverse_std,
              products.weight, products.bias,   channels_push(channels), (uint32_t)channels->parts,
              products.of_mean};
    const struct launch launch = {.shader = SHADER_channel_sums,
                                  .constants = {CHANNELS_WORKGROUP, channels->across,
                                                products.x != 0, accumulate,
                                                products_behind(&products), products.activation},
                                  .constant_count = 6,
                                  .push = &push,
                                  .push_bytes = sizeof push,
                                  .addresses = 10,
                                  .groups = {channels_groups(channels), channels->parts}};

    return record_launch(recorder, &launch, error);
}

int record_channel_products(struct recorder *recorder, const struct channels *channels,
                            const struct products *products, VkDeviceAddress sums,
                            struct error *error)
{
    return record_part_sums(recorder, channels, *products, sums, false, error);
}

int record_channel_moments(struct recorder *recorder, const struct channels *channels,
                           VkDeviceAddress x, VkDeviceAddress moments, struct error *error)
{
    const struct {
        VkDeviceAddress x, moments;
        struct channels_push shape;
        uint32_t parts, unused;
    } push = {x, moments, channels_push(channels), (uint32_t)channels->parts, 0};
    const struct launch launch = {.shader = SHADER_batch_norm_moments,
                                  .constants = {CHANNELS_WORKGROUP, channels->across},
                                  .constant_count = 2,
                                  .push = &push,
                                  .push_bytes = sizeof push,
                                  .addresses = 2,
                                  .groups = {channels_groups(channels), channels->parts}};

    return record_launch(recorder, &launch, error);
}

int record_channel_sums(struct recorder *recorder, const struct channels *channels,
                        VkDeviceAddress dy, VkDeviceAddress workspace, VkDeviceAddress sums,
                        bool accumulate, struct error *error)
{
    int r;

    if (channels->parts == 1)
        return record_part_sums(recorder, channels, (struct products){.dy = dy}, sums, accumulate,
                                error);
    r = record_part_sums(recorder, channels, (struct products){.dy = dy}, workspace, false, error);
    if (r < 0)
        return r;
    record_barrier(recorder);
    return record_sum_parts(recorder, workspace, channels->parts, channels->channels, sums,
                            accumulate, error);
}
