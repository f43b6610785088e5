/* general.c: operators over plain tensors, as models of other programs need them: columns of rows,
 * axes in another order, rows by constant numbers, sums over an axis, two tensors combined number
 * by number. */
#include "engine/backends/vulkan/operators.h"
#include "engine/backends/vulkan/sums.h"

_Static_assert(BROADCAST_ADD == TERM_ADD && BROADCAST_SUBTRACT == TERM_SUBTRACT &&
                   BROADCAST_SUBTRACT_REVERSE == TERM_SUBTRACT_REVERSE &&
                   BROADCAST_MULTIPLY == TERM_MULTIPLY && BROADCAST_DIVIDE == TERM_DIVIDE &&
                   BROADCAST_DIVIDE_REVERSE == TERM_DIVIDE_REVERSE,
               "as in shared.h");

enum { WORKGROUP = 256 };

static bool is_batched(const struct backend_program *program, int32_t tensor)
{
    return program->graph->tensors[tensor].batched;
}

/* Whether the node adds to a gradient: that of a parameter alone. */
static bool adds_to(const struct recorder *recorder, const struct graph_node *node)
{
    return !is_batched(recorder->program, node->output[0]) && record_accumulates(recorder, node, 0);
}

/* ---- columns of rows ---- */

/* Part of a matrix: a tensor, the numbers of its rows, and the first of the part. */
struct columns {
    int32_t tensor;
    int64_t row, first;
};

static int copy_columns(struct recorder *recorder, const struct columns *from,
                        const struct columns *to, int64_t width, bool fills, struct error *error)
{
    const struct backend_program *program = recorder->program;
    const int64_t rows = program_elements(program, to->tensor) / to->row;
    const struct {
        VkDeviceAddress from, to;
        uint32_t rows, width, from_row, from_first, to_row, to_first;
    } push = {.from = program_address(program, from->tensor),
              .to = program_address(program, to->tensor),
              .rows = (uint32_t)rows,
              .width = (uint32_t)width,
              .from_row = (uint32_t)from->row,
              .from_first = (uint32_t)from->first,
              .to_row = (uint32_t)to->row,
              .to_first = (uint32_t)to->first};
    const struct launch launch = {
        .shader = SHADER_columns,
        .constants = {WORKGROUP, fills},
        .constant_count = 2,
        .push = &push,
        .push_bytes = sizeof push,
        .addresses = 2,
        .groups = {record_groups(rows * (fills ? to->row : width), WORKGROUP)}};

    return record_launch(recorder, &launch, error);
}

/* The numbers that lie side by side: the last axis; of images, all behind the batch. */
static int64_t row_width(const struct backend_program *program, int32_t tensor)
{
    const struct graph_shape *shape = &program->graph->tensors[tensor].shape;

    return shape->rank == 4 ? graph_shape_elements(shape) / shape->extent[0]
                            : shape->extent[shape->rank - 1];
}

/* A slice, or its gradient. */
int columns_run(struct recorder *recorder, int32_t index, struct error *error)
{
    const struct backend_program *program = recorder->program;
    const struct graph_node *node = &program->graph->nodes[index];
    const bool back = node->op == OP_SLICE_BACKWARD;
    const int64_t first = node->attributes.slice_first;
    const struct columns from = {node->input[0], row_width(program, node->input[0]),
                                 back ? 0 : first};
    const struct columns to = {node->output[0], row_width(program, node->output[0]),
                               back ? first : 0};

    return copy_columns(recorder, &from, &to, back ? from.row : to.row, back, error);
}

/* Concatenates the inputs, or splits the input into the outputs. */
int concatenate_run(struct recorder *recorder, int32_t index, struct error *error)
{
    const struct backend_program *program = recorder->program;
    const struct graph_node *node = &program->graph->nodes[index];
    const bool splits = node->op == OP_SPLIT;
    const int32_t whole = splits ? node->input[0] : node->output[0];
    const int count = splits ? node->output_count : node->input_count;
    struct columns place = {whole, row_width(program, whole), 0};
    int r = 0;

    for (int i = 0; r == 0 && i < count; i++) {
        const int32_t tensor = splits ? node->output[i] : node->input[i];
        const struct columns part = {tensor, row_width(program, tensor), 0};

        r = splits ? copy_columns(recorder, &place, &part, part.row, false, error)
                   : copy_columns(recorder, &part, &place, part.row, false, error);
        place.first += part.row;
    }
    return r;
}

/* ---- axes in another order, rows by constant numbers ---- */

int permute_run(struct recorder *recorder, int32_t index, struct error *error)
{
    const struct backend_program *program = recorder->program;
    const struct graph_node *node = &program->graph->nodes[index];
    const struct permute_attributes *how = &node->attributes.permute;
    const int64_t count = program_elements(program, node->output[0]);
    struct {
        VkDeviceAddress x, y;
        uint32_t count, sample, rank, extent[PERMUTE_RANK_MAX], stride[PERMUTE_RANK_MAX], unused;
    } push = {.x = program_address(program, node->input[0]),
              .y = program_address(program, node->output[0]),
              .count = (uint32_t)count,
              .sample = (uint32_t)(count / program->graph->batch),
              .rank = (uint32_t)how->rank};
    const struct launch launch = {.shader = SHADER_permute,
                                  .constants = {WORKGROUP},
                                  .constant_count = 1,
                                  .push = &push,
                                  .push_bytes = sizeof push,
                                  .addresses = 2,
                                  .groups = {record_groups(count, WORKGROUP)}};
    int64_t strides[PERMUTE_RANK_MAX], stride = 1;

    for (int axis = how->rank - 1; axis >= 0; axis--) {
        strides[axis] = stride;
        stride *= how->extent[axis];
    }
    for (int axis = 0; axis < how->rank; axis++) {
        push.extent[axis] = (uint32_t)how->extent[how->order[axis]];
        push.stride[axis] = (uint32_t)strides[how->order[axis]];
    }
    return record_launch(recorder, &launch, error);
}

/* Takes rows, or makes the gradient of that. */
int take_run(struct recorder *recorder, int32_t index, struct error *error)
{
    const struct backend_program *program = recorder->program;
    const struct graph_node *node = &program->graph->nodes[index];
    const struct take_attributes *how = &node->attributes.take;
    const bool back = node->op == OP_TAKE_BACKWARD;
    const bool shared = !is_batched(program, back ? node->output[0] : node->input[0]);
    const int64_t count = program_elements(program, node->output[0]);
    const struct {
        VkDeviceAddress x, map, y;
        uint32_t count, batch, outer, from, to, inner;
    } push = {.x = program_address(program, node->input[0]),
              .map = program_address(program, node->input[1]),
              .y = program_address(program, node->output[0]),
              .count = (uint32_t)count,
              .batch = (uint32_t)program->graph->batch,
              .outer = (uint32_t)how->outer,
              .from = (uint32_t)how->from,
              .to = (uint32_t)how->to,
              .inner = (uint32_t)how->inner};
    const struct launch launch = {
        .shader = SHADER_take,
        .constants = {WORKGROUP, back, shared, back && adds_to(recorder, node)},
        .constant_count = 4,
        .push = &push,
        .push_bytes = sizeof push,
        .addresses = 3,
        .groups = {record_groups(count, WORKGROUP)}};

    return record_launch(recorder, &launch, error);
}

/* ---- sums over an axis ---- */

int axis_sum_run(struct recorder *recorder, int32_t index, struct error *error)
{
    const struct backend_program *program = recorder->program;
    const struct graph_node *node = &program->graph->nodes[index];
    const struct axis_sum_attributes *how = &node->attributes.axis_sum;
    const struct strided_sums sums = {.x = program_address(program, node->input[0]),
                                      .sums = program_address(program, node->output[0]),
                                      .results = program_elements(program, node->output[0]),
                                      .result_inner = how->inner,
                                      .result_outer_stride = how->middle * how->inner,
                                      .result_inner_stride = 1,
                                      .terms = how->middle,
                                      .term_inner = 1,
                                      .term_outer_stride = how->inner,
                                      .factor = how->factor,
                                      .term = TERM_SAME};

    return record_sums(recorder, &sums, error);
}

int axis_sum_backward_run(struct recorder *recorder, int32_t index, struct error *error)
{
    const struct backend_program *program = recorder->program;
    const struct graph_node *node = &program->graph->nodes[index];
    const struct axis_sum_attributes *how = &node->attributes.axis_sum;
    const int64_t count = program_elements(program, node->output[0]);
    const struct {
        VkDeviceAddress x, y;
        uint32_t count, middle, inner;
        float factor;
    } push = {.x = program_address(program, node->input[0]),
              .y = program_address(program, node->output[0]),
              .count = (uint32_t)count,
              .middle = (uint32_t)how->middle,
              .inner = (uint32_t)how->inner,
              .factor = how->factor};
    const struct launch launch = {.shader = SHADER_repeat,
                                  .constants = {WORKGROUP},
                                  .constant_count = 1,
                                  .push = &push,
                                  .push_bytes = sizeof push,
                                  .addresses = 2,
                                  .groups = {record_groups(count, WORKGROUP)}};

    return record_launch(recorder, &launch, error);
}

/* ---- two tensors, number by number ---- */

/* The result, or the gradient by the first operand. */
int broadcast_run(struct recorder *recorder, int32_t index, struct error *error)
{
    const struct backend_program *program = recorder->program;
    const struct graph_node *node = &program->graph->nodes[index];
    const struct broadcast_attributes *how = &node->attributes.broadcast;
    const bool back = node->op == OP_BROADCAST_BACKWARD_FIRST;
    const int32_t a = node->input[back ? 1 : 0], b = node->input[back ? 2 : 1];
    const int64_t count = program_elements(program, node->output[0]);
    const struct {
        VkDeviceAddress dy, a, b, y;
        uint32_t count, sample, middle, inner, shared_second, unused;
    } push = {.dy = program_address(program, back ? node->input[0] : -1),
              .a = program_address(program, a),
              .b = program_address(program, b),
              .y = program_address(program, node->output[0]),
              .count = (uint32_t)count,
              .sample = (uint32_t)(how->outer * how->middle * how->inner),
              .middle = (uint32_t)how->middle,
              .inner = (uint32_t)how->inner,
              .shared_second = b >= 0 && !is_batched(program, b)};
    const struct launch launch = {.shader = SHADER_broadcast,
                                  .constants = {WORKGROUP, how->kind, back},
                                  .constant_count = 3,
                                  .push = &push,
                                  .push_bytes = sizeof push,
                                  .addresses = 4,
                                  .groups = {record_groups(count, WORKGROUP)}};

    return record_launch(recorder, &launch, error);
}

int broadcast_backward_second_run(struct recorder *recorder, int32_t index, struct error *error)
{
    const struct backend_program *program = recorder->program;
    const struct graph_node *node = &program->graph->nodes[index];
    const struct broadcast_attributes *how = &node->attributes.broadcast;
    const bool shared = !is_batched(program, node->output[0]);
    const int64_t sample = how->outer * how->middle * how->inner, batch = program->graph->batch;
    const struct strided_sums sums = {.x = program_address(program, node->input[0]),
                                      .a = program_address(program, node->input[1]),
                                      .b = program_address(program, node->input[2]),
                                      .sums = program_address(program, node->output[0]),
                                      .results = shared ? how->middle : batch * how->middle,
                                      .result_inner = how->middle,
                                      .result_outer_stride = sample,
                                      .result_inner_stride = how->inner,
                                      .terms = (shared ? batch : 1) * how->outer * how->inner,
                                      .term_inner = how->inner,
                                      .term_outer_stride = how->middle * how->inner,
                                      .term_inner_stride = 1,
                                      .factor = 1,
                                      .term = how->kind,
                                      .accumulate = adds_to(recorder, node)};

    return record_sums(recorder, &sums, error);
}
