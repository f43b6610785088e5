/* linear_search.h: finds the fastest way to compute a linear layer, or one of its gradients, on
 * this device. The ways are a kernel of our own (kernels/small_linear.cu), or a product of
 * cuBLASLt, which may include neighbouring operations or leave them to launches of their own. Each
 * way is timed once, with all launches that it needs, for the power of two of rows below the
 * layer's. The result is kept (choices.h). */
#pragma once

#include "base/string_table.h"
#include "engine/backends/cuda/cuda.h"

/* The properties of a node on which the times of its ways depend. */
struct linear_problem {
    enum graph_op pass; /* OP_LINEAR or one of its gradients */
    int64_t rows, inputs, outputs;
    enum tensor_type compute;
    /* The types of the operands, in the order of the node's: as a product of cuBLASLt reads them,
     * and as our kernels read them, which need no casts. */
    enum tensor_type library[2], small[2];
    enum tensor_type result;
    bool vector; /* there is a bias, or a gradient of one */
    /* Enum activation_kind: the activation behind the layer. For the gradient by the samples, the
     * activation whose derivative is applied to it. -1: none. */
    int activation;
    bool rectified; /* it is a ReLU that the product can include */
    bool keeps_sum; /* the tensor that the activation reads is stored as well */
    /* Such layers have all parameters of the graph. If our kernels compute all of them, the
     * launches for casts and updates vanish; otherwise there are such launches anyway. */
    bool alone;
    bool shares;      /* other layers' gradients by weights may share the launch */
    bool has_kernels; /* our kernels support this device and this size */
};

enum linear_way { LINEAR_SMALL, LINEAR_FUSED, LINEAR_APART };
DECLARE_STRING_TABLE(linear_way, enum linear_way);
struct linear_choice {
    enum linear_way way;
    double microseconds;
    char algorithm[PRODUCT_ALGORITHM_MAX]; /* of cuBLASLt; "": its first proposal */
};

/* How to compute the last layer, softmax cross entropy, and the gradients by the logits and by the
 * layer's samples. */
enum linear_head {
    HEAD_WHOLE, /* one launch */
    HEAD_LOSS,  /* one launch for all but the gradient by the samples */
    HEAD_APART  /* the layer, the loss and its gradient are launches of their own */
};
DECLARE_STRING_TABLE(linear_head, enum linear_head);

/* Describes the node; its pass must not be OP_COUNT. */
struct linear_problem linear_describe(const struct backend_program *program, int32_t node);
/* The product of cuBLASLt that computes it. */
struct product_shape linear_product_shape(const struct linear_problem *problem);
/* Finds the fastest way. Without memory to measure on, it is cuBLASLt's proposal. */
int linear_search(struct backend_device *device, const struct linear_problem *problem,
                  struct linear_choice *choice, struct error *error);
/* The same for the last layer. `data`: the node of the gradient by its samples, or NULL. */
int linear_search_head(struct backend_device *device, const struct linear_problem *forward,
                       const struct linear_problem *data, enum linear_head *head,
                       struct error *error);
/* Opens the table of what was measured, device->products, if it is not open. */
int linear_search_open(struct backend_device *device, struct error *error);
void linear_search_close(struct backend_device *device);
