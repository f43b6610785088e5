/* pytorch_network.h: a model's layers as PyTorch writes them. Part of pytorch_module.c. */
#pragma once

#include "base/error.h"
#include "engine/train/safetensors.h"
#include "proto/json.h"
#include "worker/trainee/worker_setup.h"

#include <stdio.h>

/* The layers of a chain, or the name and settings of one of torchvision's networks. The caller
 * releases. NULL with a sentence. */
struct json_object *pytorch_network_describe(const struct worker_setup *setup, struct error *error);

/* The lines that import what the network needs beside torch. */
const char *pytorch_network_imports(struct json_object *network);

/* Writes the function network(). Sizes are those of the weights. -EINVAL with a sentence where the
 * description and the weights do not belong together. */
int pytorch_network_write(FILE *file, struct json_object *network,
                          const struct safetensors *weights, struct error *error);
