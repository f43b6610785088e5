/* channels.h: sums over the numbers of each channel of [samples, channels, pixels]. */
#pragma once

#include "engine/backends/vulkan/vulkan.h"

/* How the work on each channel is divided: shaders/channels.glsl. */
struct channels {
    int64_t samples, channels, pixels;
    uint32_t across;     /* channels that a workgroup has at once */
    int64_t part, parts; /* numbers of a channel that a workgroup has, and how many such parts */
};
enum { CHANNELS_WORKGROUP = 256 };

/* The channels of a tensor [samples, channels, …]. */
struct channels channels_of(const struct graph *graph, int32_t tensor);
/* Rows as channels of one sample. */
struct channels channels_of_rows(int64_t rows, int64_t width);
/* The same in smaller parts, for work that leaves no sums. */
struct channels channels_divide(struct channels channels);
/* Workgroups along the first axis. */
int64_t channels_groups(const struct channels *channels);

/* As the shaders have it. */
struct channels_push {
    uint32_t samples, channels, pixels, part;
};
static inline struct channels_push channels_push(const struct channels *channels)
{
    return (struct channels_push){(uint32_t)channels->samples, (uint32_t)channels->channels,
                                  (uint32_t)channels->pixels, (uint32_t)channels->part};
}

/* Of each part and channel the mean, then the sum of the squared differences from it: [2, parts,
 * channels]. */
int record_channel_moments(struct recorder *recorder, const struct channels *channels,
                           VkDeviceAddress x, VkDeviceAddress moments, struct error *error);
/* Of each part and channel the sum of dy, then that of dy (x - mean): [2, parts, channels]. */
struct products {
    VkDeviceAddress dy, x, mean;
    uint32_t of_mean; /* channels that share a mean */
    /* A batch norm's gradient behind an activation: shaders/behind.glsl. 0: what is not there. */
    VkDeviceAddress second, result, stored, inverse_std, weight, bias;
    uint32_t activation;
};
/* The specialization constants that say what there is of it: BEHIND_... */
uint32_t products_behind(const struct products *products);
int record_channel_products(struct recorder *recorder, const struct channels *channels,
                            const struct products *products, VkDeviceAddress sums,
                            struct error *error);
/* sums[c] = the sum of dy of channel c; or adds to it. The workspace has room for a number of each
 * part and channel. */
int record_channel_sums(struct recorder *recorder, const struct channels *channels,
                        VkDeviceAddress dy, VkDeviceAddress workspace, VkDeviceAddress sums,
                        bool accumulate, struct error *error);
static inline size_t channel_sums_workspace(const struct channels *channels)
{
    return (size_t)(channels->parts * channels->channels) * sizeof(float);
}
