/* record.c: records what operators launch. A barrier stands where a node reads or overwrites what
 * was written, or overwrites what was read, since the last barrier; the memory plan says where all
 * of that lies. */
#include "engine/backends/vulkan/times.h"

#include <stdlib.h>
#include <string.h>

struct recorded_range {
    VkDeviceAddress first, end;
    bool written;
};

static bool conflicts(const struct recorder *recorder, const struct recorded_range *range)
{
    for (int i = 0; i < recorder->range_count; i++) {
        const struct recorded_range *before = &recorder->ranges[i];

        if ((before->written || range->written) && before->first < range->end &&
            range->first < before->end)
            return true;
    }
    return false;
}

static int remember(struct recorder *recorder, struct recorded_range range, struct error *error)
{
    int capacity = recorder->range_capacity ? 2 * recorder->range_capacity : 64;
    struct recorded_range *ranges;

    if (recorder->range_count == recorder->range_capacity) {
        ranges = realloc(recorder->ranges, (size_t)capacity * sizeof *ranges);
        if (!ranges)
            return error_no_memory(error, "the commands of a step");
        recorder->ranges = ranges;
        recorder->range_capacity = capacity;
    }
    recorder->ranges[recorder->range_count++] = range;
    return 0;
}

enum { FUSED_MAX = 6, NODE_RANGES_MAX = GRAPH_INPUTS_MAX + GRAPH_OUTPUTS_MAX + FUSED_MAX + 1 };

static struct recorded_range tensor_range(const struct backend_program *program, int32_t tensor,
                                          bool written)
{
    int32_t root = tensor;

    while (program->alias[root] >= 0)
        root = program->alias[root];
    return (struct recorded_range){.first = program->address[root],
                                   .end = program->address[root] + program->tensor_bytes[root],
                                   .written = written};
}

/* What the node reads and writes for nodes that it has absorbed. */
static int fused_ranges(const struct backend_program *program, int32_t index,
                        struct recorded_range ranges[FUSED_MAX])
{
    const struct vulkan_fusion *fusion = &program->fusions[index];
    const int32_t read[] = {fusion->addend, fusion->incoming[0], fusion->incoming[1], fusion->bias,
                            fusion->result};
    int count = 0;

    for (size_t i = 0; i < sizeof read / sizeof *read; i++)
        if (read[i] >= 0)
            ranges[count++] = tensor_range(program, read[i], false);
    if (fusion->result >= 0)
        ranges[count++] = tensor_range(program, program->graph->nodes[index].input[1], true);
    return count;
}

/* What the node reads and writes. Updates change their operands: nothing that is persistent counts
 * as only read there. */
static int node_ranges(const struct backend_program *program, int32_t index,
                       struct recorded_range ranges[NODE_RANGES_MAX])
{
    const struct graph_node *node = &program->graph->nodes[index];
    int count = fused_ranges(program, index, ranges);

    for (int i = 0; i < node->input_count; i++) {
        int32_t tensor = node->input[i];

        if (tensor >= 0 && program->address[tensor])
            ranges[count++] = tensor_range(program, tensor,
                                           program->graph->tensors[tensor].role != TENSOR_PARAMETER
                                               ? graph_tensor_is_persistent(program->graph, tensor)
                                               : node->phase == GRAPH_UPDATE);
    }
    for (int i = 0; i < node->output_count; i++)
        if (node->output[i] >= 0 && program->address[node->output[i]])
            ranges[count++] = tensor_range(program, node->output[i], true);
    if (program->workspace_bytes[index])
        ranges[count++] = (struct recorded_range){
            program->workspace[index], program->workspace[index] + program->workspace_bytes[index],
            true};
    return count;
}

int record_node(struct recorder *recorder, int32_t node, struct error *error)
{
    struct recorded_range ranges[NODE_RANGES_MAX];
    int count = node_ranges(recorder->program, node, ranges), r = 0;

    recorder->node = node;
    recorder->node_first = recorder->range_count;
    for (int i = 0; i < count; i++)
        if (conflicts(recorder, &ranges[i])) {
            record_barrier(recorder);
            break;
        }
    for (int i = 0; r == 0 && i < count; i++)
        r = remember(recorder, ranges[i], error);
    return r;
}

void record_barrier(struct recorder *recorder)
{
    int own = recorder->range_count - recorder->node_first;

    queue_barrier(recorder->program->device, recorder->commands);
    if (own > 0) /* the node's next launches read and write the same */
        memmove(recorder->ranges, &recorder->ranges[recorder->node_first],
                (size_t)own * sizeof *recorder->ranges);
    recorder->range_count = own;
    recorder->node_first = 0;
}

/* Takes the addresses of the push constants apart: which are of 16 bits, as CONSTANT_TYPES has it,
 * and the addresses themselves. */
static uint32_t take_types(const struct recorder *recorder, const struct launch *launch,
                           VkDeviceAddress push[VULKAN_PUSH_BYTES / sizeof(VkDeviceAddress)])
{
    uint32_t types = 0;

    memcpy(push, launch->push, launch->push_bytes);
    for (int i = 0; i < launch->addresses; i++) {
        types |= push[i] & ADDRESS_OF_HALVES ? 1u << i : 0;
        push[i] &= ~(VkDeviceAddress)ADDRESS_OF_HALVES;
    }
    return types && recorder->program->graph->compute_type == TENSOR_BFLOAT16
               ? types | TYPES_BFLOAT16
               : types;
}

int record_launch(struct recorder *recorder, const struct launch *launch, struct error *error)
{
    struct backend_device *device = recorder->program->device;
    const struct vulkan_library *library = &device->library;
    VkDeviceAddress push[VULKAN_PUSH_BYTES / sizeof(VkDeviceAddress)];
    uint32_t groups[3], constants[VULKAN_CONSTANTS] = {0};
    VkPipeline pipeline;
    int r;

    memcpy(constants, launch->constants, (size_t)launch->constant_count * sizeof *constants);
    constants[CONSTANT_TYPES] = take_types(recorder, launch, push);
    if (launch->matrices) {
        constants[CONSTANT_MATRIX_M] = launch->matrices->m;
        constants[CONSTANT_MATRIX_N] = launch->matrices->n;
        constants[CONSTANT_MATRIX_K] = launch->matrices->k;
        constants[CONSTANT_WAVES_M] = launch->waves[0];
        constants[CONSTANT_WAVES_N] = launch->waves[1];
    }
    r = pipeline_find(device, launch->shader, constants, &pipeline, error);
    if (r < 0)
        return r;
    for (int i = 0; i < 3; i++) {
        groups[i] = launch->groups[i] ? (uint32_t)launch->groups[i] : 1;
        if (launch->groups[i] > device->properties.limits.maxComputeWorkGroupCount[i])
            return error_set(error, -ERROR_UNSUPPORTED, "%s: %lld workgroups, of at most %u",
                             vulkan_shaders[launch->shader].name, (long long)launch->groups[i],
                             device->properties.limits.maxComputeWorkGroupCount[i]);
    }
    library->CmdBindPipeline(recorder->commands, VK_PIPELINE_BIND_POINT_COMPUTE, pipeline);
    library->CmdPushConstants(recorder->commands, device->layout, VK_SHADER_STAGE_COMPUTE_BIT, 0,
                              (uint32_t)launch->push_bytes, push);
    library->CmdDispatch(recorder->commands, groups[0], groups[1], groups[2]);
    times_add(recorder, launch->shader, groups);
    return 0;
}

int64_t record_groups(int64_t count, uint32_t workgroup)
{
    const int64_t most = 32768; /* every device has 65535 */
    int64_t groups = (count + workgroup - 1) / workgroup;

    return groups < 1 ? 1 : groups > most ? most : groups;
}

bool record_has_pairs(VkDeviceAddress addresses, int64_t count)
{
    return addresses & ADDRESS_OF_HALVES && count % 2 == 0 &&
           (addresses & ~(VkDeviceAddress)ADDRESS_OF_HALVES) % sizeof(uint32_t) == 0;
}

int record_copy(struct recorder *recorder, VkDeviceAddress from, VkDeviceAddress to, int64_t count,
                struct error *error)
{
    enum { WORKGROUP = 256 };
    const bool pairs = record_has_pairs(from | to, count);
    const struct {
        VkDeviceAddress from, unused, to;
        uint32_t count;
        float settings[2];
        uint32_t padding;
    } push = {.from = from, .to = to, .count = (uint32_t)(pairs ? count / 2 : count)};
    const struct launch launch = {.shader = SHADER_pointwise,
                                  .constants = {WORKGROUP, POINTWISE_COPY, 0, 0, pairs},
                                  .constant_count = 5,
                                  .push = &push,
                                  .push_bytes = sizeof push,
                                  .addresses = 3,
                                  .groups = {record_groups(push.count, WORKGROUP)}};

    return record_launch(recorder, &launch, error);
}

int record_transpose(struct recorder *recorder, VkDeviceAddress from, VkDeviceAddress to,
                     int64_t batch, int64_t rows, int64_t columns, struct error *error)
{
    enum { WORKGROUP = 256, TILE = 32, PAIRED_TILE = 64 }; /* transpose.comp */
    const bool pairs =
        from & to & ADDRESS_OF_HALVES && record_has_pairs(from | to, rows) && columns % 2 == 0;
    const int64_t side = pairs ? PAIRED_TILE : TILE;
    const int64_t tiles = (rows + side - 1) / side * ((columns + side - 1) / side);
    const struct {
        VkDeviceAddress from, to;
        uint32_t batch, rows, columns, unused;
    } push = {from, to, (uint32_t)batch, (uint32_t)rows, (uint32_t)columns, 0};
    const struct launch launch = {.shader = SHADER_transpose,
                                  .constants = {WORKGROUP, pairs},
                                  .constant_count = 2,
                                  .push = &push,
                                  .push_bytes = sizeof push,
                                  .addresses = 2,
                                  .groups = {record_groups(tiles * batch, 1)}};

    return record_launch(recorder, &launch, error);
}
