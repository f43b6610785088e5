/* linear_search.h: how a linear layer, or one of its gradients, is done the fastest on this device:
 * by a kernel of our own (kernels/small_linear.cu), or by a product of cuBLASLt, with what belongs
 * to it as the product's own work or as launches of their own. Each way is timed once with all that
 * it needs launches for, for the power of two of rows below the layer's; then it is known
 * (choices.h). */
#pragma once

#include "base/string_table.h"
#include "engine/backends/cuda/cuda.h"

/* A node, as far as its ways differ in it. */
struct linear_problem {
    enum graph_op pass; /* OP_LINEAR or one of its gradients */
    int64_t rows, inputs, outputs;
    enum tensor_type compute;
    /* The operands in the order of the node's, as a product of cuBLASLt reads them, and as our
     * kernels do, for which casts vanish. */
    enum tensor_type library[2], small[2];
    enum tensor_type result;
    bool vector;    /* a bias, or its gradient */
    int activation; /* enum activation_kind behind the layer, or whose derivative the gradient by
                       the samples is taken to; -1: none */
    bool rectified; /* that is a ReLU which can be the product's own work */
    bool keeps_sum; /* what the activation reads is stored, too */
    bool alone;  /* all parameters of the graph are those of such layers: where our kernels do all
                    of them, launches for casts and updates vanish, else they are there anyway */
    bool shares; /* there are other layers whose weights' gradients may share the launch */
    bool has_kernels; /* our kernels are for this device and this size */
};

enum linear_way { LINEAR_SMALL, LINEAR_FUSED, LINEAR_APART };
DECLARE_STRING_TABLE(linear_way, enum linear_way);
struct linear_choice {
    enum linear_way way;
    double microseconds;
    char algorithm[PRODUCT_ALGORITHM_MAX]; /* of cuBLASLt; "": its first proposal */
};

/* The last layer with softmax cross entropy and the gradients by the logits and by its samples. */
enum linear_head {
    HEAD_WHOLE, /* one launch */
    HEAD_LOSS,  /* one launch for all but the gradient by the samples */
    HEAD_APART  /* the layer, the loss and its gradient are launches of their own */
};
DECLARE_STRING_TABLE(linear_head, enum linear_head);

/* What the node is about; its pass must not be OP_COUNT. */
struct linear_problem linear_describe(const struct backend_program *program, int32_t node);
/* The product of cuBLASLt that does it. */
struct product_shape linear_product_shape(const struct linear_problem *problem);
/* The fastest way. Without memory to measure on: cuBLASLt's proposal. */
int linear_search(struct backend_device *device, const struct linear_problem *problem,
                  struct linear_choice *choice, struct error *error);
/* The same for the last layer; `data`: the node of the gradient by its samples, or NULL. */
int linear_search_head(struct backend_device *device, const struct linear_problem *forward,
                       const struct linear_problem *data, enum linear_head *head,
                       struct error *error);
void linear_search_close(struct backend_device *device);
