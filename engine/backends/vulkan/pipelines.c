/* pipelines.c: shaders, compiled for the constants of a launch. */
#include "engine/backends/vulkan/vulkan.h"

#include <stdlib.h>
#include <string.h>

static enum vulkan_variant variant_of(const struct vulkan_pipeline *pipeline)
{
    const uint32_t types = pipeline->constants[CONSTANT_TYPES];

    if (pipeline->constants[CONSTANT_MATRIX_M])
        return types & TYPES_BFLOAT16 ? VARIANT_BFLOAT16_MATRICES : VARIANT_FLOAT16_MATRICES;
    return types ? VARIANT_HALVES : VARIANT_FLOATS;
}

static int module_of(struct backend_device *device, const struct vulkan_pipeline *pipeline,
                     VkShaderModule *module, struct error *error)
{
    const enum vulkan_variant variant = variant_of(pipeline);
    const struct vulkan_code *code = &vulkan_shaders[pipeline->shader].variants[variant];
    VkShaderModule *made = &device->modules[pipeline->shader][variant];
    const VkShaderModuleCreateInfo info = {.sType = VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO,
                                           .codeSize =
                                               (size_t)(code->end - (const char *)code->words),
                                           .pCode = code->words};
    VkResult result = VK_SUCCESS;

    if (!*made)
        result = device->library.CreateShaderModule(device->device, &info, NULL, made);
    *module = *made;
    return result == VK_SUCCESS ? 0
                                : vulkan_fail(error, result, vulkan_shaders[pipeline->shader].name);
}

static int compile(struct backend_device *device, struct vulkan_pipeline *pipeline,
                   struct error *error)
{
    VkSpecializationMapEntry entries[VULKAN_CONSTANTS];
    VkSpecializationInfo constants = {.mapEntryCount = VULKAN_CONSTANTS,
                                      .pMapEntries = entries,
                                      .dataSize = sizeof pipeline->constants,
                                      .pData = pipeline->constants};
    const VkPipelineShaderStageRequiredSubgroupSizeCreateInfo subgroup = {
        .sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_REQUIRED_SUBGROUP_SIZE_CREATE_INFO,
        .requiredSubgroupSize = device->matrices.float16.m ? device->matrices.float16.subgroup
                                                           : device->matrices.bfloat16.subgroup};
    VkComputePipelineCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO,
        .stage = {.sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO,
                  .stage = VK_SHADER_STAGE_COMPUTE_BIT,
                  .pName = "main",
                  .pSpecializationInfo = &constants},
        .layout = device->layout};
    VkResult result;
    int r = module_of(device, pipeline, &info.stage.module, error);

    if (r < 0)
        return r;
    if (pipeline->constants[CONSTANT_MATRIX_M]) { /* each wave is a whole subgroup */
        info.stage.pNext = &subgroup;
        info.stage.flags = VK_PIPELINE_SHADER_STAGE_CREATE_REQUIRE_FULL_SUBGROUPS_BIT;
    }
    for (uint32_t i = 0; i < VULKAN_CONSTANTS; i++)
        entries[i] =
            (VkSpecializationMapEntry){i, i * (uint32_t)sizeof(uint32_t), sizeof(uint32_t)};
    result = device->library.CreateComputePipelines(device->device, device->cache.cache, 1, &info,
                                                    NULL, &pipeline->pipeline);
    device->cache.grown = true;
    return result == VK_SUCCESS ? 0
                                : vulkan_fail(error, result, vulkan_shaders[pipeline->shader].name);
}

static int grow(struct backend_device *device, struct error *error)
{
    int capacity = device->pipeline_capacity ? 2 * device->pipeline_capacity : 32;
    struct vulkan_pipeline *pipelines;

    if (device->pipeline_count < device->pipeline_capacity)
        return 0;
    pipelines = realloc(device->pipelines, (size_t)capacity * sizeof *pipelines);
    if (!pipelines)
        return error_no_memory(error, "the pipelines");
    device->pipelines = pipelines;
    device->pipeline_capacity = capacity;
    return 0;
}

int pipeline_find(struct backend_device *device, enum vulkan_shader shader,
                  const uint32_t constants[VULKAN_CONSTANTS], VkPipeline *pipeline,
                  struct error *error)
{
    struct vulkan_pipeline wanted = {.shader = shader};
    int r;

    memcpy(wanted.constants, constants, sizeof wanted.constants);
    for (int i = 0; i < device->pipeline_count; i++) {
        const struct vulkan_pipeline *made = &device->pipelines[i];

        if (made->shader == shader &&
            memcmp(made->constants, wanted.constants, sizeof wanted.constants) == 0) {
            *pipeline = made->pipeline;
            return 0;
        }
    }
    r = grow(device, error);
    if (r == 0)
        r = compile(device, &wanted, error);
    if (r < 0)
        return r;
    device->pipelines[device->pipeline_count++] = wanted;
    *pipeline = wanted.pipeline;
    return 0;
}

void pipelines_free(struct backend_device *device)
{
    for (int i = 0; i < device->pipeline_count; i++)
        device->library.DestroyPipeline(device->device, device->pipelines[i].pipeline, NULL);
    for (int i = 0; i < SHADER_COUNT; i++)
        for (int k = 0; k < VARIANT_COUNT; k++)
            if (device->modules[i][k])
                device->library.DestroyShaderModule(device->device, device->modules[i][k], NULL);
    free(device->pipelines);
}
