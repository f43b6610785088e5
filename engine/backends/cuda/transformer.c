/* transformer.c: launches the operators of transformers other than attention: layer norm and RMS
 * norm, positions, tokens, and one vector for all steps. */
#include "engine/backends/cuda/transformer.h"

#include "engine/backends/cuda/kernels/transformer.h"

static int checked(const struct graph_node *node, cudaError_t status, struct error *error)
{
    return status == cudaSuccess ? 0 : cuda_fail(error, status, node->name);
}

static const int64_t *extents(const struct backend_program *program, int32_t tensor)
{
    return program->graph->tensors[tensor].shape.extent;
}

/* An int32 tensor; -1: NULL. */
static const int32_t *integers(const struct backend_program *program, int32_t tensor)
{
    return tensor < 0 ? NULL : (const int32_t *)program->address[tensor];
}

static int32_t input_of(const struct graph_node *node, int number)
{
    return number < node->input_count ? node->input[number] : -1;
}

static int32_t output_of(const struct graph_node *node, int number)
{
    return number < node->output_count ? node->output[number] : -1;
}

/* ---- layer norm and RMS norm ----------------------------------------------------------------- */

static bool is_centred(const struct graph_node *node)
{
    return node->op == OP_LAYER_NORM || node->op == OP_ADD_LAYER_NORM ||
           node->op == OP_LAYER_NORM_BACKWARD;
}

static int64_t row_width(const struct graph *graph, int32_t tensor)
{
    const struct graph_shape *shape = &graph->tensors[tensor].shape;

    return shape->extent[shape->rank - 1];
}

static struct cuda_row_norm describe_norm(const struct backend_program *program,
                                          const struct graph_node *node, int32_t x)
{
    int64_t width = row_width(program->graph, x);

    return (struct cuda_row_norm){.rows = program_elements(program, x) / width,
                                  .width = width,
                                  .epsilon = node->attributes.row_norm_epsilon,
                                  .centred = is_centred(node),
                                  .x = program_array(program, x)};
}

int row_norm_run(struct backend_program *program, int32_t index, struct error *error)
{
    const struct graph_node *node = &program->graph->nodes[index];
    struct cuda_row_norm norm = describe_norm(program, node, node->input[0]);
    int32_t residual = input_of(node, 3);
    int next = 1;

    norm.weight = program_floats(program, node->input[1]);
    norm.bias = program_floats(program, node->input[2]);
    norm.y = program_array(program, node->output[0]);
    norm.residual = program_array(program, residual);
    if (residual >= 0)
        norm.sum = program_array(program, node->output[next++]);
    norm.inverse = program_floats(program, output_of(node, next));
    norm.mean = program_floats(program, output_of(node, next + 1));
    return checked(node, cuda_row_norm(&norm, program->device->stream), error);
}

/* Inputs: dy, x, weight, inverse, dsum?, mean?; outputs: dx, dweight, dbias?. */
int row_norm_backward_run(struct backend_program *program, int32_t index, struct error *error)
{
    const struct graph_node *node = &program->graph->nodes[index];
    struct cuda_row_norm norm = describe_norm(program, node, node->input[1]);
    const struct cuda_row_norm_gradient gradient = {
        .dy = program_array(program, node->input[0]),
        .dx = program_array(program, node->output[0]),
        .dsum = program_array(program, input_of(node, 4)),
        .dweight = program_floats(program, node->output[1]),
        .dbias = program_floats(program, output_of(node, 2)),
        .adds_weight = program_accumulates(program, node, 1),
        .adds_bias = program_accumulates(program, node, 2),
        .parts = (float *)program->workspace[index]};

    norm.weight = program_floats(program, node->input[2]);
    norm.inverse = program_floats(program, node->input[3]);
    norm.mean = program_floats(program, input_of(node, 5));
    return checked(node, cuda_row_norm_backward(&norm, &gradient, program->device->stream), error);
}

size_t transformer_workspace(const struct graph *graph, const struct graph_node *node)
{
    int64_t width, rows;

    switch (node->op) {
    case OP_LAYER_NORM_BACKWARD:
    case OP_RMS_NORM_BACKWARD:
        width = row_width(graph, node->input[1]);
        rows = graph_shape_elements(&graph->tensors[node->input[1]].shape) / width;
        return (size_t)(cuda_row_norm_parts(rows) * 2 * width) * sizeof(float);
    case OP_ATTENTION_BACKWARD: /* a number for each of log_sum_exp */
        return (size_t)graph_shape_elements(&graph->tensors[node->input[3]].shape) * sizeof(float);
    default:
        return 0;
    }
}

/* ---- positions ------------------------------------------------------------------------------- */

int rotary_run(struct backend_program *program, int32_t index, struct error *error)
{
    const struct graph_node *node = &program->graph->nodes[index];
    const int64_t *extent = extents(program, node->input[0]);
    int heads = node->attributes.rotary.heads;
    const struct cuda_rotary rotary = {.batch = extent[0],
                                       .steps = extent[1],
                                       .heads = heads,
                                       .width = (int)(extent[2] / 3 / heads),
                                       .base = node->attributes.rotary.base,
                                       .inverse = node->op == OP_ROTARY_BACKWARD};

    return checked(node,
                   cuda_rotary(&rotary, program_array(program, node->input[0]),
                               program_array(program, node->output[0]), program->device->stream),
                   error);
}

int add_positions_run(struct backend_program *program, int32_t index, struct error *error)
{
    const struct graph_node *node = &program->graph->nodes[index];
    int64_t count = program_elements(program, node->input[1]);

    return checked(node,
                   cuda_add_positions(program_array(program, node->input[0]),
                                      program_floats(program, node->input[1]),
                                      program_array(program, node->output[0]),
                                      program->graph->batch, count, program->device->stream),
                   error);
}

int add_positions_backward_run(struct backend_program *program, int32_t index, struct error *error)
{
    const struct graph_node *node = &program->graph->nodes[index];
    int64_t count = program_elements(program, node->output[0]);

    return checked(node,
                   cuda_column_sum(program_array(program, node->input[0]), program->graph->batch,
                                   count, program_accumulates(program, node, 0),
                                   program_floats(program, node->output[0]),
                                   program->device->stream),
                   error);
}

/* ---- tokens ---------------------------------------------------------------------------------- */

/* Channels last, an image is its tokens. */
int image_tokens_run(struct backend_program *program, int32_t index, struct error *error)
{
    const struct graph_node *node = &program->graph->nodes[index];

    if (program->alias[node->output[0]] >= 0)
        return 0;
    return checked(node,
                   cuda_cast(program_array(program, node->input[0]),
                             program_array(program, node->output[0]),
                             program_elements(program, node->output[0]), program->device->stream),
                   error);
}

int prepend_token_run(struct backend_program *program, int32_t index, struct error *error)
{
    const struct graph_node *node = &program->graph->nodes[index];
    const int64_t *extent = extents(program, node->input[0]);

    return checked(node,
                   cuda_prepend_token(program_array(program, node->input[0]),
                                      program_floats(program, node->input[1]),
                                      program_array(program, node->output[0]), extent[0], extent[1],
                                      extent[2], program->device->stream),
                   error);
}

int prepend_token_backward_run(struct backend_program *program, int32_t index, struct error *error)
{
    const struct graph_node *node = &program->graph->nodes[index];
    const int64_t *extent = extents(program, node->output[0]);
    struct cuda_array dy = program_array(program, node->input[0]);
    cudaStream_t stream = program->device->stream;
    cudaError_t status = cuda_prepend_token_backward(dy, program_array(program, node->output[0]),
                                                     extent[0], extent[1], extent[2], stream);

    if (status == cudaSuccess)
        status = cuda_strided_column_sum(dy, extent[0], (1 + extent[1]) * extent[2], extent[2],
                                         program_accumulates(program, node, 1),
                                         program_floats(program, node->output[1]), stream);
    return checked(node, status, error);
}

/* ---- one vector for all steps ---------------------------------------------------------------- */

static struct cuda_step_pool describe_pool(const struct backend_program *program,
                                           const struct graph_node *node, int32_t sequences)
{
    const int64_t *extent = extents(program, sequences);
    struct cuda_step_pool pool = {.batch = extent[0],
                                  .steps = extent[1],
                                  .features = extent[2],
                                  .lengths = integers(program, input_of(node, 1)),
                                  .pooled = CUDA_ALL_STEPS};

    if (node->op == OP_LAST_STEP || node->op == OP_LAST_STEP_BACKWARD)
        pool.pooled = node->attributes.recurrent.reverse ? CUDA_FIRST_STEP : CUDA_LAST_STEP;
    return pool;
}

int step_pool_run(struct backend_program *program, int32_t index, struct error *error)
{
    const struct graph_node *node = &program->graph->nodes[index];
    const struct cuda_step_pool pool = describe_pool(program, node, node->input[0]);

    return checked(node,
                   cuda_step_pool(&pool, program_array(program, node->input[0]),
                                  program_array(program, node->output[0]), program->device->stream),
                   error);
}

int step_pool_backward_run(struct backend_program *program, int32_t index, struct error *error)
{
    const struct graph_node *node = &program->graph->nodes[index];
    const struct cuda_step_pool pool = describe_pool(program, node, node->output[0]);

    return checked(node,
                   cuda_step_pool_backward(&pool, program_array(program, node->input[0]),
                                           program_array(program, node->output[0]),
                                           program->device->stream),
                   error);
}
