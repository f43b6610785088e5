/* update.c: the update of the parameters: what changes, and by which coefficients. They are
 * computed as engine/backends/cpu/kernels/optimizer.c does, in double, once for all elements. */
#include "engine/backends/cuda/cuda.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

/* ---- what the update changes ------------------------------------------------------------------
 */

static struct cuda_item describe_item(const struct backend_program *program,
                                      const struct graph_node *node)
{
    int group = node->attributes.optimizer_group;

    return (struct cuda_item){
        .parameter = program_floats(program, node->input[0]),
        .gradient = program_floats(program, node->input[1]),
        .state0 = node->input_count > 2 ? program_floats(program, node->input[2]) : NULL,
        .state1 = node->input_count > 3 ? program_floats(program, node->input[3]) : NULL,
        .count = program_elements(program, node->input[0]),
        .kind = (int32_t)program->graph->groups[group].config.kind,
        .group = group};
}

int update_prepare(struct backend_program *program, struct error *error)
{
    const struct graph *graph = program->graph;
    int count = 0;

    for (int32_t i = 0; i < graph->node_count; i++)
        count += graph->nodes[i].op == OP_OPTIMIZER;
    program->item_launches = (count + CUDA_ITEMS_MAX - 1) / CUDA_ITEMS_MAX;
    if (program->item_launches > CUDA_SQUARES_LAUNCHES)
        return error_set(error, -ENOTSUP, "the CUDA backend updates at most %d parameters",
                         CUDA_SQUARES_LAUNCHES * CUDA_ITEMS_MAX);
    program->items = calloc((size_t)program->item_launches + 1, sizeof *program->items);
    if (!program->items)
        return error_set(error, -ENOMEM, "no memory for the program");
    count = 0;
    for (int32_t i = 0; i < graph->node_count; i++) {
        struct cuda_items *items = &program->items[count / CUDA_ITEMS_MAX];

        if (graph->nodes[i].op != OP_OPTIMIZER)
            continue;
        items->item[items->count++] = describe_item(program, &graph->nodes[i]);
        count++;
    }
    for (int k = 0; k < program->item_launches; k++)
        cuda_items_blocks(&program->items[k]);
    return 0;
}

/* ---- by which coefficients ---------------------------------------------------------------------
 */

static void nadam_coefficients(const struct optimizer_config *config, double lr, double beta1,
                               int64_t step, double product, float *c)
{
    double mu = optimizer_nadam_momentum(config, beta1, step);
    double next = optimizer_nadam_momentum(config, beta1, step + 1);

    c[COEFFICIENT_OWN] = (float)(lr * (1.0 - mu) / (1.0 - product));
    c[COEFFICIENT_RATE] = (float)(lr * next / (1.0 - product * next));
}

static bool is_adams(enum optimizer_kind kind)
{
    return kind == OPTIMIZER_ADAM || kind == OPTIMIZER_ADAMW || kind == OPTIMIZER_NADAM;
}

static bool decays_apart(const struct optimizer_config *config)
{
    return config->kind == OPTIMIZER_ADAMW || config->kind == OPTIMIZER_LION ||
           (config->kind == OPTIMIZER_NADAM && config->decoupled_weight_decay);
}

/* Of the first state: SGD's first step takes the gradient as it is. */
static void first_state_coefficients(const struct optimizer_config *config, double own, bool first,
                                     float *c)
{
    if (config->kind == OPTIMIZER_SGD) {
        c[COEFFICIENT_KEEP] = first ? 0.0f : (float)own;
        c[COEFFICIENT_TAKE] = first ? 1.0f : (float)(1.0 - config->dampening);
        c[COEFFICIENT_OWN] = (float)own;
    } else {
        c[COEFFICIENT_KEEP] = (float)own;
        c[COEFFICIENT_TAKE] = (float)(1.0 - own);
    }
}

static void group_coefficients(const struct optimizer_group *group, const struct step_scalars *step,
                               float *c)
{
    const struct optimizer_config *config = &group->config;
    bool has_betas = is_adams(config->kind) || config->kind == OPTIMIZER_LION;
    double own = step->cycle_momentum ? step->momentum
                 : has_betas          ? config->beta1
                                      : config->momentum;
    float rate = (float)(step->learning_rate * group->learning_rate_scale);
    int64_t count = step->step - step->skipped;
    double second = has_betas ? config->beta2 : config->alpha, lr = rate;

    c[COEFFICIENT_RATE] = rate;
    c[COEFFICIENT_SHRINK] = decays_apart(config) ? (float)(1.0 - lr * config->weight_decay) : 1.0f;
    c[COEFFICIENT_DECAY] = decays_apart(config) ? 0.0f : (float)config->weight_decay;
    first_state_coefficients(config, own, count == 1, c);
    c[COEFFICIENT_KEEP2] = (float)second;
    c[COEFFICIENT_TAKE2] = (float)(1.0 - second);
    c[COEFFICIENT_EPSILON] = (float)config->epsilon;
    c[COEFFICIENT_ROOT] = (float)sqrt(1.0 - pow(config->beta2, (double)count));
    c[COEFFICIENT_NESTEROV] = config->nesterov;
    c[COEFFICIENT_MOMENTUM] = config->momentum != 0;
    if (config->kind == OPTIMIZER_ADAM || config->kind == OPTIMIZER_ADAMW) {
        c[COEFFICIENT_OWN] = 0;
        c[COEFFICIENT_RATE] = (float)(lr / (1.0 - pow(own, (double)count)));
    } else if (config->kind == OPTIMIZER_NADAM) {
        nadam_coefficients(config, lr, own, count, step->momentum_product, c);
    } else if (config->kind == OPTIMIZER_ADAGRAD) {
        c[COEFFICIENT_RATE] =
            (float)(lr / (1.0 + (double)(count - 1) * config->learning_rate_decay));
    }
}

void update_scalars(const struct backend_program *program, const struct step_scalars *step,
                    struct cuda_scalars *scalars)
{
    *scalars = (struct cuda_scalars){
        .seed = step->seed,
        .batch = step->batch,
        .step = step->step,
        .loss_factor = step->gradient_scale * (step->loss_scale > 0 ? step->loss_scale : 1.0f),
        .unscale = step->loss_scale > 0 ? (float)(1.0 / (double)step->loss_scale) : 1.0f,
        .clip_norm = step->clip_norm > 0 ? step->clip_norm : 0,
        .clip_value = step->clip_value > 0 ? step->clip_value : INFINITY,
        .average_decay = step->average_decay,
        .finite_alone = step->loss_scale > 0};
    for (int i = 0; i < program->graph->group_count; i++)
        group_coefficients(&program->graph->groups[i], step, scalars->group[i]);
}

/* ---- launches ----------------------------------------------------------------------------------
 */

static bool is_first_update(const struct graph *graph, int32_t index)
{
    while (index-- > 0)
        if (graph->nodes[index].op == OP_OPTIMIZER)
            return false;
    return true;
}

int update_run(struct backend_program *program, int32_t index, struct error *error)
{
    cudaStream_t stream = program->device->stream;
    int summed = program->run.sums_squares ? program->item_launches : 0;
    cudaError_t status = cudaSuccess;

    if (!is_first_update(program->graph, index))
        return 0;
    for (int k = 0; status == cudaSuccess && k < summed; k++)
        status = cuda_gradient_squares(program->control, &program->items[k], k, stream);
    if (status == cudaSuccess && summed)
        status = cuda_gradient_factor(program->control, program->step_scalars, summed, stream);
    for (int k = 0; status == cudaSuccess && k < program->item_launches; k++)
        status = cuda_optimizer_update(program->control, program->step_scalars, &program->items[k],
                                       summed > 0, stream);
    return status == cudaSuccess ? 0 : cuda_fail(error, status, "the update");
}
