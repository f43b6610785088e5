/* pipelines.c: shaders, compiled for the constants of a launch. */
#include "engine/backends/vulkan/vulkan.h"

#include <stdlib.h>
#include <string.h>

static int module_of(struct backend_device *device, enum vulkan_shader shader,
                     VkShaderModule *module, struct error *error)
{
    const struct vulkan_code *code = &vulkan_shaders[shader];
    const VkShaderModuleCreateInfo info = {.sType = VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO,
                                           .codeSize =
                                               (size_t)(code->end - (const char *)code->words),
                                           .pCode = code->words};
    VkResult result = VK_SUCCESS;

    if (!device->modules[shader])
        result = device->library.CreateShaderModule(device->device, &info, NULL,
                                                    &device->modules[shader]);
    *module = device->modules[shader];
    return result == VK_SUCCESS ? 0 : vulkan_fail(error, result, code->name);
}

static int compile(struct backend_device *device, struct vulkan_pipeline *pipeline,
                   struct error *error)
{
    VkSpecializationMapEntry entries[VULKAN_CONSTANTS_MAX];
    VkSpecializationInfo constants = {.mapEntryCount = VULKAN_CONSTANTS_MAX,
                                      .pMapEntries = entries,
                                      .dataSize = sizeof pipeline->constants,
                                      .pData = pipeline->constants};
    VkComputePipelineCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO,
        .stage = {.sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO,
                  .stage = VK_SHADER_STAGE_COMPUTE_BIT,
                  .pName = "main",
                  .pSpecializationInfo = &constants},
        .layout = device->layout};
    VkResult result;
    int r = module_of(device, pipeline->shader, &info.stage.module, error);

    if (r < 0)
        return r;
    for (uint32_t i = 0; i < VULKAN_CONSTANTS_MAX; i++)
        entries[i] =
            (VkSpecializationMapEntry){i, i * (uint32_t)sizeof(uint32_t), sizeof(uint32_t)};
    result = device->library.CreateComputePipelines(device->device, VK_NULL_HANDLE, 1, &info, NULL,
                                                    &pipeline->pipeline);
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
                  const uint32_t *constants, int count, VkPipeline *pipeline, struct error *error)
{
    struct vulkan_pipeline wanted = {.shader = shader};
    int r;

    memcpy(wanted.constants, constants, (size_t)count * sizeof *constants);
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
        if (device->modules[i])
            device->library.DestroyShaderModule(device->device, device->modules[i], NULL);
    free(device->pipelines);
}
