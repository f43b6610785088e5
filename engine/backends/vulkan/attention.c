/* attention.c: attention by tiles of queries and keys (engine/graph/operators/attention.c), whose
 * scores are never stored (Dao et al. 2022, arXiv:2205.14135), and rotary positions. */
#include "engine/backends/vulkan/operators.h"

#include <math.h>

enum { WORKGROUP = 256, TILE = 32 }; /* attention.glsl */

/* What the shaders of attention.glsl get. */
struct attention_push {
    VkDeviceAddress qkv, lengths, y, log_sum_exp, dy, products, dqkv;
    uint32_t batch, steps, heads, width;
    float scale;
    uint32_t unused;
};

static struct attention_push describe(const struct backend_program *program,
                                      const struct graph_node *node, int32_t qkv)
{
    const int64_t *extent = program->graph->tensors[qkv].shape.extent;
    const int64_t width = extent[2] / 3 / node->attributes.attention.heads;

    return (struct attention_push){.qkv = program_address(program, qkv),
                                   .batch = (uint32_t)extent[0],
                                   .steps = (uint32_t)extent[1],
                                   .heads = (uint32_t)node->attributes.attention.heads,
                                   .width = (uint32_t)width,
                                   .scale = 1.0f / sqrtf((float)width)};
}

/* `extra`: a constant of the shader's own. A workgroup for each tile of steps of each head. */
static int launch_tiles(struct recorder *recorder, enum vulkan_shader shader,
                        const struct graph_node *node, const struct attention_push *push,
                        bool extra, struct error *error)
{
    const int64_t tiles = (push->steps + TILE - 1) / TILE;
    const struct launch launch = {.shader = shader,
                                  .constants = {WORKGROUP, node->attributes.attention.causal,
                                                push->lengths != 0, (push->width + TILE - 1) / TILE,
                                                extra},
                                  .constant_count = 5,
                                  .push = push,
                                  .push_bytes = sizeof *push,
                                  .addresses = 7,
                                  .groups = {record_groups(tiles * push->batch * push->heads, 1)}};

    return record_launch(recorder, &launch, error);
}

int attention_run(struct recorder *recorder, int32_t index, struct error *error)
{
    const struct backend_program *program = recorder->program;
    const struct graph_node *node = &program->graph->nodes[index];
    struct attention_push push = describe(program, node, node->input[0]);

    push.lengths = program_address(program, node->input_count > 1 ? node->input[1] : -1);
    push.y = program_address(program, node->output[0]);
    push.log_sum_exp = program_address(program, node->output_count > 1 ? node->output[1] : -1);
    return launch_tiles(recorder, SHADER_attention, node, &push, push.log_sum_exp != 0, error);
}

/* The product of dy and y of each step and head. */
size_t attention_backward_workspace(const struct graph *graph, const struct graph_node *node)
{
    return (size_t)graph_shape_elements(&graph->tensors[node->input[3]].shape) * sizeof(float);
}

static int launch_products(struct recorder *recorder, const struct attention_push *push,
                           struct error *error)
{
    enum { ROWS = 8 }; /* attention_products.comp */
    const int64_t rows = (int64_t)push->batch * push->steps * push->heads;
    const struct launch launch = {.shader = SHADER_attention_products,
                                  .constants = {WORKGROUP},
                                  .constant_count = 1,
                                  .push = push,
                                  .push_bytes = sizeof *push,
                                  .addresses = 7,
                                  .groups = {record_groups(rows, ROWS)}};

    return record_launch(recorder, &launch, error);
}

int attention_backward_run(struct recorder *recorder, int32_t index, struct error *error)
{
    const struct backend_program *program = recorder->program;
    const struct graph_node *node = &program->graph->nodes[index];
    struct attention_push push = describe(program, node, node->input[1]);
    int r;

    push.dy = program_address(program, node->input[0]);
    push.y = program_address(program, node->input[2]);
    push.log_sum_exp = program_address(program, node->input[3]);
    push.lengths = program_address(program, node->input_count > 4 ? node->input[4] : -1);
    push.products = program->workspace[index];
    push.dqkv = program_address(program, node->output[0]);
    r = launch_products(recorder, &push, error);
    record_barrier(recorder);
    if (r == 0)
        r = launch_tiles(recorder, SHADER_attention_backward_queries, node, &push, false, error);
    return r < 0
               ? r
               : launch_tiles(recorder, SHADER_attention_backward_keys, node, &push, false, error);
}

/* ---- rotary positions ------------------------------------------------------------------------ */

/* base^(-2 / width), which is below 1, times 2^64: the shader computes angles in whole numbers,
 * because functions of float32 are inexact for the angles of late steps. */
static uint64_t rotary_ratio(double base, int64_t width)
{
    const double ratio = ldexp(pow(base, -2.0 / (double)width), 64);

    return ratio >= 0x1p64 ? UINT64_MAX : (uint64_t)ratio;
}

int rotary_run(struct recorder *recorder, int32_t index, struct error *error)
{
    const struct backend_program *program = recorder->program;
    const struct graph_node *node = &program->graph->nodes[index];
    const int64_t *extent = program->graph->tensors[node->input[0]].shape.extent;
    const int64_t width = extent[2] / 3 / node->attributes.rotary.heads;
    const uint64_t ratio = rotary_ratio((double)node->attributes.rotary.base, width);
    const int64_t pairs = extent[1] * (width / 2);
    const struct {
        VkDeviceAddress x, y;
        uint32_t batch, steps, heads, width, ratio[2];
    } push = {.x = program_address(program, node->input[0]),
              .y = program_address(program, node->output[0]),
              .batch = (uint32_t)extent[0],
              .steps = (uint32_t)extent[1],
              .heads = (uint32_t)node->attributes.rotary.heads,
              .width = (uint32_t)width,
              .ratio = {(uint32_t)ratio, (uint32_t)(ratio >> 32)}};
    const struct launch launch = {
        .shader = SHADER_rotary,
        .constants = {WORKGROUP, node->op == OP_ROTARY_BACKWARD},
        .constant_count = 2,
        .push = &push,
        .push_bytes = sizeof push,
        .addresses = 2,
        .groups = {record_groups(pairs, WORKGROUP), record_groups(extent[0], 1)}};

    return record_launch(recorder, &launch, error);
}
