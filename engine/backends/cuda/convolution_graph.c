/* convolution_graph.c: describes a convolution, or one of its gradients, with the operations fused
 * with it, as an operation graph of cuDNN: see convolution_plan.h. */
#include "engine/backends/cuda/convolution_internal.h"

#include <stdlib.h>

/* Identifiers of the tensors between operations. */
enum { UID_PRODUCTS = 20, UID_SCALED, UID_SHIFTED, UID_RECTIFIED };

static cudnnDataType_t data_type(enum tensor_type type)
{
    return type == TENSOR_BFLOAT16  ? CUDNN_DATA_BFLOAT16
           : type == TENSOR_FLOAT16 ? CUDNN_DATA_HALF
                                    : CUDNN_DATA_FLOAT;
}

/* Describes a tensor whose last three dimensions are stored in the order h, w, channels. */
static cudnnBackendDescriptor_t describe_tensor(struct cudnn_builder *builder, int64_t uid,
                                                const int64_t extent[4], cudnnDataType_t type,
                                                bool virtual)
{
    const int64_t stride[4] = {extent[1] * extent[2] * extent[3], 1, extent[3] * extent[1],
                               extent[1]};
    const int64_t alignment = 16;
    cudnnBackendDescriptor_t tensor =
        cudnn_builder_create(builder, CUDNN_BACKEND_TENSOR_DESCRIPTOR);

    cudnn_builder_set(builder, tensor, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &type);
    cudnn_builder_set(builder, tensor, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 4, extent);
    cudnn_builder_set(builder, tensor, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, 4, stride);
    cudnn_builder_set(builder, tensor, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1, &uid);
    cudnn_builder_set(builder, tensor, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, 1,
                      &alignment);
    cudnn_builder_set(builder, tensor, CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, 1,
                      &virtual);
    cudnn_builder_finalize(builder, tensor);
    return tensor;
}

static cudnnBackendDescriptor_t describe_convolution(struct cudnn_builder *builder,
                                                     const struct convolution_problem *problem)
{
    const cudnnDataType_t compute = CUDNN_DATA_FLOAT;
    const cudnnConvolutionMode_t mode = CUDNN_CROSS_CORRELATION;
    const int64_t dimensions = 2;
    /* A filter of one pixel has no dilation. With one, cuDNN 9.14 crashed while it listed ways. */
    const int64_t dilation[2] = {problem->weight[2] > 1 ? problem->dilation[0] : 1,
                                 problem->weight[3] > 1 ? problem->dilation[1] : 1};
    cudnnBackendDescriptor_t made =
        cudnn_builder_create(builder, CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);

    cudnn_builder_set(builder, made, CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, CUDNN_TYPE_INT64, 1,
                      &dimensions);
    cudnn_builder_set(builder, made, CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1,
                      &compute);
    cudnn_builder_set(builder, made, CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE,
                      1, &mode);
    cudnn_builder_set(builder, made, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, CUDNN_TYPE_INT64, 2,
                      problem->padding);
    cudnn_builder_set(builder, made, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, CUDNN_TYPE_INT64, 2,
                      problem->padding);
    cudnn_builder_set(builder, made, CUDNN_ATTR_CONVOLUTION_DILATIONS, CUDNN_TYPE_INT64, 2,
                      dilation);
    cudnn_builder_set(builder, made, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, CUDNN_TYPE_INT64, 2,
                      problem->stride);
    cudnn_builder_finalize(builder, made);
    return made;
}

/* The names of the attributes in each pass. */
static const struct pass_names {
    cudnnBackendDescriptorType_t operation;
    cudnnBackendAttributeName_t x, weight, y, convolution, alpha, beta;
} pass_names[CONVOLUTION_PASSES] = {
    [CONVOLUTION_FORWARD] = {CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
                             CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
                             CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
                             CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y,
                             CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
                             CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
                             CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA},
    [CONVOLUTION_DATA] = {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
                          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
                          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
                          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY,
                          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
                          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
                          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA},
    [CONVOLUTION_WEIGHTS] = {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
                             CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
                             CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
                             CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY,
                             CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
                             CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
                             CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA},
};

static cudnnDataType_t type_in_pass(const struct convolution_problem *problem,
                                    enum convolution_pass writes)
{
    return data_type(problem->pass == writes ? problem->result : problem->type);
}

/* Describes y = x (mode) b, or mode(x) without b. */
static cudnnBackendDescriptor_t describe_pointwise(struct cudnn_builder *builder,
                                                   cudnnPointwiseMode_t mode,
                                                   cudnnBackendDescriptor_t x,
                                                   cudnnBackendDescriptor_t b,
                                                   cudnnBackendDescriptor_t y)
{
    const cudnnDataType_t compute = CUDNN_DATA_FLOAT;
    cudnnBackendDescriptor_t pointwise =
        cudnn_builder_create(builder, CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
    cudnnBackendDescriptor_t operation;

    cudnn_builder_set(builder, pointwise, CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, 1,
                      &mode);
    cudnn_builder_set(builder, pointwise, CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, 1,
                      &compute);
    cudnn_builder_finalize(builder, pointwise);
    operation = cudnn_builder_create(builder, CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
    cudnn_builder_set_descriptor(builder, operation, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR,
                                 pointwise);
    cudnn_builder_set_descriptor(builder, operation, CUDNN_ATTR_OPERATION_POINTWISE_XDESC, x);
    if (b)
        cudnn_builder_set_descriptor(builder, operation, CUDNN_ATTR_OPERATION_POINTWISE_BDESC, b);
    cudnn_builder_set_descriptor(builder, operation, CUDNN_ATTR_OPERATION_POINTWISE_YDESC, y);
    cudnn_builder_finalize(builder, operation);
    return operation;
}

/* Adds the operations in front of the convolution: max(0, x scale + shift), which it reads instead
 * of x. */
static cudnnBackendDescriptor_t add_prologue(struct convolution_graph *graph,
                                             cudnnBackendDescriptor_t x)
{
    struct cudnn_builder *builder = &graph->builder;
    const struct convolution_problem *problem = &graph->problem;
    const int64_t channels[4] = {1, problem->x[1], 1, 1};
    cudnnDataType_t type = data_type(problem->type);
    cudnnBackendDescriptor_t scale = describe_tensor(builder, UID_SCALE, channels, type, false);
    cudnnBackendDescriptor_t shift = describe_tensor(builder, UID_SHIFT, channels, type, false);
    cudnnBackendDescriptor_t scaled = describe_tensor(builder, UID_SCALED, problem->x, type, true);
    cudnnBackendDescriptor_t shifted =
        describe_tensor(builder, UID_SHIFTED, problem->x, type, true);
    cudnnBackendDescriptor_t rectified =
        describe_tensor(builder, UID_RECTIFIED, problem->x, type, true);

    graph->operation[graph->operation_count++] =
        describe_pointwise(builder, CUDNN_POINTWISE_MUL, x, scale, scaled);
    graph->operation[graph->operation_count++] =
        describe_pointwise(builder, CUDNN_POINTWISE_ADD, scaled, shift, shifted);
    graph->operation[graph->operation_count++] =
        describe_pointwise(builder, CUDNN_POINTWISE_RELU_FWD, shifted, NULL, rectified);
    return rectified;
}

/* Adds the sums over each channel of y and of its squares, in float32. */
static void add_statistics(struct convolution_graph *graph, cudnnBackendDescriptor_t y)
{
    struct cudnn_builder *builder = &graph->builder;
    const int64_t channels[4] = {1, graph->problem.y[1], 1, 1};
    const cudnnGenStatsMode_t mode = CUDNN_GENSTATS_SUM_SQSUM;
    const cudnnDataType_t compute = CUDNN_DATA_FLOAT;
    cudnnBackendDescriptor_t sum =
        describe_tensor(builder, UID_SUM, channels, CUDNN_DATA_FLOAT, false);
    cudnnBackendDescriptor_t squares =
        describe_tensor(builder, UID_SQUARES, channels, CUDNN_DATA_FLOAT, false);
    cudnnBackendDescriptor_t made =
        cudnn_builder_create(builder, CUDNN_BACKEND_OPERATION_GEN_STATS_DESCRIPTOR);

    cudnn_builder_set(builder, made, CUDNN_ATTR_OPERATION_GENSTATS_MODE, CUDNN_TYPE_GENSTATS_MODE,
                      1, &mode);
    cudnn_builder_set(builder, made, CUDNN_ATTR_OPERATION_GENSTATS_MATH_PREC, CUDNN_TYPE_DATA_TYPE,
                      1, &compute);
    cudnn_builder_set_descriptor(builder, made, CUDNN_ATTR_OPERATION_GENSTATS_XDESC, y);
    cudnn_builder_set_descriptor(builder, made, CUDNN_ATTR_OPERATION_GENSTATS_SUMDESC, sum);
    cudnn_builder_set_descriptor(builder, made, CUDNN_ATTR_OPERATION_GENSTATS_SQSUMDESC, squares);
    cudnn_builder_finalize(builder, made);
    graph->operation[graph->operation_count++] = made;
}

static void add_bias(struct convolution_graph *graph, cudnnBackendDescriptor_t products)
{
    struct cudnn_builder *builder = &graph->builder;
    const struct convolution_problem *problem = &graph->problem;
    const int64_t channels[4] = {1, problem->y[1], 1, 1};
    cudnnBackendDescriptor_t bias =
        describe_tensor(builder, UID_BIAS, channels, CUDNN_DATA_FLOAT, false);
    cudnnBackendDescriptor_t y =
        describe_tensor(builder, UID_Y, problem->y, data_type(problem->result), false);

    graph->operation[graph->operation_count++] =
        describe_pointwise(builder, CUDNN_POINTWISE_ADD, products, bias, y);
}

static cudnnBackendDescriptor_t describe_pass(struct convolution_graph *graph,
                                              cudnnBackendDescriptor_t x,
                                              cudnnBackendDescriptor_t weight,
                                              cudnnBackendDescriptor_t y)
{
    struct cudnn_builder *builder = &graph->builder;
    const struct pass_names *names = &pass_names[graph->problem.pass];
    const float alpha = 1, beta = 0;
    cudnnBackendDescriptor_t convolution = describe_convolution(builder, &graph->problem);
    cudnnBackendDescriptor_t operation = cudnn_builder_create(builder, names->operation);

    cudnn_builder_set_descriptor(builder, operation, names->x, x);
    cudnn_builder_set_descriptor(builder, operation, names->weight, weight);
    cudnn_builder_set_descriptor(builder, operation, names->y, y);
    cudnn_builder_set_descriptor(builder, operation, names->convolution, convolution);
    cudnn_builder_set(builder, operation, names->alpha, CUDNN_TYPE_FLOAT, 1, &alpha);
    cudnn_builder_set(builder, operation, names->beta, CUDNN_TYPE_FLOAT, 1, &beta);
    cudnn_builder_finalize(builder, operation);
    return operation;
}

static void describe_operations(struct convolution_graph *graph)
{
    struct cudnn_builder *builder = &graph->builder;
    const struct convolution_problem *problem = &graph->problem;
    cudnnBackendDescriptor_t x =
        describe_tensor(builder, UID_X, problem->x, type_in_pass(problem, CONVOLUTION_DATA), false);
    cudnnBackendDescriptor_t weight = describe_tensor(
        builder, UID_WEIGHT, problem->weight, type_in_pass(problem, CONVOLUTION_WEIGHTS), false);
    cudnnBackendDescriptor_t y =
        problem->bias ? describe_tensor(builder, UID_PRODUCTS, problem->y, CUDNN_DATA_FLOAT, true)
                      : describe_tensor(builder, UID_Y, problem->y,
                                        type_in_pass(problem, CONVOLUTION_FORWARD), false);

    if (problem->rectified)
        x = add_prologue(graph, x);
    graph->operation[graph->operation_count++] = describe_pass(graph, x, weight, y);
    if (problem->bias)
        add_bias(graph, y);
    if (problem->statistics)
        add_statistics(graph, y);
    graph->operations = cudnn_builder_create(builder, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
    cudnn_builder_set(builder, graph->operations, CUDNN_ATTR_OPERATIONGRAPH_HANDLE,
                      CUDNN_TYPE_HANDLE, 1, &builder->cudnn->handle);
    cudnn_builder_set(builder, graph->operations, CUDNN_ATTR_OPERATIONGRAPH_OPS,
                      CUDNN_TYPE_BACKEND_DESCRIPTOR, graph->operation_count, graph->operation);
    cudnn_builder_finalize(builder, graph->operations);
}

int convolution_graph_make(const struct cudnn *cudnn, const struct convolution_problem *problem,
                           struct convolution_graph **result, struct error *error)
{
    struct convolution_graph *graph = calloc(1, sizeof *graph);
    cudnnStatus_t status;

    if (!graph)
        return error_no_memory(error, "a convolution");
    graph->builder.cudnn = cudnn;
    graph->problem = *problem;
    describe_operations(graph);
    status = graph->builder.status;
    if (status != CUDNN_STATUS_SUCCESS) {
        convolution_graph_free(graph);
        return error_set(error, -ERROR_UNSUPPORTED, "cuDNN refuses the convolution: %s",
                         cudnn->cudnnGetErrorString(status));
    }
    *result = graph;
    return 0;
}

void convolution_graph_free(struct convolution_graph *graph)
{
    if (!graph)
        return;
    cudnn_builder_release(&graph->builder);
    free(graph);
}
