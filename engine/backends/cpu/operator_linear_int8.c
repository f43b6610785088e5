/* operator_linear_int8.c: linear layers with weights of 8 bits, and how such weights lie in memory.
 * A task quantizes some rows of its input at a time, each by its own range, and multiplies them
 * (kernels/int8.h). No number depends on how rows and columns are divided among tasks. */
#include "engine/backends/cpu/program.h"
#include "engine/graph/forward.h"

#include <stdlib.h>

enum { BLOCK_ROWS = 48 }; /* that are quantized at a time: they stay in the nearest caches */

/* The recurrent layer that multiplies by the weights of the node: the node itself, or the one that
 * has absorbed it; NULL: there is none. */
static const struct graph_node *recurrent_of(const struct backend_program *program, int32_t index)
{
    const struct graph_node *nodes = program->graph->nodes;

    if (nodes[index].op == OP_RECURRENT_INT8)
        return &nodes[index];
    for (int32_t i = 0; program->nodes[index].absorbed && i < program->graph->node_count; i++)
        if (program->nodes[i].input_layer == index)
            return &nodes[i];
    return NULL;
}

bool program_int8_packing(const struct backend_program *program, int32_t tensor,
                          struct int8_packing *packing)
{
    const struct graph_tensor *t = program_tensor(program, tensor);
    const struct graph *graph = program->graph;

    if (t->type != TENSOR_INT8)
        return false;
    for (int32_t i = 0; i < graph->node_count; i++) {
        const struct graph_node *node = &graph->nodes[i];
        const struct graph_node *recurrent;

        if ((node->op != OP_RECURRENT_INT8 && node->op != OP_LINEAR_INT8) ||
            node->input[1] != tensor)
            continue;
        recurrent = recurrent_of(program, i);
        *packing = int8_packing_of(
            t->shape.extent[0], t->shape.extent[1],
            recurrent ? recurrent_cell_gates(recurrent->attributes.recurrent.cell) : 0);
        return true;
    }
    return false;
}

/* ---- prepare --------------------------------------------------------------------------------- */

/* The scratch of a task is the quantized rows, their scales and their zero points. */
static size_t values_bytes(int64_t depth)
{
    return BLOCK_ROWS * int8_row_bytes(depth);
}

size_t linear_int8_scratch_bytes(int64_t depth)
{
    return values_bytes(depth) + BLOCK_ROWS * (sizeof(float) + sizeof(int32_t));
}

int linear_int8_prepare(struct backend_program *program, int32_t index, struct error *error)
{
    const struct graph_node *node = &program->graph->nodes[index];
    struct int8_packing *packing;

    if (program->nodes[index].absorbed)
        return 0;
    packing = calloc(1, sizeof *packing);
    if (!packing)
        return error_no_memory(error, "a linear layer");
    program->nodes[index].state = packing;
    program_int8_packing(program, node->input[1], packing);
    program_reserve_scratch(program, linear_int8_scratch_bytes(packing->depth));
    return 0;
}

void linear_int8_release(void *state)
{
    free(state);
}

/* ---- run ------------------------------------------------------------------------------------- */

static void apply_activation(struct backend_program *program, int kind,
                             const struct int8_linear *task, int64_t rows, int64_t first_group,
                             int64_t end_group)
{
    int64_t width = (int64_t)task->packing.vectors * INT8_LANES, end = end_group * width;
    int64_t first = first_group * width;

    end = end < task->packing.rows ? end : task->packing.rows;
    for (int64_t r = 0; r < rows && first < end; r++) {
        float *y = task->y + r * task->y_row + first;

        program->device->kernels->activation_forward((enum activation_kind)kind, y, y, end - first);
    }
}

/* Computes the groups of columns for the rows. */
static void multiply_groups(struct backend_program *program, int32_t index,
                            const struct int8_packing *packing, const struct linear_int8_rows *rows,
                            struct range groups, void *scratch)
{
    const struct graph_node *node = &program->graph->nodes[index];
    const struct kernels *kernels = program->device->kernels;
    int fused = program->nodes[index].fused;
    int64_t depth = packing->depth;
    struct int8_linear task = {
        .packing = *packing,
        .weights = program_address(program, node->input[1]),
        .bias = node->input[2] < 0 ? NULL : program_address(program, node->input[2]),
        .scale = program_address(program, node->input[3]),
        .y_row = rows->y_row,
        .y_group = rows->y_group,
        .y_vector = rows->y_vector,
        .relu = fused == ACTIVATION_RELU,
        .instructions = program->device->int8};

    task.x = (struct int8_rows){.values = scratch,
                                .row = (int64_t)int8_row_bytes(depth),
                                .scale = (void *)((char *)scratch + values_bytes(depth))};
    task.x.zero = (void *)(task.x.scale + BLOCK_ROWS);
    for (int64_t row = 0, count; row < rows->count; row += count) {
        count = rows->count - row < BLOCK_ROWS ? rows->count - row : BLOCK_ROWS;
        task.y = rows->y + row * rows->y_row;
        kernels->int8_quantize_rows(rows->x + row * rows->x_row, rows->x_row, count, depth,
                                    &task.x);
        kernels->int8_linear(&task, count, groups.first, groups.end);
        if (fused >= 0 && fused != ACTIVATION_RELU)
            apply_activation(program, fused, &task, count, groups.first, groups.end);
    }
}

void linear_int8_multiply(struct backend_program *program, int32_t node,
                          const struct int8_packing *packing, const struct linear_int8_rows *rows,
                          void *scratch)
{
    multiply_groups(program, node, packing, rows, (struct range){0, packing->groups}, scratch);
}

/* The same for a range of the layer's rows. */
static void multiply_rows(struct backend_program *program, const struct step *step, void *scratch,
                          struct range rows, struct range groups)
{
    const struct int8_packing *packing = step->state;
    const struct graph_node *node = step->node;
    const float *x = program_address(program, node->input[0]);
    float *y = program_address(program, node->output[0]);

    multiply_groups(program, (int32_t)(node - program->graph->nodes), packing,
                    &(struct linear_int8_rows){.x = x + rows.first * packing->depth,
                                               .y = y + rows.first * packing->rows,
                                               .x_row = packing->depth,
                                               .y_row = packing->rows,
                                               .y_group = packing->vectors * INT8_LANES,
                                               .y_vector = INT8_LANES,
                                               .count = rows.end - rows.first},
                    groups, scratch);
}

/* Rows of x in all. */
static int64_t row_count(const struct backend_program *program, const struct step *step)
{
    const struct int8_packing *packing = step->state;

    return program_sample_elements(program, step->node->output[0]) / packing->rows *
           program->graph->batch;
}

static void run_samples(struct backend_program *program, const struct step *step, int task,
                        int thread)
{
    const struct int8_packing *packing = step->state;
    struct range slice = program_slice(program, task);
    int64_t rows = row_count(program, step) / program->graph->batch;

    (void)thread;
    multiply_rows(program, step, program_task_scratch(program, task),
                  (struct range){slice.first * rows, slice.end * rows},
                  (struct range){0, packing->groups});
}

/* Few samples: tasks share the columns. */
static void run_columns(struct backend_program *program, const struct step *step, int task,
                        int thread)
{
    const struct int8_packing *packing = step->state;

    (void)thread;
    multiply_rows(program, step, program_scratch_of(program, step->tasks, task),
                  (struct range){0, row_count(program, step)},
                  (struct range){packing->groups * task / step->tasks,
                                 packing->groups * (task + 1) / step->tasks});
}

int linear_int8_bind(struct backend_program *program, int32_t index, struct error *error)
{
    const struct graph_node *node = &program->graph->nodes[index];
    bool shares_columns = program_slices_differ(program);
    struct step *step;

    if (program->nodes[index].absorbed)
        return 0;
    step = program_add_step(program, index, shares_columns ? run_columns : run_samples);
    if (!step)
        return error_no_memory(error, "the program");
    if (shares_columns)
        step_divide(program, step);
    step_touch_inputs(program, step);
    step_touch_tensor(program, step, node->output[0], ACCESS_SLICE, true);
    return 0;
}
