/* convolution_own.c: see convolution_own.h. */
#include "engine/backends/cuda/convolution_own.h"

#include <limits.h>

struct places places_of(const struct graph_node *node)
{
    const int32_t *in = node->input, *out = node->output;

    if (node->op == OP_CONV2D)
        return (struct places){in[0], in[1], out[0], node->input_count > 2 ? in[2] : -1, out[0]};
    if (node->op == OP_CONV2D_BACKWARD_DATA)
        return (struct places){out[0], in[1], in[0], -1, out[0]};
    return (struct places){in[0], out[0], in[1], node->output_count > 1 ? out[1] : -1, out[0]};
}

/* Square filters, stride 1 or 2, padded so that results are as many as pixels of that stride. */
static bool is_plain(const struct conv_attributes *conv, int kernel)
{
    return conv->kernel[0] == kernel && conv->kernel[1] == kernel && conv->stride[0] <= 2 &&
           conv->stride[1] == conv->stride[0] && conv->padding[0] == kernel / 2 &&
           conv->padding[1] == kernel / 2 && conv->dilation[0] == 1 && conv->dilation[1] == 1;
}

static struct cuda_depthwise describe_depthwise(const struct backend_program *program,
                                                const struct graph_node *node)
{
    struct places at = places_of(node);
    const int64_t *x = program->graph->tensors[at.x].shape.extent;
    const int64_t *y = program->graph->tensors[at.y].shape.extent;

    return (struct cuda_depthwise){.type = program_stored_type(program, node->input[0]),
                                   .batch = (int)x[0],
                                   .channels = (int)x[1],
                                   .height = (int)x[2],
                                   .width = (int)x[3],
                                   .out_height = (int)y[2],
                                   .out_width = (int)y[3],
                                   .kernel = node->attributes.conv.kernel[0],
                                   .stride = node->attributes.conv.stride[0]};
}

static struct cuda_stem describe_stem(const struct backend_program *program,
                                      const struct graph_node *node)
{
    const struct cuda_depthwise d = describe_depthwise(program, node);

    return (struct cuda_stem){.type = d.type,
                              .batch = d.batch,
                              .channels = d.channels,
                              .height = d.height,
                              .width = d.width,
                              .outputs =
                                  (int)program->graph->tensors[places_of(node).y].shape.extent[1],
                              .out_height = d.out_height,
                              .out_width = d.out_width,
                              .stride = d.stride};
}

static struct cuda_weights_tf32 describe_tf32(const struct backend_program *program,
                                              const struct graph_node *node)
{
    const struct cuda_stem d = describe_stem(program, node);

    return (struct cuda_weights_tf32){.batch = d.batch,
                                      .channels = d.channels,
                                      .height = d.height,
                                      .width = d.width,
                                      .outputs = d.outputs};
}

static bool is_for_tf32(const struct backend_program *program, const struct graph_node *node)
{
    const struct conv_attributes *conv = &node->attributes.conv;
    const struct cuda_weights_tf32 d = describe_tf32(program, node);
    size_t bytes = (size_t)program_elements(program, places_of(node).weight) * sizeof(float);

    return node->op == OP_CONV2D_BACKWARD_WEIGHTS && program->graph->compute_type == TENSOR_TF32 &&
           program_stored_type(program, node->input[0]) == TENSOR_FLOAT32 &&
           program->device->capability[0] >= 8 && conv->groups == 1 && conv->stride[0] == 1 &&
           is_plain(conv, 3) && bytes <= CUDA_PRODUCT_SCRATCH && cuda_weights_tf32_is_possible(&d);
}

enum convolution_way own_way(const struct backend_program *program, const struct graph_node *node)
{
    const struct conv_attributes *conv = &node->attributes.conv;
    const struct cuda_stem stem = describe_stem(program, node);
    struct places at = places_of(node);

    if (program_stored_type(program, at.x) != program_stored_type(program, at.y) ||
        program_elements(program, at.x) > INT32_MAX || program_elements(program, at.y) > INT32_MAX)
        return BY_PLAN;
    if (conv->groups == stem.channels && stem.outputs == stem.channels && stem.channels % 8 == 0 &&
        (is_plain(conv, 3) || is_plain(conv, 5)))
        return BY_DEPTHWISE;
    if (node->op != OP_CONV2D_BACKWARD_DATA && conv->groups == 1 && is_plain(conv, 3) &&
        program->device->capability[0] >= 8 && cuda_stem_is_possible(&stem))
        return BY_STEM;
    return is_for_tf32(program, node) ? BY_TF32 : BY_PLAN;
}

cudaError_t own_launch(const struct backend_program *program, const struct graph_node *node,
                       enum convolution_way way, int images, const struct own_operands *o)
{
    struct cuda_depthwise depthwise = describe_depthwise(program, node);
    struct cuda_stem stem = describe_stem(program, node);
    struct cuda_weights_tf32 weights = describe_tf32(program, node);
    enum cuda_depthwise_pass pass = node->op == OP_CONV2D                 ? CUDA_DEPTHWISE_FORWARD
                                    : node->op == OP_CONV2D_BACKWARD_DATA ? CUDA_DEPTHWISE_DATA
                                                                          : CUDA_DEPTHWISE_WEIGHTS;
    cudaStream_t stream = program->device->stream;

    depthwise.batch = stem.batch = weights.batch = images;
    if (way == BY_STEM)
        return cuda_stem(&stem,
                         &(struct cuda_stem_operands){.x = o->x,
                                                      .y = o->y,
                                                      .weight = o->weight,
                                                      .bias = o->bias,
                                                      .gradient = o->gradient,
                                                      .accumulate = o->accumulate,
                                                      .parts = o->parts,
                                                      .part_bytes = CUDA_PRODUCT_SCRATCH},
                         stream);
    if (way == BY_TF32)
        return cuda_weights_tf32(
            &weights,
            &(struct cuda_weights_tf32_operands){.x = o->x,
                                                 .y = o->y,
                                                 .gradient = o->gradient,
                                                 .accumulate = o->accumulate,
                                                 .parts = o->parts,
                                                 .part_bytes = CUDA_PRODUCT_SCRATCH},
            stream);
    return cuda_depthwise(&depthwise, pass,
                          &(struct cuda_depthwise_operands){.x = o->x,
                                                            .y = o->y,
                                                            .weight = o->weight,
                                                            .bias = o->bias,
                                                            .gradient = o->gradient,
                                                            .accumulate = o->accumulate,
                                                            .parts = o->parts,
                                                            .part_bytes = CUDA_PRODUCT_SCRATCH},
                          stream);
}

/* Our own kernel, on memory for measurements. */
struct own_run {
    const struct backend_program *program;
    const struct graph_node *node;
    enum convolution_way way;
    int images;
    struct own_operands operands;
};

static int own_launch_run(void *context, struct error *error)
{
    const struct own_run *run = context;
    cudaError_t status = own_launch(run->program, run->node, run->way, run->images, &run->operands);

    return status == cudaSuccess ? 0 : cuda_fail(error, status, run->node->name);
}

enum { PARTS = 4 }; /* place of choices_memory() */

bool own_time(struct backend_program *program, const struct graph_node *node,
              enum convolution_way way, const struct convolution_problem *problem,
              double *microseconds)
{
    struct convolution_search *search = program->device->search;
    struct own_run run = {program, node, way, (int)problem->x[0], {0}};
    struct convolution_operands operands;
    struct error ignored;

    if (!convolution_search_operands(search, problem, 0, &operands))
        return false;
    run.operands = (struct own_operands){
        .x = operands.x,
        .y = operands.y,
        .weight = operands.weight,
        .gradient = node->op == OP_CONV2D_BACKWARD_WEIGHTS ? (float *)operands.weight : NULL,
        .parts = choices_memory(convolution_search_choices(search), PARTS, CUDA_PRODUCT_SCRATCH)};
    return run.operands.parts && choices_time(program->device->stream, own_launch_run, &run,
                                              OWN_RUNS, microseconds, &ignored) == 0;
}
