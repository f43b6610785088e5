/* convolution_own.c: see convolution_own.h. */
#include "engine/backends/cuda/convolution_own.h"

#include "engine/backends/cuda/convolution_padded.h"

#include <limits.h>
#include <math.h>

static const char *const convolution_way_names[] = {[BY_PLAN] = "plan",
                                                    [BY_PADDED + FILL_CHUNKS] = "padded_plan",
                                                    [BY_PADDED + FILL_POWERS] =
                                                        "padded_plan_powers",
                                                    [BY_DEPTHWISE] = "depthwise",
                                                    [BY_STEM] = "stem",
                                                    [BY_TF32] = "tf32",
                                                    [BY_DIRECT] = "direct",
                                                    [BY_NARROW] = "narrow",
                                                    [BY_POINTWISE] = "pointwise",
                                                    [BY_IMPLICIT] = "implicit_128x64",
                                                    [BY_IMPLICIT + 1] = "implicit_64x64",
                                                    [BY_IMPLICIT + 2] = "implicit_128x32",
                                                    [BY_IMPLICIT + 3] = "implicit_wide"};
DEFINE_STRING_TABLE(convolution_way, enum convolution_way, convolution_way_names)

/* Without groups the direct kernels are tried for so many channels at most: for more, tensor cores
 * are several times faster, and trying takes long. */
enum { DIRECT_CHANNELS = 4 };

struct places places_of(const struct graph_node *node)
{
    const int32_t *in = node->input, *out = node->output;

    if (node->op == OP_CONV2D)
        return (struct places){in[0], in[1], out[0], node->input_count > 2 ? in[2] : -1, out[0]};
    if (node->op == OP_CONV2D_BACKWARD_DATA)
        return (struct places){out[0], in[1], in[0], -1, out[0]};
    return (struct places){in[0], out[0], in[1], node->output_count > 1 ? out[1] : -1, out[0]};
}

/* Whether filters are square and dense, the stride is 1 or 2, and both axes have one padding. */
static bool is_square(const struct conv_attributes *conv, int kernel)
{
    return conv->kernel[0] == kernel && conv->kernel[1] == kernel && conv->stride[0] <= 2 &&
           conv->stride[1] == conv->stride[0] && conv->padding[1] == conv->padding[0] &&
           conv->dilation[0] == 1 && conv->dilation[1] == 1;
}

/* The same with as many results as there are pixels at the stride. */
static bool is_plain(const struct conv_attributes *conv, int kernel)
{
    return is_square(conv, kernel) && conv->padding[0] == kernel / 2;
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
                              .stride = d.stride,
                              .padding = node->attributes.conv.padding[0]};
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

static struct cuda_convolution describe_any(const struct backend_program *program,
                                            const struct graph_node *node)
{
    const struct conv_attributes *conv = &node->attributes.conv;
    const struct cuda_stem d = describe_stem(program, node);
    struct cuda_convolution any = {.type = d.type,
                                   .tf32 = program->graph->compute_type == TENSOR_TF32,
                                   .batch = d.batch,
                                   .channels = d.channels,
                                   .height = d.height,
                                   .width = d.width,
                                   .outputs = d.outputs,
                                   .out_height = d.out_height,
                                   .out_width = d.out_width,
                                   .groups = conv->groups};

    for (int i = 0; i < 2; i++) {
        any.kernel[i] = conv->kernel[i];
        any.stride[i] = conv->stride[i];
        any.padding[i] = conv->padding[i];
        any.dilation[i] = conv->dilation[i];
    }
    return any;
}

static enum cuda_depthwise_pass pass_of(const struct graph_node *node)
{
    return node->op == OP_CONV2D                 ? CUDA_DEPTHWISE_FORWARD
           : node->op == OP_CONV2D_BACKWARD_DATA ? CUDA_DEPTHWISE_DATA
                                                 : CUDA_DEPTHWISE_WEIGHTS;
}

static bool is_for_depthwise(const struct cuda_convolution *any, const struct graph_node *node)
{
    const struct conv_attributes *conv = &node->attributes.conv;

    return any->groups == any->channels && any->outputs == any->channels &&
           any->channels % 8 == 0 && (is_plain(conv, 3) || is_plain(conv, 5));
}

static bool is_for_stem(const struct backend_program *program, const struct graph_node *node)
{
    const struct cuda_stem stem = describe_stem(program, node);

    return node->op != OP_CONV2D_BACKWARD_DATA && node->attributes.conv.groups == 1 &&
           is_square(&node->attributes.conv, 3) && program->device->code_major >= 8 &&
           cuda_stem_is_possible(&stem);
}

static bool is_for_tf32(const struct backend_program *program, const struct graph_node *node)
{
    const struct conv_attributes *conv = &node->attributes.conv;
    const struct cuda_weights_tf32 d = describe_tf32(program, node);
    size_t bytes = (size_t)program_elements(program, places_of(node).weight) * sizeof(float);

    return node->op == OP_CONV2D_BACKWARD_WEIGHTS && program->graph->compute_type == TENSOR_TF32 &&
           program_stored_type(program, node->input[0]) == TENSOR_FLOAT32 &&
           program->device->code_major >= 8 && conv->groups == 1 && conv->stride[0] == 1 &&
           is_plain(conv, 3) && bytes <= CUDA_PRODUCT_SCRATCH && cuda_weights_tf32_is_possible(&d);
}

int own_ways(const struct backend_program *program, const struct graph_node *node,
             enum convolution_way ways[CONVOLUTION_WAYS])
{
    const struct cuda_convolution any = describe_any(program, node);
    struct places at = places_of(node);
    int count = 0;

    if (program_stored_type(program, at.x) != program_stored_type(program, at.y) ||
        program_elements(program, at.x) > INT32_MAX || program_elements(program, at.y) > INT32_MAX)
        return 0;
    if (is_for_depthwise(&any, node))
        ways[count++] = BY_DEPTHWISE;
    if (is_for_stem(program, node))
        ways[count++] = BY_STEM;
    if (is_for_tf32(program, node))
        ways[count++] = BY_TF32;
    if ((any.groups > 1 || any.channels <= DIRECT_CHANNELS) &&
        cuda_direct_is_possible(&any, CUDA_PRODUCT_SCRATCH))
        ways[count++] = BY_DIRECT;
    if (node->op == OP_CONV2D_BACKWARD_DATA && cuda_narrow_is_possible(&any))
        ways[count++] = BY_NARROW;
    if (cuda_pointwise_convolution_is_possible(&any, CUDA_PRODUCT_SCRATCH))
        ways[count++] = BY_POINTWISE;
    if (program->device->code_major >= 8 &&
        cuda_implicit_is_possible(&any, pass_of(node), CUDA_PRODUCT_SCRATCH))
        for (int tile = 0; tile < CUDA_IMPLICIT_TILES; tile++)
            ways[count++] = (enum convolution_way)(BY_IMPLICIT + tile);
    return count;
}

/* Launches a kernel that computes a convolution of any shape, or a depthwise one. */
static cudaError_t launch_general(const struct backend_program *program,
                                  const struct graph_node *node, enum convolution_way way,
                                  int images, const struct cuda_depthwise_operands *operands)
{
    struct cuda_depthwise depthwise = describe_depthwise(program, node);
    struct cuda_convolution any = describe_any(program, node);
    cudaStream_t stream = program->device->stream;

    depthwise.batch = any.batch = images;
    if (way == BY_DEPTHWISE)
        return cuda_depthwise(&depthwise, pass_of(node), operands, stream);
    if (way == BY_DIRECT)
        return cuda_direct(&any, pass_of(node), operands, stream);
    if (way == BY_NARROW)
        return cuda_narrow_data(&any, operands, stream);
    if (way == BY_POINTWISE)
        return cuda_pointwise_convolution(&any, pass_of(node), operands, stream);
    return cuda_implicit(&any, pass_of(node), (int)way - BY_IMPLICIT, operands, stream);
}

cudaError_t own_launch(const struct backend_program *program, const struct graph_node *node,
                       enum convolution_way way, int images, const struct own_operands *o)
{
    struct cuda_stem stem = describe_stem(program, node);
    struct cuda_weights_tf32 weights = describe_tf32(program, node);
    cudaStream_t stream = program->device->stream;

    stem.batch = weights.batch = images;
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
    return launch_general(program, node, way, images,
                          &(struct cuda_depthwise_operands){.x = o->x,
                                                            .y = o->y,
                                                            .weight = o->weight,
                                                            .bias = o->bias,
                                                            .gradient = o->gradient,
                                                            .accumulate = o->accumulate,
                                                            .parts = o->parts,
                                                            .part_bytes = CUDA_PRODUCT_SCRATCH});
}

/* A kernel of our own with memory for its measurement. */
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

enum { PARTS = 4 }; /* the place of choices_memory() for sums */

/* Prepares all but the way. */
static bool prepare_run(struct backend_program *program, const struct graph_node *node,
                        const struct convolution_problem *problem, struct own_run *run)
{
    struct convolution_search *search = program->device->search;
    struct convolution_operands operands;

    if (!convolution_search_operands(search, problem, 0, &operands))
        return false;
    *run = (struct own_run){program, node, BY_PLAN, (int)problem->x[0], {0}};
    run->operands = (struct own_operands){
        .x = operands.x,
        .y = operands.y,
        .weight = operands.weight,
        .gradient = node->op == OP_CONV2D_BACKWARD_WEIGHTS ? (float *)operands.weight : NULL,
        .parts = choices_memory(convolution_search_choices(search), PARTS, CUDA_PRODUCT_SCRATCH)};
    return run->operands.parts != NULL;
}

enum convolution_way own_fastest(struct backend_program *program, const struct graph_node *node,
                                 const enum convolution_way *ways, int count,
                                 const struct convolution_problem *problem, double *microseconds)
{
    struct own_run runs[CONVOLUTION_WAYS];
    void *contexts[CONVOLUTION_WAYS];
    double times[CONVOLUTION_WAYS];
    int best;

    if (count == 0 || !prepare_run(program, node, problem, &runs[0]))
        return BY_PLAN;
    for (int i = 0; i < count; i++) {
        runs[i] = runs[0];
        runs[i].way = ways[i];
        contexts[i] = &runs[i];
    }
    best = choices_fastest(convolution_search_choices(program->device->search), own_launch_run,
                           contexts, count, INFINITY, times);
    if (best < 0)
        return BY_PLAN;
    *microseconds = times[best];
    return ways[best];
}
