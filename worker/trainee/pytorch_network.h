/* pytorch_network.h: writes a model's layers as PyTorch code. Only pytorch_module.c uses it. */
#pragma once

#include "base/error.h"
#include "engine/train/safetensors.h"
#include "proto/json.h"
#include "worker/trainee/worker_setup.h"

#include <stdio.h>

/* Describes the layers of a chain, or the name and settings of one of torchvision's networks. The
 * caller owns the result. NULL with a sentence. */
struct json_object *pytorch_network_describe(const struct worker_setup *setup, struct error *error);

/* Writes the lines that import or define what the network needs besides torch. */
void pytorch_network_write_imports(FILE *file, struct json_object *network);

/* Writes the function network(). It takes the sizes from the weights. -EINVAL with a sentence if
 * the description and the weights do not match. */
int pytorch_network_write(FILE *file, struct json_object *network,
                          const struct safetensors *weights, struct error *error);
