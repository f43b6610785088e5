/* sequences.c: lengths of sequences, what lies behind their ends, both strands of DNA, and the
 * causal convolution. */
#include "engine/backends/vulkan/operators.h"
#include "engine/backends/vulkan/sums.h"

enum { WORKGROUP = 256 };

/* ---- lengths --------------------------------------------------------------------------------- */

int sequence_lengths_run(struct recorder *recorder, int32_t index, struct error *error)
{
    enum { ROW_WORKGROUP = 64 };
    const struct backend_program *program = recorder->program;
    const struct graph_node *node = &program->graph->nodes[index];
    const int64_t *extent = program->graph->tensors[node->input[0]].shape.extent;
    const struct {
        VkDeviceAddress index, lengths;
        uint32_t batch, steps;
        int32_t padding;
        uint32_t unused;
    } push = {.index = program_address(program, node->input[0]),
              .lengths = program_address(program, node->output[0]),
              .batch = (uint32_t)extent[0],
              .steps = (uint32_t)extent[1],
              .padding = node->attributes.padding_symbol};
    const struct launch launch = {.shader = SHADER_sequence_lengths,
                                  .constants = {ROW_WORKGROUP},
                                  .constant_count = 1,
                                  .push = &push,
                                  .push_bytes = sizeof push,
                                  .groups = {record_groups(extent[0], 1)}};

    return record_launch(recorder, &launch, error);
}

static int32_t within_int32(int64_t value)
{
    return value > INT32_MAX ? INT32_MAX : value < INT32_MIN ? INT32_MIN : (int32_t)value;
}

int window_lengths_run(struct recorder *recorder, int32_t index, struct error *error)
{
    const struct backend_program *program = recorder->program;
    const struct graph_node *node = &program->graph->nodes[index];
    const struct {
        VkDeviceAddress lengths, windows;
        uint32_t batch;
        int32_t more, stride;
        uint32_t unused;
    } push = {.lengths = program_address(program, node->input[0]),
              .windows = program_address(program, node->output[0]),
              .batch = (uint32_t)program->graph->batch,
              .more = within_int32(node->attributes.windows.more),
              .stride = within_int32(node->attributes.windows.stride)};
    const struct launch launch = {.shader = SHADER_window_lengths,
                                  .constants = {WORKGROUP},
                                  .constant_count = 1,
                                  .push = &push,
                                  .push_bytes = sizeof push,
                                  .groups = {record_groups(program->graph->batch, WORKGROUP)}};

    return record_launch(recorder, &launch, error);
}

int mask_steps_run(struct recorder *recorder, int32_t index, struct error *error)
{
    const struct backend_program *program = recorder->program;
    const struct graph_node *node = &program->graph->nodes[index];
    const int64_t *extent = program->graph->tensors[node->input[0]].shape.extent;
    const int64_t count = program_elements(program, node->output[0]);
    const struct {
        VkDeviceAddress x, lengths, y;
        uint32_t count, steps, features, unused;
    } push = {.x = program_address(program, node->input[0]),
              .lengths = program_address(program, node->input[1]),
              .y = program_address(program, node->output[0]),
              .count = (uint32_t)count,
              .steps = (uint32_t)extent[1],
              .features = (uint32_t)extent[2]};
    const struct launch launch = {.shader = SHADER_mask_steps,
                                  .constants = {WORKGROUP},
                                  .constant_count = 1,
                                  .push = &push,
                                  .push_bytes = sizeof push,
                                  .addresses = 3,
                                  .groups = {record_groups(count, WORKGROUP)}};

    return record_launch(recorder, &launch, error);
}

/* ---- both strands ---------------------------------------------------------------------------- */

int both_strands_run(struct recorder *recorder, int32_t index, struct error *error)
{
    const struct backend_program *program = recorder->program;
    const struct graph_node *node = &program->graph->nodes[index];
    const int64_t count = program_elements(program, node->input[0]);
    struct {
        VkDeviceAddress x, y;
        uint32_t count, steps, symbols;
        uint32_t complement[COMPLEMENT_SYMBOLS_MAX / 4];
        uint32_t unused;
    } push = {.x = program_address(program, node->input[0]),
              .y = program_address(program, node->output[0]),
              .count = (uint32_t)count,
              .steps = (uint32_t)(count / program->graph->batch),
              .symbols = node->attributes.complement.symbols};
    const struct launch launch = {.shader = SHADER_both_strands,
                                  .constants = {WORKGROUP},
                                  .constant_count = 1,
                                  .push = &push,
                                  .push_bytes = sizeof push,
                                  .groups = {record_groups(count, WORKGROUP)}};

    for (int i = 0; i < COMPLEMENT_SYMBOLS_MAX; i++) /* four in a word, in its order of bits */
        push.complement[i / 4] |= (uint32_t)node->attributes.complement.of[i] << i % 4 * 8;
    return record_launch(recorder, &launch, error);
}

/* ---- causal convolution ---------------------------------------------------------------------- */

enum { CONV_CHANNELS = 64, CONV_ROWS_OF_PART = 64, CONV_PARTS_MAX = 256 };

/* What the shaders get; `length`: of each of the sequences, which lie one behind another. */
struct causal_conv_push {
    VkDeviceAddress x, weight, bias, y, dy, gradient, dx, sums;
    uint32_t count, length, channels, rows_of_part;
};

/* Shapes alone. */
static struct causal_conv_push describe_conv(const struct graph *graph,
                                             const struct graph_node *node)
{
    const int64_t *extent = graph->tensors[node->input[0]].shape.extent;

    return (struct causal_conv_push){.count = (uint32_t)(extent[0] * extent[1] * extent[2]),
                                     .length =
                                         (uint32_t)(extent[1] / node->attributes.time.sequences),
                                     .channels = (uint32_t)extent[2]};
}

static int launch_conv(struct recorder *recorder, enum vulkan_shader shader,
                       const struct graph_node *node, int32_t weight,
                       const struct causal_conv_push *push, bool extra, struct error *error)
{
    const struct graph *graph = recorder->program->graph;
    const struct launch launch = {
        .shader = shader,
        .constants = {WORKGROUP, (uint32_t)graph->tensors[weight].shape.extent[2],
                      node->attributes.time.reverse, node->attributes.time.silu, extra},
        .constant_count = 5,
        .push = push,
        .push_bytes = sizeof *push,
        .addresses = 8,
        .groups = {record_groups(push->count, WORKGROUP)}};

    return record_launch(recorder, &launch, error);
}

int causal_conv_run(struct recorder *recorder, int32_t index, struct error *error)
{
    const struct backend_program *program = recorder->program;
    const struct graph_node *node = &program->graph->nodes[index];
    struct causal_conv_push push = describe_conv(program->graph, node);

    push.x = program_address(program, node->input[0]);
    push.weight = program_address(program, node->input[1]);
    push.bias = program_address(program, node->input[2]);
    push.y = program_address(program, node->output[0]);
    return launch_conv(recorder, SHADER_causal_conv, node, node->input[1], &push, false, error);
}

static int64_t conv_parts(const struct causal_conv_push *push)
{
    const int64_t rows = push->count / push->channels;
    const int64_t parts = (rows + CONV_ROWS_OF_PART - 1) / CONV_ROWS_OF_PART;

    return parts < CONV_PARTS_MAX ? parts : CONV_PARTS_MAX;
}

/* The gradient by the sums of products, where an activation lies behind them; then of each part the
 * gradients by the weights, [channels, kernel], and by the bias. */
size_t causal_conv_backward_workspace(const struct graph *graph, const struct graph_node *node)
{
    const struct causal_conv_push push = describe_conv(graph, node);
    const int64_t kernel = graph->tensors[node->input[2]].shape.extent[2];

    return ((size_t)(conv_parts(&push) * push.channels * (kernel + 1)) +
            (node->attributes.time.silu ? push.count : 0)) *
           sizeof(float);
}

/* Adds up the gradients by weights and bias. */
static int conv_weights(struct recorder *recorder, int32_t index, struct causal_conv_push *push,
                        struct error *error)
{
    const struct backend_program *program = recorder->program;
    const struct graph_node *node = &program->graph->nodes[index];
    const int64_t kernel = program->graph->tensors[node->input[2]].shape.extent[2];
    const int64_t parts = conv_parts(push), rows = push->count / push->channels;
    const struct launch launch = {
        .shader = SHADER_causal_conv_weights,
        .constants = {CONV_CHANNELS, (uint32_t)kernel, node->attributes.time.reverse},
        .constant_count = 3,
        .push = push,
        .push_bytes = sizeof *push,
        .addresses = 8,
        .groups = {(push->channels + CONV_CHANNELS - 1) / CONV_CHANNELS, parts}};
    int r;

    push->rows_of_part = (uint32_t)((rows + parts - 1) / parts);
    r = record_launch(recorder, &launch, error);
    record_barrier(recorder);
    for (int i = 1; r == 0 && i <= 2; i++) {
        const int64_t weights = kernel * push->channels;
        const struct row_sums sums = {.x = push->sums +
                                           (VkDeviceSize)(i == 1 ? 0 : weights) * sizeof(float),
                                      .sums = program_address(program, node->output[i]),
                                      .rows = parts,
                                      .stride = weights + push->channels,
                                      .columns = i == 1 ? weights : push->channels,
                                      .accumulate = record_accumulates(recorder, node, i)};

        if (sums.sums)
            r = record_row_sums(recorder, &sums, error);
    }
    return r;
}

int causal_conv_backward_run(struct recorder *recorder, int32_t index, struct error *error)
{
    const struct backend_program *program = recorder->program;
    const struct graph_node *node = &program->graph->nodes[index];
    const bool silu = node->attributes.time.silu;
    struct causal_conv_push push = describe_conv(program->graph, node);
    int r = 0;

    push.dy = program_address(program, node->input[0]);
    push.x = program_address(program, node->input[1]);
    push.weight = program_address(program, node->input[2]);
    push.bias = program_address(program, node->input[3]);
    push.gradient = silu ? program->workspace[index] : push.dy;
    push.sums = program->workspace[index] + (silu ? push.count * sizeof(float) : 0);
    push.y = push.gradient;
    push.dx = program_address(program, node->output[0]);
    if (silu) {
        r = launch_conv(recorder, SHADER_causal_conv, node, node->input[2], &push, true, error);
        record_barrier(recorder);
    }
    if (r == 0 && push.dx)
        r = launch_conv(recorder, SHADER_causal_conv_backward, node, node->input[2], &push, false,
                        error);
    return r < 0 ? r : conv_weights(recorder, index, &push, error);
}
