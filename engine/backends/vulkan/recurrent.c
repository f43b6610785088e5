/* recurrent.c: LSTM and GRU: a launch for each step, which multiplies the state and calculates the
 * gates, forward and backward; the gradient by the weights, which is one product over all steps;
 * and the state that is carried to the next batch. */
#include "engine/backends/vulkan/operators.h"
#include "engine/backends/vulkan/product.h"
#include "engine/backends/vulkan/sums.h"
#include "engine/backends/vulkan/ways.h"
#include "engine/graph/forward.h"

#include <stdio.h>

/* shaders/recurrent.glsl has these numbers */
_Static_assert(RECURRENT_LSTM == 0 && RECURRENT_GRU == 1, "as in recurrent.glsl");

enum {
    WORKGROUP = 256,
    SIDE = 16,
    LINE_MORE = 4, /* recurrent.glsl */
    FOUR = 4,      /* numbers that a shader reads at once */
    TILES_ENOUGH = 256,
    ROWS_EACH_MAX = 4,
    DEPTH_USUAL = 64, /* of a piece, if nothing is measured */
    DEPTH_MAX = 256
};

struct recurrent_shape {
    int64_t batch, steps, hidden, gates;
    bool reverse;
    enum recurrent_cell cell;
};

/* `sequences`: a tensor [batch, steps, hidden]. */
static struct recurrent_shape describe(const struct graph *graph, const struct graph_node *node,
                                       int32_t sequences)
{
    const int64_t *extent = graph->tensors[sequences].shape.extent;

    return (struct recurrent_shape){.batch = extent[0],
                                    .steps = extent[1],
                                    .hidden = extent[2],
                                    .gates = recurrent_cell_gates(node->attributes.recurrent.cell),
                                    .reverse = node->attributes.recurrent.reverse,
                                    .cell = node->attributes.recurrent.cell};
}

static int64_t tiles_of(const struct recurrent_shape *shape, int64_t rows)
{
    return (shape->batch + rows - 1) / rows * ((shape->hidden + SIDE - 1) / SIDE);
}

/* How many samples an invocation has: more read the weights less often, but fewer tiles may leave
 * the device without work. */
static uint32_t rows_each(const struct recurrent_shape *shape)
{
    uint32_t rows = 1;

    while (rows < ROWS_EACH_MAX && tiles_of(shape, (int64_t)2 * rows * SIDE) >= TILES_ENOUGH)
        rows *= 2;
    return rows;
}

static int32_t input_of(const struct graph_node *node, int number)
{
    return number < node->input_count ? node->input[number] : -1;
}

/* What both shaders get of their tensors; recurrent.glsl says which. */
struct recurrent_push {
    VkDeviceAddress tensor[12];
    uint32_t batch, steps, hidden, time;
};

/* Bytes of shared memory that a step's pieces take. */
static uint32_t piece_bytes(const struct recurrent_shape *shape, bool backward, uint32_t rows,
                            uint32_t depth)
{
    const uint32_t lines = (rows + (backward ? 1 : (uint32_t)shape->gates)) * SIDE;

    return lines * (depth + LINE_MORE) * (uint32_t)sizeof(float);
}

/* A step, and how it can be divided: samples of an invocation, and the depth of the product's
 * pieces. Numbers are added in the same order in all ways. */
struct divided_step {
    enum vulkan_shader shader;
    const struct recurrent_shape *shape;
    const struct recurrent_push *push;
    const uint32_t *flags; /* three specialization constants: the shader's */
    bool multiplies;       /* there is a state, or a gradient, to multiply */
    struct division {
        uint32_t rows, depth;
    } divisions[WAYS_MAX];
};

static int64_t depth_of_product(const struct divided_step *step)
{
    return step->shader == SHADER_recurrent_backward ? step->shape->gates * step->shape->hidden
                                                     : step->shape->hidden;
}

static bool fits(const struct recorder *recorder, const struct divided_step *step,
                 struct division division, uint32_t workgroups)
{
    const VkPhysicalDeviceLimits *limits = &recorder->program->device->properties.limits;

    return workgroups * piece_bytes(step->shape, step->shader == SHADER_recurrent_backward,
                                    division.rows, division.depth) <=
           limits->maxComputeSharedMemorySize;
}

/* Lists the divisions of a step: first that which is taken without a measurement. Each piece costs
 * the time that memory takes to answer, so there should be few. But two workgroups should fit on a
 * core, unless cores have no second one. */
static int list_divisions(const struct recorder *recorder, struct divided_step *step)
{
    const int64_t sum = depth_of_product(step);
    struct division first = {rows_each(step->shape), DEPTH_USUAL};
    int count = 1;

    while (first.depth > SIDE && (sum <= first.depth / 2 || !fits(recorder, step, first, 2)))
        first.depth /= 2;
    step->divisions[0] = first;
    for (uint32_t rows = 1; rows <= first.rows; rows *= 2)
        for (uint32_t depth = first.depth; depth <= DEPTH_MAX && count < WAYS_MAX; depth *= 2) {
            const struct division division = {rows, depth};

            if ((rows != first.rows || depth != first.depth) && sum > depth / 2 &&
                fits(recorder, step, division, 1))
                step->divisions[count++] = division;
        }
    return step->multiplies ? count : 1;
}

static int record_by_division(struct recorder *recorder, const void *work, int way,
                              struct error *error)
{
    const struct divided_step *step = work;
    const struct recurrent_shape *shape = step->shape;
    const struct division *division = &step->divisions[way];
    const uint32_t *flags = step->flags;
    const uint32_t lines = (shape->reverse ? RECURRENT_REVERSE : 0) |
                           (shape->hidden % FOUR == 0 ? RECURRENT_ALIGNED : 0);
    const struct launch launch = {.shader = step->shader,
                                  .constants = {WORKGROUP, shape->cell, lines, division->rows,
                                                flags[0], flags[1], flags[2], division->depth},
                                  .constant_count = 8,
                                  .push = step->push,
                                  .push_bytes = sizeof *step->push,
                                  .addresses = 12,
                                  .groups = {(shape->hidden + SIDE - 1) / SIDE,
                                             record_groups(shape->batch, division->rows * SIDE)}};

    return record_launch(recorder, &launch, error);
}

/* What decides how fast a division is. */
static void write_key(const struct recorder *recorder, const void *work, char key[CHOICES_KEY_MAX])
{
    const struct divided_step *step = work;
    const struct recurrent_shape *shape = step->shape;

    snprintf(
        key, CHOICES_KEY_MAX, "%s%s,%lldx%lld,%s", shape->cell == RECURRENT_LSTM ? "lstm" : "gru",
        step->shader == SHADER_recurrent_backward ? "-backward" : "", (long long)shape->batch,
        (long long)shape->hidden, tensor_type_to_string(recorder->program->graph->compute_type));
}

static int launch_step(struct recorder *recorder, struct divided_step *step, struct error *error)
{
    struct ways ways = {.work = step,
                        .record = record_by_division,
                        .write_key = write_key,
                        .count = list_divisions(recorder, step)};

    for (int i = 0; i < ways.count; i++)
        snprintf(ways.names[i], sizeof ways.names[i], "%ux%u", step->divisions[i].depth,
                 step->divisions[i].rows);
    return record_fastest(recorder, &ways, error);
}

/* ---- forward --------------------------------------------------------------------------------- */

/* The states before and behind a step, of which one becomes the other, and an LSTM's cells. */
size_t recurrent_workspace(const struct graph *graph, const struct graph_node *node)
{
    const struct recurrent_shape shape = describe(graph, node, node->output[0]);

    return (size_t)(3 * shape.batch * shape.hidden) * sizeof(float);
}

int recurrent_run(struct recorder *recorder, int32_t index, struct error *error)
{
    enum { INPUT, WEIGHT, BIAS, LENGTHS, BEFORE, AFTER, CONTENT, CONTENT_AFTER, Y, GATES, CELLS };
    const struct backend_program *program = recorder->program;
    const struct graph_node *node = &program->graph->nodes[index];
    const struct recurrent_shape shape = describe(program->graph, node, node->output[0]);
    const struct recurrent_results results = graph_recurrent_results(node);
    const VkDeviceSize state_bytes = (VkDeviceSize)(shape.batch * shape.hidden) * sizeof(float);
    const VkDeviceAddress states = program->workspace[index];
    const VkDeviceAddress last_h = program_address(program, results.last_h);
    const VkDeviceAddress last_c = program_address(program, results.last_c);
    struct recurrent_push push = {
        .tensor = {[INPUT] = program_address(program, node->input[0]),
                   [WEIGHT] = program_address(program, node->input[1]),
                   [BIAS] = program_address(program, node->input[2]),
                   [LENGTHS] = program_address(program, node->input[3]),
                   [BEFORE] = program_address(program, input_of(node, RECURRENT_H0)),
                   [CONTENT] = program_address(program, input_of(node, RECURRENT_C0)),
                   [Y] = program_address(program, results.y),
                   [GATES] = program_address(program, results.gates),
                   [CELLS] = program_address(program, results.cells)},
        .batch = (uint32_t)shape.batch,
        .steps = (uint32_t)shape.steps,
        .hidden = (uint32_t)shape.hidden};
    int r = 0;

    for (int64_t step = 0; r == 0 && step < shape.steps; step++) {
        const bool last = step + 1 == shape.steps;

        if (step > 0)
            record_barrier(recorder);
        push.time = (uint32_t)(shape.reverse ? shape.steps - 1 - step : step);
        push.tensor[AFTER] =
            last && last_h ? last_h : states + (VkDeviceSize)(step % 2) * state_bytes;
        push.tensor[CONTENT_AFTER] = last && last_c ? last_c : states + 2 * state_bytes;
        r = launch_step(recorder,
                        &(struct divided_step){.shader = SHADER_recurrent,
                                               .shape = &shape,
                                               .push = &push,
                                               .flags = (uint32_t[]){push.tensor[LENGTHS] != 0,
                                                                     push.tensor[BEFORE] != 0,
                                                                     push.tensor[GATES] != 0},
                                               .multiplies = push.tensor[BEFORE] != 0},
                        error);
        push.tensor[BEFORE] = push.tensor[AFTER];
        push.tensor[CONTENT] = push.tensor[CONTENT_AFTER];
    }
    return r;
}

/* ---- backward -------------------------------------------------------------------------------- */

/* The gradients by what the state's product gave at a step and the one behind it, and what is
 * carried from step to step. */
size_t recurrent_backward_workspace(const struct graph *graph, const struct graph_node *node)
{
    const struct recurrent_shape shape = describe(graph, node, node->input[2]);

    return (size_t)((2 * shape.gates + 1) * shape.batch * shape.hidden) * sizeof(float);
}

int recurrent_backward_run(struct recorder *recorder, int32_t index, struct error *error)
{
    enum { GATES, WEIGHT, DY, MEMORY, LENGTHS, FIRST, BEHIND, HERE, CARRIED, DINPUT };
    const struct backend_program *program = recorder->program;
    const struct graph_node *node = &program->graph->nodes[index];
    const struct recurrent_shape shape = describe(program->graph, node, node->input[2]);
    const VkDeviceSize bytes =
        (VkDeviceSize)(shape.gates * shape.batch * shape.hidden) * sizeof(float);
    const VkDeviceAddress workspace = program->workspace[index];
    struct recurrent_push push = {.tensor = {[GATES] = program_address(program, node->input[0]),
                                             [WEIGHT] = program_address(program, node->input[1]),
                                             [DY] = program_address(program, node->input[2]),
                                             [MEMORY] = program_address(program, node->input[3]),
                                             [LENGTHS] = program_address(program, node->input[4]),
                                             [FIRST] = program_address(program, input_of(node, 5)),
                                             [CARRIED] = workspace + 2 * bytes,
                                             [DINPUT] = program_address(program, node->output[0])},
                                  .batch = (uint32_t)shape.batch,
                                  .steps = (uint32_t)shape.steps,
                                  .hidden = (uint32_t)shape.hidden};
    int r = 0;

    for (int64_t step = 0; r == 0 && step < shape.steps; step++) {
        if (step > 0)
            record_barrier(recorder);
        push.time = (uint32_t)(shape.reverse ? step : shape.steps - 1 - step);
        push.tensor[HERE] = workspace + (VkDeviceSize)(step % 2) * bytes;
        r = launch_step(
            recorder,
            &(struct divided_step){
                .shader = SHADER_recurrent_backward,
                .shape = &shape,
                .push = &push,
                .flags = (uint32_t[]){push.tensor[LENGTHS] != 0, step > 0, push.tensor[FIRST] != 0},
                .multiplies = step > 0},
            error);
        push.tensor[BEHIND] = push.tensor[HERE];
    }
    return r;
}

/* ---- gradient by the weights ----------------------------------------------------------------- */

/* The state before each step and, of a GRU, the gradients by what the state's product gave. */
size_t recurrent_backward_weights_workspace(const struct graph *graph,
                                            const struct graph_node *node)
{
    const struct recurrent_shape shape = describe(graph, node, node->input[0]);
    const int64_t gates = shape.cell == RECURRENT_GRU ? shape.gates : 0;

    return (size_t)((1 + gates) * shape.batch * shape.steps * shape.hidden) * sizeof(float);
}

/* Makes the two operands of the product; of an LSTM the second is there. */
static int make_operands(struct recorder *recorder, int32_t index,
                         const struct recurrent_shape *shape, VkDeviceAddress gradient,
                         struct error *error)
{
    const struct backend_program *program = recorder->program;
    const struct graph_node *node = &program->graph->nodes[index];
    const int64_t count = shape->batch * shape->steps * shape->hidden;
    const struct {
        VkDeviceAddress y, h0, previous, gates, dinput, gradient;
        uint32_t count, steps, hidden, unused;
    } push = {.y = program_address(program, node->input[0]),
              .h0 = program_address(program, input_of(node, 3)),
              .previous = program->workspace[index],
              .gates = program_address(program, node->input[2]),
              .dinput = program_address(program, node->input[1]),
              .gradient = gradient,
              .count = (uint32_t)count,
              .steps = (uint32_t)shape->steps,
              .hidden = (uint32_t)shape->hidden};
    const struct launch launch = {
        .shader = SHADER_recurrent_operands,
        .constants = {WORKGROUP, shape->cell, shape->reverse, push.h0 != 0},
        .constant_count = 4,
        .push = &push,
        .push_bytes = sizeof push,
        .addresses = 6,
        .groups = {record_groups(count, WORKGROUP)}};
    int r = record_launch(recorder, &launch, error);

    record_barrier(recorder);
    return r;
}

int recurrent_backward_weights_run(struct recorder *recorder, int32_t index, struct error *error)
{
    const struct backend_program *program = recorder->program;
    const struct graph_node *node = &program->graph->nodes[index];
    const struct recurrent_shape shape = describe(program->graph, node, node->input[0]);
    const int64_t rows = shape.batch * shape.steps, width = shape.gates * shape.hidden;
    const VkDeviceAddress previous = program->workspace[index];
    const VkDeviceAddress gradient =
        shape.cell == RECURRENT_GRU ? previous + (VkDeviceSize)(rows * shape.hidden) * sizeof(float)
                                    : program_address(program, node->input[1]);
    const struct product product = {
        .m = width,
        .n = shape.hidden,
        .k = rows,
        .a = {.at = gradient, .row_stride = width, .column_stride = 1},
        .b = {.at = previous, .row_stride = 1, .column_stride = shape.hidden},
        .c = program_address(program, node->output[0]),
        .c_row_stride = shape.hidden,
        .d = record_accumulates(recorder, node, 0) ? program_address(program, node->output[0]) : 0,
        .beta = 1};
    const struct row_sums sums = {.x = gradient,
                                  .sums = program_address(program, node->output[1]),
                                  .rows = rows,
                                  .stride = width,
                                  .columns = width,
                                  .accumulate = record_accumulates(recorder, node, 1)};
    int r = make_operands(recorder, index, &shape, gradient, error);

    if (r == 0)
        r = record_product(recorder, &product, error);
    return r < 0 ? r : record_row_sums(recorder, &sums, error);
}

/* ---- carried state --------------------------------------------------------------------------- */

int carry_state_run(struct recorder *recorder, int32_t index, struct error *error)
{
    const struct backend_program *program = recorder->program;
    const struct graph_node *node = &program->graph->nodes[index];
    const struct vulkan_memory *arena = &program->buffer->memory;
    const VkBufferCopy copy = {
        .srcOffset = program_address(program, node->input[0]) - arena->address,
        .dstOffset = program_address(program, node->input[1]) - arena->address,
        .size = (VkDeviceSize)program_elements(program, node->input[0]) * sizeof(float)};

    (void)error;
    program->device->library.CmdCopyBuffer(recorder->commands, arena->buffer, arena->buffer, 1,
                                           &copy);
    return 0;
}
