/* sequences.c: operators over sequences (kernels/sequence.h): the maximum over time, lengths,
 * zeros behind the end, features side by side, both strands of DNA, the causal convolution and
 * the selective scan. */
#include "base/alignment.h"
#include "engine/backends/cuda/cuda.h"
#include "engine/backends/cuda/kernels/sequence.h"

static int checked(const struct graph_node *node, cudaError_t status, struct error *error)
{
    return status == cudaSuccess ? 0 : cuda_fail(error, status, node->name);
}

/* ---- maximum over time ----------------------------------------------------------------------- */

/* `sequences`: the tensor with all steps, or its gradient. */
static struct cuda_time_pool describe_pool(const struct backend_program *program,
                                           const struct graph_node *node, int32_t sequences)
{
    const int64_t *extent = program->graph->tensors[sequences].shape.extent;
    bool has_lengths = node->op != OP_MAX_OVER_TIME_BACKWARD && node->input[1] >= 0;

    return (struct cuda_time_pool){
        .lengths = has_lengths ? (const int32_t *)program->address[node->input[1]] : NULL,
        .batch = extent[0],
        .steps = extent[1],
        .features = extent[2]};
}

int max_over_time_run(struct backend_program *program, int32_t index, struct error *error)
{
    const struct graph_node *node = &program->graph->nodes[index];
    const struct cuda_time_pool pool = describe_pool(program, node, node->input[0]);
    int32_t *position =
        node->output_count > 1 ? (int32_t *)(void *)program->address[node->output[1]] : NULL;

    return checked(node,
                   cuda_max_over_time(&pool, program_array(program, node->input[0]),
                                      program_array(program, node->output[0]), position,
                                      program->device->stream),
                   error);
}

int max_over_time_backward_run(struct backend_program *program, int32_t index, struct error *error)
{
    const struct graph_node *node = &program->graph->nodes[index];
    const struct cuda_time_pool pool = describe_pool(program, node, node->output[0]);

    return checked(node,
                   cuda_max_over_time_backward(&pool, program_array(program, node->input[0]),
                                               (const int32_t *)program->address[node->input[1]],
                                               program_array(program, node->output[0]),
                                               program->device->stream),
                   error);
}

/* ---- lengths --------------------------------------------------------------------------------- */

int sequence_lengths_run(struct backend_program *program, int32_t index, struct error *error)
{
    const struct graph_node *node = &program->graph->nodes[index];
    const int64_t *extent = program->graph->tensors[node->input[0]].shape.extent;

    return checked(node,
                   cuda_sequence_lengths((const int32_t *)program->address[node->input[0]],
                                         (int32_t *)(void *)program->address[node->output[0]],
                                         extent[0], extent[1], node->attributes.padding_symbol,
                                         program->device->stream),
                   error);
}

int window_lengths_run(struct backend_program *program, int32_t index, struct error *error)
{
    const struct graph_node *node = &program->graph->nodes[index];

    return checked(node,
                   cuda_window_lengths(&node->attributes.windows,
                                       (const int32_t *)program->address[node->input[0]],
                                       (int32_t *)(void *)program->address[node->output[0]],
                                       program->graph->batch, program->device->stream),
                   error);
}

int mask_steps_run(struct backend_program *program, int32_t index, struct error *error)
{
    const struct graph_node *node = &program->graph->nodes[index];
    const struct cuda_time_pool pool = describe_pool(program, node, node->input[0]);

    return checked(node,
                   cuda_mask_steps(&pool, program_array(program, node->input[0]),
                                   program_array(program, node->output[0]),
                                   program->device->stream),
                   error);
}

/* ---- side by side ---------------------------------------------------------------------------- */

/* Numbers of a row; of images, which lie channels-last, the channels. */
static int64_t row_extent(const struct backend_program *program, int32_t tensor)
{
    const struct graph_shape *shape = &program->graph->tensors[tensor].shape;

    return shape->extent[shape->rank == 4 ? 1 : shape->rank - 1];
}

int columns_run(struct backend_program *program, int32_t index, struct error *error)
{
    const struct graph_node *node = &program->graph->nodes[index];
    bool join = node->op == OP_CONCATENATE;
    int32_t wide = join ? node->output[0] : node->input[0];
    const int32_t *parts = join ? node->input : node->output;
    struct cuda_columns columns = {.count = join ? node->input_count : node->output_count,
                                   .wide = program_array(program, wide),
                                   .rows =
                                       program_elements(program, wide) / row_extent(program, wide)};
    cudaStream_t stream = program->device->stream;

    for (int i = 0; i < columns.count; i++) {
        columns.part[i] = program_array(program, parts[i]);
        columns.width[i] = row_extent(program, parts[i]);
    }
    return checked(node, join ? cuda_concatenate(&columns, stream) : cuda_split(&columns, stream),
                   error);
}

/* ---- both strands ---------------------------------------------------------------------------- */

int both_strands_run(struct backend_program *program, int32_t index, struct error *error)
{
    const struct graph_node *node = &program->graph->nodes[index];
    const int64_t *extent = program->graph->tensors[node->input[0]].shape.extent;

    return checked(node,
                   cuda_both_strands(&node->attributes.complement,
                                     (const int32_t *)program->address[node->input[0]],
                                     (int32_t *)(void *)program->address[node->output[0]],
                                     extent[0], extent[1], program->device->stream),
                   error);
}

/* ---- causal convolution ---------------------------------------------------------------------- */

/* The shape alone. `weight`: the number of that input. */
static struct cuda_causal_conv describe_conv(const struct graph *graph,
                                             const struct graph_node *node, int weight)
{
    const struct time_attributes *time = &node->attributes.time;
    const int64_t *extent = graph->tensors[node->input[0]].shape.extent;

    return (struct cuda_causal_conv){.sequences = extent[0] * time->sequences,
                                     .length = extent[1] / time->sequences,
                                     .channels = extent[2],
                                     .kernel =
                                         (int)graph->tensors[node->input[weight]].shape.extent[2],
                                     .reverse = time->reverse,
                                     .silu = time->silu};
}

int causal_conv_run(struct backend_program *program, int32_t index, struct error *error)
{
    const struct graph_node *node = &program->graph->nodes[index];
    struct cuda_causal_conv conv = describe_conv(program->graph, node, 1);

    conv.x = program_array(program, node->input[0]);
    conv.weight = program_floats(program, node->input[1]);
    conv.bias = program_floats(program, node->input[2]);
    conv.y = program_array(program, node->output[0]);
    return checked(node, cuda_causal_conv(&conv, program->device->stream), error);
}

int causal_conv_backward_run(struct backend_program *program, int32_t index, struct error *error)
{
    const struct graph_node *node = &program->graph->nodes[index];
    struct cuda_causal_conv conv = describe_conv(program->graph, node, 2);

    conv.dy = program_array(program, node->input[0]);
    conv.x = program_array(program, node->input[1]);
    conv.weight = program_floats(program, node->input[2]);
    conv.bias = program_floats(program, node->input[3]);
    conv.dx = program_array(program, node->output[0]);
    conv.dweight = program_floats(program, node->output[1]);
    conv.dbias = program_floats(program, node->output[2]);
    conv.accumulate_weight = program_accumulates(program, node, 1);
    conv.accumulate_bias = program_accumulates(program, node, 2);
    conv.parts = (float *)(void *)program->workspace[index];
    return checked(node, cuda_causal_conv_backward(&conv, program->device->stream), error);
}

/* ---- selective scan -------------------------------------------------------------------------- */

/* The shape alone. `a_log`: the number of that input. */
static struct cuda_scan describe_scan(const struct graph *graph, const struct graph_node *node,
                                      int a_log)
{
    const struct time_attributes *time = &node->attributes.time;
    const int64_t *extent = graph->tensors[node->input[0]].shape.extent;

    return (struct cuda_scan){.sequences = extent[0] * time->sequences,
                              .length = extent[1] / time->sequences,
                              .channels = extent[2],
                              .states = graph->tensors[node->input[a_log]].shape.extent[1],
                              .reverse = time->reverse};
}

/* Fills in the operands, of which u is input `first`. */
static void place_operands(const struct backend_program *program, const struct graph_node *node,
                           int first, struct cuda_scan *scan)
{
    const int32_t *in = node->input + first;

    scan->u = program_array(program, in[0]);
    scan->delta = program_array(program, in[1]);
    scan->a_log = program_floats(program, in[2]);
    scan->b = program_array(program, in[3]);
    scan->c = program_array(program, in[4]);
    scan->d = program_floats(program, in[5]);
    scan->z = program_array(program, in[6]);
}

/* In evaluation no states are kept: they are a part of the workspace. */
static size_t scan_sums_bytes(const struct cuda_scan *scan)
{
    return align_up(cuda_scan_scratch(scan), MEMORY_ALIGNMENT);
}

int selective_scan_run(struct backend_program *program, int32_t index, struct error *error)
{
    const struct graph_node *node = &program->graph->nodes[index];
    struct cuda_scan scan = describe_scan(program->graph, node, 2);
    char *workspace = program->workspace[index];

    place_operands(program, node, 0, &scan);
    scan.y = program_array(program, node->output[0]);
    scan.scratch = (float *)(void *)workspace;
    scan.kept = node->output_count > 1 ? program_floats(program, node->output[1])
                                       : (float *)(void *)(workspace + scan_sums_bytes(&scan));
    return checked(node, cuda_selective_scan(&scan, program->device->stream), error);
}

int selective_scan_backward_run(struct backend_program *program, int32_t index, struct error *error)
{
    const struct graph_node *node = &program->graph->nodes[index];
    const int32_t *out = node->output;
    struct cuda_scan scan = describe_scan(program->graph, node, 3);

    place_operands(program, node, 1, &scan);
    scan.dy = program_array(program, node->input[0]);
    scan.kept = program_floats(program, node->input[8]);
    scan.du = program_array(program, out[0]);
    scan.ddelta = program_array(program, out[1]);
    scan.da_log = program_floats(program, out[2]);
    scan.db = program_array(program, out[3]);
    scan.dc = program_array(program, out[4]);
    scan.dd = program_floats(program, out[5]);
    scan.dz = program_array(program, scan.z.at ? out[6] : -1);
    scan.accumulate_a = program_accumulates(program, node, 2);
    scan.accumulate_d = program_accumulates(program, node, 5);
    scan.scratch = (float *)(void *)program->workspace[index];
    return checked(node, cuda_selective_scan_backward(&scan, program->device->stream), error);
}

/* ---- workspaces ------------------------------------------------------------------------------ */

size_t sequence_workspace(const struct graph *graph, const struct graph_node *node)
{
    struct cuda_causal_conv conv;
    struct cuda_scan scan;

    switch (node->op) {
    case OP_CAUSAL_CONV1D_BACKWARD:
        conv = describe_conv(graph, node, 2);
        return cuda_causal_conv_scratch(&conv);
    case OP_SELECTIVE_SCAN:
        scan = describe_scan(graph, node, 2);
        return scan_sums_bytes(&scan) +
               (node->output_count > 1 ? 0 : (size_t)cuda_scan_kept(&scan) * sizeof(float));
    case OP_SELECTIVE_SCAN_BACKWARD:
        scan = describe_scan(graph, node, 3);
        return cuda_scan_backward_scratch(&scan);
    default:
        return 0;
    }
}
