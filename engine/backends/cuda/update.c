/* update.c: updates the parameters: lists what changes, and fills in what changes from step to
 * step. */
#include "engine/backends/cuda/muon.h"
#include "engine/backends/cuda/small_linear.h"
#include "engine/backends/update_rule.h"
#include "engine/graph/optimizer.h"

#include <math.h>
#include <stdlib.h>

/* ---- what the update changes ----------------------------------------------------------------- */

struct cuda_item update_item(const struct backend_program *program, const struct graph_node *node)
{
    enum tensor_type type = program->graph->compute_type;
    bool rounds =
        program->graph->rounds_parameters && (type == TENSOR_BFLOAT16 || type == TENSOR_FLOAT16);
    int group = node->attributes.optimizer_group;

    return (struct cuda_item){
        .parameter = program_floats(program, node->input[0]),
        .gradient = program_array(program, node->input[1]),
        .state0 = node->input_count > 2 ? program_floats(program, node->input[2]) : NULL,
        .state1 = node->input_count > 3 ? program_floats(program, node->input[3]) : NULL,
        .state2 = node->input_count > 4 ? program_floats(program, node->input[4]) : NULL,
        .count = program_elements(program, node->input[0]),
        .formula = (int32_t)update_formula_of(program->graph->groups[group].config.kind),
        .group = group,
        .rounding = rounds ? (int32_t)type : TENSOR_FLOAT32};
}

struct cuda_item update_item_of(const struct backend_program *program, int32_t gradient)
{
    const struct graph *graph = program->graph;

    for (int32_t i = 0; i < graph->node_count; i++)
        if (graph->nodes[i].op == OP_OPTIMIZER && graph->nodes[i].input[1] == gradient &&
            !graph_node_updates_whole(graph, &graph->nodes[i]))
            return update_item(program, &graph->nodes[i]);
    return (struct cuda_item){.parameter = NULL};
}

/* Prepares the launches for all parameters, or for those that small_linear.c does not update. */
static int gather_items(const struct backend_program *program, bool all, struct cuda_items **items,
                        int *launches, struct error *error)
{
    const struct graph *graph = program->graph;
    int count = 0, most = 0;

    for (int32_t i = 0; i < graph->node_count; i++)
        most += graph->nodes[i].op == OP_OPTIMIZER;
    *items = calloc((size_t)most / CUDA_ITEMS_MAX + 1, sizeof **items);
    if (!*items)
        return error_no_memory(error, "the program");
    for (int32_t i = 0; i < graph->node_count; i++) {
        const struct graph_node *node = &graph->nodes[i];
        struct cuda_items *into = &(*items)[count / CUDA_ITEMS_MAX];

        if (node->op != OP_OPTIMIZER || (!all && small_makes_gradient(program, node->input[1])))
            continue;
        into->item[into->count++] = update_item(program, node);
        count++;
    }
    *launches = (count + CUDA_ITEMS_MAX - 1) / CUDA_ITEMS_MAX;
    for (int k = 0; k < *launches; k++)
        cuda_items_blocks(&(*items)[k]);
    return 0;
}

int update_prepare(struct backend_program *program, struct error *error)
{
    int r;

    for (int i = 0; i < program->graph->group_count; i++) {
        const struct optimizer_config *config = &program->graph->groups[i].config;

        if (update_formula_of(config->kind) == FORMULA_NONE)
            return error_set(error, -ERROR_UNSUPPORTED, "the CUDA backend has no update by %s",
                             optimizer_of(config)->title);
    }
    r = gather_items(program, true, &program->items, &program->item_launches, error);
    if (r == 0)
        r = gather_items(program, false, &program->other_items, &program->other_launches, error);
    if (r == 0 && program->item_launches > CUDA_SQUARES_LAUNCHES)
        return error_set(error, -ERROR_UNSUPPORTED,
                         "the CUDA backend updates at most %d parameters",
                         CUDA_SQUARES_LAUNCHES * CUDA_ITEMS_MAX);
    return r;
}

/* ---- by which coefficients ------------------------------------------------------------------- */

void update_scalars(const struct backend_program *program, const struct step_scalars *step,
                    struct cuda_scalars *scalars)
{
    bool scaled = step->loss_scale > 0 && !step->scales_itself;

    *scalars = (struct cuda_scalars){
        .seed = step->seed,
        .batch = step->batch,
        .step = step->step,
        .loss_factor = step->gradient_scale * (scaled ? step->loss_scale : 1.0f),
        .unscale = scaled ? (float)(1.0 / (double)step->loss_scale) : 1.0f,
        .clip_norm = step->clip_norm > 0 ? step->clip_norm : 0,
        .clip_value = step->clip_value > 0 ? step->clip_value : INFINITY,
        .average_share = step->average_share,
        .finite_alone = step->loss_scale > 0,
        .group_count = program->graph->group_count,
        .loss_scale = step->scales_itself ? program->loss_scale : NULL};
    for (int i = 0; i < program->graph->group_count; i++)
        update_coefficients(&program->graph->groups[i], step, scalars->group[i]);
}

/* ---- launches -------------------------------------------------------------------------------- */

/* Updates all parameters but those of which an update needs the whole: Muon's and LAMB's. */
static cudaError_t update_all(struct backend_program *program)
{
    cudaStream_t stream = program->device->stream;
    int summed = program->run.sums_squares ? program->item_launches : 0;
    bool others = small_updates(program);
    const struct cuda_items *items = others ? program->other_items : program->items;
    int launches = others ? program->other_launches : program->item_launches;
    cudaError_t status = cudaSuccess;

    for (int k = 0; status == cudaSuccess && k < summed; k++)
        status = cuda_gradient_squares(program->control, &program->items[k], k, stream);
    if (status == cudaSuccess && summed)
        status = cuda_gradient_factor(program->control, program->step_scalars, summed, stream);
    for (int k = 0; status == cudaSuccess && k < launches; k++)
        status = cuda_optimizer_update(program->control, program->step_scalars, &items[k],
                                       summed > 0, stream);
    return status;
}

bool update_launches(const struct backend_program *program, int32_t index)
{
    return graph_update_is_first(program->graph, index) ||
           graph_node_updates_whole(program->graph, &program->graph->nodes[index]);
}

static int run_lamb(struct backend_program *program, int32_t index, struct error *error)
{
    const struct graph_node *node = &program->graph->nodes[index];
    const struct cuda_lamb lamb = {.control = program->control,
                                   .scalars = program->step_scalars,
                                   .summed = program->run.sums_squares,
                                   .item = update_item(program, node)};
    cudaError_t status =
        cuda_lamb(&lamb, (double *)(void *)program->workspace[index], program->device->stream);

    return status == cudaSuccess ? 0 : cuda_fail(error, status, node->name);
}

int update_run(struct backend_program *program, int32_t index, struct error *error)
{
    const struct graph_node *node = &program->graph->nodes[index];
    cudaError_t status = cudaSuccess;

    if (graph_update_is_first(program->graph, index))
        status = update_all(program);
    if (status != cudaSuccess)
        return cuda_fail(error, status, "the update");
    if (graph_node_scales_by_norms(program->graph, node))
        return run_lamb(program, index, error);
    return graph_node_updates_matrix(program->graph, node) ? muon_run(program, index, error) : 0;
}
