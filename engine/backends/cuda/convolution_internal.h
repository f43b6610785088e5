/* convolution_internal.h: shared by the files of convolutions by cuDNN's graph API: descriptors
 * (cudnn_builder.c), the operation graph (convolution_graph.c), engines and plans
 * (convolution_plan.c). */
#pragma once

#include "engine/backends/cuda/convolution_plan.h"

enum { CUDNN_DESCRIPTORS_MAX = 64, CONVOLUTION_OPERATIONS_MAX = 6 };

/* Identifiers of the operands, in the order of struct convolution_operands. */
enum { UID_X = 1, UID_WEIGHT, UID_Y, UID_BIAS, UID_SCALE, UID_SHIFT, UID_SUM, UID_SQUARES };

/* Makes descriptors one after the other. After a failure, its functions do nothing. */
struct cudnn_builder {
    const struct cudnn *cudnn;
    cudnnStatus_t status;
    int count;
    cudnnBackendDescriptor_t made[CUDNN_DESCRIPTORS_MAX];
};

/* Destroys all its descriptors. */
void cudnn_builder_release(struct cudnn_builder *builder);
/* Makes one more descriptor, which the builder owns; NULL after a failure. */
cudnnBackendDescriptor_t cudnn_builder_create(struct cudnn_builder *builder,
                                              cudnnBackendDescriptorType_t type);
void cudnn_builder_set(struct cudnn_builder *builder, cudnnBackendDescriptor_t descriptor,
                       cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                       int64_t count, const void *values);
void cudnn_builder_set_descriptor(struct cudnn_builder *builder,
                                  cudnnBackendDescriptor_t descriptor,
                                  cudnnBackendAttributeName_t name, cudnnBackendDescriptor_t value);
void cudnn_builder_finalize(struct cudnn_builder *builder, cudnnBackendDescriptor_t descriptor);

struct convolution_graph {
    struct cudnn_builder builder;
    struct convolution_problem problem;
    int operation_count;
    cudnnBackendDescriptor_t operation[CONVOLUTION_OPERATIONS_MAX], operations;
};
