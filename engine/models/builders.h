/* builders.h: how the files of this room divide the work of model_build(): each family of models
 * appends its layers between the graph's input and the loss. No business of anybody outside. */
#pragma once

#include "engine/models/models.h"

/* Appends the model's layers behind `x`; `*result` becomes the last one's, its shape unchecked. 0
 * or a negative errno with a sentence; errors that the graph keeps are reported later. */
typedef int model_builder(const struct model_config *config, const struct model_data *data,
                          struct graph *graph, int32_t x, int32_t *result, struct error *error);

model_builder chain_build;        /* mlp, cnn, char_mlp, layers */
model_builder resnet_build;       /* resnet18 */
model_builder mobilenet_build;    /* mobilenet_v3_small */
model_builder efficientnet_build; /* efficientnet_b0 */

/* Appends layer `number` of a chain behind tensor `x` (layers.c); returns its result. */
int32_t model_layer_build(struct graph *graph, const struct model_layer *layer, int number,
                          int32_t x);
