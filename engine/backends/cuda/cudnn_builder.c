/* cudnn_builder.c: makes descriptors of cuDNN's graph API and fills them in
 * (convolution_internal.h). */
#include "engine/backends/cuda/convolution_internal.h"

void cudnn_builder_release(struct cudnn_builder *builder)
{
    while (builder->count > 0)
        builder->cudnn->cudnnBackendDestroyDescriptor(builder->made[--builder->count]);
}

cudnnBackendDescriptor_t cudnn_builder_create(struct cudnn_builder *builder,
                                              cudnnBackendDescriptorType_t type)
{
    cudnnBackendDescriptor_t made = NULL;

    if (builder->status == CUDNN_STATUS_SUCCESS && builder->count == CUDNN_DESCRIPTORS_MAX)
        builder->status = CUDNN_STATUS_INTERNAL_ERROR;
    if (builder->status == CUDNN_STATUS_SUCCESS)
        builder->status = builder->cudnn->cudnnBackendCreateDescriptor(type, &made);
    if (made)
        builder->made[builder->count++] = made;
    return made;
}

void cudnn_builder_set(struct cudnn_builder *builder, cudnnBackendDescriptor_t descriptor,
                       cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                       int64_t count, const void *values)
{
    if (builder->status == CUDNN_STATUS_SUCCESS)
        builder->status =
            builder->cudnn->cudnnBackendSetAttribute(descriptor, name, type, count, values);
}

void cudnn_builder_set_descriptor(struct cudnn_builder *builder,
                                  cudnnBackendDescriptor_t descriptor,
                                  cudnnBackendAttributeName_t name, cudnnBackendDescriptor_t value)
{
    cudnn_builder_set(builder, descriptor, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &value);
}

void cudnn_builder_finalize(struct cudnn_builder *builder, cudnnBackendDescriptor_t descriptor)
{
    if (builder->status == CUDNN_STATUS_SUCCESS)
        builder->status = builder->cudnn->cudnnBackendFinalize(descriptor);
}
