/* queue.c: commands for the device, and waiting for them. One timeline semaphore counts the
 * submissions that are done (Vulkan 1.2). */
#include "engine/backends/vulkan/vulkan.h"

int queue_begin(struct backend_device *device, bool again, VkCommandBuffer *commands,
                struct error *error)
{
    const VkCommandBufferAllocateInfo allocation = {
        .sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO,
        .commandPool = device->commands,
        .level = VK_COMMAND_BUFFER_LEVEL_PRIMARY,
        .commandBufferCount = 1};
    const VkCommandBufferBeginInfo begin = {
        .sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO,
        .flags = again ? 0 : VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT};
    VkResult result = device->library.AllocateCommandBuffers(device->device, &allocation, commands);

    if (result != VK_SUCCESS) {
        *commands = VK_NULL_HANDLE;
        return vulkan_fail(error, result, "commands for the device");
    }
    result = device->library.BeginCommandBuffer(*commands, &begin);
    if (result != VK_SUCCESS) {
        queue_discard(device, *commands);
        *commands = VK_NULL_HANDLE;
        return vulkan_fail(error, result, "commands for the device");
    }
    queue_barrier(device, *commands); /* earlier submissions may still work */
    return 0;
}

int queue_end(struct backend_device *device, VkCommandBuffer commands, struct error *error)
{
    VkResult result;

    queue_barrier(device, commands); /* the host reads what was written */
    result = device->library.EndCommandBuffer(commands);
    return result == VK_SUCCESS ? 0 : vulkan_fail(error, result, "commands for the device");
}

void queue_discard(struct backend_device *device, VkCommandBuffer commands)
{
    if (commands)
        device->library.FreeCommandBuffers(device->device, device->commands, 1, &commands);
}

int queue_submit(struct backend_device *device, const VkCommandBuffer *commands, int count,
                 uint64_t *submission, struct error *error)
{
    const uint64_t value = device->submitted + 1;
    const VkTimelineSemaphoreSubmitInfo timeline = {
        .sType = VK_STRUCTURE_TYPE_TIMELINE_SEMAPHORE_SUBMIT_INFO,
        .signalSemaphoreValueCount = 1,
        .pSignalSemaphoreValues = &value};
    const VkSubmitInfo submit = {.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO,
                                 .pNext = &timeline,
                                 .commandBufferCount = (uint32_t)count,
                                 .pCommandBuffers = commands,
                                 .signalSemaphoreCount = 1,
                                 .pSignalSemaphores = &device->timeline};
    VkResult result = device->library.QueueSubmit(device->queue, 1, &submit, VK_NULL_HANDLE);

    if (result != VK_SUCCESS)
        return vulkan_fail(error, result, "work for the device");
    device->submitted = *submission = value;
    return 0;
}

int queue_wait(struct backend_device *device, uint64_t submission, struct error *error)
{
    const VkSemaphoreWaitInfo wait = {.sType = VK_STRUCTURE_TYPE_SEMAPHORE_WAIT_INFO,
                                      .semaphoreCount = 1,
                                      .pSemaphores = &device->timeline,
                                      .pValues = &submission};
    VkResult result = device->library.WaitSemaphores(device->device, &wait, UINT64_MAX);

    return result == VK_SUCCESS ? 0 : vulkan_fail(error, result, "work on the device");
}

int queue_finish(struct backend_device *device, VkCommandBuffer commands, struct error *error)
{
    uint64_t submission = 0;
    int r = queue_end(device, commands, error);

    if (r == 0)
        r = queue_submit(device, &commands, 1, &submission, error);
    if (r == 0)
        r = queue_wait(device, submission, error);
    queue_discard(device, commands);
    return r;
}

void queue_barrier(struct backend_device *device, VkCommandBuffer commands)
{
    const VkMemoryBarrier barrier = {
        .sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER,
        .srcAccessMask =
            VK_ACCESS_SHADER_WRITE_BIT | VK_ACCESS_TRANSFER_WRITE_BIT | VK_ACCESS_HOST_WRITE_BIT,
        .dstAccessMask = VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_SHADER_WRITE_BIT |
                         VK_ACCESS_TRANSFER_READ_BIT | VK_ACCESS_TRANSFER_WRITE_BIT |
                         VK_ACCESS_HOST_READ_BIT};
    const VkPipelineStageFlags stages = VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT |
                                        VK_PIPELINE_STAGE_TRANSFER_BIT | VK_PIPELINE_STAGE_HOST_BIT;

    device->library.CmdPipelineBarrier(commands, stages, stages, 0, 1, &barrier, 0, NULL, 0, NULL);
}
