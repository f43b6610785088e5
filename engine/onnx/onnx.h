/* onnx.h: a file in the ONNX format (https://onnx.ai) becomes the forward part of a graph. Opset 13
 * and later. The batch is the first extent of the file's input, whatever the file calls it. */
#pragma once

#include "base/error.h"
#include "engine/graph/graph.h"

#include <stdbool.h>
#include <stdint.h>

struct onnx_model;

/* Reads a file and checks it: what it names exists, nodes follow those that they read, and weights
 * have as many numbers as their shapes say. A relative path begins in `directory`. -EINVAL with a
 * sentence for a file that is none, or is damaged; -ENOENT for one that is missing. The caller
 * releases the model with onnx_close(). */
int onnx_open(const char *directory, const char *path, struct onnx_model **model,
              struct error *error);
void onnx_close(struct onnx_model *model);

/* What the model reads, and the rank of what it gives, batch included; 0: the file does not say.
 * Samples of several inputs are rows that have the numbers of one behind those of another; rows of
 * several outputs, too. */
struct onnx_interface {
    bool symbols;                         /* it reads whole numbers: indices */
    int rank;                             /* of a sample */
    int64_t sample_shape[GRAPH_RANK_MAX]; /* -1: any */
    int output_rank;
};
struct onnx_interface onnx_interface(const struct onnx_model *model);

/* Appends the model's nodes behind the samples `x`; `*result` becomes its output. Parameters and
 * statistics have the names of the file's initialisers. `keeps_weights`: they begin with the file's
 * values, which the graph then borrows from the model; else matrices are drawn as PyTorch draws
 * those of layers. All operators that are missing are named in one sentence (-ERROR_UNSUPPORTED).
 * `model` must outlive the graph; it remembers which values it has lent. */
int onnx_build(struct onnx_model *model, bool keeps_weights, struct graph *graph, int32_t x,
               int32_t *result, struct error *error);
