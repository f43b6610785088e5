/* value_losses.c: losses beside the softmax and squared ones: of values, of classes in order, of
 * several heads, of triplets. losses.c adds up their rows. */
#include "engine/backends/vulkan/operators.h"

/* value_loss.comp and triplet_loss.comp have these numbers */
_Static_assert(VALUE_LOSS_MAE == 0 && VALUE_LOSS_HUBER == 1 && VALUE_LOSS_QUANTILE == 2 &&
                   VALUE_LOSS_BINARY == 3 && VALUE_LOSS_COSINE == 4 && VALUE_LOSS_SMOOTH_L1 == 5 &&
                   VALUE_LOSS_QUANTILES == 6,
               "as in value_loss.comp");
_Static_assert(TRIPLETS_HARD == 0 && TRIPLETS_ALL == 1 && TRIPLETS_SEMI_HARD == 2,
               "as in triplet_loss.comp");

enum { ROW_WORKGROUP = 64 };

int loss_numbers(const struct graph *graph, float *numbers)
{
    int count = graph->value_loss.count;

    for (int i = 0; numbers && i < count; i++)
        numbers[i] = graph->value_loss.numbers[i];
    if (graph->head_count == 0)
        return count;
    for (int i = 0; numbers && i < graph->head_count; i++) { /* head_losses.comp */
        const struct loss_head *head = &graph->heads[i];

        *numbers++ = (float)head->classes;
        *numbers++ = (float)head->labels;
        *numbers++ = (float)head->binary;
        *numbers++ = head->weight;
    }
    return 4 * graph->head_count;
}

static int64_t row_of(const struct backend_program *program, int32_t tensor)
{
    return program_elements(program, tensor) / program->graph->batch;
}

/* Where the rows' losses go, or the gradient. */
static VkDeviceAddress result_of(const struct backend_program *program, int32_t index, bool back)
{
    return back ? program_address(program, program->graph->nodes[index].output[0])
                : program->workspace[index];
}

static VkDeviceAddress counts_of(const struct backend_program *program, int32_t index)
{
    return program->workspace[index] + (VkDeviceSize)program->graph->batch * sizeof(float);
}

int value_loss_run(struct recorder *recorder, int32_t index, struct error *error)
{
    const struct backend_program *program = recorder->program;
    const struct graph_node *node = &program->graph->nodes[index];
    const struct value_loss_config *config = &program->graph->value_loss;
    const bool back = node->op == OP_VALUE_LOSS_BACKWARD;
    const struct {
        VkDeviceAddress prediction, target, result, numbers, scalars;
        uint32_t rows, features, targets;
        float parameter;
    } push = {.prediction = program_address(program, node->input[0]),
              .target = program_address(program, node->input[1]),
              .result = result_of(program, index, back),
              .numbers = exchange_numbers(program),
              .scalars = recorder->scalars,
              .rows = (uint32_t)program->graph->batch,
              .features = (uint32_t)row_of(program, node->input[0]),
              .targets = (uint32_t)row_of(program, node->input[1]),
              .parameter = config->parameter};
    const struct launch launch = {
        .shader = SHADER_value_loss,
        .constants = {ROW_WORKGROUP, config->kind, back, (uint32_t)config->count},
        .constant_count = 4,
        .push = &push,
        .push_bytes = sizeof push,
        .groups = {record_groups(program->graph->batch, 1)}};
    int r = record_launch(recorder, &launch, error);

    return r < 0 || back ? r : record_loss_sum(recorder, index, TARGET_LABELS, false, error);
}

/* The focal loss and that of classes in order. */
int class_loss_run(struct recorder *recorder, int32_t index, struct error *error)
{
    const struct backend_program *program = recorder->program;
    const struct graph_node *node = &program->graph->nodes[index];
    const bool back = node->op == OP_FOCAL_LOSS_BACKWARD || node->op == OP_ORDINAL_LOSS_BACKWARD;
    const bool ordinal = node->op == OP_ORDINAL_LOSS || node->op == OP_ORDINAL_LOSS_BACKWARD;
    const struct {
        VkDeviceAddress logits, label, log_sum_exp, result, correct, scalars;
        uint32_t rows, classes;
        float gamma;
        uint32_t unused;
    } push = {.logits = program_address(program, node->input[0]),
              .label = program_address(program, node->input[1]),
              .log_sum_exp = program_address(program, back ? node->input[2] : node->output[0]),
              .result = result_of(program, index, back),
              .correct = back ? 0 : counts_of(program, index),
              .scalars = recorder->scalars,
              .rows = (uint32_t)program->graph->batch,
              .classes = (uint32_t)row_of(program, node->input[0]),
              .gamma = node->attributes.focal_gamma};
    const struct launch launch = {.shader = SHADER_class_loss,
                                  .constants = {ROW_WORKGROUP, ordinal, back},
                                  .constant_count = 3,
                                  .push = &push,
                                  .push_bytes = sizeof push,
                                  .groups = {record_groups(program->graph->batch, ROW_WORKGROUP)}};
    int r = record_launch(recorder, &launch, error);

    return r < 0 || back ? r : record_loss_sum(recorder, index, TARGET_LABELS, true, error);
}

int head_losses_run(struct recorder *recorder, int32_t index, struct error *error)
{
    const struct backend_program *program = recorder->program;
    const struct graph_node *node = &program->graph->nodes[index];
    const bool back = node->op == OP_HEAD_LOSSES_BACKWARD;
    const struct {
        VkDeviceAddress logits, label, result, numbers, scalars;
        uint32_t rows, classes, labels, unused;
    } push = {.logits = program_address(program, node->input[0]),
              .label = program_address(program, node->input[1]),
              .result = result_of(program, index, back),
              .numbers = exchange_numbers(program),
              .scalars = recorder->scalars,
              .rows = (uint32_t)program->graph->batch,
              .classes = (uint32_t)row_of(program, node->input[0]),
              .labels = (uint32_t)row_of(program, node->input[1])};
    const struct launch launch = {
        .shader = SHADER_head_losses,
        .constants = {ROW_WORKGROUP, back, (uint32_t)program->graph->head_count},
        .constant_count = 3,
        .push = &push,
        .push_bytes = sizeof push,
        .groups = {record_groups(program->graph->batch, 1)}};
    int r = record_launch(recorder, &launch, error);

    return r < 0 || back ? r : record_loss_sum(recorder, index, TARGET_LABELS, false, error);
}

int triplet_loss_run(struct recorder *recorder, int32_t index, struct error *error)
{
    const struct backend_program *program = recorder->program;
    const struct graph_node *node = &program->graph->nodes[index];
    const struct {
        VkDeviceAddress x, label, saved, loss, triplets;
        uint32_t rows, features;
        float margin;
        uint32_t unused;
    } push = {.x = program_address(program, node->input[0]),
              .label = program_address(program, node->input[1]),
              .saved = program_address(program, node->output[0]),
              .loss = program->workspace[index],
              .triplets = counts_of(program, index),
              .rows = (uint32_t)program->graph->batch,
              .features = (uint32_t)row_of(program, node->input[0]),
              .margin = node->attributes.triplet.margin};
    const struct launch launch = {.shader = SHADER_triplet_loss,
                                  .constants = {ROW_WORKGROUP, node->attributes.triplet.mining},
                                  .constant_count = 2,
                                  .push = &push,
                                  .push_bytes = sizeof push,
                                  .groups = {record_groups(program->graph->batch, 1)}};
    int r = record_launch(recorder, &launch, error);

    return r < 0 ? r : record_loss_sum(recorder, index, TARGET_COUNTS, false, error);
}

int triplet_loss_backward_run(struct recorder *recorder, int32_t index, struct error *error)
{
    const struct backend_program *program = recorder->program;
    const struct graph_node *node = &program->graph->nodes[index];
    const struct {
        VkDeviceAddress x, saved, dx, scalars;
        uint32_t rows, features;
    } push = {.x = program_address(program, node->input[0]),
              .saved = program_address(program, node->input[1]),
              .dx = program_address(program, node->output[0]),
              .scalars = recorder->scalars,
              .rows = (uint32_t)program->graph->batch,
              .features = (uint32_t)row_of(program, node->input[0])};
    const struct launch launch = {.shader = SHADER_triplet_loss_backward,
                                  .constants = {ROW_WORKGROUP},
                                  .constant_count = 1,
                                  .push = &push,
                                  .push_bytes = sizeof push,
                                  .groups = {record_groups(program->graph->batch, 1)}};

    return record_launch(recorder, &launch, error);
}
