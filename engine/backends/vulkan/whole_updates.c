/* whole_updates.c: updates that need the whole parameter: LAMB and Muon, as the CPU has them
 * (engine/backends/cpu/operator_lamb.c, operator_muon.c). Muon's:
 *
 *   X = u / |u| for the direction u
 *   repeat: A = X X^T;  B = b A + c A A;  X = a X + B X
 *   w = (1 - lr decay) w - lr scale X
 *
 * For a matrix with more rows than columns A = X^T X and X = a X + X B, which gives the same
 * numbers without transposing the matrix. A and B are symmetric. */
#include "base/alignment.h"
#include "engine/backends/vulkan/operators.h"
#include "engine/backends/vulkan/product.h"
#include "engine/graph/optimizer.h"

/* Jordan et al. 2024, https://kellerjordan.github.io/posts/muon/ */
static const float quintic_a = 3.4445f, quintic_b = -4.7750f, quintic_c = 2.0315f;

enum { WORKGROUP = 256, PARTS = 64 }; /* partial sums of squares: a workgroup for each */

/* What both read of the update; push constants begin with it. */
struct update_push {
    VkDeviceAddress parameter, gradient, state0, other, squares, scalars, control;
    uint32_t count, group, parts;
    float setting;
};

static struct update_push push_of(const struct recorder *recorder, int32_t index)
{
    const struct backend_program *program = recorder->program;
    const struct graph_node *node = &program->graph->nodes[index];

    return (struct update_push){.parameter = program_address(program, node->input[0]),
                                .gradient = program_address(program, node->input[1]),
                                .state0 = program_address(program, node->input[2]),
                                .scalars = recorder->scalars,
                                .control = program->control.address,
                                .count = (uint32_t)program_elements(program, node->input[0]),
                                .group = (uint32_t)node->attributes.optimizer_group *
                                         UPDATE_COEFFICIENTS,
                                .parts = PARTS};
}

static int launch_part(struct recorder *recorder, enum vulkan_shader shader, uint32_t part,
                       const struct update_push *push, int64_t groups, struct error *error)
{
    const struct launch launch = {.shader = shader,
                                  .constants = {WORKGROUP, part, recorder->kind.sums_squares,
                                                update_rounding(recorder->program->graph)},
                                  .constant_count = 4,
                                  .push = push,
                                  .push_bytes = sizeof *push,
                                  .groups = {groups}};

    return record_launch(recorder, &launch, error);
}

/* ---- LAMB ------------------------------------------------------------------------------------ */

static int run_lamb(struct recorder *recorder, int32_t index, struct error *error)
{
    const struct backend_program *program = recorder->program;
    struct update_push push = push_of(recorder, index);
    int r;

    push.other = program_address(program, program->graph->nodes[index].input[3]);
    push.squares = program->workspace[index];
    r = launch_part(recorder, SHADER_lamb, 0, &push, PARTS, error);
    record_barrier(recorder);
    return r < 0 ? r
                 : launch_part(recorder, SHADER_lamb, 1, &push,
                               record_groups(push.count, WORKGROUP), error);
}

/* ---- Muon ------------------------------------------------------------------------------------ */

/* A matrix and what its workspace holds: X twice, A and B, partial sums. */
struct muon {
    int64_t rows, columns, small; /* small: the smaller of both */
    size_t matrix, square;        /* bytes */
};

static struct muon describe_muon(const struct graph *graph, const struct graph_node *node)
{
    const struct graph_shape *shape = &graph->tensors[node->input[0]].shape;
    struct muon muon = {.rows = shape->extent[0], .columns = shape->extent[1]};

    muon.small = muon.rows < muon.columns ? muon.rows : muon.columns;
    muon.matrix = align_up((size_t)(muon.rows * muon.columns) * sizeof(float), MEMORY_ALIGNMENT);
    muon.square = align_up((size_t)(muon.small * muon.small) * sizeof(float), MEMORY_ALIGNMENT);
    return muon;
}

static struct product_operand operand(VkDeviceAddress at, int64_t row_stride, int64_t column_stride)
{
    return (struct product_operand){
        .at = at, .row_stride = row_stride, .column_stride = column_stride};
}

/* Computes one iteration: `next` from `x`. */
static int iterate(struct recorder *recorder, const struct muon *muon, VkDeviceAddress x,
                   VkDeviceAddress next, VkDeviceAddress gram, struct error *error)
{
    const bool wide = muon->rows <= muon->columns;
    const VkDeviceAddress polynomial = gram + muon->square;
    const struct product_operand plain = operand(x, 1, muon->columns),
                                 turned = operand(x, muon->columns, 1),
                                 square = operand(gram, 1, muon->small),
                                 factor = operand(polynomial, 1, muon->small);
    const struct product of_gram = {.m = muon->small,
                                    .n = muon->small,
                                    .k = wide ? muon->columns : muon->rows,
                                    .a = wide ? plain : turned,
                                    .b = wide ? turned : plain,
                                    .c = gram,
                                    .c_row_stride = muon->small};
    const struct product of_square = {.m = muon->small,
                                      .n = muon->small,
                                      .k = muon->small,
                                      .a = square,
                                      .b = square,
                                      .c = polynomial,
                                      .c_row_stride = muon->small,
                                      .d = gram,
                                      .alpha = quintic_c,
                                      .beta = quintic_b};
    const struct product of_next = {.m = muon->rows,
                                    .n = muon->columns,
                                    .k = muon->small,
                                    .a = wide ? factor : plain,
                                    .b = wide ? plain : factor,
                                    .c = next,
                                    .c_row_stride = muon->columns,
                                    .d = x,
                                    .beta = quintic_a};
    int r = record_product(recorder, &of_gram, error);

    record_barrier(recorder);
    if (r == 0)
        r = record_product(recorder, &of_square, error);
    record_barrier(recorder);
    if (r == 0)
        r = record_product(recorder, &of_next, error);
    record_barrier(recorder);
    return r;
}

static int run_muon(struct recorder *recorder, int32_t index, struct error *error)
{
    const struct backend_program *program = recorder->program;
    const struct graph_node *node = &program->graph->nodes[index];
    const struct muon muon = describe_muon(program->graph, node);
    const struct optimizer_config *config =
        &program->graph->groups[node->attributes.optimizer_group].config;
    const VkDeviceAddress x[2] = {program->workspace[index],
                                  program->workspace[index] + muon.matrix};
    const VkDeviceAddress gram = x[1] + muon.matrix;
    struct update_push push = push_of(recorder, index);
    int r;

    push.other = x[0];
    push.squares = gram + 2 * muon.square;
    push.setting = (float)config->epsilon;
    r = launch_part(recorder, SHADER_muon, MUON_DIRECTION, &push, PARTS, error);
    record_barrier(recorder);
    if (r == 0)
        r = launch_part(recorder, SHADER_muon, MUON_NORMALISE, &push,
                        record_groups(push.count, WORKGROUP), error);
    record_barrier(recorder);
    for (int i = 0; r == 0 && i < config->iterations; i++)
        r = iterate(recorder, &muon, x[i % 2], x[(i + 1) % 2], gram, error);
    push.other = x[config->iterations % 2];
    push.setting =
        (float)optimizer_muon_rate_scale(config, (double)muon.rows, (double)muon.columns);
    return r < 0 ? r
                 : launch_part(recorder, SHADER_muon, MUON_STEP, &push,
                               record_groups(push.count, WORKGROUP), error);
}

/* ---- both ------------------------------------------------------------------------------------ */

size_t update_workspace(const struct graph *graph, const struct graph_node *node)
{
    if (graph_node_updates_matrix(graph, node)) {
        const struct muon muon = describe_muon(graph, node);

        return 2 * muon.matrix + 2 * muon.square + PARTS * sizeof(float);
    }
    return graph_node_scales_by_norms(graph, node) ? PARTS * sizeof(float[2]) : 0;
}

int update_whole_run(struct recorder *recorder, int32_t index, struct error *error)
{
    const struct graph *graph = recorder->program->graph;

    return graph_node_updates_matrix(graph, &graph->nodes[index])
               ? run_muon(recorder, index, error)
               : run_lamb(recorder, index, error);
}
