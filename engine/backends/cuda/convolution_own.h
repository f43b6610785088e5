/* convolution_own.h: kernels of our own for some convolutions (kernels/depthwise.cu, stem.cu,
 * weights_tf32.cu): for which nodes there is one, its launch, and how long it takes. */
#pragma once

#include "engine/backends/cuda/convolution_search.h"
#include "engine/backends/cuda/cuda.h"

enum convolution_way { BY_PLAN, BY_DEPTHWISE, BY_STEM, BY_TF32 }; /* BY_PLAN: of cuDNN */

/* The tensors of a convolution's node by their place in it. */
struct places {
    int32_t x, weight, y, bias, result; /* -1: there is none */
};
struct places places_of(const struct graph_node *node);

/* Which of our own kernels can do the node, or BY_PLAN: none. */
enum convolution_way own_way(const struct backend_program *program, const struct graph_node *node);

/* What such a kernel works on: the tensors' places, and room for sums. */
struct own_operands {
    void *x, *y, *weight;
    const float *bias; /* forward */
    float *gradient;   /* by the weights */
    bool accumulate;
    float *parts; /* CUDA_PRODUCT_SCRATCH bytes */
};
/* With a batch of so many images, whatever the node's is. */
cudaError_t own_launch(const struct backend_program *program, const struct graph_node *node,
                       enum convolution_way way, int images, const struct own_operands *operands);
/* Microseconds of it for the problem, the node's with perhaps another batch; false: there is no
 * memory to measure on, or it fails. */
enum { OWN_RUNS = 10 }; /* that are timed */
bool own_time(struct backend_program *program, const struct graph_node *node,
              enum convolution_way way, const struct convolution_problem *problem,
              double *microseconds);
