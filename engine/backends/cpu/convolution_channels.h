/* convolution_channels.h: a convolution of one group, or a gradient of one, by oneDNN, divided by
 * channels, so that threads share few samples evenly. Each part has some channels of y (gradient by
 * the data: of x). A part works on one sample at a time. For the gradient by the weights it works
 * on all samples, so that no partial sums have to be added.
 *
 * The parts work on copies: one copy of the images that all parts read, and one of each part's own
 * channels. Weights are copied only if they do not have the layout that oneDNN wants. */
#pragma once

#include "engine/backends/cpu/onednn.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct channels_convolution;

/* Addresses of the operands. `weights` and `bias` are read, or receive the gradients. `bias` may be
 * NULL. */
struct channels_memory {
    char *workspace; /* channels_workspace_bytes() */
    char *x, *y, *weights, *bias;
};

/* Creates a convolution of all samples of the shape, for `parts` tasks. Images have the layout that
 * the shape says, their copies have `order`, and the weights have the layout `weights`.
 * -ERROR_UNSUPPORTED: there are too few channels, the weights' layout cannot be divided, or oneDNN
 * only has its reference implementation. Free with channels_free(). */
int channels_create(struct onednn *onednn, enum onednn_direction direction,
                    const struct onednn_convolution_shape *shape, enum onednn_images order,
                    const struct onednn_layout *weights, int parts,
                    struct channels_convolution **channels, struct error *error);
/* NULL is allowed. */
void channels_free(struct channels_convolution *channels);
const char *channels_implementation(const struct channels_convolution *channels);
size_t channels_workspace_bytes(const struct channels_convolution *channels);
/* Scratch bytes of each thread. */
size_t channels_scratch_bytes(const struct channels_convolution *channels);
/* The number of parts; and the number of units, of which channels_run() runs one: a part of a
 * sample, or a part. */
int channels_count(const struct channels_convolution *channels);
int64_t channels_units(const struct channels_convolution *channels);

int channels_bind_weights(struct channels_convolution *channels, int part,
                          const struct channels_memory *memory, struct error *error);
/* `scratch` belongs to the thread that will run the unit. */
int channels_bind_unit(struct channels_convolution *channels, int64_t unit,
                       const struct channels_memory *memory, void *scratch, struct error *error);
/* Whether no part needs a copy of its weights. Their gradient can then also be written to the
 * `weights` and `bias` of channels_bind_direct(), by channels_run() with `direct`. */
bool channels_use_weights_in_place(const struct channels_convolution *channels);
int channels_bind_direct(struct channels_convolution *channels, int64_t unit,
                         const struct channels_memory *memory, void *scratch, struct error *error);
/* Creates the call that copies a sample which all parts read. `moves`: onednn_call_set_source()
 * will set the sample's address. */
int channels_bind_sample(struct channels_convolution *channels, int64_t sample,
                         const struct channels_memory *memory, bool moves,
                         struct onednn_call **call, struct error *error);

/* Copy a sample and pack a part's weights; the gradient by the weights packs nothing. All of it
 * must be done before units run. 0, or oneDNN's error. */
int channels_copy(const struct channels_convolution *channels, int64_t sample, int thread);
int channels_pack(const struct channels_convolution *channels, int part, int thread);
int channels_run(const struct channels_convolution *channels, int64_t unit, bool direct,
                 int thread);
