/* convolution_own.h: kernels of our own for convolutions (kernels/depthwise.cu, direct.cu,
 * implicit.cu, narrow.cu, pointwise.cu, stem.cu, weights_tf32.cu): which nodes they can compute,
 * how they are launched, and how long they take. */
#pragma once

#include "base/string_table.h"
#include "engine/backends/cuda/convolution_search.h"
#include "engine/backends/cuda/cuda.h"
#include "engine/backends/cuda/kernels/kernels.h"

enum convolution_way {
    BY_PLAN,   /* by cuDNN */
    BY_PADDED, /* by cuDNN for more channels: a way for each filling of convolution_padded.h */
    BY_DEPTHWISE = BY_PADDED + 2,
    BY_STEM,
    BY_TF32,
    BY_DIRECT,
    BY_NARROW,
    BY_POINTWISE,
    BY_IMPLICIT, /* and so on with the other tiles */
    CONVOLUTION_WAYS = BY_IMPLICIT + CUDA_IMPLICIT_TILES
};
DECLARE_STRING_TABLE(convolution_way, enum convolution_way);

/* The tensors of a convolution's node by their role. */
struct places {
    int32_t x, weight, y, bias, result; /* -1: there is none */
};
struct places places_of(const struct graph_node *node);

/* Lists which of our own kernels can compute the node; returns how many there are. */
int own_ways(const struct backend_program *program, const struct graph_node *node,
             enum convolution_way ways[CONVOLUTION_WAYS]);

/* What such a kernel works on: the addresses of the tensors, and room for sums. */
struct own_operands {
    void *x, *y, *weight;
    const float *bias; /* used by forward */
    float *gradient;   /* used by the gradient of the weights */
    bool accumulate;
    float *parts; /* CUDA_PRODUCT_SCRATCH bytes */
};
/* Launches the kernel for the given number of images, whatever the batch of the node is. */
cudaError_t own_launch(const struct backend_program *program, const struct graph_node *node,
                       enum convolution_way way, int images, const struct own_operands *operands);
/* Finds the fastest of the ways for the problem, which is the node's with perhaps another batch,
 * and its microseconds. BY_PLAN: there is no memory to measure on, or all ways fail. */
enum convolution_way own_fastest(struct backend_program *program, const struct graph_node *node,
                                 const enum convolution_way *ways, int count,
                                 const struct convolution_problem *problem, double *microseconds);
enum { OWN_RUNS = 10 }; /* timed runs of a way */
