/* convolution_channels.h: a convolution, or a gradient of one, by oneDNN, divided by channels: each
 * part has some of those of y, or for the gradient by the data of x. It works on one sample at a
 * time, but for the gradient by the weights on all, so that there are no sums to do: so threads
 * share few samples evenly. Its work is on copies: of the images that all parts read, made once,
 * and of its own channels; of its weights only where they do not lie as oneDNN wants them. One
 * group. */
#pragma once

#include "engine/backends/cpu/onednn.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct channels_convolution;

/* Where its operands are. `weights` and `bias` are what is read, or where the gradients go; bias
 * NULL: there is none. */
struct channels_memory {
    char *workspace; /* channels_workspace_bytes() */
    char *x, *y, *weights, *bias;
};

/* Of all of the shape's samples, whose images lie as it says, and weights in the layout, on copies
 * of images that lie in `order`, for so many tasks. -ERROR_UNSUPPORTED: there are too few channels,
 * the weights' layout cannot be divided, or oneDNN has nothing but its reference. Free with
 * channels_free(). */
int channels_create(struct onednn *onednn, enum onednn_direction direction,
                    const struct onednn_convolution_shape *shape, enum onednn_images order,
                    const struct onednn_layout *weights, int parts,
                    struct channels_convolution **channels, struct error *error);
/* NULL is allowed. */
void channels_free(struct channels_convolution *channels);
const char *channels_implementation(const struct channels_convolution *channels);
size_t channels_workspace_bytes(const struct channels_convolution *channels);
/* Of each thread. */
size_t channels_scratch_bytes(const struct channels_convolution *channels);
/* Parts, and what channels_run() does one at a time: parts of a sample, or parts. */
int channels_count(const struct channels_convolution *channels);
int64_t channels_units(const struct channels_convolution *channels);

int channels_bind_weights(struct channels_convolution *channels, int part,
                          const struct channels_memory *memory, struct error *error);
/* `scratch` is of the thread that will run the unit. */
int channels_bind_unit(struct channels_convolution *channels, int64_t unit,
                       const struct channels_memory *memory, void *scratch, struct error *error);
/* Whether no part needs a copy of its weights. Then the gradient by them can be written elsewhere,
 * too: to `weights` and `bias` of channels_bind_direct(), when channels_run() is told `direct`. */
bool channels_use_weights_in_place(const struct channels_convolution *channels);
int channels_bind_direct(struct channels_convolution *channels, int64_t unit,
                         const struct channels_memory *memory, void *scratch, struct error *error);
/* The call that copies a sample that all parts read; `moves`: onednn_call_set_source() will say
 * where that is. */
int channels_bind_sample(struct channels_convolution *channels, int64_t sample,
                         const struct channels_memory *memory, bool moves,
                         struct onednn_call **call, struct error *error);

/* Samples copied and weights packed (nothing for their gradient), all before units are run. 0, or
 * what oneDNN says. */
int channels_copy(const struct channels_convolution *channels, int64_t sample, int thread);
int channels_pack(const struct channels_convolution *channels, int part, int thread);
int channels_run(const struct channels_convolution *channels, int64_t unit, bool direct,
                 int thread);
