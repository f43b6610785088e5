/* types.c: in which types tensors are stored. A graph whose products are of 16 bits has samples,
 * activations and their gradients in that type; all that is summed up over a batch or kept from
 * step to step, and what losses read and write, is float32. */
#include "engine/backends/kept_floats.h"
#include "engine/backends/vulkan/vulkan.h"
#include "engine/graph/operator.h"

#include <stdio.h>

static const unsigned halves = 1u << TENSOR_BFLOAT16 | 1u << TENSOR_FLOAT16;

unsigned types_of_device(const struct backend_device *device)
{
    return 1u << TENSOR_FLOAT32 | (device->stores_halves ? halves : 0);
}

bool types_support(const struct backend_device *device, enum tensor_type type, char *reason)
{
    if (types_of_device(device) & 1u << type)
        return true;
    if (halves & 1u << type)
        snprintf(reason, 256,
                 "the driver of %.100s lets shaders store no numbers of 16 bits "
                 "(storageBuffer16BitAccess), which %s needs",
                 device->properties.deviceName, tensor_type_to_string(type));
    else
        snprintf(reason, 256, "the Vulkan backend does not compute in %s",
                 tensor_type_to_string(type));
    return false;
}

static void keep_as_given(struct backend_program *program, const int32_t *tensors, int count)
{
    for (int i = 0; i < count; i++)
        if (tensors[i] >= 0)
            program->stored[tensors[i]] = (uint8_t)program->graph->tensors[tensors[i]].type;
}

void types_choose(struct backend_program *program)
{
    const struct graph *graph = program->graph;
    const bool low = halves & 1u << graph->compute_type;

    for (int32_t i = 0; i < graph->tensor_count; i++) {
        const struct graph_tensor *t = &graph->tensors[i];
        const bool lowered = low && t->type == TENSOR_FLOAT32 && t->batched && i != graph->output &&
                             (t->role == TENSOR_ACTIVATION || i == graph->input);

        program->stored[i] = (uint8_t)(lowered ? graph->compute_type : t->type);
    }
    for (int32_t i = 0; i < graph->node_count; i++) {
        const struct graph_node *node = &graph->nodes[i];

        for (int k = 0; k < node->output_count; k++)
            if (node_keeps_floats(node, k))
                keep_as_given(program, &node->output[k], 1);
        if (graph_node_operator(node)->cost_class == COST_LOSS) {
            keep_as_given(program, node->input, node->input_count);
            keep_as_given(program, node->output, node->output_count);
        }
    }
}
